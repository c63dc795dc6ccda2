//! When checkpoints are taken, one at a time, and what comes of them.
//!
//! ```text
//!   idle --order, or due by itself--> under way --> idle   (the log behind it goes)
//!                                        | fails: said, tried again after RETRY
//! ```
//! Not how one is taken (`persist/checkpoint`). Invariant: the log goes only up to where every lane
//! was before the round, or to its oldest stage, and only once the checkpoint is on the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use slots::{SlotId, TableVersion};

use super::Storage;
use crate::command::NodeState;
use crate::command::disk::{Begun, DiskFigures, NotBegun, save_points};
use crate::io::clock;
use crate::io::wal::{Folder, NotSynced, RunningWal};
use crate::persist::checkpoint::{
    Checkpoint, NotTaken, Progress, RoundAbout, RoundEdge, Taken, floors, take,
};
use crate::persist::log::{DiskError, Doing};
use crate::slot::Rooms;

/// How often the conditions that begin a round by itself are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// After a failed round, before one begins by itself again: as Redis.
const RETRY: Duration = Duration::from_secs(5);
/// A round rests as long as it worked, at most so long at once: half a core is the most it takes.
const REST_MAX: Duration = Duration::from_millis(20);

/// The rounds of a node.
#[derive(Default)]
pub(super) struct Rounds {
    state: Mutex<State>,
    rung: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    /// Rounds that were ordered, begun, ended: each counts from 1.
    ordered: u64,
    begun: u64,
    ended: u64,
    ends: bool,
    /// The next round carries a log that was begun while the node served.
    is_anchor: bool,
    /// When the last one failed, monotonic ns.
    failed_ns: u64,
    /// For INFO; `checkpoint_failure` is the outcome of the last round.
    figures: DiskFigures,
}

impl Rounds {
    pub(super) fn figures(&self) -> DiskFigures {
        let state = self.state.lock();
        let is_checkpoint_scheduled = state.ordered > state.begun && state.begun > state.ended;
        DiskFigures { is_checkpoint_scheduled, ..state.figures.clone() }
    }

    /// What a start found.
    pub(super) fn found(&self, checkpoint: &Checkpoint<Folder>) {
        let mut state = self.state.lock();
        state.figures.last_checkpoint_ms = checkpoint.created_ms();
        state.figures.last_checkpoint_keys = checkpoint.keys();
        state.figures.last_checkpoint_bytes = checkpoint.bytes_total();
    }

    /// Orders a round; `later`: behind one that is under way.
    pub(super) fn order(&self, later: bool) -> Result<Begun, NotBegun> {
        let mut state = self.state.lock();
        let is_under_way = state.begun > state.ended;
        if is_under_way && !later {
            return Err(NotBegun::UnderWay);
        }
        state.ordered = state.begun + 1;
        self.rung.notify_all();
        Ok(if is_under_way { Begun::Later } else { Begun::Now })
    }

    /// Orders the round that carries a log which has just begun. One that is under way does not.
    pub(super) fn order_anchor(&self) {
        let mut state = self.state.lock();
        state.is_anchor = true;
        state.ordered = state.begun + 1;
        self.rung.notify_all();
    }

    /// Waits for the end of what was ordered.
    pub(super) fn wait(&self) -> Result<(), NotBegun> {
        let mut state = self.state.lock();
        let round = state.ordered;
        while state.ended < round && !state.ends {
            self.rung.wait(&mut state);
        }
        match &state.figures.checkpoint_failure {
            _ if state.ended < round => Err(NotBegun::Because("the node ends".to_owned())),
            Some(why) => Err(NotBegun::Because(why.clone())),
            None => Ok(()),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "threads of the edges start here")]
    pub(super) fn start(&self, storage: &Arc<Storage>) -> io::Result<()> {
        let storage = storage.clone();
        let run = move || storage.rounds.run(&storage);
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(run)?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Gives up what is under way, and ends.
    pub(super) fn stop(&self) {
        self.state.lock().ends = true;
        self.rung.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    fn ends(&self) -> bool {
        self.state.lock().ends
    }

    fn run(&self, storage: &Arc<Storage>) {
        clock::prefer_this_thread();
        while self.next(storage) {
            let Some(node) = storage.node() else { return };
            let begun_ns = clock::now().mono_ns;
            let changes = node.changes();
            let outcome = storage.round(&node);
            let now = clock::now();
            let took = Duration::from_nanos(now.mono_ns - begun_ns);
            let mut state = self.state.lock();
            state.ended = state.begun;
            state.figures.checkpoint_since_ns = None;
            match outcome {
                Ok(taken) => {
                    state.note(&taken, now.unix_ms, took);
                    state.figures.changes_at_checkpoint = changes;
                    tracing::info!(
                        number = taken.number,
                        keys = taken.keys,
                        bytes = taken.bytes,
                        ms = took.as_millis() as u64,
                        "checkpoint taken"
                    );
                }
                // It was to be: the process ends.
                Err(NotTaken::GivenUp) if state.ends => {}
                Err(error) => {
                    tracing::warn!(%error, "no checkpoint was taken; the one before stands");
                    state.failed_ns = now.mono_ns;
                    state.figures.checkpoint_failure = Some(error.to_string());
                }
            }
            drop(state);
            self.rung.notify_all();
        }
        self.rung.notify_all();
    }

    /// Waits until a round is to be taken; false: never again.
    fn next(&self, storage: &Storage) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.ends {
                return false;
            }
            if state.ordered > state.begun {
                state.begun += 1;
                state.ordered = state.begun;
                state.figures.checkpoint_since_ns = Some(clock::now().mono_ns);
                return true;
            }
            if self.rung.wait_for(&mut state, LOOK).timed_out() {
                let (figures, failed_ns) = (state.figures.clone(), state.failed_ns);
                let is_anchor = state.is_anchor;
                drop(state);
                let is_due = storage.is_due(&figures, failed_ns, is_anchor);
                state = self.state.lock();
                if is_due {
                    state.ordered = state.begun + 1;
                }
            }
        }
    }
}

impl State {
    fn note(&mut self, taken: &Taken, now_ms: u64, took: Duration) {
        let figures = &mut self.figures;
        figures.checkpoint_failure = None;
        figures.checkpoints_total += 1;
        figures.last_checkpoint_ms = now_ms;
        figures.last_checkpoint_took = Some(took);
        figures.last_checkpoint_bytes = taken.bytes;
        figures.last_checkpoint_keys = taken.keys;
        let hold = Duration::from_nanos(taken.longest_hold_ns);
        figures.longest_hold = figures.longest_hold.max(hold);
    }
}

impl Storage {
    /// Is it time for a round by itself?
    fn is_due(&self, figures: &DiskFigures, failed_ns: u64, is_anchor: bool) -> bool {
        let Some(node) = self.node().filter(|_| self.is_logging()) else { return false };
        let now = clock::now();
        let since_failure = Duration::from_nanos(now.mono_ns.saturating_sub(failed_ns));
        if figures.checkpoint_failure.is_some() && since_failure < RETRY {
            return false;
        }
        if is_anchor {
            return true;
        }
        let live = node.config.live();
        let percent = live.auto_checkpoint_percent.load();
        let grown = self.log_figures().map_or(0, |log| log.since_checkpoint_bytes);
        let base = figures.last_checkpoint_bytes;
        let is_long = grown >= live.auto_checkpoint_min_bytes.load()
            && u128::from(grown) * 100 >= u128::from(base) * u128::from(percent);
        let changes = node.changes().saturating_sub(figures.changes_at_checkpoint);
        let last_ms = figures.last_checkpoint_ms.max(node.started.unix_ms);
        let passed_s = now.unix_ms.saturating_sub(last_ms) / 1000;
        let by_point = save_points(live)
            .into_iter()
            .any(|(seconds, least)| passed_s >= seconds && changes >= least.max(1));
        percent > 0 && is_long || by_point
    }

    /// One round, from the floors to the dropping of what lies below.
    fn round(&self, node: &Arc<NodeState>) -> Result<Taken, NotTaken> {
        let Some(log) = self.log.lock().clone() else { return Err(NotTaken::GivenUp) };
        let is_anchor = std::mem::take(&mut self.rounds.state.lock().is_anchor);
        let floors = floors(log.wal(), &node.rooms);
        log.mark();
        let about = RoundAbout {
            ids: self.ids,
            created_ms: clock::now().unix_ms,
            after: self.checkpoint.load(Ordering::SeqCst),
        };
        let folder = Folder::open(&self.checkpoint_dir)?;
        let edge = Edge { storage: self, log: &log, rooms: &node.rooms };
        let taken = take(&node.rooms, &folder, about, &edge).inspect_err(|error| {
            self.rounds.state.lock().is_anchor |= is_anchor;
            if let NotTaken::Disk(error) = error
                && error.is_fatal()
            {
                self.fail(&format!("{error}: nobody knows what is on the disk, the node ends"));
            }
        })?;
        self.checkpoint.store(taken.number, Ordering::SeqCst);
        log.drop_before(floors);
        if is_anchor && let Err(error) = self.note(self.durability()) {
            tracing::warn!(%error, "the node's file does not say yet that writes are logged");
            self.rounds.state.lock().is_anchor = true;
        }
        Ok(taken)
    }
}

/// What a round needs of the world.
struct Edge<'a> {
    storage: &'a Storage,
    log: &'a RunningWal,
    rooms: &'a Rooms,
}

impl RoundEdge for Edge<'_> {
    fn mono_ns(&self) -> u64 {
        clock::now().mono_ns
    }

    #[allow(clippy::disallowed_methods, reason = "a thread of its own rests here")]
    fn after_chunk(&self, worked_ns: u64, _: Progress) -> bool {
        std::thread::sleep(Duration::from_nanos(worked_ns).min(REST_MAX));
        !self.storage.rounds.ends()
    }

    fn sync_log(&self) -> Result<(), DiskError> {
        self.log.sync_now().map_err(|error| match error {
            NotSynced::Failed(error) => error,
            NotSynced::NoRoom(reason) => {
                DiskError { doing: Doing::Write, file: "the log of keys".to_owned(), reason }
            }
        })
    }

    fn alone(&self, slot: SlotId) -> TableVersion {
        self.rooms.alone(slot)
    }
}
