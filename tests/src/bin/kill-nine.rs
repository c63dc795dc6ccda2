//! Shows that nothing acknowledged is forgotten when the process is killed: kill -9 at random
//! moments under 8 writers, while it writes, saves and loads, and an orderly end at last.
//!
//! Prints figures and ends with `kill-nine: holds` (exit 0) or what did not hold (exit 1). With
//! `--mode memory` the server keeps no log: then losses must be found, and that is what holds.

use slot_tests::durable::{Mode, kills};
use slot_tests::flags::Flags;
use slot_tests::process::binary;
use std::io;
use std::process::ExitCode;

const USAGE: &str = "kill-nine [--mode always|everysec|no|memory] [--kills N] [--seed N] \
                     [--writers N] [--shelves N] [--ballast KEYS] [--tell]";

fn main() -> io::Result<ExitCode> {
    let mut flags = Flags::from_env(USAGE);
    let setup = kills::Setup {
        binary: binary()?,
        mode: flags.value("--mode", Mode::Always),
        kills: flags.value("--kills", 200),
        seed: flags.value("--seed", 1),
        writers: flags.value("--writers", 8),
        shelves: flags.value("--shelves", 40),
        ballast: flags.value("--ballast", 100_000),
        is_told: flags.switch("--tell"),
    };
    flags.finish();
    println!("kill-nine: {} kills, mode {:?}, seed {}", setup.kills, setup.mode, setup.seed);
    let mut figures = kills::run(&setup)?;
    let holds = figures.report() != (setup.mode == Mode::Memory);
    println!("kill-nine: {}", if holds { "holds" } else { "DOES NOT HOLD" });
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
