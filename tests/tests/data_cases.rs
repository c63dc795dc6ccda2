//! Commands on data that must not hurt anybody else: hostile patterns, enormous counts, cursors
//! of another life.
//!
//! What such commands answer in detail stands in the families' scripts; here is the cost, seen
//! by the process and by a second client.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use slot_tests::figures::rss_bytes;
use slot_tests::process::Node;
use slot_tests::resp::{Client, Value};

/// Far more than any of these take, also unoptimized and on a busy machine; a backtracking
/// matcher takes minutes.
const PROMPT: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

fn start() -> (Node, Client) {
    let node = Node::start(&[]).expect("slotd starts");
    let client = node.client().expect("it accepts");
    (node, client)
}

#[test]
fn hostile_patterns_hold_nobody_up() {
    let (node, mut client) = start();
    let mut other = node.client().unwrap();
    let key = "a".repeat(60);
    assert_eq!(client.call(&["SET", &key, "v"]).unwrap(), Value::ok());
    for (pattern, finds) in [
        ("*a".repeat(15) + "*b", false),
        ("*".repeat(100_000) + "b", false),
        ("a*".repeat(20) + "b", false),
        ("*".repeat(100_000), true),
        (format!("[{}]*", "a".repeat(50_000)), true),
        (format!("[^{}]*", "b".repeat(50_000)), true),
        (format!("*{}*b", "?".repeat(30)), false),
        ("\\".to_owned(), false),
        ("[".to_owned(), false),
        ("[a".to_owned(), false),
        ("[a-".to_owned(), false),
        ("[^".to_owned(), false),
    ] {
        let shown = &pattern[..pattern.len().min(40)];
        let found = if finds { vec![Value::bulk(&key)] } else { vec![] };
        let begun = Instant::now();
        client.send(&["KEYS", &pattern]).unwrap();
        assert_eq!(other.say("PING").unwrap(), Value::Simple("PONG".into()));
        assert!(begun.elapsed() < PROMPT, "{shown} held up another client");
        assert_eq!(client.read().unwrap(), Value::Array(found.clone()), "{shown}");
        let scan = client.call(&["SCAN", "0", "MATCH", &pattern, "COUNT", "1000"]).unwrap();
        let wanted = Value::Array(vec![Value::bulk("0"), Value::Array(found)]);
        assert_eq!(scan, wanted, "{shown}");
        assert!(begun.elapsed() < 2 * PROMPT, "{shown}: {:?}", begun.elapsed());
    }
}

#[test]
fn enormous_counts_give_one_reply_and_cost_little() {
    let (node, mut client) = start();
    let mut other = node.client().unwrap();
    client.say("SADD s a b c").unwrap();
    client.say("HSET h f1 v1 f2 v2").unwrap();
    client.say("ZADD z 1 a 2 b").unwrap();
    client.say("RPUSH l a b c").unwrap();
    client.say("SET str v").unwrap();
    let before = rss_bytes(node.pid()).unwrap();
    for (line, error) in [
        ("SRANDMEMBER s -9223372036854775808", "ERR value is out of range"),
        ("SRANDMEMBER s -9223372036854775807", "ERR "),
        ("SRANDMEMBER s -1000000000", "ERR "),
        ("HRANDFIELD h -9223372036854775807", "ERR "),
        ("HRANDFIELD h -1000000000 WITHVALUES", "ERR "),
        ("ZRANDMEMBER z -1073741824", "ERR "),
        ("ZRANDMEMBER z -9223372036854775807 WITHSCORES", "ERR value is out of range"),
        ("SPOP s -1", "ERR value is out of range"),
        ("LPOP l -1", "ERR value is out of range"),
        ("SETRANGE str 536870912 x", "ERR string exceeds maximum allowed size"),
        ("SETBIT str 4294967296 1", "ERR bit offset is not an integer or out of range"),
    ] {
        let begun = Instant::now();
        let reply = client.say(line).unwrap();
        assert!(reply.is_error(error), "{line}: {reply:?}");
        assert!(begun.elapsed() < PROMPT, "{line}: {:?}", begun.elapsed());
        assert_eq!(other.say("PING").unwrap(), Value::Simple("PONG".into()), "{line}");
    }
    for (line, count) in [
        ("SRANDMEMBER s 9223372036854775807", 3),
        ("HRANDFIELD h 9223372036854775807", 2),
        ("ZRANDMEMBER z 9223372036854775807", 2),
        ("LRANGE l -9223372036854775808 9223372036854775807", 3),
        ("ZRANGE z 0 9223372036854775807", 2),
        ("LPOP l 9223372036854775807", 3),
        ("SPOP s 9223372036854775807", 3),
    ] {
        let reply = client.say(line).unwrap();
        assert_eq!(reply.items().map(<[Value]>::len), Some(count), "{line}: {reply:?}");
    }
    assert_eq!(client.say("PING").unwrap(), Value::Simple("PONG".into()), "one reply each");
    let grown = rss_bytes(node.pid()).unwrap().saturating_sub(before);
    assert!(grown < 16 * MIB, "{grown} bytes");
}

#[test]
fn a_cursor_of_another_life_ends_like_any() {
    let (first, mut client) = start();
    (0..2_000).for_each(|n| drop(client.say(&format!("SET k{n} v")).unwrap()));
    let reply = client.say("SCAN 0 COUNT 100").unwrap();
    let cursor = reply.items().unwrap()[0].text().unwrap().to_owned();
    assert_ne!(cursor, "0");
    drop(first);
    let (_node, mut client) = start();
    (0..2_000).for_each(|n| drop(client.say(&format!("SET k{n} v")).unwrap()));
    for from in [cursor.as_str(), "1", "9007199254740991", "9223372036854775807"] {
        let (mut cursor, mut found) = (from.to_owned(), BTreeSet::new());
        for call in 0.. {
            assert!(call < 1_000, "the scan from {from} does not end");
            let reply = client.say(&format!("SCAN {cursor} COUNT 100")).unwrap();
            let items = reply.items().unwrap();
            found.extend(
                items[1].items().unwrap().iter().filter_map(Value::text).map(str::to_owned),
            );
            cursor = items[0].text().unwrap().to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert!(found.len() <= 2_000);
    }
    for bad in ["-1", "x", "18446744073709551616", "1.5", ""] {
        let reply = client.call(&["SCAN", bad]).unwrap();
        assert_eq!(reply, Value::Error("ERR invalid cursor".into()), "{bad:?}");
    }
}

#[test]
fn a_watched_key_that_expires_by_the_clock_aborts_exec() {
    let (_node, mut client) = start();
    client.say("SET {k2}w 1 PX 50").unwrap();
    assert_eq!(client.say("WATCH {k2}w").unwrap(), Value::ok());
    assert_eq!(client.say("MULTI").unwrap(), Value::ok());
    assert_eq!(client.say("INCR {k2}w").unwrap(), Value::Simple("QUEUED".into()));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(client.say("EXEC").unwrap(), Value::NullArray);
    assert_eq!(client.say("EXISTS {k2}w").unwrap(), Value::Int(0));
}

#[test]
fn wait_ends_by_its_timeout_and_not_within_exec() {
    let (_node, mut client) = start();
    assert_eq!(client.say("WAIT 0 0").unwrap(), Value::Int(0));
    let begun = Instant::now();
    assert_eq!(client.say("WAIT 5 200").unwrap(), Value::Int(0));
    assert!(begun.elapsed() >= Duration::from_millis(200) && begun.elapsed() < PROMPT);
    let negative = Value::Error("ERR timeout is negative".into());
    assert_eq!(client.say("WAIT 1 -1").unwrap(), negative);
    for line in ["MULTI", "SET {k2}a 4", "WAIT 1 0"] {
        client.say(line).unwrap();
    }
    let wanted = Value::Array(vec![Value::ok(), Value::Int(0)]);
    assert_eq!(client.say("EXEC").unwrap(), wanted);
}
