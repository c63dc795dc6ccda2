//! Values as pure data: no locks, no clock, no randomness, no IO.

pub mod decimal;
pub mod glob;
pub mod number;
pub mod table;
