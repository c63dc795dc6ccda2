//! The same store on real files, behind its thread.
//!
//! Situations of the disk are played on the simulated one (`control/raft/disk`); here is what only
//! a file system can show. Invariant: each test has a folder of its own and takes it away.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{RaftLogReader, RaftSnapshotBuilder, StorageError};
use parking_lot::Mutex;
use slots::{TableVersion, Verdicts};

use super::*;
use crate::control::ledger::Ledger;
use crate::control::raft::disk::kit::{SMALL, entry, id, unique, vote};
use crate::control::raft::disk::{LogEntry, SEGMENT_BYTES, SPARE_FILE};
use crate::control::raft::types::{Member, TableRaft};

/// A folder that goes with its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Temporary {
        Temporary(std::env::temp_dir().join(unique("raft")).join("raft"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(parent) = self.0.parent() {
            let _ = std::fs::remove_dir_all(parent);
        }
    }
}

struct Nobody;

impl LedgerSink for Nobody {
    fn applied(&self, _: &Ledger, _: &[(TableVersion, Verdicts)]) {}
}

type Opened = (LogStore, Machine, JoinHandle<()>);

fn open_small(folder: &Path) -> Result<Opened, StoreError> {
    open(folder, SMALL, Arc::new(Nobody), Box::new(|_| {}))
}

fn close((store, machine, thread): Opened) {
    drop((store, machine));
    thread.join().expect("the thread ends by itself");
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

struct OnFiles;

impl StoreBuilder<TableRaft, LogStore, Machine, Temporary> for OnFiles {
    async fn build(&self) -> Result<(Temporary, LogStore, Machine), StorageError<Member>> {
        let folder = Temporary::new();
        let (store, machine, _thread) = open_small(&folder.0).expect("opens");
        Ok((folder, store, machine))
    }
}

#[test]
fn it_passes_the_storage_tests_of_openraft_on_files() {
    Suite::test_all(OnFiles).expect("the suite passes");
}

#[test]
fn everything_is_there_when_another_opens_the_folder() {
    let folder = Temporary::new();
    let entries: Vec<LogEntry> = (0..=40).map(|index| entry(1, index, 300)).collect();
    let (mut store, mut machine, thread) = open_small(&folder.0).expect("opens");
    run(async {
        store.save_vote(&vote(1, true)).await.expect("saved");
        for entry in &entries {
            store.blocking_append([entry.clone()]).await.expect("appended");
        }
        machine.apply(entries[..=20].to_vec()).await.expect("applied");
        machine.get_snapshot_builder().await.build_snapshot().await.expect("built");
        store.purge(id(1, 20)).await.expect("purged");
        store.save_vote(&vote(2, true)).await.expect("saved");
    });
    close((store, machine, thread));
    let (mut store, mut machine, _thread) = open_small(&folder.0).expect("opens again");
    run(async {
        let kept = store.try_get_log_entries(..).await.expect("answers");
        assert_eq!(kept, entries[21..]);
        assert_eq!(store.read_vote().await.expect("answers"), Some(vote(2, true)));
        assert_eq!(machine.applied_state().await.expect("answers").0, Some(id(1, 20)));
    });
}

#[test]
fn segments_have_their_room_before_they_are_used() {
    let folder = Temporary::new();
    let on_fatal: OnFatal = Box::new(|line| panic!("{line}"));
    let opened = open(&folder.0, Sizes::default(), Arc::new(Nobody), on_fatal).expect("opens");
    close(opened);
    let first = std::fs::metadata(folder.0.join("raft.log.00000001")).expect("it is there");
    assert_eq!(first.len(), u64::from(SEGMENT_BYTES));
    assert!(first.blocks() * 512 >= u64::from(SEGMENT_BYTES), "{} blocks", first.blocks());
    let spare = std::fs::metadata(folder.0.join(SPARE_FILE)).expect("made ahead");
    assert_eq!(spare.len(), u64::from(SEGMENT_BYTES));
}

#[test]
fn damage_names_the_file_as_the_operator_finds_it() {
    let folder = Temporary::new();
    let (mut store, machine, thread) = open_small(&folder.0).expect("opens");
    run(async {
        for index in 0..3 {
            store.blocking_append([entry(1, index, 9)]).await.expect("appended");
        }
    });
    close((store, machine, thread));
    let path = folder.0.join("raft.log.00000001");
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    file.write_all_at(&[0xff; 8], 60).expect("writes");
    let error = open_small(&folder.0).map(|_| ()).expect_err("refused");
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("raft.log.00000001") && text.contains("offset 32"), "{text}");
}

#[test]
fn a_folder_that_cannot_be_written_ends_the_log_with_one_line() {
    let folder = Temporary::new();
    let fatal = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&fatal);
    let on_fatal: OnFatal = Box::new(move |line| lines.lock().push(line));
    let (mut store, _machine, _thread) =
        open(&folder.0, SMALL, Arc::new(Nobody), on_fatal).expect("opens");
    run(store.save_vote(&vote(1, false))).expect("saved");
    std::fs::remove_dir_all(&folder.0).expect("removed");
    let error = run(store.save_vote(&vote(2, false))).expect_err("failed");
    assert!(error.to_string().contains("raft.vote: No such file"), "{error}");
    let fatal = fatal.lock().clone();
    assert_eq!(fatal.len(), 1, "{fatal:?}");
    assert!(fatal[0].contains("cannot be written"), "{fatal:?}");
}
