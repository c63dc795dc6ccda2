//! The gate: a reply leaves when the ops it depends on are as safe as the node promises.
//!
//! Pure: bytes, tags and watermarks in, bytes out. Not the writing to sockets, not the waking of
//! connections, and not what makes an op safe (a log synced, members that acknowledged): whoever
//! knows that says it as `Safety`.
//!
//! After a batch of requests a session asks, cheapest first:
//!   `batch.is_empty() && queue.is_empty()`   nothing promised: write straight, nothing is copied
//!   `batch.is_safe(..) && queue.is_empty()`  all safe by now: write straight
//!   else `queue.take(..)`, then `release` whenever more is safe.
//!
//! Invariant: INV-7, a reply leaves only when its op is as safe as promised; replies keep order.

mod batch;
mod grants;
mod queue;
mod watermarks;

pub use batch::{Batch, Fallback, MAX_FALLBACK_BYTES};
pub use grants::{Grants, MAX_GRANTS_PER_GIVER, Usable};
pub use queue::{Bounds, Pressure, ReplyQueue};
pub use watermarks::{Safety, Watermarks};

/// What a reply waits for: everything in `lane` up to `position` held by the members of `set`.
///
/// A write's reply has the place of its op group; a read's that of the newest op of its slot
/// (PROTOCOL R12), unless that is safe already.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tag {
    /// The lane the op was encoded into.
    pub lane: u16,
    /// Its place there; grows with every op of the lane.
    pub position: u64,
    /// Number of the set of counted members whose acknowledgements it needs (PROTOCOL R4).
    pub set: u32,
}
