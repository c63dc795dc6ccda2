//! Node to node: frames, greetings, links. Pure; sockets are in `io/peer`.
//!
//! ```text
//!   bytes <--> link (greeting, then calls and pings) --events--> io/peer
//!                |-- frame, greeting, wire   what is on the wire (manual/wire, byte by byte)
//!                `-- conversation, outbox, inbox   calls in pieces, ids, deadlines, limits
//!   judge: may this node in?   roll: one link per node   book: whom to dial, where, when
//! ```
//! Not what the frames carry: `control/raft` and, later, streams of slots.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use slots::NodeId;

pub mod book;
pub mod conversation;
pub mod frame;
pub mod greeting;
mod identity;
mod inbox;
pub mod judge;
pub mod link;
mod outbox;
pub mod refusal;
pub mod repeats;
pub mod roll;
mod wire;

pub use identity::{Identity, Notice, Notices, PeerStatus, PeerView, Traffic};
pub use outbox::{MAX_CALLS, MAX_MESSAGE_BYTES, MAX_QUEUED_CALL_BYTES};
pub use refusal::RefusalCode;

/// What a call is about; the number is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CallKind {
    /// Raft AppendEntries.
    RaftAppend = 1,
    /// Raft RequestVote.
    RaftVote = 2,
    /// Raft InstallSnapshot, one piece.
    RaftSnapshot = 3,
    /// A table change, forwarded to the leader.
    Propose = 4,
    /// An order (votes, removal), forwarded to the leader.
    Order = 5,
    /// From a node of another cluster, or of none: may we become one? The only kind that a
    /// stranger's link carries.
    Meet = 6,
    /// To the leader: how far must the log be applied to know what was agreed on?
    Read = 7,
    /// From the owner of slots to a node that has, or is to have, copies: `migration/letter`.
    Copy = 8,
}

impl CallKind {
    const ALL: [CallKind; 8] = [
        CallKind::RaftAppend,
        CallKind::RaftVote,
        CallKind::RaftSnapshot,
        CallKind::Propose,
        CallKind::Order,
        CallKind::Meet,
        CallKind::Read,
        CallKind::Copy,
    ];

    /// The kind of this number.
    pub fn from_wire(number: u8) -> Option<CallKind> {
        CallKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallError {
    /// There is no link: nothing was sent.
    NotConnected,
    /// The queue to that node is full: nothing was sent.
    Busy,
    /// Sent, and no answer came in time or the link broke: it may have been carried out.
    NoAnswer,
    /// The other side refused the link or the call, with its reason.
    Refused(String),
}

/// A future in a box.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The way to other nodes.
pub trait Calls: Send + Sync {
    /// Asks a node and waits for its answer for at most `patience`.
    fn call(
        &self,
        to: NodeId,
        kind: CallKind,
        body: Vec<u8>,
        patience: Duration,
    ) -> Boxed<Result<Vec<u8>, CallError>>;
}

/// Whoever answers other nodes' calls.
pub trait Answers: Send + Sync {
    /// Answers a call; an error is a refusal that the caller sees as `CallError::Refused`. The
    /// future is dropped when the caller's patience is over. A `Meet` may come from a node that
    /// is no member, and then `from` is what it says of itself.
    fn answer(&self, from: NodeId, kind: CallKind, body: Vec<u8>)
    -> Boxed<Result<Vec<u8>, String>>;
}
