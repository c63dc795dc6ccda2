//! The outside of a simulated node: its clocks, and the mouth through which commands propose.
//!
//! Invariant: no real clock, file or thread is touched.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slotd::command::waiting::Bell;
use slotd::command::{Edges, MemoryUse, Now};
use slotd::control::orders::{Order, OrderError, Ordered, Orders, View};
use slotd::control::{CaughtUp, Proposed, TableLog};
use slotd::slot::room::Chores;
use slotd::store::object::Object;
use slotd::store::table::Table;
use slots::{SlotId, TableChange};

/// What a node's clocks show now; the world sets it before each event.
#[derive(Debug, Default)]
pub struct Dial {
    mono_ns: AtomicU64,
    unix_ms: AtomicU64,
}

impl Dial {
    /// Sets both clocks.
    pub fn set(&self, now: Now) {
        self.mono_ns.store(now.mono_ns, Ordering::Relaxed);
        self.unix_ms.store(now.unix_ms, Ordering::Relaxed);
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        Now {
            mono_ns: self.mono_ns.load(Ordering::Relaxed),
            unix_ms: self.unix_ms.load(Ordering::Relaxed),
        }
    }
}

/// The edges of a simulated node.
pub struct WorldEdges {
    /// Its clocks.
    pub dial: Arc<Dial>,
}

impl Edges for WorldEdges {
    fn now(&self) -> Now {
        self.dial.now()
    }
    fn run_long(&self, f: &mut dyn FnMut()) {
        f();
    }
    fn sleep(&self, _: Duration) {}
    /// Nobody rings while a command runs: the world goes on only after it. So the outcome of a
    /// command's proposal is always unknown to its client.
    fn wait(&self, _: &Bell, _: Duration) {}
    fn memory(&self) -> MemoryUse {
        MemoryUse::default()
    }
    fn cpu_seconds(&self) -> (f64, f64) {
        (0.0, 0.0)
    }
    fn purge_memory(&self) {}
    fn read_file(&self, _: &str) -> io::Result<String> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }
    fn write_file(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
    fn shut_down(&self) {}
    fn random_u64(&self) -> u64 {
        self.now().mono_ns
    }
    fn unix_micros(&self) -> u64 {
        self.now().unix_ms * 1000
    }
    fn freed_objects(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Nothing is freed elsewhere, and no key of the world expires.
pub struct NoChores;

impl Chores for NoChores {
    fn expiry_due(&self, _: SlotId, _: u64) {}
    fn free(&self, _: Box<Object>) {}
    fn free_table(&self, _: Table<Object>) {}
}

/// A proposal made by a command.
pub struct Spoken {
    /// The change.
    pub change: TableChange,
    /// Who asked.
    pub actor: String,
    /// To be told the outcome.
    pub done: Proposed,
}

/// Where commands propose: the world takes it from here.
#[derive(Default)]
pub struct Mouth(Mutex<Vec<Spoken>>);

impl Mouth {
    /// What was proposed since the last call.
    pub fn take(&self) -> Vec<Spoken> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The node's end of the log.
pub struct LogEnd(pub Arc<Mouth>);

impl TableLog for LogEnd {
    fn propose(&self, change: TableChange, actor: &str, done: Proposed) {
        self.0.0.lock().push(Spoken { change, actor: actor.to_owned(), done });
    }

    /// In the world nobody can say: commands judge by the table that their node has.
    fn catch_up(&self, done: CaughtUp) {
        done(false);
    }
}

/// Orders are the operators' own in the world: no command carries one out.
impl Orders for LogEnd {
    fn order(&self, _: Order, _: &str, done: Ordered) {
        done(Err(OrderError::Refused("not in the world".to_owned())));
    }

    fn view(&self) -> View {
        View { has_quorum: true, ..View::default() }
    }
}
