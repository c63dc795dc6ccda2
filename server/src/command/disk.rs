//! What of a node's keys is on disk, as commands see it: the log, checkpoints, loading.
//!
//! Not the files (`io/storage`), nor when replies may leave (`promise`). Invariant: while a node
//! loads it has no seat, and says how far it is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::command::{CommandError, NodeState, Now};
use crate::config::Live;

/// The node's disk.
pub trait Disk: Send + Sync {
    /// The figures of now.
    fn figures(&self) -> DiskFigures;

    /// Begins a checkpoint; `later`: if one is under way, another one after it.
    ///
    /// # Errors
    /// One is under way; none can be taken, and why.
    fn begin_checkpoint(&self, later: bool) -> Result<Begun, NotBegun>;

    /// Begins a checkpoint and waits for its end. Blocks.
    ///
    /// # Errors
    /// As `begin_checkpoint`; why it came to nothing.
    fn take_checkpoint(&self) -> Result<(), NotBegun>;

    /// All that was changed so far survives the machine when this returns; at once where nothing is
    /// logged. Blocks.
    ///
    /// # Errors
    /// The disk has no room for what still waits, in words.
    fn sync(&self) -> Result<(), String>;
}

/// When an ordered checkpoint begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// Now.
    Now,
    /// After the one that is under way.
    Later,
}

/// Why there is no checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotBegun {
    /// One is under way.
    UnderWay,
    /// The reason, in words.
    Because(String),
}

/// What `INFO` and metrics show.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DiskFigures {
    /// The log, if writes are logged.
    pub log: Option<LogFigures>,
    /// A checkpoint is under way since, monotonic ns.
    pub checkpoint_since_ns: Option<u64>,
    /// Another one is wanted after it.
    pub is_checkpoint_scheduled: bool,
    /// Checkpoints that were completed since the start.
    pub checkpoints_total: u64,
    /// Did the last one fail, and why?
    pub checkpoint_failure: Option<String>,
    /// When the last one was completed, unix ms; 0 = never.
    pub last_checkpoint_ms: u64,
    /// How long it took.
    pub last_checkpoint_took: Option<Duration>,
    /// Its bytes.
    pub last_checkpoint_bytes: u64,
    /// Its keys.
    pub last_checkpoint_keys: u64,
    /// Changes of keys that it was begun with.
    pub changes_at_checkpoint: u64,
    /// The longest hold of a room by a checkpoint since the start.
    pub longest_hold: Duration,
    /// What was loaded at the start.
    pub loaded: LoadedFigures,
}

/// What a start found on disk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LoadedFigures {
    /// Keys that were there at the end.
    pub keys: u64,
    /// Op groups of the log that were replayed.
    pub groups: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// The log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LogFigures {
    /// Bytes appended since the last checkpoint began.
    pub since_checkpoint_bytes: u64,
    /// Bytes appended since the start.
    pub appended_bytes: u64,
    /// Of these, not synced.
    pub unsynced_bytes: u64,
    /// Bytes that wait in memory.
    pub waiting_bytes: u64,
    /// Syncs of files.
    pub syncs_total: u64,
    /// Syncs that took longer than a second.
    pub delayed_syncs_total: u64,
    /// How long the last one took.
    pub last_sync: Duration,
    /// Why writes are refused, if they are.
    pub full: Option<String>,
}

/// A node without a disk: tests, and what knows no better.
pub struct NoDisk;

impl Disk for NoDisk {
    fn figures(&self) -> DiskFigures {
        DiskFigures::default()
    }

    fn begin_checkpoint(&self, _: bool) -> Result<Begun, NotBegun> {
        Err(NotBegun::Because("this node has no data directory".to_owned()))
    }

    fn take_checkpoint(&self) -> Result<(), NotBegun> {
        self.begin_checkpoint(false).map(|_| ())
    }

    fn sync(&self) -> Result<(), String> {
        Ok(())
    }
}

/// How far a start is with bringing keys from disk.
#[derive(Default)]
pub struct Loading {
    is_active: AtomicBool,
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
    since: AtomicU64,
    since_unix_ms: AtomicU64,
    /// When it ended, monotonic ns: the node waits for its seat since then.
    ended_ns: AtomicU64,
}

/// A look at `Loading`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadingFigures {
    /// When it began, unix ms.
    pub since_unix_ms: u64,
    /// What there is to read.
    pub total_bytes: u64,
    /// What was read.
    pub done_bytes: u64,
    /// At the rate so far; `None`: nobody can know yet.
    pub left: Option<Duration>,
}

impl LoadingFigures {
    /// In percent; at most 100, and 0 while it is not known how much there is.
    pub fn percent(&self) -> f64 {
        match self.total_bytes {
            0 => 0.0,
            total => 100.0 * self.done_bytes.min(total) as f64 / total as f64,
        }
    }
}

impl Loading {
    /// Begins; how much there is to read is said by `set_total`.
    pub fn begin(&self, now: Now) {
        self.since.store(now.mono_ns, Ordering::SeqCst);
        self.since_unix_ms.store(now.unix_ms, Ordering::SeqCst);
        self.is_active.store(true, Ordering::SeqCst);
    }

    /// So many bytes are to be read.
    pub fn set_total(&self, bytes: u64) {
        self.total_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Counts the bytes that were read.
    pub fn done(&self) -> &AtomicU64 {
        &self.done_bytes
    }

    /// All is there.
    pub fn end(&self, now: Now) {
        self.ended_ns.store(now.mono_ns, Ordering::SeqCst);
        self.is_active.store(false, Ordering::SeqCst);
    }

    /// Does the node load?
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::SeqCst)
    }

    /// When it ended, monotonic ns; 0 = it never began.
    pub fn ended_ns(&self) -> u64 {
        self.ended_ns.load(Ordering::SeqCst)
    }

    /// How far it is; `None` if the node does not load.
    pub fn figures(&self, now: Now) -> Option<LoadingFigures> {
        if !self.is_active() {
            return None;
        }
        let load = |n: &AtomicU64| n.load(Ordering::SeqCst);
        let (total_bytes, done_bytes) = (load(&self.total_bytes), load(&self.done_bytes));
        let passed_ns = now.mono_ns.saturating_sub(load(&self.since));
        let rest = total_bytes.saturating_sub(done_bytes);
        let left_ns = u128::from(passed_ns) * u128::from(rest) / u128::from(done_bytes.max(1));
        let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX));
        let left = (done_bytes > 0).then_some(left);
        let since_unix_ms = load(&self.since_unix_ms);
        Some(LoadingFigures { since_unix_ms, total_bytes, done_bytes, left })
    }
}

impl NodeState {
    /// What a write is told while the log has no room; nothing was executed.
    #[cold]
    pub fn log_is_full(&self) -> CommandError {
        let reason = self.promises.log().map(|log| log.full_reason()).unwrap_or_default();
        CommandError::Text(format!(
            "MISCONF Errors writing to the log: {reason}. Writes are refused until there is room; \
             free some on the disk of 'dir', they are taken again by themselves."
        ))
    }

    /// What a node is told to answer while it loads; `None` once it does not.
    pub(crate) fn loading_text(&self) -> Option<String> {
        let figures = self.loading.figures(self.edges.now())?;
        Some(format!(
            "LOADING slotd is loading the dataset from disk ({:.0} % done)",
            figures.percent().floor()
        ))
    }
}

/// The points of the option `save`: after so many seconds with so many changes.
pub fn save_points(live: &Live) -> Vec<(u64, u64)> {
    let text = live.save_points.load();
    let numbers: Vec<u64> = text.split_ascii_whitespace().filter_map(|w| w.parse().ok()).collect();
    numbers.chunks_exact(2).map(|two| (two[0], two[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { unix_ms: 1_000_000 + ms, mono_ns: ms * 1_000_000 }
    }

    #[test]
    fn a_start_says_how_far_it_is_and_how_long_it_will_take() {
        let loading = Loading::default();
        assert_eq!(loading.figures(at(0)), None);
        loading.begin(at(0));
        let first = loading.figures(at(5)).expect("it loads");
        assert_eq!((first.percent(), first.left), (0.0, None));
        loading.set_total(1000);
        loading.done().store(250, Ordering::SeqCst);
        let quarter = loading.figures(at(1000)).expect("it loads");
        assert_eq!((quarter.percent(), quarter.left), (25.0, Some(Duration::from_secs(3))));
        // What is counted twice is not shown twice.
        loading.done().store(1001, Ordering::SeqCst);
        assert_eq!(loading.figures(at(2000)).expect("it loads").percent(), 100.0);
        loading.end(at(2000));
        assert_eq!(loading.figures(at(2001)), None);
        assert_eq!(loading.ended_ns(), 2_000_000_000);
    }
}
