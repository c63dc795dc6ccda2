//! The removal of a whole log: at once or not at all, whenever the machine stops.
//!
//! ```text
//!   wal --rename, sync of the folder above--> wal.removed --files, folder, sync--> (nothing)
//! ```
//! Not the letting go of old files (`Keeper::drop_before`). Invariant: no start ever sees a part of
//! a log that was being removed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::persist::log::{DiskError, Doing};

/// Removes the log in this folder, and the folder. When it returns the log does not come back.
/// Nothing is done if there is none. Not to be called while the log is open.
///
/// # Errors
/// The file system's: the log is there as it was, or gone for all who look for it; a later call, or
/// the next start, goes on.
pub fn remove_all(folder: &Path) -> Result<(), DiskError> {
    finish(folder)?;
    let going = going(folder);
    match fs::rename(folder, &going) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(|error| failed(Doing::Rename, folder, &error))?,
    }
    sync_above(folder)?;
    finish(folder)
}

/// Finishes a removal that was under way when the process ended.
pub(super) fn finish(folder: &Path) -> Result<(), DiskError> {
    let going = going(folder);
    match fs::remove_dir_all(&going) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(|error| failed(Doing::Remove, &going, &error))?,
    }
    sync_above(folder)
}

/// What the folder is called while it goes.
fn going(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".removed");
    folder.with_file_name(name)
}

fn sync_above(folder: &Path) -> Result<(), DiskError> {
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    let synced = File::open(above).and_then(|above| above.sync_all());
    synced.map_err(|error| failed(Doing::Sync, above, &error))
}

fn failed(doing: Doing, path: &Path, error: &io::Error) -> DiskError {
    DiskError { doing, file: path.display().to_string(), reason: error.to_string() }
}
