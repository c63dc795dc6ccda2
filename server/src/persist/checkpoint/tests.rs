//! Checkpoints on a simulated disk: what they hold, what is refused, deaths at every step.
//!
//! Also here: what other tests of `persist` share. Invariant: pure; seeded.

mod bad_input;
mod crashes;
mod golden;
mod rounds;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use slots::{Epoch, NodeId, OpIndex, SlotId, StoreId, TableVersion};

use super::*;
use crate::persist::log::sim::SimDisk;
use crate::persist::log::{DiskError, Ids};
use crate::persist::recovery::{LoadError, Loaded, Loader};
use crate::slot::{Admit, Key, Op, Ownership, Patience, Rooms};
use crate::store::table::Expiry;
use crate::stream::Budget;
use crate::testing::START_MS;

pub(in crate::persist) fn ids(n: u8) -> Ids {
    Ids { node: NodeId::from_bytes([n; 20]), store: StoreId::from_bytes([n; 16]) }
}

pub(in crate::persist) fn slot(number: u16) -> SlotId {
    SlotId::new(number).expect("a slot")
}

/// Small enough that a few keys are several chunks, a few slots several parts.
pub(in crate::persist) const SMALL: Measure =
    Measure { budget: Budget { entries: 2, bytes: 200 }, part_bytes: 600, unsynced_bytes: 300 };

pub(in crate::persist) fn about(after: u64) -> RoundAbout {
    RoundAbout { ids: ids(1), created_ms: START_MS, after }
}

/// What goes on during a round.
pub(in crate::persist) type BetweenChunks<'a> = dyn FnMut(Progress) -> bool + 'a;

/// The outside of a round: a clock that ticks when it is looked at, and what the test does.
pub(in crate::persist) struct Edge<'a> {
    ticks: Cell<u64>,
    pub(in crate::persist) between: RefCell<Box<BetweenChunks<'a>>>,
    pub(in crate::persist) sync: Box<dyn Fn() -> Result<(), DiskError> + 'a>,
    pub(in crate::persist) alone: BTreeMap<SlotId, TableVersion>,
}

impl<'a> Edge<'a> {
    pub(in crate::persist) fn new(between: impl FnMut(Progress) -> bool + 'a) -> Edge<'a> {
        Edge {
            ticks: Cell::new(0),
            between: RefCell::new(Box::new(between)),
            sync: Box::new(|| Ok(())),
            alone: BTreeMap::new(),
        }
    }

    pub(in crate::persist) fn still() -> Edge<'a> {
        Edge::new(|_| true)
    }
}

impl RoundEdge for Edge<'_> {
    fn mono_ns(&self) -> u64 {
        self.ticks.set(self.ticks.get() + 1);
        self.ticks.get()
    }
    fn after_chunk(&self, _: u64, so_far: Progress) -> bool {
        (self.between.borrow_mut())(so_far)
    }
    fn sync_log(&self) -> Result<(), DiskError> {
        (self.sync)()
    }
    fn alone(&self, slot: SlotId) -> TableVersion {
        self.alone.get(&slot).copied().unwrap_or_default()
    }
}

/// The node owns the slot from now on.
pub(in crate::persist) fn own(rooms: &Rooms, slot: SlotId, epoch: u64) {
    rooms.install(slot, Ownership::Owned, Epoch(epoch));
}

/// The node owns it no more.
pub(in crate::persist) fn lose(rooms: &Rooms, slot: SlotId, epoch: u64) {
    rooms.install(slot, Ownership::Foreign, Epoch(epoch));
}

pub(in crate::persist) fn set(rooms: &Rooms, slot: SlotId, key: &str, value: &str) {
    let Admit::Served(mut owned) = rooms.admit(slot, START_MS, Patience::Block) else {
        panic!("slot {} is served", slot.number());
    };
    let (key, value) = (Key::new(key.as_bytes()), value.as_bytes());
    owned.apply(Op::SetString { key, value, expiry: Expiry::Never });
}

/// Epoch and index of a slot's content.
pub(in crate::persist) fn place(rooms: &Rooms, slot: SlotId) -> (Epoch, OpIndex) {
    let reading = rooms.read(slot);
    (reading.epoch(), reading.index())
}

/// Loads a checkpoint alone.
pub(in crate::persist) fn load(disk: &SimDisk, rooms: &Rooms) -> Result<Option<Loaded>, LoadError> {
    let Some(checkpoint) = Checkpoint::find(disk.clone(), ids(1))? else { return Ok(None) };
    let (loader, mut buffer) = (Loader::new(rooms, START_MS), Vec::new());
    for entry in checkpoint.slots() {
        loader.slot(&checkpoint, entry, &mut buffer)?;
    }
    loader.finish().map(Some)
}
