//! Alone marks: since which version of the table an owner is alone in sync (PROTOCOL 2).
//!
//! Not the decision that it is. Invariant: a slot's newest mark is never forgotten: what lets the
//! log behind it go finds it here.

use std::sync::atomic::Ordering;

use slots::{SlotId, TableVersion};

use crate::slot::journal::{Position, Step};
use crate::slot::room::Rooms;

impl Rooms {
    /// Writes a mark into the log; `None`: there is no log. An owner acknowledges nothing alone
    /// before what ends at the position is synced. Waits for whoever is in the room.
    pub fn mark_alone(&self, slot: SlotId, version: TableVersion) -> Option<Position> {
        let body = self.room(slot).door.enter();
        // Before the record: whoever finds the log past it finds the mark, too.
        self.keep_alone(slot, version);
        let journal = &self.recorder()?.journal;
        Some(journal.step(Step::Alone(version), slot, (body.epoch, body.index), b""))
    }

    /// A mark that was found on the disk.
    pub fn keep_alone(&self, slot: SlotId, version: TableVersion) {
        self.alone[slot.index()].fetch_max(version.0, Ordering::SeqCst);
    }

    /// The newest mark of a slot; version 0: none.
    pub fn alone(&self, slot: SlotId) -> TableVersion {
        TableVersion(self.alone[slot.index()].load(Ordering::SeqCst))
    }
}
