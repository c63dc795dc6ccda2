//! How Raft is set up: times and sizes, each with its reason.
//!
//! Not options: operators have nothing to tune here (PROTOCOL 5 has the measured figures).
//!
//! Invariant: heartbeat << election timeout; a snapshot is taken before a follower's lag would ask
//! for one, or transmitting it would not end the lag.

use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use slots::ClusterId;

/// Between heartbeats, ms, and the time openraft waits for one AppendEntries. A tenth of the
/// time after which a leader is missed.
pub(super) const HEARTBEAT_MS: u64 = 100;
/// Shortest election timeout, ms: six heartbeats, so that one lost connection elects nobody.
pub(super) const ELECTION_MIN_MS: u64 = 600;
/// Longest election timeout, ms; also the lease during which followers elect nobody else. With it
/// a dead leader is replaced in about 2 s.
pub(super) const ELECTION_MAX_MS: u64 = 1200;
/// Entries of one AppendEntries: a joining node catches up in few round trips, and entries of
/// usual size (100 bytes) stay far below `APPEND_BYTES`.
const MAX_PAYLOAD_ENTRIES: u64 = 64;
/// Bytes of one AppendEntries above which it is sent in halves: at 100 Mbit/s it takes 20 ms.
pub(super) const APPEND_BYTES: usize = 256 << 10;
/// Entries after which a snapshot is taken: with entries of 100 bytes to 10 KiB the log stays
/// within 5 MiB, and a snapshot (up to 1.4 MiB) costs less than the entries it replaces.
pub(super) const SNAPSHOT_EVERY_ENTRIES: u64 = 500;
/// Entries kept behind a snapshot: what a node lacks that was away for seconds, mostly, and a
/// small part of what a snapshot replaces.
pub(super) const KEPT_ENTRIES: u64 = 100;
/// A follower further behind gets a snapshot instead of entries.
const LAG_FOR_SNAPSHOT_ENTRIES: u64 = 1000;
/// Entries purged at once: the log's file is not cut for each entry.
const PURGE_BATCH_ENTRIES: u64 = 64;
/// One piece of a snapshot, bytes: 2 s at 1 Mbit/s, and a small part of a link's queue.
const SNAPSHOT_PIECE_BYTES: u64 = 256 << 10;
/// For one piece to be taken, and for the last to be installed and synced.
const SNAPSHOT_PIECE_MS: u64 = 5000;

/// A node that has not answered for this long is silent (PROTOCOL 5: suspect after 1.0 s).
pub(super) const SILENT_AFTER: Duration = Duration::from_secs(1);
/// A leader that no majority has acknowledged for this long proposes nothing, and a leader from
/// whom nothing came for this long is not counted on: longer than any lease.
pub(super) const QUORUM_AFTER: Duration = Duration::from_millis(2000);
/// A new leader touches no votes for this long, but for an order: orders given to its predecessor
/// reach it first, and it has heard of everyone.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Entries a node may lack and still be caught up: what may be on the way to it.
pub(super) const CAUGHT_UP_ENTRIES: u64 = 32;

/// Openraft's configuration, or what openraft has against it.
pub(super) fn config(cluster: ClusterId) -> Result<Arc<Config>, String> {
    let config = Config {
        cluster_name: cluster.to_string(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MIN_MS,
        election_timeout_max: ELECTION_MAX_MS,
        install_snapshot_timeout: SNAPSHOT_PIECE_MS,
        max_payload_entries: MAX_PAYLOAD_ENTRIES,
        replication_lag_threshold: LAG_FOR_SNAPSHOT_ENTRIES,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_EVERY_ENTRIES),
        snapshot_max_chunk_size: SNAPSHOT_PIECE_BYTES,
        max_in_snapshot_log_to_keep: KEPT_ENTRIES,
        purge_batch_size: PURGE_BATCH_ENTRIES,
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| error.to_string())
}
