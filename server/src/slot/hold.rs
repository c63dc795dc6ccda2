//! A hold of a room's lock, with all that goes with it: what every guard that may change keys
//! shares. `apply.rs` gives it the ops.
//!
//! Not a guard for others to use: `Owned` asks who owns the slot and journals, `Replay` does
//! neither. Invariant: `close` runs before the lock is let go, and the totals are right after it:
//! the node's, or those of the stage that the room is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use slots::SlotId;

use crate::slot::owned::access_clock;
use crate::slot::room::{Body, Room, Rooms, Totals};
use crate::store::limits::Limits;
use crate::store::object::Object;

/// Values with more elements than this are freed by the chores thread, not under the lock: about
/// 100 us of freeing.
const FREE_INLINE_ELEMENTS: usize = 1_000;

/// The lock, and what changed under it so far.
pub(super) struct Hold<'a> {
    pub(super) rooms: &'a Rooms,
    /// The sums it is reported to: the node's, or those of a stage.
    totals: &'a Totals,
    room: &'a Room,
    pub(super) slot: SlotId,
    pub(super) body: MutexGuard<'a, Body>,
    limits: Option<Arc<Limits>>,
    keys_before: usize,
    expiring_before: usize,
    bytes_before: usize,
    /// Keys that `Op::Expire` took.
    pub(super) expired: u64,
    /// Dropped values that wait for the unlock. After `body`: fields are dropped in order.
    #[allow(clippy::vec_box, reason = "the boxes come from the table and go to the chores")]
    garbage: Vec<Box<Object>>,
}

impl<'a> Hold<'a> {
    #[inline]
    pub(super) fn new(
        rooms: &'a Rooms,
        room: &'a Room,
        slot: SlotId,
        body: MutexGuard<'a, Body>,
        now_ms: u64,
    ) -> Hold<'a> {
        Hold::counted_by(&rooms.totals, rooms, room, slot, body, now_ms)
    }

    /// A hold whose keys count in these sums.
    #[inline]
    pub(super) fn counted_by(
        totals: &'a Totals,
        rooms: &'a Rooms,
        room: &'a Room,
        slot: SlotId,
        mut body: MutexGuard<'a, Body>,
        now_ms: u64,
    ) -> Hold<'a> {
        body.keys.now_ms = now_ms;
        body.keys.access_clock = access_clock(now_ms);
        body.keys.touch = true;
        let keys_before = body.keys.table.len();
        let expiring_before = body.keys.table.expiring();
        let bytes_before = body.bytes();
        Hold {
            rooms,
            totals,
            room,
            slot,
            body,
            limits: None,
            keys_before,
            expiring_before,
            bytes_before,
            expired: 0,
            garbage: Vec::new(),
        }
    }

    /// Is it of a room that the node serves, or may serve? No for a stage.
    pub(super) fn is_live(&self) -> bool {
        std::ptr::eq(self.totals, &self.rooms.totals)
    }

    /// Keys this hold added (or removed) and the node's total does not have yet.
    pub(super) fn keys_unreported(&self) -> i64 {
        self.body.keys.table.len() as i64 - self.keys_before as i64
    }

    /// The collection limits in force.
    pub(super) fn limits(&mut self) -> Arc<Limits> {
        let rooms = self.rooms;
        self.limits.get_or_insert_with(|| rooms.limits()).clone()
    }

    pub(super) fn throw_away(&mut self, object: Box<Object>) {
        self.garbage.push(object);
    }

    /// The end of the hold: sums are reported, a table change that came meanwhile is met. The
    /// lock is let go when the hold is dropped.
    #[inline]
    pub(super) fn close(&mut self) {
        self.report();
        self.room.publish_hint(&self.body);
        let (rooms, room, slot) = (self.rooms, self.room, self.slot);
        room.door.leave(&mut self.body, |body, ownership, epoch| {
            rooms.meet(slot, room, body, (ownership, epoch));
        });
        if !self.garbage.is_empty() {
            self.take_out_garbage();
        }
    }

    #[inline]
    fn report(&mut self) {
        let keys = self.keys_unreported();
        let totals = self.totals;
        if keys != 0 {
            totals.keys.fetch_add(keys, Ordering::Relaxed);
        }
        let expiring = self.body.keys.table.expiring() as i64 - self.expiring_before as i64;
        if expiring != 0 {
            totals.expiring.fetch_add(expiring, Ordering::Relaxed);
        }
        let bytes = self.body.bytes();
        if bytes != self.bytes_before {
            totals.bytes.fetch_add(bytes as i64 - self.bytes_before as i64, Ordering::Relaxed);
        }
        if self.expired != 0 {
            totals.expired.fetch_add(self.expired, Ordering::Relaxed);
        }
    }

    /// Hands the big values over. The others are freed with the hold, as its last field: after
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
