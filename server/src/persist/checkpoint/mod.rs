//! Checkpoints: all slots of a node in a few files, so that the log before them can go (manual,
//! chapter disk). No file is touched here: `CheckpointDisk` is the seam, `io/checkpoint` the edge.
//!
//! ```text
//!   rooms --Snapshot, slot by slot--> take --> part.N.K ... , then the manifest: it is valid
//!   manifest --> Checkpoint::find --> slots, their chunks --> persist/recovery
//! ```
//! Not the log, which has what was written since. Invariant: a crash at any step leaves the old
//! checkpoint or the new one, whole.

mod disk;
mod error;
mod format;
mod read;
mod take;

#[cfg(test)]
pub(in crate::persist) mod tests;

pub use disk::{CheckpointDisk, PartFile};
pub use error::{CheckpointError, NotTaken};
pub use format::{CHECKPOINT_FORMAT, SlotEntry};
pub use read::{Checkpoint, Chunks};
#[cfg(test)]
pub(in crate::persist) use take::{Measure, take_by};
pub use take::{
    Progress, RoundAbout, RoundEdge, Taken, floors, remove_all, remove_leftovers, take,
};
