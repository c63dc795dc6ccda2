//! Slots that this node closed to commands while the table decides whether it keeps them.
//!
//! Not the admission words (`slot/admission`), which are set anew whenever the node's standing
//! changes: a seal outlives that.
//!
//! Invariant: a slot whose giving up may still be committed is never served. What is not known
//! after a proposal is asked again (PROTOCOL R5) until the table has answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slots::{Epoch, LossConsent, SlotId, SlotRanges, TableChange};

use crate::command::NodeState;
use crate::slot::Ownership;

/// Between two questions for slots of unknown fate.
const AGAIN: Duration = Duration::from_secs(1);

/// The seals of a node.
#[derive(Default)]
pub struct Seals(Mutex<Book>);

#[derive(Default)]
struct Book {
    /// Each with the epoch it was closed at: a later row of the table opens it.
    closed: BTreeMap<SlotId, Epoch>,
    /// Those of which a proposal's outcome is not known.
    unsure: SlotRanges,
    /// When they are asked for again, monotonic ns.
    next_ns: u64,
}

impl Seals {
    /// Closes a slot. To be called before its admission word says so.
    pub fn close(&self, slot: SlotId, epoch: Epoch) {
        self.0.lock().closed.insert(slot, epoch);
    }

    /// The slot is closed no more; `then` makes its admission word say so, before anybody can
    /// look at the seal again.
    pub fn open(&self, slot: SlotId, then: impl FnOnce()) {
        let mut book = self.0.lock();
        book.closed.remove(&slot);
        book.unsure = book.unsure.without(&[slot].into_iter().collect());
        then();
    }

    /// Calls `then` with whether the slot is closed, as owned at this epoch; nobody opens it
    /// meanwhile. `then` must not wait for a room.
    pub fn judge(&self, slot: SlotId, epoch: Epoch, then: impl FnOnce(bool)) {
        let book = self.0.lock();
        then(book.closed.get(&slot) == Some(&epoch));
    }

    /// What the table will say of these closed slots is not known.
    pub fn leave_unsure(&self, slots: impl IntoIterator<Item = SlotId>) {
        self.0.lock().unsure.extend(slots);
    }

    /// Is what the table will say of the slot not known?
    pub fn is_unsure(&self, slot: SlotId) -> bool {
        self.0.lock().unsure.contains(slot)
    }

    /// The node goes on in another cluster, or with another boot: proposals of before come to
    /// nothing.
    pub fn forget_all(&self) {
        *self.0.lock() = Book::default();
    }

    /// What is to be asked again now.
    fn due(&self, now_ns: u64) -> Option<SlotRanges> {
        let mut book = self.0.lock();
        if book.unsure.is_empty() || now_ns < book.next_ns {
            return None;
        }
        book.next_ns = now_ns.saturating_add(AGAIN.as_nanos() as u64);
        Some(book.unsure.clone())
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
    }

    /// Asks the table again for slots of unknown fate. The node's ticker calls it.
    pub fn ask_for_unsure(self: &Arc<Self>, now_ns: u64) {
        let Some(slots) = self.is_seated().then(|| self.seals.due(now_ns)).flatten() else {
            return;
        };
        let seen = self.topology().table.version();
        let change = TableChange::UnassignSlots {
            slots: slots.clone(),
            seen,
            consent: LossConsent::NotGiven,
        };
        let node = self.clone();
        let done = move |outcome: Result<slots::Verdicts, _>| {
            // Without an answer they are asked for again.
            if outcome.is_ok() {
                slots.iter().for_each(|slot| node.unseal(slot));
            }
        };
        self.table_log.propose(change, "itself", Box::new(done));
    }
}
