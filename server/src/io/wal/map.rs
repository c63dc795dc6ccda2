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
/// Of a line of the processor's caches.
const LINE_BYTES: usize = 64;
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
    /// Gives pages their entries in the page table, as if someone wrote to each. Where the kernel
    /// knows no such thing (before Linux 5.14) or has no memory, the first store to a page does it.
    fn populate(&self, offset: usize, bytes: usize) {
        let how = libc::MADV_POPULATE_WRITE;
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
/// the map that finds no room for one kills the process (SIGBUS). A new file gets its length by it.
/// False where blocks mean nothing (ZFS): there is no promise of room to be had.
pub(super) fn allocate(file: &File, length: u64) -> io::Result<bool> {
    let length = i64::try_from(length).map_err(io::Error::other)?;
    loop {
        // SAFETY: the descriptor is open; no memory is handed over.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
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

    #[inline]
    fn sum(seed: u32, bytes: &[u8]) -> u32 {
        sum(seed, bytes)
    }

    #[inline]
    fn fetch(address: *const u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint: it changes nothing and cannot fault, whatever the address. Processors
        // that do not know it take it for none. (The intrinsic asks for the line to be read: one
        // that another processor has changed comes twice then.)
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }

    fn load(&self) {
        read_in_pages(&self.file);
        let length = libc::off_t::try_from(self.bytes).unwrap_or(0);
        // SAFETY: the descriptor is open; no memory is handed over. It is advice.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), 0, length, libc::POSIX_FADV_WILLNEED) };
    }

    fn ready(&self, offset: u64, bytes: usize) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.populate(offset, bytes);
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
        // SAFETY: the offset lies within the map (asserted), so the sum does not overflow.
        let start = unsafe { self.start.add(offset) };
        MappedPiece { start, bytes, file: Arc::clone(self) }
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
    start: NonNull<u8>,
    bytes: usize,
    /// Keeps the map.
    file: Arc<MappedFile>,
}

// SAFETY: the pointer is into a map that lives as long as the piece, see `MappedFile`; the piece is
// the only one that touches its bytes, on whichever thread it is.
unsafe impl Send for MappedPiece {}

impl Piece for MappedPiece {
    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.bytes), "{at} and {} more", bytes.len());
        // SAFETY: the range lies in this piece (asserted), which lies in the map and which nothing
        // else touches; `bytes` is no part of the map, as nobody gets a reference into it.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len())
        }
    }

    #[inline]
    fn publish(&mut self, at: usize, word: [u8; 8]) {
        let fits = at.checked_add(8).is_some_and(|end| end <= self.bytes);
        let place = self.start.as_ptr().wrapping_add(at).cast::<u64>();
        assert!(fits && place.is_aligned(), "a word at {at}");
        // SAFETY: the word lies in this piece, at a multiple of 8 (asserted).
        let place = unsafe { AtomicU64::from_ptr(place) };
        place.store(u64::from_ne_bytes(word), Ordering::Release);
    }

    #[inline]
    fn expect(&self, at: usize, bytes: usize) {
        let start = self.start.as_ptr().wrapping_add(at);
        for line in (0..bytes + LINE_BYTES - 1).step_by(LINE_BYTES) {
            MappedFile::fetch(start.wrapping_add(line));
        }
    }
}

impl Drop for MappedPiece {
    fn drop(&mut self) {
        let offset = self.start.as_ptr() as usize - self.file.start.as_ptr() as usize;
        let part = (offset, self.bytes);
        self.file.owned.lock().retain(|owned| *owned != part);
    }
}

/// CRC32C of a few bytes: where the processor has an instruction for it, a chain of them. More go
/// to the crate, which runs three chains at once; for a record of a hundred bytes it takes five
/// times as many instructions to get there.
#[inline]
fn sum(seed: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < CHAINED_BYTES && std::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions (asked just before).
        return unsafe { chained(seed, bytes) };
    }
    crc32c::crc32c_append(seed, bytes)
}

/// From so many bytes on the crate is faster.
#[cfg(target_arch = "x86_64")]
const CHAINED_BYTES: usize = 768;

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2")]
fn chained(seed: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let long = |sum, word: &[u8; 8]| _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    let sum = words.iter().fold(u64::from(!seed), long) as u32;
    let (words, rest) = rest.as_chunks::<4>();
    let short = |sum, word: &[u8; 4]| _mm_crc32_u32(sum, u32::from_le_bytes(*word));
    let sum = words.iter().fold(sum, short);
    !rest.iter().fold(sum, |sum, byte| _mm_crc32_u8(sum, *byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_a_checksum_agree() {
        let bytes: Vec<u8> =
            (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for from in 0..9 {
            for to in (from..200).chain([760, 767, 768, 769, 2000]) {
                for seed in [0, 7, u32::MAX] {
                    let part = &bytes[from..to];
                    assert_eq!(
                        sum(seed, part),
                        crc32c::crc32c_append(seed, part),
                        "{from} to {to}"
                    );
                }
            }
        }
    }
}
