//! slotd, the server.
pub mod resp;
pub mod store;
pub mod gate;
pub mod config;
