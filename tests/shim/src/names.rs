//! The names in folders: as they were synced last, and as they were after each change since.
//!
//! Invariant: the blocks of a folder are in the order of its changes.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::place::id_of;

/// How a block ends.
const END: &str = "end\n";

/// The shadow of all folders.
pub(crate) struct Names {
    shadow: PathBuf,
    /// The last block of each.
    last: HashMap<String, String>,
}

impl Names {
    pub(crate) fn new(shadow: PathBuf) -> Self {
        Self { shadow, last: HashMap::new() }
    }

    /// What is there now is safe; nothing before it can come back.
    pub(crate) fn synced(&mut self, folder: &Path, id: &str) -> io::Result<()> {
        let block = block_of(folder)?;
        let (file, new) = (self.shadow.join(id), self.shadow.join(format!("{id}.new")));
        fs::write(&new, &block)?;
        fs::rename(&new, &file)?;
        self.last.insert(id.to_owned(), block);
        Ok(())
    }

    /// The folder has other names now, which may get lost.
    pub(crate) fn changed(&mut self, folder: &Path, id: &str) -> io::Result<()> {
        let block = block_of(folder)?;
        if self.last.get(id) == Some(&block) {
            return Ok(());
        }
        let path = self.shadow.join(id);
        // A folder that was never synced may come back empty.
        let mut text = if path.exists() { String::new() } else { END.to_owned() };
        text.push_str(&block);
        OpenOptions::new().create(true).append(true).open(&path)?.write_all(text.as_bytes())?;
        self.last.insert(id.to_owned(), block);
        Ok(())
    }
}

fn block_of(folder: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A name may go between the listing and this look: others change other folders only.
        let Ok(meta) = entry.metadata() else { continue };
        let kind = if meta.is_dir() { 'd' } else { 'f' };
        let name = entry.file_name();
        lines.push(format!("{kind} {} {}\n", id_of(&meta), name.to_string_lossy()));
    }
    lines.sort();
    Ok(lines.concat() + END)
}
