//! INV-9: nothing grows without a named limit.

use slotd::control::ledger::MAX_HISTORY_RECORDS;
use slots::{MAX_LOSSES, MAX_NODES};

use super::{At, Oracle};
use crate::node::{MAX_OUTSTANDING, WorldNode};

impl Oracle {
    /// Looks at all that a node keeps.
    pub fn check_limits(&mut self, at: At, node: &WorldNode) {
        let table = node.ledger.table();
        // The start's own proposal comes on top: it is never refused for want of room.
        let bounds = [
            ("records of history", node.ledger.history().len(), MAX_HISTORY_RECORDS),
            ("records of loss", table.losses().count(), MAX_LOSSES),
            ("nodes", table.nodes().count() + table.tombstones().count(), MAX_NODES),
            ("outstanding proposals", node.outstanding(), MAX_OUTSTANDING + 1),
        ];
        for (what, got, limit) in bounds {
            if got > limit {
                self.fail("INV-9", format!("host {}: {got} {what}, {limit} at most", at.host));
            }
        }
    }
}
