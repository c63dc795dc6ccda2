//! A folder of the file system as the write-ahead log uses it.
//!
//! Not the choice of what to write. Invariant: a file has all its blocks, synced (or given when it
//! is opened, if a restore left holes), before it is used: on file systems that write in place a
//! full disk is met here and nowhere else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::map::{self, MappedFile};
use crate::persist::log::{DiskError, Doing, Fill, WalDisk};

/// Zeros written at once: a page. The kernel keeps what is written at once in one folio where it
/// can, and the first store to any page of a folio marks all of it: of 1 MiB it took 7 us, of a
/// page 1 us (ext4, Linux 6.18), and the next sync writes as much.
const ZERO_BYTES: usize = 4096;
/// Zeros between two syncs: what others sync on the same disk meanwhile waits for no more.
const ZEROS_PER_SYNC: u64 = 4 * 1024 * 1024;

/// A folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder at `path`, made if it is not there.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> Result<Folder, DiskError> {
        let folder = Folder { path: path.to_owned() };
        fs::create_dir_all(path).map_err(|error| folder.error(Doing::Create, "", &error))?;
        // The folder's own name: without it everything in it may be gone after a power loss.
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(|error| folder.error(Doing::Sync, "", &error))?;
        }
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, doing: Doing, file: &str, error: &io::Error) -> DiskError {
        let file = self.path.join(file).display().to_string();
        DiskError { doing, file, reason: error.to_string() }
    }
}

impl WalDisk for Folder {
    type File = MappedFile;

    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        let list = || -> io::Result<Vec<(String, u64)>> {
            let mut files = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                let meta = entry.metadata()?;
                if meta.is_file() {
                    files.push((entry.file_name().to_string_lossy().into_owned(), meta.len()));
                }
            }
            Ok(files)
        };
        list().map_err(|error| self.error(Doing::List, "", &error))
    }

    fn read(&self, file: &str, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        // Read, not mapped: a sector the disk cannot give is an error here, a signal there.
        let read = File::open(self.path.join(file)).and_then(|open| {
            map::read_in_pages(&open);
            open.read_exact_at(into, offset)
        });
        read.map_err(|error| self.error(Doing::Read, file, &error))
    }

    fn open(&self, file: &str, name: &str, number: u64) -> Result<Arc<MappedFile>, DiskError> {
        let opened = OpenOptions::new().read(true).write(true).open(self.path.join(file));
        let mapped = opened.and_then(|open| MappedFile::map(open, self.path.join(name), number));
        mapped.map(Arc::new).map_err(|error| self.error(Doing::Open, file, &error))
    }

    fn create(&self, file: &str, bytes: u64, how: Fill) -> Result<(), DiskError> {
        let path = self.path.join(file);
        let made = File::create(&path).map_err(|error| (Doing::Create, error));
        made.and_then(|open| fill(&open, bytes, how)).map_err(|(doing, error)| {
            // Whatever room it got is needed elsewhere.
            let _ = fs::remove_file(&path);
            self.error(doing, file, &error)
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let renamed = fs::rename(self.path.join(from), self.path.join(to));
        renamed.map_err(|error| self.error(Doing::Rename, from, &error))
    }

    fn remove(&self, file: &str) -> Result<(), DiskError> {
        match fs::remove_file(self.path.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.error(Doing::Remove, file, &error))
            }
            _ => Ok(()),
        }
    }

    fn sync_folder(&self) -> Result<(), DiskError> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| self.error(Doing::Sync, "", &error))
    }
}

/// Writes zeros, a few MiB between two syncs, unless the file system gives room without.
fn fill(mut file: &File, bytes: u64, how: Fill) -> Result<(), (Doing, io::Error)> {
    if how == Fill::Given && map::allocate(file, bytes).map_err(|e| (Doing::Create, e))? {
        return file.sync_all().map_err(judge);
    }
    let zeros = vec![0; ZERO_BYTES.min(usize::try_from(bytes).unwrap_or(ZERO_BYTES))];
    let (mut left, mut unsynced) = (bytes, 0);
    while left > 0 {
        let part = left.min(zeros.len() as u64);
        file.write_all(&zeros[..part as usize]).map_err(|error| (Doing::Create, error))?;
        left -= part;
        unsynced += part;
        if unsynced >= ZEROS_PER_SYNC {
            file.sync_data().map_err(judge)?;
            unsynced = 0;
        }
    }
    file.sync_all().map_err(judge)
}

/// Some file systems find out only now that they are full. The file holds nothing yet, so that
/// alone is not the end.
fn judge(error: io::Error) -> (Doing, io::Error) {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (Doing::Create, error),
        _ => (Doing::Sync, error),
    }
}
