//! What the tests of the log share: a log on a simulated disk, and what it was told.
//!
//! Not for the product. Invariant: pure; seeded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use slots::{Epoch, NodeId, OpIndex, SlotId, StoreId};

use super::super::sim::{SimDisk, SimFile};
use super::super::*;

/// Small enough that a few records fill a chunk, a few chunks a file.
pub(super) const SMALL: Sizes = Sizes { chunk_bytes: 1024, chunks: 4 };
pub(super) const LANES: u16 = 3;

pub(super) fn ids(n: u8) -> Ids {
    Ids { node: NodeId::from_bytes([n; 20]), store: StoreId::from_bytes([n; 16]) }
}

pub(super) fn options(lanes: u16, run: u64) -> Options {
    Options { lanes, sizes: SMALL, run }
}

pub(super) fn slot(number: u16) -> SlotId {
    SlotId::new(number).expect("a slot")
}

/// A larger group is written in parts.
pub(super) const PART_BYTES: usize = 2500;

/// A record as the test knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Told {
    pub(super) entry: Entry,
    pub(super) bytes: usize,
    pub(super) position: Position,
}

/// The payload of the nth record of a test.
pub(super) fn payload(n: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (n ^ at.wrapping_mul(31)) as u8).collect()
}

pub(super) fn entry(slot_number: u16, n: u64) -> Entry {
    let kind = Kind::ALL[(n % 9) as usize];
    Entry { kind, slot: slot(slot_number), epoch: Epoch(n / 7), index: OpIndex(n) }
}

/// A log that was opened, and what was in it.
pub(super) struct Opened {
    pub(super) keeper: Keeper<SimDisk>,
    pub(super) found: Vec<Told>,
    pub(super) torn: Vec<Torn>,
}

impl Opened {
    pub(super) fn wal(&self) -> Arc<Wal<SimFile>> {
        Arc::clone(self.keeper.wal())
    }

    pub(super) fn append(&self, slot: u16, n: u64, bytes: usize) -> Told {
        let entry = entry(slot, n);
        let position = self.keeper.wal().append_entry(entry, &payload(n, bytes));
        Told { entry, bytes, position }
    }
}

pub(super) fn open(disk: &SimDisk, trust: Trust, options: Options) -> Result<Opened, LogError> {
    open_with(disk, trust, options, Bells::silent())
}

pub(super) fn open_with(
    disk: &SimDisk,
    trust: Trust,
    options: Options,
    bells: Bells,
) -> Result<Opened, LogError> {
    let mut recovery = Recovery::find(disk.clone(), ids(1), trust)?;
    recovery.part_bytes = PART_BYTES.max(2 * options.sizes.chunk_bytes as usize);
    let (mut found, mut torn, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let progress = AtomicU64::new(0);
    for era in 0..recovery.eras() {
        for lane in 0..recovery.lanes(era) {
            let mut visit = |record: Found<'_>| {
                let Found { entry, position, payload: got } = record;
                let bytes = got.len();
                assert_eq!(got, payload(entry.index.0, bytes), "{entry:?}");
                found.push(Told { entry, bytes, position });
                Ok(())
            };
            let end = recovery.replay(era, lane, &progress, &mut visit)?;
            torn.extend(end.torn.clone());
            ends.push(end);
        }
    }
    let keeper = recovery.open(ends, options, bells)?;
    Ok(Opened { keeper, found, torn })
}

pub(super) fn fresh(seed: u64) -> (SimDisk, Opened) {
    let disk = SimDisk::new(seed);
    let mut opened = open(&disk, Trust::ProcessDied, options(LANES, seed)).expect("opens");
    assert_eq!(opened.keeper.tend(), Ok(Kept::Done));
    (disk, opened)
}
