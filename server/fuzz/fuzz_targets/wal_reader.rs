//! Any bytes as a file of the write-ahead log: its reader must not panic, and must hold no more
//! than the file has. Checksums are made to fit, else nothing came through.
#![no_main]

use std::sync::atomic::AtomicU64;

use libfuzzer_sys::fuzz_target;
use slotd::persist::log::sim::SimDisk;
use slotd::persist::log::{CHUNK_HEADER_BYTES, FILE_HEADER_BYTES, Ids, Recovery, Trust};
use slots::{NodeId, StoreId};

const CHUNK_BYTES: usize = 1024;

fuzz_target!(|input: &[u8]| {
    let [choice, rest @ ..] = input else { return };
    let chunks = rest.len().div_ceil(CHUNK_BYTES).max(1);
    let mut file = vec![0; FILE_HEADER_BYTES as usize + chunks * CHUNK_BYTES];
    file[..8].copy_from_slice(b"SLOTWALF");
    file[8] = 1;
    file[16] = 1;
    file[24..32].copy_from_slice(&(CHUNK_BYTES as u64).to_le_bytes());
    file[32..36].copy_from_slice(&(chunks as u32).to_le_bytes());
    let sum = crc(&file[..76]);
    file[76..80].copy_from_slice(&sum);
    for (nth, part) in rest.chunks(CHUNK_BYTES).enumerate() {
        let start = FILE_HEADER_BYTES as usize + nth * CHUNK_BYTES;
        file[start..start + part.len()].copy_from_slice(part);
        if choice & 1 == 0 {
            let chunk = &mut file[start..start + CHUNK_BYTES];
            chunk[..10].copy_from_slice(b"SLOTWALC\x01\x00");
            chunk[20..24].copy_from_slice(&(nth as u32).to_le_bytes());
            chunk[24..32].copy_from_slice(&1_u64.to_le_bytes());
            chunk[72..88].fill(0);
            let sum = crc(&chunk[..CHUNK_HEADER_BYTES - 4]);
            chunk[CHUNK_HEADER_BYTES - 4..CHUNK_HEADER_BYTES].copy_from_slice(&sum);
        }
    }
    let disk = SimDisk::new(0);
    disk.put("wal.0000000001", &file);
    let trust = if choice & 2 == 0 { Trust::PowerLost } else { Trust::ProcessDied };
    let ids = Ids { node: NodeId::from_bytes([0; 20]), store: StoreId::from_bytes([0; 16]) };
    let Ok(recovery) = Recovery::find(disk, ids, trust) else { return };
    for era in 0..recovery.eras() {
        for lane in 0..recovery.lanes(era) {
            let _ = recovery.replay(era, lane, &AtomicU64::new(0), &mut |_| Ok(()));
        }
    }
});

fn crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).to_le_bytes()
}
