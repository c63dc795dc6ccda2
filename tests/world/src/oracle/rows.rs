//! After each applied entry: INV-6, and what a change must have known (SEEN).
//!
//! INV-6: a slot's epoch never goes back on any node. SEEN: an accepted change was decided after
//! the slot last changed, and an owner's by the owner in its recorded boot; of starts only a
//! higher boot number is accepted. Judged here by other code than the table's own.

use std::collections::BTreeMap;

use slotd::control::ledger::Entry;
use slots::{Boot, Epoch, LossConsent, SlotId, SlotTable, TableChange, TableVersion, Verdicts};

use super::{At, Oracle, PLAY, ProcessIx};

#[derive(Default)]
pub(super) struct Rows {
    /// Epochs by process, in order of the keys.
    epochs: BTreeMap<ProcessIx, Vec<Epoch>>,
}

impl Oracle {
    /// A node applied an entry: its table before and after, and the verdicts it gave.
    pub fn applied(
        &mut self,
        at: At,
        before: &SlotTable,
        after: &SlotTable,
        told: Option<(&Entry, &Verdicts)>,
    ) {
        self.check_epochs(at, after);
        if let Some((entry, verdicts)) = told {
            if let Some(broken) = verdicts.broken() {
                self.fail("TABLE", format!("{}: {broken}", entry.proposal.change.name()));
            }
            self.check_seen(at, before, entry, verdicts);
        }
    }

    /// A node's table is another now, by an entry or a whole image.
    pub fn check_epochs(&mut self, at: At, table: &SlotTable) {
        let now: Vec<Epoch> = self.keys.iter().map(|(_, slot)| table.slot(*slot).epoch()).collect();
        let before = self.rows.epochs.insert(at.process, now.clone());
        for ((was, is), (_, slot)) in before.iter().flatten().zip(&now).zip(&self.keys) {
            if is < was {
                let text = format!("slot {slot} on host {}: epoch {was} became {is}", at.host);
                return self.fail("INV-6", text);
            }
        }
    }

    /// A process is gone.
    pub fn forget(&mut self, process: ProcessIx) {
        self.rows.epochs.remove(&process);
    }

    fn check_seen(&mut self, at: At, before: &SlotTable, entry: &Entry, verdicts: &Verdicts) {
        let by = entry.proposal.by;
        let change = &entry.proposal.change;
        if let TableChange::NodeBoot { node, boot, .. } = change
            && verdicts.whole().is_ok()
        {
            let recorded = before.node(*node).map_or(Boot(0), |row| row.boot);
            if *boot <= recorded || by.node != *node {
                let text = format!("host {} accepts boot {boot} after {recorded}", at.host);
                self.fail("SEEN", text);
            }
        }
        let Some((seen, is_of_epoch, is_owners)) = decided(change) else { return };
        let watched = self.keys.iter().map(|(_, slot)| *slot).chain(PLAY.filter_map(SlotId::new));
        let wrong = watched.filter(|slot| verdicts.accepted().contains(*slot)).find(|slot| {
            let row = before.slot(*slot);
            let changed = if is_of_epoch { row.epoch().began_at() } else { row.ver() };
            let is_owner = row.owner() == Some(by.node)
                && before.node(by.node).is_some_and(|node| node.boot == by.boot);
            changed > seen || is_owners && !is_owner
        });
        if let Some(slot) = wrong {
            let (name, changed) = (change.name(), before.slot(slot).ver());
            let text = format!(
                "host {} accepts {name} by {} (boot {}) for slot {slot}: decided at {seen}, the \
                 slot changed at {changed}",
                at.host, by.node, by.boot
            );
            self.fail("SEEN", text);
        }
    }
}

/// What a change had seen, whether that counts against the epoch only, and whether it is the
/// owner's to make.
fn decided(change: &TableChange) -> Option<(TableVersion, bool, bool)> {
    Some(match change {
        TableChange::AssignSlots { seen, .. } | TableChange::TakeOver { seen, .. } => {
            (*seen, false, false)
        }
        TableChange::UnassignSlots { seen, consent, .. } => {
            (*seen, false, *consent == LossConsent::NotGiven)
        }
        TableChange::GrowInSync { seen, .. } | TableChange::ShrinkInSync { seen, .. } => {
            (*seen, false, true)
        }
        TableChange::CommitMove { seen, .. } => (*seen, true, true),
        TableChange::Promote { seen, .. } => (*seen, true, false),
        _ => return None,
    })
}
