//! slotd, the server.
pub mod config;
pub mod gate;
pub mod resp;
pub mod store;
