//! What handlers may ask of the outside world, carried out.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use slots::SlotId;
use tokio::sync::Notify;

use crate::command::waiting::Bell;
use crate::command::{Edges, MemoryUse, Now};
use crate::io::clock;
use crate::slot::room::Chores;
use crate::store::object::Object;
use crate::store::table::Table;

/// The real world.
pub struct RealEdges {
    /// Rung by SHUTDOWN.
    pub stop: Arc<Notify>,
    /// The freeing thread's counts.
    pub freeing: Arc<Freeing>,
}

/// Values on their way to the freeing thread.
#[derive(Debug, Default)]
pub struct Freeing {
    handed: AtomicU64,
    freed: AtomicU64,
}

impl Edges for RealEdges {
    fn now(&self) -> Now {
        clock::now()
    }

    fn run_long(&self, f: &mut dyn FnMut()) {
        tokio::task::block_in_place(f);
    }

    #[allow(clippy::disallowed_methods, reason = "only under run_long: DEBUG's test hooks")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn wait(&self, bell: &Bell, time: Duration) {
        bell.wait_for(time);
    }

    fn memory(&self) -> MemoryUse {
        use tikv_jemalloc_ctl::{epoch, stats};
        let _ = epoch::advance();
        MemoryUse {
            allocated: stats::allocated::read().unwrap_or(0) as u64,
            active: stats::active::read().unwrap_or(0) as u64,
            resident: stats::resident::read().unwrap_or(0) as u64,
            rss: resident_set(),
        }
    }

    fn cpu_seconds(&self) -> (f64, f64) {
        clock::cpu_seconds()
    }

    fn purge_memory(&self) {
        // Background threads return dirty pages within seconds; an epoch refreshes the figures.
        let _ = tikv_jemalloc_ctl::epoch::advance();
    }

    fn read_file(&self, path: &str) -> std::io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn write_file(&self, path: &str, text: &str) -> std::io::Result<()> {
        /// Two writers at once do not write into one file.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let temporary = format!("{path}.{}.tmp", NUMBER.fetch_add(1, Ordering::SeqCst));
        let mut file = std::fs::File::create(&temporary)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let replaced = written.and_then(|()| std::fs::rename(&temporary, path));
        if replaced.is_err() {
            // The first error counts; what is left of the try is of no use.
            let _ = std::fs::remove_file(&temporary);
        }
        replaced
    }

    fn shut_down(&self) {
        self.stop.notify_one();
    }

    fn random_u64(&self) -> u64 {
        clock::random_u64()
    }

    fn unix_micros(&self) -> u64 {
        clock::unix_micros()
    }

    fn freed_objects(&self) -> (u64, u64) {
        let freed = self.freeing.freed.load(Ordering::SeqCst);
        (self.freeing.handed.load(Ordering::SeqCst).saturating_sub(freed), freed)
    }
}

/// Resident set of this process, bytes.
fn resident_set() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|p| p.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

/// What rooms leave for others to do.
#[allow(dead_code, reason = "a value is dropped, not read")]
enum Chore {
    Free(Box<Object>),
    FreeTable(Table<Object>),
}

impl Chore {
    /// Keys' values in it.
    fn objects(&self) -> u64 {
        match self {
            Chore::Free(_) => 1,
            Chore::FreeTable(table) => table.len() as u64,
        }
    }
}

/// Slots whose earliest expiry moved forward, with the time: read by the expiry task.
pub type Due = Arc<Mutex<Vec<(SlotId, u64)>>>;

/// Chores as sent to a thread and a task.
pub struct RealChores {
    free: Sender<Chore>,
    due: Due,
    /// What was handed over and freed.
    pub freeing: Arc<Freeing>,
}

impl RealChores {
    /// Starts the freeing thread. The second part is what the expiry task reads.
    #[allow(clippy::disallowed_methods, reason = "threads start in io/")]
    pub fn start() -> (RealChores, Due) {
        let (free, chores): (Sender<Chore>, Receiver<Chore>) = channel();
        let freeing = Arc::<Freeing>::default();
        let done = freeing.clone();
        // The thread ends when the rooms, and with them the sender, are gone.
        std::thread::Builder::new()
            .name("slotd-free".into())
            .spawn(move || {
                for chore in chores {
                    let objects = chore.objects();
                    drop(chore);
                    done.freed.fetch_add(objects, Ordering::SeqCst);
                }
            })
            .expect("a thread can be started at boot");
        let due = Due::default();
        (RealChores { free, due: due.clone(), freeing }, due)
    }

    fn hand_over(&self, chore: Chore) {
        self.freeing.handed.fetch_add(chore.objects(), Ordering::SeqCst);
        // A closed channel means the process ends: freeing here is right then, too.
        let _ = self.free.send(chore);
    }
}

impl Chores for RealChores {
    fn expiry_due(&self, slot: SlotId, at_ms: u64) {
        self.due.lock().push((slot, at_ms));
    }

    fn free(&self, object: Box<Object>) {
        self.hand_over(Chore::Free(object));
    }

    fn free_table(&self, table: Table<Object>) {
        self.hand_over(Chore::FreeTable(table));
    }
}
