//! Test support: a node without sockets, clocks or threads, and command scripts.
//!
//! A script is text: `> words` is a request, the lines after it are the reply. `> 2: words` is
//! sent by client 2. `@advance 100` moves both clocks by 100 ms; `@resume 2` lets blocked client
//! 2 read its mailbox; `@standing starting` (`seated`, `removed`) changes how the node stands to
//! its table; `@letter 2 timeout` (or `error`) posts CLIENT UNBLOCK's letter to it;
//! `@close 2` ends its connection. `UPDATE_EXPECT=1` rewrites the replies: read the diff.
//!
//! A reply is one line per element, nested ones indented: `OK` (simple), `"bulk"`, `(integer) 1`,
//! `(error) ERR ...`, `(nil)`, `(nil array)`, `(array 2)`, `(map 1)`, `(set 1)`, `(double) 1.5`,
//! `(true)`. `(blocked)` = no reply yet.

pub mod fakes;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slots::{Addresses, ClusterId, Endpoint, NodeId, SlotRanges};

use crate::command::client::ClientShared;
use crate::command::disk::NoDisk;
use crate::command::mailbox::letter;
use crate::command::waiting::Bell;
use crate::command::{Client, Edges, MemoryUse, NodeState, Now, Topology};
use crate::config::Config;
use crate::control::fixed::{FoundingNode, TableSink};
use crate::control::orders::Orders;
use crate::control::seat::Standing;
use crate::control::{FixedTable, TableLog};
use crate::resp::Proto;
use crate::session::{Session, Step, Worker};
use crate::slot::room::Chores;
use crate::slot::{Admit, Key, Op, Patience, Rooms};
use crate::store::object::Object;
use crate::store::table::{Expiry, Table};

/// A world that stands still unless told.
struct StillEdges {
    now_ms: Arc<AtomicU64>,
    /// What was written; the disk is only read.
    files: Mutex<BTreeMap<String, String>>,
}

impl Edges for StillEdges {
    fn now(&self) -> Now {
        let ms = self.now_ms.load(Ordering::SeqCst);
        Now { unix_ms: ms, mono_ns: ms * 1_000_000 }
    }
    fn run_long(&self, f: &mut dyn FnMut()) {
        f();
    }
    fn sleep(&self, time: Duration) {
        self.now_ms.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }
    fn wait(&self, bell: &Bell, time: Duration) {
        if !bell.has_rung() {
            self.sleep(time);
        }
    }
    fn memory(&self) -> MemoryUse {
        MemoryUse { allocated: 1_000_000, active: 1_100_000, resident: 1_200_000, rss: 2_000_000 }
    }
    fn cpu_seconds(&self) -> (f64, f64) {
        (1.0, 2.0)
    }
    fn purge_memory(&self) {}
    fn read_file(&self, path: &str) -> std::io::Result<String> {
        match self.files.lock().get(path) {
            Some(text) => Ok(text.clone()),
            None => std::fs::read_to_string(path),
        }
    }
    fn write_file(&self, path: &str, text: &str) -> std::io::Result<()> {
        self.files.lock().insert(path.to_owned(), text.to_owned());
        Ok(())
    }
    fn shut_down(&self) {}
    fn random_u64(&self) -> u64 {
        7
    }
    fn unix_micros(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst) * 1000
    }
    fn freed_objects(&self) -> (u64, u64) {
        (0, 0)
    }
}

struct NoChores;

impl Chores for NoChores {
    fn expiry_due(&self, _: slots::SlotId, _: u64) {}
    fn free(&self, _: Box<Object>) {}
    fn free_table(&self, _: Table<Object>) {}
}

/// A node with its clients, driven by hand.
pub struct TestNode {
    /// The node.
    pub node: Arc<NodeState>,
    worker: Worker,
    clients: BTreeMap<u32, TestClient>,
    now_ms: Arc<AtomicU64>,
}

struct TestClient {
    session: Session,
    blocked: bool,
    closed: bool,
    input: Vec<u8>,
}

/// Start of the tests' time, unix ms.
pub const START_MS: u64 = 1_700_000_000_000;

impl TestNode {
    /// One node with all slots and these options (`--port 7001`...).
    pub fn new(options: &[&str]) -> TestNode {
        TestNode::owning("0-16383", &[], options)
    }

    /// A node-a (127.0.0.1:7001) that owns `ranges`, beside others `(port, ranges)`.
    pub fn owning(ranges: &str, others: &[(u16, &str)], options: &[&str]) -> TestNode {
        let orders = |fixed: &Arc<FixedTable>| -> Box<dyn Orders> { Box::new(fixed.clone()) };
        TestNode::built(ranges, others, options, orders, |fixed| Box::new(fixed))
    }

    /// The same with other orders, and another log in front of the fixed table.
    pub fn built(
        ranges: &str,
        others: &[(u16, &str)],
        options: &[&str],
        orders: impl FnOnce(&Arc<FixedTable>) -> Box<dyn Orders>,
        log: impl FnOnce(Arc<FixedTable>) -> Box<dyn TableLog>,
    ) -> TestNode {
        let start = Config::from_args(options.iter().map(|o| o.to_string()), |path| {
            std::fs::read_to_string(path)
        })
        .unwrap_or_else(|e| panic!("options: {e}"));
        let all = std::iter::once((7001, ranges)).chain(others.iter().copied());
        let nodes: Vec<FoundingNode> = all.map(|(port, ranges)| founding(port, ranges)).collect();
        let me = nodes[0].id;
        let cluster = ClusterId::from_bytes([1; 20]);
        let fixed = Arc::new(FixedTable::found(cluster, me, &nodes).expect("a valid table"));
        let now_ms = Arc::new(AtomicU64::new(START_MS));
        let node = Arc::new(NodeState::new(
            start.config,
            Rooms::new(Box::new(NoChores)),
            Topology { table: fixed.table(), me, standing: Standing::Seated },
            Box::new(StillEdges { now_ms: now_ms.clone(), files: Mutex::default() }),
            log(fixed.clone()),
            orders(&fixed),
            Box::new(NoDisk),
            "0123456789abcdef0123456789abcdef01234567".into(),
            start.file.as_ref().map(|file| file.display().to_string()),
        ));
        let sink: Arc<dyn TableSink> = node.clone();
        fixed.tell(Arc::downgrade(&sink));
        node.sync_limits();
        let worker = Worker::new(node.stats.add_worker(), 1);
        TestNode { node, worker, clients: BTreeMap::new(), now_ms }
    }

    /// Moves both clocks.
    pub fn advance(&mut self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
        let now = self.node.edges.now();
        self.node.tick_pause(now);
    }

    fn client(&mut self, number: u32) -> &mut TestClient {
        let node = self.node.clone();
        self.clients.entry(number).or_insert_with(|| {
            let id = node.clients.next_id();
            let addr = format!("127.0.0.1:{}", 40_000 + number);
            let now_ns = node.edges.now().mono_ns;
            let shared = Arc::new(ClientShared::new(id, addr, "127.0.0.1:7001".into(), 10, now_ns));
            node.clients.add(shared.clone());
            let authenticated = !node.config.live().requirepass.is_set();
            let session = Session::new(Client::new(shared, authenticated, true));
            TestClient { session, blocked: false, closed: false, input: Vec::new() }
        })
    }

    /// Sends raw bytes as client `number`; returns the raw replies.
    pub fn send(&mut self, number: u32, bytes: &[u8]) -> Vec<u8> {
        let node = self.node.clone();
        self.client(number).input.extend_from_slice(bytes);
        let mut written = Vec::new();
        loop {
            let now = node.edges.now();
            node.sync_limits();
            node.check_memory();
            let client = self.clients.get_mut(&number).expect("made above");
            let input = std::mem::take(&mut client.input);
            let progress = client.session.process(&input, &mut self.worker, &node, now);
            client.input = input[progress.consumed..].to_vec();
            client.session.hold_back(&mut self.worker, &node);
            written.append(&mut self.worker.out);
            match progress.step {
                Step::Flush | Step::Busy(_) => {}
                Step::Blocked { .. } | Step::Paused => {
                    client.blocked = true;
                    break;
                }
                Step::Close => {
                    client.closed = true;
                    if !client.session.holds_replies() {
                        client.session.close(&node);
                        node.clients.remove(client.session.client.shared.id);
                    }
                    break;
                }
                Step::NeedInput { .. } => {
                    client.blocked = false;
                    break;
                }
            }
        }
        written
    }

    /// Lets a blocked client look at its mailbox and deadline; returns what it then gets.
    pub fn resume(&mut self, number: u32) -> Vec<u8> {
        let node = self.node.clone();
        let now = node.edges.now();
        let client = self.clients.get_mut(&number).expect("a known client");
        let letters = client.session.client.shared.mailbox.take();
        if client.session.is_blocked() {
            client.session.resume(letters, now, &mut self.worker, &node);
        }
        client.session.hold_back(&mut self.worker, &node);
        let mut out = std::mem::take(&mut self.worker.out);
        out.extend(self.send(number, b""));
        out
    }

    /// What others see of client `number`.
    pub fn shared(&mut self, number: u32) -> Arc<ClientShared> {
        self.client(number).session.client.shared.clone()
    }

    /// Switches client `number` to a protocol, as HELLO does.
    pub fn set_proto(&mut self, number: u32, proto: Proto) {
        self.client(number).session.client.set_proto(proto);
    }

    /// Does an answer lie ready for blocked client `number`?
    pub fn is_served(&self, number: u32) -> bool {
        let client = self.clients.get(&number);
        client.is_some_and(|c| c.session.client.shared.mailbox.has(letter::SERVED))
    }

    /// Takes client `number` out, to be driven by a thread of its own.
    pub fn lend(&mut self, number: u32) -> LentClient {
        self.client(number);
        let client = self.clients.remove(&number).expect("made above");
        let worker = Worker::new(self.node.stats.add_worker(), u64::from(number));
        LentClient { session: client.session, worker, node: self.node.clone() }
    }

    /// The connection of client `number` is lost; the next use of the number is a new one.
    pub fn close(&mut self, number: u32) {
        if let Some(mut client) = self.clients.remove(&number) {
            client.session.close(&self.node);
            self.node.clients.remove(client.session.client.shared.id);
        }
    }

    /// Sends one command; returns the raw reply.
    pub fn call(&mut self, number: u32, words: &[&[u8]]) -> Vec<u8> {
        self.send(number, &encode(words))
    }

    /// Applies an op to the slot of `key`, as a command would.
    pub fn apply(&mut self, key: &[u8], op: Op<'_>) {
        let now_ms = self.node.edges.now().unix_ms;
        match self.node.rooms.admit(slots::slot_of(key), now_ms, Patience::Block) {
            Admit::Served(mut owned) => {
                owned.apply(op);
            }
            _ => panic!("the slot is not served here"),
        }
    }

    /// Makes `key` a string that expires at this time (unix ms).
    pub fn set_expiring(&mut self, key: &[u8], value: &[u8], at_ms: u64) {
        let expiry = Expiry::At(at_ms);
        self.apply(key, Op::SetString { key: Key::new(key), value, expiry });
    }

    /// Has the connection been closed by the server?
    pub fn is_closed(&self, number: u32) -> bool {
        self.clients.get(&number).is_some_and(|c| c.closed)
    }
}

/// A client with a worker of its own.
pub struct LentClient {
    session: Session,
    worker: Worker,
    node: Arc<NodeState>,
}

impl LentClient {
    /// Sends whole requests; returns the raw replies so far. A busy room is tried again at once.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = bytes;
        loop {
            let now = self.node.edges.now();
            let progress = self.session.process(input, &mut self.worker, &self.node, now);
            input = &input[progress.consumed..];
            match progress.step {
                Step::Flush | Step::Busy(_) => {}
                _ => return std::mem::take(&mut self.worker.out),
            }
        }
    }

    /// Looks at the mailbox after any deadline has passed; returns what there is.
    pub fn resume_late(&mut self) -> Vec<u8> {
        let now = Now { mono_ns: u64::MAX, ..self.node.edges.now() };
        let letters = self.session.client.shared.mailbox.take();
        self.session.resume(letters, now, &mut self.worker, &self.node);
        std::mem::take(&mut self.worker.out)
    }
}

fn founding(port: u16, ranges: &str) -> FoundingNode {
    let slots: SlotRanges =
        if ranges.is_empty() { SlotRanges::new() } else { ranges.parse().expect("ranges") };
    let mut id = [0xAB; 20];
    id[..2].copy_from_slice(&port.to_be_bytes());
    FoundingNode {
        id: NodeId::from_bytes(id),
        name: format!("node-{port}"),
        addresses: Addresses {
            client: Endpoint::new("127.0.0.1", port),
            bus: Endpoint::new("127.0.0.1", port + 10_000),
            hostname: None,
        },
        slots,
    }
}

/// A RESP request.
pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Runs a script file (path from `server/src/command/families/`) on a fresh node.
pub fn run_script(path: &str) {
    play_file(&mut TestNode::new(&[]), path);
}

/// The same on this node.
pub fn play_file(node: &mut TestNode, path: &str) {
    let mut file = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    file.push("src/command/families");
    file.push(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let got = play(node, &text);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, got).expect("the script can be written");
        return;
    }
    if got != text {
        let (line, want, have) = first_difference(&text, &got);
        panic!("{path}, line {line}: expected {want:?}, got {have:?}");
    }
}

fn first_difference<'a>(want: &'a str, got: &'a str) -> (usize, &'a str, &'a str) {
    let (mut want, mut got) = (want.lines(), got.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (want.next(), got.next()) {
            (None, None) => return (line, "", ""),
            (w, g) if w != g => return (line, w.unwrap_or("<end>"), g.unwrap_or("<end>")),
            _ => {}
        }
    }
}

/// Plays a script and returns it with the replies it really got.
pub fn play(node: &mut TestNode, script: &str) -> String {
    let mut played = String::new();
    for line in script.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            let (number, words) = match request.split_once(": ") {
                Some((n, words)) if n.parse::<u32>().is_ok() => (n.parse().unwrap_or(1), words),
                _ => (1, request),
            };
            let words = crate::resp::split_quoted(words.as_bytes()).expect("quotes match");
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let _ = writeln!(played, "{line}");
            let reply = node.call(number, &words);
            played.push_str(&shown(node, number, &reply));
        } else if let Some(ms) = line.strip_prefix("@advance ") {
            let _ = writeln!(played, "{line}");
            node.advance(ms.parse().expect("milliseconds"));
        } else if let Some(standing) = line.strip_prefix("@standing ") {
            let _ = writeln!(played, "{line}");
            node.node.install_standing(match standing {
                "starting" => Standing::Starting,
                "seated" => Standing::Seated,
                "removed" => Standing::Removed,
                other => panic!("unknown standing {other:?}"),
            });
        } else if let Some(number) = line.strip_prefix("@close ") {
            let _ = writeln!(played, "{line}");
            node.close(number.parse().expect("a client number"));
        } else if let Some(what) = line.strip_prefix("@letter ") {
            let _ = writeln!(played, "{line}");
            let (number, how) = what.split_once(' ').expect("a client number and a word");
            let bit = match how {
                "timeout" => letter::UNBLOCK_TIMEOUT,
                "error" => letter::UNBLOCK_ERROR,
                other => panic!("unknown letter {other:?}"),
            };
            node.shared(number.parse().expect("a client number")).mailbox.post(bit);
        } else if let Some(number) = line.strip_prefix("@resume ") {
            let _ = writeln!(played, "{line}");
            let number = number.parse().expect("a client number");
            let reply = node.resume(number);
            played.push_str(&shown(node, number, &reply));
        } else if line.is_empty() || line.starts_with('#') {
            let _ = writeln!(played, "{line}");
        }
    }
    played
}

fn shown(node: &TestNode, number: u32, reply: &[u8]) -> String {
    if reply.is_empty() {
        let client = &node.clients[&number];
        return match (client.closed, client.blocked) {
            (true, _) => "(closed)\n".into(),
            (_, true) => "(blocked)\n".into(),
            _ => "(no reply)\n".into(),
        };
    }
    let mut text = String::new();
    let mut rest = reply;
    while !rest.is_empty() {
        rest = render(rest, 0, &mut text);
    }
    text
}

/// Renders one reply; returns what follows it.
fn render<'a>(reply: &'a [u8], depth: usize, text: &mut String) -> &'a [u8] {
    let end = reply.windows(2).position(|w| w == b"\r\n").expect("a whole reply line");
    let (line, mut rest) = (&reply[..end], &reply[end + 2..]);
    let head = String::from_utf8_lossy(&line[1..]).into_owned();
    let count: i64 = head.parse().unwrap_or(0);
    let pad = "  ".repeat(depth);
    let mut nested = 0;
    let shown = match line[0] {
        b'+' => head,
        b'-' => format!("(error) {head}"),
        b':' => format!("(integer) {head}"),
        b',' => format!("(double) {head}"),
        b'(' => format!("(big number) {head}"),
        b'_' => "(nil)".into(),
        b'#' => if head == "t" { "(true)" } else { "(false)" }.into(),
        b'$' | b'=' if count < 0 => "(nil)".into(),
        b'$' | b'=' => {
            let bulk = &rest[..count as usize];
            rest = &rest[count as usize + 2..];
            format!("\"{}\"", bulk.escape_ascii())
        }
        b'*' if count < 0 => "(nil array)".into(),
        kind => {
            let (word, factor) = match kind {
                b'*' => ("array", 1),
                b'%' => ("map", 2),
                b'~' => ("set", 1),
                b'>' => ("push", 1),
                other => panic!("unknown reply type {:?}", other as char),
            };
            nested = count * factor;
            format!("({word} {count})")
        }
    };
    let _ = writeln!(text, "{pad}{shown}");
    for _ in 0..nested {
        rest = render(rest, depth + 1, text);
    }
    rest
}
