//! Stages at work: filled from a section, adopted, dropped, and what the journal has of it.
//!
//! Not what a start makes of the records (`persist/recovery`). Invariant: pure.

use std::sync::atomic::Ordering;

use slots::TableVersion;

use super::*;
use crate::slot::room::Chores;
use crate::slot::{Admit, Journal, Key, Op, Patience};
use crate::store::object::Object;
use crate::store::table::{Expiry, Table};
use crate::stream::tests::{bare_rooms, dump};
use crate::stream::{Arrival, Budget, Piece, Source, put_op};

const SLOT: SlotId = SlotId::FIRST;
const NOW_MS: u64 = 1_000;

type Record = (Step, Epoch, OpIndex, Vec<u8>);

/// Keeps all; a record's place is how many there are with it.
#[derive(Default)]
struct Noted(Mutex<Vec<Record>>);

impl Noted {
    fn put(&self, record: Record) -> Position {
        let mut records = self.0.lock();
        records.push(record);
        Position { lane: 3, at: records.len() as u64 }
    }

    fn steps(&self) -> Vec<(Step, u64, u64)> {
        let records = std::mem::take(&mut *self.0.lock());
        records.into_iter().map(|(step, epoch, index, _)| (step, epoch.0, index.0)).collect()
    }
}

impl Journal for Noted {
    fn append(&self, _: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.put((GROUP, epoch, index, group.to_vec()))
    }
    fn leave(&self, _: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.put((LEFT, epoch, index, group.to_vec()))
    }
    fn step(&self, step: Step, _: SlotId, place: (Epoch, OpIndex), payload: &[u8]) -> Position {
        self.put((step, place.0, place.1, payload.to_vec()))
    }
    fn lane(&self, _: SlotId) -> u16 {
        3
    }
}

/// Stand for the groups of the room.
const GROUP: Step = Step::Alone(TableVersion(1));
const LEFT: Step = Step::Alone(TableVersion(2));

/// Notes what is due.
#[derive(Default)]
struct Due(Arc<Mutex<Vec<u64>>>);

impl Chores for Due {
    fn expiry_due(&self, _: SlotId, at_ms: u64) {
        self.0.lock().push(at_ms);
    }
    fn free(&self, _: Box<Object>) {}
    fn free_table(&self, _: Table<Object>) {}
}

struct Bench {
    rooms: Rooms,
    journal: Arc<Noted>,
    due: Arc<Mutex<Vec<u64>>>,
}

impl Bench {
    fn new() -> Bench {
        let (due, journal) = (Due::default(), Arc::<Noted>::default());
        let noted = due.0.clone();
        let rooms = Rooms::new(Box::new(due));
        rooms.set_journal(journal.clone(), put_op);
        Bench { rooms, journal, due: noted }
    }

    fn begin(&self) -> Arc<StagedCopy> {
        let begun = self.rooms.begin_stage(SLOT, Epoch(7), Box::new(Arrival::new(SLOT)));
        begun.expect("nobody serves it")
    }

    /// A whole stage at (7, 40) with these keys.
    fn whole(&self, keys: &[&str]) -> Arc<StagedCopy> {
        let stage = self.begin();
        for frame in section(SLOT, keys, (7, 40)) {
            stage.frame(&self.rooms, &frame, NOW_MS).expect("a frame");
        }
        assert!(stage.is_whole());
        stage
    }

    fn install(&self, ownership: Ownership, epoch: u64, fate: StageFate) {
        // Of ours it says since when the slot is ours.
        let is_new = self.rooms.ownership(SLOT).0 == Ownership::Foreign;
        let since = TableVersion(if is_new { epoch } else { 0 });
        self.rooms.install_since(SLOT, ownership, Epoch(epoch), since, fate);
    }

    fn place(&self) -> (u64, u64) {
        let reading = self.rooms.read(SLOT);
        (reading.epoch().0, reading.index().0)
    }

    fn keys(&self) -> Vec<String> {
        let names = dump(&self.rooms, SLOT).into_keys();
        names.map(|name| String::from_utf8(name).expect("text")).collect()
    }

    fn set(&self, key: &str) {
        let Admit::Served(mut owned) = self.rooms.admit(SLOT, NOW_MS, Patience::Block) else {
            panic!("it is served")
        };
        let key = Key::new(key.as_bytes());
        owned.apply(Op::SetString { key, value: b"v", expiry: Expiry::Never });
    }

    /// The sums are those of the room, and nothing is left of stages.
    fn check(&self) {
        let (keys, bytes) = {
            let reading = self.rooms.read(SLOT);
            (reading.len() as i64, reading.bytes() as i64)
        };
        let totals = &self.rooms.totals;
        assert_eq!(totals.keys.load(Ordering::Relaxed), keys);
        assert_eq!(totals.bytes.load(Ordering::Relaxed), bytes);
        let expiring = dump(&self.rooms, SLOT).keys().filter(|key| key[0] == b'e').count();
        assert_eq!(totals.expiring.load(Ordering::Relaxed), expiring as i64);
        assert_eq!(self.rooms.looks_empty(SLOT), keys == 0);
        assert_eq!(self.rooms.stage_counts(), StageCounts::default());
        assert!(self.rooms.stage_begins().is_empty() && self.rooms.staged_slots().is_empty());
    }
}

/// The frames of a slot with these keys; those that begin with `e` expire at 5,000, one of `b`
/// is a big one.
pub(crate) fn section(slot: SlotId, keys: &[&str], place: (u64, u64)) -> Vec<Vec<u8>> {
    let origin = bare_rooms();
    let mut room = origin.replay(slot, NOW_MS);
    for key in keys {
        let expiry = if key.starts_with('e') { Expiry::At(5_000) } else { Expiry::Never };
        let value = vec![b'v'; if key.starts_with('b') { 100_000 } else { 9 }];
        room.apply(Op::SetString { key: Key::new(key.as_bytes()), value: &value, expiry });
    }
    room.set_place(Epoch(place.0), OpIndex(place.1));
    drop(room);
    let mut source = Source::begin(&origin, slot).expect("one reader");
    let mut frames = Vec::new();
    loop {
        let mut frame = vec![0];
        let budget = Budget { entries: 1, bytes: 100 };
        let piece = source.next(&origin, budget, &mut frame).expect("the slot stays");
        frame[0] = piece.kind();
        frames.push(frame);
        if matches!(piece, Piece::End(_)) {
            return frames;
        }
    }
}

pub(crate) fn group(key: &str) -> Vec<u8> {
    let mut group = Vec::new();
    let key = Key::new(key.as_bytes());
    put_op(&Op::SetString { key, value: b"later", expiry: Expiry::Never }, &mut group);
    group
}

#[test]
fn a_whole_stage_becomes_the_room_and_the_stream_goes_on_there() {
    let bench = Bench::new();
    bench.install(Ownership::Foreign, 6, StageFate::Drop);
    let stage = bench.whole(&["a", "b", "e"]);
    let at = stage.group(&bench.rooms, (Epoch(8), OpIndex(41)), &group("c"), NOW_MS);
    let at = at.expect("the next one").expect("there is a log").at;
    assert_eq!(at, bench.journal.0.lock().len() as u64);
    assert_eq!((stage.place(), stage.keys()), ((Epoch(8), OpIndex(41)), 4));
    assert_eq!((bench.keys(), bench.rooms.stage_counts().keys), (Vec::new(), 4));
    assert!(bench.rooms.looks_empty(SLOT) && bench.due.lock().is_empty());
    assert_eq!(bench.rooms.totals.keys.load(Ordering::Relaxed), 0);
    let steps = bench.journal.steps();
    assert_eq!(steps[0], (Step::StageBegin, 7, 0));
    assert!(steps[1..steps.len() - 2].iter().all(|step| step.0 == Step::StageChunk));
    assert_eq!(steps[steps.len() - 2..], [(Step::StageComplete, 7, 40), (Step::StageGroup, 8, 41)]);
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    assert_eq!((bench.keys().join(""), bench.place()), ("abce".to_owned(), (9, 41)));
    assert_eq!(*bench.due.lock(), [5_000]);
    bench.check();
    assert_eq!(bench.rooms.read(SLOT).position().map(|position| position.at), Some(1));
    bench.set("d");
    assert_eq!(bench.journal.steps(), [(Step::Adopted, 9, 41), (GROUP, 9, 42)]);
    assert!(!stage.is_whole());
    bench.check();
}

#[test]
fn every_frame_and_group_says_where_its_own_record_lies() {
    let bench = Bench::new();
    let stage = bench.begin();
    for frame in section(SLOT, &["a", "b"], (7, 40)) {
        let at = stage.frame(&bench.rooms, &frame, NOW_MS).expect("a frame").expect("a log");
        let records = bench.journal.0.lock();
        let own = records.iter().position(|record| record.3 == frame).expect("it was journaled");
        assert_eq!((at.lane, at.at), (3, own as u64 + 1));
    }
}

#[test]
fn what_stood_in_the_room_is_let_go() {
    let bench = Bench::new();
    bench.rooms.replay(SLOT, 1).set_place(Epoch(3), OpIndex(90));
    let key = Key::new(b"e");
    bench.rooms.replay(SLOT, 1).apply(Op::SetString { key, value: b"old", expiry: Expiry::At(9) });
    bench.whole(&["b"]);
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    assert_eq!((bench.keys().join(""), bench.place()), ("b".to_owned(), (9, 40)));
    bench.check();
    assert_eq!(bench.rooms.read(SLOT).index(), OpIndex(40), "the stage's, though it was further");
}

#[test]
fn a_busy_room_adopts_as_it_is_left_and_once() {
    let bench = Bench::new();
    bench.whole(&["a"]);
    let inside = bench.rooms.read(SLOT);
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    // A seal, another epoch of ours, no seat for a moment: none takes it back.
    bench.install(Ownership::Sealed, 9, StageFate::Drop);
    bench.install(Ownership::Unknown, 9, StageFate::Drop);
    bench.install(Ownership::Owned, 10, StageFate::Drop);
    assert!(inside.is_empty() && bench.rooms.stage(SLOT).is_some());
    bench.journal.steps();
    drop(inside);
    assert_eq!(bench.journal.steps(), [(Step::Adopted, 10, 40)]);
    bench.rooms.settle();
    bench.install(Ownership::Owned, 11, StageFate::Adopt);
    assert_eq!((bench.keys(), bench.place()), (vec!["a".to_owned()], (11, 40)));
    assert_eq!(bench.journal.steps(), []);
    bench.check();
}

#[test]
fn who_finds_the_note_first_finds_the_content() {
    let bench = Bench::new();
    bench.whole(&["a"]);
    // A look that does not meet notes is under way while the word changes.
    let look = bench.rooms.room(SLOT).door.enter();
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    drop(look);
    let Admit::Served(owned) = bench.rooms.admit(SLOT, NOW_MS, Patience::Spin) else {
        panic!("it is ours")
    };
    assert_eq!((owned.keys().len(), owned.keys_unreported()), (1, 0));
    drop(owned);
    bench.check();
}

#[test]
fn a_stage_whose_slot_was_anothers_in_between_is_not_adopted() {
    let bench = Bench::new();
    bench.whole(&["a"]);
    let inside = bench.rooms.read(SLOT);
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    bench.install(Ownership::Foreign, 10, StageFate::Drop);
    bench.install(Ownership::Owned, 11, StageFate::Adopt);
    drop(inside);
    assert_eq!((bench.keys(), bench.place().0), (Vec::new(), 11));
    bench.check();
}

#[test]
fn a_stage_that_is_not_to_be_adopted_or_not_whole_goes() {
    for (is_whole, fate) in [(true, StageFate::Drop), (false, StageFate::Adopt)] {
        let bench = Bench::new();
        let stage = if is_whole { bench.whole(&["a"]) } else { bench.begin() };
        bench.journal.steps();
        bench.install(Ownership::Owned, 9, fate);
        let index = if is_whole { 40 } else { 0 };
        assert_eq!(bench.journal.steps(), [(Step::StageDrop, 7, index)]);
        assert_eq!((bench.keys(), bench.place(), stage.keys()), (Vec::new(), (9, 0), 0));
        let refused = stage.frame(&bench.rooms, b"any", NOW_MS);
        assert!(matches!(refused, Err(StageRefused::Ended)), "{refused:?}");
        let begun = bench.rooms.begin_stage(SLOT, Epoch(9), Box::new(Arrival::new(SLOT)));
        assert!(matches!(begun, Err(StageRefused::Served)));
        assert_eq!(bench.journal.steps(), []);
        bench.check();
    }
}

#[test]
fn groups_come_one_by_one_and_none_of_an_older_epoch() {
    let bench = Bench::new();
    let stage = bench.begin();
    let give = |epoch, index, bytes: &[u8]| {
        let given = stage.group(&bench.rooms, (Epoch(epoch), OpIndex(index)), bytes, NOW_MS);
        given.map(|_| ()).map_err(|refused| refused.to_string())
    };
    let early = give(7, 41, &group("c"));
    assert_eq!(early, Err("an op group before the end of the section".to_owned()));
    let frames = section(SLOT, &["a"], (7, 40));
    for frame in &frames {
        stage.frame(&bench.rooms, frame, NOW_MS).expect("a frame");
    }
    let late = stage.frame(&bench.rooms, &frames[0], NOW_MS);
    assert!(matches!(late, Err(StageRefused::Whole)));
    assert_eq!(give(7, 42, &group("c")), Err("op group 42 came, 41 is next".to_owned()));
    assert_eq!(give(7, 40, &group("c")), Err("op group 40 came, 41 is next".to_owned()));
    let old = give(6, 41, &group("c"));
    assert_eq!(old, Err("an op group of epoch 6, the last was of 7".to_owned()));
    assert_eq!(stage.place(), (Epoch(7), OpIndex(40)));
    bench.journal.steps();
    assert_eq!(give(7, 41, &group("c")), Ok(()));
    assert!(give(7, 42, b"\xFFnonsense").is_err());
    assert_eq!(give(7, 42, &group("d")), Err("the stage has ended".to_owned()));
    assert_eq!(bench.journal.steps(), [(Step::StageGroup, 7, 41)], "what is bad is not logged");
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    assert!(bench.keys().is_empty(), "half of a group may be in it");
}

#[test]
fn a_slot_without_keys_is_a_stage_too() {
    let bench = Bench::new();
    let stage = bench.whole(&[]);
    stage.group(&bench.rooms, (Epoch(7), OpIndex(41)), &group("c"), NOW_MS).expect("the next");
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    assert_eq!((bench.keys(), bench.place()), (vec!["c".to_owned()], (9, 41)));
    bench.check();
}

#[test]
fn a_stage_ends_once_and_another_takes_its_place() {
    let bench = Bench::new();
    let old = bench.whole(&["a"]);
    let new = bench.begin();
    bench.journal.steps();
    assert!(old.group(&bench.rooms, (Epoch(7), OpIndex(41)), &group("c"), NOW_MS).is_err());
    bench.rooms.drop_stage(SLOT);
    bench.rooms.drop_stage(SLOT);
    assert!(new.frame(&bench.rooms, &section(SLOT, &[], (7, 1))[0], NOW_MS).is_err());
    assert_eq!(bench.journal.steps(), [(Step::StageDrop, 7, 0)]);
    let adopted = bench.whole(&["a"]);
    bench.install(Ownership::Owned, 9, StageFate::Adopt);
    bench.journal.steps();
    adopted.end(&bench.rooms);
    assert_eq!(bench.journal.steps(), [], "the content is the room's");
    assert_eq!(bench.keys(), ["a"]);
    bench.check();
}

#[test]
fn stages_are_counted_and_say_where_they_began() {
    let bench = Bench::new();
    let stage = bench.whole(&["a", "b"]);
    let counts = bench.rooms.stage_counts();
    assert_eq!((counts.stages, counts.keys, counts.bytes), (1, 2, stage.bytes()));
    assert!(counts.bytes > 100_000);
    assert_eq!(bench.rooms.stage_begins(), [(SLOT, 1)]);
    assert_eq!(bench.rooms.staged_slots(), [SLOT]);
    bench.rooms.drop_stage(SLOT);
    bench.check();
}

#[test]
fn a_stage_from_before_the_log_is_not_made_the_room_of_a_logged_slot() {
    let rooms = bare_rooms();
    let begun = rooms.begin_stage(SLOT, Epoch(7), Box::new(Arrival::new(SLOT)));
    let stage = begun.expect("nobody serves it");
    for frame in section(SLOT, &["a"], (7, 40)) {
        assert_eq!(stage.frame(&rooms, &frame, NOW_MS).expect("a frame"), None);
    }
    assert_eq!(rooms.stage_begins(), []);
    let journal = Arc::<Noted>::default();
    rooms.set_journal(journal.clone(), put_op);
    rooms.drop_unlogged_stages();
    assert!(rooms.stage(SLOT).is_none() && !stage.is_whole());
    assert_eq!(journal.steps(), []);
}

#[test]
fn what_a_start_left_of_a_stage_goes_once_the_node_has_a_seat() {
    for ownership in [Ownership::Foreign, Ownership::Unassigned, Ownership::Owned] {
        let bench = Bench::new();
        bench.rooms.leave_remains(SLOT, Epoch(7), 90);
        bench.install(Ownership::Unknown, 8, StageFate::Drop);
        assert_eq!((bench.rooms.unadopted(), bench.journal.steps()), (vec![SLOT], Vec::new()));
        assert!(bench.rooms.stage(SLOT).is_none());
        assert_eq!(bench.rooms.stage_begins(), [(SLOT, 90)]);
        bench.install(ownership, 9, StageFate::Adopt);
        assert_eq!(bench.rooms.unadopted(), []);
        assert_eq!(bench.journal.steps(), [(Step::StageDrop, 7, 0)]);
        bench.check();
    }
}

#[test]
fn epochs_that_begin_anew_are_said_and_end_a_stage() {
    let bench = Bench::new();
    bench.rooms.replay(SLOT, 1).set_place(Epoch(50), OpIndex(6));
    bench.whole(&["a"]);
    bench.journal.steps();
    bench.install(Ownership::Foreign, 5, StageFate::Drop);
    assert_eq!(bench.journal.steps(), [(Step::StageDrop, 7, 40), (Step::Anew, 5, 6)]);
    bench.install(Ownership::Foreign, 6, StageFate::Drop);
    assert_eq!(bench.journal.steps(), []);
}

#[test]
fn the_newest_alone_mark_is_kept() {
    let bench = Bench::new();
    for version in [3, 9, 7] {
        let at = bench.rooms.mark_alone(SLOT, TableVersion(version)).expect("there is a log");
        assert_eq!(at.at, bench.journal.0.lock().len() as u64);
    }
    assert_eq!(bench.rooms.alone(SLOT), TableVersion(9));
    assert_eq!(bench.journal.steps().len(), 3);
}

#[test]
fn a_group_that_was_taken_is_in_the_room_whoever_comes_meanwhile() {
    for _ in 0..100 {
        let bench = Bench::new();
        let stage = bench.whole(&["a"]);
        let last = std::thread::scope(|scope| {
            let fill = scope.spawn(|| {
                let mut last = 40;
                loop {
                    let place = (Epoch(7), OpIndex(last + 1));
                    match stage.group(&bench.rooms, place, &group("c"), NOW_MS) {
                        Ok(_) => last += 1,
                        Err(StageRefused::Ended) => return last,
                        Err(refused) => panic!("{refused}"),
                    }
                }
            });
            while stage.place().1 < OpIndex(44) {
                std::hint::spin_loop();
            }
            bench.install(Ownership::Owned, 9, StageFate::Adopt);
            assert!(bench.keys().contains(&"c".to_owned()), "nobody finds the room without it");
            fill.join().expect("it ends")
        });
        assert_eq!(bench.place(), (9, last));
        assert_eq!(bench.journal.steps().last(), Some(&(Step::Adopted, 9, last)));
        bench.check();
    }
}
