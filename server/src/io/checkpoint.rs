//! The edge of checkpoints: the folder they lie in.
//!
//! Not the formats nor the order of steps (`persist/checkpoint`), not the thread that takes them.
//! Invariant: a file that is full counts as a full disk, not as a failed sync: the round ends, the
//! node goes on.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::io::wal::Folder;
use crate::persist::checkpoint::{Checkpoint, CheckpointDisk, CheckpointError, PartFile};
use crate::persist::log::{DiskError, Doing, Ids, WalDisk};

/// Looks at the folder of a node's checkpoint, made if it is not there; `None`: there is none.
/// Nothing else is changed: call `remove_leftovers` when all was loaded.
///
/// # Errors
/// See `Checkpoint::find`.
pub fn find(folder: &Path, ids: Ids) -> Result<Option<Checkpoint<Folder>>, CheckpointError> {
    Checkpoint::find(Folder::open(folder)?, ids)
}

impl CheckpointDisk for Folder {
    type File = NewFile;

    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        WalDisk::list(self)
    }

    fn read(&self, file: &str, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        WalDisk::read(self, file, offset, into)
    }

    fn create(&self, file: &str) -> Result<NewFile, DiskError> {
        let path = self.path().join(file);
        let name = path.display().to_string();
        match File::create(&path) {
            Ok(file) => Ok(NewFile { file, name }),
            Err(error) => {
                Err(DiskError { doing: Doing::Create, file: name, reason: error.to_string() })
            }
        }
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

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    name: String,
}

impl NewFile {
    fn error(&self, doing: Doing, error: &io::Error) -> DiskError {
        DiskError { doing, file: self.name.clone(), reason: error.to_string() }
    }
}

impl PartFile for NewFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all(bytes).map_err(|error| self.error(Doing::Write, &error))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|error| {
            // Some file systems find out only now that they are full. Nothing depends on the file
            // yet, so that alone is not the end.
            let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            self.error(if is_full { Doing::Write } else { Doing::Sync }, &error)
        })
    }
}
