//! What the log says of itself while others append: flags, positions, rounds that are waited for.
//!
//! Invariant: each test has a disk of its own; threads are waited for by what they count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;

use super::super::sim::SimDisk;
use super::super::*;
use super::kit::*;

/// A log without a chunk, and how often it told of progress.
fn listening() -> (Opened, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&count);
    let progress = Box::new(move || {
        told.fetch_add(1, Relaxed);
    });
    let bells = Bells { progress, ..Bells::silent() };
    let log = open_with(&SimDisk::new(1), Trust::ProcessDied, options(LANES, 1), bells);
    (log.expect("opens"), count)
}

#[test]
fn flags_say_that_records_wait_until_they_are_written() {
    for bytes in [10, 2000] {
        let (mut log, _) = listening();
        let flags = log.wal().flags();
        assert!(!flags.waits());
        let told = log.append(0, 1, bytes);
        assert!(flags.waits() && !log.wal().is_written(told.position));
        log.keeper.tend().expect("tends");
        assert!(!flags.waits() && log.wal().is_written(told.position));
    }
}

/// With the two stores of `Wal::drained` the other way round this fails within a few rounds.
#[test]
fn who_sees_no_waiting_record_finds_its_own_written() {
    let (mut log, _) = listening();
    let (wal, flags) = (log.wal(), log.wal().flags());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                log.keeper.tend().expect("tends");
                wal.sync_round().expect("syncs");
                let floors: Vec<u64> = (0..LANES).map(|lane| wal.synced(lane)).collect();
                log.keeper.drop_before(&floors).expect("drops");
            }
        });
        let is_right = (0..2000).all(|n| {
            // Every other one needs a file of its own.
            let bytes = if n % 2 == 0 { 1000 } else { 100 };
            let position = wal.append_entry(entry((n % 3) as u16, n), &payload(n, bytes));
            while flags.waits() {
                std::hint::spin_loop();
            }
            wal.is_written(position)
        });
        is_over.store(true, Relaxed);
        keeper.join().expect("ends");
        assert!(is_right);
    });
}

#[test]
fn a_round_reaches_what_was_appended_before_it_was_asked_for() {
    let (_disk, log) = fresh(1);
    let wal = log.wal();
    assert_eq!((wal.rounds_begun(), wal.rounds_done()), (0, 0));
    let told = log.append(0, 1, 10);
    let (begun, asked) = (wal.rounds_begun(), wal.round_to_wait_for());
    assert_eq!((begun + 1, wal.is_round_wanted()), (asked, true));
    wal.sync_round().expect("syncs");
    assert!(wal.rounds_done() >= asked && !wal.is_round_wanted());
    assert!(wal.synced(0) >= told.position.at);
}

#[test]
fn a_round_is_not_done_while_what_came_before_it_waits() {
    let (mut log, progress) = listening();
    let wal = log.wal();
    let told = log.append(0, 1, 10);
    let asked = wal.round_to_wait_for();
    for _ in 0..3 {
        wal.sync_round().expect("syncs");
        assert!(wal.rounds_done() < asked && wal.is_round_wanted());
    }
    log.keeper.tend().expect("tends");
    // What is appended now waits, and holds up only those who came after it.
    let large = log.append(1, 2, 2000);
    let later = wal.round_to_wait_for();
    progress.store(0, Relaxed);
    wal.sync_round().expect("syncs");
    assert!(wal.synced(0) >= told.position.at && !wal.is_written(large.position));
    assert!((asked..later).contains(&wal.rounds_done()), "{}", wal.rounds_done());
    assert_eq!(progress.load(Relaxed), 1);
    log.keeper.tend().expect("tends");
    wal.sync_round().expect("syncs");
    assert!(wal.synced(1) >= large.position.at && wal.rounds_done() >= later);
}

#[test]
fn a_round_without_news_is_told_of_to_who_asked() {
    let (mut log, progress) = listening();
    log.keeper.tend().expect("tends");
    let wal = log.wal();
    wal.sync_round().expect("syncs");
    assert_eq!(progress.load(Relaxed), 0);
    wal.round_to_wait_for();
    wal.sync_round().expect("syncs");
    assert_eq!(progress.load(Relaxed), 1);
}

#[test]
fn what_waited_wakes_who_syncs_while_a_round_is_owed() {
    let rings = Arc::new(AtomicU64::new(0));
    let rung = Arc::clone(&rings);
    let sync = Box::new(move || {
        rung.fetch_add(1, Relaxed);
    });
    let bells = Bells { sync, ..Bells::silent() };
    let log = open_with(&SimDisk::new(1), Trust::ProcessDied, options(LANES, 1), bells);
    let mut log = log.expect("opens");
    log.append(0, 1, 10);
    log.wal().round_to_wait_for();
    log.wal().sync_round().expect("syncs");
    rings.store(0, Relaxed);
    log.keeper.tend().expect("tends");
    assert_eq!(rings.load(Relaxed), 1);
}

#[test]
fn windows_are_made_ready_for_lanes_that_fill_them_between_two_rounds() {
    const WINDOW: u64 = super::super::lane::WINDOW_BYTES as u64;
    let disk = SimDisk::new(1);
    let sizes = Sizes { chunk_bytes: 4 * WINDOW as u32, chunks: 8 };
    let options = Options { sizes, ..options(1, 1) };
    let mut log = open(&disk, Trust::ProcessDied, options).expect("opens");
    log.keeper.tend().expect("tends");
    let mut n = 0;
    // One window's worth of records; the windows that were made ready, by number and how many.
    let mut fill = |log: &mut Opened| {
        for _ in 0..16 {
            n += 1;
            log.append(0, n, WINDOW as usize / 16 - RECORD_HEADER_BYTES);
        }
        log.keeper.tend().expect("tends");
        let window = |(file, offset, bytes): (String, u64, usize)| {
            assert_eq!((file.as_str(), offset % 4096), ("wal.0000000001", 0));
            ((offset - FILE_HEADER_BYTES) / WINDOW, bytes as u64 / WINDOW)
        };
        disk.take_readied().into_iter().map(window).collect::<Vec<_>>()
    };
    assert_eq!(fill(&mut log), [(2, 1)]);
    assert_eq!(fill(&mut log), [(3, 1)]);
    assert_eq!(fill(&mut log), [], "the chunk ends there");
    let ahead = [(8, 1), (12, 1), (16, 1), (20, 1)];
    assert_eq!(fill(&mut log), [&[(4, 2)], &ahead[..]].concat(), "the next one, and those behind");
    log.wal().sync_round().expect("syncs");
    assert_eq!(fill(&mut log), [], "a round came between");
    assert_eq!(fill(&mut log), [(7, 1)]);
    assert_eq!(fill(&mut log), []);
    assert_eq!(fill(&mut log), [(9, 1), (24, 1)], "its first window was ready, one more is");
}
