//! What backup and restore have in common: who holds which slots, and the rounds over them.
//!
//! Not what is done with one slot (`crate::backup`). Invariant: every slot of the job ends done or
//! named.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slots::admin::{BackupSlots, Status};
use slots::{SlotId, SlotRanges};

use super::Session;
use crate::backup::rounds::{self, Holder, Queue, ROUNDS_MAX, Tally};
use crate::cluster::Door;
use crate::edge::{self, Bar, Connection, Deadline};
use crate::exit::{Exit, Failure};
use crate::names;
use crate::render::rate;
use crate::request::Request;

/// Between two rounds: a new owner is found within seconds.
const PAUSE: Duration = Duration::from_secs(1);
/// Streams from one node at once: one is read from memory while others are on their way.
const STREAMS_PER_NODE: usize = 4;

/// The connection a thread has kept, or a new one to its node; `None`: the slot is set back.
pub(super) fn reach(
    kept: Option<Connection>,
    slot: SlotId,
    queue: &Queue,
    door: &Door,
    tally: &Tally,
) -> Option<Connection> {
    match kept.map_or_else(|| door.open(&queue.endpoint), Ok) {
        Ok(open) => Some(open),
        Err(trouble) => {
            tally.set_back(slot, &queue.name, &trouble.into());
            None
        }
    }
}

/// The cluster as a job finds it.
pub(super) struct Found {
    /// As one node sees it.
    pub(super) status: Status,
    /// Those that own slots, as each says of itself.
    pub(super) holders: Vec<Holder>,
    /// Those that own slots and gave no answer, with the reason.
    silent: Vec<String>,
}

impl Found {
    /// Slots with keys, of these.
    pub(super) fn with_keys(&self, slots: &SlotRanges) -> SlotRanges {
        let held = self.holders.iter().flat_map(|holder| &holder.slots.held);
        let held = held.filter_map(|held| SlotId::new(held.slot));
        held.filter(|slot| slots.contains(*slot)).collect()
    }

    /// Slots that a node says to own, of these.
    pub(super) fn owned(&self, slots: &SlotRanges) -> SlotRanges {
        let owned = self.holders.iter().map(Holder::owned);
        let mut all = SlotRanges::new();
        owned.for_each(|owned| all.extend(owned.iter().filter(|slot| slots.contains(*slot))));
        all
    }
}

/// The slots named by options; none named: all.
pub(super) fn named(slots: &[SlotRanges]) -> SlotRanges {
    if slots.is_empty() {
        return SlotRanges::all();
    }
    slots.iter().flat_map(SlotRanges::iter).collect()
}

impl Session {
    /// Asks every node what it holds.
    pub(super) fn find_holders(&mut self) -> Result<Found, Failure> {
        let status = self.cluster.status()?;
        let heard = self.cluster.ask_each::<BackupSlots>(&status, &Request::BackupSlots);
        let (mut holders, mut silent) = (Vec::new(), Vec::new());
        for (node, (_, answer)) in status.nodes.iter().zip(heard) {
            let name = names::shown(node).to_owned();
            let endpoint = self.cluster.endpoint_of(&node.client);
            match (answer, endpoint) {
                (Ok(slots), Some(endpoint)) => holders.push(Holder { name, endpoint, slots }),
                (Err(why), _) if node.slot_count > 0 => {
                    silent.push(format!("{name} gives no answer: {why}"));
                }
                _ => {}
            }
        }
        Ok(Found { status, holders, silent })
    }

    /// Looks who holds what until every one of these slots has an owner that says so.
    pub(super) fn find_all(&mut self, slots: &SlotRanges) -> Result<Found, Failure> {
        let mut rounds = 1;
        loop {
            let found = self.find_holders();
            let orphans = match &found {
                Ok(found) => slots.without(&found.owned(slots)),
                Err(_) => slots.clone(),
            };
            if orphans.is_empty() || rounds == ROUNDS_MAX {
                let found = found?;
                if orphans.is_empty() {
                    return Ok(found);
                }
                let silent = found.silent.iter().map(|why| format!("; {why}")).collect::<String>();
                return Err(Failure::new(
                    Exit::Unreachable,
                    format!(
                        "no node serves slots {orphans}: `slotctl slots` shows whose they \
                         are{silent}; nothing was done"
                    ),
                ));
            }
            rounds += 1;
            Deadline::after(PAUSE * 2).pause(PAUSE);
        }
    }

    /// Carries slots in rounds, each over `STREAMS_PER_NODE` threads a node. `work` takes slots
    /// from its queue until that is empty or the tally is stopped; it returns what it made, and
    /// the slots it did. What is left in the end is returned with the results.
    pub(super) fn carry<R: Send>(
        &mut self,
        what: &'static str,
        mut left: BTreeSet<SlotId>,
        (tally, keys): (&Tally, u64),
        work: impl Fn(&Queue) -> (R, Vec<SlotId>) + Sync,
    ) -> (Vec<R>, BTreeSet<SlotId>) {
        let (mut results, whole) = (Vec::new(), left.len());
        let mut bar = Bar::new(what, self.cluster.terminal.quiet());
        for round in 0..ROUNDS_MAX {
            if left.is_empty() || tally.is_stopped() {
                break;
            }
            if round > 0 {
                Deadline::after(PAUSE * 2).pause(PAUSE);
            }
            let Ok(found) = self.find_holders() else { continue };
            let queues = rounds::queues(&found.holders, &left);
            let threads: Vec<&Queue> =
                queues.iter().flat_map(|queue| [queue; STREAMS_PER_NODE]).collect();
            let ended = edge::work_all(
                &threads,
                |queue| work(queue),
                || {
                    show(&mut bar, tally, whole, keys);
                },
            );
            for (result, done) in ended {
                results.push(result);
                done.iter().for_each(|slot| {
                    left.remove(slot);
                });
            }
        }
        (results, left)
    }
}

/// Slots count in the bar, and keys where there are few slots.
fn show(bar: &mut Bar, tally: &Tally, slots: usize, keys: u64) {
    let load = |sum: &std::sync::atomic::AtomicU64| sum.load(Ordering::SeqCst);
    let (done, bytes) = (load(&tally.slots), load(&tally.bytes));
    let note = format!(
        "{done} of {slots} slots, {} of {keys} keys, {}",
        load(&tally.keys),
        rate(bytes, bar.time())
    );
    bar.show(done, slots as u64, &note);
}
