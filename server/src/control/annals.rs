//! The table's history as this node answers it, while the ledger it comes from goes on.
//!
//! Not the ledger: a copy of its records that readers do not hold up.
//! Invariant: records are in order of version; at most `MAX_HISTORY_RECORDS` are kept.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::ledger::{History, Ledger, MAX_HISTORY_RECORDS, Record};

/// The records, the oldest first.
#[derive(Default)]
pub struct Annals(Mutex<VecDeque<Record>>);

impl Annals {
    /// Takes over what the ledger has and this has not. A ledger that began again (another
    /// cluster) takes the place of everything.
    pub fn follow(&self, ledger: &Ledger) {
        let mut records = self.0.lock();
        let last = records.back().cloned();
        let theirs = ledger.history();
        let known = last.and_then(|last| theirs.iter().rposition(|record| *record == last));
        if known.is_none() {
            records.clear();
        }
        records.extend(theirs.iter().skip(known.map_or(0, |at| at + 1)).cloned());
        while records.len() > MAX_HISTORY_RECORDS {
            records.pop_front();
        }
    }
}

impl History for Annals {
    fn newest(&self, count: usize) -> Vec<Record> {
        self.0.lock().iter().rev().take(count).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use slots::{
        Boot, ClusterId, ClusterSettings, NodeId, Proposal, Proposer, TableChange, TableVersion,
    };

    use super::*;
    use crate::control::ledger::Entry;

    fn apply(ledger: &mut Ledger, version: u64, cluster: u8) {
        let settings = ClusterSettings::default();
        let change = match version {
            1 => TableChange::InitCluster { settings },
            _ => TableChange::SetCluster { settings },
        };
        let by = Proposer { node: NodeId::from_bytes([1; 20]), boot: Boot(1) };
        let proposal = Proposal { cluster: ClusterId::from_bytes([cluster; 20]), by, change };
        let entry = Entry { at_ms: version, actor: String::new(), proposal };
        ledger.apply(&entry, TableVersion(version));
    }

    fn versions(annals: &Annals) -> Vec<u64> {
        annals.newest(usize::MAX).iter().map(|record| record.version.0).collect()
    }

    #[test]
    fn new_records_are_taken_over_once() {
        let (mut ledger, annals) = (Ledger::new(), Annals::default());
        annals.follow(&ledger);
        apply(&mut ledger, 1, 1);
        annals.follow(&ledger);
        apply(&mut ledger, 2, 1);
        apply(&mut ledger, 4, 1);
        annals.follow(&ledger);
        annals.follow(&ledger);
        assert_eq!(versions(&annals), [4, 2, 1]);
    }

    #[test]
    fn another_cluster_begins_another_history() {
        let (mut ledger, annals) = (Ledger::new(), Annals::default());
        (1..=5).for_each(|version| apply(&mut ledger, version, 1));
        annals.follow(&ledger);
        let mut other = Ledger::new();
        apply(&mut other, 1, 2);
        apply(&mut other, 7, 2);
        annals.follow(&other);
        assert_eq!(versions(&annals), [7, 1]);
    }
}
