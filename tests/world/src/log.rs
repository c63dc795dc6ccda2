//! The replicated log, simulated: one totally ordered list, and the leaders' entries that are not
//! in it yet.
//!
//! Not Raft's messages (`votes.rs` has the little of them that matters here): what Raft promises
//! about entries, and no more. An entry that a majority took is in the list for good; one that
//! fewer took may be in it or not once the next leader is there.
//!
//! Invariant: the list only grows.

use std::collections::BTreeMap;
use std::sync::Arc;

use slotd::control::ledger::Entry;

use crate::dice::Dice;

/// Number of a host.
pub type HostIx = usize;
/// A leader's time in office.
pub type Term = u64;
/// Names a proposal, so that its proposer knows it again.
pub type ProposalIx = u64;

/// An entry of the list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The entry; `None` for a new leader's first.
    pub entry: Option<Arc<Entry>>,
    /// The proposal it was.
    pub proposal: ProposalIx,
}

struct Office {
    term: Term,
    pending: Vec<Listed>,
    /// How many of `pending` are in the list.
    listed: usize,
    /// How many of `pending` each voter took.
    taken: BTreeMap<HostIx, usize>,
    /// What its leader knew of the list when the next leader came.
    frozen: Option<u64>,
}

impl Office {
    fn new(term: Term, frozen: Option<u64>) -> Office {
        let pending = vec![Listed { entry: None, proposal: 0 }];
        Office { term, pending, listed: 0, taken: BTreeMap::new(), frozen }
    }
}

/// The log.
pub struct SimLog {
    voters: Vec<HostIx>,
    list: Vec<Listed>,
    offices: Vec<Office>,
}

impl SimLog {
    /// An empty log of these voters.
    pub fn new(voters: Vec<HostIx>) -> SimLog {
        SimLog { voters, list: Vec::new(), offices: Vec::new() }
    }

    /// The voters.
    pub fn voters(&self) -> &[HostIx] {
        &self.voters
    }

    /// How many voters decide.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Index of the last entry that is in the list: a table version.
    pub fn len(&self) -> u64 {
        self.list.len() as u64
    }

    /// Nothing is in it yet.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The entry at this version.
    pub fn at(&self, version: u64) -> Option<&Listed> {
        self.list.get(usize::try_from(version.checked_sub(1)?).ok()?)
    }

    /// Founds the list; before any leader.
    pub fn found(&mut self, entry: Arc<Entry>) {
        self.list.push(Listed { entry: Some(entry), proposal: 0 });
    }

    /// What the leader of this term knows to be in the list.
    pub fn known_to(&self, term: Term) -> u64 {
        self.office(term).map_or(0, |office| office.frozen.unwrap_or(self.len()))
    }

    fn office(&self, term: Term) -> Option<&Office> {
        self.offices.iter().find(|office| office.term == term)
    }

    /// A leader takes office. What leaders before left open is decided now: entries that a
    /// majority took are in the list, of the others some first ones may be. One that learns of
    /// its votes when a newer leader is there already writes in vain.
    pub fn open(&mut self, term: Term, dice: &mut Dice) {
        let before = self.len();
        if self.offices.iter().any(|office| office.term > term) {
            self.offices.push(Office::new(term, Some(before)));
            return;
        }
        let majority = self.majority();
        for office in &mut self.offices {
            if office.frozen.is_some() {
                continue;
            }
            office.frozen = Some(before);
            let must = taken_by(&office.taken, majority);
            let may = office.taken.values().copied().max().unwrap_or(0).max(must);
            let end = dice.between(must as u64, may as u64) as usize;
            let new = office.listed..end.max(office.listed);
            self.list.extend(office.pending[new].iter().cloned());
            office.listed = end;
        }
        self.offices.push(Office::new(term, None));
    }

    /// The leader of this term writes an entry behind its others; how many it has now.
    pub fn write(&mut self, term: Term, entry: Arc<Entry>, proposal: ProposalIx) -> usize {
        let Some(office) = self.offices.iter_mut().find(|o| o.term == term) else { return 0 };
        office.pending.push(Listed { entry: Some(entry), proposal });
        office.pending.len()
    }

    /// How many entries the leader of this term wrote.
    pub fn written(&self, term: Term) -> usize {
        self.office(term).map_or(0, |office| office.pending.len())
    }

    /// A voter has this many of the term's entries on its disk.
    pub fn take(&mut self, term: Term, voter: HostIx, count: usize) {
        let majority = self.majority();
        let Some(office) = self.offices.iter_mut().find(|o| o.term == term) else { return };
        let taken = office.taken.entry(voter).or_default();
        *taken = (*taken).max(count.min(office.pending.len()));
        if office.frozen.is_none() {
            let end = taken_by(&office.taken, majority).max(office.listed);
            self.list.extend(office.pending[office.listed..end].iter().cloned());
            office.listed = end;
        }
    }
}

/// How many entries at least `majority` voters took.
fn taken_by(taken: &BTreeMap<HostIx, usize>, majority: usize) -> usize {
    let mut counts: Vec<usize> = taken.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.get(majority - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slots::{ClusterId, ClusterSettings, NodeId, Proposal, Proposer, TableChange};

    fn entry() -> Arc<Entry> {
        let by = Proposer { node: NodeId::from_bytes([1; 20]), boot: slots::Boot(1) };
        let settings = ClusterSettings::default();
        let change = TableChange::InitCluster { settings };
        let proposal = Proposal { cluster: ClusterId::from_bytes([1; 20]), by, change };
        Arc::new(Entry { at_ms: 0, actor: String::new(), proposal })
    }

    fn proposals(log: &SimLog) -> Vec<u64> {
        (1..=log.len()).filter_map(|at| log.at(at)).map(|listed| listed.proposal).collect()
    }

    #[test]
    fn an_entry_is_listed_once_a_majority_took_it() {
        let mut log = SimLog::new(vec![0, 1, 2]);
        log.open(1, &mut Dice::new(1));
        log.write(1, entry(), 7);
        log.take(1, 0, 2);
        assert!(log.is_empty());
        log.take(1, 2, 1);
        assert_eq!(proposals(&log), [0], "the leader's first entry only");
        log.take(1, 1, 2);
        assert_eq!(proposals(&log), [0, 7]);
    }

    #[test]
    fn what_no_majority_took_survives_a_leader_or_not_but_in_order() {
        let mut ends = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let mut log = SimLog::new(vec![0, 1, 2]);
            log.open(1, &mut Dice::new(seed));
            log.write(1, entry(), 7);
            log.write(1, entry(), 8);
            log.take(1, 0, 3);
            log.take(1, 1, 2);
            log.open(2, &mut Dice::new(seed));
            log.take(1, 1, 3);
            assert_eq!(log.known_to(1), 2, "an old leader learns nothing more");
            ends.insert(proposals(&log));
        }
        let ends: Vec<_> = ends.into_iter().collect();
        assert_eq!(ends, [vec![0, 7], vec![0, 7, 8]]);
    }
}
