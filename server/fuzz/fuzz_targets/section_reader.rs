//! Any bytes as the frames of a section: the receiver must not panic, and what it took must be
//! keys that can be read and taken out again.
//!
//! A frame is a length (2 bytes) and its bytes; chunks and groups get a head that fits, else
//! nothing came through.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slotd::slot::room::Chores;
use slotd::slot::{Rooms, Stage};
use slotd::store::object::Object;
use slotd::store::table::Table;
use slotd::stream::Arrival;
use slots::SlotId;

struct NoChores;

impl Chores for NoChores {
    fn expiry_due(&self, _: SlotId, _: u64) {}
    fn free(&self, _: Box<Object>) {}
    fn free_table(&self, _: Table<Object>) {}
}

fuzz_target!(|input: &[u8]| {
    let (rooms, mut stage) = (Rooms::new(Box::new(NoChores)), Stage::new(SlotId::FIRST));
    let mut arrival = Arrival::new(SlotId::FIRST);
    let (mut rest, mut index) = (input, 0);
    while let [low, high, more @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(more.len());
        let (given, after) = more.split_at(length);
        rest = after;
        index += 1;
        let frame = match given.split_first() {
            Some((2, group)) => groups(index, group),
            Some((1, entries)) => chunk(index, entries),
            _ => given.to_vec(),
        };
        if arrival.frame(&frame, &mut stage.enter(&rooms, 0)).is_err() {
            break;
        }
    }
    let keys = stage.keys();
    let mut taken = 0;
    loop {
        let some = stage.take(&rooms, (16, 4096));
        if some.is_empty() {
            break;
        }
        taken += some.len() as u64;
    }
    assert_eq!(taken, keys);
});

fn groups(index: u64, group: &[u8]) -> Vec<u8> {
    let mut frame = vec![2];
    frame.extend_from_slice(&1_u64.to_le_bytes());
    frame.extend_from_slice(&index.to_le_bytes());
    frame.extend_from_slice(&(group.len() as u32).to_le_bytes());
    frame.extend_from_slice(group);
    frame
}

/// Of all positions: the first byte of `entries` says how many there are.
fn chunk(index: u64, entries: &[u8]) -> Vec<u8> {
    let Some((count, entries)) = entries.split_first() else { return vec![1] };
    let mut frame = vec![1, 1, 1, 0, 0];
    for word in [1, index, 0, 0, (1 << 48) - 1] {
        frame.extend_from_slice(&u64::to_le_bytes(word));
    }
    frame.extend_from_slice(&u32::from(*count).to_le_bytes());
    frame.extend_from_slice(entries);
    frame
}
