//! Any sequence of requests through the command layer, by four clients of a node without sockets:
//! it must not panic, every reply must be whole and well-formed RESP, and what the node says of
//! its keys must add up.
//!
//! The input is a program: which client, which command of the registry, how many words, each from
//! a small pool so that commands meet the same keys. Client 3 also sends raw bytes.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use slotd::command::registry;
use slotd::testing::{TestNode, encode};

/// Most requests of one input.
const MAX_REQUESTS: usize = 400;
/// Most words behind a command's name.
const MAX_WORDS: usize = 10;
/// The client that also sends raw bytes.
const RAW_CLIENT: u32 = 3;
/// The client that checks at the end.
const CHECKER: u32 = 9;

/// They would take away what the check at the end stands on: slots, the password, the process.
const LEFT_OUT: [&str; 6] = [
    "config|set",
    "config|rewrite",
    "cluster|delslots",
    "cluster|delslotsrange",
    "cluster|flushslots",
    "shutdown",
];
const KEYS: [&str; 8] = ["{a}1", "{a}2", "{a}3", "{a}4", "{a}5", "b", "{c}1", ""];
const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "10",
    "100",
    "0.5",
    "1.5",
    "-0",
    "inf",
    "-inf",
    "nan",
    "1e300",
    "(1",
    "9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775807",
    "1048576",
    "1048575",
    "4294967296",
    "8388608",
    "1700000000050",
];
const WORDS: [&str; 64] = [
    "NX",
    "XX",
    "GT",
    "LT",
    "CH",
    "INCR",
    "GET",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "PERSIST",
    "WITHSCORES",
    "WITHSCORE",
    "WITHVALUES",
    "LIMIT",
    "BYSCORE",
    "BYLEX",
    "REV",
    "COUNT",
    "MATCH",
    "TYPE",
    "RANK",
    "MAXLEN",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "MIN",
    "MAX",
    "REPLACE",
    "ASYNC",
    "SYNC",
    "BIT",
    "BYTE",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "string",
    "list",
    "hash",
    "set",
    "zset",
    "[a",
    "(b",
    "+",
    "-",
    "*",
    "?",
    "[ab]*",
    "ON",
    "OFF",
    "SKIP",
    "YES",
    "NO",
    "default",
    "ID",
    "f",
    "a somewhat longer value that is not stored in a pack, no",
];

/// The input, read byte by byte.
struct Tape<'a> {
    rest: &'a [u8],
}

impl<'a> Tape<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// One word: half of them keys, the rest numbers, option words and raw bytes.
    fn word(&mut self) -> Option<Vec<u8>> {
        let kind = self.byte()?;
        let at = usize::from(kind >> 2);
        Some(match kind & 3 {
            0 => KEYS[at % KEYS.len()].as_bytes().to_vec(),
            1 => NUMBERS[at % NUMBERS.len()].as_bytes().to_vec(),
            2 => WORDS[at % WORDS.len()].as_bytes().to_vec(),
            _ => self.bytes(at).to_vec(),
        })
    }
}

/// Names of all commands, `config|get` as two words.
fn names() -> &'static [Vec<&'static str>] {
    static NAMES: std::sync::LazyLock<Vec<Vec<&'static str>>> = std::sync::LazyLock::new(|| {
        let mut names: Vec<&str> = registry().all().map(|(_, e)| e.full_name.as_str()).collect();
        names.retain(|name| !LEFT_OUT.contains(name));
        names.sort_unstable();
        names.into_iter().map(|name| name.split('|').collect()).collect()
    });
    &NAMES
}

thread_local! {
    /// One node for all inputs, as making one takes longer than running an input. Each leaves it
    /// without keys and clients.
    static NODE: RefCell<Option<TestNode>> = const { RefCell::new(None) };
}

fuzz_target!(|input: &[u8]| {
    NODE.with(|cell| {
        let mut node = cell.borrow_mut();
        // A small limit of strings, so that huge offsets are cheap to be wrong about.
        run(node.get_or_insert_with(|| TestNode::new(&["--proto-max-bulk-len", "1mb"])), input);
    });
});

fn run(node: &mut TestNode, input: &[u8]) {
    let mut tape = Tape { rest: input };
    let mut time_stood_still = true;
    for _ in 0..MAX_REQUESTS {
        let Some(head) = tape.byte() else { break };
        match head {
            0xF0..=0xFF => {
                time_stood_still = false;
                node.advance(1 << (head & 15));
                (0..=RAW_CLIENT).for_each(|client| look(node, client));
            }
            0xE0..=0xEF => {
                let raw = tape.bytes(usize::from(head & 15) * 4);
                let replies = node.send(RAW_CLIENT, raw);
                check(node, RAW_CLIENT, &replies);
            }
            _ => {
                let Some(request) = request(&mut tape) else { break };
                let client = u32::from(head % 4);
                let replies = node.send(client, &request);
                check(node, client, &replies);
            }
        }
        for client in 0..=RAW_CLIENT {
            if node.is_served(client) {
                look(node, client);
            }
        }
    }
    (0..=RAW_CLIENT).for_each(|client| node.close(client));
    add_up(node, time_stood_still);
}

/// The next request of the program.
fn request(tape: &mut Tape<'_>) -> Option<Vec<u8>> {
    let (high, low, count) = (tape.byte()?, tape.byte()?, tape.byte()?);
    let name = &names()[usize::from(u16::from_be_bytes([high, low])) % names().len()];
    let mut words: Vec<Vec<u8>> = name.iter().map(|word| word.as_bytes().to_vec()).collect();
    for _ in 0..usize::from(count) % (MAX_WORDS + 1) {
        words.push(tape.word().unwrap_or_default());
    }
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    Some(encode(&words))
}

/// Lets a client that waits look again.
fn look(node: &mut TestNode, client: u32) {
    // A client that is not there yet comes to be.
    node.send(client, b"");
    let replies = node.resume(client);
    check(node, client, &replies);
}

/// Replies are whole; a closed connection is replaced.
fn check(node: &mut TestNode, client: u32, replies: &[u8]) {
    let mut at = 0;
    while at < replies.len() {
        at = skip(replies, at);
    }
    if node.is_closed(client) {
        node.close(client);
    }
}

/// The position behind the reply at `at`.
fn skip(replies: &[u8], at: usize) -> usize {
    let line = replies[at..].windows(2).position(|pair| pair == b"\r\n");
    let end = at + line.unwrap_or_else(|| broken(replies, at));
    let text = std::str::from_utf8(&replies[at + 1..end]).ok();
    let count = || text.and_then(|t| t.parse::<i64>().ok()).unwrap_or_else(|| broken(replies, at));
    let next = end + 2;
    let nested = |count: i64| (0..count).fold(next, |next, _| skip(replies, next));
    match replies[at] {
        b'+' | b'-' => next,
        b':' if text.is_some_and(|t| t.parse::<i64>().is_ok()) => next,
        b'_' if next == at + 3 => next,
        b'#' if matches!(text, Some("t" | "f")) => next,
        b',' if text.is_some_and(|t| t.parse::<f64>().is_ok()) => next,
        b'(' => next,
        b'$' | b'*' if text == Some("-1") => next,
        b'$' | b'=' | b'!' => {
            let end = next + usize::try_from(count()).unwrap_or_else(|_| broken(replies, at));
            if replies.get(end..end + 2) != Some(b"\r\n") {
                broken(replies, at);
            }
            end + 2
        }
        b'*' | b'~' | b'>' if count() >= 0 => nested(count()),
        b'%' if count() >= 0 => nested(count() * 2),
        // Attributes stand before the reply they belong to.
        b'|' if count() >= 0 => skip(replies, nested(count() * 2)),
        _ => broken(replies, at),
    }
}

fn broken(replies: &[u8], at: usize) -> ! {
    let from = &replies[at..replies.len().min(at + 200)];
    panic!("not a whole reply at {at}: {}", from.escape_ascii())
}

/// SCAN finds what DBSIZE counts, each key can be deleted, and nothing of them is left.
fn add_up(node: &mut TestNode, time_stood_still: bool) {
    assert_eq!(node.call(CHECKER, &[b"CLIENT", b"UNPAUSE"]), b"+OK\r\n");
    let size = integer(&node.call(CHECKER, &[b"DBSIZE"]));
    let keys = scan_all(node);
    if time_stood_still {
        assert_eq!(keys.len(), size, "SCAN and DBSIZE");
    } else {
        assert!(keys.len() <= size, "SCAN finds more than DBSIZE counts");
    }
    for (at, key) in keys.iter().enumerate() {
        // Half by hand, so that both ways of freeing are seen.
        if at % 2 == 0 {
            assert_eq!(node.call(CHECKER, &[b"DEL", key]), b":1\r\n", "{}", key.escape_ascii());
        }
    }
    assert_eq!(node.call(CHECKER, &[b"FLUSHALL"]), b"+OK\r\n");
    assert_eq!(node.call(CHECKER, &[b"DBSIZE"]), b":0\r\n");
    assert_eq!(node.node.key_bytes(), 0, "bytes of no keys");
    node.close(CHECKER);
}

fn integer(reply: &[u8]) -> usize {
    let text = reply.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b"\r\n"));
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| broken(reply, 0))
}

fn scan_all(node: &mut TestNode) -> Vec<Vec<u8>> {
    let (mut keys, mut cursor) = (Vec::new(), b"0".to_vec());
    loop {
        let reply = node.call(CHECKER, &[b"SCAN", &cursor, b"COUNT", b"1000"]);
        assert!(reply.starts_with(b"*2\r\n$"), "{}", reply.escape_ascii());
        let (next, at) = bulk(&reply, 4);
        let line = reply[at..].windows(2).position(|pair| pair == b"\r\n").expect("a count");
        let count = std::str::from_utf8(&reply[at + 1..at + line]).expect("digits");
        let mut at = at + line + 2;
        for _ in 0..count.parse::<usize>().expect("digits") {
            let (key, end) = bulk(&reply, at);
            keys.push(key.to_vec());
            at = end;
        }
        cursor = next.to_vec();
        if cursor == b"0" {
            keys.sort();
            keys.dedup();
            return keys;
        }
    }
}

/// The bulk string at `at`, and what is behind it.
fn bulk(reply: &[u8], at: usize) -> (&[u8], usize) {
    let line = reply[at..].windows(2).position(|pair| pair == b"\r\n").expect("a length");
    let length = std::str::from_utf8(&reply[at + 1..at + line]).expect("digits");
    let start = at + line + 2;
    let end = start + length.parse::<usize>().expect("digits");
    (&reply[start..end], end + 2)
}
