//! Options: the data directory and what is kept on disk.
//!
//! There is no log on disk yet: options that would need one refuse, the others say so.

use super::INT_MAX;
use crate::config::declaration::{Change, Declaration};
use crate::config::special::Special;
use crate::config::value::Kind;

const NO_LOG: &str = "slotd keeps no append-only log yet: only 'no' is possible";

const NO_LOG_YET: &str = "there is no append-only log yet.";
const NO_SNAPSHOTS: &str = "slotd writes no RDB files.";

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new("dir", Kind::Text, ".", "Where the node keeps its files; created if missing.")
        .startup()
        .check(|v| if v.text.is_empty() { Err("must not be empty") } else { Ok(()) }),
    Declaration::new(
        "appendonly",
        Kind::Flag,
        "no",
        "Whether writes are logged to disk; 'yes' is refused until the log exists.",
    )
    .check(|v| if v.number == 1 { Err(NO_LOG) } else { Ok(()) }),
    Declaration::new(
        "appendfsync",
        Kind::Choice(&["everysec", "always", "no"]),
        "everysec",
        "When the log is forced to disk.",
    )
    .compat(NO_LOG_YET),
    Declaration::new(
        "no-appendfsync-on-rewrite",
        Kind::Flag,
        "no",
        "Do not force the log to disk while it is rewritten.",
    )
    .compat(NO_LOG_YET),
    Declaration::new("appendfilename", Kind::Text, "appendonly.aof", "Name of the log.")
        .startup()
        .compat(NO_LOG_YET),
    Declaration::new("appenddirname", Kind::Text, "appendonlydir", "Directory of the log.")
        .startup()
        .compat(NO_LOG_YET),
    Declaration::new(
        "auto-aof-rewrite-percentage",
        Kind::Integer { min: 0, max: INT_MAX },
        "100",
        "Growth of the log that starts a rewrite.",
    )
    .compat(NO_LOG_YET),
    Declaration::new(
        "auto-aof-rewrite-min-size",
        Kind::Memory { min: 0, max: i64::MAX as u64 },
        "67108864",
        "Smallest log that is rewritten.",
    )
    .compat(NO_LOG_YET),
    Declaration::new("aof-load-truncated", Kind::Flag, "yes", "Load a log cut short.")
        .compat(NO_LOG_YET),
    Declaration::new("aof-use-rdb-preamble", Kind::Flag, "yes", "Start the log with a snapshot.")
        .compat(NO_LOG_YET),
    Declaration::new("aof-timestamp-enabled", Kind::Flag, "no", "Put times into the log.")
        .compat(NO_LOG_YET),
    Declaration::new("aof-disable-auto-gc", Kind::Flag, "no", "Keep old files of the log.")
        .compat(NO_LOG_YET),
    Declaration::new(
        "aof-rewrite-incremental-fsync",
        Kind::Flag,
        "yes",
        "Force a rewritten log to disk piece by piece.",
    )
    .compat(NO_LOG_YET),
    Declaration::new(
        "save",
        Kind::Special(Special::SavePoints),
        "",
        "After how many seconds and changes a snapshot is written.",
    )
    .compat(NO_SNAPSHOTS),
    Declaration::new(
        "dbfilename",
        Kind::Special(Special::BaseName),
        "dump.rdb",
        "Name of the snapshot.",
    )
    .change(Change::Protected)
    .compat(NO_SNAPSHOTS),
    Declaration::new("rdbcompression", Kind::Flag, "yes", "Compress snapshots.")
        .compat(NO_SNAPSHOTS),
    Declaration::new("rdbchecksum", Kind::Flag, "yes", "Put a checksum into snapshots.")
        .startup()
        .compat(NO_SNAPSHOTS),
    Declaration::new(
        "rdb-save-incremental-fsync",
        Kind::Flag,
        "yes",
        "Force snapshots to disk piece by piece.",
    )
    .compat(NO_SNAPSHOTS),
    Declaration::new("rdb-del-sync-files", Kind::Flag, "no", "Delete snapshots made for replicas.")
        .compat(NO_SNAPSHOTS),
    Declaration::new(
        "rdb-key-save-delay",
        Kind::Integer { min: i32::MIN as i64, max: INT_MAX },
        "0",
        "Microseconds to wait at each key of a snapshot.",
    )
    .hidden()
    .compat(NO_SNAPSHOTS),
    Declaration::new(
        "key-load-delay",
        Kind::Integer { min: i32::MIN as i64, max: INT_MAX },
        "0",
        "Microseconds to wait at each key loaded.",
    )
    .hidden()
    .compat(NO_SNAPSHOTS),
    Declaration::new(
        "loading-process-events-interval-bytes",
        Kind::Integer { min: 1024, max: INT_MAX },
        "2097152",
        "Bytes loaded between two looks at clients.",
    )
    .hidden()
    .compat(NO_SNAPSHOTS),
    Declaration::new(
        "stop-writes-on-bgsave-error",
        Kind::Flag,
        "yes",
        "Refuse writes after a failed snapshot.",
    )
    .compat(NO_SNAPSHOTS),
    Declaration::new(
        "sanitize-dump-payload",
        Kind::Choice(&["no", "yes", "clients"]),
        "no",
        "Whether values given to RESTORE are checked in depth.",
    )
    .compat("there is no RESTORE yet."),
];
