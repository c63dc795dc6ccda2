//! Replies held back at the gate, over real connections: behind a slow watermark they come late,
//! in order, all of them, and hold up nobody who waits for nothing.

use std::time::{Duration, Instant};

use slot_tests::process::Node;
use slot_tests::resp::Value;

/// How long an op takes to become safe.
const SAFE_AFTER: Duration = Duration::from_millis(150);

fn slow_node() -> Node {
    let node = Node::start(&["--enable-debug-command", "yes"]).expect("slotd starts");
    let mut admin = node.client().expect("a connection");
    let hook = format!("DEBUG SLOW-WATERMARK {}", SAFE_AFTER.as_millis());
    assert_eq!(admin.say(&hook).expect("a reply"), Value::ok());
    node
}

#[test]
fn a_write_is_answered_once_it_is_safe_and_others_are_not_held_up() {
    let node = slow_node();
    let (mut writer, mut other) = (node.client().unwrap(), node.client().unwrap());
    let begun = Instant::now();
    writer.send(&["SET", "k", "1"]).unwrap();
    for _ in 0..20 {
        assert_eq!(other.say("PING").unwrap(), Value::Simple("PONG".into()));
    }
    assert!(begun.elapsed() < SAFE_AFTER, "20 PINGs took {:?}", begun.elapsed());
    assert_eq!(writer.read().unwrap(), Value::ok());
    assert!(begun.elapsed() >= SAFE_AFTER, "answered after {:?}", begun.elapsed());
}

#[test]
fn a_deep_pipeline_behind_the_gate_loses_and_swaps_nothing() {
    const REQUESTS: usize = 20_000;
    let node = slow_node();
    let mut client = node.client().unwrap();
    let mut pipeline = Vec::new();
    for i in 0..REQUESTS {
        pipeline.extend_from_slice(format!("APPEND key{} x\r\nECHO {i}\r\n", i % 100).as_bytes());
    }
    client.send_raw(&pipeline).unwrap();
    let replies = client.read_many(2 * REQUESTS).unwrap();
    for (i, pair) in replies.chunks(2).enumerate() {
        assert_eq!(pair[0], Value::Int((i / 100 + 1) as i64), "reply {i}");
        assert_eq!(pair[1], Value::bulk(i.to_string()), "reply {i}");
    }
}

#[test]
fn quit_waits_for_the_replies_before_it() {
    let node = slow_node();
    let mut client = node.client().unwrap();
    client.send_raw(b"SET k 1\r\nMULTI\r\nINCR k\r\nEXEC\r\nQUIT\r\n").unwrap();
    let all = client.read_to_close().unwrap();
    assert_eq!(all, b"+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:2\r\n+OK\r\n");
}

#[test]
fn a_blocked_client_gets_its_element_when_the_pop_is_safe() {
    let node = slow_node();
    let (mut waiter, mut pusher) = (node.client().unwrap(), node.client().unwrap());
    waiter.send(&["BLPOP", "{k}list", "0"]).unwrap();
    let mut watcher = node.client().unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while !watcher.say("INFO clients").unwrap().text().unwrap().contains("blocked_clients:1") {
        assert!(Instant::now() < until, "nobody blocks");
    }
    let begun = Instant::now();
    pusher.send(&["RPUSH", "{k}list", "v"]).unwrap();
    let served = Value::Array(vec![Value::bulk("{k}list"), Value::bulk("v")]);
    assert_eq!(waiter.read().unwrap(), served);
    assert!(begun.elapsed() >= SAFE_AFTER, "served after {:?}", begun.elapsed());
    assert_eq!(pusher.read().unwrap(), Value::Int(1));
}
