//! One slot's row: inside the table by node index, outside it by node id.
//!
//! Not the rules that change a row: those are in `apply/`.
//!
//! Invariant (checked before a row is installed, see `invariant.rs`): an owned slot's owner is in
//! its in-sync set; a slot without owner has no members and no move.

use crate::change::AckMode;
use crate::ids::{Epoch, MoveId, NodeId, TableVersion};
use crate::members::{NodeIx, NodeSet, Nodes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a node left a slot's in-sync set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum RemovalCause {
    /// The owner went on without it; up to then it had everything.
    Shrunk,
    /// It started again and may have lost a tail, or another member left after it: it may lack
    /// something, and is still better than nothing.
    Rebooted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Removal {
    pub(crate) node: NodeIx,
    pub(crate) cause: RemovalCause,
    pub(crate) at: TableVersion,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub(crate) id: MoveId,
    pub(crate) to: NodeIx,
}

/// A slot's row as the table keeps it. 88 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) owner: Option<NodeIx>,
    pub(crate) owner_since: TableVersion,
    pub(crate) epoch: Epoch,
    pub(crate) ver: TableVersion,
    pub(crate) in_sync: NodeSet,
    pub(crate) followers: NodeSet,
    pub(crate) last_removed: Option<Removal>,
    pub(crate) ack: AckMode,
    pub(crate) planned: Option<Planned>,
}

impl Row {
    /// Whether the row names the node anywhere. A row without owner names nobody.
    pub(crate) fn names(&self, node: NodeIx) -> bool {
        // The owner is in the in-sync set.
        self.owner.is_some()
            && (self.in_sync.contains(node)
                || self.followers.contains(node)
                || self.last_removed.is_some_and(|removal| removal.node == node)
                || self.planned.is_some_and(|planned| planned.to == node))
    }

    /// A member left that is not remembered itself: the one that is may lack what was
    /// acknowledged after it left.
    pub(crate) fn weaken_last_removed(&mut self) {
        if let Some(removal) = &mut self.last_removed {
            removal.cause = RemovalCause::Rebooted;
        }
    }
}

/// The node that left a slot's in-sync set last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastRemoved {
    /// The node.
    pub node: NodeId,
    /// Why it left.
    pub cause: RemovalCause,
    /// The entry by which it left.
    pub at: TableVersion,
}

/// A move that is ordered and not yet done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotMove {
    /// The order.
    pub id: MoveId,
    /// Who shall own the slot.
    pub to: NodeId,
}

/// A slot's row, read.
#[derive(Clone, Copy)]
pub struct SlotRow<'a> {
    pub(crate) row: &'a Row,
    pub(crate) nodes: &'a Nodes,
}

impl<'a> SlotRow<'a> {
    /// Who owns the slot; `None`: nobody.
    pub fn owner(&self) -> Option<NodeId> {
        self.row.owner.map(|ix| self.nodes.id(ix))
    }

    /// The entry by which the owner became it, or by which the slot lost its owner. Content that a
    /// node holds of an earlier epoch is of a former life: others may have written since.
    pub fn owner_since(&self) -> TableVersion {
        self.row.owner_since
    }

    /// The entry that last changed who orders the slot's writes.
    pub fn epoch(&self) -> Epoch {
        self.row.epoch
    }

    /// The entry that last changed the in-sync set or the epoch.
    pub fn ver(&self) -> TableVersion {
        self.row.ver
    }

    /// The members in sync, the owner among them, in order of node id.
    pub fn in_sync(&self) -> impl Iterator<Item = NodeId> + Clone + use<'a> {
        let nodes = self.nodes;
        self.row.in_sync.iter().map(|ix| nodes.id(ix))
    }

    /// How many members are in sync.
    pub fn in_sync_count(&self) -> usize {
        self.row.in_sync.len()
    }

    /// Whether a node is in sync.
    pub fn is_in_sync(&self, node: NodeId) -> bool {
        self.nodes.find(node).is_some_and(|ix| self.row.in_sync.contains(ix))
    }

    /// The followers that are wanted, in sync or not, in order of node id. Never the owner.
    pub fn followers(&self) -> impl Iterator<Item = NodeId> + Clone + use<'a> {
        let nodes = self.nodes;
        self.row.followers.iter().map(|ix| nodes.id(ix))
    }

    /// Whether a node is a wanted follower.
    pub fn is_follower(&self, node: NodeId) -> bool {
        self.nodes.find(node).is_some_and(|ix| self.row.followers.contains(ix))
    }

    /// The node that left the in-sync set last, while that may still matter.
    pub fn last_removed(&self) -> Option<LastRemoved> {
        let Removal { node, cause, at } = self.row.last_removed?;
        Some(LastRemoved { node: self.nodes.id(node), cause, at })
    }

    /// When writes may be answered.
    pub fn ack(&self) -> AckMode {
        self.row.ack
    }

    /// The move that is ordered, if any.
    pub fn planned_move(&self) -> Option<SlotMove> {
        self.row.planned.map(|Planned { id, to }| SlotMove { id, to: self.nodes.id(to) })
    }
}

/// Rows of different tables are equal when they say the same of the same nodes.
impl PartialEq for SlotRow<'_> {
    fn eq(&self, other: &SlotRow<'_>) -> bool {
        self.owner() == other.owner()
            && self.owner_since() == other.owner_since()
            && (self.epoch(), self.ver(), self.ack()) == (other.epoch(), other.ver(), other.ack())
            && self.in_sync().eq(other.in_sync())
            && self.followers().eq(other.followers())
            && self.last_removed() == other.last_removed()
            && self.planned_move() == other.planned_move()
    }
}

impl fmt::Debug for SlotRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotRow")
            .field("owner", &self.owner())
            .field("owner_since", &self.owner_since())
            .field("epoch", &self.epoch())
            .field("ver", &self.ver())
            .field("in_sync", &Vec::from_iter(self.in_sync()))
            .field("followers", &Vec::from_iter(self.followers()))
            .field("last_removed", &self.last_removed())
            .field("ack", &self.ack())
            .field("planned_move", &self.planned_move())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_compact() {
        assert_eq!(size_of::<Row>(), 88);
    }
}
