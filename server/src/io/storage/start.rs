//! The start: what is in the folders, loaded into the rooms; then the log goes on.
//!
//! Not the judgement of what was lost (`persist/evidence`). Invariant: nothing in the folders is
//! changed before the start is counted; no room is served before all is there.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use slots::{SlotId, TableVersion};

use super::marks::NodeMarks;
use super::rounds::Rounds;
use super::{Storage, origin};
use crate::command::NodeState;
use crate::command::disk::LoadedFigures;
use crate::config::Config;
use crate::io::data_dir::{CHECKPOINT_FOLDER, WAL_FOLDER};
use crate::io::wal::{Crowd, Folder, Hooks, NodeJournal, RunningWal};
use crate::io::{checkpoint, clock, recovery, wal};
use crate::persist::checkpoint::{Checkpoint, remove_all, remove_leftovers};
use crate::persist::log::{Ids, LaneEnd, Options, Recovery, Sizes, Trust};
use crate::stream;

/// Lanes for each worker thread: two workers meet in one seldom (PERF 4).
const LANES_PER_WORKER: usize = 8;
/// Fewest and most lanes: a node with two workers, one with a hundred.
const LANES: std::ops::RangeInclusive<usize> = 16..=256;

/// Of these, one of so many where each write waits for its sync: a sync writes a page of every lane
/// that was written to, and few writes come between two of them.
const ALWAYS_PART: u16 = 4;

/// What lies in the folders. Only looked at.
pub struct Found {
    storage: Arc<Storage>,
    log: Option<Recovery<Folder>>,
    checkpoint: Option<Checkpoint<Folder>>,
}

/// Looks at the folders of a node.
///
/// # Errors
/// Damage, files of another node, of a newer version: with file, place, and what to do.
pub fn find(
    dir: &Path,
    config: &Arc<Config>,
    ids: Ids,
    trust: Trust,
    workers: usize,
) -> io::Result<Found> {
    let (wal_dir, checkpoint_dir) = (dir.join(WAL_FOLDER), dir.join(CHECKPOINT_FOLDER));
    let checkpoint = checkpoint::find(&checkpoint_dir, ids).map_err(io::Error::other)?;
    let number = checkpoint.as_ref().map_or(0, Checkpoint::number);
    let after = origin::read(&wal_dir)?;
    let log = wal::find(&wal_dir, ids, trust).map_err(io::Error::other)?;
    let log = match after > number {
        true => {
            tracing::warn!(
                after,
                number,
                "the log of keys was begun for a checkpoint that was never \
                 completed: it is left aside"
            );
            None
        }
        false => Some(log).filter(|log| !log.is_empty()),
    };
    let storage = Storage {
        wal_dir,
        checkpoint_dir,
        ids,
        lanes: (workers * LANES_PER_WORKER).clamp(*LANES.start(), *LANES.end()) as u16,
        config: config.clone(),
        marks: OnceLock::new(),
        node: OnceLock::new(),
        log: Mutex::new(None),
        progress: Arc::default(),
        is_logging: AtomicBool::new(false),
        was_opened: AtomicBool::new(false),
        rounds: Rounds::default(),
        loaded: Mutex::default(),
        checkpoint: AtomicU64::new(number),
        opened_bytes: AtomicU64::new(0),
    };
    Ok(Found { storage: Arc::new(storage), log, checkpoint })
}

impl Found {
    /// The storage these are of.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Is there a log that goes on from what is there?
    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Brings everything into the node's rooms, and begins to log if the options say so. Blocks.
    /// The newest Alone mark of each slot that has one.
    ///
    /// # Errors
    /// As `find`. The rooms hold half a store then: the process must end.
    pub fn load(self, node: &Arc<NodeState>) -> io::Result<BTreeMap<SlotId, TableVersion>> {
        let Found { storage, log, checkpoint } = self;
        node.loading.begin(clock::now());
        node.loading.set_total(recovery::bytes_total(checkpoint.as_ref(), log.as_ref()));
        let begun = clock::now();
        let told = Told::begin(node);
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let loaded = recovery::load(
            &node.rooms,
            checkpoint.as_ref(),
            log.as_ref(),
            threads,
            begun.unix_ms,
            node.loading.done(),
        )
        .map_err(io::Error::other)?;
        drop(told);
        let took = Duration::from_nanos(clock::now().mono_ns - begun.mono_ns);
        let bytes = node.loading.done().load(Ordering::SeqCst);
        *storage.loaded.lock() =
            LoadedFigures { keys: loaded.keys, groups: loaded.groups, bytes, took };
        for torn in &loaded.torn {
            tracing::warn!(
                file = torn.file,
                offset = torn.offset,
                bytes = torn.bytes,
                "a torn end of the log of keys was cut: power was lost while it was written"
            );
        }
        if checkpoint.is_some() || log.is_some() {
            tracing::info!(
                keys = loaded.keys,
                op_groups = loaded.groups,
                bytes,
                ms = took.as_millis() as u64,
                checkpoint = storage.checkpoint.load(Ordering::SeqCst),
                "loaded from disk"
            );
        }
        if !loaded.unadopted.is_empty() {
            tracing::warn!(
                slots = loaded.unadopted.len(),
                "copies that were on their way to this node when it stopped are let go"
            );
        }
        if let Some(checkpoint) = &checkpoint {
            storage.rounds.found(checkpoint);
        }
        storage.go_on(node, log, loaded.ends)?;
        storage.rounds.start(&storage)?;
        node.loading.end(clock::now());
        Ok(loaded.alone)
    }
}

impl Storage {
    /// Opens the log where it ended; its torn end is mended even if nothing is logged from now on.
    fn go_on(
        self: &Arc<Self>,
        node: &Arc<NodeState>,
        log: Option<Recovery<Folder>>,
        ends: Vec<LaneEnd>,
    ) -> io::Result<()> {
        let folder = Folder::open(&self.checkpoint_dir).map_err(io::Error::other)?;
        let number = Some(self.checkpoint.load(Ordering::SeqCst)).filter(|number| *number > 0);
        remove_leftovers(&folder, number).map_err(io::Error::other)?;
        let is_logging = self.config.text("appendonly") == "yes";
        match (log, is_logging) {
            (None, false) => Ok(()),
            (Some(log), false) => {
                // Nothing is appended: it is mended, synced, and closed.
                drop(self.open(log, ends)?);
                Ok(())
            }
            (Some(log), true) => {
                let log = self.open(log, ends)?;
                self.begin_logging(node, log);
                Ok(())
            }
            (None, true) => {
                let log = self.open_fresh(self.checkpoint.load(Ordering::SeqCst))?;
                self.begin_logging(node, log);
                Ok(())
            }
        }
    }

    /// A new log, to be replayed on top of that checkpoint. What lay in the folder goes.
    pub(super) fn open_fresh(self: &Arc<Self>, after: u64) -> io::Result<RunningWal> {
        if after > self.checkpoint.load(Ordering::SeqCst) {
            // The one that is there needs the log that goes, and is older than what is in memory.
            let folder = Folder::open(&self.checkpoint_dir).map_err(io::Error::other)?;
            remove_all(&folder).map_err(io::Error::other)?;
        }
        wal::remove_all(&self.wal_dir).map_err(io::Error::other)?;
        origin::write(&self.wal_dir, after)?;
        let log = wal::find(&self.wal_dir, self.ids, Trust::ProcessDied);
        let log = log.map_err(io::Error::other)?;
        self.open(log, Vec::new())
    }

    fn open(self: &Arc<Self>, log: Recovery<Folder>, ends: Vec<LaneEnd>) -> io::Result<RunningWal> {
        let lanes = match self.policy() {
            wal::Policy::Always => self.lanes / ALWAYS_PART,
            wal::Policy::EverySec | wal::Policy::No => self.lanes,
        };
        let options = Options { lanes, sizes: Sizes::default(), run: clock::random_u64() };
        let (counted, failed) = (Arc::downgrade(self), Arc::downgrade(self));
        let (progress, told) = (self.progress.clone(), counted.clone());
        let hooks = Hooks {
            on_progress: Box::new(move || {
                if let Some(node) = told.upgrade().and_then(|storage| storage.node()) {
                    node.promises.note_progress();
                }
                progress.notify_one();
            }),
            crowd: Box::new(move || {
                let node = counted.upgrade().and_then(|storage| storage.node());
                let (here, expected) = node.map_or((0, 0), |node| node.promises.crowd());
                Crowd { here, expected }
            }),
            on_fatal: Box::new(move |line| match failed.upgrade() {
                Some(storage) => storage.fail(&line),
                None => crate::io::exit::fatal(&line),
            }),
        };
        wal::start(log, ends, options, self.policy(), hooks).map_err(io::Error::other)
    }

    /// From now on every op group is logged.
    pub(super) fn begin_logging(&self, node: &Arc<NodeState>, log: RunningWal) {
        let wal = log.wal().clone();
        node.promises.set_log(Arc::new(NodeMarks::new(wal.clone())));
        node.promises.wait_for_syncs(log.policy() == wal::Policy::Always);
        node.rooms.set_journal(Arc::new(NodeJournal(wal)), stream::put_op);
        self.opened_bytes.store(log.figures().log.appended_bytes, Ordering::SeqCst);
        *self.log.lock() = Some(Arc::new(log));
        self.was_opened.store(true, Ordering::SeqCst);
        self.is_logging.store(true, Ordering::SeqCst);
    }
}

/// A thread that says in the log how far a long load is, until it is dropped.
struct Told {
    ends: Arc<(Mutex<bool>, parking_lot::Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Told {
    /// Between two lines.
    const PAUSE: Duration = Duration::from_secs(5);

    #[allow(clippy::disallowed_methods, reason = "threads of the edges start here")]
    fn begin(node: &Arc<NodeState>) -> Told {
        let ends = Arc::new((Mutex::new(false), parking_lot::Condvar::new()));
        let (node, theirs) = (node.clone(), ends.clone());
        let run = move || {
            let mut is_over = theirs.0.lock();
            while !*is_over {
                let woken = !theirs.1.wait_for(&mut is_over, Told::PAUSE).timed_out();
                let Some(figures) = node.loading.figures(clock::now()).filter(|_| !woken) else {
                    continue;
                };
                tracing::info!(
                    percent = figures.percent().floor(),
                    bytes = figures.done_bytes,
                    of = figures.total_bytes,
                    left_s = figures.left.map(|left| left.as_secs()),
                    "loading from disk"
                );
            }
        };
        let thread = std::thread::Builder::new().name("load-told".into()).spawn(run).ok();
        Told { ends, thread }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        *self.ends.0.lock() = true;
        self.ends.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
