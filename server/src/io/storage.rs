//! What of a node's keys is on disk: the log and the checkpoint, wired to the node.
//!
//! ```text
//!   find --> (the start is counted) --> load --> open_log --> logging ... --> stop
//!   rounds: a thread that takes checkpoints, by order or by itself, and lets the log behind go
//! ```
//! Not the formats (`persist`), nor when replies may leave (`command/promise`). Invariant: a weaker
//! mode is noted in the node's file before it is used, a stronger one once it holds; a log that no
//! checkpoint carries is never replayed.

mod marks;
mod origin;
mod rounds;
mod start;
mod switch;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::command::NodeState;
use crate::command::disk::{Begun, Disk, DiskFigures, LoadedFigures, LogFigures, NotBegun};
use crate::config::Config;
use crate::io::exit;
use crate::io::wal::{Policy, RunningWal};
use crate::persist::evidence::Durability;
use crate::persist::log::Ids;
use rounds::Rounds;
pub use start::{Found, find};

/// Who writes down, in the node's file, how hard this run tries to keep its writes.
pub trait Marks: Send + Sync {
    /// From now on, or since everything before is as safe. On disk when this returns.
    ///
    /// # Errors
    /// The file system's; nothing was noted.
    fn note_durability(&self, durability: Durability) -> io::Result<()>;

    /// A sync has failed: the process ends. As well as may be.
    fn note_sync_failed(&self);
}

/// The node's disk.
pub struct Storage {
    /// DIR/wal.
    wal_dir: PathBuf,
    /// DIR/checkpoint.
    checkpoint_dir: PathBuf,
    ids: Ids,
    lanes: u16,
    config: Arc<Config>,
    marks: OnceLock<Arc<dyn Marks>>,
    node: OnceLock<Weak<NodeState>>,
    log: Mutex<Option<Arc<RunningWal>>>,
    /// The log is further than before.
    progress: Arc<Notify>,
    is_logging: AtomicBool,
    /// A log was opened in this run: there is no second one.
    was_opened: AtomicBool,
    rounds: Rounds,
    loaded: Mutex<LoadedFigures>,
    /// Number of the last checkpoint that was found or taken.
    checkpoint: AtomicU64,
    /// Bytes that the log had when it was opened.
    opened_bytes: AtomicU64,
}

impl Storage {
    /// Names what needs the storage to be made. Once, before `load`.
    pub fn wire(&self, node: &Arc<NodeState>, marks: Arc<dyn Marks>) {
        let is_first = self.node.set(Arc::downgrade(node)).is_ok() && self.marks.set(marks).is_ok();
        assert!(is_first, "the storage is wired once");
    }

    /// The task that wakes the clients whose replies may leave. Not the thread that syncs: each of
    /// them would wake a worker then, for one client, and the next round would wait for it.
    pub fn wake_clients(&self) -> impl Future<Output = ()> + use<> {
        let (progress, node) = (self.progress.clone(), self.node.get().cloned());
        async move {
            loop {
                progress.notified().await;
                let Some(node) = node.as_ref().and_then(Weak::upgrade) else { return };
                node.promises.progressed();
            }
        }
    }

    fn node(&self) -> Option<Arc<NodeState>> {
        self.node.get().and_then(Weak::upgrade)
    }

    /// Are writes logged?
    pub fn is_logging(&self) -> bool {
        self.is_logging.load(Ordering::SeqCst)
    }

    fn policy(&self) -> Policy {
        policy_of(&self.config.text("appendfsync"))
    }

    /// How hard the node tries by its options.
    fn durability(&self) -> Durability {
        durability_of(&self.config)
    }

    fn note(&self, durability: Durability) -> io::Result<()> {
        self.marks.get().map_or(Ok(()), |marks| marks.note_durability(durability))
    }

    /// Nobody knows what is on the disk any more.
    fn fail(&self, line: &str) -> ! {
        if let Some(marks) = self.marks.get() {
            marks.note_sync_failed();
        }
        exit::fatal(line)
    }

    /// The end: nothing is written any more by now. Everything is synced when this returns true;
    /// false: nothing is logged. Blocks.
    pub fn stop(&self) -> bool {
        self.rounds.stop();
        let Some(mut log) = self.log.lock().take() else { return false };
        // Whoever asked for figures lets go at once.
        let log = loop {
            match Arc::try_unwrap(log) {
                Ok(log) => break log,
                Err(shared) => log = shared,
            }
            std::thread::yield_now();
        };
        // The last sync comes with the drop; if it fails the process has ended.
        drop(log);
        self.is_logging()
    }

    fn log_figures(&self) -> Option<LogFigures> {
        let log = self.log.lock();
        let log = log.as_ref().filter(|_| self.is_logging())?;
        let figures = log.figures();
        Some(LogFigures {
            since_checkpoint_bytes: figures.since_mark_bytes,
            appended_bytes: figures.log.appended_bytes - self.opened_bytes.load(Ordering::SeqCst),
            unsynced_bytes: figures.log.unsynced_bytes,
            waiting_bytes: figures.log.waiting_bytes,
            syncs_total: figures.log.syncs_total,
            delayed_syncs_total: figures.delayed_syncs_total,
            last_sync: figures.last_sync,
            full: log.wal().flags().is_full().then(|| log.wal().full_reason()),
        })
    }
}

impl Disk for Arc<Storage> {
    fn figures(&self) -> DiskFigures {
        let mut figures = self.rounds.figures();
        figures.log = self.log_figures();
        figures.loaded = *self.loaded.lock();
        figures
    }

    fn begin_checkpoint(&self, later: bool) -> Result<Begun, NotBegun> {
        self.check_checkpoint()?;
        self.rounds.order(later)
    }

    fn take_checkpoint(&self) -> Result<(), NotBegun> {
        self.check_checkpoint()?;
        self.rounds.order(false)?;
        self.rounds.wait()
    }

    fn sync(&self) -> Result<(), String> {
        let log = self.log.lock().clone().filter(|_| self.is_logging());
        log.map_or(Ok(()), |log| log.sync_now().map_err(|error| error.to_string()))
    }
}

impl Storage {
    /// Parts of a slot are copied at different moments: without the log there is nothing to bring
    /// them to one.
    fn check_checkpoint(&self) -> Result<(), NotBegun> {
        match self.is_logging() {
            true => Ok(()),
            false => Err(NotBegun::Because(
                "this node keeps its data in memory only (CONFIG SET appendonly yes)".to_owned(),
            )),
        }
    }
}

/// The policy with this name.
fn policy_of(word: &str) -> Policy {
    match word {
        "always" => Policy::Always,
        "no" => Policy::No,
        _ => Policy::EverySec,
    }
}

/// How hard a node with these options tries to keep its writes.
pub fn durability_of(config: &Config) -> Durability {
    match (config.text("appendonly").as_str(), policy_of(&config.text("appendfsync"))) {
        ("yes", Policy::Always) => Durability::Always,
        ("yes", Policy::EverySec | Policy::No) => Durability::Everysec,
        _ => Durability::Memory,
    }
}
