//! The world: whole clusters of slotd's pure cores in one thread, played from a seed.
//!
//! ```text
//!   plan (seed, bug) --> world: hosts, network, log, clients, operators, faults
//!                          |  each host: node.rs = the product's cores
//!                          v
//!                        oracle: one checker per invariant --> report, coverage
//! ```
//! The manual's chapter `the_world` says what is simulated and how to replay a run.
//!
//! ```text
//!   dice     every choice, from the seed      clock    world time, hosts' clocks
//!   log      the list of entries, leaders     votes    who leads
//!   net      delay, loss, doubling, cuts      node     a process: the real cores, wired
//!   edges    clocks and mouth of a node       resp     replies as clients read them
//!   world/   what happens                     oracle/  what must hold
//! ```

pub mod clock;
pub mod coverage;
pub mod dice;
pub mod edges;
pub mod log;
pub mod net;
pub mod node;
pub mod oracle;
pub mod plan;
pub mod resp;
pub mod votes;
mod world;

use slots::ClusterId;

pub use plan::{Bug, Plan};
pub use world::{Report, play};

/// The cluster every run founds.
const FOUNDED: ClusterId = ClusterId::from_bytes([1; 20]);
