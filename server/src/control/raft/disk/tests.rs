//! The files of the table's log under damage, full disks and failing syncs, one situation a test.
//!
//! Crashes at every call are in `crashes`. Invariant: every case runs on the simulated disk.

mod crashes;

use super::kit::{Watched, entry, id, snap, vote};
use super::sim::SimDisk;
use super::*;
use crate::control::ledger::Ledger;

const FIRST: &str = "raft.log.00000001";
const SECOND: &str = "raft.log.00000002";

fn damage(disk: &SimDisk) -> Damage {
    match Watched::open(disk).map(|(_, state)| state) {
        Err(StoreError::Damaged(damage)) => damage,
        other => panic!("expected damage, got {other:?}"),
    }
}

fn indexes(state: &Recovered) -> Vec<u64> {
    state.entries.iter().map(|entry| entry.log_id.index).collect()
}

/// Where the frames of a segment start, by its own bytes.
fn frames(disk: &SimDisk, file: &str) -> Vec<usize> {
    let bytes = disk.bytes(file).expect("the file is there");
    let number = segment_number(file).expect("a segment");
    let (mut at, mut found) = (32, Vec::new());
    while let Some(frame) = record::unframe(&bytes, number, at) {
        found.push(at);
        at = frame.end;
    }
    found.push(at);
    found
}

#[test]
fn everything_comes_back_after_a_clean_stop() {
    let disk = SimDisk::new();
    let (mut node, fresh) = Watched::open(&disk).expect("an empty disk opens");
    assert_eq!(fresh, Recovered::default());
    node.fill(1..=9, 300);
    node.writer.hand(Job::Truncate(9));
    node.writer.hand(Job::Committed(id(1, 7)));
    node.vote(vote(3, true));
    node.snapshot(&snap(id(1, 4)));
    node.writer.work();
    node.writer.hand(Job::Purge(id(1, 4)));
    node.writer.work();

    let (_, state) = Watched::open(&disk).expect("it opens again");
    assert_eq!(indexes(&state), [5, 6, 7, 8]);
    assert_eq!(state.entries[0], entry(1, 5, 300));
    assert_eq!((state.purged, state.committed), (Some(id(1, 4)), Some(id(1, 7))));
    assert_eq!(state.vote, Some(vote(3, true)));
    assert_eq!(state.snapshot, Some(snap(id(1, 4))));
    assert_eq!(state.cut, None);
}

#[test]
fn purged_segments_are_used_again_and_never_read_again() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    for round in 0..20 {
        let last = round * 10 + 10;
        node.fill(round * 10 + 1..=last, 300);
        node.snapshot(&snap(id(1, last)));
        node.writer.work();
        node.writer.hand(Job::Purge(id(1, last)));
        node.writer.work();
        let (again, state) = Watched::open(&disk).expect("opens again");
        assert_eq!((state.purged, indexes(&state)), (Some(id(1, last)), vec![]));
        node = again;
        let segments = disk.names().iter().filter(|name| name.starts_with("raft.log.")).count();
        assert!(segments <= 2, "{:?}", disk.names());
    }
}

#[test]
fn a_flipped_byte_is_refused_with_its_place_or_was_never_confirmed() {
    let whole = SimDisk::new();
    let (mut node, _) = Watched::open(&whole).expect("opens");
    node.fill(1..=12, 300);
    let (_, intact) = Watched::open(&whole).expect("opens again");
    let files: Vec<String> =
        whole.names().into_iter().filter(|name| segment_number(name).is_some()).collect();
    assert_eq!(files.len(), 2);
    for file in files {
        let frames = frames(&whole, &file);
        let end = *frames.last().expect("an end");
        for offset in (0..end).step_by(3) {
            let disk = whole.crash(1);
            disk.flip(&file, offset, 0x40);
            let start = frames.iter().rev().find(|start| **start <= offset).copied().unwrap_or(0);
            let is_last = file == SECOND && start == frames[frames.len() - 2];
            match Watched::open(&disk).map(|(_, state)| state) {
                // The last record's own number tells it from what a file held in an earlier life:
                // with that flipped nothing is said.
                Ok(state) if state.cut.is_some() || (start + 8..start + 12).contains(&offset) => {
                    assert!(is_last, "{file} {offset} was cut");
                    assert_eq!(indexes(&state), Vec::from_iter(1..=11));
                }
                // The zeros that fill a frame up are nobody's.
                Ok(state) => assert_eq!(state, intact, "{file} {offset}"),
                Err(StoreError::Damaged(damage)) => {
                    assert_eq!((damage.file, damage.offset), (file.clone(), start as u64));
                }
                Err(StoreError::TooNew { .. }) => assert!((8..10).contains(&offset)),
                Err(error) => panic!("{file} {offset}: {error}"),
            }
        }
    }
}

#[test]
fn damage_names_file_offset_and_the_way_out() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=3, 10);
    let second = frames(&disk, FIRST)[1];
    disk.flip(FIRST, second + 20, 1);
    let before = disk.bytes(FIRST);
    let text = damage(&disk).to_string();
    for part in [FIRST, &format!("offset {second}"), "expected a record", "`A damaged log`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(disk.bytes(FIRST), before, "damage is left as it is");
}

#[test]
fn a_torn_tail_is_cut_said_and_never_comes_back() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=2, 40);
    // Two records on their way in one sync: the first is torn, the second arrived.
    node.append(&[entry(1, 3, 40), entry(1, 4, 40)]);
    node.writer.work();
    let third = frames(&disk, FIRST)[2];
    disk.flip(FIRST, third + 30, 0xff);
    let (mut node, state) = Watched::open(&disk).expect("a torn tail opens");
    let cut = state.cut.clone().expect("it is said");
    assert_eq!((cut.file.as_str(), cut.offset as usize), (FIRST, third));
    assert!(cut.until > cut.offset && cut.to_string().contains("torn tail"), "{cut}");
    assert_eq!(indexes(&state), [1, 2]);
    // A new third entry of the same length: the old fourth must not follow it.
    node.append(&[entry(2, 3, 40)]);
    node.writer.work();
    let (_, state) = Watched::open(&disk).expect("opens");
    assert_eq!((indexes(&state), state.cut.clone()), (vec![1, 2, 3], None));
    assert_eq!(state.entries[2], entry(2, 3, 40));
}

#[test]
fn the_same_bytes_are_damage_when_a_sync_came_between() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=4, 40);
    let third = frames(&disk, FIRST)[2];
    disk.flip(FIRST, third + 30, 0xff);
    assert_eq!(damage(&disk).offset, third as u64);
}

#[test]
fn after_a_failed_sync_what_is_read_is_written_again() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=2, 40);
    disk.fail_syncs();
    node.append(&[entry(1, 3, 40)]);
    node.writer.work();
    // The page cache has the third entry and takes it for written.
    let disk = disk.restart();
    let (_, state) = Watched::open(&disk).expect("opens");
    assert_eq!(indexes(&state), [1, 2, 3]);
    for seed in 0..20 {
        let (_, state) = Watched::open(&disk.crash(seed)).expect("opens");
        assert_eq!(indexes(&state), [1, 2, 3], "what was read may have been told");
    }
}

#[test]
fn the_power_goes_while_the_log_goes_over_to_a_segment_that_is_all_purged() {
    for calls in 0..12 {
        for seed in 0..8 {
            let disk = SimDisk::new();
            let (mut node, _) = Watched::open(&disk).expect("opens");
            node.fill(1..=5, 300);
            node.snapshot(&snap(id(1, 5)));
            node.writer.work();
            node.writer.hand(Job::Purge(id(1, 5)));
            node.writer.work();
            disk.stop_after(calls);
            node.append(&[entry(1, 6, 2500)]);
            node.writer.work();
            let mut disk = disk.crash(seed);
            for _ in 0..3 {
                let (_, state) = Watched::open(&disk).expect("opens each time");
                assert!(state.last() >= Some(id(1, 5)), "{calls} {seed} {:?}", state.last());
                disk = disk.crash(seed);
            }
        }
    }
}

#[test]
fn a_missing_segment_is_named() {
    let whole = SimDisk::new();
    let (mut node, _) = Watched::open(&whole).expect("opens");
    node.fill(1..=40, 300);
    for missing in [FIRST, SECOND] {
        let mut disk = whole.crash(1);
        disk.remove(missing).expect("removed");
        assert_eq!(damage(&disk).file, missing);
    }
}

#[test]
fn vote_and_snapshot_are_refused_with_any_byte_flipped() {
    let whole = SimDisk::new();
    let (mut node, _) = Watched::open(&whole).expect("opens");
    node.vote(vote(7, false));
    node.snapshot(&snap(id(1, 5)));
    node.writer.work();
    for file in [VOTE_FILE, SNAPSHOT_FILE] {
        let length = whole.bytes(file).expect("written").len();
        for offset in 0..length {
            let disk = whole.crash(1);
            disk.flip(file, offset, 0x80);
            match Watched::open(&disk).map(|(_, state)| state) {
                Err(StoreError::Damaged(damage)) => assert_eq!(damage.file, file),
                Err(StoreError::TooNew { .. }) => assert!((8..10).contains(&offset)),
                other => panic!("{file} {offset}: {other:?}"),
            }
        }
        for length in [0, length - 1] {
            let mut disk = whole.crash(1);
            let bytes = disk.bytes(file).expect("written");
            disk.write_new(file, &bytes[..length]).expect("written");
            assert_eq!(damage(&disk).file, file);
        }
    }
}

#[test]
fn a_snapshot_that_is_lost_is_not_taken_for_an_empty_table() {
    let mut disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=5, 10);
    node.snapshot(&snap(id(1, 4)));
    node.writer.work();
    node.writer.hand(Job::Purge(id(1, 4)));
    node.writer.work();
    disk.remove(SNAPSHOT_FILE).expect("removed");
    let damage = damage(&disk);
    assert_eq!((damage.file.as_str(), damage.got.as_str()), (SNAPSHOT_FILE, "no file"));
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let disk = SimDisk::new();
    Watched::open(&disk).expect("opens");
    disk.flip(FIRST, 8, 3);
    let error = Watched::open(&disk).map(|_| ()).expect_err("refused");
    assert_eq!(error, StoreError::TooNew { file: FIRST.into(), expected: 1, got: 2 });
}

#[test]
fn a_full_disk_holds_nothing_up_while_the_segment_has_room() {
    let disk = SimDisk::new();
    disk.set_room(Some(4096));
    let (mut node, _) = Watched::open(&disk).expect("room for one segment");
    let told = node.append(&[entry(1, 1, 100)]);
    assert_eq!(node.writer.work(), Work::Retry, "the segment ahead is tried again");
    assert_eq!(*told.lock(), Some(Ok(())));
    let gauge = node.writer.gauge();
    assert!(!gauge.waits_for_room() && !gauge.has_spare());
    disk.set_room(None);
    assert_eq!(node.writer.work(), Work::Done);
    assert!(gauge.has_spare() && node.fatal.lock().is_empty());
}

#[test]
fn appends_wait_for_room_and_go_on_when_there_is_some() {
    let disk = SimDisk::new();
    disk.set_room(Some(4096));
    let (mut node, _) = Watched::open(&disk).expect("room for one segment");
    let all: Vec<LogEntry> = (1..=20).map(|index| entry(1, index, 300)).collect();
    let told = node.append(&all);
    assert_eq!(node.writer.work(), Work::Retry);
    assert_eq!(*told.lock(), None, "not written, not failed");
    assert!(node.writer.gauge().waits_for_room());
    disk.set_room(Some(4 * 4096));
    assert_eq!(node.writer.work(), Work::Done);
    assert_eq!(*told.lock(), Some(Ok(())));
    let (_, state) = Watched::open(&disk).expect("opens");
    assert_eq!(Vec::from(state.entries), all);
}

#[test]
fn a_snapshot_on_a_full_disk_takes_the_room_of_the_segment_ahead() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=5, 10);
    disk.set_room(Some(disk.used_bytes()));
    let told = node.snapshot(&snap(id(1, 5)));
    node.writer.work();
    assert_eq!(*told.lock(), Some(Ok(())));
    assert!(!node.writer.gauge().has_spare());
    node.fill_full(6..=7);
}

impl Watched {
    /// Appends where the segment ahead cannot be made.
    fn fill_full(&mut self, indexes: std::ops::RangeInclusive<u64>) {
        for index in indexes {
            let told = self.append(&[entry(1, index, 10)]);
            assert_eq!(self.writer.work(), Work::Retry);
            assert_eq!(*told.lock(), Some(Ok(())));
        }
    }
}

#[test]
fn a_snapshot_that_waits_for_room_does_not_hold_up_the_log() {
    let disk = SimDisk::new();
    disk.set_room(Some(4096));
    let (mut node, _) = Watched::open(&disk).expect("room for one segment");
    let waits = node.snapshot(&snap(id(1, 0)));
    let told = node.append(&[entry(1, 1, 10)]);
    assert_eq!(node.writer.work(), Work::Retry);
    assert_eq!((waits.lock().clone(), told.lock().clone()), (None, Some(Ok(()))));
    disk.set_room(None);
    assert_eq!(node.writer.work(), Work::Done);
    assert_eq!(*waits.lock(), Some(Ok(())));
}

#[test]
fn an_older_snapshot_does_not_replace_a_newer_one() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.snapshot(&snap(id(2, 9)));
    let told = node.snapshot(&snap(id(1, 5)));
    node.writer.work();
    assert_eq!(*told.lock(), Some(Ok(())));
    let (_, state) = Watched::open(&disk).expect("opens");
    assert_eq!(state.snapshot, Some(snap(id(2, 9))));
}

#[test]
fn a_failed_sync_ends_the_log_once_and_for_all_jobs() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=1, 10);
    disk.fail_syncs();
    let told = node.append(&[entry(1, 2, 10)]);
    let behind = node.vote(vote(1, false));
    node.writer.work();
    let later = node.append(&[entry(1, 3, 10)]);
    node.writer.work();
    for told in [told, behind, later] {
        let error = told.lock().clone().expect("told").expect_err("failed");
        assert_eq!((error.doing, error.file.as_str()), (Doing::Sync, FIRST));
    }
    let fatal = node.fatal.lock().clone();
    assert_eq!(fatal.len(), 1, "{fatal:?}");
    assert!(fatal[0].contains("cannot sync raft.log.00000001: input/output error"), "{fatal:?}");
}

#[test]
fn a_failed_write_is_fatal_too() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    disk.fail_writes();
    let told = node.append(&[entry(1, 1, 10)]);
    node.writer.work();
    assert!(told.lock().clone().is_some_and(|result| result.is_err()));
    assert_eq!(node.fatal.lock().len(), 1);
}

#[test]
fn what_waits_together_shares_a_sync() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=1, 10);
    let before = disk.calls();
    let told: Vec<_> = (2..=6).map(|index| node.append(&[entry(1, index, 10)])).collect();
    node.writer.work();
    assert!(told.iter().all(|told| *told.lock() == Some(Ok(()))));
    assert_eq!(disk.calls() - before, 2, "one write, one sync");
}

#[test]
fn a_note_of_commits_costs_no_sync_and_comes_back() {
    let disk = SimDisk::new();
    let (mut node, _) = Watched::open(&disk).expect("opens");
    node.fill(1..=2, 10);
    let before = disk.calls();
    node.writer.hand(Job::Committed(id(1, 2)));
    node.writer.work();
    assert_eq!(disk.calls() - before, 1, "one write");
    let (_, state) = Watched::open(&disk).expect("opens");
    assert_eq!(state.committed, Some(id(1, 2)));
}

#[test]
fn an_entry_too_large_is_refused_before_the_disk_sees_it() {
    let packed = entry_content(&entry(1, 1, MAX_ENTRY_BYTES));
    assert!(packed.is_err_and(|error| error.to_string().contains("at most 4194304 are allowed")));
    assert!(entry_content(&entry(1, 1, MAX_ENTRY_BYTES - 200)).is_ok());
}

#[test]
fn an_announced_snapshot_length_allocates_nothing() {
    let mut bytes = snap(id(1, 5)).bytes.to_vec();
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    let error = Snap::parse(bytes).expect_err("refused");
    assert!(error.to_string().contains("bytes behind the header"), "{error}");
}

#[test]
fn the_image_of_a_ledger_comes_back_as_it_was() {
    let mut ledger = Ledger::new();
    for index in 1..=5 {
        let openraft::EntryPayload::Normal(change) = entry(1, index, 20).payload else { panic!() };
        ledger.apply(&change, slots::TableVersion(index));
    }
    let members = openraft::Membership::new(vec![[kit::member(1)].into()], None);
    let members = openraft::StoredMembership::new(Some(id(1, 1)), members);
    let snap = Snap::new(Some(id(1, 5)), members, ledger.clone()).expect("fits");
    let again = Snap::parse(snap.bytes.to_vec()).expect("parses");
    assert_eq!((&again, &again.ledger), (&snap, &ledger));
    assert_eq!(again.ledger.history().len(), 5);
}
