//! Options: how much memory keys may take and what goes first.
//!
//! Not the forms of collections (`data_types`).

use super::INT_MAX;
use crate::config::declaration::Declaration;
use crate::config::live::POLICIES;
use crate::config::value::Kind;

const NO_DEFRAG: &str = "Active defragmentation cannot be enabled: it requires a Redis server \
    compiled with a modified Jemalloc like the one shipped by default with the Redis source \
    distribution";

const DEFRAG: &str = "slotd does not move allocations.";

const FREES: &str = "slotd frees large values in the background in any case.";

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new(
        "maxmemory",
        Kind::Memory { min: 0, max: u64::MAX },
        "0",
        "Most bytes the keys may take; commands that need more are refused; 0 = no limit.",
    )
    .live(|l, v| l.maxmemory.put(v)),
    Declaration::new(
        "maxmemory-policy",
        Kind::Choice(POLICIES),
        "noeviction",
        "Which keys go first at maxmemory; only noeviction acts yet: whatever it says, writes are \
         refused.",
    )
    .live(|l, v| l.put_policy(v)),
    Declaration::new(
        "maxmemory-samples",
        Kind::Integer { min: 1, max: INT_MAX },
        "5",
        "Keys compared for each eviction.",
    )
    .compat("nothing is evicted yet.")
    .live(|l, v| l.maxmemory_samples.put(v)),
    Declaration::new(
        "maxmemory-eviction-tenacity",
        Kind::Integer { min: 0, max: 100 },
        "10",
        "How long one round of eviction may take, 0 to 100.",
    )
    .compat("nothing is evicted yet."),
    Declaration::new(
        "lfu-log-factor",
        Kind::Integer { min: 0, max: INT_MAX },
        "10",
        "How slowly the counter of uses grows.",
    )
    .live(|l, v| l.lfu_log_factor.put(v))
    .compat("uses are not counted yet."),
    Declaration::new(
        "lfu-decay-time",
        Kind::Integer { min: 0, max: INT_MAX },
        "1",
        "Minutes after which the counter of uses goes down by one; 0 = never.",
    )
    .live(|l, v| l.lfu_decay_time_min.put(v))
    .compat("uses are not counted yet."),
    Declaration::new(
        "active-expire-effort",
        Kind::Integer { min: 1, max: 10 },
        "1",
        "How hard expired keys are looked for, 1 to 10.",
    )
    .live(|l, v| l.active_expire_effort.put(v)),
    Declaration::new(
        "lazyfree-lazy-user-del",
        Kind::Flag,
        "no",
        "Whether DEL frees values in the background, as UNLINK does.",
    )
    .live(|l, v| l.lazyfree_user_del.put(v)),
    Declaration::new(
        "lazyfree-lazy-user-flush",
        Kind::Flag,
        "no",
        "Whether FLUSHALL frees values in the background, as FLUSHALL ASYNC does.",
    )
    .live(|l, v| l.lazyfree_user_flush.put(v)),
    Declaration::new("lazyfree-lazy-eviction", Kind::Flag, "no", "Free evicted values lazily.")
        .compat(FREES),
    Declaration::new("lazyfree-lazy-expire", Kind::Flag, "no", "Free expired values lazily.")
        .compat(FREES),
    Declaration::new(
        "lazyfree-lazy-server-del",
        Kind::Flag,
        "no",
        "Free values overwritten by commands lazily.",
    )
    .compat(FREES),
    Declaration::new("activerehashing", Kind::Flag, "yes", "Rehash tables in idle time.")
        .compat("slotd's tables grow in small steps and never rehash as a whole."),
    Declaration::new(
        "jemalloc-bg-thread",
        Kind::Flag,
        "yes",
        "Let the allocator give memory back in the background.",
    )
    .compat("the background thread always runs."),
    Declaration::new("activedefrag", Kind::Flag, "no", "Defragment memory while serving.")
        .compat(DEFRAG)
        .check(|v| if v.number == 1 { Err(NO_DEFRAG) } else { Ok(()) }),
    Declaration::new(
        "active-defrag-cycle-min",
        Kind::Integer { min: 1, max: 99 },
        "1",
        "Least effort of defragmentation in percent of CPU.",
    )
    .compat(DEFRAG),
    Declaration::new(
        "active-defrag-cycle-max",
        Kind::Integer { min: 1, max: 99 },
        "25",
        "Most effort of defragmentation in percent of CPU.",
    )
    .compat(DEFRAG),
    Declaration::new(
        "active-defrag-threshold-lower",
        Kind::Integer { min: 0, max: 1000 },
        "10",
        "Fragmentation in percent at which defragmentation starts.",
    )
    .compat(DEFRAG),
    Declaration::new(
        "active-defrag-threshold-upper",
        Kind::Integer { min: 0, max: 1000 },
        "100",
        "Fragmentation in percent at which defragmentation works hardest.",
    )
    .compat(DEFRAG),
    Declaration::new(
        "active-defrag-ignore-bytes",
        Kind::Memory { min: 1, max: i64::MAX as u64 },
        "104857600",
        "Fragmentation in bytes that is left alone.",
    )
    .compat(DEFRAG),
    Declaration::new(
        "active-defrag-max-scan-fields",
        Kind::Integer { min: 1, max: i64::MAX },
        "1000",
        "Fields of a collection defragmented at once.",
    )
    .compat(DEFRAG),
];
