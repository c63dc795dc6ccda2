//! Slots are carried in rounds: each round finds the owners anew, and takes up what the round
//! before could not do because a slot or a node went elsewhere.
//!
//! ```text
//!  slots --who owns which--> a queue for each node --threads--> done | again | stopped
//!    ^------------------------- next round ----------------------------+
//! ```
//! Not what is done with a slot (`take`, `give`). Invariant: it ends, and says of each slot that
//! was not done why.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use slots::admin::BackupSlots;
use slots::{Endpoint, SlotId, SlotRanges};

use crate::edge::Trouble;
use crate::resp::Reply;

/// Rounds before slots that were not done are given up: each outlasts a failover.
pub(crate) const ROUNDS_MAX: usize = 6;

/// Why a slot was not carried this time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Setback {
    /// It may go better at another owner, or a little later.
    Again(String),
    /// It does not.
    Stop(String),
}

impl Setback {
    /// The reason.
    pub(crate) fn text(&self) -> &str {
        match self {
            Setback::Again(text) | Setback::Stop(text) => text,
        }
    }

    /// What an answer other than the one wanted means.
    pub(crate) fn of_reply(reply: &Reply) -> Setback {
        let text = match reply {
            Reply::Error(text) => text.clone(),
            Reply::Text(_) => "it answers a text where none belongs".to_owned(),
            Reply::Other(kind) => format!("it answers {kind}, as no slotd does"),
        };
        let passes = ["MOVED", "TORN", "NOSTREAM", "CLUSTERDOWN", "LOADING", "TRYAGAIN"];
        match passes.contains(&text.split(' ').next().unwrap_or_default()) {
            true => Setback::Again(text),
            false => Setback::Stop(text.strip_prefix("REFUSED ").unwrap_or(&text).to_owned()),
        }
    }
}

impl From<Trouble> for Setback {
    fn from(trouble: Trouble) -> Setback {
        match trouble {
            Trouble::Judged(_) => Setback::Stop(trouble.text().to_owned()),
            _ => Setback::Again(trouble.text().to_owned()),
        }
    }
}

/// A node, and what it said it holds.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// What people call it.
    pub(crate) name: String,
    /// Where it is asked.
    pub(crate) endpoint: Endpoint,
    /// What it holds.
    pub(crate) slots: BackupSlots,
}

impl Holder {
    /// The slots it owns.
    pub(crate) fn owned(&self) -> SlotRanges {
        self.slots.owned.parse().unwrap_or_default()
    }
}

/// Slots of one node, taken by its threads.
#[derive(Debug)]
pub(crate) struct Queue {
    /// What people call the node.
    pub(crate) name: String,
    /// Where it is asked.
    pub(crate) endpoint: Endpoint,
    waiting: Mutex<VecDeque<SlotId>>,
}

impl Queue {
    /// The next slot.
    pub(crate) fn next(&self) -> Option<SlotId> {
        locked(&self.waiting).pop_front()
    }
}

/// Where each of these slots is carried; those that nobody owns wait for another round.
pub(crate) fn queues(holders: &[Holder], slots: &BTreeSet<SlotId>) -> Vec<Queue> {
    let owned: Vec<SlotRanges> = holders.iter().map(Holder::owned).collect();
    let mut waiting: BTreeMap<usize, VecDeque<SlotId>> = BTreeMap::new();
    for slot in slots {
        // Where two say so one of them does not know yet: it answers MOVED.
        if let Some(node) = owned.iter().position(|owned| owned.contains(*slot)) {
            waiting.entry(node).or_default().push_back(*slot);
        }
    }
    let queue = |(node, waiting): (usize, VecDeque<SlotId>)| {
        let Holder { name, endpoint, .. } = holders[node].clone();
        Queue { name, endpoint, waiting: Mutex::new(waiting) }
    };
    waiting.into_iter().map(queue).collect()
}

/// How far all threads are.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Slots that are done.
    pub(crate) slots: AtomicU64,
    /// Keys in them.
    pub(crate) keys: AtomicU64,
    /// Bytes carried.
    pub(crate) bytes: AtomicU64,
    is_stopped: AtomicBool,
    setbacks: Mutex<BTreeMap<SlotId, String>>,
}

impl Tally {
    /// Notes a slot that was not done. One that does not go better ends all.
    pub(crate) fn set_back(&self, slot: SlotId, node: &str, setback: &Setback) {
        if matches!(setback, Setback::Stop(_)) {
            self.is_stopped.store(true, Ordering::SeqCst);
        }
        locked(&self.setbacks).insert(slot, format!("{node}: {}", setback.text()));
    }

    /// Notes a slot that was.
    pub(crate) fn done(&self, slot: SlotId, keys: u64) {
        self.slots.fetch_add(1, Ordering::SeqCst);
        self.keys.fetch_add(keys, Ordering::SeqCst);
        locked(&self.setbacks).remove(&slot);
    }

    /// Has something come up that no round mends?
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Why a slot was not done, as last heard; the first of them.
    pub(crate) fn why(&self) -> Option<String> {
        let setbacks = locked(&self.setbacks);
        setbacks.iter().next().map(|(slot, why)| format!("slot {}: {why}", slot.number()))
    }
}

/// A panic of another thread ends the run anyway.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str, owned: &str) -> Holder {
        let slots = BackupSlots { owned: owned.into(), ..BackupSlots::default() };
        Holder { name: name.into(), endpoint: Endpoint::new("h", 1), slots }
    }

    #[test]
    fn slots_go_to_their_owners_and_those_of_nobody_wait() {
        let slots: SlotRanges = "3-5,9,12".parse().expect("slots");
        let slots = slots.iter().collect();
        let holders = [holder("a", "0-4"), holder("b", "5-9"), holder("c", "")];
        let queues = queues(&holders, &slots);
        let taken = |queue: &Queue| {
            let slots: SlotRanges = std::iter::from_fn(|| queue.next()).collect();
            format!("{} {slots}", queue.name)
        };
        let queues: Vec<String> = queues.iter().map(taken).collect();
        assert_eq!(queues, ["a 3-4", "b 5,9"]);
    }

    #[test]
    fn what_passes_is_tried_again_and_the_rest_stops_all() {
        let of = |text: &str| Setback::of_reply(&Reply::Error(text.into()));
        assert_eq!(of("MOVED 5 h:1"), Setback::Again("MOVED 5 h:1".into()));
        assert!(matches!(of("TORN slot 5"), Setback::Again(_)));
        assert_eq!(of("REFUSED slot 5 has keys"), Setback::Stop("slot 5 has keys".into()));
        assert!(matches!(of("MISCONF no space"), Setback::Stop(_)));
        assert!(matches!(Setback::of_reply(&Reply::Other("null")), Setback::Stop(_)));
        assert!(matches!(Trouble::Lost(String::new()).into(), Setback::Again(_)));
    }

    #[test]
    fn a_slot_that_is_done_has_no_setback() {
        let (tally, slot) = (Tally::default(), SlotId::FIRST);
        tally.set_back(slot, "node-a", &Setback::Again("MOVED".into()));
        assert_eq!(tally.why().as_deref(), Some("slot 0: node-a: MOVED"));
        tally.done(slot, 3);
        assert_eq!((tally.why(), tally.is_stopped()), (None, false));
    }
}
