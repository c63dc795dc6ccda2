//! The real store under the log, on a simulated disk: it stays small, and who comes late gets a
//! snapshot of it.

use tokio::sync::watch;

use super::*;
use crate::control::ledger::Ledger;
use crate::control::raft::disk::Sizes;
use crate::control::raft::disk::sim::{Inline, SimDisk};
use crate::control::raft::machine::LedgerSink;
use crate::control::raft::store::{self, COMPACT_AT_BYTES, LogStore};

/// Small, so that a few hundred entries fill one.
const SIZES: Sizes = Sizes { segment_bytes: 64 << 10 };
/// Segments there may be: what 700 entries of 200 bytes take, the next one and the one before.
const MAX_SEGMENTS: usize = 6;

struct Shown(watch::Sender<Arc<SlotTable>>);

impl LedgerSink for Shown {
    fn applied(&self, ledger: &Ledger, _: &[(slots::TableVersion, Verdicts)]) {
        self.0.send_replace(Arc::clone(ledger.table()));
    }
}

/// A node on a simulated disk.
struct Node {
    cluster: Arc<Cluster>,
    store: LogStore,
    disk: SimDisk,
}

async fn start(links: &Arc<Links>, n: u8, sizes: Sizes) -> Node {
    let disk = SimDisk::new();
    let (shown, table) = watch::channel(Arc::new(SlotTable::new()));
    let opened = store::open(
        disk.clone(),
        sizes,
        Arc::new(Shown(shown)),
        Box::new(|line| panic!("{line}")),
        |writer| Inline::desk(writer),
    );
    let (store, machine) = opened.expect("an empty disk");
    let identity = Identity {
        node: node_id(n),
        store: StoreId::from_bytes([n; 16]),
        boot: Boot(1),
        nonce: Nonce::from_bytes([1; 8]),
    };
    let started = ClusterStart {
        identity,
        cluster: cluster_id(1),
        log: store.clone(),
        log_bytes: Box::new(store.scales()),
        may_vote: true,
        machine,
        table,
        calls: links.port(node_id(n)),
        host: Arc::new(Body::default()),
    };
    let cluster = Cluster::start(started).await.expect("the log starts");
    links.plug(node_id(n), &cluster);
    Node { cluster, store, disk }
}

async fn found(links: &Arc<Links>, sizes: Sizes) -> Node {
    let node = start(links, 1, sizes).await;
    let founded = node.cluster.found(ClusterSettings::default(), new_node(1), "itself").await;
    assert_eq!(founded, Ok(()));
    node
}

impl Node {
    fn segments(&self) -> usize {
        self.disk.names().iter().filter(|name| name.starts_with("raft.log.")).count()
    }

    async fn change(&self, value: &str) {
        let verdicts = propose(&self.cluster, label(1, value)).await.expect("it is committed");
        assert_eq!(verdicts.all(), Ok(()));
    }

    async fn until(&self, what: &str, holds: impl Fn(&Node) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_stays_small_and_a_late_node_gets_a_snapshot() {
    let links = Links::new();
    let first = found(&links, SIZES).await;
    let mut most = 0;
    for round in 0..50_000 {
        first.change(&round.to_string()).await;
        most = most.max(first.segments());
    }
    assert!(most > 2 && most <= MAX_SEGMENTS, "up to {most} segments");
    let second = start(&links, 2, SIZES).await;
    let add = TableChange::AddNode { node: new_node(2) };
    propose(&first.cluster, add).await.expect("it is committed");
    let version = first.cluster.table().version();
    second.until("it has the table", |node| node.cluster.table().version() >= version).await;
    assert_eq!(second.cluster.table().node(node_id(1)), first.cluster.table().node(node_id(1)));
    assert!(second.disk.bytes("table.snap").is_some(), "it did not come entry by entry");
    assert!(second.segments() <= 2, "{} segments", second.segments());
}

#[tokio::test(start_paused = true)]
async fn few_but_heavy_entries_are_compacted_too() {
    let links = Links::new();
    let first = found(&links, Sizes::default()).await;
    // An actor is cut, a label's value in a change that is refused is not.
    let long = "x".repeat(1 << 20);
    for _ in 0..40 {
        let outcome = propose(&first.cluster, label(1, &long)).await;
        assert!(outcome.expect("it is committed").all().is_err(), "a value that long");
        assert!(first.store.entry_bytes() < COMPACT_AT_BYTES + (8 << 20));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    first.until("the log is light", |node| node.store.entry_bytes() < COMPACT_AT_BYTES).await;
    assert!(first.disk.bytes("table.snap").is_some());
}
