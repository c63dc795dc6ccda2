//! The process dies at every step, with the machine or alone: what comes back is what was
//! appended, no less than was told to be safe, without a gap.
//!
//! The model is the list of what was appended, by lane; nothing of the product's recovery is used
//! to say what is right. Invariant: seeded; a failure names its seed and life.

use super::super::sim::{Dice, SimDisk};
use super::super::*;
use super::kit::*;

#[derive(Default)]
struct LaneModel {
    /// All that may come back, oldest first.
    told: Vec<Told>,
    /// Up to here it must come back after a loss of power, and after a death of the process.
    synced: u64,
    written: u64,
    /// Up to here it was given up.
    floor: u64,
}

impl LaneModel {
    /// Where the last record ends that ends by this place: the log may be within a large group.
    fn whole(&self, at: u64) -> u64 {
        let ends = self.told.iter().map(|told| told.position.at);
        ends.filter(|end| *end <= at).max().unwrap_or(0)
    }

    /// What came back is a part without a gap, from what was not given up to what is safe.
    fn check(&mut self, found: &[Told], power: bool, name: &str) {
        let safe = if power { self.synced } else { self.written };
        if let Some(first) = found.first() {
            let start = self.told.iter().position(|told| told == first);
            let start = start.unwrap_or_else(|| panic!("{name}: {first:?} was never appended"));
            let end = start + found.len();
            assert_eq!(self.told.get(start..end), Some(found), "{name}: not what was appended");
            let before = self.told[..start].last().map_or(0, |told| told.position.at);
            assert!(before <= self.floor, "{name}: begins behind {before}, floor {}", self.floor);
        }
        let end = found.last().map_or(self.floor, |told| told.position.at);
        assert!(end >= safe, "{name}: ends at {end}, {safe} was safe (power {power})");
        self.told = found.to_vec();
        (self.synced, self.written) = (end, end);
    }
}

/// What the runs of a test came across: a workload that reaches nothing shows nothing.
#[derive(Default, Debug)]
struct Seen {
    dropped: usize,
    alone: usize,
    parts: usize,
    reused: usize,
    full: usize,
    waiting: usize,
    torn: usize,
}

struct World {
    seen: Seen,
    disk: SimDisk,
    dice: Dice,
    lanes: Vec<LaneModel>,
    next: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let lanes = (0..LANES).map(|_| LaneModel::default()).collect();
        World { seen: Seen::default(), disk: SimDisk::new(seed), dice: Dice(seed), lanes, next: 0 }
    }

    /// One step of a life. False: it is over.
    fn step(&mut self, log: &mut Opened) -> bool {
        match self.dice.below(100) {
            0..=64 => self.append(log),
            65..=74 => drop(log.keeper.wal().sync_round()),
            75..=88 => drop(log.keeper.tend()),
            89..=95 => self.drop_some(log),
            96 => self.disk.set_room(Some(30_000)),
            97 => self.disk.full_at(self.dice.below(3)),
            _ => self.disk.set_room(None),
        }
        let wal = log.wal();
        let is_alive = !self.disk.is_stopped();
        for (lane, model) in (0..).zip(&mut self.lanes) {
            // What was told to be synced counts even if it was told by a process that then died.
            model.synced = model.synced.max(model.whole(wal.synced(lane)));
            if is_alive {
                model.written = model.written.max(model.whole(wal.written(lane)));
            }
        }
        is_alive
    }

    fn append(&mut self, log: &Opened) {
        if log.keeper.wal().is_full() {
            self.seen.full += 1;
            return;
        }
        let bytes = match self.dice.below(20) {
            0 => 1000 + self.dice.below(PART_BYTES as u64),
            1 if self.dice.below(4) == 0 => {
                self.seen.parts += 1;
                PART_BYTES as u64 + self.dice.below(3 * PART_BYTES as u64)
            }
            2 => 0,
            _ => self.dice.below(300),
        };
        // One lane is quiet: its chunks must not keep the files of the others.
        let lane = [0, 0, 0, 1, 1, 1, 1, 2][self.dice.below(8) as usize];
        let lane = if lane == 2 && self.dice.below(4) > 0 { 0 } else { lane };
        self.next += 1;
        let slot = lane + LANES * self.dice.below(5) as u16;
        let told = log.append(slot, self.next, bytes as usize);
        assert_eq!(told.position.lane, lane);
        self.seen.waiting += usize::from(!log.keeper.wal().is_written(told.position));
        self.lanes[usize::from(lane)].told.push(told);
    }

    fn drop_some(&mut self, log: &mut Opened) {
        let wal = log.wal();
        let mut floors = Vec::new();
        for (lane, model) in (0..).zip(&mut self.lanes) {
            let ends = model.told.iter().map(|told| told.position.at);
            let ends: Vec<u64> = ends.filter(|at| *at <= wal.synced(lane)).collect();
            let upto = match self.dice.below(4) {
                0 => self.dice.below(ends.len() as u64 + 1) as usize,
                _ => ends.len(),
            };
            let floor = upto.checked_sub(1).map_or(model.floor, |last| ends[last]);
            floors.push(floor.max(model.floor));
            model.floor = floor.max(model.floor);
        }
        self.seen.dropped += log.keeper.drop_before(&floors).unwrap_or(0);
    }

    /// The process dies, with the machine or alone.
    fn die(&mut self) -> Trust {
        let names = self.disk.names();
        let count = |part: &str| names.iter().filter(|name| name.contains(part)).count();
        self.seen.alone += count("alone");
        self.seen.reused += count("spare");
        let power = self.dice.coin();
        self.disk = match power {
            true => self.disk.crash(self.dice.roll()),
            false => self.disk.restart(),
        };
        if power { Trust::PowerLost } else { Trust::ProcessDied }
    }

    /// Starts that may die too, until one succeeds.
    fn start(&mut self, name: &str) -> Opened {
        let mut trust = self.die();
        let mut power = trust == Trust::PowerLost;
        for attempt in 0..4 {
            let run = self.dice.roll();
            if attempt < 3 && self.dice.coin() {
                self.disk.stop_after(self.dice.below(30));
            }
            match open(&self.disk, trust, options(LANES, run)) {
                Ok(opened) if !self.disk.is_stopped() => {
                    for (lane, model) in (0..).zip(&mut self.lanes) {
                        let of_lane = |told: &&Told| told.position.lane == lane;
                        let found: Vec<Told> =
                            opened.found.iter().filter(of_lane).cloned().collect();
                        model.check(&found, power, &format!("{name}, lane {lane}"));
                        assert!(opened.keeper.wal().tail(lane) >= model.synced, "{name}");
                    }
                    self.seen.torn += opened.torn.len();
                    return opened;
                }
                Ok(_) | Err(LogError::Disk(_)) => {
                    // A start that dies before it has noted the loss of power must be told again.
                    let is_noted = self.disk.names().iter().any(|name| name == "wal.repair");
                    let before = trust;
                    trust = self.die();
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
}

/// So many lives of one folder, each with a death after so many steps, or anywhere.
fn lives(seed: u64, count: u64, steps: Option<u64>, seen: &mut Seen) {
    let mut world = World::new(seed);
    let mut log = open(&world.disk, Trust::ProcessDied, options(LANES, seed)).expect("opens");
    for life in 0..count {
        let name = format!("seed {seed}, life {life}, steps {steps:?}");
        let steps = steps.unwrap_or_else(|| world.dice.below(900));
        world.disk.stop_after(steps);
        let _ = log.keeper.tend();
        for _ in 0..300 {
            if !world.step(&mut log) {
                break;
            }
        }
        drop(log);
        log = world.start(&name);
    }
    seen.add(&world.seen);
}

impl Seen {
    fn add(&mut self, more: &Seen) {
        self.dropped += more.dropped;
        self.alone += more.alone;
        self.parts += more.parts;
        self.reused += more.reused;
        self.full += more.full;
        self.waiting += more.waiting;
        self.torn += more.torn;
    }

    fn check(&self) {
        let Seen { dropped, alone, parts, reused, full, waiting, torn } = *self;
        let least = [dropped, alone, parts, reused, full, waiting, torn].into_iter().min();
        assert!(least > Some(10), "{self:?}");
    }
}

#[test]
fn the_process_dies_anywhere_again_and_again() {
    let mut seen = Seen::default();
    for seed in 0..seeds(300) {
        lives(seed, 10, None, &mut seen);
    }
    // Each once showed a fault: a wiped header that came back, a chunk in an older file.
    for seed in [378, 1517] {
        lives(seed, 10, None, &mut seen);
    }
    seen.check();
}

#[test]
fn the_process_dies_at_every_step_of_one_run() {
    let mut seen = Seen::default();
    for steps in 0..900 {
        for seed in 0..seeds(300) / 100 {
            lives(10_000 + seed, 2, Some(steps), &mut seen);
        }
    }
    seen.check();
}

/// More of them: `SLOTD_WAL_SEEDS=100000`.
fn seeds(usual: u64) -> u64 {
    std::env::var("SLOTD_WAL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}
