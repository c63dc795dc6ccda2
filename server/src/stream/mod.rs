//! The stream of a slot: a snapshot followed by its op groups, numbered (DESIGN 1.3, 5).
//!
//! ```text
//!   Owned ---- codec ----> group --> Journal (a log, a link)      slot/journal.rs
//!   room --- snapshot ---> chunks                |
//!                            +-----> sink <------+                --> Replay --> room or stage
//!   room --- source: a snapshot, and the groups of a tap between its chunks --> a section
//! ```
//! Pure: no file, no thread, no clock. Not a log and not a link: they frame and checksum what is
//! encoded here, and decide what to keep. The bytes are drawn in `manual/stream`.
//! Invariant (INV-8): chunks and groups of one slot, in any order the sink accepts, end in the
//! same keys, expiries, values and encodings.

mod bytes;
pub mod chunk;
pub mod codec;
mod coverage;
pub mod section;
mod sense;
pub mod sink;
pub mod snapshot;
pub mod source;
#[cfg(test)]
pub(crate) mod tests;
mod value;

pub use bytes::Broken;
pub use codec::{Ops, Scratch, put_op};
pub use section::{Arrival, BadFrame, SectionEnd, groups_of};
pub use sink::{Mismatch, Sink, Unfinished};
pub use snapshot::{Budget, Snapshot, Unreadable, empty_chunk};
pub use source::{Interrupted, Piece, Source};
