//! A slot changes its owner without a move (DELSLOTS, then ADDSLOTS elsewhere), or its owner is
//! lost and comes back: no node ever contradicts itself, and no slot ever has two owners.

use std::time::{Duration, Instant};

use slot_tests::fleet::Fleet;
use slot_tests::keys::key_in;
use slot_tests::maps::{Owners, cluster_nodes, owners_by_nodes, owners_by_shards, owners_by_slots};
use slot_tests::resp::{Client, Value};

/// All nodes tell the new owner within this (a tenth of it is usual).
const AGREED: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(20);
/// An order has ended, or its end is unknown, after 35 s.
const ORDER: Duration = Duration::from_secs(40);
const SLOT: u16 = 100;
/// Slots without an owner do not stop the others meanwhile.
const ARGS: [&str; 2] = ["--cluster-require-full-coverage", "no"];

fn fleet() -> (Fleet, Vec<Client>) {
    let mut fleet = Fleet::start(3, &ARGS).expect("three nodes form a cluster");
    // A majority must be left when one is killed.
    fleet.wait_until_all_vote(DEADLINE).expect("all vote");
    let clients = (0..3).map(|node| fleet.client(node).expect("a connection")).collect();
    (fleet, clients)
}

/// Where a node says that the slot is: each of its three replies, and MOVED before them.
struct Told {
    moved: Value,
    maps: [Option<String>; 3],
}

fn ask(client: &mut Client) -> Told {
    let moved = client.call(&["GET", &key_in(SLOT)]).expect("a reply");
    let at = |owners: Owners| owners.get(&SLOT).map(|(address, _)| address.clone());
    let maps = [owners_by_slots, owners_by_shards, owners_by_nodes].map(|ask| at(ask(client)));
    Told { moved, maps }
}

#[test]
fn from_its_first_moved_on_a_node_tells_the_new_owner_everywhere() {
    let (fleet, mut clients) = fleet();
    let slot = SLOT.to_string();
    let mut owner = 0;
    for _ in 0..12 {
        let (old, new) = (owner, (owner + 1) % 3);
        let [before, after] = [old, new].map(|node| fleet.address(node));
        assert_eq!(clients[old].call(&["CLUSTER", "DELSLOTS", &slot]).unwrap(), Value::ok());
        // Who takes the slot may not have heard yet that it is free.
        let until = Instant::now() + AGREED;
        while clients[new].call(&["CLUSTER", "ADDSLOTS", &slot]).unwrap() != Value::ok() {
            assert!(Instant::now() < until, "node {new} cannot take a slot that {old} gave up");
        }
        let until = Instant::now() + AGREED;
        let mut agreed = [false; 3];
        while agreed != [true; 3] {
            assert!(Instant::now() < until, "after {AGREED:?} only {agreed:?} tell the new owner");
            for node in 0..3 {
                let Told { moved, maps } = ask(&mut clients[node]);
                let all_new = maps.iter().all(|told| told.as_deref() == Some(&after));
                let is_new = match &moved {
                    Value::NullBulk => node == new,
                    moved => *moved == Value::Error(format!("MOVED {SLOT} {after}")),
                };
                assert!(all_new || !is_new, "node {node} answers {moved:?} but tells {maps:?}");
                assert!(is_new || !agreed[node], "node {node} fell back to {moved:?}");
                let is_old = moved == Value::Error(format!("MOVED {SLOT} {before}"));
                let is_down = moved.is_error("CLUSTERDOWN Hash slot not served");
                // The old owner itself knows that the slot is not its own any more.
                assert!(is_new || is_down || is_old && node != old, "node {node}: {moved:?}");
                agreed[node] = is_new;
            }
        }
        owner = new;
    }
}

#[test]
fn a_slot_that_went_over_is_a_hole_in_one_line_and_a_single_number_in_another() {
    let (fleet, mut clients) = fleet();
    let slot = SLOT.to_string();
    assert_eq!(clients[0].call(&["CLUSTER", "DELSLOTS", &slot]).unwrap(), Value::ok());
    let until = Instant::now() + AGREED;
    while clients[1].call(&["CLUSTER", "ADDSLOTS", &slot]).unwrap() != Value::ok() {
        assert!(Instant::now() < until, "the slot cannot be taken");
    }
    let until = Instant::now() + AGREED;
    let wanted = ["0-99 101-5460", "100 5461-10921", "10922-16383"];
    for (node, client) in clients.iter_mut().enumerate() {
        loop {
            let mut lines = cluster_nodes(client);
            lines.sort_by_key(|line| line.port);
            let tails: Vec<&str> = lines.iter().map(|line| line.tail.as_str()).collect();
            if tails == wanted {
                let addresses = lines.iter().map(|line| format!("{}:{}", line.host, line.port));
                assert_eq!(addresses.collect::<Vec<_>>(), [0, 1, 2].map(|n| fleet.address(n)));
                assert!(lines[node].is_myself, "{lines:?}");
                break;
            }
            assert!(Instant::now() < until, "node {node} tells {tails:?}");
        }
    }
}

/// Has this node, asked directly, a slot to serve? Nobody answering is a no.
fn serves(fleet: &Fleet, node: usize) -> bool {
    let reply = fleet.ask(node, &["SET", &key_in(SLOT), "x"]);
    reply.is_ok_and(|reply| reply == Value::ok())
}

#[test]
fn a_lost_owner_that_comes_back_with_its_old_disk_serves_nothing() {
    let (mut fleet, _) = fleet();
    assert!(serves(&fleet, 0));
    fleet.kill(0).expect("it runs");
    let until = Instant::now() + DEADLINE;
    let order = ["SLOTD", "NODE", "LOST", "node-0", "ACCEPT-LOSS"];
    let mut operator = fleet.client(1).expect("a connection");
    operator.wait_at_most(ORDER);
    loop {
        match operator.call(&order).expect("an answer") {
            Value::Bulk(_) => break,
            other => assert!(Instant::now() < until, "not taken out: {other:?}"),
        }
        assert!(!serves(&fleet, 1) && !serves(&fleet, 2), "a slot whose owner is only silent");
    }
    let given = fleet.ask(1, &["CLUSTER", "ADDSLOTSRANGE", "0", "5460"]).expect("a reply");
    assert_eq!(given, Value::ok());
    assert!(serves(&fleet, 1));
    fleet.begin(0).expect("the process starts");
    // Until it has been told that it is out it must not have answered with anything else.
    let until = Instant::now() + DEADLINE;
    loop {
        assert!(!serves(&fleet, 0), "two owners of slot {SLOT}");
        assert!(serves(&fleet, 1));
        let told = fleet.ask(0, &["GET", &key_in(SLOT)]);
        let has_ended = fleet.ended(0).expect("it is ours").is_some();
        let is_out = |reply: &Value| reply.is_error("CLUSTERDOWN this node was removed");
        if has_ended || told.as_ref().is_ok_and(is_out) {
            break;
        }
        assert!(Instant::now() < until, "{told:?}\n{}", fleet.last_words(0));
    }
    assert!(serves(&fleet, 1) && !serves(&fleet, 0));
}

#[test]
fn an_owner_that_comes_back_after_its_slot_went_over_redirects() {
    let (mut fleet, mut clients) = fleet();
    let slot = SLOT.to_string();
    assert_eq!(clients[0].call(&["CLUSTER", "DELSLOTS", &slot]).unwrap(), Value::ok());
    // Its disk knows that the slot is nobody's, not whose it becomes.
    fleet.kill(0).expect("it runs");
    let until = Instant::now() + DEADLINE;
    // An answer that comes too late leaves it unknown: then the slot itself tells.
    while clients[1].call(&["CLUSTER", "ADDSLOTS", &slot]).ok() != Some(Value::ok())
        && !serves(&fleet, 1)
    {
        assert!(Instant::now() < until, "the slot cannot be taken");
        clients[1] = fleet.client(1).expect("a connection");
    }
    fleet.begin(0).expect("the process starts");
    let until = Instant::now() + DEADLINE;
    let moved = Value::Error(format!("MOVED {SLOT} {}", fleet.address(1)));
    loop {
        assert!(!serves(&fleet, 0), "two owners of slot {SLOT}");
        if fleet.ask(0, &["GET", &key_in(SLOT)]).is_ok_and(|told| told == moved) {
            break;
        }
        assert!(Instant::now() < until, "{}", fleet.last_words(0));
    }
    let mut client = fleet.client(0).expect("a connection");
    let maps = ask(&mut client).maps;
    assert!(maps.iter().all(|told| *told == Some(fleet.address(1))), "{maps:?}");
}
