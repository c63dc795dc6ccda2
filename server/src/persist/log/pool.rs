//! The chunks: which are free, which lane holds which.
//!
//! Not the bytes in them (`lane`) nor the files (`keeper`). Its lock is taken inside a lane's,
//! never the other way round, and nothing waits under it.
//! Invariant: chunks are given out in the order of the files, so that files can go oldest first
//! without leaving a hole in any lane.

use std::collections::VecDeque;
use std::sync::Arc;

use super::disk::LogFile;
use super::lane::WINDOW_BYTES;

/// Free chunks that are made ready while lanes are in a hurry: a lane turns to the next one every
/// few milliseconds then.
const READY_CHUNKS: usize = 4;

/// A chunk nobody writes.
pub(super) struct FreeChunk<F> {
    pub(super) file: Arc<F>,
    pub(super) chunk: u32,
    /// Where it begins in the file.
    pub(super) offset: u64,
    pub(super) bytes: usize,
    /// Its first window is ready, or soon will be.
    pub(super) is_ready: bool,
}

/// A chunk of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    /// The usual file it lies in or goes with.
    pub(super) file: u64,
    /// Position of the lane before its first record; the chunk before ends here.
    pub(super) start: u64,
}

/// All chunks of a log.
pub(super) struct Pool<F: LogFile> {
    free: VecDeque<FreeChunk<F>>,
    /// Per lane, oldest first; nobody knows yet where the last one ends.
    held: Vec<VecDeque<Held>>,
    /// The newest file with a chunk of an earlier era.
    elder_file: Option<u64>,
    /// The last file that was wanted could not be made.
    is_starved: bool,
    /// Parts of files that lanes will soon write, before the next round.
    rushed: Vec<(Arc<F>, u64, usize)>,
}

impl<F: LogFile> Pool<F> {
    pub(super) fn new(lanes: u16, elder_file: Option<u64>) -> Pool<F> {
        let held = (0..lanes).map(|_| VecDeque::new()).collect();
        Pool { free: VecDeque::new(), held, elder_file, is_starved: false, rushed: Vec::new() }
    }

    pub(super) fn add(&mut self, chunks: impl Iterator<Item = FreeChunk<F>>) {
        self.free.extend(chunks);
    }

    pub(super) fn take(&mut self) -> Option<FreeChunk<F>> {
        self.free.pop_front()
    }

    /// A chunk that was taken and not used.
    pub(super) fn give_back(&mut self, chunk: FreeChunk<F>) {
        self.free.push_front(chunk);
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// The lane's newest chunk.
    pub(super) fn newest(&self, lane: u16) -> Option<Held> {
        self.held[usize::from(lane)].back().copied()
    }

    /// Gives up what is free in a file, so that the file can go.
    pub(super) fn skip_file(&mut self, file: u64) {
        self.free.retain(|chunk| chunk.file.number() != file);
    }

    /// No lane of this era has a chunk.
    pub(super) fn is_unheld(&self) -> bool {
        self.held.iter().all(VecDeque::is_empty)
    }

    pub(super) fn hold(&mut self, lane: u16, held: Held) {
        self.held[usize::from(lane)].push_back(held);
    }

    /// A lane in a hurry will soon write this part of a file.
    pub(super) fn rush(&mut self, part: (Arc<F>, u64, usize)) {
        self.rushed.push(part);
    }

    /// Lanes take chunks in a hurry: the next ones had better be ready when they do.
    pub(super) fn rush_next(&mut self) {
        let next = self.free.iter_mut().take(READY_CHUNKS).filter(|chunk| !chunk.is_ready);
        for FreeChunk { file, offset, bytes, is_ready, .. } in next {
            *is_ready = true;
            self.rushed.push((Arc::clone(file), *offset, (*bytes).min(WINDOW_BYTES as usize)));
        }
    }

    pub(super) fn take_rushed(&mut self) -> Vec<(Arc<F>, u64, usize)> {
        std::mem::take(&mut self.rushed)
    }

    pub(super) fn starve(&mut self, is_starved: bool) {
        self.is_starved = is_starved;
    }

    /// Fewer chunks are left than each lane may want next, and no more can be made.
    pub(super) fn is_short(&self) -> bool {
        self.is_starved && self.free.len() < self.held.len()
    }

    /// The file the next chunk lies in.
    pub(super) fn current_file(&self) -> Option<u64> {
        self.free.front().map(|chunk| chunk.file.number())
    }

    /// Lanes whose newest chunk lies in a file before this one.
    pub(super) fn behind(&self, file: u64) -> Vec<u16> {
        let lanes = (0..).zip(&self.held);
        lanes
            .filter(|(_, held)| held.back().is_some_and(|newest| newest.file < file))
            .map(|(lane, _)| lane)
            .collect()
    }

    /// The oldest file that is needed when all records up to these positions are not: a chunk
    /// that is open, ends beyond its floor or is free, or anything of an earlier era.
    pub(super) fn first_needed(&self, floors: &[u64], era_start: u64) -> Option<u64> {
        let elder = match floors.iter().all(|floor| *floor >= era_start) {
            true => None,
            false => self.elder_file.map(|_| 0),
        };
        let lanes = self.held.iter().zip(floors).map(|(held, floor)| {
            let ends = held.iter().skip(1).map(|next| next.start);
            let done = ends.take_while(|end| end <= floor).count();
            held.get(done).map_or(u64::MAX, |first| first.file)
        });
        lanes.chain(elder).chain(self.current_file()).min()
    }

    /// Forgets chunks in files before this one.
    pub(super) fn forget_before(&mut self, file: u64) {
        for held in &mut self.held {
            while held.front().is_some_and(|first| first.file < file) {
                held.pop_front();
            }
        }
        self.elder_file.take_if(|elder| *elder < file);
    }
}
