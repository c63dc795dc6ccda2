//! `Reading`: a room entered by a reader of its whole content, whoever owns the slot.
//!
//! Not for commands: it hides nothing that has expired, counts no look-up and moves no access
//! clock. Invariant: between `begin_reader` and `end_reader`, and while there is a tap, a value
//! that is moved without being written (RENAME) is recorded as an image, because the reader may
//! pass it by (DESIGN 5).

use parking_lot::MutexGuard;
use slots::{Epoch, OpIndex, SlotId};

use crate::slot::admission::Ownership;
use crate::slot::journal::{EncodeOp, Position};
use crate::slot::room::{Body, Room, Rooms};
use crate::slot::tap::{Bell, Tap};
use crate::store::object::Object;
use crate::store::table::Table;

/// Readers of one slot at once: the log's checkpoint, a move, the followers being filled.
pub const READERS_PER_SLOT_MAX: u8 = 64;

/// Who reads a slot: readers by number, and whether there are taps. One byte.
#[derive(Clone, Copy)]
pub(super) struct Readers(u8);

impl Readers {
    pub(super) const NONE: Readers = Readers(0);
    const TAPPED: u8 = 0x80;

    /// Is anybody there?
    #[inline]
    pub(super) fn is_any(self) -> bool {
        self.0 != 0
    }

    /// Are there taps, or were there when the last group was made?
    #[inline]
    pub(super) fn is_tapped(self) -> bool {
        self.0 & Readers::TAPPED != 0
    }

    pub(super) fn end_taps(&mut self) {
        self.0 &= !Readers::TAPPED;
    }

    fn count(self) -> u8 {
        self.0 & !Readers::TAPPED
    }
}

/// The lock hold of a slot that is being read.
pub struct Reading<'a> {
    rooms: &'a Rooms,
    slot: SlotId,
    room: &'a Room,
    body: MutexGuard<'a, Body>,
}

impl Rooms {
    /// Enters a room to read it; waits for whoever is inside.
    pub fn read(&self, slot: SlotId) -> Reading<'_> {
        let room = self.room(slot);
        let mut body = room.door.enter();
        // A change that came before is met now: the content may be none any more.
        room.door.leave(&mut body, |body, ownership, epoch| {
            self.meet(slot, room, body, (ownership, epoch));
        });
        Reading { rooms: self, slot, room, body }
    }

    /// As `read`, if nobody is inside.
    pub fn try_read(&self, slot: SlotId) -> Option<Reading<'_>> {
        let room = self.room(slot);
        let mut body = room.door.try_enter()?;
        room.door.leave(&mut body, |body, ownership, epoch| {
            self.meet(slot, room, body, (ownership, epoch));
        });
        Some(Reading { rooms: self, slot, room, body })
    }
}

#[cfg(test)]
impl Rooms {
    /// Is there a tap at the slot?
    pub(crate) fn is_tapped(&self, slot: SlotId) -> bool {
        self.taps.is_tapped(slot)
    }
}

impl Reading<'_> {
    /// The slot.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Keys, expired ones included.
    pub fn len(&self) -> usize {
        self.body.keys.len()
    }

    /// No keys?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of keys and values in memory.
    pub fn bytes(&self) -> usize {
        self.body.bytes()
    }

    /// The content, expired keys included.
    pub(crate) fn table(&self) -> &Table<Object> {
        &self.body.keys.table
    }

    /// Index of the last op group of the content.
    pub fn index(&self) -> OpIndex {
        self.body.index
    }

    /// Epoch of the content.
    pub fn epoch(&self) -> Epoch {
        self.body.epoch
    }

    /// Has the node let go of the slot's content, or never had any?
    pub fn is_let_go(&self) -> bool {
        matches!(self.room.door.installed().0, Ownership::Foreign | Ownership::Unassigned)
    }

    /// One more reader that is not finished; false if there are too many.
    pub fn begin_reader(&mut self) -> bool {
        let readers = &mut self.body.keys.readers;
        let has_room = readers.count() < READERS_PER_SLOT_MAX;
        readers.0 += u8::from(has_room);
        has_room
    }

    /// A reader has finished, or gave up.
    pub fn end_reader(&mut self) {
        assert!(self.body.keys.readers.count() > 0, "a reader ends once");
        self.body.keys.readers.0 -= 1;
    }

    /// Puts a tap: all groups after this hold go there, too. While it is there it counts as a
    /// reader that is not finished. The bell rings when the first of them waits. `None` if there
    /// are too many.
    pub fn tap(&mut self, encode: EncodeOp, bell: Option<Bell>) -> Option<Tap> {
        let tap = self.rooms.taps.put(self.slot, encode, bell)?;
        self.body.keys.readers.0 |= Readers::TAPPED;
        Some(tap)
    }

    /// Where the slot's last group lies in the log, as `Owned::position`.
    pub fn position(&self) -> Option<Position> {
        let recorder = self.rooms.recorder()?;
        let at = self.body.journaled;
        (at != 0).then(|| Position { lane: recorder.journal.lane(self.slot), at })
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let (rooms, slot, room) = (self.rooms, self.slot, self.room);
        room.door.leave(&mut self.body, |body, ownership, epoch| {
            rooms.meet(slot, room, body, (ownership, epoch));
        });
    }
}
