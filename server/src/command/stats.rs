//! Counters. Each worker thread has its own set, written by it alone with plain loads and
//! stores; INFO sums them. So no request touches a counter another core writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::Mutex;

use crate::command::registry::{CommandId, registry};
use crate::command::{Command, Handler};

/// Distinct error prefixes counted; more are lumped together (INFO errorstats, as Redis 7.2).
const ERROR_PREFIXES_MAX: usize = 128;

/// A counter with one writing thread.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owning worker calls it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value as any thread sees it.
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Back to 0 (CONFIG RESETSTAT); a concurrent `add` may survive it.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Counters of one command on one worker.
#[derive(Debug, Default)]
pub struct CommandCounters {
    /// Executed.
    pub calls: Counter,
    /// Time in ns. Constant-time commands get their share of the batch's time.
    pub nanos: Counter,
    /// Refused before execution.
    pub rejected: Counter,
    /// Failed in execution.
    pub failed: Counter,
}

/// All counters of one worker.
#[derive(Debug)]
pub struct WorkerStats {
    /// By command id.
    pub commands: Box<[CommandCounters]>,
    /// Requests executed.
    pub processed: Counter,
    /// Bytes read from clients.
    pub input_bytes: Counter,
    /// Bytes written to clients.
    pub output_bytes: Counter,
    /// Reads from sockets.
    pub reads: Counter,
    /// Writes to sockets.
    pub writes: Counter,
    /// Look-ups by readers that found a key.
    pub hits: Counter,
    /// Look-ups by readers that found none.
    pub misses: Counter,
    /// Changes of keys by commands, since the start.
    pub changes: Counter,
    /// Error replies.
    pub errors: Counter,
    /// Error replies by first word.
    pub error_prefixes: Mutex<BTreeMap<String, u64>>,
}

impl WorkerStats {
    fn new() -> WorkerStats {
        WorkerStats {
            commands: (0..registry().len()).map(|_| CommandCounters::default()).collect(),
            processed: Counter::default(),
            input_bytes: Counter::default(),
            output_bytes: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            changes: Counter::default(),
            errors: Counter::default(),
            error_prefixes: Mutex::new(BTreeMap::new()),
        }
    }

    /// Counts look-ups that found a key and that found none; those of writers are neither hits
    /// nor misses, as in Redis.
    #[inline]
    pub fn count_lookups(&self, command: &Command, (hits, misses): (u64, u64)) {
        if let Handler::Read(_) = command.handler {
            self.hits.add(hits);
            self.misses.add(misses);
        }
    }

    /// Counts an error reply, given from its `-` on.
    #[cold]
    pub fn count_error(&self, reply: &[u8]) {
        self.errors.add(1);
        let end = reply.iter().position(|b| matches!(b, b' ' | b'\r')).unwrap_or(reply.len());
        let prefix = String::from_utf8_lossy(reply.get(1..end).unwrap_or_default()).into_owned();
        let mut prefixes = self.error_prefixes.lock();
        if prefixes.len() < ERROR_PREFIXES_MAX || prefixes.contains_key(&prefix) {
            *prefixes.entry(prefix).or_default() += 1;
        }
    }
}

/// Sums of one command over all workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandSums {
    /// Executed.
    pub calls: u64,
    /// Time, us.
    pub usec: u64,
    /// Refused before execution.
    pub rejected: u64,
    /// Failed in execution.
    pub failed: u64,
}

/// The workers' counters and the rare ones that all share.
#[derive(Debug, Default)]
pub struct Stats {
    workers: Mutex<Vec<Arc<WorkerStats>>>,
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused by maxclients.
    pub rejected_connections: AtomicU64,
    /// Clients blocked on keys or held by CLIENT PAUSE.
    pub blocked_clients: AtomicU64,
    /// Refusals because another node owns the slot.
    pub moved: AtomicU64,
    /// Connections cut because they did not read.
    pub slow_readers_cut: AtomicU64,
    rates: Mutex<RateSamples>,
}

/// What the last second or so brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Commands a second.
    pub commands_per_s: u64,
    /// Bytes read a second.
    pub input_bytes_per_s: u64,
    /// Bytes written a second.
    pub output_bytes_per_s: u64,
}

/// Samples the rates are averaged over, `RATE_SAMPLE_NS` apart: 1.6 s, as Redis.
const RATE_SAMPLES: usize = 16;
const RATE_SAMPLE_NS: u64 = 100_000_000;

/// Time and sums of the last samples, oldest first.
#[derive(Debug, Default)]
struct RateSamples(std::collections::VecDeque<(u64, [u64; 3])>);

impl Stats {
    /// Takes a sample for the rates if one is due. The node's ticker calls it.
    pub fn sample_rates(&self, now_ns: u64) {
        let mut rates = self.rates.lock();
        if rates.0.back().is_some_and(|(at, _)| now_ns < at + RATE_SAMPLE_NS) {
            return;
        }
        let sums = [
            self.sum(|w| &w.processed),
            self.sum(|w| &w.input_bytes),
            self.sum(|w| &w.output_bytes),
        ];
        if rates.0.len() > RATE_SAMPLES {
            rates.0.pop_front();
        }
        rates.0.push_back((now_ns, sums));
    }

    /// Commands and bytes a second over the last samples.
    pub fn rates(&self) -> Rates {
        let rates = self.rates.lock();
        let (Some((from, old)), Some((to, new))) = (rates.0.front(), rates.0.back()) else {
            return Rates::default();
        };
        let span = u128::from(to.saturating_sub(*from)).max(1);
        let per_s = |i: usize| {
            let count = u128::from(new[i].saturating_sub(old[i]));
            (count * 1_000_000_000 / span) as u64
        };
        Rates {
            commands_per_s: per_s(0),
            input_bytes_per_s: per_s(1),
            output_bytes_per_s: per_s(2),
        }
    }

    /// Counters for a new worker: those of one that is gone, with what they stand at, or new
    /// ones. Threads come and go with long commands; the list must not grow with them.
    pub fn add_worker(&self) -> Arc<WorkerStats> {
        let mut workers = self.workers.lock();
        if let Some(free) = workers.iter().find(|w| Arc::strong_count(w) == 1) {
            // What the thread before wrote is seen by the one that writes on.
            fence(Ordering::Acquire);
            return free.clone();
        }
        let worker = Arc::new(WorkerStats::new());
        workers.push(worker.clone());
        worker
    }

    /// Sum of one counter over the workers.
    pub fn sum(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.workers.lock().iter().map(|w| counter(w).load()).sum()
    }

    /// Sums of one command.
    pub fn command(&self, id: CommandId) -> CommandSums {
        let mut sums = CommandSums::default();
        let mut nanos = 0;
        for worker in self.workers.lock().iter() {
            let c = &worker.commands[id.index()];
            sums.calls += c.calls.load();
            nanos += c.nanos.load();
            sums.rejected += c.rejected.load();
            sums.failed += c.failed.load();
        }
        sums.usec = nanos / 1000;
        sums
    }

    /// Error replies by first word.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for worker in self.workers.lock().iter() {
            for (prefix, n) in worker.error_prefixes.lock().iter() {
                *all.entry(prefix.clone()).or_default() += n;
            }
        }
        all
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for w in self.workers.lock().iter() {
            for c in w.commands.iter() {
                [&c.calls, &c.nanos, &c.rejected, &c.failed].into_iter().for_each(Counter::reset);
            }
            let all = [&w.processed, &w.input_bytes, &w.output_bytes, &w.reads, &w.writes];
            all.into_iter().for_each(Counter::reset);
            [&w.hits, &w.misses, &w.errors].into_iter().for_each(Counter::reset);
            w.error_prefixes.lock().clear();
        }
        self.connections.store(0, Ordering::Relaxed);
        self.rejected_connections.store(0, Ordering::Relaxed);
        self.moved.store(0, Ordering::Relaxed);
        self.slow_readers_cut.store(0, Ordering::Relaxed);
        self.rates.lock().0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_worker_counts_on_where_one_that_is_gone_stopped() {
        let stats = Stats::default();
        let (first, second) = (stats.add_worker(), stats.add_worker());
        first.processed.add(2);
        second.processed.add(3);
        drop(first);
        let third = stats.add_worker();
        third.processed.add(4);
        assert_eq!(stats.workers.lock().len(), 2);
        assert_eq!(stats.sum(|w| &w.processed), 9);
    }
}
