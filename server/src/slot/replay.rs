//! `Replay`: a room entered by whoever brings its content: recovery, stages, and followers later.
//! The second guard that may change keys, through the same `apply` as `Owned` (INV-3).
//!
//! Not admission: it asks nobody. It expires nothing (an expiry is an op of the owner), serves
//! nobody and journals nothing; sums are kept as for any hold.
//! Invariant: a slot that this node serves is never replayed into.

use slots::{Epoch, OpIndex, SlotId};

use crate::slot::admission::Ownership;
use crate::slot::hold::Hold;
use crate::slot::keys::Keys;
use crate::slot::op::Op;
use crate::slot::room::Rooms;

/// The lock hold of a slot whose content is being brought.
pub struct Replay<'a> {
    hold: Hold<'a>,
}

impl Rooms {
    /// Enters a room to bring its content; waits for whoever is inside. `now_ms` becomes the
    /// last access of what is brought.
    pub fn replay(&self, slot: SlotId, now_ms: u64) -> Replay<'_> {
        let room = self.room(slot);
        let body = room.door.enter();
        let (ownership, _) = room.door.installed();
        assert!(
            !matches!(ownership, Ownership::Owned | Ownership::Sealed),
            "slot {} is served: only its owner changes it",
            slot.number()
        );
        Replay { hold: Hold::new(self, room, slot, body, now_ms) }
    }
}

impl<'a> From<Hold<'a>> for Replay<'a> {
    /// Of a stage, which nobody serves.
    fn from(hold: Hold<'a>) -> Replay<'a> {
        Replay { hold }
    }
}

impl Replay<'_> {
    /// The slot.
    pub fn slot(&self) -> SlotId {
        self.hold.slot
    }

    /// The keys, to read. What has expired is hidden, and stays.
    pub fn keys(&self) -> &Keys {
        &self.hold.body.keys
    }

    /// Changes keys, as the owner did. What it returns is said at each `Op`.
    pub fn apply(&mut self, op: Op<'_>) -> usize {
        self.hold.apply_op(op)
    }

    /// Index of the last op group that the content holds.
    pub fn index(&self) -> OpIndex {
        self.hold.body.index
    }

    /// Epoch of the content.
    pub fn epoch(&self) -> Epoch {
        self.hold.body.epoch
    }

    /// Says how far the content is now.
    pub fn set_place(&mut self, epoch: Epoch, index: OpIndex) {
        self.hold.body.epoch = epoch;
        self.hold.body.index = index;
    }
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        // What a look-up met is the owner's to delete; what the owner expired was counted there.
        drop(self.hold.body.keys.take_met_expired());
        self.hold.expired = 0;
        self.hold.close();
    }
}
