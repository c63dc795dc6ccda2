//! The edge of the write-ahead log: its folder, the thread that syncs, the thread that keeps the
//! files, the replay in parallel.
//!
//! Not the formats nor what may be cut (`persist/log`). Invariant: no append waits for the disk;
//! after a failed sync nothing is synced any more; a thread that ends out of order calls
//! `on_fatal`, and that is called once.

mod bell;
mod folder;
mod gather;
mod journal;
mod map;
mod removal;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use bell::{Bell, News};
pub use folder::Folder;
pub use gather::Crowd;
pub use journal::NodeJournal;
pub use map::{MappedFile, MappedPiece};
pub use removal::remove_all;

use crate::io::clock;
use crate::persist::log::{
    Bells, DiskError, Doing, Figures, Found, Ids, Keeper, Kept, LaneEnd, LogError, Options,
    Recovery, Trust, Wal,
};
pub use crate::persist::log::{LogFlags, Policy};

/// How long a full disk is left alone before the next try: soon after an operator made room.
const ROOM_RETRY: Duration = Duration::from_secs(1);
/// Between two syncs of `everysec`.
const SECOND: Duration = Duration::from_secs(1);
/// The longest sleep: nothing depends on it, all that matters rings.
const NAP: Duration = Duration::from_secs(60);
/// Bytes that may be unsynced before a round is forced, whatever the policy: a sync of the table's
/// log on the same disk waits for them, a few hundredths of a second.
const MAX_UNSYNCED_BYTES: u64 = 32 * 1024 * 1024;
/// How often `sync_now` waits a `ROOM_RETRY` for records that a full disk keeps in memory.
const ROOM_TRIES: u32 = 5;

/// Whom the threads of the log tell.
pub struct Hooks {
    /// `synced` or `is_written` may say more than before.
    pub on_progress: Box<dyn Fn() + Send + Sync>,
    /// Who waits for a sync, with `Policy::Always`; see `Wal::all_are_back`.
    pub crowd: Box<dyn Fn() -> Crowd + Send + Sync>,
    /// A sync has failed or a thread of the log has panicked: the process must end. Called once,
    /// with the line for the operator; must not panic.
    pub on_fatal: Box<dyn Fn(String) + Send + Sync>,
}

/// Figures of a running log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WalFigures {
    /// Of the log itself.
    pub log: Figures,
    /// Bytes appended since the last `mark`, or since the start.
    pub since_mark_bytes: u64,
    /// How long the last round took.
    pub last_sync: Duration,
    /// Rounds that took longer than a second.
    pub delayed_syncs_total: u64,
}

/// The log of a node, as its edge sees it.
pub type NodeWal = Wal<MappedFile>;

/// Looks at the folder of a node's log; made if it is not there.
///
/// # Errors
/// See `Recovery::find`.
pub fn find(folder: &Path, ids: Ids, trust: Trust) -> Result<Recovery<Folder>, LogError> {
    removal::finish(folder)?;
    Recovery::find(Folder::open(folder)?, ids, trust)
}

/// Replays all eras with so many threads; `progress` grows up to `Recovery::bytes_total`. The
/// records of a slot come in order.
///
/// # Errors
/// See `Recovery::replay`; the first one that was met.
pub fn replay(
    recovery: &Recovery<Folder>,
    threads: usize,
    progress: &AtomicU64,
    visit: &(dyn Fn(Found<'_>) -> Result<(), String> + Sync),
) -> Result<Vec<LaneEnd>, LogError> {
    let ends = Mutex::new(Vec::new());
    for era in 0..recovery.eras() {
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let work = || {
            while failure.lock().is_none() {
                let lane = next.fetch_add(1, Relaxed);
                if lane >= usize::from(recovery.lanes(era)) {
                    return;
                }
                match recovery.replay(era, lane as u16, progress, &mut |found| visit(found)) {
                    Ok(end) => ends.lock().push(end),
                    Err(error) => *failure.lock() = Some(error),
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        if let Some(error) = failure.into_inner() {
            return Err(error);
        }
    }
    Ok(ends.into_inner())
}

/// Opens the log where the replay ended, makes its first file and starts its threads.
///
/// # Errors
/// The disk's; a thread that cannot be started. A full disk is none: the log says `is_full`.
pub fn start(
    recovery: Recovery<Folder>,
    ends: Vec<LaneEnd>,
    options: Options,
    policy: Policy,
    hooks: Hooks,
) -> Result<RunningWal, LogError> {
    let (sync, keep) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    let (sync_bell, keep_bell) = (Arc::clone(&sync), Arc::clone(&keep));
    let Hooks { on_progress, crowd, on_fatal } = hooks;
    let news = Arc::new(News::default());
    let told = Arc::clone(&news);
    let bells = Bells {
        sync: Box::new(move || sync_bell.ring()),
        keep: Box::new(move || keep_bell.ring()),
        progress: Box::new(move || {
            told.tell();
            on_progress();
        }),
    };
    let mut keeper = recovery.open(ends, options, bells)?;
    let found_bytes = keeper.wal().figures().appended_bytes;
    // Before the first file: how it is made depends on it.
    keeper.wal().flags().set_policy(policy);
    let kept = keeper.tend()?;
    let shared = Arc::new(Shared {
        wal: Arc::clone(keeper.wal()),
        crowd,
        on_fatal,
        has_failed: AtomicBool::new(false),
        sync,
        keep,
        news,
        floors: Mutex::new(None),
        keep_ends: AtomicBool::new(false),
        sync_ends: AtomicBool::new(false),
        is_forced: AtomicBool::new(false),
        mark: AtomicU64::new(found_bytes),
        last_sync_ns: AtomicU64::new(0),
        delayed_syncs: AtomicU64::new(0),
    });
    let (for_sync, for_keep) = (Arc::clone(&shared), Arc::clone(&shared));
    let no_thread = |error: io::Error| {
        let (file, reason) = ("a thread of the write-ahead log".to_owned(), error.to_string());
        DiskError { doing: Doing::Open, file, reason }
    };
    let threads = [
        begin("wal-sync", move || for_sync.run(|| for_sync.sync_on())).map_err(no_thread)?,
        begin("wal-keep", move || for_keep.run(|| for_keep.keep_on(keeper, kept)))
            .map_err(no_thread)?,
    ];
    Ok(RunningWal { shared, threads: Some(threads) })
}

#[allow(clippy::disallowed_methods, reason = "threads of the edges start here")]
fn begin(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(run)
}

/// Why `sync_now` cannot say that all is safe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotSynced {
    /// Records wait in memory and the disk has no room for them: the reason.
    NoRoom(String),
    /// A sync failed: the node ends.
    Failed(DiskError),
}

impl fmt::Display for NotSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSynced::NoRoom(reason) => write!(f, "the write-ahead log has no room: {reason}"),
            NotSynced::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotSynced {}

/// A log whose threads run; they end, after a last sync, when this is dropped.
pub struct RunningWal {
    shared: Arc<Shared>,
    threads: Option<[JoinHandle<()>; 2]>,
}

impl RunningWal {
    /// The log.
    pub fn wal(&self) -> &Arc<NodeWal> {
        &self.shared.wal
    }

    /// By which policy the log syncs; the same as `LogFlags::policy`.
    pub fn policy(&self) -> Policy {
        self.shared.wal.flags().policy()
    }

    /// Syncs by another policy from now on, and makes one round at once, whatever it is.
    ///
    /// Whoever waits for a sync because it read the old policy after its append waits no longer
    /// than for that round, and the one under way: the round takes each lane after the policy has
    /// changed, so an append that it does not reach came later and reads the new one. Before a
    /// weaker policy takes its place the caller has noted on the disk that it is used.
    pub fn switch(&self, policy: Policy) {
        self.shared.wal.flags().set_policy(policy);
        self.shared.is_forced.fetch_or(true, AcqRel);
        self.shared.sync.ring();
    }

    /// Returns when all that is appended by now is synced. Not for a thread that serves.
    ///
    /// # Errors
    /// A sync that failed, `on_fatal` has been called then; a disk without room for records that
    /// wait in memory.
    pub fn sync_now(&self) -> Result<(), NotSynced> {
        let (shared, wal) = (&self.shared, &self.shared.wal);
        let round = wal.rounds_begun() + 1;
        let mut tries = 0;
        loop {
            let seen = shared.news.seen();
            shared.round().map_err(|error| {
                shared.end(&error);
                NotSynced::Failed(error)
            })?;
            if wal.rounds_done() >= round {
                return Ok(());
            }
            // The keeper says when it has written some of what waits.
            tries = if shared.news.wait(seen, ROOM_RETRY) { 0 } else { tries + 1 };
            if tries == ROOM_TRIES {
                return Err(NotSynced::NoRoom(wal.full_reason()));
            }
        }
    }

    /// Bytes appended since the last `mark`, or since the start.
    pub fn bytes_since_mark(&self) -> u64 {
        self.figures().since_mark_bytes
    }

    /// Lets files go that nothing needs, soon; see `Keeper::drop_before`.
    pub fn drop_before(&self, floors: Vec<u64>) {
        *self.shared.floors.lock() = Some(floors);
        self.shared.keep.ring();
    }

    /// `since_mark_bytes` counts from here.
    pub fn mark(&self) {
        self.shared.mark.store(self.shared.wal.figures().appended_bytes, Relaxed);
    }

    /// The figures of now.
    pub fn figures(&self) -> WalFigures {
        let log = self.shared.wal.figures();
        WalFigures {
            log,
            since_mark_bytes: log.appended_bytes.saturating_sub(self.shared.mark.load(Relaxed)),
            last_sync: Duration::from_nanos(self.shared.last_sync_ns.load(Relaxed)),
            delayed_syncs_total: self.shared.delayed_syncs.load(Relaxed),
        }
    }
}

impl Drop for RunningWal {
    fn drop(&mut self) {
        self.shared.keep_ends.store(true, Release);
        self.shared.keep.ring();
        let Some([sync, keep]) = self.threads.take() else { return };
        // A thread that panicked has said so; the last sync comes after the last write.
        let _ = keep.join();
        self.shared.sync_ends.store(true, Release);
        self.shared.sync.ring();
        let _ = sync.join();
    }
}

struct Shared {
    wal: Arc<NodeWal>,
    crowd: Box<dyn Fn() -> Crowd + Send + Sync>,
    on_fatal: Box<dyn Fn(String) + Send + Sync>,
    /// `on_fatal` was called.
    has_failed: AtomicBool,
    sync: Arc<Bell>,
    keep: Arc<Bell>,
    news: Arc<News>,
    floors: Mutex<Option<Vec<u64>>>,
    keep_ends: AtomicBool,
    sync_ends: AtomicBool,
    /// A round is due: too much is unsynced, or the policy has changed. Set and taken by
    /// read-modify-writes only, so that the round sees what came before any of the sets.
    is_forced: AtomicBool,
    mark: AtomicU64,
    last_sync_ns: AtomicU64,
    delayed_syncs: AtomicU64,
}

impl Shared {
    fn fatal(&self, line: String) {
        if !self.has_failed.swap(true, AcqRel) {
            (self.on_fatal)(line);
        }
    }

    /// The whole of a thread. However it ends but in order, the node must end, too: who waits for a
    /// sync would wait for ever.
    fn run(&self, thread: impl FnOnce() -> Result<(), DiskError>) {
        let watch = Watch(self);
        let ended = thread();
        std::mem::forget(watch);
        if let Err(error) = ended {
            self.end(&error);
        }
    }

    fn end(&self, error: &DiskError) {
        self.fatal(format!("{error}: nobody knows what is on the disk, the node ends"));
    }

    /// The thread that syncs.
    fn sync_on(&self) -> Result<(), DiskError> {
        let mut last_ns = clock::now().mono_ns;
        loop {
            let policy = self.wal.flags().policy();
            match policy {
                Policy::Always => {
                    if self.wal.doze() {
                        self.sync.wait(NAP);
                    }
                    self.wal.stay_awake();
                    self.gather();
                }
                Policy::EverySec => {
                    let passed = Duration::from_nanos(clock::now().mono_ns - last_ns);
                    self.sync.wait(SECOND.saturating_sub(passed));
                }
                Policy::No => self.sync.wait(NAP),
            }
            self.wal.stay_awake();
            let now_ns = clock::now().mono_ns;
            let is_due = match policy {
                Policy::Always => true,
                Policy::EverySec => now_ns - last_ns >= SECOND.as_nanos() as u64,
                Policy::No => self.wal.is_round_wanted(),
            };
            // Read before the round: whoever set it has written all there was.
            let ends = self.sync_ends.load(Acquire);
            if is_due || ends || self.is_forced.swap(false, AcqRel) {
                last_ns = now_ns;
                self.round()?;
            }
            if ends {
                return Ok(());
            }
        }
    }

    fn gather(&self) {
        let last_sync = Duration::from_nanos(self.last_sync_ns.load(Relaxed));
        self.wal.note_gathering(true);
        gather::gather(last_sync, &self.crowd, &mut |at_most| {
            let began_ns = clock::now().mono_ns;
            self.sync.wait(at_most);
            Duration::from_nanos(clock::now().mono_ns - began_ns)
        });
        self.wal.note_gathering(false);
    }

    fn round(&self) -> Result<(), DiskError> {
        let began_ns = clock::now().mono_ns;
        let round = self.wal.sync_round()?;
        if round.files > 0 {
            let took = clock::now().mono_ns - began_ns;
            self.last_sync_ns.store(took, Relaxed);
            self.delayed_syncs.fetch_add(u64::from(took > SECOND.as_nanos() as u64), Relaxed);
        }
        Ok(())
    }

    /// The thread that keeps the files.
    fn keep_on(&self, mut keeper: Keeper<Folder>, mut kept: Kept) -> Result<(), DiskError> {
        loop {
            self.keep.wait(if kept == Kept::Done { NAP } else { ROOM_RETRY });
            let ends = self.keep_ends.load(Acquire);
            kept = self.keep_once(&mut keeper)?;
            if self.wal.figures().unsynced_bytes > MAX_UNSYNCED_BYTES {
                self.is_forced.fetch_or(true, AcqRel);
                self.sync.ring();
            }
            if ends {
                return Ok(());
            }
        }
    }

    fn keep_once(&self, keeper: &mut Keeper<Folder>) -> Result<Kept, DiskError> {
        let floors = self.floors.lock().take();
        if let Some(floors) = floors {
            match keeper.drop_before(&floors) {
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => tracing::warn!(%error, "an old file of the log does not go"),
                Ok(_) => {}
            }
        }
        keeper.tend()
    }
}

/// Dropped only by a panic.
struct Watch<'a>(&'a Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        self.0.fatal(format!("the thread {name} of the write-ahead log panicked, the node ends"));
    }
}
