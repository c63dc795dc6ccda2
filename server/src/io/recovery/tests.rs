//! A store on real files: written by several threads, a checkpoint under way, loaded by several.
//!
//! Situations of the disk are played on the simulated one (`persist`). Invariant: each test has a
//! folder of its own and takes it away.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use slots::{Epoch, NodeId, OpIndex, SlotId, StoreId, TableVersion};

use super::*;
use crate::io::wal::{Crowd, Hooks, NodeWal, Policy, RunningWal};
use crate::io::{checkpoint, clock};
use crate::persist::checkpoint::{Progress, RoundAbout, RoundEdge, remove_leftovers, take};
use crate::persist::log::{DiskError, Entry, Ids, Kind, Options, Sizes, Trust, WalDisk};
use crate::persist::recovery::append_step;
use crate::slot::{Admit, Journal, Key, Op, Ownership, Patience, Position, Step};
use crate::store::table::Expiry;
use crate::stream::put_op;
use crate::stream::tests::{bare_rooms, dump};

const SMALL: Sizes = Sizes { chunk_bytes: 16 * 1024, chunks: 8 };
const NOW_MS: u64 = 1_700_000_000_000;

/// A folder that goes with its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        let name = format!("slotd-{name}-{}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ids() -> Ids {
    Ids { node: NodeId::from_bytes([1; 20]), store: StoreId::from_bytes([2; 16]) }
}

struct ToLog(Arc<NodeWal>);

impl ToLog {
    fn put(
        &self,
        kind: Kind,
        (slot, epoch): (SlotId, Epoch),
        at: OpIndex,
        bytes: &[u8],
    ) -> Position {
        let put = self.0.append_entry(Entry { kind, slot, epoch, index: at }, bytes);
        Position { lane: put.lane, at: put.at }
    }
}

impl Journal for ToLog {
    fn append(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.put(Kind::OpGroup, (slot, epoch), index, group)
    }
    fn leave(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.put(Kind::Drop, (slot, epoch), index, group)
    }
    fn step(&self, step: Step, slot: SlotId, place: (Epoch, OpIndex), payload: &[u8]) -> Position {
        let put = append_step(&self.0, step, slot, place, payload);
        Position { lane: put.lane, at: put.at }
    }
    fn lane(&self, slot: SlotId) -> u16 {
        self.0.lane_of(slot)
    }
}

struct Edge(Arc<NodeWal>);

impl RoundEdge for Edge {
    fn mono_ns(&self) -> u64 {
        clock::now().mono_ns
    }
    fn after_chunk(&self, _: u64, _: Progress) -> bool {
        true
    }
    fn sync_log(&self) -> Result<(), DiskError> {
        self.0.sync_round().map(drop)
    }
    fn alone(&self, _: SlotId) -> TableVersion {
        TableVersion(0)
    }
}

/// Loads what the folder has, and opens the log.
fn start(folder: &Temporary, rooms: &Rooms) -> (RunningWal, Loaded, Option<u64>) {
    let (log, checkpoint) = (folder.0.join("wal"), folder.0.join("checkpoint"));
    let found = checkpoint::find(&checkpoint, ids()).expect("sound");
    let recovery = wal::find(&log, ids(), Trust::ProcessDied).expect("sound");
    let progress = AtomicU64::new(0);
    let loaded = load(rooms, found.as_ref(), Some(&recovery), 3, NOW_MS, &progress);
    let mut loaded = loaded.expect("loads");
    assert_eq!(progress.load(Relaxed), bytes_total(found.as_ref(), Some(&recovery)));
    let options = Options { lanes: 4, sizes: SMALL, run: clock::random_u64() };
    let hooks = Hooks {
        on_progress: Box::new(|| {}),
        crowd: Box::new(Crowd::default),
        on_fatal: Box::new(|line| panic!("{line}")),
    };
    let ends = std::mem::take(&mut loaded.ends);
    let running = wal::start(recovery, ends, options, Policy::No, hooks).expect("starts");
    (running, loaded, found.map(|found| found.number()))
}

fn set(rooms: &Rooms, number: u64, value: u64) {
    let slot = SlotId::new((number % 300) as u16).expect("a slot");
    let Admit::Served(mut owned) = rooms.admit(slot, NOW_MS, Patience::Block) else {
        panic!("the slot is served");
    };
    let (key, value) = (format!("key{number}"), format!("value {value}"));
    let (key, value) = (Key::new(key.as_bytes()), value.as_bytes());
    owned.apply(Op::SetString { key, value, expiry: Expiry::Never });
}

#[test]
fn what_threads_wrote_around_a_checkpoint_is_loaded_by_threads() {
    let folder = Temporary::new("recovery");
    let disk = wal::Folder::open(&folder.0.join("checkpoint")).expect("a folder");
    let mut last = 0;
    for life in 0..3 {
        let rooms = bare_rooms();
        let (running, loaded, number) = start(&folder, &rooms);
        assert_eq!(number, (life > 0).then_some(last));
        assert_eq!(loaded.keys, if life > 0 { 8_000 } else { 0 });
        remove_leftovers(&disk, number).expect("removed");
        let wal = Arc::clone(running.wal());
        rooms.set_journal(Arc::new(ToLog(Arc::clone(&wal))), put_op);
        SlotId::all().take(300).for_each(|slot| rooms.install(slot, Ownership::Owned, Epoch(1)));
        (0..4_000).for_each(|number| set(&rooms, number, life));
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            for half in 0..2 {
                let (rooms, is_done) = (&rooms, &is_done);
                scope.spawn(move || {
                    for number in 0.. {
                        if number >= 4_000 && is_done.load(Relaxed) {
                            break;
                        }
                        set(rooms, 4_000 * half + number % 4_000, 10 * life + 1);
                    }
                });
            }
            let floors = (0..wal.lanes()).map(|lane| wal.tail(lane)).collect();
            let about = RoundAbout { ids: ids(), created_ms: NOW_MS, after: last };
            let taken = take(&rooms, &disk, about, &Edge(Arc::clone(&wal))).expect("taken");
            last = taken.number;
            assert!(taken.longest_hold_ns > 0 && taken.keys >= 4_000, "{taken:?}");
            running.drop_before(floors);
            is_done.store(true, Relaxed);
        });
        drop((running, wal));
        let found = bare_rooms();
        drop(start(&folder, &found));
        for slot in SlotId::all().take(300) {
            assert_eq!(dump(&found, slot), dump(&rooms, slot), "life {life}, slot {slot:?}");
        }
    }
}

#[test]
fn a_bad_chunk_ends_the_load_whatever_thread_meets_it() {
    let folder = Temporary::new("recovery-bad");
    let rooms = bare_rooms();
    SlotId::all().take(300).for_each(|slot| rooms.install(slot, Ownership::Owned, Epoch(1)));
    (0..4_000).for_each(|number| set(&rooms, number, 1));
    let disk = wal::Folder::open(&folder.0).expect("a folder");
    let log = wal::find(&folder.0.join("wal"), ids(), Trust::ProcessDied).expect("an empty one");
    let options = Options { lanes: 4, sizes: SMALL, run: 1 };
    let hooks = Hooks {
        on_progress: Box::new(|| {}),
        crowd: Box::new(Crowd::default),
        on_fatal: Box::new(|_| {}),
    };
    let running = wal::start(log, Vec::new(), options, Policy::No, hooks).expect("starts");
    let about = RoundAbout { ids: ids(), created_ms: NOW_MS, after: 0 };
    take(&rooms, &disk, about, &Edge(Arc::clone(running.wal()))).expect("taken");
    let name = "part.0000000001.00000";
    let mut bytes = std::fs::read(folder.0.join(name)).expect("a part");
    bytes[40_000] ^= 1;
    std::fs::write(folder.0.join(name), bytes).expect("written");
    let found = checkpoint::find(&folder.0, ids()).expect("its table is sound");
    let loaded = load(&bare_rooms(), found.as_ref(), None, 2, NOW_MS, &AtomicU64::new(0));
    let error = loaded.expect_err("damaged").to_string();
    assert!(error.contains(name) && error.contains("do not match their checksum"), "{error}");
    assert!(WalDisk::list(&disk).is_ok_and(|files| files.len() == 2));
}
