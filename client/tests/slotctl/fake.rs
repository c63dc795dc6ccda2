//! Nodes that say what a test tells them to: RESP over loopback, a thread each.
//!
//! Not a server: no table, no order is carried out. Invariant: what a node was asked is kept, so
//! that a test can tell that nothing was sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use slots::admin::{NodeStatus, SlotStatus, Status};

/// What a node does about a request.
#[derive(Clone, Debug)]
pub(crate) enum Reaction {
    /// A bulk string.
    Json(String),
    /// An error line, without its `-`.
    Error(&'static str),
    /// The connection is closed without an answer.
    Close,
    /// Nothing, until the other side goes.
    Hang,
    /// These bytes.
    Raw(&'static [u8]),
}

type React = dyn Fn(&str) -> Reaction + Send + Sync;

/// A listening node that lets clients name themselves; ends when dropped.
pub(crate) struct Fake {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    ending: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Fake {
    /// A node on a free port.
    pub(crate) fn start(react: impl Fn(&str) -> Reaction + Send + Sync + 'static) -> Fake {
        Fake::on(TcpListener::bind("127.0.0.1:0").expect("a free port"), react)
    }

    /// A node that listens already.
    pub(crate) fn on(
        listener: TcpListener,
        react: impl Fn(&str) -> Reaction + Send + Sync + 'static,
    ) -> Fake {
        let port = listener.local_addr().expect("it is bound").port();
        let (asked, ending) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, end, react) = (asked.clone(), ending.clone(), Arc::new(react));
        let listener = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (kept, react) = (kept.clone(), react.clone());
                let stream = stream.expect("a connection");
                std::thread::spawn(move || serve(&stream, &kept, &*react));
            }
        });
        Fake { port, asked, ending, listener: Some(listener) }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// All requests so far, words joined by blanks.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic there").clone()
    }

    /// The requests that are orders.
    pub(crate) fn orders(&self) -> Vec<String> {
        let looks = ["STATUS", "SLOTS", "HISTORY", "EXPLAIN", "STALE", "MOVES"];
        let order = |line: &String| !looks.iter().any(|look| line.contains(look));
        self.asked().into_iter().filter(order).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(listener) = self.listener.take() {
            drop(listener.join());
        }
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Vec<String>>, react: &React) {
    let mut from = BufReader::new(stream);
    while let Some(line) = request(&mut from) {
        let mut to = stream;
        if line == "CLIENT SETNAME slotctl" {
            if to.write_all(b"+OK\r\n").is_err() {
                return;
            }
            continue;
        }
        let reaction = react(&line);
        kept.lock().expect("no panic there").push(line);
        let bytes = match reaction {
            Reaction::Json(text) => format!("${}\r\n{text}\r\n", text.len()).into_bytes(),
            Reaction::Error(text) => format!("-{text}\r\n").into_bytes(),
            Reaction::Raw(bytes) => bytes.to_vec(),
            Reaction::Close => return,
            Reaction::Hang => {
                drop(from.read(&mut [0]));
                return;
            }
        };
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// The words of a request, joined by blanks; `None` at the end.
fn request(from: &mut impl BufRead) -> Option<String> {
    let count: usize = line(from)?.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length: usize = line(from)?.strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        from.read_exact(&mut word).ok()?;
        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
    }
    Some(words.join(" "))
}

fn line(from: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    Some(line.trim_end().to_owned())
}

/// The id of node `n`.
pub(crate) fn id(n: usize) -> String {
    format!("{n:0>40}")
}

/// Three nodes at these addresses, all well, each with a third of the slots, as node `me` says.
pub(crate) fn status(me: usize, addresses: &[String]) -> Status {
    let slots = ["0-5460", "5461-10922", "10923-16383"];
    let counts = [5461, 5462, 5461];
    let node = |(n, address): (usize, &String)| NodeStatus {
        id: id(n),
        name: format!("node-{}", ["a", "b", "c"][n]),
        client: address.clone(),
        bus: "127.0.0.1:1".into(),
        state: "active".into(),
        role: if n == 0 { "leader" } else { "voter" }.into(),
        health: if n == me { "myself" } else { "connected" }.into(),
        table_version: Some(52),
        slots: slots[n].into(),
        slot_count: counts[n],
        keys: (n == me).then_some(100),
        weight: 100,
        ..NodeStatus::default()
    };
    Status {
        server_version: "0.1.0".into(),
        me: id(me),
        cluster: "c".repeat(40),
        generation: 1,
        table_version: 52,
        leader: Some(id(0)),
        has_quorum: true,
        default_rf: 1,
        nodes: addresses.iter().enumerate().map(node).collect(),
        ..Status::default()
    }
}

/// The rows of the slots of [`status`].
pub(crate) fn rows() -> Vec<SlotStatus> {
    let row = |(slots, owner): (&str, &str)| SlotStatus {
        slots: slots.into(),
        owner: Some(owner.into()),
        epoch: 12,
        ver: 12,
        in_sync: vec![owner.into()],
        ack: "in-sync".into(),
        ..SlotStatus::default()
    };
    [("0-5460", "node-a"), ("5461-10922", "node-b"), ("10923-16383", "node-c")].map(row).to_vec()
}

/// A value as a reply.
pub(crate) fn json(value: &impl serde::Serialize) -> Reaction {
    Reaction::Json(serde_json::to_string(value).expect("it is JSON"))
}
