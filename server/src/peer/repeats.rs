//! Which lines were logged a moment ago, so that a refusal repeated ten times a second is one line
//! in a while.
//!
//! Invariant: bounded; when it is full the oldest line may be logged once more.

use std::collections::BTreeMap;

/// A line is repeated at most this often, ns: it stays in view, and a day of it fits a screen or
/// so of scrolling.
pub const REPEAT_EVERY_NS: u64 = 60_000_000_000;
/// Most lines remembered.
pub const MAX_REPEATS: usize = 256;

/// What passes by itself within this, ns, is not worth a line: a node that joins is refused by
/// those of its new cluster until it has left the old one.
pub const PASSING_NS: u64 = 3_000_000_000;

/// The lines.
#[derive(Default, Debug)]
pub struct Repeats {
    logged_ns: BTreeMap<String, u64>,
    /// Since when a line that may pass by itself is wanted.
    wanted_ns: BTreeMap<String, u64>,
}

impl Repeats {
    /// As `is_due`, for a line that may pass by itself: not before it has been wanted again for
    /// `PASSING_NS`.
    pub fn is_due_if_it_lasts(&mut self, line: &str, now_ns: u64) -> bool {
        let recent = |at_ns: &u64| now_ns < at_ns.saturating_add(REPEAT_EVERY_NS);
        self.wanted_ns.retain(|_, at_ns| recent(at_ns));
        if self.wanted_ns.len() >= MAX_REPEATS {
            self.wanted_ns.clear();
        }
        let since_ns = *self.wanted_ns.entry(line.to_owned()).or_insert(now_ns);
        now_ns >= since_ns.saturating_add(PASSING_NS) && self.is_due(line, now_ns)
    }

    /// Is this line to be logged now? Remembers that it was.
    pub fn is_due(&mut self, line: &str, now_ns: u64) -> bool {
        let recent = |at_ns: &u64| now_ns < at_ns.saturating_add(REPEAT_EVERY_NS);
        if self.logged_ns.get(line).is_some_and(recent) {
            return false;
        }
        self.logged_ns.retain(|_, at_ns| recent(at_ns));
        if self.logged_ns.len() >= MAX_REPEATS
            && let Some(oldest) = self.logged_ns.iter().min_by_key(|(_, at)| **at)
        {
            let oldest = oldest.0.clone();
            self.logged_ns.remove(&oldest);
        }
        self.logged_ns.insert(line.to_owned(), now_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_passes_is_not_logged_and_one_that_lasts_is() {
        let mut repeats = Repeats::default();
        assert!(!repeats.is_due_if_it_lasts("a", 0));
        assert!(!repeats.is_due_if_it_lasts("a", PASSING_NS - 1));
        assert!(repeats.is_due_if_it_lasts("a", PASSING_NS));
        assert!(!repeats.is_due_if_it_lasts("a", PASSING_NS + 1));
        for line in 0..2 * MAX_REPEATS {
            repeats.is_due_if_it_lasts(&line.to_string(), 5);
        }
        assert!(repeats.wanted_ns.len() <= MAX_REPEATS);
    }

    #[test]
    fn a_line_is_repeated_after_a_while() {
        let mut repeats = Repeats::default();
        assert!(repeats.is_due("a", 5));
        assert!(!repeats.is_due("a", 5 + REPEAT_EVERY_NS - 1));
        assert!(repeats.is_due("b", 6));
        assert!(repeats.is_due("a", 5 + REPEAT_EVERY_NS));
        for line in 0..2 * MAX_REPEATS {
            assert!(repeats.is_due(&line.to_string(), REPEAT_EVERY_NS));
        }
        assert!(repeats.logged_ns.len() <= MAX_REPEATS);
    }
}
