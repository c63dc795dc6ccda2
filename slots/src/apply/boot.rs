//! `NodeBoot`: what a node's start does to the slots it holds. Not the evidence of what it kept:
//! the node judges its own disk before it proposes.
//! ```text
//!                      All         Tail                         Nothing
//!  last_removed is n   stays       is (n, Rebooted)             is forgotten
//!  shared              stays       leaves as (n, Rebooted) (1)  leaves; (m, Shrunk) is Rebooted
//!  shared, n owns      new epoch   ... and a member owns        ... and a member owns
//!  sole                new epoch   last_removed, if whole (2)   last_removed, if any
//! ```
//! (1) if wanted, else as in Nothing; (2) n leaves as Rebooted.
//! Invariant: an owner that starts gets a new epoch or another owner; memory that may be lost is
//! not served while another copy may hold more.

use super::{Next, Staged, live, stamped};
use crate::change::{Kept, Proposal, TableChange};
use crate::ids::{NodeId, TableVersion};
use crate::members::{NodeIx, NodeSet, Nodes};
use crate::row::{Removal, RemovalCause, Row};
use crate::slot::SlotId;
use crate::table::SlotTable;
use crate::verdict::{ChangeRefused, LossCause};

impl SlotTable {
    /// Refuses a start that another node proposes, an unknown or removed node, and a boot that is
    /// not newer than the recorded one.
    pub(super) fn boot(
        &self,
        nodes: &mut Nodes,
        proposal: &Proposal,
    ) -> Result<Staged, ChangeRefused> {
        let TableChange::NodeBoot { node, boot, nonce, kept, alone, except } = &proposal.change
        else {
            return Ok(Staged::new());
        };
        if proposal.by.node != *node {
            return Err(ChangeRefused::NotItself { node: *node, by: proposal.by.node });
        }
        let ix = live(nodes, *node)?;
        let row = nodes.row_mut(ix).ok_or(ChangeRefused::UnknownNode { node: *node })?;
        let (recorded, got) = (row.boot, *boot);
        if proposal.by.boot != got {
            let got = proposal.by.boot;
            return Err(ChangeRefused::OtherBoot { node: *node, recorded: *boot, got });
        }
        if got <= recorded {
            return Err(ChangeRefused::OldBoot { recorded, got });
        }
        row.boot = *boot;
        row.nonce = Some(*nonce);
        let start = Start { node: ix, id: *node, nodes: &*nodes, version: self.version };
        let named = self.rows.iter().filter(|(_, row)| row.names(ix));
        let rows = named.map(|(slot, row)| {
            let kept = if except.contains(slot) { Kept::Nothing } else { *kept };
            let alone_at = alone.get(&slot).copied().unwrap_or_default();
            let next = start.row(slot, row, kept, alone_at);
            (slot, Next { row: stamped(row, next.row, self.version), ..next })
        });
        Ok(rows.collect())
    }
}

/// The start of one node, as it meets a row.
struct Start<'a> {
    node: NodeIx,
    id: NodeId,
    nodes: &'a Nodes,
    version: TableVersion,
}

impl Start<'_> {
    fn row(&self, slot: SlotId, before: &Row, kept: Kept, alone_at: TableVersion) -> Next {
        let row = self.weaken_own_removal(*before, kept);
        if !row.in_sync.contains(self.node) {
            return row.into();
        }
        let sole = row.in_sync.is_only(self.node);
        match kept {
            Kept::All => self.stay(row).into(),
            Kept::Tail if sole => self.sole_with_tail_lost(row, alone_at).into(),
            Kept::Nothing if sole => self.sole_with_nothing(row),
            Kept::Tail | Kept::Nothing => self.leave_shared(row, slot, kept).into(),
        }
    }

    /// A copy that lost something is no longer the one that `last_removed` tells of: no perfect
    /// heir after a lost tail, none at all when nothing is left of it.
    fn weaken_own_removal(&self, mut row: Row, kept: Kept) -> Row {
        if row.last_removed.is_some_and(|removal| removal.node == self.node) {
            match kept {
                Kept::All => {}
                Kept::Tail => row.weaken_last_removed(),
                Kept::Nothing => row.last_removed = None,
            }
        }
        row
    }

    /// Every role stays; an owner orders writes in a new epoch, for it does not know what was
    /// under way when it stopped.
    fn stay(&self, mut row: Row) -> Row {
        if row.owner == Some(self.node) {
            row.epoch = self.version.into();
        }
        row
    }

    /// The rest hold every acknowledged write: one of them owns. Who is not wanted (by now: an
    /// owner may become the follower of its heir) frees its copy and is no heir.
    fn leave_shared(&self, mut row: Row, slot: SlotId, kept: Kept) -> Row {
        row.in_sync = row.in_sync.without(self.node);
        let heir = row.in_sync.choose(slot.index()).filter(|_| row.owner == Some(self.node));
        if let Some(heir) = heir {
            row.pass_to(heir, self.nodes, self.version);
        }
        if kept == Kept::Tail && row.followers.contains(self.node) {
            row.last_removed = Some(self.rebooted());
        } else {
            row.weaken_last_removed();
        }
        row
    }

    const fn rebooted(&self) -> Removal {
        Removal { node: self.node, cause: RemovalCause::Rebooted, at: self.version }
    }

    /// The member shrunk out last holds everything if nothing was acknowledged alone since. This
    /// node is remembered: the heir's own start may yet tell that it lost more.
    fn sole_with_tail_lost(&self, row: Row, alone_at: TableVersion) -> Row {
        match row.last_removed {
            Some(Removal { node, cause: RemovalCause::Shrunk, at }) if alone_at < at => {
                Row { last_removed: Some(self.rebooted()), ..self.give_to(row, node) }
            }
            _ => self.stay(row),
        }
    }

    fn sole_with_nothing(&self, row: Row) -> Next {
        let heir = row.last_removed.map(|removal| removal.node);
        let to = heir.map_or(self.id, |heir| self.nodes.id(heir));
        let next = heir.map_or_else(|| self.stay(row), |heir| self.give_to(row, heir));
        Next::with_loss(next, LossCause::MemoryLost { node: self.id, to })
    }

    fn give_to(&self, mut row: Row, heir: NodeIx) -> Row {
        row.pass_to(heir, self.nodes, self.version);
        row.in_sync = NodeSet::single(heir);
        row.last_removed = None;
        row
    }
}
