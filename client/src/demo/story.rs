//! The story, told once: form, write, grow, tell three boxes and later the fourth, look.
//!
//! One thread for each box. Invariant: the fourth box is told after it has written its number of
//! readings by the old map, not after a time, so the load does not depend on the machine.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use slots::Endpoint;

use super::audit::{Found, audit};
use super::edge::{self, Deadline, Nodes};
use super::growth;
use super::ingest::{self, Answer, BOXES, By, IngestBox, LATE, Reading};
use super::plan::Plan;
use super::report::{self, grouped};
use super::unchecked::UncheckedFleet;
use super::wire::{Connection, Reply};
use super::{DemoOptions, DemoOutcome, Tally};

/// Boxes write this often: often enough that a batch is small beside what is kept.
const TICKS_A_SECOND: u32 = 50;
/// Written by each box before the growth, and after all have been told: seconds of its rate.
const LEAD_SECONDS: f64 = 0.5;
/// A box that is this many times slower than its rate is stuck.
const SLOWNESS: u32 = 20;
/// The least that is waited for anything of the boxes.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is refused at the end is written again for so long.
const LAST_TRIES: Duration = Duration::from_secs(5);
/// A node tells of refusals at most once a second; its line comes soon after.
const LOG_PATIENCE: Duration = Duration::from_secs(4);

/// Tells the story with these nodes, none of which is started. What is printed is in order of
/// time; the table at the end is the truth.
pub(super) fn tell(
    nodes: &mut dyn Nodes,
    options: &DemoOptions,
    out: &mut dyn Write,
) -> io::Result<DemoOutcome> {
    act(nodes, options, out).map_err(|error| {
        io::Error::new(error.kind(), format!("{error}{}", edge::last_words(nodes)))
    })
}

fn act(
    nodes: &mut dyn Nodes,
    options: &DemoOptions,
    out: &mut dyn Write,
) -> io::Result<DemoOutcome> {
    let plan = Plan::new();
    report::plan(out, options)?;
    growth::form(nodes, &plan)?;
    writeln!(out, "three nodes own all 16,384 slots; the boxes write")?;
    let boxes = write_and_grow(nodes, options, &plan, out)?;
    let refusals_counted = refusals(nodes.endpoints())?;
    let log_lines = log_lines(nodes, refusals_counted)?;
    let map = Connection::open(&nodes.endpoints()[0])?.map()?;
    let acknowledged: Vec<Reading> =
        boxes.iter().flat_map(|ingest| ingest.acknowledged.iter().copied()).collect();
    writeln!(out, "looking for {} readings on every node", grouped(acknowledged.len() as u64))?;
    let found = audit(nodes.endpoints(), &map, &acknowledged)?;
    let outcome = outcome(nodes, &boxes, found, refusals_counted, log_lines);
    report::table(out, &outcome)?;
    Ok(outcome)
}

/// Runs the boxes while the fleet grows; what they have seen when all is written.
fn write_and_grow(
    nodes: &mut dyn Nodes,
    options: &DemoOptions,
    plan: &Plan,
    out: &mut dyn Write,
) -> io::Result<Vec<IngestBox>> {
    let board = Board::default();
    let map = plan.map_before(nodes.endpoints());
    let first = nodes.endpoints()[0].clone();
    std::thread::scope(|scope| {
        let stop = StopAtEnd(&board);
        let workers: Vec<_> = (0..BOXES)
            .map(|number| {
                let ingest = IngestBox::new(number, map.clone());
                let worker = Worker::new(ingest, first.clone(), &board, plan, options);
                scope.spawn(|| worker.run())
            })
            .collect();
        let conducted = conduct(nodes, options, plan, &board, out);
        drop(stop);
        // A box's own error says more than that it was waited for in vain.
        let boxes = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<io::Result<Vec<IngestBox>>>()?;
        conducted.map(|()| boxes)
    })
}

/// What happens to the fleet while the boxes write.
fn conduct(
    nodes: &mut dyn Nodes,
    options: &DemoOptions,
    plan: &Plan,
    board: &Board,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lead = lead(options);
    let patience = PATIENCE + options.late * SLOWNESS;
    board.until_written(patience, lead)?;
    growth::grow(nodes, plan)?;
    let before = board.start(Phase::Grown);
    let told = "node-d has taken over 4,096 slots; ingest-1, -2 and -3 have the new map";
    writeln!(out, "{} readings are written; {told}", grouped(before.iter().sum()))?;
    let late = options.late_readings();
    edge::wait(patience, "ingest-4 writes by its old map", || board.reached(&board.stale, late))?;
    board.start(Phase::AllTold);
    let told = "written by its old map, ingest-4 is told";
    writeln!(out, "{} readings later, {told}", grouped(board.stale.load(Ordering::SeqCst)))?;
    let counts = board.counts();
    edge::wait(patience, "all boxes write by the new map", || {
        (0..BOXES).try_for_each(|number| board.at_least(number, counts[number] + lead))
    })
}

/// Readings of each box before the growth, and after all have been told.
fn lead(options: &DemoOptions) -> u64 {
    (f64::from(options.per_second) * LEAD_SECONDS) as u64
}

/// How far the story is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
enum Phase {
    /// Three nodes own all slots.
    Three,
    /// Four do; the late box does not know.
    Grown,
    /// All boxes may know.
    AllTold,
    /// No new readings.
    Stop,
}

/// What the story and the boxes tell each other.
#[derive(Default)]
struct Board {
    phase: AtomicU8,
    /// New readings sent, by box.
    sent: [AtomicU64; BOXES],
    /// Those of the late box by its old map.
    stale: AtomicU64,
    /// Boxes that have ended with an error.
    failed: AtomicU8,
}

impl Board {
    fn phase(&self) -> Phase {
        let phase = self.phase.load(Ordering::SeqCst);
        let all = [Phase::Three, Phase::Grown, Phase::AllTold];
        all.into_iter().find(|each| *each as u8 == phase).unwrap_or(Phase::Stop)
    }

    /// Goes on to a phase; what was sent until then.
    fn start(&self, phase: Phase) -> [u64; BOXES] {
        let counts = self.counts();
        self.phase.store(phase as u8, Ordering::SeqCst);
        counts
    }

    fn counts(&self) -> [u64; BOXES] {
        std::array::from_fn(|number| self.sent[number].load(Ordering::SeqCst))
    }

    /// Has a box sent so many?
    fn at_least(&self, number: usize, count: u64) -> Result<(), String> {
        let why = |why| format!("{}: {why}", ingest::name(number));
        self.reached(&self.sent[number], count).map_err(why)
    }

    /// Is a counter so far? Nothing is waited for once a box has failed.
    fn reached(&self, counter: &AtomicU64, count: u64) -> Result<(), String> {
        let sent = counter.load(Ordering::SeqCst);
        if self.failed.load(Ordering::SeqCst) > 0 || sent >= count {
            return Ok(());
        }
        Err(format!("{sent} of {count} readings are written"))
    }

    fn until_written(&self, at_most: Duration, each: u64) -> io::Result<()> {
        edge::wait(at_most, "the boxes write", || {
            (0..BOXES).try_for_each(|number| self.at_least(number, each))
        })
    }
}

/// Stops the boxes when the story ends, however it ends.
struct StopAtEnd<'a>(&'a Board);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.start(Phase::Stop);
    }
}

/// A box with its connections.
struct Worker<'a> {
    ingest: IngestBox,
    /// Whom it asks for the map.
    first: Endpoint,
    board: &'a Board,
    plan: &'a Plan,
    per_tick: usize,
    open: HashMap<Arc<Endpoint>, Connection>,
    knows: bool,
}

impl<'a> Worker<'a> {
    fn new(
        ingest: IngestBox,
        first: Endpoint,
        board: &'a Board,
        plan: &'a Plan,
        options: &DemoOptions,
    ) -> Worker<'a> {
        let per_tick = options.per_second.div_ceil(TICKS_A_SECOND) as usize;
        Worker { ingest, first, board, plan, per_tick, open: HashMap::new(), knows: false }
    }

    /// Writes until the story ends, then what it has kept.
    fn run(mut self) -> io::Result<IngestBox> {
        let done = self.write_on().and_then(|()| self.write_rest());
        if done.is_err() {
            self.board.failed.fetch_add(1, Ordering::SeqCst);
        }
        done.map(|()| self.ingest)
    }

    fn write_on(&mut self) -> io::Result<()> {
        let told_at = if self.ingest.number == LATE { Phase::AllTold } else { Phase::Grown };
        loop {
            let next = Deadline::after(Duration::from_secs(1) / TICKS_A_SECOND);
            let phase = self.board.phase();
            if phase == Phase::Stop {
                return Ok(());
            }
            if phase >= told_at && !self.knows {
                self.learn()?;
                self.knows = true;
            }
            let by = match (phase, self.knows) {
                (_, true) => By::After,
                (Phase::Three, false) => By::Before,
                (_, false) => By::Stale,
            };
            let readings = self.ingest.take_in(self.per_tick, by, self.plan);
            self.write(&readings)?;
            let count = readings.len() as u64;
            self.board.sent[self.ingest.number].fetch_add(count, Ordering::SeqCst);
            if by == By::Stale {
                self.board.stale.fetch_add(count, Ordering::SeqCst);
            }
            next.sleep();
        }
    }

    /// Writes what was refused, until nothing is.
    fn write_rest(&mut self) -> io::Result<()> {
        let deadline = Deadline::after(LAST_TRIES);
        while self.ingest.keeps() {
            if deadline.is_over() {
                let name = ingest::name(self.ingest.number);
                let seconds = LAST_TRIES.as_secs();
                let text = format!("{name}: its writes are still refused after {seconds} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            self.learn()?;
            if self.ingest.keeps() {
                Deadline::after(Duration::from_secs(1) / TICKS_A_SECOND).sleep();
            }
        }
        Ok(())
    }

    /// Takes the map as a node tells it, and writes by it what was kept.
    fn learn(&mut self) -> io::Result<()> {
        let map = self.connection(&Arc::new(self.first.clone()))?.map()?;
        let kept = self.ingest.learn(map);
        self.write(&kept)
    }

    fn write(&mut self, readings: &[Reading]) -> io::Result<()> {
        for (node, batch) in self.ingest.sort(readings) {
            let mut answers = Vec::with_capacity(batch.len());
            let words = |reading: Reading| vec!["SET".to_owned(), reading.key(), reading.value()];
            let connection = self.connection(&node)?;
            connection.ask_each(&batch, words, |reading, reply| answers.push((reading, reply)))?;
            for (reading, reply) in answers {
                self.ingest.answered(reading, &judge(&node, &reply)?);
            }
        }
        Ok(())
    }

    fn connection(&mut self, to: &Arc<Endpoint>) -> io::Result<&mut Connection> {
        if !self.open.contains_key(to) {
            let mut connection = Connection::open(to)?;
            connection.ask_text(&["CLIENT", "SETNAME", &ingest::name(self.ingest.number)])?;
            self.open.insert(to.clone(), connection);
        }
        self.open.get_mut(to).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// What a reply to SET means for the box. Any other refusal is an error of the demo.
fn judge(node: &Endpoint, reply: &Reply) -> io::Result<Answer> {
    match reply {
        Reply::SimpleString(text) if text == b"OK" => Ok(Answer::Ok),
        Reply::Error(error) if error.starts_with("MOVED ") => Ok(Answer::Moved),
        Reply::Error(error) if growth::is_later(error) => Ok(Answer::NotNow),
        other => Err(io::Error::other(format!("{node}: SET: expected OK, got {other:?}"))),
    }
}

/// What the nodes count together.
fn refusals(nodes: &[Endpoint]) -> io::Result<u64> {
    let counts = nodes.iter().map(|node| {
        let info = Connection::open(node)?.ask_text(&["INFO", "cluster"])?;
        let count = info.lines().find_map(|line| line.strip_prefix("cluster_stale_refusals:"));
        count.and_then(|count| count.trim_end().parse::<u64>().ok()).ok_or_else(|| {
            io::Error::other(format!("{node}: INFO has no field cluster_stale_refusals"))
        })
    });
    counts.sum()
}

/// The nodes' lines on what they refused; they come within a second or two.
fn log_lines(nodes: &dyn Nodes, refusals: u64) -> io::Result<Vec<String>> {
    if refusals == 0 {
        return Ok(Vec::new());
    }
    let lines = || -> Vec<String> {
        let all = 0..nodes.endpoints().len();
        all.flat_map(|at| report::refusal_lines(&nodes.printed(at))).collect()
    };
    // Only the count is part of what is checked: without a line the demo says so.
    let found = edge::wait(LOG_PATIENCE, "a line on refusals", || {
        Some(lines()).filter(|lines| !lines.is_empty()).ok_or_else(|| "there is none".to_owned())
    });
    Ok(found.unwrap_or_default())
}

fn outcome(
    nodes: &dyn Nodes,
    boxes: &[IngestBox],
    found: Found,
    refusals_counted: u64,
    log_lines: Vec<String>,
) -> DemoOutcome {
    let sum = |count: fn(&IngestBox) -> u64| boxes.iter().map(count).sum::<u64>();
    let written = sum(|ingest| ingest.journal.len() as u64);
    let journal = || boxes.iter().flat_map(|ingest| &ingest.journal);
    let fleet = UncheckedFleet::replay(journal());
    let misplaced = fleet.misplaced() as u64;
    DemoOutcome {
        slotd: Tally {
            written,
            refused: sum(|ingest| ingest.moved),
            acknowledged: sum(|ingest| ingest.acknowledged.len() as u64),
            misplaced: found.misplaced,
            not_found: found.missing,
        },
        unchecked: Tally {
            written,
            refused: 0,
            acknowledged: fleet.held() as u64,
            misplaced,
            not_found: misplaced,
        },
        stale_writes: journal().filter(|(_, by)| *by == By::Stale).count() as u64,
        refused_otherwise: sum(|ingest| ingest.not_now),
        refusals_counted_by_nodes: refusals_counted,
        served_by_strangers: found.unrefused,
        log_lines,
        faults: found.faults,
        nodes: nodes.endpoints().iter().map(Endpoint::to_string).collect(),
    }
}
