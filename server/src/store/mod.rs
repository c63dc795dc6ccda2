//! store
pub mod decimal;
pub mod glob;
pub mod number;
