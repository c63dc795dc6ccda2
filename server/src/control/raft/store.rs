//! The log and the vote as openraft wants them: entries in memory, written by the desk.
//!
//! Not the state (`machine.rs`), nor the files (`disk/`). Invariant: what a reader sees is in
//! order and without a hole; `append` is answered when its entries are on the disk.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader, StorageError, StorageIOError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::disk::{
    Damage, Desk, DiskError, Done, Gauge, Job, Journal, LogEntry, LogId, OnFatal, RaftDisk,
    Recovered, Sizes, Snap, StoreError, Vote, Writer, entry_content,
};
use super::machine::{LedgerSink, Machine};
use super::types::{Member, TableRaft};
use crate::control::ledger::Ledger;

/// Most bytes of entries read at once for another node, but for one entry: a frame's worth.
pub const READ_BYTES: usize = 1024 * 1024;

/// Bytes of entries from which a snapshot is due: with it the log stays within two segments.
pub const COMPACT_AT_BYTES: u64 = 16 * 1024 * 1024;

type Failure = StorageError<Member>;

/// The log store. Clones share the log; a reader is a clone.
#[derive(Clone)]
pub struct LogStore {
    log: Arc<Mutex<Log>>,
    desk: Arc<dyn Desk>,
    gauge: Arc<Gauge>,
}

struct Log {
    /// With the bytes each takes on the disk.
    entries: VecDeque<(LogEntry, usize)>,
    /// All of them together.
    bytes: u64,
    purged: Option<LogId>,
    committed: Option<LogId>,
    vote: Option<Vote>,
}

/// Opens the files of a node: recovers, says what was cut, and tells the sink the recovered state.
/// `start` is given the writer and returns who carries jobs to it; `on_fatal` is told the line
/// with which the node must exit when the disk fails for good.
///
/// # Errors
/// Damage, a newer format, the disk's refusal: the node must not start.
pub fn open<D: RaftDisk>(
    disk: D,
    sizes: Sizes,
    sink: Arc<dyn LedgerSink>,
    on_fatal: OnFatal,
    start: impl FnOnce(Writer<D>) -> Arc<dyn Desk>,
) -> Result<(LogStore, Machine), StoreError> {
    let (journal, mut state) = Journal::open(disk, sizes)?;
    if let Some(cut) = &state.cut {
        tracing::warn!("{cut}");
    }
    let snapshot = state.snapshot.take();
    let place = snapshot.as_ref().and_then(|snap| snap.place.last_log_id);
    let writer = Writer::new(journal, place, on_fatal);
    let gauge = writer.gauge();
    let desk = start(writer);
    let log = Arc::new(Mutex::new(Log::new(state)));
    let machine = Machine::new(snapshot, Arc::clone(&desk), sink);
    Ok((LogStore { log, desk, gauge }, machine))
}

/// All that a stopped node's files hold: the snapshot and every entry behind it, committed or not
/// (an entry that may have been committed must not be dropped), and the place of the last one.
///
/// # Errors
/// As `open`.
pub fn read_whole<D: RaftDisk>(disk: D, sizes: Sizes) -> Result<Whole, StoreError> {
    let (_, state) = Journal::open(disk, sizes)?;
    Ok(Whole::of(state))
}

/// Makes the files those of a new generation: `ledger` at a place behind everything the files
/// hold, `me` its only member, a term above every vote. An empty folder will do, too. A crash in
/// between leaves the old state or the new one.
///
/// # Errors
/// As `open`.
pub fn write_fresh<D: RaftDisk>(
    disk: D,
    sizes: Sizes,
    mut ledger: Ledger,
    me: Member,
) -> Result<LogId, StoreError> {
    let (journal, state) = Journal::open(disk, sizes)?;
    let whole = Whole::of(state);
    let term = whole.term + 1;
    let index = whole.last.map_or(0, |id| id.index).max(ledger.table().version().0) + 1;
    let leader = openraft::CommittedLeaderId::new(term, me);
    let place = LogId::new(leader, index);
    ledger.skip(slots::TableVersion(index));
    let members = openraft::Membership::new(vec![[me].into()], None);
    let members = openraft::StoredMembership::new(Some(place), members);
    let snap = Snap::new(Some(place), members, ledger).map_err(|error| {
        Damage::at("the ledger", 0_u64, "one that fits a snapshot", error.to_string())
    })?;
    let outcome = Arc::new(Mutex::new(None));
    let told = Arc::clone(&outcome);
    let fail: OnFatal = Box::new(|_| {});
    let mut writer = Writer::new(journal, None, fail);
    let vote = Vote { leader_id: openraft::LeaderId { term, node_id: me }, committed: false };
    writer.hand(Job::Vote { vote, done: Box::new(|_| {}) });
    let done: Done = Box::new(move |result| *told.lock() = Some(result));
    // The snapshot decides: before it the folder is the old store, after it the log in front of
    // it is dropped, here or at the next start.
    writer.hand(Job::Snapshot { upto: Some(place), bytes: snap.bytes, done });
    writer.work();
    match outcome.lock().take() {
        Some(result) => result?,
        None => return Err(StoreError::Disk(DiskError::no_room(super::disk::SNAPSHOT_FILE))),
    }
    writer.hand(Job::Truncate(0));
    writer.hand(Job::Purge(place));
    writer.close()?;
    Ok(place)
}

/// What a stopped node knows.
#[derive(Clone, PartialEq, Debug)]
pub struct Whole {
    /// The state after every entry.
    pub ledger: Ledger,
    /// The last entry.
    pub last: Option<LogId>,
    /// The highest term in the vote or the log.
    pub term: u64,
}

impl Whole {
    fn of(state: Recovered) -> Whole {
        let last = state.last();
        let place = state.snapshot.as_ref().and_then(|snap| snap.place.last_log_id);
        let mut ledger = state.snapshot.map(|snap| snap.ledger).unwrap_or_default();
        let behind = state.entries.iter().filter(|e| Some(e.log_id.index) > place.map(|p| p.index));
        for entry in behind {
            super::machine::apply_to(&mut ledger, entry);
        }
        let voted = state.vote.map_or(0, |vote| vote.leader_id.term);
        let term = last.map_or(0, |id| id.leader_id.term).max(voted);
        Whole { ledger, last, term }
    }
}

impl Log {
    fn new(state: Recovered) -> Log {
        let Recovered { entries, purged, committed, vote, .. } = state;
        let mut sized = VecDeque::with_capacity(entries.len());
        for entry in entries {
            // It came out of the log, so it packs; were it not to, its size would be a guess.
            let bytes = entry_content(&entry).map_or(READ_BYTES, |content| content.len());
            sized.push_back((entry, bytes));
        }
        let mut log = Log { entries: sized, bytes: 0, purged, committed, vote };
        log.weigh();
        log
    }

    fn last(&self) -> Option<LogId> {
        self.entries.back().map(|(entry, _)| entry.log_id).or(self.purged)
    }

    fn truncate(&mut self, from: u64) {
        while self.entries.back().is_some_and(|(entry, _)| entry.log_id.index >= from) {
            self.entries.pop_back();
        }
        self.weigh();
    }

    fn weigh(&mut self) {
        self.bytes = self.entries.iter().map(|(_, bytes)| *bytes as u64).sum();
    }

    /// The entries of a range of indexes, up to so many bytes but at least one.
    fn read(&self, range: impl RangeBounds<u64>, most_bytes: usize) -> Vec<LogEntry> {
        let Some(first) = self.entries.front().map(|(entry, _)| entry.log_id.index) else {
            return Vec::new();
        };
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let mut bytes = 0;
        let skipped = usize::try_from(start.saturating_sub(first)).unwrap_or(usize::MAX);
        let rest = self.entries.iter().skip(skipped);
        let within = rest.take_while(|(entry, size)| {
            let more = bytes == 0 || bytes + size <= most_bytes;
            bytes += size;
            more && range.contains(&entry.log_id.index)
        });
        within.map(|(entry, _)| entry.clone()).collect()
    }
}

impl LogStore {
    /// Bytes of the entries that no snapshot has replaced, in memory and on the disk: from
    /// `COMPACT_AT_BYTES` on a snapshot is due, however few they are.
    pub fn entry_bytes(&self) -> u64 {
        self.log.lock().bytes
    }

    /// `entry_bytes`, asked without a handle on the log's writer.
    pub fn scales(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let log = Arc::clone(&self.log);
        move || log.lock().bytes
    }

    /// Sizes and troubles of the files, for metrics and for the choice when to compact.
    pub fn gauge(&self) -> &Arc<Gauge> {
        &self.gauge
    }

    async fn told(outcome: oneshot::Receiver<Result<(), DiskError>>) -> io::Result<()> {
        match outcome.await {
            Ok(result) => result.map_err(io::Error::other),
            Err(_) => Err(io::Error::other("the writer of the table's log has ended")),
        }
    }
}

impl RaftLogReader<TableRaft> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<LogEntry>, Failure> {
        Ok(self.log.lock().read(range, usize::MAX))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<LogEntry>, Failure> {
        Ok(self.log.lock().read(start..end, READ_BYTES))
    }
}

impl RaftLogStorage<TableRaft> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<TableRaft>, Failure> {
        let log = self.log.lock();
        Ok(LogState { last_purged_log_id: log.purged, last_log_id: log.last() })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), Failure> {
        let (tell, outcome) = oneshot::channel();
        let done: Done = Box::new(|result| drop(tell.send(result)));
        self.desk.hand(Job::Vote { vote: *vote, done });
        LogStore::told(outcome).await.map_err(|error| StorageIOError::write_vote(&error))?;
        self.log.lock().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, Failure> {
        Ok(self.log.lock().vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), Failure> {
        let mut log = self.log.lock();
        if let Some(upto) = committed.filter(|upto| log.committed < Some(*upto)) {
            log.committed = committed;
            self.desk.hand(Job::Committed(upto));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, Failure> {
        Ok(self.log.lock().committed)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TableRaft>,
    ) -> Result<(), Failure>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut contents = VecDeque::new();
        let mut new = VecDeque::new();
        for entry in entries {
            let content = entry_content(&entry)
                .map_err(|error| StorageIOError::write_log_entry(entry.log_id, &error))?;
            new.push_back((entry, content.len()));
            contents.push_back(content);
        }
        let indexes: Vec<u64> = new.iter().map(|(entry, _)| entry.log_id.index).collect();
        let mut log = self.log.lock();
        let next = log.last().map(|last| last.index + 1);
        let first = indexes.first().copied().unwrap_or(0);
        // An entry takes the place of one of its index and of all behind it; openraft truncates
        // before it appends, its tests do not.
        let due = next.unwrap_or(first).min(first);
        if let Some((expected, got)) = (due..).zip(&indexes).find(|(due, got)| due != *got) {
            let why = io::Error::other(format!("a hole in the log: entry {got} for {expected}"));
            return Err(StorageIOError::write_logs(&why).into());
        }
        if next.is_some_and(|next| first < next && !indexes.is_empty()) {
            log.truncate(first);
            self.desk.hand(Job::Truncate(first));
        }
        log.bytes += new.iter().map(|(_, bytes)| *bytes as u64).sum::<u64>();
        log.entries.append(&mut new);
        let done: Done =
            Box::new(|result| callback.log_io_completed(result.map_err(io::Error::other)));
        // Under the lock, so that jobs come in the order in which the log changed.
        let entries = indexes.into_iter().zip(contents).collect();
        self.desk.hand(Job::Append { entries, done });
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), Failure> {
        let mut log = self.log.lock();
        log.truncate(from.index);
        self.desk.hand(Job::Truncate(from.index));
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), Failure> {
        let mut log = self.log.lock();
        log.purged = log.purged.max(Some(upto));
        while log.entries.front().is_some_and(|(entry, _)| entry.log_id.index <= upto.index) {
            log.entries.pop_front();
        }
        log.weigh();
        self.desk.hand(Job::Purge(upto));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
