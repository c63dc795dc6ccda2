//! What operators are told of moves: how far they are, and for a while how they ended.
//!
//! Invariant: at most `KEPT` moves are remembered, the oldest that ended go first.

use std::collections::BTreeMap;
use std::time::Duration;

use slots::admin::MoveHere;
use slots::{MoveId, NodeId, SlotId, SlotTable};

use super::Book;
use crate::command::Now;
use crate::command::moves::MoveSeen;
use crate::migration::Outcome;

/// How often the rate is looked at.
const SAMPLE: Duration = Duration::from_millis(500);
/// Moves that are remembered.
const KEPT: usize = 64;

/// All moves away from this node.
#[derive(Default)]
pub(super) struct Tallies {
    by_id: BTreeMap<MoveId, Tally>,
}

/// One move's part of this node.
#[derive(Clone, Default)]
pub(super) struct Tally {
    pub(super) to: Option<NodeId>,
    pub(super) slots: u32,
    pub(super) slots_moved: u32,
    pub(super) keys: u64,
    pub(super) keys_moved: u64,
    pub(super) bytes: u64,
    pub(super) bytes_sent: u64,
    pub(super) longest_pause: Duration,
    pub(super) begun_ns: u64,
    pub(super) ended: Option<&'static str>,
    pub(super) ended_ns: u64,
    /// Bytes a second, lately.
    pub(super) rate: u64,
    /// When that was looked at last, and the bytes then.
    sampled: (u64, u64),
    /// Keys of each slot that is on its way.
    open: BTreeMap<SlotId, u64>,
}

impl Book {
    /// How far each move is.
    pub(super) fn report(&mut self, now: Now) -> Vec<MoveSeen> {
        self.tallies.sample(now.mono_ns);
        let unix_ms = |mono_ns: u64| match mono_ns {
            0 => 0,
            at => now.unix_ms.saturating_sub(now.mono_ns.saturating_sub(at) / 1_000_000),
        };
        let mut all: BTreeMap<MoveId, MoveHere> = BTreeMap::new();
        for (id, tally) in self.tallies.all() {
            all.insert(
                id,
                MoveHere {
                    slots: tally.slots,
                    slots_moved: tally.slots_moved,
                    keys: tally.keys,
                    keys_moved: tally.keys_moved,
                    bytes: tally.bytes,
                    bytes_sent: tally.bytes_sent,
                    rate: tally.rate,
                    longest_pause_us: tally.longest_pause.as_micros() as u64,
                    begun_ms: unix_ms(tally.begun_ns),
                    ended: tally.ended.map(str::to_owned),
                    ended_ms: unix_ms(tally.ended_ns),
                    ..MoveHere::default()
                },
            );
        }
        for entry in self.entries.values() {
            let Some(here) = entry.move_id().and_then(|id| all.get_mut(&id)) else { continue };
            here.lag += entry.lag();
            match (entry.is_sealed(), entry.is_joining()) {
                (true, _) => here.sealed += 1,
                (false, true) => here.joining += 1,
                (false, false) => here.copying += 1,
            }
            if let Some(why) = entry.blocked {
                here.blocked = Some(why.to_owned());
            }
        }
        let to = |id| self.tallies.by_id.get(&id).and_then(|tally| tally.to);
        all.into_iter().map(|(id, here)| MoveSeen { id, to: to(id), here }).collect()
    }
}

impl Tallies {
    /// A slot of a move is looked after from now on.
    pub(super) fn begin(
        &mut self,
        (id, to): (MoveId, NodeId),
        slot: SlotId,
        (keys, bytes): (u64, u64),
        now_ns: u64,
    ) {
        if self.by_id.len() >= KEPT && !self.by_id.contains_key(&id) {
            let ended = self.by_id.iter().filter(|(_, tally)| tally.ended.is_some());
            let oldest = ended.min_by_key(|(_, tally)| tally.ended_ns).map(|(id, _)| *id);
            oldest.and_then(|oldest| self.by_id.remove(&oldest));
        }
        let tally = self.by_id.entry(id).or_default();
        if tally.begun_ns == 0 {
            (tally.begun_ns, tally.sampled) = (now_ns, (now_ns, 0));
        }
        tally.to = Some(to);
        if tally.open.insert(slot, keys).is_none() {
            tally.slots += 1;
            tally.keys += keys;
            tally.bytes += bytes;
        }
        tally.ended = None;
    }

    /// So many bytes of it were sent.
    pub(super) fn sent(&mut self, id: MoveId, bytes: u64) {
        if let Some(tally) = self.by_id.get_mut(&id) {
            tally.bytes_sent += bytes;
        }
    }

    /// A slot was closed for so long.
    pub(super) fn paused(&mut self, id: MoveId, pause: Duration) {
        if let Some(tally) = self.by_id.get_mut(&id) {
            tally.longest_pause = tally.longest_pause.max(pause);
        }
    }

    /// A slot's move is over.
    pub(super) fn end(
        &mut self,
        id: MoveId,
        slot: SlotId,
        outcome: Outcome,
        pause: Option<Duration>,
        now_ns: u64,
    ) {
        let Some(tally) = self.by_id.get_mut(&id) else { return };
        let Some(keys) = tally.open.remove(&slot) else { return };
        if let Some(pause) = pause {
            tally.longest_pause = tally.longest_pause.max(pause);
        }
        if outcome == Outcome::Moved {
            tally.slots_moved += 1;
            tally.keys_moved += keys;
        }
        if tally.open.is_empty() {
            tally.ended_ns = now_ns;
            tally.ended = Some(match outcome {
                Outcome::Moved => "moved",
                Outcome::Withdrawn => "cancelled",
                Outcome::Lost | Outcome::OtherEpoch => "lost",
            });
        }
    }

    /// The table is further: where each move goes.
    pub(super) fn learn(&mut self, table: &SlotTable, _: NodeId, now_ns: u64) {
        for (id, tally) in &mut self.by_id {
            let planned = |slot: &SlotId| table.slot(*slot).planned_move();
            let is_on = |slot: &SlotId| planned(slot).is_some_and(|planned| planned.id == *id);
            // Withdrawn while the slot stays looked after.
            let over: Vec<SlotId> =
                tally.open.keys().copied().filter(|slot| !is_on(slot)).collect();
            let is_over = !over.is_empty() && over.len() == tally.open.len();
            over.iter().for_each(|slot| {
                tally.open.remove(slot);
            });
            if is_over && tally.ended.is_none() {
                (tally.ended, tally.ended_ns) = (Some("cancelled"), now_ns);
            }
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (MoveId, &Tally)> {
        self.by_id.iter().map(|(id, tally)| (*id, tally))
    }

    /// Says how fast bytes went lately. Called now and then.
    pub(super) fn sample(&mut self, now_ns: u64) {
        for tally in self.by_id.values_mut().filter(|tally| tally.ended.is_none()) {
            let passed_ns = now_ns.saturating_sub(tally.sampled.0);
            if passed_ns >= SAMPLE.as_nanos() as u64 {
                let bytes = tally.bytes_sent - tally.sampled.1;
                tally.rate = (u128::from(bytes) * 1_000_000_000 / u128::from(passed_ns)) as u64;
                tally.sampled = (now_ns, tally.bytes_sent);
            }
        }
    }
}
