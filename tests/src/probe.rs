//! Clients for fault tests: one that asks every node for the same key and follows no redirect,
//! and one that writes and follows them.
//!
//! Invariant of the probe: a value counts for the start of the process that the connection was
//! made to, so a value that falls within one start cannot be taken for one lost with another.

use crate::resp::{Client, Value, decode, encode};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A round waits so long for answers; those that come later count in a later round.
const ROUND: Duration = Duration::from_millis(3);
/// An answer that is not there by then is not waited for: the connection is made anew.
const GIVE_UP: Duration = Duration::from_secs(1);
/// A node that cannot be connected to is tried again after this.
const RECONNECT: Duration = Duration::from_millis(20);
const CONNECT: Duration = Duration::from_millis(100);
/// Faults that are told; after them it is clear enough.
const MAX_FAULTS: usize = 10;

/// How often each node was started.
pub struct Owners(Vec<AtomicU32>);

impl Owners {
    /// All started once.
    pub fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| AtomicU32::new(1)).collect())
    }

    /// To be called before a node is started again.
    pub fn restarted(&self, node: usize) {
        self.0[node].fetch_add(1, Ordering::SeqCst);
    }

    fn starts(&self, node: usize) -> u32 {
        self.0[node].load(Ordering::SeqCst)
    }
}

/// What the probe saw.
#[derive(Default)]
pub struct Verdict {
    /// Rounds over all nodes.
    pub rounds: u64,
    /// Rounds a second.
    pub rate: f64,
    /// Values seen.
    pub values: u64,
    /// The longest time between two values, of a key that moves.
    pub longest_gap: Duration,
    /// What must not be.
    pub faults: Vec<String>,
}

struct Line {
    stream: TcpStream,
    starts: u32,
    asked: Option<Instant>,
    /// The highest value that was known when it was asked.
    floor: i64,
    unread: Vec<u8>,
}

/// Asks every node for the same INCR, again and again.
pub struct Probe {
    addresses: Vec<String>,
    request: Vec<u8>,
    owners: std::sync::Arc<Owners>,
    lines: Vec<Option<Line>>,
    retry: Vec<Instant>,
    /// Node, its starts, its last value.
    last: Option<(usize, u32, i64)>,
    /// All values so far, if the key may move; and the highest of them.
    seen: Option<HashSet<i64>>,
    highest: i64,
    answered: Option<Instant>,
    verdict: Verdict,
}

impl Probe {
    /// A probe of one key.
    pub fn new(addresses: Vec<String>, key: &str, owners: std::sync::Arc<Owners>) -> Self {
        let mut request = Vec::new();
        encode(&["INCR", key], &mut request);
        let lines = addresses.iter().map(|_| None).collect();
        let retry = addresses.iter().map(|_| Instant::now()).collect();
        let verdict = Verdict::default();
        Self {
            addresses,
            request,
            owners,
            lines,
            retry,
            last: None,
            seen: None,
            highest: 0,
            answered: None,
            verdict,
        }
    }

    /// The key may move from node to node, and nothing of it may be lost with a process: no value
    /// comes twice, and none that is lower than what was known when it was asked for.
    #[must_use]
    pub fn that_moves(self) -> Self {
        Self { seen: Some(HashSet::new()), ..self }
    }

    /// Asks until told to stop.
    pub fn run(mut self, stop: &AtomicBool) -> Verdict {
        let start = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            for node in 0..self.addresses.len() {
                self.ask(node);
            }
            let until = Instant::now() + ROUND;
            while self.is_waiting() && Instant::now() < until {
                for node in 0..self.addresses.len() {
                    self.listen(node);
                }
            }
            self.verdict.rounds += 1;
        }
        self.verdict.rate = self.verdict.rounds as f64 / start.elapsed().as_secs_f64();
        self.verdict
    }

    fn is_waiting(&self) -> bool {
        self.lines.iter().flatten().any(|line| line.asked.is_some())
    }

    fn ask(&mut self, node: usize) {
        if self.lines[node].is_none() {
            if Instant::now() < self.retry[node] {
                return;
            }
            // Read before the connection is made: it may be to a later start, never to an earlier.
            let starts = self.owners.starts(node);
            self.lines[node] = connect(&self.addresses[node]).ok().map(|stream| Line {
                stream,
                starts,
                asked: None,
                floor: 0,
                unread: Vec::new(),
            });
        }
        let ends = match &mut self.lines[node] {
            None => true,
            Some(line) => match line.asked {
                Some(asked) => asked.elapsed() > GIVE_UP,
                None => {
                    line.asked = Some(Instant::now());
                    line.floor = self.highest;
                    line.stream.write_all(&self.request).is_err()
                }
            },
        };
        if ends {
            self.drop_line(node);
        }
    }

    fn drop_line(&mut self, node: usize) {
        self.lines[node] = None;
        self.retry[node] = Instant::now() + RECONNECT;
    }

    fn listen(&mut self, node: usize) {
        let Some(line) = &mut self.lines[node] else { return };
        let mut bytes = [0; 512];
        match line.stream.read(&mut bytes) {
            Ok(0) => return self.drop_line(node),
            Ok(n) => line.unread.extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return self.drop_line(node),
        }
        match decode(&line.unread) {
            Ok(Some((value, used))) => {
                line.unread.drain(..used);
                line.asked = None;
                let (starts, floor) = (line.starts, line.floor);
                match &self.seen {
                    None => self.judge(node, starts, &value),
                    Some(_) => self.judge_moving(node, floor, &value),
                }
            }
            Ok(None) => {}
            Err(_) => self.fault(format!("node {node} answers what is no RESP")),
        }
    }

    fn judge(&mut self, node: usize, starts: u32, value: &Value) {
        let Some(value) = value.int() else { return };
        self.verdict.values += 1;
        match self.last {
            Some((owner, _, last)) if owner != node => self.fault(format!(
                "node {owner} answered {last} and then node {node} answered {value}"
            )),
            Some((_, before, last)) if before == starts && value <= last => {
                self.fault(format!("node {node}, start {starts}: {value} after {last}"));
            }
            Some((_, before, last)) if before > starts => self.fault(format!(
                "node {node}: {value} of start {starts} after {last} of start {before}"
            )),
            _ => {}
        }
        self.last = Some((node, starts, value));
    }

    fn judge_moving(&mut self, node: usize, floor: i64, value: &Value) {
        let Some(value) = value.int() else { return };
        self.verdict.values += 1;
        let now = Instant::now();
        if let Some(before) = self.answered.replace(now) {
            self.verdict.longest_gap = self.verdict.longest_gap.max(now - before);
        }
        if value <= floor {
            self.fault(format!("node {node} answered {value}, asked when {floor} was known"));
        }
        if self.seen.as_mut().is_some_and(|seen| !seen.insert(value)) {
            self.fault(format!("node {node} answered {value}, which was answered before"));
        }
        self.highest = self.highest.max(value);
    }

    fn fault(&mut self, text: String) {
        if self.verdict.faults.len() < MAX_FAULTS {
            self.verdict.faults.push(text);
        }
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let address: SocketAddr = resolve(address)?;
    let stream = TcpStream::connect_timeout(&address, CONNECT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    address.to_socket_addrs()?.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Writes keys and follows redirects until told to stop; counts what was acknowledged.
pub fn load(addresses: &[String], number: usize, stop: &AtomicBool, written: &AtomicU64) {
    let mut lines: HashMap<String, Client> = HashMap::new();
    let mut at = 0u64;
    while !stop.load(Ordering::SeqCst) {
        at += 1;
        let key = format!("load:{number}:{}", at % 5000);
        let mut address = addresses[(at as usize) % addresses.len()].clone();
        for _ in 0..2 {
            let Some(said) = write(&mut lines, &address, &key) else { break };
            if said == Value::ok() {
                written.fetch_add(1, Ordering::Relaxed);
                break;
            }
            match &said {
                Value::Error(text) if text.starts_with("MOVED ") => {
                    address = text.rsplit(' ').next().unwrap_or_default().to_owned();
                }
                _ => break,
            }
        }
        // A load, not a flood: the faults need the processor, too.
        if at.is_multiple_of(20) {
            sleep(Duration::from_millis(1));
        }
    }
}

fn write(lines: &mut HashMap<String, Client>, address: &str, key: &str) -> Option<Value> {
    if !lines.contains_key(address) {
        let mut client = Client::connect(resolve(address).ok()?).ok()?;
        client.wait_at_most(Duration::from_millis(300));
        lines.insert(address.to_owned(), client);
    }
    let said = lines.get_mut(address)?.call(&["SET", key, "x"]);
    if said.is_err() {
        lines.remove(address);
    }
    said.ok()
}
