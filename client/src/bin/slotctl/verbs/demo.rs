//! `demo stale-writer`: runs the library's demo and shows it while it goes on.
//!
//! Asks no cluster but the demo's own. Invariant: with `--json` nothing but its outcome is
//! printed.

use std::io::{self, Write};
use std::time::Duration;

use slot_client::demo::{self, DemoOptions, DemoOutcome};

use super::Shown;
use crate::args::StaleWriterArgs;
use crate::exit::{Exit, Failure};

pub(super) fn stale_writer(args: StaleWriterArgs, json: bool) -> Result<Shown, Failure> {
    let late = Duration::from_secs(u64::from(args.seconds));
    let options = DemoOptions { slotd: args.slotd, late, ..DemoOptions::default() };
    let mut out: Box<dyn Write> = if json { Box::new(io::sink()) } else { Box::new(io::stdout()) };
    let outcome: DemoOutcome = demo::run(&options, &mut out).map_err(|error| failure(&error))?;
    let exit = if outcome.is_clean() { Exit::Done } else { Exit::ChecksFailed };
    // The text is printed already.
    Shown::with(exit, String::new(), &outcome)
}

fn failure(error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => Exit::Usage,
        io::ErrorKind::TimedOut | io::ErrorKind::ConnectionRefused => Exit::Unreachable,
        _ => Exit::Refused,
    };
    Failure::new(exit, error.to_string())
}
