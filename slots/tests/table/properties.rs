//! Random histories over four nodes and eight slots: what must hold after every entry.
//!
//! Choices are drawn from the table as it stands (right owner, fresh `seen`) or wide of it, so
//! that changes are often accepted and every refusal is met.

use crate::kit::{CLUSTER, NODES, World, boot_proposal, move_id, new_node, slot};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use slots::{
    AckMode, Boot, Kept, LossConsent, NodeId, NodeState, Nonce, Proposal, Proposer, SlotId,
    SlotRanges, SlotTable, TableChange, TableVersion,
};
use std::collections::BTreeSet;

const SLOTS_USED: u16 = 8;

/// What one step draws; its meaning depends on the table.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    by: u8,
    node: u8,
    mask: u8,
    number: u8,
    lag: u8,
    honest: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let lag = prop_oneof![4 => Just(0u8), 1 => 1..12u8];
    let honest = prop::bool::weighted(0.9);
    (0..26u8, 0..4u8, 0..4u8, 1..=255u8, any::<u8>(), lag, honest).prop_map(
        |(kind, by, node, mask, number, lag, honest)| Step {
            kind,
            by,
            node,
            mask,
            number,
            lag,
            honest,
        },
    )
}

fn slots_of(mask: u8) -> SlotRanges {
    (0..SLOTS_USED).filter(|bit| mask >> bit & 1 == 1).map(slot).collect()
}

fn kept(number: u8) -> Kept {
    [Kept::All, Kept::Tail, Kept::Nothing][usize::from(number % 3)]
}

fn consent(number: u8) -> LossConsent {
    if number.is_multiple_of(3) { LossConsent::NotGiven } else { LossConsent::AcceptLoss }
}

impl Step {
    fn proposal(&self, table: &SlotTable) -> Proposal {
        let slots = slots_of(self.mask);
        let node = NODES[usize::from(self.node)];
        let boot_of = |node: NodeId| table.node(node).map_or(Boot(0), |row| row.boot);
        let owner = slots.iter().find_map(|slot| table.owner(slot));
        let by = owner.filter(|_| self.honest).unwrap_or(NODES[usize::from(self.by)]);
        let boot = if self.honest { boot_of(by) } else { Boot(u64::from(self.number % 4)) };
        let change = self.change(table, slots, node, boot_of(node));
        if let TableChange::NodeBoot { .. } = change {
            return boot_proposal(change);
        }
        Proposal { cluster: CLUSTER, by: Proposer { node: by, boot }, change }
    }

    fn change(
        &self,
        table: &SlotTable,
        slots: SlotRanges,
        node: NodeId,
        boot: Boot,
    ) -> TableChange {
        let seen = TableVersion(table.version().0.saturating_sub(u64::from(self.lag)));
        let id = move_id(self.number % 2);
        let to = node;
        match self.kind {
            0 | 1 => TableChange::AssignSlots { slots, to, seen },
            2 => TableChange::UnassignSlots { slots, seen, consent: consent(self.number) },
            3 | 4 => TableChange::SetFollowers {
                slots,
                followers: (0..4)
                    .filter(|bit| self.number >> bit & 1 == 1)
                    .map(|bit| NODES[bit])
                    .collect(),
            },
            5..=8 => TableChange::GrowInSync { slots, node, node_boot: boot, seen },
            9 | 10 => TableChange::ShrinkInSync { slots, node, seen },
            11 | 12 => TableChange::BeginMove { id, slots, to },
            13 | 14 => TableChange::CommitMove { id, slots, seen },
            15 => TableChange::AbortMove { id, slots },
            16 | 17 => TableChange::Promote { slots, to, to_boot: boot, seen },
            18 => {
                let tails = Default::default();
                TableChange::TakeOver { slots, to, to_boot: boot, seen, tails }
            }
            19 => TableChange::ForceTakeover { slots, to, consent: consent(self.number) },
            20 => TableChange::SetAck {
                slots,
                mode: if self.number.is_multiple_of(3) { AckMode::Local } else { AckMode::InSync },
            },
            21 | 22 => self.boot(table, slots, node, boot),
            _ => self.membership(table, node),
        }
    }

    fn boot(&self, table: &SlotTable, slots: SlotRanges, node: NodeId, boot: Boot) -> TableChange {
        let mark = |slot: SlotId| {
            let ver = table.slot(slot).ver().0;
            (slot, TableVersion(ver.saturating_sub(u64::from(self.number % 2))))
        };
        TableChange::NodeBoot {
            node,
            boot: Boot(boot.0 + u64::from(self.honest)),
            nonce: Nonce::from_bytes([self.number; 8]),
            kept: kept(self.number),
            alone: slots.iter().map(mark).collect(),
            except: slots_of(self.mask & self.number & self.mask.rotate_left(3)),
        }
    }

    fn membership(&self, table: &SlotTable, node: NodeId) -> TableChange {
        match table.node(node).map(|row| row.state) {
            None => TableChange::AddNode { node: new_node(node) },
            Some(NodeState::Removed) if self.honest => TableChange::DropTombstone { node },
            _ => match self.number % 4 {
                0 => TableChange::Drain { node },
                1 => TableChange::Undrain { node },
                _ => TableChange::RemoveNode { node },
            },
        }
    }
}

/// What must hold of every row of a table.
fn check_table(table: &SlotTable) -> Result<(), TestCaseError> {
    for number in 0..SLOTS_USED + 1 {
        let row = table.slot(slot(number));
        let in_sync: Vec<NodeId> = row.in_sync().collect();
        let named = in_sync
            .iter()
            .copied()
            .chain(row.followers())
            .chain(row.last_removed().map(|removed| removed.node))
            .chain(row.planned_move().map(|planned| planned.to));
        for node in named {
            let state = table.node(node).map(|node| node.state);
            prop_assert!(matches!(state, Some(NodeState::Active | NodeState::Draining)));
        }
        prop_assert!(in_sync.is_sorted() && in_sync.len() <= slots::MAX_IN_SYNC);
        prop_assert!(row.epoch().began_at() <= row.ver() && row.ver() <= table.version());
        match row.owner() {
            Some(owner) => {
                prop_assert!(in_sync.contains(&owner), "{row:?}");
                prop_assert!(row.planned_move().is_none_or(|planned| planned.to != owner));
                prop_assert!(row.followers().all(|follower| follower != owner));
            }
            None => prop_assert!(in_sync.is_empty() && row.planned_move().is_none()),
        }
        let removed = row.last_removed().map(|removed| removed.node);
        prop_assert!(removed.is_none_or(|node| !in_sync.contains(&node)));
    }
    Ok(())
}

/// One owner a slot: the nodes' shares and the unowned slots add up.
fn check_shares(table: &SlotTable) -> Result<(), TestCaseError> {
    let shares: usize = table.nodes().map(|row| table.slots_of(row.id).count()).sum();
    prop_assert_eq!(shares + table.unassigned().count(), slots::SLOTS);
    Ok(())
}

/// What one entry may do to a row.
fn check_entry(
    before: &SlotTable,
    after: &SlotTable,
    proposal: &Proposal,
    accepted: &SlotRanges,
) -> Result<(), TestCaseError> {
    let starts = matches!(proposal.change, TableChange::NodeBoot { .. });
    let removes = matches!(proposal.change, TableChange::RemoveNode { .. });
    for number in 0..SLOTS_USED + 1 {
        let slot = slot(number);
        let (old, new) = (before.slot(slot), after.slot(slot));
        if !starts && !removes && !accepted.contains(slot) {
            prop_assert_eq!(old, new, "not accepted, so unchanged");
        }
        prop_assert!(old.epoch() <= new.epoch() && old.ver() <= new.ver());
        let now = after.version();
        let members_changed = !old.in_sync().eq(new.in_sync());
        if old.owner() != new.owner() {
            prop_assert_eq!(new.epoch().began_at(), now);
            prop_assert_eq!(new.owner_since(), now);
        } else {
            prop_assert_eq!(new.owner_since(), old.owner_since());
        }
        if members_changed || old.epoch() != new.epoch() {
            prop_assert_eq!(new.ver(), now);
        }
        check_handover(&old, &new, proposal)?;
    }
    Ok(())
}

/// Between two owners without accepted loss, the new one was in sync, or the old one was alone and
/// started again; only starts take a member's place without the owner's word.
fn check_handover(
    old: &slots::SlotRow<'_>,
    new: &slots::SlotRow<'_>,
    proposal: &Proposal,
) -> Result<(), TestCaseError> {
    let (Some(from), Some(to)) = (old.owner(), new.owner()) else { return Ok(()) };
    if from == to {
        return Ok(());
    }
    match &proposal.change {
        TableChange::CommitMove { .. } => {
            prop_assert_eq!(proposal.by.node, from);
            prop_assert!(old.is_in_sync(to) && new.is_in_sync(from));
            prop_assert!(new.planned_move().is_none());
        }
        TableChange::Promote { .. } => {
            prop_assert!(old.is_in_sync(to) && new.is_in_sync(from));
        }
        TableChange::NodeBoot { node, .. } => {
            prop_assert_eq!(*node, from);
            prop_assert!(!new.is_in_sync(from));
            let heir = old.last_removed().map(|removed| removed.node);
            let was_sole = old.in_sync_count() == 1;
            let held = if was_sole { heir == Some(to) } else { old.is_in_sync(to) };
            prop_assert!(held, "{:?} became {:?}", old, new);
        }
        TableChange::TakeOver { .. } => prop_assert_eq!(old.ack(), AckMode::Local),
        TableChange::ForceTakeover { .. } => {}
        other => prop_assert!(false, "{} changed the owner", other.name()),
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_history_breaks_the_table(steps in proptest::collection::vec(step(), 1..100)) {
        let mut world = World::new();
        let mut twin = world.table.clone();
        for step in steps {
            let before = world.table.clone();
            let proposal = step.proposal(&before);
            let version = before.version().next();
            let verdicts = world.table.apply(&proposal, version);
            prop_assert_eq!(verdicts.broken(), None, "{:?}", proposal);
            check_table(&world.table)?;
            check_entry(&before, &world.table, &proposal, verdicts.accepted())?;
            if let Some(slots) = proposal.change.slots() {
                let refused: usize = verdicts.refused().map(|(_, slots)| slots.count()).sum();
                prop_assert_eq!(verdicts.accepted().count() + refused, slots.count());
            }
            // Another replica gives the same verdicts, and refuses the entry when it comes again.
            prop_assert_eq!(&twin.apply(&proposal, version), &verdicts);
            prop_assert!(twin.apply(&proposal, version).whole().is_err());
        }
        prop_assert!(twin == world.table);
        check_shares(&world.table)?;
    }
}

/// The histories above are worth something only if they get everywhere.
#[test]
fn histories_meet_every_change_and_every_refusal_of_a_slot() {
    let mut runner = TestRunner::deterministic();
    let strategy = proptest::collection::vec(step(), 100);
    let (mut accepted, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..200 {
        let mut world = World::new();
        for step in strategy.new_tree(&mut runner).expect("steps").current() {
            let proposal = step.proposal(&world.table);
            let version = world.table.version().next();
            let verdicts = world.table.apply(&proposal, version);
            let whole = proposal.change.slots().is_none() && verdicts.whole().is_ok();
            if whole || !verdicts.accepted().is_empty() {
                accepted.insert(proposal.change.name());
            }
            let reasons = verdicts.refused().map(|(refusal, _)| refusal);
            for refusal in reasons.chain(verdicts.whole().err()) {
                let name = format!("{refusal:?}");
                let name = name.split([' ', '(']).next().unwrap_or_default();
                refused.insert((proposal.change.name(), name.to_owned()));
            }
        }
    }
    assert_eq!(accepted.len(), 18, "{accepted:?}");
    for pair in [
        ("AssignSlots", "Owned"),
        ("AssignSlots", "Stale"),
        ("UnassignSlots", "NotOwner"),
        ("GrowInSync", "Stale"),
        ("GrowInSync", "AckIsLocal"),
        ("GrowInSync", "AlreadyInSync"),
        ("GrowInSync", "OtherBoot"),
        ("ShrinkInSync", "Stale"),
        ("ShrinkInSync", "IsOwner"),
        ("CommitMove", "NotInSync"),
        ("CommitMove", "OtherMove"),
        ("CommitMove", "Stale"),
        ("AbortMove", "NoMove"),
        ("BeginMove", "OtherMove"),
        ("Promote", "NotInSync"),
        ("Promote", "Stale"),
        ("TakeOver", "AckIsInSync"),
        ("TakeOver", "OthersInSync"),
        ("TakeOver", "NotFollower"),
        ("TakeOver", "Stale"),
        ("ForceTakeover", "LossNotAccepted"),
        ("NodeBoot", "OldBoot"),
        ("RemoveNode", "StillOwns"),
        ("RemoveNode", "StillInSync"),
        ("RemoveNode", "StillTarget"),
    ] {
        assert!(refused.contains(&(pair.0, pair.1.to_owned())), "{pair:?} never met");
    }
}
