//! Shows what a power loss costs: the process is killed under 8 writers, and its data folder
//! becomes what its disk may hold without power, torn pages, lost names and all.
//!
//! Prints figures and ends with `power-loss: holds` (exit 0) or what did not hold (exit 1). To see
//! that it would be noticed: `--mode everysec --judge-as always`, or `--lie /wal`, a disk that does
//! nothing when told to sync paths with this in them.

use slot_tests::durable::{Mode, cuts};
use slot_tests::flags::Flags;
use slot_tests::process::binary;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "power-loss [--mode always|everysec|no] [--cuts N] [--seed N] [--writers N] \
                     [--shelves N] [--sync-delay-us N] [--judge-as MODE] [--lie PATH] [--no-tears] \
                     [--names-stay] [--tell]";

fn main() -> io::Result<ExitCode> {
    let mut flags = Flags::from_env(USAGE);
    let mode = flags.value("--mode", Mode::Always);
    let setup = cuts::Setup {
        binary: binary()?,
        mode,
        judged_as: flags.value("--judge-as", mode),
        cuts: flags.value("--cuts", 50),
        seed: flags.value("--seed", 1),
        writers: flags.value("--writers", 8),
        shelves: flags.value("--shelves", 20),
        tears: !flags.switch("--no-tears"),
        names_stay: flags.switch("--names-stay"),
        lie: flags.maybe("--lie"),
        sync_delay: Duration::from_micros(flags.value("--sync-delay-us", 500)),
        is_told: flags.switch("--tell"),
    };
    flags.finish();
    println!("power-loss: {} cuts, mode {mode:?}, seed {}", setup.cuts, setup.seed);
    let mut figures = cuts::run(&setup)?;
    let holds = figures.report();
    println!("power-loss: {}", if holds { "holds" } else { "DOES NOT HOLD" });
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
