//! The types openraft is made concrete with.

use std::fmt;
use std::io::Cursor;

use serde::{Deserialize, Serialize};
use slots::{NodeId, Verdicts};

use crate::control::ledger::Entry;

/// A node's id as Raft uses it. The zero id, which openraft wants as a default, is nobody's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Member(pub NodeId);

impl Default for Member {
    fn default() -> Member {
        Member(NodeId::from_bytes([0; 20]))
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What applying an entry answers to who proposed it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Applied {
    /// The entry's index.
    pub version: u64,
    /// The verdicts; `None` for an entry without a change.
    pub verdicts: Option<Verdicts>,
}

openraft::declare_raft_types!(
    /// Raft over table entries.
    pub TableRaft:
        D = Entry,
        R = Applied,
        NodeId = Member,
        Node = openraft::EmptyNode,
        SnapshotData = Cursor<Vec<u8>>,
);
