//! The replay of a lane: its records in order, and the judgement of where they end.
//!
//! ```text
//!   records that hold ... | bad place | what lies behind it
//!                          nothing that holds .............. the end
//!                          written when a sync had passed .. damage
//!                          else, after a loss of power ..... a torn tail: cut and said
//!                          else, only the process died ..... damage
//! ```
//! Nothing is written here. Invariant: what a sync had confirmed is handed over or the replay
//! fails, as far as the bytes that are left can tell.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::disk::WalDisk;
use super::error::{Damage, LogError};
use super::format::{CHUNK_HEADER_BYTES, nth_alone};
use super::parts::{Begun, Gathering};
use super::record::{Entry, Header, describe, record_bytes, remains};
use super::recover::{FoundChunk, Recovery, Trust};
use super::wal::Position;

/// A record of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found<'a> {
    /// What it is and whose.
    pub entry: Entry,
    /// Its payload.
    pub payload: &'a [u8],
    /// The place behind it.
    pub position: Position,
}

/// A torn tail that was cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torn {
    /// The file.
    pub file: String,
    /// The first byte that is cut.
    pub offset: u64,
    /// How many bytes of records can be seen to have been there, at least.
    pub bytes: u64,
}

/// Where a lane ends.
#[derive(Debug)]
pub struct LaneEnd {
    pub(super) era: usize,
    pub(super) lane: u16,
    /// Position behind the last record.
    pub(super) position: u64,
    pub(super) next_seq: u64,
    /// So far the lane was synced for certain.
    pub(super) synced: u64,
    pub(super) kept: Vec<FoundChunk>,
    /// Chunks that lie behind the end.
    pub(super) void: Vec<FoundChunk>,
    /// Present if the lane ended within a group: its first part is cut from the last chunk, and
    /// these files with further parts go.
    pub(super) cut: Option<Vec<String>>,
    /// Behind the records of the last chunk there are other bytes than zeros.
    pub(super) is_dirty: bool,
    /// Present if records were cut.
    pub torn: Option<Torn>,
}

/// What lies behind a bad place.
struct Behind {
    /// The first header that holds, and its file.
    first: Option<(String, u64)>,
    synced: u64,
    is_dirty: bool,
}

impl<D: WalDisk> Recovery<D> {
    /// Hands over the records of a lane in order. Lanes of one era may be replayed by several
    /// threads at once, each with its own visitor; `progress` grows by the bytes gone through.
    /// Each lane of the last era must be replayed before the log is opened.
    ///
    /// # Errors
    /// A file that cannot be read; damage; a record the visitor refuses.
    pub fn replay(
        &self,
        era: usize,
        lane: u16,
        progress: &AtomicU64,
        visit: &mut dyn FnMut(Found<'_>) -> Result<(), String>,
    ) -> Result<LaneEnd, LogError> {
        let found = &self.eras[era];
        let chunks = found.chunks.get(&lane).map_or(&[][..], Vec::as_slice);
        let gathering = Gathering::new(chunks.first().is_some_and(|first| first.head.seq > 0));
        let bytes = Vec::new();
        let mut walk = Walk { recovery: self, era, lane, chunks, bytes, gathering, visit };
        let mut end = LaneEnd {
            era,
            lane,
            position: found.start,
            next_seq: 0,
            synced: found.start,
            kept: Vec::new(),
            void: Vec::new(),
            cut: None,
            is_dirty: false,
            torn: None,
        };
        if walk.lacks_its_first(&mut end)? {
            return Ok(end);
        }
        for (at, chunk) in chunks.iter().enumerate() {
            let ends_at = walk.end_of(at);
            let stopped_at = walk.scan(chunk, ends_at, &mut end)?;
            progress.fetch_add(chunk.bytes() as u64, Relaxed);
            end.kept.push(chunk.clone());
            end.next_seq = chunk.head.seq + 1;
            if ends_at != Some(end.position) {
                let behind = walk.behind(at, stopped_at)?;
                walk.judge(chunk, stopped_at, &behind, &mut end)?;
                end.void = chunks[at + 1..].to_vec();
                break;
            }
        }
        walk.cut_parts(&mut end)?;
        Ok(end)
    }
}

struct Walk<'a, D> {
    recovery: &'a Recovery<D>,
    era: usize,
    lane: u16,
    chunks: &'a [FoundChunk],
    /// The chunk that was read last.
    bytes: Vec<u8>,
    gathering: Gathering,
    visit: &'a mut dyn FnMut(Found<'_>) -> Result<(), String>,
}

impl<D: WalDisk> Walk<'_, D> {
    fn is_last_era(&self) -> bool {
        self.era + 1 == self.recovery.eras.len()
    }

    fn read(&mut self, chunk: &FoundChunk) -> Result<(), LogError> {
        self.bytes.resize(chunk.bytes(), 0);
        Ok(self.recovery.disk.read(&chunk.file, chunk.offset(), &mut self.bytes)?)
    }

    /// The first chunk says that there was one before it, in a file that has not gone: the lane
    /// ends where that one began.
    fn lacks_its_first(&mut self, end: &mut LaneEnd) -> Result<bool, LogError> {
        let Some(first) = self.chunks.first() else { return Ok(false) };
        end.position = first.head.start;
        end.next_seq = first.head.seq;
        end.synced = first.head.synced;
        let oldest = self.recovery.files.keys().next().copied().unwrap_or(0);
        if first.head.seq == 0 || first.head.previous_file < oldest {
            end.synced = first.head.start;
            return Ok(false);
        }
        let missing_at = first.head.previous_start;
        let behind = self.behind_chunks(self.chunks)?;
        let bad = self.recovery.trust == Trust::ProcessDied || !self.is_last_era();
        if bad || behind.synced > missing_at {
            let expected = format!("chunk {} of lane {} before it", first.head.seq - 1, self.lane);
            return Err(Damage::at(&first.file, first.offset(), expected, "no such chunk"));
        }
        end.position = missing_at;
        end.synced = missing_at;
        end.next_seq = first.head.seq - 1;
        end.void = self.chunks.to_vec();
        let (file, offset) = (first.file.clone(), first.offset());
        end.torn = Some(Torn { file, offset, bytes: first.head.start - missing_at });
        Ok(true)
    }

    /// Where the records of a chunk end, if the next one is there to say so.
    fn end_of(&self, at: usize) -> Option<u64> {
        let next = self.chunks.get(at + 1)?;
        (next.head.seq == self.chunks[at].head.seq + 1).then_some(next.head.start)
    }

    /// Hands over the records of a chunk; the offset of the first byte that is none.
    fn scan(
        &mut self,
        chunk: &FoundChunk,
        ends_at: Option<u64>,
        end: &mut LaneEnd,
    ) -> Result<usize, LogError> {
        self.read(chunk)?;
        if chunk.head.start != end.position {
            let expected = format!("a chunk of lane {} that starts at {}", self.lane, end.position);
            let got = format!("one that starts at {}", chunk.head.start);
            return Err(Damage::at(&chunk.file, chunk.offset(), expected, got));
        }
        end.synced = end.synced.max(chunk.head.synced);
        let mut at = CHUNK_HEADER_BYTES;
        while ends_at.is_none_or(|ends_at| end.position < ends_at) {
            let Some(header) = Header::at(&self.bytes, at, chunk.seed) else { break };
            let Some(payload) = header.payload(&self.bytes, at) else { break };
            let offset = chunk.offset() + at as u64;
            let refused = |got| Damage::at(&chunk.file, offset, "a record this version knows", got);
            let entry = header.entry().map_err(refused)?;
            end.synced = end.synced.max(header.synced(end.position));
            let begun = Begun { chunk: end.kept.len(), position: end.position };
            let whole = self.gathering.take(entry, payload, begun).map_err(refused)?;
            let bytes = record_bytes(header.length);
            end.position += bytes as u64;
            at += bytes;
            if let Some((entry, group)) = whole {
                let position = Position { lane: self.lane, at: end.position };
                (self.visit)(Found { entry, payload: &group, position }).map_err(refused)?;
            }
        }
        Ok(at)
    }

    /// The lane ends within a group: the process died while the rest of it waited for its files, or
    /// the rest is torn. Nobody was told of it, so it goes. The first part lies alone in its file,
    /// which stays as the lane's last chunk, empty.
    fn cut_parts(&self, end: &mut LaneEnd) -> Result<(), LogError> {
        let Some((begun, bytes)) = self.gathering.unfinished() else { return Ok(()) };
        let is_alone = |chunk: &FoundChunk| nth_alone(chunk.file_head.number).is_some();
        let first = &end.kept[begun.chunk];
        let (file, offset) = (first.file.clone(), first.offset() + CHUNK_HEADER_BYTES as u64);
        if !self.is_last_era() || !is_alone(first) || begun.position != first.head.start {
            let got = format!("{bytes} bytes of it");
            return Err(Damage::at(&file, offset, "a whole group", got));
        }
        end.position = begun.position;
        end.synced = end.synced.min(begun.position);
        end.next_seq = first.head.seq + 1;
        end.is_dirty = true;
        end.torn = Some(Torn { file, offset, bytes });
        // The last part may have had a place in a usual file, and is torn there.
        let rest = end.kept.drain(begun.chunk + 1..);
        let (parts, last): (Vec<_>, Vec<_>) = rest.partition(is_alone);
        end.void.splice(0..0, last);
        end.cut = Some(parts.into_iter().map(|chunk| chunk.file).collect());
        Ok(())
    }

    fn behind(&mut self, at: usize, stopped_at: usize) -> Result<Behind, LogError> {
        let chunk = &self.chunks[at];
        let here = remains(&self.bytes, stopped_at, chunk.seed, chunk.head.start);
        // A word for the operator is made from the bytes before they are read over.
        let later = &self.chunks[at + 1..];
        let mut behind = Behind { first: None, synced: here.synced, is_dirty: here.dirty };
        if let Some(header_at) = here.header_at {
            behind.first = Some((chunk.file.clone(), chunk.offset() + header_at as u64));
        }
        if !later.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            let more = self.behind_chunks(later)?;
            self.bytes = bytes;
            behind.first = behind.first.or(more.first);
            behind.synced = behind.synced.max(more.synced);
        }
        Ok(behind)
    }

    fn behind_chunks(&mut self, chunks: &[FoundChunk]) -> Result<Behind, LogError> {
        let first = chunks.first().map(|chunk| (chunk.file.clone(), chunk.offset()));
        let mut behind = Behind { first, synced: 0, is_dirty: true };
        for chunk in chunks {
            self.read(chunk)?;
            let found = remains(&self.bytes, CHUNK_HEADER_BYTES, chunk.seed, chunk.head.start);
            behind.synced = behind.synced.max(chunk.head.synced).max(found.synced);
        }
        Ok(behind)
    }

    fn judge(
        &self,
        chunk: &FoundChunk,
        stopped_at: usize,
        behind: &Behind,
        end: &mut LaneEnd,
    ) -> Result<(), LogError> {
        let offset = chunk.offset() + stopped_at as u64;
        let was_synced = behind.synced.max(end.synced) > end.position;
        let process_died = self.recovery.trust == Trust::ProcessDied && behind.first.is_some();
        // What came before an era began was cut, with zeros behind it, and synced.
        let is_elder = !self.is_last_era() && (behind.is_dirty || behind.first.is_some());
        if was_synced || process_died || is_elder {
            let expected = match &behind.first {
                Some((file, at)) => format!("a record (one follows in {file} at offset {at})"),
                None => "the end of the lane".into(),
            };
            let got = describe(&self.bytes, stopped_at, chunk.seed);
            return Err(Damage::at(&chunk.file, offset, expected, got));
        }
        end.is_dirty = behind.is_dirty;
        if let Some((file, at)) = &behind.first {
            let bytes = match *file == chunk.file && *at > offset {
                true => at - offset,
                false => 0,
            };
            end.torn = Some(Torn { file: chunk.file.clone(), offset, bytes });
        }
        Ok(())
    }
}
