//! Values as pure data: no locks, no clock, no randomness, no IO.

pub mod blob;
pub mod class;
pub mod decimal;
mod fields;
pub mod glob;
pub mod hash;
pub mod limits;
pub mod list;
pub mod number;
pub mod object;
pub mod pack;
pub mod set;
pub mod table;
pub mod zset;
