//! Options: sizes up to which collections stay compact, and events about keys.
//!
//! Not the forms themselves (`store`).

use super::INT_MAX;
use crate::config::declaration::Declaration;
use crate::config::special::Special;
use crate::config::value::Kind;

const ENTRIES: Kind = Kind::Integer { min: 0, max: i64::MAX };
const BYTES: Kind = Kind::Memory { min: 0, max: i64::MAX as u64 };

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new("hash-max-listpack-entries", ENTRIES, "512", "Most fields of a compact hash.")
        .alias(&["hash-max-ziplist-entries"])
        .live(|l, v| l.limits.hash_max_entries.put(v)),
    Declaration::new(
        "hash-max-listpack-value",
        BYTES,
        "64",
        "Longest field or value of a compact hash.",
    )
    .alias(&["hash-max-ziplist-value"])
    .live(|l, v| l.limits.hash_max_value.put(v)),
    Declaration::new(
        "set-max-intset-entries",
        ENTRIES,
        "512",
        "Most members of a compact set of integers.",
    )
    .live(|l, v| l.limits.set_max_intset.put(v)),
    Declaration::new("set-max-listpack-entries", ENTRIES, "128", "Most members of a compact set.")
        .live(|l, v| l.limits.set_max_listpack_entries.put(v)),
    Declaration::new("set-max-listpack-value", BYTES, "64", "Longest member of a compact set.")
        .live(|l, v| l.limits.set_max_listpack_value.put(v)),
    Declaration::new(
        "zset-max-listpack-entries",
        ENTRIES,
        "128",
        "Most members of a compact sorted set.",
    )
    .alias(&["zset-max-ziplist-entries"])
    .live(|l, v| l.limits.zset_max_entries.put(v)),
    Declaration::new(
        "zset-max-listpack-value",
        BYTES,
        "64",
        "Longest member of a compact sorted set.",
    )
    .alias(&["zset-max-ziplist-value"])
    .live(|l, v| l.limits.zset_max_value.put(v)),
    Declaration::new(
        "list-max-listpack-size",
        Kind::Integer { min: i32::MIN as i64, max: INT_MAX },
        "-2",
        "Entries of a list chunk, or its size class: -1 = 4 KiB up to -5 = 64 KiB.",
    )
    .alias(&["list-max-ziplist-size"])
    .live(|l, v| l.limits.list_max_listpack_size.put(v)),
    Declaration::new(
        "list-compress-depth",
        Kind::Integer { min: 0, max: INT_MAX },
        "0",
        "Chunks at each end of a list that stay uncompressed; 0 = no compression.",
    )
    .compat("lists are not compressed.")
    .live(|l, v| l.limits.list_compress_depth.put(v)),
    Declaration::new("stream-node-max-bytes", BYTES, "4096", "Bytes of a stream chunk.")
        .compat("there are no streams yet.")
        .live(|l, v| l.limits.stream_node_max_bytes.put(v)),
    Declaration::new("stream-node-max-entries", ENTRIES, "100", "Entries of a stream chunk.")
        .compat("there are no streams yet.")
        .live(|l, v| l.limits.stream_node_max_entries.put(v)),
    Declaration::new("hll-sparse-max-bytes", BYTES, "3000", "Longest sparse HyperLogLog.")
        .compat("there are no HyperLogLogs yet.")
        .live(|l, v| l.limits.hll_sparse_max_bytes.put(v)),
    Declaration::new(
        "notify-keyspace-events",
        Kind::Special(Special::EventClasses),
        "",
        "Which events about keys are published.",
    )
    .compat("there is no publishing yet.")
    .live(|l, v| l.notify_keyspace_events.put(v)),
];
