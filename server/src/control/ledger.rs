//! The replicated state: the slot table, and the history of who changed what when.
//!
//! Not the log. Invariant: pure; two ledgers that applied the same entries are equal. The clock
//! in an entry is the proposer's, carried for people and never compared.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use slots::{NodeId, Proposal, SlotTable, TableVersion, Verdicts};

/// Records of history that are kept: with 300 bytes each the image stays within 1 MiB.
pub const MAX_HISTORY_RECORDS: usize = 1000;
/// Longest actor in an entry, bytes: user, client name and address fit.
pub const MAX_ACTOR_BYTES: usize = 160;
/// Longest detail in a record, bytes; what is longer ends in an ellipsis.
pub const MAX_DETAIL_BYTES: usize = 200;

/// What one entry of the log holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Wall clock of the proposer, unix ms: for history only.
    pub at_ms: u64,
    /// Who asked the proposing node: a client, or `itself`.
    pub actor: String,
    /// The change and its proposer.
    pub proposal: Proposal,
}

/// A line of history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The entry's index.
    pub version: TableVersion,
    /// See `Entry`.
    pub at_ms: u64,
    /// The proposing node.
    pub by: NodeId,
    /// See `Entry`.
    pub actor: String,
    /// The change's name.
    pub change: String,
    /// What it says, for people.
    pub detail: String,
    /// Why it was refused, whole or for some slots.
    pub refused: Option<String>,
}

/// The state.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    table: Arc<SlotTable>,
    history: VecDeque<Record>,
}

impl Ledger {
    /// Before the first entry.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// The table as of the last applied entry.
    pub fn table(&self) -> &Arc<SlotTable> {
        &self.table
    }

    /// History, the oldest first.
    pub fn history(&self) -> &VecDeque<Record> {
        &self.history
    }

    /// Applies the entry at `version`.
    pub fn apply(&mut self, entry: &Entry, version: TableVersion) -> Verdicts {
        let verdicts = Arc::make_mut(&mut self.table).apply(&entry.proposal, version);
        let refused = verdicts.all().err().map(|refusal| cut(refusal.to_string()));
        self.history.push_back(Record {
            version,
            at_ms: entry.at_ms,
            by: entry.proposal.by.node,
            actor: cut(entry.actor.clone()),
            change: entry.proposal.change.name().to_owned(),
            detail: cut(entry.proposal.change.detail()),
            refused,
        });
        while self.history.len() > MAX_HISTORY_RECORDS {
            self.history.pop_front();
        }
        verdicts
    }

    /// Takes note of an entry that holds no change (a new leader's first entry, a change of
    /// voters): the table's version follows the log's index.
    pub fn skip(&mut self, version: TableVersion) {
        Arc::make_mut(&mut self.table).advance(version);
    }
}

/// Where the history of the table is read.
pub trait History: Send + Sync {
    /// The newest records, the newest first; `count` at most.
    fn newest(&self, count: usize) -> Vec<Record>;
}

impl History for Ledger {
    fn newest(&self, count: usize) -> Vec<Record> {
        self.history.iter().rev().take(count).cloned().collect()
    }
}

impl History for Mutex<Ledger> {
    fn newest(&self, count: usize) -> Vec<Record> {
        self.lock().newest(count)
    }
}

impl History for RwLock<Ledger> {
    fn newest(&self, count: usize) -> Vec<Record> {
        self.read().newest(count)
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_DETAIL_BYTES {
        let end = (0..=MAX_DETAIL_BYTES - 3).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str("...");
    }
    text
}
