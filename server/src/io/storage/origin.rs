//! The file `wal/origin`: on top of which checkpoint a log is to be replayed.
//!
//! ```text
//!   slotd log of keys; it is replayed on top of checkpoint 7 or a later one
//!   after 7
//! ```
//! Written and synced before the first file of the log. A log that was begun while the node served
//! has nothing of what came before: until the checkpoint that it names is there it is worth
//! nothing. 0: it has everything.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Its name.
const ORIGIN_FILE: &str = "origin";
/// Longest file we write, with room for a hand's edit.
const MAX_ORIGIN_BYTES: usize = 1024;

/// Reads it; a log without one has everything.
///
/// # Errors
/// The file system's; a file that says nothing.
pub(super) fn read(folder: &Path) -> io::Result<u64> {
    let path = folder.join(ORIGIN_FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(named(&path, &error)),
    };
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_ORIGIN_BYTES)]);
    let number = text.lines().find_map(|line| line.strip_prefix("after ")?.trim().parse().ok());
    number.ok_or_else(|| {
        let what = "has no line `after NUMBER`: is it from a backup that was cut short?";
        io::Error::other(format!("{} {what}", path.display()))
    })
}

/// Writes it into the folder of a log that is to be begun; the folder is made.
///
/// # Errors
/// The file system's.
pub(super) fn write(folder: &Path, after: u64) -> io::Result<()> {
    let path = folder.join(ORIGIN_FILE);
    let write = || {
        fs::create_dir_all(folder)?;
        let mut file = File::create(&path)?;
        writeln!(
            file,
            "slotd log of keys; it is replayed on top of checkpoint {after} or a later one"
        )?;
        writeln!(file, "after {after}")?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
        folder.parent().map_or(Ok(()), |above| File::open(above)?.sync_all())
    };
    write().map_err(|error: io::Error| named(&path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::clock;

    #[test]
    fn a_log_says_which_checkpoint_it_needs() {
        let folder = std::env::temp_dir().join(format!("slotd-origin-{:x}", clock::random_u64()));
        assert_eq!(read(&folder).expect("no log at all"), 0);
        write(&folder, 7).expect("it is written");
        assert_eq!(read(&folder).expect("it is there"), 7);
        fs::write(folder.join(ORIGIN_FILE), "after nothing").expect("it is written");
        assert!(read(&folder).is_err());
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
