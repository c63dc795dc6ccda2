//! The slot table's log: the one way the table changes (DESIGN 1.2).
//!
//! `TableLog` is the seam: whoever wants a change proposes it, and learns the verdicts once the
//! change is committed and applied on this node. Today `FixedTable` commits on the spot, on one
//! node; the replicated log takes its place without anyone else noticing.

pub mod annals;
pub mod fixed;
pub mod herald;
pub mod ledger;
pub mod orders;
pub mod raft;
pub mod seat;
pub mod startup;

use std::time::Duration;

use slots::{TableChange, Verdicts};

pub use fixed::FixedTable;

/// Longest wait of `catch_up`: a change of leader takes up to 2.4 s.
pub const CATCH_UP_PATIENCE: Duration = Duration::from_secs(3);

/// Why a proposal came to nothing, or may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposeError {
    /// This node's table is fixed at start and shared with other nodes: no change can be agreed.
    Fixed,
    /// No majority of voters answers: the change was not made.
    NoQuorum,
    /// Whether the change was committed is not known.
    Unknown,
    /// The change is longer than an entry of the log may be: it was not made.
    TooLong {
        /// The most bytes there may be.
        limit: usize,
        /// How many it takes.
        got: usize,
    },
}

/// Called once with the outcome of a proposal.
pub type Proposed = Box<dyn FnOnce(Result<Verdicts, ProposeError>) + Send>;

/// Called once: `true` if this node knows all that was agreed on when it was asked.
pub type CaughtUp = Box<dyn FnOnce(bool) + Send>;

/// The table's log.
pub trait TableLog: Send + Sync {
    /// Proposes a change for `actor` (a client, or `itself`; history shows it). `done` is called
    /// once, after this node has applied the change or the time is up; it must not block.
    fn propose(&self, change: TableChange, actor: &str, done: Proposed);

    /// Waits until this node has applied every change that any node was told of before this call,
    /// so that what it judges next is judged by no older table. `done` is called once, with `false`
    /// after `CATCH_UP_PATIENCE` or when nobody can say; it must not block.
    fn catch_up(&self, done: CaughtUp);
}
