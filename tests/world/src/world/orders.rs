//! Changes drawn at random: sensible ones by the table as it stands, and nonsense.
//!
//! Copies hold nothing yet, so orders that need them go to slots without clients (`PLAY`).

use std::collections::BTreeSet;

use slotd::control::ledger::Entry;
use slots::{
    AckMode, Boot, ClusterId, ClusterSettings, Kept, LossConsent, MAX_LABELS, MAX_WEIGHT, MoveId,
    NewNode, NodeId, NodeState, Nonce, OpIndex, Proposal, Proposer, SlotId, SlotRanges, SlotTable,
    StoreId, TableChange, TableVersion, TakenTail,
};

use crate::dice::Dice;
use crate::oracle::PLAY;

/// Who is to propose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    Node(NodeId),
    Anyone,
}

/// An order.
pub(super) struct Order {
    pub(super) by: By,
    pub(super) change: TableChange,
}

/// The moves of a world, few, so that ids meet.
fn draw_move(dice: &mut Dice) -> MoveId {
    MoveId::from_bytes([dice.below(2) as u8; 8])
}

fn draw_play(dice: &mut Dice) -> SlotRanges {
    let slots = PLAY.filter_map(SlotId::new).filter(|_| dice.chance(500));
    slots.collect()
}

fn draw_node(table: &SlotTable, dice: &mut Dice) -> Option<NodeId> {
    let nodes: Vec<NodeId> = table.nodes().chain(table.tombstones()).map(|row| row.id).collect();
    dice.pick(&nodes)
}

fn boot_of(table: &SlotTable, node: NodeId) -> Boot {
    table.node(node).map_or(Boot(0), |row| row.boot)
}

/// A sensible order, as far as the table tells.
pub(super) fn draw(table: &SlotTable, dice: &mut Dice) -> Option<Order> {
    let drawn = draw_play(dice);
    let owner = table.owner(drawn.iter().next()?);
    let slots: SlotRanges = drawn.iter().filter(|slot| table.owner(*slot) == owner).collect();
    let node = draw_node(table, dice)?;
    let change = match dice.below(4) {
        0 => node_order(table, node, dice),
        _ => copy_order(table, slots, node, dice),
    };
    let is_owners = matches!(
        change,
        TableChange::GrowInSync { .. }
            | TableChange::ShrinkInSync { .. }
            | TableChange::CommitMove { .. }
    );
    let by = owner.filter(|_| is_owners && dice.chance(900)).map_or(By::Anyone, By::Node);
    Some(Order { by, change })
}

fn copy_order(table: &SlotTable, slots: SlotRanges, any: NodeId, dice: &mut Dice) -> TableChange {
    let seen = table.version();
    let first = slots.iter().next().unwrap_or(SlotId::FIRST);
    let row = table.slot(first);
    let owner = row.owner();
    let target = row.planned_move().map(|planned| planned.to);
    let member = row.in_sync().find(|id| Some(*id) != owner);
    let follower = row.followers().next();
    let node = |wanted: Option<NodeId>| wanted.unwrap_or(any);
    let id = row.planned_move().map(|planned| planned.id);
    let id = id.filter(|_| dice.chance(800)).unwrap_or_else(|| draw_move(dice));
    match dice.below(20) {
        0..=4 => {
            let node = node(target.filter(|_| dice.chance(700)));
            TableChange::GrowInSync { slots, node, node_boot: boot_of(table, node), seen }
        }
        5 => TableChange::ShrinkInSync { slots, node: node(member), seen },
        6 | 7 => {
            let others = table.nodes().map(|row| row.id).filter(|id| Some(*id) != owner);
            let followers: BTreeSet<NodeId> = others.filter(|_| dice.chance(600)).collect();
            TableChange::SetFollowers { slots, followers }
        }
        8 | 9 => TableChange::BeginMove { id, slots, to: node(member) },
        10..=12 => TableChange::CommitMove { id, slots, seen },
        13 => TableChange::AbortMove { id, slots },
        14 | 15 => {
            let to = node(member);
            TableChange::Promote { slots, to, to_boot: boot_of(table, to), seen }
        }
        16 | 17 => {
            let mode = if dice.chance(500) { AckMode::Local } else { AckMode::InSync };
            TableChange::SetAck { slots, mode }
        }
        _ => {
            let tail = TakenTail { owner: OpIndex(9), to: OpIndex(8) };
            let tails = slots.iter().map(|slot| (slot, tail)).collect();
            let to = node(follower);
            TableChange::TakeOver { slots, to, to_boot: boot_of(table, to), seen, tails }
        }
    }
}

fn node_order(table: &SlotTable, node: NodeId, dice: &mut Dice) -> TableChange {
    let settings = ClusterSettings {
        generation: 1 + dice.below(2) as u64,
        format_version: 1,
        default_rf: dice.below(9) as u8,
        min_in_sync: 1,
    };
    match dice.below(10) {
        0 => TableChange::Drain { node },
        1 | 2 => TableChange::Undrain { node },
        3 => TableChange::Weight { node, weight: dice.below(200) as u32 },
        4 => TableChange::Rename { node, name: format!("renamed-{}", dice.below(3)) },
        5 => {
            let value = dice.chance(500).then(|| "z1".to_owned());
            TableChange::Label { node, key: "zone".to_owned(), value }
        }
        6 => TableChange::SetCluster { settings },
        7 => {
            let tombstone = table.tombstones().next().map(|row| row.id);
            TableChange::DropTombstone { node: tombstone.unwrap_or(node) }
        }
        _ => TableChange::RemoveNode { node },
    }
}

/// An entry of somebody who means it wrong: of another cluster, too old, of another boot, with
/// numbers and texts out of their limits. None of them may take a slot of `watched` from its
/// owner by force.
pub(super) fn nonsense(
    table: &SlotTable,
    watched: &SlotRanges,
    at_ms: u64,
    dice: &mut Dice,
) -> Option<Entry> {
    let by_node = draw_node(table, dice)?;
    let boot = boot_of(table, by_node);
    let boot = if dice.chance(300) { Boot(boot.0.saturating_sub(1)) } else { boot };
    let cluster = table.cluster().map(|cluster| cluster.id)?;
    let cluster = if dice.chance(60) { ClusterId::from_bytes([9; 20]) } else { cluster };
    let change = match dice.below(3) {
        0 => wrong_node(table, by_node, dice)?,
        1 => wrong_row(table, by_node, dice)?,
        _ => wrong_slots(table, watched, dice)?,
    };
    let proposal = Proposal { cluster, by: Proposer { node: by_node, boot }, change };
    Some(Entry { at_ms, actor: "nobody".to_owned(), proposal })
}

fn wrong_node(table: &SlotTable, node: NodeId, dice: &mut Dice) -> Option<TableChange> {
    let row = table.node(node)?;
    let stranger = NodeId::from_bytes([0xEE; 20]);
    let mut new = NewNode {
        id: row.id,
        name: "stranger".to_owned(),
        store: StoreId::from_bytes([0xEE; 16]),
        addresses: row.addresses.clone(),
        labels: Default::default(),
        weight: 1,
    };
    match dice.below(5) {
        0 => {}
        1 => (new.id, new.store) = (stranger, row.store),
        2 => (new.id, new.name) = (stranger, row.name.clone()),
        3 => (new.id, new.weight) = (stranger, MAX_WEIGHT + 1),
        _ => {
            new.id = stranger;
            let label = |at| (format!("l{at}"), String::new());
            new.labels = (0..=MAX_LABELS).map(label).collect();
        }
    }
    // A name may be free again: then the stranger must still be refused.
    if new.name == row.name && row.state == NodeState::Removed {
        return None;
    }
    Some(TableChange::AddNode { node: new })
}

fn wrong_row(table: &SlotTable, node: NodeId, dice: &mut Dice) -> Option<TableChange> {
    let row = table.node(node)?;
    let unknown = NodeId::from_bytes([0xEE; 20]);
    let settings = ClusterSettings { generation: 0, ..ClusterSettings::default() };
    Some(match dice.below(9) {
        0 => TableChange::Rename { node, name: "not a name".to_owned() },
        1 => TableChange::Rename { node, name: table.nodes().next()?.name.clone() },
        2 => TableChange::Weight { node: unknown, weight: 1 },
        3 => TableChange::SetCluster { settings },
        4 => TableChange::InitCluster { settings: ClusterSettings::default() },
        5 => TableChange::DropTombstone { node },
        6 => TableChange::Drain { node },
        7 => TableChange::RemoveNode { node },
        _ => TableChange::NodeBoot {
            node: draw_node(table, dice)?,
            boot: Boot(row.boot.0.saturating_sub(dice.below(2) as u64)),
            nonce: Nonce::from_bytes(dice.bytes()),
            kept: Kept::All,
            alone: Default::default(),
            except: SlotRanges::new(),
        },
    })
}

fn wrong_slots(table: &SlotTable, watched: &SlotRanges, dice: &mut Dice) -> Option<TableChange> {
    let played = draw_play(dice);
    let owned = if dice.chance(500) { watched.clone() } else { played.clone() };
    let node = draw_node(table, dice)?;
    let seen = match dice.below(3) {
        0 => TableVersion(table.version().0 + 1_000_000),
        1 => TableVersion(table.version().0 / 2),
        _ => table.version(),
    };
    let id = draw_move(dice);
    let old_boot = Boot(boot_of(table, node).0.saturating_sub(1));
    Some(match dice.below(10) {
        0 => TableChange::AssignSlots { slots: owned, to: node, seen },
        1 => TableChange::BeginMove { id, slots: owned, to: node },
        2 => TableChange::AbortMove { id, slots: owned },
        3 => TableChange::CommitMove { id, slots: owned, seen },
        4 => TableChange::GrowInSync { slots: played, node, node_boot: old_boot, seen },
        5 => TableChange::Promote { slots: played, to: node, to_boot: old_boot, seen },
        6 => TableChange::ForceTakeover { slots: owned, to: node, consent: LossConsent::NotGiven },
        7 => TableChange::ShrinkInSync { slots: played, node, seen },
        8 => {
            let many = (0..9u8).map(|mark| NodeId::from_bytes([mark; 20])).collect();
            TableChange::SetFollowers { slots: played, followers: many }
        }
        _ => {
            let tails = Default::default();
            let to_boot = boot_of(table, node);
            TableChange::TakeOver { slots: played, to: node, to_boot, seen, tails }
        }
    })
}
