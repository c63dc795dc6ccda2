//! Groups larger than a record: whole, cut, begun before the files that are left, damaged.
//!
//! Deaths at every step are in `crashes`. Invariant: pure; each test has a disk of its own.

use super::super::sim::SimDisk;
use super::super::*;
use super::kit::*;

/// A log with a record, a group in three parts, and a record behind it, in lane 0.
fn with_a_group() -> (SimDisk, Opened, [Told; 3]) {
    let (disk, mut log) = fresh(1);
    let told =
        [log.append(0, 1, 100), log.append(0, 2, 2 * PART_BYTES + 100), log.append(0, 3, 100)];
    log.keeper.tend().expect("tends");
    (disk, log, told)
}

fn alone(disk: &SimDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.contains("alone")).collect()
}

fn reopen(disk: &SimDisk, trust: Trust) -> Result<Opened, LogError> {
    open(&disk.restart(), trust, options(LANES, 99))
}

#[test]
fn a_group_in_parts_comes_back_as_one() {
    let (disk, log, told) = with_a_group();
    assert!(told.iter().all(|told| log.wal().is_written(told.position)));
    assert_eq!(alone(&disk).len(), 2, "the last part lies in a usual chunk");
    let again = reopen(&disk, Trust::ProcessDied).expect("opens");
    assert_eq!((again.found, again.torn), (told.to_vec(), vec![]));
}

#[test]
fn it_is_not_written_before_its_last_part_is() {
    let (disk, mut log) = fresh(1);
    disk.set_room(Some(disk.names().iter().map(|n| disk.bytes(n).unwrap().len() as u64).sum()));
    let group = log.append(0, 1, 2 * PART_BYTES + 100);
    disk.full_at(2);
    disk.set_room(None);
    assert_eq!(log.keeper.tend(), Ok(Kept::Retry));
    assert_eq!(alone(&disk).len(), 1);
    log.wal().sync_round().expect("syncs");
    let wal = log.wal();
    assert!(wal.written(0) > 0 && wal.synced(0) == wal.written(0));
    assert!(!wal.is_written(group.position) && wal.tail(0) == group.position.at);
    // The process dies there.
    for trust in [Trust::ProcessDied, Trust::PowerLost] {
        let left = disk.restart();
        let mut cut = open(&left, trust, options(LANES, 2)).expect("opens");
        assert_eq!((cut.found.len(), cut.torn.len(), cut.wal().tail(0)), (0, 1, 0));
        let next = cut.append(0, 2, 50);
        cut.keeper.tend().expect("tends");
        let again = reopen(&left, trust).expect("opens");
        assert_eq!((again.found, again.torn), (vec![next], vec![]));
    }
    assert_eq!(log.keeper.tend(), Ok(Kept::Done));
    assert!(log.wal().is_written(group.position));
}

#[test]
fn a_group_whose_last_part_is_torn_goes_with_it() {
    let (disk, log, told) = with_a_group();
    drop(log);
    // The last part is the first record of the last chunk that lane 0 has begun.
    let bytes = disk.bytes("wal.0000000001").expect("it is there");
    let second = FILE_HEADER_BYTES as usize + 1024;
    assert_eq!(&bytes[second..second + 8], b"SLOTWALC");
    disk.flip("wal.0000000001", second + CHUNK_HEADER_BYTES + 60, 1);
    let error = reopen(&disk, Trust::ProcessDied).map(|_| ()).expect_err("refused");
    assert!(error.to_string().contains("a payload of"), "{error}");
    let disk = disk.restart();
    let log = open(&disk, Trust::PowerLost, options(LANES, 2)).expect("opens");
    assert_eq!((log.found.as_slice(), log.torn.len()), (&told[..1], 1));
    drop(log);
    let again = reopen(&disk, Trust::ProcessDied).expect("opens");
    assert_eq!((again.found.as_slice(), again.torn.len(), alone(&disk).len()), (&told[..1], 0, 1));
}

#[test]
fn a_lane_may_begin_within_a_group() {
    let (disk, mut log) = fresh(1);
    // So many parts that they go with two files; the last ones find no room.
    let group = log.append(0, 1, 9 * PART_BYTES);
    disk.set_room(Some(60_000));
    assert_eq!(log.keeper.tend(), Ok(Kept::Retry));
    log.wal().sync_round().expect("syncs");
    let before = alone(&disk);
    assert!(before.first().is_some_and(|name| name.contains("alone.0000000001")), "{before:?}");
    assert!(before.last().is_some_and(|name| name.contains("alone.0000000002")), "{before:?}");
    // A snapshot has all of it: what is on the disk may go.
    assert!(log.keeper.drop_before(&[group.position.at, 0, 0]).expect("drops") > 1);
    assert!(alone(&disk).iter().all(|name| name.contains("alone.0000000002")));
    let cut = reopen(&disk, Trust::ProcessDied).expect("opens");
    assert_eq!((cut.found, cut.torn), (vec![], vec![]));
    disk.set_room(None);
    let last = log.append(0, 2, 50);
    log.keeper.tend().expect("tends");
    assert!(log.wal().is_written(group.position));
    let again = reopen(&disk, Trust::ProcessDied).expect("opens");
    assert_eq!((again.found, again.torn), (vec![last], vec![]));
}
