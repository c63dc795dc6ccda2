//! The steps of a move by a real table, and INV-5 by steps in any order.

use proptest::prelude::*;
use slots::{
    Addresses, Boot, ClusterId, ClusterSettings, Endpoint, Kept, Labels, NewNode, Nonce, Proposal,
    Proposer, SlotRanges, StoreId, TableChange,
};

use super::*;

const A: NodeId = NodeId::from_bytes([1; 20]);
const C: NodeId = NodeId::from_bytes([3; 20]);
const SLOT: SlotId = SlotId::FIRST;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A table that owner and target have started in, with a move of the slot.
struct Cluster {
    table: SlotTable,
    id: MoveId,
}

impl Cluster {
    fn new() -> Cluster {
        let mut cluster = Cluster { table: SlotTable::new(), id: MoveId::from_bytes([7; 8]) };
        cluster.apply(TableChange::InitCluster { settings: ClusterSettings::default() });
        for (node, name) in [(A, "node-a"), (C, "node-c")] {
            let endpoint = Endpoint::new("", 1);
            let store = StoreId::from_bytes([name.as_bytes()[5]; 16]);
            let addresses = Addresses { client: endpoint.clone(), bus: endpoint, hostname: None };
            let (name, labels) = (name.to_owned(), Labels::new());
            let node = NewNode { id: node, name, store, addresses, labels, weight: 1 };
            cluster.apply(TableChange::AddNode { node });
        }
        [A, C].into_iter().for_each(|node| cluster.boot(node, 1));
        let seen = cluster.table.version();
        cluster.apply(TableChange::AssignSlots { slots: SLOT.into(), to: A, seen });
        cluster.order(cluster.id);
        cluster
    }

    fn apply(&mut self, change: TableChange) {
        let by = match change {
            TableChange::NodeBoot { node, boot, .. } => Proposer { node, boot },
            _ => {
                let boot = self.table.node(A).map_or(Boot(0), |node| node.boot);
                Proposer { node: A, boot }
            }
        };
        let proposal = Proposal { cluster: ClusterId::from_bytes([1; 20]), by, change };
        let verdicts = self.table.apply(&proposal, self.table.version().next());
        assert_eq!(verdicts.all(), Ok(()), "{proposal:?}");
    }

    fn boot(&mut self, node: NodeId, boot: u64) {
        let (boot, nonce) = (Boot(boot), Nonce::from_bytes([boot as u8; 8]));
        let (kept, alone, except) = (Kept::All, Default::default(), SlotRanges::new());
        self.apply(TableChange::NodeBoot { node, boot, nonce, kept, alone, except });
    }

    fn order(&mut self, id: MoveId) {
        self.apply(TableChange::BeginMove { id, slots: SLOT.into(), to: C });
    }

    fn grow(&mut self) {
        let (slots, seen) = (SLOT.into(), self.table.version());
        self.apply(TableChange::GrowInSync { slots, node: C, node_boot: Boot(1), seen });
    }

    fn commit(&mut self) {
        let (id, slots, seen) = (self.id, SLOT.into(), self.table.version());
        self.apply(TableChange::CommitMove { id, slots, seen });
    }

    fn abort(&mut self) {
        self.apply(TableChange::AbortMove { id: self.id, slots: SLOT.into() });
    }

    fn begin(&self) -> Outgoing {
        Outgoing::begin(&self.table, SLOT, A).expect("there is a move")
    }

    /// Nothing is known of the target yet.
    fn facts(&self) -> Facts {
        Facts {
            lag: None,
            counts: false,
            is_in_sync: self.table.slot(SLOT).is_in_sync(C),
            is_safe: true,
            may_seal: true,
            version: self.table.version(),
        }
    }

    /// The target counts and has everything.
    fn close(&self) -> Facts {
        Facts { lag: Some(0), counts: true, ..self.facts() }
    }
}

#[test]
fn all_steps_of_a_move_in_order() {
    let mut cluster = Cluster::new();
    let mut out = cluster.begin();
    assert_eq!(out.next(&cluster.facts(), ms(0)), None, "the copy is not whole");
    let far = Facts { lag: Some(LAG_SMALL + 1), ..cluster.facts() };
    assert_eq!(out.next(&far, ms(0)), None);
    let near = Facts { lag: Some(LAG_SMALL), ..cluster.facts() };
    assert_eq!(out.next(&near, ms(0)), Some(Do::Count));
    assert_eq!(out.next(&cluster.close(), ms(0)), None, "it is not in sync by the table");
    cluster.grow();
    assert_eq!(out.learn(&cluster.table, A), None);
    assert_eq!(out.next(&Facts { may_seal: false, ..cluster.close() }, ms(0)), None);
    assert_eq!(out.next(&cluster.close(), ms(0)), Some(Do::Seal));
    let pending = Facts { is_safe: false, lag: Some(1), ..cluster.close() };
    assert_eq!(out.next(&pending, ms(1)), None);
    let seen = cluster.table.version();
    assert_eq!(out.next(&cluster.close(), ms(2)), Some(Do::HandOver { seen }));
    assert_eq!((out.next(&cluster.close(), ms(2)), out.is_sealed()), (None, true));
    cluster.commit();
    assert_eq!(out.learn(&cluster.table, A), Some(Outcome::Moved));
    assert_eq!((out.outcome(), out.next(&cluster.close(), ms(9))), (Some(Outcome::Moved), None));
    assert_eq!(out.learn(&cluster.table, A), None, "once");
}

#[test]
fn a_follower_in_sync_is_not_copied_to_again() {
    let mut cluster = Cluster::new();
    cluster.grow();
    assert_eq!(cluster.begin().next(&cluster.close(), ms(0)), Some(Do::Seal));
}

#[test]
fn a_seal_that_takes_too_long_is_opened_and_tried_again_later() {
    let mut cluster = Cluster::new();
    cluster.grow();
    let mut out = cluster.begin();
    let pending = Facts { is_safe: false, ..cluster.close() };
    for (at, pause) in [(0, 50), (1000, 100), (2000, 200)] {
        assert_eq!(out.next(&cluster.close(), ms(at)), Some(Do::Seal));
        assert_eq!(out.next(&pending, ms(at + 19)), None);
        assert_eq!(out.next(&pending, ms(at + 20)), Some(Do::Unseal));
        assert!(!out.is_sealed());
        assert_eq!(out.next(&cluster.close(), ms(at + 20 + pause - 1)), None);
    }
    assert_eq!(out.longest_seal(), ms(20));
    for at in [10, 20, 30, 40, 50].map(|s| s * 1000) {
        assert_eq!(out.next(&cluster.close(), ms(at)), Some(Do::Seal));
        assert_eq!(out.next(&pending, ms(at + 20)), Some(Do::Unseal));
        assert_eq!(out.next(&cluster.close(), ms(at + 20) + SEAL_PAUSE_MAX), Some(Do::Seal));
        assert_eq!(out.next(&pending, ms(at + 40) + SEAL_PAUSE_MAX), Some(Do::Unseal));
    }
}

#[test]
fn after_the_word_was_given_only_the_table_opens_the_slot() {
    let mut cluster = Cluster::new();
    cluster.grow();
    let mut out = cluster.begin();
    out.next(&cluster.close(), ms(0));
    let seen = cluster.table.version();
    assert_eq!(out.next(&cluster.close(), ms(1)), Some(Do::HandOver { seen }));
    let gone =
        Facts { lag: None, counts: false, is_in_sync: false, is_safe: false, ..cluster.facts() };
    assert_eq!(out.next(&gone, ms(500)), None);
    cluster.boot(C, 2);
    let later = Facts { version: cluster.table.version(), ..gone };
    assert_eq!(out.next(&later, ms(501)), Some(Do::Ask { seen }), "unchanged");
    assert_eq!(out.next(&later, ms(1000)), None);
    assert_eq!(out.next(&later, ms(1001)), Some(Do::Ask { seen }));
    cluster.abort();
    assert_eq!(out.learn(&cluster.table, A), Some(Outcome::Withdrawn));
    assert!(!out.is_sealed());
}

#[test]
fn a_target_that_is_let_go_is_filled_again() {
    let cluster = Cluster::new();
    let mut out = cluster.begin();
    let near = Facts { lag: Some(0), ..cluster.facts() };
    assert_eq!(out.next(&near, ms(0)), Some(Do::Count));
    assert_eq!(out.next(&cluster.facts(), ms(1)), None, "it started again, and was let go");
    assert_eq!(out.next(&near, ms(2)), Some(Do::Count));
}

#[test]
fn how_it_ends_is_what_the_table_says() {
    let end = |change: fn(&mut Cluster)| {
        let mut cluster = Cluster::new();
        let mut out = cluster.begin();
        change(&mut cluster);
        out.learn(&cluster.table, A)
    };
    assert_eq!(end(|_| {}), None);
    assert_eq!(end(|cluster| cluster.boot(C, 2)), None);
    assert_eq!(end(|cluster| cluster.boot(A, 2)), Some(Outcome::OtherEpoch));
    assert_eq!(end(Cluster::abort), Some(Outcome::Withdrawn));
    let again = |cluster: &mut Cluster| {
        cluster.abort();
        cluster.order(cluster.id);
    };
    assert_eq!(end(again), Some(Outcome::OtherEpoch), "the same order, given again");
    let other = |cluster: &mut Cluster| {
        cluster.abort();
        cluster.order(MoveId::from_bytes([8; 8]));
    };
    assert_eq!(end(other), Some(Outcome::Withdrawn));
    let gone = |cluster: &mut Cluster| {
        let (slots, seen) = (SLOT.into(), cluster.table.version());
        let consent = slots::LossConsent::AcceptLoss;
        cluster.apply(TableChange::UnassignSlots { slots, seen, consent });
    };
    assert_eq!(end(gone), Some(Outcome::Lost));
}

#[test]
fn there_is_no_move_of_a_slot_of_others() {
    let mut cluster = Cluster::new();
    assert!(Outgoing::begin(&cluster.table, SLOT, C).is_none());
    assert!(Outgoing::begin(&cluster.table, SlotId::LAST, A).is_none());
    cluster.abort();
    assert!(Outgoing::begin(&cluster.table, SLOT, A).is_none());
}

prop_compose! {
    fn facts()(
        lag in prop_oneof![Just(None), Just(Some(0)), (0..2 * LAG_SMALL).prop_map(Some)],
        counts in any::<bool>(),
        is_in_sync in any::<bool>(),
        is_safe in any::<bool>(),
        may_seal in any::<bool>(),
    ) -> Facts {
        Facts { lag, counts, is_in_sync, is_safe, may_seal, version: TableVersion(9) }
    }
}

proptest! {
    /// INV-5, whatever it is told: a commit only of a slot that is sealed, safe and whole at the
    /// target; after it nothing but the same question.
    #[test]
    fn only_a_sealed_owner_hands_over(
        steps in proptest::collection::vec((facts(), 0_u64..60), 0..80),
    ) {
        let cluster = Cluster::new();
        let mut out = cluster.begin();
        let (mut now, mut sealed, mut handed) = (Duration::ZERO, None, None);
        for (facts, passed) in steps {
            now += ms(passed);
            match out.next(&facts, now) {
                Some(Do::Count) => {
                    prop_assert!(sealed.is_none() && handed.is_none() && !facts.counts);
                }
                Some(Do::Seal) => {
                    prop_assert!(sealed.is_none() && handed.is_none() && facts.may_seal);
                    prop_assert!(facts.counts, "else it could never be handed over");
                    sealed = Some(now);
                }
                Some(Do::Unseal) => {
                    let since = sealed.take().expect("it is sealed");
                    prop_assert!(handed.is_none() && now - since >= SEAL_BUDGET);
                }
                Some(Do::HandOver { seen }) => {
                    prop_assert!(sealed.is_some() && handed.is_none());
                    prop_assert!(facts.is_safe && facts.is_in_sync && facts.lag == Some(0));
                    handed = Some(seen);
                }
                Some(Do::Ask { seen }) => prop_assert_eq!(handed, Some(seen)),
                None => {}
            }
            prop_assert_eq!(out.is_sealed(), sealed.is_some());
        }
    }
}
