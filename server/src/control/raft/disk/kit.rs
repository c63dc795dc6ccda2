//! What the tests of the log's files share: entries, snapshots, a writer that is watched.
//!
//! Not for the product. Invariant: pure; the disk is simulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use openraft::{CommittedLeaderId, EntryPayload, LeaderId, StoredMembership};
use slots::{Boot, ClusterId, NodeId, Proposal, Proposer, TableChange, TableVersion};

use super::sim::SimDisk;
use super::{
    DiskError, Done, Job, Journal, LogEntry, LogId, OnFatal, Recovered, Sizes, Snap, StoreError,
    Vote, Work, Writer, entry_content,
};
use crate::control::ledger::{Entry, Ledger};
use crate::control::raft::types::Member;

/// Small enough that a few entries fill a segment.
pub(crate) const SMALL: Sizes = Sizes { segment_bytes: 4096 };

pub(crate) fn member(n: u8) -> Member {
    Member(NodeId::from_bytes([n; 20]))
}

pub(crate) fn id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term, member(1)), index)
}

/// An entry with an actor of so many bytes.
pub(crate) fn entry(term: u64, index: u64, actor_bytes: usize) -> LogEntry {
    let by = Proposer { node: member(1).0, boot: Boot(1) };
    let cluster = ClusterId::from_bytes([1; 20]);
    let change = TableChange::InitCluster { settings: slots::ClusterSettings::default() };
    let proposal = Proposal { cluster, by, change };
    let change = Entry { at_ms: index, actor: "x".repeat(actor_bytes), proposal };
    LogEntry { log_id: id(term, index), payload: EntryPayload::Normal(change) }
}

pub(crate) fn vote(term: u64, committed: bool) -> Vote {
    Vote { leader_id: LeaderId { term, node_id: member(2) }, committed }
}

pub(crate) fn snap(upto: LogId) -> Snap {
    let mut ledger = Ledger::new();
    ledger.skip(TableVersion(upto.index));
    Snap::new(Some(upto), StoredMembership::default(), ledger).expect("it fits")
}

/// A writer on a simulated disk, and what it told.
pub(crate) struct Watched {
    pub(crate) writer: Writer<SimDisk>,
    pub(crate) fatal: Arc<parking_lot::Mutex<Vec<String>>>,
}

/// What became of a job: not told yet, or told.
pub(crate) type Outcome = Arc<parking_lot::Mutex<Option<Result<(), DiskError>>>>;

pub(crate) fn outcome() -> (Done, Outcome) {
    let outcome = Outcome::default();
    let told = Arc::clone(&outcome);
    let done: Done = Box::new(move |result| *told.lock() = Some(result));
    (done, outcome)
}

impl Watched {
    pub(crate) fn open(disk: &SimDisk) -> Result<(Watched, Recovered), StoreError> {
        Watched::open_sized(disk, SMALL)
    }

    pub(crate) fn open_sized(
        disk: &SimDisk,
        sizes: Sizes,
    ) -> Result<(Watched, Recovered), StoreError> {
        let (journal, state) = Journal::open(disk.clone(), sizes)?;
        let fatal = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let lines = Arc::clone(&fatal);
        let on_fatal: OnFatal = Box::new(move |line| lines.lock().push(line));
        let place = state.snapshot.as_ref().and_then(|snap| snap.place.last_log_id);
        let writer = Writer::new(journal, place, on_fatal);
        Ok((Watched { writer, fatal }, state))
    }

    pub(crate) fn append(&mut self, entries: &[LogEntry]) -> Outcome {
        let (done, outcome) = outcome();
        let content = |entry: &LogEntry| (entry.log_id.index, entry_content(entry).expect("fits"));
        let entries = entries.iter().map(content).collect();
        self.writer.hand(Job::Append { entries, done });
        outcome
    }

    pub(crate) fn snapshot(&mut self, snap: &Snap) -> Outcome {
        let (done, outcome) = outcome();
        let upto = snap.place.last_log_id;
        self.writer.hand(Job::Snapshot { upto, bytes: Arc::clone(&snap.bytes), done });
        outcome
    }

    pub(crate) fn vote(&mut self, vote: Vote) -> Outcome {
        let (done, outcome) = outcome();
        self.writer.hand(Job::Vote { vote, done });
        outcome
    }

    /// Appends entries one sync each.
    pub(crate) fn fill(&mut self, indexes: std::ops::RangeInclusive<u64>, actor_bytes: usize) {
        for index in indexes {
            let told = self.append(&[entry(1, index, actor_bytes)]);
            assert_eq!(self.writer.work(), Work::Done);
            assert_eq!(*told.lock(), Some(Ok(())), "entry {index}");
        }
    }
}

/// A folder name of its own for each test of one process.
pub(crate) fn unique(name: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("slotd-{name}-{}-{count}", std::process::id())
}
