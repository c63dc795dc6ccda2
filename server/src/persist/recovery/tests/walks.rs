//! A node's life on a simulated disk: groups, checkpoints, files of the log that go, slots that go
//! and come back; and a death at any step, with the machine or alone.
//!
//! The model is each slot's content after each of its groups; nothing of the product's recovery is
//! used to say what is right. Invariant: what comes back is the content after one of the groups,
//! none before the last that was told to be safe; seeded, a failure names its seed and life.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::persist::checkpoint::tests::{BetweenChunks, Edge, SMALL, about, lose, own, slot};
use crate::persist::checkpoint::{NotTaken, remove_leftovers, take_by};
use crate::persist::log::sim::Dice;
use crate::persist::log::{DiskError, Doing, LogError};
use crate::slot::{Admit, Key, Op, Owned, Patience};
use crate::store::table::{EntryValue, Expiry};
use crate::stream::put_op;
use crate::stream::tests::bare_rooms;

const SLOTS_USED: u16 = 7;

pub(super) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn content(rooms: &Rooms, number: u16) -> Content {
    let reading = rooms.read(slot(number));
    let entries = reading.table().iter().map(|entry| match entry.value() {
        EntryValue::Bytes(text) => (entry.key().to_vec(), text.to_vec()),
        EntryValue::Boxed(_) => panic!("short strings lie in their entries"),
    });
    entries.collect()
}

/// A slot as the model knows it.
struct SlotModel {
    /// Content after each group, the epoch and the place behind it; first: nothing.
    states: Vec<(Content, u64, u64)>,
    /// The last group that survives a loss of power, and a death of the process.
    synced: usize,
    written: usize,
    is_owned: bool,
    epoch: u64,
}

impl SlotModel {
    fn new() -> SlotModel {
        let states = vec![(Content::new(), 0, 0)];
        SlotModel { states, synced: 0, written: 0, is_owned: false, epoch: 0 }
    }

    fn now(&self) -> Content {
        self.states.last().expect("there is a first").0.clone()
    }

    /// The last group whose record ends at or before a place.
    fn upto(&self, place: u64) -> usize {
        self.states.partition_point(|(_, _, at)| *at <= place) - 1
    }

    fn check(&mut self, rooms: &Rooms, number: u16, power: bool, name: &str) {
        let index = rooms.read(slot(number)).index().0 as usize;
        let safe = if power { self.synced } else { self.written };
        let name = format!("{name}, slot {number} at {index}");
        assert!(index >= safe, "{name}: {safe} was safe (power {power})");
        assert!(index < self.states.len(), "{name}: never written");
        let (want, epoch, _) = &self.states[index];
        assert_eq!(&content(rooms, number), want, "{name}");
        let found = rooms.read(slot(number)).epoch().0;
        assert!((*epoch..=self.epoch).contains(&found), "{name}: epoch {found}");
        self.states.truncate(index + 1);
        (self.synced, self.written) = (index, index);
    }
}

/// A node that runs.
pub(super) struct Node {
    pub(super) rooms: Rooms,
    pub(super) keeper: RefCell<Keeper<SimDisk>>,
    pub(super) journal: Arc<ToLog>,
    pub(super) disks: Disks,
    /// Number of the last checkpoint.
    pub(super) number: u64,
}

impl Node {
    pub(super) fn wal(&self) -> Arc<Wal<SimFile>> {
        Arc::clone(self.keeper.borrow().wal())
    }

    /// All that was journaled is synced.
    pub(super) fn sync_all(&self) -> Result<(), DiskError> {
        let wal = self.wal();
        let tails: Vec<u64> = (0..LANES).map(|lane| wal.tail(lane)).collect();
        self.keeper.borrow_mut().tend()?;
        wal.sync_round()?;
        if (0..LANES).zip(tails).all(|(lane, tail)| wal.synced(lane) >= tail) {
            return Ok(());
        }
        let (file, reason) = ("the log".to_owned(), "records wait for room".to_owned());
        Err(DiskError { doing: Doing::Write, file, reason })
    }
}

/// What the runs of a test came across: a workload that reaches nothing shows nothing.
#[derive(Default, Debug)]
struct Seen {
    taken: usize,
    not_taken: usize,
    dropped: usize,
    lost: usize,
    back: usize,
    from_checkpoint: usize,
    from_log: u64,
    torn: usize,
    full: usize,
}

struct Model {
    dice: Dice,
    slots: Vec<SlotModel>,
    seen: Seen,
    next: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let slots = (0..SLOTS_USED).map(|_| SlotModel::new()).collect();
        Model { dice: Dice(seed), slots, seen: Seen::default(), next: 0 }
    }

    /// What was journaled since, which made `content` of the slot.
    fn note(&mut self, node: &Node, number: u16, content: Content) {
        for (of, index, at) in node.journal.noted.lock().drain(..) {
            let model = &mut self.slots[usize::from(number)];
            assert_eq!((of, index.0), (slot(number), model.states.len() as u64));
            model.states.push((content.clone(), model.epoch, at));
        }
    }

    /// One group, or a slot that goes or comes.
    fn change(&mut self, node: &Node) {
        let number = self.dice.below(u64::from(SLOTS_USED)) as u16;
        let model = &mut self.slots[usize::from(number)];
        if !model.is_owned {
            model.epoch += 1 + self.dice.below(2);
            model.is_owned = true;
            self.seen.back += usize::from(model.states.len() > 1);
            return own(&node.rooms, slot(number), model.epoch);
        }
        if self.dice.below(12) == 0 {
            model.epoch += 1;
            model.is_owned = self.dice.below(4) == 0;
            let is_owned = model.is_owned;
            match is_owned {
                // Another epoch of its own.
                true => own(&node.rooms, slot(number), model.epoch),
                false => lose(&node.rooms, slot(number), model.epoch),
            }
            self.seen.lost += usize::from(!is_owned);
            return self.note(node, number, Content::new());
        }
        if node.wal().is_full() {
            self.seen.full += 1;
            return;
        }
        let Admit::Served(mut owned) = node.rooms.admit(slot(number), START_MS, Patience::Block)
        else {
            panic!("slot {number} is owned")
        };
        let mut content = model.now();
        (0..=self.dice.below(2)).for_each(|_| self.op(&mut owned, &mut content));
        drop(owned);
        self.note(node, number, content);
    }

    fn op(&mut self, owned: &mut Owned<'_>, content: &mut Content) {
        self.next += 1;
        let [one, two] = [(); 2].map(|()| format!("key{}", self.dice.below(9)).into_bytes());
        match self.dice.below(20) {
            0 => {
                owned.apply(Op::Flush);
                content.clear();
            }
            1..=3 => {
                owned.apply(Op::Delete { key: Key::new(&one) });
                content.remove(&one);
            }
            4..=6 if one != two && content.contains_key(&one) => {
                owned.apply(Op::Rename { from: Key::new(&one), to: Key::new(&two) });
                let value = content.remove(&one).expect("it is there");
                content.insert(two, value);
            }
            kind => {
                let bytes =
                    if kind == 7 { 900 + self.dice.below(600) } else { self.dice.below(250) };
                let mut value = format!("{} ", self.next).into_bytes();
                value.resize(value.len() + bytes as usize, b'v');
                let key = Key::new(&one);
                owned.apply(Op::SetString { key, value: &value, expiry: Expiry::Never });
                content.insert(one, value);
            }
        }
    }

    /// One step of a life. False: it is over.
    fn step(&mut self, node: &mut Node) -> bool {
        match self.dice.below(100) {
            0..=69 => self.change(node),
            70..=72 => drop(node.wal().sync_round()),
            73..=88 => drop(node.keeper.borrow_mut().tend()),
            89..=94 => self.round(node),
            95 if self.dice.below(3) == 0 => node.disks.log.set_room(Some(30_000)),
            96 => node.disks.log.full_at(self.dice.below(3)),
            97 => node.disks.checkpoint.full_at(self.dice.below(30)),
            _ => node.disks.log.set_room(None),
        }
        self.look(node);
        !node.disks.log.is_stopped()
    }

    /// What is safe by now. What was told to be synced counts even if it was told by a process
    /// that then died.
    fn look(&mut self, node: &Node) {
        let (wal, is_alive) = (node.wal(), !node.disks.log.is_stopped());
        for (number, model) in (0..).zip(&mut self.slots) {
            let lane = wal.lane_of(slot(number));
            model.synced = model.synced.max(model.upto(wal.synced(lane)));
            if is_alive {
                model.written = model.written.max(model.upto(wal.written(lane)));
            }
        }
    }

    /// A checkpoint, with changes between its chunks, after which the log lets files go.
    fn round(&mut self, node: &mut Node) {
        let wal = node.wal();
        let floors: Vec<u64> = (0..LANES).map(|lane| wal.tail(lane)).collect();
        let gives_up = self.dice.below(8) == 0;
        let taken = {
            let node: &Node = node;
            let between: Box<BetweenChunks<'_>> = Box::new(|_| {
                self.change(node);
                !gives_up || self.dice.below(9) > 0
            });
            let mut edge = Edge::new(between);
            edge.sync = Box::new(|| node.sync_all());
            take_by(SMALL, &node.rooms, &node.disks.checkpoint, about(node.number), &edge)
        };
        let Ok(taken) = taken else {
            assert!(!matches!(taken, Err(NotTaken::TooManyReaders(_))), "a reader stayed behind");
            self.seen.not_taken += 1;
            return;
        };
        self.seen.taken += 1;
        node.number = taken.number;
        self.seen.dropped += node.keeper.borrow_mut().drop_before(&floors).unwrap_or(0);
    }

    /// Starts that may die too, until one succeeds.
    fn start(&mut self, disks: Disks, name: &str) -> Node {
        let (mut disks, mut trust) = self.die(&disks);
        let mut power = trust == Trust::PowerLost;
        for attempt in 0..4 {
            if attempt < 3 && self.dice.coin() {
                disks.log.stop_after(self.dice.below(40));
            }
            let (rooms, run) = (bare_rooms(), self.dice.roll());
            let started = start(&disks, &rooms, (trust, run), |_| {});
            let started = started.and_then(|started| {
                let number = (started.number > 0).then_some(started.number);
                let removed = remove_leftovers(&disks.checkpoint, number);
                removed.map(|()| started).map_err(|error| LogError::Disk(error).into())
            });
            match started {
                Ok(started) if !disks.log.is_stopped() => {
                    return self.begin(disks, rooms, started, power, name);
                }
                Ok(_)
                | Err(LoadError::Checkpoint(CheckpointError::Disk(_)))
                | Err(LoadError::Log(LogError::Disk(_))) => {
                    // A start that dies before it has noted the loss of power must be told again.
                    let is_noted = disks.log.names().iter().any(|name| name == "wal.repair");
                    let before = trust;
                    (disks, trust) = self.die(&disks);
                    if before == Trust::PowerLost && !is_noted {
                        trust = before;
                    }
                    power |= trust == Trust::PowerLost;
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
        panic!("{name}: it never started");
    }

    fn die(&mut self, disks: &Disks) -> (Disks, Trust) {
        let power = self.dice.coin();
        let seed = self.dice.roll();
        let trust = if power { Trust::PowerLost } else { Trust::ProcessDied };
        (disks.after_death(power.then_some(seed)), trust)
    }

    fn begin(
        &mut self,
        disks: Disks,
        rooms: Rooms,
        started: Started,
        power: bool,
        name: &str,
    ) -> Node {
        for (number, model) in (0..).zip(&mut self.slots) {
            model.check(&rooms, number, power, name);
        }
        let keys: usize = self.slots.iter().map(|model| model.now().len()).sum();
        assert_eq!(started.loaded.keys, keys as u64, "{name}: keys of other slots");
        self.seen.from_checkpoint += usize::from(started.number > 0);
        self.seen.from_log += started.loaded.groups;
        self.seen.torn += started.loaded.torn.len();
        let journal = ToLog::new(started.keeper.wal());
        rooms.set_journal(journal.clone(), put_op);
        let keeper = RefCell::new(started.keeper);
        let node = Node { rooms, keeper, journal, disks, number: started.number };
        for number in 0..SLOTS_USED {
            // The table says whose the slots are.
            let model = &self.slots[usize::from(number)];
            match model.is_owned {
                true => own(&node.rooms, slot(number), model.epoch),
                false => lose(&node.rooms, slot(number), model.epoch),
            }
            self.note(&node, number, Content::new());
        }
        node
    }
}

/// So many lives of one node, each with a death after so many steps, or anywhere.
fn lives(seed: u64, count: u64, steps: Option<u64>, seen: &mut Seen) {
    let mut model = Model::new(seed);
    let mut node = model.start(Disks::new(seed), "the first start");
    for life in 0..count {
        let name = format!("seed {seed}, life {life}, steps {steps:?}");
        let steps = steps.unwrap_or_else(|| model.dice.below(1500));
        node.disks.log.stop_after(steps);
        let _ = node.keeper.borrow_mut().tend();
        for _ in 0..300 {
            if !model.step(&mut node) {
                break;
            }
        }
        let disks = node.disks.clone();
        drop(node);
        node = model.start(disks, &name);
    }
    seen.add(&model.seen);
}

impl Seen {
    fn add(&mut self, more: &Seen) {
        self.taken += more.taken;
        self.not_taken += more.not_taken;
        self.dropped += more.dropped;
        self.lost += more.lost;
        self.back += more.back;
        self.from_checkpoint += more.from_checkpoint;
        self.from_log += more.from_log;
        self.torn += more.torn;
        self.full += more.full;
    }

    fn check(&self) {
        let Seen { taken, not_taken, dropped, lost, back, from_checkpoint, torn, full, .. } = *self;
        let all = [taken, not_taken, dropped, lost, back, from_checkpoint, torn, full];
        let least = all.into_iter().min();
        assert!(least > Some(10) && self.from_log > 100, "{self:?}");
    }
}

#[test]
fn the_node_dies_anywhere_again_and_again() {
    let mut seen = Seen::default();
    for seed in 0..seeds(60) {
        lives(seed, 8, None, &mut seen);
    }
    seen.check();
}

#[test]
fn the_node_dies_at_every_step_of_one_run() {
    let mut seen = Seen::default();
    for steps in 0..700 {
        for seed in 0..seeds(60) / 60 {
            lives(10_000 + seed, 2, Some(steps), &mut seen);
        }
    }
    seen.check();
}

/// More of them: `SLOTD_RECOVERY_SEEDS=10000`.
pub(super) fn seeds(usual: u64) -> u64 {
    std::env::var("SLOTD_RECOVERY_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}
