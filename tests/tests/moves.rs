//! Slots move whole, while they are written to: nothing is lost, doubled or left behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use slot_tests::dice::Dice;
use slot_tests::fleet::Fleet;
use slot_tests::keys::{key_in, key_in_not_before};
use slot_tests::moving::Writer;
use slot_tests::probe::{Owners, Probe};
use slot_tests::resp::{Client, Value};

const DEADLINE: Duration = Duration::from_secs(20);

fn fleet(args: &[&str]) -> Fleet {
    let mut fleet = Fleet::start(3, args).expect("three nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("all vote");
    fleet
}

fn id_of(fleet: &Fleet, node: usize) -> String {
    let said = fleet.ask(node, &["CLUSTER", "MYID"]).expect("it answers");
    said.text().expect("an id").to_owned()
}

fn json(fleet: &Fleet, node: usize, words: &[&str]) -> Json {
    let said = fleet.ask(node, words).expect("it answers");
    let text = said.text().unwrap_or_else(|| panic!("{words:?}: {said:?}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Orders a move by any node; the id.
fn begin(fleet: &Fleet, by: usize, slots: &str, to: usize) -> String {
    let begun = json(fleet, by, &["SLOTD", "MOVE", slots, &id_of(fleet, to)]);
    begun["id"].as_str().expect("an id").to_owned()
}

/// Waits until a move is over on every node that is up.
fn wait_for_end(fleet: &mut Fleet, id: &str) {
    let is_over = |fleet: &Fleet, node: usize| {
        let moves = json(fleet, node, &["SLOTD", "MOVES"]);
        let all = moves["moves"].as_array().expect("moves");
        all.iter().all(|status| status["id"] != id || status["left"] == "")
    };
    let ended = fleet.wait_for(DEADLINE, "the move ends", |fleet| {
        (0..fleet.len()).filter(|node| fleet.is_up(*node)).all(|node| is_over(fleet, node))
    });
    if let Err(error) = ended {
        let moves: Vec<String> = (0..fleet.len())
            .filter(|node| fleet.is_up(*node))
            .map(|node| json(fleet, node, &["SLOTD", "MOVES"]).to_string())
            .collect();
        panic!("{error}\n{}", moves.join("\n"));
    }
}

fn call(client: &mut Client, words: &[&str]) -> Value {
    client.call(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// What a client sees of a key: type, content, time to live.
fn seen(client: &mut Client, key: &str) -> Vec<Value> {
    let kind = call(client, &["TYPE", key]);
    let content: &[&str] = match kind.text().expect("a type") {
        "string" => &["GET", key],
        "list" => &["LRANGE", key, "0", "-1"],
        "hash" => &["HGETALL", key],
        "set" => &["SMEMBERS", key],
        "zset" => &["ZRANGE", key, "0", "-1", "WITHSCORES"],
        other => panic!("{key}: {other}"),
    };
    let mut content = call(client, content);
    if let (Value::Array(items), Some("set" | "hash")) = (&mut content, kind.text()) {
        // In no order: as pairs, where each field has its value.
        let pairs = if kind.text() == Some("hash") { 2 } else { 1 };
        let mut sorted: Vec<Vec<Value>> = items.chunks(pairs).map(<[Value]>::to_vec).collect();
        sorted.sort_by_key(|pair| format!("{pair:?}"));
        *items = sorted.concat();
    }
    let expiry = call(client, &["PEXPIRETIME", key]);
    let encoding = call(client, &["OBJECT", "ENCODING", key]);
    vec![kind, content, expiry, encoding]
}

#[test]
fn keys_of_every_kind_move_whole() {
    let mut fleet = fleet(&[]);
    let (mut old, mut new) = (fleet.client(0).unwrap(), fleet.client(2).unwrap());
    let mut keys = Vec::new();
    for slot in 100..140 {
        let base = format!("{{{}}}", key_in(slot));
        let key = |name: &str| format!("{base}{name}");
        let long = "x".repeat(3_000);
        for words in [
            vec!["SET".to_owned(), key("s"), "text".to_owned()],
            vec!["SET".to_owned(), key("long"), long.clone()],
            vec!["SET".to_owned(), key("number"), "12345".to_owned()],
            vec!["SETEX".to_owned(), key("ttl"), "1000".to_owned(), "a\r\n\0b".to_owned()],
            vec!["RPUSH".to_owned(), key("l"), "a".to_owned(), "b".to_owned(), long.clone()],
            vec!["HSET".to_owned(), key("h"), "f".to_owned(), "v".to_owned()],
            vec!["SADD".to_owned(), key("ints"), "1".to_owned(), "2".to_owned()],
            vec!["SADD".to_owned(), key("words"), "one".to_owned()],
            vec!["ZADD".to_owned(), key("z"), "1.5".to_owned(), "m".to_owned()],
        ] {
            let reply = old.call(&words).expect("a reply");
            assert!(!matches!(reply, Value::Error(_)), "{words:?}: {reply:?}");
            keys.push(words[1].clone());
        }
        if slot == 120 {
            for field in 0..2_000 {
                let (field, value) = (field.to_string(), "v".repeat(50));
                call(&mut old, &["HSET", &key("big"), &field, &value]);
            }
            keys.push(key("big"));
        }
    }
    let before: BTreeMap<String, Vec<Value>> =
        keys.iter().map(|key| (key.clone(), seen(&mut old, key))).collect();
    let count = |client: &mut Client| call(client, &["DBSIZE"]).int().expect("a number");
    let all = count(&mut old);
    assert_eq!(all, keys.len() as i64);
    let id = begin(&fleet, 1, "100-139", 2);
    wait_for_end(&mut fleet, &id);
    for key in &keys {
        assert_eq!(seen(&mut new, key), before[key], "{key}");
        let reply = call(&mut old, &["GET", key]);
        assert!(reply.is_error("MOVED"), "{reply:?}");
    }
    assert_eq!((count(&mut old), count(&mut new)), (0, all));
    let here = &json(&fleet, 0, &["SLOTD", "MOVES", &id])["moves"][0]["here"];
    assert_eq!((here["slots"].as_u64(), here["slots_moved"].as_u64()), (Some(40), Some(40)));
    assert_eq!(here["ended"], "moved");
    // And back: who let go of a slot takes it again.
    let id = begin(&fleet, 0, "100-139", 0);
    wait_for_end(&mut fleet, &id);
    for key in &keys {
        assert_eq!(seen(&mut old, key), before[key], "{key}, back again");
    }
    assert_eq!((count(&mut old), count(&mut new)), (all, 0));
}

#[test]
fn orders_that_make_no_sense_are_refused_with_a_reason() {
    let fleet = fleet(&[]);
    let to = id_of(&fleet, 2);
    let refused = |words: &[&str], what: &str| {
        let said = fleet.ask(0, words).expect("a reply");
        let Value::Error(text) = &said else { panic!("{words:?}: {said:?}") };
        assert!(text.contains(what), "{words:?}: {text}");
    };
    refused(&["SLOTD", "MOVE", "9-3", &to], "ERR");
    refused(&["SLOTD", "MOVE", "16384", &to], "ERR");
    refused(&["SLOTD", "MOVE", "1-", &to], "ERR");
    refused(&["SLOTD", "MOVE", "1", "nobody"], "no node 'nobody'");
    refused(&["SLOTD", "CANCEL", "12"], "ERR");
    refused(&["SLOTD", "MOVES", "0123456789abcdef"], "no move 0123456789abcdef");
    let own = json(&fleet, 0, &["SLOTD", "MOVE", "5-9", &id_of(&fleet, 0)]);
    assert_eq!((&own["changed"], &own["id"]), (&Json::Bool(false), &Json::from("")));
    assert!(own["text"].as_str().expect("a text").contains("nothing to do"));
    let done = json(&fleet, 1, &["SLOTD", "CANCEL", "0123456789abcdef"]);
    assert_eq!(done["changed"], false);
}

/// Writers on slots that move back and forth; `args` for the nodes.
fn write_while_slots_move(args: &[&str], rounds: usize) {
    const SLOTS: std::ops::Range<u16> = 200..232;
    let mut fleet = fleet(args);
    let addresses: Vec<String> = (0..fleet.len()).map(|node| fleet.address(node)).collect();
    let (stop, mut dice) = (Arc::new(AtomicBool::new(false)), Dice::new(1));
    let mut begin_writer = |number: u32| {
        let tag = |slot| format!("{{{}}}", key_in_not_before(slot, 1_000_000 * number));
        let tags = SLOTS.map(tag).collect();
        let mut writer = Writer::new(addresses.clone(), tags, dice.split());
        let stop = stop.clone();
        thread::spawn(move || {
            writer.run(&stop);
            writer
        })
    };
    let writers: Vec<_> = (0..4).map(&mut begin_writer).collect();
    let owners = Arc::new(Owners::new(fleet.len()));
    let probe = Probe::new(addresses.clone(), &key_in(SLOTS.start), owners).that_moves();
    let probing = {
        let stop = stop.clone();
        thread::spawn(move || probe.run(&stop))
    };
    let slots = format!("{}-{}", SLOTS.start, SLOTS.end - 1);
    let began = Instant::now();
    for round in 0..rounds {
        let id = begin(&fleet, round % 3, &slots, (round + 1) % 3);
        wait_for_end(&mut fleet, &id);
        thread::sleep(Duration::from_millis(50));
    }
    let took = began.elapsed();
    stop.store(true, Ordering::SeqCst);
    let verdict = probing.join().expect("it ends");
    assert_eq!(verdict.faults, Vec::<String>::new());
    let (mut acked, mut slowest) = (0, Duration::ZERO);
    for writer in writers {
        let mut writer = writer.join().expect("it ends");
        writer.look_at_all();
        let seen = &writer.seen;
        assert_eq!(seen.faults, Vec::<String>::new());
        assert_eq!(seen.unknown, 0, "a move that was planned leaves nothing unknown");
        acked += seen.acked;
        slowest = slowest.max(seen.slowest);
    }
    eprintln!(
        "{rounds} moves of {slots} in {took:?}: {acked} writes, the slowest {slowest:?}; the probe \
         saw {} values, the longest time without one {:?}",
        verdict.values, verdict.longest_gap
    );
    assert!(acked > 100, "{acked}");
}

#[test]
fn writers_lose_nothing_while_their_slots_move() {
    write_while_slots_move(&[], 9);
}

#[test]
fn writers_lose_nothing_while_their_slots_move_with_a_log() {
    write_while_slots_move(&["--appendonly", "yes", "--appendfsync", "everysec"], 6);
}

#[test]
fn writers_lose_nothing_while_their_slots_move_and_each_write_is_synced() {
    write_while_slots_move(&["--appendonly", "yes", "--appendfsync", "always"], 6);
}
