//! Records that wait, disks without room, and who is woken when it goes on.
//!
//! Invariant: pure; each test has a disk of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::super::sim::SimDisk;
use super::super::*;
use super::kit::*;

/// How often a bell rang.
#[derive(Clone, Default)]
struct Rings(Arc<AtomicUsize>);

impl Rings {
    fn bell(&self) -> Box<dyn Fn() + Send + Sync> {
        let rings = Arc::clone(&self.0);
        Box::new(move || {
            rings.fetch_add(1, Relaxed);
        })
    }

    /// Since the last look.
    fn take(&self) -> usize {
        self.0.swap(0, Relaxed)
    }
}

/// A log without a chunk, its bell for who syncs, and that of progress.
fn listening() -> (Opened, Rings, Rings) {
    let (sync, progress) = (Rings::default(), Rings::default());
    let bells = Bells { sync: sync.bell(), progress: progress.bell(), ..Bells::silent() };
    let log = open_with(&SimDisk::new(1), Trust::ProcessDied, options(LANES, 1), bells);
    (log.expect("opens"), sync, progress)
}

/// A log with spares, and how many.
fn with_spares() -> (SimDisk, Opened, usize) {
    let (disk, mut log) = fresh(1);
    for n in 0..200 {
        log.append(0, n, 100);
        log.keeper.tend().expect("tends");
    }
    log.wal().sync_round().expect("syncs");
    log.keeper.drop_before(&[log.wal().synced(0), 0, 0]).expect("drops");
    let spares = spares(&disk).len();
    (disk, log, spares)
}

fn spares(disk: &SimDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.contains("spare")).collect()
}

fn used(disk: &SimDisk) -> u64 {
    let bytes = |name: &String| disk.bytes(name).expect("it is there").len() as u64;
    disk.names().iter().map(bytes).sum()
}

#[test]
fn what_the_keeper_writes_wakes_who_syncs() {
    // Copied once there is a chunk; written to a file of its own.
    for bytes in [10, 2000] {
        let (mut log, sync, _) = listening();
        log.append(0, 1, bytes);
        assert!(log.wal().doze(), "nothing is written");
        sync.take();
        assert_eq!(log.keeper.tend(), Ok(Kept::Done));
        assert_eq!((sync.take(), log.wal().doze()), (1, false), "{bytes} bytes");
    }
}

#[test]
fn progress_is_told_whoever_makes_it() {
    let (mut log, _, progress) = listening();
    for bytes in [10, 2000] {
        log.append(0, 1, bytes);
        assert_eq!(progress.take(), 0);
        log.keeper.tend().expect("tends");
        assert_eq!(progress.take(), 1, "{bytes} bytes");
    }
    log.wal().sync_round().expect("syncs");
    assert_eq!(progress.take(), 1);
    log.wal().sync_round().expect("syncs");
    assert_eq!(progress.take(), 0, "nothing was new");
    for n in 0..100 {
        log.append(0, n, 100);
        log.keeper.tend().expect("tends");
    }
    log.wal().sync_round().expect("syncs");
    let floor = log.wal().synced(0);
    let last = log.append(0, 100, 100);
    progress.take();
    assert!(log.keeper.drop_before(&[floor, 0, 0]).expect("drops") > 0);
    assert_eq!((log.wal().synced(0), progress.take()), (last.position.at, 1));
}

#[test]
fn spares_make_room_for_a_record_of_its_own_file() {
    let (disk, mut log, before) = with_spares();
    disk.set_room(Some(used(&disk)));
    let large = log.append(1, 1, 3000);
    assert_eq!(log.keeper.tend(), Ok(Kept::Done));
    assert!(log.wal().is_written(large.position));
    assert_eq!(spares(&disk).len(), before - 1);
}

#[test]
fn a_spare_that_someone_took_away_is_not_missed() {
    let (disk, mut log, _) = with_spares();
    spares(&disk).iter().for_each(|name| disk.take_away(name));
    for n in 0..60 {
        log.append(0, n, 100);
        assert_eq!(log.keeper.tend(), Ok(Kept::Done), "record {n}");
    }
}

#[test]
fn a_lane_without_room_does_not_hold_up_the_others() {
    let (disk, mut log) = fresh(1);
    disk.set_room(Some(used(&disk) + 6000));
    let (large, smaller) = (log.append(0, 1, 5000), log.append(1, 2, 1000));
    assert_eq!(log.keeper.tend(), Ok(Kept::Retry));
    let is_written = |told: &Told| log.keeper.wal().is_written(told.position);
    assert_eq!((is_written(&large), is_written(&smaller)), (false, true));
    disk.set_room(None);
    assert_eq!(log.keeper.tend(), Ok(Kept::Done));
    assert!(log.wal().is_written(large.position) && !log.wal().is_full());
}

#[test]
fn tries_that_fail_use_up_no_names() {
    let (disk, mut log) = fresh(1);
    disk.set_room(Some(0));
    log.append(0, 1, 5000);
    for _ in 0..3 {
        assert_eq!(log.keeper.tend(), Ok(Kept::Retry));
    }
    disk.set_room(None);
    assert_eq!(log.keeper.tend(), Ok(Kept::Done));
    assert!(disk.names().contains(&"wal.alone.0000000001.0".to_owned()), "{:?}", disk.names());
}

#[test]
fn one_value_over_the_limit_waits_and_refuses_nobody() {
    let (_disk, log) = fresh(1);
    let over = vec![0; MAX_WAITING_BYTES as usize + 1];
    let wal = log.wal();
    wal.append_entry(entry(0, 1), &over);
    wal.append_entry(entry(0, 2), b"behind it");
    assert!(!wal.is_full(), "{}", wal.full_reason());
    wal.append_entry(entry(1, 3), &over);
    assert!(wal.is_full());
}
