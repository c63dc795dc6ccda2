//! A small cluster to apply changes to.
//!
//! Not a simulation: entries are applied one after the other, nothing is lost or late unless a
//! test says so.

use slots::{
    AckMode, Addresses, Boot, ChangeRefused, ClusterId, ClusterSettings, Endpoint, Kept, Labels,
    LastRemoved, MoveId, NewNode, NodeId, Nonce, Proposal, Proposer, RemovalCause, SlotId,
    SlotRanges, SlotTable, StoreId, TableChange, TableVersion, Verdicts,
};
use std::collections::BTreeMap;

/// The nodes of the tests, in order of id.
pub(crate) const A: NodeId = NodeId::from_bytes([0xAA; 20]);
pub(crate) const B: NodeId = NodeId::from_bytes([0xBB; 20]);
pub(crate) const C: NodeId = NodeId::from_bytes([0xCC; 20]);
pub(crate) const D: NodeId = NodeId::from_bytes([0xDD; 20]);
pub(crate) const NODES: [NodeId; 4] = [A, B, C, D];
/// A node no table knows.
pub(crate) const STRANGER: NodeId = NodeId::from_bytes([0xEE; 20]);
pub(crate) const CLUSTER: ClusterId = ClusterId::from_bytes([1; 20]);

pub(crate) fn slot(number: u16) -> SlotId {
    SlotId::new(number).expect("a slot")
}

pub(crate) fn ranges(text: &str) -> SlotRanges {
    text.parse().expect("slots")
}

pub(crate) fn move_id(n: u8) -> MoveId {
    MoveId::from_bytes([n; 8])
}

pub(crate) fn new_node(id: NodeId) -> NewNode {
    let n = id.bytes()[0];
    NewNode {
        id,
        name: format!("node-{n:02x}"),
        store: StoreId::from_bytes([n; 16]),
        addresses: Addresses {
            client: Endpoint::new("127.0.0.1", 7000 + u16::from(n)),
            bus: Endpoint::new("127.0.0.1", 17_000 + u16::from(n)),
            hostname: None,
        },
        labels: Labels::new(),
        weight: slots::DEFAULT_WEIGHT,
    }
}

/// A table and the log that made it.
pub(crate) struct World {
    pub(crate) table: SlotTable,
}

impl World {
    /// A founded cluster of the four nodes, each started once, owning nothing.
    pub(crate) fn new() -> World {
        let mut world = World { table: SlotTable::new() };
        world.accept(A, TableChange::InitCluster { settings: ClusterSettings::default() });
        // Not in order of id: places and ids must not be mistaken for each other.
        for node in [C, A, D, B] {
            world.accept(A, TableChange::AddNode { node: new_node(node) });
            world.start(node, Kept::Nothing);
        }
        world
    }

    /// Slots 0-9 owned by A alone.
    pub(crate) fn sole() -> World {
        let mut world = World::new();
        let (slots, seen) = (ranges("0-9"), world.table.version());
        world.accept(A, TableChange::AssignSlots { slots, to: A, seen });
        world
    }

    /// Slots 0-9 owned by A, with these followers, all in sync.
    pub(crate) fn with_followers(followers: &[NodeId]) -> World {
        let mut world = World::sole();
        let slots = ranges("0-9");
        let set = followers.iter().copied().collect();
        world.accept(A, TableChange::SetFollowers { slots, followers: set });
        for follower in followers {
            world.accept(A, world.grow(*follower));
        }
        world
    }

    pub(crate) fn boot_of(&self, node: NodeId) -> Boot {
        self.table.node(node).map_or(Boot(0), |row| row.boot)
    }

    pub(crate) fn seen(&self) -> TableVersion {
        self.table.version()
    }

    pub(crate) fn proposal(&self, by: NodeId, change: TableChange) -> Proposal {
        let by = Proposer { node: by, boot: self.boot_of(by) };
        Proposal { cluster: CLUSTER, by, change }
    }

    /// Applies a change `by` proposes now.
    pub(crate) fn apply(&mut self, by: NodeId, change: TableChange) -> Verdicts {
        let proposal = self.proposal(by, change);
        self.table.apply(&proposal, self.table.version().next())
    }

    pub(crate) fn accept(&mut self, by: NodeId, change: TableChange) -> Verdicts {
        let name = change.name();
        let verdicts = self.apply(by, change);
        assert_eq!(verdicts.all(), Ok(()), "{name}");
        verdicts
    }

    /// Applies a change that is refused and must leave all rows and nodes as they are.
    #[track_caller]
    pub(crate) fn refuse(&mut self, by: NodeId, change: TableChange, expected: ChangeRefused) {
        let proposal = self.proposal(by, change);
        self.refuse_proposal(&proposal, expected);
    }

    #[track_caller]
    pub(crate) fn refuse_proposal(&mut self, proposal: &Proposal, expected: ChangeRefused) {
        let before = self.table.clone();
        let verdicts = self.table.apply(proposal, before.version().next());
        assert_eq!(verdicts.all(), Err(expected), "{expected}");
        assert!(verdicts.accepted().is_empty());
        assert_eq!(self.table.changed_since(&before), SlotRanges::new());
        assert!(self.table.nodes().eq(before.nodes()));
        assert_eq!(self.table.cluster(), before.cluster());
    }

    pub(crate) fn grow(&self, node: NodeId) -> TableChange {
        let (node_boot, seen) = (self.boot_of(node), self.seen());
        TableChange::GrowInSync { slots: ranges("0-9"), node, node_boot, seen }
    }

    pub(crate) fn shrink(&self, node: NodeId) -> TableChange {
        TableChange::ShrinkInSync { slots: ranges("0-9"), node, seen: self.seen() }
    }

    pub(crate) fn promote(&self, to: NodeId) -> TableChange {
        let (to_boot, seen) = (self.boot_of(to), self.seen());
        TableChange::Promote { slots: ranges("0-9"), to, to_boot, seen }
    }

    pub(crate) fn boot(&self, node: NodeId, kept: Kept) -> TableChange {
        let boot = self.boot_of(node).next();
        TableChange::NodeBoot {
            node,
            boot,
            nonce: Nonce::from_bytes(boot.0.to_be_bytes()),
            kept,
            alone: BTreeMap::new(),
            except: SlotRanges::new(),
        }
    }

    /// A node starts with what it kept.
    pub(crate) fn start(&mut self, node: NodeId, kept: Kept) -> Verdicts {
        self.accept_boot(self.boot(node, kept))
    }

    pub(crate) fn accept_boot(&mut self, change: TableChange) -> Verdicts {
        let proposal = boot_proposal(change);
        let verdicts = self.table.apply(&proposal, self.table.version().next());
        assert_eq!(verdicts.all(), Ok(()));
        verdicts
    }

    /// Slot 0 in one line: owner, in-sync set, followers, last removed, move; `*` marks a new
    /// epoch, `+` a new ver at the last entry.
    #[track_caller]
    pub(crate) fn check(&self, expected: &str) {
        assert_eq!(self.line(slot(0)), expected);
    }

    pub(crate) fn line(&self, slot: SlotId) -> String {
        let (row, version) = (self.table.slot(slot), self.table.version());
        let mut line = row.owner().map_or("-".to_owned(), letter);
        if row.epoch().began_at() == version {
            line.push('*');
        }
        line += &format!(" in-sync {}", letters(row.in_sync()));
        if row.ver() == version {
            line.push('+');
        }
        line += &format!(" followers {}", letters(row.followers()));
        if let Some(LastRemoved { node, cause, .. }) = row.last_removed() {
            let cause = match cause {
                RemovalCause::Shrunk => "shrunk",
                RemovalCause::Rebooted => "rebooted",
            };
            line += &format!(" removed {} {cause}", letter(node));
        }
        if let Some(planned) = row.planned_move() {
            line += &format!(" moving to {}", letter(planned.to));
        }
        if row.ack() == AckMode::Local {
            line += " ack local";
        }
        line
    }
}

pub(crate) fn boot_proposal(change: TableChange) -> Proposal {
    let TableChange::NodeBoot { node, boot, .. } = change else { panic!("not a start") };
    Proposal { cluster: CLUSTER, by: Proposer { node, boot }, change }
}

pub(crate) fn letter(node: NodeId) -> String {
    format!("{:X}", node.bytes()[0] >> 4)
}

fn letters(nodes: impl Iterator<Item = NodeId>) -> String {
    let letters: String = nodes.map(letter).collect();
    if letters.is_empty() { "-".to_owned() } else { letters }
}
