//! Why a store was not loaded. The rooms hold half of it then: the node must not go on.
//!
//! Not the sentences on single files, which are the checkpoint's and the log's own. Invariant:
//! whichever it is, the operator is told what to do next.

use std::fmt;

use slots::SlotId;

use crate::persist::checkpoint::CheckpointError;
use crate::persist::log::LogError;
use crate::stream::Unfinished;

/// Why a store was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The checkpoint.
    Checkpoint(CheckpointError),
    /// The log, or a record of it that does not fit.
    Log(LogError),
    /// The log of a slot ends before its checkpoint does.
    Unfinished {
        /// The slot.
        slot: SlotId,
        /// What is missing.
        unfinished: Unfinished,
    },
    /// The log ends within a stage whose begin it does not have.
    Headless(SlotId),
    /// A group that is of the slot's content, as the end of the log says, does not fit it.
    Group {
        /// The slot.
        slot: SlotId,
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Checkpoint(error) => error.fmt(f),
            LoadError::Log(error) => error.fmt(f),
            LoadError::Unfinished { slot, unfinished: Unfinished::Short { have, need } } => write!(
                f,
                "slot {}: the checkpoint holds parts of op group {}, the write-ahead log ends at \
                 {}: it is not the log of this checkpoint, or some of it is missing. Nothing was \
                 changed. What to do: manual, chapter disk, `A damaged checkpoint`",
                slot.number(),
                need.0,
                have.0
            ),
            LoadError::Unfinished { slot, unfinished: Unfinished::Missing } => {
                write!(f, "slot {}: a part of it is missing", slot.number())
            }
            LoadError::Headless(slot) => write!(
                f,
                "slot {}: the write-ahead log ends within a copy of it that was on its way in, and \
                 the begin of that copy is missing. Nothing was changed. What to do: manual, \
                 chapter disk, `A damaged write-ahead log`",
                slot.number()
            ),
            LoadError::Group { slot, reason } => write!(
                f,
                "slot {}: the write-ahead log does not fit the checkpoint: {reason}. Nothing was \
                 changed. What to do: manual, chapter disk, `A damaged checkpoint`",
                slot.number()
            ),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<CheckpointError> for LoadError {
    fn from(error: CheckpointError) -> LoadError {
        LoadError::Checkpoint(error)
    }
}

impl From<LogError> for LoadError {
    fn from(error: LogError) -> LoadError {
        LoadError::Log(error)
    }
}
