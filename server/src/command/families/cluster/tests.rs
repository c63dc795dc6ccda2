//! CLUSTER: scripts, and orders and proposals that end as told.

use std::sync::Arc;

use slots::{Addresses, Endpoint, NodeId, TableChange};

use crate::command::waiting::MAX_WAITING;
use crate::control::orders::{Order, OrderError, View};
use crate::control::seat::Standing;
use crate::control::{FixedTable, ProposeError};
use crate::resp::Proto;
use crate::slot::Ownership;
use crate::testing::fakes::{Ending, FakeLog, FakeOrders, Fate, Happens, peer};
use crate::testing::{TestNode, play_file, run_script};

/// A node that owns a hole-ridden first third, beside two others.
fn among_others(options: &[&str]) -> TestNode {
    TestNode::owning("0-448,450-5460", &[(7002, "5461-10922"), (7003, "449,10923-16383")], options)
}

#[test]
fn a_node_alone_answers_for_all_slots() {
    run_script("cluster/cluster.alone.txt");
}

#[test]
fn moved_and_the_topology_replies_name_the_same_owner() {
    play_file(&mut among_others(&[]), "cluster/cluster.others.txt");
}

#[test]
fn what_needs_orders_is_refused_where_the_table_is_fixed() {
    play_file(&mut among_others(&[]), "cluster/cluster.shared.txt");
}

#[test]
fn slots_without_an_owner_are_refused_and_so_is_all_under_full_coverage() {
    let mut node = TestNode::owning("", &[], &["--cluster-enabled", "yes"]);
    play_file(&mut node, "cluster/cluster.coverage.txt");
}

#[test]
fn slots_are_added_and_taken_away_with_the_errors_of_redis() {
    let mut node = TestNode::owning("", &[], &["--cluster-enabled", "yes"]);
    play_file(&mut node, "cluster/cluster.slots.txt");
}

#[test]
fn hosts_are_told_by_the_preferred_kind() {
    play_file(&mut among_others(&[]), "cluster/cluster.endpoints.txt");
}

#[test]
fn keys_of_a_slot_are_counted_and_listed_where_it_is_served() {
    play_file(&mut among_others(&[]), "cluster/cluster.keys.txt");
}

#[test]
fn an_announced_address_is_used_everywhere_and_a_hostname_beside_it() {
    let mut node = TestNode::new(&[]);
    // The reply that is kept must not outlive the change.
    node.call(1, &[b"CLUSTER", b"SLOTS"]);
    node.call(1, &[b"CLUSTER", b"NODES"]);
    let addresses = Addresses {
        client: Endpoint::new("10.9.8.7", 7777),
        bus: Endpoint::new("10.9.8.7", 17_777),
        hostname: Some("a.example".into()),
    };
    let change = TableChange::SetAddress { node: node.node.topology().me, addresses };
    let check = |verdicts: Result<slots::Verdicts, _>| {
        assert_eq!(verdicts.map(|verdicts| verdicts.all()), Ok(Ok(())));
    };
    node.node.table_log.propose(change, "itself", Box::new(check));
    play_file(&mut node, "cluster/cluster.hostname.txt");
}

struct Rig {
    node: TestNode,
    orders: Arc<FakeOrders>,
    log: Arc<FakeLog<Arc<FixedTable>>>,
}

/// A node whose orders and proposals end as told.
fn rig(ranges: &str, others: &[(u16, &str)]) -> Rig {
    let orders = FakeOrders::new();
    let mut log = None;
    let node = TestNode::built(
        ranges,
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

    fn given(&self) -> Vec<Order> {
        self.orders.take().into_iter().map(|(order, _)| order).collect()
    }
}

fn id(port: u16) -> NodeId {
    let mut id = [0xAB; 20];
    id[..2].copy_from_slice(&port.to_be_bytes());
    NodeId::from_bytes(id)
}

#[test]
fn arguments_of_the_verbs_are_checked_as_redis_does() {
    let mut rig = rig("0-100", &[(7002, "101-200")]);
    play_file(&mut rig.node, "cluster/cluster.verbs.txt");
    assert_eq!(rig.given(), []);
    assert_eq!(rig.log.take(), []);
}

#[test]
fn a_node_alone_answers_what_is_sent_when_a_cluster_is_created() {
    let mut rig = rig("", &[]);
    play_file(&mut rig.node, "cluster/cluster.create.txt");
    let proposed = rig.log.take();
    assert_eq!(proposed.len(), 1, "one entry for all slots: {proposed:?}");
    assert_eq!(rig.given(), [Order::Meet { bus: Endpoint::new("127.0.0.1", 17_002) }]);
}

#[test]
fn meet_says_ok_unless_a_refusal_comes_in_time() {
    let mut rig = rig("0-100", &[]);
    rig.orders.end_with(Ending::Told(Err(OrderError::Refused("both own slot 3".to_owned()))));
    assert_eq!(rig.call("CLUSTER MEET ::1 7002 7102"), "-ERR refused: both own slot 3\r\n");
    assert_eq!(rig.given(), [Order::Meet { bus: Endpoint::new("::1", 7102) }]);
    rig.orders.end_with(Ending::Told(Err(OrderError::NoQuorum)));
    assert!(rig.call("CLUSTER MEET 127.0.0.1 7002").starts_with("-CLUSTERDOWN no quorum: "));
    rig.orders.end_with(Ending::Later);
    let before = rig.node.node.edges.now().unix_ms;
    assert_eq!(rig.call("CLUSTER MEET node-b.example 7002"), "+OK\r\n");
    assert_eq!(rig.node.node.edges.now().unix_ms - before, 3000);
}

#[test]
fn forgetting_removes_and_what_is_gone_is_forgotten() {
    let mut rig = rig("", &[]);
    let forget = |id: NodeId| format!("CLUSTER FORGET {id}");
    let myself = "-ERR I tried hard but I can't forget myself...\r\n";
    assert_eq!(rig.call(&forget(id(7001))), myself);
    assert_eq!(rig.call(&forget(id(7002))), format!("-ERR Unknown node {}\r\n", id(7002)));
    let node = slots::NewNode {
        id: id(7002),
        name: "node-7002".to_owned(),
        store: slots::StoreId::from_bytes([2; 16]),
        addresses: Addresses {
            client: Endpoint::new("127.0.0.1", 7002),
            bus: Endpoint::new("127.0.0.1", 17_002),
            hostname: None,
        },
        labels: Default::default(),
        weight: 1,
    };
    let change = |rig: &Rig, change| rig.node.node.table_log.propose(change, "", Box::new(|_| {}));
    change(&rig, TableChange::AddNode { node });
    assert_eq!(rig.call(&forget(id(7002))), "+OK\r\n");
    assert_eq!(rig.given(), [Order::Remove { node: id(7002) }]);
    rig.orders.end_with(Ending::Later);
    let reply = rig.call(&forget(id(7002)));
    assert!(reply.starts_with("-ERR it is not known yet what became of the order"), "{reply}");
    assert_eq!(rig.given().len(), 1);
    change(&rig, TableChange::RemoveNode { node: id(7002) });
    assert_eq!(rig.call(&forget(id(7002))), "+OK\r\n", "a tombstone");
    assert_eq!(rig.given(), []);
}

#[test]
fn a_reset_needs_an_empty_node() {
    let mut rig = rig("0-16383", &[]);
    rig.call("SET a 1");
    let full = "-ERR CLUSTER RESET can't be called with master nodes containing keys\r\n";
    assert_eq!(rig.call("CLUSTER RESET"), full);
    assert_eq!(rig.given(), []);
    rig.call("DEL a");
    for (words, hard) in
        [("CLUSTER RESET", false), ("CLUSTER RESET soft", false), ("CLUSTER RESET HARD", true)]
    {
        assert_eq!(rig.call(words), "+OK\r\n");
        assert_eq!(rig.given(), [Order::Reset { hard }]);
    }
}

#[test]
fn no_more_commands_wait_at_once_than_the_limit() {
    let mut rig = rig("0-16383", &[]);
    let node = rig.node.node.clone();
    let permits: Vec<_> = (0..MAX_WAITING).map(|_| node.waiting.enter()).collect();
    assert!(permits.iter().all(Result::is_ok));
    let busy = "-ERR busy: 32 commands wait for the cluster already; try again\r\n";
    assert_eq!(rig.call("CLUSTER MEET 127.0.0.1 7002"), busy);
    assert_eq!(rig.call("CLUSTER DELSLOTS 5"), busy);
    assert_eq!(rig.call("SET {06S} 1"), "+OK\r\n", "its slot is open again");
    drop(permits);
    assert_eq!(rig.call("CLUSTER DELSLOTS 5"), "+OK\r\n");
}

#[test]
fn slots_of_unknown_fate_stay_sealed_until_the_table_answers() {
    let mut rig = rig("0-16383", &[]);
    let ownership = |rig: &Rig| rig.node.node.rooms.ownership(slots::slot_of(b"{06S}")).0;
    let slot = slots::slot_of(b"{06S}").number();
    let delete = format!("CLUSTER DELSLOTS {slot}");
    rig.log.end_with(Fate::Failed(ProposeError::NoQuorum));
    assert_eq!(rig.call(&delete), "-CLUSTERDOWN no quorum: the change was not made\r\n");
    assert_eq!(ownership(&rig), Ownership::Owned);
    rig.log.end_with(Fate::Failed(ProposeError::Unknown));
    assert!(rig.call(&delete).starts_with("-ERR it is not known whether"));
    assert_eq!(ownership(&rig), Ownership::Sealed);
    // The one before may still be committed.
    rig.log.end_with(Fate::Failed(ProposeError::NoQuorum));
    assert_eq!(rig.call(&delete), "-CLUSTERDOWN no quorum: the change was not made\r\n");
    assert_eq!(ownership(&rig), Ownership::Sealed);
    rig.log.end_with(Fate::Decided);
    assert_eq!(rig.call(&delete), "+OK\r\n");
    assert_eq!(ownership(&rig), Ownership::Unassigned);
    assert_eq!(rig.call(&format!("CLUSTER ADDSLOTS {slot}")), "+OK\r\n");
    assert_eq!(rig.call("SET {06S} 1"), "+OK\r\n");
}

#[test]
fn a_seal_outlives_a_time_without_a_seat_and_is_asked_for_again() {
    let mut rig = rig("0-16383", &[]);
    let slot = slots::slot_of(b"{06S}");
    let ownership = |rig: &Rig| rig.node.node.rooms.ownership(slot).0;
    let stands = |rig: &Rig, standing| rig.node.node.install_standing(standing);
    rig.log.end_with(Fate::Failed(ProposeError::Unknown));
    assert!(rig.call(&format!("CLUSTER DELSLOTS {}", slot.number())).starts_with("-ERR it is not"));
    stands(&rig, Standing::Starting);
    assert_eq!(ownership(&rig), Ownership::Unknown);
    stands(&rig, Standing::Seated);
    assert_eq!(ownership(&rig), Ownership::Sealed, "it may still be given up");
    let ask = |rig: &Rig, second: u64| rig.node.node.ask_for_unsure(second * 1_000_000_000);
    // No answer: it stays closed. Then the table answers.
    ask(&rig, 1);
    assert_eq!(ownership(&rig), Ownership::Sealed);
    rig.log.end_with(Fate::Decided);
    ask(&rig, 1);
    assert_eq!(ownership(&rig), Ownership::Sealed, "asked a moment ago");
    ask(&rig, 2);
    assert_eq!(ownership(&rig), Ownership::Unassigned);
    assert_eq!(rig.call(&format!("CLUSTER ADDSLOTS {}", slot.number())), "+OK\r\n");
    ask(&rig, 9);
    assert_eq!(rig.call("SET {06S} 1"), "+OK\r\n", "nothing is asked for any more");
}

#[test]
fn a_slot_that_the_table_gave_up_and_gave_back_is_not_asked_for_again() {
    let mut rig = rig("0-16383", &[]);
    let slot = slots::slot_of(b"{06S}").number();
    rig.log.end_with(Fate::Failed(ProposeError::Unknown));
    assert!(rig.call(&format!("CLUSTER DELSLOTS {slot}")).starts_with("-ERR it is not"));
    // The entry is committed after all, and the slot comes back before anybody asks again.
    rig.log.end_with(Fate::Decided);
    let seen = rig.node.node.topology().table.version();
    let slots = slot.to_string().parse().expect("a slot");
    let consent = slots::LossConsent::NotGiven;
    let change = TableChange::UnassignSlots { slots, seen, consent };
    rig.node.node.table_log.propose(change, "", Box::new(|_| {}));
    assert_eq!(rig.call(&format!("CLUSTER ADDSLOTS {slot}")), "+OK\r\n");
    assert_eq!(rig.call("SET {06S} kept"), "+OK\r\n");
    rig.node.node.ask_for_unsure(5_000_000_000);
    assert_eq!(rig.call("GET {06S}"), "$4\r\nkept\r\n");
}

/// Slot 5 is given to this node or taken from it, each time as of then.
fn slot_5(rig: &Rig, steps: &'static [Step]) -> Happens {
    let node = rig.node.node.clone();
    Box::new(move || {
        for step in steps {
            let topology = node.topology();
            let (slots, seen) = ("5".parse().expect("a slot"), topology.table.version());
            let consent = slots::LossConsent::AcceptLoss;
            let change = match step {
                Step::Given => TableChange::AssignSlots { slots, to: topology.me, seen },
                Step::Taken => TableChange::UnassignSlots { slots, seen, consent },
            };
            node.table_log.propose(change, "another node", Box::new(|_| {}));
        }
    })
}

enum Step {
    Given,
    Taken,
}

#[test]
fn slots_given_up_elsewhere_a_moment_ago_are_free_here() {
    let mut rig = rig("0-100", &[]);
    rig.log.is_behind(slot_5(&rig, &[Step::Taken]));
    assert_eq!(rig.call("CLUSTER ADDSLOTSRANGE 5 5"), "+OK\r\n");
    rig.log.is_behind(slot_5(&rig, &[Step::Taken]));
    assert_eq!(rig.call("CLUSTER DELSLOTS 5"), "-ERR Slot 5 is already unassigned\r\n");
    rig.log.is_behind(slot_5(&rig, &[Step::Given]));
    assert_eq!(rig.call("CLUSTER FLUSHSLOTS"), "+OK\r\n");
    assert_eq!(rig.node.node.topology().table.unassigned(), slots::SlotRanges::all());
}

#[test]
fn slots_that_change_between_judgement_and_proposal_are_judged_once_more() {
    let mut rig = rig("0-3", &[]);
    let me = rig.node.node.topology().me;
    rig.log.comes_between(slot_5(&rig, &[Step::Given, Step::Taken]));
    assert_eq!(rig.call("CLUSTER ADDSLOTS 4 5 6"), "+OK\r\n", "free before and after");
    assert_eq!(rig.node.node.topology().table.slots_of(me).to_string(), "0-6");
    rig.log.comes_between(slot_5(&rig, &[Step::Taken, Step::Given]));
    assert_eq!(rig.call("CLUSTER DELSLOTS 5 6"), "+OK\r\n");
    rig.call("CLUSTER ADDSLOTS 5");
    rig.log.comes_between(slot_5(&rig, &[Step::Taken]));
    let taken = "-ERR refused for slots 5: nobody owns it: assign it first\r\n";
    assert_eq!(rig.call("CLUSTER DELSLOTS 5"), taken);
}

#[test]
fn a_node_without_a_seat_answers_for_no_key_and_never_moved() {
    let mut rig = rig("0-100", &[(7002, "101-16383")]);
    play_file(&mut rig.node, "cluster/cluster.standing.txt");
    assert!(rig.call("GET foo").starts_with("-MOVED 12182 "));
}

#[test]
fn only_rows_that_changed_are_installed() {
    let mut rig = rig("0-16383", &[]);
    let node = rig.node.node.clone();
    let slot = slots::slot_of(b"foo");
    // What no table said would be overwritten if all rows were installed.
    let (_, epoch) = node.rooms.ownership(slot);
    node.rooms.install(slot, Ownership::Foreign, epoch);
    assert_eq!(rig.call("CLUSTER DELSLOTS 5"), "+OK\r\n");
    assert_eq!(node.rooms.ownership(slot).0, Ownership::Foreign);
    assert!(node.is_down(), "slot 5 has no owner");
    assert_eq!(rig.call("CLUSTER ADDSLOTS 5"), "+OK\r\n");
    assert!(!node.is_down());
    node.install_standing(Standing::Starting);
    node.install_standing(Standing::Seated);
    assert_eq!(node.rooms.ownership(slot).0, Ownership::Owned);
}

#[test]
fn keys_of_a_slot_that_went_to_another_node_do_not_come_back_with_the_slot() {
    let mut rig = rig("0-16383", &[]);
    let node = rig.node.node.clone();
    let slot = slots::slot_of(b"foo");
    for lost_to in [Ownership::Foreign, Ownership::Unassigned] {
        assert_eq!(rig.call("SET foo 1 EX 100"), "+OK\r\n");
        assert_eq!(rig.call("DBSIZE"), ":1\r\n");
        node.rooms.install(slot, lost_to, slots::Epoch(50));
        assert_eq!((node.key_count(), node.key_bytes()), (0, 0), "{lost_to:?}");
        node.rooms.install(slot, Ownership::Owned, slots::Epoch(51));
        assert_eq!(rig.call("GET foo"), "$-1\r\n");
        assert_eq!(rig.call("DBSIZE"), ":0\r\n");
    }
}

#[test]
fn kept_replies_follow_table_standing_links_and_protocol() {
    let mut rig = rig("0-100", &[(7002, "101-16383")]);
    let peers = |connected, silent_ms| View {
        peers: vec![peer(id(7002), connected, Some(silent_ms))],
        ..View::default()
    };
    rig.orders.look(peers(true, 0));
    let ask = ["CLUSTER NODES", "CLUSTER SHARDS", "CLUSTER SLOTS"];
    let before: Vec<String> = ask.iter().map(|words| rig.call(words)).collect();
    assert!(before[0].contains("master - 0 1700000000000 7 connected 101-16383"), "{before:?}");
    assert_eq!(ask.map(|words| rig.call(words)).to_vec(), before);
    rig.node.set_proto(1, Proto::Resp3);
    for (words, reply) in ask.iter().zip(&before) {
        assert_ne!(&rig.call(words), reply);
    }
    rig.node.set_proto(1, Proto::Resp2);
    assert_eq!(ask.map(|words| rig.call(words)).to_vec(), before);

    rig.orders.look(peers(true, 1500));
    let suspect = rig.call("CLUSTER NODES");
    assert!(suspect.contains(" master,fail? - 0 1699999998000 7 connected "), "{suspect}");
    rig.orders.look(peers(false, 16_000));
    let failed = rig.call("CLUSTER NODES");
    assert!(failed.contains(" master,fail - 0 1699999984000 7 disconnected "), "{failed}");
    let shards = rig.call("CLUSTER SHARDS");
    assert!(shards.contains("fail") && shards.contains("online"), "{shards}");
    assert!(rig.call("CLUSTER INFO").contains("cluster_slots_fail:16283\r\n"));
    assert_eq!(rig.call("CLUSTER SLOTS"), before[2], "tells of no link");
    assert_eq!(rig.call("CLUSTER LINKS"), "*0\r\n");

    rig.node.node.install_standing(Standing::Starting);
    assert!(rig.call("CLUSTER SHARDS").contains("loading"));
}

#[test]
fn a_node_that_left_its_cluster_keeps_no_reply_of_it() {
    let mut rig = rig("0-100", &[(7002, "101-16383")]);
    rig.call("CLUSTER SLOTS");
    let mut topology = rig.node.node.topology();
    let mut other = slots::SlotTable::new();
    other.advance(topology.table.version());
    (topology.table, topology.me) = (Arc::new(other), id(7009));
    rig.node.node.install_topology(topology);
    assert_eq!(rig.call("CLUSTER SLOTS"), "*0\r\n");
    let nodes = rig.call("CLUSTER NODES");
    let line = format!("{} :0@0 myself,master,noaddr - 0 0 0 connected\n", id(7009));
    assert!(nodes.contains(&line), "{nodes}");
    assert!(rig.call("CLUSTER INFO").contains("cluster_known_nodes:1\r\n"));
    assert_eq!(rig.call("GET k596"), "-CLUSTERDOWN Hash slot not served\r\n");
}

#[test]
fn links_are_those_that_are_there() {
    let mut rig = rig("0-100", &[(7002, ""), (7003, "")]);
    let peers = vec![peer(id(7002), true, Some(5)), peer(id(7003), false, None)];
    rig.orders.look(View { peers, ..View::default() });
    play_file(&mut rig.node, "cluster/cluster.links.txt");
}
