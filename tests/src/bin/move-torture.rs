//! Shows that moves lose, double and misplace nothing: writers on slots that move back and forth,
//! a client that follows no redirect, moves that are cancelled, and with `--kill-every` a random
//! node killed and started again.
//!
//! Prints figures and ends with `move-torture: holds` (exit 0) or what did not hold (exit 1).

use slot_tests::dice::Dice;
use slot_tests::durable::Mode;
use slot_tests::flags::Flags;
use slot_tests::fleet::Fleet;
use slot_tests::keys::{key_in, key_in_not_before};
use slot_tests::moving::{Seen, Writer};
use slot_tests::probe::{Owners, Probe, Verdict};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "move-torture [--seconds N] [--kill-every SECONDS] [--mode \
                     always|everysec|no|memory] [--nodes N] [--writers N] [--slots N] [--seed N] \
                     [--cancel PERCENT] [--tell]";
const FIRST_SLOT: u16 = 300;
const DEADLINE: Duration = Duration::from_secs(60);

struct Setup {
    seconds: u64,
    kill_every: u64,
    mode: Mode,
    nodes: u16,
    writers: usize,
    slots: u16,
    seed: u64,
    cancel: u64,
    is_told: bool,
}

#[derive(Default)]
struct Figures {
    moves: u32,
    cancelled: u32,
    refused: u32,
    kills: u32,
    longest: Duration,
    slots: u64,
    faults: Vec<String>,
}

fn main() -> io::Result<ExitCode> {
    let mut flags = Flags::from_env(USAGE);
    let setup = Setup {
        seconds: flags.value("--seconds", 60),
        kill_every: flags.value("--kill-every", 0),
        mode: flags.value("--mode", Mode::Everysec),
        nodes: flags.value("--nodes", 3),
        writers: flags.value("--writers", 8),
        slots: flags.value("--slots", 64),
        seed: flags.value("--seed", 1),
        cancel: flags.value("--cancel", 10),
        is_told: flags.switch("--tell"),
    };
    flags.finish();
    println!(
        "move-torture: {} s, {} nodes, mode {:?}, kill -9 every {} s, seed {}",
        setup.seconds, setup.nodes, setup.mode, setup.kill_every, setup.seed
    );
    let holds = run(&setup)?;
    println!("move-torture: {}", if holds { "holds" } else { "DOES NOT HOLD" });
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(setup: &Setup) -> io::Result<bool> {
    let mut fleet = Fleet::start(setup.nodes, &setup.mode.args())?;
    fleet.wait_until_all_vote(DEADLINE)?;
    let addresses: Vec<String> = (0..fleet.len()).map(|node| fleet.address(node)).collect();
    let mut dice = Dice::new(setup.seed);
    let stop = Arc::new(AtomicBool::new(false));
    let owners = Arc::new(Owners::new(fleet.len()));
    let probe_key = key_in(FIRST_SLOT);
    let probe = Probe::new(addresses.clone(), &probe_key, owners.clone()).that_moves();
    let probing = {
        let stop = stop.clone();
        thread::spawn(move || probe.run(&stop))
    };
    let writers: Vec<_> = (0..setup.writers)
        .map(|number| {
            let tag = |slot| {
                let from = 1_000_000 * number as u32;
                format!("{{{}}}", key_in_not_before(slot, from))
            };
            let tags = (FIRST_SLOT..FIRST_SLOT + setup.slots).map(tag).collect();
            let mut writer = Writer::new(addresses.clone(), tags, dice.split());
            let stop = stop.clone();
            thread::spawn(move || {
                writer.run(&stop);
                writer
            })
        })
        .collect();
    let mut torture = Torture {
        setup,
        fleet: &mut fleet,
        dice: &mut dice,
        owners: &owners,
        figures: Figures::default(),
        next_kill: Instant::now() + Duration::from_secs(setup.kill_every.max(1)),
        restart: None,
    };
    let outcome = torture.run();
    let mut figures = torture.figures;
    stop.store(true, SeqCst);
    let mut writers: Vec<Writer> =
        writers.into_iter().map(|writer| writer.join().expect("a writer ends")).collect();
    let verdict = probing.join().expect("the probe ends");
    outcome?;
    heal(&mut fleet, &owners)?;
    let mut total = Seen::default();
    for writer in &mut writers {
        if writer.seen.faults.is_empty() {
            writer.look_at_all();
        }
        let seen = &writer.seen;
        total.acked += seen.acked;
        total.moved += seen.moved;
        total.refused += seen.refused;
        total.unknown += seen.unknown;
        total.cut += seen.cut;
        total.slowest = total.slowest.max(seen.slowest);
        figures.faults.extend(seen.faults.iter().cloned());
    }
    misplaced(&fleet, setup.slots, &mut figures)?;
    if setup.kill_every == 0 && total.unknown > 0 {
        figures.faults.push(format!("{} UNKNOWNRESULT without a crash", total.unknown));
    }
    report(figures, &total, &verdict)
}

/// Prints all; whether it holds.
fn report(mut figures: Figures, total: &Seen, verdict: &Verdict) -> io::Result<bool> {
    figures.faults.extend(verdict.faults.iter().map(|fault| format!("probe: {fault}")));
    println!(
        "moves: {} of {} slots in all, {} cancelled, {} refused; the longest took {:.2} s; \
         kills: {}",
        figures.moves,
        figures.slots,
        figures.cancelled,
        figures.refused,
        figures.longest.as_secs_f64(),
        figures.kills
    );
    println!(
        "writes: {} acknowledged, {} moved, {} refused, {} unknown, {} cut off; slowest {:.0} ms",
        total.acked,
        total.moved,
        total.refused,
        total.unknown,
        total.cut,
        total.slowest.as_secs_f64() * 1000.0
    );
    println!(
        "probe: {} values at {:.0} rounds/s, the longest time without one {:.0} ms",
        verdict.values,
        verdict.rate,
        verdict.longest_gap.as_secs_f64() * 1000.0
    );
    figures.faults.iter().for_each(|fault| println!("fault: {fault}"));
    Ok(figures.faults.is_empty())
}

/// The moves and the kills.
struct Torture<'a> {
    setup: &'a Setup,
    fleet: &'a mut Fleet,
    dice: &'a mut Dice,
    owners: &'a Owners,
    figures: Figures,
    next_kill: Instant,
    /// Who was killed, and when it is started again.
    restart: Option<(usize, Instant)>,
}

impl Torture<'_> {
    fn run(&mut self) -> io::Result<()> {
        let until = Instant::now() + Duration::from_secs(self.setup.seconds);
        while Instant::now() < until && self.figures.faults.is_empty() {
            self.one_move()?;
        }
        Ok(())
    }

    fn one_move(&mut self) -> io::Result<()> {
        let slots = u64::from(self.setup.slots);
        let live: Vec<usize> = (0..self.fleet.len()).filter(|n| self.fleet.is_up(*n)).collect();
        let by = *self.dice.one_of(&live);
        let to = self.dice.below(self.fleet.len() as u64) as usize;
        let first = FIRST_SLOT + self.dice.below(slots) as u16;
        let last = (first + self.dice.below(slots) as u16).min(FIRST_SLOT + self.setup.slots - 1);
        let begun = Instant::now();
        let cancel_ms = self.dice.below(60);
        let mut cancel_at = (self.dice.percent(self.setup.cancel))
            .then(|| begun + Duration::from_millis(cancel_ms));
        let Some(id) = begin(self.fleet, by, &format!("{first}-{last}"), to) else {
            self.figures.refused += 1;
            self.kill_or_start(None)?;
            thread::sleep(Duration::from_millis(20));
            return Ok(());
        };
        self.figures.moves += 1;
        self.figures.slots += u64::from(last - first) + 1;
        // A move ends by itself, whatever dies, once all are back.
        loop {
            self.kill_or_start(Some(&id))?;
            if cancel_at.is_some_and(|at| Instant::now() >= at) {
                let by = (0..self.fleet.len()).find(|node| self.fleet.is_up(*node)).unwrap_or(0);
                let cancelled = self.fleet.ask(by, &["SLOTD", "CANCEL", &id]).is_ok();
                self.figures.cancelled += u32::from(cancelled);
                cancel_at = None;
            }
            if is_over(self.fleet, &id) {
                break;
            }
            if begun.elapsed() > DEADLINE {
                let told = |node| format!("{:?}", self.fleet.ask(node, &["SLOTD", "MOVES"]));
                let told: Vec<String> = (0..self.fleet.len()).map(told).collect();
                self.figures.faults.push(format!("a move does not end: {}", told.join("\n")));
                return Ok(());
            }
            thread::sleep(Duration::from_millis(3));
        }
        self.figures.longest = self.figures.longest.max(begun.elapsed());
        Ok(())
    }

    /// Kills a node when that is due, and starts it again some time later.
    fn kill_or_start(&mut self, during: Option<&str>) -> io::Result<()> {
        let now = Instant::now();
        if self.setup.kill_every > 0 && now >= self.next_kill && self.restart.is_none() {
            let node = self.dice.below(self.fleet.len() as u64) as usize;
            self.fleet.kill(node)?;
            self.figures.kills += 1;
            let pause = Duration::from_millis(100 + self.dice.below(1_500));
            self.restart = Some((node, now + pause));
            self.next_kill = now + Duration::from_secs(self.setup.kill_every);
            if self.setup.is_told {
                println!("node {node} is killed during the move {during:?}");
            }
        }
        if let Some((node, _)) = self.restart.filter(|(_, at)| now >= *at) {
            self.owners.restarted(node);
            self.fleet.begin(node)?;
            self.restart = None;
        }
        Ok(())
    }
}

/// Orders a move; `None`: it was refused, or nobody answered.
fn begin(fleet: &Fleet, by: usize, slots: &str, to: usize) -> Option<String> {
    let to = fleet.ask(to, &["CLUSTER", "MYID"]).ok()?.text()?.to_owned();
    let said = fleet.ask(by, &["SLOTD", "MOVE", slots, &to]).ok()?;
    let begun: serde_json::Value = serde_json::from_str(said.text()?).ok()?;
    begun["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned)
}

/// Whether no node that answers has anything left of it.
fn is_over(fleet: &Fleet, id: &str) -> bool {
    let left = |node: usize| -> Option<bool> {
        let said = fleet.ask(node, &["SLOTD", "MOVES"]).ok()?;
        let moves: serde_json::Value = serde_json::from_str(said.text()?).ok()?;
        let all = moves["moves"].as_array()?;
        Some(all.iter().any(|status| status["id"] == id && status["left"] != ""))
    };
    let told: Vec<bool> = (0..fleet.len()).filter_map(left).collect();
    !told.is_empty() && told.iter().all(|left| !left)
}

fn heal(fleet: &mut Fleet, owners: &Owners) -> io::Result<()> {
    for node in 0..fleet.len() {
        if !fleet.is_up(node) {
            owners.restarted(node);
            fleet.begin(node)?;
        }
    }
    fleet.wait_until_serving(DEADLINE)
}

/// Keys are where their slot's owner is, and nowhere else.
fn misplaced(fleet: &Fleet, slots: u16, figures: &mut Figures) -> io::Result<()> {
    let until = Instant::now() + DEADLINE;
    loop {
        let (mut all, mut placed) = (0, 0);
        for node in 0..fleet.len() {
            all += fleet.ask(node, &["DBSIZE"])?.int().unwrap_or(0);
            for slot in FIRST_SLOT..FIRST_SLOT + slots {
                let words = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()];
                placed += fleet.ask(node, &words)?.int().unwrap_or(0);
            }
        }
        if all == placed {
            return Ok(());
        }
        if Instant::now() > until {
            figures.faults.push(format!("{all} keys on all nodes, {placed} with their owners"));
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
}
