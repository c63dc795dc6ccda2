//! Any bytes as a chunk of a snapshot and as an op group: reading must not panic, nor hold much
//! more than it was given.
//!
//! The first byte of the input says what the rest is; a chunk may get a head that fits, else few
//! came as far as an entry.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slotd::stream::chunk::Chunk;
use slotd::stream::{Ops, Scratch};

/// A chunk's head: version 1, slot 0, every position. Its last 4 bytes are the count.
fn head(count: u8) -> [u8; 48] {
    let mut head = [0; 48];
    head[0] = 1;
    head[36..42].fill(0xFF);
    head[44] = count;
    head
}

fuzz_target!(|input: &[u8]| {
    let [choice, rest @ ..] = input else { return };
    match choice % 3 {
        0 => chunk(rest),
        1 => chunk(&[&head(choice / 3), rest].concat()),
        _ => group(rest),
    }
});

fn chunk(bytes: &[u8]) {
    let Ok(chunk) = Chunk::read(bytes) else { return };
    if let Err(broken) = chunk.check() {
        assert!(broken.at <= bytes.len(), "{broken}");
    }
}

fn group(bytes: &[u8]) {
    let Ok(mut ops) = Ops::open(bytes, Scratch::default()) else { return };
    loop {
        match ops.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(broken) => {
                assert!(broken.at <= bytes.len(), "{broken}");
                break;
            }
        }
    }
}
