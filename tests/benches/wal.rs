//! What the write-ahead log costs, in process and without sockets: an append in ready files by one
//! and two threads, the syncs of `always`, a steady flow of writes under `everysec`.
//!
//! ```text
//!   cargo bench -p slot-tests --bench wal -- [append | always | flow MIB_PER_SECOND SECONDS BYTES]
//! ```
//! The logs lie in `TMPDIR`. Not a test: it prints, and judges nothing.

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use slot_tests::figures::cpu_time;
use slotd::io::wal::{self, Crowd, Hooks, NodeWal, Policy, RunningWal};
use slotd::persist::log::{Ids, Options, Position, Sizes, Trust};
use slots::{Epoch, NodeId, OpIndex, SlotId, StoreId};

/// As with two workers.
const LANES: u16 = 16;
/// A record of 108 bytes, 112 in the chunk.
const PAYLOAD_BYTES: usize = 72;
/// They fit the part of each lane's chunk that is made ready when the lane turns to it, behind
/// `FILL`.
const READY_RECORDS: u64 = 65_000;
/// The payload of a record of 32 KiB.
static FILL: [u8; 32 * 1024 - 36] = [7; 32 * 1024 - 36];
const ROUNDS: usize = 15;

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let number = |at: usize, usual: u64| words.get(at).map_or(Ok(usual), |word| word.parse());
    match words.first().map(String::as_str) {
        None => {
            append();
            always();
            flow(20, 10, PAYLOAD_BYTES + 36);
            flow(200, 10, 1024);
        }
        Some("append") => append(),
        Some("always") => always(),
        Some("flow") => match (number(1, 200), number(2, 10), number(3, 1024)) {
            (Ok(rate), Ok(seconds), Ok(bytes @ 36..)) => flow(rate, seconds, bytes as usize),
            _ => eprintln!("flow MIB_PER_SECOND SECONDS BYTES: whole numbers, 36 bytes at least"),
        },
        Some(word) => eprintln!("no such measurement: {word}"),
    }
}

/// A log in a folder that goes with it.
struct Fresh {
    running: Option<RunningWal>,
    folder: PathBuf,
}

impl Fresh {
    fn new(policy: Policy) -> Fresh {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("slotd-bench-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = env::temp_dir().join(name);
        let ids = Ids { node: NodeId::from_bytes([1; 20]), store: StoreId::from_bytes([2; 16]) };
        let recovery = wal::find(&folder, ids, Trust::ProcessDied).expect("is found");
        let hooks = Hooks {
            on_progress: Box::new(|| {}),
            crowd: Box::new(Crowd::default),
            on_fatal: Box::new(|line| {
                eprintln!("{line}");
                std::process::exit(1);
            }),
        };
        let options = Options { lanes: LANES, sizes: Sizes::default(), run: 1 };
        let running = wal::start(recovery, Vec::new(), options, policy, hooks).expect("starts");
        Fresh { running: Some(running), folder }
    }

    fn running(&self) -> &RunningWal {
        self.running.as_ref().expect("it runs")
    }

    /// Until no file is being made and the threads of the log have gone to sleep.
    fn settle(&self) {
        let used = || cpu_time(std::process::id()).expect("proc is mounted");
        let mut before = used();
        loop {
            thread::sleep(Duration::from_millis(50));
            let now = used();
            let is_quiet = now - before < Duration::from_millis(1);
            if is_quiet && !self.folder.join("wal.tmp").exists() {
                return;
            }
            before = now;
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        drop(self.running.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Which slots a thread writes to.
#[derive(Clone, Copy)]
enum Slots {
    /// Any: the lanes go from one processor to the other all the time.
    All,
    /// Those of every other lane, from 0 or 1 on: nothing is shared but the log itself.
    EveryOther(u64),
}

/// Appends so many records to slots by chance; nanoseconds, and page faults of this thread.
fn append_some(wal: &NodeWal, seed: u64, count: u64, slots: Slots) -> (f64, u64) {
    let payload = [7; PAYLOAD_BYTES];
    let (mask, or) = match slots {
        Slots::All => (u64::MAX, 0),
        Slots::EveryOther(first) => (!1, first),
    };
    let (faults, began) = (faults(), Instant::now());
    let mut x = seed;
    for n in 0..count {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = SlotId::new(((x >> 50) & mask | or) as u16).expect("14 bits");
        wal.append(slot, Epoch(1), OpIndex(n), &payload);
    }
    (began.elapsed().as_nanos() as f64 / count as f64, self::faults() - faults)
}

/// Minor page faults of this thread.
fn faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("proc is mounted");
    // The name of the thread, in brackets, may have blanks.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().nth(7).and_then(|word| word.parse().ok()).expect("the tenth field")
}

/// Cost in files that are ready: nothing is made, waits or is synced meanwhile. First in chunks of
/// lanes that were quiet, then in those that the keeper has made ready for lanes in a hurry.
fn append() {
    println!("{READY_RECORDS} records of 108 bytes in ready files, {LANES} lanes, {ROUNDS} runs");
    for (what, is_warm) in [("quiet lanes", false), ("lanes in a hurry", true)] {
        let (mut alone, mut own, mut shared) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(one_thread(is_warm));
            own.push(two_threads(is_warm, [Slots::EveryOther(0), Slots::EveryOther(1)]));
            shared.push(two_threads(is_warm, [Slots::All; 2]));
        }
        println!(" {what}");
        let one = show("one thread", &mut alone);
        for (what, runs) in [("two, slots of their own", &mut own), ("two, all slots", &mut shared)]
        {
            let two = show(what, runs);
            let (best, middle) = (2.0 * one.0 / two.0, 2.0 * one.1 / two.1);
            println!("{:28} x{middle:.2} of one (best of each: x{best:.2})", "");
        }
    }
}

fn one_thread(is_warm: bool) -> (f64, u64) {
    let fresh = ready_log(is_warm);
    append_some(fresh.running().wal(), 1, READY_RECORDS, Slots::All)
}

fn two_threads(is_warm: bool, slots: [Slots; 2]) -> (f64, u64) {
    let fresh = ready_log(is_warm);
    let wal = fresh.running().wal();
    let barrier = Barrier::new(2);
    let run = |seed, slots| {
        barrier.wait();
        append_some(wal, seed, READY_RECORDS / 2, slots)
    };
    let (one, two) = thread::scope(|scope| {
        let two = scope.spawn(|| run(2, slots[0]));
        (run(3, slots[1]), two.join().expect("ends"))
    });
    (one.0.max(two.0), one.1 + two.1)
}

/// Each lane has a chunk with room for its part; what the keeper does about it is over.
fn ready_log(is_warm: bool) -> Fresh {
    let fresh = Fresh::new(Policy::No);
    let wal = fresh.running().wal();
    let lane = |lane: u16| SlotId::new(lane).expect("a slot");
    let round = || {
        for n in 0..LANES {
            wal.append(lane(n), Epoch(1), OpIndex(0), &FILL);
        }
    };
    if is_warm {
        // As many as fit the first chunk.
        (0..31).for_each(|_| round());
    }
    fresh.settle();
    round();
    fresh.settle();
    fresh
}

fn show(who: &str, runs: &mut [(f64, u64)]) -> (f64, f64) {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, middle, most) = (runs[0], runs[runs.len() / 2], runs[runs.len() - 1]);
    println!(
        "  {who:24} {:6.1} ns an append (least {:.1}, most {:.1}), {} page faults",
        middle.0, least.0, most.0, middle.1
    );
    (least.0, middle.0)
}

/// Fifty clients, each of which writes again as soon as its last write is synced.
fn always() {
    const CLIENTS: usize = 50;
    const WRITES: u64 = 20_000;
    let fresh = Fresh::new(Policy::Always);
    let wal = fresh.running().wal();
    let mut waits: Vec<Position> = Vec::new();
    let (mut done, began) = (0, Instant::now());
    while done < WRITES {
        waits.retain(|position| wal.synced(position.lane) < position.at);
        while waits.len() < CLIENTS {
            done += 1;
            let slot = SlotId::new((done * 7919 % 16_384) as u16).expect("a slot");
            waits.push(wal.append(slot, Epoch(1), OpIndex(done), &[7; PAYLOAD_BYTES]));
        }
        thread::yield_now();
    }
    let syncs = fresh.running().figures().log.syncs_total as f64;
    let per_second = done as f64 / began.elapsed().as_secs_f64();
    println!("always, {CLIENTS} clients");
    println!("  {per_second:.0} writes/s, {:.1} syncs per 1,000 writes", syncs * 1e3 / done as f64);
}

/// A steady flow of records of so many bytes under `everysec`, old files let go as by checkpoints.
fn flow(mib_per_second: u64, seconds: u64, bytes: usize) {
    const TICKS: u64 = 200;
    let fresh = Fresh::new(Policy::EverySec);
    let (running, wal) = (fresh.running(), fresh.running().wal());
    let per_tick = (mib_per_second << 20) / TICKS / bytes as u64;
    let mut writer = Writer { payload: vec![7; bytes - 36], ..Writer::default() };
    let (mut behind, mut longest, mut floors_at) = (Duration::ZERO, Duration::ZERO, 0);
    let mut most = wal.figures();
    println!("everysec, {mib_per_second} MiB/s for {seconds} s in records of {bytes} bytes");
    let (began, faults_before) = (Instant::now(), faults());
    for turn in 1..=seconds * TICKS {
        writer.write(wal, per_tick);
        let figures = running.figures();
        most.waiting_bytes = most.waiting_bytes.max(figures.log.waiting_bytes);
        most.unsynced_bytes = most.unsynced_bytes.max(figures.log.unsynced_bytes);
        longest = longest.max(figures.last_sync);
        // A checkpoint a second: harder than any real one.
        if figures.log.appended_bytes - floors_at > mib_per_second << 20 {
            floors_at = figures.log.appended_bytes;
            running.drop_before((0..LANES).map(|lane| wal.synced(lane)).collect());
        }
        let due = Duration::from_secs(turn) / TICKS as u32;
        match due.checked_sub(began.elapsed()) {
            Some(early) => thread::sleep(early),
            None => behind = behind.max(began.elapsed() - due),
        }
    }
    let Writer { count, full, spent, .. } = writer;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let per_second = mib(count * bytes as u64) / began.elapsed().as_secs_f64();
    let (ns, faults) = (spent.as_nanos() as f64 / count as f64, (faults() - faults_before) as f64);
    println!(
        "  {per_second:.1} MiB/s, behind by {behind:.1?} at most; {full} of {count} found it full"
    );
    println!("  {ns:.1} ns an append, {:.1} page faults in 1,000", faults * 1e3 / count as f64);
    println!(
        "  {:.1} MiB waited at most, {:.1} MiB were unsynced; longest round {longest:.1?}, {} \
         rounds, {} syncs",
        mib(most.waiting_bytes),
        mib(most.unsynced_bytes),
        wal.figures().rounds_total,
        wal.figures().syncs_total,
    );
}

/// Who writes a flow.
#[derive(Default)]
struct Writer {
    payload: Vec<u8>,
    dice: u64,
    count: u64,
    /// Appends that would have been refused.
    full: u64,
    spent: Duration,
}

impl Writer {
    fn write(&mut self, wal: &NodeWal, count: u64) {
        let (flags, began) = (wal.flags(), Instant::now());
        for _ in 0..count {
            self.full += u64::from(flags.is_full());
            let x = self.dice.wrapping_mul(6_364_136_223_846_793_005);
            self.dice = x.wrapping_add(1_442_695_040_888_963_407);
            self.count += 1;
            let slot = SlotId::new((self.dice >> 50) as u16).expect("14 bits");
            wal.append(slot, Epoch(1), OpIndex(self.count), &self.payload);
        }
        self.spent += began.elapsed();
    }
}
