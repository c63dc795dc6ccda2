//! What an operator may ask of the cluster beyond one change of the table: join, leave, votes.
//!
//! Not the carrying out, which takes several entries of the log and talks to other nodes
//! (`raft/`). The seam lets the commands be tested without a cluster.
//!
//! Invariant: an order ends with one word to who gave it; unfinished work may be ordered again.

use slots::{Endpoint, NodeId};

pub use crate::peer::{PeerView, Traffic};

/// An order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// CLUSTER MEET, `slotctl node add`, `--join`: this node's cluster and that of the node at
    /// `bus` become one. A cluster of one node without keys dissolves into the other if their
    /// slots do not overlap; anything else is refused.
    Meet {
        /// Where the other node listens for nodes.
        bus: Endpoint,
    },
    /// CLUSTER FORGET, `slotctl node remove`: the vote moves first, then `RemoveNode`. Done
    /// already (a tombstone): fine.
    Remove {
        /// Who goes.
        node: NodeId,
    },
    /// `slotctl node lost`: a node that will not come back: its vote moves, and with `accept_loss`
    /// the slots it alone held are unassigned; then it is removed.
    Lost {
        /// Who is gone.
        node: NodeId,
        /// May acknowledged writes be given up?
        accept_loss: bool,
    },
    /// `slotctl node replace-voter`: another node votes in its place.
    ReplaceVoter {
        /// Who votes no more.
        old: NodeId,
        /// Who votes now; `None`: the cluster chooses.
        new: Option<NodeId>,
    },
    /// CLUSTER RESET: this node, which owns no slot with keys, leaves everything behind and is a
    /// cluster of its own; `hard` also takes another id.
    Reset {
        /// Another id, too?
        hard: bool,
    },
    /// `slotctl recover`: this node and what it knows are a new generation of the cluster; the
    /// old majority is given up for good.
    Recover,
}

/// Why an order came to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderError {
    /// Not possible, with a sentence that says what to do next.
    Refused(String),
    /// No majority of voters answers: nothing was changed by this order, or it may be given again.
    NoQuorum,
    /// The time was up before the end was known; it may be given again.
    Unknown,
}

/// Called once with the outcome: a sentence of what was done.
pub type Ordered = Box<dyn FnOnce(Result<OrderDone, OrderError>) + Send>;

/// What an order did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderDone {
    /// Was anything changed?
    pub changed: bool,
    /// A sentence for people.
    pub text: String,
}

/// The cluster, as a node sees it besides the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// Raft's term.
    pub term: u64,
    /// The leader, as far as known.
    pub leader: Option<NodeId>,
    /// Is the log alive: a leader known that a majority follows, as far as this node can tell?
    pub has_quorum: bool,
    /// The voters.
    pub voters: Vec<NodeId>,
    /// The nodes the log reaches without a vote.
    pub learners: Vec<NodeId>,
    /// The other nodes, as last heard.
    pub peers: Vec<PeerView>,
}

/// The cluster behind a node.
pub trait Orders: Send + Sync {
    /// Carries out an order for `actor`; tells `done` at the end. Never blocks.
    fn order(&self, order: Order, actor: &str, done: Ordered);
    /// How things stand.
    fn view(&self) -> View;
    /// What went over the links; nothing where there are none.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}
