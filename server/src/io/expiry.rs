//! Active expiry: deletes keys whose time has come although nobody asks for them.
//!
//! Rooms report when their earliest expiry moves forward; nothing walks 16,384 rooms on a timer.
//! When a slot is due, one pass over its keys deletes the expired and finds the next due time.
//!
//! ```text
//!  due report --> wake (ordered by time) --> pass, some keys a lock hold --> wake again
//! ```
//! Work is bounded per round, so under load passes come later and find more at once. Invariant: a
//! slot with an expiry is in `wake`, in `passes`, or has a report on its way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slots::SlotId;

use crate::command::NodeState;
use crate::io::edges::Due;
use crate::slot::{Admit, Owned, Patience, Refused};
use crate::store::table::ScanPos;

/// How often due slots are looked for.
const ROUND: Duration = Duration::from_millis(25);
/// A unit of work is a key looked at, some 0.1 us. Entering a room costs as much as these.
const HOLD_WORK: u64 = 20;
/// Work per lock hold: some 50 us, and the deletes.
const WORK_PER_HOLD: u64 = 500;
/// Work before other tasks get their turn: about a millisecond.
const WORK_PER_TURN: u64 = 8_000;
/// Turns per round at the least `active-expire-effort`: a fifth of one worker.
const TURNS_PER_ROUND: u64 = 5;
/// Entries behind one step of a scan: about a bucket's.
const KEYS_PER_STEP: u64 = 7;
/// A slot is passed over again after this many ms per 1,000 keys, and at least `PASS_MIN_MS`: a
/// stream of short-lived keys in a big slot costs a twentieth of a worker.
const PASS_MS_PER_1000_KEYS: u64 = 2;
const PASS_MIN_MS: u64 = 50;

/// A pass over a slot in progress.
struct Pass {
    slot: SlotId,
    at: ScanPos,
    /// Earliest expiry ahead among the keys seen.
    next_ms: u64,
    /// Expired keys had to stay at some time: the pass has to come again.
    held_back: bool,
}

/// What is known of a slot that has, or once had, keys with an expiry.
#[derive(Default)]
struct Plan {
    /// Its place in `wake`, unix ms.
    wake_ms: Option<u64>,
    /// No pass before this, unix ms.
    not_before_ms: u64,
    passing: bool,
}

/// The task.
pub struct ExpiryTask {
    node: Arc<NodeState>,
    due: Due,
    plans: BTreeMap<SlotId, Plan>,
    wake: BTreeSet<(u64, SlotId)>,
    passes: VecDeque<Pass>,
}

impl ExpiryTask {
    /// A task for this node's rooms.
    pub fn new(node: Arc<NodeState>, due: Due) -> ExpiryTask {
        ExpiryTask {
            node,
            due,
            plans: BTreeMap::new(),
            wake: BTreeSet::new(),
            passes: VecDeque::new(),
        }
    }

    /// Runs for ever.
    pub async fn run(mut self) {
        let mut interval = tokio::time::interval(ROUND);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let effort = self.node.config.live().active_expire_effort.load();
            for _ in 0..TURNS_PER_ROUND + effort / 2 {
                if !self.turn(self.node.edges.now().unix_ms) {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// Some work; true if there is more to do at once.
    fn turn(&mut self, now_ms: u64) -> bool {
        let fresh = std::mem::take(&mut *self.due.lock());
        fresh.into_iter().for_each(|(slot, at_ms)| self.wake_at(slot, at_ms));
        if !self.node.active_expire.load(Ordering::Relaxed) || self.is_held_back() {
            return false;
        }
        let mut work = 0;
        while work < WORK_PER_TURN {
            let Some(pass) = self.passes.pop_front().or_else(|| self.begin_due(now_ms)) else {
                return false;
            };
            work += self.step(pass, now_ms);
        }
        true
    }

    /// CLIENT PAUSE, a full log: expired keys are hidden but stay.
    fn is_held_back(&self) -> bool {
        self.node.rooms.totals.hold_expiry.holds()
    }

    /// Wants the slot passed over at `at_ms`, or as soon after it as its size warrants.
    fn wake_at(&mut self, slot: SlotId, at_ms: u64) {
        let plan = self.plans.entry(slot).or_default();
        // The end of the pass asks the room itself.
        if plan.passing {
            return;
        }
        let at_ms = at_ms.max(plan.not_before_ms);
        if plan.wake_ms.is_some_and(|old| old <= at_ms) {
            return;
        }
        if let Some(old) = plan.wake_ms.replace(at_ms) {
            self.wake.remove(&(old, slot));
        }
        self.wake.insert((at_ms, slot));
    }

    /// Begins the pass that is due longest.
    fn begin_due(&mut self, now_ms: u64) -> Option<Pass> {
        let (_, slot) = self.wake.first().filter(|(at_ms, _)| *at_ms <= now_ms).copied()?;
        self.wake.pop_first();
        let plan = self.plans.entry(slot).or_default();
        plan.wake_ms = None;
        plan.passing = true;
        Some(Pass { slot, at: ScanPos::START, next_ms: u64::MAX, held_back: false })
    }

    /// One lock hold of a pass. Returns the work it was.
    fn step(&mut self, mut pass: Pass, now_ms: u64) -> u64 {
        let node = self.node.clone();
        let mut owned = match node.rooms.admit(pass.slot, now_ms, Patience::Spin) {
            Admit::Served(owned) => owned,
            Admit::Busy | Admit::Refused(Refused::Parked) => {
                self.passes.push_back(pass);
                return HOLD_WORK;
            }
            Admit::Refused(_) => {
                // Not ours any more: whoever owns it expires it.
                self.plans.remove(&pass.slot);
                return HOLD_WORK;
            }
        };
        let mut work = HOLD_WORK;
        if pass.at == ScanPos::START {
            let reported_ms = owned.next_expiry_ms();
            if reported_ms > now_ms || owned.keys().expiring() == 0 {
                // The key that was due is gone, or lives longer now.
                let next_ms = if owned.keys().expiring() == 0 { u64::MAX } else { reported_ms };
                owned.set_next_expiry_ms(next_ms);
                self.end_pass(pass.slot, next_ms, now_ms, 0);
                return work;
            }
            // From here on the room notes what comes behind the pass's back.
            owned.set_next_expiry_ms(u64::MAX);
        }
        let next = sweep(&mut owned, &mut pass, &mut work);
        owned.end_group();
        pass.held_back |= self.is_held_back();
        match next {
            Some(next) => {
                pass.at = next;
                self.passes.push_front(pass);
            }
            None => {
                let seen_ms = if pass.held_back { now_ms } else { pass.next_ms };
                let next_ms = seen_ms.min(owned.next_expiry_ms());
                owned.set_next_expiry_ms(next_ms);
                self.end_pass(pass.slot, next_ms, now_ms, owned.keys().len() as u64);
            }
        }
        work
    }

    fn end_pass(&mut self, slot: SlotId, next_ms: u64, now_ms: u64, keys: u64) {
        let gap_ms = PASS_MIN_MS.max(keys * PASS_MS_PER_1000_KEYS / 1000);
        let plan = self.plans.entry(slot).or_default();
        plan.passing = false;
        plan.not_before_ms = now_ms + gap_ms;
        if next_ms != u64::MAX {
            self.wake_at(slot, next_ms);
        }
    }
}

/// Looks at some keys: notes the earliest expiry ahead; what has expired is noted by the scan
/// itself and deleted when the group ends. `None` at the end of the slot.
fn sweep(owned: &mut Owned<'_>, pass: &mut Pass, work: &mut u64) -> Option<ScanPos> {
    let mut at = pass.at;
    loop {
        at = owned.keys().scan(at, &mut |found| {
            if let Some(expiry_ms) = found.expiry() {
                pass.next_ms = pass.next_ms.min(expiry_ms);
            }
        })?;
        *work += KEYS_PER_STEP;
        if *work >= HOLD_WORK + WORK_PER_HOLD {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::HoldExpiry;
    use crate::testing::{START_MS, TestNode};

    /// A node, its expiry task, and the slot of all keys `{t}...`.
    fn setup() -> (TestNode, ExpiryTask, SlotId) {
        let test = TestNode::new(&[]);
        let task = ExpiryTask::new(test.node.clone(), Due::default());
        (test, task, slots::slot_of(b"t"))
    }

    fn set(test: &mut TestNode, key: &str, ms: u64) {
        let at = (START_MS + ms).to_string();
        test.call(1, &[b"SET", key.as_bytes(), b"v", b"PXAT", at.as_bytes()]);
    }

    fn run_until_idle(task: &mut ExpiryTask, now_ms: u64) -> usize {
        (1..1000).find(|_| !task.turn(now_ms)).expect("the task comes to rest")
    }

    #[test]
    fn expired_keys_go_and_the_next_due_time_is_known() {
        let (mut test, mut task, slot) = setup();
        for i in 0..5000 {
            set(&mut test, &format!("{{t}}{i}"), if i % 2 == 0 { 100 } else { 10_000 + i });
        }
        test.call(1, &[b"SET", b"{t}stays", b"v"]);
        task.wake_at(slot, START_MS + 100);
        test.advance(99);
        run_until_idle(&mut task, START_MS + 99);
        assert_eq!(test.node.key_count(), 5001);
        test.advance(1);
        run_until_idle(&mut task, START_MS + 100);
        assert_eq!(test.node.key_count(), 2501);
        assert_eq!(task.wake.first(), Some(&(START_MS + 10_001, slot)));
        test.advance(100_000);
        run_until_idle(&mut task, START_MS + 100_100);
        assert_eq!(test.node.key_count(), 1);
        assert!(task.wake.is_empty());
    }

    #[test]
    fn key_that_comes_behind_a_pass_is_not_forgotten() {
        let (mut test, mut task, slot) = setup();
        (0..5000).for_each(|i| set(&mut test, &format!("{{t}}{i}"), 1));
        test.advance(1);
        task.wake_at(slot, START_MS + 1);
        let pass = task.begin_due(START_MS + 1).expect("due");
        task.step(pass, START_MS + 1);
        assert_eq!(task.passes.len(), 1, "one hold does not do for 5,000 keys");
        (0..500).for_each(|i| set(&mut test, &format!("{{t}}new{i}"), 50));
        run_until_idle(&mut task, START_MS + 1);
        assert_eq!(test.node.key_count(), 500);
        test.advance(200);
        run_until_idle(&mut task, START_MS + 201);
        assert_eq!(test.node.key_count(), 0);
    }

    #[test]
    fn slot_is_not_passed_over_again_at_once() {
        let (mut test, mut task, slot) = setup();
        (0..100_000).for_each(|i| set(&mut test, &format!("{{t}}{i}"), 1_000_000));
        set(&mut test, "{t}first", 1);
        test.advance(1);
        task.wake_at(slot, START_MS + 1);
        run_until_idle(&mut task, START_MS + 1);
        set(&mut test, "{t}second", 10);
        task.wake_at(slot, START_MS + 10);
        assert_eq!(task.wake.first(), Some(&(START_MS + 1 + 200, slot)));
    }

    #[test]
    fn paused_writes_keep_expired_keys_until_the_pause_ends() {
        let (mut test, mut task, slot) = setup();
        set(&mut test, "{t}k", 1);
        test.advance(1);
        task.wake_at(slot, START_MS + 1);
        let held = &test.node.rooms.totals.hold_expiry;
        held.set(HoldExpiry::PAUSED, true);
        run_until_idle(&mut task, START_MS + 1);
        // A pass that was under way when the pause came.
        let pass = task.begin_due(START_MS + 1).expect("due");
        task.step(pass, START_MS + 1);
        assert_eq!(test.node.key_count(), 1);
        held.set(HoldExpiry::PAUSED, false);
        run_until_idle(&mut task, START_MS + 1 + PASS_MIN_MS);
        assert_eq!(test.node.key_count(), 0);
    }

    #[test]
    fn prolonged_and_deleted_keys_leave_no_loop() {
        let (mut test, mut task, slot) = setup();
        set(&mut test, "{t}a", 1);
        test.call(1, &[b"PEXPIREAT", b"{t}a", b"1700000009000"]);
        task.wake_at(slot, START_MS + 1);
        run_until_idle(&mut task, START_MS + 1);
        assert_eq!(task.wake.first(), Some(&(START_MS + 9000, slot)));
        test.call(1, &[b"PERSIST", b"{t}a"]);
        run_until_idle(&mut task, START_MS + 9000);
        assert_eq!(test.node.key_count(), 1);
        assert!(task.wake.is_empty());
    }
}
