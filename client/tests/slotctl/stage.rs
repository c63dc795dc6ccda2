//! Three nodes that play a move: each look at the owner moves some slots on.
//!
//! Not a server: one state for all, no keys. Invariant: the table version grows by one with each
//! change of the state, as in a log.

use std::sync::{Arc, Mutex, MutexGuard};

use slots::SlotRanges;
use slots::admin::{
    BackupSlots, Done, HeldSlot, HistoryRecord, MoveBegun, MoveHere, MoveSource, MoveStatus, Moves,
    RefusedSlots, Status,
};

use crate::fake::{Fake, Reaction, id, json};
use crate::{answer_as, cluster};

/// The id of the first move; the last digit counts.
pub(crate) const MOVE: &str = "5f1c8a2e00d1b7c0";

/// A move on the stage.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) to: usize,
    /// Who gave slots to it.
    pub(crate) from: Vec<usize>,
    pub(crate) slots: SlotRanges,
    pub(crate) left: SlotRanges,
    pub(crate) ended: Option<&'static str>,
}

/// All that the nodes know.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) version: u64,
    pub(crate) owned: [SlotRanges; 3],
    pub(crate) orders: Vec<Order>,
    /// Slots that go over at each look.
    pub(crate) pace: usize,
    pub(crate) history: Vec<HistoryRecord>,
    pub(crate) draining: Option<usize>,
    /// These answer nothing.
    pub(crate) dead: Vec<usize>,
    /// Questions for its status that node b has answered.
    pub(crate) asked_b: usize,
}

/// The stage.
#[derive(Clone)]
pub(crate) struct Stage(Arc<Mutex<State>>);

pub(crate) fn slots(text: &str) -> SlotRanges {
    if text.is_empty() { SlotRanges::new() } else { text.parse().expect("slots") }
}

impl Stage {
    /// Thirds, as `fake::status` has them; two slots go over at each look.
    pub(crate) fn new() -> Stage {
        let owned = ["0-5460", "5461-10922", "10923-16383"].map(slots);
        Stage(Arc::new(Mutex::new(State {
            version: 52,
            owned,
            orders: Vec::new(),
            pace: 2,
            history: Vec::new(),
            draining: None,
            dead: Vec::new(),
            asked_b: 0,
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic there")
    }

    /// The nodes; `change` may answer in their place.
    pub(crate) fn nodes<C>(&self, change: C) -> Vec<Fake>
    where
        C: Fn(usize, &str, &mut State) -> Option<Reaction> + Clone + Send + Sync + 'static,
    {
        let stage = self.clone();
        cluster(move |n, line, status| {
            let mut state = stage.state();
            if state.dead.contains(&n) {
                return Reaction::Close;
            }
            if let Some(reaction) = change(n, line, &mut state) {
                return reaction;
            }
            state.answer(n, line, status)
        })
    }

    /// The nodes as they are.
    pub(crate) fn play(&self) -> Vec<Fake> {
        self.nodes(|_, _, _| None)
    }
}

impl State {
    /// What node `n` answers.
    pub(crate) fn answer(&mut self, n: usize, line: &str, status: Status) -> Reaction {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["SLOTD", "STATUS"] => {
                self.asked_b += usize::from(n == 1);
                json(&self.status(status))
            }
            ["SLOTD", "MOVES", ..] => {
                self.go_on(n);
                json(&self.moves(n))
            }
            ["SLOTD", "MOVE", wanted, to, ..] => json(&self.begin(wanted, to)),
            ["SLOTD", "CANCEL", wanted] => {
                self.end(wanted, "cancelled");
                let (table_version, text) = (self.version, format!("move {wanted} ended"));
                json(&Done { table_version, changed: true, text, refused: Vec::new() })
            }
            ["SLOTD", "BACKUP", "SLOTS"] => {
                let held = self.owned[n].iter().take(200);
                let held = held.map(|slot| HeldSlot { slot: slot.number(), keys: 10, bytes: 100 });
                let owned = self.owned[n].to_string();
                json(&BackupSlots { table_version: self.version, owned, held: held.collect() })
            }
            ["SLOTD", "HISTORY", ..] => json(&self.history),
            ["SLOTD", "NODE", "DRAIN", node] => {
                self.draining = (0..3).find(|at| id(*at) == *node);
                self.version += 1;
                answer_as(line, status)
            }
            _ => answer_as(line, status),
        }
    }

    pub(crate) fn status(&self, mut status: Status) -> Status {
        status.table_version = self.version;
        for (at, node) in status.nodes.iter_mut().enumerate() {
            node.slots = self.owned[at].to_string();
            node.slot_count = self.owned[at].count() as u32;
            if self.draining == Some(at) {
                node.state = "draining".into();
            }
        }
        status
    }

    pub(crate) fn begin(&mut self, wanted: &str, to: &str) -> MoveBegun {
        let to = (0..3).find(|at| id(*at) == to).expect("a node");
        self.version += 1;
        let taken: SlotRanges =
            self.orders.iter().flat_map(|order| order.left.iter().collect::<Vec<_>>()).collect();
        let (wanted, taken) = (slots(wanted), taken);
        let ours = wanted.without(&taken);
        let refused = wanted.without(&ours);
        let refused = (!refused.is_empty()).then(|| RefusedSlots {
            slots: refused.to_string(),
            why: format!("they are under move {}", self.orders[0].id),
        });
        let id_of = format!("{}{}", &MOVE[..15], self.orders.len());
        let (left, ended) = (ours.clone(), None);
        let owns = |n: &usize| self.owned[*n].iter().any(|slot| ours.contains(slot));
        let from = (0..3).filter(owns).collect();
        let order = Order { id: id_of.clone(), to, from, slots: ours.clone(), left, ended };
        self.orders.push(order);
        MoveBegun {
            table_version: self.version,
            id: id_of,
            to: id(to),
            to_name: name(to),
            slots: ours.to_string(),
            sources: self.sources(&ours),
            changed: true,
            text: "it has begun".into(),
            refused: refused.into_iter().collect(),
        }
    }

    fn sources(&self, slots: &SlotRanges) -> Vec<MoveSource> {
        let part = |n: usize| {
            let theirs = slots.without(&slots.without(&self.owned[n]));
            let slots = theirs.to_string();
            (!theirs.is_empty()).then(|| MoveSource { node: id(n), name: name(n), slots })
        };
        (0..3).filter_map(part).collect()
    }

    /// Some of node `n`'s slots go over.
    fn go_on(&mut self, n: usize) {
        for order in &mut self.orders {
            let left = order.left.iter().filter(|slot| self.owned[n].contains(*slot));
            let gone: SlotRanges = left.take(self.pace).collect();
            if gone.is_empty() {
                continue;
            }
            self.version += 1;
            let detail = format!("{}: {gone}", order.id);
            let record = HistoryRecord {
                version: self.version,
                change: "CommitMove".into(),
                node: name(n),
                detail,
                ..HistoryRecord::default()
            };
            self.history.insert(0, record);
            order.left = order.left.without(&gone);
            self.owned[n] = self.owned[n].without(&gone);
            self.owned[order.to].extend(gone.iter());
            if order.left.is_empty() {
                order.ended = Some("moved");
            }
        }
    }

    /// The move ends before its end.
    pub(crate) fn end(&mut self, wanted: &str, how: &'static str) {
        self.version += 1;
        for order in self.orders.iter_mut().filter(|order| order.id == wanted) {
            order.left = SlotRanges::new();
            order.ended = Some(how);
        }
    }

    fn moves(&self, n: usize) -> Moves {
        let status = |order: &Order| {
            let gave = order.from.contains(&n);
            let moved = order.slots.count() - order.left.count();
            let here = gave.then(|| MoveHere {
                slots: order.slots.count() as u32,
                slots_moved: moved as u32,
                keys: order.slots.count() as u64 * 10,
                keys_moved: moved as u64 * 10,
                bytes: order.slots.count() as u64 * 100,
                bytes_sent: moved as u64 * 100,
                rate: 100,
                longest_pause_us: 1_500,
                begun_ms: 1_796_061_559_000,
                ended: order.ended.map(str::to_owned),
                ..MoveHere::default()
            });
            MoveStatus {
                id: order.id.clone(),
                to: id(order.to),
                to_name: name(order.to),
                left: order.left.to_string(),
                sources: self.sources(&order.left),
                here,
            }
        };
        let is_listed = |status: &MoveStatus| !status.left.is_empty() || status.here.is_some();
        let moves = self.orders.iter().map(status).filter(is_listed).collect();
        Moves { table_version: self.version, moves }
    }
}

fn name(n: usize) -> String {
    format!("node-{}", ["a", "b", "c"][n])
}
