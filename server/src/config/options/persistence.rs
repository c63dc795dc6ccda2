//! Options: the data directory and what is kept on disk.
//!
//! Redis's names. What Redis writes as two kinds of files (AOF and RDB) is one here: a log with
//! checkpoints; options about the form of Redis's files do nothing and say so.

use super::INT_MAX;
use crate::config::declaration::{Change, Declaration};
use crate::config::special::Special;
use crate::config::value::Kind;

const OWN_LOG: &str = "the log has a form of its own (manual, chapter disk).";
const NO_RDB: &str = "slotd writes no RDB files.";
const ALWAYS_WHOLE: &str = "a torn end is always cut, and damage before it always stops the start.";
const NO_EDGE: &str = "the node was started without what carries this out";

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new("dir", Kind::Text, ".", "Where the node keeps its files; created if missing.")
        .startup()
        .check(|v| if v.text.is_empty() { Err("must not be empty") } else { Ok(()) }),
    Declaration::new("appendonly", Kind::Flag, "no", "Whether writes are logged to disk.")
        .change(Change::Edge(NO_EDGE)),
    Declaration::new(
        "appendfsync",
        Kind::Choice(&["everysec", "always", "no"]),
        "everysec",
        "When the log is forced to disk: before each answer, once a second, at the kernel's will.",
    )
    .change(Change::Edge(NO_EDGE)),
    Declaration::new(
        "no-appendfsync-on-rewrite",
        Kind::Flag,
        "no",
        "Do not force the log to disk while it is rewritten.",
    )
    .compat("a checkpoint does not stand in the log's way."),
    Declaration::new("appendfilename", Kind::Text, "appendonly.aof", "Name of the log.")
        .startup()
        .compat(OWN_LOG),
    Declaration::new("appenddirname", Kind::Text, "appendonlydir", "Directory of the log.")
        .startup()
        .compat(OWN_LOG),
    Declaration::new(
        "auto-aof-rewrite-percentage",
        Kind::Integer { min: 0, max: INT_MAX },
        "100",
        "Growth of the log, in percent of the last checkpoint, that begins the next; 0 = never.",
    )
    .live(|live, v| live.auto_checkpoint_percent.put(v)),
    Declaration::new(
        "auto-aof-rewrite-min-size",
        Kind::Memory { min: 0, max: i64::MAX as u64 },
        "67108864",
        "Bytes of log below which no checkpoint begins by itself.",
    )
    .live(|live, v| live.auto_checkpoint_min_bytes.put(v)),
    Declaration::new("aof-load-truncated", Kind::Flag, "yes", "Load a log cut short.")
        .compat(ALWAYS_WHOLE),
    Declaration::new("aof-use-rdb-preamble", Kind::Flag, "yes", "Start the log with a snapshot.")
        .compat(OWN_LOG),
    Declaration::new("aof-timestamp-enabled", Kind::Flag, "no", "Put times into the log.")
        .compat(OWN_LOG),
    Declaration::new("aof-disable-auto-gc", Kind::Flag, "no", "Keep old files of the log.")
        .compat(OWN_LOG),
    Declaration::new(
        "aof-rewrite-incremental-fsync",
        Kind::Flag,
        "yes",
        "Force a rewritten log to disk piece by piece.",
    )
    .compat("checkpoints are always written so."),
    Declaration::new(
        "save",
        Kind::Special(Special::SavePoints),
        "",
        "After how many seconds and changes a checkpoint is written.",
    )
    .live(|live, v| live.save_points.put(v)),
    Declaration::new(
        "dbfilename",
        Kind::Special(Special::BaseName),
        "dump.rdb",
        "Name of the snapshot.",
    )
    .change(Change::Protected)
    .compat(NO_RDB),
    Declaration::new("rdbcompression", Kind::Flag, "yes", "Compress snapshots.").compat(NO_RDB),
    Declaration::new("rdbchecksum", Kind::Flag, "yes", "Put a checksum into snapshots.")
        .startup()
        .compat(NO_RDB),
    Declaration::new(
        "rdb-save-incremental-fsync",
        Kind::Flag,
        "yes",
        "Force snapshots to disk piece by piece.",
    )
    .compat(NO_RDB),
    Declaration::new("rdb-del-sync-files", Kind::Flag, "no", "Delete snapshots made for replicas.")
        .compat(NO_RDB),
    Declaration::new(
        "rdb-key-save-delay",
        Kind::Integer { min: i32::MIN as i64, max: INT_MAX },
        "0",
        "Microseconds to wait at each key of a snapshot.",
    )
    .hidden()
    .compat(NO_RDB),
    Declaration::new(
        "key-load-delay",
        Kind::Integer { min: i32::MIN as i64, max: INT_MAX },
        "0",
        "Microseconds to wait at each key loaded.",
    )
    .hidden()
    .compat(NO_RDB),
    Declaration::new(
        "loading-process-events-interval-bytes",
        Kind::Integer { min: 1024, max: INT_MAX },
        "2097152",
        "Bytes loaded between two looks at clients.",
    )
    .hidden()
    .compat(NO_RDB),
    Declaration::new(
        "stop-writes-on-bgsave-error",
        Kind::Flag,
        "yes",
        "Refuse writes after a failed snapshot.",
    )
    .compat(NO_RDB),
    Declaration::new(
        "sanitize-dump-payload",
        Kind::Choice(&["no", "yes", "clients"]),
        "no",
        "Whether values given to RESTORE are checked in depth.",
    )
    .compat("there is no RESTORE yet."),
];
