//! Writers whose slots move: what each was told, and whether all of it is there.
//!
//! A writer has shelves (`durable`), follows redirects, and sends one deed at a time. A deed whose
//! answer never came, or came as UNKNOWNRESULT, may be there or not: the next look tells.
//! Invariant: a shelf belongs to one writer, which sends nothing for it while a deed is unknown.

use crate::dice::Dice;
use crate::durable::{Answer, Deed, Ledger, Shelf, Verdict};
use crate::resp::{Client, Value, encode};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A reply takes no longer, or the connection is given up.
const REPLY: Duration = Duration::from_secs(15);
/// A shelf that nobody shows for so long is a fault.
const LOST: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(2);
const MAX_FAULTS: usize = 5;

/// What a writer did and saw.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    /// Acknowledged deeds.
    pub acked: u64,
    /// MOVED answers.
    pub moved: u64,
    /// Other refusals before execution.
    pub refused: u64,
    /// UNKNOWNRESULT answers.
    pub unknown: u64,
    /// Connections that broke with a deed under way.
    pub cut: u64,
    /// The longest time from sending a deed to its acknowledgement, redirects and all.
    pub slowest: Duration,
    /// What must not be.
    pub faults: Vec<String>,
}

/// One writer.
pub struct Writer {
    addresses: Vec<String>,
    clients: Vec<Option<Client>>,
    shelves: Vec<Book>,
    dice: Dice,
    /// What it saw.
    pub seen: Seen,
}

struct Book {
    ledger: Ledger,
    /// Believed to own it.
    at: usize,
    /// A deed is unknown.
    is_unsure: bool,
}

/// How a request ended.
enum Said {
    Replies(Vec<Value>),
    Cut,
}

impl Writer {
    /// Of these nodes, with a shelf for each tag.
    pub fn new(addresses: Vec<String>, tags: Vec<String>, dice: Dice) -> Self {
        let clients = addresses.iter().map(|_| None).collect();
        let book = |tag| Book { ledger: Ledger::new(tag), at: 0, is_unsure: false };
        let shelves = tags.into_iter().map(book).collect();
        Self { addresses, clients, shelves, dice, seen: Seen::default() }
    }

    /// Writes until told to stop, or until something is wrong.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(SeqCst) && self.seen.faults.is_empty() {
            let nth = self.dice.below(self.shelves.len() as u64) as usize;
            if self.shelves[nth].is_unsure {
                self.look(nth);
            } else {
                self.write(nth, stop);
            }
        }
    }

    /// Looks at every shelf.
    pub fn look_at_all(&mut self) {
        (0..self.shelves.len()).for_each(|nth| self.look(nth));
    }

    fn write(&mut self, nth: usize, stop: &AtomicBool) {
        let number = self.dice.below(10_000_000);
        let book = &mut self.shelves[nth];
        let deed = Deed::choose(&mut self.dice, book.ledger.sure(), number, now_ms());
        let (lines, replies) = (deed.words(book.ledger.tag()), deed.replies());
        let begun = Instant::now();
        book.ledger.send(deed);
        loop {
            let at = self.shelves[nth].at;
            let said = self.ask(at, &lines, replies);
            let book = &mut self.shelves[nth];
            let Said::Replies(said) = said else {
                self.seen.cut += 1;
                book.is_unsure = true;
                book.at = (at + 1) % self.addresses.len();
                return;
            };
            if let Some(to) = said.iter().find_map(|reply| moved_to(reply, &self.addresses)) {
                self.seen.moved += 1;
                self.shelves[nth].at = to;
            } else if said.iter().any(|reply| reply.is_error("UNKNOWNRESULT")) {
                self.seen.unknown += 1;
                book.is_unsure = true;
                return;
            } else {
                match book.ledger.answer(&said, Instant::now()) {
                    Answer::Done => {
                        self.seen.acked += 1;
                        self.seen.slowest = self.seen.slowest.max(begun.elapsed());
                        return;
                    }
                    Answer::Refused => {
                        self.seen.refused += 1;
                        sleep(PAUSE);
                        // Where it is served may have changed; it was taken out of the history.
                        return;
                    }
                    Answer::Fault(fault) => return self.fault(fault),
                }
            }
            if stop.load(SeqCst) || begun.elapsed() > LOST {
                // Nothing was executed: as if it had been refused.
                let refused = [Value::Error("TRYAGAIN told to stop".into())];
                let _ = self.shelves[nth].ledger.answer(&refused, Instant::now());
                return;
            }
        }
    }

    /// Looks at a shelf, wherever it is, and judges it.
    fn look(&mut self, nth: usize) {
        let until = Instant::now() + LOST;
        let tag = self.shelves[nth].ledger.tag().to_owned();
        let lines = Shelf::read_words(&tag);
        loop {
            let (at, from) = (self.shelves[nth].at, now_ms());
            let said = self.ask(at, &lines, lines.len());
            let next = (at + 1) % self.addresses.len();
            match said {
                Said::Replies(said) => {
                    if let Some(to) = said.iter().find_map(|r| moved_to(r, &self.addresses)) {
                        self.shelves[nth].at = to;
                    } else if let Some(found) = said.last().and_then(Shelf::parse) {
                        return self.judge(nth, found, (from, now_ms()));
                    }
                }
                Said::Cut => self.shelves[nth].at = next,
            }
            if Instant::now() > until {
                return self.fault(format!("{tag}: nobody shows it for {LOST:?}"));
            }
            sleep(PAUSE);
        }
    }

    fn judge(&mut self, nth: usize, found: Shelf, between: (u64, u64)) {
        let book = &mut self.shelves[nth];
        book.is_unsure = false;
        let promised = book.ledger.done();
        match book.ledger.judge(found, promised, between) {
            Verdict::Holds { .. } => {}
            Verdict::Lost { lost, why } => {
                self.fault(format!("{lost} acknowledged writes are lost: {why}"));
            }
            Verdict::Never(why) => self.fault(format!("it never was like this: {why}")),
        }
    }

    fn fault(&mut self, fault: String) {
        if self.seen.faults.len() < MAX_FAULTS {
            self.seen.faults.push(fault);
        }
    }

    fn ask(&mut self, at: usize, lines: &[Vec<Vec<u8>>], replies: usize) -> Said {
        let mut asked = || -> io::Result<Vec<Value>> {
            let mut client = match self.clients[at].take() {
                Some(client) => client,
                None => {
                    let mut client = Client::connect(&*self.addresses[at])?;
                    client.wait_at_most(REPLY);
                    client
                }
            };
            let mut out = Vec::new();
            lines.iter().for_each(|line| encode(line, &mut out));
            client.send_raw(&out)?;
            let said = client.read_many(replies)?;
            self.clients[at] = Some(client);
            Ok(said)
        };
        match asked() {
            Ok(said) => Said::Replies(said),
            Err(_) => {
                sleep(PAUSE);
                Said::Cut
            }
        }
    }
}

fn moved_to(reply: &Value, addresses: &[String]) -> Option<usize> {
    let Value::Error(text) = reply else { return None };
    let address = text.strip_prefix("MOVED ")?.split(' ').nth(1)?;
    addresses.iter().position(|known| known == address)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
