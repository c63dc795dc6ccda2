//! A node's seat at the table: from its start to its own boot entry, and whether it may play a
//! role for any slot (PROTOCOL 2, R7).
//!
//! ```text
//!              own NodeBoot applied            own NodeBoot with another nonce, a newer boot,
//!  Starting ------------------------> Seated   or another data directory under our id
//!      |                                 |     (from both)
//!      +---------------------------------+---------------------------------------------> Ended
//!      |                                 |        row taken away (RemoveNode)
//!      +---------------------------------+---------------------------------------------> Removed
//! ```
//! Invariant: a node that is not seated serves no slot and answers no MOVED.

use slots::{Boot, NodeState, SlotTable, StoreId};

pub use crate::peer::Identity;

/// How the node stands to the table it has applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Its own boot is not in the table: no role yet.
    Starting,
    /// It plays the roles that the table gives it.
    Seated,
    /// The table does not hold it any more: no role.
    Removed,
    /// It must exit at once: another start of this node is in the table.
    Ended(Ending),
}

/// Why a node must exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Two copies of one data directory run, or ran, with the same boot number.
    Doubled {
        /// The boot number both have.
        boot: Boot,
    },
    /// A newer start of this node is known: this data directory is an old copy.
    Outdated {
        /// The newest known.
        recorded: Boot,
        /// This start's.
        got: Boot,
    },
    /// The table knows this id with another data directory.
    OtherStore {
        /// The one in the table.
        recorded: StoreId,
    },
}

/// The seat.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    me: Identity,
    was_in_table: bool,
}

impl Seat {
    /// A node that has just started.
    pub const fn new(me: Identity) -> Seat {
        Seat { me, was_in_table: false }
    }

    /// Who.
    pub const fn identity(&self) -> Identity {
        self.me
    }

    /// What an applied table means for the node. To be asked after each apply, in order.
    pub fn judge(&mut self, table: &SlotTable) -> Standing {
        let Some(row) = table.node(self.me.node) else {
            return if self.was_in_table { Standing::Removed } else { Standing::Starting };
        };
        self.was_in_table = true;
        if row.state == NodeState::Removed {
            return Standing::Removed;
        }
        if row.store != self.me.store {
            return Standing::Ended(Ending::OtherStore { recorded: row.store });
        }
        if row.boot > self.me.boot {
            let got = self.me.boot;
            return Standing::Ended(Ending::Outdated { recorded: row.boot, got });
        }
        if row.boot < self.me.boot {
            return Standing::Starting;
        }
        match row.nonce == Some(self.me.nonce) {
            true => Standing::Seated,
            false => Standing::Ended(Ending::Doubled { boot: row.boot }),
        }
    }
}
