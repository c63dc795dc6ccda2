//! Who a node is, and what is known of another one: what links and their users share.
//!
//! Not the table's row of a node (`slots::NodeRow`), which is agreed; this is what was heard.

use slots::{Boot, Endpoint, NodeId, Nonce, StoreId};

use super::refusal::RefusalCode;

/// Who this process is: one start of one data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// Its data directory.
    pub store: StoreId,
    /// This start's number.
    pub boot: Boot,
    /// This start's random mark.
    pub nonce: Nonce,
}

/// What a node says of itself in every ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerStatus {
    /// Table version it has applied.
    pub table_version: u64,
    /// Keys in the slots it owns.
    pub keys: u64,
    /// Time since its start, ms.
    pub uptime_ms: u64,
}

/// Another node, as last heard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerView {
    /// Who.
    pub node: NodeId,
    /// Is there a link?
    pub connected: bool,
    /// Time since the last frame came, ns; `None`: none ever came.
    pub silent_ns: Option<u64>,
    /// Last ping round trip, ns.
    pub round_trip_ns: Option<u64>,
    /// Table version it had applied.
    pub table_version: Option<u64>,
    /// Its server version.
    pub server_version: Option<String>,
    /// Keys in the slots it owns.
    pub keys: Option<u64>,
    /// How long the link has been there, ns; `None`: there is none.
    pub linked_ns: Option<u64>,
    /// Bytes of calls and answers that wait to be sent over it.
    pub unsent_bytes: u64,
}

/// Frames on links to other nodes, greetings and pings included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Given to the socket.
    pub sent: u64,
    /// Taken from it, whole and undamaged.
    pub received: u64,
}

/// Something about links that the node may have to act on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A link to this node may be used.
    LinkUp {
        /// Who.
        node: NodeId,
        /// Its start.
        boot: Boot,
        /// Where it said that nodes reach it.
        bus: Endpoint,
    },
    /// The link is gone; the reason is a sentence.
    LinkDown {
        /// Who.
        node: NodeId,
        /// Why.
        why: String,
    },
    /// A node that proved to know the secret refuses us as a member. `Outdated` and
    /// `OldGeneration` mean that this process must not go on; `Doubled` and `IdInUse` the same,
    /// unless the table holds this very start, and then the other one must stop, or the start that
    /// is known was an earlier one of this very directory; `Removed` that we
    /// were taken out of the cluster. Said again at each try.
    RefusedBy {
        /// Who refuses.
        node: NodeId,
        /// Its reason.
        code: RefusalCode,
        /// See `Refusal::detail`.
        detail: u64,
        /// The same for people.
        text: String,
    },
    /// A newer start of our own data directory greeted: this process must not go on.
    Superseded {
        /// Its boot.
        boot: Boot,
    },
    /// A node of a later generation of our cluster greeted: ours was given up.
    NewerGeneration {
        /// Who.
        node: NodeId,
        /// Its generation.
        generation: u64,
    },
}

/// Whoever wants to know. Called without any lock held; must not block.
pub trait Notices: Send + Sync {
    /// Something happened.
    fn notice(&self, notice: Notice);
}
