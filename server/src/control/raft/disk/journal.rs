//! The log's segments: appending, syncing, going over to the next one, giving old ones back.
//!
//! Not when to do it, which is the writer's. Not thread-safe; every call is carried out before it
//! returns. Invariant: at any crash the segments on disk hold all that was synced, in one unbroken
//! row of numbers; a call that failed for want of room can be made again.

use std::collections::VecDeque;

use super::error::{Damage, DiskError, Doing, StoreError};
use super::record::{
    MAX_CONTENT_BYTES, MAX_ENTRY_BYTES, committed_content, frame, framed_bytes, purged_content,
    truncate_content,
};
use super::recover::{Recovered, replay, settle};
use super::segment::{HEADER_BYTES, Header, Scan, scan};
use super::snap::{MAX_SNAPSHOT_FILE_BYTES, Snap};
use super::vote::{VOTE_BYTES, parse_vote};
use super::{
    LogId, RaftDisk, Record, SEGMENT_BYTES, SNAPSHOT_FILE, SPARE_FILE, UNFINISHED_SUFFIX,
    VOTE_FILE, replace, segment_file, segment_number,
};

/// Bytes of frames gathered in memory before they go to the file.
const GATHER_BYTES: usize = 1024 * 1024;
/// Smallest segment: a header and a few small records. For tests; the node uses `SEGMENT_BYTES`.
const MIN_SEGMENT_BYTES: u32 = 1024;
/// Zeros written at once over the remains of a torn tail.
const ZEROS: [u8; 4096] = [0; 4096];

/// Sizes of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes of a new segment.
    pub segment_bytes: u32,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { segment_bytes: SEGMENT_BYTES }
    }
}

/// A segment in use.
#[derive(Debug)]
struct Segment {
    number: u32,
    file: String,
    /// Highest index of an entry in it; `None`: no entry.
    top: Option<u64>,
}

/// The segments.
#[derive(Debug)]
pub struct Journal<D> {
    disk: D,
    sizes: Sizes,
    older: VecDeque<Segment>,
    current: Segment,
    /// Bytes the current segment can hold.
    capacity: u32,
    /// Bytes of the current segment that are in its file.
    written: u32,
    /// Bytes of it that are synced.
    synced: u32,
    /// Frames that come next.
    gathered: Vec<u8>,
    has_spare: bool,
    purged: Option<LogId>,
    committed: Option<LogId>,
    /// Is `purged` in a synced record of the current segment?
    purge_is_safe: bool,
}

impl<D: RaftDisk> Journal<D> {
    /// Opens the folder: reads, checks and repairs what a crash may leave, makes the first segment
    /// of an empty folder.
    ///
    /// # Errors
    /// Damage, a newer format, or the disk's refusal, a full disk included. Damage changes nothing.
    pub fn open(mut disk: D, sizes: Sizes) -> Result<(Journal<D>, Recovered), StoreError> {
        assert!((MIN_SEGMENT_BYTES..=SEGMENT_BYTES).contains(&sizes.segment_bytes));
        assert!(sizes.segment_bytes.is_multiple_of(8));
        let files = disk.list()?;
        let scans = read_segments(&mut disk, &files)?;
        let vote = disk.read(VOTE_FILE, VOTE_BYTES as u64)?;
        let snapshot = disk.read(SNAPSHOT_FILE, MAX_SNAPSHOT_FILE_BYTES as u64)?;
        let tail = scans.last().map(|scan| (scan.end, scan.synced, scan.torn_until));
        let mut segments: VecDeque<Segment> = scans.iter().map(Segment::of).collect();
        let mut state = replay(scans)?;
        state.vote = vote.map(|bytes| parse_vote(&bytes)).transpose()?;
        state.snapshot = snapshot.map(Snap::parse).transpose()?;
        let cleared = settle(&mut state)?;

        let has_spare = tidy(&mut disk, &files, sizes)?;
        let current = match segments.pop_back() {
            Some(segment) => segment,
            None => {
                if !has_spare {
                    disk.allocate(SPARE_FILE, sizes.segment_bytes.into())?;
                }
                install(&mut disk, Header { number: 1, previous_end: 0 })?
            }
        };
        let fresh = (HEADER_BYTES as u32, HEADER_BYTES as u32, 0);
        let (end, synced, torn_until) = tail.unwrap_or(fresh);
        let length = files.iter().find(|(file, _)| *file == current.file).map(|(_, bytes)| *bytes);
        let mut journal = Journal {
            capacity: length.map_or(sizes.segment_bytes, |bytes| bytes as u32),
            disk,
            sizes,
            older: segments,
            current,
            written: end,
            synced: end,
            gathered: Vec::new(),
            has_spare: has_spare && tail.is_some(),
            purged: state.purged,
            committed: state.committed,
            purge_is_safe: false,
        };
        journal.secure_tail(synced, torn_until)?;
        if cleared {
            journal.put(&truncate_content(0), None)?;
        }
        // The marks at the beginning of this segment may be what was lost, and the sync below
        // gives back the segments that hold them.
        if cleared || !journal.older.is_empty() {
            journal.put_marks()?;
        }
        journal.sync()?;
        Ok((journal, state))
    }

    /// Writes the records again that no later sync confirms (they may be in the page cache only,
    /// or marked clean there by a sync that failed), and zeros over the remains of a torn tail.
    fn secure_tail(&mut self, synced: u32, torn_until: u32) -> Result<(), DiskError> {
        let file = &self.current.file;
        if synced < self.written {
            let bytes = self.disk.read(file, u64::from(SEGMENT_BYTES))?.unwrap_or_default();
            if let Some(tail) = bytes.get(synced as usize..self.written as usize) {
                self.disk.write_at(file, synced.into(), tail)?;
            }
        }
        let mut at = self.written;
        while at < torn_until {
            let bytes = ZEROS.len().min((torn_until - at) as usize);
            self.disk.write_at(file, at.into(), &ZEROS[..bytes])?;
            at += bytes as u32;
        }
        self.disk.sync(file)?;
        self.disk.sync_folder()
    }

    /// Appends a record; `top` is the index of an entry. It is in the file after `flush`, on the
    /// disk after `sync`.
    ///
    /// # Errors
    /// No room and no next segment (nothing was appended; may be called again), or the disk's.
    pub fn put(&mut self, content: &[u8], top: Option<u64>) -> Result<(), DiskError> {
        if self.end() + framed_bytes(content.len()) as u64 > u64::from(self.capacity) {
            self.go_over(content.len())?;
        }
        // Before, not after: a call that fails has appended nothing.
        if self.gathered.len() >= GATHER_BYTES {
            self.flush()?;
        }
        self.gather(content);
        self.current.top = self.current.top.max(top);
        Ok(())
    }

    /// Notes that entries up to this one are committed. Not synced: an older note does no harm.
    pub fn put_committed(&mut self, upto: LogId) -> Result<(), DiskError> {
        self.put(&committed_content(&upto), None)?;
        self.committed = self.committed.max(Some(upto));
        Ok(())
    }

    /// Notes that entries from this index on are gone.
    pub fn put_truncate(&mut self, from: u64) -> Result<(), DiskError> {
        self.put(&truncate_content(from), None)
    }

    /// Notes that entries up to this one are in a snapshot that is on the disk. The next sync
    /// gives back the segments that hold nothing else.
    pub fn put_purged(&mut self, upto: LogId) -> Result<(), DiskError> {
        if self.purged >= Some(upto) {
            return Ok(());
        }
        self.put(&purged_content(&upto), None)?;
        self.purged = Some(upto);
        self.purge_is_safe = false;
        Ok(())
    }

    /// Hands what was gathered to the file.
    pub fn flush(&mut self) -> Result<(), DiskError> {
        if !self.gathered.is_empty() {
            self.disk.write_at(&self.current.file, self.written.into(), &self.gathered)?;
            self.written += self.gathered.len() as u32;
            self.gathered.clear();
        }
        Ok(())
    }

    /// All records are on the disk when this returns; old segments are given back.
    pub fn sync(&mut self) -> Result<(), DiskError> {
        self.flush()?;
        if self.synced < self.written {
            self.disk.sync(&self.current.file)?;
            self.synced = self.written;
        }
        self.purge_is_safe = true;
        self.release()
    }

    /// Does giving back old segments wait for a sync?
    pub fn wants_sync(&self) -> bool {
        !self.purge_is_safe && self.oldest_is_purged()
    }

    /// Makes the next segment ahead, if it is not there.
    pub fn prepare(&mut self) -> Result<(), DiskError> {
        if !self.has_spare {
            self.disk.allocate(SPARE_FILE, self.sizes.segment_bytes.into())?;
            self.disk.sync_folder()?;
            self.has_spare = true;
        }
        Ok(())
    }

    /// Is the next segment there?
    pub fn has_spare(&self) -> bool {
        self.has_spare
    }

    /// Replaces a small file, synced. On a full disk the segment made ahead gives its room up:
    /// what replaces a file (a snapshot, a vote) is what frees room, or must not wait.
    pub fn replace(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
        match replace(&mut self.disk, file, bytes) {
            Err(error) if error.full && self.has_spare => {
                tracing::warn!("{error}; the segment made ahead gives its room to it");
                self.disk.remove(SPARE_FILE)?;
                self.has_spare = false;
                self.disk.sync_folder()?;
                replace(&mut self.disk, file, bytes)
            }
            outcome => outcome,
        }
    }

    /// Bytes of the segments in use that hold records.
    pub fn used_bytes(&self) -> u64 {
        self.older.len() as u64 * u64::from(self.sizes.segment_bytes) + self.end()
    }

    /// The last entry that is gone into the snapshot.
    pub fn purged(&self) -> Option<LogId> {
        self.purged
    }

    fn end(&self) -> u64 {
        u64::from(self.written) + self.gathered.len() as u64
    }

    fn gather(&mut self, content: &[u8]) {
        let offset = self.end() as u32;
        frame(&mut self.gathered, content, self.current.number, offset, self.synced);
    }

    /// Closes the current segment and goes on in the one made ahead, which begins with what must
    /// outlive the old ones. `content` must fit behind that.
    fn go_over(&mut self, content: usize) -> Result<(), DiskError> {
        let room = self.sizes.segment_bytes as usize - HEADER_BYTES - 2 * framed_bytes(64);
        if framed_bytes(content) > room {
            let (doing, file) = (Doing::Write, self.current.file.clone());
            let reason = format!("a record of {content} bytes, at most {room} fit a segment");
            return Err(DiskError { doing, file, full: false, reason });
        }
        self.prepare()?;
        self.flush()?;
        if self.synced < self.written {
            self.disk.sync(&self.current.file)?;
            self.synced = self.written;
        }
        let header = Header { number: self.current.number + 1, previous_end: self.written };
        let next = install(&mut self.disk, header)?;
        self.has_spare = false;
        self.older.push_back(std::mem::replace(&mut self.current, next));
        self.capacity = self.sizes.segment_bytes;
        (self.written, self.synced) = (HEADER_BYTES as u32, HEADER_BYTES as u32);
        self.purge_is_safe = false;
        self.marks().iter().for_each(|content| self.gather(content));
        Ok(())
    }

    /// What must outlive the segments that are given back.
    fn marks(&self) -> Vec<Vec<u8>> {
        let purged = self.purged.as_ref().map(purged_content);
        purged.into_iter().chain(self.committed.as_ref().map(committed_content)).collect()
    }

    fn put_marks(&mut self) -> Result<(), DiskError> {
        self.marks().iter().try_for_each(|content| self.put(content, None))
    }

    fn oldest_is_purged(&self) -> bool {
        let purged = self.purged.map(|id| id.index);
        self.older.front().is_some_and(|segment| segment.top <= purged && purged.is_some())
    }

    /// Gives back segments from the oldest on, one after the other: a crash leaves no gap.
    fn release(&mut self) -> Result<(), DiskError> {
        while self.oldest_is_purged() {
            let Some(segment) = self.older.front() else { break };
            if self.has_spare {
                self.disk.remove(&segment.file)?;
            } else {
                self.disk.rename(&segment.file, SPARE_FILE)?;
                self.has_spare = true;
            }
            self.disk.sync_folder()?;
            self.older.pop_front();
        }
        Ok(())
    }
}

impl Segment {
    fn of(scan: &Scan) -> Segment {
        let index = |record: &Record| match record {
            Record::Entry(entry) => Some(entry.log_id.index),
            _ => None,
        };
        let top = scan.records.iter().filter_map(|(_, record)| index(record)).max();
        Segment { number: scan.header.number, file: scan.file.clone(), top }
    }
}

/// The segment made ahead takes its number and its place in the row.
fn install(disk: &mut impl RaftDisk, header: Header) -> Result<Segment, DiskError> {
    let file = segment_file(header.number);
    disk.write_at(SPARE_FILE, 0, &header.bytes())?;
    disk.sync(SPARE_FILE)?;
    disk.rename(SPARE_FILE, &file)?;
    disk.sync_folder()?;
    Ok(Segment { number: header.number, file, top: None })
}

/// Reads the segments, the newest first, for each says where the one before it ends.
fn read_segments(
    disk: &mut impl RaftDisk,
    files: &[(String, u64)],
) -> Result<Vec<Scan>, StoreError> {
    let mut numbers: Vec<u32> = files.iter().filter_map(|(file, _)| segment_number(file)).collect();
    numbers.sort_unstable();
    let mut scans: Vec<Scan> = Vec::new();
    for number in numbers.into_iter().rev() {
        let file = segment_file(number);
        let later = scans.last();
        if let Some(gap) = later.filter(|later| later.header.number != number + 1) {
            let missing = segment_file(gap.header.number - 1);
            return Err(Damage::at(&missing, 0_u64, "a segment of the log", "no file").into());
        }
        let closed_at = later.map(|later| later.header.previous_end);
        let bytes = disk.read(&file, SEGMENT_BYTES.into())?.unwrap_or_default();
        scans.push(scan(&file, number, &bytes, closed_at)?);
    }
    scans.reverse();
    let oldest = scans.first().filter(|scan| scan.header.number > 1);
    let purged = |scan: &Scan| scan.records.iter().any(|(_, r)| matches!(r, Record::Purged(_)));
    if let Some(oldest) = oldest.filter(|_| !scans.iter().any(purged)) {
        let missing = segment_file(oldest.header.number - 1);
        return Err(Damage::at(&missing, 0_u64, "a segment of the log", "no file").into());
    }
    Ok(scans)
}

/// Removes what a crash left half made. True if the segment made ahead is there, whole.
fn tidy(
    disk: &mut impl RaftDisk,
    files: &[(String, u64)],
    sizes: Sizes,
) -> Result<bool, DiskError> {
    let mut has_spare = false;
    for (file, bytes) in files {
        let ours = [VOTE_FILE, SNAPSHOT_FILE]
            .iter()
            .any(|name| file.strip_suffix(UNFINISHED_SUFFIX) == Some(*name));
        if file == SPARE_FILE && *bytes == u64::from(sizes.segment_bytes) {
            has_spare = true;
        } else if ours || file == SPARE_FILE {
            disk.remove(file)?;
        }
    }
    Ok(has_spare)
}

const _: () = assert!(MAX_ENTRY_BYTES < MAX_CONTENT_BYTES);
const _: () = assert!(MAX_CONTENT_BYTES * 4 < SEGMENT_BYTES as usize);
