//! Options: where clients connect and who may.
//!
//! Not the ports between nodes (`cluster`).

use super::INT_MAX;
use crate::config::declaration::{Change, Declaration};
use crate::config::special::Special;
use crate::config::value::Kind;

const NO_SUCH_PORT: &str = "Unable to listen on this port. Check server logs.";
const NO_SUCH_ADDRESS: &str = "Failed to bind to specified addresses.";

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new(
        "port",
        Kind::Integer { min: 0, max: 65535 },
        "6379",
        "Port for clients; 0 = the system chooses one.",
    )
    .change(Change::Edge(NO_SUCH_PORT)),
    Declaration::new(
        "bind",
        Kind::Special(Special::Addresses),
        "127.0.0.1",
        "Addresses to listen on; one with `-` in front may be missing on this machine.",
    )
    .change(Change::Edge(NO_SUCH_ADDRESS)),
    Declaration::new(
        "protected-mode",
        Kind::Flag,
        "yes",
        "Refuse clients from other machines while no password is set.",
    )
    .live(|l, v| l.protected_mode.put(v)),
    Declaration::new(
        "requirepass",
        Kind::Text,
        "",
        "Password clients must give with AUTH; empty = none.",
    )
    .secret()
    .live(|l, v| l.requirepass.put(v)),
    Declaration::new(
        "timeout",
        Kind::Integer { min: 0, max: INT_MAX },
        "0",
        "Close a client that was idle for so many seconds; 0 = never.",
    )
    .live(|l, v| l.timeout_s.put(v)),
    Declaration::new(
        "tcp-keepalive",
        Kind::Integer { min: 0, max: INT_MAX },
        "300",
        "Seconds between TCP keepalive probes; 0 = none.",
    )
    .live(|l, v| l.tcp_keepalive_s.put(v)),
    Declaration::new(
        "tcp-backlog",
        Kind::Integer { min: 0, max: INT_MAX },
        "4096",
        "Connections the system may hold ready before they are accepted.",
    )
    .startup(),
    Declaration::new(
        "threads",
        Kind::Integer { min: 0, max: 1024 },
        "0",
        "Worker threads; 0 = one per core, and never fewer than two.",
    )
    .alias(&["io-threads"])
    .startup(),
];
