//! As a reply leaves: INV-1, and what a counter may say (CONTENT).
//!
//! INV-1: once a reply of epoch e has left, no reply of a lower epoch leaves for the same slot.
//! CONTENT: in the memory of one process a counter grows by one per INCR, and a process that has
//! seen the slot go elsewhere, or has just started, begins with nothing. So a probe never sees a
//! value repeat or fall between two boots of the owner.

use std::collections::BTreeMap;

use slots::Epoch;

use super::{At, Oracle, ProcessIx};
use crate::resp::Value;

/// What a client asked of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Adds one.
    Incr,
    /// Reads.
    Get,
    /// Deletes.
    Del,
}

impl Word {
    /// The command.
    pub const fn name(self) -> &'static str {
        match self {
            Word::Incr => "INCR",
            Word::Get => "GET",
            Word::Del => "DEL",
        }
    }
}

/// A reply that leaves.
#[derive(Clone, Debug)]
pub struct Left<'a> {
    /// From where.
    pub at: At,
    /// Table version its node has applied.
    pub version: u64,
    /// Number of the key.
    pub key: usize,
    /// What was asked.
    pub word: Word,
    /// The epoch of its admission.
    pub epoch: Epoch,
    /// What is answered.
    pub reply: &'a Value,
}

/// What was promised for one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// Epoch and process of the newest reply.
    newest: Option<(Epoch, ProcessIx)>,
    /// What each process that answered holds.
    counts: BTreeMap<ProcessIx, i64>,
}

impl Oracle {
    /// A reply to a command for a key leaves.
    pub fn left(&mut self, left: &Left<'_>) {
        self.coverage.count("reply", &left.reply.kind());
        if let Value::Error(text) = left.reply {
            return self.check_error(text);
        }
        let process = left.at.process;
        let (key, slot) = self.keys[left.key].clone();
        if let Some((epoch, newest)) = self.replies[left.key].newest {
            let is_older = left.epoch < epoch || left.epoch == epoch && process != newest;
            if is_older && self.is_excused(left.key, left.version) {
                return self.coverage.count("reply", "excused: the slot was taken by force");
            }
            if is_older {
                let text = format!(
                    "slot {slot} ({key}): host {} (process {process}) answers at epoch {}, after \
                     process {newest} at epoch {epoch}",
                    left.at.host, left.epoch
                );
                return self.fail("INV-1", text);
            }
        }
        self.check_content(left);
    }

    fn check_content(&mut self, left: &Left<'_>) {
        let slot = &mut self.replies[left.key];
        slot.newest = Some((left.epoch, left.at.process));
        let count = slot.counts.entry(left.at.process).or_default();
        let before = *count;
        let expected = match left.word {
            Word::Incr => {
                *count += 1;
                Value::Int(*count)
            }
            Word::Del => {
                *count = 0;
                Value::Int(i64::from(before > 0))
            }
            Word::Get if before == 0 => Value::Nil,
            Word::Get => Value::Text(before.to_string()),
        };
        if *left.reply != expected {
            let (key, slot) = &self.keys[left.key];
            let text = format!(
                "slot {slot}: {} {key} at epoch {} on host {} gives {:?}, not {expected:?}",
                left.word.name(),
                left.epoch,
                left.at.host,
                left.reply
            );
            self.fail("CONTENT", text);
        }
    }

    /// A process has seen the slot of a key go elsewhere: it lets go of what it held.
    pub(super) fn let_go(&mut self, key: usize, process: ProcessIx) {
        self.replies[key].counts.remove(&process);
    }

    fn check_error(&mut self, text: &str) {
        let known = ["MOVED ", "CLUSTERDOWN ", "TRYAGAIN ", "LOADING "];
        if !known.iter().any(|start| text.starts_with(start)) {
            self.fail("ERRORS", format!("unexpected error: {text}"));
        }
    }
}
