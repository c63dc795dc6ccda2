//! The majority of voters is lost for good: `SLOTD RECOVER` begins a new generation, and what is
//! left of the old one is refused.

use std::fs;
use std::time::{Duration, Instant};

use slot_tests::fleet::Fleet;
use slot_tests::resp::Value;

const DEADLINE: Duration = Duration::from_secs(30);

fn json(fleet: &Fleet, node: usize, words: &[&str]) -> serde_json::Value {
    let said = fleet.ask(node, words).expect("it answers");
    serde_json::from_str(said.text().unwrap_or_default()).unwrap_or_else(|_| panic!("{said:?}"))
}

fn id_of(fleet: &Fleet, node: usize) -> String {
    let said = fleet.ask(node, &["CLUSTER", "MYID"]).expect("it answers");
    said.text().expect("an id").to_owned()
}

fn recover(fleet: &Fleet, node: usize) -> Value {
    let cluster = json(fleet, node, &["SLOTD", "STATUS"])["cluster"].clone();
    let mut client = fleet.client(node).expect("it accepts");
    client.wait_at_most(DEADLINE);
    client.call(&["SLOTD", "RECOVER", cluster.as_str().expect("an id")]).expect("it answers")
}

/// Asks until the answer is one of a change that was made.
fn label(fleet: &mut Fleet, node: usize) {
    let id = id_of(fleet, node);
    let changed = |fleet: &Fleet| {
        let said = fleet.ask(node, &["SLOTD", "NODE", "LABEL", &id, "rack", "r1"]);
        said.is_ok_and(|said| said.text().is_some_and(|text| text.contains("table_version")))
    };
    fleet.wait_for(DEADLINE, "a change is made", changed).expect("changes are possible");
}

#[test]
fn a_cluster_with_a_majority_is_not_recovered() {
    let fleet = Fleet::start(3, &[]).expect("three nodes form a cluster");
    let said = recover(&fleet, 1);
    assert!(said.is_error("REFUSED a majority of voters answers"), "{said:?}");
    let other = "0".repeat(40);
    let said = fleet.ask(1, &["SLOTD", "RECOVER", &other]).expect("it answers");
    assert!(said.is_error("REFUSED"), "{said:?}");
}

#[test]
fn the_old_majority_is_refused_after_a_recovery() {
    let args = ["--cluster-require-full-coverage", "no"];
    let mut fleet = Fleet::start(3, &args).expect("three nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("three vote");
    let own = ["SET", "foo", "kept"];
    assert_eq!(fleet.ask(2, &own).expect("it answers"), Value::ok(), "node 2 owns slot 12182");
    fleet.kill(0).expect("it runs");
    fleet.kill(1).expect("it runs");
    let lost = |fleet: &Fleet| {
        json(fleet, 2, &["SLOTD", "STATUS"])["has_quorum"] == serde_json::Value::Bool(false)
    };
    fleet.wait_for(DEADLINE, "the quorum is lost", lost).expect("it is lost");
    let said = recover(&fleet, 2);
    assert!(said.text().is_some_and(|text| text.contains("generation 1")), "{said:?}");
    let generation = json(&fleet, 2, &["SLOTD", "STATUS"])["generation"].as_u64();
    assert!(generation.is_some_and(|number| (1_000_000..2_000_000).contains(&number)));
    label(&mut fleet, 2);
    // What the node held it still holds: it did not start again.
    assert_eq!(fleet.ask(2, &["GET", "foo"]).expect("it answers"), Value::bulk("kept"));
    // The old majority comes back: it is told, and must not go on.
    for node in [0, 1] {
        fleet.begin(node).expect("it starts");
    }
    for node in [0, 1] {
        let until = Instant::now() + DEADLINE;
        while fleet.ended(node).expect("it is ours").is_none() {
            assert!(Instant::now() < until, "{}", fleet.last_words(node));
            std::thread::sleep(Duration::from_millis(20));
        }
        let words = fs::read_to_string(fleet.dir(node).join("stderr")).expect("it is there");
        assert!(words.contains("recovered at generation 1"), "{words}");
    }
    assert_eq!(fleet.ask(2, &["GET", "foo"]).expect("it answers"), Value::bulk("kept"));
}

#[test]
fn a_node_that_is_reached_follows_the_recovery_with_its_keys() {
    let args = ["--cluster-require-full-coverage", "no"];
    let mut fleet = Fleet::start(5, &args).expect("five nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("five vote");
    // The last node owns the last fifth.
    assert_eq!(fleet.ask(3, &["SET", "foo", "kept"]).expect("it answers"), Value::ok());
    for node in [0, 1, 2] {
        fleet.kill(node).expect("it runs");
    }
    let lost = |fleet: &Fleet| {
        [3, 4].iter().all(|node| {
            json(fleet, *node, &["SLOTD", "STATUS"])["has_quorum"] == serde_json::Value::Bool(false)
        })
    };
    fleet.wait_for(DEADLINE, "the quorum is lost", lost).expect("it is lost");
    let said = recover(&fleet, 4);
    assert!(said.text().is_some_and(|text| text.contains("followed: node-3")), "{said:?}");
    let follows = |fleet: &Fleet| {
        let status = json(fleet, 3, &["SLOTD", "STATUS"]);
        status["generation"].as_u64() > Some(1)
            && status["has_quorum"] == serde_json::Value::Bool(true)
    };
    fleet.wait_for(DEADLINE, "node 3 follows", follows).expect("it follows");
    label(&mut fleet, 3);
    let kept =
        |fleet: &Fleet| fleet.ask(3, &["GET", "foo"]).is_ok_and(|said| said == Value::bulk("kept"));
    fleet.wait_for(DEADLINE, "node 3 serves what it holds", kept).expect("its keys are kept");
    let gone = json(&fleet, 4, &["SLOTD", "STATUS"]);
    let gone = gone["nodes"].as_array().into_iter().flatten().find(|row| row["name"] == "node-0");
    let id = gone.and_then(|row| row["id"].as_str()).expect("node-0 is in the table").to_owned();
    let mut client = fleet.client(4).expect("it accepts");
    client.wait_at_most(Duration::from_secs(40));
    let said = client.call(&["SLOTD", "NODE", "LOST", &id]).expect("it answers");
    assert!(said.is_error("REFUSED"), "its slots would be lost: {said:?}");
    let said = client.call(&["SLOTD", "NODE", "LOST", &id, "ACCEPT-LOSS"]).expect("it answers");
    assert!(said.text().is_some_and(|text| text.contains("table_version")), "{said:?}");
}

#[test]
fn a_node_given_up_while_it_was_paused_serves_nothing_once_it_is_told() {
    let args = ["--cluster-require-full-coverage", "no"];
    let mut fleet = Fleet::start(3, &args).expect("three nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("three vote");
    assert_eq!(fleet.ask(2, &["SET", "foo", "old"]).expect("it answers"), Value::ok());
    let id = id_of(&fleet, 2);
    fleet.pause(2).expect("it runs");
    let mut client = fleet.client(0).expect("it accepts");
    client.wait_at_most(Duration::from_secs(40));
    let until = Instant::now() + DEADLINE;
    loop {
        let said = client.call(&["SLOTD", "NODE", "LOST", &id, "ACCEPT-LOSS"]).expect("it answers");
        if said.text().is_some_and(|text| text.contains("table_version")) {
            break;
        }
        // Until its silence is noticed it is not lost.
        assert!(said.is_error("REFUSED node-2 answers") && Instant::now() < until, "{said:?}");
    }
    let assigned = |fleet: &Fleet| {
        fleet.ask(0, &["CLUSTER", "ADDSLOTS", "12182"]).is_ok_and(|said| said == Value::ok())
    };
    fleet.wait_for(DEADLINE, "the slot has another owner", assigned).expect("it is assigned");
    assert_eq!(fleet.ask(0, &["SET", "foo", "new"]).expect("it answers"), Value::ok());
    fleet.resume(2).expect("it is paused");
    let is_told = |fleet: &Fleet| {
        fleet.ask(2, &["GET", "foo"]).is_ok_and(|said| said.is_error("CLUSTERDOWN"))
    };
    fleet.wait_for(DEADLINE, "the old owner is told", is_told).expect("it serves no more");
    assert_eq!(fleet.ask(0, &["GET", "foo"]).expect("it answers"), Value::bulk("new"));
}

/// Backups of all nodes: none may vote, as each may have promised what it does not know. The
/// operator decides whose knowledge counts.
#[test]
fn a_cluster_restored_from_backups_is_recovered() {
    let args = ["--cluster-require-full-coverage", "no"];
    let mut fleet = Fleet::start(3, &args).expect("three nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("three vote");
    for node in 0..3 {
        fleet.kill(node).expect("it runs");
    }
    fleet.set_args(&["--cluster-require-full-coverage", "no", "--restored", "yes"]);
    (0..3).for_each(|node| fleet.begin(node).expect("it starts"));
    let knows = |fleet: &Fleet| {
        let status = |node| fleet.ask(node, &["SLOTD", "STATUS"]);
        (0..3).all(|node| status(node).is_ok_and(|said| said.text().is_some()))
    };
    fleet.wait_for(DEADLINE, "all answer", knows).expect("they answer");
    // Longer than any election: at no look does anybody have a majority.
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        for node in 0..3 {
            let status = json(&fleet, node, &["SLOTD", "STATUS"]);
            assert_eq!(status["has_quorum"], serde_json::Value::Bool(false), "{status}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let version = |node| json(&fleet, node, &["SLOTD", "STATUS"])["table_version"].as_u64();
    let newest = (0..3).max_by_key(|node| version(*node)).expect("three");
    let said = recover(&fleet, newest);
    assert!(said.text().is_some_and(|text| text.contains("followed: ")), "{said:?}");
    fleet.wait_until_serving(DEADLINE).expect("all serve");
    label(&mut fleet, newest);
}
