//! The slow log: commands that took long, newest first, shortened and without secrets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::command::cx::Now;
use crate::command::registry::{CommandId, registry};
use crate::command::{Args, Client};
use crate::config::is_secret;

/// Longest argument kept, bytes, as Redis.
const SLOW_ARG_BYTES: usize = 128;
/// Most arguments kept, as Redis.
const SLOW_ARGS: usize = 32;

/// An entry of the slow log.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    /// Rising by one, never reused.
    pub id: u64,
    /// Unix seconds.
    pub at_s: u64,
    /// Duration, us.
    pub micros: u64,
    /// Words, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address and name.
    pub client: (String, Vec<u8>),
}

/// Which words are secrets: passwords of AUTH and HELLO, values of secret options.
fn hidden_words<'a>(id: CommandId, args: &'a Args<'_>) -> impl Fn(usize) -> bool + 'a {
    let name = registry().entry(id).full_name.as_str();
    let login = (1..args.len()).find(|i| name == "hello" && args.is(*i, "AUTH"));
    move |i| match name {
        "auth" => i >= 1,
        "config|set" => i >= 3 && i % 2 == 1 && is_secret(args.at(i - 1)),
        _ => login.is_some_and(|at| i == at + 1 || i == at + 2),
    }
}

/// The words as they are kept.
fn shown(id: CommandId, args: &Args<'_>) -> Vec<Vec<u8>> {
    let is_hidden = hidden_words(id, args);
    let count = if args.len() > SLOW_ARGS { SLOW_ARGS - 1 } else { args.len() };
    let word = |i: usize| match is_hidden(i) {
        true => b"(redacted)".to_vec(),
        false => shorten(args.at(i)),
    };
    let mut words: Vec<Vec<u8>> = (0..count).map(word).collect();
    if count < args.len() {
        let more = args.len() - count;
        words.push(format!("... ({more} more arguments)").into_bytes());
    }
    words
}

fn shorten(word: &[u8]) -> Vec<u8> {
    if word.len() <= SLOW_ARG_BYTES {
        return word.to_vec();
    }
    let mut short = word[..SLOW_ARG_BYTES].to_vec();
    short.extend_from_slice(format!("... ({} more bytes)", word.len() - SLOW_ARG_BYTES).as_bytes());
    short
}

/// The slow log.
#[derive(Default)]
pub struct SlowLog {
    entries: Mutex<VecDeque<SlowCommand>>,
    next_id: AtomicU64,
}

impl SlowLog {
    /// Adds a command that took `nanos` and drops the oldest entries beyond `most`.
    #[cold]
    pub fn add(
        &self,
        id: CommandId,
        args: &Args<'_>,
        nanos: u64,
        now: Now,
        client: &Client,
        most: usize,
    ) {
        let mut entries = self.entries.lock();
        entries.push_front(SlowCommand {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            at_s: now.unix_ms / 1000,
            micros: nanos / 1000,
            args: shown(id, args),
            client: (client.shared.addr.clone(), client.shared.names().name),
        });
        entries.truncate(most);
    }

    /// The newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<SlowCommand> {
        self.entries.lock().iter().take(count).cloned().collect()
    }

    /// Entries kept.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Nothing was slow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SLOWLOG RESET.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}
