//! How the other nodes are, as far as this node hears: for CLUSTER NODES, SHARDS, INFO and LINKS,
//! and for SLOTD STATUS.
//!
//! Not a detector that anything is decided by. Invariant: pure; made of one view at one time.

use std::collections::BTreeMap;
use std::time::Duration;

use slots::NodeId;

use crate::command::{Args, NodeCx, NodeState, Now, Outcome};
use crate::control::orders::{PeerView, View};

/// Silence after which a node is suspected, as for the acknowledgement of writes (PROTOCOL 5).
pub const SUSPECT_AFTER: Duration = Duration::from_secs(1);
/// Times of answers are told in steps of this, ms: a kept reply is good for as long.
const PONG_STEP_MS: u64 = 1000;

/// How a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// Heard of lately.
    Online,
    /// Silent for over `SUSPECT_AFTER`, or never heard of and without a link.
    Suspect,
    /// Silent for over `cluster-node-timeout`.
    Failed,
}

/// The link to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Is there one?
    pub is_connected: bool,
    /// How the node is.
    pub health: Health,
    /// When it was heard last, unix ms in steps of a second; 0: not known.
    pub pong_ms: u64,
}

/// The links to all other nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Links(BTreeMap<NodeId, Link>);

impl Links {
    /// As the node sees them at this time.
    pub fn of(node: &NodeState, now: Now) -> Links {
        let timeout_ms = node.config.live().cluster_node_timeout_ms.load();
        Links::seen(&node.orders.view(), Duration::from_millis(timeout_ms), now)
    }

    fn seen(view: &View, timeout: Duration, now: Now) -> Links {
        Links(view.peers.iter().map(|peer| (peer.node, link(peer, timeout, now))).collect())
    }

    /// The link to a node; one that nothing is known of has none.
    pub fn to(&self, node: NodeId) -> Link {
        let none = Link { is_connected: false, health: Health::Suspect, pong_ms: 0 };
        self.0.get(&node).copied().unwrap_or(none)
    }
}

fn link(peer: &PeerView, timeout: Duration, now: Now) -> Link {
    let silent = peer.silent_ns.map(Duration::from_nanos);
    let health = match silent {
        Some(silent) if silent > timeout => Health::Failed,
        Some(silent) if silent > SUSPECT_AFTER => Health::Suspect,
        None if !peer.connected => Health::Suspect,
        _ => Health::Online,
    };
    let heard_ms = silent.map(|silent| now.unix_ms.saturating_sub(silent.as_millis() as u64));
    let pong_ms = heard_ms.map_or(0, |ms| ms / PONG_STEP_MS * PONG_STEP_MS);
    Link { is_connected: peer.connected, health, pong_ms }
}

/// CLUSTER LINKS: one link a node, as it carries both directions. What waits to be sent is held in
/// buffers of its own size.
pub(super) fn links(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let view = cx.node.orders.view();
    let connected: Vec<&PeerView> = view.peers.iter().filter(|peer| peer.connected).collect();
    cx.reply.array(connected.len());
    for peer in connected {
        let since_ms = cx.now.unix_ms.saturating_sub(peer.linked_ns.unwrap_or(0) / 1_000_000);
        let (node, unsent) = (peer.node.to_string(), peer.unsent_bytes as i64);
        cx.reply.map(6);
        for (name, value) in [("direction", "to"), ("node", node.as_str())] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.bulk(value.as_bytes());
        }
        cx.reply.bulk(b"create-time");
        cx.reply.int(since_ms as i64);
        cx.reply.bulk(b"events");
        cx.reply.bulk(if unsent > 0 { b"rw" } else { b"r" });
        for name in ["send-buffer-allocated", "send-buffer-used"] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.int(unsent);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { unix_ms: 1_700_000_000_500, mono_ns: 0 };

    fn check(connected: bool, silent_ms: Option<u64>, health: Health, pong_ms: u64) {
        let node = NodeId::from_bytes([1; 20]);
        let peer = PeerView {
            node,
            connected,
            silent_ns: silent_ms.map(|ms| ms * 1_000_000),
            round_trip_ns: None,
            table_version: None,
            server_version: None,
            keys: None,
            linked_ns: None,
            unsent_bytes: 0,
        };
        let view = View { peers: vec![peer], ..View::default() };
        let link = Links::seen(&view, Duration::from_secs(15), NOW).to(node);
        assert_eq!(link, Link { is_connected: connected, health, pong_ms });
    }

    #[test]
    fn silence_makes_a_suspect_and_then_a_failed_node() {
        check(true, Some(0), Health::Online, 1_700_000_000_000);
        check(true, Some(1000), Health::Online, 1_699_999_999_000);
        check(true, Some(1001), Health::Suspect, 1_699_999_999_000);
        check(false, Some(15_000), Health::Suspect, 1_699_999_985_000);
        check(false, Some(15_001), Health::Failed, 1_699_999_985_000);
    }

    #[test]
    fn a_node_never_heard_of_is_a_suspect_until_there_is_a_link() {
        check(false, None, Health::Suspect, 0);
        check(true, None, Health::Online, 0);
        let stranger = NodeId::from_bytes([2; 20]);
        assert_eq!(Links::default().to(stranger).health, Health::Suspect);
    }
}
