//! How a run of slotctl ends: the one table of exit codes, and what went wrong in a sentence.
//!
//! Not the printing. Invariant: each code has one meaning for all verbs; scripts rely on it.

use std::fmt::Write;

/// The end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// It is as it was asked to be.
    Done = 0,
    /// Somebody said no: the cluster, the node, or the person who was asked.
    Refused = 1,
    /// The words of the command line make no sense; nothing was touched.
    Usage = 2,
    /// Begun or of unknown fate; the same command again is right.
    Unfinished = 3,
    /// No node gave an answer.
    Unreachable = 4,
    /// The cluster answers and is not as it should be.
    ChecksFailed = 5,
}

impl Exit {
    /// All of them, by code.
    pub(crate) const ALL: [Exit; 6] = [
        Exit::Done,
        Exit::Refused,
        Exit::Usage,
        Exit::Unfinished,
        Exit::Unreachable,
        Exit::ChecksFailed,
    ];

    /// The code of the process.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// What the code tells a script.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done, or nothing to do",
            Exit::Refused => "refused, by the cluster or by who was asked; the sentence says why",
            Exit::Usage => "usage: a bad argument, which is named; nothing was touched",
            Exit::Unfinished => "unfinished but resumable: give the same command again",
            Exit::Unreachable => "cannot reach a node of the cluster",
            Exit::ChecksFailed => "checks failed: the cluster answers and is not healthy",
        }
    }
}

/// The table for people: a code and its meaning a line.
pub(crate) fn table_text() -> String {
    let mut text = String::new();
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {}  {}", exit.code(), exit.meaning());
    }
    text
}

/// The table for the manual, as markdown.
pub(crate) fn table_markdown() -> String {
    let mut text = String::from("| code | `slotctl` |\n|---|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning());
    }
    text
}

/// Why a run did not end well: one sentence that says what to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// How the run ends.
    pub(crate) exit: Exit,
    /// The sentence, one line.
    pub(crate) text: String,
    /// What is known of the order.
    pub(crate) fate: Fate,
}

/// What is known of an order that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It was not carried out, or the answer says what is known.
    Known,
    /// It was sent and the answer got lost.
    AnswerLost,
}

impl Failure {
    /// A failure with this end.
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Failure {
        Failure { exit, text: one_line(&text.into()), fate: Fate::Known }
    }

    /// Somebody said no.
    pub(crate) fn refused(text: impl Into<String>) -> Failure {
        Failure::new(Exit::Refused, text)
    }

    /// A word of the command line is wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, text)
    }
}

/// Text of others (a server, a file name) must not break the promise of one line.
fn one_line(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_from_zero() {
        let codes: Vec<u8> = Exit::ALL.into_iter().map(Exit::code).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_operating_chapter_has_this_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/src/manual/operating.md");
        let page = std::fs::read_to_string(page).expect("the chapter can be read");
        assert!(page.contains(&table_markdown()), "put this in:\n{}", table_markdown());
    }

    #[test]
    fn a_failure_is_one_line_whatever_a_server_says() {
        let failure = Failure::refused("no\r\n\x1b[31mred\n");
        assert_eq!(failure.text, "no   [31mred");
    }
}
