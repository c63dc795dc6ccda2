//! The single rules of the loader.
//!
//! Not the bytes of checkpoint and log. Invariant: one rule a test.

use slots::{Epoch, OpIndex, TableVersion};

use super::*;
use crate::persist::checkpoint::take;
use crate::persist::checkpoint::tests::{Edge, about, lose, own, set, slot};
use crate::persist::log::LogError;
use crate::slot::{Key, Op};
use crate::store::table::Expiry;
use crate::stream::put_op;
use crate::stream::tests::{bare_rooms, dump};

/// A log to which the test appends as it likes.
pub(super) struct Bench {
    disks: Disks,
    keeper: Keeper<SimDisk>,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let disks = Disks::new(3);
        let started = start(&disks, &bare_rooms(), (Trust::ProcessDied, 1), |_| {});
        let Started { mut keeper, .. } = started.expect("an empty folder");
        keeper.tend().expect("there is room");
        Bench { disks, keeper }
    }

    pub(super) fn append(
        &mut self,
        kind: Kind,
        slot_number: u16,
        (epoch, index): (u64, u64),
        bytes: &[u8],
    ) {
        let (epoch, index) = (Epoch(epoch), OpIndex(index));
        let entry = Entry { kind, slot: slot(slot_number), epoch, index };
        self.keeper.wal().append_entry(entry, bytes);
        self.keeper.tend().expect("there is room");
    }

    pub(super) fn set(&mut self, slot_number: u16, index: u64, key: &str) {
        let mut group = Vec::new();
        let key = Key::new(key.as_bytes());
        put_op(&Op::SetString { key, value: b"v", expiry: Expiry::Never }, &mut group);
        self.append(Kind::OpGroup, slot_number, (4, index), &group);
    }

    pub(super) fn checkpoint(&self) -> &SimDisk {
        &self.disks.checkpoint
    }

    pub(super) fn start(&self, rooms: &Rooms) -> Result<Started, LoadError> {
        start(&self.disks.after_death(None), rooms, (Trust::ProcessDied, 2), |_| {})
    }

    /// What a start says of a log that cannot be replayed.
    pub(super) fn refusal(&self) -> String {
        match self.start(&bare_rooms()) {
            Err(error @ LoadError::Log(LogError::Damaged(_))) => error.to_string(),
            Err(error) => panic!("another error: {error}"),
            Ok(_) => panic!("it was taken"),
        }
    }
}

#[test]
fn a_log_without_a_checkpoint_begins_at_the_first_group() {
    let mut bench = Bench::new();
    bench.set(5, 1, "a");
    bench.set(5, 2, "b");
    let rooms = bare_rooms();
    let started = bench.start(&rooms).expect("starts");
    assert_eq!((started.loaded.keys, started.loaded.groups), (2, 2));
    assert_eq!(rooms.read(slot(5)).index(), OpIndex(2));
}

#[test]
fn a_hole_in_a_slots_groups_is_refused_with_its_place() {
    for (indexes, reason) in [
        (&[2][..], "op group 2 of slot 5: op group 2 came, 1 is missing"),
        (&[1, 2, 4], "op group 4 came, 3 is missing"),
    ] {
        let mut bench = Bench::new();
        indexes.iter().for_each(|index| bench.set(5, *index, "a"));
        let refusal = bench.refusal();
        assert!(refusal.contains(reason), "{refusal}");
        assert!(refusal.contains("wal.0000000001 is damaged at offset"), "{refusal}");
    }
}

#[test]
fn a_kind_of_later_days_is_refused_with_its_place() {
    let of_later = [Kind::SafeMark, Kind::Cut];
    for kind in of_later {
        let mut bench = Bench::new();
        bench.set(5, 1, "a");
        bench.append(kind, 5, (4, 1), b"");
        let refusal = bench.refusal();
        assert!(refusal.contains(&format!("{kind:?}, which is not known")), "{refusal}");
        assert!(refusal.contains("wal.0000000001 is damaged at offset"), "{refusal}");
    }
    let mut bench = Bench::new();
    bench.append(Kind::OpGroup, 5, (4, 1), b"\xFFnonsense");
    assert!(bench.refusal().contains("broken bytes"));
    let mut bench = Bench::new();
    bench.append(Kind::Alone, 5, (4, 1), b"short");
    assert!(bench.refusal().contains("an Alone mark of no version"));
}

#[test]
fn the_newest_alone_mark_of_a_slot_counts() {
    let mut bench = Bench::new();
    for (number, version) in [(5, 3), (5, 9), (5, 7), (6, 2)] {
        let payload = alone_payload(TableVersion(version));
        bench.append(Kind::Alone, number, (4, 0), &payload);
    }
    let mut edge = Edge::still();
    edge.alone.insert(slot(6), TableVersion(8));
    edge.alone.insert(slot(7), TableVersion(1));
    take(&bare_rooms(), &bench.disks.checkpoint, about(0), &edge).expect("taken");
    let loaded = bench.start(&bare_rooms()).expect("starts").loaded;
    let want = [(5, 9), (6, 8), (7, 1)].map(|(n, version)| (slot(n), TableVersion(version)));
    assert_eq!(loaded.alone, want.into());
}

#[test]
fn the_start_of_an_epoch_is_the_contents_epoch() {
    let mut bench = Bench::new();
    bench.set(5, 1, "a");
    bench.append(Kind::EpochStart, 5, (9, 1), b"");
    let rooms = bare_rooms();
    bench.start(&rooms).expect("starts");
    assert_eq!(rooms.read(slot(5)).epoch(), Epoch(9));
    assert_eq!(rooms.read(slot(5)).index(), OpIndex(1));
}

/// The log of a slot that left and came back holds two lives, and keeps them apart.
#[test]
fn a_slot_that_left_and_came_back_has_its_last_life_only() {
    for checkpoint_after in [None, Some(0), Some(1), Some(2), Some(3)] {
        let mut bench = Bench::new();
        let (rooms, number) = (bare_rooms(), slot(5));
        rooms.set_journal(ToLog::new(bench.keeper.wal()), put_op);
        for life in 0..4_u64 {
            match life {
                0 | 2 => own(&rooms, number, 1 + life),
                _ => lose(&rooms, number, 1 + life),
            }
            if life % 2 == 0 {
                for key in 0..3 {
                    set(&rooms, number, &format!("key{}", key + life), &format!("in life {life}"));
                }
            }
            if checkpoint_after == Some(life) {
                let floors: Vec<u64> =
                    (0..LANES).map(|lane| bench.keeper.wal().tail(lane)).collect();
                let wal = Arc::clone(bench.keeper.wal());
                let mut edge = Edge::still();
                edge.sync = Box::new(move || wal.sync_round().map(drop));
                take(&rooms, &bench.disks.checkpoint, about(0), &edge).expect("taken");
                bench.keeper.drop_before(&floors).expect("dropped");
            }
            bench.keeper.tend().expect("there is room");
            let found = bare_rooms();
            bench.start(&found).expect("starts");
            assert_eq!(dump(&found, number), dump(&rooms, number), "life {life}");
            let index = [3, 4, 7, 8][life as usize];
            assert_eq!(found.read(number).index(), OpIndex(index), "life {life}");
            assert_eq!(found.read(number).epoch(), Epoch(1 + life), "life {life}");
        }
    }
}

#[test]
fn groups_that_a_checkpoint_holds_are_passed_over() {
    let mut bench = Bench::new();
    let (rooms, number) = (bare_rooms(), slot(5));
    rooms.set_journal(ToLog::new(bench.keeper.wal()), put_op);
    own(&rooms, number, 1);
    (0..4).for_each(|key| set(&rooms, number, &format!("key{key}"), "old"));
    own(&rooms, number, 6);
    take(&rooms, &bench.disks.checkpoint, about(0), &Edge::still()).expect("taken");
    let found = bare_rooms();
    let loaded = bench.start(&found).expect("starts").loaded;
    assert_eq!((loaded.keys, loaded.groups), (4, 0), "the log has all of them, and is not needed");
    assert_eq!(found.read(number).epoch(), Epoch(6), "not that of an older group");
    set(&rooms, number, "key9", "new");
    bench.keeper.tend().expect("there is room");
    let found = bare_rooms();
    let loaded = bench.start(&found).expect("starts").loaded;
    assert_eq!((loaded.keys, loaded.groups), (5, 1));
    assert_eq!(dump(&found, number), dump(&rooms, number));
}
