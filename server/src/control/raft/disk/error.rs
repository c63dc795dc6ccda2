//! What can go wrong with the files of the table's log, each with its file and what to do.
//!
//! Not openraft's errors, which these become at the seam (`store.rs`, `machine.rs`).
//! Invariant: a sentence names the file, what was expected, what was got.

use std::fmt;

use super::UNFINISHED_SUFFIX;

/// What was done to a file when it went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Listing the folder.
    List,
    /// Reading.
    Read,
    /// Making a file of its full length.
    Allocate,
    /// Writing.
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
            Doing::Allocate => "make room for",
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
    /// For want of room: it may be tried again, nothing is lost. A sync never says so.
    pub full: bool,
    /// The system's reason.
    pub reason: String,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DiskError { doing, file, reason, .. } = self;
        write!(f, "cannot {doing} {}: {reason}", file.trim_end_matches(UNFINISHED_SUFFIX))
    }
}

impl std::error::Error for DiskError {}

impl DiskError {
    /// A full disk.
    pub fn no_room(file: &str) -> DiskError {
        let (doing, reason) = (Doing::Write, "no space left on the disk".to_owned());
        DiskError { doing, file: file.to_owned(), full: true, reason }
    }
}

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
             changed. How this node joins again: manual, chapter disk, `A damaged log`"
        )
    }
}

/// Why the files of the table's log do not open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The disk refused.
    Disk(DiskError),
    /// The files are damaged: the node must not start with them.
    Damaged(Damage),
    /// Written by a newer version of slotd.
    TooNew {
        /// Which file.
        file: String,
        /// The newest format this version reads.
        expected: u16,
        /// The file's format.
        got: u16,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Disk(error) => error.fmt(f),
            StoreError::Damaged(damage) => damage.fmt(f),
            StoreError::TooNew { file, expected, got } => write!(
                f,
                "{file} has format {got}, this version reads format {expected}: start the newer \
                 version of slotd that wrote it"
            ),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<DiskError> for StoreError {
    fn from(error: DiskError) -> StoreError {
        StoreError::Disk(error)
    }
}

impl From<Damage> for StoreError {
    fn from(damage: Damage) -> StoreError {
        StoreError::Damaged(damage)
    }
}

impl Damage {
    /// Damage at an offset.
    pub fn at(
        file: &str,
        offset: impl Into<u64>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Damage {
        let (file, offset) = (file.to_owned(), offset.into());
        Damage { file, offset, expected: expected.into(), got: got.into() }
    }
}
