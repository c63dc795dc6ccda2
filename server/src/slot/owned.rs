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

use crate::slot::keys::Keys;
use crate::slot::op::{Key, Op};
use crate::slot::room::{Body, Room, Rooms};
use crate::slot::waiters::{Hall, Served, Ticket, Waiting, Watch};
use crate::store::limits::Limits;
use crate::store::object::Object;

/// Values with more elements than this are freed by the chores thread, not under the lock: about
/// 100 us of freeing.
const FREE_INLINE_ELEMENTS: usize = 1_000;

/// The lock hold of a slot that this node owns.
pub struct Owned<'a> {
    pub(super) rooms: &'a Rooms,
    pub(super) room: &'a Room,
    pub(super) slot: SlotId,
    pub(super) body: MutexGuard<'a, Body>,
    epoch: Epoch,
    /// Did the open group change anything yet?
    group_open: bool,
    pub(super) limits: Option<Arc<Limits>>,
    pub(super) keys_before: usize,
    pub(super) expiring_before: usize,
    pub(super) expired: u64,
    /// Changes by commands that nobody booked yet.
    changes: u64,
    /// Dropped values that wait for the unlock.
    #[allow(clippy::vec_box, reason = "the boxes come from the table and go to the chores")]
    garbage: Vec<Box<Object>>,
}

impl<'a> Owned<'a> {
    #[inline]
    pub(super) fn new(
        rooms: &'a Rooms,
        room: &'a Room,
        slot: SlotId,
        mut body: MutexGuard<'a, Body>,
        epoch: Epoch,
        now_ms: u64,
    ) -> Owned<'a> {
        body.keys.now_ms = now_ms;
        body.keys.access_clock = access_clock(now_ms);
        body.keys.touch = true;
        let keys_before = body.keys.table.len();
        let expiring_before = body.keys.table.expiring();
        Owned {
            rooms,
            room,
            slot,
            body,
            epoch,
            group_open: false,
            limits: None,
            keys_before,
            expiring_before,
            expired: 0,
            changes: 0,
            garbage: Vec::new(),
        }
    }

    /// The slot.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// The epoch this node owns the slot at.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The keys, to read.
    #[inline]
    pub fn keys(&self) -> &Keys {
        &self.body.keys
    }

    /// Do look-ups of this hold move the access clocks (they do unless a NO-TOUCH client asks)?
    pub fn set_touch(&mut self, touch: bool) {
        self.body.keys.touch = touch;
    }

    /// Index of the last op group of the slot.
    pub fn index(&self) -> OpIndex {
        self.body.index
    }

    /// Changes keys. The only way there is (INV-3). What it returns is said at each `Op`.
    #[inline]
    pub fn apply(&mut self, op: Op<'_>) -> usize {
        self.open_group();
        if self.body.keys.has_met_expired() {
            // Whoever may write may expire: a new value must not inherit an old one's end.
            self.delete_met();
        }
        let flush = matches!(op, Op::Flush);
        let result = self.apply_op(op);
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
        self.body.keys.table.len() as i64 - self.keys_before as i64
    }

    /// The first op of a group takes the next index (INV-4).
    #[inline]
    fn open_group(&mut self) {
        if !self.group_open {
            self.group_open = true;
            self.body.index = OpIndex(self.body.index.0 + 1);
        }
    }

    /// Closes the group of one command, EXEC or script: what it met and made ready is dealt
    /// with. Returns the group's index if it changed anything.
    #[inline]
    pub fn end_group(&mut self) -> Option<OpIndex> {
        if self.body.keys.has_met_expired() {
            self.expire_met();
        }
        if self.body.hall.is_some() {
            self.serve_ready();
        }
        let changed = self.group_open;
        self.group_open = false;
        changed.then_some(self.body.index)
    }

    #[cold]
    fn expire_met(&mut self) {
        if self.rooms.totals.hold_expiry.load(Ordering::Relaxed) {
            drop(self.body.keys.take_met_expired());
            return;
        }
        self.delete_met();
    }

    #[cold]
    fn delete_met(&mut self) {
        let met = self.body.keys.take_met_expired();
        for key in met {
            self.open_group();
            self.apply_op(Op::Expire { key: Key::new(&key) });
        }
    }

    #[cold]
    fn serve_ready(&mut self) {
        while let Some(key) = self.body.hall.as_mut().and_then(|h| h.next_ready()) {
            let mut last = None;
            // Once the key is gone there is nothing left for those further back.
            while self.keys().exists(Key::new(&key))
                && let Some(hall) = self.body.hall.as_ref()
                && let Some(waiter) = hall.next_waiter(&key, last)
            {
                last = Some(waiter.ticket());
                match waiter.serve(&key, self) {
                    Served::Done | Served::Gone => self.unblock(&*waiter),
                    Served::StillWaiting => {}
                }
            }
        }
    }

    /// Time has passed while the lock was held (a transaction that slept): keys whose time came
    /// meanwhile are absent from now on. Never goes back.
    pub fn note_time(&mut self, now_ms: u64) {
        self.body.keys.now_ms = self.body.keys.now_ms.max(now_ms);
    }

    /// A place in line for a client that is about to block.
    pub fn take_ticket(&self) -> Ticket {
        self.rooms.take_ticket()
    }

    /// Puts a blocked client in line for its keys. Call under the hold in which its command
    /// found nothing: no wake-up can be lost.
    pub fn block(&mut self, waiter: Arc<dyn Waiting>) {
        self.hall().block(waiter);
    }

    /// Takes a blocked client out of line.
    pub fn unblock(&mut self, waiter: &dyn Waiting) {
        if let Some(hall) = self.body.hall.as_mut() {
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
        self.body.hall.get_or_insert_default()
    }

    fn drop_empty_hall(&mut self) {
        if self.body.hall.as_ref().is_some_and(|h| h.is_empty() && !h.has_ready()) {
            self.body.hall = None;
        }
    }

    /// Earliest expiry the slot may have, unix ms.
    pub fn next_expiry_ms(&self) -> u64 {
        self.body.next_expiry_ms
    }

    /// A full pass over the slot's expiries found this to be the earliest.
    pub fn set_next_expiry_ms(&mut self, at_ms: u64) {
        self.body.next_expiry_ms = at_ms;
    }

    /// Bytes of keys and values in the slot.
    pub fn bytes(&self) -> usize {
        self.body.keys.table.bytes() + self.body.boxed_bytes
    }

    pub(super) fn throw_away(&mut self, object: Box<Object>) {
        self.garbage.push(object);
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
            half_changed(self.slot);
        }
        self.end_group();
        self.report();
        self.room.publish_hint(&self.body);
        let (rooms, room) = (self.rooms, self.room);
        room.door.leave(&mut self.body, |body, ownership, epoch| {
            rooms.meet(room, body, ownership, epoch);
        });
        if !self.garbage.is_empty() {
            self.take_out_garbage();
        }
    }
}

impl Owned<'_> {
    #[inline]
    fn report(&mut self) {
        let keys = self.keys_unreported();
        let totals = &self.rooms.totals;
        if keys != 0 {
            totals.keys.fetch_add(keys, Ordering::Relaxed);
        }
        let expiring = self.body.keys.table.expiring() as i64 - self.expiring_before as i64;
        if expiring != 0 {
            totals.expiring.fetch_add(expiring, Ordering::Relaxed);
        }
        let bytes = self.bytes();
        if bytes != self.body.bytes {
            totals.bytes.fetch_add(bytes as i64 - self.body.bytes as i64, Ordering::Relaxed);
            self.body.bytes = bytes;
        }
        if self.changes != 0 {
            totals.dirty.fetch_add(self.changes, Ordering::Relaxed);
        }
        if self.expired != 0 {
            totals.expired.fetch_add(self.expired, Ordering::Relaxed);
        }
    }

    /// Hands the big values over. The others are freed with the guard, as its last field: after
    /// the unlock.
    #[cold]
    fn take_out_garbage(&mut self) {
        let mut at = 0;
        while let Some(object) = self.garbage.get(at) {
            if object.weight() > FREE_INLINE_ELEMENTS {
                self.rooms.chores().free(self.garbage.swap_remove(at));
            } else {
                at += 1;
            }
        }
    }
}

/// The access clock: seconds, 16 bits, wrapping after 18 hours.
pub fn access_clock(now_ms: u64) -> u16 {
    (now_ms / 1000) as u16
}
