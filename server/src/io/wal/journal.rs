//! The journal of the rooms: each group they make, and each step of a slot beside them, is a record
//! of the node's log.
//!
//! Not the log (`persist/log`), not the groups (`slot/journal`). Invariant: called under the slot's
//! lock, or its stage's, so the records of each lie in the order of their indexes.

use std::sync::Arc;

use slots::{Epoch, OpIndex, SlotId};

use super::NodeWal;
use crate::persist::log::{self, Entry, Kind};
use crate::persist::recovery::append_step;
use crate::slot::{Journal, Position, Step};

/// The node's log as the rooms see it.
#[derive(Clone, Debug)]
pub struct NodeJournal(pub Arc<NodeWal>);

impl NodeJournal {
    /// A position in the words of the log, which `NodeWal::is_written` asks for.
    pub fn of_log(position: Position) -> log::Position {
        log::Position { lane: position.lane, at: position.at }
    }
}

fn of_slot(position: log::Position) -> Position {
    Position { lane: position.lane, at: position.at }
}

impl Journal for NodeJournal {
    #[inline]
    fn append(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        of_slot(self.0.append(slot, epoch, index, group))
    }

    fn leave(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        of_slot(self.0.append_entry(Entry { kind: Kind::Drop, slot, epoch, index }, group))
    }

    fn step(&self, step: Step, slot: SlotId, place: (Epoch, OpIndex), payload: &[u8]) -> Position {
        of_slot(append_step(&self.0, step, slot, place, payload))
    }

    fn lane(&self, slot: SlotId) -> u16 {
        self.0.lane_of(slot)
    }
}
