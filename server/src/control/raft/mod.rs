//! The table's log on Raft (`openraft`): the only module that knows of leaders, terms and voters.
//!
//! Not authority: being leader allows proposing and nothing else (DESIGN 7).

pub mod types;
