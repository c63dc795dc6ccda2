//! Who owns which slots before and after the fleet grows. Pure.
//!
//! Not the giving out of them (`growth.rs`). Invariant: every slot has one owner, before and
//! after, and those that go over are the last ones of each owner.

use slots::{Endpoint, SLOTS, SlotId, SlotRanges, even_split};

use crate::router::{Served, SlotMap};

/// Nodes before the fleet grows.
pub(super) const NODES_BEFORE: usize = 3;
/// Nodes after it.
pub(super) const NODES_AFTER: usize = NODES_BEFORE + 1;
/// The node that comes.
pub(super) const NEWCOMER: usize = NODES_BEFORE;
/// What a node owns after the growth: a quarter.
const SHARE: usize = SLOTS / NODES_AFTER;

/// The slots, before and after.
pub(super) struct Plan {
    before: Vec<SlotRanges>,
    handed_over: Vec<SlotRanges>,
}

impl Plan {
    /// Three even parts; each gives up what it has beyond a quarter of all slots.
    pub(super) fn new() -> Plan {
        let before = even_split(NODES_BEFORE);
        let handed_over = before.iter().map(|part| part.iter().skip(SHARE).collect()).collect();
        Plan { before, handed_over }
    }

    /// What one of the three owns before.
    pub(super) fn before(&self, node: usize) -> &SlotRanges {
        &self.before[node]
    }

    /// What one of the three gives up.
    pub(super) fn given_up(&self, node: usize) -> &SlotRanges {
        &self.handed_over[node]
    }

    /// What the newcomer takes: all that is given up.
    pub(super) fn taken_over(&self) -> SlotRanges {
        self.handed_over.iter().flat_map(SlotRanges::iter).collect()
    }

    /// Does this slot go over?
    pub(super) fn goes_over(&self, slot: SlotId) -> bool {
        self.handed_over.iter().any(|part| part.contains(slot))
    }

    /// The map before, with the nodes at these addresses.
    pub(super) fn map_before(&self, nodes: &[Endpoint]) -> SlotMap {
        map(nodes, self.before.iter().cloned())
    }

    /// The map while what is given up is nobody's.
    pub(super) fn map_between(&self, nodes: &[Endpoint]) -> SlotMap {
        map(nodes, self.kept())
    }

    /// The map after.
    pub(super) fn map_after(&self, nodes: &[Endpoint]) -> SlotMap {
        map(nodes, self.kept().chain([self.taken_over()]))
    }

    fn kept(&self) -> impl Iterator<Item = SlotRanges> {
        self.before.iter().zip(&self.handed_over).map(|(all, gone)| all.without(gone))
    }
}

fn map(nodes: &[Endpoint], parts: impl Iterator<Item = SlotRanges>) -> SlotMap {
    let parts: Vec<SlotRanges> = parts.collect();
    let rows = nodes.iter().zip(&parts).flat_map(|(node, part)| {
        let row = |&range| Served { range, host: Some(&node.host), port: node.port };
        part.ranges().iter().map(row)
    });
    SlotMap::from_rows(&Endpoint::new("", 0), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_owns_a_quarter_after_the_growth_and_nothing_else_moves() {
        let plan = Plan::new();
        let nodes: Vec<Endpoint> = (0..4).map(|at| Endpoint::new("h", 7001 + at)).collect();
        let (before, after) = (plan.map_before(&nodes), plan.map_after(&nodes));
        let between = plan.map_between(&nodes);
        for node in &nodes {
            let owned =
                SlotId::all().filter(|slot| after.owner(*slot).is_some_and(|o| **o == *node));
            assert_eq!(owned.count(), SHARE, "{node}");
        }
        for slot in SlotId::all() {
            let moved = before.owner(slot) != after.owner(slot);
            assert_eq!(moved, plan.goes_over(slot), "{slot}");
            assert_eq!(moved, between.owner(slot).is_none(), "{slot}");
            assert!(before.owner(slot).is_some());
        }
        assert_eq!(plan.taken_over().to_string(), "4096-5460,9557-10922,15019-16383");
    }
}
