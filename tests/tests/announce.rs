//! What `cluster-announce-*` says is what clients are told, from the start and after CONFIG SET;
//! what is announced to other nodes only is told to no client.

use std::time::{Duration, Instant};

use slot_tests::pair::Pair;
use slot_tests::process::Node;
use slot_tests::resp::{Client, Value};

fn topology(client: &mut Client) -> [String; 3] {
    ["SLOTS", "SHARDS", "NODES"].map(|verb| {
        let reply = client.say(&format!("CLUSTER {verb}")).expect("a reply");
        match reply.text() {
            Some(text) => text.to_owned(),
            None => format!("{reply:?}"),
        }
    })
}

#[test]
fn an_announced_address_is_told_by_every_topology_command() {
    let node = Node::start(&[
        "--cluster-announce-ip",
        "10.9.8.7",
        "--cluster-announce-port",
        "7777",
        "--cluster-announce-bus-port",
        "8888",
    ])
    .expect("slotd starts");
    let mut client = node.client().expect("a connection");
    let [slots, shards, nodes] = topology(&mut client);
    assert!(nodes.contains(" 10.9.8.7:7777@8888 myself,master "), "{nodes}");
    // The values are shown as their bytes.
    let host = format!("{:?}", b"10.9.8.7".to_vec());
    for shown in [&slots, &shards] {
        assert!(shown.contains(&host) && shown.contains("Int(7777)"), "{shown}");
    }
    for line in [
        "CONFIG SET cluster-announce-ip 10.1.1.1",
        "CONFIG SET cluster-announce-hostname a.example",
    ] {
        client.say(line).expect("a reply");
    }
    let until = Instant::now() + Duration::from_secs(2);
    while !topology(&mut client)[2].contains(" 10.1.1.1:7777@8888,a.example ") {
        assert!(Instant::now() < until, "{:?}", topology(&mut client));
        std::thread::sleep(Duration::from_millis(5));
    }
    let [slots, shards, _] = topology(&mut client);
    for shown in [slots, shards] {
        assert!(!shown.contains(&host), "{shown}");
    }
}

/// Waits until CLUSTER NODES shows this piece.
fn wait_for(client: &mut Client, piece: &str) {
    let until = Instant::now() + Duration::from_secs(2);
    while !topology(client)[2].contains(piece) {
        assert!(Instant::now() < until, "no {piece:?} in {:?}", topology(client));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_address_for_nodes_is_told_to_no_client() {
    let node = Node::start(&[
        "--cluster-announce-ip",
        "10.9.8.7",
        "--cluster-announce-bus-ip",
        "172.17.0.2",
        "--cluster-announce-bus-port",
        "8888",
    ])
    .expect("slotd starts");
    let mut client = node.client().expect("a connection");
    let port = node.address().port();
    let no_bus_host = |client: &mut Client| {
        let bytes = ["172.17.0.2", "slotd-1"].map(|host| format!("{:?}", host.as_bytes()));
        for told in topology(client) {
            assert!(!told.contains("172.17.0.2") && !told.contains("slotd-1"), "{told}");
            assert!(!bytes.iter().any(|host| told.contains(host)), "{told}");
        }
    };
    assert!(topology(&mut client)[2].contains(&format!(" 10.9.8.7:{port}@8888 ")));
    no_bus_host(&mut client);

    // The table takes a name, too; a change of the port beside it shows that it has arrived.
    for (set, shown) in [
        (
            "cluster-announce-bus-ip slotd-1 cluster-announce-bus-port 8889",
            format!(" 10.9.8.7:{port}@8889 "),
        ),
        // Without one, nodes are told what clients are.
        (
            "cluster-announce-bus-ip  cluster-announce-bus-port 8890",
            format!(" 10.9.8.7:{port}@8890 "),
        ),
    ] {
        let set: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(set.split(' ')).collect();
        assert_eq!(client.call(&set).expect("a reply"), Value::ok(), "{set:?}");
        wait_for(&mut client, &shown);
        no_bus_host(&mut client);
    }
    let bad = client.say("CONFIG SET cluster-announce-bus-ip [::1]").expect("a reply");
    assert!(bad.is_error("ERR CONFIG SET failed"), "{bad:?}");
}

#[test]
fn an_ipv6_address_stands_without_brackets_before_the_last_colon() {
    let node = Node::start(&[
        "--cluster-announce-ip",
        "2001:db8::1",
        "--cluster-announce-port",
        "7777",
        "--cluster-announce-bus-ip",
        "fd00::1",
        "--cluster-announce-hostname",
        "one.example",
    ])
    .expect("slotd starts");
    let mut client = node.client().expect("a connection");
    let bus = node.address().port() + 10_000;
    let [slots, shards, nodes] = topology(&mut client);
    let wanted = format!(" 2001:db8::1:7777@{bus},one.example myself,master ");
    assert!(nodes.contains(&wanted), "{nodes}");
    for shown in [slots, shards] {
        assert!(shown.contains(&format!("{:?}", b"2001:db8::1")), "{shown}");
    }
}

#[test]
fn moved_names_another_nodes_ipv6_address_or_name() {
    for host in ["2001:db8::7", "a.example"] {
        let pair = Pair::start(host, &[]).expect("two nodes form a cluster");
        let mut client = pair.b.client().expect("a connection");
        let moved = client.say("GET bar").expect("a reply");
        assert_eq!(moved, Value::Error(format!("MOVED 5061 {host}:7777")));
        let [slots, shards, nodes] = topology(&mut client);
        let bus = pair.a.address().port() + 10_000;
        let address = format!(" {host}:7777@{bus} master ");
        let line = nodes.lines().find(|line| line.contains(&address)).expect("node-a's line");
        assert!(line.ends_with(" 0-448 450-5460"), "{line}");
        for shown in [slots, shards] {
            assert!(shown.contains(&format!("{:?}", host.as_bytes())), "{shown}");
        }
    }
}
