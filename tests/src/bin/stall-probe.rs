//! Shows that one slot's lock, held for seconds, holds up nobody else.
//!
//! Starts a node, runs paced requests to other slots without the hook, then again while
//! `DEBUG SLOT-HOLD slot ms` holds one slot's lock and many clients wait for that slot. Meanwhile
//! another slot is taken from the table and given back, watched from other connections.
//! Invariant: waits count from the planned moment of a request, so a stall cannot hide itself.

use slot_tests::figures::Waits;
use slot_tests::flags::Flags;
use slot_tests::keys::{SLOTS, key_in};
use slot_tests::process::{Node, binary};
use slot_tests::resp::{Client, Value};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const USAGE: &str =
    "stall-probe [--slotd PATH] [--hold-ms N] [--waiters N] [--probes N] [--rate N]";
const MAX_WAIT: Duration = Duration::from_millis(250);
const MAX_P99_RATIO: f64 = 3.0;
const MAX_TABLE_LAG: Duration = Duration::from_millis(50);
const TABLE_PAUSE: Duration = Duration::from_millis(200);
/// The slot held, the slot whose owner changes; the probes use neither.
const HELD: u16 = 100;
const CHANGED: u16 = 200;

struct Probe {
    address: SocketAddr,
    hold: Duration,
    waiters: usize,
    probes: usize,
    pace: Duration,
}

/// What one run with or without the hook showed.
struct Run {
    waits: Waits,
    connects: Waits,
    errors: Vec<String>,
}

fn main() -> io::Result<ExitCode> {
    let mut flags = Flags::from_env(USAGE);
    let slotd = flags.maybe::<PathBuf>("--slotd");
    let hold = Duration::from_millis(flags.value("--hold-ms", 5_000));
    let waiters = flags.value("--waiters", 64);
    let probes = flags.value("--probes", 16);
    let pace = Duration::from_secs(1) / flags.value("--rate", 500u32).max(1);
    flags.finish();
    let args = ["--cluster-enabled", "yes", "--enable-debug-command", "yes"];
    let node = Node::start_binary(&slotd.map_or_else(binary, Ok)?, &args)?;
    let mut admin = node.client()?;
    expect_ok(&mut admin, "CLUSTER ADDSLOTSRANGE 0 16383")?;
    expect_ok(&mut admin, "CONFIG SET cluster-require-full-coverage no")?;
    let probe = Probe { address: node.address(), hold, waiters, probes, pace };
    node.wait_until_served(&key_in(SLOTS - 1))?;

    let quiet = probe.run()?;
    let holder = probe.hold_the_slot()?;
    let table = probe.change_the_table()?;
    let held = probe.run()?;
    let lags = table.join().map_err(|_| io::Error::other("the table watcher panicked"))??;
    let holds = judge(quiet, held, holder.finish()?, lags, &probe);
    println!("stall-probe: {}", if holds { "holds" } else { "DOES NOT HOLD" });
    // Returned, not exited with: the node ends with its owner.
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Probe {
    /// Paced requests to other slots, and new connections, for as long as the hook would hold.
    fn run(&self) -> io::Result<Run> {
        let until = Instant::now() + self.hold.mul_f64(0.9);
        let probes: Vec<_> = (0..self.probes)
            .map(|number| {
                let (address, pace) = (self.address, self.pace);
                spawn(move || paced(address, number, pace, until))
            })
            .collect();
        let mut connects = Waits::default();
        let mut errors = Vec::new();
        while Instant::now() < until {
            let start = Instant::now();
            match Client::connect(self.address).and_then(|mut client| client.say("PING")) {
                Ok(Value::Simple(pong)) if pong == "PONG" => connects.add(start.elapsed()),
                other => errors.push(format!("a new connection: {other:?}")),
            }
            sleep(Duration::from_millis(20));
        }
        let mut waits = Waits::default();
        for probe in probes {
            let (own, error) =
                probe.join().map_err(|_| io::Error::other("a probe thread panicked"))?;
            waits.absorb(own);
            errors.extend(error);
        }
        Ok(Run { waits, connects, errors })
    }

    /// Sets the hook off, then has many clients wait for the slot: none may tie up a worker.
    fn hold_the_slot(&self) -> io::Result<Holder> {
        let mut hook = Client::connect(self.address)?;
        hook.wait_at_most(self.hold * 3 + Duration::from_secs(5));
        let line = format!("DEBUG SLOT-HOLD {HELD} {}", self.hold.as_millis());
        let start = Instant::now();
        hook.send(&line.split(' ').collect::<Vec<_>>())?;
        // The hook may answer at once or at its end: it is running when a GET no longer answers.
        let mut scout = Client::connect(self.address)?;
        let key = key_in(HELD);
        loop {
            scout.send(&["GET", &key])?;
            if scout.is_silent_for(Duration::from_millis(50))? {
                break;
            }
            let reply = scout.read()?;
            if start.elapsed() > Duration::from_secs(2) {
                return Err(io::Error::other(format!(
                    "`{line}` holds nothing: GET answered {reply:?}; the hook: {:?}",
                    hook.read()
                )));
            }
        }
        let waiters = (0..self.waiters)
            .map(|_| {
                let mut client = Client::connect(self.address)?;
                client.send(&["INCR", &key])?;
                client.wait_at_most(self.hold * 3);
                Ok(client)
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Holder { start, hook, scout, waiters, hold: self.hold })
    }

    /// Takes a slot away and gives it back, again and again; how long until clients see it.
    fn change_the_table(&self) -> io::Result<JoinHandle<io::Result<Waits>>> {
        let until = Instant::now() + self.hold.mul_f64(0.8);
        let mut admin = Client::connect(self.address)?;
        let watch = Watch::start(self.address);
        Ok(spawn(move || {
            let mut lags = Waits::default();
            while Instant::now() < until {
                for (verb, served) in [("DELSLOTS", false), ("ADDSLOTS", true)] {
                    let start = Instant::now();
                    expect_ok(&mut admin, &format!("CLUSTER {verb} {CHANGED}"))?;
                    lags.add(watch.wait_for(served, start)?);
                    sleep(TABLE_PAUSE);
                }
            }
            watch.finish()?;
            Ok(lags)
        }))
    }
}

/// The hook and those who wait behind it.
struct Holder {
    start: Instant,
    hook: Client,
    scout: Client,
    waiters: Vec<Client>,
    hold: Duration,
}

impl Holder {
    /// How long the slot was really held, once every waiter has its answer.
    fn finish(mut self) -> io::Result<Duration> {
        self.scout.wait_at_most(self.hold * 3);
        self.scout.read()?;
        let held = self.start.elapsed();
        let mut counts = Vec::new();
        for waiter in &mut self.waiters {
            let reply = waiter.read()?;
            counts.push(reply.int().ok_or_else(|| io::Error::other(format!("INCR: {reply:?}")))?);
        }
        counts.sort_unstable();
        if counts != (1..=counts.len() as i64).collect::<Vec<_>>() {
            return Err(io::Error::other("the waiters' INCRs did not each count once"));
        }
        expect_value(self.hook.read()?, "the hook")?;
        Ok(held)
    }
}

/// Two connections that look at the changed slot without end: one by key, one by CLUSTER SLOTS.
struct Watch {
    by_key: Arc<AtomicBool>,
    by_table: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<io::Result<()>>>,
}

impl Watch {
    fn start(address: SocketAddr) -> Self {
        let by_key = Arc::new(AtomicBool::new(true));
        let by_table = Arc::new(AtomicBool::new(true));
        let stop = Arc::new(AtomicBool::new(false));
        let key = key_in(CHANGED);
        let get = move |client: &mut Client| -> io::Result<bool> {
            let reply = client.call(&["GET", &key])?;
            Ok(!reply.is_error("CLUSTERDOWN") && !reply.is_error("MOVED"))
        };
        let watchers = vec![
            watcher(address, Arc::clone(&by_key), Arc::clone(&stop), get),
            watcher(address, Arc::clone(&by_table), Arc::clone(&stop), |client| {
                Ok(covers(&client.say("CLUSTER SLOTS")?, CHANGED))
            }),
        ];
        Self { by_key, by_table, stop, watchers }
    }

    /// How long after `start` both watchers saw the slot served (or not).
    fn wait_for(&self, served: bool, start: Instant) -> io::Result<Duration> {
        let seen = |watcher: &AtomicBool| watcher.load(Ordering::Acquire) == served;
        while !(seen(&self.by_key) && seen(&self.by_table)) {
            if start.elapsed() > Duration::from_secs(5) {
                return Err(io::Error::other("a table change did not show within 5 s"));
            }
            sleep(Duration::from_micros(200));
        }
        Ok(start.elapsed())
    }

    fn finish(self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        for watcher in self.watchers {
            watcher.join().map_err(|_| io::Error::other("a watcher panicked"))??;
        }
        Ok(())
    }
}

fn watcher(
    address: SocketAddr,
    seen: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    mut look: impl FnMut(&mut Client) -> io::Result<bool> + Send + 'static,
) -> JoinHandle<io::Result<()>> {
    spawn(move || {
        let mut client = Client::connect(address)?;
        while !stop.load(Ordering::Acquire) {
            let served = look(&mut client)?;
            seen.store(served, Ordering::Release);
            sleep(Duration::from_millis(1));
        }
        Ok(())
    })
}

fn covers(reply: &Value, slot: u16) -> bool {
    reply.items().unwrap_or_default().iter().any(|range| {
        let bounds = range.items().unwrap_or_default();
        let bound = |at: usize| bounds.get(at).and_then(Value::int);
        matches!((bound(0), bound(1)), (Some(low), Some(high))
            if (low..=high).contains(&i64::from(slot)))
    })
}

fn paced(
    address: SocketAddr,
    number: usize,
    pace: Duration,
    until: Instant,
) -> (Waits, Option<String>) {
    let mut waits = Waits::default();
    let work = || -> io::Result<()> {
        let mut client = Client::connect(address)?;
        client.wait_at_most(Duration::from_secs(30));
        let mut planned = Instant::now();
        for round in 0u32.. {
            planned += pace;
            if planned >= until {
                break;
            }
            sleep(planned.saturating_duration_since(Instant::now()));
            // Spread over all slots but the two the probe itself plays with.
            let name = format!("probe:{number}:{}", round % 1009);
            let slot = slot_tests::keys::slot_of(name.as_bytes());
            if slot == HELD || slot == CHANGED {
                continue;
            }
            let reply = if round % 2 == 0 {
                client.call(&["SET", &name, "value"])?
            } else {
                client.call(&["GET", &name])?
            };
            waits.add(planned.elapsed());
            expect_value(reply, &name)?;
        }
        Ok(())
    };
    let error = { work }().err().map(|error| format!("probe {number}: {error}"));
    (waits, error)
}

fn judge(
    mut quiet: Run,
    mut held: Run,
    held_for: Duration,
    mut lags: Waits,
    probe: &Probe,
) -> bool {
    let (before, after) = (quiet.waits.percentile(0.99), held.waits.percentile(0.99));
    let ratio = after.as_secs_f64() / before.as_secs_f64().max(f64::MIN_POSITIVE);
    for (name, run, p99) in [("without hook", &quiet, before), ("with hook", &held, after)] {
        println!(
            "{name}: {} requests, p99 {p99:?}, longest {:?}; {} new connections, longest {:?}",
            run.waits.len(),
            run.waits.longest(),
            run.connects.len(),
            run.connects.longest(),
        );
        run.errors.iter().take(5).for_each(|error| println!("error: {error}"));
    }
    println!("p99 with the hook is {ratio:.2} times that without");
    println!("the slot was held {held_for:?}, {} clients waited for it", probe.waiters);
    let (median, longest) = (lags.percentile(0.5), lags.longest());
    println!("{} table changes, seen after {median:?}, at most {longest:?}", lags.len());
    let lines = [
        ("the hook held the slot", held_for >= probe.hold.mul_f64(0.8)),
        ("no errors", quiet.errors.is_empty() && held.errors.is_empty()),
        ("no request elsewhere waits over 250 ms", held.waits.longest() <= MAX_WAIT),
        ("no new connection waits over 250 ms", held.connects.longest() <= MAX_WAIT),
        ("p99 at most 3x that without the hook", ratio <= MAX_P99_RATIO),
        ("table changes visible within 50 ms", lags.len() >= 2 && longest <= MAX_TABLE_LAG),
    ];
    lines
        .iter()
        .for_each(|(line, holds)| println!("{} {line}", if *holds { "ok  " } else { "FAIL" }));
    lines.iter().all(|(_, holds)| *holds)
}

fn expect_ok(client: &mut Client, line: &str) -> io::Result<()> {
    let reply = client.say(line)?;
    if reply == Value::ok() {
        return Ok(());
    }
    Err(io::Error::other(format!("`{line}` answered {reply:?}")))
}

fn expect_value(reply: Value, what: &str) -> io::Result<()> {
    match reply {
        Value::Error(text) => Err(io::Error::other(format!("{what}: {text}"))),
        _ => Ok(()),
    }
}
