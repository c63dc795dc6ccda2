//! The slot table under every change: changes, among them those that may lose writes, starts, random
//! histories.
//!
//! Only the public interface is used, as the server uses it.

mod changes;
mod kit;
mod loss;
mod node_boot;
mod nodes;
mod properties;
mod stored;
