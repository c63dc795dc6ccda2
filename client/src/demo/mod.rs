//! `slotctl demo stale-writer`: what happens to the writes of a box whose map of the fleet is old.
//!
//! ```text
//!   plan    --> growth: three nodes, then four (edge: processes, clock; wire: sockets)
//!   ingest  --> story: four boxes write, one of them by its old map for too long
//!   audit   --> every reading is looked for on every node
//!   unchecked   the same readings in a model of shards that take every write --> report
//! ```
//! Not a benchmark, and no part of the client library's use. Invariant: only processes and
//! folders of its own are touched; they are gone when `run` returns.

mod audit;
mod edge;
mod growth;
mod ingest;
mod plan;
mod report;
mod story;
#[cfg(test)]
mod tests;
mod unchecked;
mod wire;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

/// The least rate of a box, readings a second: one for each of its ticks.
pub const MIN_PER_SECOND: u32 = 50;
/// The highest: what four boxes and four nodes of a debug build do on two cores is near it.
pub const MAX_PER_SECOND: u32 = 20_000;
/// Most readings that the fourth box may write by its old map: with those of the other boxes, the
/// model and the nodes some 200 MB.
pub const MAX_LATE_READINGS: u64 = 100_000;

/// What to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DemoOptions {
    /// The server's program; `None`: `$SLOTD_BIN`, else `slotd` beside this program.
    pub slotd: Option<PathBuf>,
    /// How long the fourth box goes on by its old map, at its rate. On a slower machine it takes
    /// longer: the number of readings decides.
    pub late: Duration,
    /// Readings that each box writes in a second, `MIN_PER_SECOND` to `MAX_PER_SECOND`.
    pub per_second: u32,
}

impl Default for DemoOptions {
    /// 3 s late at 2,000 readings a second: 6,000 readings by the old map.
    fn default() -> DemoOptions {
        DemoOptions { slotd: None, late: Duration::from_secs(3), per_second: 2000 }
    }
}

impl DemoOptions {
    /// Readings that the fourth box writes by its old map after the growth, at least.
    pub fn late_readings(&self) -> u64 {
        (f64::from(self.per_second) * self.late.as_secs_f64()).ceil() as u64
    }

    fn check(&self) -> io::Result<()> {
        let (rate, late) = (self.per_second, self.late_readings());
        let text = if !(MIN_PER_SECOND..=MAX_PER_SECOND).contains(&rate) {
            format!(
                "{rate} readings a second: expected {MIN_PER_SECOND} to {MAX_PER_SECOND} for a box"
            )
        } else if !(1..=MAX_LATE_READINGS).contains(&late) {
            format!(
                "{late} readings by the old map: expected 1 to {MAX_LATE_READINGS}; choose \
                 another time or rate"
            )
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

/// What became of the readings in one of the two fleets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Readings that the boxes had.
    pub written: u64,
    /// Writes answered with `MOVED`; they were kept and written by the new map.
    pub refused: u64,
    /// Readings that the fleet said it has.
    pub acknowledged: u64,
    /// Readings on a node that does not own them.
    pub misplaced: u64,
    /// Acknowledged readings that their owner does not have.
    pub not_found: u64,
}

/// What the demo saw.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DemoOutcome {
    /// The nodes that were run.
    pub slotd: Tally,
    /// The model of shards that take every write, given the same readings.
    pub unchecked: Tally,
    /// Readings that the fourth box first sent by its old map when the fleet had grown.
    pub stale_writes: u64,
    /// Writes refused while the cluster could not decide (`CLUSTERDOWN`, `TRYAGAIN`), and written
    /// later.
    pub refused_otherwise: u64,
    /// `cluster_stale_refusals` of all nodes, before the check at the end.
    pub refusals_counted_by_nodes: u64,
    /// Questions at the end that a node answered though the slot is another's.
    pub served_by_strangers: u64,
    /// The nodes' log lines on refusals, if they were found in time.
    pub log_lines: Vec<String>,
    /// The first things found wrong, as sentences.
    pub faults: Vec<String>,
    /// Where the nodes were, `host:port`.
    pub nodes: Vec<String>,
}

impl DemoOutcome {
    /// Is every reading acknowledged and where it belongs, and did both sides count the same?
    pub fn is_clean(&self) -> bool {
        let Tally { written, refused, acknowledged, misplaced, not_found } = self.slotd;
        misplaced == 0
            && not_found == 0
            && acknowledged == written
            && refused == self.refusals_counted_by_nodes
            && self.served_by_strangers == 0
    }
}

/// Runs the demo on a cluster of its own, and prints its plan, its course and its table to `out`.
/// A failed check is no error: see [`DemoOutcome::is_clean`].
///
/// Errors: `InvalidInput` if an option is out of its limits, before anything is started;
/// `NotFound` if there is no server program; `TimedOut` if nodes or boxes get stuck, with what the
/// nodes printed last; what sockets, processes and `out` fail with.
pub fn run(options: &DemoOptions, out: &mut dyn Write) -> io::Result<DemoOutcome> {
    options.check()?;
    let mut nodes = edge::ThrowAway::new(edge::slotd(options.slotd.as_deref())?)?;
    story::tell(&mut nodes, options, out)
}
