//! The edges: sockets, clocks, randomness, threads, signals. Everything else is pure and takes
//! `now` and bytes; nothing but `node` and the binary uses this module.

pub mod checkpoint;
pub mod clock;
pub mod conn;
pub mod data_dir;
pub mod edges;
pub mod exit;
pub mod expiry;
pub mod listen;
pub mod local;
pub mod log;
pub mod metrics;
pub mod peer;
pub mod raft_disk;
pub mod recovery;
pub mod signals;
pub mod storage;
pub mod wal;
