//! What a running process does with a message.
//!
//! Invariant: the next entry that is applied is the one behind the last; others wait or are
//! passed over.

use std::sync::Arc;

use slotd::control::ledger::Ledger;

use super::World;
use crate::log::{HostIx, Term};
use crate::net::{Body, Message, Place};
use crate::plan::Bug;

impl World {
    /// A message to a process that runs.
    pub(super) fn deliver(&mut self, host: HostIx, message: Message) {
        let Message { from, body, .. } = message;
        match (from, body) {
            (Place::Client(client), Body::Request { token, asks }) => {
                self.serve(host, client, token, &asks);
            }
            (_, Body::Propose { proposal, entry }) => {
                let Some(process) = &self.hosts[host].process else { return };
                if !process.votes.leads() {
                    return;
                }
                let term = process.votes.ballot.term;
                let written = self.log.write(term, entry, proposal);
                self.log.take(term, host, written);
                self.heed_list();
                self.apply_known(host, term);
                self.send_all(host, term);
            }
            (Place::Host(by), Body::VoteAsk { term }) => {
                let now_ns = self.clock(host).mono_ns;
                let may = self.hosts[host].disk.as_ref().is_some_and(|disk| disk.may_vote);
                let Some(process) = &mut self.hosts[host].process else { return };
                if may && process.votes.asked(by, term, now_ns) {
                    self.tell(host, by, Body::VoteGive { term });
                }
            }
            (Place::Host(by), Body::VoteGive { term }) => self.count_vote(host, by, term),
            (Place::Host(leader), Body::Append { term, first, last, written, image }) => {
                self.append(host, (leader, term), (first, last), written, image);
            }
            (Place::Host(by), Body::Appended { term, applied }) => {
                let Some(process) = &mut self.hosts[host].process else { return };
                process.votes.appended(by, term, applied);
                if process.votes.leads() {
                    let term = process.votes.ballot.term;
                    self.apply_known(host, term);
                }
            }
            _ => {}
        }
    }

    fn append(
        &mut self,
        host: HostIx,
        (leader, term): (HostIx, Term),
        (first, last): (u64, u64),
        written: usize,
        image: Option<Arc<Ledger>>,
    ) {
        let now_ns = self.clock(host).mono_ns;
        let is_voter = self.log.voters().contains(&host)
            && self.hosts[host].disk.as_ref().is_some_and(|disk| disk.may_vote);
        let Some(process) = &mut self.hosts[host].process else { return };
        if !process.votes.heard(leader, term, now_ns) {
            // An old leader learns of the newer term and lets go: else a host that was cut off
            // and tried in vain would never follow again.
            let (term, applied) = (process.votes.ballot.term, process.node.version());
            return self.tell(host, leader, Body::Appended { term, applied });
        }
        if is_voter {
            self.log.take(term, host, written);
            self.heed_list();
        }
        if let Some(image) = image {
            self.jump(host, &image);
        } else if first <= last {
            // Entries come whole, or some of them for now.
            let end = if self.dice.chance(150) { self.dice.between(first - 1, last) } else { last };
            self.apply_range(host, first, end.min(last));
        }
        let Some(process) = &self.hosts[host].process else { return };
        let applied = process.node.version();
        self.tell(host, leader, Body::Appended { term, applied });
    }

    /// Applies the list's entries `first..=last`, as far as they follow on what is there.
    pub(super) fn apply_range(&mut self, host: HostIx, first: u64, last: u64) {
        let (now, Some(at)) = (self.clock(host), self.at(host)) else { return };
        let mut order: Vec<u64> = (first..=last).collect();
        if self.plan.has(Bug::ApplyOutOfOrder) && order.len() > 1 {
            order.swap(0, 1);
        }
        for version in order {
            let Some(process) = &mut self.hosts[host].process else { return };
            let node = &mut process.node;
            let follows = version == node.version() + 1 || self.plan.has(Bug::ApplyOutOfOrder);
            if !follows || node.wants.exit.is_some() {
                continue;
            }
            let Some(listed) = self.log.at(version).cloned() else { break };
            let before = node.ledger.table().clone();
            let verdicts = node.apply(version, listed.entry.as_deref(), listed.proposal, now);
            let told = listed.entry.as_deref().zip(verdicts.as_ref());
            self.oracle.applied(at, &before, node.ledger.table(), told);
            self.oracle.check_history(at, &node.ledger);
        }
        if let Some(process) = &mut self.hosts[host].process {
            process.node.show(now);
        }
    }

    fn jump(&mut self, host: HostIx, image: &Ledger) {
        let (now, Some(at)) = (self.clock(host), self.at(host)) else { return };
        let Some(process) = &mut self.hosts[host].process else { return };
        let node = &mut process.node;
        let (from, to) = (node.version(), image.table().version().0);
        if to <= from {
            return;
        }
        node.jump(image.clone(), now);
        node.show(now);
        self.oracle.check_epochs(at, node.ledger.table());
        self.oracle.check_history(at, &node.ledger);
        self.note(|| format!("host {host} jumps from table {from} to {to}"));
        self.oracle.coverage.count("log", "versions skipped by a whole state");
    }
}
