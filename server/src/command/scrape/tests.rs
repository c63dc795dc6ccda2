//! The page as a scraper reads it: parsed by the rules of the format, compared with what was
//! done to the node and with the declarations.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{scrape, unready};
use crate::metrics::declared::ALL;
use crate::metrics::{ClusterFigures, MetricsSource, PeerFigures};
use crate::testing::TestNode;

/// A family as parsed: type, help, and samples by their labels.
#[derive(Default, Debug)]
struct Family {
    kind: String,
    help: String,
    samples: BTreeMap<Vec<(String, String)>, f64>,
}

/// Reads a page, and panics where it breaks the format.
fn parsed(page: &str) -> BTreeMap<String, Family> {
    assert!(page.ends_with('\n'), "the last line ends, too");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut open = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            let family = Family { help: help.to_owned(), ..Family::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} stands twice");
            open = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, open, "TYPE follows its HELP");
            families.get_mut(name).expect("open").kind = kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = match series.split_once('{') {
                None => (series, Vec::new()),
                Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("an end"))),
            };
            assert_eq!(name, open, "samples of a family stand together");
            let value: f64 = value.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            let family = families.get_mut(name).expect("open");
            assert!(!family.kind.is_empty(), "TYPE comes before samples");
            assert!(family.samples.insert(labels, value).is_none(), "{series} stands twice");
        }
    }
    families
}

/// `a="x",b="y \" z"`.
fn labels(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a quoted value");
        let (mut value, mut letters) = (String::new(), rest.char_indices());
        let end = loop {
            match letters.next().expect("a closing quote") {
                (at, '"') => break at,
                (_, '\\') => match letters.next().expect("an escaped letter").1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, letter) => value.push(letter),
            }
        };
        found.push((name.to_owned(), value));
        text = rest[end + 1..].strip_prefix(',').unwrap_or(&rest[end + 1..]);
    }
    found
}

/// A log with three voters and a peer that is called as nobody should be.
struct Pretended {
    unready: Option<&'static str>,
}

impl MetricsSource for Pretended {
    fn cluster(&self) -> ClusterFigures {
        let peer = |name: &str, silence: Option<u64>| PeerFigures {
            name: name.to_owned(),
            silence: silence.map(Duration::from_millis),
            round_trip: Some(Duration::from_micros(250)),
        };
        ClusterFigures {
            term: 7,
            has_leader: true,
            is_leader: false,
            has_quorum: true,
            voters: 3,
            learners: 1,
            peers: vec![peer("no\"de\\\n,b", Some(1500)), peer("node-c", None)],
        }
    }

    fn unready(&self) -> Option<String> {
        self.unready.map(str::to_owned)
    }
}

fn page_of(node: &TestNode, source: Option<&dyn MetricsSource>) -> BTreeMap<String, Family> {
    parsed(&scrape(&node.node, node.node.edges.now(), source))
}

fn value(families: &BTreeMap<String, Family>, name: &str, label: &str) -> Option<f64> {
    let family = families.get(name)?;
    let is_it = |labels: &Vec<(String, String)>| match label {
        "" => labels.is_empty(),
        label => labels.iter().any(|(_, value)| value == label),
    };
    family.samples.iter().find(|(labels, _)| is_it(labels)).map(|(_, value)| *value)
}

/// Two nodes; this one (node-7001) has 0-9999, so `foo` (12182) is not its own.
fn busy_node() -> TestNode {
    let mut node = TestNode::owning("0-9999", &[(7002, "10000-16383")], &[]);
    node.send(1, b"SET k2 v\r\nSET k2 v PX 900\r\nGET k2\r\nGET none\r\nGET foo\r\nGET\r\n");
    node.send(1, b"LPUSH k2 v\r\nCONFIG GET port\r\n");
    node.advance(2500);
    node
}

#[test]
fn a_page_tells_what_was_done() {
    let node = busy_node();
    let page = page_of(&node, None);
    for (name, label, wanted) in [
        ("slotd_build_info", env!("CARGO_PKG_VERSION"), 1.0),
        ("slotd_node_info", "node-7001", 1.0),
        ("slotd_ready", "", 1.0),
        ("slotd_uptime_seconds", "", 2.5),
        ("process_start_time_seconds", "", 1_700_000_000.0),
        ("process_cpu_seconds_total", "", 3.0),
        ("process_resident_memory_bytes", "", 2_000_000.0),
        ("slotd_memory_allocated_bytes", "", 1_000_000.0),
        ("slotd_keys", "", 1.0),
        ("slotd_keys_with_expiry", "", 1.0),
        ("slotd_connected_clients", "", 1.0),
        ("slotd_commands_total", "set", 2.0),
        ("slotd_commands_total", "config|get", 1.0),
        ("slotd_commands_failed_total", "lpush", 1.0),
        ("slotd_commands_rejected_total", "get", 2.0),
        ("slotd_error_replies_total", "WRONGTYPE", 1.0),
        ("slotd_error_replies_total", "MOVED", 1.0),
        ("slotd_moved_total", "", 1.0),
        ("slotd_keyspace_hits_total", "", 1.0),
        ("slotd_slots_owned", "", 10_000.0),
        ("slotd_slots_unassigned", "", 0.0),
        ("slotd_table_nodes", "", 2.0),
    ] {
        assert_eq!(value(&page, name, label), Some(wanted), "{name} {label}");
    }
    assert!(value(&page, "slotd_table_version", "").is_some_and(|version| version > 0.0));
    assert_eq!(value(&page, "slotd_commands_total", "zadd"), None, "never called");
    assert!(!page.contains_key("slotd_raft_term"), "there is no log to tell of");
}

#[test]
fn the_log_and_the_links_are_told_when_there_are_some() {
    let node = busy_node();
    let page = page_of(&node, Some(&Pretended { unready: Some("no seat") }));
    for (name, label, wanted) in [
        ("slotd_ready", "", Some(0.0)),
        ("slotd_raft_term", "", Some(7.0)),
        ("slotd_raft_has_leader", "", Some(1.0)),
        ("slotd_raft_is_leader", "", Some(0.0)),
        ("slotd_raft_has_quorum", "", Some(1.0)),
        ("slotd_raft_voters", "", Some(3.0)),
        ("slotd_raft_learners", "", Some(1.0)),
        ("slotd_peer_silence_seconds", "no\"de\\\n,b", Some(1.5)),
        ("slotd_peer_silence_seconds", "node-c", None),
        ("slotd_peer_round_trip_seconds", "node-c", Some(0.000_25)),
    ] {
        assert_eq!(value(&page, name, label), wanted, "{name} {label}");
    }
}

#[test]
fn every_declared_metric_is_told_in_its_place_as_it_is_declared() {
    let text =
        scrape(&busy_node().node, busy_node().node.edges.now(), Some(&Pretended { unready: None }));
    let page = parsed(&text);
    let told = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
    let told: Vec<&str> = told.filter_map(|line| line.split(' ').next()).collect();
    let declared: Vec<&str> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(told, declared);
    for metric in ALL {
        let family = &page[metric.name];
        assert_eq!(
            (family.kind.as_str(), family.help.as_str()),
            (metric.kind.as_str(), metric.help)
        );
        for labels in family.samples.keys() {
            let names: Vec<&str> = labels.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, metric.labels, "{}", metric.name);
        }
    }
}

#[test]
fn a_node_is_ready_when_its_slots_are_served() {
    let served = busy_node();
    assert_eq!(unready(&served.node, None), None);
    assert_eq!(unready(&served.node, Some(&Pretended { unready: None })), None);
    let why = unready(&served.node, Some(&Pretended { unready: Some("no seat") }));
    assert_eq!(why.as_deref(), Some("no seat"));
    let hole = TestNode::owning("0-9999", &[(7002, "10000-16382")], &[]);
    assert_eq!(unready(&hole.node, None).as_deref(), Some("slots without an owner: 1"));
    let partial = ["--cluster-require-full-coverage", "no"];
    let served = TestNode::owning("0-9999", &[(7002, "10000-16382")], &partial);
    assert_eq!(unready(&served.node, None), None);
}
