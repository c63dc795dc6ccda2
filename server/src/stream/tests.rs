//! INV-8 over all commands: every script of the command families is played on a node that
//! journals, while snapshots are taken of each slot it touches, from several lines on, a chunk of
//! a key or two between the lines. Whatever is replayed from them must be what the node has.
//!
//! Also here: what the other tests of the stream share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use slots::{Epoch, OpIndex, SlotId};

use super::bytes::put_string;
use super::chunk::Chunk;
use super::{Budget, Sink, Snapshot, put_op};
use crate::command::NodeState;
use crate::command::registry::registry;
use crate::slot::room::Chores;
use crate::slot::{Admit, Journal, Key, Op, Patience, Position, Rooms, Step};
use crate::store::limits::{Encoding, Limits};
use crate::store::object::Object;
use crate::store::table::{EntryValue, Expiry, Table};
use crate::testing::{START_MS, TestNode, play};

struct NoChores;

impl Chores for NoChores {
    fn expiry_due(&self, _: SlotId, _: u64) {}
    fn free(&self, _: Box<Object>) {}
    fn free_table(&self, _: Table<Object>) {}
}

/// Rooms that nobody serves.
pub(crate) fn bare_rooms() -> Rooms {
    Rooms::new(Box::new(NoChores))
}

/// A group as the journal got it.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) slot: SlotId,
    pub(super) epoch: Epoch,
    pub(super) index: OpIndex,
    pub(super) bytes: Vec<u8>,
}

/// A journal that keeps everything.
#[derive(Default)]
pub(super) struct Tape(Mutex<Vec<Group>>);

impl Tape {
    pub(super) fn take(&self) -> Vec<Group> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Journal for Tape {
    fn append(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        let mut groups = self.0.lock();
        groups.push(Group { slot, epoch, index, bytes: group.to_vec() });
        Position { lane: self.lane(slot), at: groups.len() as u64 }
    }
    fn leave(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.append(slot, epoch, index, group)
    }
    fn step(&self, _: Step, slot: SlotId, _: (Epoch, OpIndex), _: &[u8]) -> Position {
        // No part of the stream.
        Position { lane: self.lane(slot), at: self.0.lock().len() as u64 + 1 }
    }
    fn lane(&self, slot: SlotId) -> u16 {
        slot.number() % 8
    }
}

/// What a slot's stream is made of, in the order in which it came to be.
pub(super) enum Event {
    /// An op group, and the limits it was made under: they choose forms.
    Group(Group, Limits),
    /// A chunk of the snapshot with this number.
    Chunk(usize, Vec<u8>),
}

/// A node whose stream is recorded.
pub(super) struct Studio {
    pub(super) node: TestNode,
    tape: Arc<Tape>,
    pub(super) events: Vec<Event>,
}

impl Studio {
    pub(super) fn new(options: &[&str]) -> Studio {
        let (node, tape) = (TestNode::new(options), Arc::new(Tape::default()));
        node.node.rooms.set_journal(tape.clone(), put_op);
        Studio { node, tape, events: Vec::new() }
    }

    pub(super) fn state(&self) -> Arc<NodeState> {
        self.node.node.clone()
    }

    /// Takes over what was journaled; returns the slots of it.
    pub(super) fn collect(&mut self) -> BTreeSet<SlotId> {
        let limits = *self.node.node.rooms.limits();
        let groups = self.tape.take();
        let slots = groups.iter().map(|group| group.slot).collect();
        self.events.extend(groups.into_iter().map(|group| Event::Group(group, limits)));
        slots
    }

    /// Takes a chunk; false when there is none.
    pub(super) fn chunk(&mut self, id: usize, snapshot: &mut Snapshot<'_>, budget: Budget) -> bool {
        let mut bytes = Vec::new();
        let taken = snapshot.next_chunk(budget, &mut bytes).expect("the slot stays");
        if taken.is_some() {
            self.events.push(Event::Chunk(id, bytes));
        }
        taken.is_some()
    }
}

/// How the parts of a stream reach a sink.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// As they came to be, as over a link.
    AsTheyCame,
    /// The chunks first, as in a recovery.
    ChunksFirst,
    /// As they came to be, each twice.
    Twice,
}

pub(super) const ORDERS: [Order; 3] = [Order::AsTheyCame, Order::ChunksFirst, Order::Twice];

/// Replays what concerns `slot`; the index the copy ends at.
pub(super) fn replay(
    events: &[Event],
    slot: SlotId,
    (snapshot, order): (usize, Order),
    rooms: &Rooms,
) -> OpIndex {
    let mut sink = Sink::new(slot);
    let mut give = |event: &Event| match event {
        Event::Chunk(id, bytes) if *id == snapshot => {
            let chunk = Chunk::read(bytes).expect("it was just written");
            if chunk.head().slot == slot {
                let given = sink.chunk(&chunk, &mut rooms.replay(slot, START_MS));
                given.unwrap_or_else(|error| panic!("{order:?}: {error}"));
            }
        }
        Event::Group(group, limits) if group.slot == slot => {
            rooms.set_limits(*limits);
            let mut room = rooms.replay(slot, START_MS);
            let given = sink.group(group.epoch, group.index, &group.bytes, &mut room);
            given.unwrap_or_else(|error| panic!("{order:?}, {:?}: {error}", group.index));
        }
        _ => {}
    };
    let is_chunk = |event: &&Event| matches!(event, Event::Chunk(..));
    match order {
        Order::AsTheyCame => events.iter().for_each(give),
        Order::Twice => events.iter().for_each(|event| (0..2).for_each(|_| give(event))),
        Order::ChunksFirst => {
            events.iter().filter(is_chunk).for_each(&mut give);
            events.iter().filter(|event| !is_chunk(event)).for_each(give);
        }
    }
    sink.finish().unwrap_or_else(|error| panic!("{order:?}: {error:?}"))
}

/// All that must be the same of a key.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    expiry: Option<u64>,
    marks: u8,
    encoding: &'static str,
    elements: Vec<Vec<u8>>,
}

/// The keys of a slot.
pub(crate) fn dump(rooms: &Rooms, slot: SlotId) -> BTreeMap<Vec<u8>, Shown> {
    let reading = rooms.read(slot);
    let mut keys = BTreeMap::new();
    for entry in reading.table().iter() {
        let (encoding, elements) = match entry.value() {
            EntryValue::Bytes(text) => ("flat", vec![text.to_vec()]),
            EntryValue::Boxed(object) => (object.encoding().as_str(), elements(object)),
        };
        let shown = Shown { expiry: entry.expiry(), marks: entry.marks(), encoding, elements };
        keys.insert(entry.key().to_vec(), shown);
    }
    assert_eq!(keys.len(), reading.table().len());
    keys
}

/// What a value is made of, in its order if it has one.
pub(super) fn elements(object: &Object) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = match object {
        Object::Blob(blob) => vec![blob.to_vec()],
        Object::List(list) => list.iter().map(<[u8]>::to_vec).collect(),
        Object::Hash(hash) => hash.iter().map(|(f, v)| pair(f, v)).collect(),
        Object::Set(set) => set.iter().map(|member| member.to_vec()).collect(),
        Object::SortedSet(zset) => zset.iter().map(|(m, s)| pair(&s.to_le_bytes(), m)).collect(),
    };
    if object.encoding() == Encoding::Hashtable {
        all.sort();
    }
    all
}

fn pair(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut both = Vec::new();
    put_string(&mut both, left);
    both.extend_from_slice(right);
    both
}

/// The node's sums are those of its one slot with keys.
pub(crate) fn check_totals(rooms: &Rooms, slots: &BTreeSet<SlotId>) {
    let (mut keys, mut expiring) = (0, 0);
    for slot in slots {
        let reading = rooms.read(*slot);
        keys += reading.table().len() as i64;
        expiring += reading.table().expiring() as i64;
    }
    let load = |sum: &std::sync::atomic::AtomicI64| sum.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((load(&rooms.totals.keys), load(&rooms.totals.expiring)), (keys, expiring));
}

/// Commands that count as writing but change no key, with the reason.
const CHANGE_NO_KEY: &[(&str, &str)] = &[
    ("move", "there is one database"),
    ("swapdb", "there is one database"),
    ("function|flush", "there are no functions"),
    ("function|restore", "there are no functions"),
    ("slotd|restore", "its frames are bytes: `stream/source` and its own tests have them"),
];

/// Scripts for the commands whose own scripts change nothing here.
const MORE: &str = "> PSETEX k 1000 v\n> GET k\n";

pub(crate) fn scripts() -> Vec<(String, String)> {
    fn collect(dir: &Path, found: &mut Vec<(String, String)>) {
        let entries = std::fs::read_dir(dir).expect("the families are there");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("readable").path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "txt") {
                let text = std::fs::read_to_string(&path).expect("a text");
                found.push((path.display().to_string(), text));
            }
        }
    }
    let mut found = vec![("MORE".to_owned(), MORE.to_owned())];
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/command/families"), &mut found);
    found
}

/// The lines of a script that do something.
pub(crate) fn steps(script: &str) -> Vec<&str> {
    script.lines().filter(|line| line.starts_with("> ") || line.starts_with('@')).collect()
}

/// A slot that is given up ends its snapshots, which the test of these scripts wants whole.
fn gives_slots_up(script: &str) -> bool {
    let upper = script.to_ascii_uppercase();
    ["DELSLOTS", "FLUSHSLOTS", "CLUSTER RESET", "@STANDING"].iter().any(|word| upper.contains(word))
}

#[test]
fn every_script_ends_in_the_same_keys_from_any_snapshot() {
    let mut played = 0;
    for (name, script) in scripts().into_iter().filter(|(_, text)| !gives_slots_up(text)) {
        let mut studio = Studio::new(&[]);
        for step in steps(&script) {
            play(&mut studio.node, step);
        }
        let slots = studio.collect();
        if !slots.is_empty() {
            played += 1;
            replay_from_all(&name, &steps(&script), &slots);
        }
    }
    assert!(played > 60, "only {played} scripts changed a key");
}

fn replay_from_all(name: &str, steps: &[&str], slots: &BTreeSet<SlotId>) {
    let mut studio = Studio::new(&[]);
    let state = studio.state();
    let starts: BTreeSet<usize> = (0..=3).map(|third| steps.len() * third / 3).collect();
    let mut snapshots: Vec<(usize, Snapshot<'_>)> = Vec::new();
    let budget = Budget { entries: 2, bytes: 100 };
    for line in 0..=steps.len() {
        if starts.contains(&line) {
            let begin = |slot| (line, Snapshot::begin(&state.rooms, slot).expect("a reader more"));
            snapshots.extend(slots.iter().copied().map(begin));
        }
        for (id, snapshot) in &mut snapshots {
            studio.chunk(*id, snapshot, budget);
        }
        if let Some(step) = steps.get(line) {
            play(&mut studio.node, step);
            studio.collect();
        }
    }
    for (id, snapshot) in &mut snapshots {
        while studio.chunk(*id, snapshot, budget) {}
    }
    let rooms = bare_rooms();
    for start in starts {
        for order in ORDERS {
            for slot in slots {
                rooms.replay(*slot, START_MS).apply(Op::Flush);
                rooms.replay(*slot, START_MS).set_place(Epoch(0), OpIndex(0));
                let index = replay(&studio.events, *slot, (start, order), &rooms);
                let (want, got) = (dump(&state.rooms, *slot), dump(&rooms, *slot));
                assert_eq!(want, got, "{name}, snapshot from line {start}, {order:?}");
                assert_eq!(state.rooms.read(*slot).index(), index, "{name}");
                assert_eq!(rooms.read(*slot).epoch(), state.rooms.read(*slot).epoch());
            }
            check_totals(&rooms, slots);
        }
    }
}

#[test]
fn every_command_that_writes_has_a_script_that_changes_keys() {
    let mut seen: BTreeSet<String> =
        CHANGE_NO_KEY.iter().map(|(name, _)| (*name).to_owned()).collect();
    for (_, script) in scripts() {
        let mut studio = Studio::new(&[]);
        for step in steps(&script) {
            play(&mut studio.node, step);
            if !studio.collect().is_empty() {
                seen.extend(command_of(step));
            }
        }
    }
    let writing = registry().all().filter(|(_, entry)| entry.command.writes());
    let missing: Vec<&str> =
        writing.map(|(_, e)| e.full_name.as_str()).filter(|n| !seen.contains(*n)).collect();
    assert!(missing.is_empty(), "no script in which these change a key: {missing:?}");
}

#[test]
fn a_group_is_journaled_once_and_its_place_is_known() {
    let mut studio = Studio::new(&[]);
    let state = studio.state();
    let slot = slots::slot_of(b"{w}");
    let position = || match state.rooms.admit(slot, START_MS, Patience::Block) {
        Admit::Served(owned) => owned.position(),
        _ => panic!("the slot is served"),
    };
    assert_eq!(position(), None);
    play(&mut studio.node, "> 2: BLPOP {w}l 0");
    for (line, groups) in [
        ("> SET {w}1 a", 1),
        ("> GET {w}1", 0),
        ("> DEL {w}none", 0),
        ("> MULTI", 0),
        ("> SET {w}1 b", 0),
        ("> SET {w}2 c", 0),
        ("> EXEC", 1),
        // The waiter's pop is of the group of the push that served it.
        ("> RPUSH {w}l x", 1),
        ("> PEXPIRE {w}1 10", 1),
        ("@advance 20", 0),
        ("> GET {w}1", 1),
    ] {
        let before = studio.events.len();
        play(&mut studio.node, line);
        let at = position();
        studio.collect();
        assert_eq!(studio.events.len() - before, groups, "{line}");
        assert_eq!(at.is_some_and(|at| at.lane == slot.number() % 8), !studio.events.is_empty());
    }
    let indexes = studio.events.iter().map(|event| match event {
        Event::Group(group, _) => group.index.0,
        Event::Chunk(..) => 0,
    });
    assert!(indexes.eq(1..=5), "indexes have no gap");
    assert!(dump(&state.rooms, slot).keys().eq([b"{w}2"]), "the list was popped, 1 expired");
}

#[test]
fn a_replayed_room_keeps_what_has_expired() {
    let (rooms, slot) = (bare_rooms(), slots::slot_of(b"{w}"));
    let key = Key::new(b"{w}1");
    let mut room = rooms.replay(slot, START_MS);
    room.apply(Op::SetString { key, value: b"v", expiry: Expiry::At(START_MS - 1) });
    assert!(!room.keys().exists(key));
    room.set_place(Epoch(3), OpIndex(9));
    drop(room);
    let room = rooms.replay(slot, START_MS);
    assert_eq!((room.keys().len(), room.epoch(), room.index()), (1, Epoch(3), OpIndex(9)));
    drop(room);
    check_totals(&rooms, &BTreeSet::from([slot]));
}

/// The full name of a step's command.
fn command_of(step: &str) -> Option<String> {
    let request = step.strip_prefix("> ")?;
    let words = match request.split_once(": ") {
        Some((number, words)) if number.parse::<u32>().is_ok() => words,
        _ => request,
    };
    let mut words = words.split(' ');
    let id = registry().find(words.next()?.as_bytes())?;
    let sub = words.next().and_then(|word| registry().find_sub(id, word.as_bytes()));
    Some(registry().entry(sub.unwrap_or(id)).full_name.clone())
}
