//! A checkpoint as a start finds it: the manifest, then each part's header, table and trailer; the
//! chunks of a slot one after the other.
//!
//! Not the loading (`persist/recovery`): nothing is changed here, neither files nor rooms.
//! Invariant: what is handed out was read whole and fits its checksum; a length that was read
//! allocates nothing before it is known to lie in the file.

use std::collections::BTreeMap;

use slots::SLOTS;

use super::disk::CheckpointDisk;
use super::error::{CheckpointError, damage};
use super::format::{
    ENTRY_BYTES, FRAME_BYTES, MANIFEST_BYTES_MAX, MANIFEST_BYTES_MIN, MANIFEST_FILE, Manifest,
    PART_HEAD_BYTES, PartAbout, PartHead, SlotEntry, TRAILER_BYTES, Trailer, frame_sum, part_name,
};
use crate::persist::log::{Ids, u32_at, u64_at};

/// Bytes read at once: several slots' worth of small keys, and one chunk of any usual size.
const READ_BYTES: u64 = 1024 * 1024;

/// A checkpoint that was found.
#[derive(Debug)]
pub struct Checkpoint<D> {
    disk: D,
    ids: Ids,
    manifest: Manifest,
    slots: Vec<SlotEntry>,
}

impl<D: CheckpointDisk> Checkpoint<D> {
    /// Looks at the files of a folder; `None`: there is no checkpoint. All but the chunks is read.
    ///
    /// # Errors
    /// In order: the manifest (see there), each part: its length, header, trailer, table; entries
    /// that cannot be of one checkpoint.
    pub fn find(disk: D, ids: Ids) -> Result<Option<Checkpoint<D>>, CheckpointError> {
        let files: BTreeMap<String, u64> = disk.list()?.into_iter().collect();
        let Some(&length) = files.get(MANIFEST_FILE) else { return Ok(None) };
        if !(MANIFEST_BYTES_MIN..=MANIFEST_BYTES_MAX).contains(&length) {
            let expected = format!("{MANIFEST_BYTES_MIN} to {MANIFEST_BYTES_MAX} bytes");
            return Err(damage(MANIFEST_FILE, length, expected, format!("{length}")));
        }
        let mut bytes = vec![0; length as usize];
        disk.read(MANIFEST_FILE, 0, &mut bytes)?;
        let manifest = Manifest::read(&bytes, ids)?;
        let mut found = Checkpoint { disk, ids, manifest, slots: Vec::new() };
        for (part, about) in (0..).zip(found.manifest.parts.clone()) {
            let length = files.get(&part_name(found.manifest.number, part)).copied();
            found.look_at(part, about, length)?;
        }
        found.check_sums()?;
        Ok(Some(found))
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.manifest.number
    }

    /// When it was taken, unix ms.
    pub fn created_ms(&self) -> u64 {
        self.manifest.created_ms
    }

    /// Keys in it.
    pub fn keys(&self) -> u64 {
        self.manifest.keys
    }

    /// Its slots, rising.
    pub fn slots(&self) -> &[SlotEntry] {
        &self.slots
    }

    /// Bytes of chunks that loading all slots goes through.
    pub fn bytes_total(&self) -> u64 {
        self.slots.iter().map(|entry| entry.bytes).sum()
    }

    /// The name of the part that a slot lies in.
    pub fn file_of(&self, entry: &SlotEntry) -> String {
        part_name(self.manifest.number, entry.part)
    }

    /// The chunks of a slot, in order. `buffer` is the reader's memory, used again from slot to
    /// slot.
    pub fn chunks<'a>(&'a self, entry: &SlotEntry, buffer: &'a mut Vec<u8>) -> Chunks<'a, D> {
        buffer.clear();
        Chunks {
            disk: &self.disk,
            file: self.file_of(entry),
            seed: self.part_head(entry.part).seed(),
            at: entry.offset,
            end: entry.offset + entry.bytes,
            buffer,
            buffer_at: entry.offset,
        }
    }

    fn part_head(&self, part: u32) -> PartHead {
        PartHead { ids: self.ids, number: self.manifest.number, part }
    }

    fn look_at(
        &mut self,
        part: u32,
        about: PartAbout,
        length: Option<u64>,
    ) -> Result<(), CheckpointError> {
        let file = &part_name(self.manifest.number, part);
        let expected = format!("{} bytes, as the manifest says", about.bytes);
        let least = (PART_HEAD_BYTES + TRAILER_BYTES) as u64;
        match length {
            None => return Err(damage(file, 0, expected, "no such file")),
            Some(length) if length != about.bytes || length < least => {
                return Err(damage(file, length.min(about.bytes), expected, format!("{length}")));
            }
            Some(_) => {}
        }
        let head = self.part_head(part);
        let mut bytes = [0; PART_HEAD_BYTES];
        self.disk.read(file, 0, &mut bytes)?;
        head.check(file, &bytes)?;
        let (trailer, table) = self.table(file, about, head.seed())?;
        let mut next = PART_HEAD_BYTES as u64;
        for (nth, bytes) in table.chunks_exact(ENTRY_BYTES).enumerate() {
            let at = trailer.table_at + (nth * ENTRY_BYTES) as u64;
            let entry = SlotEntry::read(bytes, part);
            let entry = entry.ok_or_else(|| damage(file, at, "a slot", "no such slot"))?;
            next = check_entry(&entry, next, trailer.table_at).ok_or_else(|| {
                damage(file, at, "a slot's place in the part", format!("{entry:?}"))
            })?;
            if self.slots.last().is_some_and(|last| last.slot >= entry.slot) {
                let got = format!("slot {}", entry.slot.number());
                return Err(damage(file, at, "slots that rise", got));
            }
            self.slots.push(entry);
        }
        Ok(())
    }

    /// The trailer and the table before it.
    fn table(
        &self,
        file: &str,
        about: PartAbout,
        seed: u32,
    ) -> Result<(Trailer, Vec<u8>), CheckpointError> {
        let trailer_at = about.bytes - TRAILER_BYTES as u64;
        let mut bytes = [0; TRAILER_BYTES];
        self.disk.read(file, trailer_at, &mut bytes)?;
        let bad = |got: String| damage(file, trailer_at, "the end of a part", got);
        let (trailer, sum) = Trailer::read(&bytes).ok_or_else(|| bad("other bytes".to_owned()))?;
        let table_bytes = u64::from(trailer.count) * ENTRY_BYTES as u64;
        let starts = trailer.table_at >= PART_HEAD_BYTES as u64;
        let ends = trailer.table_at.checked_add(table_bytes) == Some(trailer_at);
        if !starts || !ends || trailer.count as usize > SLOTS {
            let Trailer { table_at, count } = trailer;
            return Err(bad(format!("a table of {count} slots at {table_at}")));
        }
        let mut table = vec![0; table_bytes as usize];
        self.disk.read(file, trailer.table_at, &mut table)?;
        if trailer.sum(seed, &table) != sum {
            let got = "bytes that do not match their checksum";
            return Err(damage(file, trailer.table_at, "a table of slots", got));
        }
        if sum != about.table_sum {
            let expected = format!("checksum {:08x}, as the manifest says", about.table_sum);
            return Err(damage(file, trailer_at + 12, expected, format!("{sum:08x}")));
        }
        Ok((trailer, table))
    }

    fn check_sums(&self) -> Result<(), CheckpointError> {
        let Manifest { keys, slots, .. } = self.manifest;
        let found = self.slots.iter().map(|entry| entry.keys).sum::<u64>();
        if (keys, slots as usize) == (found, self.slots.len()) {
            return Ok(());
        }
        let got = format!("{found} in {}, as its parts say", self.slots.len());
        Err(damage(MANIFEST_FILE, 72, format!("{keys} keys in {slots} slots"), got))
    }
}

/// Where the slot's chunks end; `None`: they cannot lie so, behind `from` and before the table.
fn check_entry(entry: &SlotEntry, from: u64, table_at: u64) -> Option<u64> {
    let end = entry.offset.checked_add(entry.bytes)?;
    let least = u64::from(entry.chunks) * FRAME_BYTES as u64;
    // A sum of them must not overflow, and a key takes some bytes.
    let is_sound = entry.chunks > 0 && entry.bytes >= least && entry.keys <= entry.bytes;
    (is_sound && entry.offset >= from && end <= table_at).then_some(end)
}

/// The chunks of a slot, read one after the other.
pub struct Chunks<'a, D> {
    disk: &'a D,
    file: String,
    seed: u32,
    /// Where the next frame begins.
    at: u64,
    end: u64,
    buffer: &'a mut Vec<u8>,
    /// What of the file the buffer holds begins here.
    buffer_at: u64,
}

impl<D: CheckpointDisk> Chunks<'_, D> {
    /// The next chunk, and where its frame begins; `None` at the end.
    ///
    /// # Errors
    /// A read that failed; a length beyond the slot's; bytes that do not fit their checksum.
    pub fn next_chunk(&mut self) -> Result<Option<(u64, &[u8])>, CheckpointError> {
        let at = self.at;
        if at == self.end {
            return Ok(None);
        }
        let left = self.end - at;
        let head = (left >= FRAME_BYTES as u64).then(|| self.bytes(FRAME_BYTES as u64));
        let (length, sum) = match head.transpose()? {
            Some(head) => (u64_at(head, 0), u32_at(head, 8)),
            None => return Err(damage(&self.file, at, "a chunk", format!("{left} bytes"))),
        };
        if length > left - FRAME_BYTES as u64 {
            let got = format!("one of {length}");
            return Err(damage(&self.file, at, format!("a chunk in {left} bytes"), got));
        }
        let seed = self.seed;
        self.bytes(FRAME_BYTES as u64 + length)?;
        self.at = at + FRAME_BYTES as u64 + length;
        let from = (at - self.buffer_at) as usize + FRAME_BYTES;
        let chunk = &self.buffer[from..from + length as usize];
        if frame_sum(seed, at, chunk) != sum {
            let got = format!("{length} bytes that do not match their checksum");
            return Err(damage(&self.file, at, "a chunk", got));
        }
        Ok(Some((at, chunk)))
    }

    /// So many bytes from the next frame on, which lie in the slot's.
    fn bytes(&mut self, count: u64) -> Result<&[u8], CheckpointError> {
        let has = self.buffer_at + self.buffer.len() as u64;
        if self.at + count > has {
            let want = count.max(READ_BYTES).min(self.end - self.at);
            self.buffer.clear();
            self.buffer.resize(want as usize, 0);
            self.buffer_at = self.at;
            self.disk.read(&self.file, self.at, self.buffer)?;
        }
        let from = (self.at - self.buffer_at) as usize;
        Ok(&self.buffer[from..from + count as usize])
    }
}
