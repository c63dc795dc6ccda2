//! What a chunk holds, and when a snapshot ends early.

use slots::{OpIndex, slot_of};

use super::*;
use crate::slot::{Admit, Key, Op, Ownership, Patience};
use crate::store::table::Expiry;
use crate::stream::chunk::Chunk;
use crate::stream::tests::{Event, Studio, bare_rooms};
use crate::stream::{Ops, Scratch};
use crate::testing::START_MS;

#[test]
fn chunks_are_bounded_and_a_big_collection_stands_alone() {
    let mut studio = Studio::new(&[]);
    for number in 0..400 {
        let (key, value) = (format!("{{w}}{number}"), vec![b'v'; number * 7 % 1_000]);
        studio.node.call(1, &[b"SET", key.as_bytes(), &value]);
    }
    for number in 0..3_000 {
        let field = format!("field:{number}");
        studio.node.call(1, &[b"HSET", b"{w}big", field.as_bytes(), b"value"]);
    }
    let state = studio.state();
    let budget = Budget { entries: 20, bytes: 30_000 };
    let mut snapshot = Snapshot::begin(&state.rooms, slot_of(b"{w}")).expect("a reader more");
    let (mut bytes, mut next, mut big) = (Vec::new(), ScanPos::START, 0);
    while let Some(head) = snapshot.next_chunk(budget, &mut bytes).expect("the slot stays") {
        assert_eq!((head.from, head.index), (next, OpIndex(3_400)));
        next = ScanPos(head.to.0 + 1);
        let chunk = Chunk::read(&bytes).expect("a chunk");
        chunk.check().expect("a whole chunk");
        let order = KeyOrder::local();
        let names = chunk.entries(&order).map(|entry| entry.expect("checked").key.to_vec());
        if names.into_iter().any(|name| name == b"{w}big") {
            big += 1;
            assert!(bytes.len() > 30_000 && chunk.len() == 1);
        } else {
            assert!(bytes.len() <= 30_000 && chunk.len() <= 20, "{} keys", chunk.len());
        }
        bytes.clear();
    }
    assert_eq!((big, next.0), (1, ScanPos::LAST.0 + 1));
}

#[test]
fn an_unread_snapshot_leaves_no_reader_behind() {
    let mut studio = Studio::new(&[]);
    let (state, slot) = (studio.state(), slot_of(b"{w}"));
    studio.node.call(1, &[b"SET", b"{w}1", b"a"]);
    let unread = Snapshot::begin(&state.rooms, slot).expect("a reader more");
    studio.node.call(1, &[b"RENAME", b"{w}1", b"{w}2"]);
    drop(unread);
    let mut read = Snapshot::begin(&state.rooms, slot).expect("a reader more");
    while studio.chunk(0, &mut read, Budget::default()) {}
    studio.node.call(1, &[b"RENAME", b"{w}2", b"{w}3"]);
    studio.collect();
    let renames = studio.events.iter().map(|event| match event {
        Event::Group(group, _) => {
            let mut ops = Ops::open(&group.bytes, Scratch::default()).expect("a group");
            matches!(ops.next(), Ok(Some(Op::Rename { .. })))
        }
        Event::Chunk(..) => false,
    });
    // An image while somebody reads; the chunk stands before all groups that were collected.
    assert!(renames.eq([false, false, false, true]));
}

#[test]
fn a_snapshot_is_of_one_life_of_the_slot() {
    let (rooms, slot) = (bare_rooms(), slot_of(b"{w}"));
    assert!(Snapshot::begin(&rooms, slot).is_ok(), "content that is not served yet");
    rooms.install(slot, Ownership::Foreign, Epoch(1));
    assert_eq!(Snapshot::begin(&rooms, slot).err(), Some(Unreadable::LetGo));
    rooms.install(slot, Ownership::Owned, Epoch(2));
    let Admit::Served(mut owned) = rooms.admit(slot, START_MS, Patience::Block) else {
        panic!("the slot is served");
    };
    let key = Key::new(b"{w}1");
    owned.apply(Op::SetString { key, value: b"v", expiry: Expiry::Never });
    drop(owned);
    let next = |snapshot: &mut Snapshot<'_>| {
        snapshot.next_chunk(Budget::default(), &mut Vec::new()).map(|head| head.map(|h| h.epoch))
    };
    let (mut one, mut two) = (
        Snapshot::begin(&rooms, slot).expect("a reader more"),
        Snapshot::begin(&rooms, slot).expect("a reader more"),
    );
    assert_eq!(next(&mut one), Ok(Some(Epoch(2))));
    assert_eq!(next(&mut one), Ok(None));
    rooms.install(slot, Ownership::Foreign, Epoch(3));
    assert_eq!(next(&mut two), Err(Unreadable::LetGo));
    rooms.install(slot, Ownership::Owned, Epoch(4));
    assert_eq!(next(&mut two), Err(Unreadable::OtherEpoch));
}

#[test]
fn readers_of_a_slot_are_counted() {
    let rooms = bare_rooms();
    let slot = SlotId::FIRST;
    let begin = || Snapshot::begin(&rooms, slot);
    let mut all: Vec<Snapshot<'_>> = std::iter::from_fn(|| begin().ok()).collect();
    assert_eq!(all.len(), usize::from(crate::slot::reading::READERS_PER_SLOT_MAX));
    assert_eq!(begin().err(), Some(Unreadable::TooManyReaders));
    all.pop();
    assert!(begin().is_ok());
}
