//! A backup: a folder with a manifest and part files, and what goes between it and the nodes.
//!
//! ```text
//!   node --SLOTD BACKUP--> take --frames--> *.part, then manifest.json      (edge/folder)
//!   node <--SLOTD RESTORE-- give <--frames-- verified by part and manifest
//! ```
//! Not the verbs, which decide what goes where. The bytes are drawn in the server's manual
//! (chapter disk). Invariant: without its manifest a folder is no backup, and nothing of a backup
//! is believed before its checksum was.

pub(crate) mod give;
pub(crate) mod manifest;
pub(crate) mod part;
pub(crate) mod rounds;
pub(crate) mod take;

use std::fmt;

/// What is wrong with a file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    /// The file.
    pub(crate) file: String,
    /// Where in it, bytes.
    pub(crate) offset: u64,
    /// What should be there.
    pub(crate) expected: String,
    /// What is.
    pub(crate) got: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, offset, expected, got } = self;
        write!(f, "{file}, byte {offset}: expected {expected}, got {got}")
    }
}
