//! The whole world of the model: the log of the table, proposals and frames under way, the nodes,
//! the grants between them; and what a node may do in it.
//!
//! Not the steps: `actions.rs` names them, `step.rs` takes them.
//!
//! Invariant: a node decides by its own table, which may be old, and by what it was told; it never
//! looks at another node.

use crate::node::{Frame, Lead, Node, Seal};
use crate::oracle::Oracle;
use crate::rules::Rules;
use crate::table::{Change, Row, Table};
use crate::words::{Id, Index, NODES, Set, Version};
use std::collections::{BTreeMap, BTreeSet};

/// Permissions to serve reads, from each giver to each holder, by the giver's table version.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Grants {
    /// What a giver still counts. The holder's own reckoning ends earlier: that is what clocks
    /// within 10 % are assumed for.
    pub given: [[Option<Version>; NODES]; NODES],
    /// What a holder still uses.
    pub held: [[Option<Version>; NODES]; NODES],
}

/// What was done so far of what walks may do only so often.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Spent {
    /// Writes executed.
    pub writes: u8,
    /// Crashes.
    pub crashes: u8,
    /// Proposals of owners.
    pub proposals: u8,
    /// Promotions and take-overs asked for.
    pub asks: u8,
    /// Orders of the operator.
    pub orders: u8,
}

/// A state of the world.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Every version of the table, from 0.
    pub log: Vec<Table>,
    /// Changes proposed, and how often each may still be committed: never, late, twice.
    pub proposed: BTreeMap<Change, u8>,
    /// Frames under way.
    pub net: BTreeSet<Frame>,
    /// The nodes.
    pub nodes: [Node; NODES],
    /// The grants.
    pub grants: Grants,
    /// What is left to do.
    pub spent: Spent,
    /// What clients were told, and whether a promise broke.
    pub oracle: Oracle,
}

impl State {
    /// The newest table, which no node may know yet.
    pub fn newest(&self) -> &Table {
        self.log.last().unwrap_or_else(|| unreachable!("the log begins with version 0"))
    }

    /// The newest version.
    pub fn version(&self) -> Version {
        (self.log.len() - 1) as Version
    }

    /// A node.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id.at()]
    }

    /// A node, to change it.
    pub fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id.at()]
    }

    /// The table as a node knows it.
    pub fn view(&self, id: Id) -> &Table {
        &self.log[usize::from(self.node(id).applied)]
    }

    /// The row as a node knows it.
    pub fn row(&self, id: Id) -> &Row {
        &self.view(id).row
    }

    /// What the owner keeps of its epoch.
    pub fn lead(&self, id: Id) -> &Lead {
        &self.node(id).lead
    }

    /// R7: whether the node's own start is in its table.
    pub fn started(&self, rules: &Rules, id: Id) -> bool {
        !rules.no_role_before_boot || self.view(id).boots[id.at()] == self.node(id).boot
    }

    /// Whether a node takes itself for the owner: by its table, and nothing it met was newer.
    pub fn owns(&self, rules: &Rules, id: Id) -> bool {
        let row = self.row(id);
        self.started(rules, id) && row.owner == id && self.node(id).seen <= row.epoch
    }

    /// R4: the others whose acks the owner waits for.
    pub fn counted(&self, rules: &Rules, id: Id) -> Set {
        let lead = self.lead(id);
        let mut set = self.row(id).in_sync;
        if rules.counted_before_grow {
            set = set.or(lead.extra);
        }
        if !rules.counted_until_shrunk {
            set = Set(set.0 & !lead.uncounted.0);
        }
        set.without(id)
    }

    /// Whether a counted node has acked an index, in the boot that counts (R6).
    pub fn has_acked(&self, rules: &Rules, owner: Id, node: Id, index: Index) -> bool {
        let boot = self.view(owner).boots[node.at()];
        let acked = self.lead(owner).acks[node.at()];
        acked.is_some_and(|a| a.index >= index && (!rules.ack_boot || a.boot == boot))
    }

    /// Whether every counted member has an index: replies up to it may leave.
    pub fn is_safe(&self, rules: &Rules, owner: Id, index: Index) -> bool {
        self.counted(rules, owner).iter().all(|node| self.has_acked(rules, owner, node, index))
    }

    /// The watermark: the last index every counted member has.
    pub fn safe(&self, rules: &Rules, owner: Id) -> Index {
        let last = self.node(owner).copy.last();
        (0..=last).rev().find(|index| self.is_safe(rules, owner, *index)).unwrap_or(0)
    }

    /// Whether nobody else is in sync by the owner's table, whoever it counts besides.
    pub fn is_alone(&self, owner: Id) -> bool {
        self.row(owner).in_sync.only(owner)
    }

    /// Whether an owner alone in sync has said so in its log.
    pub fn alone_is_marked(&self, rules: &Rules, owner: Id) -> bool {
        let alone = self.is_alone(owner);
        !alone
            || !rules.alone_mark
            || self.node(owner).alone.is_some_and(|at| at >= self.row(owner).ver)
            || !rules.alone_by_table && !self.counted(rules, owner).is_empty()
    }

    /// Whether the reply of a write at an index may leave.
    pub fn may_reply(&self, rules: &Rules, owner: Id, index: Index) -> bool {
        let lead = self.lead(owner);
        self.owns(rules, owner)
            && lead.seal != Seal::HandedOver
            && (lead.waited || !rules.waits_for_grants || !rules.writes_wait_too)
            && self.alone_is_marked(rules, owner)
            && self.is_safe(rules, owner, index)
    }

    /// Whether an owner may answer a read, apart from waiting for its slot to be safe (R12).
    pub fn may_read(&self, rules: &Rules, owner: Id) -> bool {
        let lead = self.lead(owner);
        if !self.owns(rules, owner)
            || lead.seal != Seal::Open
            || rules.waits_for_grants && !lead.waited
        {
            return false;
        }
        let mut givers = self.counted(rules, owner);
        if !rules.candidates_grant {
            givers = givers.and(self.row(owner).in_sync);
        }
        let applied = self.node(owner).applied;
        !rules.reads_hold_grants
            || givers.iter().all(|giver| {
                let grant = self.grants.held[giver.at()][owner.at()];
                grant.is_some_and(|version| !rules.grant_version || version <= applied)
            })
    }

    /// Proposes a change; it may be committed up to twice.
    pub fn propose(&mut self, change: Change) {
        self.proposed.insert(change, 2);
    }
}
