//! The bytes of a checkpoint, as the first version wrote them: they must load for ever.
//!
//! `golden.txt` has a file on each line: its name, its bytes. A change of the format adds a file of
//! golden bytes beside it and changes none. Invariant: what is written now is what stands there.

use super::*;
use crate::stream::tests::{bare_rooms, dump};

fn rooms() -> Rooms {
    let rooms = bare_rooms();
    own(&rooms, slot(3), 7);
    set(&rooms, slot(3), "key", "a value");
    set(&rooms, slot(3), "other", "");
    own(&rooms, slot(16_383), 9);
    set(&rooms, slot(16_383), "last", "slot");
    lose(&rooms, slot(16_383), 10);
    rooms
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).expect("a hex digit") as u8).collect();
    digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect()
}

#[test]
fn a_checkpoint_is_written_byte_by_byte() {
    let disk = SimDisk::new(1);
    let mut edge = Edge::still();
    edge.alone.insert(slot(3), TableVersion(6));
    take(&rooms(), &disk, about(4), &edge).expect("taken");
    let line = |name: &String| format!("{name} {}", hex(&disk.bytes(name).expect("a file")));
    let lines: Vec<String> = disk.names().iter().map(line).collect();
    assert_eq!(lines.join("\n"), include_str!("golden.txt").trim_end());
}

#[test]
fn the_first_format_loads() {
    let disk = SimDisk::new(1);
    for line in include_str!("golden.txt").lines() {
        let (name, bytes) = line.split_once(' ').expect("a name and bytes");
        disk.put(name, &unhex(bytes));
    }
    let (want, got) = (rooms(), bare_rooms());
    let loaded = load(&disk, &got).expect("loads").expect("there");
    assert_eq!((loaded.keys, loaded.alone), (2, [(slot(3), TableVersion(6))].into()));
    for number in [3, 16_383] {
        assert_eq!(dump(&got, slot(number)), dump(&want, slot(number)));
        assert_eq!(place(&got, slot(number)), place(&want, slot(number)));
    }
}
