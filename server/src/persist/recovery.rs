//! Recovery: what a checkpoint and the log hold, brought into the rooms.
//!
//! ```text
//!   Loader::new --> slot, of the checkpoint's, in any order and in parallel
//!               --> record, of the log's lanes: those of a slot in order --> finish
//! ```
//! Not the threads (`io/recovery`); copies on their way in are in `stages`. After an error the
//! rooms hold half a store: the node must not go on. Invariant: what `finish` returned for is each
//! slot as its last record left it.

mod error;
mod stages;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use slots::{Epoch, OpIndex, SLOTS, SlotId, TableVersion};

pub use error::LoadError;
pub use steps::append_step;

use crate::persist::checkpoint::{Checkpoint, CheckpointDisk, CheckpointError, SlotEntry};
use crate::persist::log::{Damage, Entry, Found, Kind, LaneEnd, Torn};
use crate::slot::Rooms;
use crate::stream::chunk::Chunk;
use crate::stream::{Sink, Unfinished};
use stages::Staging;
use steps::EpochStart;

/// The payload of an Alone mark: the table version it was made at.
pub const ALONE_PAYLOAD_BYTES: usize = 8;

/// The payload of an Alone mark.
pub fn alone_payload(version: TableVersion) -> [u8; ALONE_PAYLOAD_BYTES] {
    version.0.to_le_bytes()
}

/// What was loaded.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Where the lanes of the log end: `Recovery::open` wants them.
    pub ends: Vec<LaneEnd>,
    /// The newest Alone mark of each slot that has one.
    pub alone: BTreeMap<SlotId, TableVersion>,
    /// Slots whose copy was on its way in and was never adopted: it is gone, and these are
    /// `except` in the node's NodeBoot. `Rooms::unadopted` has them until that is in the table.
    pub unadopted: BTreeSet<SlotId>,
    /// Keys there are now.
    pub keys: u64,
    /// Op groups that the log had, those that were known already left out.
    pub groups: u64,
    /// Torn tails that were cut.
    pub torn: Vec<Torn>,
}

/// Brings checkpoint and log into rooms that nobody serves.
pub struct Loader<'a> {
    rooms: &'a Rooms,
    now_ms: u64,
    /// One for each slot. A slot is brought by one thread at a time; the lock says so.
    places: Box<[Mutex<Place>]>,
    groups: AtomicU64,
}

/// No epoch says whether it is before the checkpoint or behind.
const UNSURE: Epoch = Epoch(u64::MAX);

/// What is known of a slot.
#[derive(Default)]
struct Place {
    sink: Option<Sink>,
    /// Groups up to here are in all of the checkpoint's chunks.
    base: OpIndex,
    /// Epoch of what the checkpoint has; 0: there is none, or the log has adopted other content;
    /// `UNSURE`: another cluster's epochs have begun since, or had before.
    epoch: Epoch,
    /// Groups of which only what follows says whether they are in the checkpoint: beyond `base`,
    /// and of an epoch before `epoch`. They are of a life of the slot before a stage was adopted
    /// that the checkpoint has, or of another cluster that the node has joined since.
    doubtful: Vec<(Entry, Box<[u8]>)>,
    alone: TableVersion,
    staging: Staging,
}

impl<'a> Loader<'a> {
    /// Nothing is loaded yet. `now_ms` becomes the last access of every key.
    pub fn new(rooms: &'a Rooms, now_ms: u64) -> Loader<'a> {
        let places = (0..SLOTS).map(|_| Mutex::default()).collect();
        Loader { rooms, now_ms, places, groups: AtomicU64::new(0) }
    }

    /// Loads a slot of the checkpoint, once, before the first record.
    ///
    /// # Errors
    /// The disk's; damage: chunks that do not fit their checksums, are not of this slot, do not
    /// cover it, or are not what the table says.
    pub fn slot<D: CheckpointDisk>(
        &self,
        checkpoint: &Checkpoint<D>,
        entry: &SlotEntry,
        buffer: &mut Vec<u8>,
    ) -> Result<(), CheckpointError> {
        let mut place = self.places[entry.slot.index()].lock();
        assert!(place.sink.is_none(), "a slot is loaded once, before its records");
        let file = checkpoint.file_of(entry);
        let bad = |offset: u64, expected: &str, got: String| {
            let (file, expected) = (file.clone(), expected.to_owned());
            CheckpointError::Damaged(Damage { file, offset, expected, got })
        };
        let mut sink = Sink::new(entry.slot);
        let (mut count, mut keys, mut index) = (0, 0, OpIndex(0));
        let mut chunks = checkpoint.chunks(entry, buffer);
        while let Some((at, bytes)) = chunks.next_chunk()? {
            let chunk = Chunk::read(bytes).map_err(|e| bad(at, "a chunk", e.to_string()))?;
            if chunk.head().epoch != entry.epoch {
                let expected = format!("a chunk at epoch {}", entry.epoch.0);
                return Err(bad(at, &expected, format!("{}", chunk.head().epoch.0)));
            }
            let mut room = self.rooms.replay(entry.slot, self.now_ms);
            let taken = sink.chunk(&chunk, &mut room);
            taken.map_err(|e| bad(at, "a chunk that fits the others", e.to_string()))?;
            index = index.max(chunk.head().index);
            (count, keys) = (count + 1, keys + chunk.len() as u64);
        }
        let got = (count, keys, index);
        if got != (entry.chunks, entry.keys, entry.index) {
            let got = format!("{count} chunks, {keys} keys, index {}", index.0);
            return Err(bad(entry.offset, &format!("{entry:?}"), got));
        }
        place.base = match sink.finish() {
            Ok(index) => index,
            Err(Unfinished::Short { have, .. }) => have,
            Err(Unfinished::Missing) => {
                return Err(bad(entry.offset, "all of the slot", "a part of it".to_owned()));
            }
        };
        (place.epoch, place.alone) = (entry.epoch, entry.alone);
        place.sink = Some(sink);
        Ok(())
    }

    /// Takes a record of the log.
    ///
    /// # Errors
    /// A record this version does not know, or that does not go on where the one before ended: the
    /// words for the log's own error, which names file and offset.
    pub fn record(&self, found: Found<'_>) -> Result<(), String> {
        let Found { entry, payload, position } = found;
        let mut place = self.places[entry.slot.index()].lock();
        let place = &mut *place;
        match entry.kind {
            Kind::OpGroup if place.staging.is_open() => {
                Err(format!("op group {} of a slot that is on its way in", entry.index.0))
            }
            Kind::Drop if payload.is_empty() => {
                self.end_stage(place, entry.slot);
                Ok(())
            }
            Kind::OpGroup | Kind::Drop => self.content(place, entry, payload),
            Kind::StageBegin => self.begin_stage(place, entry, position.at),
            Kind::StageChunk | Kind::StageComplete => self.stage_frame(place, entry, payload),
            Kind::StageGroup => self.stage_group(place, entry, payload),
            Kind::EpochStart => match EpochStart::read(payload)? {
                EpochStart::GoesOn => {
                    self.epoch_start(entry.slot, entry.epoch);
                    Ok(())
                }
                EpochStart::Adopted => self.adopted(place, entry),
                EpochStart::Anew => {
                    place.epoch = UNSURE;
                    Ok(())
                }
            },
            Kind::Alone => {
                let version = payload.try_into().map(u64::from_le_bytes);
                let version = version.map_err(|_| "an Alone mark of no version".to_owned())?;
                place.alone = place.alone.max(TableVersion(version));
                Ok(())
            }
            kind => Err(format!("{kind:?}, which is not known to this version of slotd")),
        }
    }

    /// A group of the room.
    fn content(&self, place: &mut Place, entry: Entry, group: &[u8]) -> Result<(), String> {
        if entry.index <= place.base {
            // The checkpoint holds it, or the replay has come by before.
            return Ok(());
        }
        if entry.epoch < place.epoch {
            place.doubtful.push((entry, group.into()));
            return Ok(());
        }
        self.settle(place)?;
        self.group(place, entry, group)
    }

    /// What was in doubt came after the checkpoint.
    fn settle(&self, place: &mut Place) -> Result<(), String> {
        let doubtful = std::mem::take(&mut place.doubtful);
        doubtful.into_iter().try_for_each(|(entry, group)| self.group(place, entry, &group))
    }

    fn group(&self, place: &mut Place, entry: Entry, group: &[u8]) -> Result<(), String> {
        let Entry { slot, epoch, index, .. } = entry;
        let sink = place.sink.get_or_insert_with(|| Sink::whole(slot, OpIndex(0)));
        let mut room = self.rooms.replay(slot, self.now_ms);
        let taken = sink.group(epoch, index, group, &mut room);
        taken
            .map_err(|error| format!("op group {} of slot {}: {error}", index.0, slot.number()))?;
        self.groups.fetch_add(1, Relaxed);
        Ok(())
    }

    fn epoch_start(&self, slot: SlotId, epoch: Epoch) {
        let mut room = self.rooms.replay(slot, self.now_ms);
        let (newest, index) = (room.epoch().max(epoch), room.index());
        room.set_place(newest, index);
    }

    /// All was given.
    ///
    /// # Errors
    /// A slot whose log ends before its checkpoint, or within a copy that has no begin; groups that
    /// do not fit.
    pub fn finish(mut self) -> Result<Loaded, LoadError> {
        let mut loaded = Loaded::default();
        for (slot, place) in SlotId::all().zip(std::mem::take(&mut self.places)) {
            let mut place = place.into_inner();
            self.settle(&mut place).map_err(|reason| LoadError::Group { slot, reason })?;
            if place.alone != TableVersion(0) {
                self.rooms.keep_alone(slot, place.alone);
                loaded.alone.insert(slot, place.alone);
            }
            if self.leave_stage(&place, slot)? {
                loaded.unadopted.insert(slot);
            }
            match place.sink.as_ref().map(Sink::finish) {
                None | Some(Ok(_)) => {}
                Some(Err(unfinished)) => return Err(LoadError::Unfinished { slot, unfinished }),
            }
        }
        loaded.groups = self.groups.into_inner();
        loaded.keys = u64::try_from(self.rooms.totals.keys.load(Relaxed)).unwrap_or(0);
        Ok(loaded)
    }
}
