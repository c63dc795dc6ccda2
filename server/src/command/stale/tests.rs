//! Every place where a `MOVED` leaves is counted, with its client and slot, within the limits.

use std::sync::Arc;

use slots::{Epoch, SlotId, slot_of};

use super::{LINE_EVERY_NS, MAX_CLIENTS, MAX_NAME_BYTES, StaleCounts, host_of};
use crate::command::client::ClientShared;
use crate::command::cx::Now;
use crate::slot::Ownership;
use crate::testing::{START_MS, TestNode};

/// A node with 0-9999 beside one, node-7002, with the rest: `foo` (12182) is the other's.
fn node() -> TestNode {
    TestNode::owning("0-9999", &[(7002, "10000-16383")], &["--enable-debug-command", "yes"])
}

fn client(name: &str, addr: &str) -> ClientShared {
    let client = ClientShared::new(1, addr.into(), String::new(), 1, 0);
    client.set_names(|names| names.name = name.as_bytes().to_vec());
    client
}

fn at(ms: u64) -> Now {
    Now { unix_ms: START_MS + ms, mono_ns: ms * 1_000_000 }
}

/// Counts as said by INFO, and by `SLOTD STALE`, which must agree.
fn total(node: &mut TestNode) -> u64 {
    let text = String::from_utf8(node.call(9, &[b"info", b"cluster"])).expect("ASCII");
    let field = text.split("\r\n").find_map(|l| l.strip_prefix("cluster_stale_refusals:"));
    let total = field.and_then(|n| n.parse().ok()).expect("a number");
    assert_eq!(node.node.stale().refusals, total);
    assert_eq!(node.node.stale().slots.iter().map(|s| s.refusals).sum::<u64>(), total);
    total
}

#[test]
fn every_way_a_moved_leaves_is_counted_once() {
    for (said, moved) in [
        // The plain path, and the one with all checks.
        ("SET foo 1\r\n", 1),
        ("GET foo\r\nGET foo\r\nGET foo\r\n", 3),
        ("BLPOP foo 0\r\n", 1),
        ("CLIENT REPLY SKIP\r\nMGET {foo}1 {foo}2\r\n", 1),
        // When queued; EXEC is then refused for that, without a slot.
        ("MULTI\r\nGET foo\r\nGET foo\r\nEXEC\r\n", 2),
        ("WATCH k2 foo\r\n", 1),
        ("DEBUG SLOT-HOLD 12182 1\r\nDEBUG OBJECT foo\r\n", 2),
        // Not refused for the slot.
        ("GET k2\r\nMGET k2 foo\r\nCLUSTER KEYSLOT foo\r\nGET\r\nNOTHING foo\r\n", 0),
    ] {
        let mut node = node();
        node.send(1, said.as_bytes());
        assert_eq!(total(&mut node), moved, "{said}");
    }
}

#[test]
fn a_slot_that_leaves_under_a_transaction_a_pause_or_a_block_is_counted() {
    let mut node = node();
    let slot = slot_of(b"k2");
    let leave = |node: &TestNode| node.node.rooms.install(slot, Ownership::Foreign, Epoch(9));
    let back = |node: &TestNode| node.node.rooms.install(slot, Ownership::Owned, Epoch(10));
    node.send(1, b"MULTI\r\nSET k2 1\r\n");
    leave(&node);
    node.send(1, b"EXEC\r\n");
    assert_eq!(total(&mut node), 1);

    back(&node);
    node.send(2, b"BLPOP k2 0\r\n");
    leave(&node);
    node.node.rooms.settle();
    let reply = node.resume(2);
    assert!(!reply.is_empty(), "the block has ended");
    assert_eq!(total(&mut node), 2);

    node.send(9, b"CLIENT PAUSE 1000\r\n");
    node.send(3, b"GET k2\r\n");
    node.send(9, b"CLIENT UNPAUSE\r\n");
    node.resume(3);
    assert_eq!(total(&mut node), 3, "the held command is refused once");
}

#[test]
fn a_report_names_clients_and_slots_the_most_refused_first() {
    let mut node = node();
    node.send(1, b"CLIENT SETNAME ingest-3\r\nSET foo 1\r\n");
    node.advance(50);
    node.send(2, b"CLIENT SETNAME ingest-3\r\nSET foo 1\r\nSET {foo}x 1\r\nSET k1 1\r\n");
    node.send(3, b"SET k1 1\r\n");
    let stale = node.node.stale();
    assert_eq!(stale.refusals, 5);
    let clients: Vec<_> =
        stale.clients.iter().map(|c| (c.name.as_str(), c.host.as_str(), c.refusals)).collect();
    // Two connections of one name and host are one client.
    assert_eq!(clients, [("ingest-3", "127.0.0.1", 4), ("", "127.0.0.1", 1)]);
    assert_eq!(stale.clients[0].last_ms, START_MS + 50);
    assert_eq!(stale.clients[0].last_slot, slot_of(b"k1").number());
    let slots: Vec<_> =
        stale.slots.iter().map(|s| (s.slot, s.refusals, s.owner.as_deref())).collect();
    let k1 = slot_of(b"k1").number();
    assert_eq!(slots, [(12182, 3, Some("node-7002")), (k1, 2, Some("node-7002"))]);
    let info = String::from_utf8(node.call(9, &[b"info", b"cluster"])).expect("ASCII");
    let line = format!(
        "cluster_stale_client_0:refusals=4,host=127.0.0.1,last_slot={k1},last_ms={},name=ingest-3",
        START_MS + 50
    );
    assert!(info.contains(&line), "{info}");
    assert!(info.contains("\r\ncluster_stale_client_1:refusals=1,"), "{info}");

    node.node.reset_stale();
    assert_eq!(node.node.stale(), slots::admin::Stale::default());
    node.send(3, b"SET k1 1\r\n");
    assert_eq!(total(&mut node), 1);
}

#[test]
fn a_log_line_tells_of_a_second_and_the_next_of_what_came_since() {
    let mut node = node();
    let line = |node: &TestNode| node.node.stale_line(node.node.edges.now());
    assert_eq!(line(&node), None);
    node.send(1, b"CLIENT SETNAME ingest-3\r\nSET foo 1\r\nSET foo 1\r\n");
    node.send(2, b"SET foo 1\r\n");
    node.advance(990);
    assert_eq!(line(&node), None, "not yet: there may be more");
    node.advance(30);
    assert_eq!(
        line(&node).as_deref(),
        Some(
            "node-7001 refused 3 commands for slots it does not own in the last 1.0 s, most from \
             'ingest-3' at 127.0.0.1 (slot 12182 is node-7002's)"
        )
    );
    node.advance(5000);
    assert_eq!(line(&node), None, "nothing since");
    node.send(2, b"SET foo 1\r\n");
    node.advance(1500);
    assert_eq!(
        line(&node).as_deref(),
        Some(
            "node-7001 refused 1 command for slots it does not own in the last 1.5 s, most from \
             127.0.0.1 (slot 12182 is node-7002's)"
        )
    );
}

#[test]
fn a_line_says_where_the_slot_is_by_now() {
    let mut own = TestNode::owning("0-9999", &[(7002, "10000-10000")], &[]);
    let (other, mine) = (SlotId::new(10_000).expect("a slot"), slot_of(b"k2"));
    for (slot, said) in [
        (other, "(slot 10000 is node-7002's)"),
        (mine, "is node-7001's now)"),
        (SlotId::LAST, "(slot 16383 has no owner now)"),
    ] {
        let shared = own.shared(1);
        own.node.stale.note(slot, &shared, own.node.edges.now());
        own.advance(1000);
        let line = own.node.stale_line(own.node.edges.now()).expect("due");
        assert!(line.ends_with(said), "{line}");
    }
}

#[test]
fn a_heavy_client_stays_listed_among_thousands_of_names() {
    let counts = StaleCounts::default();
    let heavy = client("heavy", "10.0.0.7:5000");
    for n in 0..50_000_u32 {
        let slot = SlotId::new((n % 16_384) as u16).expect("a slot");
        counts.note(slot, &client(&format!("{n}"), "10.0.0.8:5000"), at(n.into()));
        // It comes when the list is full, and is no newcomer for long.
        if n > 1000 && n % 100 == 0 {
            counts.note(slot, &heavy, at(n.into()));
        }
    }
    assert_eq!(counts.total(), 50_489);
    let listed = counts.clients();
    assert_eq!(listed.len(), MAX_CLIENTS);
    assert_eq!((listed[0].name.as_str(), listed[0].host.as_str()), ("heavy", "10.0.0.7"));
    // Counted since it got onto the list for good, and never more than it was refused.
    assert!((400..=489).contains(&listed[0].refusals), "{}", listed[0].refusals);
    assert!(listed[1].refusals < 5, "what others were refused is not put on newcomers");
    assert_eq!(counts.slots().len(), super::MAX_SLOTS_SHOWN);
}

#[test]
fn names_and_hosts_are_told_apart_and_cut() {
    let counts = StaleCounts::default();
    let long = "n".repeat(MAX_NAME_BYTES + 1);
    for (name, addr) in [
        ("a", "10.0.0.7:1"),
        ("a", "10.0.0.7:2"),
        ("a", "10.0.0.8:1"),
        ("b", "10.0.0.7:1"),
        ("", "[2001:db8::7]:1"),
        (long.as_str(), "10.0.0.7:1"),
    ] {
        counts.note(SlotId::FIRST, &client(name, addr), at(0));
    }
    let listed: Vec<_> =
        counts.clients().into_iter().map(|c| (c.name, c.host, c.refusals)).collect();
    let wanted = |name: &str, host: &str, refusals| (name.to_owned(), host.to_owned(), refusals);
    assert_eq!(
        listed,
        [
            wanted("a", "10.0.0.7", 2),
            wanted("a", "10.0.0.8", 1),
            wanted("b", "10.0.0.7", 1),
            wanted("", "2001:db8::7", 1),
            wanted(&long[..MAX_NAME_BYTES], "10.0.0.7", 1),
        ]
    );
    assert_eq!(host_of("no-port"), "no-port");
}

#[test]
fn counts_of_many_threads_add_up_and_lines_keep_their_distance() {
    let counts = Arc::new(StaleCounts::default());
    let told: u64 = std::thread::scope(|scope| {
        for thread in 0..4 {
            let counts = counts.clone();
            scope.spawn(move || {
                let who = client(&format!("t{thread}"), "10.0.0.7:1");
                (0..10_000).for_each(|n| counts.note(SlotId::FIRST, &who, at(n)));
            });
        }
        // Ten seconds of refusals are asked about every 20 ms: at most ten lines.
        let lines = (0..500).filter_map(|tick| counts.due(at(tick * 20).mono_ns));
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() <= 10 && lines.iter().all(|l| l.span_ms >= LINE_EVERY_NS / 1_000_000));
        lines.iter().map(|line| line.refusals).sum()
    });
    let rest = counts.due(u64::MAX).map_or(0, |line| line.refusals);
    assert_eq!((counts.total(), told + rest), (40_000, 40_000));
    assert_eq!(counts.slots(), [(SlotId::FIRST, 40_000)]);
    assert!(counts.clients().iter().all(|client| client.refusals == 10_000));
}
