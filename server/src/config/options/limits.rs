//! Options: what one client, and all of them, may use.
//!
//! Not the limits of keys (`memory`).

use super::INT_MAX;
use crate::config::declaration::Declaration;
use crate::config::special::Special;
use crate::config::value::Kind;

const MEGABYTE: u64 = 1 << 20;
const MOST_BYTES: u64 = i64::MAX as u64;

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new(
        "maxclients",
        Kind::Integer { min: 1, max: u32::MAX as i64 },
        "10000",
        "Most clients at once; more are told so and closed.",
    )
    .live(|l, v| l.maxclients.put(v)),
    Declaration::new(
        "proto-max-bulk-len",
        Kind::Memory { min: MEGABYTE, max: MOST_BYTES },
        "536870912",
        "Longest string a client may send or make.",
    )
    .live(|l, v| l.proto_max_bulk_len.put(v)),
    Declaration::new(
        "client-query-buffer-limit",
        Kind::Memory { min: MEGABYTE, max: MOST_BYTES },
        "1073741824",
        "Most bytes of a request that is not whole yet; a client beyond it is cut.",
    )
    .live(|l, v| l.client_query_buffer_limit.put(v)),
    Declaration::new(
        "client-output-buffer-limit",
        Kind::Special(Special::OutputLimits),
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        "Output a class of clients may leave unread: at once, or for some seconds; 0 = no limit.",
    )
    .live(|l, v| l.put_output_limits(v)),
    Declaration::new(
        "maxmemory-clients",
        Kind::MemoryOrPercent,
        "0",
        "Most bytes all clients may take together; 0 = no limit.",
    )
    .compat("each client has its own limits; nobody is cut for the sum yet.")
    .live(|l, v| l.maxmemory_clients.put(v)),
    Declaration::new(
        "busy-reply-threshold",
        Kind::Integer { min: 0, max: i64::MAX },
        "5000",
        "Milliseconds after which others are told BUSY by a running script; 0 = never.",
    )
    .alias(&["lua-time-limit"])
    .compat("there are no scripts yet.")
    .live(|l, v| l.busy_reply_threshold_ms.put(v)),
    Declaration::new(
        "tracking-table-max-keys",
        Kind::Integer { min: 0, max: i64::MAX },
        "1000000",
        "Keys remembered for client-side caching; 0 = no limit.",
    )
    .compat("there is no client-side caching yet.")
    .live(|l, v| l.tracking_table_max_keys.put(v)),
    Declaration::new(
        "acllog-max-len",
        Kind::Integer { min: 0, max: i64::MAX },
        "128",
        "Entries the log of refused logins keeps.",
    )
    .compat("there is no ACL log yet.")
    .live(|l, v| l.acllog_max_len.put(v)),
    Declaration::new(
        "shutdown-timeout",
        Kind::Integer { min: 0, max: INT_MAX },
        "10",
        "Seconds a shutdown waits for replicas that lag.",
    )
    .compat("there are no replicas yet."),
];
