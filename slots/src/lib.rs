//! The shared language of slotd: hash slots, the slot table and its changes. Pure: no IO, no
//! locks, no clock, no randomness. Server, client library, tools and tests speak it.
//!
//! ```text
//!   key --slot_of--> SlotId                 slot.rs (hash tags), crc16.rs
//!                      |                    ranges.rs     sets of slots as text
//!                      v
//!   SlotTable.slot(id) -> SlotRow           table.rs, row.rs (owner, epoch, in-sync set, move)
//!        ^      |                           node.rs, ids.rs (nodes, addresses, counters)
//!        |      +--> MOVED 449 host:port    redirect.rs   written and read
//!        |
//!   SlotTable.apply(Proposal, version) -> Verdicts
//!        change.rs     what the log holds: TableChange, by whom, decided at which version
//!        apply.rs      settings and nodes (apply/nodes), starts (apply/boot), slots (apply/slots)
//!        invariant.rs  checked on every row before it is installed
//!        verdict.rs    accepted or refused, slot by slot, with the reason; possible losses
//!   placement.rs       the slots a new cluster begins with; who takes those of a draining node
//!   admin.rs           what nodes answer to operators' tools, as JSON
//! ```
//! Versions tie it together: the index of a log entry is the table's version; a slot's epoch and
//! ver are the versions of the entries that last changed who orders its writes, and who holds it.
//! Two tables that applied the same entries are equal, byte for byte.

pub mod admin;
mod apply;
mod change;
mod crc16;
mod ids;
mod invariant;
mod members;
mod node;
mod placement;
mod ranges;
pub mod redirect;
mod row;
mod slot;
mod table;
mod verdict;

pub use change::next_generation;
pub use change::{
    AckMode, ClusterSettings, Kept, LossConsent, NewNode, Proposal, Proposer, TableChange,
    TakenTail,
};
pub use crc16::crc16;
pub use ids::{
    BadId, Boot, ClusterId, Epoch, MoveId, NodeId, Nonce, OpIndex, StoreId, TableVersion,
};
pub use invariant::Broken;
pub use members::{MAX_FOLLOWERS, MAX_IN_SYNC, MAX_NODES};
pub use node::{
    Addresses, BadEndpoint, BadText, DEFAULT_WEIGHT, Endpoint, EndpointKind, Labels,
    MAX_HOST_BYTES, MAX_LABEL_KEY_BYTES, MAX_LABEL_VALUE_BYTES, MAX_LABELS, MAX_NAME_BYTES,
    MAX_WEIGHT, NodeRow, NodeState, TextField,
};
pub use placement::{Taker, even_split, spread};
pub use ranges::{RangeError, SlotRange, SlotRanges};
pub use redirect::{Redirect, RedirectHost, RedirectKind};
pub use row::{LastRemoved, RemovalCause, SlotMove, SlotRow};
pub use slot::{NoSuchSlot, SLOTS, SlotId, hash_tag, slot_of};
pub use table::{BadImage, Cluster, MAX_LOSS_TAILS, MAX_LOSSES, SlotTable};
pub use verdict::{ChangeRefused, Loss, LossCause, Verdict, Verdicts};
