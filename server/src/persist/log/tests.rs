//! Situations of the log on a simulated disk. Deaths at every step are in `crashes`.
//!
//! Invariant: pure; each test has a disk of its own.

mod crashes;
mod groups;
mod kit;
mod room;
mod rounds;
mod situations;
