//! Crashes, and how a node meets the table's new versions.
//!
//! Invariant: what lives in the process only (acks, seals, grants, counts) is gone after a crash;
//! of the copy stays what `Kept` says, and the node proposes its start with exactly that.

use crate::node::{Copy, Lead, Seal};
use crate::oracle::{self, held};
use crate::rules::Rules;
use crate::state::State;
use crate::table::Change;
use crate::words::{Id, Kept, Version};

impl State {
    /// The process ends and begins again; its table begins at an old version.
    pub(crate) fn crash(&mut self, rules: &Rules, id: Id, kept: Kept) -> &'static str {
        let before = held(self, id);
        let half_lost = self.node(id).copy.unsynced_snapshot && kept == Kept::Tail;
        let node = self.node_mut(id);
        match kept {
            Kept::All => (),
            Kept::Tail if half_lost => node.copy.torn = true,
            Kept::Tail => {
                // The keys are made anew from the log: nothing is torn.
                let copy = &mut node.copy;
                copy.executed = copy.executed.min(copy.synced);
                copy.ops.truncate(usize::from(copy.synced));
            }
            Kept::Nothing => (node.copy, node.alone) = (Copy::default(), None),
        }
        if kept != Kept::All {
            (node.stage, node.seen) = (None, 0);
        }
        let incomplete = node.copy.torn && rules.incomplete_is_nothing;
        if incomplete {
            node.copy = Copy::default();
        }
        node.boot += 1;
        node.applied = 0;
        node.lead = Lead { base: node.copy.last(), ..Lead::default() };
        (node.acked, node.acked_at, node.handover) = ((0, 0), None, None);
        node.kept = if rules.least_since_start { kept.min(node.kept) } else { kept };
        let (boot, reported, alone) = (node.boot, node.kept, node.alone);
        self.forget_grants(rules, id);
        self.propose(Change::Start { node: id, boot, kept: reported, alone, incomplete });
        oracle::crashed(self, id, kept, before, half_lost);
        match kept {
            Kept::All => "crash, all kept",
            Kept::Tail if half_lost => "crash, half a snapshot kept",
            Kept::Tail => "crash, tail lost",
            Kept::Nothing => "crash, nothing kept",
        }
    }

    /// As a holder it has none; as a giver it must think that everybody has one.
    fn forget_grants(&mut self, rules: &Rules, id: Id) {
        for other in Id::all().filter(|other| *other != id) {
            self.grants.held[other.at()][id.at()] = None;
            self.grants.given[id.at()][other.at()] = rules.restart_counts_grants.then_some(0);
        }
    }

    /// The node's table goes to a version: the next one, entry by entry, or the newest at once (a
    /// Raft snapshot: the entries between are never seen).
    pub(crate) fn learn(&mut self, rules: &Rules, id: Id, version: Version) -> &'static str {
        let (old, boots) = (*self.row(id), self.view(id).boots);
        let skips = version > self.node(id).applied + 1;
        self.node_mut(id).applied = version;
        let (table, new) = (*self.view(id), *self.row(id));
        if table.boots[id.at()] == self.node(id).boot {
            self.node_mut(id).kept = Kept::All;
        }
        if rules.noted_again {
            self.note_again(id, |other| table.boots[other.at()] != boots[other.at()]);
        }
        if new.epoch == old.epoch {
            // Without a new ver a Shrink that withdraws a Grow shows in no other way.
            if new.ver != old.ver || !rules.withdraw_new_ver && new == old {
                let lead = &mut self.node_mut(id).lead;
                (lead.extra, lead.uncounted) = Default::default();
                lead.noted = Default::default();
            }
            if new.order.is_none() {
                self.node_mut(id).lead.seal = Seal::Open;
            }
            return "learns";
        }
        let (was, is) = (old.owner == id, new.owner == id && self.started(rules, id));
        let node = self.node_mut(id);
        if !is {
            node.lead = Lead { base: node.copy.last(), ..Lead::default() };
            return if was { "learns, deposed" } else { "learns of an epoch" };
        }
        // R10: by the entry itself, with its id, at the epoch Handover was sent in.
        let announced = node.handover.is_some_and(|(move_id, epoch)| {
            !skips && table.done == Some(move_id) && epoch == old.epoch
        });
        let waited = announced || node.handover.is_some() && !rules.handover_by_its_commit;
        if was && !rules.away {
            node.lead.seal = Default::default();
        } else {
            if rules.whole_tail_first || was {
                node.copy.executed = node.copy.last();
            } else {
                node.copy.cut(node.copy.executed);
            }
            node.lead = Lead { base: node.copy.last(), waited, ..Lead::default() };
        }
        node.handover = None;
        match (was, announced) {
            (true, _) => "learns, owner at a new epoch",
            (false, true) => "learns, owner by a move",
            (false, false) => "learns, owner",
        }
    }

    /// A node that started again has to have what is there now, before it may be grown.
    fn note_again(&mut self, owner: Id, started: impl Fn(Id) -> bool) {
        let last = self.node(owner).copy.last();
        let lead = &mut self.node_mut(owner).lead;
        for node in lead.extra.iter().filter(|node| started(*node)) {
            lead.noted[node.at()] = last;
        }
    }

    /// R10: an owner that gave grants below its epoch waits until the last of them ran out.
    pub(crate) fn settle_waits(&mut self, rules: &Rules) {
        for id in Id::all().filter(|id| self.owns(rules, *id)).collect::<Vec<_>>() {
            let epoch = self.row(id).epoch;
            let given = self.grants.given[id.at()];
            if given.iter().all(|grant| grant.is_none_or(|version| version >= epoch)) {
                self.node_mut(id).lead.waited = true;
            }
        }
    }
}
