//! The slot table's log: the one way the table changes (DESIGN 1.2).
//!
//! `TableLog` is the seam: whoever wants a change proposes it, and learns the verdicts once the
//! change is committed and applied on this node. Today `FixedTable` commits on the spot, on one
//! node; the replicated log takes its place without anyone else noticing.

pub mod fixed;

use slots::{TableChange, Verdicts};

pub use fixed::FixedTable;

/// Why a proposal came to nothing, or may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposeError {
    /// This node's table is fixed at start and shared with other nodes: no change can be agreed.
    Fixed,
    /// Whether the change was committed is not known.
    Unknown,
}

/// Called once with the outcome of a proposal.
pub type Proposed = Box<dyn FnOnce(Result<Verdicts, ProposeError>) + Send>;

/// The table's log.
pub trait TableLog: Send + Sync {
    /// Proposes a change. `done` is called after this node has applied it.
    fn propose(&self, change: TableChange, done: Proposed);
}
