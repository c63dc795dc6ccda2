//! Copies of a slot on several nodes: who counts, what is safe, who is taken in and let go
//! (PROTOCOL 3).
//!
//! ```text
//!   table row --> lead (of the owner) <-- acks of the others
//!                  |-- safe: the gate lets replies go up to here
//!                  `-- wants: GrowInSync, ShrinkInSync, to be proposed
//!   groups of the owner --> follow (of a member) --> keys, ack
//! ```
//! Pure: no link, no log, no clock of its own. Not the stream that fills a copy (`stream`), nor
//! the order of a move (`migration`). The same rules are a model that can be searched
//! (`manual/protocol-model`); where the two differ one of them is wrong.

pub mod follow;
pub mod lead;

pub use follow::{Follow, Groups, Name, Taken};
pub use lead::{Acked, Lead, Peer, Terms, Want};
