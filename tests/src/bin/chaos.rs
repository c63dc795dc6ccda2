//! Shows that one table is agreed whatever happens to the processes: nodes are killed, paused
//! and started again at random while clients load them, probes ask all of them for one key, and
//! an operator changes the table.
//!
//! Prints what it saw and ends with `chaos: holds` (exit 0) or what did not hold (exit 1):
//! histories that fork, a probe's value that repeats or falls within one boot of its node, two
//! nodes that answer for one slot, a cluster that is not whole again at the end. Times are
//! printed beside their marks; the bound itself is asserted where time is simulated.

use slot_tests::figures::Waits;
use slot_tests::flags::Flags;
use slot_tests::fleet::Fleet;
use slot_tests::history::Histories;
use slot_tests::probe::{Owners, Probe, Verdict};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const USAGE: &str = "chaos [--nodes N] [--seconds N] [--seed N] [--writers N]";
/// Marks of the issue, printed beside what was seen.
const MEDIAN_MARK: Duration = Duration::from_secs(3);
const WORST_MARK: Duration = Duration::from_secs(6);
const PROBE_MARK: f64 = 200.0;
/// How long the cluster may take to be whole again at the end.
const HEAL: Duration = Duration::from_secs(30);
/// A change that is not answered in this time is asked for again elsewhere.
const CHANGE: Duration = Duration::from_secs(1);
/// The key all probes ask for: slot 12182.
const PROBED: &str = "foo";

fn main() -> io::Result<ExitCode> {
    let mut flags = Flags::from_env(USAGE);
    let nodes: u16 = flags.value("--nodes", 5);
    let seconds: u64 = flags.value("--seconds", 300);
    let seed: u64 = flags.value("--seed", 1);
    let writers: usize = flags.value("--writers", 4);
    flags.finish();
    println!("chaos: {nodes} nodes for {seconds} s, seed {seed}");
    let fleet = Fleet::start(nodes, &["--cluster-require-full-coverage", "no"])?;
    let mut run = Run::new(fleet, seed);
    run.fleet.wait_until_all_vote(HEAL)?;
    let stop = Arc::new(AtomicBool::new(false));
    let addresses: Vec<String> = (0..run.fleet.len()).map(|n| run.fleet.address(n)).collect();
    let probe = {
        let (stop, addresses, owners) = (stop.clone(), addresses.clone(), run.owners.clone());
        spawn(move || Probe::new(addresses, PROBED, owners).run(&stop))
    };
    let written = Arc::new(AtomicU64::new(0));
    let load: Vec<_> = (0..writers)
        .map(|number| {
            let (stop, addresses, written) = (stop.clone(), addresses.clone(), written.clone());
            spawn(move || slot_tests::probe::load(&addresses, number, &stop, &written))
        })
        .collect();
    let outcome = run.faults(Duration::from_secs(seconds));
    let healed = run.heal();
    stop.store(true, Ordering::SeqCst);
    let probed = probe.join().map_err(|_| io::Error::other("the probe panicked"))?;
    for writer in load {
        writer.join().map_err(|_| io::Error::other("a writer panicked"))?;
    }
    outcome?;
    let faults = run.report(&probed, written.load(Ordering::SeqCst), healed);
    for fault in &faults {
        println!("chaos: {fault}");
    }
    println!("chaos: {}", if faults.is_empty() { "holds" } else { "DOES NOT HOLD" });
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Run {
    fleet: Fleet,
    random: u64,
    owners: Arc<Owners>,
    histories: Histories,
    /// Time from a majority's return to the first change that was made.
    recoveries: Waits,
    counts: [u32; 4],
    changes: u64,
}

const KILLED: usize = 0;
const PAUSED: usize = 1;
const STARTED: usize = 2;
const RESUMED: usize = 3;

impl Run {
    fn new(fleet: Fleet, seed: u64) -> Run {
        let owners = Arc::new(Owners::new(fleet.len()));
        Run {
            fleet,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            owners,
            histories: Histories::default(),
            recoveries: Waits::default(),
            counts: [0; 4],
            changes: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % n
    }

    fn majority(&self) -> usize {
        // All nodes of a fleet of five vote; of more, five do, and any majority of all is enough.
        self.fleet.len() / 2 + 1
    }

    /// One fault or its end after the other until the time is up.
    fn faults(&mut self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        let mut told = Instant::now();
        while Instant::now() < until {
            let had_majority = self.fleet.up() >= self.majority();
            self.step()?;
            let has_majority = self.fleet.up() >= self.majority();
            if has_majority && !had_majority {
                self.measure_recovery();
            } else if has_majority {
                self.change();
            }
            let pause = 100 + self.below(900);
            sleep(Duration::from_millis(pause));
            self.compare_histories();
            if told.elapsed() > Duration::from_secs(30) {
                told = Instant::now();
                println!("chaos: {} changes, faults {:?}", self.changes, self.counts);
            }
        }
        Ok(())
    }

    fn step(&mut self) -> io::Result<()> {
        let node = self.below(self.fleet.len() as u64) as usize;
        if let Some(status) = self.fleet.ended(node)? {
            let words = self.fleet.last_words(node);
            return Err(io::Error::other(format!(
                "node {node} ended by itself: {status}\n{words}"
            )));
        }
        if self.fleet.is_up(node) {
            // Seldom more than a minority is down: the interesting times are those around it.
            if self.fleet.up() <= self.majority() && self.below(3) != 0 {
                return Ok(());
            }
            if self.below(2) == 0 {
                self.fleet.kill(node)?;
                self.counts[KILLED] += 1;
            } else {
                self.fleet.pause(node)?;
                self.counts[PAUSED] += 1;
            }
        } else if self.fleet.is_paused(node) {
            self.fleet.resume(node)?;
            self.counts[RESUMED] += 1;
        } else {
            self.start(node)?;
        }
        Ok(())
    }

    fn start(&mut self, node: usize) -> io::Result<()> {
        self.owners.restarted(node);
        self.fleet.begin(node)?;
        self.counts[STARTED] += 1;
        Ok(())
    }

    /// Asks one node after the other for a change until one is made.
    fn change(&mut self) -> bool {
        let value = self.changes.to_string();
        for node in 0..self.fleet.len() {
            if self.fleet.is_up(node) && self.label(node, &value) {
                self.changes += 1;
                return true;
            }
        }
        false
    }

    fn label(&self, node: usize, value: &str) -> bool {
        let Ok(mut client) = self.fleet.client(node) else { return false };
        client.wait_at_most(CHANGE);
        let id = client.call(&["CLUSTER", "MYID"]).ok();
        let Some(id) = id.as_ref().and_then(|id| id.text()) else { return false };
        let said = client.call(&["SLOTD", "NODE", "LABEL", id, "chaos", value]);
        said.is_ok_and(|said| said.text().is_some_and(|text| text.contains("table_version")))
    }

    fn measure_recovery(&mut self) {
        let start = Instant::now();
        while start.elapsed() < HEAL {
            if self.change() {
                self.recoveries.add(start.elapsed());
                return;
            }
            sleep(Duration::from_millis(20));
        }
        self.recoveries.add(HEAL);
        for node in 0..self.fleet.len() {
            let status = self.fleet.ask(node, &["SLOTD", "STATUS"]);
            let up = self.fleet.is_up(node);
            println!("no change for {HEAL:?}: node {node}, up {up}: {status:?}");
            println!("{}", self.fleet.last_words(node));
        }
    }

    fn compare_histories(&mut self) {
        for node in 0..self.fleet.len() {
            if self.fleet.is_up(node)
                && let Ok(said) = self.fleet.ask(node, &["SLOTD", "HISTORY"])
            {
                self.histories.add(node, &said);
            }
        }
    }

    /// Everything runs again: the cluster must be whole, and all must say the same.
    fn heal(&mut self) -> Result<Duration, String> {
        let start = Instant::now();
        for node in 0..self.fleet.len() {
            if self.fleet.is_paused(node) {
                self.fleet.resume(node).map_err(|error| error.to_string())?;
            } else if !self.fleet.is_up(node) {
                self.start(node).map_err(|error| error.to_string())?;
            }
        }
        self.fleet.wait_until_serving(HEAL).map_err(|error| error.to_string())?;
        let same = |fleet: &Fleet| {
            let tables = (0..fleet.len()).map(|node| fleet.ask(node, &["CLUSTER", "SLOTS"]).ok());
            let tables: Option<Vec<_>> = tables.collect();
            tables.is_some_and(|tables| tables.iter().all(|table| *table == tables[0]))
        };
        self.fleet.wait_for(HEAL, "all agree", same).map_err(|error| error.to_string())?;
        self.compare_histories();
        Ok(start.elapsed())
    }

    /// Prints the figures; returns what did not hold.
    fn report(
        &mut self,
        probed: &Verdict,
        written: u64,
        healed: Result<Duration, String>,
    ) -> Vec<String> {
        let [killed, paused, started, resumed] = self.counts;
        println!("faults: {killed} killed, {started} started, {paused} paused, {resumed} resumed");
        println!(
            "table: {} changes made, histories of {} entries compared, last version {}",
            self.changes,
            self.histories.len(),
            self.histories.last_version(),
        );
        println!(
            "probe: {} rounds at {:.0} a second (mark {PROBE_MARK}), {} values; \
             load: {written} writes",
            probed.rounds, probed.rate, probed.values,
        );
        println!(
            "changes possible again after the majority was back: {} times, median {:.2} s (mark \
             {:.0}), worst {:.2} s (mark {:.0})",
            self.recoveries.len(),
            self.recoveries.percentile(0.5).as_secs_f64(),
            MEDIAN_MARK.as_secs_f64(),
            self.recoveries.longest().as_secs_f64(),
            WORST_MARK.as_secs_f64(),
        );
        let mut faults = probed.faults.clone();
        faults.extend(self.histories.forks().iter().cloned());
        match healed {
            Ok(time) => println!("whole again at the end after {:.2} s", time.as_secs_f64()),
            Err(error) => faults.push(format!("not whole again at the end: {error}")),
        }
        faults
    }
}
