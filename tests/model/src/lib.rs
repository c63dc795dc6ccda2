//! The protocol of slots, grants and moves as a model that can be searched: read it to learn the
//! protocol, change it together with the protocol.
//!
//! One slot, three nodes. The replicated log is one list of table versions that each node applies
//! late; proposals are committed late, twice or never. Frames are lost, doubled and reordered.
//! Nodes crash and keep all, what was synced, or nothing. There are no clocks: a grant is given,
//! used, and runs out, at the holder first.
//!
//! ```text
//!            world.rs  where it begins          rules.rs  a switch for each rule
//!                |
//!   actions.rs --+--> step.rs --> owner.rs    executes, counts, proposes, seals
//!   what can     |       |        member.rs   takes groups and snapshots, acks
//!   happen       |       |        crash.rs    crashes; meets new versions of the table
//!                |       +------> table.rs    the row and its changes; start.rs: NodeBoot
//!                |       +------> oracle.rs   what clients were promised
//!                +--> properties.rs           what must hold in every state
//!
//!   walk.rs      seeded walks, shortest failures      scenario.rs  traces as text
//!   state.rs     who may do what, by what it knows    node.rs, words.rs  the parts
//! ```
//! `model list` names the rules; `model rule NAME` switches one off and walks until it breaks;
//! `scenarios/` keeps for each rule how it broke.

mod actions;
mod crash;
mod member;
pub mod node;
mod oracle;
mod owner;
mod properties;
mod rules;
mod scenario;
mod start;
mod state;
mod step;
pub mod table;
mod walk;
pub mod words;
mod world;

pub use actions::{Action, enabled};
pub use properties::{Broken, check};
pub use rules::Rules;
pub use scenario::{Outcome, Scenario};
pub use state::{Grants, Spent, State};
pub use step::{Branch, step};
pub use walk::{Coverage, Failure, Random, Tally, follow, shrink};
pub use world::{Limits, Protocol, World};
