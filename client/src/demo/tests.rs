//! The story with nodes that are threads of this process: one kind checks who owns a slot, the
//! other takes every write. The demo must tell them apart.

#![allow(clippy::disallowed_methods, reason = "a test's servers are threads")]

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slots::{Endpoint, SLOTS, SlotId, slot_of};

use super::edge::Nodes;
use super::{DemoOptions, DemoOutcome, story};

/// What is wrong with the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// A node takes every write and answers every question.
    NoCheck,
    /// A write is acknowledged and forgotten, now and then.
    Forgets,
    /// A node refuses and writes all the same.
    WritesWhatItRefuses,
    /// Refusals are not counted.
    CountsNothing,
}

/// All nodes share one table, as committed changes make them.
struct Shared {
    bug: Bug,
    owners: Vec<Option<usize>>,
    ports: Vec<u16>,
    keys: Vec<HashMap<String, String>>,
    refusals: Vec<u64>,
    writes: u64,
}

struct FakeNodes {
    shared: Arc<Mutex<Shared>>,
    endpoints: Vec<Endpoint>,
}

impl FakeNodes {
    fn new(bug: Bug) -> FakeNodes {
        let shared = Shared {
            bug,
            owners: vec![None; SLOTS],
            ports: Vec::new(),
            keys: Vec::new(),
            refusals: Vec::new(),
            writes: 0,
        };
        FakeNodes { shared: Arc::new(Mutex::new(shared)), endpoints: Vec::new() }
    }
}

impl Nodes for FakeNodes {
    fn start_next(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let me = self.endpoints.len();
        self.endpoints.push(Endpoint::new("127.0.0.1", port));
        let mut shared = self.shared.lock().expect("no panic");
        shared.ports.push(port);
        shared.keys.push(HashMap::new());
        shared.refusals.push(0);
        drop(shared);
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = shared.clone();
                std::thread::spawn(move || serve(me, stream, &shared));
            }
        });
        Ok(())
    }

    fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    fn printed(&self, _: usize) -> String {
        "WARN node-x refused 1 command for slots it does not own, most from 'ingest-4'".into()
    }
}

fn serve(me: usize, stream: TcpStream, shared: &Mutex<Shared>) {
    let mut requests = BufReader::new(stream.try_clone().expect("a socket"));
    let mut replies = BufWriter::new(stream);
    while let Some(words) = request(&mut requests) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reply = shared.lock().expect("no panic").answer(me, &words);
        let sent = replies.write_all(reply.as_bytes());
        // The rest of a pipeline is answered first.
        if sent.is_err() || requests.buffer().is_empty() && replies.flush().is_err() {
            return;
        }
    }
}

fn request(from: &mut impl BufRead) -> Option<Vec<String>> {
    let count = number(from, '*')?;
    let words = (0..count).map(|_| {
        let mut word = vec![0; number(from, '$')? + 2];
        from.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        String::from_utf8(word).ok()
    });
    words.collect()
}

fn number(from: &mut impl BufRead, mark: char) -> Option<usize> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(mark)?.parse().ok()
}

impl Shared {
    fn answer(&mut self, me: usize, words: &[&str]) -> String {
        match words {
            ["CLIENT", ..] => "+OK\r\n".into(),
            ["CLUSTER", "NODES"] => bulk(&"a node\n".repeat(self.ports.len())),
            ["CLUSTER", "INFO"] => bulk("cluster_enabled:1\r\ncluster_state:ok\r\n"),
            ["CLUSTER", "SLOTS"] => self.slots(),
            ["CLUSTER", "ADDSLOTSRANGE", ranges @ ..] => self.assign(ranges, None, Some(me)),
            ["CLUSTER", "DELSLOTSRANGE", ranges @ ..] => self.assign(ranges, Some(me), None),
            ["INFO", _] => {
                let counts = self.bug != Bug::CountsNothing;
                let count = if counts { self.refusals[me] } else { 0 };
                bulk(&format!("# Cluster\r\ncluster_stale_refusals:{count}\r\n"))
            }
            ["DBSIZE"] => format!(":{}\r\n", self.keys[me].len()),
            ["SET", key, value] => self.set(me, key, value),
            ["GET", key] => match self.refusal(me, key) {
                Some(moved) => moved,
                None => self.keys[me].get(*key).map_or("$-1\r\n".into(), |value| bulk(value)),
            },
            other => format!("-ERR unknown {other:?}\r\n"),
        }
    }

    fn set(&mut self, me: usize, key: &str, value: &str) -> String {
        self.writes += 1;
        let refusal = self.refusal(me, key);
        let forgets = self.bug == Bug::Forgets && self.writes.is_multiple_of(50);
        if (refusal.is_none() || self.bug == Bug::WritesWhatItRefuses) && !forgets {
            self.keys[me].insert(key.into(), value.into());
        }
        refusal.unwrap_or("+OK\r\n".into())
    }

    fn refusal(&mut self, me: usize, key: &str) -> Option<String> {
        let slot = slot_of(key.as_bytes());
        match self.owners[slot.index()] {
            Some(owner) if owner == me || self.bug == Bug::NoCheck => None,
            Some(owner) => {
                self.refusals[me] += 1;
                Some(format!("-MOVED {slot} 127.0.0.1:{}\r\n", self.ports[owner]))
            }
            None => Some("-CLUSTERDOWN Hash slot not served\r\n".into()),
        }
    }

    fn assign(&mut self, ranges: &[&str], from: Option<usize>, to: Option<usize>) -> String {
        let numbers: Vec<usize> = ranges.iter().map(|word| word.parse().expect("a slot")).collect();
        for pair in numbers.chunks(2) {
            for slot in pair[0]..=pair[1] {
                assert_eq!(self.owners[slot], from, "slot {slot}");
                // Looked at for a few only: it is slow, and what goes over goes over alike.
                if slot.is_multiple_of(500) && from.is_some() {
                    let mut keys = self.keys.iter().flat_map(HashMap::keys);
                    assert!(keys.all(|key| slot_of(key.as_bytes()).index() != slot), "{slot}");
                }
                self.owners[slot] = to;
            }
        }
        "+OK\r\n".into()
    }

    /// A row for each slot that differs from the one before.
    fn slots(&self) -> String {
        let mut rows: Vec<(usize, usize, usize)> = Vec::new();
        for slot in SlotId::all().map(SlotId::index) {
            let Some(owner) = self.owners[slot] else { continue };
            match rows.last_mut() {
                Some((_, last, of)) if *of == owner && *last + 1 == slot => *last = slot,
                _ => rows.push((slot, slot, owner)),
            }
        }
        let row = |(first, last, owner): &(usize, usize, usize)| {
            let port = self.ports[*owner];
            format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$1\r\nx\r\n")
        };
        format!("*{}\r\n{}", rows.len(), rows.iter().map(row).collect::<String>())
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn check(bug: Bug) -> (DemoOutcome, String) {
    let options = DemoOptions { slotd: None, late: Duration::from_millis(400), per_second: 1000 };
    let mut printed = Vec::new();
    let outcome = story::tell(&mut FakeNodes::new(bug), &options, &mut printed);
    (outcome.expect("it runs"), String::from_utf8(printed).expect("text"))
}

#[test]
fn a_fleet_that_checks_misplaces_nothing_and_the_model_does() {
    let (outcome, printed) = check(Bug::None);
    assert!(outcome.is_clean(), "{printed}");
    assert!(outcome.stale_writes >= 400 && outcome.slotd.refused > 50, "{outcome:?}");
    assert_eq!(outcome.slotd.refused, outcome.refusals_counted_by_nodes);
    assert_eq!(outcome.unchecked.written, outcome.slotd.written);
    assert!(outcome.unchecked.misplaced * 10 > outcome.stale_writes * 7, "{outcome:?}");
    assert!(printed.starts_with("A cluster of its own"), "{printed}");
    assert!(printed.ends_with("slotd misplaced nothing: a stale writer is a line in a log.\n"));
    assert!(printed.contains("misplaced                                        0"), "{printed}");
    assert!(printed.contains("node-x refused 1 command"), "{printed}");
}

#[test]
fn a_fleet_without_the_check_is_found_out() {
    let (outcome, printed) = check(Bug::NoCheck);
    assert_eq!((outcome.slotd.refused, outcome.is_clean()), (0, false));
    assert!(outcome.slotd.misplaced > 50, "{printed}");
    assert_eq!(outcome.slotd.misplaced, outcome.slotd.not_found);
    assert!(printed.contains(": it lies on 127.0.0.1:"), "{printed}");
}

#[test]
fn acknowledged_readings_that_are_gone_are_found_out() {
    let (outcome, printed) = check(Bug::Forgets);
    assert_eq!((outcome.slotd.misplaced, outcome.is_clean()), (0, false));
    assert!(outcome.slotd.not_found > 10, "{printed}");
}

#[test]
fn a_node_that_refuses_and_writes_is_found_out() {
    let (outcome, _) = check(Bug::WritesWhatItRefuses);
    assert_eq!(outcome.slotd.misplaced, outcome.slotd.refused);
    assert_eq!((outcome.slotd.not_found, outcome.is_clean()), (0, false));
}

#[test]
fn refusals_that_the_nodes_do_not_count_are_found_out() {
    let (outcome, _) = check(Bug::CountsNothing);
    assert_eq!((outcome.refusals_counted_by_nodes, outcome.is_clean()), (0, false));
    assert_eq!(outcome.slotd.misplaced, 0);
}

#[test]
fn options_out_of_their_limits_are_refused_before_anything_starts() {
    let refused = |late_ms, per_second| {
        let late = Duration::from_millis(late_ms);
        let options = DemoOptions { slotd: None, late, per_second };
        let error = super::run(&options, &mut io::sink()).expect_err("out of limits");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        error.to_string()
    };
    assert_eq!(refused(3000, 49), "49 readings a second: expected 50 to 20000 for a box");
    assert!(refused(0, 2000).starts_with("0 readings by the old map: expected 1 to 100000;"));
    assert!(refused(50_001, 2000).starts_with("100002 readings by the old map"));
}
