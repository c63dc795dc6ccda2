//! Seeded walks of writes with snapshots under way, and the single rules of the sink.

use std::collections::BTreeSet;

use slots::slot_of;

use super::*;
use crate::slot::Rooms;
use crate::store::table::EntryValue;
use crate::stream::chunk::{ChunkWriter, Head};
use crate::stream::tests::{Event, ORDERS, Order, Studio, bare_rooms, check_totals, dump, replay};
use crate::stream::{Budget, Snapshot};
use crate::testing::START_MS;

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// Changes of all types and forms; those that meet a key of another type change nothing. `K` and
/// `L` become keys, `N` a small number, `V` a text of any length.
const CHANGES: &str = "SET K V; SET K N PX N00; SETRANGE K N V; APPEND K V; SETRANGE K 70000 V; \
    INCR K; GETDEL K; SETBIT K N 1; BITOP OR K L K; RPUSH K V N V; LPUSH K N V N; LSET K N V; \
    LINSERT K AFTER N V; LREM K 0 N; LTRIM K N -2; LPOP K N; LMOVE K L LEFT RIGHT; \
    HSET K N V V N N N; HDEL K N; HINCRBY K N N; SADD K N V; SADD K N N1 N2; SREM K N; SPOP K N; \
    SMOVE K L N; SUNIONSTORE K K L; ZADD K N V N N N N1; ZREM K N; ZPOPMIN K N; \
    ZREMRANGEBYRANK K 1 N; ZUNIONSTORE K 2 K L; COPY K L REPLACE; PEXPIRE K N0; PERSIST K; DEL K; \
    UNLINK K L; RENAME K L; RENAME L K; RENAMENX K L; MSET K N L V; GET K";

const SMALL: [&str; 12] = [
    "--hash-max-listpack-entries",
    "5",
    "--set-max-listpack-entries",
    "5",
    "--set-max-intset-entries",
    "5",
    "--zset-max-listpack-entries",
    "5",
    "--list-max-listpack-size",
    "4",
    "--hash-max-listpack-value",
    "50",
];

struct Walk {
    dice: Dice,
    studio: Studio,
    keys: usize,
    /// One step in so many empties the slot.
    flush_odds: usize,
}

impl Walk {
    fn new(seed: u64, keys: usize) -> Walk {
        let mut dice = Dice(seed);
        (0..8).for_each(|_| _ = dice.below(2));
        Walk { dice, studio: Studio::new(&SMALL), keys, flush_odds: 10 * keys }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{{w}}{}", self.dice.below(self.keys)).into_bytes()
    }

    fn word(&mut self, word: &str) -> Vec<u8> {
        match word {
            "K" | "L" => self.key(),
            "V" => {
                let len = [3, 44, 60, 300, 9_000, 70_000][self.dice.below(30).min(5)];
                vec![b'v'; len + self.dice.below(3)]
            }
            word if word.starts_with('N') => {
                format!("{}{}", self.dice.below(12), &word[1..]).into_bytes()
            }
            word => word.as_bytes().to_vec(),
        }
    }

    fn call(&mut self, line: &str) {
        let words: Vec<Vec<u8>> = line.split_whitespace().map(|word| self.word(word)).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.studio.node.call(1, &words);
        self.studio.collect();
    }

    fn step(&mut self) {
        if self.dice.below(self.flush_odds) == 0 {
            self.call("FLUSHALL");
        }
        match self.dice.below(400) {
            0..10 => self.studio.node.advance(40),
            10..14 => {
                self.call("MULTI");
                (0..4).for_each(|_| self.any());
                self.call("EXEC");
            }
            _ => self.any(),
        }
    }

    fn any(&mut self) {
        let changes: Vec<&str> = CHANGES.split("; ").collect();
        let line = changes[self.dice.below(changes.len())];
        self.call(line);
    }

    /// Many keys come, or most of them go: the table splits, or shrinks.
    fn tide(&mut self, verb: &str) {
        for number in 0..self.keys {
            if verb == "SET" || number % 8 != 0 {
                let key = format!("{{w}}{number}").into_bytes();
                let words: [&[u8]; 3] = [verb.as_bytes(), &key, b"v"];
                self.studio.node.call(1, &words[..if verb == "SET" { 3 } else { 2 }]);
            }
        }
        self.studio.collect();
    }

    fn budget(&mut self) -> Budget {
        Budget { entries: 1 + self.dice.below(30), bytes: 1 + self.dice.below(4_000) }
    }
}

fn check(walk: &Walk, snapshots: usize, what: &str) {
    let slot = slot_of(b"{w}");
    let state = walk.studio.state();
    let want = dump(&state.rooms, slot);
    for snapshot in 0..snapshots {
        for order in ORDERS {
            let rooms = bare_rooms();
            let index = replay(&walk.studio.events, slot, (snapshot, order), &rooms);
            assert_eq!(index, state.rooms.read(slot).index());
            let got = dump(&rooms, slot);
            let differs = want.iter().find(|(key, shown)| got.get(*key) != Some(*shown));
            assert!(
                want == got,
                "{what}, snapshot {snapshot}, {order:?}: {} keys, not {}; first {differs:?}",
                got.len(),
                want.len()
            );
            check_totals(&rooms, &BTreeSet::from([slot]));
        }
    }
}

/// A few keys that change all the time, two snapshots that overlap.
#[test]
fn walks_over_few_keys_end_in_the_same_keys() {
    for seed in 0..40 {
        let mut walk = Walk::new(seed, 40);
        let state = walk.studio.state();
        (0..200).for_each(|_| walk.step());
        let mut snapshots: Vec<Snapshot<'_>> = Vec::new();
        let mut open = true;
        for step in 0.. {
            if step == 0 || step == 20 {
                let snapshot = Snapshot::begin(&state.rooms, slot_of(b"{w}"));
                snapshots.push(snapshot.expect("a reader more"));
            }
            walk.step();
            if step > 20 && !open {
                break;
            }
            open = false;
            for (id, snapshot) in snapshots.iter_mut().enumerate() {
                if walk.dice.below(3) == 0 {
                    let budget = Budget { entries: 1 + walk.dice.below(4), ..walk.budget() };
                    walk.studio.chunk(id, snapshot, budget);
                }
                open |= !snapshot.is_finished();
            }
        }
        (0..20).for_each(|_| walk.step());
        check(&walk, 2, &format!("seed {seed}"));
    }
}

/// Thousands of keys that come and go while a snapshot is taken.
#[test]
fn walks_over_a_table_that_grows_and_shrinks_end_in_the_same_keys() {
    for seed in 0..6 {
        let mut walk = Walk::new(seed, 3_000);
        let state = walk.studio.state();
        let tides = [["SET", "DEL", "SET"], ["DEL", "SET", "DEL"]][seed as usize % 2];
        if seed % 2 == 1 {
            walk.tide("SET");
        }
        let mut snapshot = Snapshot::begin(&state.rooms, slot_of(b"{w}")).expect("a reader more");
        let mut chunks = 0;
        for tide in tides.iter().chain(std::iter::repeat(&"")) {
            if !tide.is_empty() {
                walk.tide(tide);
            }
            for _ in 0..60 {
                walk.step();
                let budget = Budget { entries: 1 + walk.dice.below(12), ..walk.budget() };
                chunks += usize::from(walk.studio.chunk(0, &mut snapshot, budget));
            }
            if snapshot.is_finished() && tide.is_empty() {
                break;
            }
        }
        assert!(chunks > 40, "seed {seed}: only {chunks} chunks");
        check(&walk, 1, &format!("seed {seed}"));
    }
}

/// One slot by hand: what is done, and what its chunks and groups are.
struct Bench {
    studio: Studio,
    slot: SlotId,
}

impl Bench {
    fn new() -> Bench {
        Bench { studio: Studio::new(&[]), slot: slot_of(b"{w}") }
    }

    fn call(&mut self, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = self.studio.node.call(1, &words);
        assert_ne!(reply[0], b'-', "{line}: {}", reply.escape_ascii());
        self.studio.collect();
    }

    /// The whole slot as one chunk.
    fn image(&self) -> Vec<u8> {
        let (state, mut bytes) = (self.studio.state(), Vec::new());
        let mut snapshot = Snapshot::begin(&state.rooms, self.slot).expect("a reader more");
        let head = snapshot.next_chunk(Budget::default(), &mut bytes).expect("the slot stays");
        assert!(head.is_some_and(|head| head.is_last));
        bytes
    }

    fn give(&self, sink: &mut Sink, rooms: &Rooms, at: usize) -> Result<(), Mismatch> {
        let Event::Group(group, _) = &self.studio.events[at] else { panic!("a chunk") };
        let mut room = rooms.replay(self.slot, START_MS);
        sink.group(group.epoch, group.index, &group.bytes, &mut room)
    }

    fn install(&self, sink: &mut Sink, rooms: &Rooms, chunk: &[u8]) -> Result<(), Mismatch> {
        sink.chunk(&Chunk::read(chunk).expect("a chunk"), &mut rooms.replay(self.slot, START_MS))
    }
}

#[test]
fn a_newer_chunk_replaces_its_range() {
    let mut bench = Bench::new();
    bench.call("MSET {w}1 one {w}2 two");
    let old = bench.image();
    bench.call("DEL {w}1");
    let new = bench.image();
    let (mut sink, rooms) = (Sink::new(bench.slot), bare_rooms());
    bench.install(&mut sink, &rooms, &old).expect("a first chunk");
    bench.install(&mut sink, &rooms, &new).expect("a newer one");
    bench.install(&mut sink, &rooms, &old).expect("an older one is passed over");
    assert_eq!(dump(&rooms, bench.slot), dump(&bench.studio.state().rooms, bench.slot));
    assert_eq!(sink.finish(), Ok(OpIndex(2)));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut bench = Bench::new();
    ["SET {w}1 a", "SET {w}2 b", "SET {w}3 c"].iter().for_each(|line| bench.call(line));
    let image = bench.image();
    bench.call("SET {w}4 d");
    let (mut sink, rooms) = (Sink::new(bench.slot), bare_rooms());
    assert_eq!(sink.finish(), Err(Unfinished::Missing));
    (0..2).for_each(|at| bench.give(&mut sink, &rooms, at).expect("dropped: nothing is there"));
    assert!(dump(&rooms, bench.slot).is_empty());
    let gap = Mismatch::Gap { missing: OpIndex(3), got: OpIndex(4) };
    assert_eq!(bench.give(&mut sink, &rooms, 3), Err(gap));
    (2..4).for_each(|at| bench.give(&mut sink, &rooms, at).expect("the next ones"));
    let late = Mismatch::Late { index: OpIndex(3) };
    assert_eq!(bench.install(&mut sink, &rooms, &image), Err(late));
    let mut other = Sink::new(SlotId::FIRST);
    let given = bench.install(&mut other, &rooms, &image);
    assert_eq!(given, Err(Mismatch::OtherSlot(bench.slot)));
}

/// A chunk without keys, at index 1, of the one position where `key` would be.
fn only(bench: &Bench, key: &[u8]) -> Vec<u8> {
    let at = ScanPos::of(Key::new(key).hash);
    let mut bytes = Vec::new();
    let (slot, epoch, index, order) = (bench.slot, Epoch(1), OpIndex(1), KeyOrder::local().seed());
    let head = Head { slot, epoch, index, order, from: at, to: at, is_last: false };
    ChunkWriter::begin(&mut bytes).end(&mut bytes, &head);
    bytes
}

#[test]
fn a_plain_rename_needs_the_value_where_the_new_name_is() {
    let mut bench = Bench::new();
    ["SET {w}1 a", "SET {w}1 b", "RENAME {w}1 {w}2"].iter().for_each(|line| bench.call(line));
    let (mut sink, rooms) = (Sink::new(bench.slot), bare_rooms());
    bench.install(&mut sink, &rooms, &only(&bench, b"{w}2")).expect("a chunk");
    bench.give(&mut sink, &rooms, 1).expect("of no key that is there");
    let torn = Mismatch::TornRename { index: OpIndex(3) };
    assert_eq!(bench.give(&mut sink, &rooms, 2), Err(torn));
    // Where only the old name is there, it goes.
    let (mut sink, rooms) = (Sink::new(bench.slot), bare_rooms());
    bench.install(&mut sink, &rooms, &only(&bench, b"{w}1")).expect("a chunk");
    bench.give(&mut sink, &rooms, 1).expect("the old name's value");
    assert_eq!(dump(&rooms, bench.slot).len(), 1);
    bench.give(&mut sink, &rooms, 2).expect("the old name goes");
    assert!(dump(&rooms, bench.slot).is_empty());
}

#[test]
fn a_whole_copy_takes_the_groups_that_follow() {
    let mut bench = Bench::new();
    ["RPUSH {w}l a", "RPUSH {w}l b", "RENAME {w}l {w}m", "APPEND {w}s x", "FLUSHALL", "SET {w}1 1"]
        .iter()
        .for_each(|line| bench.call(line));
    let (mut sink, rooms) = (Sink::whole(bench.slot, OpIndex(0)), bare_rooms());
    for at in 0..bench.studio.events.len() {
        bench.give(&mut sink, &rooms, at).expect("the next");
        bench.give(&mut sink, &rooms, at).expect("given again");
    }
    assert_eq!(dump(&rooms, bench.slot), dump(&bench.studio.state().rooms, bench.slot));
    assert_eq!(sink.finish(), Ok(OpIndex(6)));
    assert_eq!(rooms.read(bench.slot).index(), OpIndex(6));
}

#[test]
fn a_chunk_that_ran_ahead_of_the_groups_is_not_whole() {
    let mut bench = Bench::new();
    ["SET {w}1 a", "SET {w}2 b"].iter().for_each(|line| bench.call(line));
    let (sink, rooms) = (&mut Sink::whole(bench.slot, OpIndex(0)), bare_rooms());
    let to = ScanPos::of(Key::new(b"{w}1").hash);
    let mut bytes = Vec::new();
    let (slot, epoch, index, from) = (bench.slot, Epoch(1), OpIndex(2), ScanPos::START);
    let order = KeyOrder::local().seed();
    let head = Head { slot, epoch, index, order, from, to, is_last: false };
    ChunkWriter::begin(&mut bytes).end(&mut bytes, &head);
    bench.install(sink, &rooms, &bytes).expect("a newer chunk");
    bench.give(sink, &rooms, 0).expect("the first group");
    assert_eq!(sink.finish(), Err(Unfinished::Short { have: OpIndex(1), need: OpIndex(2) }));
    bench.give(sink, &rooms, 1).expect("the second group");
    assert_eq!(sink.finish(), Ok(OpIndex(2)));
}

/// The part of a slot that lies in a range of another process's order.
fn foreign_chunk(rooms: &Rooms, slot: SlotId, order: &KeyOrder, part: u64) -> Vec<u8> {
    const PARTS: u64 = 8;
    let width = (ScanPos::LAST.0 + 1) / PARTS;
    let (from, to) = (ScanPos(width * part), ScanPos(width * (part + 1) - 1));
    let reading = rooms.read(slot);
    let mut bytes = Vec::new();
    let mut writer = ChunkWriter::begin(&mut bytes);
    for entry in reading.table().iter() {
        if (from..=to).contains(&order.position(entry.key())) {
            let about = (entry.key(), entry.expiry());
            match entry.value() {
                EntryValue::Bytes(text) => {
                    writer.put_flat(&mut bytes, about, (text, entry.marks() != 0));
                }
                EntryValue::Boxed(object) => writer.put_object(&mut bytes, about, object),
            }
        }
    }
    let (epoch, index) = (reading.epoch(), reading.index());
    let is_last = part + 1 == PARTS;
    let head = Head { slot, epoch, index, order: order.seed(), from, to, is_last };
    writer.end(&mut bytes, &head);
    bytes
}

#[test]
fn a_stream_in_another_order_of_keys_ends_in_the_same_keys() {
    let order = KeyOrder::seeded(99);
    for seed in 0..10 {
        let mut walk = Walk::new(seed, 30);
        let (state, slot) = (walk.studio.state(), slot_of(b"{w}"));
        (0..100).for_each(|_| walk.step());
        // Two copies over each other: the second meets what the first left.
        for id in [0, 0] {
            let reader = Snapshot::begin(&state.rooms, slot).expect("a reader more");
            for part in 0..8 {
                walk.studio
                    .events
                    .push(Event::Chunk(id, foreign_chunk(&state.rooms, slot, &order, part)));
                (0..8).for_each(|_| walk.step());
            }
            drop(reader);
        }
        let rooms = bare_rooms();
        replay(&walk.studio.events, slot, (0, Order::AsTheyCame), &rooms);
        assert_eq!(dump(&rooms, slot), dump(&state.rooms, slot), "seed {seed}");
        let rooms = bare_rooms();
        replay(&walk.studio.events, slot, (0, Order::ChunksFirst), &rooms);
        assert_eq!(dump(&rooms, slot), dump(&state.rooms, slot), "seed {seed}, chunks first");
    }
}
