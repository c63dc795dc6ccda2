//! The table's log on Raft (`openraft`): the only module that knows of leaders, terms and voters.
//!
//! Not authority: being leader allows proposing and nothing else (DESIGN 7).

pub mod disk;
pub mod machine;
pub mod packed;
pub mod store;
pub mod types;
