//! The program slotctl as its users see it: words in, output and exit code out.
//!
//! Against nodes that are threads of the test (`fake.rs`); not against a server. Invariant:
//! every exit code is reached by some test, and a bad argument reaches no node.

#![allow(clippy::disallowed_methods, reason = "tests are edges: threads, processes, the clock")]

mod backups;
mod fake;
mod moves;
mod orders;
mod stage;
mod views;

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use fake::{Fake, Reaction, json};
use slots::admin::{Done, Explained, HistoryRecord, Stale, Status};

/// A run of the program without an environment of its own.
pub(crate) fn slotctl(words: &[&str]) -> Run {
    Run { words: words.iter().map(|word| (*word).to_owned()).collect(), environment: Vec::new() }
}

/// The program, about to run.
pub(crate) struct Run {
    words: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn with(mut self, variable: &'static str, value: impl Into<String>) -> Run {
        self.environment.push((variable, value.into()));
        self
    }

    pub(crate) fn at(self, node: &Fake) -> Run {
        let address = node.address();
        self.with("SLOTCTL_SERVER", address)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slotctl"));
        for variable in ["SLOTCTL_SERVER", "SLOTCTL_PASSWORD", "NO_COLOR"] {
            command.env_remove(variable);
        }
        command.args(&self.words).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(variable, value)| (variable, value)));
        command
    }

    pub(crate) fn end(self) -> Ended {
        let Output { status, stdout, stderr } = self.command().output().expect("it runs");
        let (out, err) = (String::from_utf8(stdout), String::from_utf8(stderr));
        let (out, err) = (out.expect("text"), err.expect("text"));
        assert!(!err.contains("panicked"), "{err}");
        Ended { exit: status.code().expect("no signal"), out, err }
    }

    /// Runs it and expects this end, and no output but one line on standard error with `why`.
    pub(crate) fn fails(self, exit: i32, why: &str) {
        let words = self.words.clone();
        let ended = self.end();
        assert_eq!((ended.exit, ended.out.as_str()), (exit, ""), "{words:?}: {}", ended.err);
        let last = ended.err.lines().last().unwrap_or_default();
        assert!(last.starts_with("slotctl: ") && last.contains(why), "{words:?}: {}", ended.err);
    }
}

/// What a healthy node answers, as node `me` of those at `addresses`.
pub(crate) fn answer(line: &str, me: usize, addresses: &[String]) -> Reaction {
    answer_as(line, fake::status(me, addresses))
}

/// What a node answers that sees the cluster so.
pub(crate) fn answer_as(line: &str, status: Status) -> Reaction {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["AUTH", ..] => Reaction::Raw(b"+OK\r\n"),
        ["SLOTD", "STATUS"] => json(&status),
        ["SLOTD", "SLOTS"] => json(&fake::rows()),
        ["SLOTD", "HISTORY", "COUNT", _] => {
            let record =
                HistoryRecord { version: 52, change: "Drain".into(), ..Default::default() };
            json(&[record])
        }
        ["SLOTD", "EXPLAIN", _] => {
            let row = fake::rows()[1].clone();
            json(&Explained { hash_tag: "x".into(), slot: 10778, row, answer: "it serves".into() })
        }
        ["SLOTD", "STALE", ..] => json(&Stale { refusals: 7, ..Stale::default() }),
        ["SLOTD", "NODE" | "ASSIGN" | "RECOVER", ..] => {
            let text = "it is done".into();
            json(&Done { table_version: 53, changed: true, text, refused: Vec::new() })
        }
        _ => Reaction::Error("ERR unknown command"),
    }
}

/// Three nodes; each answers as `change` makes it of what a healthy one would see.
pub(crate) fn cluster(
    change: impl Fn(usize, &str, Status) -> Reaction + Clone + Send + Sync + 'static,
) -> Vec<Fake> {
    let listeners: Vec<TcpListener> =
        (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let addresses: Vec<String> = listeners
        .iter()
        .map(|listener| listener.local_addr().expect("it is bound").to_string())
        .collect();
    let nodes = listeners.into_iter().enumerate().map(|(n, listener)| {
        let (change, addresses) = (change.clone(), addresses.clone());
        Fake::on(listener, move |line| change(n, line, fake::status(n, &addresses)))
    });
    nodes.collect()
}

/// Three healthy nodes.
pub(crate) fn healthy() -> Vec<Fake> {
    cluster(|_, line, status| answer_as(line, status))
}

/// An address where nobody listens.
pub(crate) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}
