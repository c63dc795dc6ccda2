//! Slots on their way out to a backup and in from one: what SLOTD BACKUP and SLOTD RESTORE keep
//! between two calls.
//!
//! Not the words of the commands (`families/slotd`), nor the stream (`stream`). Whoever asked may
//! be gone: what nobody asks for any more is dropped by the node's ticker.
//! Invariant: one call at a time works at one of them, and no more are open than the limits say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use slots::SlotId;

use crate::slot::{Rooms, Stage, Staged};
use crate::stream::{Arrival, Source};

/// Streams out of one node at once: as many as several backups with a few each have.
pub const BACKUP_STREAMS_MAX: usize = 64;

/// Slots that come into one node at once: each is in memory as a whole.
pub const RESTORES_MAX: usize = 16;

/// After this time without a call one is dropped: longer than a stalled disk lasts.
pub const SECTION_IDLE: Duration = Duration::from_secs(60);

/// All of a node.
pub struct Sections {
    /// Out.
    pub outgoing: Desk<Source>,
    /// In.
    pub incoming: Desk<Incoming>,
}

impl Default for Sections {
    fn default() -> Sections {
        let (outgoing, incoming) = (Desk::new(BACKUP_STREAMS_MAX), Desk::new(RESTORES_MAX));
        Sections { outgoing, incoming }
    }
}

impl Sections {
    /// Drops what was not asked for lately. The node's ticker calls it.
    pub fn tick(&self, rooms: &Rooms, now_ns: u64) {
        drop(self.outgoing.take_idle(now_ns));
        for idle in self.incoming.take_idle(now_ns) {
            idle.work().stage.clear(rooms);
        }
    }
}

/// A slot that is being restored.
pub struct Incoming {
    /// What has come.
    pub stage: Stage,
    /// How far it has come.
    pub arrival: Arrival,
    /// May it take the place of keys that are there?
    pub over: Over,
    /// Taken out of the stage, and not in the slot yet.
    pub ready: Vec<Staged>,
    /// What became of the keys.
    pub counts: Counts,
    /// Has the first key, or the flush before it, been put into the slot?
    pub has_begun: bool,
}

/// What a restore does to a slot that has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It is refused.
    Nothing,
    /// It takes their place.
    Keys,
}

/// What became of a section's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They are in the slot.
    pub restored: u64,
    /// Their time had passed.
    pub expired: u64,
    /// Clients had written the key since the restore began: theirs stayed.
    pub kept: u64,
}

impl Incoming {
    /// Of this slot, with nothing there yet.
    pub fn new(slot: SlotId, over: Over) -> Incoming {
        Incoming {
            stage: Stage::new(slot),
            arrival: Arrival::new(slot),
            over,
            ready: Vec::new(),
            counts: Counts::default(),
            has_begun: false,
        }
    }

    /// Keys that are not in the slot yet.
    pub fn left(&self) -> u64 {
        self.stage.keys() + self.ready.len() as u64
    }
}

/// Numbered pieces of work that go on from call to call.
pub struct Desk<T> {
    most: usize,
    open: Mutex<BTreeMap<u64, Arc<Seat<T>>>>,
    last: AtomicU64,
}

/// One piece of work.
pub struct Seat<T> {
    used_ns: AtomicU64,
    work: Mutex<T>,
}

/// There are as many as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSeat {
    /// How many that is.
    pub most: usize,
}

impl<T> Desk<T> {
    fn new(most: usize) -> Desk<T> {
        Desk { most, open: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Begins; the number.
    ///
    /// # Errors
    /// There are as many as may be.
    pub fn begin(&self, work: T, now_ns: u64) -> Result<u64, NoSeat> {
        let mut open = self.open.lock();
        if open.len() >= self.most {
            return Err(NoSeat { most: self.most });
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let seat = Seat { used_ns: AtomicU64::new(now_ns), work: Mutex::new(work) };
        open.insert(number, Arc::new(seat));
        Ok(number)
    }

    /// One that is open. Being asked for counts as a sign of life.
    pub fn find(&self, number: u64, now_ns: u64) -> Option<Arc<Seat<T>>> {
        let seat = self.open.lock().get(&number).cloned()?;
        seat.used_ns.fetch_max(now_ns, Ordering::Relaxed);
        Some(seat)
    }

    /// Ends it.
    pub fn end(&self, number: u64) -> Option<Arc<Seat<T>>> {
        self.open.lock().remove(&number)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// None is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take_idle(&self, now_ns: u64) -> Vec<Arc<Seat<T>>> {
        let limit_ns = SECTION_IDLE.as_nanos() as u64;
        let mut open = self.open.lock();
        if open.is_empty() {
            return Vec::new();
        }
        let is_idle = |seat: &Arc<Seat<T>>| {
            let since_ns = now_ns.saturating_sub(seat.used_ns.load(Ordering::Relaxed));
            since_ns >= limit_ns && !seat.work.is_locked()
        };
        let idle: Vec<u64> =
            open.iter().filter(|(_, seat)| is_idle(seat)).map(|(number, _)| *number).collect();
        idle.iter().filter_map(|number| open.remove(number)).collect()
    }
}

impl<T> Seat<T> {
    /// The work, unless another call is at it.
    pub fn try_work(&self) -> Option<MutexGuard<'_, T>> {
        self.work.try_lock()
    }

    /// The work of one that was ended; waits for a call that is at it.
    pub fn work(&self) -> MutexGuard<'_, T> {
        self.work.lock()
    }
}
