//! `Reading`: a room entered by a reader of its whole content, whoever owns the slot.
//!
//! Not for commands: it hides nothing that has expired, counts no look-up and moves no access
//! clock. Invariant: between `begin_reader` and `end_reader` a value that is moved without being
//! written (RENAME) is journaled as an image, because the reader may pass it by (DESIGN 5).

use parking_lot::MutexGuard;
use slots::{Epoch, OpIndex, SlotId};

use crate::slot::admission::Ownership;
use crate::slot::room::{Body, Room, Rooms};
use crate::store::object::Object;
use crate::store::table::Table;

/// Readers of one slot at once: the log's checkpoint, a move, the followers being filled.
pub const READERS_PER_SLOT_MAX: u8 = 64;

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
}

impl Reading<'_> {
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
        let has_room = self.body.keys.readers < READERS_PER_SLOT_MAX;
        self.body.keys.readers += u8::from(has_room);
        has_room
    }

    /// A reader has finished, or gave up.
    pub fn end_reader(&mut self) {
        assert!(self.body.keys.readers > 0, "a reader ends once");
        self.body.keys.readers -= 1;
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
