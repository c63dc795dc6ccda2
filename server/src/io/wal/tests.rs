//! The same log on real files, behind its threads.
//!
//! Situations of the disk are played on the simulated one (`persist/log`); here is what only a
//! file system and threads can show. Invariant: each test has a folder of its own and takes it
//! away.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use slots::{Epoch, NodeId, OpIndex, SlotId, StoreId};

use super::*;
use crate::persist::log::{Kind, Position, Sizes};

/// A folder that goes with its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Temporary {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("slotd-wal-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SMALL: Sizes = Sizes { chunk_bytes: 16 * 1024, chunks: 8 };

fn ids() -> Ids {
    Ids { node: NodeId::from_bytes([1; 20]), store: StoreId::from_bytes([2; 16]) }
}

fn slot(number: u64) -> SlotId {
    SlotId::new(number as u16 % 16_384).expect("a slot")
}

fn hooks() -> Hooks {
    Hooks {
        on_progress: Box::new(|| {}),
        crowd: Box::new(Crowd::default),
        on_fatal: Box::new(|line| panic!("{line}")),
    }
}

/// What a start finds, as slot, index and length, and the log.
fn open_sized(
    folder: &Temporary,
    sizes: Sizes,
    lanes: u16,
    policy: Policy,
) -> (RunningWal, Vec<(u16, u64, usize)>) {
    let recovery = find(&folder.0, ids(), Trust::ProcessDied).expect("is found");
    let found = Mutex::new(Vec::new());
    let progress = AtomicU64::new(0);
    let ends = replay(&recovery, 2, &progress, &|record| {
        let entry = record.entry;
        found.lock().push((entry.slot.number(), entry.index.0, record.payload.len()));
        Ok(())
    });
    assert_eq!(progress.load(Relaxed), recovery.bytes_total());
    let options = Options { lanes, sizes, run: clock::random_u64() };
    let running = start(recovery, ends.expect("replays"), options, policy, hooks());
    (running.expect("starts"), found.into_inner())
}

fn open(folder: &Temporary, policy: Policy) -> (RunningWal, Vec<(u16, u64, usize)>) {
    open_sized(folder, SMALL, 4, policy)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = clock::now().mono_ns + 20_000_000_000;
    while !is_so() {
        assert!(clock::now().mono_ns < deadline, "never came: {what}");
        std::thread::yield_now();
    }
}

fn is_synced(running: &RunningWal, position: Position) -> bool {
    running.wal().synced(position.lane) >= position.at
}

#[test]
fn everything_is_there_when_another_opens_the_folder() {
    let folder = Temporary::new();
    let mut told = Vec::new();
    let mut next = 0;
    for policy in [Policy::Always, Policy::EverySec, Policy::No, Policy::Always] {
        let (running, mut found) = open(&folder, policy);
        found.sort_unstable();
        told.sort_unstable();
        let differs = found.iter().zip(&told).find(|(found, told)| found != told);
        let counts = (found.len(), told.len());
        assert!(found == told, "before {policy:?}: {differs:?}, counts {counts:?}");
        for _ in 0..2000 {
            next += 1;
            // Some need a file of their own.
            let bytes = if next % 500 == 0 { 40_000 } else { (next % 300) as usize };
            running.wal().append(slot(next), Epoch(1), OpIndex(next), &vec![next as u8; bytes]);
            told.push((slot(next).number(), next, bytes));
        }
    }
}

#[test]
fn always_syncs_what_was_appended_by_itself() {
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::Always);
    for n in 1..200 {
        let position = running.wal().append(slot(n), Epoch(1), OpIndex(n), b"x");
        wait_until("the sync", || is_synced(&running, position));
    }
    assert!(running.figures().log.rounds_total >= 199);
    running.switch(Policy::No);
    let position = running.wal().append(slot(1), Epoch(1), OpIndex(1000), b"x");
    running.switch(Policy::EverySec);
    wait_until("the sync of a second", || is_synced(&running, position));
}

#[test]
fn whoever_waits_for_a_sync_waits_no_longer_than_a_switch() {
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::No);
    for n in 0..20 {
        let position = running.wal().append(slot(n), Epoch(1), OpIndex(n), b"x");
        assert_eq!(running.policy(), Policy::No);
        // To the policy that makes no rounds: one comes all the same.
        running.switch(Policy::No);
        wait_until("the round of a switch", || is_synced(&running, position));
    }
}

#[test]
fn every_policy_makes_the_round_that_is_asked_for() {
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::Always);
    let wal = running.wal();
    for policy in [Policy::Always, Policy::No, Policy::EverySec] {
        running.switch(policy);
        let position = wal.append(slot(1), Epoch(1), OpIndex(1), b"x");
        for _ in 0..2 {
            // The second finds nothing to sync.
            let round = wal.round_to_wait_for();
            wait_until("the round", || wal.rounds_done() >= round);
            assert!(is_synced(&running, position));
        }
    }
}

#[test]
fn sync_now_reaches_what_waits_in_memory() {
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::No);
    for n in 0..20 {
        let bytes = if n % 2 == 0 { 40_000 } else { 10 };
        let position = running.wal().append(slot(1), Epoch(1), OpIndex(n), &vec![7; bytes]);
        running.sync_now().expect("syncs");
        assert!(is_synced(&running, position), "{bytes} bytes");
    }
}

#[test]
fn a_log_that_was_removed_does_not_come_back_in_parts() {
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::Always);
    running.wal().append(slot(1), Epoch(1), OpIndex(1), b"x");
    drop(running);
    let going = folder.0.with_extension("removed");
    // The machine stopped within the removal: whatever is left of it is no log.
    std::fs::rename(&folder.0, &going).expect("renames");
    let found = find(&folder.0, ids(), Trust::PowerLost).expect("is found");
    assert!(found.is_empty() && !going.exists());
    drop(found);
    let (running, _) = open(&folder, Policy::Always);
    running.wal().append(slot(1), Epoch(1), OpIndex(1), b"x");
    drop(running);
    std::fs::create_dir(&going).expect("is made");
    remove_all(&folder.0).expect("removes");
    remove_all(&folder.0).expect("there is nothing to remove");
    assert!(!folder.0.exists() && !going.exists());
}

#[test]
fn rooms_append_groups_and_what_they_leave() {
    use crate::slot::Journal;
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::No);
    let journal = NodeJournal(Arc::clone(running.wal()));
    let group = journal.append(slot(9), Epoch(1), OpIndex(1), b"group");
    let left = journal.leave(slot(9), Epoch(2), OpIndex(2), b"flush");
    assert_eq!((group.lane, journal.lane(slot(9))), (left.lane, left.lane));
    assert!(0 < group.at && group.at < left.at);
    assert!(running.wal().is_written(NodeJournal::of_log(left)));
    drop((running, journal));
    let recovery = find(&folder.0, ids(), Trust::ProcessDied).expect("is found");
    let found = Mutex::new(Vec::new());
    let visit = |record: Found<'_>| {
        let Found { entry, payload, .. } = record;
        found.lock().push((entry.kind, entry.epoch.0, entry.index.0, payload.to_vec()));
        Ok(())
    };
    replay(&recovery, 1, &AtomicU64::new(0), &visit).expect("replays");
    let expected =
        [(Kind::OpGroup, 1, 1, b"group".to_vec()), (Kind::Drop, 2, 2, b"flush".to_vec())];
    assert_eq!(found.into_inner(), expected);
}

#[test]
fn always_syncs_a_record_of_its_own_file_by_itself() {
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::Always);
    for n in 1..20 {
        let position = running.wal().append(slot(n), Epoch(1), OpIndex(n), &[7; 40_000]);
        wait_until("the sync", || is_synced(&running, position));
    }
}

#[test]
fn a_start_is_a_mark() {
    let folder = Temporary::new();
    for _ in 0..2 {
        let (running, _) = open(&folder, Policy::Always);
        assert_eq!(running.figures().since_mark_bytes, 0);
        running.wal().append(slot(1), Epoch(1), OpIndex(1), b"x");
        assert_eq!(running.figures().since_mark_bytes, 40);
    }
}

#[test]
fn threads_that_panic_end_the_node_once() {
    let folder = Temporary::new();
    let recovery = find(&folder.0, ids(), Trust::ProcessDied).expect("is found");
    let calls = Arc::new(Mutex::new(Vec::new()));
    let called = Arc::clone(&calls);
    let hooks = Hooks {
        on_progress: Box::new(|| panic!("a hook that panics, as it is to")),
        crowd: Box::new(Crowd::default),
        on_fatal: Box::new(move |line| called.lock().push(line)),
    };
    let options = Options { lanes: 4, sizes: SMALL, run: 1 };
    let running = start(recovery, Vec::new(), options, Policy::Always, hooks).expect("starts");
    // The keeper tells of it, then who syncs.
    running.wal().append(slot(1), Epoch(1), OpIndex(1), &[7; 40_000]);
    wait_until("the end", || !calls.lock().is_empty());
    drop(running);
    let calls = calls.lock();
    assert!(calls.len() == 1 && calls[0].contains("panicked"), "{calls:?}");
}

#[test]
fn holes_of_a_restored_file_are_filled_before_it_is_mapped() {
    use std::os::unix::fs::MetadataExt;
    const BYTES: u64 = 1 << 20;
    let temporary = Temporary::new();
    let folder = Folder::open(&temporary.0).expect("opens");
    let path = temporary.0.join("wal.0000000001");
    let restored = std::fs::File::create(&path).expect("is made");
    restored.set_len(BYTES).expect("is a hole");
    let blocks = || std::fs::metadata(&path).expect("is there").blocks();
    assert_eq!(blocks(), 0);
    crate::persist::log::WalDisk::open(&folder, "wal.0000000001", "wal.0000000001", 1)
        .expect("maps");
    assert!(blocks() * 512 >= BYTES, "{} blocks", blocks());
}

#[test]
fn files_go_and_come_again_and_too_much_is_not_left_unsynced() {
    let folder = Temporary::new();
    let (running, _) = open(&folder, Policy::No);
    let wal = Arc::clone(running.wal());
    for n in 0..300_000 {
        wal.append(slot(n), Epoch(1), OpIndex(n), &[7; 100]);
    }
    wait_until("all written", || running.figures().log.waiting_bytes == 0);
    wait_until("the forced round", || running.figures().log.unsynced_bytes < 16 << 20);
    assert!(running.figures().log.rounds_total > 0);
    let files = || std::fs::read_dir(&folder.0).expect("lists").count();
    let many = files();
    wal.sync_round().expect("syncs");
    running.drop_before((0..4).map(|lane| wal.synced(lane)).collect());
    wait_until("files gone", || files() < many / 2);
    drop(running);
    let (_running, found) = open(&folder, Policy::No);
    assert!(found.len() < 20_000, "{} records", found.len());
}

#[test]
fn lanes_change_their_number_between_two_starts() {
    let folder = Temporary::new();
    let mut told = Vec::new();
    for (at, lanes) in [4, 7, 7, 2].into_iter().enumerate() {
        let (running, found) = open_sized(&folder, SMALL, lanes, Policy::Always);
        let mut of_five: Vec<u64> = found.iter().filter(|f| f.0 == 5).map(|f| f.1).collect();
        assert!(of_five.is_sorted(), "{of_five:?}");
        of_five.dedup();
        assert_eq!(of_five, told);
        for n in 0..100 {
            let index = at as u64 * 100 + n;
            running.wal().append(slot(5), Epoch(1), OpIndex(index), &[1; 50]);
            told.push(index);
        }
    }
}
