//! store
pub mod blob;
pub mod class;
mod fields;
pub mod hash;
pub mod limits;
pub mod list;
pub mod object;
pub mod pack;
pub mod set;
pub mod table;
pub mod zset;
