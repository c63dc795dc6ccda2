//! Whole clusters in one runtime: in-memory stores, an in-process network whose links can be cut,
//! and time that passes when nobody has work.

mod barrier;
mod chaos;
mod compaction;
mod joining;
mod links;
mod memory;
mod removal;
mod replication;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slots::{
    Addresses, Boot, ClusterId, ClusterSettings, Endpoint, NewNode, NodeId, Nonce, SlotRanges,
    SlotTable, StoreId, TableChange, Verdicts,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::links::Links;
use self::memory::{Common, MemoryLog, MemoryMachine};
use super::codec;
use super::meet::{FORMAT_VERSION, MeetAnswer, MeetCall, Newcomer, Side};
use super::{Cluster, ClusterStart, Host};
use crate::control::orders::{Order, OrderDone, OrderError, Orders, View};
use crate::control::seat::Identity;
use crate::control::{ProposeError, TableLog};
use crate::peer::{CallError, CallKind};

/// For anything a test waits for; far beyond what any of it takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn node_id(n: u8) -> NodeId {
    NodeId::from_bytes([n; 20])
}

fn cluster_id(n: u8) -> ClusterId {
    ClusterId::from_bytes([n; 20])
}

fn new_node(n: u8) -> NewNode {
    let endpoint = |port| Endpoint::new("127.0.0.1", port + u16::from(n));
    NewNode {
        id: node_id(n),
        name: format!("node-{n}"),
        store: StoreId::from_bytes([n; 16]),
        addresses: Addresses { client: endpoint(7000), bus: endpoint(17_000), hostname: None },
        labels: Default::default(),
        weight: slots::DEFAULT_WEIGHT,
    }
}

fn slots(text: &str) -> SlotRanges {
    text.parse().expect("slots")
}

/// What a node is to its log.
#[derive(Default)]
struct Body {
    keys: AtomicU64,
    joins_back: Mutex<Vec<NodeId>>,
    vote_was_taken: AtomicBool,
}

impl Host for Body {
    fn unix_ms(&self) -> u64 {
        1
    }

    fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    fn vote_taken(&self) {
        self.vote_was_taken.store(true, Ordering::Relaxed);
    }

    fn join_back(&self, from: NodeId, _bus: Endpoint) {
        self.joins_back.lock().push(from);
    }
}

/// A node that runs.
struct Member {
    n: u8,
    boot: u64,
    log: MemoryLog,
    machine: MemoryMachine,
    body: Arc<Body>,
    cluster: Arc<Cluster>,
}

/// A number of nodes of one cluster, and their network.
struct Town {
    links: Arc<Links>,
    history: Common,
    members: BTreeMap<u8, Member>,
    /// Nodes whose next start has lost what they promised.
    forgetful: BTreeSet<u8>,
}

impl Town {
    fn empty() -> Town {
        Town {
            links: Links::new(),
            history: Common::default(),
            members: BTreeMap::new(),
            forgetful: BTreeSet::new(),
        }
    }

    /// A cluster of node 1.
    async fn founded() -> Town {
        let mut town = Town::empty();
        town.start(1, cluster_id(1)).await;
        let first = &town.members[&1].cluster;
        let founded = first.found(ClusterSettings::default(), new_node(1), "itself").await;
        assert_eq!(founded, Ok(()));
        town.boot(1).await;
        town
    }

    /// A cluster of nodes 1 to `n`, with the voters it should have.
    async fn of(n: u8) -> Town {
        let mut town = Town::founded().await;
        for newcomer in 2..=n {
            town.join(newcomer).await;
        }
        let wanted = super::wanted_voters(usize::from(n));
        town.until("voters are as wanted", |town| {
            let view = town.view(1);
            view.voters.len() == wanted && view.learners.len() == usize::from(n) - wanted
        })
        .await;
        town
    }

    /// Starts a node with empty stores.
    async fn start(&mut self, n: u8, cluster: ClusterId) {
        // Nodes of other clusters have a history of their own.
        let machine = match cluster == cluster_id(1) {
            true => MemoryMachine::in_common(&self.history),
            false => MemoryMachine::default(),
        };
        let log = MemoryLog::default();
        self.start_with(n, cluster, 1, log, machine).await;
    }

    async fn start_with(
        &mut self,
        n: u8,
        cluster: ClusterId,
        boot: u64,
        log: MemoryLog,
        machine: MemoryMachine,
    ) {
        let body = Arc::new(Body::default());
        let identity = Identity {
            node: node_id(n),
            store: StoreId::from_bytes([n; 16]),
            boot: Boot(boot),
            nonce: Nonce::from_bytes([boot as u8; 8]),
        };
        let start = ClusterStart {
            identity,
            cluster,
            log: log.clone(),
            log_bytes: Box::new(|| 0),
            may_vote: !self.forgetful.contains(&n),
            machine: machine.clone(),
            table: machine.table(),
            calls: self.links.port(node_id(n)),
            host: Arc::clone(&body) as Arc<dyn Host>,
        };
        let cluster = Cluster::start(start).await.expect("the log starts");
        self.links.plug(node_id(n), &cluster);
        self.members.insert(n, Member { n, boot, log, machine, body, cluster });
    }

    /// Stops a node and forgets what it had in memory; gives back what it had stored.
    async fn stop(&mut self, n: u8) -> Member {
        let member = self.members.remove(&n).expect("it runs");
        self.links.unplug(node_id(n));
        member.cluster.shutdown().await;
        member
    }

    async fn restart(&mut self, member: Member) {
        let Member { n, boot, log, machine, .. } = member;
        let cluster = member.cluster.id();
        self.start_with(n, cluster, boot + 1, log, machine).await;
    }

    /// What a node proposes at its start.
    async fn boot(&self, n: u8) {
        let member = &self.members[&n];
        let boot = TableChange::NodeBoot {
            node: node_id(n),
            boot: Boot(member.boot),
            nonce: Nonce::from_bytes([member.boot as u8; 8]),
            kept: slots::Kept::All,
            alone: Default::default(),
            except: SlotRanges::new(),
        };
        let verdicts = propose(&member.cluster, boot).await.expect("it is committed");
        assert_eq!(verdicts.all(), Ok(()));
    }

    /// Starts node `n`, meets node 1, and boots.
    async fn join(&mut self, n: u8) {
        self.start(n, cluster_id(1)).await;
        let met = self.meet(n, 1, "", 0).await;
        assert!(matches!(met, MeetAnswer::Accepted { .. }), "{met:?}");
        self.until("the log reaches it", |town| town.table(n).node(node_id(n)).is_some()).await;
        self.boot(n).await;
    }

    /// A node without a cluster, or of one of its own, asks node `to`.
    async fn meet(&self, n: u8, to: u8, brings: &str, keys: u64) -> MeetAnswer {
        let side = Side {
            node: node_id(n),
            cluster: (!brings.is_empty()).then(|| cluster_id(n)),
            generation: 1,
            nodes: 1,
            slots: brings.parse().unwrap_or_default(),
            keys,
            format_version: FORMAT_VERSION,
        };
        self.meet_as(side, to).await
    }

    async fn meet_as(&self, side: Side, to: u8) -> MeetAnswer {
        let n = side.node.bytes()[0];
        let call = MeetCall::V1(Box::new(Newcomer { node: new_node(n), boot: Boot(1), side }));
        let body = codec::encode(&call).expect("it is short");
        let port = self.links.port(node_id(n));
        let answer = port.call(node_id(to), CallKind::Meet, body, PATIENCE).await;
        codec::decode(&answer.expect("it is answered")).expect("an answer")
    }

    fn cluster(&self, n: u8) -> &Arc<Cluster> {
        &self.members[&n].cluster
    }

    fn table(&self, n: u8) -> Arc<SlotTable> {
        self.cluster(n).table()
    }

    fn view(&self, n: u8) -> View {
        Orders::view(&**self.cluster(n))
    }

    /// The node that leads and is followed.
    fn leader(&self) -> Option<u8> {
        let leads = |n: &u8| {
            let view = self.view(*n);
            view.leader == Some(node_id(*n)) && view.has_quorum
        };
        self.members.keys().copied().find(leads)
    }

    /// Waits for a condition, with a deadline.
    async fn until(&self, what: &str, holds: impl Fn(&Town) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            let views: Vec<View> = self.members.keys().map(|n| self.view(*n)).collect();
            assert!(Instant::now() < deadline, "not in time: {what}; {views:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Time passes, for what must not happen in it. It is the runtime's time, not ours.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits until all nodes that run and are in the table have the same table.
    async fn until_equal(&self) {
        self.until("all tables are equal", |town| {
            let mut tables = town.members.keys().map(|n| town.table(*n));
            let first = tables.next().expect("a node");
            tables.all(|table| table == first)
        })
        .await;
    }

    async fn order(&self, at: u8, order: Order) -> Result<OrderDone, OrderError> {
        let (tell, told) = oneshot::channel();
        let done = Box::new(move |outcome| drop(tell.send(outcome)));
        self.cluster(at).order(order, "a test", done);
        told.await.expect("the end is told")
    }
}

async fn propose(cluster: &Cluster, change: TableChange) -> Result<Verdicts, ProposeError> {
    let (tell, told) = oneshot::channel();
    cluster.propose(change, "a test", Box::new(move |outcome| drop(tell.send(outcome))));
    told.await.expect("the outcome is told")
}

async fn catch_up(cluster: &Cluster) -> bool {
    let (tell, told) = oneshot::channel();
    cluster.catch_up(Box::new(move |outcome| {
        let _ = tell.send(outcome);
    }));
    told.await.expect("the outcome is told")
}

fn label(n: u8, value: &str) -> TableChange {
    let value = Some(value.to_owned());
    TableChange::Label { node: node_id(n), key: "k".to_owned(), value }
}
