//! The slot room: one locked box per hash slot (DESIGN 1.1).
//!
//! A slot's ownership, its keys and its place in its stream live behind one lock. `Rooms::admit`
//! is the only door to a slot's keys and `Owned::apply` the only way to change them (INV-3): the
//! types make it impossible to go round. Ownership is checked in the same critical section as
//! the write. Beside the door: `Rooms::replay` brings the content of a slot that is not served,
//! `Rooms::read` copies a slot for its stream, and `stage` is a room apart from all of them, which
//! `stages` makes the live one when the slot has moved here.

pub mod admission;
mod alone;
mod apply;
mod change;
pub mod door;
mod hold;
pub mod journal;
mod kept;
pub mod keys;
pub mod op;
mod owned;
pub mod reading;
pub mod replay;
pub mod room;
pub mod stage;
pub mod stages;
pub mod sync;
pub mod tap;
pub mod waiters;

pub use admission::{Access, Admission, Ownership, Refused};
pub use journal::{Journal, Position, Step};
pub use keys::{Found, Keys, Str, Value};
pub use op::{End, Key, Op};
pub use owned::{Owned, access_clock};
pub use reading::Reading;
pub use replay::Replay;
pub use room::{Admit, HoldExpiry, Patience, Rooms};
pub use stage::{Stage, Staged};
pub use stages::{BadStage, Bringer, StageCounts, StageFate, StageRefused, StagedCopy};
pub use tap::{Bell, Overrun, Tap, TappedGroup, TappedGroups};
pub use waiters::{Ticket, Waiting, Watch};

/// The key holds a value of another type than the command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;
