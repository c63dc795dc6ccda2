//! store
pub mod number;
