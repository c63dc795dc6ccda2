//! The model's table and the server's `SlotTable` are one: the same changes make the same rows.
//!
//! Random changes, late, doubled and senseless ones among them, go through both.

use slot_model::table::{Ack, Cause, Change, Order, Removal, Row, Table};
use slot_model::words::{Id, Kept, NODES, Set};
use slot_model::{Random, Rules, World};
use slots::{
    AckMode, Addresses, Boot, ClusterId, ClusterSettings, Endpoint, Labels, LossConsent, MoveId,
    NewNode, NodeId, Nonce, Proposal, Proposer, RemovalCause, SlotId, SlotRanges, SlotTable,
    StoreId, TableChange, TableVersion,
};

const CLUSTER: ClusterId = ClusterId::from_bytes([1; 20]);
/// Changes of one sequence, and sequences.
const CHANGES: usize = 60;
const SEQUENCES: u64 = 2000;

fn node_id(id: Id) -> NodeId {
    NodeId::from_bytes([id.0 + 1; 20])
}

fn id_of(node: NodeId) -> Id {
    Id(node.bytes()[0] - 1)
}

fn set_of(nodes: impl Iterator<Item = NodeId>) -> Set {
    nodes.map(id_of).fold(Set::default(), Set::with)
}

fn move_id(id: u8) -> MoveId {
    MoveId::from_bytes([id; 8])
}

/// The server's table in a cluster of three nodes; slot 0 is A's, B and C follow.
fn founded() -> SlotTable {
    let mut table = SlotTable::new();
    let mut apply = |by: Id, change: TableChange| {
        let by = Proposer { node: node_id(by), boot: Boot(0) };
        let proposal = Proposal { cluster: CLUSTER, by, change };
        let version = table.version().next();
        assert_eq!(table.apply(&proposal, version).all(), Ok(()));
    };
    apply(Id(0), TableChange::InitCluster { settings: ClusterSettings::default() });
    for id in Id::all() {
        let endpoint = Endpoint::new("127.0.0.1", 7000 + u16::from(id.0));
        let node = NewNode {
            id: node_id(id),
            name: format!("node-{id}"),
            store: StoreId::from_bytes([id.0 + 1; 16]),
            addresses: Addresses { client: endpoint.clone(), bus: endpoint, hostname: None },
            labels: Labels::new(),
            weight: slots::DEFAULT_WEIGHT,
        };
        apply(Id(0), TableChange::AddNode { node });
    }
    let (slots, seen) = (SlotRanges::from(SlotId::FIRST), TableVersion(4));
    apply(Id(0), TableChange::AssignSlots { slots: slots.clone(), to: node_id(Id(0)), seen });
    let followers = [node_id(Id(1)), node_id(Id(2))].into_iter().collect();
    apply(Id(0), TableChange::SetFollowers { slots, followers });
    table
}

fn version_of(at: u8) -> TableVersion {
    TableVersion(u64::from(at))
}

/// A start as the server's log holds it.
fn start(
    node: Id,
    boot: u8,
    kept: Kept,
    alone: Option<u8>,
    incomplete: bool,
) -> ((Id, u8), TableChange) {
    let slots = SlotRanges::from(SlotId::FIRST);
    let kept = match kept {
        Kept::All => slots::Kept::All,
        Kept::Tail => slots::Kept::Tail,
        Kept::Nothing => slots::Kept::Nothing,
    };
    let change = TableChange::NodeBoot {
        node: node_id(node),
        boot: Boot(u64::from(boot)),
        nonce: Nonce::from_bytes([boot; 8]),
        kept,
        alone: alone.map(|at| (SlotId::FIRST, version_of(at))).into_iter().collect(),
        except: if incomplete { slots } else { SlotRanges::new() },
    };
    ((node, boot), change)
}

/// The same change as the server's log holds it, and who proposes it.
fn proposal(change: &Change) -> Proposal {
    let slots = SlotRanges::from(SlotId::FIRST);
    let seen_at = version_of;
    let by_owner = |by: Id, boot: u8| (by, boot);
    let operator = (Id(0), 0);
    let (by, change) = match *change {
        Change::Start { node, boot, kept, alone, incomplete } => {
            start(node, boot, kept, alone, incomplete)
        }
        Change::Grow { by, by_boot, node, node_boot, seen } => {
            let (node, node_boot) = (node_id(node), Boot(u64::from(node_boot)));
            let seen = seen_at(seen);
            (by_owner(by, by_boot), TableChange::GrowInSync { slots, node, node_boot, seen })
        }
        Change::Shrink { by, by_boot, node, seen } => {
            let (node, seen) = (node_id(node), seen_at(seen));
            (by_owner(by, by_boot), TableChange::ShrinkInSync { slots, node, seen })
        }
        Change::SetAck(ack) => {
            let mode = if ack == Ack::Local { AckMode::Local } else { AckMode::InSync };
            (operator, TableChange::SetAck { slots, mode })
        }
        Change::SetFollowers(set) => {
            let followers = set.iter().map(node_id).collect();
            (operator, TableChange::SetFollowers { slots, followers })
        }
        Change::BeginMove { id, to } => {
            (operator, TableChange::BeginMove { id: move_id(id), slots, to: node_id(to) })
        }
        Change::CommitMove { by, by_boot, id, seen } => {
            let (id, seen) = (move_id(id), seen_at(seen));
            (by_owner(by, by_boot), TableChange::CommitMove { id, slots, seen })
        }
        Change::AbortMove { id } => (operator, TableChange::AbortMove { id: move_id(id), slots }),
        Change::Promote { to, to_boot, seen } => {
            let (to, to_boot, seen) = (node_id(to), Boot(u64::from(to_boot)), seen_at(seen));
            (operator, TableChange::Promote { slots, to, to_boot, seen })
        }
        Change::TakeOver { to, to_boot, seen } => {
            let (to, to_boot, seen) = (node_id(to), Boot(u64::from(to_boot)), seen_at(seen));
            let tails = Default::default();
            (operator, TableChange::TakeOver { slots, to, to_boot, seen, tails })
        }
        Change::Force { to } => {
            let consent = LossConsent::AcceptLoss;
            (operator, TableChange::ForceTakeover { slots, to: node_id(to), consent })
        }
    };
    let by = Proposer { node: node_id(by.0), boot: Boot(u64::from(by.1)) };
    Proposal { cluster: CLUSTER, by, change }
}

/// The server's row, in the model's words.
fn row(table: &SlotTable) -> Row {
    let row = table.slot(SlotId::FIRST);
    let version = |at: TableVersion| at.0 as u8;
    Row {
        owner: id_of(row.owner().expect("an owner")),
        epoch: row.epoch().0 as u8,
        ver: version(row.ver()),
        in_sync: set_of(row.in_sync()),
        followers: set_of(row.followers()),
        removed: row.last_removed().map(|removed| Removal {
            node: id_of(removed.node),
            cause: match removed.cause {
                RemovalCause::Shrunk => Cause::Shrunk,
                RemovalCause::Rebooted => Cause::Rebooted,
            },
            at: version(removed.at),
        }),
        ack: if row.ack() == AckMode::Local { Ack::Local } else { Ack::InSync },
        order: row
            .planned_move()
            .map(|planned| Order { id: planned.id.bytes()[0], to: id_of(planned.to) }),
    }
}

/// A change that may well make sense: mostly of the owner, mostly fresh.
fn draw(random: &mut Random, table: &Table, version: u8) -> Change {
    let any = |random: &mut Random| Id(random.below(NODES as u64) as u8);
    let boot_of = |random: &mut Random, id: Id| {
        table.boots[id.at()].saturating_sub(u8::from(random.below(10) == 0))
    };
    let late = if random.below(4) == 0 { random.below(8) as u8 } else { 0 };
    let seen = version.saturating_sub(late);
    let by = if random.below(6) == 0 { any(random) } else { table.row.owner };
    let by_boot = boot_of(random, by);
    let (node, id) = (any(random), random.below(2) as u8);
    match random.below(14) {
        0..3 => {
            let node_boot = boot_of(random, node);
            Change::Grow { by, by_boot, node, node_boot, seen }
        }
        3..6 => Change::Shrink { by, by_boot, node, seen },
        6 => Change::SetAck([Ack::InSync, Ack::Local][random.below(2) as usize]),
        7 => Change::SetFollowers(Set(random.below(8) as u8)),
        8 => Change::BeginMove { id, to: node },
        9 => Change::CommitMove { by, by_boot, id, seen },
        10 => Change::AbortMove { id },
        11 => Change::Promote { to: node, to_boot: boot_of(random, node), seen },
        12 if random.below(4) == 0 => Change::Force { to: node },
        12 => Change::TakeOver { to: node, to_boot: boot_of(random, node), seen },
        _ => {
            let kept = [Kept::All, Kept::Tail, Kept::Nothing][random.below(3) as usize];
            let alone = (random.below(2) == 0).then_some(version.saturating_sub(late));
            let boot = table.boots[node.at()] + random.below(2) as u8;
            Change::Start { node, boot, kept, alone, incomplete: random.below(8) == 0 }
        }
    }
}

#[test]
fn the_same_changes_make_the_same_rows() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..SEQUENCES {
        let mut random = Random::new(seed);
        let mut server = founded();
        let mut table = World::Trio.state().log[0];
        table.row = row(&server);
        let mut history = Vec::new();
        for _ in 0..CHANGES {
            let version = server.version().0 as u8 + 1;
            let change = draw(&mut random, &table, version - 1);
            history.push(change.to_string());
            let verdicts = server.apply(&proposal(&change), TableVersion(u64::from(version)));
            let judged = table.apply(&Rules::ALL, &change, version);
            assert_eq!(
                verdicts.all().is_ok(),
                judged.is_ok(),
                "seed {seed}: {history:#?}\nserver {verdicts:?}\nmodel {judged:?}"
            );
            match judged {
                Ok((next, _)) => (table, accepted) = (next, accepted + 1),
                Err(_) => refused += 1,
            }
            assert_eq!(row(&server), table.row, "seed {seed}: {history:#?}");
        }
    }
    assert!(accepted > 10_000 && refused > 10_000, "accepted {accepted}, refused {refused}");
}
