//! The end of a process that must not go on: one line, and out.
//!
//! Not the orderly end. Crash beats corrupt: what is on disk is as a kill would leave it.

use std::io::Write;

/// Exit code of a node that ends itself.
pub const EXIT_FATAL: i32 = 1;

/// Says why and ends the process at once.
pub fn fatal(why: &str) -> ! {
    tracing::error!("ending: {why}");
    let _ = writeln!(std::io::stderr(), "slotd: {why}");
    std::process::exit(EXIT_FATAL)
}

/// The value, or the end of the process: for steps after which there is no way back.
pub fn unless<T>(result: std::io::Result<T>, what: &str) -> T {
    result.unwrap_or_else(|error| fatal(&format!("{what}: {error}")))
}
