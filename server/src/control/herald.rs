//! What a node's log says of the others: once when one falls silent or is back, once when another
//! leads or nobody does. Openraft would say each failed message.
//!
//! Not how silence is measured (`peer`), nor who leads (`raft`). Invariant: pure; what did not
//! change is not said again, and what is said was so for longer than a hiccup.

use std::collections::BTreeMap;
use std::time::Duration;

use slots::NodeId;

use super::orders::{PeerView, View};

/// A node from which nothing came for this long is silent (PROTOCOL 5: suspect after 1.0 s), ns.
const SILENT_AFTER_NS: u64 = 1_000_000_000;
/// A node that was not heard at all is given this long to be found, ns: it may just be starting.
const FOUND_WITHIN_NS: u64 = 3_000_000_000;
/// No leader for this long is worth a line, ns: a change of leader takes up to 2.4 s.
const LEADERLESS_AFTER_NS: u64 = 3_000_000_000;

/// Something that changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// A majority follows this leader.
    Leads {
        /// Who.
        node: NodeId,
        /// Raft's term.
        term: u64,
    },
    /// For so long nobody has led that a majority follows, ns.
    Leaderless {
        /// At least.
        for_ns: u64,
    },
    /// Nothing was heard of a node for so long, ns; `None`: ever.
    Silent {
        /// Who.
        node: NodeId,
        /// For how long.
        for_ns: Option<u64>,
    },
    /// A silent node is heard again.
    Back {
        /// Who.
        node: NodeId,
        /// Since it was said to be silent, ns.
        after_ns: u64,
    },
}

impl News {
    /// A line in the node's log, with the name of each node.
    pub fn log(self, name: impl Fn(NodeId) -> String) {
        let seconds = |ns: u64| format!("{:.1} s", Duration::from_nanos(ns).as_secs_f64());
        match self {
            News::Leads { node, term } => tracing::info!("{} leads, term {term}", name(node)),
            News::Leaderless { for_ns } => tracing::warn!(
                "no leader for {}: the table cannot change; a majority of the voters must be back",
                seconds(for_ns)
            ),
            News::Silent { node, for_ns: Some(ns) } => {
                tracing::warn!("{} is silent: nothing heard for {}", name(node), seconds(ns));
            }
            News::Silent { node, for_ns: None } => {
                tracing::warn!("{} is silent: not heard since this node's start", name(node));
            }
            News::Back { node, after_ns } => {
                tracing::info!("{} is back after {}", name(node), seconds(after_ns));
            }
        }
    }
}

/// What was said last.
#[derive(Default, Debug)]
pub struct Herald {
    leader: Option<(NodeId, u64)>,
    leaderless_since_ns: Option<u64>,
    peers: BTreeMap<NodeId, Peer>,
}

#[derive(Debug)]
struct Peer {
    first_seen_ns: u64,
    /// Since when it is said to be silent.
    silent_since_ns: Option<u64>,
}

impl Herald {
    /// Looks at how things stand; to be called a few times a second.
    pub fn look(&mut self, now_ns: u64, view: &View) -> Vec<News> {
        let mut news = Vec::new();
        news.extend(self.look_at_leader(now_ns, view));
        self.peers.retain(|node, _| view.peers.iter().any(|peer| peer.node == *node));
        for peer in &view.peers {
            news.extend(self.look_at_peer(now_ns, peer));
        }
        news
    }

    fn look_at_leader(&mut self, now_ns: u64, view: &View) -> Option<News> {
        if let (true, Some(node)) = (view.has_quorum, view.leader) {
            self.leaderless_since_ns = None;
            let leader = (node, view.term);
            let is_news = self.leader.replace(leader) != Some(leader);
            return is_news.then_some(News::Leads { node, term: view.term });
        }
        let since = self.leaderless_since_ns.get_or_insert(now_ns);
        let for_ns = now_ns.saturating_sub(*since);
        if for_ns < LEADERLESS_AFTER_NS {
            return None;
        }
        // Said once: by then somebody led, or this is the node's start.
        *since = u64::MAX;
        self.leader = None;
        Some(News::Leaderless { for_ns })
    }

    fn look_at_peer(&mut self, now_ns: u64, view: &PeerView) -> Option<News> {
        let node = view.node;
        let fresh = Peer { first_seen_ns: now_ns, silent_since_ns: None };
        let peer = self.peers.entry(node).or_insert(fresh);
        let is_silent = match view.silent_ns {
            Some(silent_ns) => silent_ns >= SILENT_AFTER_NS,
            None => now_ns.saturating_sub(peer.first_seen_ns) >= FOUND_WITHIN_NS,
        };
        match (is_silent, peer.silent_since_ns) {
            (true, None) => {
                peer.silent_since_ns = Some(now_ns);
                Some(News::Silent { node, for_ns: view.silent_ns })
            }
            (false, Some(since)) if view.silent_ns.is_some() => {
                peer.silent_since_ns = None;
                Some(News::Back { node, after_ns: now_ns.saturating_sub(since) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fakes::peer;

    const S: u64 = 1_000_000_000;

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 20])
    }

    fn view(term: u64, leader: Option<u8>, silent_ms: Option<u64>) -> View {
        View {
            term,
            leader: leader.map(id),
            has_quorum: leader.is_some(),
            peers: vec![peer(id(2), true, silent_ms)],
            ..View::default()
        }
    }

    #[test]
    fn a_silent_node_is_told_once_and_once_when_it_is_back() {
        let mut herald = Herald::default();
        assert_eq!(herald.look(0, &view(1, Some(1), Some(50))).len(), 1, "the leader");
        assert_eq!(herald.look(S, &view(1, Some(1), Some(999))), []);
        let silent = News::Silent { node: id(2), for_ns: Some(S) };
        assert_eq!(herald.look(2 * S, &view(1, Some(1), Some(1000))), [silent]);
        assert_eq!(herald.look(3 * S, &view(1, Some(1), Some(2000))), []);
        let back = News::Back { node: id(2), after_ns: 3 * S };
        assert_eq!(herald.look(5 * S, &view(1, Some(1), Some(0))), [back]);
        assert_eq!(herald.look(6 * S, &view(1, Some(1), Some(0))), []);
    }

    #[test]
    fn a_node_never_heard_is_given_time_to_be_found() {
        let mut herald = Herald::default();
        herald.look(0, &view(1, Some(1), None));
        assert_eq!(herald.look(2 * S, &view(1, Some(1), None)), []);
        let silent = News::Silent { node: id(2), for_ns: None };
        assert_eq!(herald.look(3 * S, &view(1, Some(1), None)), [silent]);
        assert_eq!(herald.look(4 * S, &view(1, Some(1), None)), []);
        // One that left and comes again is given time anew.
        assert_eq!(herald.look(5 * S, &View { peers: vec![], ..view(1, Some(1), None) }), []);
        assert_eq!(herald.look(6 * S, &view(1, Some(1), None)), []);
    }

    #[test]
    fn leaders_are_told_when_they_change_and_their_lack_once() {
        let mut herald = Herald::default();
        let led = |node, term| News::Leads { node: id(node), term };
        assert_eq!(herald.look(0, &view(1, Some(1), Some(0))), [led(1, 1)]);
        assert_eq!(herald.look(S, &view(1, None, Some(0))), []);
        assert_eq!(herald.look(3 * S, &view(2, Some(2), Some(0))), [led(2, 2)], "in time");
        assert_eq!(herald.look(4 * S, &view(3, None, Some(0))), []);
        let lack = News::Leaderless { for_ns: 3 * S };
        assert_eq!(herald.look(7 * S, &view(4, None, Some(0))), [lack]);
        assert_eq!(herald.look(99 * S, &view(5, None, Some(0))), []);
        assert_eq!(herald.look(100 * S, &view(2, Some(2), Some(0))), [led(2, 2)], "again");
    }
}
