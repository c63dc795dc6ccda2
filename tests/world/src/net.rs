//! The network: delay, loss, doubling, cuts.
//!
//! Invariant: what arrives was sent; nothing is invented and nothing changes on its way.

use std::collections::BTreeSet;
use std::sync::Arc;

use slotd::control::ledger::{Entry, Ledger};

use crate::clock::{MS, SECOND, Us};
use crate::dice::Dice;
use crate::log::{HostIx, ProposalIx, Term};
use crate::oracle::Word;
use crate::resp::Value;

/// Who sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A host.
    Host(HostIx),
    /// A client: it hears every host, unless that host is cut off from all.
    Client(usize),
}

/// One command of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// For the key of this number.
    Key(Word, usize),
    /// CLUSTER SLOTS.
    Slots,
    /// An operator's command.
    Words(Vec<String>),
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Body {
    /// A client's request; the token comes back with the reply.
    Request {
        /// The client's own number of it.
        token: u64,
        /// What is asked, in one write.
        asks: Vec<Ask>,
    },
    /// The replies to it.
    Reply {
        /// The request's.
        token: u64,
        /// One for each.
        replies: Vec<(Ask, Value)>,
    },
    /// To who is thought to be the leader.
    Propose {
        /// Names it.
        proposal: ProposalIx,
        /// The entry.
        entry: Arc<Entry>,
    },
    /// A candidate asks.
    VoteAsk {
        /// For this term.
        term: Term,
    },
    /// A voter gives.
    VoteGive {
        /// For this term.
        term: Term,
    },
    /// The leader: what is in the list, and what is to be taken.
    Append {
        /// Its term.
        term: Term,
        /// First version that is sent.
        first: u64,
        /// Last version that is in the list, as far as sent.
        last: u64,
        /// Entries of the term to be taken by voters.
        written: usize,
        /// Everything, instead of entries.
        image: Option<Arc<Ledger>>,
    },
    /// The answer to it.
    Appended {
        /// The leader's term.
        term: Term,
        /// What the host has applied.
        applied: u64,
    },
}

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Message {
    /// From whom.
    pub from: Place,
    /// To whom.
    pub to: Place,
    /// What.
    pub body: Body,
}

/// The links' state.
pub struct Net {
    /// Messages that do not arrive, in thousandths.
    pub loss: u64,
    /// Messages that arrive twice, in thousandths.
    pub doubling: u64,
    /// Longest ordinary delay.
    pub delay: Us,
    /// Links that carry nothing, one way.
    cut: BTreeSet<(HostIx, HostIx)>,
    /// Hosts that no client reaches.
    unreached: BTreeSet<HostIx>,
}

/// Shortest delay of any message.
const MIN_DELAY: Us = 200;
/// Longest delay of the second copy of a message: long after everybody has gone on.
const LATE: Us = 8 * SECOND;

impl Default for Net {
    fn default() -> Net {
        let cut = BTreeSet::new();
        Net { loss: 0, doubling: 0, delay: 2 * MS, cut, unreached: BTreeSet::new() }
    }
}

impl Net {
    /// All as it should be.
    pub fn heal(&mut self) {
        *self = Net::default();
    }

    /// Nothing goes from one to the other.
    pub fn cut_one_way(&mut self, from: HostIx, to: HostIx) {
        self.cut.insert((from, to));
    }

    /// Nothing goes between `group` and the others of `hosts`.
    pub fn split(&mut self, group: &[HostIx], hosts: usize) {
        for a in group {
            for b in (0..hosts).filter(|b| !group.contains(b)) {
                self.cut.insert((*a, b));
                self.cut.insert((b, *a));
            }
        }
    }

    /// No client reaches the host, nor hears it.
    pub fn hide(&mut self, host: HostIx) {
        self.unreached.insert(host);
    }

    /// All cuts end.
    pub fn join(&mut self) {
        self.cut.clear();
        self.unreached.clear();
    }

    /// Can a message go this way now?
    pub fn is_open(&self, from: Place, to: Place) -> bool {
        match (from, to) {
            (Place::Host(from), Place::Host(to)) => !self.cut.contains(&(from, to)),
            (Place::Host(host), _) | (_, Place::Host(host)) => !self.unreached.contains(&host),
            _ => true,
        }
    }

    /// When a message arrives, once per copy; none if it is lost.
    pub fn arrivals(&self, message: &Message, now: Us, dice: &mut Dice) -> Vec<Us> {
        if !self.is_open(message.from, message.to) || dice.chance(self.loss) {
            return Vec::new();
        }
        let mut arrivals = vec![now + dice.between(MIN_DELAY, self.delay.max(MIN_DELAY))];
        // Connections of clients keep their order and double nothing.
        let is_between_hosts =
            matches!((message.from, message.to), (Place::Host(_), Place::Host(_)));
        if is_between_hosts && dice.chance(self.doubling) {
            arrivals.push(now + dice.between(MIN_DELAY, LATE));
        }
        arrivals
    }
}
