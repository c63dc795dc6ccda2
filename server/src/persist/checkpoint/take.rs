//! A round: all slots in order, chunk by chunk, into part files; then the manifest.
//!
//! ```text
//!  slot after slot --> part.N.0, synced as it grows, .1, ... --> folder --> the log
//!    manifest.tmp --sync, rename, sync the folder--> manifest --> parts of old rounds go
//! ```
//! Not the choice of when, nor of the log's floors: the caller notes every lane's tail before it
//! and lets the log go after it. Invariant: until the manifest has its name nothing of the old
//! checkpoint changes; after it nothing of the new one.

use slots::{OpIndex, SlotId, TableVersion};

use super::disk::{CheckpointDisk, PartFile};
use super::error::NotTaken;
use super::format::{
    FRAME_BYTES, MANIFEST_FILE, Manifest, PartAbout, PartHead, SlotEntry, Trailer, UNFINISHED_FILE,
    part_name, part_of, put_frame,
};
use crate::persist::log::{DiskError, Ids, LogFile, Wal};
use crate::slot::Rooms;
use crate::stream::chunk::{Chunk, Head};
use crate::stream::{Budget, Snapshot, Unreadable, empty_chunk};

/// Bytes of a part after which the next slot begins another: enough files for every thread that
/// loads them, few enough to be opened and synced at once.
const PART_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of a part that may be unsynced: what others sync on the same disk waits for no more.
const UNSYNCED_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Times a slot is begun anew because another epoch began: its hands do not change faster than it
/// is read, unless something is wrong.
const EPOCHS_PER_SLOT_MAX: usize = 8;
/// The chunk buffer is given back if a large value has made it grow beyond.
const BUFFER_KEEP_BYTES: usize = 4 * 1024 * 1024;

/// What a round is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundAbout {
    /// Whose checkpoint it is.
    pub ids: Ids,
    /// Now, unix ms.
    pub created_ms: u64,
    /// Number of the last checkpoint that was found or taken; 0: there was none.
    pub after: u64,
}

/// The outside of a round.
pub trait RoundEdge {
    /// A clock that only grows.
    fn mono_ns(&self) -> u64;
    /// A chunk is written, and the work since this returned last took so long: the place to rest.
    /// False: the round is given up and its files are removed.
    fn after_chunk(&self, worked_ns: u64, so_far: Progress) -> bool;
    /// Everything that was journaled before the call survives the machine when this returns, also
    /// what still waited in memory. An error gives the round up: without it the checkpoint could
    /// hold what the log has lost.
    fn sync_log(&self) -> Result<(), DiskError>;
    /// The slot's newest Alone mark; version 0: none.
    fn alone(&self, slot: SlotId) -> TableVersion;
}

/// How far a round is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Slots that are done, of all there are.
    pub slots: usize,
    /// Keys written.
    pub keys: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A checkpoint was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its number.
    pub number: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Keys in it.
    pub keys: u64,
    /// Slots in it: those with keys, and those with a past.
    pub slots: u32,
    /// The longest time a room's lock was held.
    pub longest_hold_ns: u64,
    /// Part files.
    pub parts: u32,
}

/// Takes a checkpoint of all slots. Blocks: it waits for rooms and for the disk. The memory it
/// needs beside the rooms is one chunk as bytes: some 256 KiB, or the largest value.
///
/// # Errors
/// The old checkpoint stands, and the files of the round are removed as far as that can be.
pub fn take<D: CheckpointDisk>(
    rooms: &Rooms,
    disk: &D,
    about: RoundAbout,
    edge: &dyn RoundEdge,
) -> Result<Taken, NotTaken> {
    take_by(Measure::default(), rooms, disk, about, edge)
}

/// Up to where each lane may go once a round that begins now is on the disk: its tail, or the begin
/// of its oldest stage, whose content is in no checkpoint.
pub fn floors<F: LogFile>(wal: &Wal<F>, rooms: &Rooms) -> Vec<u64> {
    let mut floors: Vec<u64> = (0..wal.lanes()).map(|lane| wal.tail(lane)).collect();
    // After the tails: a stage that was begun since lies behind them, and the round meets the room
    // of one that has ended since.
    for (slot, begun) in rooms.stage_begins() {
        let floor = &mut floors[usize::from(wal.lane_of(slot))];
        // A place within the record: the file it ends in is needed.
        *floor = (*floor).min(begun - 1);
    }
    floors
}

/// How large the pieces of a checkpoint are. Tests have smaller ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::persist) struct Measure {
    pub(in crate::persist) budget: Budget,
    pub(in crate::persist) part_bytes: u64,
    pub(in crate::persist) unsynced_bytes: u64,
}

impl Default for Measure {
    fn default() -> Measure {
        let (part_bytes, unsynced_bytes) = (PART_BYTES, UNSYNCED_BYTES_MAX);
        Measure { budget: Budget::default(), part_bytes, unsynced_bytes }
    }
}

pub(in crate::persist) fn take_by<D: CheckpointDisk>(
    measure: Measure,
    rooms: &Rooms,
    disk: &D,
    about: RoundAbout,
    edge: &dyn RoundEdge,
) -> Result<Taken, NotTaken> {
    let found = disk.list()?;
    let known = found.iter().filter_map(|(name, _)| part_of(name)).max();
    let number = known.unwrap_or(0).max(about.after) + 1;
    let clock = || edge.mono_ns();
    let mut round = Round {
        measure,
        rooms,
        disk,
        edge,
        clock: &clock,
        head: PartHead { ids: about.ids, number, part: 0 },
        part: None,
        parts: Vec::new(),
        slots: 0,
        so_far: Progress::default(),
        longest_hold_ns: 0,
        rested_ns: edge.mono_ns(),
        buffer: Vec::new(),
    };
    let manifest =
        round.write(about.created_ms).inspect_err(|error| clean_up(disk, number, error))?;
    disk.rename(UNFINISHED_FILE, MANIFEST_FILE)?;
    disk.sync_folder()?;
    if let Err(error) = remove_leftovers(disk, Some(number)) {
        tracing::warn!(%error, "a file of the checkpoint before does not go");
    }
    Ok(Taken {
        number,
        bytes: manifest.parts.iter().map(|part| part.bytes).sum(),
        keys: manifest.keys,
        slots: manifest.slots,
        longest_hold_ns: round.longest_hold_ns,
        parts: manifest.parts.len() as u32,
    })
}

/// Removes the checkpoint: whole, or it is still there.
///
/// # Errors
/// The disk's.
pub fn remove_all<D: CheckpointDisk>(disk: &D) -> Result<(), DiskError> {
    if disk.list()?.iter().any(|(name, _)| name == MANIFEST_FILE) {
        disk.remove(MANIFEST_FILE)?;
        disk.sync_folder()?;
    }
    remove_leftovers(disk, None)
}

/// Removes what does not belong to the checkpoint with this number (`None`: there is none): parts
/// of rounds that were not finished, or of the checkpoint before.
///
/// # Errors
/// The disk's. What has gone has gone.
pub fn remove_leftovers<D: CheckpointDisk>(disk: &D, number: Option<u64>) -> Result<(), DiskError> {
    let mut going = Vec::new();
    for (name, _) in disk.list()? {
        let is_old = part_of(&name).is_some_and(|of| Some(of) != number);
        if is_old || name == UNFINISHED_FILE {
            going.push(name);
        }
    }
    if going.is_empty() {
        return Ok(());
    }
    // A process that died may have given the manifest a name that no sync has reached: were that
    // name lost now, what goes here would be needed.
    disk.sync_folder()?;
    going.iter().try_for_each(|name| disk.remove(name))?;
    disk.sync_folder()
}

/// The files of a round that came to nothing. After a sync that failed nothing is touched.
fn clean_up<D: CheckpointDisk>(disk: &D, number: u64, error: &NotTaken) {
    if matches!(error, NotTaken::Disk(error) if error.is_fatal()) {
        return;
    }
    let Ok(files) = disk.list() else { return };
    for (name, _) in files {
        if part_of(&name) == Some(number) || name == UNFINISHED_FILE {
            // What stays is removed by the next round, or the next start.
            let _ = disk.remove(&name);
        }
    }
}

struct Round<'a, D: CheckpointDisk> {
    measure: Measure,
    rooms: &'a Rooms,
    disk: &'a D,
    edge: &'a dyn RoundEdge,
    clock: &'a dyn Fn() -> u64,
    /// Of the current part, or the next.
    head: PartHead,
    part: Option<Part<D::File>>,
    /// Those that are done.
    parts: Vec<PartAbout>,
    slots: u32,
    so_far: Progress,
    longest_hold_ns: u64,
    /// When the work since the last rest began.
    rested_ns: u64,
    /// A frame.
    buffer: Vec<u8>,
}

struct Part<F> {
    file: F,
    seed: u32,
    bytes: u64,
    unsynced: u64,
    entries: Vec<SlotEntry>,
}

impl<D: CheckpointDisk> Round<'_, D> {
    /// All up to the manifest's name.
    fn write(&mut self, created_ms: u64) -> Result<Manifest, NotTaken> {
        for slot in SlotId::all() {
            self.slot(slot)?;
            self.so_far.slots += 1;
        }
        self.end_part()?;
        self.disk.sync_folder()?;
        self.edge.sync_log()?;
        let manifest = Manifest {
            number: self.head.number,
            created_ms,
            keys: self.so_far.keys,
            slots: self.slots,
            parts: std::mem::take(&mut self.parts),
        };
        let mut file = self.disk.create(UNFINISHED_FILE)?;
        file.append(&manifest.bytes(self.head.ids))?;
        file.sync()?;
        Ok(manifest)
    }

    fn slot(&mut self, slot: SlotId) -> Result<(), NotTaken> {
        // Here only: there are no more parts than slots, whatever an attempt leaves behind.
        if self.part.as_ref().is_some_and(|part| part.bytes >= self.measure.part_bytes) {
            self.end_part()?;
        }
        for _ in 0..EPOCHS_PER_SLOT_MAX {
            match self.attempt(slot) {
                Err(Stop::OtherEpoch) => {}
                Err(Stop::NotTaken(error)) => return Err(error),
                Ok(None) => return Ok(()),
                Ok(Some(entry)) => {
                    self.slots += 1;
                    self.so_far.keys += entry.keys;
                    let part = self.part.as_mut().expect("its chunks lie in a part");
                    part.entries.push(entry);
                    return Ok(());
                }
            }
        }
        Err(NotTaken::Restless(slot))
    }

    /// Writes a slot once; `None` if there is nothing to say of it.
    fn attempt(&mut self, slot: SlotId) -> Result<Option<SlotEntry>, Stop> {
        let mut snapshot = match Snapshot::begin(self.rooms, slot) {
            Ok(snapshot) => snapshot.timed(self.clock),
            Err(Unreadable::LetGo) => return self.let_go(slot),
            Err(Unreadable::OtherEpoch) => return Err(Stop::OtherEpoch),
            Err(Unreadable::TooManyReaders) => return Err(NotTaken::TooManyReaders(slot).into()),
        };
        let mut entry = None;
        loop {
            self.begin_frame();
            let next = snapshot.next_chunk(self.measure.budget, &mut self.buffer);
            self.longest_hold_ns = self.longest_hold_ns.max(snapshot.longest_hold_ns());
            match next {
                Ok(Some(head)) => {
                    let is_first = entry.is_none();
                    self.chunk(&head, &mut entry)?;
                    if is_first && entry.is_none() {
                        return Ok(None);
                    }
                }
                Ok(None) => return Ok(entry),
                Err(Unreadable::LetGo) => return self.let_go(slot),
                Err(_) => return Err(Stop::OtherEpoch),
            }
        }
    }

    /// A slot whose content has gone keeps its place in its stream: what comes next goes on there.
    fn let_go(&mut self, slot: SlotId) -> Result<Option<SlotEntry>, Stop> {
        self.begin_frame();
        let head = empty_chunk(self.rooms, slot, &mut self.buffer).ok_or(Stop::OtherEpoch)?;
        let mut entry = None;
        self.chunk(&head, &mut entry)?;
        Ok(entry)
    }

    fn begin_frame(&mut self) {
        if self.buffer.capacity() > BUFFER_KEEP_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        self.buffer.resize(FRAME_BYTES, 0);
    }

    /// Writes the chunk in the buffer, unless it says nothing: a slot that never had a key.
    fn chunk(&mut self, head: &Head, entry: &mut Option<SlotEntry>) -> Result<(), NotTaken> {
        let chunk = Chunk::read(&self.buffer[FRAME_BYTES..]).expect("a chunk was just written");
        let keys = chunk.len() as u64;
        let alone = self.edge.alone(head.slot);
        let says_nothing = head.is_last && keys == 0 && head.index == OpIndex(0) && alone.0 == 0;
        if entry.is_none() && says_nothing {
            return Ok(());
        }
        self.begin_part()?;
        let part = self.part.as_mut().expect("it was just begun");
        let entry = entry.get_or_insert(SlotEntry {
            slot: head.slot,
            part: self.head.part,
            offset: part.bytes,
            bytes: 0,
            chunks: 0,
            keys: 0,
            epoch: head.epoch,
            index: head.index,
            alone,
        });
        put_frame(&mut self.buffer, part.seed, part.bytes);
        let bytes = self.buffer.len() as u64;
        entry.bytes += bytes;
        entry.chunks += 1;
        entry.keys += keys;
        entry.index = entry.index.max(head.index);
        entry.alone = entry.alone.max(alone);
        part.append(&self.buffer, self.measure.unsynced_bytes)?;
        self.so_far.bytes += bytes;
        self.rest()
    }

    fn rest(&mut self) -> Result<(), NotTaken> {
        let worked_ns = self.edge.mono_ns().saturating_sub(self.rested_ns);
        let goes_on = self.edge.after_chunk(worked_ns, self.so_far);
        self.rested_ns = self.edge.mono_ns();
        if goes_on { Ok(()) } else { Err(NotTaken::GivenUp) }
    }

    fn begin_part(&mut self) -> Result<(), DiskError> {
        if self.part.is_some() {
            return Ok(());
        }
        let file = self.disk.create(&part_name(self.head.number, self.head.part))?;
        let seed = self.head.seed();
        let mut part = Part { file, seed, bytes: 0, unsynced: 0, entries: Vec::new() };
        part.append(&self.head.bytes(), self.measure.unsynced_bytes)?;
        self.part = Some(part);
        Ok(())
    }

    fn end_part(&mut self) -> Result<(), DiskError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        self.parts.push(part.end()?);
        self.head.part += 1;
        Ok(())
    }
}

impl<F: PartFile> Part<F> {
    /// Appends; what is unsynced stays below the bound.
    fn append(&mut self, bytes: &[u8], unsynced_max: u64) -> Result<(), DiskError> {
        self.file.append(bytes)?;
        self.bytes += bytes.len() as u64;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= unsynced_max {
            self.file.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Writes the table and the trailer.
    fn end(mut self) -> Result<PartAbout, DiskError> {
        let mut end = Vec::new();
        self.entries.iter().for_each(|entry| entry.put(&mut end));
        let trailer = Trailer { table_at: self.bytes, count: self.entries.len() as u32 };
        let table_sum = trailer.sum(self.seed, &end);
        trailer.put(table_sum, &mut end);
        self.append(&end, u64::MAX)?;
        self.file.sync()?;
        Ok(PartAbout { bytes: self.bytes, table_sum })
    }
}

/// Why an attempt at a slot ends.
enum Stop {
    OtherEpoch,
    NotTaken(NotTaken),
}

impl From<NotTaken> for Stop {
    fn from(error: NotTaken) -> Stop {
        Stop::NotTaken(error)
    }
}
