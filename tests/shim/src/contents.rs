//! The bytes of files as they were synced last.
//!
//! Files of a log are large, mapped and synced often, so only pages that differ are copied.
//! Invariant: a shadow's bytes were in the file at or after the call of its last finished sync.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex};

use libc::c_void;

use crate::place::{id_of, lock};

const PAGE_BYTES: usize = 4096;

/// The shadow of all files.
pub(crate) struct Contents {
    shadow: PathBuf,
    files: Mutex<HashMap<String, Arc<Mutex<Twins>>>>,
}

impl Contents {
    pub(crate) fn new(shadow: PathBuf) -> Self {
        Self { shadow, files: Mutex::new(HashMap::new()) }
    }

    /// The bytes of the file are safe now.
    pub(crate) fn synced(&self, file: &File, meta: &Metadata) -> io::Result<()> {
        let id = id_of(meta);
        let twins = lock(&self.files).entry(id.clone()).or_default().clone();
        let mut twins = lock(&twins);
        let length = usize::try_from(meta.len()).map_err(io::Error::other)?;
        if twins.bytes != length || length == 0 {
            *twins = Twins::default();
            let mut options = OpenOptions::new();
            let path = self.shadow.join(&id);
            let shadow = options.create(true).truncate(false).read(true).write(true).open(path)?;
            shadow.set_len(meta.len())?;
            *twins = Twins::map(file, &shadow, length)?;
        }
        twins.copy();
        Ok(())
    }
}

/// A file and its shadow, both mapped.
struct Twins {
    file: *mut c_void,
    shadow: *mut c_void,
    bytes: usize,
}

// SAFETY: the maps are at the same address for all threads; who uses them holds the lock.
unsafe impl Send for Twins {}

impl Default for Twins {
    fn default() -> Self {
        Self { file: ptr::null_mut(), shadow: ptr::null_mut(), bytes: 0 }
    }
}

impl Twins {
    fn map(file: &File, shadow: &File, bytes: usize) -> io::Result<Twins> {
        if bytes == 0 {
            return Ok(Twins::default());
        }
        let map = |file: &File, rights| {
            let (kind, fd) = (libc::MAP_SHARED, file.as_raw_fd());
            // SAFETY: a new map at an address of the kernel's choice.
            let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, fd, 0) };
            if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start) }
        };
        let mut twins = Twins { file: map(file, libc::PROT_READ)?, ..Twins::default() };
        twins.bytes = bytes;
        twins.shadow = map(shadow, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(twins)
    }

    /// The server goes on writing to the file: what is compared and copied are bytes of now.
    fn copy(&mut self) {
        for at in (0..self.bytes).step_by(PAGE_BYTES) {
            let length = PAGE_BYTES.min(self.bytes - at);
            // SAFETY: both maps have `bytes` bytes, and nobody else touches the shadow's.
            unsafe {
                let (from, to) = (self.file.add(at), self.shadow.add(at));
                if libc::memcmp(from, to, length) != 0 {
                    ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), length);
                }
            }
        }
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        for map in [self.file, self.shadow] {
            if !map.is_null() {
                // SAFETY: made with this length, and nothing of it is used any more.
                unsafe { libc::munmap(map, self.bytes) };
            }
        }
    }
}
