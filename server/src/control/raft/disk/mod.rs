//! The bytes of the table's log on disk, and the rules of writing and recovering them (manual,
//! chapter disk). No file is touched here: `RaftDisk` is the seam, `io/raft_disk` the edge.
//!
//! ```text
//!   store.rs --Job--> Writer --> Journal --> RaftDisk (a folder, or `sim` in tests)
//!   machine.rs --------^  (order, syncs,   (segments,
//!                          full disk,       records)
//!                          fatal errors)
//! ```
//! Invariant: what a `Done` was told is written survives any crash; nothing is acknowledged twice.

mod error;
mod journal;
#[cfg(test)]
pub(crate) mod kit;
mod record;
mod recover;
mod segment;
pub mod sim;
mod snap;
mod vote;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{Damage, DiskError, Doing, StoreError};
pub use journal::{Journal, Sizes};
pub use record::{MAX_ENTRY_BYTES, Record, entry_content};
pub use recover::{Cut, Recovered};
pub use snap::{MAX_SNAPSHOT_BYTES, MAX_SNAPSHOT_FILE_BYTES, Snap};
pub use writer::{Desk, Done, Gauge, Job, OnFatal, Work, Writer};

use crate::control::raft::types::{Member, TableRaft};

/// A place in the log.
pub type LogId = openraft::LogId<Member>;
/// An entry of the log.
pub type LogEntry = openraft::Entry<TableRaft>;
/// A vote.
pub type Vote = openraft::Vote<Member>;

/// The file of the vote.
pub const VOTE_FILE: &str = "raft.vote";
/// The file of the snapshot.
pub const SNAPSHOT_FILE: &str = "table.snap";
/// The log's segments: this and a number of eight digits.
pub const SEGMENT_PREFIX: &str = "raft.log.";
/// The segment that is made ahead.
pub const SPARE_FILE: &str = "raft.log.spare";
/// What a file is called while it is written; a rename puts it in its place.
pub const UNFINISHED_SUFFIX: &str = ".tmp";
/// Bytes of a segment: a hundred thousand usual changes, and any change fits several times.
pub const SEGMENT_BYTES: u32 = 32 * 1024 * 1024;

/// A segment's file.
fn segment_file(number: u32) -> String {
    format!("{SEGMENT_PREFIX}{number:08}")
}

/// The number of a segment's file; `None` for any other file.
fn segment_number(file: &str) -> Option<u32> {
    let number = file.strip_prefix(SEGMENT_PREFIX)?.parse().ok()?;
    (segment_file(number) == file).then_some(number)
}

/// One folder of files. Each call is carried out before it returns; what is not synced may be
/// lost, in any part, when the machine stops. Errors name the file; `DiskError::full` tells a full
/// disk, which may be tried again, from all others, which may not.
pub trait RaftDisk: Send {
    /// The files and their lengths, in any order.
    fn list(&mut self) -> Result<Vec<(String, u64)>, DiskError>;
    /// A whole file; `None` if it is not there. A file of more than `max_bytes` is an error.
    fn read(&mut self, file: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DiskError>;
    /// A new file of so many zero bytes that have their room on the disk, synced. A file that is
    /// there is replaced. A full disk leaves no file behind.
    fn allocate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError>;
    /// A new file of these bytes, not synced. A file that is there is replaced.
    fn write_new(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError>;
    /// Bytes into a file that is there, not synced.
    fn write_at(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;
    /// A file's bytes and length reach the disk.
    fn sync(&mut self, file: &str) -> Result<(), DiskError>;
    /// A file takes another's name and place, whole or not at all.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;
    /// A file goes.
    fn remove(&mut self, file: &str) -> Result<(), DiskError>;
    /// The names of the files reach the disk.
    fn sync_folder(&mut self) -> Result<(), DiskError>;
}

/// Replaces a small file so that a crash leaves the old one or the new one, and syncs it.
fn replace(disk: &mut impl RaftDisk, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let unfinished = format!("{file}{UNFINISHED_SUFFIX}");
    disk.write_new(&unfinished, bytes)?;
    disk.sync(&unfinished)?;
    disk.rename(&unfinished, file)?;
    disk.sync_folder()
}

/// Reads little-endian fields in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn rest(self) -> &'a [u8] {
        self.0
    }
}
