//! What a server acknowledged, and whether it still has it: the oracle of the durability tools.
//!
//! A writer has shelves: the keys of one hash tag, so of one slot and one order, which nobody else
//! writes. It knows every deed it sent and which were acknowledged. After a crash a shelf must be
//! what it was after some deed, none of the acknowledged ones missing: a write without an answer
//! is unknown, never absent. Deeds of several keys come back whole or not at all.
//!
//! Not here: how the crash is made (`kills`: the process, `cuts`: the power).

mod ballast;
pub mod cuts;
pub mod kills;
mod ledger;
mod load;
mod shelf;

pub use ledger::{Answer, Ledger, Verdict};
pub use load::{Findings, Load, Promise, Tally};
pub use shelf::{Deed, Shelf};

/// How hard the server tries to keep writes; the words are those of `appendfsync`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Each reply after a sync.
    Always,
    /// A sync each second.
    Everysec,
    /// The kernel decides.
    No,
    /// No log at all: what the oracle must notice.
    Memory,
}

impl Mode {
    /// The server's options.
    pub fn args(self) -> [&'static str; 4] {
        let (log, sync) = match self {
            Mode::Always => ("yes", "always"),
            Mode::Everysec => ("yes", "everysec"),
            Mode::No => ("yes", "no"),
            Mode::Memory => ("no", "no"),
        };
        ["--appendonly", log, "--appendfsync", sync]
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "always" => Ok(Mode::Always),
            "everysec" => Ok(Mode::Everysec),
            "no" => Ok(Mode::No),
            "memory" => Ok(Mode::Memory),
            other => Err(format!("no mode: {other}")),
        }
    }
}
