//! A bar on the terminal for what takes longer than a second.
//!
//! Not for programs: nothing is shown unless a person looks at standard error. Invariant: it is
//! one line, and gone before anything else is said.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Before that nothing is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Characters of the bar itself.
const BAR_CHARS: usize = 24;

/// The bar.
pub(crate) struct Bar {
    what: &'static str,
    began: Instant,
    is_watched: bool,
    is_shown: bool,
}

impl Bar {
    /// `what` is done; nobody watches where `is_quiet` says so.
    pub(crate) fn new(what: &'static str, quiet: super::Quiet) -> Bar {
        let is_watched = quiet == super::Quiet::No && io::stderr().is_terminal();
        Bar { what, began: Instant::now(), is_watched, is_shown: false }
    }

    /// Does a person look at it?
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Time since it began.
    pub(crate) fn time(&self) -> Duration {
        self.began.elapsed()
    }

    /// So much of the whole is done; `note` says it in numbers.
    pub(crate) fn show(&mut self, done: u64, whole: u64, note: &str) {
        if !self.is_watched || self.time() < SHOWN_AFTER {
            return;
        }
        self.is_shown = true;
        // Without wrapping a line that is too long for the terminal stays one line.
        let line = format!("\r\x1b[K\x1b[?7l{} {} {note}\x1b[?7h", self.what, drawn(done, whole));
        let mut err = io::stderr().lock();
        // A terminal that goes away takes the bar with it.
        let _ = err.write_all(line.as_bytes()).and_then(|()| err.flush());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }
}

fn drawn(done: u64, whole: u64) -> String {
    let part = if whole == 0 { 1.0 } else { (done as f64 / whole as f64).min(1.0) };
    let full = (part * BAR_CHARS as f64) as usize;
    let percent = (part * 100.0) as u32;
    format!("[{}{}] {percent:3} %", "#".repeat(full), ".".repeat(BAR_CHARS - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_at_the_end_only() {
        assert_eq!(drawn(0, 3), "[........................]   0 %");
        assert_eq!(drawn(2, 3), "[################........]  66 %");
        assert_eq!(drawn(3, 3), "[########################] 100 %");
        assert_eq!(drawn(0, 0), "[########################] 100 %");
    }
}
