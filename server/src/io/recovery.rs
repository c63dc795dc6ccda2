//! The edge of recovery: the threads that load a store.
//!
//! Not what a record or a chunk means (`persist/recovery`). Invariant: no record of the log is
//! given before every slot of the checkpoint is there.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use parking_lot::Mutex;

use crate::io::wal;
use crate::persist::checkpoint::{Checkpoint, CheckpointDisk, CheckpointError, SlotEntry};
use crate::persist::log::Recovery;
use crate::persist::recovery::{LoadError, Loaded, Loader};
use crate::slot::Rooms;

/// Bytes that `load` goes through: its progress ends there.
pub fn bytes_total<D: CheckpointDisk>(
    checkpoint: Option<&Checkpoint<D>>,
    log: Option<&Recovery<wal::Folder>>,
) -> u64 {
    checkpoint.map_or(0, Checkpoint::bytes_total) + log.map_or(0, Recovery::bytes_total)
}

/// Brings checkpoint and log into rooms that nobody serves, with so many threads; `progress` grows
/// up to `bytes_total`.
///
/// # Errors
/// The first one that was met. The rooms hold half a store then: the node must not go on.
pub fn load<D: CheckpointDisk + Sync>(
    rooms: &Rooms,
    checkpoint: Option<&Checkpoint<D>>,
    log: Option<&Recovery<wal::Folder>>,
    threads: usize,
    now_ms: u64,
    progress: &AtomicU64,
) -> Result<Loaded, LoadError> {
    let loader = Loader::new(rooms, now_ms);
    if let Some(checkpoint) = checkpoint {
        load_slots(&loader, checkpoint, threads, progress)?;
    }
    let mut ends = Vec::new();
    if let Some(log) = log {
        ends = wal::replay(log, threads, progress, &|found| loader.record(found))?;
    }
    let mut loaded = loader.finish()?;
    loaded.torn = ends.iter().filter_map(|end| end.torn.clone()).collect();
    loaded.ends = ends;
    Ok(loaded)
}

fn load_slots<D: CheckpointDisk + Sync>(
    loader: &Loader<'_>,
    checkpoint: &Checkpoint<D>,
    threads: usize,
    progress: &AtomicU64,
) -> Result<(), CheckpointError> {
    // The largest first: the last one that is begun is a small one.
    let mut slots: Vec<&SlotEntry> = checkpoint.slots().iter().collect();
    slots.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let work = || {
        let mut buffer = Vec::new();
        while failure.lock().is_none() {
            let Some(entry) = slots.get(next.fetch_add(1, Relaxed)) else { return };
            if let Err(error) = loader.slot(checkpoint, entry, &mut buffer) {
                *failure.lock() = Some(error);
            }
            progress.fetch_add(entry.bytes, Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
