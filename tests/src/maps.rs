//! Who owns which slot, by each of the commands that tell it, checked field by field.
//!
//! Panics on whatever is not of the documented form: a test has found something then.

use crate::resp::{Client, Value};
use std::collections::BTreeMap;

/// `host:port` and id of the owner of every slot that has one.
pub type Owners = BTreeMap<u16, (String, String)>;

/// A line of CLUSTER NODES, checked field by field.
#[derive(Debug)]
pub struct NodeLine {
    /// Its id.
    pub id: String,
    /// Host for clients.
    pub host: String,
    /// Port for clients.
    pub port: u16,
    /// Announced host name.
    pub hostname: Option<String>,
    /// Is it the node that was asked?
    pub is_myself: bool,
    /// Its ranges.
    pub slots: Vec<(u16, u16)>,
    /// The same as they stand there.
    pub tail: String,
}

/// CLUSTER NODES, line by line.
pub fn cluster_nodes(client: &mut Client) -> Vec<NodeLine> {
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
pub fn owners_by_slots(client: &mut Client) -> Owners {
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
pub fn owners_by_shards(client: &mut Client) -> Owners {
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
pub fn owners_by_nodes(client: &mut Client) -> Owners {
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
pub fn fields(flat: &Value) -> BTreeMap<String, Value> {
    let items = flat.items().expect("a flat array").chunks(2);
    items.map(|pair| (pair[0].text().unwrap().to_owned(), pair[1].clone())).collect()
}
