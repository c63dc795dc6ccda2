//! The slot table under every change: changes over slots (those that may lose writes apart),
//! nodes, starts, stored bytes, random histories.
//!
//! Only the public interface is used, as the server uses it.

mod changes;
mod kit;
mod loss;
mod node_boot;
mod nodes;
mod properties;
mod stored;
