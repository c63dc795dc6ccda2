//! Writers that keep ledgers, readers that note what they saw, and the look after a crash.
//!
//! Not when a crash happens. Invariant: a shelf belongs to one writer; nobody writes while shelves
//! are looked at.

use super::ballast::Ballast;
use super::ledger::{Answer, Ledger, Verdict, is_refusal};
use super::shelf::{Deed, Shelf};
use crate::dice::Dice;
use crate::lives::Lives;
use crate::resp::{Client, Value, encode};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Requests in one write at most.
const MAX_DEPTH: u64 = 16;
/// A server that takes longer than this for a reply is stuck.
const REPLY: Duration = Duration::from_secs(20);
/// Faults that are told; after them it is clear enough.
const MAX_FAULTS: usize = 10;
/// Shelves looked at with one write.
const LOOK_BATCH: usize = 16;
const READER_PAUSE: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_millis(5);
const CANARIES: usize = 8;

/// Which acknowledged deeds must be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// All.
    All,
    /// Those acknowledged by then.
    Before(Instant),
}

/// What writers did in one life.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Acknowledged deeds.
    pub acked: u64,
    /// Refused before execution.
    pub refused: u64,
    /// Sent, but never answered.
    pub unknown: u64,
}

/// What did not hold, or is worth a figure.
#[derive(Clone, Default, Debug)]
pub struct Findings {
    /// What must not be, the first few.
    pub faults: Vec<String>,
    /// Faults in all.
    pub count: u64,
    /// Acknowledged deeds that are gone, promised or not.
    pub lost: u64,
    /// Answer of the oldest of them that was not promised.
    pub oldest_loss: Option<Instant>,
}

impl Findings {
    /// One more fault.
    pub fn add(&mut self, fault: String) {
        self.count += 1;
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    /// Whether nothing was wrong.
    pub fn holds(&self) -> bool {
        self.count == 0
    }
}

struct Writer {
    shelves: Vec<Ledger>,
    dice: Dice,
}

/// The writers and what they know.
pub struct Load {
    writers: Vec<Writer>,
    /// The largest counter a reader saw, shelf by shelf, all writers' in a row.
    seen: Vec<AtomicI64>,
    ballast: Ballast,
    dice: Dice,
    /// What was found wrong so far.
    pub findings: Findings,
    /// What was done so far.
    pub total: Tally,
}

impl Load {
    /// `writers` writers that share these hash tags, as many each, and `ballast` further keys.
    pub fn new(writers: usize, tags: Vec<String>, ballast: u32, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let each = tags.len() / writers;
        let seen = (0..each * writers).map(|_| AtomicI64::new(0)).collect();
        let mut tags = tags.into_iter();
        let writers = (0..writers).map(|_| Writer {
            shelves: tags.by_ref().take(each).map(Ledger::new).collect(),
            dice: dice.split(),
        });
        Self {
            writers: writers.collect(),
            seen,
            ballast: Ballast(ballast),
            dice,
            findings: Findings::default(),
            total: Tally::default(),
        }
    }

    /// The usual tags: spread over all slots.
    pub fn tags(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{{shelf-{number}}}")).collect()
    }

    /// Writes the ballast, once.
    pub fn write_ballast(&mut self, address: &str) -> io::Result<()> {
        self.ballast.write(&mut connect(address)?)
    }

    /// Waits until a server that was begun serves; how long that took since its start. Meanwhile a
    /// key that it shows must be right: what is not loaded is not served.
    pub fn wait_until_serving(
        &mut self,
        lives: &mut Lives,
        at_most: Duration,
    ) -> io::Result<Duration> {
        loop {
            match self.ask_canaries(&lives.address()) {
                Ok(None) => return Ok(lives.born().elapsed()),
                Ok(Some(wrong)) => {
                    self.findings.add(format!("served before it was loaded: {wrong}"));
                    return Ok(lives.born().elapsed());
                }
                Err(_) => lives.check_alive()?,
            }
            if lives.born().elapsed() > at_most {
                let words = lives.last_words();
                return Err(io::Error::other(format!("not served within {at_most:?}\n{words}")));
            }
            sleep(POLL);
        }
    }

    fn ask_canaries(&mut self, address: &str) -> io::Result<Option<String>> {
        let mut client = connect(address)?;
        if self.ballast.0 != 0 {
            return self.ballast.check_some(&mut client, &mut self.dice, CANARIES);
        }
        match client.call(&["EXISTS", "x"])? {
            Value::Int(_) => Ok(None),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Lets all write and some read until `act` returns, which may have killed the server.
    pub fn run<T>(
        &mut self,
        address: &str,
        act: impl FnOnce(&mut Dice) -> io::Result<T>,
    ) -> io::Result<T> {
        let stop = &AtomicBool::new(false);
        let (seen, tags) = (&self.seen, self.all_tags());
        let (dice, writers) = (&mut self.dice, &mut self.writers);
        let mut reader_dice = dice.split();
        let (acted, written, read) = scope(|threads| {
            let writers: Vec<_> = writers
                .iter_mut()
                .map(|writer| threads.spawn(move || writer.run(address, stop)))
                .collect();
            let reader =
                threads.spawn(move || read_on(address, &tags, seen, &mut reader_dice, stop));
            let acted = act(dice);
            stop.store(true, SeqCst);
            let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            (acted, written, reader.join())
        });
        for outcome in written {
            let (tally, faults) = outcome.map_err(|_| io::Error::other("a writer panicked"))?;
            self.total.acked += tally.acked;
            self.total.refused += tally.refused;
            self.total.unknown += tally.unknown;
            faults.into_iter().for_each(|fault| self.findings.add(fault));
        }
        let read = read.map_err(|_| io::Error::other("the reader panicked"))?;
        read.into_iter().for_each(|fault| self.findings.add(fault));
        acted
    }

    fn all_tags(&self) -> Vec<String> {
        let shelves = self.writers.iter().flat_map(|writer| &writer.shelves);
        shelves.map(|shelf| shelf.tag().to_owned()).collect()
    }

    /// Looks at every shelf and some of the ballast; what is wrong goes to the findings. What is
    /// there now is what must be there later.
    pub fn check(&mut self, address: &str, promise: Promise) -> io::Result<()> {
        let mut client = connect(address)?;
        let mut number = 0;
        for writer in &mut self.writers {
            for batch in writer.shelves.chunks_mut(LOOK_BATCH) {
                let (found, between) = look_until_served(&mut client, batch)?;
                for (ledger, found) in batch.iter_mut().zip(found) {
                    let seen = self.seen[number].swap(found.counter, SeqCst);
                    if promise == Promise::All && found.counter < seen {
                        let tag = ledger.tag();
                        let text = format!("{tag}: a reader saw {seen}, now {}", found.counter);
                        self.findings.add(text);
                    }
                    let promised = match promise {
                        Promise::All => ledger.done(),
                        Promise::Before(deadline) => ledger.done_before(deadline),
                    };
                    note(&mut self.findings, ledger.judge(found, promised, between));
                    number += 1;
                }
            }
        }
        if self.ballast.0 != 0 {
            let wrong = self.ballast.check_some(&mut client, &mut self.dice, 200)?;
            wrong.into_iter().for_each(|wrong| self.findings.add(wrong));
        }
        Ok(())
    }

    /// Looks at all of the ballast.
    pub fn check_ballast(&mut self, address: &str) -> io::Result<()> {
        let wrong = self.ballast.check_all(&mut connect(address)?)?;
        wrong.into_iter().for_each(|wrong| self.findings.add(wrong));
        Ok(())
    }
}

fn note(findings: &mut Findings, verdict: Verdict) {
    match verdict {
        Verdict::Holds { lost, oldest } => {
            findings.lost += lost;
            findings.oldest_loss = [findings.oldest_loss, oldest].into_iter().flatten().min();
        }
        Verdict::Lost { lost, why } => {
            findings.lost += lost;
            findings.add(format!("{lost} acknowledged writes are lost: {why}"));
        }
        Verdict::Never(why) => findings.add(format!("it never was like this: {why}")),
    }
}

impl Writer {
    /// Writes until told to stop or cut off; what did not hold.
    fn run(&mut self, address: &str, stop: &AtomicBool) -> (Tally, Vec<String>) {
        let (mut tally, mut faults) = (Tally::default(), Vec::new());
        if let Ok(mut client) = connect(address) {
            while !stop.load(SeqCst) && faults.is_empty() {
                match self.batch(&mut client, &mut tally, &mut faults) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                        faults.push(format!("no reply within {REPLY:?}"));
                    }
                    Err(_) => break,
                }
            }
        }
        tally.unknown = self.shelves.iter().map(|shelf| shelf.unknown() as u64).sum();
        (tally, faults)
    }

    fn batch(
        &mut self,
        client: &mut Client,
        tally: &mut Tally,
        faults: &mut Vec<String>,
    ) -> io::Result<()> {
        let depth = 1 + self.dice.below(MAX_DEPTH);
        let (mut out, mut sent, now) = (Vec::new(), Vec::new(), now_ms());
        for _ in 0..depth {
            let at = self.dice.below(self.shelves.len() as u64) as usize;
            let ledger = &mut self.shelves[at];
            let number = self.dice.below(10_000_000);
            let deed = Deed::choose(&mut self.dice, ledger.sure(), number, now);
            deed.words(ledger.tag()).iter().for_each(|line| encode(line, &mut out));
            sent.push((at, deed.replies()));
            ledger.send(deed);
        }
        client.send_raw(&out)?;
        for (at, replies) in sent {
            let replies = client.read_many(replies)?;
            match self.shelves[at].answer(&replies, Instant::now()) {
                Answer::Done => tally.acked += 1,
                Answer::Refused => tally.refused += 1,
                Answer::Fault(fault) => {
                    faults.push(fault);
                    // The rest of the batch is unknown: this life's writing ends here.
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Reads one shelf after the other: both halves of a pair are the same, counters never fall.
fn read_on(
    address: &str,
    tags: &[String],
    seen: &[AtomicI64],
    dice: &mut Dice,
    stop: &AtomicBool,
) -> Vec<String> {
    let mut faults = Vec::new();
    let Ok(mut client) = connect(address) else { return faults };
    while !stop.load(SeqCst) && faults.is_empty() {
        let at = dice.below(tags.len() as u64) as usize;
        let before = seen[at].load(SeqCst);
        let mut out = Vec::new();
        Shelf::read_words(&tags[at]).iter().for_each(|line| encode(line, &mut out));
        let lines = Shelf::read_words("").len();
        let read = client.send_raw(&out).and_then(|()| client.read_many(lines));
        let Ok(replies) = read else { break };
        let Some(last) = replies.last() else { break };
        match Shelf::parse(last) {
            Some(shelf) if shelf.pair[0] != shelf.pair[1] => {
                faults.push(format!("{}: a reader saw half of an EXEC", tags[at]));
            }
            Some(shelf) if shelf.counter < before => {
                let now = shelf.counter;
                faults.push(format!("{}: a reader saw {before}, then {now}", tags[at]));
            }
            Some(shelf) => drop(seen[at].fetch_max(shelf.counter, SeqCst)),
            // It is about to stop, or cut off.
            None if is_refusal(last) => {}
            None => faults.push(format!("{}: a read gave {last:?}", tags[at])),
        }
        sleep(READER_PAUSE);
    }
    faults
}

/// A node opens its slots one after the other: those may be refused that it comes to last.
fn look_until_served(
    client: &mut Client,
    ledgers: &[Ledger],
) -> io::Result<(Vec<Shelf>, (u64, u64))> {
    let until = Instant::now() + REPLY;
    loop {
        let from = now_ms();
        match look(client, ledgers) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                sleep(POLL);
            }
            other => return other.map(|found| (found, (from, now_ms()))),
        }
    }
}

/// The shelves as they are, or `WouldBlock` where one is refused.
fn look(client: &mut Client, ledgers: &[Ledger]) -> io::Result<Vec<Shelf>> {
    let mut out = Vec::new();
    for ledger in ledgers {
        Shelf::read_words(ledger.tag()).iter().for_each(|line| encode(line, &mut out));
    }
    client.send_raw(&out)?;
    let lines = Shelf::read_words("").len();
    let (mut found, mut is_refused) = (Vec::new(), false);
    for ledger in ledgers {
        let replies = client.read_many(lines)?;
        let last = replies.last();
        if last.is_some_and(is_refusal) {
            is_refused = true;
            continue;
        }
        let shelf = last.and_then(Shelf::parse);
        let wrong = || io::Error::other(format!("{}: a look gave {last:?}", ledger.tag()));
        found.push(shelf.ok_or_else(wrong)?);
    }
    if is_refused { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(found) }
}

fn connect(address: &str) -> io::Result<Client> {
    let mut client = Client::connect(address)?;
    client.wait_at_most(REPLY);
    Ok(client)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
