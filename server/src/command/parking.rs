//! Clients whose next command waits until a slot that is being handed over opens, here or
//! elsewhere (PROTOCOL 4).
//!
//! Not the seal (`command/seals`): this is who stands before it. At the source a slot is sealed,
//! and lingers until the new owner is ready; at the target it is expected, from the word on.
//! Invariant: who waits has executed nothing, is woken when the slot's standing changes, and waits
//! at most `PARKED_MAX`; a connection waits for one slot at a time, so `maxclients` bounds them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slots::{Epoch, SlotId};

use crate::command::client::ClientShared;
use crate::command::mailbox::letter;

/// Longest wait before TRYAGAIN: a change of the log's leader takes 2 s.
pub const PARKED_MAX: Duration = Duration::from_secs(3);
/// How long a slot is expected without news: the source asks the table again every half second.
pub const EXPECTED_MAX: Duration = Duration::from_secs(3);

/// How long commands wait at the old owner for the new one to be ready: a few commits of the table.
pub const LINGER_MAX: Duration = Duration::from_millis(100);

/// Those who wait, by slot.
#[derive(Default)]
pub struct Parking {
    waiting: Mutex<BTreeMap<SlotId, Vec<Arc<ClientShared>>>>,
    expected: Mutex<BTreeMap<SlotId, Expected>>,
    /// Entries of `expected`: asked at every refusal.
    expected_count: AtomicUsize,
}

struct Expected {
    /// Of the owner that gave its word.
    epoch: Epoch,
    until_ns: u64,
}

impl Parking {
    /// The client is woken (`letter::OPENED`) when the slot's standing changes. To be called
    /// before it looks at that once more.
    pub fn park(&self, slot: SlotId, client: &Arc<ClientShared>) {
        let mut waiting = self.waiting.lock();
        let line = waiting.entry(slot).or_default();
        if !line.iter().any(|known| known.id == client.id) {
            line.push(client.clone());
        }
    }

    /// It waits no more.
    pub fn leave(&self, slot: SlotId, client: &ClientShared) {
        let mut waiting = self.waiting.lock();
        if let Some(line) = waiting.get_mut(&slot) {
            line.retain(|known| known.id != client.id);
            if line.is_empty() {
                waiting.remove(&slot);
            }
        }
    }

    /// Clients that wait.
    pub fn len(&self) -> usize {
        self.waiting.lock().values().map(Vec::len).sum()
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// The slot's standing has changed: whoever waits looks again.
    pub fn wake(&self, slot: SlotId) {
        let woken = self.waiting.lock().remove(&slot);
        woken.iter().flatten().for_each(|client| client.mailbox.post(letter::OPENED));
    }

    /// A table is installed: what was said of a slot at an earlier epoch is over, and those who
    /// wait for a slot that is not closed look again.
    pub fn settle(&self, epoch: impl Fn(SlotId) -> Epoch, is_closed: impl Fn(SlotId) -> bool) {
        if self.expected_count.load(Ordering::SeqCst) != 0 {
            let mut expected = self.expected.lock();
            expected.retain(|slot, expected| expected.epoch >= epoch(*slot));
            self.expected_count.store(expected.len(), Ordering::SeqCst);
        }
        let waiting: Vec<SlotId> = self.waiting.lock().keys().copied().collect();
        let open = waiting.into_iter().filter(|slot| !is_closed(*slot) && !self.expects(*slot));
        open.for_each(|slot| self.wake(slot));
    }

    /// The owner at this epoch gave its word that it serves nothing of the slot any more: commands
    /// wait here for the table to say so, instead of being sent back.
    pub fn expect(&self, slot: SlotId, epoch: Epoch, now_ns: u64) {
        let until_ns = now_ns.saturating_add(EXPECTED_MAX.as_nanos() as u64);
        let mut expected = self.expected.lock();
        expected.insert(slot, Expected { epoch, until_ns });
        self.expected_count.store(expected.len(), Ordering::SeqCst);
    }

    /// The slot is the new owner's, which is about to let this node go and answers nobody before:
    /// commands wait here that long, instead of there.
    pub fn linger(&self, slot: SlotId, now_ns: u64) {
        let until_ns = now_ns.saturating_add(LINGER_MAX.as_nanos() as u64);
        let mut expected = self.expected.lock();
        expected.insert(slot, Expected { epoch: Epoch(u64::MAX), until_ns });
        self.expected_count.store(expected.len(), Ordering::SeqCst);
    }

    /// The slot is not waited for any more, whoever owns it.
    pub fn give_up(&self, slot: SlotId) {
        if self.expected_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut expected = self.expected.lock();
        expected.remove(&slot);
        self.expected_count.store(expected.len(), Ordering::SeqCst);
    }

    /// Is the slot expected here? A load where none is.
    #[inline]
    pub fn expects(&self, slot: SlotId) -> bool {
        self.expected_count.load(Ordering::SeqCst) != 0 && self.expected.lock().contains_key(&slot)
    }

    /// Gives up what was expected for too long. The node's ticker calls it.
    pub fn tick(&self, now_ns: u64) {
        if self.expected_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut over = Vec::new();
        {
            let mut expected = self.expected.lock();
            expected.retain(|slot, expected| {
                let stays = now_ns < expected.until_ns;
                if !stays {
                    over.push(*slot);
                }
                stays
            });
            self.expected_count.store(expected.len(), Ordering::SeqCst);
        }
        over.into_iter().for_each(|slot| self.wake(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestNode;

    fn slot() -> SlotId {
        slots::slot_of(b"a")
    }

    #[test]
    fn who_waits_is_woken_once_and_only_for_its_slot() {
        let mut node = TestNode::new(&[]);
        let (parking, one) = (Parking::default(), node.shared(1));
        parking.park(slot(), &one);
        parking.park(slot(), &one);
        assert_eq!(parking.len(), 1);
        parking.wake(slots::slot_of(b"b"));
        assert!(!one.mailbox.has(letter::OPENED));
        parking.wake(slot());
        assert!(one.mailbox.has(letter::OPENED) && parking.is_empty());
        parking.park(slot(), &one);
        parking.leave(slot(), &one);
        assert!(parking.is_empty());
    }

    #[test]
    fn the_old_owner_waits_for_the_new_one_but_not_long() {
        let parking = Parking::default();
        parking.linger(slot(), 0);
        parking.settle(|_| Epoch(9), |_| false);
        assert!(parking.expects(slot()), "whatever the table says of epochs");
        parking.give_up(slot());
        assert!(!parking.expects(slot()));
        parking.linger(slot(), 0);
        parking.tick(LINGER_MAX.as_nanos() as u64);
        assert!(!parking.expects(slot()));
    }

    #[test]
    fn a_slot_is_expected_until_the_table_decides_or_the_time_is_up() {
        let parking = Parking::default();
        parking.expect(slot(), Epoch(5), 0);
        parking.settle(|_| Epoch(5), |_| false);
        assert!(parking.expects(slot()), "that is what was known when the word was given");
        parking.settle(|_| Epoch(6), |_| false);
        assert!(!parking.expects(slot()));
        parking.expect(slot(), Epoch(6), 0);
        parking.tick(EXPECTED_MAX.as_nanos() as u64 - 1);
        assert!(parking.expects(slot()));
        parking.tick(EXPECTED_MAX.as_nanos() as u64);
        assert!(!parking.expects(slot()));
    }
}
