//! The log goes on where the replay ended.
//!
//! ```text
//!   readable, perhaps unsynced: written again     cut: header and remains made unreadable
//!                         both synced, then the first new append
//! ```
//! Not the judgement of what is cut (`replay`). Invariant: what was handed over by the replay
//! survives any later crash, what was cut never comes back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::disk::{LogFile, Piece, WalDisk};
use super::error::{DiskError, LogError};
use super::format::{CHUNK_HEADER_BYTES, ChunkHead, REPAIR_FILE, anchor, chunk_offset, file_name};
use super::keeper::{Keeper, Sizes};
use super::lane::{LaneState, Open};
use super::pool::{FreeChunk, Held, Pool};
use super::recover::{FoundChunk, FreePlace, Recovery};
use super::replay::LaneEnd;
use super::wal::{Bells, Era, MAX_LANES, Wal};

/// How a log is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many lanes: 8 for each worker thread. Another number than before begins a new era.
    pub lanes: u16,
    /// The sizes of new files.
    pub sizes: Sizes,
    /// A random number of this run: places that are used again are told by it.
    pub run: u64,
}

/// A lane of the last era, mended.
struct Mended {
    position: u64,
    next_seq: u64,
    held: Vec<Held>,
    /// The chunk to go on in, and where.
    open: Option<(FoundChunk, usize)>,
}

impl<D: WalDisk> Recovery<D> {
    /// Mends the tails of the lanes of the last era (`ends`, one of each) and opens the log. It
    /// makes no file: call `Keeper::tend` before the first append, or appends wait in memory.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(
        self,
        ends: Vec<LaneEnd>,
        options: Options,
        bells: Bells,
    ) -> Result<Keeper<D>, LogError> {
        let Options { lanes, sizes, run } = options;
        assert!((1..=MAX_LANES).contains(&lanes), "{lanes} lanes");
        assert!(sizes.chunk_bytes.is_multiple_of(8) && sizes.chunks > 0, "{sizes:?}");
        assert!(sizes.chunk_bytes as usize > 2 * CHUNK_HEADER_BYTES, "{sizes:?}");
        let last = self.eras.last().map(|era| (era.number, era.start, era.lanes));
        let last_ends = ends.iter().filter(|end| end.era + 1 == self.eras.len());
        let (number, start, old_lanes) = last.unwrap_or((1, 0, lanes));
        assert!(last.is_none() || last_ends.count() == usize::from(old_lanes), "all lanes' ends");
        let goes_on = old_lanes == lanes;
        let free = self.free.iter().copied().collect();
        let mut mender = Mender { recovery: &self, files: BTreeMap::new(), free, goes_on, run };
        let mended = mender.mend(ends)?;
        let end = mended.values().map(|lane| lane.position).max().unwrap_or(start).max(start);
        let (number, start) = if goes_on { (number, start) } else { (number + 1, end) };
        let chunk_bytes = sizes.chunk_bytes as usize;
        let part_bytes = self.part_bytes;
        assert!(part_bytes > chunk_bytes, "parts of {part_bytes} bytes lie in files of their own");
        let era = Era { ids: self.ids, run, number, start, lanes, chunk_bytes, part_bytes };
        let Mender { mut files, free, .. } = mender;
        let elder_file = self.elder_file(goes_on);
        let mut pool = Pool::new(lanes, elder_file);
        let mut states = Vec::new();
        for lane in 0..lanes {
            states.push(match mended.get(&lane).filter(|_| goes_on) {
                Some(lane_mended) => {
                    lane_mended.held.iter().for_each(|held| pool.hold(lane, *held));
                    let open = lane_mended.open.as_ref().map(|(chunk, at)| {
                        let file = Arc::clone(&files[&chunk.file_head.number]);
                        let piece = file.piece(chunk.offset(), chunk.bytes());
                        Open::resume(file, piece, chunk.seed, *at, (chunk.offset(), chunk.bytes()))
                    });
                    LaneState::new(lane_mended.position, lane_mended.next_seq, open)
                }
                None => LaneState::new(start, 0, None),
            });
        }
        pool.add(self.free_chunks(sizes, &free, &mut files)?.into_iter());
        let spares = self.tidy_up(sizes)?;
        let wal = Arc::new(Wal::new(era, states, pool, bells));
        Ok(Keeper::new(self.disk, wal, sizes, self.files, spares))
    }

    /// The newest file that earlier eras need.
    fn elder_file(&self, goes_on: bool) -> Option<u64> {
        let elder = self.eras.len() - usize::from(goes_on && !self.eras.is_empty());
        let chunks = self.eras[..elder].iter().flat_map(|era| era.chunks.values().flatten());
        chunks.map(|chunk| anchor(chunk.file_head.number)).max()
    }

    fn free_chunks(
        &self,
        sizes: Sizes,
        places: &VecDeque<FreePlace>,
        files: &mut BTreeMap<u64, Arc<D::File>>,
    ) -> Result<Vec<FreeChunk<D::File>>, DiskError> {
        let mut free = Vec::new();
        for FreePlace { head, chunk } in places {
            if head.chunk_bytes != u64::from(sizes.chunk_bytes) {
                continue;
            }
            let file = Arc::clone(opened(&self.disk, files, head.number)?);
            let (offset, bytes) = (chunk_offset(head, *chunk), head.chunk_bytes as usize);
            free.push(FreeChunk { file, chunk: *chunk, offset, bytes, is_ready: false });
        }
        Ok(free)
    }

    /// Removes what a crash left, and spares of other sizes; the spares that stay.
    fn tidy_up(&self, sizes: Sizes) -> Result<Vec<String>, DiskError> {
        for name in &self.remains {
            self.disk.remove(name)?;
            self.disk.sync_folder()?;
        }
        let bytes = u64::from(sizes.chunk_bytes) * u64::from(sizes.chunks);
        let bytes = bytes + super::format::FILE_HEADER_BYTES;
        let mut spares = Vec::new();
        for (name, length) in &self.spares {
            match *length == bytes {
                true => spares.push(name.clone()),
                false => self.disk.remove(name)?,
            }
        }
        Ok(spares)
    }
}

fn opened<'a, D: WalDisk>(
    disk: &D,
    files: &'a mut BTreeMap<u64, Arc<D::File>>,
    number: u64,
) -> Result<&'a Arc<D::File>, DiskError> {
    use std::collections::btree_map::Entry;
    let name = super::format::file_name(number);
    Ok(match files.entry(number) {
        Entry::Occupied(file) => file.into_mut(),
        Entry::Vacant(place) => place.insert(disk.open(&name, &name, number)?),
    })
}

/// A group that is not whole and goes.
struct Cut {
    /// The chunk of its first part.
    first: FoundChunk,
    /// The files of further ones.
    files: Vec<String>,
}

struct Mender<'a, D: WalDisk> {
    recovery: &'a Recovery<D>,
    /// The files that were opened; all are synced at the end.
    files: BTreeMap<u64, Arc<D::File>>,
    /// Places no lane has taken.
    free: VecDeque<FreePlace>,
    goes_on: bool,
    run: u64,
}

impl<D: WalDisk> Mender<'_, D> {
    fn mend(&mut self, ends: Vec<LaneEnd>) -> Result<BTreeMap<u16, Mended>, DiskError> {
        let disk = &self.recovery.disk;
        let mut mended = BTreeMap::new();
        let (mut gone, mut cuts) = (Vec::new(), Vec::new());
        if self.recovery.is_mending {
            self.mend_places()?;
        }
        for end in ends {
            if end.era + 1 == self.recovery.eras.len() {
                mended.insert(end.lane, self.mend_lane(end, &mut gone, &mut cuts)?);
            }
        }
        for file in self.files.values() {
            file.sync()?;
        }
        // A process that died may have given a name no sync has reached.
        disk.sync_folder()?;
        for file in gone {
            disk.remove(&file)?;
            disk.sync_folder()?;
        }
        for Cut { first, files } in cuts {
            // The last first: what is left whenever this ends is the beginning of a group, too.
            for file in files.iter().rev() {
                disk.remove(file)?;
                disk.sync_folder()?;
            }
            self.empty(&first)?;
        }
        if self.recovery.is_mending {
            disk.remove(REPAIR_FILE)?;
            disk.sync_folder()?;
        }
        Ok(mended)
    }

    /// A start before this one may have wiped the header of a chunk in the page cache only: what
    /// looks unused now must look so after the next loss of power, too.
    fn mend_places(&mut self) -> Result<(), DiskError> {
        for FreePlace { head, chunk } in &self.recovery.unused {
            let file = opened(&self.recovery.disk, &mut self.files, head.number)?;
            let mut piece = file.piece(chunk_offset(head, *chunk), CHUNK_HEADER_BYTES);
            piece.publish(0, [0; 8]);
        }
        Ok(())
    }

    fn mend_lane(
        &mut self,
        end: LaneEnd,
        gone: &mut Vec<String>,
        cuts: &mut Vec<Cut>,
    ) -> Result<Mended, DiskError> {
        let mut mended = Mended {
            position: end.position,
            next_seq: end.next_seq,
            held: end.kept.iter().map(held).collect(),
            open: None,
        };
        let ends = end.kept.iter().skip(1).map(|next| next.head.start).chain([end.position]);
        for (chunk, ends_at) in end.kept.iter().zip(ends) {
            if ends_at > end.synced || ends_at == end.position {
                self.write_again(chunk, end.synced, ends_at)?;
            }
        }
        if let Some(last) = end.kept.last() {
            let at = CHUNK_HEADER_BYTES + (end.position - last.head.start) as usize;
            if let Some(files) = end.cut {
                cuts.push(Cut { first: last.clone(), files });
            } else if end.is_dirty || self.recovery.is_mending {
                let zeros = vec![0; last.bytes() - at];
                self.piece(last)?.write(at, &zeros);
            }
            mended.open = Some((last.clone(), at));
        }
        let mut void = end.void.into_iter();
        let era_start = self.recovery.eras.last().map_or(0, |era| era.start);
        if end.kept.is_empty() && self.goes_on && end.position > era_start {
            // Somewhere the lane's position must stand.
            if let Some(last) = void.as_slice().first().cloned() {
                let place = self.free.pop_front();
                if place.is_none() {
                    void.next();
                }
                let taken = self.take_over(place, last, &mended)?;
                mended.held.push(held(&taken));
                mended.next_seq += 1;
                mended.open = Some((taken, CHUNK_HEADER_BYTES));
            }
        }
        for chunk in void {
            self.piece(&chunk)?.publish(0, [0; 8]);
            if anchor(chunk.file_head.number) != chunk.file_head.number {
                gone.push(chunk.file);
            }
        }
        Ok(mended)
    }

    /// Takes the first part of a group from its chunk: its first word first, on the disk, too, so
    /// that it is no record while the rest goes.
    fn empty(&mut self, chunk: &FoundChunk) -> Result<(), DiskError> {
        let number = chunk.file_head.number;
        let mut piece = self.piece(chunk)?;
        piece.publish(CHUNK_HEADER_BYTES, [0; 8]);
        self.files[&number].sync()?;
        piece.write(CHUNK_HEADER_BYTES, &vec![0; chunk.bytes() - CHUNK_HEADER_BYTES]);
        self.files[&number].sync()
    }

    /// The lane's next chunk, in a free place, or over the void one if there is none. It is on the
    /// disk before the void ones are unmade: until then they say where the lane is.
    fn take_over(
        &mut self,
        place: Option<FreePlace>,
        void: FoundChunk,
        lane: &Mended,
    ) -> Result<FoundChunk, DiskError> {
        let place = match place {
            None => void,
            Some(FreePlace { head: file_head, chunk }) => {
                let head = ChunkHead { file: file_head.number, chunk, ..void.head };
                FoundChunk { file: file_name(file_head.number), file_head, head, seed: 0 }
            }
        };
        let head = ChunkHead {
            run: self.run,
            seq: lane.next_seq,
            start: lane.position,
            synced: lane.position,
            previous_file: 0,
            previous_start: lane.position,
            ..place.head
        };
        let file = Arc::clone(opened(&self.recovery.disk, &mut self.files, head.file)?);
        let (offset, bytes) = (place.offset(), place.bytes());
        let chunk = FreeChunk {
            file: Arc::clone(&file),
            chunk: head.chunk,
            offset,
            bytes,
            is_ready: false,
        };
        drop(Open::begin(chunk, &head, 0));
        file.sync()?;
        Ok(FoundChunk { head, seed: head.seed(), ..place })
    }

    fn piece(&mut self, chunk: &FoundChunk) -> Result<<D::File as LogFile>::Piece, DiskError> {
        let number = chunk.file_head.number;
        let file = opened(&self.recovery.disk, &mut self.files, number)?;
        Ok(file.piece(chunk.offset(), chunk.bytes()))
    }

    /// The header, and the records from a position on: they may be in the page cache only, and
    /// marked there as written by a sync that failed.
    fn write_again(&mut self, chunk: &FoundChunk, from: u64, to: u64) -> Result<(), DiskError> {
        let place = |position: u64| CHUNK_HEADER_BYTES + (position - chunk.head.start) as usize;
        let (from, to) = (place(from.clamp(chunk.head.start, to)), place(to));
        let mut bytes = vec![0; to - from];
        let offset = chunk.offset() + from as u64;
        self.recovery.disk.read(&chunk.file, offset, &mut bytes)?;
        let mut piece = self.piece(chunk)?;
        piece.write(0, &chunk.head.bytes());
        piece.write(from, &bytes);
        Ok(())
    }
}

fn held(chunk: &FoundChunk) -> Held {
    Held { file: anchor(chunk.file_head.number), start: chunk.head.start }
}
