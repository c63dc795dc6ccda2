//! FORK: every node's history is a prefix of the longest; and what the list itself does.
//!
//! The oracle applies the list by the rules (`truth`). Records are compared at each version,
//! whole tables now and then: that is a walk over all rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use slotd::control::ledger::{Entry, Ledger, Record};
use slots::{LossConsent, SlotTable, TableChange, TableVersion};

use super::{At, Oracle};
use crate::coverage::refusal_name;

/// Versions between two comparisons of whole tables.
const COMPARED_EACH: u64 = 16;

#[derive(Default)]
pub(super) struct History {
    records: BTreeMap<u64, Record>,
    tables: BTreeMap<u64, Arc<SlotTable>>,
}

impl Oracle {
    /// An entry is in the list: the truth follows.
    pub fn listed(&mut self, version: u64, entry: Option<&Entry>) {
        let Some(entry) = entry else {
            self.truth.skip(TableVersion(version));
            return self.keep(version);
        };
        let verdicts = self.truth.apply(entry, TableVersion(version));
        let change = &entry.proposal.change;
        let (name, is_ok) = (change.name(), verdicts.whole().is_ok());
        let took = is_ok && (change.slots().is_none() || !verdicts.accepted().is_empty());
        self.coverage.count(if took { "accepted" } else { "refused" }, name);
        let mut reasons: Vec<_> = verdicts.refused().map(|(refusal, _)| refusal).collect();
        reasons.extend(verdicts.whole().err());
        for refusal in reasons {
            self.coverage.count("reason", &refusal_name(&refusal));
        }
        let is_force = match change {
            TableChange::ForceTakeover { .. } | TableChange::TakeOver { .. } => true,
            TableChange::UnassignSlots { consent, .. } => *consent == LossConsent::AcceptLoss,
            _ => false,
        };
        for (key, (_, slot)) in self.keys.iter().enumerate() {
            if is_force && verdicts.accepted().contains(*slot) {
                self.forced[key] = version;
            }
        }
        self.keep(version);
    }

    fn keep(&mut self, version: u64) {
        if let Some(record) = self.truth.history().back()
            && record.version.0 == version
        {
            self.history.records.insert(version, record.clone());
        }
        if version.is_multiple_of(COMPARED_EACH) {
            self.history.tables.insert(version, self.truth.table().clone());
        }
    }

    /// A node stands at a version: its newest record and, now and then, its table.
    pub fn check_history(&mut self, at: At, ledger: &Ledger) {
        let version = ledger.table().version().0;
        let record = ledger.history().back();
        if let Some(record) = record
            && self.history.records.get(&record.version.0) != Some(record)
        {
            let text = format!(
                "host {} applied {} {:?} at version {}, the list has {:?}",
                at.host,
                record.change,
                record.refused,
                record.version,
                self.history.records.get(&record.version.0).map(|r| (&r.change, &r.refused))
            );
            return self.fail("FORK", text);
        }
        if let Some(table) = self.history.tables.get(&version)
            && !Arc::ptr_eq(table, ledger.table())
            && !(table.changed_since(ledger.table()).is_empty()
                && table.nodes().eq(ledger.table().nodes()))
        {
            let text = format!("host {}: another table at version {version}", at.host);
            self.fail("FORK", text);
        }
    }

    /// All nodes have applied everything: their whole states are equal.
    pub fn check_equal(&mut self, at: At, ledger: &Ledger) {
        if ledger.table() != self.truth.table() {
            self.fail("FORK", format!("host {}: its table differs after the heal", at.host));
        }
        let differs = |(a, b): (&Record, &Record)| a != b;
        let newest_first = ledger.history().iter().rev().zip(self.truth.history().iter().rev());
        if newest_first.into_iter().any(differs) {
            self.fail("FORK", format!("host {}: its history differs after the heal", at.host));
        }
    }
}
