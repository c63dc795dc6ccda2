//! Tables and entries as stored bytes.

use crate::kit::{A, B, C, World, ranges, slot};
use slots::{Kept, SlotTable, TableChange};

fn bytes(value: &impl serde::Serialize) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, bincode::config::standard()).expect("encodes")
}

fn table(bytes: &[u8]) -> Result<SlotTable, String> {
    bincode::serde::decode_from_slice(bytes, bincode::config::standard())
        .map(|(table, _)| table)
        .map_err(|error| error.to_string())
}

#[test]
fn a_table_comes_back_from_its_bytes() {
    let mut world = World::with_followers(&[B, C]);
    world.accept(A, TableChange::RemoveNode { node: crate::kit::D });
    world.start(A, Kept::Tail);
    let stored = bytes(&world.table);
    let mut back = World { table: table(&stored).expect("a table") };
    assert!(back.table == world.table);
    assert_eq!(bytes(&back.table), stored);
    // And it goes on as the first does.
    for world in [&mut world, &mut back] {
        let change = world.promote(C);
        world.apply(C, change);
    }
    assert!(back.table == world.table);
    assert!(bytes(&SlotTable::new()).len() < 24, "an empty table is one run");
}

#[test]
fn the_largest_table_stays_small() {
    let mut world = World::new();
    // Every slot by an entry of its own: no two rows are equal.
    for n in 0..slots::SLOTS as u16 {
        let seen = world.seen();
        let slots = ranges(&n.to_string());
        world.accept(A, TableChange::AssignSlots { slots, to: A, seen });
    }
    let size = bytes(&world.table).len();
    assert!(size < 400 * 1024, "{size} bytes");
    assert!(table(&bytes(&world.table)).expect("a table") == world.table);
}

#[test]
fn damaged_bytes_are_refused_or_a_sound_table() {
    let world = World::with_followers(&[B]);
    let good = bytes(&world.table);
    assert!(good.len() < 2048);
    for at in 0..good.len() {
        assert!(table(&good[..at]).is_err(), "cut at {at}");
        for flip in [1, 0x80, 0xFF] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            let Ok(table) = table(&bad) else { continue };
            let owner = table.owner(slot(0));
            assert!(owner.is_none_or(|owner| table.slot(slot(0)).is_in_sync(owner)));
        }
    }
}

#[test]
fn copies_share_what_did_not_change() {
    let mut world = World::sole();
    let before = world.table.clone();
    let seen = world.seen();
    world.accept(A, TableChange::AssignSlots { slots: ranges("5000,16383"), to: B, seen });
    assert_eq!(world.table.changed_since(&before), ranges("5000,16383"));
    assert_eq!(before.owner(slot(5000)), None);
}
