//! What a node tells Prometheus: the metrics declared, the text they are told in, and the few
//! words of HTTP they are asked for with.
//!
//! Not where the numbers come from (`command/scrape`, and whoever implements [`MetricsSource`])
//! nor the socket (`io/metrics`).
//!
//! Invariant: a metric is declared once, and told and documented from its declaration.

pub mod declared;
mod docs;
pub mod http;
mod text;

use std::time::Duration;

pub use declared::{Kind, Metric};
pub use docs::docs;
pub use text::{Exposition, Number, Samples};

/// What the table's log and the links between nodes add to the metrics of a node.
pub trait MetricsSource: Send + Sync {
    /// The figures as of now. Called once for a scrape; must not block.
    fn cluster(&self) -> ClusterFigures;

    /// Why the node cannot serve, if it cannot: a sentence without its end, for `/healthz`.
    fn unready(&self) -> Option<String> {
        None
    }
}

/// The log and the links as one node sees them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClusterFigures {
    /// Raft's term.
    pub term: u64,
    /// Is a leader known?
    pub has_leader: bool,
    /// Is it this node?
    pub is_leader: bool,
    /// Does a majority of voters follow the leader, as far as this node knows?
    pub has_quorum: bool,
    /// Voters, this node counted if it is one.
    pub voters: u64,
    /// Nodes that follow the log without a vote.
    pub learners: u64,
    /// The other nodes.
    pub peers: Vec<PeerFigures>,
}

/// One other node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PeerFigures {
    /// Its name; one of a kind.
    pub name: String,
    /// How long nothing was heard of it; `None`: nothing was ever heard.
    pub silence: Option<Duration>,
    /// The last round trip measured.
    pub round_trip: Option<Duration>,
}
