//! The slot table: who owns each slot, who holds it, and the nodes they are.
//!
//! Not the authority to change it: it changes only by entries of the replicated log, through
//! `apply` (`apply.rs`). Nothing here knows keys, connections or time.
//!
//! Invariant: every row passed `invariant.rs`; two tables that applied the same entries are equal.
//! Cloning is cheap (128 pointers): a copy shares all rows that have not changed since.

use crate::change::ClusterSettings;
use crate::ids::{ClusterId, NodeId, TableVersion};
use crate::invariant::{Broken, check_row};
use crate::members::Nodes;
use crate::node::{NodeRow, NodeState};
use crate::ranges::{SlotRange, SlotRanges};
use crate::row::{Row, SlotRow};
use crate::slot::{SLOTS, SlotId};
use crate::verdict::{Loss, LossCause};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Records of possible loss a table keeps, the newest: enough for an operator to read, and to
/// print whole.
pub const MAX_LOSSES: usize = 64;
/// Slots whose lost tails the kept records may name together: one for each slot there is.
pub const MAX_LOSS_TAILS: usize = SLOTS;

/// Rows that are copied together when one of them changes: 10 KiB.
const CHUNK_ROWS: usize = 128;

/// The cluster a table is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id, made at its founding.
    pub id: ClusterId,
    /// Its settings.
    pub settings: ClusterSettings,
}

/// The table at one version.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TableImage", into = "TableImage")]
pub struct SlotTable {
    pub(crate) version: TableVersion,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) rows: Rows,
    losses: Arc<VecDeque<Loss>>,
}

impl SlotTable {
    /// The table before its first entry: no cluster, no nodes, no owners.
    pub fn new() -> SlotTable {
        SlotTable {
            version: TableVersion(0),
            cluster: None,
            nodes: Arc::default(),
            rows: Rows::new(),
            losses: Arc::default(),
        }
    }

    /// The last applied entry.
    pub fn version(&self) -> TableVersion {
        self.version
    }

    /// The cluster; `None` before its founding.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// A slot's row.
    pub fn slot(&self, slot: SlotId) -> SlotRow<'_> {
        SlotRow { row: self.rows.row(slot), nodes: &self.nodes }
    }

    /// A slot's owner.
    pub fn owner(&self, slot: SlotId) -> Option<NodeId> {
        self.slot(slot).owner()
    }

    /// The row of a slot's owner: whom `MOVED` names.
    pub fn owner_row(&self, slot: SlotId) -> Option<&NodeRow> {
        self.nodes.row(self.rows.row(slot).owner?)
    }

    /// A node's row; tombstones too.
    pub fn node(&self, id: NodeId) -> Option<&NodeRow> {
        self.nodes.row(self.nodes.find(id)?)
    }

    /// The node of this name that is not removed.
    pub fn node_named(&self, name: &str) -> Option<&NodeRow> {
        self.nodes().find(|row| row.name == name)
    }

    /// The nodes that are not removed, in order of id.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRow> {
        self.nodes.iter().filter(|row| row.state != NodeState::Removed)
    }

    /// The removed nodes whose ids are still remembered, in order of id.
    pub fn tombstones(&self) -> impl Iterator<Item = &NodeRow> {
        self.nodes.iter().filter(|row| row.state == NodeState::Removed)
    }

    /// The slots a node owns.
    pub fn slots_of(&self, node: NodeId) -> SlotRanges {
        let owner = self.nodes.find(node);
        self.rows.select(|row| owner.is_some() && row.owner == owner)
    }

    /// The slots nobody owns.
    pub fn unassigned(&self) -> SlotRanges {
        self.rows.select(|row| row.owner.is_none())
    }

    /// The owned slots as runs of one owner, in order of slots: what CLUSTER SLOTS lists.
    pub fn owned_runs(&self) -> Vec<(SlotRange, NodeId)> {
        let owned = self.rows.runs(|a, b| a.owner == b.owner).into_iter();
        owned.filter_map(|(run, row)| row.owner.map(|ix| (run, self.nodes.id(ix)))).collect()
    }

    /// The newest records of possible loss, the oldest first; `MAX_LOSSES` at most.
    pub fn losses(&self) -> impl Iterator<Item = &Loss> {
        self.losses.iter()
    }

    /// The slots whose rows differ from an older copy's. Rows the copies share cost nothing.
    pub fn changed_since(&self, older: &SlotTable) -> SlotRanges {
        // With other nodes an equal index may name another node: then every row is read.
        let same_nodes = Arc::ptr_eq(&self.nodes, &older.nodes);
        SlotId::all()
            .filter(|slot| !same_nodes || !self.rows.shares_chunk(&older.rows, *slot))
            .filter(|slot| self.slot(*slot) != older.slot(*slot))
            .collect()
    }

    /// An entry of the log without a change (a new leader's first, a change of voters) was passed:
    /// the version follows the log's index. An older version changes nothing.
    pub fn advance(&mut self, version: TableVersion) {
        self.version = self.version.max(version);
    }

    /// Keeps records of possible loss; the oldest go when there are too many.
    pub(crate) fn record(&mut self, new: &[Loss]) {
        if new.is_empty() {
            return;
        }
        let losses = Arc::make_mut(&mut self.losses);
        losses.extend(new.iter().cloned());
        let tails = |losses: &VecDeque<Loss>| losses.iter().map(|l| l.tails.len()).sum::<usize>();
        while losses.len() > MAX_LOSSES || tails(losses) > MAX_LOSS_TAILS {
            losses.pop_front();
        }
    }
}

impl Default for SlotTable {
    fn default() -> SlotTable {
        SlotTable::new()
    }
}

impl fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owned = self.owned_runs();
        f.debug_struct("SlotTable")
            .field("version", &self.version)
            .field("cluster", &self.cluster)
            .field("nodes", &Vec::from_iter(self.nodes.iter()))
            .field("owned", &owned)
            .finish_non_exhaustive()
    }
}

/// All rows, in chunks that copies of the table share until one of them changes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Rows(Vec<Arc<[Row; CHUNK_ROWS]>>);

impl Rows {
    fn new() -> Rows {
        let empty = Arc::new([Row::default(); CHUNK_ROWS]);
        Rows(vec![empty; SLOTS / CHUNK_ROWS])
    }

    pub(crate) fn row(&self, slot: SlotId) -> &Row {
        &self.0[slot.index() / CHUNK_ROWS][slot.index() % CHUNK_ROWS]
    }

    /// Puts a row in its place; a row that is there already copies nothing.
    pub(crate) fn install(&mut self, slot: SlotId, row: Row) {
        if *self.row(slot) != row {
            let chunk = Arc::make_mut(&mut self.0[slot.index() / CHUNK_ROWS]);
            chunk[slot.index() % CHUNK_ROWS] = row;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, &Row)> {
        SlotId::all().map(|slot| (slot, self.row(slot)))
    }

    /// The lowest slot whose row is like this.
    pub(crate) fn first(&self, like: impl Fn(&Row) -> bool) -> Option<SlotId> {
        self.iter().find(|(_, row)| like(row)).map(|(slot, _)| slot)
    }

    fn select(&self, keep: impl Fn(&Row) -> bool) -> SlotRanges {
        self.iter().filter(|(_, row)| keep(row)).map(|(slot, _)| slot).collect()
    }

    fn shares_chunk(&self, other: &Rows, slot: SlotId) -> bool {
        let chunk = slot.index() / CHUNK_ROWS;
        Arc::ptr_eq(&self.0[chunk], &other.0[chunk])
    }

    /// Neighbouring slots with equal rows, as runs with the row of their first slot.
    fn runs(&self, equal: impl Fn(&Row, &Row) -> bool) -> Vec<(SlotRange, Row)> {
        let mut runs: Vec<(SlotRange, Row)> = Vec::new();
        for (slot, row) in self.iter() {
            match runs.last_mut().filter(|(_, first)| equal(first, row)) {
                Some((run, _)) => *run = run.up_to(slot),
                None => runs.push((SlotRange::single(slot), *row)),
            }
        }
        runs
    }
}

/// A table as it is stored and sent: rows as runs of equal ones, nodes by their places.
#[derive(Serialize, Deserialize)]
struct TableImage {
    version: TableVersion,
    cluster: Option<Cluster>,
    nodes: Vec<Option<NodeRow>>,
    runs: Vec<(SlotRange, Row)>,
    losses: Vec<Loss>,
}

impl From<SlotTable> for TableImage {
    fn from(table: SlotTable) -> TableImage {
        TableImage {
            version: table.version,
            cluster: table.cluster,
            nodes: table.nodes.places().map(Option::<&NodeRow>::cloned).collect(),
            runs: table.rows.runs(|a, b| a == b),
            losses: table.losses.iter().cloned().collect(),
        }
    }
}

/// Why a stored table is none: it was damaged or made by other code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadImage {
    /// Two nodes with one id, or too many nodes.
    Nodes,
    /// Runs that do not name every slot once, in order.
    Runs,
    /// More records of loss than a table keeps.
    Losses,
    /// A row from a later version than the table's.
    Version {
        /// The slot.
        slot: SlotId,
    },
    /// A row that breaks an invariant.
    Row {
        /// The slot.
        slot: SlotId,
        /// What it breaks.
        broken: Broken,
    },
}

impl fmt::Display for BadImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stored slot table is damaged: ")?;
        match self {
            BadImage::Nodes => f.write_str("nodes are doubled or too many"),
            BadImage::Runs => f.write_str("slots are missing, doubled or out of order"),
            BadImage::Losses => f.write_str("too many records of loss"),
            BadImage::Version { slot } => write!(f, "slot {slot} is newer than the table"),
            BadImage::Row { slot, broken } => write!(f, "slot {slot}: {broken}"),
        }
    }
}

impl std::error::Error for BadImage {}

impl TryFrom<TableImage> for SlotTable {
    type Error = BadImage;

    fn try_from(image: TableImage) -> Result<SlotTable, BadImage> {
        let nodes = Nodes::from_places(image.nodes).ok_or(BadImage::Nodes)?;
        if image.losses.len() > MAX_LOSSES {
            return Err(BadImage::Losses);
        }
        let mut rows = Rows::new();
        let mut due = Some(SlotId::FIRST);
        for (run, row) in image.runs {
            let slot = run.first();
            if due != Some(slot) {
                return Err(BadImage::Runs);
            }
            due = run.last().next();
            check_row(&nodes, &row).map_err(|broken| BadImage::Row { slot, broken })?;
            if row.ver > image.version {
                return Err(BadImage::Version { slot });
            }
            run.slots().for_each(|slot| rows.install(slot, row));
        }
        if due.is_some() {
            return Err(BadImage::Runs);
        }
        let losses = Arc::new(VecDeque::from(image.losses));
        let (version, cluster) = (image.version, image.cluster);
        Ok(SlotTable { version, cluster, nodes: Arc::new(nodes), rows, losses })
    }
}

/// What a change may have lost, gathered slot by slot.
pub(crate) type LossSlots = BTreeMap<LossCause, SlotRanges>;
