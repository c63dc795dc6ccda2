//! What a round writes, and how it ends when it does not come to its end.
//!
//! Not deaths (`crashes`) nor bad files (`bad_input`). Invariant: one situation a test.

use slots::TableVersion;

use super::*;
use crate::stream::Snapshot;
use crate::stream::tests::{bare_rooms, dump};

/// Rooms with three slots of a few keys, one that was let go, one that is empty by now.
fn some_rooms() -> Rooms {
    let rooms = bare_rooms();
    for number in [3, 700, 16_383] {
        own(&rooms, slot(number), 7);
        (0..5).for_each(|key| set(&rooms, slot(number), &format!("key{key}"), "some text"));
    }
    own(&rooms, slot(20), 5);
    set(&rooms, slot(20), "key", "of another life");
    lose(&rooms, slot(20), 8);
    own(&rooms, slot(21), 5);
    set(&rooms, slot(21), "key", "gone");
    let Admit::Served(mut owned) = rooms.admit(slot(21), START_MS, Patience::Block) else {
        panic!("the slot is served");
    };
    owned.apply(Op::Delete { key: Key::new(b"key") });
    drop(owned);
    own(&rooms, slot(22), 5);
    rooms
}

/// Slot, keys, epoch, index, Alone mark.
fn listed(disk: &SimDisk) -> Vec<(u16, u64, u64, u64, u64)> {
    let checkpoint = Checkpoint::find(disk.clone(), ids(1)).expect("sound").expect("there");
    let entries = checkpoint.slots().iter();
    entries.map(|e| (e.slot.number(), e.keys, e.epoch.0, e.index.0, e.alone.0)).collect()
}

#[test]
fn all_slots_with_keys_or_a_past_are_in_it() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    let mut edge = Edge::still();
    edge.alone.insert(slot(700), TableVersion(6));
    edge.alone.insert(slot(9), TableVersion(4));
    let taken = take_by(SMALL, &rooms, &disk, about(0), &edge).expect("taken");
    assert_eq!((taken.number, taken.keys, taken.slots), (1, 15, 6));
    assert!(taken.parts > 1 && taken.longest_hold_ns == 1, "{taken:?}");
    let (with_keys, let_go, emptied) = ((5, 7, 5), (0, 8, 2), (0, 5, 2));
    let entry = |slot, (keys, epoch, index), alone| (slot, keys, epoch, index, alone);
    assert_eq!(
        listed(&disk),
        [
            entry(3, with_keys, 0),
            entry(9, (0, 0, 0), 4),
            entry(20, let_go, 0),
            entry(21, emptied, 0),
            entry(700, with_keys, 6),
            entry(16_383, with_keys, 0),
        ]
    );
    let other = bare_rooms();
    let loaded = load(&disk, &other).expect("loads").expect("there");
    assert_eq!((loaded.keys, loaded.groups), (15, 0));
    let alone = [(slot(9), TableVersion(4)), (slot(700), TableVersion(6))];
    assert_eq!(loaded.alone, alone.into());
    for number in [3, 9, 20, 21, 22, 700, 16_383] {
        let place = |rooms: &Rooms| rooms.read(slot(number)).index();
        assert_eq!(place(&other), place(&rooms), "slot {number}");
        assert_eq!(dump(&other, slot(number)), dump(&rooms, slot(number)), "slot {number}");
    }
    let length = |name: &String| disk.bytes(name).map_or(0, |bytes| bytes.len() as u64);
    let parts: u64 = disk.names().iter().filter(|name| *name != "manifest").map(length).sum();
    assert_eq!(taken.bytes, parts);
    assert!(disk.syncs() >= parts / 400, "{} syncs of {parts} bytes", disk.syncs());
}

#[test]
fn nothing_at_all_is_a_checkpoint_too() {
    let (rooms, disk) = (bare_rooms(), SimDisk::new(1));
    let taken = take(&rooms, &disk, about(8), &Edge::still()).expect("taken");
    assert_eq!((taken.number, taken.parts, taken.slots), (9, 0, 0));
    let checkpoint = Checkpoint::find(disk.clone(), ids(1)).expect("sound").expect("there");
    assert_eq!((checkpoint.number(), checkpoint.created_ms()), (9, START_MS));
    assert!(checkpoint.slots().is_empty());
    assert!(matches!(load(&SimDisk::new(2), &rooms), Ok(None)), "an empty folder has none");
}

#[test]
fn a_round_replaces_the_one_before() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
    set(&rooms, slot(3), "more", "keys");
    let taken = take(&rooms, &disk, about(0), &Edge::still()).expect("taken");
    assert_eq!((taken.number, taken.keys, taken.parts), (2, 16, 1));
    assert_eq!(disk.names(), ["manifest", "part.0000000002.00000"]);
}

/// A round that ends early leaves the old checkpoint and nothing else.
fn check_not_taken(disk: &SimDisk, before: &[String]) {
    assert_eq!(disk.names(), before);
    assert_eq!(listed(disk).len(), 5);
}

#[test]
fn a_round_that_is_given_up_leaves_nothing() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
    let before = disk.names();
    for chunks in 1..8 {
        let mut left = chunks;
        let edge = Edge::new(|_| {
            left -= 1;
            left > 0
        });
        let ended = take_by(SMALL, &rooms, &disk, about(1), &edge);
        assert_eq!(ended, Err(NotTaken::GivenUp));
        check_not_taken(&disk, &before);
    }
    // No reader stays behind.
    take_by(SMALL, &rooms, &disk, about(1), &Edge::still()).expect("taken");
}

#[test]
fn a_disk_that_is_full_at_any_call_leaves_the_old_one() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
    let (before, mut refused) = (disk.names(), 0);
    for call in 1.. {
        disk.full_at(call);
        match take_by(SMALL, &rooms, &disk, about(1), &Edge::still()) {
            Err(NotTaken::Disk(error)) => {
                assert!(!error.is_fatal() && error.reason.contains("no space"), "{error}");
                check_not_taken(&disk, &before);
                refused += 1;
            }
            taken => {
                assert!(taken.is_ok(), "{taken:?}");
                break;
            }
        }
    }
    assert!(refused > 20, "{refused}");
    disk.set_room(Some(0));
    assert!(take(&rooms, &disk, about(2), &Edge::still()).is_err());
    disk.set_room(None);
    take(&rooms, &disk, about(2), &Edge::still()).expect("there is room again");
}

#[test]
fn a_sync_that_failed_ends_the_node_and_nothing_is_touched() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
    disk.fail_syncs();
    let Err(NotTaken::Disk(error)) = take_by(SMALL, &rooms, &disk, about(1), &Edge::still()) else {
        panic!("the sync fails");
    };
    assert!(error.is_fatal(), "{error}");
    assert_eq!(listed(&disk).len(), 5);
}

#[test]
fn a_log_that_cannot_be_synced_gives_the_round_up() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
    let before = disk.names();
    let mut edge = Edge::still();
    let error = disk.rename("none", "other").expect_err("no such file");
    let of_the_log = error.clone();
    edge.sync = Box::new(move || Err(of_the_log.clone()));
    let ended = take_by(SMALL, &rooms, &disk, about(1), &edge);
    assert_eq!(ended, Err(NotTaken::Disk(error.clone())));
    check_not_taken(&disk, &before);
}

/// Takes a checkpoint while a slot with 20 keys changes hands between its chunks.
fn take_while(change: impl Fn(&Rooms, u64)) -> (Rooms, SimDisk, Result<Taken, NotTaken>) {
    let (rooms, disk, number) = (bare_rooms(), SimDisk::new(1), slot(40));
    own(&rooms, number, 1);
    (0..20).for_each(|key| set(&rooms, number, &format!("key{key}"), "of the first life"));
    let mut chunk = 0;
    let taken = take_by(
        SMALL,
        &rooms,
        &disk,
        about(0),
        &Edge::new(|_| {
            chunk += 1;
            change(&rooms, chunk);
            true
        }),
    );
    (rooms, disk, taken)
}

fn check_same(rooms: &Rooms, disk: &SimDisk, keys: u64) {
    let other = bare_rooms();
    let loaded = load(disk, &other).expect("loads").expect("there");
    assert_eq!(loaded.keys, keys);
    assert_eq!(dump(rooms, slot(40)), dump(&other, slot(40)));
    assert_eq!(place(&other, slot(40)), place(rooms, slot(40)));
}

#[test]
fn a_slot_that_comes_back_while_it_is_read_is_read_anew() {
    let (rooms, disk, taken) = take_while(|rooms, chunk| {
        if chunk == 5 {
            lose(rooms, slot(40), 2);
            own(rooms, slot(40), 3);
            (0..7).for_each(|key| set(rooms, slot(40), &format!("new{key}"), "of the second"));
        }
    });
    assert_eq!(taken.map(|taken| (taken.keys, taken.slots)), Ok((7, 1)));
    check_same(&rooms, &disk, 7);
}

#[test]
fn a_slot_that_goes_while_it_is_read_is_nothing_at_its_last_index() {
    let (rooms, disk, taken) = take_while(|rooms, chunk| {
        if chunk == 5 {
            lose(rooms, slot(40), 2);
        }
    });
    assert_eq!(taken.map(|taken| (taken.keys, taken.slots)), Ok((0, 1)));
    assert_eq!(listed(&disk), [(40, 0, 2, 21, 0)]);
    check_same(&rooms, &disk, 0);
}

#[test]
fn a_slot_that_changes_hands_for_ever_ends_the_round() {
    let (_, disk, taken) = take_while(|rooms, chunk| own(rooms, slot(40), 1 + chunk));
    assert_eq!(taken, Err(NotTaken::Restless(slot(40))));
    assert_eq!(disk.names(), [""; 0]);
}

#[test]
fn writes_at_full_rate_make_no_slot_begin_anew() {
    let chunks = std::cell::Cell::new(0);
    let (rooms, disk, taken) = take_while(|rooms, chunk| {
        chunks.set(chunk);
        for key in 0..10 {
            set(rooms, slot(40), &format!("key{key}"), &format!("{chunk}"));
            set(rooms, slot(40), &format!("more{key} of {chunk}"), "text");
        }
    });
    let taken = taken.expect("taken");
    assert!(chunks.get() < 2_000, "{} chunks", chunks.get());
    let keys = dump(&rooms, slot(40)).len() as u64;
    assert!(taken.keys > 20 && taken.keys <= keys, "{taken:?} of {keys}");
    // Its parts stand at different indexes: without the log it is not whole.
    let error = load(&disk, &bare_rooms()).expect_err("the log is missing");
    assert!(error.to_string().contains("the write-ahead log ends at"), "{error}");
}

#[test]
fn too_many_readers_end_the_round() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    let begin = || Snapshot::begin(&rooms, slot(700)).ok();
    let _all: Vec<Snapshot<'_>> = std::iter::from_fn(begin).collect();
    let ended = take(&rooms, &disk, about(0), &Edge::still());
    assert_eq!(ended, Err(NotTaken::TooManyReaders(slot(700))));
}

#[test]
fn leftovers_go_and_nothing_else() {
    let (rooms, disk) = (some_rooms(), SimDisk::new(1));
    let taken = take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
    let before = disk.names();
    for name in ["part.0000000002.00000", "part.0000000009.00123", "manifest.tmp"] {
        disk.put(name, b"left");
    }
    disk.put("part.1.0", b"somebody's");
    remove_leftovers(&disk, Some(taken.number)).expect("removed");
    assert_eq!(disk.names().len(), before.len() + 1);
    // The number of a round that died is not used again.
    disk.put("part.0000000012.00000", b"left");
    let taken = take(&rooms, &disk, about(1), &Edge::still()).expect("taken");
    assert_eq!(taken.number, 13);
    assert_eq!(disk.names(), ["manifest", "part.0000000013.00000", "part.1.0"]);
}
