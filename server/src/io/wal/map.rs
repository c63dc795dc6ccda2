//! A file of the write-ahead log, mapped into memory: the place of the unsafe code.
//!
//! Not the choice of what to write. A file that another process shortens kills this one (SIGBUS);
//! the data directory is locked. Invariant: two pieces of a map never overlap, so a piece is the
//! only one that touches its bytes.

#![allow(unsafe_code, reason = "mmap has no safe wrapper in std; copies go through raw pointers")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::persist::log::{DiskError, Doing, LogFile, Piece};

/// What `stat` counts blocks in, whatever the file system's are.
const STAT_BLOCK_BYTES: u64 = 512;
/// The smallest page there is. Where they are larger a range that begins within one is refused, and
/// nothing is lost but time.
const PAGE_BYTES: usize = 4096;
/// Of one call: the kernel holds a lock of the whole process meanwhile, some 10 us.
const POPULATE_BYTES: usize = 64 * 1024;

/// A mapped file.
#[derive(Debug)]
pub struct MappedFile {
    file: File,
    /// As the operator finds it.
    path: PathBuf,
    number: u64,
    start: NonNull<u8>,
    bytes: usize,
    /// Offset and length of each piece there is.
    owned: Mutex<Vec<(usize, usize)>>,
}

// SAFETY: the pointer is to a map that lives until the last handle is dropped, at the same address
// for all threads; its bytes are touched through pieces only, which do not overlap.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    pub(super) fn map(file: File, path: PathBuf, number: u64) -> io::Result<MappedFile> {
        let metadata = file.metadata()?;
        let length = metadata.len();
        let bytes = usize::try_from(length).map_err(io::Error::other)?;
        if bytes == 0 {
            return Err(io::Error::other("the file is empty"));
        }
        if metadata.blocks() * STAT_BLOCK_BYTES < length {
            allocate(&file, length)?;
        }
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new map at an address of the kernel's choice; the descriptor is open.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(MappedFile { file, path, number, start, bytes, owned: Mutex::default() })
    }
}

impl MappedFile {
    /// Gives pages their entries in the page table, as if someone read or wrote each. Where the
    /// kernel knows no such thing (before Linux 5.14) or has no memory, the first store to a page
    /// does it.
    fn populate(&self, offset: usize, bytes: usize, how: libc::c_int) {
        let end = offset.saturating_add(bytes).min(self.bytes);
        for start in (offset - offset % PAGE_BYTES..end).step_by(POPULATE_BYTES) {
            let bytes = POPULATE_BYTES.min(end - start);
            // SAFETY: the range lies in the map and begins at a page of it. No byte changes, so it
            // does not matter who owns a piece of the range, or writes to it meanwhile.
            let failed =
                unsafe { libc::madvise(self.start.as_ptr().add(start).cast(), bytes, how) != 0 };
            if failed {
                return;
            }
        }
    }
}

/// Fills the holes of a file: a copy or a restore may have made them out of zeros, and a write to
/// the map that finds no room for one kills the process (SIGBUS).
fn allocate(file: &File, length: u64) -> io::Result<()> {
    let length = i64::try_from(length).map_err(io::Error::other)?;
    loop {
        // SAFETY: the descriptor is open; no memory is handed over.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // Where blocks mean nothing (ZFS) there is no promise of room to be had.
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// What is read of the file comes into memory in single pages, for the reason of `ZERO_BYTES`: the
/// log goes on in files that a start has read.
pub(super) fn read_in_pages(file: &File) {
    // SAFETY: the descriptor is open; no memory is handed over. It is advice: a refusal is fine.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

impl LogFile for MappedFile {
    type Piece = MappedPiece;

    fn load(&self) {
        self.populate(0, self.bytes, libc::MADV_POPULATE_READ);
    }

    fn ready(&self, offset: u64, bytes: usize) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.populate(offset, bytes, libc::MADV_POPULATE_WRITE);
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn piece(self: &Arc<Self>, offset: u64, bytes: usize) -> MappedPiece {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = offset.saturating_add(bytes);
        assert!(end <= self.bytes, "{offset} to {end} of {}", self.path.display());
        let mut owned = self.owned.lock();
        let overlaps = owned.iter().any(|(from, length)| *from < end && offset < from + length);
        assert!(!overlaps, "{offset} to {end} of {} is owned", self.path.display());
        owned.push((offset, bytes));
        MappedPiece { file: Arc::clone(self), offset, bytes }
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|error| DiskError {
            doing: Doing::Sync,
            file: self.path.display().to_string(),
            reason: error.to_string(),
        })
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the map was made with this length, and no piece of it is left: each holds an Arc.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A part of a mapped file.
#[derive(Debug)]
pub struct MappedPiece {
    file: Arc<MappedFile>,
    offset: usize,
    bytes: usize,
}

impl Piece for MappedPiece {
    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.bytes), "{at} and {} more", bytes.len());
        // SAFETY: the range lies in this piece, which lies in the map (both asserted) and which
        // nothing else touches; `bytes` is no part of the map, as nobody gets a reference into it.
        unsafe {
            let to = self.file.start.as_ptr().add(self.offset + at);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    #[inline]
    fn publish(&mut self, at: usize, word: [u8; 8]) {
        let fits = at.checked_add(8).is_some_and(|end| end <= self.bytes);
        assert!(fits && (self.offset + at).is_multiple_of(8), "a word at {at}");
        // SAFETY: the word lies in this piece (asserted) and, as the map begins at a page, at a
        // multiple of 8.
        let place = unsafe {
            AtomicU64::from_ptr(self.file.start.as_ptr().add(self.offset + at).cast::<u64>())
        };
        place.store(u64::from_ne_bytes(word), Ordering::Release);
    }
}

impl Drop for MappedPiece {
    fn drop(&mut self) {
        let part = (self.offset, self.bytes);
        self.file.owned.lock().retain(|owned| *owned != part);
    }
}
