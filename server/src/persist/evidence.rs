//! What a node that starts still has of what it acknowledged: the evidence table of PROTOCOL 2.
//!
//! Not the reading of the marks. Invariant: where several rows match, the one that keeps least
//! counts; what is not known counts as lost.

use slots::Kept;

/// How hard the node tried to keep its writes, the weakest mode last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Durability {
    /// `appendonly yes`, `appendfsync always`.
    Always,
    /// `appendonly yes`, `appendfsync everysec` or `no`.
    Everysec,
    /// `appendonly no`: memory only.
    Memory,
}

impl Durability {
    /// The word in the node's file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Durability::Always => "always",
            Durability::Everysec => "everysec",
            Durability::Memory => "memory",
        }
    }

    /// The mode of a word.
    pub fn parse(word: &str) -> Option<Durability> {
        let all = [Durability::Always, Durability::Everysec, Durability::Memory];
        all.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// What was found on disk at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// The weakest mode of the run that ended.
    pub weakest: Durability,
    /// Its orderly end was written down, after everything else was synced.
    pub stopped_cleanly: bool,
    /// The kernel that runs now is the one of that run: no power was lost in between.
    pub same_kernel: bool,
    /// There is a log that can be read to its end.
    pub has_log: bool,
    /// A sync to disk failed in that run.
    pub sync_failed: bool,
    /// The operator says that this data directory comes from a backup (`--restored`).
    pub restored: bool,
}

/// What was kept, by the table of PROTOCOL 2.
pub fn kept(marks: Marks) -> Kept {
    let unless_always = |kept| match marks.weakest {
        Durability::Always => Kept::All,
        Durability::Everysec => kept,
        Durability::Memory => Kept::Nothing,
    };
    let at_best = match marks.weakest {
        Durability::Memory => Kept::Nothing,
        _ => Kept::Tail,
    };
    let rows = [
        (marks.stopped_cleanly, unless_always(Kept::All)),
        (!marks.stopped_cleanly && marks.same_kernel, unless_always(Kept::All)),
        (!marks.stopped_cleanly && !marks.same_kernel, unless_always(Kept::Tail)),
        (!marks.has_log, Kept::Nothing),
        (marks.sync_failed, at_best),
        (marks.restored, at_best),
    ];
    let found = rows.into_iter().filter(|(matches, _)| *matches).map(|(_, kept)| kept);
    found.reduce(least).unwrap_or(Kept::Nothing)
}

/// What a start reports: the least of what it found and of what the starts before it found and the
/// table was never told. A second crash that lost nothing brings back nothing that a first lost.
pub fn least(untold: Kept, found: Kept) -> Kept {
    // `Kept` is ordered from all to nothing.
    untold.max(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks {
        weakest: Durability::Always,
        stopped_cleanly: false,
        same_kernel: true,
        has_log: true,
        sync_failed: false,
        restored: false,
    };

    /// The three columns of the table: always, everysec, memory.
    fn check(marks: Marks, want: [Kept; 3]) {
        let modes = [Durability::Always, Durability::Everysec, Durability::Memory];
        let got = modes.map(|weakest| kept(Marks { weakest, ..marks }));
        assert_eq!(got, want, "{marks:?}");
    }

    #[test]
    fn each_row_of_the_evidence_table() {
        use Kept::{All, Nothing, Tail};
        let other_kernel = Marks { same_kernel: false, ..MARKS };
        check(Marks { stopped_cleanly: true, ..other_kernel }, [All, All, Nothing]);
        check(MARKS, [All, All, Nothing]);
        check(other_kernel, [All, Tail, Nothing]);
        check(Marks { has_log: false, ..MARKS }, [Nothing, Nothing, Nothing]);
        check(Marks { sync_failed: true, ..MARKS }, [Tail, Tail, Nothing]);
        check(Marks { restored: true, ..MARKS }, [Tail, Tail, Nothing]);
    }

    #[test]
    fn a_second_crash_brings_nothing_back() {
        let all = [Kept::All, Kept::Tail, Kept::Nothing];
        for untold in all {
            for found in all {
                let least = least(untold, found);
                assert!(least >= untold && least >= found, "{untold:?} {found:?}");
                assert!(least == untold || least == found);
            }
        }
    }

    #[test]
    fn the_row_that_keeps_least_counts() {
        use Kept::{Nothing, Tail};
        let clean = Marks { stopped_cleanly: true, ..MARKS };
        check(Marks { sync_failed: true, ..clean }, [Tail, Tail, Nothing]);
        check(Marks { restored: true, has_log: false, ..clean }, [Nothing, Nothing, Nothing]);
    }
}
