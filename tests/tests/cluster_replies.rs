//! What nodes say of slots and addresses, from outside: hash tags, redirects, topology replies,
//! announced addresses, and Debian's redis-cli as a reader of all that.
//!
//! Not changes of owners (`topology.rs`).

use std::process::{Command, Stdio};

use slot_tests::cluster::Cluster;
use slot_tests::keys::{SLOTS, slot_of};
use slot_tests::maps::{cluster_nodes, fields, owners_by_nodes, owners_by_shards, owners_by_slots};
use slot_tests::pair::Pair;
use slot_tests::process::Node;
use slot_tests::resp::{Client, Value};

/// Node-b and what it is asked; node-a is announced at 10.9.8.7:7777, and slot 449, alone, is
/// node-b's.
fn pair() -> (Pair, Client) {
    let pair = Pair::start("10.9.8.7", &[]).unwrap();
    let client = pair.b.client().unwrap();
    (pair, client)
}

fn id(node: &Node) -> String {
    let id = node.client().unwrap().say("CLUSTER MYID").unwrap();
    id.text().expect("an id").to_owned()
}

#[test]
fn hash_tags_empty_nested_and_anywhere() {
    let node = Node::start(&[]).unwrap();
    let mut client = node.client().unwrap();
    for (key, slot) in [
        ("foo{}{bar}", 8363),
        ("{}{same}", 4123),
        ("wp:{}{same}", 1583),
        ("foo{{bar}}zap", 4015),
        ("{bar", 4015),
        ("foo{bar}{zap}", 5061),
        ("bar", 5061),
        ("a{'1':{'i32':1}}", 5540),
        ("'1':{'i32':1", 5540),
        ("foo{bar", slot_of(b"foo{bar")),
        ("foo}bar{", slot_of(b"foo}bar{")),
        ("{user1000}.following", 3443),
        ("123456789", 12739),
        ("", 0),
    ] {
        let reply = client.call(&["CLUSTER", "KEYSLOT", key]).unwrap();
        assert_eq!(reply, Value::Int(slot.into()), "{key:?}");
    }
}

#[test]
fn moved_and_every_topology_reply_name_the_same_owner() {
    let cluster = Cluster::of_three().unwrap();
    let mut told = Vec::new();
    for node in 0..3 {
        let mut client = cluster.client(node).unwrap();
        let owners = owners_by_slots(&mut client);
        assert_eq!(owners.len(), usize::from(SLOTS));
        assert_eq!(owners_by_shards(&mut client), owners);
        assert_eq!(owners_by_nodes(&mut client), owners);
        let me = client.say("CLUSTER MYID").unwrap();
        for key in ["k2", "bar", "k0", "foo", "{k2}other"] {
            let slot = slot_of(key.as_bytes());
            let (address, id) = &owners[&slot];
            let reply = client.call(&["GET", key]).unwrap();
            match Some(id.as_str()) == me.text() {
                true => assert_eq!(reply, Value::NullBulk, "{key}"),
                false => assert_eq!(reply, Value::Error(format!("MOVED {slot} {address}"))),
            }
        }
        told.push(owners);
    }
    assert!(told.iter().all(|owners| *owners == told[0]), "nodes contradict each other");
    let mut addresses: Vec<&String> = told[0].values().map(|(address, _)| address).collect();
    addresses.dedup();
    let wanted: Vec<String> = (0..3).map(|node| cluster.address(node)).collect();
    assert_eq!(addresses, wanted.iter().collect::<Vec<_>>());
}

#[test]
fn a_single_slot_and_a_hole_in_cluster_nodes() {
    let (pair, mut client) = pair();
    let nodes = cluster_nodes(&mut client);
    let tails: Vec<(&str, bool, &str)> =
        nodes.iter().map(|n| (n.id.as_str(), n.is_myself, n.tail.as_str())).collect();
    assert!(tails.contains(&(id(&pair.a).as_str(), false, "0-448 450-5460")), "{tails:?}");
    assert!(tails.contains(&(id(&pair.b).as_str(), true, "449 5461-16383")), "{tails:?}");
    assert_eq!(tails.len(), 2);
    assert_eq!(client.say("SET k2 v").unwrap(), Value::ok(), "slot 449 is its own");
}

#[test]
fn the_announced_address_is_told_everywhere() {
    let (pair, mut client) = pair();
    let moved = client.say("GET bar").unwrap();
    assert_eq!(moved, Value::Error("MOVED 5061 10.9.8.7:7777".into()));
    let owner = ("10.9.8.7:7777".to_owned(), id(&pair.a));
    assert_eq!(owners_by_slots(&mut client)[&5061], owner);
    assert_eq!(owners_by_shards(&mut client)[&5061], owner);
    assert_eq!(owners_by_nodes(&mut client)[&5061], owner);

    // The node's own, too.
    let args = ["--cluster-announce-ip", "10.9.8.7", "--cluster-announce-port", "7777"];
    let own = Node::start(&args).unwrap();
    let mut client = own.client().unwrap();
    for owners in
        [owners_by_slots(&mut client), owners_by_shards(&mut client), owners_by_nodes(&mut client)]
    {
        assert_eq!(owners[&0].0, "10.9.8.7:7777");
    }
}

/// Host in MOVED, and the owner's first two fields in CLUSTER SLOTS.
fn told_of_bar(client: &mut Client, kind: &str) -> (String, Value) {
    let set = client.say(&format!("CONFIG SET cluster-preferred-endpoint-type {kind}")).unwrap();
    assert_eq!(set, Value::ok());
    let Value::Error(moved) = client.say("GET bar").unwrap() else { panic!("not MOVED") };
    let slots = client.say("CLUSTER SLOTS").unwrap();
    let ranges = slots.items().expect("ranges").iter();
    let mut of_bar = ranges.filter(|range| {
        let range = range.items().expect("a range");
        range[0].int().unwrap() <= 5061 && 5061 <= range[1].int().unwrap()
    });
    let range = of_bar.next().expect("bar's slot has an owner").items().unwrap();
    let owner = range[2].items().unwrap();
    assert_eq!(owner[1], Value::Int(7777));
    (moved, owner[0].clone())
}

#[test]
fn endpoints_unknown_and_without_a_host_name() {
    let (_pair, mut client) = pair();
    let told = told_of_bar(&mut client, "ip");
    assert_eq!(told, ("MOVED 5061 10.9.8.7:7777".into(), Value::bulk("10.9.8.7")));
    let told = told_of_bar(&mut client, "unknown-endpoint");
    assert_eq!(told, ("MOVED 5061 :7777".into(), Value::NullBulk));
    let told = told_of_bar(&mut client, "hostname");
    assert_eq!(told, ("MOVED 5061 ?:7777".into(), Value::bulk("?")));
}

#[test]
fn a_host_name_is_told_where_it_is_preferred() {
    let args = ["--cluster-announce-hostname", "one.example", "--cluster-announce-ip", "10.9.8.7"];
    let node = Node::start(&args).unwrap();
    let mut client = node.client().unwrap();
    let nodes = cluster_nodes(&mut client);
    assert_eq!(nodes[0].hostname.as_deref(), Some("one.example"));
    assert_eq!(nodes[0].host, "10.9.8.7");
    let owner = |client: &mut Client| owners_by_slots(client)[&0].0.clone();
    assert_eq!(owner(&mut client), format!("10.9.8.7:{}", node.address().port()));
    client.say("CONFIG SET cluster-preferred-endpoint-type hostname").unwrap();
    assert_eq!(owner(&mut client), format!("one.example:{}", node.address().port()));
    let shards = client.say("CLUSTER SHARDS").unwrap();
    let shard = fields(&shards.items().unwrap()[0]);
    let node = fields(&shard["nodes"].items().unwrap()[0]);
    assert_eq!(node["hostname"], Value::bulk("one.example"));
    assert_eq!(node["endpoint"], Value::bulk("one.example"));
    assert_eq!(node["ip"], Value::bulk("10.9.8.7"));
}

#[test]
fn an_empty_node_becomes_a_cluster_of_one() {
    let node = Node::start(&["--cluster-enabled", "yes"]).unwrap();
    let mut client = node.client().unwrap();
    assert_eq!(client.say("CLUSTER SLOTS").unwrap(), Value::Array(vec![]));
    assert!(client.say("SET foo 1").unwrap().is_error("CLUSTERDOWN Hash slot not served"));
    assert_eq!(client.say("CLUSTER ADDSLOTSRANGE 0 16383").unwrap(), Value::ok());
    assert_eq!(client.say("SET foo 1").unwrap(), Value::ok());
    let info = client.say("CLUSTER INFO").unwrap();
    let text = info.text().unwrap();
    assert!(text.contains("cluster_state:ok\r\n"), "{text}");
    assert!(text.contains("cluster_slots_assigned:16384\r\n"), "{text}");
    assert_eq!(cluster_nodes(&mut client)[0].tail, "0-16383");
}

/// Runs a tool; what it printed, and whether it ended with 0.
fn run(program: &str, args: &[&str]) -> (String, bool) {
    let mut command = Command::new("timeout");
    command.args(["60", program]).args(args).stdin(Stdio::null());
    let output = command.output().expect("timeout runs");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

/// Whether Debian's tools are there; says so if not.
fn has_redis_cli() -> bool {
    let is_there = Command::new("redis-cli").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: no redis-cli on this machine (Debian: redis-tools)");
    }
    is_there
}

fn check_is_clean(address: &str) {
    let (text, ok) = run("redis-cli", &["--cluster", "check", address]);
    assert!(ok, "{text}");
    assert!(text.contains("[OK] All nodes agree about slots configuration."), "{text}");
    assert!(text.contains("[OK] All 16384 slots covered."), "{text}");
    assert!(!text.contains("[WARNING]"), "{text}");
}

#[test]
fn redis_cli_follows_checks_counts_and_pipes() {
    if !has_redis_cli() {
        return;
    }
    let cluster = Cluster::of_three().unwrap();
    for node in 0..3 {
        let (port, address) = (cluster.port(node).to_string(), cluster.address(node));
        assert_eq!(run("redis-cli", &["-c", "-p", &port, "set", "foo", "1"]).0, "OK\n");
        check_is_clean(&address);
        let (info, ok) = run("redis-cli", &["--cluster", "info", &address]);
        assert!(ok && info.contains("[OK] 1 keys in 3 masters."), "{info}");
    }
    let port = cluster.port(0).to_string();
    let pipe = "printf 'SET k2 v1\\r\\n' | redis-cli -p \"$0\" --pipe";
    let (text, ok) = run("sh", &["-c", pipe, &port]);
    assert!(ok && text.contains("errors: 0, replies: 1"), "{text}");
    let bench = ["--cluster", "-t", "set,get", "-n", "1000", "-q", "-p", &port];
    let (text, ok) = run("redis-benchmark", &bench);
    assert!(ok && text.contains("GET: "), "{text}");
    assert!(!text.to_lowercase().contains("error"), "{text}");
}

#[test]
fn redis_cli_cannot_half_change_the_cluster() {
    if !has_redis_cli() {
        return;
    }
    let cluster = Cluster::of_three().unwrap();
    let address = cluster.address(0);
    let mut client = cluster.client(0).unwrap();
    let before = owners_by_nodes(&mut client);
    let ids: Vec<String> = cluster_nodes(&mut client).into_iter().map(|node| node.id).collect();
    client.say("SET {k2}a 1").unwrap();
    let weight = format!("{}=3", ids[0]);
    for args in [
        &[
            "--cluster",
            "reshard",
            &address,
            "--cluster-from",
            &ids[0],
            "--cluster-to",
            &ids[1],
            "--cluster-slots",
            "5",
            "--cluster-yes",
        ][..],
        &["--cluster", "rebalance", &address, "--cluster-weight", &weight],
        &["--cluster", "del-node", &address, &ids[2]],
    ] {
        let (text, ok) = run("redis-cli", args);
        assert!(text.contains("ERR"), "no error is shown ({ok}): {args:?}: {text}");
        for node in 0..3 {
            let mut client = cluster.client(node).unwrap();
            assert_eq!(owners_by_nodes(&mut client), before, "{args:?}");
        }
        check_is_clean(&address);
        assert_eq!(client.say("GET {k2}a").unwrap(), Value::bulk("1"));
    }
}
