//! What can go wrong with the files of the write-ahead log, each with its file and what to do.
//!
//! Not the table's log, which has its own (`control/raft/disk`). Invariant: a sentence names the
//! file, what was expected, what was got.

use std::fmt;

/// What was done to a file when it went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Listing the folder.
    List,
    /// Reading.
    Read,
    /// Opening and mapping.
    Open,
    /// Making a file of its full length.
    Create,
    /// Writing at the end of a file.
    Write,
    /// Syncing.
    Sync,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::List => "list",
            Doing::Read => "read",
            Doing::Open => "open",
            Doing::Create => "make",
            Doing::Write => "write",
            Doing::Sync => "sync",
            Doing::Rename => "rename",
            Doing::Remove => "remove",
        })
    }
}

/// The disk refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    /// What was done.
    pub doing: Doing,
    /// To which file, as the operator finds it.
    pub file: String,
    /// The system's reason, with its number.
    pub reason: String,
}

impl DiskError {
    /// After a sync that failed nobody knows what is on the disk: the node ends. Anything else
    /// leaves the log as it was and may be tried again.
    pub fn is_fatal(&self) -> bool {
        self.doing == Doing::Sync
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DiskError { doing, file, reason } = self;
        write!(f, "cannot {doing} {file}: {reason}")
    }
}

impl std::error::Error for DiskError {}

/// A file is not what was written: its bytes changed, or files are missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Where.
    pub file: String,
    /// The first byte of what is wrong.
    pub offset: u64,
    /// What had to be there.
    pub expected: String,
    /// What is there.
    pub got: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, offset, expected, got } = self;
        write!(
            f,
            "{file} is damaged at offset {offset}: expected {expected}, got {got}. Nothing was \
             changed. What to do: manual, chapter disk, `A damaged write-ahead log`"
        )
    }
}

/// Why a write-ahead log is not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogError {
    /// The disk refused.
    Disk(DiskError),
    /// The files are damaged: the node must not start with them.
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
    /// Another node's file, or one of another data directory.
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

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Disk(error) => error.fmt(f),
            LogError::Damaged(damage) => damage.fmt(f),
            LogError::TooNew { file, offset, expected, got } => write!(
                f,
                "{file} has format {got} (offset {offset}), this version reads format {expected}: \
                 start the newer version of slotd that wrote it"
            ),
            LogError::Foreign { file, offset, expected, got } => write!(
                f,
                "{file} was written by {got} (offset {offset}), this is {expected}: the log of \
                 another data directory lies here; put it back where it came from"
            ),
        }
    }
}

impl std::error::Error for LogError {}

impl From<DiskError> for LogError {
    fn from(error: DiskError) -> LogError {
        LogError::Disk(error)
    }
}

impl Damage {
    /// Damage at an offset, as an error.
    pub(super) fn at(
        file: &str,
        offset: u64,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> LogError {
        let (file, expected, got) = (file.to_owned(), expected.into(), got.into());
        LogError::Damaged(Damage { file, offset, expected, got })
    }
}
