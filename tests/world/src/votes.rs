//! Who leads: the part of Raft that decides when changes are possible.
//!
//! ```text
//!              silent for the election timeout            a majority gives
//!  Follower ---------------------------------> Candidate -----------------> Leader
//!      ^                                           |                           |
//!      +----------------- a newer term ------------+---------------------------+
//! ```
//! Invariant: a voter gives one vote a term, and takes nothing of an older one. Being leader is
//! authority for nothing but proposing.

use std::collections::{BTreeMap, BTreeSet};

use crate::dice::Dice;
use crate::log::{HostIx, Term};

/// Shortest election timeout (PROTOCOL 5), ns.
const ELECTION_MIN_NS: u64 = 600_000_000;
/// Longest election timeout, ns.
const ELECTION_MAX_NS: u64 = 1_200_000_000;
/// So long after a heartbeat a host counts on its leader, ns.
const LEADER_TRUST_NS: u64 = 1_200_000_000;

/// What of it must be on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ballot {
    /// The newest term.
    pub term: Term,
    /// Whom this voter gave its vote in it.
    pub given_to: Option<HostIx>,
}

/// What a host is in its term.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Follows, or waits.
    Follower,
    /// Asks for votes.
    Candidate {
        /// Who gave.
        given_by: BTreeSet<HostIx>,
    },
    /// Leads.
    Leader {
        /// What each host said it has applied.
        applied: BTreeMap<HostIx, u64>,
    },
}

/// One host's view.
#[derive(Clone, Debug)]
pub struct Votes {
    /// On disk.
    pub ballot: Ballot,
    /// Its part.
    pub part: Part,
    /// The leader it heard last.
    leader: Option<HostIx>,
    heard_ns: u64,
    patience_ns: u64,
}

impl Votes {
    /// After a start.
    pub fn new(ballot: Ballot, now_ns: u64, dice: &mut Dice) -> Votes {
        let patience_ns = dice.between(ELECTION_MIN_NS, ELECTION_MAX_NS);
        Votes { ballot, part: Part::Follower, leader: None, heard_ns: now_ns, patience_ns }
    }

    /// Does it lead, as far as it knows?
    pub fn leads(&self) -> bool {
        matches!(self.part, Part::Leader { .. })
    }

    /// The leader, as far as it knows.
    pub fn leader(&self, me: HostIx, now_ns: u64) -> Option<HostIx> {
        if self.leads() {
            return Some(me);
        }
        self.leader.filter(|_| now_ns.saturating_sub(self.heard_ns) < LEADER_TRUST_NS)
    }

    /// A term was named. False: it is old, and so is the message.
    fn meet(&mut self, term: Term) -> bool {
        if term > self.ballot.term {
            self.ballot = Ballot { term, given_to: None };
            self.part = Part::Follower;
        }
        term == self.ballot.term
    }

    /// A voter's time has passed. True: it is a candidate now and asks all voters.
    pub fn tick(&mut self, me: HostIx, now_ns: u64, dice: &mut Dice) -> bool {
        if self.leads() || now_ns.saturating_sub(self.heard_ns) < self.patience_ns {
            return false;
        }
        self.heard_ns = now_ns;
        self.patience_ns = dice.between(ELECTION_MIN_NS, ELECTION_MAX_NS);
        self.ballot = Ballot { term: self.ballot.term + 1, given_to: Some(me) };
        self.part = Part::Candidate { given_by: BTreeSet::from([me]) };
        true
    }

    /// A candidate asks. True: it gets the vote.
    pub fn asked(&mut self, by: HostIx, term: Term, now_ns: u64) -> bool {
        let is_content = self.leads()
            || self.leader.is_some() && now_ns.saturating_sub(self.heard_ns) < ELECTION_MIN_NS;
        if is_content || !self.meet(term) {
            return false;
        }
        let gives = self.ballot.given_to.is_none_or(|to| to == by);
        if gives {
            self.ballot.given_to = Some(by);
            self.heard_ns = now_ns;
        }
        gives
    }

    /// A voter gives. True: the majority is there, and the term is this host's.
    pub fn given(&mut self, by: HostIx, term: Term, majority: usize) -> bool {
        if term != self.ballot.term {
            return false;
        }
        let Part::Candidate { given_by } = &mut self.part else { return false };
        given_by.insert(by);
        if given_by.len() < majority {
            return false;
        }
        self.part = Part::Leader { applied: BTreeMap::new() };
        true
    }

    /// The leader of a term is heard. False: it is an old one.
    pub fn heard(&mut self, leader: HostIx, term: Term, now_ns: u64) -> bool {
        if !self.meet(term) || self.leads() {
            return false;
        }
        self.part = Part::Follower;
        self.leader = Some(leader);
        self.heard_ns = now_ns;
        true
    }

    /// A host tells its leader what it has applied, or that there is a newer term.
    pub fn appended(&mut self, by: HostIx, term: Term, version: u64) {
        if self.meet(term)
            && let Part::Leader { applied } = &mut self.part
        {
            applied.insert(by, version);
        }
    }
}
