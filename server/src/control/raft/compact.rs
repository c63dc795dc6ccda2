//! When the log is heavy though its entries are few: what to do about it.
//!
//! Openraft counts entries (`tuning`); a few hundred of them may have 400 KiB each. Looked at on
//! every node. Invariant: pure; where the log is light, nothing.

use openraft::{EmptyNode, LogIdOptionExt, RaftMetrics};

use super::store::COMPACT_AT_BYTES;
use super::types::Member;

/// What makes the log lighter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Relief {
    /// Entries up to this one are in the snapshot and kept for others only: they go. Who lacks
    /// them gets the snapshot.
    Purge(u64),
    /// A snapshot takes the place of what is applied.
    Snapshot,
}

/// What to do about a log of so many bytes; `None`: nothing, or nothing helps.
pub(super) fn relief(bytes: u64, metrics: &RaftMetrics<Member, EmptyNode>) -> Option<Relief> {
    if bytes < COMPACT_AT_BYTES {
        return None;
    }
    let (purged, snapshot) = (metrics.purged.index(), metrics.snapshot.index());
    match snapshot.filter(|_| purged < snapshot) {
        Some(upto) => Some(Relief::Purge(upto)),
        None => (snapshot < metrics.last_applied.index()).then_some(Relief::Snapshot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::raft::disk::kit::{id, member};

    #[test]
    fn a_heavy_log_gives_up_what_a_snapshot_has_and_then_takes_one() {
        let mut metrics = RaftMetrics::new_initial(member(1));
        assert_eq!(relief(COMPACT_AT_BYTES, &metrics), None, "nothing is applied");
        metrics.last_applied = Some(id(1, 50));
        assert_eq!(relief(COMPACT_AT_BYTES - 1, &metrics), None);
        assert_eq!(relief(COMPACT_AT_BYTES, &metrics), Some(Relief::Snapshot));
        metrics.snapshot = Some(id(1, 50));
        assert_eq!(relief(COMPACT_AT_BYTES, &metrics), Some(Relief::Purge(50)));
        metrics.purged = Some(id(1, 50));
        assert_eq!(relief(COMPACT_AT_BYTES, &metrics), None, "what is left is not applied");
        metrics.last_applied = Some(id(1, 60));
        assert_eq!(relief(COMPACT_AT_BYTES, &metrics), Some(Relief::Snapshot));
    }
}
