//! The metrics, one declaration each. To add one, add it here and tell it where its number is.
//!
//! Invariant: names are unique and begin with `slotd_` (or `process_`, where Prometheus has
//! settled names); counters end in `_total`; units are base units (seconds, bytes) and part of
//! the name (tests hold it).

/// How a metric moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only up, from 0 at the start; CONFIG RESETSTAT and a restart set it back.
    Counter,
    /// Up and down.
    Gauge,
}

impl Kind {
    /// The word of a TYPE line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// A family of samples that differ in their labels' values.
#[derive(PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// A sentence for the HELP line and the manual.
    pub help: &'static str,
}

/// A constant for each metric, and `ALL` of them in the order given.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: &Metric = &Metric {
                name: $name,
                kind: Kind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// All metrics, in the order of the page and of the manual.
        pub const ALL: &[&Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD = Gauge "slotd_build_info" ["version"]
        "Always 1; the label is the server's version.";
    NODE = Gauge "slotd_node_info" ["name", "id"]
        "Always 1; the labels are the node's name in the slot table and its id.";
    READY = Gauge "slotd_ready" []
        "1 if the node serves, else 0; /healthz says why.";
    UPTIME = Gauge "slotd_uptime_seconds" []
        "Time since the start, by the clock that runs on while the machine sleeps.";
    START_TIME = Gauge "process_start_time_seconds" []
        "Start of the process, unix time.";
    CPU = Counter "process_cpu_seconds_total" []
        "CPU time of the process, user and system.";
    RESIDENT = Gauge "process_resident_memory_bytes" []
        "Resident set of the process.";
    ALLOCATED = Gauge "slotd_memory_allocated_bytes" []
        "Memory given out by the allocator, for keys and everything else.";
    PEAK = Gauge "slotd_memory_peak_bytes" []
        "Highest slotd_memory_allocated_bytes seen, at every 20 ms.";
    MEMORY_LIMIT = Gauge "slotd_memory_limit_bytes" []
        "The option maxmemory; 0 is no limit.";
    DATASET = Gauge "slotd_dataset_bytes" []
        "Memory of keys and values.";
    KEYS = Gauge "slotd_keys" []
        "Keys of the node.";
    EXPIRING = Gauge "slotd_keys_with_expiry" []
        "Keys that have an expiry.";
    EXPIRED = Counter "slotd_expired_keys_total" []
        "Keys that expired.";
    EVICTED = Counter "slotd_evicted_keys_total" []
        "Keys evicted for maxmemory.";
    HITS = Counter "slotd_keyspace_hits_total" []
        "Look-ups by reading commands that found their key.";
    MISSES = Counter "slotd_keyspace_misses_total" []
        "Look-ups by reading commands that found no key.";
    LOADING = Gauge "slotd_loading" []
        "1 while the node reads its disk at its start, and serves nothing.";
    LOADED = Gauge "slotd_loaded_ratio" []
        "Share of its bytes that a start has read, 0 to 1.";
    LOGGING = Gauge "slotd_log_enabled" []
        "1 if changes are logged to disk.";
    LOG_FULL = Gauge "slotd_log_full" []
        "1 while the log has no room: writes are refused.";
    LOG_APPENDED = Counter "slotd_log_appended_bytes_total" []
        "Bytes appended to the log.";
    LOG_SINCE = Gauge "slotd_log_since_checkpoint_bytes" []
        "Bytes appended to the log since the last checkpoint began.";
    LOG_UNSYNCED = Gauge "slotd_log_unsynced_bytes" []
        "Bytes of the log that are not synced.";
    LOG_SYNCS = Counter "slotd_log_syncs_total" []
        "Syncs of files of the log.";
    LOG_SYNC_TIME = Gauge "slotd_log_last_sync_seconds" []
        "How long the last sync of the log took.";
    CHECKPOINTS = Counter "slotd_checkpoints_total" []
        "Checkpoints taken since the start.";
    CHECKPOINT_FAILED = Gauge "slotd_checkpoint_failed" []
        "1 if the last checkpoint came to nothing.";
    CHECKPOINT_TIME = Gauge "slotd_checkpoint_timestamp_seconds" []
        "When the last checkpoint was completed; 0: never.";
    CHECKPOINT_BYTES = Gauge "slotd_checkpoint_bytes" []
        "Bytes of the last checkpoint.";
    CHECKPOINT_HOLD = Gauge "slotd_checkpoint_longest_hold_seconds" []
        "Longest time that a checkpoint held a slot.";
    CLIENTS = Gauge "slotd_connected_clients" []
        "Clients connected.";
    BLOCKED = Gauge "slotd_blocked_clients" []
        "Clients that wait for a key, for time, or for the end of CLIENT PAUSE.";
    CLIENT_MEMORY = Gauge "slotd_client_memory_bytes" []
        "Memory of client connections and their buffers.";
    CONNECTIONS = Counter "slotd_connections_total" []
        "Client connections accepted.";
    REJECTED_CONNECTIONS = Counter "slotd_connections_rejected_total" []
        "Client connections refused by maxclients or protected mode.";
    SLOW_READERS = Counter "slotd_slow_readers_cut_total" []
        "Client connections cut because they did not read their replies.";
    RECEIVED = Counter "slotd_net_received_bytes_total" []
        "Bytes read from clients.";
    SENT = Counter "slotd_net_sent_bytes_total" []
        "Bytes written to clients.";
    COMMANDS = Counter "slotd_commands_total" ["command"]
        "Commands executed; those never called are left out.";
    COMMAND_TIME = Counter "slotd_command_seconds_total" ["command"]
        "Time spent in commands; constant-time ones are given their share of their batch.";
    COMMANDS_REJECTED = Counter "slotd_commands_rejected_total" ["command"]
        "Commands refused before execution.";
    COMMANDS_FAILED = Counter "slotd_commands_failed_total" ["command"]
        "Commands that ended in an error.";
    ERRORS = Counter "slotd_error_replies_total" ["prefix"]
        "Error replies, by their first word.";
    MOVED = Counter "slotd_moved_total" []
        "Commands refused with MOVED; rises while a client goes by an old map of the slots.";
    SLOTS_OWNED = Gauge "slotd_slots_owned" []
        "Slots that the table gives to this node.";
    SLOTS_UNASSIGNED = Gauge "slotd_slots_unassigned" []
        "Slots that have no owner.";
    TABLE_VERSION = Gauge "slotd_table_version" []
        "Version of the slot table in force on this node: its last applied log entry.";
    TABLE_NODES = Gauge "slotd_table_nodes" []
        "Nodes in the slot table.";
    TERM = Gauge "slotd_raft_term" []
        "Term of the table's log.";
    HAS_LEADER = Gauge "slotd_raft_has_leader" []
        "1 if the node knows a leader of the table's log, else 0.";
    IS_LEADER = Gauge "slotd_raft_is_leader" []
        "1 if this node leads the table's log, else 0.";
    HAS_QUORUM = Gauge "slotd_raft_has_quorum" []
        "1 if a majority of voters follows the leader, as this node knows, else 0.";
    VOTERS = Gauge "slotd_raft_voters" []
        "Voters of the table's log.";
    LEARNERS = Gauge "slotd_raft_learners" []
        "Nodes that follow the table's log without a vote.";
    PEER_SILENCE = Gauge "slotd_peer_silence_seconds" ["peer"]
        "Time since anything was heard of another node; one never heard of is left out.";
    PEER_ROUND_TRIP = Gauge "slotd_peer_round_trip_seconds" ["peer"]
        "Last round trip to another node.";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_name(text: &str) -> bool {
        let letter = |b: u8| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit();
        !text.is_empty() && !text.as_bytes()[0].is_ascii_digit() && text.bytes().all(letter)
    }

    #[test]
    fn names_follow_prometheus_rules() {
        let mut seen = std::collections::HashSet::new();
        for metric in ALL {
            let name = metric.name;
            assert!(seen.insert(name), "{name} is declared twice");
            assert!(is_name(name) && metric.labels.iter().all(|label| is_name(label)), "{name}");
            assert!(name.starts_with("slotd_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
            for part in ["milli", "micro", "_ms", "_us", "kilo", "percent"] {
                assert!(!name.contains(part), "{name}: base units only");
            }
            assert!(metric.help.ends_with('.'), "{name}: the help is a sentence");
        }
    }
}
