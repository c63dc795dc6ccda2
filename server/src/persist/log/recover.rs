//! What a start finds: the files, their chunks, whose they are and in which order.
//!
//! ```text
//!   Recovery::find --> eras, lanes of each --> replay (`replay`): lanes of an era in parallel,
//!   eras one after the other --> LaneEnd of each lane --> open (`open`): the tail is mended
//! ```
//! Only headers are read here. Invariant: no byte of the log changes before all was replayed.

use std::collections::BTreeMap;

use super::disk::{Fill, WalDisk};
use super::error::{Damage, LogError};
use super::format::{
    CHUNK_HEADER_BYTES, ChunkHead, ChunkPlace, FILE_HEAD_BYTES, FileHead, Ids, REPAIR_FILE,
    UNFINISHED_FILE, anchor, chunk_at, chunk_offset, file_name, file_number, is_spare,
};
use super::parts::PART_BYTES;
use super::record::remains;
use super::wal::MAX_LANES;

/// What ended the run before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// The process alone: all that was appended is there.
    ProcessDied,
    /// The machine, or it is not known: what was not synced may be gone, in any part. `find`
    /// remembers it until the log is open: a start that dies in between need not be told of.
    PowerLost,
}

/// A chunk that was found.
#[derive(Clone, Debug)]
pub(super) struct FoundChunk {
    pub(super) file: String,
    pub(super) file_head: FileHead,
    pub(super) head: ChunkHead,
    pub(super) seed: u32,
}

impl FoundChunk {
    pub(super) fn offset(&self) -> u64 {
        chunk_offset(&self.file_head, self.head.chunk)
    }

    pub(super) fn bytes(&self) -> usize {
        self.file_head.chunk_bytes as usize
    }
}

/// Chunks that were written with one number of lanes.
#[derive(Clone, Debug)]
pub(super) struct FoundEra {
    pub(super) number: u32,
    pub(super) start: u64,
    pub(super) lanes: u16,
    /// By lane, in their order.
    pub(super) chunks: BTreeMap<u16, Vec<FoundChunk>>,
}

/// A place for a chunk that was never used.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreePlace {
    pub(super) head: FileHead,
    pub(super) chunk: u32,
}

/// What was found.
#[derive(Debug)]
pub struct Recovery<D> {
    pub(super) disk: D,
    pub(super) ids: Ids,
    pub(super) trust: Trust,
    pub(super) eras: Vec<FoundEra>,
    pub(super) files: BTreeMap<u64, u64>,
    /// In the files from the last used one on.
    pub(super) free: Vec<FreePlace>,
    /// In all files, those with a torn header too.
    pub(super) unused: Vec<FreePlace>,
    /// The last file in which, or beside which, a chunk was used.
    newest_used: u64,
    pub(super) spares: Vec<(String, u64)>,
    /// Files that a crash left: of no use.
    pub(super) remains: Vec<String>,
    pub(super) bytes_total: u64,
    /// Power was lost and the log was not opened since: a file says so.
    pub(super) is_mending: bool,
    /// The most of a group that the log will write in one record.
    pub(super) part_bytes: usize,
}

impl<D: WalDisk> Recovery<D> {
    /// Looks at the files of a folder.
    ///
    /// # Errors
    /// In order: a missing file, a file's header (see there), a chunk's header, chunks that cannot
    /// belong to one log.
    pub fn find(disk: D, ids: Ids, trust: Trust) -> Result<Recovery<D>, LogError> {
        let mut found = Recovery {
            disk,
            ids,
            trust,
            eras: Vec::new(),
            files: BTreeMap::new(),
            free: Vec::new(),
            unused: Vec::new(),
            newest_used: 0,
            spares: Vec::new(),
            remains: Vec::new(),
            bytes_total: 0,
            is_mending: false,
            part_bytes: PART_BYTES,
        };
        found.list()?;
        found.mark()?;
        let mut eras = BTreeMap::new();
        let files: Vec<(u64, u64)> = found.files.iter().map(|(n, bytes)| (*n, *bytes)).collect();
        for (number, bytes) in files {
            found.look_at(number, bytes, &mut eras)?;
        }
        for era in eras.values_mut() {
            for chunks in era.chunks.values_mut() {
                chunks.sort_by_key(|chunk| chunk.head.seq);
                let twice = chunks.windows(2).find(|two| two[0].head.seq == two[1].head.seq);
                if let Some([one, two]) = twice {
                    let expected = format!("another chunk than the one in {}", one.file);
                    let got = format!("chunk {} of lane {} again", two.head.seq, two.head.lane);
                    return Err(Damage::at(&two.file, two.offset(), expected, got));
                }
            }
        }
        found.eras = eras.into_values().collect();
        Ok(found)
    }

    /// There is no log: no file of one.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// How many eras there are; replayed one after the other, from 0.
    pub fn eras(&self) -> usize {
        self.eras.len()
    }

    /// How many lanes an era has; replayed in any order, or in parallel.
    pub fn lanes(&self, era: usize) -> u16 {
        self.eras[era].lanes
    }

    /// Bytes of chunks that a replay goes through.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Takes in the names. A file with one record whose usual file has gone is going, too.
    fn list(&mut self) -> Result<(), LogError> {
        for (name, bytes) in self.disk.list()? {
            if let Some(number) = file_number(&name) {
                self.files.insert(number, bytes);
            } else if is_spare(&name) {
                self.spares.push((name, bytes));
            } else if name == UNFINISHED_FILE {
                self.remains.push(name);
            } else if name == REPAIR_FILE {
                self.trust = Trust::PowerLost;
                self.is_mending = true;
            }
        }
        self.spares.sort();
        let usual: Vec<u64> = self.files.keys().copied().filter(|n| anchor(*n) == *n).collect();
        if let Some(two) = usual.windows(2).find(|two| two[1] != two[0] + 1) {
            let (missing, next) = (file_name(two[0] + 1), file_name(two[1]));
            let got = format!("no such file, though {next} is there");
            return Err(Damage::at(&missing, 0, "a file of the log", got));
        }
        let first = usual.first().copied().unwrap_or(u64::MAX);
        let orphans = self.files.keys().copied().filter(|number| anchor(*number) < first);
        for orphan in orphans.collect::<Vec<_>>() {
            self.files.remove(&orphan);
            self.remains.push(file_name(orphan));
        }
        Ok(())
    }

    /// After a loss of power what is torn lies about until the log is open: were the process to die
    /// before, the next one must not take it for damage.
    fn mark(&mut self) -> Result<(), LogError> {
        if self.trust == Trust::PowerLost && !self.is_mending && !self.is_empty() {
            self.disk.create(REPAIR_FILE, 0, Fill::Written)?;
            self.disk.sync_folder()?;
            self.is_mending = true;
        }
        Ok(())
    }

    fn look_at(
        &mut self,
        number: u64,
        bytes: u64,
        eras: &mut BTreeMap<u32, FoundEra>,
    ) -> Result<(), LogError> {
        let file = file_name(number);
        let mut header = [0; FILE_HEAD_BYTES];
        if bytes < header.len() as u64 {
            return Err(Damage::at(&file, 0, "a header", format!("{bytes} bytes")));
        }
        self.disk.read(&file, 0, &mut header)?;
        let head = FileHead::parse(&header, &file, bytes, number, self.ids)?;
        let mut free = Vec::new();
        for chunk in 0..head.chunks {
            let mut place = [0; CHUNK_HEADER_BYTES];
            self.disk.read(&file, chunk_offset(&head, chunk), &mut place)?;
            match chunk_at(&place, &head, chunk, &file)? {
                ChunkPlace::Free => free.push(FreePlace { head, chunk }),
                ChunkPlace::Torn(seed) => {
                    self.judge_torn(&file, &head, chunk, seed)?;
                    // Not free: there may be chunks of later files. But nothing may be left of it.
                    self.unused.push(FreePlace { head, chunk });
                }
                ChunkPlace::Used(found, seed) => {
                    let file = file.clone();
                    let chunk = FoundChunk { file, file_head: head, head: found, seed };
                    self.bytes_total += head.chunk_bytes;
                    add_chunk(eras, chunk)?;
                }
            }
        }
        self.unused.extend(&free);
        // A lane's chunks must lie in the order of the files, also those with one record.
        if free.len() < head.chunks as usize {
            self.newest_used = self.newest_used.max(anchor(number));
        }
        if anchor(number) == number {
            self.free.append(&mut free);
        }
        let newest = self.newest_used;
        self.free.retain(|place| place.head.number >= newest);
        Ok(())
    }

    /// A chunk's header that does not hold: it was on its way when the machine stopped, unless
    /// records behind it prove that some of the chunk was synced.
    fn judge_torn(
        &self,
        file: &str,
        head: &FileHead,
        chunk: u32,
        seed: u32,
    ) -> Result<(), LogError> {
        let offset = chunk_offset(head, chunk);
        let is_damage = self.trust == Trust::ProcessDied || {
            let mut bytes = vec![0; head.chunk_bytes as usize];
            self.disk.read(file, offset, &mut bytes)?;
            // Where the lane was is not known: any place will do, as distances count.
            let somewhere = u64::from(u32::MAX);
            remains(&bytes, CHUNK_HEADER_BYTES, seed, somewhere).synced > somewhere
        };
        match is_damage {
            false => Ok(()),
            true => {
                let got = "bytes that do not match their checksum";
                Err(Damage::at(file, offset, "the header of a chunk", got))
            }
        }
    }
}

fn add_chunk(eras: &mut BTreeMap<u32, FoundEra>, chunk: FoundChunk) -> Result<(), LogError> {
    let ChunkHead { era: number, era_start: start, lane, lanes, .. } = chunk.head;
    let new = || FoundEra { number, start, lanes, chunks: BTreeMap::new() };
    let era = eras.entry(number).or_insert_with(new);
    if (era.start, era.lanes) != (start, lanes) || lanes > MAX_LANES {
        let expected = format!("{} lanes from {}, in era {number}", era.lanes, era.start);
        let got = format!("{lanes} lanes from {start}");
        return Err(Damage::at(&chunk.file, chunk.offset(), expected, got));
    }
    era.chunks.entry(lane).or_default().push(chunk);
    Ok(())
}
