//! The slot table under every change: one module for changes, one for starts, one for random
//! histories.
//!
//! Only the public interface is used, as the server uses it.

mod changes;
mod kit;
mod node_boot;
mod nodes;
mod properties;
mod stored;
