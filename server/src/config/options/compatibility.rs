//! Options of Redis that mean nothing in slotd, accepted because files and tools name them.
//!
//! Those that belong to a theme stand there; what is left stands here.

use super::INT_MAX;
use crate::config::declaration::Declaration;
use crate::config::special::Special;
use crate::config::value::Kind;

const NO_REPLICAS: &str = "there are no replicas yet.";
const BY_SYSTEM: &str = "the service manager's business.";
const NO_PINNING: &str = "threads are not pinned; start slotd under taskset.";
const PORT: Kind = Kind::Integer { min: 0, max: 65535 };
const COUNT: Kind = Kind::Integer { min: 0, max: INT_MAX };
const AT_LEAST_ONE: Kind = Kind::Integer { min: 1, max: INT_MAX };

const SIGNAL_WORDS: Kind = Kind::Words(&["default", "save", "nosave", "now", "force"]);

const BOTH: &str = "shutdown options SAVE and NOSAVE can't be used simultaneously";

/// SAVE and NOSAVE are the first two bits of the words above.
const SAVE_AND_NOSAVE: i128 = 0b11;

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new("databases", AT_LEAST_ONE, "16", "How many databases there are.")
        .startup()
        .compat("in cluster mode only database 0 exists."),
    Declaration::new("daemonize", Kind::Flag, "no", "Go to the background.")
        .startup()
        .compat(BY_SYSTEM),
    Declaration::new("pidfile", Kind::Text, "", "File with the process id.")
        .startup()
        .compat(BY_SYSTEM),
    Declaration::new(
        "supervised",
        Kind::Choice(&["upstart", "systemd", "auto", "no"]),
        "no",
        "How to talk to the service manager.",
    )
    .startup()
    .compat(BY_SYSTEM),
    Declaration::new("always-show-logo", Kind::Flag, "no", "Print a picture at start.")
        .startup()
        .compat("there is no picture."),
    Declaration::new("set-proc-title", Kind::Flag, "yes", "Change the process title.")
        .startup()
        .compat("the title stays the command line."),
    Declaration::new(
        "proc-title-template",
        Kind::Special(Special::Title),
        "{title} {listen-addr} {server-mode}",
        "What the process title says.",
    )
    .compat("the title stays the command line."),
    Declaration::new("dynamic-hz", Kind::Flag, "yes", "Work more often with many clients.")
        .compat("background work does not grow with clients."),
    Declaration::new("io-threads-do-reads", Kind::Flag, "no", "Read in I/O threads.")
        .startup()
        .compat("every worker reads, executes and writes."),
    Declaration::new("disable-thp", Kind::Flag, "yes", "Turn huge pages off.")
        .startup()
        .compat("huge pages are left as they are."),
    Declaration::new("unixsocket", Kind::Text, "", "Path of a socket in the file system.")
        .startup()
        .check(|v| match v.text.is_empty() {
            true => Ok(()),
            false => Err("slotd listens on TCP only"),
        })
        .compat("slotd listens on TCP only; a path is refused."),
    Declaration::new(
        "unixsocketperm",
        Kind::Octal { max: 0o777 },
        "0",
        "Permissions of that socket.",
    )
    .startup()
    .compat("slotd listens on TCP only."),
    Declaration::new(
        "socket-mark-id",
        Kind::Integer { min: 0, max: u32::MAX as i64 },
        "0",
        "Mark put on sockets for packet filters.",
    )
    .startup()
    .compat("sockets are not marked."),
    Declaration::new("bind-source-addr", Kind::Text, "", "Address connections are made from.")
        .compat("the system chooses."),
    Declaration::new("ignore-warnings", Kind::Text, "", "Warnings at start to leave out.")
        .compat("there are none of those."),
    Declaration::new("server_cpulist", Kind::Text, "", "Cores for serving.")
        .startup()
        .compat(NO_PINNING),
    Declaration::new("bio_cpulist", Kind::Text, "", "Cores for background work.")
        .startup()
        .compat(NO_PINNING),
    Declaration::new("aof_rewrite_cpulist", Kind::Text, "", "Cores for log rewriting.")
        .startup()
        .compat(NO_PINNING),
    Declaration::new("bgsave_cpulist", Kind::Text, "", "Cores for snapshots.")
        .startup()
        .compat(NO_PINNING),
    Declaration::new(
        "oom-score-adj",
        Kind::Choice(&["no", "yes", "relative", "absolute"]),
        "no",
        "Tell the kernel which process to kill first.",
    )
    .compat("the kernel is not told."),
    Declaration::new(
        "oom-score-adj-values",
        Kind::Special(Special::OomScores),
        "0 200 800",
        "What to tell the kernel.",
    )
    .compat("the kernel is not told."),
    Declaration::new("shutdown-on-sigint", SIGNAL_WORDS, "default", "What SIGINT does.")
        .check(not_both)
        .compat("a signal ends the node in good order."),
    Declaration::new("shutdown-on-sigterm", SIGNAL_WORDS, "default", "What SIGTERM does.")
        .check(not_both)
        .compat("a signal ends the node in good order."),
    Declaration::new("use-exit-on-panic", Kind::Flag, "no", "Exit rather than abort on a panic.")
        .hidden()
        .compat("for Redis's own tests."),
    Declaration::new(
        "propagation-error-behavior",
        Kind::Choice(&["ignore", "panic", "panic-on-replicas"]),
        "ignore",
        "What a replica does on a command that fails.",
    )
    .compat(NO_REPLICAS),
    Declaration::new(
        "enable-module-command",
        Kind::Choice(&["no", "yes", "local"]),
        "no",
        "Who may use MODULE.",
    )
    .startup()
    .compat("there are no modules."),
    Declaration::new("aclfile", Kind::Text, "", "File with users.")
        .startup()
        .check(|v| match v.text.is_empty() {
            true => Ok(()),
            false => Err("there are no users but the default one yet"),
        })
        .compat("there are no users but the default one yet; a file is refused."),
    Declaration::new(
        "acl-pubsub-default",
        Kind::Choice(&["allchannels", "resetchannels"]),
        "resetchannels",
        "Channels a new user may use.",
    )
    .compat("there are no users but the default one yet."),
    Declaration::new("replicaof", Kind::Special(Special::Replication), "", "Node to copy.")
        .alias(&["slaveof"])
        .startup()
        .compat("in cluster mode a node is told by CLUSTER REPLICATE."),
    Declaration::new("masterauth", Kind::Text, "", "Password for the node that is copied.")
        .secret()
        .compat(NO_REPLICAS),
    Declaration::new("masteruser", Kind::Text, "", "User for the node that is copied.")
        .secret()
        .compat(NO_REPLICAS),
    Declaration::new("replica-serve-stale-data", Kind::Flag, "yes", "Serve old copies.")
        .alias(&["slave-serve-stale-data"])
        .compat(NO_REPLICAS),
    Declaration::new("replica-read-only", Kind::Flag, "yes", "Refuse writes to copies.")
        .alias(&["slave-read-only"])
        .compat(NO_REPLICAS),
    Declaration::new("replica-lazy-flush", Kind::Flag, "no", "Free an old copy lazily.")
        .alias(&["slave-lazy-flush"])
        .compat(NO_REPLICAS),
    Declaration::new("replica-ignore-maxmemory", Kind::Flag, "yes", "Let copies exceed maxmemory.")
        .alias(&["slave-ignore-maxmemory"])
        .compat(NO_REPLICAS),
    Declaration::new(
        "replica-ignore-disk-write-errors",
        Kind::Flag,
        "no",
        "Go on copying when the disk fails.",
    )
    .compat(NO_REPLICAS),
    Declaration::new("replica-priority", COUNT, "100", "Which copy is promoted first.")
        .alias(&["slave-priority"])
        .compat(NO_REPLICAS),
    Declaration::new("replica-announced", Kind::Flag, "yes", "Show this copy to Sentinel.")
        .compat(NO_REPLICAS),
    Declaration::new("replica-announce-ip", Kind::Text, "", "Address a copy announces.")
        .alias(&["slave-announce-ip"])
        .compat(NO_REPLICAS),
    Declaration::new("replica-announce-port", PORT, "0", "Port a copy announces.")
        .alias(&["slave-announce-port"])
        .compat(NO_REPLICAS),
    Declaration::new("min-replicas-to-write", COUNT, "0", "Copies a write needs.")
        .alias(&["min-slaves-to-write"])
        .compat(NO_REPLICAS),
    Declaration::new("min-replicas-max-lag", COUNT, "10", "Lag in seconds a copy may have.")
        .alias(&["min-slaves-max-lag"])
        .compat(NO_REPLICAS),
    Declaration::new("repl-timeout", AT_LEAST_ONE, "60", "Seconds a link may be silent.")
        .compat(NO_REPLICAS),
    Declaration::new(
        "repl-ping-replica-period",
        AT_LEAST_ONE,
        "10",
        "Seconds between pings to copies.",
    )
    .alias(&["repl-ping-slave-period"])
    .compat(NO_REPLICAS),
    Declaration::new("repl-disable-tcp-nodelay", Kind::Flag, "no", "Send in larger packets.")
        .compat(NO_REPLICAS),
    Declaration::new("repl-diskless-sync", Kind::Flag, "yes", "Send snapshots without a file.")
        .compat(NO_REPLICAS),
    Declaration::new("repl-diskless-sync-delay", COUNT, "5", "Seconds to wait for more copies.")
        .compat(NO_REPLICAS),
    Declaration::new("repl-diskless-sync-max-replicas", COUNT, "0", "Copies not waited beyond.")
        .compat(NO_REPLICAS),
    Declaration::new(
        "repl-diskless-load",
        Kind::Choice(&["disabled", "on-empty-db", "swapdb"]),
        "disabled",
        "Load snapshots without a file.",
    )
    .compat(NO_REPLICAS),
    Declaration::new(
        "repl-backlog-size",
        Kind::Memory { min: 1, max: i64::MAX as u64 },
        "1048576",
        "Bytes kept for copies that come back.",
    )
    .compat(NO_REPLICAS),
    Declaration::new(
        "repl-backlog-ttl",
        Kind::Integer { min: 0, max: i64::MAX },
        "3600",
        "Seconds these bytes are kept.",
    )
    .compat(NO_REPLICAS),
];

fn not_both(value: &crate::config::value::Value) -> Result<(), &'static str> {
    match value.number & SAVE_AND_NOSAVE == SAVE_AND_NOSAVE {
        true => Err(BOTH),
        false => Ok(()),
    }
}
