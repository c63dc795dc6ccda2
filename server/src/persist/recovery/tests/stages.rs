//! Copies on their way in, as a start finds them: the single rules.
//!
//! Not the deaths (`stage_walks`). Invariant: one rule a test.

use slots::{Epoch, OpIndex, TableVersion};

use super::rules::Bench;
use super::*;
use crate::persist::checkpoint::tests::{Edge, about, set, slot};
use crate::persist::checkpoint::{floors, take};
use crate::slot::stages::tests::{group, section};
use crate::slot::{Ownership, StageFate};
use crate::stream::tests::{bare_rooms, dump};
use crate::stream::{Arrival, put_op};

const SLOT: u16 = 5;

/// A node that dies and starts again.
struct Life {
    disks: Disks,
    keeper: Keeper<SimDisk>,
    rooms: Rooms,
    loaded: Loaded,
    number: u64,
}

impl Life {
    fn new() -> Life {
        Life::start(Disks::new(5))
    }

    fn try_start(disks: Disks) -> Result<Life, LoadError> {
        let rooms = bare_rooms();
        let started = super::start(&disks, &rooms, (Trust::ProcessDied, 1), |_| {})?;
        let Started { mut keeper, loaded, number } = started;
        keeper.tend().expect("there is room");
        rooms.set_journal(ToLog::new(keeper.wal()), put_op);
        Ok(Life { disks, keeper, rooms, loaded, number })
    }

    fn start(disks: Disks) -> Life {
        Life::try_start(disks).unwrap_or_else(|error| panic!("{error}"))
    }

    fn again(mut self) -> Life {
        self.tend();
        Life::start(self.disks.after_death(None))
    }

    fn tend(&mut self) {
        self.keeper.tend().expect("there is room");
    }

    fn install(&mut self, ownership: Ownership, epoch: u64, fate: StageFate) {
        let is_new = self.rooms.ownership(slot(SLOT)).0 == Ownership::Foreign;
        let since = TableVersion(if is_new { epoch } else { 0 });
        let epoch = Epoch(epoch);
        self.rooms.install_since(slot(SLOT), ownership, epoch, since, fate);
        self.tend();
    }

    fn own(&mut self, epoch: u64) {
        self.install(Ownership::Owned, epoch, StageFate::Adopt);
    }

    fn lose(&mut self, epoch: u64) {
        self.install(Ownership::Foreign, epoch, StageFate::Drop);
    }

    fn set(&mut self, keys: &[&str]) {
        for key in keys {
            set(&self.rooms, slot(SLOT), key, "value");
            self.tend();
        }
    }

    /// So many frames of a section; all of them make a stage whole.
    fn stage(&mut self, keys: &[&str], place: (u64, u64), most: usize) {
        let frames = section_of(keys, place);
        let bringer = Box::new(Arrival::new(slot(SLOT)));
        let stage = self.rooms.begin_stage(slot(SLOT), Epoch(place.0), bringer).expect("not ours");
        for frame in frames.iter().take(most) {
            stage.frame(&self.rooms, frame, START_MS).expect("a frame");
            self.tend();
        }
    }

    fn stage_group(&mut self, place: (u64, u64), key: &str) {
        let stage = self.rooms.stage(slot(SLOT)).expect("it is there");
        let place = (Epoch(place.0), OpIndex(place.1));
        stage.group(&self.rooms, place, &group(key), START_MS).expect("the next group");
        self.tend();
    }

    /// A checkpoint, after which no file has gone yet; where the lanes may go to.
    fn round(&mut self) -> Vec<u64> {
        let (wal, floors) = (self.keeper.wal().clone(), floors(self.keeper.wal(), &self.rooms));
        let mut edge = Edge::still();
        edge.sync = Box::new(move || wal.sync_round().map(drop));
        edge.alone = SlotId::all().map(|slot| (slot, self.rooms.alone(slot))).collect();
        let taken = take(&self.rooms, &self.disks.checkpoint, about(self.number), &edge);
        self.number = taken.expect("taken").number;
        floors
    }

    fn checkpoint(&mut self) -> usize {
        let floors = self.round();
        let gone = self.keeper.drop_before(&floors).expect("dropped");
        self.tend();
        gone
    }

    /// Fills files: other slots of all lanes write.
    fn fill(&mut self) {
        for number in 20..23 {
            let (number, epoch) = (slot(number), Epoch(90));
            self.rooms.install(number, Ownership::Owned, epoch);
            for nth in 0..24 {
                set(&self.rooms, number, &format!("fill{nth}"), &"v".repeat(300));
                self.tend();
            }
        }
    }

    fn keys(&self) -> String {
        let names = dump(&self.rooms, slot(SLOT)).into_keys();
        let names: Vec<_> = names.map(|name| String::from_utf8(name).expect("text")).collect();
        names.join(" ")
    }

    fn place(&self) -> (u64, u64) {
        let reading = self.rooms.read(slot(SLOT));
        (reading.epoch().0, reading.index().0)
    }

    fn unadopted(&self) -> bool {
        let named = self.rooms.unadopted() == [slot(SLOT)];
        assert_eq!(self.loaded.unadopted.contains(&slot(SLOT)), named);
        named
    }
}

fn section_of(keys: &[&str], place: (u64, u64)) -> Vec<Vec<u8>> {
    section(slot(SLOT), keys, place)
}

#[test]
fn an_adopted_copy_is_the_content_and_the_log_goes_on() {
    let mut life = Life::new();
    life.lose(6);
    life.stage(&["a", "b", "e"], (7, 40), usize::MAX);
    life.stage_group((8, 41), "c");
    life.own(9);
    life.set(&["d"]);
    let want = dump(&life.rooms, slot(SLOT));
    let life = life.again();
    assert_eq!(dump(&life.rooms, slot(SLOT)), want);
    assert_eq!((life.keys(), life.place()), ("a b c d e".to_owned(), (9, 42)));
    assert_eq!(life.loaded.keys, 5);
    assert!(!life.unadopted());
    let totals = &life.rooms.totals;
    assert_eq!(totals.expiring.load(Relaxed), 1);
    assert_eq!(totals.bytes.load(Relaxed), life.rooms.read(slot(SLOT)).bytes() as i64);
}

#[test]
fn a_copy_that_nobody_adopted_is_named_until_the_node_has_a_seat() {
    for frames in [0, 1, usize::MAX] {
        let mut life = Life::new();
        life.lose(6);
        life.stage(&["a", "b"], (7, 40), frames);
        // Starts that come to nothing, one of them after a checkpoint.
        let mut life = life.again();
        assert!(life.unadopted(), "{frames}");
        assert_eq!((life.keys(), life.loaded.keys), (String::new(), 0));
        assert_eq!(life.rooms.stage_counts().keys, 0);
        life.fill();
        life.checkpoint();
        let mut life = life.again();
        assert!(life.unadopted(), "{frames}: it was forgotten before the table knew");
        life.lose(8);
        let mut life = life.again();
        assert!(!life.unadopted(), "{frames}");
        life.own(9);
        life.set(&["x"]);
        let life = life.again();
        assert_eq!((life.keys(), life.place()), ("x".to_owned(), (9, 1)));
    }
}

#[test]
fn a_copy_that_was_dropped_or_begun_anew_is_not_joined_to_what_follows() {
    let mut life = Life::new();
    life.lose(6);
    life.stage(&["a"], (7, 40), usize::MAX);
    life.rooms.drop_stage(slot(SLOT));
    life.stage(&["b"], (7, 50), 1);
    life.stage(&["c"], (7, 60), usize::MAX);
    life.install(Ownership::Owned, 9, StageFate::Drop);
    life.set(&["d"]);
    life.lose(10);
    life.stage(&["f"], (10, 2), usize::MAX);
    life.own(11);
    let life = life.again();
    assert!(!life.unadopted());
    assert_eq!((life.keys(), life.place()), ("f".to_owned(), (11, 2)));
}

/// The index goes back where a slot comes from a node that counted less far.
#[test]
fn a_checkpoint_after_the_adoption_is_not_overwritten_by_what_came_before() {
    for (is_later_epoch, files_go) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut life = Life::new();
        life.own(1);
        life.set(&["x1", "x2", "x3", "x4", "x5", "x6"]);
        life.lose(2);
        life.stage(&["a", "b"], (2, 3), usize::MAX);
        life.own(4);
        life.set(&["c"]);
        if is_later_epoch {
            life.own(6);
        }
        match files_go {
            true => drop(life.checkpoint()),
            false => drop(life.round()),
        }
        life.set(&["d"]);
        let mut life = life.again();
        assert_eq!((life.keys(), life.place().1), ("a b c d".to_owned(), 5));
        life.own(8);
        life.set(&["f"]);
        let life = life.again();
        assert_eq!((life.keys(), life.place().1), ("a b c d f".to_owned(), 6));
    }
}

#[test]
fn a_checkpoint_before_the_adoption_gives_way_to_it() {
    let mut life = Life::new();
    life.own(1);
    life.set(&["x1", "x2", "x3", "x4", "x5", "x6"]);
    life.checkpoint();
    life.lose(2);
    life.stage(&["a", "b"], (2, 3), usize::MAX);
    life.checkpoint();
    life.own(4);
    life.set(&["c"]);
    let life = life.again();
    assert_eq!((life.keys(), life.place()), ("a b c".to_owned(), (4, 4)));
    assert_eq!(life.loaded.keys, 3);
}

/// Epochs of another cluster say nothing of those of the first.
#[test]
fn a_node_that_joined_another_cluster_keeps_what_it_wrote_there() {
    for adopts in [false, true] {
        for checkpoint_after in 0..6 {
            let mut life = Life::new();
            life.own(50);
            life.set(&["x1", "x2", "x3", "x4"]);
            life.checkpoint();
            let mut step = 0;
            let mut happens = |life: &mut Life| {
                step += 1;
                if step == checkpoint_after {
                    life.checkpoint();
                }
            };
            life.install(Ownership::Unknown, 0, StageFate::Drop);
            life.lose(5);
            happens(&mut life);
            if adopts {
                life.own(6);
                life.set(&["y1", "y2"]);
                life.lose(7);
                happens(&mut life);
                life.stage(&["a"], (7, 2), usize::MAX);
                happens(&mut life);
            }
            life.own(8);
            happens(&mut life);
            life.set(&["b", "c"]);
            happens(&mut life);
            let (want, index) = (dump(&life.rooms, slot(SLOT)), life.place().1);
            let life = life.again();
            let name = format!("adopts {adopts}, checkpoint {checkpoint_after}");
            assert_eq!((dump(&life.rooms, slot(SLOT)), life.place().1), (want, index), "{name}");
            assert!((8..=50).contains(&life.place().0), "{name}: {:?}", life.place());
        }
    }
}

/// A log of an older version says nothing where epochs began anew.
#[test]
fn groups_of_lower_epochs_behind_a_checkpoint_are_taken_where_nothing_says_otherwise() {
    let mut bench = Bench::new();
    let rooms = bare_rooms();
    rooms.replay(slot(SLOT), 1).set_place(Epoch(50), OpIndex(2));
    take(&rooms, bench.checkpoint(), about(0), &Edge::still()).expect("taken");
    (1..6).for_each(|index| bench.set(SLOT, index, "a"));
    let found = bare_rooms();
    let loaded = bench.start(&found).expect("starts").loaded;
    assert_eq!((loaded.keys, loaded.groups), (1, 3));
    assert_eq!(found.read(slot(SLOT)).index(), OpIndex(5));
    bench.set(SLOT, 7, "a");
    let error = bench.start(&bare_rooms()).err().expect("6 is missing").to_string();
    assert!(error.contains("slot 5: the write-ahead log does not fit the checkpoint"), "{error}");
}

#[test]
fn files_with_an_open_copy_stay_and_go_with_it() {
    let mut life = Life::new();
    life.lose(6);
    life.fill();
    life.stage(&["a", "b"], (7, 40), usize::MAX);
    let before = life.checkpoint();
    assert!(before > 0, "what came before it goes");
    life.fill();
    assert_eq!(life.checkpoint(), 0, "its own files stay");
    life.stage_group((7, 41), "c");
    life.fill();
    life.checkpoint();
    let mut life = life.again();
    assert!(life.unadopted());
    life.lose(8);
    life.fill();
    assert!(life.checkpoint() > 0);
    assert!(!life.again().unadopted());
}

/// The begin of a copy may go while parts of it lie in a file that stays.
#[test]
fn parts_of_a_copy_that_has_ended_are_passed_over() {
    for adopts in [false, true] {
        let mut beheaded = 0;
        for padding in 0..40 {
            let mut life = Life::new();
            life.lose(6);
            for nth in 0..padding {
                life.set_in_lane(nth);
            }
            let long = format!("a{}", "k".repeat(400));
            life.stage(&[&long, "b", "c", "d"], (7, 40), usize::MAX);
            (41..47).for_each(|index| life.stage_group((7, index), &format!("g{index}")));
            match adopts {
                true => life.own(9),
                false => life.rooms.drop_stage(slot(SLOT)),
            }
            beheaded += usize::from(life.checkpoint() > 0);
            let (want, index) = (life.keys(), life.place().1);
            let life = life.again();
            assert!(!life.unadopted());
            assert_eq!((life.keys(), life.place().1), (want, index), "padding {padding}");
        }
        assert!(beheaded > 5, "{beheaded}");
    }
}

impl Life {
    /// A record in the lane of the slot.
    fn set_in_lane(&mut self, nth: u64) {
        let number = slot(SLOT + LANES);
        self.rooms.install(number, Ownership::Owned, Epoch(90));
        set(&self.rooms, number, &format!("key{nth}"), &"v".repeat(60));
        self.tend();
    }
}

#[test]
fn records_of_a_copy_that_do_not_follow_are_refused_with_their_place() {
    use Kind::*;
    let frames = section_of(&["a"], (7, 40));
    let (chunk, end) = (frames[0].as_slice(), frames[frames.len() - 1].as_slice());
    let whole: &[(Kind, (u64, u64), &[u8])] =
        &[(StageBegin, (7, 0), b""), (StageChunk, (7, 40), chunk), (StageComplete, (7, 40), end)];
    let (c, later) = (group("c"), group("d"));
    for (records, reason) in [
        (&[(StageGroup, (7, 40), &c[..])][..], "StageGroup: op group 40 came, 41 is next"),
        (&[(StageGroup, (7, 42), &c)], "op group 42 came, 41 is next"),
        (&[(StageGroup, (7, 41), b"\xFFnonsense")], "broken bytes"),
        (&[(OpGroup, (7, 41), &c)], "op group 41 of a slot that is on its way in"),
        (&[(StageChunk, (7, 40), chunk)], "StageChunk: a frame after the end of the section"),
        (&[(StageBegin, (7, 0), b""), (StageChunk, (7, 0), b"\x09x")], "unknown kind 9"),
        (&[(StageBegin, (7, 0), b""), (StageComplete, (7, 0), chunk)], "with another frame"),
        (&[(StageBegin, (7, 0), b""), (StageGroup, (7, 1), &c)], "before the end"),
        (&[(EpochStart, (9, 41), &[1])], "adopted at op group 41, it is at 40"),
        (&[(EpochStart, (9, 40), &[7])], "an epoch start that says [7]"),
        (&[(Drop, (7, 40), b""), (EpochStart, (9, 40), &[1])], "adopted, and is not there"),
        (
            &[(StageBegin, (7, 0), b""), (EpochStart, (9, 0), &[1])],
            "a copy that was adopted, and is not whole",
        ),
        (&[(EpochStart, (9, 40), &[1]), (OpGroup, (9, 42), &later)], "42 came, 41 is missing"),
    ] {
        let mut bench = Bench::new();
        let records = whole.iter().chain(records.iter());
        records.for_each(|(kind, place, bytes)| bench.append(*kind, SLOT, *place, bytes));
        let refusal = bench.refusal();
        assert!(refusal.contains(reason), "{refusal}, not {reason}");
        assert!(refusal.contains("wal.0000000001 is damaged at offset"), "{refusal}");
    }
}

#[test]
fn a_log_that_ends_within_a_copy_without_a_begin_is_refused() {
    let frames = section_of(&["a"], (7, 40));
    let mut bench = Bench::new();
    bench.append(Kind::StageChunk, SLOT, (7, 40), &frames[0]);
    let error = bench.start(&bare_rooms()).err().expect("refused").to_string();
    assert!(error.contains("slot 5: the write-ahead log ends within a copy"), "{error}");
    bench.append(Kind::Drop, SLOT, (7, 40), b"");
    assert!(bench.start(&bare_rooms()).is_ok(), "it has ended");
}

#[test]
fn alone_marks_outlive_the_log_they_were_written_to() {
    let mut life = Life::new();
    life.own(1);
    life.rooms.mark_alone(slot(SLOT), TableVersion(9));
    let mut life = life.again();
    assert_eq!(life.loaded.alone, [(slot(SLOT), TableVersion(9))].into());
    life.fill();
    assert!(life.checkpoint() > 0, "the record has gone");
    let life = life.again();
    assert_eq!(life.loaded.alone, [(slot(SLOT), TableVersion(9))].into());
    assert_eq!(life.rooms.alone(slot(SLOT)), TableVersion(9));
}
