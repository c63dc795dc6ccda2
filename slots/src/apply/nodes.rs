//! Changes of settings and node rows: installed whole or refused whole.
//!
//! Not the start of a node (`boot.rs`).
//!
//! Invariant: ids, data directories and names of live nodes stay unique; a removed node is named
//! by no slot row.

use super::{Staged, live};
use crate::change::{ClusterSettings, NewNode, Proposal, TableChange};
use crate::ids::{Boot, NodeId};
use crate::members::{MAX_IN_SYNC, MAX_NODES, NodeIx, Nodes};
use crate::node::{Addresses, MAX_LABELS, MAX_WEIGHT, NodeRow, NodeState, TextField, check_text};
use crate::row::Row;
use crate::table::{Cluster, SlotTable};
use crate::verdict::{ChangeRefused, Verdict, Verdicts};

impl SlotTable {
    /// Applies a change that is not judged by slots.
    pub(super) fn apply_whole(&mut self, proposal: &Proposal) -> Result<Verdicts, ChangeRefused> {
        let mut nodes = Nodes::clone(&self.nodes);
        let mut staged = Staged::new();
        match &proposal.change {
            TableChange::InitCluster { settings } => {
                check_settings(settings)?;
                self.cluster = Some(Cluster { id: proposal.cluster, settings: *settings });
            }
            TableChange::SetCluster { settings } => self.set_cluster(settings)?,
            TableChange::AddNode { node } => add(&mut nodes, node)?,
            TableChange::Rename { node, name } => rename(&mut nodes, *node, name)?,
            TableChange::SetAddress { node, addresses } => {
                set_address(&mut nodes, *node, addresses)?;
            }
            TableChange::Label { node, key, value } => {
                label(&mut nodes, *node, key, value.as_deref())?;
            }
            TableChange::Weight { node, weight } => {
                check_limit(u64::from(*weight), u64::from(MAX_WEIGHT))?;
                change(&mut nodes, *node, |row| row.weight = *weight)?;
            }
            TableChange::Drain { node } => {
                change(&mut nodes, *node, |row| row.state = NodeState::Draining)?;
            }
            TableChange::Undrain { node } => {
                change(&mut nodes, *node, |row| row.state = NodeState::Active)?;
            }
            TableChange::RemoveNode { node } => staged = self.remove(&mut nodes, *node)?,
            TableChange::DropTombstone { node } => self.drop_tombstone(&mut nodes, *node)?,
            TableChange::NodeBoot { .. } => staged = self.boot(&mut nodes, proposal)?,
            // Every other change names slots.
            _ => {}
        }
        self.install_whole(proposal, nodes, staged)
    }

    fn set_cluster(&mut self, settings: &ClusterSettings) -> Verdict {
        check_settings(settings)?;
        let cluster = self.cluster.as_mut().ok_or(ChangeRefused::NoCluster)?;
        let before = cluster.settings;
        if settings.generation < before.generation
            || settings.format_version < before.format_version
        {
            return Err(ChangeRefused::SettingFell);
        }
        cluster.settings = *settings;
        Ok(())
    }

    /// Refuses an unknown node and one that owns a slot, is in sync for one or is the target of a
    /// move. On a tombstone nothing changes.
    fn remove(&self, nodes: &mut Nodes, node: NodeId) -> Result<Staged, ChangeRefused> {
        let ix = nodes.find(node).ok_or(ChangeRefused::UnknownNode { node })?;
        if let Some(slot) = self.rows.first(|row| row.owner == Some(ix)) {
            return Err(ChangeRefused::StillOwns { slot });
        }
        if let Some(slot) = self.rows.first(|row| row.in_sync.contains(ix)) {
            return Err(ChangeRefused::StillInSync { slot });
        }
        if let Some(slot) = self.rows.first(|row| row.planned.is_some_and(|p| p.to == ix)) {
            return Err(ChangeRefused::StillTarget { slot });
        }
        if let Some(row) = nodes.row_mut(ix) {
            row.state = NodeState::Removed;
        }
        let naming = self.rows.iter().filter(|(_, row)| row.names(ix));
        Ok(naming.map(|(slot, row)| (slot, forgetting(row, ix).into())).collect())
    }

    fn drop_tombstone(&self, nodes: &mut Nodes, node: NodeId) -> Verdict {
        let ix = nodes.find(node).ok_or(ChangeRefused::UnknownNode { node })?;
        let removed = nodes.row(ix).is_some_and(|row| row.state == NodeState::Removed);
        if !removed || self.rows.first(|row| row.names(ix)).is_some() {
            return Err(ChangeRefused::NotRemoved { node });
        }
        nodes.forget(ix);
        Ok(())
    }
}

fn forgetting(row: &Row, node: NodeIx) -> Row {
    let mut next = *row;
    next.followers = row.followers.without(node);
    next.last_removed = row.last_removed.filter(|removal| removal.node != node);
    next
}

fn check_limit(got: u64, limit: u64) -> Verdict {
    if got <= limit { Ok(()) } else { Err(ChangeRefused::OutOfLimits { limit, got }) }
}

fn check_settings(settings: &ClusterSettings) -> Verdict {
    for copies in [settings.default_rf, settings.min_in_sync] {
        let (limit, got) = (MAX_IN_SYNC as u64, u64::from(copies));
        if got == 0 {
            return Err(ChangeRefused::OutOfLimits { limit, got });
        }
        check_limit(got, limit)?;
    }
    Ok(())
}

fn change(nodes: &mut Nodes, node: NodeId, edit: impl FnOnce(&mut NodeRow)) -> Verdict {
    let ix = live(nodes, node)?;
    edit(nodes.row_mut(ix).ok_or(ChangeRefused::UnknownNode { node })?);
    Ok(())
}

/// Refuses: id, data directory or name in use (a tombstone keeps the first two), texts and
/// numbers out of their limits, a full table.
fn add(nodes: &mut Nodes, new: &NewNode) -> Verdict {
    if nodes.find(new.id).is_some() {
        return Err(ChangeRefused::IdInUse { node: new.id });
    }
    if let Some(row) = nodes.iter().find(|row| row.store == new.store) {
        return Err(ChangeRefused::StoreInUse { node: row.id });
    }
    check_name(nodes, new.id, &new.name)?;
    new.addresses.check()?;
    check_limit(u64::from(new.weight), u64::from(MAX_WEIGHT))?;
    if new.labels.len() > MAX_LABELS {
        return Err(ChangeRefused::TooManyLabels { limit: MAX_LABELS });
    }
    for (key, value) in &new.labels {
        check_text(TextField::LabelKey, key)?;
        check_text(TextField::LabelValue, value)?;
    }
    let row = NodeRow {
        id: new.id,
        name: new.name.clone(),
        store: new.store,
        boot: Boot(0),
        nonce: None,
        addresses: new.addresses.clone(),
        labels: new.labels.clone(),
        weight: new.weight,
        state: NodeState::Active,
    };
    let full = ChangeRefused::TooManyNodes { limit: MAX_NODES };
    if nodes.len() == MAX_NODES {
        return Err(full);
    }
    nodes.add(row).map(|_| ()).ok_or(full)
}

fn check_name(nodes: &Nodes, node: NodeId, name: &str) -> Verdict {
    check_text(TextField::Name, name)?;
    let holder = nodes.iter().find(|row| row.name == name && row.state != NodeState::Removed);
    match holder {
        Some(row) if row.id != node => Err(ChangeRefused::NameInUse { node: row.id }),
        _ => Ok(()),
    }
}

fn rename(nodes: &mut Nodes, node: NodeId, name: &str) -> Verdict {
    check_name(nodes, node, name)?;
    change(nodes, node, |row| name.clone_into(&mut row.name))
}

fn set_address(nodes: &mut Nodes, node: NodeId, addresses: &Addresses) -> Verdict {
    addresses.check()?;
    change(nodes, node, |row| row.addresses.clone_from(addresses))
}

fn label(nodes: &mut Nodes, node: NodeId, key: &str, value: Option<&str>) -> Verdict {
    check_text(TextField::LabelKey, key)?;
    let ix = live(nodes, node)?;
    let row = nodes.row_mut(ix).ok_or(ChangeRefused::UnknownNode { node })?;
    let Some(value) = value else {
        row.labels.remove(key);
        return Ok(());
    };
    check_text(TextField::LabelValue, value)?;
    if row.labels.len() >= MAX_LABELS && !row.labels.contains_key(key) {
        return Err(ChangeRefused::TooManyLabels { limit: MAX_LABELS });
    }
    row.labels.insert(key.to_owned(), value.to_owned());
    Ok(())
}
