//! openraft's own storage tests on the simulated disk, restarts, and new generations.
//!
//! The thread and real files are tested in `io/raft_disk`. Invariant: one writer per folder.

use std::sync::Arc;

use openraft::storage::{RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{EntryPayload, RaftLogReader, RaftSnapshotBuilder, StorageHelper};
use slots::TableVersion;

use super::*;
use crate::control::raft::disk::kit::{SMALL, entry, id, member, vote};
use crate::control::raft::disk::sim::{Inline, SimDisk};

impl From<u64> for Member {
    fn from(n: u64) -> Member {
        let mut bytes = [0; 20];
        bytes[12..].copy_from_slice(&n.to_be_bytes());
        Member(slots::NodeId::from_bytes(bytes))
    }
}

/// Keeps what it is told.
#[derive(Default)]
struct Told(Mutex<Vec<(u64, Vec<u64>)>>);

impl LedgerSink for Told {
    fn applied(&self, ledger: &Ledger, verdicts: &[(TableVersion, slots::Verdicts)]) {
        let versions = verdicts.iter().map(|(version, _)| version.0).collect();
        self.0.lock().push((ledger.table().version().0, versions));
    }
}

fn open_on(disk: &SimDisk, sink: Arc<dyn LedgerSink>) -> Result<(LogStore, Machine), StoreError> {
    open(disk.clone(), SMALL, sink, Box::new(|_| {}), |writer| Inline::desk(writer))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}

fn last(store: &mut LogStore) -> Option<LogId> {
    run(store.get_log_state()).expect("answers").last_log_id
}

struct OnSimDisk;

impl StoreBuilder<TableRaft, LogStore, Machine> for OnSimDisk {
    async fn build(&self) -> Result<((), LogStore, Machine), Failure> {
        let (store, machine) = open_on(&SimDisk::new(), Arc::new(Told::default())).expect("opens");
        Ok(((), store, machine))
    }
}

#[test]
fn it_passes_the_storage_tests_of_openraft() {
    Suite::test_all(OnSimDisk).expect("the suite passes");
}

#[test]
fn a_restart_applies_again_what_was_committed_and_no_more() {
    let disk = SimDisk::new();
    let (mut store, _machine) = open_on(&disk, Arc::new(Told::default())).expect("opens");
    run(async {
        store.save_vote(&vote(1, true)).await.expect("saved");
        store.blocking_append((0..=6).map(|index| entry(1, index, 9))).await.expect("appended");
        store.save_committed(Some(id(1, 4))).await.expect("noted");
    });
    let told = Arc::new(Told::default());
    let (mut store, mut machine) = open_on(&disk, told.clone()).expect("opens again");
    assert_eq!(*told.0.lock(), [(0, vec![])], "told once at the start");
    let state = run(StorageHelper::new(&mut store, &mut machine).get_initial_state());
    let state = state.expect("openraft takes it");
    assert_eq!(state.committed, Some(id(1, 4)));
    assert_eq!(last(&mut store), Some(id(1, 6)));
    assert_eq!(machine.ledger().table().version(), TableVersion(4));
    assert_eq!(told.0.lock()[1], (4, vec![0, 1, 2, 3, 4]));
}

#[test]
fn a_snapshot_survives_and_is_the_same_bytes_as_sent() {
    let disk = SimDisk::new();
    let (mut store, mut machine) = open_on(&disk, Arc::new(Told::default())).expect("opens");
    let snapshot = run(async {
        let entries: Vec<LogEntry> = (0..=5).map(|index| entry(1, index, 9)).collect();
        store.blocking_append(entries.clone()).await.expect("appended");
        machine.apply(entries).await.expect("applied");
        let built = machine.get_snapshot_builder().await.build_snapshot().await.expect("built");
        store.purge(id(1, 5)).await.expect("purged");
        built
    });
    let (mut store, mut again) = open_on(&disk, Arc::new(Told::default())).expect("opens again");
    let current = run(again.get_current_snapshot()).expect("answers").expect("there is one");
    assert_eq!(
        (&current.meta, current.snapshot.get_ref()),
        (&snapshot.meta, snapshot.snapshot.get_ref())
    );
    assert_eq!(again.ledger(), machine.ledger());
    assert_eq!(run(again.applied_state()).expect("answers").0, Some(id(1, 5)));
    assert!(run(store.try_get_log_entries(..)).expect("answers").is_empty());

    // Another node takes it in, and says so.
    let told = Arc::new(Told::default());
    let other = SimDisk::new();
    let (_store, mut follower) = open_on(&other, told.clone()).expect("opens");
    run(follower.install_snapshot(&current.meta, current.snapshot)).expect("installs");
    assert_eq!(*told.0.lock(), [(0, vec![]), (5, vec![])]);
    assert_eq!(follower.ledger(), machine.ledger());
}

#[test]
fn a_snapshot_with_other_bytes_than_announced_is_not_installed() {
    let disk = SimDisk::new();
    let (_store, mut machine) = open_on(&disk, Arc::new(Told::default())).expect("opens");
    let built = run(async {
        machine.apply([entry(1, 0, 9)]).await.expect("applied");
        machine.get_snapshot_builder().await.build_snapshot().await.expect("built")
    });
    let before = machine.ledger().clone();
    let mut damaged = built.snapshot.clone();
    damaged.get_mut()[60] ^= 1;
    let mut other = built.meta.clone();
    other.snapshot_id = "another".into();
    for (place, bytes) in [(&built.meta, damaged), (&other, built.snapshot)] {
        let error = run(machine.install_snapshot(place, bytes)).expect_err("refused");
        assert!(error.to_string().contains("expected"), "{error}");
    }
    assert_eq!(machine.ledger(), &before);
}

#[test]
fn applying_answers_every_entry_and_follows_the_members() {
    let told = Arc::new(Told::default());
    let (_store, mut machine) = open_on(&SimDisk::new(), told.clone()).expect("opens");
    let members = openraft::Membership::new(vec![[member(1), member(2)].into()], None);
    let blank = LogEntry { log_id: id(1, 1), payload: EntryPayload::Blank };
    let change = LogEntry { log_id: id(1, 2), payload: EntryPayload::Membership(members.clone()) };
    let answers = run(machine.apply([entry(1, 0, 9), blank, change])).expect("applied");
    let versions: Vec<u64> = answers.iter().map(|applied| applied.version).collect();
    assert_eq!(versions, [0, 1, 2]);
    let with_verdicts: Vec<bool> = answers.iter().map(|a| a.verdicts.is_some()).collect();
    assert_eq!(with_verdicts, [true, false, false]);
    let (applied, stored) = run(machine.applied_state()).expect("answers");
    assert_eq!((applied, stored.membership()), (Some(id(1, 2)), &members));
    assert_eq!(told.0.lock()[1], (2, vec![0]), "the version follows entries without a change");
}

#[test]
fn a_hole_or_a_giant_is_refused_and_the_log_stays_as_it_was() {
    let disk = SimDisk::new();
    let (mut store, _machine) = open_on(&disk, Arc::new(Told::default())).expect("opens");
    run(async {
        store.blocking_append([entry(1, 0, 9)]).await.expect("appended");
        let hole = store.blocking_append([entry(1, 2, 9)]).await.expect_err("refused");
        assert!(hole.to_string().contains("entry 2 for 1"), "{hole}");
        let giant = entry(1, 1, crate::control::raft::disk::MAX_ENTRY_BYTES);
        let giant = store.blocking_append([giant]).await.expect_err("refused");
        assert!(giant.to_string().contains("at most"), "{giant}");
        assert_eq!(store.get_log_state().await.expect("answers").last_log_id, Some(id(1, 0)));
    });
}

#[test]
fn a_reader_gets_a_bounded_piece_but_at_least_one_entry() {
    let disk = SimDisk::new();
    let sizes = Sizes::default();
    let sink: Arc<dyn LedgerSink> = Arc::new(Told::default());
    let opened = open(disk, sizes, sink, Box::new(|_| {}), |writer| Inline::desk(writer));
    let (mut store, _machine) = opened.expect("opens");
    run(async {
        let large = READ_BYTES / 2 - 1000;
        let entries = [entry(1, 0, large), entry(1, 1, large), entry(1, 2, 3 * READ_BYTES)];
        store.blocking_append(entries).await.expect("appended");
        assert!(store.entry_bytes() > 4 * READ_BYTES as u64 - 4000);
        let lengths = [(0, 3, 2), (1, 3, 1), (2, 3, 1), (2, 2, 0)];
        for (start, end, count) in lengths {
            let got = store.limited_get_log_entries(start, end).await.expect("answers");
            assert_eq!(got.len(), count, "{start}..{end}");
        }
        store.purge(id(1, 2)).await.expect("purged");
        assert_eq!(store.entry_bytes(), 0);
    });
}

#[test]
fn a_failed_disk_reaches_openraft_and_the_node() {
    let disk = SimDisk::new();
    let fatal = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&fatal);
    let on_fatal: OnFatal = Box::new(move |line| lines.lock().push(line));
    let sink: Arc<dyn LedgerSink> = Arc::new(Told::default());
    let opened = open(disk.clone(), SMALL, sink, on_fatal, |writer| Inline::desk(writer));
    let (mut store, mut machine) = opened.expect("opens");
    disk.fail_syncs();
    run(async {
        let error = store.blocking_append([entry(1, 0, 9)]).await.expect_err("failed");
        assert!(error.to_string().contains("cannot sync raft.log.00000001"), "{error}");
        let error = store.save_vote(&vote(1, false)).await.expect_err("failed");
        assert!(error.to_string().contains("cannot sync"), "{error}");
        let mut builder = machine.get_snapshot_builder().await;
        builder.build_snapshot().await.map(|_| ()).expect_err("failed");
    });
    assert_eq!(fatal.lock().len(), 1, "{:?}", fatal.lock());
}

#[test]
fn a_new_generation_stands_behind_all_the_old_one_held_whenever_it_is_interrupted() {
    let old = SimDisk::new();
    let (mut store, mut machine) = open_on(&old, Arc::new(Told::default())).expect("opens");
    run(async {
        store.save_vote(&vote(7, true)).await.expect("saved");
        let entries: Vec<LogEntry> = (0..=20).map(|index| entry(7, index, 300)).collect();
        store.blocking_append(entries.clone()).await.expect("appended");
        machine.apply(entries[..9].to_vec()).await.expect("applied");
        machine.get_snapshot_builder().await.build_snapshot().await.expect("built");
        store.purge(id(7, 5)).await.expect("purged");
    });
    let whole = read_whole(old.crash(0), SMALL).expect("reads");
    assert_eq!((whole.last, whole.term), (Some(id(7, 20)), 7));
    assert_eq!(whole.ledger.table().version(), TableVersion(20));
    let mut outcomes = [0, 0];
    for calls in 0..40 {
        let disk = old.crash(calls);
        disk.stop_after(calls);
        let written = write_fresh(disk.clone(), SMALL, whole.ledger.clone(), member(3));
        let disk = disk.crash(calls);
        let (mut store, mut machine) =
            open_on(&disk, Arc::new(Told::default())).expect("opens whenever the power went");
        let state = run(StorageHelper::new(&mut store, &mut machine).get_initial_state());
        let state = state.expect("openraft takes it");
        let place = LogId::new(openraft::CommittedLeaderId::new(8, member(3)), 21);
        let voters: Vec<Member> = state.membership_state.effective().voter_ids().collect();
        let is_new = voters == [member(3)];
        outcomes[usize::from(is_new)] += 1;
        if is_new {
            assert_eq!((last(&mut store), state.committed), (Some(place), Some(place)));
            assert_eq!(machine.ledger().history(), whole.ledger.history());
            assert_eq!(state.vote_ref().leader_id.term, 8);
        } else {
            assert!(written.is_err(), "{calls}");
            assert_eq!(last(&mut store), Some(id(7, 20)));
        }
    }
    assert!(outcomes.iter().all(|count| *count > 3), "{outcomes:?}");
}

#[test]
fn an_empty_folder_becomes_a_generation_too() {
    let disk = SimDisk::new();
    let place = write_fresh(disk.clone(), SMALL, Ledger::new(), member(3)).expect("written");
    assert_eq!((place.leader_id.term, place.index), (1, 1));
    let (mut store, mut machine) = open_on(&disk, Arc::new(Told::default())).expect("opens");
    let log = run(store.get_log_state()).expect("answers");
    assert_eq!((log.last_purged_log_id, log.last_log_id), (Some(place), Some(place)));
    assert_eq!(run(machine.applied_state()).expect("answers").0, Some(place));
}
