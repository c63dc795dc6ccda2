//! store
pub mod table;
