//! Who votes: the next single step towards the voters that a cluster of this size should have.
//!
//! Not the carrying out (`steward`). 1 voter for 1-2 nodes (a third node, with slots or without,
//! makes 3), 3 for 3-4, 5 for more; spread over the zones that nodes are labelled with.
//!
//! ```text
//!  in the table --AddLearner--> learner --Promote--> voter --Demote--> learner --RemoveLearner-->
//!               at once     caught up, and a voter   surplus, draining,    no more in the table
//!                           is lacking               or ordered to go
//! ```
//! Invariant: pure. A silent voter is demoted by order only; after every step a majority of the
//! voters is reachable; the same input gives the same step, and steps come to an end.

use std::collections::{BTreeMap, BTreeSet};

use slots::NodeId;

/// How a node follows the log, as its leader sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    /// It has not answered lately.
    Silent,
    /// It answers and lacks entries.
    Behind,
    /// It answers and has what the leader has.
    CaughtUp,
}

/// A node of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) zone: Option<String>,
    /// Does it take new roles? A draining node gives its vote up once another can have it.
    pub(super) active: bool,
    pub(super) reach: Reach,
}

/// What an operator wants of the votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VoteOrder {
    /// The node leaves the cluster.
    Leave(NodeId),
    /// The node stays and votes no more.
    Replace {
        /// Who votes no more.
        old: NodeId,
        /// Who votes instead; `None`: anyone.
        new: Option<NodeId>,
    },
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A change of voters was left half-way: end it.
    LeaveJoint,
    /// The log reaches the node from now on.
    AddLearner(NodeId),
    /// A learner votes.
    Promote(NodeId),
    /// A voter becomes a learner.
    Demote(NodeId),
    /// The log reaches the node no more.
    RemoveLearner(NodeId),
}

/// Everything a step is decided by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Council {
    /// The nodes of the table that are not removed.
    pub(super) nodes: BTreeMap<NodeId, Candidate>,
    pub(super) voters: BTreeSet<NodeId>,
    pub(super) learners: BTreeSet<NodeId>,
    /// Are two sets of voters in force at once?
    pub(super) joint: bool,
    pub(super) leader: Option<NodeId>,
    /// Has the leader led for long enough to judge by itself?
    pub(super) settled: bool,
    pub(super) orders: Vec<VoteOrder>,
}

/// How many voters a cluster of so many nodes should have.
pub const fn wanted_voters(nodes: usize) -> usize {
    match nodes {
        0..=2 => 1,
        3..=4 => 3,
        _ => 5,
    }
}

/// Where a node is; without a label it is a place of its own.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Place<'a> {
    Zone(&'a str),
    Alone(NodeId),
}

impl Council {
    /// The next step; `None`: all is as it should be, or must wait.
    pub(super) fn next_step(&self) -> Option<Step> {
        if self.joint {
            return Some(Step::LeaveJoint);
        }
        // Before its founder is in the table a cluster has a voter and no nodes.
        if self.nodes.is_empty() {
            return None;
        }
        let is_member = |node: &NodeId| self.voters.contains(node) || self.learners.contains(node);
        if let Some(new) = self.nodes.keys().find(|node| !is_member(node)) {
            return Some(Step::AddLearner(*new));
        }
        if let Some(gone) = self.learners.iter().find(|node| !self.nodes.contains_key(*node)) {
            return Some(Step::RemoveLearner(*gone));
        }
        let ordered = self.departing().next().is_some();
        if !self.settled && !ordered {
            return None;
        }
        let promoted = self.promotion().map(Step::Promote);
        promoted.or_else(|| self.demotion().map(Step::Demote))
    }

    /// Who would be promoted in place of others; `None`: nobody can be.
    pub(super) fn candidates(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes
            .iter()
            .filter(|(id, node)| {
                node.active && self.learners.contains(*id) && !self.is_departing(**id)
            })
            .map(|(id, _)| *id)
    }

    fn reach(&self, node: NodeId) -> Reach {
        match self.nodes.get(&node) {
            _ if self.leader == Some(node) => Reach::CaughtUp,
            Some(candidate) => candidate.reach,
            None => Reach::Silent,
        }
    }

    fn is_departing(&self, node: NodeId) -> bool {
        !self.nodes.contains_key(&node)
            || self.orders.iter().any(|order| match order {
                VoteOrder::Leave(leaving) => *leaving == node,
                VoteOrder::Replace { old, .. } => *old == node,
            })
    }

    /// Voters that are ordered to vote no more, or are not in the table; the leader last.
    fn departing(&self) -> impl Iterator<Item = NodeId> + '_ {
        let voters = self.voters.iter().copied().filter(|node| self.is_departing(*node));
        let (leader, others): (Vec<_>, Vec<_>) = voters.partition(|n| self.leader == Some(*n));
        others.into_iter().chain(leader)
    }

    fn wanted(&self) -> usize {
        let leaves = |node: &NodeId| self.orders.contains(&VoteOrder::Leave(*node));
        wanted_voters(self.nodes.keys().filter(|node| !leaves(node)).count())
    }

    /// Voters that are to stay.
    fn lasting(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_active = |node: &NodeId| self.nodes.get(node).is_some_and(|n| n.active);
        self.voters.iter().copied().filter(move |n| is_active(n) && !self.is_departing(*n))
    }

    fn all_answer(&self) -> bool {
        self.voters.iter().all(|node| self.reach(*node) != Reach::Silent)
    }

    /// Would a majority of these voters answer?
    fn holds(&self, voters: &BTreeSet<NodeId>) -> bool {
        let answering = voters.iter().filter(|node| self.reach(**node) != Reach::Silent).count();
        answering * 2 > voters.len()
    }

    fn place(&self, node: NodeId) -> Place<'_> {
        let zone = self.nodes.get(&node).and_then(|candidate| candidate.zone.as_deref());
        zone.map_or(Place::Alone(node), Place::Zone)
    }

    /// How many of the lasting voters are where this node is.
    fn crowd(&self, node: NodeId) -> usize {
        self.lasting().filter(|voter| self.place(*voter) == self.place(node)).count()
    }

    fn promotion(&self) -> Option<NodeId> {
        let ready = self.candidates().filter(|node| self.reach(*node) == Reach::CaughtUp);
        let ready: Vec<NodeId> = ready.collect();
        let named = self.orders.iter().find_map(|order| match *order {
            VoteOrder::Replace { old, new } if self.voters.contains(&old) => new,
            _ => None,
        });
        if let Some(new) = named.filter(|new| !self.voters.contains(new)) {
            return Some(new).filter(|new| ready.contains(new)).filter(|new| self.may_join(*new));
        }
        let best = *ready.iter().min_by_key(|node| (self.crowd(**node), **node))?;
        let lasting = self.lasting().count();
        let wanted = self.wanted();
        let leaving = self.voters.len() - lasting;
        let needed = if lasting < wanted {
            // An even number of voters bears no more failures than one less: two come together.
            leaving > 0 || lasting.is_multiple_of(2) || ready.len() >= 2
        } else {
            leaving == 0 && self.voters.len() == wanted && self.would_spread(best)
        };
        Some(best).filter(|_| needed).filter(|node| self.may_join(*node))
    }

    fn may_join(&self, node: NodeId) -> bool {
        let mut voters = self.voters.clone();
        voters.insert(node);
        self.holds(&voters)
    }

    /// Would the voters be spread better with this one in the place of one of the largest crowd?
    fn would_spread(&self, node: NodeId) -> bool {
        let largest = self.voters.iter().map(|voter| self.crowd(*voter)).max().unwrap_or(0);
        self.all_answer() && largest >= self.crowd(node) + 2
    }

    fn demotion(&self) -> Option<NodeId> {
        let may_go = |node: &NodeId| {
            let mut voters = self.voters.clone();
            voters.remove(node);
            self.holds(&voters)
        };
        let lasting = self.lasting().count();
        let wanted = self.wanted();
        let leaving = self.departing().find(|node| self.is_replaced(*node, lasting >= wanted));
        if let Some(node) = leaving {
            return Some(node).filter(may_go);
        }
        if !self.settled || self.voters.len() <= wanted || self.departing().next().is_some() {
            return None;
        }
        let is_leader = |node: &NodeId| self.leader == Some(*node);
        let draining = self.voters.iter().copied();
        let draining = draining.filter(|n| self.nodes.get(n).is_some_and(|c| !c.active));
        let answers = |node: &NodeId| self.reach(*node) != Reach::Silent;
        let draining = draining.filter(answers).min_by_key(|node| (is_leader(node), *node));
        if draining.is_some() {
            return draining.filter(may_go);
        }
        if !self.all_answer() {
            return None;
        }
        let others = self.lasting().filter(|node| !is_leader(node));
        others.max_by_key(|node| (self.crowd(*node), *node)).filter(may_go)
    }

    /// Has a departing voter been replaced, or can nobody take its place?
    fn is_replaced(&self, node: NodeId, enough: bool) -> bool {
        let order = self.orders.iter().find_map(|order| match *order {
            VoteOrder::Replace { old, new } if old == node => Some(new),
            _ => None,
        });
        let nobody = || self.candidates().all(|node| self.reach(node) == Reach::Silent);
        match order {
            Some(Some(new)) => self.voters.contains(&new),
            Some(None) => enough,
            None => enough || nobody(),
        }
    }
}

#[cfg(test)]
mod tests;
