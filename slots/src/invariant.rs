//! What must hold of every row, checked on the result of a change before it is installed.
//!
//! Not the rules of single changes (`apply/`): those should make this check superfluous. A row
//! that breaks one is refused and reported loudly; it never stops a node.

use crate::ids::TableVersion;
use crate::members::{MAX_FOLLOWERS, NodeSet, Nodes};
use crate::node::NodeState;
use crate::row::Row;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An invariant that a change would have broken: a defect of ours, never the proposer's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Broken {
    /// A row would name a node that is not in the table, or is removed.
    NodeGone,
    /// A set would be unsorted, hold a node twice, or be too large.
    BadSet,
    /// An owned slot's owner would not be in its in-sync set.
    OwnerNotInSync,
    /// A slot without owner would have members, a move or a removed member.
    UnownedHasMembers,
    /// A slot's epoch would fall.
    EpochFell,
    /// A slot's ver would fall, or be below its epoch.
    VerFell,
    /// Owner or members would change without a new epoch or ver, or one from the future come.
    VersionMismatch,
    /// A move's target would be the owner.
    MoveToOwner,
    /// The owner would be its own follower.
    OwnerFollows,
    /// A member in sync would be recorded as removed.
    MemberRemoved,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broken::NodeGone => "a row names a node that is removed or not in the table",
            Broken::BadSet => "a set of nodes is unsorted, too large or holds a node twice",
            Broken::OwnerNotInSync => "the owner is not in the in-sync set",
            Broken::UnownedHasMembers => "a slot without owner has members",
            Broken::EpochFell => "the epoch falls",
            Broken::VerFell => "the ver falls",
            Broken::VersionMismatch => "owner or members change without a new version",
            Broken::MoveToOwner => "a move's target is the owner",
            Broken::OwnerFollows => "the owner is its own follower",
            Broken::MemberRemoved => "a member in sync is recorded as removed",
        })
    }
}

/// Whether `next` may stand where `before` stood, installed by the entry `version`.
pub(crate) fn check_step(
    nodes: &Nodes,
    before: &Row,
    next: &Row,
    version: TableVersion,
) -> Result<(), Broken> {
    check_row(nodes, next)?;
    if next.epoch < before.epoch {
        return Err(Broken::EpochFell);
    }
    if next.ver < before.ver {
        return Err(Broken::VerFell);
    }
    let new_epoch = next.epoch.began_at() == version;
    let new_ver = next.ver == version;
    let epoch_due = next.owner != before.owner;
    let ver_due = next.in_sync != before.in_sync || next.epoch != before.epoch;
    let epoch_fits = if epoch_due { new_epoch } else { new_epoch || next.epoch == before.epoch };
    let ver_fits = if ver_due { new_ver } else { new_ver || next.ver == before.ver };
    if epoch_fits && ver_fits { Ok(()) } else { Err(Broken::VersionMismatch) }
}

/// Whether a row is sound by itself.
pub(crate) fn check_row(nodes: &Nodes, row: &Row) -> Result<(), Broken> {
    let present = |ix| nodes.row(ix).is_some_and(|node| node.state != NodeState::Removed);
    let set_present = |set: &NodeSet| set.iter().all(present);
    let removed = row.last_removed.map(|removal| removal.node);
    let target = row.planned.map(|planned| planned.to);
    let singles = [row.owner, removed, target];
    if !singles.into_iter().flatten().all(present)
        || !set_present(&row.in_sync)
        || !set_present(&row.followers)
    {
        return Err(Broken::NodeGone);
    }
    let sets_sound = row.in_sync.is_canonical(nodes) && row.followers.is_canonical(nodes);
    if !sets_sound || row.followers.len() > MAX_FOLLOWERS {
        return Err(Broken::BadSet);
    }
    if row.ver < row.epoch.began_at() {
        return Err(Broken::VerFell);
    }
    let Some(owner) = row.owner else {
        let bare = row.in_sync.is_empty() && row.followers.is_empty();
        let idle = row.planned.is_none() && row.last_removed.is_none();
        return if bare && idle { Ok(()) } else { Err(Broken::UnownedHasMembers) };
    };
    if !row.in_sync.contains(owner) {
        return Err(Broken::OwnerNotInSync);
    }
    if target == Some(owner) {
        return Err(Broken::MoveToOwner);
    }
    if row.followers.contains(owner) {
        return Err(Broken::OwnerFollows);
    }
    if removed.is_some_and(|node| row.in_sync.contains(node)) {
        return Err(Broken::MemberRemoved);
    }
    Ok(())
}
