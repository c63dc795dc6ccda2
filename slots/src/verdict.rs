//! What became of a change: accepted or refused, slot by slot, and what may have been lost by it.
//!
//! Not an error of the node: a refusal is an answer, the same on every replica of the table.
//!
//! Invariant: verdicts depend on the table and the entry only.

use crate::change::TakenTail;
use crate::ids::{Boot, ClusterId, MoveId, NodeId, TableVersion};
use crate::invariant::Broken;
use crate::node::BadText;
use crate::ranges::SlotRanges;
use crate::slot::SlotId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Why a change, or one slot of it, is refused. Carries what was expected and what was got.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // The fields are what the sentence of each variant names.
pub enum ChangeRefused {
    /// The entry is not newer than the table: it was applied before, or out of order.
    OldEntry { applied: TableVersion, got: TableVersion },
    /// The entry belongs to another cluster.
    OtherCluster { expected: ClusterId, got: ClusterId },
    /// There is no cluster yet.
    NoCluster,
    /// The cluster is founded already.
    ClusterExists,
    /// Generation or format version would fall.
    SettingFell,
    /// A number is outside its limits.
    OutOfLimits { limit: u64, got: u64 },
    /// A text of a node's row is not allowed.
    Text(BadText),

    /// No node has this id.
    UnknownNode { node: NodeId },
    /// The node is removed.
    NodeRemoved { node: NodeId },
    /// The node is draining or removed and takes nothing new.
    NotActive { node: NodeId },
    /// A node has this id already.
    IdInUse { node: NodeId },
    /// This node has the data directory already.
    StoreInUse { node: NodeId },
    /// This node has the name already.
    NameInUse { node: NodeId },
    /// The table is full.
    TooManyNodes { limit: usize },
    /// The node has as many labels as it may.
    TooManyLabels { limit: usize },
    /// The node to be removed owns the slot.
    StillOwns { slot: SlotId },
    /// The node to be removed is in sync for the slot.
    StillInSync { slot: SlotId },
    /// The node to be removed is where the slot is moving.
    StillTarget { slot: SlotId },
    /// The node is no tombstone.
    NotRemoved { node: NodeId },
    /// The boot is not newer than the recorded one.
    OldBoot { recorded: Boot, got: Boot },
    /// The proposer, or the node the change names, has started again since.
    OtherBoot { node: NodeId, recorded: Boot, got: Boot },
    /// A node's boot is proposed by another node.
    NotItself { node: NodeId, by: NodeId },

    /// The slot changed after the proposer's table version.
    Stale { changed_at: TableVersion, seen: TableVersion },
    /// Nobody owns the slot.
    Unowned,
    /// The slot has an owner.
    Owned { owner: NodeId },
    /// The proposer does not own the slot.
    NotOwner { owner: NodeId, by: NodeId },
    /// The node owns the slot.
    IsOwner { node: NodeId },
    /// The node is in sync already.
    AlreadyInSync { node: NodeId },
    /// The node is not in sync.
    NotInSync { node: NodeId },
    /// The node is not a wanted follower.
    NotFollower { node: NodeId },
    /// A set would have more members than it may.
    TooManyMembers { limit: usize },
    /// Writes of the slot are acknowledged by the owner alone.
    AckIsLocal,
    /// Writes of the slot are acknowledged by the in-sync set: a member can be promoted.
    AckIsInSync,
    /// Others are in sync: one of them can be promoted.
    OthersInSync,
    /// No move is on the slot.
    NoMove,
    /// Another move is on the slot.
    OtherMove { id: MoveId },
    /// The operator has not accepted that writes may be lost.
    LossNotAccepted,

    /// The result would break an invariant. A defect of ours: log it loudly.
    BrokenInvariant(Broken),
}

impl From<BadText> for ChangeRefused {
    fn from(bad: BadText) -> ChangeRefused {
        ChangeRefused::Text(bad)
    }
}

impl fmt::Display for ChangeRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ChangeRefused as R;
        match self {
            R::OldEntry { applied, got } => {
                write!(f, "entry {got} is not newer than the table, which is at {applied}")
            }
            R::OtherCluster { expected, got } => {
                write!(f, "the entry is of cluster {got}, this is cluster {expected}")
            }
            R::NoCluster => f.write_str("there is no cluster yet"),
            R::ClusterExists => f.write_str("the cluster is founded already"),
            R::SettingFell => f.write_str("generation and format version never fall"),
            R::OutOfLimits { limit, got } => write!(f, "{got} is not within 0-{limit}"),
            R::Text(bad) => bad.fmt(f),
            R::UnknownNode { node } => write!(f, "node {node} is not in the cluster"),
            R::NodeRemoved { node } => write!(f, "node {node} is removed"),
            R::NotActive { node } => write!(f, "node {node} is draining or removed"),
            R::IdInUse { node } => write!(f, "id {node} is in use"),
            R::StoreInUse { node } => write!(f, "the data directory belongs to node {node}"),
            R::NameInUse { node } => write!(f, "the name belongs to node {node}"),
            R::TooManyNodes { limit } => write!(f, "the table holds {limit} nodes at most"),
            R::TooManyLabels { limit } => write!(f, "a node has {limit} labels at most"),
            R::StillOwns { slot } => write!(f, "the node owns slot {slot}: move its slots first"),
            R::StillInSync { slot } => {
                write!(f, "the node is in sync for slot {slot}: take it out of its followers first")
            }
            R::StillTarget { slot } => {
                write!(f, "slot {slot} is moving to the node: finish or cancel the move first")
            }
            R::NotRemoved { node } => write!(f, "node {node} is not removed"),
            R::OldBoot { recorded, got } => {
                write!(f, "boot {got} is not newer than the recorded boot {recorded}")
            }
            R::OtherBoot { node, recorded, got } => {
                write!(f, "node {node} is in boot {recorded}, the change speaks of boot {got}")
            }
            R::NotItself { node, by } => write!(f, "node {by} cannot start node {node}"),
            _ => self.fmt_slot(f),
        }
    }
}

impl ChangeRefused {
    /// The refusals of a slot.
    fn fmt_slot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ChangeRefused as R;
        match self {
            R::Stale { changed_at, seen } => {
                write!(f, "it changed at version {changed_at}, the proposer had seen {seen}")
            }
            R::Unowned => f.write_str("nobody owns it: assign it first"),
            R::Owned { owner } => write!(f, "node {owner} owns it: move it"),
            R::NotOwner { owner, by } => write!(f, "node {owner} owns it, not node {by}"),
            R::IsOwner { node } => write!(f, "node {node} owns it"),
            R::AlreadyInSync { node } => write!(f, "node {node} is in sync already"),
            R::NotInSync { node } => write!(f, "node {node} is not in sync"),
            R::NotFollower { node } => write!(f, "node {node} does not follow it"),
            R::TooManyMembers { limit } => write!(f, "it has {limit} members at most"),
            R::AckIsLocal => f.write_str("its writes are acknowledged by the owner alone"),
            R::AckIsInSync => f.write_str("its writes are acknowledged in sync: promote a member"),
            R::OthersInSync => f.write_str("others are in sync: promote one of them"),
            R::NoMove => f.write_str("no move is on it"),
            R::OtherMove { id } => write!(f, "move {id} is on it: finish or cancel it first"),
            R::LossNotAccepted => f.write_str("writes may be lost: this must be accepted"),
            R::BrokenInvariant(broken) => write!(f, "broken invariant: {broken}"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl std::error::Error for ChangeRefused {}

/// How acknowledged writes may have been lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LossCause {
    /// The only member in sync started again with nothing, and this node, which had left the set
    /// before, serves what it has.
    MemoryLost {
        /// Who lost its memory.
        node: NodeId,
        /// Who owns the slots now: possibly the same node, with nothing.
        to: NodeId,
    },
    /// A follower took over a slot with `AckMode::Local`.
    TakenOver {
        /// The old owner.
        from: NodeId,
        /// The new owner.
        to: NodeId,
    },
    /// The operator took the slots by force.
    Forced {
        /// The old owner.
        from: NodeId,
        /// The new owner.
        to: NodeId,
    },
    /// The operator left the slots without an owner.
    Unassigned {
        /// The old owner.
        from: NodeId,
    },
}

/// A record of possible loss, kept in the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// The entry.
    pub at: TableVersion,
    /// The node that proposed it.
    pub by: NodeId,
    /// How.
    pub cause: LossCause,
    /// Where.
    pub slots: SlotRanges,
    /// What may be lost, where the entry said so.
    pub tails: BTreeMap<SlotId, TakenTail>,
}

/// The verdict over a whole change or one slot.
pub type Verdict = Result<(), ChangeRefused>;

/// The verdicts over a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdicts {
    pub(crate) whole: Verdict,
    pub(crate) accepted: SlotRanges,
    pub(crate) refused: BTreeMap<ChangeRefused, SlotRanges>,
    pub(crate) losses: Vec<Loss>,
}

impl Verdicts {
    pub(crate) const fn new() -> Verdicts {
        Verdicts {
            whole: Ok(()),
            accepted: SlotRanges::new(),
            refused: BTreeMap::new(),
            losses: Vec::new(),
        }
    }

    pub(crate) fn refused_whole(refusal: ChangeRefused, slots: Option<&SlotRanges>) -> Verdicts {
        let mut verdicts = Verdicts { whole: Err(refusal), ..Verdicts::new() };
        if let Some(slots) = slots {
            verdicts.refused.insert(refusal, slots.clone());
        }
        verdicts
    }

    pub(crate) fn note(&mut self, slot: SlotId, verdict: Verdict) {
        match verdict {
            Ok(()) => self.accepted.insert(slot),
            Err(refusal) => self.refused.entry(refusal).or_default().insert(slot),
        }
    }

    /// The verdict over what all slots have in common; for a change of nodes or settings, the
    /// verdict. A refusal here is every slot's refusal.
    pub fn whole(&self) -> Verdict {
        self.whole
    }

    /// The verdict over one slot; `None` if the change does not name it.
    pub fn slot(&self, slot: SlotId) -> Option<Verdict> {
        if self.accepted.contains(slot) {
            return Some(Ok(()));
        }
        let found = self.refused.iter().find(|(_, slots)| slots.contains(slot));
        found.map(|(refusal, _)| Err(*refusal))
    }

    /// The slots that accepted the change, changed by it or not.
    pub fn accepted(&self) -> &SlotRanges {
        &self.accepted
    }

    /// The slots that refused it, by reason. No slot of them changed.
    pub fn refused(&self) -> impl Iterator<Item = (ChangeRefused, &SlotRanges)> {
        self.refused.iter().map(|(refusal, slots)| (*refusal, slots))
    }

    /// Ok if nothing refused, else the first reason.
    pub fn all(&self) -> Verdict {
        self.whole?;
        self.refused.keys().next().map_or(Ok(()), |refusal| Err(*refusal))
    }

    /// An invariant the change would have broken. Log it as loudly as can be.
    pub fn broken(&self) -> Option<Broken> {
        let reasons = self.whole.err().into_iter().chain(self.refused.keys().copied());
        reasons.into_iter().find_map(|refusal| match refusal {
            ChangeRefused::BrokenInvariant(broken) => Some(broken),
            _ => None,
        })
    }

    /// What may have been lost by it.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }
}
