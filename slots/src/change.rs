//! What the replicated log holds: every change of the slot table, as it is proposed.
//!
//! Not the rules: who may propose what, and what it does, is in `apply.rs`.
//!
//! Invariant: a change says all that its effect depends on besides the table itself; applying it
//! needs no clock, no randomness and no other node.

use crate::ids::{Boot, ClusterId, MoveId, NodeId, Nonce, OpIndex, StoreId, TableVersion};
use crate::node::{Addresses, Labels};
use crate::ranges::SlotRanges;
use crate::slot::SlotId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A change with who proposes it: one entry of the table's log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Proposal {
    /// The cluster the proposer means. An entry of another cluster is refused whole.
    pub cluster: ClusterId,
    /// The node that proposes, with the boot it proposed in.
    pub by: Proposer,
    /// What it wants.
    pub change: TableChange,
}

/// The proposing node. For an operator's change: the node the operator talks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Proposer {
    /// Its id.
    pub node: NodeId,
    /// Its boot.
    pub boot: Boot,
}

/// When a slot's write may be answered.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum AckMode {
    /// When every counted member of the in-sync set has it.
    #[default]
    InSync,
    /// When the owner has it, as Redis does; a failover may lose it.
    Local,
}

/// What a node that starts still has of what it held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Kept {
    /// Everything it acknowledged.
    All,
    /// All but a tail it cannot measure.
    Tail,
    /// Nothing that can be relied on.
    Nothing,
}

/// Whether the operator has agreed, in so many words, that acknowledged writes may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LossConsent {
    /// Not asked or not given.
    NotGiven,
    /// Given.
    AcceptLoss,
}

/// Settings of the whole cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterSettings {
    /// Grows when a lost majority was given up (`next_generation`); greetings of an older one are
    /// refused.
    pub generation: u64,
    /// Version of what is on disk and wire that every node must understand.
    pub format_version: u32,
    /// Copies of a slot that placement aims at, the owner counted: 1 to 7.
    pub default_rf: u8,
    /// Members in sync below which writes are refused: 1 to 7.
    pub min_in_sync: u8,
}

/// Between the first numbers of two generations.
const GENERATION_STEP: u64 = 1_000_000;

/// The number of the generation that a recovery begins after `generation`: its millions count
/// recoveries, the rest is `random`, so that two recoveries that do not know of each other begin
/// two generations, and the greetings of one are refused by the other. Stays below 2^53 for
/// 9,000,000,000 recoveries: JSON keeps it exactly.
pub const fn next_generation(generation: u64, random: u64) -> u64 {
    (generation / GENERATION_STEP + 1) * GENERATION_STEP + random % GENERATION_STEP
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings { generation: 1, format_version: 1, default_rf: 1, min_in_sync: 1 }
    }
}

/// A node that is to join.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewNode {
    /// Its id.
    pub id: NodeId,
    /// The name people will use.
    pub name: String,
    /// Its data directory.
    pub store: StoreId,
    /// Where it is reached.
    pub addresses: Addresses,
    /// What the operator says of it.
    pub labels: Labels,
    /// Its share of the slots: 0 to `MAX_WEIGHT`.
    pub weight: u32,
}

/// How far the old owner and its successor had got in a slot's stream when the successor took
/// over; the difference may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TakenTail {
    /// Last index the old owner was known to have.
    pub owner: OpIndex,
    /// Last index the new owner has.
    pub to: OpIndex,
}

/// Every change of the table. `seen` is the table version the proposer decided at: a slot that
/// changed after it refuses. Slots are judged one by one; a change of nodes or settings is whole.
#[allow(missing_docs)] // Fields are what their types say; those that need a word have one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TableChange {
    /// The first node founds the cluster; only on an empty table.
    InitCluster { settings: ClusterSettings },
    /// Operator: other settings. Generation and format version never fall.
    SetCluster { settings: ClusterSettings },
    /// Operator: how the slots' writes are acknowledged. `Local` shrinks to the owner at once.
    SetAck { slots: SlotRanges, mode: AckMode },

    /// Operator: a node joins; id, store and name must be unused.
    AddNode { node: NewNode },
    /// Operator: another name.
    Rename { node: NodeId, name: String },
    /// Operator, or the node itself when its address changed.
    SetAddress { node: NodeId, addresses: Addresses },
    /// Operator: sets a label, or takes it away.
    Label { node: NodeId, key: String, value: Option<String> },
    /// Operator: another share of the slots.
    Weight { node: NodeId, weight: u32 },
    /// Operator: the node gets nothing new.
    Drain { node: NodeId },
    /// Operator: the node is active again.
    Undrain { node: NodeId },
    /// Operator: the node is gone. It must own nothing, be in no in-sync set and be the target of
    /// no move; its vote was moved before. Leaves a tombstone; on a tombstone it changes nothing.
    RemoveNode { node: NodeId },
    /// Leader, when the tombstone's time (60 s) is over: the id may be used again.
    DropTombstone { node: NodeId },

    /// Every node at its start, before any slot role.
    NodeBoot {
        node: NodeId,
        boot: Boot,
        nonce: Nonce,
        kept: Kept,
        /// The newest `Alone` mark of each slot that has one: the `ver` at which the node last
        /// began to acknowledge alone.
        alone: BTreeMap<SlotId, TableVersion>,
        /// Slots whose copy was staged or incomplete: nothing of them counts as kept.
        except: SlotRanges,
    },

    /// Operator: an owner for slots that have none.
    AssignSlots { slots: SlotRanges, to: NodeId, seen: TableVersion },
    /// The owner that sealed the slots and found them empty; or the operator, accepting loss.
    UnassignSlots { slots: SlotRanges, seen: TableVersion, consent: LossConsent },
    /// Operator or placement: the followers that are wanted. They come in sync by `GrowInSync`.
    SetFollowers { slots: SlotRanges, followers: BTreeSet<NodeId> },
    /// Owner: `node` has everything it waited for and is counted from now on.
    GrowInSync { slots: SlotRanges, node: NodeId, node_boot: Boot, seen: TableVersion },
    /// Owner: goes on without `node`, which need not be a member: so a Grow is withdrawn.
    ShrinkInSync { slots: SlotRanges, node: NodeId, seen: TableVersion },
    /// Operator: an order. Who may write does not change. Asking again by id is no error.
    BeginMove { id: MoveId, slots: SlotRanges, to: NodeId },
    /// Owner, with the slots sealed and `Handover` sent: the target owns them.
    CommitMove { id: MoveId, slots: SlotRanges, seen: TableVersion },
    /// Operator, owner or leader: the order is withdrawn. Always a new epoch.
    AbortMove { id: MoveId, slots: SlotRanges },
    /// Leader, asked by `to`, an in-sync member that does not hear the owner.
    Promote { slots: SlotRanges, to: NodeId, to_boot: Boot, seen: TableVersion },
    /// Leader, asked by `to`, for slots with `AckMode::Local`: a follower takes over with what it
    /// has. `seen` is the asker's table version: in a later one it may have freed its copy.
    TakeOver {
        slots: SlotRanges,
        to: NodeId,
        /// The asker's boot: it is in no in-sync set, so only this tells that it started again
        /// and lost what it asked with.
        to_boot: Boot,
        seen: TableVersion,
        /// What may be lost, slot by slot, for the record.
        tails: BTreeMap<SlotId, TakenTail>,
    },
    /// Operator, after typing that loss is accepted: `to` owns the slots, whoever else holds them.
    ForceTakeover { slots: SlotRanges, to: NodeId, consent: LossConsent },
}

impl TableChange {
    /// The change's name, for logs and history.
    pub const fn name(&self) -> &'static str {
        match self {
            TableChange::InitCluster { .. } => "InitCluster",
            TableChange::SetCluster { .. } => "SetCluster",
            TableChange::SetAck { .. } => "SetAck",
            TableChange::AddNode { .. } => "AddNode",
            TableChange::Rename { .. } => "Rename",
            TableChange::SetAddress { .. } => "SetAddress",
            TableChange::Label { .. } => "Label",
            TableChange::Weight { .. } => "Weight",
            TableChange::Drain { .. } => "Drain",
            TableChange::Undrain { .. } => "Undrain",
            TableChange::RemoveNode { .. } => "RemoveNode",
            TableChange::DropTombstone { .. } => "DropTombstone",
            TableChange::NodeBoot { .. } => "NodeBoot",
            TableChange::AssignSlots { .. } => "AssignSlots",
            TableChange::UnassignSlots { .. } => "UnassignSlots",
            TableChange::SetFollowers { .. } => "SetFollowers",
            TableChange::GrowInSync { .. } => "GrowInSync",
            TableChange::ShrinkInSync { .. } => "ShrinkInSync",
            TableChange::BeginMove { .. } => "BeginMove",
            TableChange::CommitMove { .. } => "CommitMove",
            TableChange::AbortMove { .. } => "AbortMove",
            TableChange::Promote { .. } => "Promote",
            TableChange::TakeOver { .. } => "TakeOver",
            TableChange::ForceTakeover { .. } => "ForceTakeover",
        }
    }

    /// What the change says, in a few words for people: history shows it beside the name.
    pub fn detail(&self) -> String {
        match self {
            TableChange::InitCluster { settings } | TableChange::SetCluster { settings } => {
                let ClusterSettings { generation, format_version, default_rf, min_in_sync } =
                    settings;
                format!(
                    "generation {generation}, format {format_version}, copies {default_rf}, \
                     least in sync {min_in_sync}"
                )
            }
            TableChange::SetAck { slots, mode } => format!("{slots} to {mode:?}"),
            TableChange::AddNode { node } => {
                format!("{} ({}) at {}", node.name, node.id, node.addresses.client)
            }
            TableChange::Rename { node, name } => format!("{node} to {name}"),
            TableChange::SetAddress { node, addresses } => {
                format!("{node}: clients {}, nodes {}", addresses.client, addresses.bus)
            }
            TableChange::Label { node, key, value: Some(value) } => {
                format!("{node}: {key}={value}")
            }
            TableChange::Label { node, key, value: None } => format!("{node}: {key} taken away"),
            TableChange::Weight { node, weight } => format!("{node} to {weight}"),
            TableChange::Drain { node }
            | TableChange::Undrain { node }
            | TableChange::RemoveNode { node }
            | TableChange::DropTombstone { node } => node.to_string(),
            TableChange::NodeBoot { node, boot, kept, .. } => {
                format!("{node}: boot {boot}, kept {kept:?}")
            }
            TableChange::AssignSlots { slots, to, .. } => format!("{slots} to {to}"),
            TableChange::UnassignSlots { slots, .. } => slots.to_string(),
            TableChange::SetFollowers { slots, followers } => {
                format!("{slots}: {} followers", followers.len())
            }
            TableChange::GrowInSync { slots, node, .. }
            | TableChange::ShrinkInSync { slots, node, .. } => format!("{slots}: {node}"),
            TableChange::BeginMove { id, slots, to } => format!("{id}: {slots} to {to}"),
            TableChange::CommitMove { id, slots, .. } | TableChange::AbortMove { id, slots } => {
                format!("{id}: {slots}")
            }
            TableChange::Promote { slots, to, .. }
            | TableChange::TakeOver { slots, to, .. }
            | TableChange::ForceTakeover { slots, to, .. } => format!("{slots} to {to}"),
        }
    }

    /// The slots a change is judged over; `None` for a change of nodes or settings, which is
    /// judged whole (`NodeBoot` too, although it touches rows).
    pub const fn slots(&self) -> Option<&SlotRanges> {
        match self {
            TableChange::SetAck { slots, .. }
            | TableChange::AssignSlots { slots, .. }
            | TableChange::UnassignSlots { slots, .. }
            | TableChange::SetFollowers { slots, .. }
            | TableChange::GrowInSync { slots, .. }
            | TableChange::ShrinkInSync { slots, .. }
            | TableChange::BeginMove { slots, .. }
            | TableChange::CommitMove { slots, .. }
            | TableChange::AbortMove { slots, .. }
            | TableChange::Promote { slots, .. }
            | TableChange::TakeOver { slots, .. }
            | TableChange::ForceTakeover { slots, .. } => Some(slots),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::next_generation;

    #[test]
    fn generations_grow_and_two_recoveries_at_once_differ() {
        let (first, second) = (next_generation(1, 4), next_generation(1, u64::MAX));
        assert_ne!(first, second);
        assert!(first > 1 && second > 1);
        for random in [0, 999_999, 1_000_000, u64::MAX] {
            assert!(next_generation(first.max(second), random) > first.max(second));
        }
    }
}
