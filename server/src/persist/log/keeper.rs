//! The keeper of the log's files: makes them ahead, writes what waited, lets old ones go.
//!
//! ```text
//!   (nothing) --create, zeros--> wal.tmp --header, sync, rename, sync--> wal.N --> pool
//!   wal.N --all its records below the floors: rename, sync--> wal.spare.N --header ...--> wal.M
//! ```
//! One thread owns it. Not the threads nor the pauses (`io/wal`). Invariant: files go oldest
//! first, and a name is on the disk before the bytes under it change their meaning.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::disk::{Fill, LogFile, Piece, WalDisk};
use super::error::{DiskError, Doing};
use super::flags::Policy;
use super::format::{
    CHUNK_HEADER_BYTES, FileHead, UNFINISHED_FILE, alone_number, anchor, chunk_offset, file_name,
    spare_name,
};
use super::lane::{Open, Waiting};
use super::pool::{FreeChunk, Held};
use super::record::record_bytes;
use super::wal::{MAX_WAITING_BYTES, Wal};

/// Files that wait to be used again, at most: half a gigabyte of the usual size.
const MAX_SPARE_FILES: usize = 16;

/// The sizes of new files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes of a chunk, a multiple of 4096. A record that does not fit gets a file of its own.
    pub chunk_bytes: u32,
    /// Chunks of a file.
    pub chunks: u32,
}

impl Default for Sizes {
    /// 1 MiB: a lane turns to its next chunk every ten thousand usual records; 32 of them: a file
    /// is zero-written in a fraction of a second.
    fn default() -> Sizes {
        Sizes { chunk_bytes: 1024 * 1024, chunks: 32 }
    }
}

/// What the keeper has left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Nothing until its bell rings.
    Done,
    /// There is no room: try again in a second, or when files have gone.
    Retry,
}

/// The keeper.
pub struct Keeper<D: WalDisk> {
    disk: D,
    wal: Arc<Wal<D::File>>,
    sizes: Sizes,
    /// Usual files, and files with one record, with their lengths.
    files: BTreeMap<u64, u64>,
    next_file: u64,
    /// The anchor of the last file with one record, the next count, the bytes so far.
    alone: (u64, u64, u64),
    spares: Vec<String>,
}

impl<D: WalDisk> Keeper<D> {
    pub(super) fn new(
        disk: D,
        wal: Arc<Wal<D::File>>,
        sizes: Sizes,
        files: BTreeMap<u64, u64>,
        spares: Vec<String>,
    ) -> Keeper<D> {
        let usual = files.keys().filter(|number| anchor(**number) == **number);
        let next_file = usual.max().map_or(1, |last| last + 1);
        let alone = files.keys().filter_map(|number| super::format::nth_alone(*number)).max();
        let alone = (0, alone.map_or(0, |nth| nth + 1), 0);
        Keeper { disk, wal, sizes, files, next_file, alone, spares }
    }

    /// The log it keeps.
    pub fn wal(&self) -> &Arc<Wal<D::File>> {
        &self.wal
    }

    /// Makes files ahead and writes what waits. To be called when its bell rings, and after a
    /// second when it said `Retry`.
    ///
    /// # Errors
    /// A failed sync, after which the node ends. All else makes the log full until it works again.
    pub fn tend(&mut self) -> Result<Kept, DiskError> {
        let tended = self.make_and_drain();
        let Some(error) = self.judge(tended)? else {
            if self.wal.counted_bytes() <= MAX_WAITING_BYTES {
                self.wal.accept();
            }
            return Ok(Kept::Done);
        };
        self.wal.note_reason(error.to_string());
        if self.wal.flags.waits() || self.wal.pool.lock().is_short() {
            self.wal.set_full();
        }
        Ok(Kept::Retry)
    }

    /// What went wrong, if it is not the end.
    fn make_and_drain(&mut self) -> Result<Option<DiskError>, DiskError> {
        loop {
            self.ready_parts();
            let mut failure = self.make_ahead()?;
            let is_starved = failure.is_some();
            // What waits is written even if no more files can be made.
            let is_done = self.drain(&mut failure)?;
            // Else it used up what was made.
            if is_done || is_starved {
                return Ok(failure);
            }
        }
    }

    /// Pays for the first stores of lanes in a hurry: cheaper than they could, and not under a
    /// slot's lock. Those that were faster paid for themselves.
    fn ready_parts(&self) {
        let rushed = self.wal.pool.lock().take_rushed();
        for (file, offset, bytes) in rushed {
            file.ready(offset, bytes);
        }
    }

    /// What is the end for the keeper is the end for who syncs.
    fn judge<T>(&self, outcome: Result<T, DiskError>) -> Result<T, DiskError> {
        outcome.inspect_err(|error| {
            if error.is_fatal() {
                self.wal.poison(error);
            }
        })
    }

    /// Lets go the files whose records all end at or before the lane's floor: every slot of the
    /// lane has a snapshot that needs none of them. One floor for each lane of this era; while any
    /// is below `era_start`, earlier eras stay. Returns how many files went.
    ///
    /// A snapshot must reach the disk after the log did up to its position: else the lane may come
    /// back shorter, and what is appended then would lie below the floor. So a floor beyond what is
    /// synced counts up to there only.
    ///
    /// # Errors
    /// The disk's. What has gone has gone; a later call goes on.
    pub fn drop_before(&mut self, floors: &[u64]) -> Result<usize, DiskError> {
        let dropped = self.drop_files(floors);
        self.judge(dropped)
    }

    fn drop_files(&mut self, floors: &[u64]) -> Result<usize, DiskError> {
        assert_eq!(floors.len(), self.wal.lanes.len(), "one floor for each lane");
        let synced = (0..).zip(floors).map(|(lane, floor)| self.wal.synced(lane).min(*floor));
        let floors: &[u64] = &synced.collect::<Vec<_>>();
        self.step_over(floors);
        if self.wal.pool.lock().is_unheld() {
            // Where the lanes are stands in no chunk of this era: the old ones must say it.
            return Ok(0);
        }
        let needed = self.wal.pool.lock().first_needed(floors, self.wal.era.start);
        let needed = needed.unwrap_or(0);
        let mut going: Vec<u64> = self.files.keys().copied().collect();
        going.retain(|number| anchor(*number) < needed);
        if going.is_empty() {
            return Ok(0);
        }
        // The headers of the chunks that stay say where their lanes are.
        self.wal.sync_round()?;
        // The usual file of each first: files that go with it are nothing without it.
        going.sort_by_key(|number| (anchor(*number), *number));
        let in_use = self.files.len();
        for number in &going {
            self.drop_file(*number, in_use)?;
        }
        self.wal.pool.lock().forget_before(needed);
        Ok(going.len())
    }

    /// Lanes that were quiet for many files and need nothing any more turn to a new chunk, so that
    /// the old file can go.
    fn step_over(&self, floors: &[u64]) {
        let (current, is_unheld) = {
            let pool = self.wal.pool.lock();
            (pool.current_file(), pool.is_unheld())
        };
        let Some(current) = current else { return };
        // Each costs a chunk: at most half of what is written goes that way.
        let files = 2 * (self.wal.lanes.len() as u64).div_ceil(u64::from(self.sizes.chunks));
        let mut behind = self.wal.pool.lock().behind(current.saturating_sub(files));
        if is_unheld {
            // Someone must know the era.
            behind.push(0);
        }
        for lane in behind {
            let mut state = self.wal.lanes[usize::from(lane)].state.lock();
            if state.tail() <= floors[usize::from(lane)] && !state.waits() {
                self.wal.turn(lane, &mut state, None);
            }
        }
    }

    fn drop_file(&mut self, number: u64, in_use: usize) -> Result<(), DiskError> {
        let bytes = self.files.get(&number).copied();
        let is_usual = bytes == self.head(number).file_bytes() && anchor(number) == number;
        if is_usual && self.spares.len() < in_use.min(MAX_SPARE_FILES) {
            let spare = spare_name(number);
            self.disk.rename(&file_name(number), &spare)?;
            self.files.remove(&number);
            self.disk.sync_folder()?;
            self.spares.push(spare);
            return Ok(());
        }
        self.disk.remove(&file_name(number))?;
        self.files.remove(&number);
        self.disk.sync_folder()
    }

    /// Half a file is free, and a chunk for each lane; the reason if that cannot be.
    fn make_ahead(&mut self) -> Result<Option<DiskError>, DiskError> {
        let wanted = self.wal.lanes.len() + self.sizes.chunks as usize / 2;
        let mut failure = None;
        while failure.is_none() && self.wal.pool.lock().free() < wanted {
            failure = not_fatal(self.make_file())?;
        }
        self.wal.pool.lock().starve(failure.is_some());
        Ok(failure)
    }

    fn head(&self, number: u64) -> FileHead {
        let Sizes { chunk_bytes, chunks } = self.sizes;
        FileHead { ids: self.wal.era.ids, number, chunk_bytes: u64::from(chunk_bytes), chunks }
    }

    fn make_file(&mut self) -> Result<(), DiskError> {
        let head = self.head(self.next_file);
        let file = match self.use_spare(&head)? {
            Some(file) => {
                file.load();
                file
            }
            None => {
                let fill = match self.wal.flags.policy() {
                    Policy::Always => Fill::Written,
                    Policy::EverySec | Policy::No => Fill::Given,
                };
                self.make_new(&head, fill, |_| {})?
            }
        };
        self.next_file += 1;
        let chunks = (0..head.chunks).map(|chunk| FreeChunk {
            file: Arc::clone(&file),
            chunk,
            offset: chunk_offset(&head, chunk),
            bytes: head.chunk_bytes as usize,
            is_ready: false,
        });
        self.wal.add_chunks(chunks);
        Ok(())
    }

    /// `None`: there is no spare of any use.
    fn use_spare(&mut self, head: &FileHead) -> Result<Option<Arc<D::File>>, DiskError> {
        while let Some(spare) = self.spares.last().cloned() {
            match self.put_in_place(&spare, head, |_| {}) {
                // Someone has taken it away, or its room.
                Err(error) if error.doing == Doing::Open => self.disk.remove(&spare)?,
                Err(error) => return Err(error),
                Ok(file) => {
                    self.spares.pop();
                    return Ok(Some(file));
                }
            }
            self.spares.pop();
        }
        Ok(None)
    }

    /// On a full disk, in the room of the spares.
    fn make_new(
        &mut self,
        head: &FileHead,
        how: Fill,
        fill: impl FnOnce(&Arc<D::File>),
    ) -> Result<Arc<D::File>, DiskError> {
        let bytes = head.file_bytes().unwrap_or(u64::MAX);
        while let Err(error) = self.disk.create(UNFINISHED_FILE, bytes, how) {
            let Some(spare) = self.spares.last().filter(|_| !error.is_fatal()) else {
                return Err(error);
            };
            self.disk.remove(spare)?;
            self.spares.pop();
            self.disk.sync_folder()?;
        }
        self.put_in_place(UNFINISHED_FILE, head, fill)
    }

    /// Gives a file its header, no chunks, and its name.
    fn put_in_place(
        &mut self,
        from: &str,
        head: &FileHead,
        fill: impl FnOnce(&Arc<D::File>),
    ) -> Result<Arc<D::File>, DiskError> {
        let name = file_name(head.number);
        let file = self.disk.open(from, &name, head.number)?;
        file.piece(0, super::format::FILE_HEADER_BYTES as usize).write(0, &head.bytes());
        for chunk in 0..head.chunks {
            file.piece(chunk_offset(head, chunk), CHUNK_HEADER_BYTES).publish(0, [0; 8]);
        }
        fill(&file);
        file.sync()?;
        self.disk.rename(from, &name)?;
        self.files.insert(head.number, head.file_bytes().unwrap_or(u64::MAX));
        self.disk.sync_folder()?;
        Ok(file)
    }

    /// Writes what waits; false if there is no chunk for it yet. A lane that fails does not hold up
    /// the others; the first failure is kept.
    fn drain(&mut self, failure: &mut Option<DiskError>) -> Result<bool, DiskError> {
        let mut is_done = true;
        for lane in 0..self.wal.era.lanes {
            while let Some(large) = self.drain_lane(lane, &mut is_done) {
                // Its file takes long: the other lanes need chunks meanwhile.
                let starved = self.make_ahead()?;
                let failed = not_fatal(self.write_alone(lane, &large))?;
                let has_failed = failed.is_some();
                *failure = failure.take().or(starved).or(failed);
                if has_failed {
                    break;
                }
            }
        }
        Ok(is_done)
    }

    /// Copies what waits in a lane, up to a record that needs a file of its own.
    fn drain_lane(&self, lane: u16, is_done: &mut bool) -> Option<Waiting> {
        let mut is_news = false;
        let large = self.copy_waiting(lane, is_done, &mut is_news);
        if is_news {
            self.wal.tell_progress();
        }
        large
    }

    fn copy_waiting(&self, lane: u16, is_done: &mut bool, is_news: &mut bool) -> Option<Waiting> {
        let mut state = self.wal.lanes[usize::from(lane)].state.lock();
        while let Some(first) = state.first_waiting().cloned() {
            if self.wal.is_large(first.payload.len()) {
                return Some(first);
            }
            let synced = self.wal.synced(lane);
            let is_put = state.put_open(&first.summed(), synced)
                || self.wal.turn(lane, &mut state, Some(first.payload.len()))
                    && state.put_open(&first.summed(), synced);
            if !is_put {
                *is_done = false;
                return None;
            }
            state.pop_waiting();
            self.wal.drained(lane, &state, &first);
            *is_news = true;
        }
        None
    }

    /// Writes the first record that waits in a lane to a file of its own. Nothing else is written
    /// to the lane meanwhile: all that comes waits behind it.
    fn write_alone(&mut self, lane: u16, large: &Waiting) -> Result<(), DiskError> {
        let bytes = record_bytes(large.payload.len());
        let number = self.next_alone()?;
        let chunk = {
            let state = self.wal.lanes[usize::from(lane)].state.lock();
            let previous = self.wal.pool.lock().newest(lane);
            self.wal.head(lane, &state, previous, (number, 0))
        };
        let chunk_bytes = CHUNK_HEADER_BYTES + bytes;
        let head = FileHead { chunk_bytes: chunk_bytes as u64, chunks: 1, ..self.head(number) };
        let unsynced = chunk.start - chunk.synced;
        let file = self.make_new(&head, Fill::Given, |file| {
            let (file, offset) = (Arc::clone(file), chunk_offset(&head, 0));
            let place = FreeChunk { file, chunk: 0, offset, bytes: chunk_bytes, is_ready: false };
            Open::begin(place, &chunk, 0).put(&large.summed(), unsynced);
        })?;
        let mut state = self.wal.lanes[usize::from(lane)].state.lock();
        state.note_alone(file, bytes as u64);
        let mut pool = self.wal.pool.lock();
        pool.hold(lane, Held { file: anchor(number), start: chunk.start });
        self.alone.1 += 1;
        self.alone.2 += bytes as u64;
        // A file all of whose neighbours are large must come to its end, too.
        if Some(self.alone.2) >= self.head(0).file_bytes() {
            pool.skip_file(anchor(number));
        }
        drop(pool);
        state.pop_waiting();
        self.wal.drained(lane, &state, large);
        drop(state);
        self.wal.tell_progress();
        Ok(())
    }

    /// A number for a file with one record, which counts once there is one: it goes with the file
    /// the next chunk lies in.
    fn next_alone(&mut self) -> Result<u64, DiskError> {
        if self.wal.pool.lock().current_file().is_none() {
            self.make_file()?;
        }
        let current = self.wal.pool.lock().current_file();
        let current = current.unwrap_or(self.next_file.saturating_sub(1));
        let (anchor, count, _) = self.alone;
        if anchor != current {
            // The first count of a run lies behind all that were found.
            let count = if anchor == 0 { count } else { 0 };
            self.alone = (current, count, 0);
        }
        Ok(alone_number(current, self.alone.1))
    }
}

/// What went wrong, if it is not the end.
fn not_fatal(outcome: Result<(), DiskError>) -> Result<Option<DiskError>, DiskError> {
    match outcome {
        Ok(()) => Ok(None),
        Err(error) if error.is_fatal() => Err(error),
        Err(error) => Ok(Some(error)),
    }
}
