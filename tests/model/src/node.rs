//! What one node holds: its copy of the slot, a staged copy beside it, and what it keeps as owner.
//!
//! ```text
//!   copy    1 2 3 4 5 6 7        op groups, each named (epoch, index)
//!           ======= executed     in the keys: cannot be cut
//!                   ------       buffered: may be cut by a new owner's base
//!           -----synced          survives a power loss
//!   stage   two pieces of the keys, each whole up to its own index; invisible
//! ```
//! Not what happens to it: `owner.rs`, `member.rs`, `crash.rs`.

use crate::words::{Boot, Epoch, Id, Index, Kept, MoveId, NODES, Set, Version, Write};

/// Pieces a snapshot is sent in. Every op group changes keys in each of them.
pub const PIECES: usize = 2;

/// How much of a write an op carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// All of it: one op group.
    Whole,
    /// Its first half, if commands were logged op by op.
    First,
    /// Its second half.
    Second,
}

/// An op group: the epoch that ordered it, the write it carries. Its index is its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Op {
    /// The epoch of its name.
    pub epoch: Epoch,
    /// What it does.
    pub write: Write,
    /// How much of it.
    pub part: Part,
}

/// A copy of the slot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Copy {
    /// The groups it holds, by index from 1.
    pub ops: Vec<Op>,
    /// The last index that is in the keys.
    pub executed: Index,
    /// The last index that is synced.
    pub synced: Index,
    /// The snapshot it came from is not synced yet.
    pub unsynced_snapshot: bool,
    /// Its keys are not those of its groups: half a snapshot, or more than was cut.
    pub torn: bool,
}

impl Copy {
    /// The last index it holds.
    pub fn last(&self) -> Index {
        self.ops.len() as Index
    }

    /// The group at an index; none at 0.
    pub fn op(&self, index: Index) -> Option<Op> {
        self.ops.get(usize::from(index).wrapping_sub(1)).copied()
    }

    /// The epoch in the name of the group at an index: 0 before the first.
    pub fn epoch_at(&self, index: Index) -> Option<Epoch> {
        if index == 0 { Some(0) } else { self.op(index).map(|op| op.epoch) }
    }

    /// Whether all of a write is in it.
    pub fn holds(&self, write: Write) -> bool {
        !self.torn && self.end_of(write).is_some()
    }

    /// The index at which a write is complete.
    pub fn end_of(&self, write: Write) -> Option<Index> {
        let ends = |op: &Op| op.write == write && op.part != Part::First;
        self.ops.iter().position(ends).map(|at| at as Index + 1)
    }

    /// The writes of which it has one half only.
    pub fn halves(&self) -> impl Iterator<Item = Write> {
        let firsts = self.ops.iter().filter(|op| op.part == Part::First);
        firsts.map(|op| op.write).filter(|write| self.end_of(*write).is_none())
    }

    /// Drops what is beyond an index.
    pub fn cut(&mut self, index: Index) {
        self.ops.truncate(usize::from(index));
        // The keys still have what was executed: no copy of its log any more.
        self.torn |= self.executed > index;
        self.executed = self.executed.min(index);
        self.synced = self.synced.min(index);
    }
}

/// A snapshot that arrives, beside the copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stage {
    /// The epoch of the owner that sends it.
    pub epoch: Epoch,
    /// Each piece of the keys: what was done to them, if it has come.
    pub pieces: [Option<Vec<Op>>; PIECES],
}

/// What an owner knows of another node's copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Acked {
    /// It has everything up to here.
    pub index: Index,
    /// It said so in this boot,
    pub boot: Boot,
    /// and at this version of its table.
    pub version: Version,
}

/// How far the owner has closed the slot for a move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Seal {
    /// Commands run.
    #[default]
    Open,
    /// New commands park.
    Sealed,
    /// Handover is sent: only the log opens the slot.
    HandedOver,
}

/// What an owner keeps of its epoch; gone with the process and with the epoch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lead {
    /// The last index when the epoch began here.
    pub base: Index,
    /// What the others acked in this epoch.
    pub acks: [Option<Acked>; NODES],
    /// Nodes that count although they are not in sync in the table: about to be grown, or named
    /// in a proposal whose fate is unknown.
    pub extra: Set,
    /// The last index when a node began to count.
    pub noted: [Index; NODES],
    /// Members it stopped counting by itself (only if `counted_until_shrunk` is off).
    pub uncounted: Set,
    /// The seal.
    pub seal: Seal,
    /// R10: the grants it gave before are all gone.
    pub waited: bool,
}

/// One node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Node {
    /// Its running start.
    pub boot: Boot,
    /// The least it kept at any start since its last NodeBoot was applied.
    pub kept: Kept,
    /// The version of its table.
    pub applied: Version,
    /// Its copy of the slot.
    pub copy: Copy,
    /// A snapshot on its way in.
    pub stage: Option<Stage>,
    /// The newest Alone mark in its log.
    pub alone: Option<Version>,
    /// The highest epoch it met in frames.
    pub seen: Epoch,
    /// The last index it acked, in which epoch. Gone with the process.
    pub acked: (Epoch, Index),
    /// Its table version when it acked last. Gone with the process.
    pub acked_at: Option<Version>,
    /// What it keeps as owner.
    pub lead: Lead,
    /// The owner's word that it serves the slot no more: move and epoch.
    pub handover: Option<(MoveId, Epoch)>,
}

/// What nodes send each other. Lost, late, doubled, in any order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // `from`, `to`, `epoch` are what they say.
pub enum Frame {
    /// Groups after `prev` (index and epoch of its name); none: EpochStart. `base`: what the
    /// epoch began with. `safe`: what every counted member has.
    Ops {
        from: Id,
        to: Id,
        epoch: Epoch,
        base: Index,
        prev: (Index, Epoch),
        ops: Vec<Op>,
        safe: Index,
    },
    /// The sender has everything up to `index`.
    Ack { from: Id, to: Id, epoch: Epoch, acked: Acked },
    /// One piece of a snapshot.
    Piece { from: Id, to: Id, epoch: Epoch, piece: u8, image: Vec<Op> },
    /// The sender serves nothing of the slot at this epoch again.
    Handover { from: Id, to: Id, id: MoveId, epoch: Epoch },
}

impl Frame {
    /// Who gets it.
    pub fn to(&self) -> Id {
        match self {
            Frame::Ops { to, .. }
            | Frame::Ack { to, .. }
            | Frame::Piece { to, .. }
            | Frame::Handover { to, .. } => *to,
        }
    }
}
