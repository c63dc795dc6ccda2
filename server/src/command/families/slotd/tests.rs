//! SLOTD against orders and a log that end as told.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use slots::admin::{Done, HistoryRecord, SlotStatus, Status};
use slots::{
    Boot, ClusterId, ClusterSettings, Endpoint, NodeId, Proposal, Proposer, TableChange,
    TableVersion,
};

use crate::control::ledger::{Entry, Ledger};
use crate::control::orders::{Order, OrderError, View};
use crate::control::{FixedTable, ProposeError};
use crate::testing::fakes::{Ending, FakeLog, FakeOrders, Fate, peer};
use crate::testing::{TestNode, play_file};

const OTHERS: [(u16, &str); 2] = [(7002, "100-199"), (7003, "")];

struct Rig {
    node: TestNode,
    orders: Arc<FakeOrders>,
    log: Arc<FakeLog<Arc<FixedTable>>>,
}

/// Node 7001 that owns 0-99, beside two others; its log takes no change.
fn rig() -> Rig {
    rig_with(&OTHERS)
}

/// Node 7001 that owns 0-99 alone, and whose log takes changes.
fn lone_rig() -> Rig {
    rig_with(&[])
}

fn rig_with(others: &[(u16, &str)]) -> Rig {
    let orders = FakeOrders::new();
    let mut log = None;
    let node = TestNode::built(
        "0-99",
        others,
        &["--cluster-enabled", "yes"],
        |_| Box::new(orders.clone()),
        |fixed| Box::new(log.insert(FakeLog::before(fixed)).clone()),
    );
    Rig { node, orders, log: log.expect("made with the node") }
}

impl Rig {
    fn call(&mut self, words: &str) -> String {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        String::from_utf8(self.node.call(1, &words)).expect("UTF-8")
    }

    fn json<T: DeserializeOwned>(&mut self, words: &str) -> T {
        let reply = self.call(words);
        let (_, json) = reply.split_once("\r\n").expect("a bulk string");
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{reply}: {error}"))
    }
}

fn id(port: u16) -> NodeId {
    let mut id = [0xAB; 20];
    id[..2].copy_from_slice(&port.to_be_bytes());
    NodeId::from_bytes(id)
}

#[test]
fn status_tells_of_every_node_what_is_known() {
    let mut rig = rig();
    rig.orders.look(View {
        term: 4,
        leader: Some(id(7002)),
        has_quorum: true,
        voters: vec![id(7002)],
        learners: vec![id(7001)],
        peers: vec![peer(id(7002), true, Some(100)), peer(id(7003), false, Some(16_000))],
    });
    let status: Status = rig.json("SLOTD STATUS");
    assert_eq!(status.me, id(7001).to_string());
    assert_eq!((status.term, status.leader), (4, Some(id(7002).to_string())));
    assert_eq!((status.table_version, status.generation), (9, 1));
    assert_eq!(status.unassigned, "200-16383");
    let nodes: Vec<_> = status
        .nodes
        .iter()
        .map(|n| (n.name.as_str(), n.role.as_str(), n.health.as_str(), n.slots.as_str(), n.keys))
        .collect();
    let expected = [
        ("node-7001", "learner", "myself", "0-99", Some(0)),
        ("node-7002", "leader", "connected", "100-199", Some(3)),
        ("node-7003", "outside", "unreachable", "", Some(3)),
    ];
    assert_eq!(nodes, expected);
    assert_eq!(status.nodes[1].table_version, Some(7));
    assert_eq!(status.nodes[0].bus, "127.0.0.1:17001");
}

#[test]
fn equal_rows_are_told_together() {
    let rows: Vec<SlotStatus> = rig().json("SLOTD SLOTS");
    let rows: Vec<_> = rows.iter().map(|r| (r.slots.as_str(), r.owner.as_deref())).collect();
    let expected =
        [("0-99", Some("node-7001")), ("100-199", Some("node-7002")), ("200-16383", None)];
    assert_eq!(rows, expected);
    let mut lone = lone_rig();
    lone.call("SLOTD ASSIGN 300,500 node-7001 SEEN 4");
    let rows: Vec<SlotStatus> = lone.json("SLOTD SLOTS");
    let slots: Vec<_> = rows.iter().map(|row| row.slots.as_str()).collect();
    assert_eq!(slots, ["0-99", "100-299,301-499,501-16383", "300,500"]);
}

#[test]
fn history_is_the_newest_first_and_as_much_as_asked_for() {
    let mut ledger = Ledger::new();
    for number in 1..=3 {
        let proposal = Proposal {
            cluster: ClusterId::from_bytes([1; 20]),
            by: Proposer { node: id(7001), boot: Boot(0) },
            change: TableChange::InitCluster { settings: ClusterSettings::default() },
        };
        let actor = format!("default 10.0.0.{number}:1");
        ledger.apply(&Entry { at_ms: number, actor, proposal }, TableVersion(number));
    }
    let mut rig = rig();
    assert_eq!(rig.json::<Vec<HistoryRecord>>("SLOTD HISTORY"), []);
    rig.node.node.set_history(Arc::new(parking_lot::Mutex::new(ledger)));
    let records: Vec<HistoryRecord> = rig.json("SLOTD HISTORY COUNT 2");
    let told: Vec<_> = records.iter().map(|r| (r.version, r.actor.as_str())).collect();
    assert_eq!(told, [(3, "default 10.0.0.3:1"), (2, "default 10.0.0.2:1")]);
    assert_eq!(records[0].node, "node-7001");
    assert_eq!(records[0].refused.as_deref(), Some("the cluster is founded already"));
    assert_eq!(rig.json::<Vec<HistoryRecord>>("SLOTD HISTORY").len(), 3);
}

#[test]
fn stale_clients_are_told_until_they_are_forgotten() {
    let mut rig = rig();
    rig.call("CONFIG SET cluster-require-full-coverage no");
    play_file(&mut rig.node, "slotd/slotd.stale.txt");
}

#[test]
fn words_are_checked_before_anything_is_ordered() {
    let mut rig = rig();
    play_file(&mut rig.node, "slotd/slotd.words.txt");
    assert_eq!(rig.orders.take(), []);
    assert_eq!(rig.log.take(), []);
}

#[test]
fn each_verb_gives_its_order_in_the_name_of_its_client() {
    let mut rig = rig();
    rig.call("CLIENT SETNAME slotctl");
    let cluster = ClusterId::from_bytes([1; 20]);
    let own = id(7003);
    for (words, order) in [
        (
            "SLOTD NODE ADD 10.0.0.4:7004".to_owned(),
            Order::Meet { bus: Endpoint::new("10.0.0.4", 17_004) },
        ),
        (
            "SLOTD NODE ADD [::1]:7004@9000".to_owned(),
            Order::Meet { bus: Endpoint::new("::1", 9000) },
        ),
        ("slotd node remove node-7003".to_owned(), Order::Remove { node: own }),
        (format!("SLOTD NODE REMOVE {own}"), Order::Remove { node: own }),
        ("SLOTD NODE LOST node-7003".to_owned(), Order::Lost { node: own, accept_loss: false }),
        (
            "SLOTD NODE LOST node-7003 ACCEPT-LOSS".to_owned(),
            Order::Lost { node: own, accept_loss: true },
        ),
        (
            "SLOTD NODE REPLACE-VOTER node-7003".to_owned(),
            Order::ReplaceVoter { old: own, new: None },
        ),
        (
            "SLOTD NODE REPLACE-VOTER node-7003 node-7002".to_owned(),
            Order::ReplaceVoter { old: own, new: Some(id(7002)) },
        ),
        (format!("SLOTD RECOVER {cluster}"), Order::Recover),
    ] {
        let done: Done = rig.json(&words);
        assert_eq!((done.changed, done.text.as_str()), (true, "done as ordered"), "{words}");
        let actor = "default (slotctl) 127.0.0.1:40001".to_owned();
        assert_eq!(rig.orders.take(), [(order, actor)], "{words}");
    }
}

#[test]
fn an_order_that_is_not_done_says_who_acts_next() {
    let mut rig = rig();
    let ask = "SLOTD NODE REMOVE node-7002";
    let refused = OrderError::Refused("node-7002 owns 100 slots: move them first".to_owned());
    for (error, start) in [
        (refused, "-REFUSED node-7002 owns 100 slots: move them first\r\n"),
        (OrderError::NoQuorum, "-NOQUORUM no majority of the voters answers: "),
        (OrderError::Unknown, "-UNKNOWN the time was up before the outcome was known"),
    ] {
        rig.orders.end_with(Ending::Told(Err(error)));
        let reply = rig.call(ask);
        assert!(reply.starts_with(start), "{reply}");
    }
    rig.orders.end_with(Ending::Later);
    let before = rig.node.node.edges.now().unix_ms;
    assert!(rig.call(ask).starts_with("-UNKNOWN "));
    assert_eq!(rig.node.node.edges.now().unix_ms - before, 35_000);
    assert_eq!(rig.orders.end(Err(OrderError::NoQuorum)), 1, "its end is only a line in the log");
}

#[test]
fn changes_of_a_row_say_whether_anything_changed() {
    let mut rig = lone_rig();
    for (words, changed, text) in [
        ("SLOTD NODE RENAME node-7001 alpha", true, "node-7001 is called alpha now"),
        ("SLOTD NODE RENAME alpha alpha", false, "alpha is called alpha now"),
        ("SLOTD NODE LABEL alpha zone b1", true, "alpha has the label zone=b1"),
        ("SLOTD NODE LABEL alpha zone b1", false, "alpha has the label zone=b1"),
        ("SLOTD NODE LABEL alpha zone", true, "alpha has no label zone"),
        ("SLOTD NODE DRAIN alpha", true, "alpha gets nothing new; it keeps what it has"),
        ("SLOTD NODE UNDRAIN alpha", true, "alpha is active"),
        ("SLOTD NODE WEIGHT alpha 200", true, "alpha has the weight 200"),
    ] {
        let done: Done = rig.json(words);
        assert_eq!((done.changed, done.text.as_str()), (changed, text), "{words}");
    }
    let status: Status = rig.json("SLOTD STATUS");
    assert_eq!((status.nodes[0].name.as_str(), status.nodes[0].weight), ("alpha", 200));
    let reply = rig.call("SLOTD NODE RENAME alpha a:b");
    assert!(reply.starts_with("-REFUSED a node name is "), "{reply}");
}

#[test]
fn assigning_tells_the_verdict_slot_by_slot() {
    let mut rig = lone_rig();
    let done: Done = rig.json("SLOTD ASSIGN 90-109 node-7001 SEEN 4");
    assert_eq!((done.changed, done.text.as_str()), (true, "node-7001 owns 100-109"));
    assert_eq!(done.refused.len(), 1);
    assert_eq!(done.refused[0].slots, "90-99");
    assert!(done.refused[0].why.contains("owns it"), "{:?}", done.refused);
    let again: Done = rig.json("SLOTD ASSIGN 90-109 node-7001 SEEN 4");
    assert_eq!((again.changed, again.text.as_str()), (false, "no slot was assigned"));
}

#[test]
fn a_change_that_is_not_made_says_who_acts_next() {
    let mut rig = lone_rig();
    let ask = "SLOTD NODE DRAIN node-7001";
    for (fate, start) in [
        (Fate::Failed(ProposeError::Fixed), "-REFUSED the slot table was fixed"),
        (Fate::Failed(ProposeError::NoQuorum), "-NOQUORUM "),
        (Fate::Failed(ProposeError::Unknown), "-UNKNOWN "),
        (Fate::Silent, "-UNKNOWN "),
    ] {
        rig.log.end_with(fate.clone());
        let reply = rig.call(ask);
        assert!(reply.starts_with(start), "{fate:?}: {reply}");
    }
}

#[test]
fn explaining_counts_nobody_as_refused() {
    let mut rig = rig();
    play_file(&mut rig.node, "slotd/slotd.explain.txt");
    let moved = rig.node.node.stats.moved.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(moved, 0);
}
