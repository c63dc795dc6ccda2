//! What nodes say of slots and addresses, from outside: hash tags, redirects, topology replies,
//! announced addresses, and Debian's redis-cli as a reader of all that.
//!
//! Not moves: no slot changes its owner here.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use slot_tests::cluster::Cluster;
use slot_tests::keys::{SLOTS, slot_of};
use slot_tests::process::{Node, fresh_dir};
use slot_tests::resp::{Client, Value};

const IDS: [&str; 3] = [
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    "cccccccccccccccccccccccccccccccccccccccc",
];

/// One node of a fixed table; the others need not run.
struct Lone {
    node: Node,
    dir: PathBuf,
}

impl Lone {
    /// Node-b of a table in which node-a is announced at 10.9.8.7:7777 and slot 449, alone, is
    /// node-b's.
    fn node_b(args: &[&str]) -> Lone {
        let dir = fresh_dir().unwrap();
        let table = dir.join("table");
        let text = format!(
            "{} node-a 10.9.8.7:7777 17777 0-448,450-5460\n\
             {} node-b 127.0.0.1:7002 17002 449,5461-16383\n",
            IDS[0], IDS[1]
        );
        fs::write(&table, text).unwrap();
        let table = table.display().to_string();
        let own = ["--static-table", &table, "--name", "node-b"];
        let node = Node::start(&[&own, args].concat()).expect("slotd starts");
        Lone { node, dir }
    }

    fn client(&self) -> Client {
        self.node.client().unwrap()
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A line of CLUSTER NODES, checked field by field.
#[derive(Debug)]
struct NodeLine {
    id: String,
    host: String,
    port: u16,
    hostname: Option<String>,
    is_myself: bool,
    slots: Vec<(u16, u16)>,
    tail: String,
}

fn cluster_nodes(client: &mut Client) -> Vec<NodeLine> {
    let reply = client.say("CLUSTER NODES").unwrap();
    let Value::Bulk(bytes) = reply else { panic!("a bulk string, not {reply:?}") };
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n') && !text.contains('\r'), "{text:?}");
    text.lines().map(node_line).collect()
}

fn node_line(line: &str) -> NodeLine {
    let words: Vec<&str> = line.split(' ').collect();
    let [id, address, flags, master, ping, pong, epoch, link, ref slots @ ..] = words[..] else {
        panic!("eight fields at least: {line:?}")
    };
    assert!(id.len() == 40 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{line:?}");
    assert_eq!(master, "-", "{line:?}");
    assert!([ping, pong, epoch].iter().all(|number| number.parse::<u64>().is_ok()), "{line:?}");
    assert!(link == "connected" || link == "disconnected", "{line:?}");
    let (address, hostname) = match address.split_once(',') {
        Some((address, hostname)) => (address, Some(hostname.to_owned())),
        None => (address, None),
    };
    let (client, bus) = address.rsplit_once('@').expect("a bus port");
    bus.parse::<u16>().expect("a bus port");
    let (host, port) = client.rsplit_once(':').expect("a port");
    let flags: Vec<&str> = flags.split(',').collect();
    assert!(flags.contains(&"master"), "{line:?}");
    let ranges = slots.iter().map(|range| match range.split_once('-') {
        Some((first, last)) => {
            let range = (first.parse().unwrap(), last.parse().unwrap());
            assert!(range.0 < range.1, "a single slot is one number: {line:?}");
            range
        }
        None => (range.parse().unwrap(), range.parse().unwrap()),
    });
    NodeLine {
        id: id.to_owned(),
        host: host.to_owned(),
        port: port.parse().unwrap(),
        hostname,
        is_myself: flags.contains(&"myself"),
        slots: ranges.collect(),
        tail: slots.join(" "),
    }
}

/// `host:port` and id of the owner of every slot, by CLUSTER SLOTS.
fn owners_by_slots(client: &mut Client) -> BTreeMap<u16, (String, String)> {
    let reply = client.say("CLUSTER SLOTS").unwrap();
    let mut owners = BTreeMap::new();
    for range in reply.items().expect("an array") {
        let [first, last, owner, ..] = range.items().expect("a range") else { panic!("{range:?}") };
        let owner = owner.items().expect("an owner");
        let address = format!("{}:{}", owner[0].text().unwrap_or(""), owner[1].int().unwrap());
        for slot in first.int().unwrap()..=last.int().unwrap() {
            let owner = (address.clone(), owner[2].text().unwrap().to_owned());
            assert_eq!(owners.insert(slot as u16, owner), None, "slot {slot} twice");
        }
    }
    owners
}

/// The same by CLUSTER SHARDS.
fn owners_by_shards(client: &mut Client) -> BTreeMap<u16, (String, String)> {
    let reply = client.say("CLUSTER SHARDS").unwrap();
    let mut owners = BTreeMap::new();
    for shard in reply.items().expect("an array") {
        let shard = fields(shard);
        let node = fields(&shard["nodes"].items().expect("nodes")[0]);
        let address = format!("{}:{}", node["ip"].text().unwrap(), node["port"].int().unwrap());
        for range in shard["slots"].items().expect("slots").chunks(2) {
            for slot in range[0].int().unwrap()..=range[1].int().unwrap() {
                let owner = (address.clone(), node["id"].text().unwrap().to_owned());
                assert_eq!(owners.insert(slot as u16, owner), None, "slot {slot} twice");
            }
        }
    }
    owners
}

/// The same by CLUSTER NODES.
fn owners_by_nodes(client: &mut Client) -> BTreeMap<u16, (String, String)> {
    let nodes = cluster_nodes(client);
    assert_eq!(nodes.iter().filter(|node| node.is_myself).count(), 1, "{nodes:?}");
    let mut owners = BTreeMap::new();
    for node in &nodes {
        for slot in node.slots.iter().flat_map(|&(first, last)| first..=last) {
            let owner = (format!("{}:{}", node.host, node.port), node.id.clone());
            assert_eq!(owners.insert(slot, owner), None, "slot {slot} twice");
        }
    }
    owners
}

/// Names and values of a flat array.
fn fields(flat: &Value) -> BTreeMap<String, Value> {
    let items = flat.items().expect("a flat array").chunks(2);
    items.map(|pair| (pair[0].text().unwrap().to_owned(), pair[1].clone())).collect()
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
    let lone = Lone::node_b(&[]);
    let mut client = lone.client();
    let nodes = cluster_nodes(&mut client);
    let tails: Vec<(&str, bool, &str)> =
        nodes.iter().map(|n| (n.id.as_str(), n.is_myself, n.tail.as_str())).collect();
    assert!(tails.contains(&(IDS[0], false, "0-448 450-5460")), "{tails:?}");
    assert!(tails.contains(&(IDS[1], true, "449 5461-16383")), "{tails:?}");
    assert_eq!(tails.len(), 2);
    assert_eq!(client.say("SET k2 v").unwrap(), Value::ok(), "slot 449 is its own");
}

#[test]
fn the_announced_address_is_told_everywhere() {
    let lone = Lone::node_b(&[]);
    let mut client = lone.client();
    let moved = client.say("GET bar").unwrap();
    assert_eq!(moved, Value::Error("MOVED 5061 10.9.8.7:7777".into()));
    let owner = ("10.9.8.7:7777".to_owned(), IDS[0].to_owned());
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
    let lone = Lone::node_b(&[]);
    let mut client = lone.client();
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
    let spare = Node::start(&["--cluster-enabled", "yes"]).unwrap();
    let spare = spare.address().to_string();
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
        &["--cluster", "add-node", &spare, &address],
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
