//! The options the request path reads: plain atomics, no lock on the way.
//!
//! Not the options' text (`Config`); written only by a declaration's `live` function.
//!
//! Invariant: each field holds the value CONFIG GET shows, from the moment CONFIG SET answers.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64};

use parking_lot::RwLock;

use super::special::{self, OutputLimit};
use super::value::Value;

/// A number that is never negative.
#[derive(Default, Debug)]
pub struct Count(AtomicU64);

impl Count {
    /// The number now.
    pub fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(super) fn put(&self, value: &Value) {
        self.0.store(value.number.clamp(0, u64::MAX.into()) as u64, Relaxed);
    }
}

/// A number that may be negative.
#[derive(Default, Debug)]
pub struct Signed(AtomicI64);

impl Signed {
    /// The number now.
    pub fn load(&self) -> i64 {
        self.0.load(Relaxed)
    }

    pub(super) fn put(&self, value: &Value) {
        self.0.store(value.number.clamp(i64::MIN.into(), i64::MAX.into()) as i64, Relaxed);
    }
}

/// Yes or no.
#[derive(Default, Debug)]
pub struct Switch(AtomicBool);

impl Switch {
    /// Whether it is on now.
    pub fn load(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(super) fn put(&self, value: &Value) {
        self.0.store(value.number != 0, Relaxed);
    }
}

/// A choice, kept as its place in the list of words.
#[derive(Default, Debug)]
pub struct Choice(AtomicU8);

impl Choice {
    fn load(&self) -> u8 {
        self.0.load(Relaxed)
    }

    pub(super) fn put(&self, value: &Value) {
        self.0.store(value.number as u8, Relaxed);
    }
}

/// A text read now and then.
#[derive(Debug)]
pub struct SharedText(RwLock<Arc<str>>);

impl Default for SharedText {
    fn default() -> Self {
        SharedText(RwLock::new("".into()))
    }
}

impl SharedText {
    /// The text now; empty = not set.
    pub fn load(&self) -> Arc<str> {
        self.0.read().clone()
    }

    pub(super) fn put(&self, value: &Value) {
        *self.0.write() = value.text.as_str().into();
    }
}

/// The password clients must give. Asking whether there is one takes no lock.
#[derive(Default, Debug)]
pub struct Password {
    is_set: AtomicBool,
    text: SharedText,
}

impl Password {
    /// Whether clients must authenticate.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Acquire)
    }

    /// Whether this is the password. Takes the same time wherever the two differ.
    pub fn matches(&self, given: &[u8]) -> bool {
        let text = self.text.load();
        let right = text.as_bytes();
        let mut difference = u8::from(given.len() != right.len());
        for (at, byte) in given.iter().enumerate() {
            difference |= byte ^ right.get(at).copied().unwrap_or(!byte);
        }
        difference == 0
    }

    pub(super) fn put(&self, value: &Value) {
        if value.text.is_empty() {
            self.is_set.store(false, Release);
        }
        self.text.put(value);
        if !value.text.is_empty() {
            self.is_set.store(true, Release);
        }
    }
}

/// Hard, soft and time limit of one class of clients.
#[derive(Default, Debug)]
pub struct OutputLimitCell {
    hard_bytes: AtomicU64,
    soft_bytes: AtomicU64,
    soft_seconds: AtomicU64,
}

impl OutputLimitCell {
    /// The limits now; 0 = none.
    pub fn load(&self) -> OutputLimit {
        OutputLimit {
            hard_bytes: self.hard_bytes.load(Relaxed),
            soft_bytes: self.soft_bytes.load(Relaxed),
            soft_seconds: self.soft_seconds.load(Relaxed),
        }
    }

    fn put(&self, limit: OutputLimit) {
        self.hard_bytes.store(limit.hard_bytes, Relaxed);
        self.soft_bytes.store(limit.soft_bytes, Relaxed);
        self.soft_seconds.store(limit.soft_seconds, Relaxed);
    }
}

/// Who may use a dangerous command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// Nobody.
    No,
    /// Every client.
    Yes,
    /// Clients on this machine.
    Local,
}

/// What clients are told to connect to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointType {
    /// The address.
    Ip,
    /// The announced host name.
    Hostname,
    /// Nothing: the client keeps the address it used.
    Unknown,
}

/// From which size on collections leave their compact form, field by field as `store::limits`.
#[derive(Default, Debug)]
pub struct LiveLimits {
    /// Most entries of a compact hash.
    pub hash_max_entries: Count,
    /// Longest field or value of a compact hash, in bytes.
    pub hash_max_value: Count,
    /// Most members of a set of integers.
    pub set_max_intset: Count,
    /// Most members of a compact set.
    pub set_max_listpack_entries: Count,
    /// Longest member of a compact set, in bytes.
    pub set_max_listpack_value: Count,
    /// Most members of a compact sorted set.
    pub zset_max_entries: Count,
    /// Longest member of a compact sorted set, in bytes.
    pub zset_max_value: Count,
    /// Entries of a list chunk, or minus a size class (-1 = 4 KiB to -5 = 64 KiB).
    pub list_max_listpack_size: Signed,
    /// List nodes at each end that stay uncompressed.
    pub list_compress_depth: Count,
    /// Bytes of a stream chunk; 0 = no limit.
    pub stream_node_max_bytes: Count,
    /// Entries of a stream chunk; 0 = no limit.
    pub stream_node_max_entries: Count,
    /// Longest sparse HyperLogLog, in bytes.
    pub hll_sparse_max_bytes: Count,
}

/// All of them. `revision` moves with every CONFIG SET, for whoever keeps a copy.
#[derive(Default, Debug)]
pub struct Live {
    revision: AtomicU64,
    /// Sizes of compact collections.
    pub limits: LiveLimits,

    /// Most clients at once.
    pub maxclients: Count,
    /// Idle seconds after which a client is closed; 0 = never.
    pub timeout_s: Count,
    /// Seconds between TCP keepalive probes; 0 = none.
    pub tcp_keepalive_s: Count,
    /// Whether clients from other machines are refused while no password is set.
    pub protected_mode: Switch,
    /// The password.
    pub requirepass: Password,

    /// Longest string, in bytes, a client may send.
    pub proto_max_bulk_len: Count,
    /// Most bytes of one unfinished request.
    pub client_query_buffer_limit: Count,
    /// Output limits of normal clients.
    pub output_normal: OutputLimitCell,
    /// Output limits of replicas.
    pub output_replica: OutputLimitCell,
    /// Output limits of subscribers.
    pub output_pubsub: OutputLimitCell,

    /// Bytes the keys may take; 0 = no limit.
    pub maxmemory: Count,
    /// Place of the eviction policy in its list of words.
    maxmemory_policy: Choice,
    /// Keys looked at for each eviction.
    pub maxmemory_samples: Count,
    /// Bytes all clients may take, minus a percentage of maxmemory, or 0 = no limit.
    pub maxmemory_clients: Signed,
    /// How slowly the LFU counter grows.
    pub lfu_log_factor: Count,
    /// Minutes after which the LFU counter halves; 0 = at each look.
    pub lfu_decay_time_min: Count,
    /// How hard active expiry works, 1 to 10.
    pub active_expire_effort: Count,
    /// Whether DEL frees in the background.
    pub lazyfree_user_del: Switch,
    /// Whether FLUSHALL without a word frees in the background.
    pub lazyfree_user_flush: Switch,

    /// Growth of the log, in percent of the last checkpoint, that begins the next; 0 = none does.
    pub auto_checkpoint_percent: Count,
    /// Bytes of log below which none begins by itself.
    pub auto_checkpoint_min_bytes: Count,
    /// Pairs of seconds and changes after which a checkpoint begins; empty = never.
    pub save_points: SharedText,

    /// Background rounds a second.
    pub hz: Count,
    /// Microseconds from which a command enters the slow log; negative = none does.
    pub slowlog_log_slower_than_us: Signed,
    /// Entries the slow log keeps.
    pub slowlog_max_len: Count,
    /// Milliseconds from which an event enters the latency monitor; 0 = off.
    pub latency_monitor_threshold_ms: Count,
    /// Whether a latency histogram is kept per command.
    pub latency_tracking: Switch,
    /// Entries the ACL log keeps.
    pub acllog_max_len: Count,
    /// Keys the tracking table keeps; 0 = no limit.
    pub tracking_table_max_keys: Count,
    /// Bits of the keyspace events that are published; 0 = none.
    pub notify_keyspace_events: Count,
    /// Milliseconds from which a running script makes others see BUSY; 0 = never.
    pub busy_reply_threshold_ms: Count,

    /// Whether a node refuses everything while a slot has no owner.
    pub cluster_require_full_coverage: Switch,
    /// Whether reads are served while the cluster is down.
    pub cluster_allow_reads_when_down: Switch,
    /// Milliseconds shown to tools that ask.
    pub cluster_node_timeout_ms: Count,
    /// Host name to announce; empty = none.
    pub cluster_announce_hostname: SharedText,
    /// Address to announce; empty = the one clients connect to.
    pub cluster_announce_ip: SharedText,
    /// Address to announce to other nodes; empty = as to clients.
    pub cluster_announce_bus_ip: SharedText,
    /// Port to announce; 0 = `port`.
    pub cluster_announce_port: Count,
    /// Port for nodes to announce; 0 = the real one.
    pub cluster_announce_bus_port: Count,
    cluster_preferred_endpoint_type: Choice,
    debug_command: Choice,
}

impl Live {
    /// Moves with every CONFIG SET.
    pub fn revision(&self) -> u64 {
        self.revision.load(Acquire)
    }

    pub(super) fn changed(&self) {
        self.revision.fetch_add(1, Release);
    }

    /// Who may use DEBUG.
    pub fn debug_command(&self) -> Allowed {
        match self.debug_command.load() {
            1 => Allowed::Yes,
            2 => Allowed::Local,
            _ => Allowed::No,
        }
    }

    pub(super) fn put_debug_command(&self, value: &Value) {
        self.debug_command.put(value);
    }

    /// What clients are told to connect to.
    pub fn endpoint_type(&self) -> EndpointType {
        match self.cluster_preferred_endpoint_type.load() {
            1 => EndpointType::Hostname,
            2 => EndpointType::Unknown,
            _ => EndpointType::Ip,
        }
    }

    pub(super) fn put_endpoint_type(&self, value: &Value) {
        self.cluster_preferred_endpoint_type.put(value);
    }

    /// The eviction policy in words.
    pub fn maxmemory_policy(&self) -> &'static str {
        let at = usize::from(self.maxmemory_policy.load());
        POLICIES.get(at).copied().unwrap_or("noeviction")
    }

    /// Whether the policy counts how often a key is used, instead of when.
    pub fn counts_frequency(&self) -> bool {
        self.maxmemory_policy().ends_with("-lfu")
    }

    pub(super) fn put_policy(&self, value: &Value) {
        self.maxmemory_policy.put(value);
    }

    pub(super) fn put_output_limits(&self, value: &Value) {
        let [normal, replica, pubsub] = special::limits_of(&value.text);
        self.output_normal.put(normal);
        self.output_replica.put(replica);
        self.output_pubsub.put(pubsub);
    }
}

/// The eviction policies, in Redis's order.
pub(super) const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_matches_itself_only() {
        let password = Password::default();
        assert!(!password.is_set());
        password.put(&Value::of_text("secret"));
        assert!(password.is_set());
        assert!(password.matches(b"secret"));
        for wrong in ["", "secre", "secrets", "Secret", "\0"] {
            assert!(!password.matches(wrong.as_bytes()), "{wrong:?}");
        }
        password.put(&Value::default());
        assert!(!password.is_set());
    }
}
