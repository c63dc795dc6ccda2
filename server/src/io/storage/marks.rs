//! The log as replies ask it (`command/promise`).
//!
//! Invariant: a yes is never taken back.

use std::sync::Arc;

use crate::command::promise::LogMarks;
use crate::io::wal::{LogFlags, NodeJournal, NodeWal};
use crate::slot::Position;

/// How far the node's log is.
pub(super) struct NodeMarks {
    wal: Arc<NodeWal>,
    flags: Arc<LogFlags>,
}

impl NodeMarks {
    pub(super) fn new(wal: Arc<NodeWal>) -> NodeMarks {
        NodeMarks { flags: wal.flags(), wal }
    }
}

impl LogMarks for NodeMarks {
    #[inline]
    fn has_waiting(&self) -> bool {
        self.flags.waits()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.flags.is_full()
    }

    fn is_written(&self, at: Position) -> bool {
        self.wal.is_written(NodeJournal::of_log(at))
    }

    fn is_synced(&self, at: Position) -> bool {
        at.at <= self.wal.synced(at.lane)
    }

    fn round_for_now(&self) -> u64 {
        // Tails are read first: what is synced afterwards only grows.
        let is_idle = (0..self.wal.lanes()).all(|lane| {
            let tail = self.wal.tail(lane);
            tail <= self.wal.synced(lane)
        });
        if is_idle { self.wal.rounds_done() } else { self.wal.round_to_wait_for() }
    }

    fn rounds_done(&self) -> u64 {
        self.wal.rounds_done()
    }

    fn all_are_back(&self) {
        self.wal.all_are_back();
    }

    fn full_reason(&self) -> String {
        self.wal.full_reason()
    }
}
