//! What `cluster-announce-*` says is what clients are told, from the start and after CONFIG SET.

use std::time::{Duration, Instant};

use slot_tests::process::Node;
use slot_tests::resp::Client;

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
