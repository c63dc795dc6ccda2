//! Slots whose replies wait for other nodes: how far each is safe by their acknowledgements.
//!
//! ```text
//!   Free ---count---> Counted(safe up to n) ---release---> Free
//!                        | give_up: what waits becomes UNKNOWNRESULT, and it goes on counting
//!                        `-- lose:  the same, and nobody counts any more
//! ```
//! Not who counts (`replication/lead`), nor the own log (`promise`): whoever raises a slot here has
//! seen to it that the own log is as far. Invariant: a tag is covered only in the life it was made
//! in, so that no ack of one life frees a reply of another.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};

use slots::{OpIndex, SLOTS, SlotId};

/// Nobody counts.
const FREE: u64 = u64::MAX;
/// Nobody counts for what is written from now on; what was tagged waits for the own log yet.
const FREEING: u64 = u64::MAX - 1;
/// Bits of a life that fit a tag's set.
const LIFE_MASK: u32 = (1 << 24) - 1;

/// All slots of a node.
#[derive(Default)]
pub struct Counted {
    slots: OnceLock<Box<[Mark]>>,
    /// How many slots are not free.
    count: AtomicUsize,
    /// Tickets for replies that may depend on any slot, and how many of them are safe.
    asked: AtomicU64,
    answered: AtomicU64,
    given_up: AtomicU64,
}

struct Mark {
    safe: AtomicU64,
    life: AtomicU32,
}

impl Counted {
    fn mark(&self, slot: SlotId) -> Option<&Mark> {
        self.slots.get().map(|marks| &marks[slot.index()])
    }

    fn marks(&self) -> &[Mark] {
        self.slots.get_or_init(|| {
            let mark = |_| Mark { safe: AtomicU64::new(FREE), life: AtomicU32::new(0) };
            (0..SLOTS).map(mark).collect()
        })
    }

    /// Was any slot ever counted?
    pub fn was_used(&self) -> bool {
        self.slots.get().is_some()
    }

    /// What became of what the tickets up to this one wait for is not known.
    pub fn give_up_tickets(&self, ticket: u64) {
        self.given_up.fetch_max(ticket, SeqCst);
    }

    /// Is that so of this ticket?
    pub fn is_given_up(&self, ticket: u64) -> bool {
        self.given_up.load(SeqCst) >= ticket && !self.is_answered(ticket)
    }

    /// All slots that are counted.
    pub fn all(&self) -> Vec<SlotId> {
        SlotId::all().filter(|slot| self.is_counted(*slot)).collect()
    }

    /// Is no slot counted? Then nothing of this costs anything.
    pub fn is_idle(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Replies of the slot wait from now on; what is there up to `safe` is safe already. One that
    /// is counted stays as it is.
    pub fn count(&self, slot: SlotId, safe: OpIndex) {
        let mark = &self.marks()[slot.index()];
        loop {
            let now = mark.safe.load(SeqCst);
            if now < FREEING {
                return;
            }
            if now == FREE {
                self.count.fetch_add(1, SeqCst);
            }
            if mark.safe.compare_exchange(now, safe.0, SeqCst, SeqCst).is_ok() {
                return;
            }
            if now == FREE {
                self.count.fetch_sub(1, SeqCst);
            }
        }
    }

    /// More is safe. True if that is news.
    pub fn raise(&self, slot: SlotId, safe: OpIndex) -> bool {
        let Some(mark) = self.mark(slot) else { return false };
        let raise = |now| (now < FREEING && now < safe.0).then_some(safe.0);
        mark.safe.fetch_update(SeqCst, SeqCst, raise).is_ok()
    }

    /// Nobody counts for what is written from now on. `release` follows when the own log is as
    /// safe as it promises up to what was written before.
    pub fn begin_release(&self, slot: SlotId) {
        if let Some(mark) = self.mark(slot) {
            let leave = |now| (now < FREEING).then_some(FREEING);
            let _ = mark.safe.fetch_update(SeqCst, SeqCst, leave);
        }
    }

    /// Ends what `begin_release` began, unless the slot is counted again. True if something may be
    /// safe by that.
    pub fn release(&self, slot: SlotId) -> bool {
        let Some(mark) = self.mark(slot) else { return false };
        let done = mark.safe.compare_exchange(FREEING, FREE, SeqCst, SeqCst).is_ok();
        if done {
            self.count.fetch_sub(1, SeqCst);
        }
        done
    }

    /// What became of all that waits is not known; the slot goes on counting.
    pub fn give_up(&self, slot: SlotId) {
        if let Some(mark) = self.mark(slot) {
            mark.life.fetch_add(1, SeqCst);
        }
    }

    /// The slot is another's: what became of all that waits is not known.
    pub fn lose(&self, slot: SlotId) {
        let Some(mark) = self.mark(slot) else { return };
        // Before: whoever finds nobody counting must not take an old tag for covered.
        mark.life.fetch_add(1, SeqCst);
        if mark.safe.swap(FREE, SeqCst) != FREE {
            self.count.fetch_sub(1, SeqCst);
        }
    }

    /// Is the slot counted?
    pub fn is_counted(&self, slot: SlotId) -> bool {
        self.mark(slot).is_some_and(|mark| mark.safe.load(SeqCst) < FREEING)
    }

    /// The life in which a reply that depends on the slot up to `index` has to wait; `None`: it
    /// need not.
    pub fn waits(&self, slot: SlotId, index: OpIndex) -> Option<u32> {
        let mark = self.mark(slot)?;
        let life = mark.life.load(SeqCst) & LIFE_MASK;
        let safe = mark.safe.load(SeqCst);
        (safe < FREEING && index.0 > safe).then_some(life)
    }

    /// Is it safe up to there, for one that began to wait in this life?
    pub fn covers(&self, slot: SlotId, index: OpIndex, life: u32) -> bool {
        let Some(mark) = self.mark(slot) else { return false };
        let safe = mark.safe.load(SeqCst);
        let is_safe = safe == FREE || safe != FREEING && index.0 <= safe;
        is_safe && mark.life.load(SeqCst) & LIFE_MASK == life
    }

    /// Will it never be known?
    pub fn is_lost(&self, slot: SlotId, life: u32) -> bool {
        self.mark(slot).is_some_and(|mark| mark.life.load(SeqCst) & LIFE_MASK != life)
    }

    /// A ticket of a reply that may depend on any slot; `None`: no slot is counted.
    pub fn ticket(&self) -> Option<u64> {
        (!self.is_idle()).then(|| self.asked.fetch_add(1, SeqCst) + 1)
    }

    /// The newest ticket that is not safe; whoever keeps the slots' books answers it once all that
    /// was written up to now, in all of them, is safe.
    pub fn open_ticket(&self) -> Option<u64> {
        let asked = self.asked.load(SeqCst);
        let done = self.answered.load(SeqCst).max(self.given_up.load(SeqCst));
        (asked > done).then_some(asked)
    }

    /// All tickets up to this one are safe.
    pub fn answer(&self, ticket: u64) {
        self.answered.fetch_max(ticket, SeqCst);
    }

    /// Is a ticket safe?
    pub fn is_answered(&self, ticket: u64) -> bool {
        self.answered.load(SeqCst) >= ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: SlotId = SlotId::FIRST;

    #[test]
    fn a_slot_that_nobody_counts_for_waits_for_nothing() {
        let counted = Counted::default();
        assert!(counted.is_idle() && counted.waits(SLOT, OpIndex(9)).is_none());
        assert!(!counted.raise(SLOT, OpIndex(1)) && counted.ticket().is_none());
    }

    #[test]
    fn a_counted_slot_waits_for_what_is_not_safe() {
        let counted = Counted::default();
        counted.count(SLOT, OpIndex(5));
        counted.count(SLOT, OpIndex(3));
        assert_eq!(counted.waits(SLOT, OpIndex(5)), None);
        let life = counted.waits(SLOT, OpIndex(6)).expect("it waits");
        assert!(!counted.covers(SLOT, OpIndex(6), life));
        assert!(counted.raise(SLOT, OpIndex(6)) && !counted.raise(SLOT, OpIndex(6)));
        assert!(counted.covers(SLOT, OpIndex(6), life) && !counted.covers(SLOT, OpIndex(7), life));
    }

    #[test]
    fn a_release_waits_for_the_own_log() {
        let counted = Counted::default();
        counted.count(SLOT, OpIndex(0));
        let life = counted.waits(SLOT, OpIndex(1)).expect("it waits");
        counted.begin_release(SLOT);
        assert!(counted.waits(SLOT, OpIndex(2)).is_none(), "that is the own log's from now on");
        assert!(!counted.covers(SLOT, OpIndex(1), life) && !counted.is_counted(SLOT));
        assert!(counted.release(SLOT) && counted.covers(SLOT, OpIndex(1), life));
        assert!(counted.is_idle() && !counted.release(SLOT));
        counted.count(SLOT, OpIndex(1));
        counted.begin_release(SLOT);
        counted.count(SLOT, OpIndex(2));
        assert!(!counted.release(SLOT) && counted.is_counted(SLOT), "it counts again");
        counted.begin_release(SLOT);
        assert!(counted.release(SLOT) && counted.is_idle(), "once in the count");
    }

    #[test]
    fn what_is_lost_is_never_covered_again() {
        let counted = Counted::default();
        counted.count(SLOT, OpIndex(0));
        let life = counted.waits(SLOT, OpIndex(1)).expect("it waits");
        counted.lose(SLOT);
        assert!(counted.is_lost(SLOT, life) && !counted.covers(SLOT, OpIndex(1), life));
        counted.count(SLOT, OpIndex(50));
        assert!(counted.is_lost(SLOT, life) && !counted.covers(SLOT, OpIndex(1), life));
        let life = counted.waits(SLOT, OpIndex(51)).expect("it waits");
        counted.give_up(SLOT);
        assert!(counted.raise(SLOT, OpIndex(51)) && counted.is_lost(SLOT, life));
        assert!(!counted.covers(SLOT, OpIndex(51), life) && counted.is_counted(SLOT));
        counted.lose(SLOT);
        assert!(counted.is_idle(), "once in the count");
    }

    #[test]
    fn tickets_are_answered_in_order() {
        let counted = Counted::default();
        counted.count(SLOT, OpIndex(0));
        let (first, second) = (counted.ticket(), counted.ticket());
        assert_eq!((first, second, counted.open_ticket()), (Some(1), Some(2), Some(2)));
        counted.answer(1);
        assert!(counted.is_answered(1) && !counted.is_answered(2));
        counted.answer(2);
        assert!(counted.is_answered(2) && counted.open_ticket().is_none());
    }
}
