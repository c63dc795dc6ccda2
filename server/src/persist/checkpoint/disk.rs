//! The seam to the files of checkpoints: a folder of files that are written from front to end.
//!
//! Not a choice of what to write. The real one is `io/checkpoint`, the other one the simulated
//! disk of the log. Invariant: what `sync` returned for is on the disk; all else may be lost, in
//! any part, when the machine stops, and nothing of it when only the process dies.

use crate::persist::log::DiskError;

/// One folder of files. Each call is carried out before it returns.
pub trait CheckpointDisk {
    /// A file that is being written.
    type File: PartFile;

    /// The files and their lengths, in any order.
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError>;
    /// Fills the buffer from a file. A file that ends before it is an error.
    fn read(&self, file: &str, offset: u64, into: &mut [u8]) -> Result<(), DiskError>;
    /// A new, empty file. One that is there is replaced.
    fn create(&self, file: &str) -> Result<Self::File, DiskError>;
    /// A file takes another's name and place, whole or not at all.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;
    /// A file goes; none is there: nothing happens.
    fn remove(&self, file: &str) -> Result<(), DiskError>;
    /// The names of the files reach the disk.
    fn sync_folder(&self) -> Result<(), DiskError>;
}

/// A file that is being written.
pub trait PartFile {
    /// Writes at the end. After an error nobody knows how much of it is there.
    fn append(&mut self, bytes: &[u8]) -> Result<(), DiskError>;
    /// All that was written before the call is on the disk.
    fn sync(&mut self) -> Result<(), DiskError>;
}
