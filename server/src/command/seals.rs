//! Slots that this node closed to commands while the table decides whether it keeps them.
//!
//! Not the admission words (`slot/admission`), which are set anew whenever the node's standing
//! changes: a seal outlives that.
//!
//! Invariant: a slot whose giving up may still be committed is never served. What is not known
//! after a proposal is asked again unchanged (PROTOCOL R5) until the table has answered: a slot
//! that the table has decided on since is refused by its version, and never taken away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slots::{Epoch, LossConsent, SlotId, SlotRanges, TableChange, TableVersion};

use crate::command::NodeState;
use crate::slot::Ownership;

/// Between two questions for slots of unknown fate.
const AGAIN: Duration = Duration::from_secs(1);

/// The seals of a node.
#[derive(Default)]
pub struct Seals(Mutex<Book>);

#[derive(Default)]
struct Book {
    closed: BTreeMap<SlotId, Seal>,
    /// When those of unknown fate are asked for again, monotonic ns.
    next_ns: u64,
}

struct Seal {
    /// What the slot was closed at: a later row of the table opens it.
    epoch: Epoch,
    /// The newest proposal whose outcome is not known, by the version it was decided at.
    unsure: Option<TableVersion>,
}

impl Seals {
    /// Closes a slot. To be called before its admission word says so.
    pub fn close(&self, slot: SlotId, epoch: Epoch) {
        self.0.lock().closed.insert(slot, Seal { epoch, unsure: None });
    }

    /// The slot is closed no more; `then` makes its admission word say so, before anybody can
    /// look at the seal again.
    pub fn open(&self, slot: SlotId, then: impl FnOnce()) {
        let mut book = self.0.lock();
        book.closed.remove(&slot);
        then();
    }

    /// Calls `then` with whether the slot is closed, as owned at this epoch, which is the table's:
    /// a seal of another is broken. Nobody opens it meanwhile. `then` must not wait for a room.
    pub fn judge(&self, slot: SlotId, epoch: Epoch, then: impl FnOnce(bool)) {
        let mut book = self.0.lock();
        if book.closed.get(&slot).is_some_and(|seal| seal.epoch != epoch) {
            book.closed.remove(&slot);
        }
        then(book.closed.contains_key(&slot));
    }

    /// What the table will say of these slots is not known, asked at `seen`. Those that are closed
    /// no more are left alone: the table has spoken.
    pub fn leave_unsure(&self, slots: impl IntoIterator<Item = SlotId>, seen: TableVersion) {
        let mut book = self.0.lock();
        for slot in slots {
            if let Some(seal) = book.closed.get_mut(&slot) {
                seal.unsure = seal.unsure.max(Some(seen));
            }
        }
    }

    /// Is what the table will say of the slot not known?
    pub fn is_unsure(&self, slot: SlotId) -> bool {
        self.0.lock().closed.get(&slot).is_some_and(|seal| seal.unsure.is_some())
    }

    /// The node goes on in another cluster, or with another boot: proposals of before come to
    /// nothing.
    pub fn forget_all(&self) {
        *self.0.lock() = Book::default();
    }

    /// What is to be asked again now, with the version each was asked at.
    fn due(&self, now_ns: u64) -> BTreeMap<TableVersion, SlotRanges> {
        let mut due: BTreeMap<TableVersion, SlotRanges> = BTreeMap::new();
        let mut book = self.0.lock();
        if now_ns < book.next_ns {
            return due;
        }
        for (slot, seal) in &book.closed {
            if let Some(seen) = seal.unsure {
                due.entry(seen).or_default().extend([*slot]);
            }
        }
        if !due.is_empty() {
            book.next_ns = now_ns.saturating_add(AGAIN.as_nanos() as u64);
        }
        due
    }

    /// Is the slot still closed for a proposal of this version?
    fn waits_for(&self, slot: SlotId, seen: TableVersion) -> bool {
        self.0.lock().closed.get(&slot).is_some_and(|seal| seal.unsure == Some(seen))
    }
}

impl NodeState {
    /// Opens a slot that was sealed, where the table has not taken it away meanwhile.
    pub fn unseal(&self, slot: SlotId) {
        self.seals.open(slot, || {
            let now = self.rooms.ownership(slot);
            if now.0 == Ownership::Sealed {
                self.rooms.install_over(slot, now, Ownership::Owned);
            }
        });
        self.parking.wake(slot);
    }

    /// Asks the table again for slots of unknown fate. The node's ticker calls it.
    pub fn ask_for_unsure(self: &Arc<Self>, now_ns: u64) {
        if !self.is_seated() {
            return;
        }
        for (seen, slots) in self.seals.due(now_ns) {
            let (node, asked) = (self.clone(), slots.clone());
            let consent = LossConsent::NotGiven;
            let change = TableChange::UnassignSlots { slots, seen, consent };
            let done = move |outcome: Result<slots::Verdicts, _>| {
                // Without an answer they are asked for again.
                if outcome.is_ok() {
                    let left = asked.iter().filter(|slot| node.seals.waits_for(*slot, seen));
                    left.for_each(|slot| node.unseal(slot));
                }
            };
            self.table_log.propose(change, "itself", Box::new(done));
        }
    }
}
