//! `Owned`: a room entered by its owner. Reading goes through `keys()`, changing through
//! `apply`. One command's (or EXEC's) ops are one group; `end_group` closes it.
//!
//! What happens before the lock is let go, in this order: expired keys that were met become
//! `Op::Expire`; clients whose keys became ready are served; sums are reported; a table change
//! that came meanwhile is met. Big values are freed after the unlock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use slots::{Epoch, OpIndex, SlotId};

use crate::slot::hold::Hold;
use crate::slot::journal::{EncodeOp, Position, Recorder, give_back_scratch, take_scratch};
use crate::slot::keys::{Keys, MARK_RAW};
use crate::slot::op::{Key, Op};
use crate::slot::room::{Body, Room, Rooms};
use crate::slot::tap::TappedGroup;
use crate::slot::waiters::{Hall, Served, Ticket, Waiting, Watch};
use crate::store::limits::Limits;
use crate::store::table::{EntryValue, Expiry};

/// The lock hold of a slot that this node owns.
pub struct Owned<'a> {
    hold: Hold<'a>,
    epoch: Epoch,
    /// Did the open group change anything yet?
    group_open: bool,
    /// Changes by commands that nobody booked yet.
    changes: u64,
    /// The open group as it will stand in the journal; the thread's scratch buffer, taken with
    /// the first op.
    group: Vec<u8>,
    /// Where groups go: as it was when the hold began, so that no group is written in part.
    recorder: Option<&'a Recorder>,
    /// As groups are written, for the recorder or a tap; `None`: nobody wants them.
    encode: Option<EncodeOp>,
    /// Waiters who were served by the open group.
    served: Vec<Arc<dyn Waiting>>,
}

impl<'a> Owned<'a> {
    #[inline]
    pub(super) fn new(
        rooms: &'a Rooms,
        room: &'a Room,
        slot: SlotId,
        body: MutexGuard<'a, Body>,
        epoch: Epoch,
        now_ms: u64,
    ) -> Owned<'a> {
        let hold = Hold::new(rooms, room, slot, body, now_ms);
        let (group, served) = (Vec::new(), Vec::new());
        let recorder = rooms.recorder();
        let encode = match recorder {
            Some(recorder) => Some(recorder.encode),
            None if hold.body.keys.readers.is_tapped() => rooms.taps.encode(),
            None => None,
        };
        Owned { hold, epoch, group_open: false, changes: 0, group, recorder, encode, served }
    }

    /// The slot.
    pub fn slot(&self) -> SlotId {
        self.hold.slot
    }

    /// The epoch this node owns the slot at.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The keys, to read.
    #[inline]
    pub fn keys(&self) -> &Keys {
        &self.hold.body.keys
    }

    /// Do look-ups of this hold move the access clocks (they do unless a NO-TOUCH client asks)?
    pub fn set_touch(&mut self, touch: bool) {
        self.hold.body.keys.touch = touch;
    }

    /// Index of the last op group of the slot.
    pub fn index(&self) -> OpIndex {
        self.hold.body.index
    }

    /// Changes keys. The only way there is (INV-3). What it returns is said at each `Op`.
    #[inline]
    pub fn apply(&mut self, op: Op<'_>) -> usize {
        self.open_group();
        if self.hold.body.keys.has_met_expired() {
            // Whoever may write may expire: a new value must not inherit an old one's end.
            self.delete_met();
        }
        let flush = matches!(op, Op::Flush);
        let result = self.change(op);
        self.changes += if flush { result as u64 } else { 1 };
        result
    }

    /// Changes since the last call, for INFO's rdb_changes_since_last_save. What is not taken is
    /// added to the node's total when the lock is let go.
    #[inline]
    pub fn take_changes(&mut self) -> u64 {
        std::mem::take(&mut self.changes)
    }

    /// Keys this hold added (or removed) and the node's total does not have yet.
    pub fn keys_unreported(&self) -> i64 {
        self.hold.keys_unreported()
    }

    /// The first op of a group takes the next index (INV-4).
    #[inline]
    fn open_group(&mut self) {
        if !self.group_open {
            self.group_open = true;
            self.hold.body.index = OpIndex(self.hold.body.index.0 + 1);
        }
    }

    /// Closes the group of one command, EXEC or script: what it met and made ready is dealt
    /// with. Returns the group's index if it changed anything.
    #[inline]
    pub fn end_group(&mut self) -> Option<OpIndex> {
        if self.hold.body.keys.has_met_expired() {
            self.expire_met();
        }
        if self.hold.body.hall.is_some() {
            self.serve_ready();
        }
        if !self.group_open {
            self.settle_served();
            return None;
        }
        self.group_open = false;
        if !self.group.is_empty() {
            self.journal_group();
        }
        self.settle_served();
        Some(self.hold.body.index)
    }

    #[inline]
    fn settle_served(&mut self) {
        if !self.served.is_empty() {
            let served = std::mem::take(&mut self.served);
            served.iter().for_each(|waiter| waiter.settle(self));
        }
    }

    /// Every op of this guard passes here: encoded before it is applied, which may use it up.
    #[inline]
    fn change(&mut self, op: Op<'_>) -> usize {
        if let Some(encode) = self.encode {
            self.record(encode, &op);
        }
        self.hold.apply_op(op)
    }

    #[inline]
    fn record(&mut self, encode: EncodeOp, op: &Op<'_>) {
        if self.group.capacity() == 0 {
            self.group = take_scratch();
        }
        match *op {
            Op::Rename { from, to } if self.hold.body.keys.readers.is_any() => {
                self.record_image(encode, from, to);
            }
            _ => encode(op, &mut self.group),
        }
    }

    /// A value moves while a reader is under way, which may have passed the new name and never
    /// meet the old one: the group holds what the new name becomes.
    #[cold]
    fn record_image(&mut self, encode: EncodeOp, from: Key<'_>, to: Key<'_>) {
        let group = &mut self.group;
        encode(&Op::Delete { key: from }, group);
        let Some(entry) = self.hold.body.keys.table.find(from.hash, from.bytes) else { return };
        let expiry = entry.expiry().map_or(Expiry::Never, Expiry::At);
        match entry.value() {
            EntryValue::Boxed(object) => {
                let object = Box::new(object.clone());
                encode(&Op::PutObject { key: to, object, expiry }, group);
            }
            EntryValue::Bytes(value) => {
                encode(&Op::SetString { key: to, value, expiry }, group);
                if entry.marks() & MARK_RAW != 0 {
                    // Nothing written at the front changes nothing but the encoding.
                    encode(&Op::SetRange { key: to, offset: 0, bytes: b"" }, group);
                }
            }
        }
    }

    #[inline]
    fn journal_group(&mut self) {
        let (slot, epoch, index) = (self.hold.slot, self.epoch, self.hold.body.index);
        if let Some(recorder) = self.recorder {
            self.hold.body.journaled = recorder.journal.append(slot, epoch, index, &self.group).at;
        }
        if self.hold.body.keys.readers.is_tapped() {
            self.deliver(epoch, index);
        }
        self.group.clear();
    }

    #[cold]
    fn deliver(&mut self, epoch: Epoch, index: OpIndex) {
        let group = TappedGroup { epoch, index, bytes: &self.group };
        if !self.hold.rooms.taps.deliver(self.hold.slot, group) {
            self.hold.body.keys.readers.end_taps();
        }
    }

    /// Where the slot's last group lies in the log: what a reply that saw it depends on. `None`
    /// without a journal, and before the first group.
    #[inline]
    pub fn position(&self) -> Option<Position> {
        let recorder = self.recorder?;
        let at = self.hold.body.journaled;
        (at != 0).then(|| Position { lane: recorder.journal.lane(self.hold.slot), at })
    }

    /// The collection limits in force: a handler that builds a whole object needs them.
    pub fn limits(&mut self) -> Arc<Limits> {
        self.hold.limits()
    }

    #[cold]
    fn expire_met(&mut self) {
        if self.hold.rooms.totals.hold_expiry.holds() {
            drop(self.hold.body.keys.take_met_expired());
            return;
        }
        self.delete_met();
    }

    #[cold]
    fn delete_met(&mut self) {
        let met = self.hold.body.keys.take_met_expired();
        for key in met {
            self.open_group();
            self.change(Op::Expire { key: Key::new(&key) });
        }
    }

    #[cold]
    fn serve_ready(&mut self) {
        while let Some(key) = self.hold.body.hall.as_mut().and_then(|h| h.next_ready()) {
            let mut last = None;
            // Once the key is gone there is nothing left for those further back.
            while self.keys().exists(Key::new(&key))
                && let Some(hall) = self.hold.body.hall.as_ref()
                && let Some(waiter) = hall.next_waiter(&key, last)
            {
                last = Some(waiter.ticket());
                match waiter.serve(&key, self) {
                    Served::Done => {
                        self.unblock(&*waiter);
                        self.served.push(waiter);
                    }
                    Served::Gone => self.unblock(&*waiter),
                    Served::StillWaiting => {}
                }
            }
        }
    }

    /// Time has passed while the lock was held (a transaction that slept): keys whose time came
    /// meanwhile are absent from now on. Never goes back.
    pub fn note_time(&mut self, now_ms: u64) {
        self.hold.body.keys.now_ms = self.hold.body.keys.now_ms.max(now_ms);
    }

    /// A place in line for a client that is about to block.
    pub fn take_ticket(&self) -> Ticket {
        self.hold.rooms.take_ticket()
    }

    /// Puts a blocked client in line for its keys. Call under the hold in which its command
    /// found nothing: no wake-up can be lost.
    pub fn block(&mut self, waiter: Arc<dyn Waiting>) {
        self.hall().block(waiter);
    }

    /// Takes a blocked client out of line.
    pub fn unblock(&mut self, waiter: &dyn Waiting) {
        if let Some(hall) = self.hold.body.hall.as_mut() {
            hall.unblock(waiter);
        }
        self.drop_empty_hall();
    }

    /// Watches a key. Returns its expiry, which aborts the transaction when it has passed
    /// although nobody touched the key. A key that is expired already counts as absent.
    pub fn watch(&mut self, key: Key<'_>, watch: &Watch) -> Option<u64> {
        let expiry = self.keys().peek(key).and_then(|f| f.expiry());
        self.end_group();
        self.hall().watch(key.bytes, watch);
        expiry
    }

    fn hall(&mut self) -> &mut Hall {
        self.hold.body.hall.get_or_insert_default()
    }

    fn drop_empty_hall(&mut self) {
        if self.hold.body.hall.as_ref().is_some_and(|h| h.is_empty() && !h.has_ready()) {
            self.hold.body.hall = None;
        }
    }

    /// Earliest expiry the slot may have, unix ms.
    pub fn next_expiry_ms(&self) -> u64 {
        self.hold.body.next_expiry_ms
    }

    /// A full pass over the slot's expiries found this to be the earliest.
    pub fn set_next_expiry_ms(&mut self, at_ms: u64) {
        self.hold.body.next_expiry_ms = at_ms;
    }

    /// Bytes of keys and values in the slot.
    pub fn bytes(&self) -> usize {
        self.hold.body.bytes()
    }
}

/// A command panicked between two ops of its group. Crash beats corrupt: nobody may read what
/// is neither before it nor after it.
#[cold]
fn half_changed(slot: SlotId) -> ! {
    tracing::error!(slot = slot.number(), "a command panicked half-way: the node ends");
    std::process::abort();
}

impl Drop for Owned<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && self.group_open {
            half_changed(self.hold.slot);
        }
        self.end_group();
        if self.group.capacity() > 0 {
            give_back_scratch(std::mem::take(&mut self.group));
        }
        if self.changes != 0 {
            self.hold.rooms.totals.dirty.fetch_add(self.changes, Ordering::Relaxed);
        }
        self.hold.close();
    }
}

/// The access clock: seconds, 16 bits, wrapping after 18 hours.
pub fn access_clock(now_ms: u64) -> u16 {
    (now_ms / 1000) as u16
}
