//! Whatever is written between the pieces, the section ends in the slot as it stood at its end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slots::{Epoch, slot_of};

use super::*;
use crate::command::Rng;
use crate::slot::{Admit, Ownership, Patience, Stage};
use crate::store::limits::Limits;
use crate::store::table::ScanPos;
use crate::stream::Sink;
use crate::stream::chunk::Chunk;
use crate::stream::section::{Arrival, BadFrame};
use crate::stream::sink::Mismatch;
use crate::stream::tests::{Group, Shown, Tape, bare_rooms, dump};
use crate::testing::{START_MS, TestNode};

const SMALL: Budget = Budget { entries: 3, bytes: 120 };

/// Small forms, so that some values grow out of them.
const OPTIONS: [&str; 2] = ["--hash-max-listpack-entries", "4"];

/// What is written between two pieces, by dice.
struct Writers {
    node: TestNode,
    dice: Rng,
}

impl Writers {
    fn new(seed: u64) -> Writers {
        let mut writers = Writers { node: TestNode::new(&OPTIONS), dice: Rng::seeded(seed) };
        // Somebody waits: what a push gives it is popped in the same group.
        writers.say(2, "BLPOP {w}queue 0");
        (0..40).for_each(|_| writers.write());
        writers
    }

    fn say(&mut self, client: u32, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.node.call(client, &words);
    }

    fn write(&mut self) {
        for line in lines(&mut self.dice) {
            self.say(if line.starts_with("BLPOP") { 2 } else { 1 }, &line);
        }
        if self.dice.below(20) == 0 {
            self.node.advance(self.dice.below(12) as u64);
        }
    }
}

/// A command, or a transaction, of any kind that changes keys.
fn lines(dice: &mut Rng) -> Vec<String> {
    let (key, other) = (format!("{{w}}{}", dice.below(24)), format!("{{w}}{}", dice.below(24)));
    let number = dice.below(1000);
    let line = match dice.below(26) {
        0..=2 => format!("SET {key} value:{number}"),
        3 => format!("SET {key} {} PX {}", "v".repeat(number % 90), 1 + number % 40),
        4 => format!("APPEND {key} {number}"),
        5 => format!("SETRANGE {key} {} x", number % 200),
        6 => format!("DEL {key}"),
        7..=9 => format!("RENAME {key} {other}"),
        10 => format!("HSET {key} f{} {number}", number % 9),
        11 => format!("HDEL {key} f{} f{}", number % 9, number % 7),
        12 => format!("RPUSH {key} {number} more"),
        13 => format!("LPOP {key}"),
        14 => format!("LSET {key} 0 {number}"),
        15 => format!("SADD {key} m{number} {number}"),
        16 => format!("SPOP {key}"),
        17 => format!("ZADD {key} {number} m{}", number % 7),
        18 => format!("ZPOPMIN {key}"),
        19 => format!("PEXPIRE {key} {}", 1 + number % 50),
        20 => format!("COPY {key} {other} REPLACE"),
        21 => format!("RPUSH {{w}}queue {number}"),
        22 => "BLPOP {w}queue 0".to_owned(),
        23 => {
            let rename = format!("RENAME {key} {other}");
            let (set, delete) = (format!("SET {key} again"), format!("DEL {other}"));
            return vec!["MULTI".to_owned(), rename, set, delete, "EXEC".to_owned()];
        }
        24 if number < 200 => "FLUSHALL".to_owned(),
        _ => format!("GET {key}"),
    };
    vec![line]
}

/// A section as it was carried, and the keys there were at its end.
struct Carried {
    frames: Vec<Vec<u8>>,
    expected: BTreeMap<Vec<u8>, Shown>,
    end: SectionEnd,
}

fn carry(writers: &mut Writers) -> Carried {
    let (state, slot) = (writers.node.node.clone(), slot_of(b"{w}"));
    let mut source = Source::begin(&state.rooms, slot).expect("one reader");
    let (mut frames, mut expected) = (Vec::new(), None);
    loop {
        let mut frame = vec![0];
        let piece = source.next(&state.rooms, SMALL, &mut frame).expect("the slot stays");
        frame[0] = piece.kind();
        frames.push(frame);
        if source.end.is_some() && expected.is_none() {
            expected = Some(dump(&state.rooms, slot));
        }
        if let Piece::End(end) = piece {
            let expected = expected.expect("the end was known");
            return Carried { frames, expected, end };
        }
        let more = writers.dice.below(5);
        (0..more).for_each(|_| writers.write());
    }
}

/// A stage with what the frames hold.
fn arrived(frames: &[Vec<u8>], rooms: &Rooms) -> Result<Stage, BadFrame> {
    let slot = slot_of(b"{w}");
    let (stage, mut arrival) = (Stage::new(slot), Arrival::new(slot));
    for frame in frames {
        arrival.frame(frame, &mut stage.enter(rooms, START_MS))?;
    }
    let end = arrival.end().expect("the last frame was an end");
    assert_eq!(stage.keys(), end.keys);
    Ok(stage)
}

/// What a live room holds after the section went through a stage into it.
fn restored(frames: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, Shown>, BadFrame> {
    let (rooms, slot) = (bare_rooms(), slot_of(b"{w}"));
    rooms.set_limits(Limits { hash_max_entries: 4, ..Limits::default() });
    let mut stage = arrived(frames, &rooms)?;
    let keys = stage.keys();
    assert!(rooms.looks_empty(slot) && stage.is_of_one_slot());
    rooms.install(slot, Ownership::Owned, Epoch(1));
    loop {
        let taken = stage.take(&rooms, (3, 100));
        if taken.is_empty() {
            break;
        }
        let Admit::Served(mut owned) = rooms.admit(slot, 0, Patience::Block) else {
            panic!("it is ours")
        };
        taken.into_iter().for_each(|staged| staged.put(&mut owned));
    }
    assert_eq!((stage.keys(), stage.bytes()), (0, 0));
    assert_eq!(rooms.totals.keys.load(Ordering::Relaxed) as u64, keys);
    Ok(dump(&rooms, slot))
}

#[test]
fn a_section_is_the_slot_at_its_end_whatever_is_written_meanwhile() {
    let mut groups = 0;
    for seed in 0..200 {
        let mut writers = Writers::new(seed);
        if seed % 2 == 1 {
            writers.node.node.rooms.set_journal(Arc::new(Tape::default()), put_op);
        }
        let carried = carry(&mut writers);
        let got = restored(&carried.frames).unwrap_or_else(|bad| panic!("seed {seed}: {bad}"));
        assert_eq!(got, carried.expected, "seed {seed}");
        assert_eq!(got.len() as u64, carried.end.keys, "seed {seed}");
        groups += carried.frames.iter().filter(|frame| frame[0] == 2).count();
    }
    assert!(groups > 1_000, "hardly anything was written meanwhile: {groups}");
}

/// The slot as its journal makes it.
struct Replayed {
    tape: Arc<Tape>,
    rooms: Rooms,
    sink: Sink,
    /// Not replayed yet.
    waiting: VecDeque<Group>,
}

impl Replayed {
    fn new(tape: Arc<Tape>) -> Replayed {
        let (rooms, sink) = (bare_rooms(), Sink::whole(slot_of(b"{w}"), OpIndex(0)));
        rooms.set_limits(Limits { hash_max_entries: 4, ..Limits::default() });
        Replayed { tape, rooms, sink, waiting: VecDeque::new() }
    }

    fn up_to(&mut self, end: OpIndex) -> BTreeMap<Vec<u8>, Shown> {
        let slot = slot_of(b"{w}");
        self.waiting.extend(self.tape.take().into_iter().filter(|group| group.slot == slot));
        while self.waiting.front().is_some_and(|group| group.index <= end)
            && let Some(group) = self.waiting.pop_front()
        {
            let mut room = self.rooms.replay(slot, START_MS);
            let given = self.sink.group(group.epoch, group.index, &group.bytes, &mut room);
            given.expect("the next one");
        }
        dump(&self.rooms, slot)
    }
}

#[test]
fn a_section_is_the_slot_at_its_end_while_threads_write() {
    let (mut node, tape) = (TestNode::new(&OPTIONS), Arc::new(Tape::default()));
    node.node.rooms.set_journal(tape.clone(), put_op);
    let (state, slot, ends) = (node.node.clone(), slot_of(b"{w}"), AtomicBool::new(false));
    let mut clients = [node.lend(1), node.lend(2)];
    let (mut expected, mut groups) = (Replayed::new(tape), 0);
    std::thread::scope(|scope| {
        for (seed, client) in clients.iter_mut().enumerate() {
            let (mut dice, ends) = (Rng::seeded(seed as u64), &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::SeqCst) {
                    let lines = lines(&mut dice);
                    for line in lines.iter().filter(|line| !line.starts_with("BLPOP")) {
                        client.send(format!("{line}\r\n").as_bytes());
                    }
                }
            });
        }
        for _ in 0..300 {
            let mut source = Source::begin(&state.rooms, slot).expect("one reader");
            let mut frames = Vec::new();
            let end = loop {
                let mut frame = vec![0];
                let piece = source.next(&state.rooms, SMALL, &mut frame).expect("it stays");
                frame[0] = piece.kind();
                groups += usize::from(frame[0] == 2);
                frames.push(frame);
                if let Piece::End(end) = piece {
                    break end;
                }
            };
            let got = restored(&frames).unwrap_or_else(|bad| panic!("{bad}"));
            assert_eq!(got, expected.up_to(end.index));
        }
        ends.store(true, Ordering::SeqCst);
    });
    assert!(groups > 0, "nothing was written meanwhile");
}

#[test]
fn a_section_that_is_cut_or_mixed_up_is_refused() {
    let mut writers = Writers::new(7);
    let Carried { frames, .. } = carry(&mut writers);
    restored(&frames).expect("it is whole");
    let without = |skipped: usize| {
        let kept = frames.iter().enumerate().filter(|(at, _)| *at != skipped);
        restored(&kept.map(|(_, frame)| frame.clone()).collect::<Vec<_>>())
    };
    let mut refused = 0;
    for (at, frame) in frames.iter().enumerate().take(frames.len() - 1) {
        // Chunks that are missing, and groups that are.
        let got = without(at).expect_err(&format!("frame {at}"));
        refused += usize::from(frame[0] == 2 && matches!(got, BadFrame::Mismatch(_)));
    }
    assert!(refused > 0, "no gap was seen");
    let mut doubled = frames.clone();
    doubled.push(frames[frames.len() - 1].clone());
    assert_eq!(restored(&doubled).err(), Some(BadFrame::AfterEnd));
    assert_eq!(restored(&[vec![9, 0]]).err(), Some(BadFrame::Kind(9)));
    assert_eq!(restored(&[Vec::new()]).err(), Some(BadFrame::Empty));
}

#[test]
fn frames_of_any_bytes_do_no_harm() {
    let mut writers = Writers::new(11);
    let Carried { frames, .. } = carry(&mut writers);
    let (rooms, mut dice) = (bare_rooms(), Rng::seeded(3));
    for _ in 0..3_000 {
        let mut broken = frames.clone();
        let at = dice.below(broken.len());
        let place = dice.below(broken[at].len());
        broken[at][place] ^= 1 << dice.below(8);
        // Refused, or another value in a key: a checksum is not this one's work.
        let _ = arrived(&broken, &rooms);
    }
}

#[test]
fn a_taker_that_is_too_slow_is_told_once_and_nobody_waits() {
    let mut writers = Writers::new(1);
    let state = writers.node.node.clone();
    let slot = slot_of(b"{w}");
    let mut source = Source::begin(&state.rooms, slot).expect("one reader");
    source.next(&state.rooms, SMALL, &mut Vec::new()).expect("a chunk");
    let value = vec![b'x'; 1 << 20];
    (0..20).for_each(|_| {
        writers.node.call(1, &[b"SET", b"{w}big", &value]);
    });
    let next = |source: &mut Source| {
        loop {
            match source.next(&state.rooms, SMALL, &mut Vec::new()) {
                Ok(Piece::Groups(_)) => {}
                other => return other.map(|piece| piece.kind()),
            }
        }
    };
    assert_eq!(next(&mut source), Err(Interrupted::Overrun));
    drop(source);
    let mut again = Source::begin(&state.rooms, slot).expect("the tap is gone");
    assert!(next(&mut again).is_ok());
}

#[test]
fn a_source_that_is_dropped_leaves_the_slot_as_it_was() {
    let writers = Writers::new(1);
    let (state, slot) = (writers.node.node.clone(), slot_of(b"{w}"));
    let all: Vec<Source> = std::iter::from_fn(|| Source::begin(&state.rooms, slot).ok()).collect();
    assert_eq!(all.len(), crate::slot::tap::TAPS_PER_SLOT_MAX);
    drop(all);
    assert!(!state.rooms.is_tapped(slot));
    assert!(Source::begin(&state.rooms, slot).is_ok());
}

#[test]
fn a_slot_without_keys_is_at_its_end_at_once() {
    let node = TestNode::new(&[]);
    let (rooms, slot) = (&node.node.rooms, slot_of(b"{w}"));
    let mut source = Source::begin(rooms, slot).expect("one reader");
    let mut frame = vec![3];
    let Ok(Piece::End(end)) = source.next(rooms, SMALL, &mut frame) else { panic!("an end") };
    assert_eq!((end.keys, end.index), (0, OpIndex(0)));
    assert_eq!(restored(&[frame]).map(|keys| keys.len()), Ok(0));
    rooms.install(slot, Ownership::Foreign, Epoch(99));
    assert_eq!(Source::begin(rooms, slot).err(), Some(Interrupted::Unreadable(Unreadable::LetGo)));
}

#[test]
fn a_slot_that_goes_or_begins_another_epoch_interrupts() {
    for (ownership, why) in
        [(Ownership::Foreign, Unreadable::LetGo), (Ownership::Owned, Unreadable::OtherEpoch)]
    {
        let mut writers = Writers::new(5);
        let (state, slot) = (writers.node.node.clone(), slot_of(b"{w}"));
        let mut source = Source::begin(&state.rooms, slot).expect("one reader");
        source.next(&state.rooms, SMALL, &mut Vec::new()).expect("a chunk");
        state.rooms.install(slot, ownership, Epoch(99));
        (0..5).for_each(|_| writers.write());
        let mut next = || source.next(&state.rooms, SMALL, &mut Vec::new());
        let end = std::iter::from_fn(|| Some(next())).find(Result::is_err);
        assert_eq!(end, Some(Err(Interrupted::Unreadable(why))));
    }
}

#[test]
fn a_chunk_of_another_slot_is_refused() {
    let mut writers = Writers::new(7);
    let Carried { frames, .. } = carry(&mut writers);
    let other = slot_of(b"{other}");
    let (rooms, stage) = (bare_rooms(), Stage::new(other));
    let chunk = frames.iter().find(|frame| frame[0] == 1).expect("a chunk");
    let head = Chunk::read(&chunk[1..]).expect("as it was made").head();
    assert_eq!(head.from, ScanPos::START);
    let got = Arrival::new(other).frame(chunk, &mut stage.enter(&rooms, 0));
    assert_eq!(got, Err(BadFrame::Mismatch(Mismatch::OtherSlot(head.slot))));
}
