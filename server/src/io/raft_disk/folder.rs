//! A folder of the file system as the table's log uses it.
//!
//! Not the choice of what to write. Invariant: a file's room is on the disk before the file is
//! used; a full disk is told from all other errors, and never by a sync.

#![allow(unsafe_code, reason = "posix_fallocate has no safe wrapper in std")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::control::raft::disk::{DiskError, Doing, RaftDisk};

/// A folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The file written last, open: a segment is written many times in a row.
    open: Option<(String, File)>,
}

impl Folder {
    /// The folder at `path`, made if it is not there.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> Result<Folder, DiskError> {
        let folder = Folder { path: path.to_owned(), open: None };
        fs::create_dir_all(path).map_err(|error| folder.error(Doing::Allocate, "", &error))?;
        // The folder's own name: without it everything in it may be gone after a power loss.
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(|error| folder.error(Doing::Sync, "", &error))?;
        }
        Ok(folder)
    }

    fn error(&self, doing: Doing, file: &str, error: &io::Error) -> DiskError {
        let no_room = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        DiskError {
            doing,
            file: self.path.join(file).display().to_string(),
            // After a failed sync nobody knows what is on the disk, whatever the reason was.
            full: no_room && doing != Doing::Sync,
            reason: error.to_string(),
        }
    }

    fn at(&mut self, doing: Doing, file: &str) -> Result<&File, DiskError> {
        if self.open.as_ref().is_none_or(|(name, _)| name != file) {
            let opened = OpenOptions::new().write(true).open(self.path.join(file));
            let opened = opened.map_err(|error| self.error(doing, file, &error))?;
            self.open = Some((file.to_owned(), opened));
        }
        match &self.open {
            Some((_, open)) => Ok(open),
            None => Err(self.error(doing, file, &io::Error::from(ErrorKind::NotFound))),
        }
    }

    fn forget(&mut self, file: &str) {
        self.open.take_if(|(name, _)| name == file);
    }
}

impl RaftDisk for Folder {
    fn list(&mut self) -> Result<Vec<(String, u64)>, DiskError> {
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

    fn read(&mut self, file: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let read = || -> io::Result<Vec<u8>> {
            let open = File::open(self.path.join(file))?;
            let length = open.metadata()?.len();
            if length > max_bytes {
                let why = format!("it has {length} bytes, at most {max_bytes} are expected");
                return Err(io::Error::other(why));
            }
            let mut bytes = Vec::with_capacity(length as usize);
            open.take(max_bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(Doing::Read, file, &error)),
        }
    }

    fn allocate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        self.forget(file);
        let path = self.path.join(file);
        let made = File::create(&path).and_then(|open| {
            reserve(&open, bytes)?;
            Ok(open)
        });
        let open = made.map_err(|error| {
            // Whatever room it got is needed elsewhere.
            let _ = fs::remove_file(&path);
            self.error(Doing::Allocate, file, &error)
        })?;
        open.sync_all().map_err(|error| self.error(Doing::Sync, file, &error))
    }

    fn write_new(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.forget(file);
        let path = self.path.join(file);
        let written = File::create(&path).and_then(|mut open| {
            open.write_all(bytes)?;
            Ok(open)
        });
        let open = written.map_err(|error| {
            let _ = fs::remove_file(&path);
            self.error(Doing::Write, file, &error)
        })?;
        // Kept for the sync: it is this handle that hears of a failed write behind.
        self.open = Some((file.to_owned(), open));
        Ok(())
    }

    fn write_at(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let written = self.at(Doing::Write, file)?.write_all_at(bytes, offset);
        written.map_err(|error| self.error(Doing::Write, file, &error))
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        let synced = self.at(Doing::Sync, file)?.sync_data();
        synced.map_err(|error| self.error(Doing::Sync, file, &error))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.forget(from);
        self.forget(to);
        let renamed = fs::rename(self.path.join(from), self.path.join(to));
        renamed.map_err(|error| self.error(Doing::Rename, from, &error))
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        self.forget(file);
        match fs::remove_file(self.path.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.error(Doing::Remove, file, &error))
            }
            _ => Ok(()),
        }
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| self.error(Doing::Sync, "", &error))
    }
}

/// Makes the file so long, with the room for it: later writes need none.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    loop {
        // SAFETY: the descriptor is open while `file` lives; the call touches no memory of ours.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}
