//! A lane: the records of every so many slots, in order.
//!
//! ```text
//!   open chunk  <-- append: copied into the map, at once
//!   waiting     <-- append, while no chunk is free or a record needs a file of its own
//! ```
//! Not the choice of the lane (`wal`). Invariant: a record is copied behind all earlier ones of its
//! lane; while anything waits, everything waits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::disk::{LogFile, Piece};
use super::format::{CHUNK_HEADER_BYTES, ChunkHead};
use super::pool::FreeChunk;
use super::record::{Entry, RECORD_HEADER_BYTES, header, record_bytes};

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
    /// The limit of what may wait is not for it.
    pub(super) is_uncounted: bool,
}

impl Waiting {
    pub(super) fn summed(&self) -> Summed<'_> {
        let Waiting { entry, payload, payload_sum, .. } = self;
        Summed { entry: *entry, payload, payload_sum: *payload_sum }
    }
}

/// The chunk a lane writes.
pub(super) struct Open<F: LogFile> {
    file: Arc<F>,
    piece: F::Piece,
    seed: u32,
    /// Where the next record goes.
    at: usize,
    bytes: usize,
    /// How many rounds of syncs had begun before it.
    pub(super) rounds: u64,
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
        Open { file, piece, seed: head.seed(), at: CHUNK_HEADER_BYTES, bytes, rounds }
    }

    /// Goes on in a chunk whose records end at `at`.
    pub(super) fn resume(
        file: Arc<F>,
        piece: F::Piece,
        seed: u32,
        at: usize,
        bytes: usize,
    ) -> Self {
        Open { file, piece, seed, at, bytes, rounds: 0 }
    }

    pub(super) fn fits(&self, payload: usize) -> bool {
        record_bytes(payload) <= self.bytes - self.at
    }

    /// Copies a record; its first word last. Returns its bytes.
    #[inline]
    pub(super) fn put(&mut self, record: &Summed<'_>, unsynced: u64) -> u64 {
        let Summed { entry, payload, payload_sum } = record;
        let unsynced = u32::try_from(unsynced).unwrap_or(u32::MAX);
        let head = header(entry, payload.len(), *payload_sum, unsynced, self.seed, self.at);
        let (first, rest) = head.split_at(8);
        self.piece.write(self.at + 8, rest);
        self.piece.write(self.at + RECORD_HEADER_BYTES, payload);
        let mut word = [0; 8];
        word.copy_from_slice(first);
        self.piece.publish(self.at, word);
        let bytes = record_bytes(payload.len());
        self.at += bytes;
        bytes as u64
    }
}

/// What is behind a lane's lock.
pub(super) struct LaneState<F: LogFile> {
    pub(super) open: Option<Open<F>>,
    /// Position behind the last record in a chunk.
    pub(super) written: u64,
    /// Position behind the last record, be it waiting.
    pub(super) tail: u64,
    pub(super) next_seq: u64,
    /// Files with bytes no sync has taken, but the open one.
    unsynced_files: Vec<Arc<F>>,
    /// The open chunk has bytes no sync has taken.
    is_dirty: bool,
    pub(super) waiting: VecDeque<Waiting>,
}

impl<F: LogFile> LaneState<F> {
    pub(super) fn new(at: u64, next_seq: u64, open: Option<Open<F>>) -> LaneState<F> {
        LaneState {
            open,
            written: at,
            tail: at,
            next_seq,
            unsynced_files: Vec::new(),
            is_dirty: false,
            waiting: VecDeque::new(),
        }
    }

    /// Copies a record if nothing waits before it and the open chunk has room.
    #[inline]
    pub(super) fn try_put(&mut self, record: &Summed<'_>, synced: u64) -> bool {
        if !self.waiting.is_empty() || !self.put_open(record, synced) {
            return false;
        }
        self.tail = self.written;
        true
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
