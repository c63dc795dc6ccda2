//! What can go wrong with a checkpoint: while one is taken, and while one is read.
//!
//! Not the choice of what to do then. Invariant: a sentence names the file, the place in it, what
//! was expected and what was got, and says what to do next.

use std::fmt;

use slots::SlotId;

use crate::persist::log::{Damage, DiskError};

/// Why a checkpoint is not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckpointError {
    /// The disk refused.
    Disk(DiskError),
    /// Its files are damaged, or some are missing: it must not be used.
    Damaged(Damage),
    /// Written by a newer version of slotd.
    TooNew {
        /// Which file.
        file: String,
        /// Where the number stands.
        offset: u64,
        /// The newest format this version reads.
        expected: u16,
        /// The file's format.
        got: u16,
    },
    /// Another node's checkpoint, or one of another data directory.
    Foreign {
        /// Which file.
        file: String,
        /// Where the id stands.
        offset: u64,
        /// This node's id.
        expected: String,
        /// The file's.
        got: String,
    },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointError::Disk(error) => error.fmt(f),
            CheckpointError::Damaged(Damage { file, offset, expected, got }) => write!(
                f,
                "checkpoint/{file} is damaged at offset {offset}: expected {expected}, got {got}. \
                 Nothing was changed. What to do: manual, chapter disk, `A damaged checkpoint`"
            ),
            CheckpointError::TooNew { file, offset, expected, got } => write!(
                f,
                "checkpoint/{file} has format {got} (offset {offset}), this version reads format \
                 {expected}: start the newer version of slotd that wrote it"
            ),
            CheckpointError::Foreign { file, offset, expected, got } => write!(
                f,
                "checkpoint/{file} was written by {got} (offset {offset}), this is {expected}: the \
                 checkpoint of another data directory lies here; put it back where it came from"
            ),
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<DiskError> for CheckpointError {
    fn from(error: DiskError) -> CheckpointError {
        CheckpointError::Disk(error)
    }
}

/// Damage at an offset.
pub(super) fn damage(
    file: &str,
    offset: u64,
    expected: impl Into<String>,
    got: impl Into<String>,
) -> CheckpointError {
    let (file, expected, got) = (file.to_owned(), expected.into(), got.into());
    CheckpointError::Damaged(Damage { file, offset, expected, got })
}

/// Why there is no new checkpoint. The old one stands; the next round begins anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// The disk refused. If it was a sync the node ends (`DiskError::is_fatal`).
    Disk(DiskError),
    /// Whoever called wanted it no more.
    GivenUp,
    /// The slot began a new epoch each time it was to be read.
    Restless(SlotId),
    /// As many readers are at the slot as may be.
    TooManyReaders(SlotId),
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotTaken::Disk(error) => error.fmt(f),
            NotTaken::GivenUp => write!(f, "the checkpoint was given up"),
            NotTaken::Restless(slot) => {
                write!(f, "slot {} changes hands again and again", slot.number())
            }
            NotTaken::TooManyReaders(slot) => {
                write!(f, "too many readers are at slot {}", slot.number())
            }
        }
    }
}

impl std::error::Error for NotTaken {}

impl From<DiskError> for NotTaken {
    fn from(error: DiskError) -> NotTaken {
        NotTaken::Disk(error)
    }
}
