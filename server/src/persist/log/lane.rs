//! A lane: the records of every so many slots, in order.
//!
//! ```text
//!   open chunk  <-- append: copied into the map, at once
//!   waiting     <-- append, while no chunk is free or a record needs a file of its own
//! ```
//! Not the choice of the lane (`wal`). Invariant: a record is copied behind all earlier ones of its
//! lane; while anything waits, everything waits.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::Arc;

use super::disk::{LogFile, Piece};
use super::format::{CHUNK_HEADER_BYTES, ChunkHead};
use super::pool::FreeChunk;
use super::record::{Entry, HeaderWords, RECORD_HEADER_BYTES, record_bytes};

/// Of a record whose lines are fetched ahead: beyond that the processor sees the row by itself.
const EXPECTED_BYTES: usize = 256;

/// What of a chunk is made ready at once, and how far ahead of the lane: what of it is not written
/// by the next sync of its file is written for nothing, and a lane of a busy node fills it in some
/// hundredths of a second.
pub(super) const WINDOW_BYTES: u32 = 64 * 1024;

fn window_after(at: u32) -> u32 {
    (at - at % WINDOW_BYTES).saturating_add(WINDOW_BYTES)
}

/// A record with its payload's checksum, taken before the lock.
#[derive(Clone, Copy)]
pub(super) struct Summed<'a> {
    pub(super) entry: Entry,
    pub(super) payload: &'a [u8],
    pub(super) payload_sum: u32,
}

/// A record that waits for its place.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    pub(super) payload: Arc<[u8]>,
    pub(super) payload_sum: u32,
    /// When it is written, the limit of what may wait counts so many bytes more again.
    pub(super) uncounted_bytes: u64,
}

impl Waiting {
    /// In its chunk.
    pub(super) fn bytes(&self) -> u64 {
        record_bytes(self.payload.len()) as u64
    }

    pub(super) fn summed(&self) -> Summed<'_> {
        let Waiting { entry, payload, payload_sum, .. } = self;
        Summed { entry: *entry, payload, payload_sum: *payload_sum }
    }
}

/// The chunk a lane writes. What an append touches comes first, see `LaneState`.
#[repr(C)]
pub(super) struct Open<F: LogFile> {
    piece: F::Piece,
    seed: u32,
    /// Where the next record goes; chunks have fewer than 2^32 bytes.
    at: u32,
    bytes: u32,
    /// Where the next window begins.
    window: u32,
    file: Arc<F>,
    /// Of the chunk in its file.
    offset: u64,
    /// How many rounds of syncs had begun when this window, or the chunk, was.
    rounds: u64,
}

impl<F: LogFile> Open<F> {
    /// Begins a chunk: its header is written, its magic last.
    pub(super) fn begin(place: FreeChunk<F>, head: &ChunkHead, rounds: u64) -> Open<F> {
        let FreeChunk { file, offset, bytes, .. } = place;
        let mut piece = file.piece(offset, bytes);
        let header = head.bytes();
        let (magic, rest) = header.split_at(8);
        piece.write(8, rest);
        let mut word = [0; 8];
        word.copy_from_slice(magic);
        piece.publish(0, word);
        let at = CHUNK_HEADER_BYTES;
        Open { rounds, ..Open::resume(file, piece, head.seed(), at, (offset, bytes)) }
    }

    /// Goes on in a chunk whose records end at `at`.
    pub(super) fn resume(
        file: Arc<F>,
        piece: F::Piece,
        seed: u32,
        at: usize,
        (offset, bytes): (u64, usize),
    ) -> Self {
        let short = |bytes| u32::try_from(bytes).expect("a chunk has fewer than 2^32 bytes");
        let (at, bytes) = (short(at), short(bytes));
        Open { piece, seed, at, bytes, window: window_after(at), file, offset, rounds: 0 }
    }

    /// Has the last record reached the next window?
    #[inline]
    fn has_crossed(&self) -> bool {
        self.at >= self.window
    }

    /// Goes on in the next window; `rounds` have begun by now. If none began since the last window
    /// did, the lane is in a hurry: then the window behind this one, with its place in the file,
    /// had better be ready. (Else a round cleans its pages before they are written, and has written
    /// them for nothing.)
    pub(super) fn cross(&mut self, rounds: u64) -> Option<(Arc<F>, u64, usize)> {
        let is_hurried = self.rounds == rounds;
        self.rounds = rounds;
        self.window = window_after(self.at);
        let start = self.window.min(self.bytes);
        let bytes = (self.bytes - start).min(WINDOW_BYTES) as usize;
        let is_wanted = is_hurried && bytes > 0;
        is_wanted.then(|| (Arc::clone(&self.file), self.offset + u64::from(start), bytes))
    }

    /// Did the lane come here in a hurry: has it filled the last window of `before` since the last
    /// round began?
    pub(super) fn is_hurried_after(&self, before: &Open<F>) -> bool {
        before.rounds == self.rounds
    }

    /// The first two windows of the chunk, or of these the second.
    pub(super) fn first_windows(&self, is_first_ready: bool) -> (Arc<F>, u64, usize) {
        let from = if is_first_ready { self.bytes.min(WINDOW_BYTES) } else { 0 };
        let bytes = (self.bytes.min(2 * WINDOW_BYTES) - from) as usize;
        (Arc::clone(&self.file), self.offset + u64::from(from), bytes)
    }

    #[inline]
    pub(super) fn fits(&self, payload: usize) -> bool {
        record_bytes(payload) <= (self.bytes - self.at) as usize
    }

    /// Copies a record; its first word last. Returns its bytes.
    #[inline]
    pub(super) fn put(&mut self, record: &Summed<'_>, unsynced: u64) -> u64 {
        let Summed { entry, payload, payload_sum } = record;
        // The lane's last record may be another processor's.
        self.piece.expect(self.at as usize, record_bytes(payload.len()).min(EXPECTED_BYTES));
        let unsynced = u32::try_from(unsynced).unwrap_or(u32::MAX);
        let sum = |bytes: &[u8]| F::sum(self.seed, bytes);
        let head = HeaderWords::new(entry, payload.len(), *payload_sum, unsynced, self.at, sum);
        let at = self.at as usize;
        let [first, rest @ ..] = head.words;
        for (nth, word) in rest.into_iter().enumerate() {
            self.piece.write(at + 8 * (nth + 1), &word.to_le_bytes());
        }
        self.piece.write(at + RECORD_HEADER_BYTES - 4, &head.last.to_le_bytes());
        self.piece.write(at + RECORD_HEADER_BYTES, payload);
        self.piece.publish(at, first.to_le_bytes());
        let bytes = record_bytes(payload.len());
        self.at += bytes as u32;
        // A lock is not given back before the stores under it are done: the next record's lines
        // had better be here by then.
        self.piece.expect(at + bytes, bytes.min(EXPECTED_BYTES));
        bytes as u64
    }
}

/// What is behind a lane's lock. All that a usual append touches lies, with the lock before it, in
/// one line: two threads that append to the same lanes by turns hand over one line, not three.
#[repr(C)]
pub(super) struct LaneState<F: LogFile> {
    /// Position behind the last record in a chunk.
    pub(super) written: u64,
    /// The open chunk has bytes no sync has taken.
    is_dirty: bool,
    /// `waiting` has some.
    waits: bool,
    pub(super) open: Option<Open<F>>,
    pub(super) next_seq: u64,
    /// Position behind the last record while some wait.
    waiting_tail: u64,
    waiting: VecDeque<Waiting>,
    /// Files with bytes no sync has taken, but the open one.
    unsynced_files: Vec<Arc<F>>,
}

impl<F: LogFile> LaneState<F> {
    /// The lock takes the first 8 bytes of the line.
    const HOT_BYTES: usize =
        8 + offset_of!(LaneState<F>, open) + offset_of!(Open<F>, window) + size_of::<u32>();

    pub(super) fn new(at: u64, next_seq: u64, open: Option<Open<F>>) -> LaneState<F> {
        const { assert!(Self::HOT_BYTES <= 64, "an append touches a second line of the lane") };
        LaneState {
            written: at,
            is_dirty: false,
            waits: false,
            open,
            next_seq,
            waiting_tail: at,
            waiting: VecDeque::new(),
            unsynced_files: Vec::new(),
        }
    }

    /// Position behind the last record, be it waiting.
    #[inline]
    pub(super) fn tail(&self) -> u64 {
        if self.waits { self.waiting_tail } else { self.written }
    }

    /// Does any record wait?
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// A record waits behind all others.
    pub(super) fn push_waiting(&mut self, record: Waiting) {
        self.waiting_tail = self.tail() + record.bytes();
        self.waiting.push_back(record);
        self.waits = true;
    }

    /// The first record that waits.
    pub(super) fn first_waiting(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// The first record that waits is written.
    pub(super) fn pop_waiting(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front();
        self.waits = !self.waiting.is_empty();
        first
    }

    /// Copies a record if nothing waits before it and the open chunk has room.
    #[inline]
    pub(super) fn try_put(&mut self, record: &Summed<'_>, synced: u64) -> bool {
        !self.waits && self.put_open(record, synced)
    }

    /// Copies a record, whose position is known already, into the open chunk if it has room.
    #[inline]
    pub(super) fn put_open(&mut self, record: &Summed<'_>, synced: u64) -> bool {
        let Some(open) = self.open.as_mut().filter(|open| open.fits(record.payload.len())) else {
            return false;
        };
        self.written += open.put(record, self.written - synced);
        self.is_dirty = true;
        true
    }

    /// The lane has begun another window of its chunk, see `Open::cross`.
    #[inline]
    pub(super) fn has_crossed(&self) -> bool {
        self.open.as_ref().is_some_and(Open::has_crossed)
    }

    /// The next chunk takes the place of the open one.
    pub(super) fn turn(&mut self, next: Open<F>) {
        if let Some(full) = self.open.replace(next).filter(|_| self.is_dirty) {
            self.unsynced_files.push(full.file);
        }
        self.is_dirty = true;
        self.next_seq += 1;
    }

    /// A record that was written to a file of its own.
    pub(super) fn note_alone(&mut self, file: Arc<F>, bytes: u64) {
        if let Some(before) = self.open.take().filter(|_| self.is_dirty) {
            self.unsynced_files.push(before.file);
        }
        self.is_dirty = false;
        self.unsynced_files.push(file);
        self.next_seq += 1;
        self.written += bytes;
    }

    /// Takes the files a sync has to reach for everything that is written now.
    pub(super) fn take_unsynced(&mut self, files: &mut Vec<Arc<F>>) -> u64 {
        files.append(&mut self.unsynced_files);
        if let Some(open) = self.open.as_ref().filter(|_| self.is_dirty) {
            files.push(Arc::clone(&open.file));
        }
        self.is_dirty = false;
        self.written
    }

    pub(super) fn is_unsynced(&self) -> bool {
        self.is_dirty || !self.unsynced_files.is_empty()
    }
}
