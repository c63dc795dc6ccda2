//! Active expiry: deletes keys whose time has come although nobody asks for them.
//!
//! A heap of (earliest expiry, slot) per node; nothing walks 16,384 rooms on a timer. When a
//! slot is due, one pass over its keys deletes the expired and finds the next due time. A slot is
//! not passed over more often than its size warrants.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slots::SlotId;

use crate::command::NodeState;
use crate::io::clock;
use crate::io::edges::Due;
use crate::slot::{Admit, Owned, Patience};
use crate::store::table::ScanPos;

/// How often the heap is looked at.
const ROUND: Duration = Duration::from_millis(25);
/// Keys looked at per lock hold: some 100 us.
const KEYS_PER_HOLD: usize = 500;
/// A slot is passed over again after this many ms per 1,000 keys, and at least `PASS_MIN_MS`.
const PASS_MS_PER_1000_KEYS: u64 = 50;
const PASS_MIN_MS: u64 = 50;
/// Lock holds per round before other tasks get their turn.
const HOLDS_PER_TURN: usize = 64;

/// A pass over a slot in progress.
struct Pass {
    slot: SlotId,
    at: ScanPos,
    next_ms: u64,
}

/// The task.
pub struct ExpiryTask {
    node: Arc<NodeState>,
    due: Due,
    heap: BinaryHeap<Reverse<(u64, SlotId)>>,
    passes: Vec<Pass>,
}

impl ExpiryTask {
    /// A task for this node's rooms.
    pub fn new(node: Arc<NodeState>, due: Due) -> ExpiryTask {
        ExpiryTask { node, due, heap: BinaryHeap::new(), passes: Vec::new() }
    }

    /// Runs for ever.
    pub async fn run(mut self) {
        let mut interval = tokio::time::interval(ROUND);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let fresh = std::mem::take(&mut *self.due.lock());
            self.heap.extend(fresh.into_iter().map(|(slot, at)| Reverse((at, slot))));
            let held = self.node.rooms.totals.hold_expiry.load(Ordering::Relaxed);
            if held || !self.node.active_expire.load(Ordering::Relaxed) {
                continue;
            }
            self.begin_due(clock::now().unix_ms);
            let mut holds = 0;
            while let Some(pass) = self.passes.pop() {
                self.step(pass);
                holds += 1;
                if holds % HOLDS_PER_TURN == 0 {
                    tokio::task::yield_now().await;
                }
                if holds >= 20 * HOLDS_PER_TURN {
                    break;
                }
            }
        }
    }

    /// Begins a pass over every slot that is due; a slot has at most one.
    fn begin_due(&mut self, now_ms: u64) {
        while let Some(Reverse((at, slot))) = self.heap.peek().copied() {
            if at > now_ms {
                break;
            }
            self.heap.pop();
            if !self.passes.iter().any(|p| p.slot == slot) {
                self.passes.push(Pass { slot, at: ScanPos::START, next_ms: u64::MAX });
            }
        }
    }

    /// One lock hold of a pass.
    fn step(&mut self, mut pass: Pass) {
        let now_ms = clock::now().unix_ms;
        match self.node.rooms.admit(pass.slot, now_ms, Patience::Spin) {
            // Not ours any more: whoever owns it expires it.
            Admit::Refused(_) => {}
            Admit::Busy => self.heap.push(Reverse((now_ms + PASS_MIN_MS, pass.slot))),
            Admit::Served(mut owned) => match sweep(&mut owned, &mut pass) {
                Some(next) => {
                    pass.at = next;
                    self.passes.push(pass);
                }
                // A pause began meanwhile: what has expired may still be there. Look again.
                None if self.node.rooms.totals.hold_expiry.load(Ordering::Relaxed) => {
                    self.heap.push(Reverse((now_ms + PASS_MIN_MS, pass.slot)));
                }
                None => {
                    owned.set_next_expiry_ms(pass.next_ms);
                    if pass.next_ms != u64::MAX {
                        let keys = owned.keys().len() as u64;
                        let gap = PASS_MIN_MS.max(keys * PASS_MS_PER_1000_KEYS / 1000);
                        let at = pass.next_ms.max(now_ms + gap);
                        self.heap.push(Reverse((at, pass.slot)));
                    }
                }
            },
        }
    }
}

/// Looks at some keys: notes the earliest expiry ahead, deletes what has expired. `None` at the
/// end of the slot.
fn sweep(owned: &mut Owned<'_>, pass: &mut Pass) -> Option<ScanPos> {
    let mut seen = 0;
    let mut at = pass.at;
    loop {
        // Expired keys are noted by the scan itself and deleted when the group ends.
        let next = owned.keys().scan(at, &mut |found| {
            seen += 1;
            if let Some(expiry) = found.expiry() {
                pass.next_ms = pass.next_ms.min(expiry);
            }
        });
        match next {
            None => return None,
            Some(next) if seen >= KEYS_PER_HOLD => return Some(next),
            Some(next) => at = next,
        }
    }
}
