//! The small words of the model: nodes, sets of nodes, and the counters.
//!
//! Invariant: there are `NODES` nodes, and they are called A, B and C.

use std::fmt;

/// Nodes in the model.
pub const NODES: usize = 3;

/// A table version: the index of a log entry. Epochs and vers are versions.
pub type Version = u8;
/// The version of the entry that last changed who orders the slot's writes.
pub type Epoch = u8;
/// The place of an op group in the slot's stream, from 1; 0 is before the first.
pub type Index = u8;
/// A start of a node.
pub type Boot = u8;
/// A client's write.
pub type Write = u8;
/// An operator's order to move the slot.
pub type MoveId = u8;

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u8);

impl Id {
    /// All nodes, in order.
    pub fn all() -> impl Iterator<Item = Id> {
        (0..NODES as u8).map(Id)
    }

    /// Its place in an array.
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", char::from(b'A' + self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A set of nodes (or of writes, which are as few).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Set(pub u8);

impl Set {
    /// The set of these.
    pub fn of(ids: &[Id]) -> Set {
        ids.iter().fold(Set::default(), |set, id| set.with(*id))
    }

    /// Whether it holds a node.
    pub fn has(self, id: Id) -> bool {
        self.0 & (1 << id.0) != 0
    }

    /// The set and a node.
    #[must_use]
    pub fn with(self, id: Id) -> Set {
        Set(self.0 | 1 << id.0)
    }

    /// The set without a node.
    #[must_use]
    pub fn without(self, id: Id) -> Set {
        Set(self.0 & !(1 << id.0))
    }

    /// What is in either.
    #[must_use]
    pub fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it holds one node, this one.
    pub fn only(self, id: Id) -> bool {
        self == Set::of(&[id])
    }

    /// Its nodes, in order.
    pub fn iter(self) -> impl Iterator<Item = Id> {
        Id::all().filter(move |id| self.has(*id))
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        self.iter().try_for_each(|id| write!(f, "{id}"))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// How much of what it held a node still has after a crash; the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Kept {
    /// Nothing: no log, or the disk is gone.
    Nothing,
    /// What was synced: the power went.
    Tail,
    /// Everything: the process died, the kernel did not.
    #[default]
    All,
}
