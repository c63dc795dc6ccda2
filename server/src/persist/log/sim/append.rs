//! The simulated disk as checkpoints use it: files that are written from front to end.
//!
//! For tests and for the simulated world, as all of it. Invariant: of what was not synced any part
//! may be gone after a crash, the length of the file too.

use super::super::error::{DiskError, Doing};
use super::{SECTOR_BYTES, SimDisk, error};
use crate::persist::checkpoint::{CheckpointDisk, PartFile};
use crate::persist::log::{Fill, WalDisk};

/// A file that is being written.
#[derive(Debug)]
pub struct SimNewFile {
    disk: SimDisk,
    id: u64,
    name: String,
}

impl CheckpointDisk for SimDisk {
    type File = SimNewFile;

    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        WalDisk::list(self)
    }

    fn read(&self, file: &str, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        WalDisk::read(self, file, offset, into)
    }

    fn create(&self, file: &str) -> Result<SimNewFile, DiskError> {
        WalDisk::create(self, file, 0, Fill::Written)?;
        let id = self.0.lock().id(Doing::Create, file)?;
        Ok(SimNewFile { disk: self.clone(), id, name: file.to_owned() })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        WalDisk::rename(self, from, to)
    }

    fn remove(&self, file: &str) -> Result<(), DiskError> {
        WalDisk::remove(self, file)
    }

    fn sync_folder(&self) -> Result<(), DiskError> {
        WalDisk::sync_folder(self)
    }
}

impl PartFile for SimNewFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.disk.0.lock();
        state.call(Doing::Write, &self.name)?;
        let used: u64 = state.names.values().map(|id| state.files[id].now.len() as u64).sum();
        let left = state.room.map_or(u64::MAX, |room| room.saturating_sub(used));
        let is_full =
            state.full_at.is_some_and(|at| at <= state.calls) || left < bytes.len() as u64;
        // A disk that fills up takes a part of it.
        let taken = if is_full { left.min(bytes.len() as u64 / 2) as usize } else { bytes.len() };
        let file = state.files.get_mut(&self.id).expect("an open file is there");
        let from = file.now.len();
        file.now.extend_from_slice(&bytes[..taken]);
        file.dirty.extend(from / SECTOR_BYTES..(from + taken).div_ceil(SECTOR_BYTES));
        if !is_full {
            return Ok(());
        }
        state.full_at = None;
        Err(error(Doing::Write, &self.name, "no space left on the simulated disk"))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.disk.0.lock().sync(self.id, &self.name)
    }
}
