//! A move of slots, as a state machine: the owner's part and the target's (PROTOCOL 4).
//!
//! ```text
//!   BeginMove in the table --> outgoing (at the owner), one for each slot
//!        copies are filled (`stream`) and counted (`replication`) on the way, by `letter`s
//!   CommitMove in the table --> the target owns, the owner becomes one that is let go
//! ```
//! Pure: no link, no log, no clock of its own. Not the order of slots nor the limits of a node's
//! moves. Invariant (INV-5): a commit is proposed only for a slot that is sealed and whose word was
//! given that it stays so.

pub mod letter;
pub mod outgoing;

pub use outgoing::{Do, Facts, Outcome, Outgoing};
