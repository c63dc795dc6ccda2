//! store
pub mod blob;
pub mod class;
pub mod limits;
pub mod list;
pub mod pack;
pub mod zset;
