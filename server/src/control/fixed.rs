//! The table of a node or a set of nodes that agreed on it beforehand.
//!
//! A node alone may change it (`CLUSTER ADDSLOTS`...): its proposals are committed on the spot.
//! Nodes that share a table from a file may not: there is no log between them yet, and a change
//! that the others do not learn of is just what this system is there to refuse.

use std::cell::Cell;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use slots::{
    Addresses, Boot, ClusterId, ClusterSettings, Kept, NewNode, NodeId, Nonce, Proposal, Proposer,
    SlotRanges, SlotTable, StoreId, TableChange, TableVersion,
};

use crate::control::orders::{Order, OrderError, Ordered, Orders, PeerView, View};
use crate::control::{CaughtUp, ProposeError, Proposed, TableLog};

/// Told of every new version of the table.
pub trait TableSink: Send + Sync {
    /// The table changed. Must not wait for a room.
    fn install(&self, table: Arc<SlotTable>);
}

/// A node of a table that is fixed at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundingNode {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub addresses: Addresses,
    /// What it owns.
    pub slots: SlotRanges,
}

/// The table's state before any log exists.
pub struct FixedTable {
    table: Mutex<SlotTable>,
    cluster: ClusterId,
    me: Proposer,
    others: Vec<NodeId>,
    sink: OnceLock<Weak<dyn TableSink>>,
}

impl FixedTable {
    /// Founds the table through the same changes a log would hold. `nodes` must not be empty
    /// and contain `me`; the error names what the table refused.
    pub fn found(
        cluster: ClusterId,
        me: NodeId,
        nodes: &[FoundingNode],
    ) -> Result<FixedTable, String> {
        let mut table = SlotTable::new();
        let by = Proposer { node: me, boot: Boot(1) };
        let versions = Cell::new(0);
        let mut propose = |by: Proposer, change: TableChange| {
            let name = change.name();
            versions.set(versions.get() + 1);
            let version = TableVersion(versions.get());
            let verdicts = table.apply(&Proposal { cluster, by, change }, version);
            verdicts.all().map_err(|refusal| format!("{name}: {refusal}"))
        };
        propose(by, TableChange::InitCluster { settings: ClusterSettings::default() })?;
        for node in nodes {
            propose(by, TableChange::AddNode { node: new_node(node) })?;
            let boot = TableChange::NodeBoot {
                node: node.id,
                boot: Boot(1),
                nonce: Nonce::from_bytes(first_bytes(node.id)),
                kept: Kept::All,
                alone: Default::default(),
                except: SlotRanges::new(),
            };
            propose(Proposer { node: node.id, boot: Boot(1) }, boot)?;
        }
        for node in nodes.iter().filter(|n| !n.slots.is_empty()) {
            // Each change so far was one version: the next is decided at the last.
            let seen = TableVersion(versions.get());
            let slots = node.slots.clone();
            propose(by, TableChange::AssignSlots { slots, to: node.id, seen })?;
        }
        if !nodes.iter().any(|n| n.id == me) {
            return Err(format!("the table has no node {me}"));
        }
        let others = nodes.iter().map(|n| n.id).filter(|id| *id != me).collect();
        let sink = OnceLock::new();
        Ok(FixedTable { table: Mutex::new(table), cluster, me: by, others, sink })
    }

    /// The table as it stands.
    pub fn table(&self) -> Arc<SlotTable> {
        Arc::new(self.table.lock().clone())
    }

    /// Names who is told of changes. Once.
    pub fn tell(&self, sink: Weak<dyn TableSink>) {
        let _ = self.sink.set(sink);
    }
}

fn new_node(node: &FoundingNode) -> NewNode {
    NewNode {
        id: node.id,
        name: node.name.clone(),
        store: StoreId::from_bytes(first_bytes(node.id)),
        addresses: node.addresses.clone(),
        labels: Default::default(),
        weight: slots::DEFAULT_WEIGHT,
    }
}

/// A founding node's store and nonce follow from its id: all nodes must found the same table.
fn first_bytes<const N: usize>(id: NodeId) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes.iter_mut().zip(id.bytes().iter().cycle()) {
        *to = *from;
    }
    bytes
}

impl TableLog for Arc<FixedTable> {
    fn propose(&self, change: TableChange, _actor: &str, done: Proposed) {
        if !self.others.is_empty() {
            return done(Err(ProposeError::Fixed));
        }
        let verdicts = {
            let mut table = self.table.lock();
            let version = TableVersion(table.version().0 + 1);
            let proposal = Proposal { cluster: self.cluster, by: self.me, change };
            let verdicts = table.apply(&proposal, version);
            // Under the lock: versions are installed in their order.
            if let Some(sink) = self.sink.get().and_then(Weak::upgrade) {
                sink.install(Arc::new(table.clone()));
            }
            verdicts
        };
        done(Ok(verdicts));
    }

    /// There is no other table to be behind of.
    fn catch_up(&self, done: CaughtUp) {
        done(true);
    }
}

/// No node comes or goes, and the others are taken to be there.
impl Orders for Arc<FixedTable> {
    fn order(&self, _: Order, _: &str, done: Ordered) {
        let text = "the slot table was fixed at the start: nodes can neither join nor leave it";
        done(Err(OrderError::Refused(text.to_owned())));
    }

    fn view(&self) -> View {
        let me = self.me.node;
        let others = self.others.iter().map(|node| PeerView {
            node: *node,
            connected: true,
            silent_ns: None,
            round_trip_ns: None,
            table_version: None,
            server_version: None,
            keys: None,
            linked_ns: None,
            unsent_bytes: 0,
        });
        View {
            leader: Some(me),
            has_quorum: true,
            voters: vec![me],
            peers: others.collect(),
            ..View::default()
        }
    }
}
