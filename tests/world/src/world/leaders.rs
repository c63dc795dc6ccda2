//! Elections, and the leader's messages to everybody.

use std::sync::Arc;

use super::World;
use crate::log::{HostIx, Term};
use crate::net::{Body, Message, Place};
use crate::votes::Part;

/// Entries in one message.
const MAX_SENT: u64 = 24;
/// Who is further behind gets everything instead.
const IMAGE_BEHIND: u64 = 60;

impl World {
    /// Whom a host takes for the leader.
    pub(super) fn leader_for(&self, host: HostIx) -> Option<HostIx> {
        let now_ns = self.clock(host).mono_ns;
        self.hosts[host].process.as_ref()?.votes.leader(host, now_ns)
    }

    fn may_vote(&self, host: HostIx) -> bool {
        let is_voter = self.log.voters().contains(&host);
        is_voter && self.hosts[host].disk.as_ref().is_some_and(|disk| disk.may_vote)
    }

    /// A host's part in the log, each tick.
    pub(super) fn lead(&mut self, host: HostIx) {
        let now_ns = self.clock(host).mono_ns;
        let may_vote = self.may_vote(host);
        let Some(process) = &mut self.hosts[host].process else { return };
        if process.votes.leads() {
            let term = process.votes.ballot.term;
            self.apply_known(host, term);
            return self.send_all(host, term);
        }
        if may_vote && process.votes.tick(host, now_ns, &mut self.dice) {
            let term = process.votes.ballot.term;
            self.note(|| format!("host {host} asks for votes of term {term}"));
            for voter in self.log.voters().to_vec() {
                if voter != host {
                    self.tell(host, voter, Body::VoteAsk { term });
                }
            }
            self.count_vote(host, host, term);
        }
    }

    pub(super) fn tell(&mut self, from: HostIx, to: HostIx, body: Body) {
        self.send(Message { from: Place::Host(from), to: Place::Host(to), body });
    }

    /// A vote came in.
    pub(super) fn count_vote(&mut self, host: HostIx, by: HostIx, term: Term) {
        let majority = self.log.majority();
        let Some(process) = &mut self.hosts[host].process else { return };
        if !process.votes.given(by, term, majority) {
            return;
        }
        self.note(|| format!("host {host} leads term {term}"));
        self.oracle.coverage.count("log", "leader elected");
        self.log.open(term, &mut self.dice);
        self.log.take(term, host, self.log.written(term));
        self.heed_list();
        self.apply_known(host, term);
        self.send_all(host, term);
    }

    /// A leader sends each host what it lacks, as far as it knows.
    pub(super) fn send_all(&mut self, host: HostIx, term: Term) {
        let Some(process) = &self.hosts[host].process else { return };
        let Part::Leader { applied } = &process.votes.part else { return };
        let (applied, mine) = (applied.clone(), process.node.version());
        let (known, written) = (self.log.known_to(term), self.log.written(term));
        for to in (0..self.hosts.len()).filter(|to| *to != host) {
            let has = applied.get(&to).copied();
            let behind = mine.saturating_sub(has.unwrap_or(mine));
            let is_image = behind > IMAGE_BEHIND || behind > 0 && self.dice.chance(30);
            let image = is_image.then(|| self.image_of(host)).flatten();
            // Who has not said yet what it has is asked by an empty message.
            let first = has.map_or(known + 1, |has| has + 1);
            let last = known.min(first + MAX_SENT - 1);
            self.tell(host, to, Body::Append { term, first, last, written, image });
        }
    }

    fn image_of(&mut self, host: HostIx) -> Option<Arc<slotd::control::ledger::Ledger>> {
        let ledger = &self.hosts[host].process.as_ref()?.node.ledger;
        self.oracle.coverage.count("log", "whole state sent");
        if !self.dice.chance(100) {
            return Some(Arc::new(ledger.clone()));
        }
        // Through its stored form and back.
        self.oracle.coverage.count("log", "whole state through its stored form");
        let text = serde_json::to_string(ledger).ok()?;
        match serde_json::from_str(&text) {
            Ok(image) => Some(Arc::new(image)),
            Err(error) => {
                self.oracle.fail("TABLE", format!("a stored state is refused: {error}"));
                None
            }
        }
    }

    /// A leader applies what it knows to be in the list, at its leisure.
    pub(super) fn apply_known(&mut self, host: HostIx, term: Term) {
        let known = self.log.known_to(term);
        let Some(process) = &self.hosts[host].process else { return };
        let first = process.node.version() + 1;
        self.apply_range(host, first, known);
    }
}
