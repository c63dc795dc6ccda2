//! Slots that move in, on a simulated disk: copies begun, filled, whole, adopted, dropped, written
//! to, lost again, with checkpoints in between; and a death after any call to the disk.
//!
//! The model is what each slot looks like after each of its records; nothing of the product's
//! recovery says what is right. Invariant: what comes back is one of them, none before the last
//! that was told to be safe; a copy that was open is named by every start until there is a seat.

use std::collections::BTreeMap;

use slots::{Epoch, OpIndex, TableVersion};

use super::walks::{Content, Node, content, seeds};
use super::*;
use crate::persist::checkpoint::tests::{BetweenChunks, Edge, SMALL, about, lose, own, set, slot};
use crate::persist::checkpoint::{floors, remove_leftovers, take_by};
use crate::persist::log::LogError;
use crate::persist::log::sim::Dice;
use crate::slot::{Admit, Key, Op, Ownership, Patience, StageFate};
use crate::store::table::Expiry;
use crate::stream::tests::bare_rooms;
use crate::stream::{Arrival, Piece, Source, put_op};

const SLOTS_USED: u16 = 5;

/// How a slot looks after a start.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Look {
    content: Content,
    index: u64,
    is_staged: bool,
}

/// A copy on its way in, and where it comes from.
struct Moving {
    origin: Rooms,
    source: Source,
    /// What the origin held at each index.
    history: BTreeMap<u64, Content>,
    /// What the copy holds once it is whole.
    content: Content,
    place: (u64, u64),
    is_whole: bool,
}

#[derive(Default)]
struct SlotModel {
    now: Look,
    /// After each record, with a place at or behind it.
    looks: Vec<(Look, u64)>,
    /// The last that survives a loss of power, and a death of the process.
    synced: usize,
    written: usize,
    is_owned: bool,
    epoch: u64,
    moving: Option<Moving>,
}

impl SlotModel {
    fn new() -> SlotModel {
        SlotModel { looks: vec![(Look::default(), 0)], ..SlotModel::default() }
    }

    fn upto(&self, place: u64) -> usize {
        self.looks.partition_point(|(_, at)| *at <= place) - 1
    }

    fn check(&mut self, rooms: &Rooms, number: u16, power: bool, name: &str) {
        let got = Look {
            content: content(rooms, number),
            index: rooms.read(slot(number)).index().0,
            is_staged: rooms.unadopted().contains(&slot(number)),
        };
        let safe = if power { self.synced } else { self.written };
        let allowed = &self.looks[safe..];
        let is_one = allowed.iter().any(|(look, _)| *look == got);
        assert!(is_one, "{name}, slot {number} (power {power}): {got:?}, not of {allowed:?}");
        self.looks = vec![(got.clone(), 0)];
        (self.now, self.synced, self.written, self.moving) = (got, 0, 0, None);
        let found = rooms.read(slot(number)).epoch().0;
        assert!(found <= self.epoch, "{name}: epoch {found}");
    }
}

#[derive(Default, Debug)]
struct Counts {
    adopted: usize,
    back: usize,
    dropped: usize,
    found: usize,
    unseated: usize,
    taken: usize,
    files: usize,
    kept_files: usize,
}

struct Model {
    dice: Dice,
    slots: Vec<SlotModel>,
    counts: Counts,
    next: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let slots = (0..SLOTS_USED).map(|_| SlotModel::new()).collect();
        Model { dice: Dice(seed), slots, counts: Counts::default(), next: 0 }
    }

    fn note(&mut self, node: &Node, number: u16) {
        let wal = node.wal();
        let at = wal.tail(wal.lane_of(slot(number)));
        let model = &mut self.slots[usize::from(number)];
        model.looks.push((model.now.clone(), at));
    }

    fn change(&mut self, node: &Node) {
        let number = self.dice.below(u64::from(SLOTS_USED)) as u16;
        let model = &self.slots[usize::from(number)];
        if model.is_owned {
            return self.change_owned(node, number);
        }
        let kind = self.dice.below(16);
        match model.moving.as_ref().map(|moving| moving.is_whole) {
            None if kind < 5 => self.take_over(node, number, kind.is_multiple_of(2)),
            None => self.begin(node, number),
            Some(is_whole) => match kind {
                0 => {
                    node.rooms.drop_stage(slot(number));
                    self.end_stage(number);
                    self.counts.dropped += 1;
                }
                1 => {
                    // Two records: its end, and the begin of the next.
                    self.end_stage(number);
                    let between = self.slots[usize::from(number)].now.clone();
                    self.begin(node, number);
                    self.note(node, number);
                    let looks = &mut self.slots[usize::from(number)].looks;
                    let at = looks.last().map_or(0, |(_, at)| *at);
                    looks.insert(looks.len() - 1, (between, at));
                }
                2 => self.take_over(node, number, false),
                3 => lose(&node.rooms, slot(number), self.next_epoch(number)),
                4..=6 if is_whole => self.take_over(node, number, true),
                4 => self.take_over(node, number, true),
                _ if node.wal().is_full() => {}
                _ if is_whole => self.stage_group(node, number),
                _ => self.frame(node, number),
            },
        }
        self.note(node, number);
    }

    fn next_epoch(&mut self, number: u16) -> u64 {
        let more = 1 + self.dice.below(2);
        let model = &mut self.slots[usize::from(number)];
        model.epoch += more;
        model.epoch
    }

    fn end_stage(&mut self, number: u16) {
        let model = &mut self.slots[usize::from(number)];
        (model.moving, model.now.is_staged) = (None, false);
    }

    /// The slot becomes the node's.
    fn take_over(&mut self, node: &Node, number: u16, adopts: bool) {
        let epoch = self.next_epoch(number);
        let fate = if adopts { StageFate::Adopt } else { StageFate::Drop };
        // Now and then somebody is inside and meets it on leaving.
        let inside = (self.dice.below(3) == 0).then(|| node.rooms.read(slot(number)));
        let (at, since) = (Epoch(epoch), TableVersion(epoch));
        node.rooms.install_since(slot(number), Ownership::Owned, at, since, fate);
        drop(inside);
        node.rooms.settle();
        let model = &mut self.slots[usize::from(number)];
        model.is_owned = true;
        if let Some(moving) = model.moving.take().filter(|moving| adopts && moving.is_whole) {
            (model.now.content, model.now.index) = (moving.content, moving.place.1);
            self.counts.adopted += 1;
        }
        model.now.is_staged = false;
        assert_eq!(content(&node.rooms, number), model.now.content);
    }

    fn begin(&mut self, node: &Node, number: u16) {
        let (origin, epoch) = (bare_rooms(), self.slots[usize::from(number)].epoch);
        let index = OpIndex(self.dice.below(30));
        origin.replay(slot(number), START_MS).set_place(Epoch(0), index);
        own(&origin, slot(number), epoch);
        let mut history = BTreeMap::from([(index.0, Content::new())]);
        for _ in 0..self.dice.below(8) {
            self.write_origin(&origin, number, &mut history);
        }
        let source = Source::begin(&origin, slot(number)).expect("one reader");
        let bringer = Box::new(Arrival::new(slot(number)));
        node.rooms.begin_stage(slot(number), Epoch(epoch), bringer).expect("it is not ours");
        let place = (epoch, 0);
        let content = Content::new();
        let moving = Moving { origin, source, history, content, place, is_whole: false };
        let model = &mut self.slots[usize::from(number)];
        (model.moving, model.now.is_staged) = (Some(moving), true);
    }

    fn word(&mut self) -> (String, String) {
        self.next += 1;
        let bytes = self.dice.below(if self.next.is_multiple_of(9) { 1_200 } else { 90 });
        let value = format!("{} {}", self.next, "v".repeat(bytes as usize));
        (format!("key{}", self.dice.below(9)), value)
    }

    fn write_origin(&mut self, origin: &Rooms, number: u16, history: &mut BTreeMap<u64, Content>) {
        let (key, value) = self.word();
        set(origin, slot(number), &key, &value);
        let (index, mut content) = history.last_key_value().map_or_else(
            || panic!("there is a first"),
            |(index, content)| (index + 1, content.clone()),
        );
        content.insert(key.into_bytes(), value.into_bytes());
        history.insert(index, content);
    }

    fn frame(&mut self, node: &Node, number: u16) {
        let mut moving = self.slots[usize::from(number)].moving.take().expect("it is under way");
        if self.dice.coin() {
            self.write_origin(&moving.origin, number, &mut moving.history);
        }
        let mut frame = vec![0];
        let piece = moving.source.next(&moving.origin, SMALL.budget, &mut frame).expect("goes on");
        frame[0] = piece.kind();
        let stage = node.rooms.stage(slot(number)).expect("it is there");
        stage.frame(&node.rooms, &frame, START_MS).expect("a frame");
        if let Piece::End(end) = piece {
            // What was written since the last groups were taken is in no frame.
            moving.content = moving.history[&end.index.0].clone();
            (moving.place, moving.is_whole) = ((end.epoch.0, end.index.0), true);
        }
        self.slots[usize::from(number)].moving = Some(moving);
    }

    fn stage_group(&mut self, node: &Node, number: u16) {
        let (key, value) = self.word();
        let moving = self.slots[usize::from(number)].moving.as_mut().expect("it is whole");
        let mut group = Vec::new();
        let name = Key::new(key.as_bytes());
        match value.len() % 4 {
            0 => {
                put_op(&Op::Delete { key: name }, &mut group);
                moving.content.remove(key.as_bytes());
            }
            _ => {
                let (value, expiry) = (value.as_bytes(), Expiry::Never);
                put_op(&Op::SetString { key: name, value, expiry }, &mut group);
                moving.content.insert(key.into_bytes(), value.to_vec());
            }
        }
        moving.place.1 += 1;
        let place = (Epoch(moving.place.0), OpIndex(moving.place.1));
        let stage = node.rooms.stage(slot(number)).expect("it is there");
        assert_eq!(stage.place().1.0 + 1, place.1.0);
        stage.group(&node.rooms, place, &group, START_MS).expect("the next");
    }

    fn change_owned(&mut self, node: &Node, number: u16) {
        if self.dice.below(9) == 0 {
            lose(&node.rooms, slot(number), self.next_epoch(number));
            let model = &mut self.slots[usize::from(number)];
            model.now.index += u64::from(!model.now.content.is_empty());
            model.now.content.clear();
            model.is_owned = false;
        } else if !node.wal().is_full() {
            let (key, value) = self.word();
            let admitted = node.rooms.admit(slot(number), START_MS, Patience::Block);
            let Admit::Served(mut owned) = admitted else { panic!("slot {number} is owned") };
            let (name, bytes) = (Key::new(key.as_bytes()), value.as_bytes());
            owned.apply(Op::SetString { key: name, value: bytes, expiry: Expiry::Never });
            let model = &mut self.slots[usize::from(number)];
            model.now.content.insert(key.into_bytes(), value.into_bytes());
            model.now.index += 1;
        }
        self.note(node, number);
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

    fn round(&mut self, node: &mut Node) {
        let floors = floors(&node.wal(), &node.rooms);
        let has_open = !node.rooms.stage_begins().is_empty();
        let taken = {
            let node: &Node = node;
            let between: Box<BetweenChunks<'_>> = Box::new(|_| {
                self.change_between(node);
                true
            });
            let mut edge = Edge::new(between);
            edge.sync = Box::new(|| node.sync_all());
            take_by(SMALL, &node.rooms, &node.disks.checkpoint, about(node.number), &edge)
        };
        let Ok(taken) = taken else { return };
        node.number = taken.number;
        self.counts.taken += 1;
        let gone = node.keeper.borrow_mut().drop_before(&floors).unwrap_or(0);
        self.counts.files += gone;
        self.counts.kept_files += usize::from(has_open && gone > 0);
    }

    /// Without a seat nothing changes.
    fn change_between(&mut self, node: &Node) {
        if node.rooms.ownership(slot(0)).0 != Ownership::Unknown {
            self.change(node);
        }
    }

    /// Starts until one lives to get its seat.
    fn start(&mut self, disks: Disks, name: &str) -> Node {
        let (mut disks, mut trust) = self.die(&disks);
        let mut power = trust == Trust::PowerLost;
        for attempt in 0..9 {
            if attempt < 6 && self.dice.coin() {
                disks.log.stop_after(self.dice.below(40));
            }
            let (rooms, run) = (bare_rooms(), self.dice.roll());
            let started = start(&disks, &rooms, (trust, run), |_| {}).and_then(|started| {
                let number = (started.number > 0).then_some(started.number);
                let removed = remove_leftovers(&disks.checkpoint, number);
                removed.map(|()| started).map_err(|error| LogError::Disk(error).into())
            });
            match started {
                Ok(started) if !disks.log.is_stopped() => {
                    let mut node = self.begin_life((&disks, rooms), started, power, name);
                    if attempt >= 6 || self.dice.below(3) > 0 {
                        return node;
                    }
                    self.counts.unseated += 1;
                    let _ = node.keeper.borrow_mut().tend();
                    if self.dice.coin() {
                        self.round(&mut node);
                    }
                    drop(node);
                    (disks, trust) = self.die(&disks);
                    power = trust == Trust::PowerLost;
                }
                Ok(_)
                | Err(LoadError::Checkpoint(CheckpointError::Disk(_)))
                | Err(LoadError::Log(LogError::Disk(_))) => {
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

    fn begin_life(
        &mut self,
        (disks, rooms): (&Disks, Rooms),
        started: Started,
        power: bool,
        name: &str,
    ) -> Node {
        for (number, model) in (0..).zip(&mut self.slots) {
            model.check(&rooms, number, power, name);
            let is_named = started.loaded.unadopted.contains(&slot(number));
            assert_eq!(is_named, model.now.is_staged, "{name}");
            self.counts.found += usize::from(is_named);
            self.counts.back += usize::from(!model.now.content.is_empty());
        }
        let keys: usize = self.slots.iter().map(|model| model.now.content.len()).sum();
        assert_eq!(started.loaded.keys, keys as u64, "{name}: keys of other slots");
        let bytes: usize = (0..SLOTS_USED).map(|n| rooms.read(slot(n)).bytes()).sum();
        assert_eq!(rooms.totals.bytes.load(Relaxed), bytes as i64, "{name}: bytes of stages");
        let journal = ToLog::new(started.keeper.wal());
        rooms.set_journal(journal.clone(), put_op);
        let keeper = std::cell::RefCell::new(started.keeper);
        Node { rooms, keeper, journal, disks: disks.clone(), number: started.number }
    }

    /// The table says whose the slots are.
    fn seat(&mut self, node: &Node) {
        for number in 0..SLOTS_USED {
            let model = &mut self.slots[usize::from(number)];
            // A slot that was named is given to another.
            model.is_owned &= !model.now.is_staged;
            if model.is_owned {
                own(&node.rooms, slot(number), model.epoch);
            } else {
                lose(&node.rooms, slot(number), model.epoch);
                model.now.index += u64::from(!model.now.content.is_empty());
                model.now.content.clear();
            }
            model.now.is_staged = false;
            self.note(node, number);
        }
    }
}

fn lives(seed: u64, count: u64, steps: Option<u64>, counts: &mut Counts) {
    let mut model = Model::new(seed);
    let mut node = model.start(Disks::new(seed), "the first start");
    for life in 0..count {
        let name = format!("seed {seed}, life {life}, steps {steps:?}");
        let steps = steps.unwrap_or_else(|| model.dice.below(1500));
        node.disks.log.stop_after(steps);
        let _ = node.keeper.borrow_mut().tend();
        model.seat(&node);
        model.look(&node);
        for _ in 0..300 {
            if !model.step(&mut node) {
                break;
            }
        }
        let disks = node.disks.clone();
        drop(node);
        node = model.start(disks, &name);
    }
    counts.add(&model.counts);
}

impl Counts {
    fn add(&mut self, more: &Counts) {
        self.adopted += more.adopted;
        self.back += more.back;
        self.dropped += more.dropped;
        self.found += more.found;
        self.unseated += more.unseated;
        self.taken += more.taken;
        self.files += more.files;
        self.kept_files += more.kept_files;
    }

    fn check(&self) {
        let Counts { adopted, back, dropped, found, unseated, taken, files, kept_files } = *self;
        let all = [adopted, back, dropped, found, unseated, taken, files, kept_files];
        assert!(all.into_iter().min() > Some(10), "{self:?}");
    }
}

#[test]
fn a_node_that_slots_move_to_dies_anywhere_again_and_again() {
    let mut counts = Counts::default();
    for seed in 0..seeds(60) {
        lives(seed, 8, None, &mut counts);
    }
    counts.check();
}

#[test]
fn a_node_that_slots_move_to_dies_after_every_call_to_the_disk() {
    let mut counts = Counts::default();
    for steps in 0..500 {
        for seed in 0..seeds(60) / 60 {
            lives(20_000 + seed, 2, Some(steps), &mut counts);
        }
    }
    counts.check();
}
