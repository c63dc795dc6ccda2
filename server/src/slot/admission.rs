//! The admission word: what a node knows of a slot's ownership, in one atomic beside the lock.
//!
//! A table change is installed here at once and never waits for a room (DESIGN 3, PROTOCOL 5):
//! the room meets it at its next lock. The word is read under the room's lock by `admit`.

use slots::Epoch;

use crate::slot::sync::{AtomicU64, Ordering};

/// What a command wants to do with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reads.
    Read,
    /// May write.
    Write,
}

/// A node's relation to a slot.
///
/// ```text
///              assign to us                 seal                 commit (ours no more)
///  Unassigned ------------> Owned --------------------> Sealed ----------------------> Foreign
///      ^  \                  ^ |  unseal / abort          |                              |
///      |   \ to another      | +--------------------------+                              |
///      |    +------------> Foreign <-----------------------------------------------------+
///      +--------------------- | unassign            (commit to us: Foreign -> Owned)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ownership {
    /// No node owns the slot.
    Unassigned = 0,
    /// Another node owns it.
    Foreign = 1,
    /// This node owns and serves it.
    Owned = 2,
    /// This node owns it and is handing it over: commands park.
    Sealed = 3,
    /// No table is known yet (before this node's own boot entry): nothing is answered for it.
    Unknown = 4,
}

/// Why `admit` said no. The session turns it into the client's error text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another node owns the slot: `MOVED`.
    Moved,
    /// Nobody owns it: `CLUSTERDOWN Hash slot not served`.
    Unserved,
    /// The slot is being handed over; the command is unexecuted and may wait or try again.
    Parked,
    /// The table is not known yet: `CLUSTERDOWN The cluster is down`.
    NoTable,
}

const OWNERSHIP_MASK: u64 = 0b111;
/// A table change was installed while somebody held the lock, or may have been.
const NOTE: u64 = 0b1000;
const EPOCH_SHIFT: u32 = 4;

/// The atomic word: ownership in the low 3 bits, the note for the lock's holder, the epoch.
pub struct Admission(AtomicU64);

impl Admission {
    /// A word that refuses everything with `NoTable`.
    pub fn unknown() -> Admission {
        Admission(AtomicU64::new(Ownership::Unknown as u64))
    }

    /// Installs a new relation and epoch, with a note for whoever holds the room's lock. Never
    /// blocks.
    pub fn install(&self, ownership: Ownership, epoch: Epoch) {
        // A swap, not a store: loom orders read-modify-writes among themselves.
        self.0.swap(epoch.0 << EPOCH_SHIFT | NOTE | ownership as u64, Ordering::SeqCst);
    }

    /// As `install`, but only where the word still says `expected`; `false`: a table change came
    /// first, and nothing was done.
    pub fn install_over(&self, expected: (Ownership, Epoch), ownership: Ownership) -> bool {
        let word = |ownership: Ownership| expected.1.0 << EPOCH_SHIFT | ownership as u64;
        let (old, next) = (word(expected.0), word(ownership) | NOTE);
        // One loop: whoever takes the note in between must not make it look like another word.
        let change = |now: u64| (now & !NOTE == old).then_some(next);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok()
    }

    /// Is there a note? One load; whoever has let go of the lock asks.
    #[inline]
    pub fn has_note(&self) -> bool {
        self.0.load(Ordering::SeqCst) & NOTE != 0
    }

    /// Takes the note, with the relation and epoch it is about.
    pub fn take_note(&self) -> Option<(Ownership, Epoch)> {
        let word = self.0.fetch_and(!NOTE, Ordering::SeqCst);
        (word & NOTE != 0).then(|| decode(word))
    }

    /// The relation and the epoch it began at, read together.
    #[inline]
    pub fn load(&self) -> (Ownership, Epoch) {
        decode(self.0.load(Ordering::SeqCst))
    }

    /// May a command pass? The refusals first, as they are the point of the system.
    #[inline]
    pub fn check(&self) -> Result<Epoch, Refused> {
        let (ownership, epoch) = self.load();
        match ownership {
            Ownership::Owned => Ok(epoch),
            Ownership::Foreign => Err(Refused::Moved),
            Ownership::Unassigned => Err(Refused::Unserved),
            Ownership::Sealed => Err(Refused::Parked),
            Ownership::Unknown => Err(Refused::NoTable),
        }
    }
}

fn decode(word: u64) -> (Ownership, Epoch) {
    let ownership = match word & OWNERSHIP_MASK {
        0 => Ownership::Unassigned,
        1 => Ownership::Foreign,
        2 => Ownership::Owned,
        3 => Ownership::Sealed,
        _ => Ownership::Unknown,
    };
    (ownership, Epoch(word >> EPOCH_SHIFT))
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_seal_does_not_cover_a_change_that_came_first() {
        let word = Admission::unknown();
        let (owned, sealed) = ((Ownership::Owned, Epoch(7)), (Ownership::Sealed, Epoch(7)));
        word.install(owned.0, owned.1);
        assert!(word.install_over(owned, Ownership::Sealed));
        assert_eq!(word.load(), sealed);
        assert!(!word.install_over(owned, Ownership::Sealed));
        word.install(Ownership::Foreign, Epoch(8));
        assert!(!word.install_over(sealed, Ownership::Owned));
        assert!(!word.install_over(owned, Ownership::Sealed));
        assert_eq!(word.load(), (Ownership::Foreign, Epoch(8)));
    }

    #[test]
    fn each_relation_is_refused_in_its_own_way() {
        let word = Admission::unknown();
        assert_eq!(word.check(), Err(Refused::NoTable));
        for (ownership, want) in [
            (Ownership::Unassigned, Err(Refused::Unserved)),
            (Ownership::Foreign, Err(Refused::Moved)),
            (Ownership::Sealed, Err(Refused::Parked)),
            (Ownership::Owned, Ok(Epoch(7))),
        ] {
            word.install(ownership, Epoch(7));
            assert_eq!(word.check(), want);
            assert_eq!(word.load(), (ownership, Epoch(7)));
            assert!(word.has_note());
            assert_eq!(word.take_note(), Some((ownership, Epoch(7))));
            assert!(!word.has_note() && word.take_note().is_none());
            assert_eq!(word.load(), (ownership, Epoch(7)));
        }
    }
}
