//! Applying an entry of the log to the table: the one way the table changes.
//!
//! Not the log, not the proposer: an entry may be late, doubled, nonsense or of another cluster,
//! and must do no harm.
//!
//! Invariant: pure (no clock, no randomness, no IO), never panics, and every row is checked
//! (`invariant.rs`) before it is installed. A change over slots is judged slot by slot; a change
//! of nodes or settings (`NodeBoot` too) is installed whole or not at all.

mod boot;
mod nodes;
mod slots;

use crate::change::{Proposal, TableChange};
use crate::ids::{NodeId, TableVersion};
use crate::invariant::check_step;
use crate::members::{NodeIx, Nodes};
use crate::node::NodeState;
use crate::row::Row;
use crate::slot::SlotId;
use crate::table::{LossSlots, SlotTable};
use crate::verdict::{ChangeRefused, Loss, LossCause, Verdict, Verdicts};

/// What a rule makes of a row.
struct Next {
    row: Row,
    loss: Option<LossCause>,
}

impl From<Row> for Next {
    fn from(row: Row) -> Next {
        Next { row, loss: None }
    }
}

impl Next {
    const fn with_loss(row: Row, cause: LossCause) -> Next {
        Next { row, loss: Some(cause) }
    }
}

/// New rows that wait to be installed together.
type Staged = Vec<(SlotId, Next)>;

impl SlotTable {
    /// Applies the entry at log index `version`. Whatever it holds, the table is at `version`
    /// after it, unless the entry is not newer than the table.
    ///
    /// Refused whole, in this order: an entry that is not newer than the table; one of another
    /// cluster, before the founding, or a second founding; what all slots have in common (unknown
    /// or removed nodes, boots, limits). Then every slot is judged alone.
    pub fn apply(&mut self, proposal: &Proposal, version: TableVersion) -> Verdicts {
        let slots = proposal.change.slots();
        if version <= self.version {
            let old = ChangeRefused::OldEntry { applied: self.version, got: version };
            return Verdicts::refused_whole(old, slots);
        }
        self.version = version;
        let judged = self.check_cluster(proposal).and_then(|()| match slots {
            Some(slots) => self.apply_to_slots(proposal, slots),
            None => self.apply_whole(proposal),
        });
        let verdicts = judged.unwrap_or_else(|refusal| Verdicts::refused_whole(refusal, slots));
        self.record(&verdicts.losses);
        verdicts
    }

    fn check_cluster(&self, proposal: &Proposal) -> Verdict {
        let founds = matches!(proposal.change, TableChange::InitCluster { .. });
        match &self.cluster {
            None if founds => Ok(()),
            None => Err(ChangeRefused::NoCluster),
            Some(cluster) if cluster.id != proposal.cluster => {
                let (expected, got) = (cluster.id, proposal.cluster);
                Err(ChangeRefused::OtherCluster { expected, got })
            }
            Some(_) if founds => Err(ChangeRefused::ClusterExists),
            Some(_) => Ok(()),
        }
    }

    /// Installs rows made for one whole change over `nodes`, which become the table's; nothing if
    /// one of them breaks an invariant.
    fn install_whole(
        &mut self,
        proposal: &Proposal,
        nodes: Nodes,
        staged: Staged,
    ) -> Result<Verdicts, ChangeRefused> {
        let mut losses = LossSlots::new();
        for (slot, next) in &staged {
            check_step(&nodes, self.rows.row(*slot), &next.row, self.version)
                .map_err(ChangeRefused::BrokenInvariant)?;
            if let Some(cause) = next.loss {
                losses.entry(cause).or_default().insert(*slot);
            }
        }
        for (slot, next) in staged {
            self.rows.install(slot, next.row);
        }
        self.nodes = nodes.into();
        Ok(Verdicts { losses: self.loss_records(proposal, losses), ..Verdicts::new() })
    }

    fn loss_records(&self, proposal: &Proposal, losses: LossSlots) -> Vec<Loss> {
        let (at, by) = (self.version, proposal.by.node);
        let record = |(cause, slots)| Loss { at, by, cause, slots, tails: Default::default() };
        losses.into_iter().map(record).collect()
    }
}

/// Stamps `ver` on a row whose members or epoch changed, `owner_since` on one with another owner.
fn stamped(before: &Row, mut next: Row, version: TableVersion) -> Row {
    if next.owner != before.owner {
        next.owner_since = version;
    }
    if next.in_sync != before.in_sync || next.epoch != before.epoch {
        next.ver = version;
    }
    next
}

/// A node that is in the table and not removed.
fn live(nodes: &Nodes, node: NodeId) -> Result<NodeIx, ChangeRefused> {
    let ix = nodes.find(node).ok_or(ChangeRefused::UnknownNode { node })?;
    match nodes.row(ix).map(|row| row.state) {
        Some(NodeState::Active | NodeState::Draining) => Ok(ix),
        Some(NodeState::Removed) | None => Err(ChangeRefused::NodeRemoved { node }),
    }
}

/// A node that may get something new.
fn active(nodes: &Nodes, node: NodeId) -> Result<NodeIx, ChangeRefused> {
    let ix = live(nodes, node)?;
    let is_active = nodes.row(ix).is_some_and(|row| row.state == NodeState::Active);
    if is_active { Ok(ix) } else { Err(ChangeRefused::NotActive { node }) }
}

impl Row {
    /// `to` owns the slot from the entry `version` on: a new epoch; a move to it is done. A
    /// follower that becomes the owner changes places with the old owner, who is wanted back.
    fn pass_to(&mut self, to: NodeIx, nodes: &Nodes, version: TableVersion) {
        let before = self.owner.replace(to);
        self.epoch = version.into();
        self.planned = self.planned.filter(|planned| planned.to != to);
        if self.followers.contains(to) {
            let rest = self.followers.without(to);
            let with_old = before.filter(|old| *old != to).and_then(|old| rest.with(old, nodes));
            self.followers = with_old.unwrap_or(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{AckMode, ClusterSettings, Kept, NewNode, Proposer};
    use crate::ids::{Boot, ClusterId, Nonce, StoreId};
    use crate::invariant::Broken;
    use crate::members::NodeSet;
    use crate::node::{Addresses, Endpoint, Labels};
    use crate::ranges::SlotRanges;

    const NODE: NodeId = NodeId::from_bytes([1; 20]);
    const BROKEN: ChangeRefused = ChangeRefused::BrokenInvariant(Broken::OwnerFollows);

    fn apply(table: &mut SlotTable, boot: u64, change: TableChange) -> Verdicts {
        let by = Proposer { node: NODE, boot: Boot(boot) };
        let proposal = Proposal { cluster: ClusterId::from_bytes([1; 20]), by, change };
        table.apply(&proposal, table.version().next())
    }

    /// A table whose slot 0 no change could make: its owner follows itself.
    fn unsound() -> SlotTable {
        let mut table = SlotTable::new();
        let endpoint = Endpoint::new("", 1);
        let node = NewNode {
            id: NODE,
            name: "node-a".to_owned(),
            store: StoreId::from_bytes([1; 16]),
            addresses: Addresses { client: endpoint.clone(), bus: endpoint, hostname: None },
            labels: Labels::new(),
            weight: 1,
        };
        let settings = ClusterSettings::default();
        let slots = SlotRanges::from(SlotId::FIRST);
        let seen = TableVersion(2);
        for change in [
            TableChange::InitCluster { settings },
            TableChange::AddNode { node },
            TableChange::AssignSlots { slots, to: NODE, seen },
        ] {
            assert_eq!(apply(&mut table, 0, change).all(), Ok(()));
        }
        let row = *table.rows.row(SlotId::FIRST);
        let followers = row.owner.map_or(NodeSet::EMPTY, NodeSet::single);
        table.rows.install(SlotId::FIRST, Row { followers, ..row });
        table
    }

    #[test]
    fn a_slot_that_would_break_an_invariant_is_refused_alone() {
        let mut table = unsound();
        let before = table.clone();
        let slots = [SlotId::FIRST, SlotId::LAST].into_iter().collect();
        let change = TableChange::SetAck { slots, mode: AckMode::Local };
        let verdicts = apply(&mut table, 0, change);
        assert_eq!(verdicts.slot(SlotId::FIRST), Some(Err(BROKEN)));
        assert_eq!(verdicts.broken(), Some(Broken::OwnerFollows));
        assert_eq!(verdicts.slot(SlotId::LAST), Some(Ok(())));
        assert_eq!(table.changed_since(&before), SlotRanges::from(SlotId::LAST));
    }

    #[test]
    fn a_start_that_would_break_an_invariant_changes_nothing() {
        let mut table = unsound();
        let before = table.clone();
        let start = TableChange::NodeBoot {
            node: NODE,
            boot: Boot(1),
            nonce: Nonce::from_bytes([1; 8]),
            kept: Kept::All,
            alone: Default::default(),
            except: SlotRanges::new(),
        };
        let verdicts = apply(&mut table, 1, start);
        assert_eq!(verdicts.whole(), Err(BROKEN));
        assert_eq!(verdicts.broken(), Some(Broken::OwnerFollows));
        assert!(table.changed_since(&before).is_empty());
        assert!(table.nodes().eq(before.nodes()));
    }
}
