//! Recovery on a simulated disk: scripts, walks with deaths, lives of a slot, single rules.
//!
//! Also here: the log as a room's journal, and a start. Invariant: pure; seeded.

mod rules;
mod scripts;
mod stage_walks;
mod stages;
mod walks;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use slots::{Epoch, OpIndex, SlotId};

use super::*;
use crate::persist::checkpoint::tests::ids;
use crate::persist::log::sim::{SimDisk, SimFile};
use crate::persist::log::{Keeper, Options, Recovery, Sizes, Trust, Wal};
use crate::slot::{Journal, Position, Rooms, Step};
use crate::testing::START_MS;

/// Small enough that a few records fill a chunk, a few chunks a file.
const SMALL_LOG: Sizes = Sizes { chunk_bytes: 1024, chunks: 4 };
const LANES: u16 = 3;

fn options(run: u64) -> Options {
    Options { lanes: LANES, sizes: SMALL_LOG, run }
}

/// The log as a journal, which notes what was appended.
struct ToLog {
    wal: Arc<Wal<SimFile>>,
    /// In order: whose, which, the place behind it.
    noted: Mutex<Vec<(SlotId, OpIndex, u64)>>,
}

impl ToLog {
    fn new(wal: &Arc<Wal<SimFile>>) -> Arc<ToLog> {
        Arc::new(ToLog { wal: Arc::clone(wal), noted: Mutex::default() })
    }

    fn put(&self, entry: Entry, group: &[u8]) -> Position {
        let position = self.wal.append_entry(entry, group);
        self.noted.lock().push((entry.slot, entry.index, position.at));
        Position { lane: position.lane, at: position.at }
    }
}

impl Journal for ToLog {
    fn append(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.put(Entry { kind: Kind::OpGroup, slot, epoch, index }, group)
    }
    fn leave(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
        self.put(Entry { kind: Kind::Drop, slot, epoch, index }, group)
    }
    fn step(&self, step: Step, slot: SlotId, place: (Epoch, OpIndex), payload: &[u8]) -> Position {
        let position = append_step(&self.wal, step, slot, place, payload);
        Position { lane: position.lane, at: position.at }
    }
    fn lane(&self, slot: SlotId) -> u16 {
        self.wal.lane_of(slot)
    }
}

/// The folders of one node.
#[derive(Clone)]
struct Disks {
    log: SimDisk,
    checkpoint: SimDisk,
}

impl Disks {
    fn new(seed: u64) -> Disks {
        let disks = Disks { log: SimDisk::new(seed), checkpoint: SimDisk::new(seed ^ 1) };
        disks.checkpoint.lives_with(&disks.log);
        disks
    }

    /// The process died, and with `power` the machine.
    fn after_death(&self, power: Option<u64>) -> Disks {
        let after = |disk: &SimDisk, salt: u64| match power {
            Some(seed) => disk.crash(seed ^ salt),
            None => disk.restart(),
        };
        let disks = Disks { log: after(&self.log, 0), checkpoint: after(&self.checkpoint, 77) };
        disks.checkpoint.lives_with(&disks.log);
        disks
    }
}

/// A start: the log and what was in it.
struct Started {
    keeper: Keeper<SimDisk>,
    loaded: Loaded,
    /// Number of the checkpoint; 0: there was none.
    number: u64,
}

/// As a node starts, up to where it would open its doors. `look` sees each record before it is
/// taken.
fn start(
    disks: &Disks,
    rooms: &Rooms,
    (trust, run): (Trust, u64),
    mut look: impl FnMut(&Found<'_>),
) -> Result<Started, LoadError> {
    let checkpoint = Checkpoint::find(disks.checkpoint.clone(), ids(1))?;
    let recovery = Recovery::find(disks.log.clone(), ids(1), trust)?;
    let (loader, mut buffer) = (Loader::new(rooms, START_MS), Vec::new());
    for entry in checkpoint.iter().flat_map(Checkpoint::slots) {
        let checkpoint = checkpoint.as_ref().expect("it has slots");
        loader.slot(checkpoint, entry, &mut buffer)?;
    }
    let mut ends = Vec::new();
    for era in 0..recovery.eras() {
        for lane in 0..recovery.lanes(era) {
            let mut visit = |found: Found<'_>| {
                look(&found);
                loader.record(found)
            };
            ends.push(recovery.replay(era, lane, &AtomicU64::new(0), &mut visit)?);
        }
    }
    let mut loaded = loader.finish()?;
    loaded.torn = ends.iter().filter_map(|end| end.torn.clone()).collect();
    let keeper = recovery.open(ends, options(run), crate::persist::log::Bells::silent())?;
    let number = checkpoint.map_or(0, |checkpoint| checkpoint.number());
    Ok(Started { keeper, loaded, number })
}
