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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::AckMode;
    use crate::ids::{Boot, Epoch, MoveId, NodeId, StoreId};
    use crate::members::NodeIx;
    use crate::node::{Addresses, Endpoint, Labels, NodeRow};
    use crate::row::{Planned, Removal, RemovalCause};

    /// Three nodes and one that is removed.
    fn nodes() -> (Nodes, [NodeIx; 4]) {
        let mut nodes = Nodes::default();
        let places = [1u8, 2, 3, 4].map(|n| {
            let endpoint = Endpoint::new("", 1);
            let row = NodeRow {
                id: NodeId::from_bytes([n; 20]),
                name: format!("n{n}"),
                store: StoreId::from_bytes([n; 16]),
                boot: Boot(1),
                nonce: None,
                addresses: Addresses { client: endpoint.clone(), bus: endpoint, hostname: None },
                labels: Labels::new(),
                weight: 1,
                state: if n == 4 { NodeState::Removed } else { NodeState::Active },
            };
            nodes.add(row).expect("room")
        });
        (nodes, places)
    }

    /// Whether an edit of a sound row is refused as it should be, at version 9.
    fn check(edit: impl Fn(&mut Row, &Nodes, [NodeIx; 4]), expected: Result<(), Broken>) {
        let (nodes, places) = nodes();
        let [a, b, ..] = places;
        let before = Row {
            owner: Some(a),
            owner_since: TableVersion(3),
            epoch: Epoch(5),
            ver: TableVersion(6),
            in_sync: NodeSet::single(a),
            followers: NodeSet::single(b),
            last_removed: None,
            ack: AckMode::InSync,
            planned: None,
        };
        let mut next = before;
        edit(&mut next, &nodes, places);
        assert_eq!(check_step(&nodes, &before, &next, TableVersion(9)), expected);
    }

    fn removal(node: NodeIx) -> Option<Removal> {
        Some(Removal { node, cause: RemovalCause::Shrunk, at: TableVersion(6) })
    }

    fn planned(to: NodeIx) -> Option<Planned> {
        Some(Planned { id: MoveId::from_bytes([0; 8]), to })
    }

    #[test]
    fn sound_steps_pass() {
        check(|_, _, _| (), Ok(()));
        check(|row, _, [.., c, _]| row.planned = planned(c), Ok(()));
        check(|row, _, [_, b, ..]| row.last_removed = removal(b), Ok(()));
        check(|row, _, _| row.ver = TableVersion(9), Ok(()));
        check(|row, _, _| (row.epoch, row.ver) = (Epoch(9), TableVersion(9)), Ok(()));
    }

    #[test]
    fn rows_name_no_removed_node() {
        check(|row, _, [.., d]| row.followers = NodeSet::single(d), Err(Broken::NodeGone));
        check(|row, _, [.., d]| row.last_removed = removal(d), Err(Broken::NodeGone));
        check(|row, _, [.., d]| row.planned = planned(d), Err(Broken::NodeGone));
        check(|row, _, [.., d]| row.owner = Some(d), Err(Broken::NodeGone));
        check(
            |row, nodes, [a, _, _, d]| {
                row.in_sync = NodeSet::single(a).with(d, nodes).expect("room");
            },
            Err(Broken::NodeGone),
        );
    }

    #[test]
    fn the_owner_is_in_sync_and_nothing_else() {
        check(|row, _, [_, b, ..]| row.in_sync = NodeSet::single(b), Err(Broken::OwnerNotInSync));
        check(|row, _, _| row.in_sync = NodeSet::EMPTY, Err(Broken::OwnerNotInSync));
        check(|row, _, [a, ..]| row.planned = planned(a), Err(Broken::MoveToOwner));
        check(|row, _, [a, ..]| row.followers = NodeSet::single(a), Err(Broken::OwnerFollows));
        check(|row, _, [a, ..]| row.last_removed = removal(a), Err(Broken::MemberRemoved));
        check(|row, _, _| row.owner = None, Err(Broken::UnownedHasMembers));
    }

    #[test]
    fn epoch_and_ver_never_fall() {
        check(|row, _, _| row.epoch = Epoch(4), Err(Broken::EpochFell));
        check(|row, _, _| row.ver = TableVersion(5), Err(Broken::VerFell));
        check(|row, _, _| row.epoch = Epoch(9), Err(Broken::VerFell));
    }

    #[test]
    fn owner_and_members_change_only_with_the_version() {
        let shared = |row: &mut Row, nodes: &Nodes, [a, b, ..]: [NodeIx; 4]| {
            row.in_sync = NodeSet::single(a).with(b, nodes).expect("room");
        };
        check(shared, Err(Broken::VersionMismatch));
        check(
            |row, nodes, places| {
                shared(row, nodes, places);
                row.followers = NodeSet::EMPTY;
                (row.owner, row.ver) = (Some(places[1]), TableVersion(9));
            },
            Err(Broken::VersionMismatch),
        );
        check(
            |row, _, _| (row.epoch, row.ver) = (Epoch(10), TableVersion(10)),
            Err(Broken::VersionMismatch),
        );
    }

    #[test]
    fn sets_are_canonical() {
        let (nodes, [a, b, c, _]) = nodes();
        let sorted = NodeSet::single(c).with(a, &nodes).and_then(|set| set.with(b, &nodes));
        assert_eq!(sorted.map(|set| set.iter().collect()), Some(vec![a, b, c]));
        for list in [vec![b, a], vec![a, a]] {
            let set = NodeSet::try_from(list).expect("fits");
            assert!(!set.is_canonical(&nodes));
            check(|row, _, _| row.in_sync = set, Err(Broken::BadSet));
        }
        assert!(NodeSet::try_from(vec![a; 8]).is_err());
    }
}
