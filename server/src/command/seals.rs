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

/// Who closed a slot: nobody else opens it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sealer {
    /// An order that gives the slot up.
    Order,
    /// A move that hands it over.
    Move,
}

struct Seal {
    by: Sealer,
    /// What the slot was closed at: a later row of the table opens it.
    epoch: Epoch,
    /// The newest proposal whose outcome is not known, by the version it was decided at.
    unsure: Option<TableVersion>,
}

impl Seals {
    /// Closes a slot that nobody has closed; `then` makes its admission word say so, before anybody
    /// can look at the seal, and says whether it does: if not the slot is not closed. `then` must
    /// not wait for a room.
    pub fn close(
        &self,
        (slot, epoch): (SlotId, Epoch),
        by: Sealer,
        then: impl FnOnce() -> bool,
    ) -> bool {
        let mut book = self.0.lock();
        if book.closed.contains_key(&slot) || !then() {
            return false;
        }
        book.closed.insert(slot, Seal { by, epoch, unsure: None });
        true
    }

    /// The slot is closed no more, if this one closed it; `then` makes its admission word say so,
    /// before anybody can look at the seal again.
    pub fn open(&self, slot: SlotId, by: Sealer, then: impl FnOnce()) {
        let mut book = self.0.lock();
        if book.closed.get(&slot).is_some_and(|seal| seal.by == by) {
            book.closed.remove(&slot);
            then();
        }
    }

    /// Has this one closed the slot, at this epoch?
    pub fn is_closed(&self, slot: SlotId, epoch: Epoch, by: Sealer) -> bool {
        let book = self.0.lock();
        book.closed.get(&slot).is_some_and(|seal| seal.by == by && seal.epoch == epoch)
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
    /// Closes a slot that this node owns at this epoch. False: it does not, or it is closed.
    pub fn seal(&self, slot: SlotId, epoch: Epoch, by: Sealer) -> bool {
        let owned = (Ownership::Owned, epoch);
        let shut = || self.rooms.install_over(slot, owned, Ownership::Sealed);
        self.seals.close((slot, epoch), by, shut)
    }

    /// Opens a slot that this one sealed, where the table has not taken it away meanwhile.
    pub fn unseal(&self, slot: SlotId, by: Sealer) {
        self.seals.open(slot, by, || {
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
                    left.for_each(|slot| node.unseal(slot, Sealer::Order));
                }
            };
            self.table_log.propose(change, "itself", Box::new(done));
        }
    }
}
