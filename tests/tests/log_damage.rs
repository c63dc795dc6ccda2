//! A node's part of the table's log is damaged: it does not start, and comes back by the way that
//! the manual tells (chapter disk, "A damaged log").

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use slot_tests::fleet::Fleet;

const DEADLINE: Duration = Duration::from_secs(30);
/// The node whose log is damaged.
const HURT: usize = 2;
/// Longer than the server's own patience with an order.
const ORDER: Duration = Duration::from_secs(40);

fn status(fleet: &Fleet, node: usize) -> serde_json::Value {
    let said = fleet.ask(node, &["SLOTD", "STATUS"]).expect("it answers");
    serde_json::from_str(said.text().unwrap_or_default()).unwrap_or_else(|_| panic!("{said:?}"))
}

/// What the first node says of another.
fn row(fleet: &Fleet, name: &str) -> serde_json::Value {
    let status = status(fleet, 0);
    let mut rows = status["nodes"].as_array().into_iter().flatten();
    rows.find(|row| row["name"] == name).expect("it is in the table").clone()
}

/// The folder of a node's log of the cluster that all are in.
fn log_folder(fleet: &Fleet, node: usize) -> PathBuf {
    let status = status(fleet, 0);
    let cluster = status["cluster"].as_str().expect("an id");
    let folder = format!("raft-{}-{}", &cluster[..12], status["generation"]);
    fleet.dir(node).join(folder)
}

/// Flips a bit in the middle of what the first segment holds.
fn damage(fleet: &Fleet, node: usize) {
    let file = log_folder(fleet, node).join("raft.log.00000001");
    let mut bytes = fs::read(&file).expect("it is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it holds records");
    bytes[end / 2] ^= 0x10;
    fs::write(&file, bytes).expect("it is written");
}

fn starts_not(fleet: &mut Fleet, node: usize) -> String {
    fleet.begin(node).expect("it is started");
    let until = Instant::now() + DEADLINE;
    while fleet.ended(node).expect("it is ours").is_none() {
        assert!(Instant::now() < until, "{}", fleet.last_words(node));
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::read_to_string(fleet.dir(node).join("stderr")).expect("it is there")
}

fn label(fleet: &Fleet, value: &str) {
    let id = row(fleet, "node-0")["id"].as_str().expect("an id").to_owned();
    let said = fleet.ask(0, &["SLOTD", "NODE", "LABEL", &id, "rack", value]).expect("it answers");
    assert!(said.text().is_some_and(|text| text.contains("table_version")), "{said:?}");
}

fn replace_voter(fleet: &Fleet) -> slot_tests::resp::Value {
    let mut client = fleet.client(0).expect("it accepts");
    client.wait_at_most(ORDER);
    client.call(&["SLOTD", "NODE", "REPLACE-VOTER", &format!("node-{HURT}")]).expect("it answers")
}

#[test]
fn a_voter_with_a_damaged_log_does_not_start_and_rejoins_as_the_manual_says() {
    let args = ["--cluster-require-full-coverage", "no"];
    let mut fleet = Fleet::start(4, &args).expect("four nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("three vote");
    (0..20).for_each(|n| label(&fleet, &n.to_string()));
    // The hurt node votes: if another was chosen, its vote moves here.
    let name = format!("node-{HURT}");
    if row(&fleet, &name)["role"] == "learner" {
        let voter = (1..4).map(|n| format!("node-{n}")).find(|n| row(&fleet, n)["role"] == "voter");
        let words = ["SLOTD", "NODE", "REPLACE-VOTER", &voter.expect("three vote"), &name];
        let mut client = fleet.client(0).expect("it accepts");
        client.wait_at_most(ORDER);
        let said = client.call(&words).expect("it answers");
        assert!(said.text().is_some_and(|text| text.contains("table_version")), "{said:?}");
    }
    let id = row(&fleet, &name)["id"].clone();
    fleet.kill(HURT).expect("it runs");
    damage(&fleet, HURT);
    let words = starts_not(&mut fleet, HURT);
    assert!(words.contains("raft.log.00000001 is damaged at offset "), "{words}");
    assert!(words.contains(&log_folder(&fleet, HURT).display().to_string()), "{words}");
    assert!(words.contains("manual, chapter disk"), "it says what to do: {words}");

    let said = replace_voter(&fleet);
    assert!(said.text().is_some_and(|text| text.contains("votes no more")), "{said:?}");
    fleet.kill(HURT).expect("its end is noted");
    fs::rename(log_folder(&fleet, HURT), fleet.dir(HURT).join("damaged")).expect("it is moved");
    fleet.begin(HURT).expect("it starts");
    fleet.wait_until_serving(DEADLINE).expect("it is back");
    let is_back = |fleet: &Fleet| {
        let version = |node| status(fleet, node)["table_version"].clone();
        version(HURT) == version(0)
    };
    fleet.wait_for(DEADLINE, "it has the table", is_back).expect("it has");
    let own = fleet.ask(HURT, &["CLUSTER", "MYID"]).expect("it answers");
    assert_eq!(own.text(), id.as_str(), "the same node as before");
    assert_ne!(row(&fleet, &name)["role"], "voter");
    // Whoever led leads on: the node came back with less than it had.
    (0..4).for_each(|node| assert_eq!(fleet.starts(node), if node == HURT { 3 } else { 1 }));
    (0..4).for_each(|node| assert!(fleet.ended(node).expect("it is ours").is_none()));
    label(&fleet, "after");
    // It may vote again.
    let words = ["SLOTD", "NODE", "REPLACE-VOTER", "node-3", &name];
    let mut client = fleet.client(0).expect("it accepts");
    client.wait_at_most(ORDER);
    let said = client.call(&words).expect("it answers");
    assert!(said.text().is_some_and(|text| text.contains("votes no more")), "{said:?}");
    assert_eq!(row(&fleet, &name)["role"], "voter");
}

/// A start that dies of its log is known to the others by then, so the next one is told that its
/// boot number is taken, while it makes the log's files anew: it takes the next number, and the
/// files are opened once.
#[test]
fn a_start_that_is_refused_while_it_opens_its_log_takes_the_next_number() {
    const ROUNDS: u32 = 4;
    let args = ["--cluster-require-full-coverage", "no"];
    let mut fleet = Fleet::start(3, &args).expect("three nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("three vote");
    for round in 0..ROUNDS {
        (0..5).for_each(|n| label(&fleet, &n.to_string()));
        fleet.kill(HURT).expect("it runs");
        damage(&fleet, HURT);
        let words = starts_not(&mut fleet, HURT);
        assert!(words.contains("is damaged at offset"), "{words}");
        fleet.kill(HURT).expect("its end is noted");
        let aside = fleet.dir(HURT).join(format!("damaged-{round}"));
        fs::rename(log_folder(&fleet, HURT), aside).expect("it is moved");
        fleet.begin(HURT).expect("it starts");
        fleet.wait_until_serving(DEADLINE).expect("it is back");
        let is_back = |fleet: &Fleet| {
            status(fleet, HURT)["table_version"] == status(fleet, 0)["table_version"]
        };
        fleet.wait_for(DEADLINE, "it has the table", is_back).expect("it has");
    }
}

#[test]
fn with_no_other_node_to_vote_the_order_says_to_add_one() {
    let args = ["--cluster-require-full-coverage", "no"];
    let mut fleet = Fleet::start(3, &args).expect("three nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("three vote");
    fleet.kill(HURT).expect("it runs");
    let said = replace_voter(&fleet);
    assert!(said.is_error("REFUSED no other node can vote"), "{said:?}");
}
