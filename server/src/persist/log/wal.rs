//! The write-ahead log as its users see it: append, sync, how far it is.
//!
//! ```text
//!   append --> lane of the slot --> open chunk            (the map: no syscall)
//!                  |  full: the next free chunk of the pool
//!                  +--> waits in memory --> Keeper        (no chunk, or a record of its own file)
//! ```
//! Not the rounds of syncs (`round`), the making and dropping of files (`keeper`), the threads
//! (`io/wal`). Invariant: no append waits for the disk; a record waits in memory only while
//! `flags` says that some do, and `is_written` that it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use parking_lot::Mutex;
use slots::{Epoch, OpIndex, SlotId};

use super::disk::LogFile;
use super::flags::LogFlags;
use super::format::{CHUNK_HEADER_BYTES, ChunkHead, Ids};
use super::lane::{LaneState, Open, Summed, Waiting};
use super::parts::split;
use super::pool::{FreeChunk, Held, Pool};
use super::record::{Entry, Kind, record_bytes};
use super::round::Rounds;

/// Lanes at most: the chunks of one era are found lane by lane.
pub const MAX_LANES: u16 = 1024;
/// Bytes that wait in memory before writes are refused: a few of the largest usual values, or a
/// second of writes, while a file is made. One record larger than a chunk does not count.
pub const MAX_WAITING_BYTES: u64 = 64 * 1024 * 1024;

/// The place behind a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Position {
    /// The lane.
    pub lane: u16,
    /// Bytes of records before this place, in all eras; grows with every record of a slot.
    pub at: u64,
}

/// Whom the log wakes: all return at once and may be called from any thread. Only `sync` and `keep`
/// are rung under locks of the log.
pub struct Bells {
    /// There is something to sync.
    pub sync: Box<dyn Fn() + Send + Sync>,
    /// A chunk was taken or a record waits: the keeper is wanted.
    pub keep: Box<dyn Fn() + Send + Sync>,
    /// `synced` or `is_written` says more than before.
    pub progress: Box<dyn Fn() + Send + Sync>,
}

impl Bells {
    /// Bells nobody hears.
    pub fn silent() -> Bells {
        Bells { sync: Box::new(|| {}), keep: Box::new(|| {}), progress: Box::new(|| {}) }
    }
}

/// Figures of the log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Bytes of records ever written, over all lanes.
    pub appended_bytes: u64,
    /// Of these, not synced.
    pub unsynced_bytes: u64,
    /// Bytes that wait in memory.
    pub waiting_bytes: u64,
    /// Syncs of files.
    pub syncs_total: u64,
    /// Rounds that found something to sync.
    pub rounds_total: u64,
}

/// A lane. The lock and what an append touches lie in its first line.
#[repr(C, align(128))]
pub(super) struct Lane<F: LogFile> {
    pub(super) state: Mutex<LaneState<F>>,
    pub(super) marks: Marks,
}

/// How far a lane is: read by who waits, changed by rounds and by records that wait.
#[repr(align(64))]
pub(super) struct Marks {
    pub(super) synced: AtomicU64,
    /// Records that end beyond this are still waiting; `u64::MAX`: none is.
    pub(super) waits_from: AtomicU64,
}

/// What all chunks of this run have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Era {
    pub(super) ids: Ids,
    pub(super) run: u64,
    pub(super) number: u32,
    pub(super) start: u64,
    pub(super) lanes: u16,
    /// Bytes of a new chunk.
    pub(super) chunk_bytes: usize,
    /// The most of a group in one record.
    pub(super) part_bytes: usize,
}

/// The log. Shared by all who append.
pub struct Wal<F: LogFile> {
    pub(super) lanes: Box<[Lane<F>]>,
    pub(super) era: Era,
    pub(super) bells: Bells,
    pub(super) flags: Arc<LogFlags>,
    pub(super) rounds: Rounds,
    pub(super) pool: Mutex<Pool<F>>,
    full_reason: Mutex<String>,
    /// Of the bytes that wait, those of one group that is larger than a chunk.
    uncounted_bytes: AtomicU64,
}

impl<F: LogFile> Wal<F> {
    pub(super) fn new(era: Era, lanes: Vec<LaneState<F>>, pool: Pool<F>, bells: Bells) -> Wal<F> {
        assert_eq!(lanes.len(), usize::from(era.lanes), "one state for each lane");
        let lane = |state: LaneState<F>| Lane {
            marks: Marks {
                synced: AtomicU64::new(state.written),
                waits_from: AtomicU64::new(u64::MAX),
            },
            state: Mutex::new(state),
        };
        Wal {
            lanes: lanes.into_iter().map(lane).collect(),
            era,
            bells,
            flags: Arc::default(),
            rounds: Rounds::new(),
            pool: Mutex::new(pool),
            full_reason: Mutex::default(),
            uncounted_bytes: AtomicU64::new(0),
        }
    }

    /// Appends the ops of one lock hold; called under the slot's lock, so that its records lie in
    /// order. Never fails, never waits for the disk. Before it executes a write the caller looks at
    /// `is_full`: afterwards it is too late. A group may be of any size, see `parts`.
    #[inline]
    pub fn append(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.append_entry(Entry { kind: Kind::OpGroup, slot, epoch, index }, group)
    }

    /// Appends a record of any kind.
    #[inline]
    pub fn append_entry(&self, entry: Entry, payload: &[u8]) -> Position {
        if payload.len() > self.era.part_bytes {
            return self.append_parts(entry, payload);
        }
        let lane = self.lane_of(entry.slot);
        // It comes while the checksum is made.
        F::fetch(std::ptr::from_ref(&self.lanes[usize::from(lane)]).cast());
        let record = Summed { entry, payload, payload_sum: F::sum(0, payload) };
        // It will wait: a copy of this size is not made under the lane's lock.
        let copy = self.is_large(payload.len()).then(|| Arc::from(payload));
        let mut state = self.lanes[usize::from(lane)].state.lock();
        let synced = self.synced(lane);
        if !state.try_put(&record, synced) {
            self.append_slowly(lane, &mut state, &record, copy);
        }
        if state.has_crossed() {
            self.cross(&mut state);
        }
        let at = state.tail();
        // Read under the lane's lock, see `doze`.
        let wakes = self.rounds.sync_sleeps();
        drop(state);
        if wakes && self.rounds.wake() {
            (self.bells.sync)();
        }
        Position { lane, at }
    }

    /// Appends a group that is larger than a record. Its parts wait for files of their own; the one
    /// hold of the lock keeps them together.
    #[cold]
    fn append_parts(&self, entry: Entry, group: &[u8]) -> Position {
        let lane = self.lane_of(entry.slot);
        let parts = split(entry, group, self.era.part_bytes).into_iter();
        let sum = |(entry, payload): (Entry, Arc<[u8]>)| {
            let payload_sum = F::sum(0, &payload);
            Waiting { entry, payload, payload_sum, uncounted_bytes: 0 }
        };
        let mut parts: Vec<Waiting> = parts.map(sum).collect();
        let total = parts.iter().map(Waiting::bytes).sum();
        let last = parts.last_mut().expect("a group larger than a part has parts");
        last.uncounted_bytes = self.leave_uncounted(total);
        let mut state = self.lanes[usize::from(lane)].state.lock();
        parts.into_iter().for_each(|part| self.wait(lane, &mut state, part));
        Position { lane, at: state.tail() }
    }

    /// The lane of a slot.
    #[inline]
    pub fn lane_of(&self, slot: SlotId) -> u16 {
        slot.number() % self.era.lanes
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> u16 {
        self.era.lanes
    }

    /// What every write and every reply asks, to be kept by who asks.
    pub fn flags(&self) -> Arc<LogFlags> {
        Arc::clone(&self.flags)
    }

    /// Writes must be refused, with `full_reason`: there is no room for them.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.flags.is_full()
    }

    /// Why there is no room: what was tried, the file, the system's reason.
    pub fn full_reason(&self) -> String {
        self.full_reason.lock().clone()
    }

    /// Every record of the lane up to here survives the machine.
    #[inline]
    pub fn synced(&self, lane: u16) -> u64 {
        self.lanes[usize::from(lane)].marks.synced.load(Acquire)
    }

    /// Does what ends here survive the process? False only for records that wait in memory.
    #[inline]
    pub fn is_written(&self, position: Position) -> bool {
        position.at <= self.lanes[usize::from(position.lane)].marks.waits_from.load(Acquire)
    }

    /// Every record of the lane up to here survives the process.
    pub fn written(&self, lane: u16) -> u64 {
        self.lanes[usize::from(lane)].state.lock().written
    }

    /// The place behind the lane's last record.
    pub fn tail(&self, lane: u16) -> u64 {
        self.lanes[usize::from(lane)].state.lock().tail()
    }

    /// Where this era's lanes began: a floor from here on needs no earlier era.
    pub fn era_start(&self) -> u64 {
        self.era.start
    }

    /// The figures of now.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures {
            waiting_bytes: self.flags.waiting_bytes(),
            syncs_total: self.rounds.syncs_total(),
            rounds_total: self.rounds.rounds_total(),
            ..Figures::default()
        };
        for lane in 0..self.era.lanes {
            let written = self.written(lane);
            figures.appended_bytes += written - self.era.start;
            figures.unsynced_bytes += written.saturating_sub(self.synced(lane));
        }
        figures
    }

    /// Not to be called under a lock: who is told may ask.
    pub(super) fn tell_progress(&self) {
        (self.bells.progress)();
    }

    #[cold]
    fn append_slowly(
        &self,
        lane: u16,
        state: &mut LaneState<F>,
        record: &Summed<'_>,
        copy: Option<Arc<[u8]>>,
    ) {
        if !state.waits() && self.turn(lane, state, Some(record.payload.len())) {
            let is_put = state.try_put(record, self.synced(lane));
            assert!(is_put, "a new chunk has room for what was asked of it");
            return;
        }
        let Summed { entry, payload, payload_sum } = *record;
        let uncounted_bytes = match copy {
            Some(_) => self.leave_uncounted(record_bytes(payload.len()) as u64),
            None => 0,
        };
        let payload = copy.unwrap_or_else(|| payload.into());
        self.wait(lane, state, Waiting { entry, payload, payload_sum, uncounted_bytes });
    }

    /// One value may be larger than the limit of what waits, and waits for its file on a sound
    /// disk, too. Returns how many bytes the limit is not for.
    fn leave_uncounted(&self, bytes: u64) -> u64 {
        let is_first = self.uncounted_bytes.compare_exchange(0, bytes, Relaxed, Relaxed).is_ok();
        if is_first { bytes } else { 0 }
    }

    fn wait(&self, lane: u16, state: &mut LaneState<F>, record: Waiting) {
        if !state.waits() {
            self.lanes[usize::from(lane)].marks.waits_from.store(state.written, Release);
        }
        let bytes = record.bytes();
        state.push_waiting(record);
        self.flags.add_waiting(bytes);
        let waiting = self.counted_bytes();
        if waiting > MAX_WAITING_BYTES {
            self.refuse(format!("{waiting} bytes wait for the disk, which is slower than writes"));
        }
        (self.bells.keep)();
    }

    /// The lane has begun another window of its chunk.
    #[cold]
    fn cross(&self, state: &mut LaneState<F>) {
        let rounds = self.rounds_begun();
        if let Some(part) = state.open.as_mut().and_then(|open| open.cross(rounds)) {
            self.pool.lock().rush(part);
            (self.bells.keep)();
        }
    }

    /// The lane's next chunk, with room for so much payload; false if none is free, or none is
    /// large enough.
    pub(super) fn turn(&self, lane: u16, state: &mut LaneState<F>, payload: Option<usize>) -> bool {
        let mut pool = self.pool.lock();
        let Some(place) = pool.take() else { return false };
        if payload.map_or(0, record_bytes) > place.bytes - CHUNK_HEADER_BYTES {
            pool.give_back(place);
            return false;
        }
        let previous = pool.newest(lane);
        let head = self.head(lane, state, previous, (place.file.number(), place.chunk));
        pool.hold(lane, Held { file: head.file, start: head.start });
        let is_ready = place.is_ready;
        let next = Open::begin(place, &head, self.rounds_begun());
        if state.open.as_ref().is_some_and(|before| next.is_hurried_after(before)) {
            pool.rush(next.first_windows(is_ready));
            pool.rush_next();
        }
        let is_short = pool.is_short();
        drop(pool);
        state.turn(next);
        if is_short {
            self.set_full();
        }
        (self.bells.keep)();
        true
    }

    /// The header of the lane's next chunk.
    pub(super) fn head(
        &self,
        lane: u16,
        state: &LaneState<F>,
        previous: Option<Held>,
        (file, chunk): (u64, u32),
    ) -> ChunkHead {
        let Era { ids, run, number, start, lanes, .. } = self.era;
        ChunkHead {
            store: ids.store,
            file,
            chunk,
            run,
            era: number,
            era_start: start,
            lane,
            lanes,
            seq: state.next_seq,
            start: state.written,
            synced: self.synced(lane),
            previous_file: previous.map_or(0, |held| held.file),
            previous_start: previous.map_or(0, |held| held.start),
        }
    }

    fn refuse(&self, reason: String) {
        self.note_reason(reason);
        self.set_full();
    }

    pub(super) fn set_full(&self) {
        self.flags.set_full(true);
    }

    pub(super) fn note_reason(&self, reason: String) {
        *self.full_reason.lock() = reason;
    }

    pub(super) fn accept(&self) {
        self.flags.set_full(false);
    }

    /// The first record that waited in a lane is written. Called under the lane's lock; when it is
    /// free again `tell_progress` is due.
    pub(super) fn drained(&self, lane: u16, state: &LaneState<F>, first: &Waiting) {
        let upto = if state.waits() { state.written } else { u64::MAX };
        self.lanes[usize::from(lane)].marks.waits_from.store(upto, Release);
        // After that: see `LogFlags::waits`.
        self.flags.take_waiting(first.bytes());
        if first.uncounted_bytes > 0 {
            self.uncounted_bytes.store(0, Relaxed);
        }
        // As an append does, see `doze`; and a round that is owed can be done now.
        if self.rounds.wake() || self.is_round_wanted() {
            (self.bells.sync)();
        }
    }

    /// Bytes that wait, as the limit counts them.
    pub(super) fn counted_bytes(&self) -> u64 {
        let uncounted = self.uncounted_bytes.load(Relaxed);
        self.flags.waiting_bytes().saturating_sub(uncounted)
    }

    /// Does a record with so much payload need a file of its own?
    #[inline]
    pub(super) fn is_large(&self, payload: usize) -> bool {
        record_bytes(payload) > self.era.chunk_bytes - CHUNK_HEADER_BYTES
    }

    pub(super) fn add_chunks(&self, chunks: impl Iterator<Item = FreeChunk<F>>) {
        self.pool.lock().add(chunks);
    }
}

impl<F: LogFile> std::fmt::Debug for Wal<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wal").field("era", &self.era).finish_non_exhaustive()
    }
}
