//! Two clusters meet: which one dissolves into the other. The words of it, and the decision.
//!
//! Not the doing (`meeting` accepts; the node itself dissolves).
//!
//! ```text
//!  both sides judge the same two descriptions and come to the same end:
//!    one cluster already | one dissolves into the other | refused, with the reason
//! ```
//! A side may dissolve if it is one node without keys. If both may, the one with slots stays; else
//! the one with the lower node id. Who asks does not matter, so two nodes that meet each other at
//! once end in one cluster.
//! Invariant: pure; no slot has an owner on both sides when they become one.

use serde::{Deserialize, Serialize};
use slots::{Boot, ClusterId, Endpoint, NewNode, NodeId, SlotRanges};

/// The newest format of disk and wire that this server understands.
pub const FORMAT_VERSION: u32 = 1;
/// Members that an answer names for the newcomer to start with: the log tells of the rest.
pub const MAX_SEEDS: usize = 32;

/// The body of a `Meet` call. A new version is a new variant at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MeetCall {
    /// The first.
    V1(Box<Newcomer>),
    /// A member of the cluster has begun a new generation of it without the majority.
    Recovered(Recovered),
}

/// A new generation of a cluster, begun without the majority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recovered {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its generation.
    pub generation: u64,
    /// Who began it.
    pub node: NodeId,
    /// The table version it began with.
    pub version: u64,
}

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Newcomer {
    /// Its row, should it join.
    pub node: NewNode,
    /// Its boot.
    pub boot: Boot,
    /// Its side.
    pub side: Side,
}

/// One of the two that meet: a cluster, or a node without one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Side {
    /// The node that speaks for it.
    pub node: NodeId,
    /// `None`: the node is in no cluster.
    pub cluster: Option<ClusterId>,
    /// The cluster's generation.
    pub generation: u64,
    /// Nodes that are not removed.
    pub nodes: u32,
    /// Slots that have an owner.
    pub slots: SlotRanges,
    /// Keys in the slots of the node that speaks.
    pub keys: u64,
    /// The format its cluster has agreed on.
    pub format_version: u32,
}

impl Side {
    fn may_dissolve(&self) -> bool {
        self.cluster.is_none() || (self.nodes <= 1 && self.keys == 0)
    }

    fn why_not(&self) -> String {
        match (self.nodes, self.keys) {
            (nodes, _) if nodes > 1 => format!("{nodes} nodes"),
            (_, keys) => format!("{keys} keys"),
        }
    }
}

/// A member, where it listens for nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seed {
    /// Who.
    pub node: NodeId,
    /// Where.
    pub bus: Endpoint,
}

/// The answer to a `Meet` call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MeetAnswer {
    /// The newcomer is in the table of the answering cluster: it dissolves, or is a member
    /// already. Asking again answers the same.
    Accepted {
        /// The cluster.
        cluster: ClusterId,
        /// Its generation.
        generation: u64,
        /// Some of its members, voters first.
        seeds: Vec<Seed>,
    },
    /// The answering side dissolves: it will ask the newcomer in turn.
    YouShouldAccept,
    /// Not possible.
    Refused(String),
    /// Not now: ask again after a pause.
    Busy(String),
}

/// What becomes of two sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// They are one cluster.
    Same,
    /// The other side dissolves into ours.
    TheyJoin,
    /// Our side dissolves into the other.
    WeJoin,
    /// Neither; why.
    Refused(String),
}

/// Decides, from the view of `ours`. Refuses, in this order: a node that meets itself, a format
/// this server does not understand, one cluster in two generations, slots that both sides own,
/// two sides that cannot dissolve.
pub fn decide(ours: &Side, theirs: &Side) -> Meeting {
    let refused = |why: String| Meeting::Refused(why);
    if ours.node == theirs.node {
        return refused(format!("node {} would meet itself: name another node", ours.node));
    }
    if ours.format_version.max(theirs.format_version) > FORMAT_VERSION {
        let got = ours.format_version.max(theirs.format_version);
        return refused(format!(
            "format {got} is too new: this server understands {FORMAT_VERSION}; upgrade it first"
        ));
    }
    if ours.cluster.is_some() && ours.cluster == theirs.cluster {
        let (expected, got) = (ours.generation, theirs.generation);
        return match expected == got {
            true => Meeting::Same,
            false => refused(format!("this cluster is in generation {expected}, not {got}")),
        };
    }
    let both: SlotRanges = ours.slots.iter().filter(|slot| theirs.slots.contains(*slot)).collect();
    if !both.is_empty() {
        return refused(format!(
            "both sides own slots {both}: give them up on one side first (CLUSTER DELSLOTS)"
        ));
    }
    match (ours.may_dissolve(), theirs.may_dissolve()) {
        (false, true) => Meeting::TheyJoin,
        (true, false) => Meeting::WeJoin,
        (true, true) if stays(ours) > stays(theirs) => Meeting::TheyJoin,
        (true, true) => Meeting::WeJoin,
        (false, false) => refused(format!(
            "two clusters do not become one: the one side has {}, the other {}; only a single node \
             without keys joins another cluster",
            ours.why_not(),
            theirs.why_not()
        )),
    }
}

/// Of two sides that may dissolve, the greater stays: a cluster, then slots, then the lower id.
fn stays(side: &Side) -> (bool, bool, std::cmp::Reverse<NodeId>) {
    (side.cluster.is_some(), !side.slots.is_empty(), std::cmp::Reverse(side.node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(node: u8, nodes: u32, slots: &str, keys: u64) -> Side {
        Side {
            node: NodeId::from_bytes([node; 20]),
            cluster: (nodes > 0).then(|| ClusterId::from_bytes([node; 20])),
            generation: 1,
            nodes,
            slots: slots.parse().unwrap_or_default(),
            keys,
            format_version: FORMAT_VERSION,
        }
    }

    /// Both views of a meeting: they must be each other's mirror.
    fn both(a: &Side, b: &Side) -> Meeting {
        let (here, there) = (decide(a, b), decide(b, a));
        let mirrored = match &here {
            Meeting::Same => Meeting::Same,
            Meeting::TheyJoin => Meeting::WeJoin,
            Meeting::WeJoin => Meeting::TheyJoin,
            Meeting::Refused(_) => there.clone(),
        };
        assert_eq!(there, mirrored, "{a:?} {b:?}");
        here
    }

    #[test]
    fn the_side_that_has_less_dissolves() {
        for (a, b, expected) in [
            (side(2, 3, "0-9", 5), side(1, 1, "", 0), Meeting::TheyJoin),
            (side(2, 3, "", 0), side(1, 0, "", 0), Meeting::TheyJoin),
            (side(2, 1, "0-9", 7), side(1, 1, "10-19", 0), Meeting::TheyJoin),
            (side(2, 1, "0-9", 0), side(1, 1, "", 0), Meeting::TheyJoin),
            (side(2, 1, "", 0), side(1, 0, "", 0), Meeting::TheyJoin),
            (side(2, 1, "0-9", 0), side(1, 1, "10-19", 0), Meeting::WeJoin),
            (side(2, 1, "", 0), side(1, 1, "", 0), Meeting::WeJoin),
        ] {
            assert_eq!(both(&a, &b), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn what_cannot_become_one_is_refused_with_the_reason() {
        let newer = |mut side: Side| {
            side.format_version = FORMAT_VERSION + 1;
            side
        };
        for (a, b, why) in [
            (side(1, 1, "", 0), side(1, 3, "", 0), "would meet itself"),
            (side(1, 3, "", 0), newer(side(2, 1, "", 0)), "is too new"),
            (side(1, 3, "0-9", 0), side(2, 1, "9-10", 0), "both sides own slots 9:"),
            (
                side(1, 3, "0-9", 0),
                side(2, 2, "", 0),
                "the one side has 3 nodes, the other 2 nodes",
            ),
            (side(1, 1, "0", 1), side(2, 1, "", 2), "1 keys, the other 2 keys"),
        ] {
            let Meeting::Refused(got) = both(&a, &b) else { panic!("{a:?} {b:?}") };
            assert!(got.contains(why), "{got}");
        }
    }

    #[test]
    fn one_cluster_meets_itself_in_peace_but_not_another_generation() {
        let ours = side(1, 3, "0-9", 5);
        let mut theirs = Side { node: NodeId::from_bytes([2; 20]), ..ours.clone() };
        assert_eq!(both(&ours, &theirs), Meeting::Same);
        theirs.generation = 2;
        assert!(matches!(both(&ours, &theirs), Meeting::Refused(_)));
    }
}
