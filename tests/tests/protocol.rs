//! The wire, byte by byte: broken, cut, huge and greedy requests against a real server.
//!
//! Invariant of each: who breaks the protocol is told once and closed, nobody else notices.

use std::io::ErrorKind;
use std::time::Duration;

use slot_tests::cluster::Cluster;
use slot_tests::figures::{cpu_time, rss_bytes};
use slot_tests::process::Node;
use slot_tests::resp::{Client, Value, encode};

const MIB: usize = 1 << 20;
/// Nothing came for so long: nothing will.
const SILENCE: Duration = Duration::from_millis(300);

fn node() -> Node {
    Node::start(&[]).expect("slotd starts")
}

fn pong() -> Value {
    Value::Simple("PONG".into())
}

/// Sends raw bytes on a new connection; exactly these bytes come back, and it stays open.
fn answers(node: &Node, request: &[u8], reply: &[u8]) {
    let mut client = node.client().expect("it accepts");
    client.send_raw(request).expect("it reads");
    let got = client.read_bytes(reply.len()).expect("a reply");
    assert_eq!(got.escape_ascii().to_string(), reply.escape_ascii().to_string());
    assert_eq!(client.say("PING").expect("still open"), pong());
}

/// As above, but then it is closed.
fn answers_and_closes(node: &Node, request: &[u8], reply: &[u8]) {
    let mut client = node.client().expect("it accepts");
    client.send_raw(request).expect("it reads");
    let got = client.read_to_close().expect("it closes");
    assert_eq!(got.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

fn waits(node: &Node, request: &[u8]) {
    let mut client = node.client().expect("it accepts");
    client.send_raw(request).expect("it reads");
    assert!(client.is_silent_for(SILENCE).expect("open"), "{}", request.escape_ascii());
}

#[test]
fn moved_neither_runs_the_command_nor_spoils_the_connection() {
    let cluster = Cluster::of_three().unwrap();
    let mut a = cluster.client(0).unwrap();
    let mut bytes = Vec::new();
    encode(&["SET", "foo", "x"], &mut bytes);
    encode(&["PING"], &mut bytes);
    encode(&["GET", "foo"], &mut bytes);
    a.send_raw(&bytes).unwrap();
    let moved = format!("-MOVED 12182 {}\r\n", cluster.address(2));
    let want = format!("{moved}+PONG\r\n{moved}");
    assert_eq!(a.read_bytes(want.len()).unwrap(), want.as_bytes());
    assert!(a.is_silent_for(SILENCE).unwrap());
    assert_eq!(cluster.client(2).unwrap().say("EXISTS foo").unwrap(), Value::Int(0));
}

#[test]
fn two_slots_of_one_node_are_still_cross_slot() {
    let cluster = Cluster::of_three().unwrap();
    let mut a = cluster.client(0).unwrap();
    let error = Value::Error("CROSSSLOT Keys in request don't hash to the same slot".into());
    assert_eq!(a.say("MSET {k2}a 1 {bar}b 2").unwrap(), error);
    assert_eq!(a.say("DEL {k2}a {bar}b").unwrap(), error);
    assert_eq!(a.say("RENAME {k2}a {bar}b").unwrap(), error);
    assert_eq!(a.say("EXISTS {k2}a").unwrap(), Value::Int(0));
    assert_eq!(a.say("EXISTS {bar}b").unwrap(), Value::Int(0));
}

#[test]
fn a_redirect_while_queueing_poisons_the_transaction() {
    let cluster = Cluster::of_three().unwrap();
    let mut a = cluster.client(0).unwrap();
    assert_eq!(a.say("MULTI").unwrap(), Value::ok());
    let moved = Value::Error(format!("MOVED 8579 {}", cluster.address(1)));
    assert_eq!(a.say("SET {k0}a 1").unwrap(), moved);
    assert_eq!(a.say("SET {k2}b 1").unwrap(), Value::Simple("QUEUED".into()));
    let aborted = "EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(a.say("EXEC").unwrap(), Value::Error(aborted.into()));
    assert_eq!(a.say("EXISTS {k2}b").unwrap(), Value::Int(0));
    assert_eq!(a.say("PING").unwrap(), pong());
}

#[test]
fn empty_and_null_arrays_and_lines_that_end_in_lf() {
    let node = node();
    for nothing in ["*0\r\n", "*-1\r\n", "*-10\r\n", "\r\n", "\n"] {
        let request = format!("{nothing}*1\r\n$4\r\nPING\r\n");
        answers(&node, request.as_bytes(), b"+PONG\r\n");
    }
    answers(&node, b"PING\nPING\n", b"+PONG\r\n+PONG\r\n");
    answers(&node, b"SET k 'two words'\r\nGET k\n", b"+OK\r\n$9\r\ntwo words\r\n");
}

#[test]
fn a_null_bulk_and_lines_without_end_are_told_once_and_closed() {
    let node = node();
    let mut other = node.client().unwrap();
    answers_and_closes(
        &node,
        b"*2\r\n$3\r\nGET\r\n$-1\r\n*1\r\n$4\r\nPING\r\n",
        b"-ERR Protocol error: invalid bulk length\r\n",
    );
    answers_and_closes(&node, &[b'A'; 65_537], b"-ERR Protocol error: too big inline request\r\n");
    let mut count = vec![b'1'; 65_541];
    count[0] = b'*';
    answers_and_closes(&node, &count, b"-ERR Protocol error: too big mbulk count string\r\n");
    for (request, error) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("GET 'k\r\n", "unbalanced quotes in request"),
    ] {
        // What came before is answered, what comes behind is not.
        let request = format!("PING\r\n{request}");
        let reply = format!("+PONG\r\n-ERR Protocol error: {error}\r\n");
        answers_and_closes(&node, request.as_bytes(), reply.as_bytes());
    }
    assert_eq!(other.say("PING").unwrap(), pong());
}

#[test]
fn a_client_that_has_not_logged_in_cannot_spend_memory() {
    let node = Node::start(&["--requirepass", "secret"]).unwrap();
    let error = |what: &str| format!("-ERR Protocol error: {what}\r\n").into_bytes();
    answers_and_closes(&node, b"*11\r\n", &error("unauthenticated multibulk length"));
    waits(&node, b"*10\r\n");
    answers_and_closes(&node, b"*1\r\n$16385\r\n", &error("unauthenticated bulk length"));
    waits(&node, b"*1\r\n$16384\r\n");

    let mut client = node.client().unwrap();
    for line in ["PING", "GET k", "CONFIG GET port", "CLUSTER SLOTS", "NOSUCH", "MULTI"] {
        let noauth = Value::Error("NOAUTH Authentication required.".into());
        assert_eq!(client.say(line).unwrap(), noauth, "{line}");
    }
    assert!(client.say("HELLO 3").unwrap().is_error("NOAUTH "));
    assert!(client.say("AUTH wrong").unwrap().is_error("WRONGPASS "));
    assert!(matches!(client.say("HELLO 2 AUTH default secret").unwrap(), Value::Array(_)));
    // The limits are those of everybody now.
    let words: Vec<String> = (0..12).map(|n| format!("{{k}}{n}")).collect();
    let words: Vec<&str> = ["EXISTS"].into_iter().chain(words.iter().map(String::as_str)).collect();
    assert_eq!(client.call(&words).unwrap(), Value::Int(0));
    let value = "v".repeat(20_000);
    assert_eq!(client.call(&["SET", "k", &value]).unwrap(), Value::ok());
    assert_eq!(client.say("RESET").unwrap(), Value::Simple("RESET".into()));
    assert!(client.say("GET k").unwrap().is_error("NOAUTH "));
    assert_eq!(node.client().unwrap().say("AUTH secret").unwrap(), Value::ok());
    assert_eq!(node.client().unwrap().say("AUTH default secret").unwrap(), Value::ok());
}

#[test]
fn a_stranger_that_does_not_read_is_cut() {
    let node = Node::start(&["--requirepass", "secret"]).unwrap();
    let before = rss_bytes(node.pid()).unwrap();
    let mut client = node.client().unwrap();
    client.wait_at_most(Duration::from_secs(20));
    let pings = b"PING\r\n".repeat(10_000);
    // Its replies are never read: the cut shows as an error of a write, and not as one that waits.
    let cut = (0..200).find_map(|_| client.send_raw(&pings).err());
    let cut = cut.expect("2,000,000 refusals were taken in");
    assert!(
        [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&cut.kind()),
        "not cut: {cut}"
    );
    let grown = rss_bytes(node.pid()).unwrap().saturating_sub(before);
    assert!(grown < 8 * MIB as u64, "{grown} bytes");
    assert_eq!(node.client().unwrap().say("AUTH secret").unwrap(), Value::ok());
}

#[test]
fn clients_that_do_not_read_cost_a_bounded_amount() {
    const CLIENTS: usize = 10;
    /// One reply of 1 MiB, what the batch may hold beside it, and room to double.
    const EACH: u64 = 4 * MIB as u64;
    let node = node();
    let mut other = node.client().unwrap();
    let value = vec![b'v'; MIB];
    assert_eq!(other.call(&[b"SET".as_slice(), b"k", &value]).unwrap(), Value::ok());
    let (before, used) = (rss_bytes(node.pid()).unwrap(), used_memory(&mut other));
    let mut gets = Vec::new();
    (0..500).for_each(|_| encode(&["GET", "k"], &mut gets));
    let mut greedy: Vec<Client> = (0..CLIENTS).map(|_| node.client().unwrap()).collect();
    greedy.iter_mut().for_each(|client| client.send_raw(&gets).unwrap());
    std::thread::sleep(SILENCE);
    for _ in 0..100 {
        assert_eq!(other.say("PING").unwrap(), pong());
    }
    let grown = rss_bytes(node.pid()).unwrap().saturating_sub(before);
    assert!(grown < CLIENTS as u64 * EACH, "{grown} bytes for {CLIENTS} clients");
    // Nothing is lost: whoever reads after all gets everything.
    let mut late = greedy.swap_remove(0);
    for _ in 0..500 {
        assert!(matches!(late.read().unwrap(), Value::Bulk(bytes) if bytes.len() == MIB));
    }
    drop((late, greedy));
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while used_memory(&mut other) > used + 4 * MIB {
        assert!(std::time::Instant::now() < until, "{} bytes stay", used_memory(&mut other));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes the server says it has allocated.
fn used_memory(client: &mut Client) -> usize {
    let info = client.say("INFO memory").unwrap();
    let text = info.text().expect("INFO is text");
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("INFO has used_memory")
}

#[test]
fn announced_lengths_allocate_nothing() {
    let node = node();
    let before = rss_bytes(node.pid()).unwrap();
    let mut clients: Vec<Client> = (0..200).map(|_| node.client().unwrap()).collect();
    for client in &mut clients {
        client.send_raw(b"*1000000\r\n$1000000\r\n").unwrap();
    }
    std::thread::sleep(SILENCE);
    assert_eq!(node.client().unwrap().say("PING").unwrap(), pong());
    let grown = rss_bytes(node.pid()).unwrap().saturating_sub(before);
    assert!(grown < 4 * MIB as u64, "{grown} bytes for 200 clients");
}

#[test]
fn a_request_may_be_cut_anywhere() {
    let node = node();
    let mut bytes = Vec::new();
    encode(&["SET", "{k2}a", "v"], &mut bytes);
    encode(&["GET", "{k2}a"], &mut bytes);
    bytes.extend_from_slice(b"PING\r\n");
    let want = b"+OK\r\n$1\r\nv\r\n+PONG\r\n";
    let mut client = node.client().unwrap();
    for byte in &bytes {
        client.send_raw(std::slice::from_ref(byte)).unwrap();
    }
    assert_eq!(client.read_bytes(want.len()).unwrap(), want);
    for cut in 1..bytes.len() {
        client.send_raw(&bytes[..cut]).unwrap();
        // Long enough for the server to read the first part alone, nearly always.
        std::thread::sleep(Duration::from_millis(2));
        client.send_raw(&bytes[cut..]).unwrap();
        assert_eq!(client.read_bytes(want.len()).unwrap(), want, "cut at {cut}");
    }
    assert!(client.is_silent_for(SILENCE).unwrap());
}

#[test]
fn ten_thousand_requests_in_one_write_are_answered_in_order() {
    let node = node();
    let mut client = node.client().unwrap();
    let mut bytes = Vec::new();
    for number in 0..5_000 {
        encode(&["SET".to_owned(), format!("k{number}"), number.to_string()], &mut bytes);
        encode(&["GET".to_owned(), format!("k{number}")], &mut bytes);
    }
    client.send_raw(&bytes).unwrap();
    for number in 0..5_000 {
        assert_eq!(client.read().unwrap(), Value::ok());
        assert_eq!(client.read().unwrap(), Value::bulk(number.to_string()));
    }
}

/// Server CPU for one SET of so many bytes, sent in pieces of 4 KiB.
fn cost_of_set(node: &Node, bytes: usize) -> Duration {
    let mut client = node.client().unwrap();
    client.wait_at_most(Duration::from_secs(60));
    let before = cpu_time(node.pid()).unwrap();
    let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${bytes}\r\n");
    client.send_raw(head.as_bytes()).unwrap();
    let piece = [b'x'; 4096];
    let mut left = bytes;
    while left > 0 {
        let size = left.min(piece.len());
        client.send_raw(&piece[..size]).unwrap();
        left -= size;
    }
    client.send_raw(b"\r\n").unwrap();
    assert_eq!(client.read().unwrap(), Value::ok());
    assert_eq!(client.say("STRLEN big").unwrap(), Value::Int(bytes as i64));
    cpu_time(node.pid()).unwrap() - before
}

#[test]
fn a_hundred_megabytes_in_small_pieces_take_linear_time() {
    let node = node();
    cost_of_set(&node, 25_000_000);
    let quarter = cost_of_set(&node, 25_000_000);
    let whole = cost_of_set(&node, 100_000_000);
    // 4 times if linear, 16 times if every piece is looked at again.
    let limit = quarter * 9 + Duration::from_millis(100);
    assert!(whole < limit, "{whole:?} for 100 MB, {quarter:?} for 25 MB");
}

#[test]
fn hello_answers_in_the_protocol_it_chose_or_changes_nothing() {
    let node = node();
    let mut client = node.client().unwrap();
    let Value::Array(flat) = client.say("HELLO 2").unwrap() else { panic!("a flat array") };
    assert_eq!(flat.len(), 14);
    let names = ["server", "version", "proto", "id", "mode", "role", "modules"];
    for (name, pair) in names.iter().zip(flat.chunks(2)) {
        assert_eq!(pair[0], Value::bulk(name));
        match *name {
            "proto" => assert_eq!(pair[1], Value::Int(2)),
            "id" => assert!(pair[1].int().is_some_and(|id| id > 0)),
            "mode" => assert_eq!(pair[1], Value::bulk("cluster")),
            "role" => assert_eq!(pair[1], Value::bulk("master")),
            "modules" => assert_eq!(pair[1], Value::Array(vec![])),
            _ => assert!(matches!(pair[1], Value::Bulk(_)), "{name}"),
        }
    }
    for (line, error) in [
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO 1", "NOPROTO unsupported protocol version"),
        ("HELLO abc", "ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 BAD", "ERR Syntax error in HELLO option 'BAD'"),
    ] {
        assert_eq!(client.say(line).unwrap(), Value::Error(error.into()), "{line}");
    }
    let named = client.call(&["HELLO", "3", "SETNAME", "x y"]).unwrap();
    let bad_name = "ERR Client names cannot contain spaces, newlines or special characters.";
    assert_eq!(named, Value::Error(bad_name.into()));
    assert_eq!(client.say("GET none").unwrap(), Value::NullBulk, "the protocol changed");
    let Value::Map(pairs) = client.say("HELLO 3").unwrap() else { panic!("a map") };
    assert_eq!(pairs.len(), 7);
    assert_eq!(pairs[2], (Value::bulk("proto"), Value::Int(3)));
    assert_eq!(client.say("GET none").unwrap(), Value::Null);
    assert!(matches!(client.say("HELLO").unwrap(), Value::Map(_)));
}

#[test]
fn an_unknown_command_is_quoted_shortened_and_on_one_line() {
    let node = node();
    let mut client = node.client().unwrap();
    let error = client.call(&["no\r\nsuch", "a\nb", "c"]).unwrap();
    let text = error.text().expect("an error");
    assert!(error.is_error("ERR unknown command 'no  such', with args beginning with: 'a b' 'c'"));
    assert!(!text.contains(['\r', '\n']));
    let long = "x".repeat(100_000);
    client.send(&[&long, &long, &long]).unwrap();
    let error = client.read().unwrap();
    assert!(error.text().is_some_and(|text| text.len() < 400), "not shortened");
    assert_eq!(client.say("PING").unwrap(), pong());
}
