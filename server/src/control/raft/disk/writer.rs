//! The order of writes: jobs in, syncs shared by what waits together, a full disk waited for, the
//! first real error fatal.
//!
//! ```text
//!           no room                          write or sync error
//!  Writing ---------> Waiting for room       (from both) ----------> Ended: every job fails
//!     ^  room again |  (a snapshot does not hold up the log)
//!     +-------------+
//! ```
//! Sans IO but for the disk: `hand` each job, then `work` until it says when to call it again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::error::DiskError;
use super::journal::Journal;
use super::vote::vote_bytes;
use super::{LogId, RaftDisk, SNAPSHOT_FILE, VOTE_FILE, Vote};

/// Told once what became of a job. Must not block.
pub type Done = Box<dyn FnOnce(Result<(), DiskError>) + Send>;
/// Told once, when the disk has failed for good: the node must exit with this line.
pub type OnFatal = Box<dyn Fn(String) + Send>;

/// Something to write. Jobs are carried out in the order they come, but for snapshots.
pub enum Job {
    /// Entries, by index; `done` after the sync.
    Append {
        /// Index and content of each, as `entry_content` made it.
        entries: VecDeque<(u64, Vec<u8>)>,
        /// Told when they are on the disk.
        done: Done,
    },
    /// Entries from this index on are gone. On the disk with the next append.
    Truncate(u64),
    /// Entries up to this one are committed. On the disk with the next append.
    Committed(LogId),
    /// Entries up to this one are in a snapshot that is on the disk.
    Purge(LogId),
    /// The vote.
    Vote {
        /// Which.
        vote: Vote,
        /// Told when it is on the disk.
        done: Done,
    },
    /// A snapshot. One that is older than another that was written is done without writing.
    Snapshot {
        /// Its place.
        upto: Option<LogId>,
        /// Its file.
        bytes: Arc<Vec<u8>>,
        /// Told when it is on the disk.
        done: Done,
    },
}

/// Whoever carries jobs to a writer: a thread of `io/raft_disk`, or `sim::Inline`.
pub trait Desk: Send + Sync {
    /// Takes a job; never blocks for the disk, but for `sim::Inline`.
    fn hand(&self, job: Job);
}

/// What others may look at while the writer writes.
#[derive(Debug, Default)]
pub struct Gauge {
    used_bytes: AtomicU64,
    waits_for_room: AtomicBool,
    has_spare: AtomicBool,
}

impl Gauge {
    /// Bytes of the segments in use.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Is something held back because the disk is full?
    pub fn waits_for_room(&self) -> bool {
        self.waits_for_room.load(Ordering::Relaxed)
    }

    /// Is the next segment made ahead?
    pub fn has_spare(&self) -> bool {
        self.has_spare.load(Ordering::Relaxed)
    }
}

/// When `work` wants to be called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// With the next job.
    Done,
    /// With the next job, or after a while: the disk is full.
    Retry,
}

/// The writer.
pub struct Writer<D> {
    journal: Journal<D>,
    jobs: VecDeque<Job>,
    /// Appends that are in the file and wait for the sync.
    unsynced: Vec<Done>,
    /// Snapshots that wait for room.
    snapshots: VecDeque<Job>,
    newest_snapshot: Option<LogId>,
    full: bool,
    ended: Option<DiskError>,
    gauge: Arc<Gauge>,
    on_fatal: OnFatal,
}

impl<D: RaftDisk> Writer<D> {
    /// A writer on an opened journal; `snapshot` is the place of the snapshot on the disk.
    pub fn new(journal: Journal<D>, snapshot: Option<LogId>, on_fatal: OnFatal) -> Writer<D> {
        let writer = Writer {
            journal,
            jobs: VecDeque::new(),
            unsynced: Vec::new(),
            snapshots: VecDeque::new(),
            newest_snapshot: snapshot,
            full: false,
            ended: None,
            gauge: Arc::default(),
            on_fatal,
        };
        writer.publish();
        writer
    }

    /// What others may look at.
    pub fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.gauge)
    }

    /// Takes a job; `work` does it.
    pub fn hand(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Does all that can be done now.
    pub fn work(&mut self) -> Work {
        let outcome = self.write_all();
        let full = match outcome {
            Ok(()) => None,
            Err(error) if error.full => Some(error),
            Err(error) => {
                self.end(error);
                return Work::Done;
            }
        };
        self.say(full.as_ref());
        self.full = full.is_some();
        self.publish();
        if self.full { Work::Retry } else { Work::Done }
    }

    /// Writes and syncs what was handed, without a segment ahead: for tools that stop after it.
    ///
    /// # Errors
    /// The disk's, a full one included.
    pub fn close(mut self) -> Result<(), DiskError> {
        self.write_log()?;
        self.journal.sync()
    }

    /// The log first, then snapshots, then the segment ahead; the first full disk is what counts.
    fn write_all(&mut self) -> Result<(), DiskError> {
        if let Some(ended) = self.ended.clone() {
            self.end(ended);
            return Ok(());
        }
        let log = self.write_log();
        if log.as_ref().is_err_and(|error| !error.full) {
            return log;
        }
        let synced = match self.unsynced.is_empty() && !self.journal.wants_sync() {
            true => self.journal.flush(),
            false => self.journal.sync(),
        };
        if synced.is_ok() {
            self.unsynced.drain(..).for_each(|done| done(Ok(())));
        } else if synced.as_ref().is_err_and(|error| !error.full) {
            return synced;
        }
        let snapshots = self.write_snapshots();
        if snapshots.as_ref().is_err_and(|error| !error.full) {
            return snapshots;
        }
        // What waits needs the room more than the segment ahead does.
        log.and(synced).and(snapshots)?;
        self.journal.prepare()
    }

    /// A job stays in front until it is done: what failed for want of room goes on from there.
    fn write_log(&mut self) -> Result<(), DiskError> {
        while let Some(job) = self.jobs.front_mut() {
            match job {
                Job::Append { entries, .. } => {
                    while let Some((index, content)) = entries.front() {
                        self.journal.put(content, Some(*index))?;
                        entries.pop_front();
                    }
                }
                Job::Truncate(from) => self.journal.put_truncate(*from)?,
                Job::Committed(upto) => self.journal.put_committed(*upto)?,
                Job::Purge(upto) => self.journal.put_purged(*upto)?,
                Job::Vote { vote, .. } => {
                    // In order: an append that came before is on the disk before the vote is.
                    self.journal.sync()?;
                    self.unsynced.drain(..).for_each(|done| done(Ok(())));
                    self.journal.replace(VOTE_FILE, &vote_bytes(vote))?;
                }
                Job::Snapshot { .. } => {}
            }
            match self.jobs.pop_front() {
                Some(Job::Append { done, .. }) => self.unsynced.push(done),
                Some(Job::Vote { done, .. }) => done(Ok(())),
                Some(job @ Job::Snapshot { .. }) => self.snapshots.push_back(job),
                _ => {}
            }
        }
        Ok(())
    }

    fn write_snapshots(&mut self) -> Result<(), DiskError> {
        while let Some(job) = self.snapshots.pop_front() {
            let Job::Snapshot { upto, bytes, done } = job else { continue };
            if upto < self.newest_snapshot {
                done(Ok(()));
                continue;
            }
            if let Err(error) = self.journal.replace(SNAPSHOT_FILE, &bytes) {
                self.snapshots.push_front(Job::Snapshot { upto, bytes, done });
                return Err(error);
            }
            self.newest_snapshot = upto;
            done(Ok(()));
        }
        Ok(())
    }

    /// The disk failed for good: whoever waits is told, and the node once.
    fn end(&mut self, error: DiskError) {
        if self.ended.is_none() {
            tracing::error!("the table's log has ended: {error}");
            (self.on_fatal)(format!("the table's log cannot be written: {error}"));
            self.ended = Some(error.clone());
        }
        self.unsynced.drain(..).for_each(|done| done(Err(error.clone())));
        for job in self.jobs.drain(..).chain(self.snapshots.drain(..)) {
            match job {
                Job::Append { done, .. } | Job::Vote { done, .. } | Job::Snapshot { done, .. } => {
                    done(Err(error.clone()));
                }
                Job::Truncate(_) | Job::Committed(_) | Job::Purge(_) => {}
            }
        }
    }

    /// One line when the disk gets full, one when there is room again.
    fn say(&self, full: Option<&DiskError>) {
        match full {
            Some(error) if !self.full && self.holds_back() => tracing::error!(
                "{error}; the table's log waits for room: free some in the data directory's disk"
            ),
            Some(error) if !self.full => tracing::warn!(
                "{error}; the table's log goes on in the segment it has: free some room"
            ),
            None if self.full => tracing::info!("the table's log has room again"),
            _ => {}
        }
    }

    fn holds_back(&self) -> bool {
        !(self.jobs.is_empty() && self.snapshots.is_empty() && self.unsynced.is_empty())
    }

    fn publish(&self) {
        self.gauge.used_bytes.store(self.journal.used_bytes(), Ordering::Relaxed);
        self.gauge.waits_for_room.store(self.holds_back(), Ordering::Relaxed);
        self.gauge.has_spare.store(self.journal.has_spare(), Ordering::Relaxed);
    }
}
