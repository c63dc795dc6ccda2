//! slotd, the server: a sharded key-value store that speaks the Redis protocol and the Redis
//! Cluster client contract, and refuses at the owner what is not its own.
//!
//! ```text
//!   bytes --> io/conn --> session --> command --> slot (rooms) --> store (values)
//!             (edge)      decode,     one table   admit, apply     pure data
//!                         stages,     of all      |
//!                         EXEC        commands    +--> gate: when replies may leave
//!                            |                    ^
//!   slots (the table) --> control (its log) ------+ admission words: who owns what
//!                                                 |
//!   stream: op groups, snapshots, the sink  <-----+ what a slot's log, copy or move is made of;
//!                                                   command hands it to backups, and takes it
//!
//!   replication: who has copies of a slot and counts      migration: a move, step by step
//!   io/peer --> peer: frames, greetings and calls between nodes; control talks through it
//!
//!   config: one declaration per option      resp: bytes <-> requests and replies
//!   metrics: one declaration per metric     announce: where the node is, by audience
//!   node: wires the cores to the edges      io: sockets, clock, randomness, threads, signals
//!   vital: tasks whose panic ends the node
//! ```
//! Arrows point from user to used and are one-way; a test holds them.

pub mod announce;
pub mod command;
pub mod config;
pub mod control;
pub mod gate;
pub mod io;
pub mod manual;
pub mod metrics;
pub mod migration;
pub mod node;
pub mod peer;
pub mod persist;
pub mod replication;
pub mod resp;
pub mod session;
pub mod slot;
pub mod store;
pub mod stream;
#[cfg(any(test, fuzzing))]
pub mod testing;
pub mod vital;
