//! What belongs to a worker thread, not to a connection: reply buffer, decoded batch, random
//! numbers, counters. A connection keeps only leftovers, so an idle one costs little (PERF 1).

use std::sync::Arc;

use slots::SlotId;

use crate::command::stats::WorkerStats;
use crate::command::{CommandId, NodeState, Now, Rng};
use crate::resp::ArgRange;
use crate::store::table::KeyHash;

/// Requests decoded and prefetched together. More would evict what was fetched first.
pub const BATCH_REQUESTS: usize = 32;

/// A reply buffer that grew beyond this is given back.
const OUT_KEEP_BYTES: usize = 1024 * 1024;

/// One decoded request.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// First of its words in `Worker::args`.
    pub first_arg: usize,
    /// Number of words.
    pub args: usize,
    /// Input position behind it.
    pub end: usize,
    /// The command, if known and of legal arity.
    pub command: Option<CommandId>,
    /// Slot and hash of word 1 when it is the command's only key.
    pub key: Option<(SlotId, KeyHash)>,
    /// An inline request with quotes: words are in `Worker::quoted` at this place.
    pub quoted: Option<usize>,
}

/// A worker thread's own things.
pub struct Worker {
    /// Encoded replies of the connection at hand.
    pub out: Vec<u8>,
    /// Random numbers.
    pub rng: Rng,
    /// This worker's counters.
    pub stats: Arc<WorkerStats>,
    pub(super) args: Vec<ArgRange>,
    pub(super) batch: Vec<Request>,
    pub(super) quoted: Vec<crate::command::OwnedArgs>,
    /// Commands of the batch that were not timed on their own.
    pub(super) untimed: Vec<CommandId>,
    /// Time of those that were, ns.
    pub(super) timed_ns: u64,
    /// Up to where time has been shared out, monotonic ns.
    pub(super) shared_until_ns: u64,
    /// Replies in `out` that may not leave yet.
    pub(super) gate: crate::gate::Batch,
    /// A command ran long: the clock that was read for the batch is late for the next one.
    pub(super) is_late: bool,
}

impl Worker {
    /// A worker with its counters and seed.
    pub fn new(stats: Arc<WorkerStats>, seed: u64) -> Worker {
        Worker {
            out: Vec::with_capacity(64 * 1024),
            rng: Rng::seeded(seed),
            stats,
            args: Vec::with_capacity(256),
            batch: Vec::with_capacity(BATCH_REQUESTS),
            quoted: Vec::new(),
            untimed: Vec::with_capacity(BATCH_REQUESTS),
            timed_ns: 0,
            shared_until_ns: 0,
            gate: crate::gate::Batch::new(),
            is_late: false,
        }
    }

    /// Constant-time commands are not timed one by one: each gets its share of the batch's time,
    /// at the price of one look at the clock per batch.
    pub(super) fn share_time(&mut self, node: &NodeState, now: Now) {
        let timed_ns = std::mem::take(&mut self.timed_ns);
        if self.untimed.is_empty() {
            return;
        }
        let end_ns = node.edges.now().mono_ns;
        let began_ns = self.shared_until_ns.max(now.mono_ns);
        self.shared_until_ns = end_ns;
        let whole = end_ns.saturating_sub(began_ns).saturating_sub(timed_ns);
        let share = whole / self.untimed.len() as u64;
        for id in self.untimed.drain(..) {
            self.stats.commands[id.index()].nanos.add(share);
        }
    }

    /// Empties the reply buffer for the next connection and gives back what one huge reply took.
    pub fn reset_out(&mut self) {
        self.out.clear();
        if self.out.capacity() > OUT_KEEP_BYTES {
            self.out.shrink_to(OUT_KEEP_BYTES);
        }
    }
}
