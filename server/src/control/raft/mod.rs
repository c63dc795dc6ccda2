//! The table's log on Raft (`openraft`): the only module that knows of leaders, terms and voters.
//!
//! ```text
//!   TableLog, Orders --> cluster --> openraft --> network --> Calls (other nodes)
//!                          ^  |         ^
//!        Answers ----------+  |         +-- steward: one step of voters (pure) at a time
//!                             +-- propose, orders, duties: entries and votes for operators
//!                             +-- barrier: how far to apply before something is judged
//!   meet (pure) <-- meeting: who dissolves into whom, and the accepting side of it
//! ```
//! Not authority: being leader allows proposing and nothing else (DESIGN 7).

mod barrier;
mod cluster;
pub mod codec;
mod compact;
pub mod disk;
mod duties;
mod incoming;
pub mod machine;
pub mod meet;
mod meeting;
mod network;
mod orders;
mod propose;
mod steward;
pub mod store;
#[cfg(test)]
mod tests;
mod tuning;
pub mod types;
mod voters;
mod wire;

pub use cluster::{Cluster, ClusterStart, FoundError, Host, StartError};
pub use meeting::Dissolving;
pub use orders::ORDER_PATIENCE;
pub use propose::{MAX_PROPOSALS_IN_FLIGHT, PROPOSE_PATIENCE, may_repeat};
pub use voters::wanted_voters;
