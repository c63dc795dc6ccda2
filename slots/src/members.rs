//! The nodes of a table and small sets of them, by index: what keeps 16,384 rows compact.
//!
//! Not public: outside this crate nodes are named by `NodeId`.
//!
//! Invariant: an index names the same node on every replica of the table, and a set is sorted by
//! node id, so equal sets are equal bytes. An index is given out again only when no row names it.

use crate::ids::NodeId;
use crate::node::NodeRow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Most members of a slot's in-sync set: every write waits for all of them.
pub const MAX_IN_SYNC: usize = 7;
/// Most followers wanted of a slot: with the owner they fill the in-sync set.
pub const MAX_FOLLOWERS: usize = MAX_IN_SYNC - 1;
/// Most nodes of a table, tombstones counted: thousands of learners, and far below what an index
/// can name.
pub const MAX_NODES: usize = 4096;

/// A node's place in `Nodes`, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct NodeIx(NonZeroU16);

impl NodeIx {
    fn of_place(place: usize) -> Option<NodeIx> {
        let number = u16::try_from(place + 1).ok().filter(|_| place < MAX_NODES)?;
        NonZeroU16::new(number).map(NodeIx)
    }

    const fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// All node rows. Rows are shared between copies of the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Nodes {
    rows: Vec<Option<Arc<NodeRow>>>,
    by_id: BTreeMap<NodeId, NodeIx>,
}

impl Nodes {
    /// The nodes of a stored table; `None` if two have one id or they are too many.
    pub(crate) fn from_places(rows: Vec<Option<NodeRow>>) -> Option<Nodes> {
        let mut by_id = BTreeMap::new();
        for (place, row) in rows.iter().enumerate() {
            let ix = NodeIx::of_place(place)?;
            if row.as_ref().is_some_and(|row| by_id.insert(row.id, ix).is_some()) {
                return None;
            }
        }
        Some(Nodes { rows: rows.into_iter().map(|row| row.map(Arc::new)).collect(), by_id })
    }

    /// The rows by place, gaps kept: what is stored.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&NodeRow>> {
        self.rows.iter().map(|row| row.as_deref())
    }

    /// Rows in order of node id, tombstones included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &NodeRow> {
        self.by_id.values().filter_map(|ix| self.row(*ix))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn find(&self, id: NodeId) -> Option<NodeIx> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn row(&self, ix: NodeIx) -> Option<&NodeRow> {
        self.rows.get(ix.place())?.as_deref()
    }

    /// The id of a node a slot row names. All-zero for an index no row may hold: the invariants
    /// are checked before a row is installed.
    pub(crate) fn id(&self, ix: NodeIx) -> NodeId {
        self.row(ix).map_or(NodeId::from_bytes([0; 20]), |row| row.id)
    }

    /// Changes a row in a copy of its own.
    pub(crate) fn row_mut(&mut self, ix: NodeIx) -> Option<&mut NodeRow> {
        self.rows.get_mut(ix.place())?.as_mut().map(Arc::make_mut)
    }

    /// Adds a row at the lowest free place. `None` if its id is there or the table is full.
    pub(crate) fn add(&mut self, row: NodeRow) -> Option<NodeIx> {
        if self.by_id.contains_key(&row.id) {
            return None;
        }
        let free = self.rows.iter().position(Option::is_none);
        let ix = NodeIx::of_place(free.unwrap_or(self.rows.len()))?;
        self.by_id.insert(row.id, ix);
        let row = Some(Arc::new(row));
        match free {
            Some(place) => self.rows[place] = row,
            None => self.rows.push(row),
        }
        Some(ix)
    }

    /// Forgets a row and frees its place. Only for a node that no slot row names.
    pub(crate) fn forget(&mut self, ix: NodeIx) {
        if let Some(row) = self.rows.get_mut(ix.place()).and_then(Option::take) {
            self.by_id.remove(&row.id);
        }
    }
}

/// Up to `MAX_IN_SYNC` nodes, sorted by node id, packed to the front. Stored as a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<NodeIx>", into = "Vec<NodeIx>")]
pub(crate) struct NodeSet([Option<NodeIx>; MAX_IN_SYNC]);

impl From<NodeSet> for Vec<NodeIx> {
    fn from(set: NodeSet) -> Vec<NodeIx> {
        set.iter().collect()
    }
}

/// Takes any list that fits; whether it is canonical is checked with the row.
impl TryFrom<Vec<NodeIx>> for NodeSet {
    type Error = &'static str;

    fn try_from(list: Vec<NodeIx>) -> Result<NodeSet, &'static str> {
        let mut set = NodeSet::EMPTY;
        if list.len() > MAX_IN_SYNC {
            return Err("a set of nodes is too large");
        }
        for (place, node) in set.0.iter_mut().zip(list) {
            *place = Some(node);
        }
        Ok(set)
    }
}

impl NodeSet {
    pub(crate) const EMPTY: NodeSet = NodeSet([None; MAX_IN_SYNC]);

    pub(crate) const fn single(ix: NodeIx) -> NodeSet {
        let mut set = NodeSet::EMPTY;
        set.0[0] = Some(ix);
        set
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeIx> + Clone {
        self.0.into_iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(crate) fn contains(&self, ix: NodeIx) -> bool {
        self.iter().any(|member| member == ix)
    }

    /// Whether `ix` is the only member.
    pub(crate) fn is_only(&self, ix: NodeIx) -> bool {
        *self == NodeSet::single(ix)
    }

    /// The member that serves for all when one must be chosen without asking: number `n` modulo
    /// size, in order of node id. Spreads neighbouring slots over the members.
    pub(crate) fn choose(&self, n: usize) -> Option<NodeIx> {
        self.iter().nth(n.checked_rem(self.len())?)
    }

    /// The set with `ix` too; `None` if there is no room left.
    pub(crate) fn with(&self, ix: NodeIx, nodes: &Nodes) -> Option<NodeSet> {
        if self.contains(ix) {
            return Some(*self);
        }
        if self.len() == MAX_IN_SYNC {
            return None;
        }
        let mut members = self.0;
        members[self.len()] = Some(ix);
        members[..=self.len()].sort_by_key(|member| member.map(|ix| nodes.id(ix)));
        Some(NodeSet(members))
    }

    /// The set without `ix`.
    pub(crate) fn without(&self, ix: NodeIx) -> NodeSet {
        self.filtered(|member| member != ix)
    }

    /// The members that `keep` keeps.
    pub(crate) fn filtered(&self, keep: impl Fn(NodeIx) -> bool) -> NodeSet {
        let mut set = NodeSet::EMPTY;
        for (place, member) in set.0.iter_mut().zip(self.iter().filter(|ix| keep(*ix))) {
            *place = Some(member);
        }
        set
    }

    /// Whether it is stored as it must be: packed to the front, sorted, no node twice.
    pub(crate) fn is_canonical(&self, nodes: &Nodes) -> bool {
        let mut sorted = NodeSet::EMPTY;
        for member in self.iter() {
            let Some(next) = sorted.with(member, nodes) else { return false };
            sorted = next;
        }
        sorted == *self
    }
}
