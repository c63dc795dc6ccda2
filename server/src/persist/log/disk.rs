//! The seam to the files: a folder of files that are mapped into memory.
//!
//! Not a choice of what to write. The real one is `io/wal`, the other one `sim`.
//! Invariant: what `sync` returned for is on the disk; all else may be lost, in any part, when the
//! machine stops, and nothing of it when only the process dies.

use std::sync::Arc;

use super::error::DiskError;

/// One folder of files. Each call is carried out before it returns.
pub trait WalDisk: Send + Sync + 'static {
    /// A mapped file.
    type File: LogFile;

    /// The files and their lengths, in any order.
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError>;
    /// Fills the buffer from a file. A file that ends before it is an error.
    fn read(&self, file: &str, offset: u64, into: &mut [u8]) -> Result<(), DiskError>;
    /// Maps a file that is there. It will be called `name`, in the log `number`.
    fn open(&self, file: &str, name: &str, number: u64) -> Result<Arc<Self::File>, DiskError>;
    /// A new file of so many zero bytes, synced: later writes need no room. A file that is there is
    /// replaced. After an error there is no such file.
    fn create(&self, file: &str, bytes: u64, fill: Fill) -> Result<(), DiskError>;
    /// A file takes another's name and place, whole or not at all.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;
    /// A file goes.
    fn remove(&self, file: &str) -> Result<(), DiskError>;
    /// The names of the files reach the disk.
    fn sync_folder(&self) -> Result<(), DiskError>;
}

/// How a new file comes to its zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// They are written: a sync of what replaces them later has nothing else to note (ext4: 0.09 ms
    /// instead of 0.20). For who waits for each sync.
    Written,
    /// The file system gives the room and knows that nothing is in it; it notes what is written
    /// with each sync. Half the work for who syncs once a second, or once at all.
    Given,
}

/// A mapped file.
pub trait LogFile: Send + Sync + 'static {
    /// A part of it that one owner writes.
    type Piece: Piece;

    /// CRC32C of bytes, begun with another's. A seam, as what is fast for a few bytes is made of
    /// the processor's instructions.
    #[inline]
    fn sum(seed: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(seed, bytes)
    }
    /// A hint: what lies at this address is soon changed by the caller, so its cache line is
    /// wanted here. It may do nothing.
    #[inline]
    fn fetch(_address: *const u8) {}
    /// What the file is called in the log.
    fn number(&self) -> u64;
    /// The part from `offset` on. Parts that are owned at the same time do not overlap: asserted.
    fn piece(self: &Arc<Self>, offset: u64, bytes: usize) -> Self::Piece;
    /// Brings all of it into memory, if it is not: no store to it waits for the disk. It may do
    /// nothing.
    fn load(&self);
    /// A part is soon written, before the next sync: what a first store to a page costs is paid
    /// now. It may do nothing.
    fn ready(&self, offset: u64, bytes: usize);
    /// All that was written to its pieces before the call is on the disk.
    fn sync(&self) -> Result<(), DiskError>;
}

/// A part of a mapped file. Writes beyond its end are asserted not to happen.
pub trait Piece: Send {
    /// Copies bytes.
    fn write(&mut self, at: usize, bytes: &[u8]);
    /// Stores eight bytes at a multiple of 8 at once, after all that was written before: a process
    /// that is killed leaves them only with what they vouch for.
    fn publish(&mut self, at: usize, word: [u8; 8]);
    /// A hint: so many bytes from here on are written next. It may do nothing.
    #[inline]
    fn expect(&self, _at: usize, _bytes: usize) {}
}
