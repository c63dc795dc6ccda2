//! CLUSTER MEET, the accepting side.

use super::super::Dissolving;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_newcomer_is_in_the_table_and_asking_again_answers_the_same() {
    let town = Town::of(2).await;
    let first = town.meet(3, 2, "", 0).await;
    let MeetAnswer::Accepted { cluster, generation, seeds } = &first else { panic!("{first:?}") };
    assert_eq!((*cluster, *generation), (cluster_id(1), 1));
    let voters_first: Vec<NodeId> = seeds.iter().map(|seed| seed.node).collect();
    assert_eq!(voters_first, [node_id(1), node_id(2), node_id(3)]);
    assert_eq!(town.meet(3, 1, "", 0).await, first);
    let table = town.table(1);
    assert_eq!(table.nodes().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_brings_its_slots() {
    let town = Town::of(2).await;
    let met = town.meet(3, 1, "0-99", 0).await;
    assert!(matches!(met, MeetAnswer::Accepted { .. }), "{met:?}");
    assert_eq!(town.table(1).slots_of(node_id(3)), slots("0-99"));
}

#[tokio::test(start_paused = true)]
async fn slots_that_both_own_are_refused_before_anything_is_changed() {
    let town = Town::of(2).await;
    let seen = town.table(1).version();
    let change = TableChange::AssignSlots { slots: slots("5"), to: node_id(1), seen };
    assert_eq!(propose(town.cluster(1), change).await.expect("committed").all(), Ok(()));
    let before = town.table(1);
    let MeetAnswer::Refused(why) = town.meet(3, 1, "0-9", 0).await else { panic!("not refused") };
    assert!(why.contains("both sides own slots 5:"), "{why}");
    assert_eq!(town.table(1), before);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_many_or_with_keys_is_refused() {
    let town = Town::of(2).await;
    let MeetAnswer::Refused(why) = town.meet(3, 1, "0-9", 4).await else { panic!("not refused") };
    assert!(why.contains("two clusters do not become one"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_lone_node_that_should_dissolve_says_so_and_joins_back() {
    let town = Town::of(1).await;
    let many = Side {
        node: node_id(3),
        cluster: Some(cluster_id(3)),
        generation: 1,
        nodes: 3,
        slots: slots("0-9"),
        keys: 9,
        format_version: FORMAT_VERSION,
    };
    assert_eq!(town.meet_as(many, 1).await, MeetAnswer::YouShouldAccept);
    assert_eq!(*town.members[&1].body.joins_back.lock(), [node_id(3)]);
    assert_eq!(town.table(1).nodes().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_with_keys_does_not_dissolve() {
    let town = Town::of(1).await;
    town.members[&1].body.keys.store(1, Ordering::Relaxed);
    let met = town.meet(3, 1, "", 0).await;
    assert!(matches!(met, MeetAnswer::Accepted { .. }), "{met:?}");
}

#[tokio::test(start_paused = true)]
async fn who_is_joining_elsewhere_accepts_nobody() {
    let town = Town::of(2).await;
    let dissolving = town.cluster(1).begin_dissolving().expect("it is idle");
    assert!(town.cluster(1).begin_dissolving().is_err());
    assert!(matches!(town.meet(3, 1, "", 0).await, MeetAnswer::Busy(_)));
    drop(dissolving);
    assert!(matches!(town.meet(3, 1, "", 0).await, MeetAnswer::Accepted { .. }));
}

#[tokio::test(start_paused = true)]
async fn who_accepts_somebody_does_not_dissolve() {
    let town = Town::of(3).await;
    // Without a majority the accepting goes on until its time is up.
    town.links.isolate(node_id(1));
    let accepting = town.meet(4, 1, "", 0);
    let meanwhile = async {
        let deadline = Instant::now() + PATIENCE;
        while town.cluster(1).begin_dissolving().is_ok() {
            assert!(Instant::now() < deadline, "it accepts nobody");
            tokio::task::yield_now().await;
        }
    };
    let (met, ()) = tokio::join!(accepting, meanwhile);
    assert!(matches!(met, MeetAnswer::Busy(_)), "{met:?}");
    assert!(town.cluster(1).begin_dissolving().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_knows_no_table_yet_meets_nobody() {
    let mut town = Town::of(1).await;
    town.start(2, cluster_id(1)).await;
    assert!(matches!(town.meet(3, 2, "0-9", 0).await, MeetAnswer::Busy(_)));
}

#[tokio::test(start_paused = true)]
async fn a_wiped_disk_under_a_known_id_is_refused() {
    let town = Town::of(2).await;
    let mut node = new_node(2);
    node.store = StoreId::from_bytes([99; 16]);
    let side = Side {
        node: node_id(2),
        cluster: None,
        generation: 0,
        nodes: 0,
        slots: SlotRanges::new(),
        keys: 0,
        format_version: FORMAT_VERSION,
    };
    let call = MeetCall::V1(Box::new(Newcomer { node, boot: Boot(1), side }));
    let body = codec::encode(&call).expect("it is short");
    let answer = town.cluster(1).take_meet(node_id(2), &body).await.expect("an answer");
    let answer: MeetAnswer = codec::decode(&answer).expect("an answer");
    let MeetAnswer::Refused(why) = answer else { panic!("{answer:?}") };
    assert!(why.contains("slotctl node lost node-2"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_given_up() {
    let town = Town::of(2).await;
    let change = TableChange::Rename { node: node_id(2), name: "node-3".to_owned() };
    propose(town.cluster(1), change).await.expect("committed");
    let met = town.meet(3, 1, "", 0).await;
    assert!(matches!(met, MeetAnswer::Accepted { .. }), "{met:?}");
    let table = town.table(1);
    assert_eq!(table.node(node_id(3)).map(|row| row.name.as_str()), Some("node-03030303"));
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_whose_slots_were_taken_meanwhile_is_not_taken_in() {
    let town = Town::of(2).await;
    let cluster = town.cluster(1);
    let change = TableChange::AddNode { node: new_node(3) };
    assert_eq!(propose(cluster, change).await.expect("committed").all(), Ok(()));
    let seen = town.table(1).version();
    let change = TableChange::AssignSlots { slots: slots("5"), to: node_id(1), seen };
    assert_eq!(propose(cluster, change).await.expect("committed").all(), Ok(()));
    let deadline = Instant::now() + PATIENCE;
    let outcome = cluster.assign(node_id(3), slots("0-9"), true, deadline).await;
    let Err(MeetAnswer::Refused(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("owns it"), "{why}");
    let table = town.table(1);
    assert_eq!(table.unassigned(), SlotRanges::all().without(&slots("5")));
    assert_eq!(table.nodes().count(), 2);
}

/// What a node does with the order to meet another, until one of the two has joined.
async fn meet_until_one(town: &Town, n: u8, other: u8) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let held: Result<Dissolving, String> = town.cluster(n).begin_dissolving();
        if let Ok(held) = held {
            match town.meet_as(town.cluster(n).side(), other).await {
                MeetAnswer::Accepted { .. } => return true,
                MeetAnswer::YouShouldAccept => return false,
                MeetAnswer::Busy(_) => {}
                MeetAnswer::Refused(why) => panic!("{why}"),
            }
            drop(held);
        }
        town.pass(Duration::from_millis(u64::from(n))).await;
    }
    panic!("no end");
}

#[tokio::test(start_paused = true)]
async fn two_nodes_that_meet_each_other_at_once_end_in_one_cluster() {
    let mut town = Town::founded().await;
    town.start(2, cluster_id(2)).await;
    let founded = town.cluster(2).found(ClusterSettings::default(), new_node(2), "itself").await;
    assert_eq!(founded, Ok(()));
    town.links.slow_down(node_id(1), Duration::from_millis(5));
    let joined = tokio::join!(meet_until_one(&town, 1, 2), meet_until_one(&town, 2, 1));
    assert_eq!(joined, (false, true));
    assert_eq!(town.table(1).nodes().count(), 2);
    assert_eq!(town.table(2).nodes().count(), 1);
    assert!(town.members[&2].body.joins_back.lock().iter().all(|node| *node == node_id(1)));
    assert!(town.members[&1].body.joins_back.lock().is_empty());
}
