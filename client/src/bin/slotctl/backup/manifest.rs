//! The manifest of a backup: what is in it, and where. JSON, with its own checksum as last field.
//!
//! ```text
//! {"format":1,...,"sections":[...],"crc32c":"0123abcd"}
//!                                 ^ the sum is of all bytes before this comma
//! ```
//! Not the frames (`part.rs`). Invariant: a manifest that was read names every section it covers
//! once, inside its part.

use serde::{Deserialize, Serialize};
use slots::{SlotId, SlotRanges};

use super::Damage;
use super::part::HEADER_BYTES;

/// Its name.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
/// The format this version writes, and the newest it reads.
pub(crate) const BACKUP_FORMAT: u64 = 1;
/// Longest manifest, bytes: 16,384 sections take some 3 MiB.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// Before the 8 digits of the checksum.
const SUM_FIELD: &str = ",\"crc32c\":\"";
/// After them.
const SUM_END: &str = "\"}\n";
const SUM_DIGITS: usize = 8;

/// What is in a backup.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// `BACKUP_FORMAT`.
    pub(crate) format: u64,
    /// Id of the cluster it was taken of.
    pub(crate) cluster: String,
    /// When it was begun, unix ms.
    pub(crate) created_ms: u64,
    /// Version of the server it was taken of.
    pub(crate) slotd: String,
    /// Version of the slot table when it was begun.
    pub(crate) table_version: u64,
    /// The slots it covers; those without a section had no keys.
    pub(crate) slots: String,
    /// Keys in all sections.
    pub(crate) keys: u64,
    /// Bytes of all part files.
    pub(crate) bytes: u64,
    /// The part files.
    pub(crate) parts: Vec<PartEntry>,
    /// One for each slot with keys, by slot.
    pub(crate) sections: Vec<Section>,
}

/// A part file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PartEntry {
    /// Its name.
    pub(crate) file: String,
    /// Its length.
    pub(crate) bytes: u64,
}

/// A slot in a part file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Section {
    /// The slot.
    pub(crate) slot: u16,
    /// The part file.
    pub(crate) file: String,
    /// Where its first frame begins.
    pub(crate) offset: u64,
    /// Bytes of its frames.
    pub(crate) bytes: u64,
    /// How many frames.
    pub(crate) frames: u64,
    /// Keys at its end.
    pub(crate) keys: u64,
    /// Epoch of its content.
    pub(crate) epoch: u64,
    /// The last op group in it.
    pub(crate) index: u64,
    /// Checksum of its bytes.
    pub(crate) crc32c: u32,
}

impl Manifest {
    /// The file.
    pub(crate) fn to_text(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string(self)?;
        // The checksum takes the place of the last brace.
        text.truncate(text.len() - 1);
        let sum = crc32c::crc32c(text.as_bytes());
        text.push_str(&format!("{SUM_FIELD}{sum:08x}{SUM_END}"));
        Ok(text)
    }

    /// Reads the file. Refusals, in order: no JSON, a newer format, damage, contradictions.
    pub(crate) fn read(text: &[u8]) -> Result<Manifest, ManifestError> {
        let damage = |expected: &str, got: String| {
            let (file, expected) = (MANIFEST_FILE.to_owned(), expected.to_owned());
            ManifestError::Damage(Damage { file, offset: 0, expected, got })
        };
        #[derive(Deserialize)]
        struct Format {
            format: u64,
        }
        let Format { format } = serde_json::from_slice(text)
            .map_err(|error| damage("the manifest of a backup", error.to_string()))?;
        if format > BACKUP_FORMAT {
            return Err(ManifestError::TooNew(format));
        }
        let sum_at = text.len().checked_sub(SUM_FIELD.len() + SUM_DIGITS + SUM_END.len());
        let (body, rest) = text.split_at(sum_at.unwrap_or(0));
        let expected = format!("{SUM_FIELD}{:08x}{SUM_END}", crc32c::crc32c(body));
        if rest != expected.as_bytes() {
            let got = String::from_utf8_lossy(rest).trim().to_owned();
            return Err(damage(&format!("the end {}", expected.trim()), got));
        }
        let manifest: Manifest = serde_json::from_slice(text)
            .map_err(|error| damage("the manifest of a backup", error.to_string()))?;
        manifest.check().map_err(|got| damage("sections inside their parts", got))?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        let covered = self.covered();
        let mut before = None;
        for section in &self.sections {
            let slot = SlotId::new(section.slot).filter(|slot| covered.contains(*slot));
            let end = section.offset.checked_add(section.bytes);
            let part = self.parts.iter().find(|part| part.file == section.file);
            let fits = section.offset >= HEADER_BYTES as u64
                && end.zip(part).is_some_and(|(end, part)| end <= part.bytes);
            if slot.is_none() || !fits || before >= Some(section.slot) {
                return Err(format!("slot {} of {}", section.slot, section.file));
            }
            before = Some(section.slot);
        }
        // A name is of the folder itself.
        match self.parts.iter().find(|part| part.file.contains(['/', '\\'])) {
            Some(part) => Err(format!("the file {}", part.file)),
            None => Ok(()),
        }
    }

    /// The slots it covers.
    pub(crate) fn covered(&self) -> SlotRanges {
        self.slots.parse().unwrap_or_default()
    }

    /// The section of a slot; `None`: it had no keys, or is not covered.
    pub(crate) fn section(&self, slot: SlotId) -> Option<&Section> {
        let at = self.sections.binary_search_by_key(&slot.number(), |section| section.slot);
        at.ok().map(|at| &self.sections[at])
    }
}

/// Why a file is no manifest of a backup that can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ManifestError {
    /// A later version of slotctl wrote it.
    TooNew(u64),
    /// It is not what was written.
    Damage(Damage),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let section = |slot, offset| Section {
            slot,
            file: "000000.part".into(),
            offset,
            bytes: 100,
            frames: 2,
            keys: 3,
            ..Section::default()
        };
        Manifest {
            format: BACKUP_FORMAT,
            cluster: "c".repeat(40),
            slots: "0-99".into(),
            parts: vec![PartEntry { file: "000000.part".into(), bytes: 216 }],
            sections: vec![section(5, 116), section(7, 16)],
            ..Manifest::default()
        }
    }

    fn refused(text: &str) -> String {
        match Manifest::read(text.as_bytes()) {
            Err(ManifestError::Damage(damage)) => damage.to_string(),
            Err(ManifestError::TooNew(format)) => format!("format {format}"),
            Ok(manifest) => panic!("{manifest:?}"),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let text = sample().to_text().expect("JSON");
        assert_eq!(Manifest::read(text.as_bytes()), Ok(sample()));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        let slot = |number| SlotId::new(number).expect("a slot");
        assert_eq!(sample().section(slot(7)).map(|section| section.offset), Some(16));
        assert_eq!(sample().section(slot(6)), None);
    }

    #[test]
    fn a_changed_or_cut_manifest_is_refused() {
        let text = sample().to_text().expect("JSON");
        for (from, to) in [("\"keys\":3", "\"keys\":4"), ("0-99", "0-98"), ("crc32c", "crc32d")] {
            assert!(refused(&text.replacen(from, to, 1)).contains("expected"), "{from}");
        }
        for cut in 0..text.len() - 1 {
            assert!(refused(&text[..cut]).starts_with("manifest.json, byte 0"), "{cut}");
        }
    }

    #[test]
    fn a_later_format_is_refused_by_its_number() {
        let text = r#"{"format":2,"anything":[]}"#;
        assert_eq!(refused(text), "format 2");
    }

    #[test]
    fn sections_lie_inside_their_parts_once_each() {
        for change in [
            |manifest: &mut Manifest| manifest.sections[1].slot = 5,
            |manifest: &mut Manifest| manifest.sections[0].bytes = 101,
            |manifest: &mut Manifest| manifest.sections[0].offset = u64::MAX,
            |manifest: &mut Manifest| manifest.sections[0].file = "other.part".into(),
            |manifest: &mut Manifest| manifest.sections[1].slot = 100,
            |manifest: &mut Manifest| manifest.sections[0].offset = 3,
            |manifest: &mut Manifest| manifest.parts[0].file = "../000000.part".into(),
        ] {
            let mut manifest = sample();
            change(&mut manifest);
            let text = manifest.to_text().expect("JSON");
            assert!(refused(&text).contains("sections inside their parts"));
        }
    }
}
