//! One situation each: full disks, failed syncs, damage, bad input.
//!
//! Invariant: pure; each test has a disk of its own.

use super::super::sim::{Dice, SimDisk};
use super::super::*;
use super::kit::*;

const FIRST: &str = "wal.0000000001";
const CHUNK: usize = FILE_HEADER_BYTES as usize;
const RECORD: usize = CHUNK + CHUNK_HEADER_BYTES;

/// A log with ten records of 100 bytes in lane 0, the first five synced.
fn ten() -> SimDisk {
    let (disk, log) = fresh(1);
    for n in 0..10 {
        if n == 5 {
            log.keeper.wal().sync_round().expect("syncs");
        }
        log.append(0, n, 100);
    }
    disk
}

fn reopen(disk: &SimDisk, trust: Trust) -> Result<Opened, LogError> {
    open(&disk.restart(), trust, options(LANES, 99))
}

fn refused(disk: &SimDisk, trust: Trust) -> String {
    reopen(disk, trust).map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn a_process_that_dies_loses_nothing() {
    let log = reopen(&ten(), Trust::ProcessDied).expect("opens");
    assert_eq!((log.found.len(), log.torn.len()), (10, 0));
    assert_eq!(log.keeper.wal().synced(0), 1360);
}

#[test]
fn one_sync_reaches_all_lanes() {
    let (disk, log) = fresh(1);
    let before = disk.syncs();
    for n in 0..9 {
        log.append(n as u16, n, 10);
    }
    assert_eq!(log.wal().sync_round().map(|round| round.files), Ok(1));
    assert_eq!(log.wal().sync_round(), Ok(Round::default()));
    assert_eq!(disk.syncs(), before + 1);
}

#[test]
fn a_bad_record_in_the_synced_part_is_damage() {
    for at in [0, 4, 8, 20, 34, 40] {
        let disk = ten();
        disk.flip(FIRST, RECORD + 2 * 136 + at, 0x10);
        let error = refused(&disk, Trust::PowerLost);
        let offset = format!("{FIRST} is damaged at offset {}", RECORD + 2 * 136);
        assert!(error.starts_with(&offset), "{error}");
    }
}

#[test]
fn a_bad_record_in_the_unsynced_part_is_a_torn_tail_after_a_loss_of_power_only() {
    let disk = ten();
    disk.flip(FIRST, RECORD + 5 * 136 + 50, 1);
    let error = refused(&disk, Trust::ProcessDied);
    assert!(error.contains("a payload of 100 bytes that does not match"), "{error}");
    let log = reopen(&disk, Trust::PowerLost).expect("opens");
    assert_eq!(log.found.len(), 5);
    let offset = (RECORD + 5 * 136) as u64;
    assert_eq!(log.torn.iter().map(|torn| torn.offset).collect::<Vec<_>>(), [offset]);
}

/// The header of an empty record at offset 112 of a chunk whose checksum is 7.
fn header(unsynced: u32) -> [u8; RECORD_HEADER_BYTES] {
    let sum = |bytes: &[u8]| crc32c::crc32c_append(7, bytes);
    super::super::record::HeaderWords::new(&entry(0, 1), 0, 0, unsynced, 112, sum).bytes()
}

#[test]
fn a_distance_that_did_not_fit_proves_nothing() {
    let header = header(u32::MAX);
    let mut chunk = vec![0; 512];
    chunk[112..148].copy_from_slice(&header);
    let found = super::super::record::Header::at(&chunk, 112, 7).expect("it holds");
    assert_eq!(found.synced(1 << 40), 0);
    assert_eq!(super::super::record::Header::at(&chunk, 112, 8), None);
}

/// Makes the checksum of a record's header fit its bytes.
fn resum(record: &mut [u8], seed: u32, at: usize) {
    record[..4].copy_from_slice(&(at as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(seed, &record[..RECORD_HEADER_BYTES]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn what_no_version_writes_is_no_header() {
    let good = header(0);
    for (at, bytes, holds) in [(34, 1, true), (34, 0, false), (35, 1, false), (33, 0x40, false)] {
        let mut chunk = vec![0; 512];
        chunk[112..148].copy_from_slice(&good);
        chunk[112 + at] = bytes;
        resum(&mut chunk[112..148], 7, 112);
        let header = super::super::record::Header::at(&chunk, 112, 7);
        assert_eq!(header.is_some(), holds, "byte {at} is {bytes}");
    }
}

#[test]
fn files_of_others_and_of_the_future_are_refused() {
    let disk = ten();
    let other = Recovery::find(disk.restart(), ids(2), Trust::ProcessDied).map(|_| ());
    let error = other.expect_err("refused").to_string();
    assert!(error.contains("another data directory") && error.contains("offset 56"), "{error}");
    for offset in [8, CHUNK + 8] {
        let mut bytes = disk.bytes(FIRST).expect("it is there");
        bytes[offset] = 2;
        let (start, end) = if offset < CHUNK { (0, 76) } else { (CHUNK, CHUNK + 108) };
        let sum = crc32c::crc32c(&bytes[start..end]).to_le_bytes();
        bytes[end..end + 4].copy_from_slice(&sum);
        let newer = disk.restart();
        newer.put(FIRST, &bytes);
        let error = refused(&newer, Trust::ProcessDied);
        assert!(error.contains("has format 2"), "{error}");
    }
}

#[test]
fn missing_renamed_and_cut_files_are_refused() {
    let (disk, mut log) = fresh(1);
    for n in 0..100 {
        log.append(0, n, 100);
        log.keeper.tend().expect("tends");
    }
    let second = "wal.0000000002";
    let missing = disk.restart();
    missing.take_away(second);
    assert!(refused(&missing, Trust::PowerLost).contains("no such file"));
    let renamed = disk.restart();
    renamed.put(second, &disk.bytes(FIRST).expect("it is there"));
    assert!(refused(&renamed, Trust::PowerLost).contains("that of log file 1"));
    let cut = disk.restart();
    cut.put(second, &disk.bytes(second).expect("it is there")[..5000]);
    assert!(refused(&cut, Trust::PowerLost).contains("5000"));
    let empty = disk.restart();
    empty.put(second, &[]);
    assert!(refused(&empty, Trust::PowerLost).contains("0 bytes"));
}

#[test]
fn a_chunk_whose_header_rotted_is_damage() {
    for trust in [Trust::ProcessDied, Trust::PowerLost] {
        let disk = ten();
        disk.flip(FIRST, CHUNK + 40, 1);
        let error = refused(&disk, trust);
        assert!(error.contains("the header of a chunk"), "{error}");
    }
}

#[test]
fn a_torn_header_that_a_start_accepted_is_no_damage_to_the_next() {
    let (disk, log) = fresh(1);
    log.append(0, 1, 100);
    disk.flip(FIRST, CHUNK + 40, 1);
    let disk = disk.restart();
    let log = open(&disk, Trust::PowerLost, options(LANES, 2)).expect("nothing was synced");
    assert_eq!(log.found, []);
    drop(log);
    let log = open(&disk.restart(), Trust::ProcessDied, options(LANES, 3));
    assert_eq!(log.map(|log| log.found).expect("opens"), []);
}

#[test]
fn no_file_goes_while_no_chunk_says_where_the_lanes_are() {
    let disk = ten().restart();
    // A new era, and no free chunk of the new size.
    let sizes = Sizes { chunk_bytes: 2048, ..SMALL };
    let two = |run| Options { lanes: 2, sizes, run };
    let mut log = open(&disk, Trust::ProcessDied, two(2)).expect("opens");
    let start = log.wal().era_start();
    assert_eq!((start, log.keeper.drop_before(&[start; 2])), (1360, Ok(0)));
    drop(log);
    let mut log = open(&disk.restart(), Trust::ProcessDied, two(3)).expect("opens");
    assert_eq!(log.wal().tail(0), start);
    // With a chunk of this era they go.
    log.keeper.tend().expect("tends");
    assert!(log.keeper.drop_before(&[start; 2]).expect("drops") > 0);
    assert_eq!(log.wal().tail(0), start);
}

#[test]
fn a_full_disk_is_told_before_anything_waits_and_recovers_by_itself() {
    let (disk, mut log) = fresh(1);
    disk.set_room(Some(0));
    let mut n = 0;
    while !log.keeper.wal().is_full() {
        log.append(0, n, 100);
        let _ = log.keeper.tend();
        n += 1;
    }
    assert_eq!(log.keeper.wal().figures().waiting_bytes, 0);
    assert!(log.wal().full_reason().contains("wal.tmp: no space left"));
    // Writes that were under way find the last chunks, then wait.
    let told: Vec<Told> = (0..60).map(|more| log.append(0, n + more, 100)).collect();
    let last = told[59].position;
    assert!(!log.wal().is_written(last) && log.wal().is_written(told[0].position));
    assert_eq!(log.keeper.tend(), Ok(Kept::Retry));
    disk.set_room(None);
    assert_eq!(log.keeper.tend(), Ok(Kept::Done));
    assert!(!log.wal().is_full() && log.wal().is_written(last));
    drop(log);
    let log = reopen(&disk, Trust::ProcessDied).expect("opens");
    assert_eq!(log.found.len() as u64, n + 60);
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let (disk, log) = fresh(1);
    log.append(0, 1, 10);
    disk.fail_syncs();
    let error = log.wal().sync_round().expect_err("fails");
    assert!(error.is_fatal());
    let syncs = disk.syncs();
    assert_eq!(log.wal().sync_round(), Err(error));
    assert_eq!((disk.syncs(), log.wal().synced(0)), (syncs, 0));
}

#[test]
fn a_sync_that_fails_under_the_keeper_is_the_end_for_who_syncs() {
    let (disk, mut log) = fresh(1);
    log.append(0, 1, 10);
    disk.fail_syncs();
    log.append(1, 2, 2000);
    let error = log.keeper.tend().expect_err("its file is not synced");
    let syncs = disk.syncs();
    assert_eq!((log.wal().sync_round(), disk.syncs()), (Err(error), syncs));
}

#[test]
fn random_bytes_never_panic() {
    let base = ten();
    let good = base.bytes(FIRST).expect("it is there");
    for seed in 0..2000 {
        let mut dice = Dice(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + dice.below(20) {
            let at = dice.below(RECORD as u64 + 2000) as usize;
            bytes[at] = dice.roll() as u8;
        }
        bytes.truncate(if seed % 5 == 0 { dice.below(9000) as usize } else { bytes.len() });
        let disk = base.restart();
        disk.put(FIRST, &bytes);
        for trust in [Trust::ProcessDied, Trust::PowerLost] {
            let Ok(recovery) = Recovery::find(disk.restart(), ids(1), trust) else { continue };
            for era in 0..recovery.eras() {
                for lane in 0..recovery.lanes(era) {
                    let progress = std::sync::atomic::AtomicU64::new(0);
                    let _ = recovery.replay(era, lane, &progress, &mut |_| Ok(()));
                }
            }
        }
    }
}

/// The first format: a file header, a chunk header, a record. It must be read for ever.
#[test]
fn the_bytes_of_the_first_format_stay() {
    let (disk, log) = fresh(1);
    log.append(3, 8, 5);
    let bytes = disk.bytes(FIRST).expect("it is there");
    let hex = |range: std::ops::Range<usize>| {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let golden = include_str!("golden.txt").lines().collect::<Vec<_>>();
    assert_eq!(
        [hex(0..80), hex(CHUNK..RECORD), hex(RECORD..RECORD + 48)].join("\n"),
        golden.join("\n")
    );
}
