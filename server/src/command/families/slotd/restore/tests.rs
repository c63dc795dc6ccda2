//! SLOTD BACKUP and SLOTD RESTORE between nodes that are driven by hand.

use slots::admin::BackupSlots;
use slots::slot_of;

use super::*;
use crate::command::promise::Promises;
use crate::command::sections::{BACKUP_STREAMS_MAX, RESTORES_MAX, SECTION_IDLE};
use crate::slot::Ownership;
use crate::testing::TestNode;

fn call(node: &mut TestNode, words: &[&str]) -> Vec<u8> {
    node.call(1, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).expect("text")
}

/// The content of a bulk string.
fn bulk(reply: &[u8]) -> &[u8] {
    let end = reply.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    assert_eq!(reply[0], b'$', "{}", String::from_utf8_lossy(reply));
    &reply[end..reply.len() - 2]
}

fn slot_word() -> String {
    slot_of(b"{w}").number().to_string()
}

/// All frames of the slot of `{w}`.
fn backup(node: &mut TestNode) -> Vec<Vec<u8>> {
    let begun = call(node, &["SLOTD", "BACKUP", "BEGIN", &slot_word()]);
    let id = text(bulk(&begun).to_vec());
    let mut frames = Vec::new();
    while frames.last().is_none_or(|frame: &Vec<u8>| frame[0] != 3) {
        let next = call(node, &["SLOTD", "BACKUP", "NEXT", &id]);
        frames.push(bulk(&next).to_vec());
    }
    let after = text(call(node, &["SLOTD", "BACKUP", "NEXT", &id]));
    assert!(after.starts_with("-NOSTREAM "), "{after}");
    frames
}

/// Begins a restore with these words behind the slot; its number.
fn begin(node: &mut TestNode, more: &[&str]) -> String {
    let slot = slot_word();
    let words = [&["SLOTD", "RESTORE", "BEGIN", &slot], more].concat();
    text(bulk(&call(node, &words)).to_vec())
}

fn frame(node: &mut TestNode, id: &str, frame: &[u8]) -> String {
    text(node.call(1, &[b"SLOTD", b"RESTORE", b"FRAME", id.as_bytes(), frame]))
}

fn commit(node: &mut TestNode, id: &str) -> RestoreStep {
    let reply = call(node, &["SLOTD", "RESTORE", "COMMIT", id]);
    serde_json::from_slice(bulk(&reply)).expect("JSON")
}

fn give(node: &mut TestNode, frames: &[Vec<u8>], more: &[&str]) -> String {
    let id = begin(node, more);
    for one in frames {
        assert_eq!(frame(node, &id, one), "+OK\r\n");
    }
    id
}

/// So that digests can be asked for.
const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// A node with so many keys in the slot, one that ends and a large hash among them.
fn filled(keys: usize) -> TestNode {
    let mut node = TestNode::new(&DEBUG);
    for number in 0..keys - 2 {
        call(&mut node, &["SET", &format!("{{w}}{number}"), "value"]);
    }
    call(&mut node, &["SET", "{w}ends", "value", "PX", "5000"]);
    for number in 0..600 {
        call(&mut node, &["HSET", "{w}hash", &number.to_string(), "value"]);
    }
    node
}

fn digest(node: &mut TestNode) -> Vec<u8> {
    call(node, &["DEBUG", "DIGEST"])
}

#[test]
fn a_slot_goes_out_and_comes_in_elsewhere_in_steps() {
    let (mut from, mut into) = (filled(1_500), TestNode::new(&DEBUG));
    let frames = backup(&mut from);
    assert!(frames.len() > 3, "some chunks and the end");
    let listed = call(&mut from, &["SLOTD", "BACKUP", "SLOTS"]);
    let listed: BackupSlots = serde_json::from_slice(bulk(&listed)).expect("JSON");
    assert_eq!((listed.owned.as_str(), listed.held.len()), ("0-16383", 1));
    assert_eq!(listed.held[0].keys, 1_500);

    let id = give(&mut into, &frames, &[]);
    assert_eq!(into.node.key_count(), 0, "a stage is in no sum of the node");
    let mut lefts = Vec::new();
    while lefts.last() != Some(&0) {
        let step = commit(&mut into, &id);
        assert_eq!(step.restored + step.left, 1_500);
        lefts.push(step.left);
    }
    assert!(lefts.len() >= 3 && lefts[0] >= 1_500 - COMMIT_KEYS as u64 - 8, "{lefts:?}");
    assert_eq!(digest(&mut into), digest(&mut from));
    let gone = text(call(&mut into, &["SLOTD", "RESTORE", "COMMIT", &id]));
    assert!(gone.starts_with("-NOSTREAM "), "{gone}");
}

#[test]
fn a_slot_with_keys_is_refused_or_replaced() {
    let (mut from, mut into) = (filled(20), TestNode::new(&DEBUG));
    let frames = backup(&mut from);
    call(&mut into, &["SET", "{w}own", "value"]);
    let slot = slot_word();
    let refused = text(call(&mut into, &["SLOTD", "RESTORE", "BEGIN", &slot]));
    assert!(refused.starts_with(&format!("-REFUSED slot {slot} has 1 keys")), "{refused}");
    let id = give(&mut into, &frames, &["REPLACE"]);
    assert_eq!(text(call(&mut into, &["EXISTS", "{w}own"])), ":1\r\n", "not before it is whole");
    assert_eq!(commit(&mut into, &id), RestoreStep { restored: 20, ..RestoreStep::default() });
    assert_eq!(digest(&mut into), digest(&mut from));

    // Keys that came after it was begun.
    let mut late = TestNode::new(&DEBUG);
    let id = give(&mut late, &frames, &[]);
    call(&mut late, &["SET", "{w}own", "value"]);
    let refused = text(call(&mut late, &["SLOTD", "RESTORE", "COMMIT", &id]));
    assert!(refused.starts_with("-REFUSED "), "{refused}");
    assert_eq!(late.node.key_count(), 1);
    assert!(late.node.sections.incoming.is_empty());
}

#[test]
fn a_slot_without_keys_empties_one_that_has_some() {
    let (mut from, mut into) = (TestNode::new(&DEBUG), filled(20));
    let frames = backup(&mut from);
    assert_eq!(frames.len(), 1);
    let id = give(&mut into, &frames, &["REPLACE"]);
    assert_eq!(commit(&mut into, &id), RestoreStep::default());
    assert_eq!(into.node.key_count(), 0);
}

#[test]
fn what_clients_write_meanwhile_stays_and_what_has_expired_does_not_come() {
    let (mut from, mut into) = (filled(1_500), TestNode::new(&DEBUG));
    let frames = backup(&mut from);
    let id = give(&mut into, &frames, &[]);
    commit(&mut into, &id);
    // Some of these are in the slot already.
    for number in 0..1_498 {
        call(&mut into, &["SET", &format!("{{w}}{number}"), "newer"]);
    }
    let has_it = text(call(&mut into, &["EXISTS", "{w}ends"])) == ":1\r\n";
    into.advance(10_000);
    let mut last = commit(&mut into, &id);
    while last.left > 0 {
        last = commit(&mut into, &id);
    }
    assert!(last.kept > 900, "{last:?}");
    assert_eq!(last.expired, u64::from(!has_it));
    assert_eq!(text(call(&mut into, &["GET", "{w}1400"])), "$5\r\nnewer\r\n");
    assert_eq!(text(call(&mut into, &["EXISTS", "{w}ends"])), ":0\r\n");
}

#[test]
fn a_bad_frame_ends_the_restore_and_harms_nothing() {
    let (mut from, mut into) = (filled(1_500), TestNode::new(&DEBUG));
    let frames = backup(&mut from);
    let mut broken = frames.clone();
    broken[1].pop();
    for (given, why) in [
        (&broken, "broken bytes"),
        (&frames[1..].to_vec(), "a part of the slot is missing"),
        (&vec![vec![7]], "the unknown kind 7"),
    ] {
        let id = begin(&mut into, &[]);
        let said = given.iter().map(|one| frame(&mut into, &id, one));
        let refused = said.into_iter().find(|said| said != "+OK\r\n").expect("it is refused");
        assert!(refused.contains(why) && refused.contains("the slot is as it was"), "{refused}");
        assert!(frame(&mut into, &id, &frames[0]).starts_with("-NOSTREAM "));
    }
    let id = begin(&mut into, &[]);
    frame(&mut into, &id, &frames[0]);
    let early = text(call(&mut into, &["SLOTD", "RESTORE", "COMMIT", &id]));
    assert!(early.contains("its end has not come"), "{early}");
    assert_eq!(text(call(&mut into, &["SLOTD", "RESTORE", "END", &id])), "+OK\r\n");
    assert_eq!(into.node.key_count(), 0);
    assert!(into.node.sections.incoming.is_empty());
}

#[test]
fn slots_of_others_are_redirected_at_every_step() {
    let mut node = TestNode::owning("0-16383", &[(7002, "")], &[]);
    let frames = backup(&mut filled(700));
    let slot = slot_of(b"{w}");
    call(&mut node, &["SET", "{w}1", "value"]);
    let out = text(bulk(&call(&mut node, &["SLOTD", "BACKUP", "BEGIN", &slot_word()])).to_vec());
    let half = give(&mut node, &frames[..1], &["REPLACE"]);
    let whole = give(&mut node, &frames, &["REPLACE"]);
    let epoch = node.node.rooms.ownership(slot).1;
    node.node.rooms.install(slot, Ownership::Foreign, slots::Epoch(epoch.0 + 1));
    let number = slot_word();
    for words in [
        vec!["BACKUP", "BEGIN", &number],
        vec!["BACKUP", "NEXT", &out],
        vec!["RESTORE", "BEGIN", &number],
        vec!["RESTORE", "FRAME", &half, "any"],
        vec!["RESTORE", "COMMIT", &whole],
    ] {
        let said = text(call(&mut node, &[vec!["SLOTD"], words.clone()].concat()));
        assert!(said.starts_with("-MOVED "), "{words:?}: {said}");
    }
    assert!(node.node.sections.incoming.is_empty() && node.node.sections.outgoing.is_empty());
}

#[test]
fn as_many_as_may_be_are_open_and_idle_ones_go() {
    let mut node = filled(20);
    let slot = slot_word();
    let mut open = |verb: &str, slot: &str| {
        text(call(
            &mut node,
            &["SLOTD", verb, "BEGIN", slot, "REPLACE"][..5 - usize::from(verb == "BACKUP")],
        ))
    };
    for number in 0..BACKUP_STREAMS_MAX {
        let said = open("BACKUP", &(number % 8).to_string());
        assert!(said.starts_with('$'), "{said}");
    }
    assert!(open("BACKUP", "9").starts_with("-REFUSED 64 streams"));
    (0..RESTORES_MAX).for_each(|_| assert!(open("RESTORE", &slot).starts_with('$')));
    assert!(open("RESTORE", &slot).starts_with("-REFUSED 16 slots"));
    let state = node.node.clone();
    let tick = |node: &TestNode| state.sections.tick(&state.rooms, node.node.edges.now().mono_ns);
    node.advance(SECTION_IDLE.as_millis() as u64 - 1);
    assert_eq!(text(call(&mut node, &["SLOTD", "BACKUP", "END", "2"])), "+OK\r\n");
    let next = call(&mut node, &["SLOTD", "BACKUP", "NEXT", "1"]);
    assert_eq!(bulk(&next)[0], 3);
    let still = call(&mut node, &["SLOTD", "RESTORE", "FRAME", "1", "\u{3}"]);
    assert!(text(still).starts_with("-REFUSED "));
    node.advance(1);
    tick(&node);
    assert!(state.sections.outgoing.is_empty() && state.sections.incoming.is_empty());
}

#[test]
fn frames_and_steps_wait_for_the_log_as_reads_and_writes_do() {
    let (mut from, mut into) = (filled(20), TestNode::new(&DEBUG));
    let frames = backup(&mut from);
    let slot = slot_of(b"{w}");
    from.node.promises.activate();
    into.node.promises.activate();
    let id = text(bulk(&call(&mut from, &["SLOTD", "BACKUP", "BEGIN", &slot_word()])).to_vec());
    assert_eq!(call(&mut from, &["SLOTD", "BACKUP", "NEXT", &id]), b"");
    let index = from.node.rooms.read(slot).index();
    from.node.promises.raise(Promises::tag(slot, index));
    assert_eq!(bulk(&from.resume(1))[0], 1);

    let id = give(&mut into, &frames, &[]);
    assert_eq!(call(&mut into, &["SLOTD", "RESTORE", "COMMIT", &id]), b"");
    into.node.promises.raise(Promises::tag(slot, into.node.rooms.read(slot).index()));
    assert!(text(into.resume(1)).contains("\"restored\":20"));
}
