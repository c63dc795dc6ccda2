//! The oracle: sees everything that happens in the world, and one checker per invariant.
//!
//! ```text
//!   after each applied entry      rows.rs (INV-6, SEEN, BOOTS)   history.rs (FORK, TABLE)
//!   after each event of a host    words.rs (ONE, WORDS, ROLE)    limits.rs (INV-9)
//!   as each reply leaves          replies.rs (INV-1, CONTENT)    topology.rs (D09)
//! ```
//! Invariant: the first violation is kept; a checker never changes what it looks at.

mod history;
mod limits;
mod replies;
mod rows;
mod topology;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use slotd::control::ledger::Ledger;
use slots::{Boot, NodeId, Nonce, SlotId, SlotRanges, slot_of};

use crate::coverage::Coverage;
use crate::log::HostIx;

pub use replies::{Left, Word};
pub use topology::owners_in;

/// Number of a process: every start has another.
pub type ProcessIx = u64;

/// Keys that clients of the world use, each in a slot of its own.
pub const KEYS: usize = 12;
/// Slots without clients, on which orders of moves and copies are tried: copies hold nothing yet.
pub const PLAY: std::ops::RangeInclusive<u16> = 8000..=8007;

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

/// A process at an event.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Where it runs.
    pub host: HostIx,
    /// Which start.
    pub process: ProcessIx,
}

/// Sees everything.
pub struct Oracle {
    /// Keys and their slots.
    pub keys: Vec<(String, SlotId)>,
    /// What was met, for the report.
    pub coverage: Coverage,
    /// What the list says, applied by the rules.
    pub truth: Ledger,
    violation: Option<Violation>,
    /// Last table version at which an operator took a key's slot by force.
    forced: Vec<u64>,
    replies: Vec<replies::Slot>,
    rows: rows::Rows,
    history: history::History,
    words: words::Words,
    seated: BTreeMap<NodeId, (Boot, Nonce, ProcessIx)>,
}

impl Oracle {
    /// Nothing seen yet.
    pub fn new() -> Oracle {
        let keys: Vec<(String, SlotId)> = (0..KEYS)
            .map(|at| format!("key-{at}"))
            .map(|key| (key.clone(), slot_of(key.as_bytes())))
            .collect();
        Oracle {
            forced: vec![0; keys.len()],
            replies: vec![replies::Slot::default(); keys.len()],
            rows: rows::Rows::default(),
            history: history::History::default(),
            words: words::Words::default(),
            keys,
            coverage: Coverage::default(),
            truth: Ledger::new(),
            violation: None,
            seated: BTreeMap::new(),
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// A promise was broken.
    pub fn fail(&mut self, invariant: &'static str, text: String) {
        self.violation.get_or_insert(Violation { invariant, text });
    }

    /// The slots of the keys.
    pub fn slots(&self) -> SlotRanges {
        self.keys.iter().map(|(_, slot)| *slot).collect()
    }

    /// An operator's force excuses a process for a key's slot until the process has applied it.
    fn is_excused(&self, key: usize, version: u64) -> bool {
        version < self.forced[key]
    }
}

impl Default for Oracle {
    fn default() -> Oracle {
        Oracle::new()
    }
}
