//! Any bytes as a manifest, as a part's table, or as a part's chunks: the reader and the loader
//! must not panic, nor hold more than the files have. Checksums are made to fit, else nothing came
//! through.
//!
//! The first byte of the input says what the rest is.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use slotd::persist::checkpoint::Checkpoint;
use slotd::persist::log::Ids;
use slotd::persist::log::sim::SimDisk;
use slotd::persist::recovery::Loader;
use slotd::slot::room::Chores;
use slotd::slot::{Op, Rooms};
use slotd::store::object::Object;
use slotd::store::table::Table;
use slotd::stream::chunk::Chunk;
use slots::{Epoch, NodeId, OpIndex, SlotId, StoreId};

/// Making 16,384 rooms for each input would be most of the work.
static ROOMS: LazyLock<Rooms> = LazyLock::new(|| Rooms::new(Box::new(NoChores)));

struct NoChores;

impl Chores for NoChores {
    fn expiry_due(&self, _: SlotId, _: u64) {}
    fn free(&self, _: Box<Object>) {}
    fn free_table(&self, _: Table<Object>) {}
}

fuzz_target!(|input: &[u8]| {
    let [choice, rest @ ..] = input else { return };
    let (choice, is_loaded) = (choice & 127, choice & 128 != 0);
    match choice % 4 {
        0 => {
            let disk = SimDisk::new(0);
            let mut manifest = head(b"SLOTCKPT", 88);
            let len = rest.len().min(72);
            manifest[16..16 + len].copy_from_slice(&rest[..len]);
            manifest[32..68].fill(0);
            manifest.extend_from_slice(&rest[len..]);
            put_sum(&mut manifest, 0);
            disk.put("manifest", &manifest);
            load(disk, is_loaded);
        }
        1 => load(disk_with(&[], rest), is_loaded),
        2 => load(disk_with(rest, &entry(rest.len(), choice / 4)), is_loaded),
        _ => {
            let chunk = [&chunk_head(choice / 4)[..], rest].concat();
            let frames = frame(&chunk);
            load(disk_with(&frames, &entry(frames.len(), 1)), is_loaded);
        }
    }
});

/// Reads it all; loads it, too, if asked: that takes a hundred times as long.
fn load(disk: SimDisk, is_loaded: bool) {
    let ids = Ids { node: NodeId::from_bytes([0; 20]), store: StoreId::from_bytes([0; 16]) };
    let Ok(Some(checkpoint)) = Checkpoint::find(disk, ids) else { return };
    let mut buffer = Vec::new();
    for entry in checkpoint.slots() {
        let mut chunks = checkpoint.chunks(entry, &mut buffer);
        while let Ok(Some((_, chunk))) = chunks.next_chunk() {
            let _ = Chunk::read(chunk).and_then(|chunk| chunk.check());
        }
    }
    if !is_loaded {
        return;
    }
    let loader = Loader::new(&ROOMS, 0);
    for entry in checkpoint.slots() {
        let _ = loader.slot(&checkpoint, entry, &mut buffer);
        assert!(buffer.len() as u64 <= entry.bytes, "{} bytes of {entry:?}", buffer.len());
    }
    for entry in checkpoint.slots() {
        let mut room = ROOMS.replay(entry.slot, 0);
        room.apply(Op::Flush);
        room.set_place(Epoch(0), OpIndex(0));
    }
}

/// A checkpoint of one part with these chunks and this table.
fn disk_with(chunks: &[u8], table: &[u8]) -> SimDisk {
    let mut part = part_head();
    let seed = u32::from_le_bytes([part[68], part[69], part[70], part[71]]);
    part.extend_from_slice(chunks);
    let (table_at, count) = (part.len() as u64, (table.len() / 56) as u32);
    let table = &table[..count as usize * 56];
    part.extend_from_slice(table);
    part.extend_from_slice(&table_at.to_le_bytes());
    part.extend_from_slice(&count.to_le_bytes());
    let sum = crc32c::crc32c_append(seed, &part[table_at as usize..]).to_le_bytes();
    part.extend_from_slice(&sum);
    part.extend_from_slice(b"SLOTPEND");
    let keys = table.chunks_exact(56).fold(0_u64, |sum, entry| {
        sum.wrapping_add(entry[24..32].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    });
    let mut manifest = head(b"SLOTCKPT", 88);
    manifest[16] = 1;
    manifest[68] = 1;
    manifest[72..80].copy_from_slice(&keys.to_le_bytes());
    manifest[80..84].copy_from_slice(&count.to_le_bytes());
    manifest.extend_from_slice(&(part.len() as u64).to_le_bytes());
    manifest.extend_from_slice(&sum);
    manifest.extend_from_slice(&[0; 4]);
    put_sum(&mut manifest, 0);
    let disk = SimDisk::new(0);
    disk.put("part.0000000001.00000", &part);
    disk.put("manifest", &manifest);
    disk
}

fn head(magic: &[u8; 8], bytes: usize) -> Vec<u8> {
    let mut head = vec![0; bytes];
    head[..8].copy_from_slice(magic);
    head[8] = 1;
    head
}

fn part_head() -> Vec<u8> {
    let mut head = head(b"SLOTPART", 68);
    head[16] = 1;
    put_sum(&mut head, 0);
    head
}

fn put_sum(bytes: &mut Vec<u8>, seed: u32) {
    let sum = crc32c::crc32c_append(seed, bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
}

/// The entry of slot 0, with so many bytes of chunks behind the header.
fn entry(bytes: usize, chunks: u8) -> Vec<u8> {
    let mut entry = vec![0; 56];
    entry[4] = chunks;
    entry[8] = 72;
    entry[16..24].copy_from_slice(&(bytes as u64).to_le_bytes());
    entry
}

/// A chunk's head: version 1, slot 0, every position, the last one. Its last 4 bytes are the count.
fn chunk_head(count: u8) -> [u8; 48] {
    let mut head = [0; 48];
    head[0] = 1;
    head[1] = 1;
    head[36..42].fill(0xFF);
    head[44] = count;
    head
}

/// The chunk in its frame, right behind the header.
fn frame(chunk: &[u8]) -> Vec<u8> {
    let head = part_head();
    let seed = u32::from_le_bytes([head[68], head[69], head[70], head[71]]);
    let mut frame = (chunk.len() as u64).to_le_bytes().to_vec();
    let place = [72_u64.to_le_bytes(), (chunk.len() as u64).to_le_bytes()].concat();
    let sum = crc32c::crc32c_append(crc32c::crc32c_append(seed, &place), chunk);
    frame.extend_from_slice(&sum.to_le_bytes());
    frame.extend_from_slice(chunk);
    frame
}
