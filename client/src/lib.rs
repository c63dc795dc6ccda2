//! The Rust client library of slotd, and of any server with the Redis Cluster client contract.
//!
//! It will be a router without IO and connections over it (pipelines, reconnects, refreshes of the
//! map with a bound on their number). What is here so far is the router's heart, the part that
//! decides where a command goes:
//!
//! ```text
//!   CLUSTER SLOTS --> SlotMap --lookup(key)--> endpoint
//!                        ^
//!   MOVED, ASK --apply---+--> Next: send it there, ask there once, or fetch the map anew
//! ```
//! Not here: sockets, time, the decoding of replies; and not `slotctl`, the operator's tool, which
//! is a program of this package (`src/bin/slotctl`, feature `slotctl`) and talks `SLOTD` only.

#[cfg(feature = "slotctl")]
pub mod demo;
pub mod router;

pub use router::{Next, Served, SlotMap};
