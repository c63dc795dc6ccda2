//! NodeBoot: what a node's start does to the row. PROTOCOL 2.
//!
//! ```text
//!                All         Tail                              Nothing
//!  shared    stays, R8   leaves; a wanted one is removed   leaves; a (m, Shrunk) found becomes
//!                        as Rebooted                       (m, Rebooted)
//!  sole      stays, R8   (m, Shrunk) since when nothing    last_removed owns, whoever it is;
//!                        was acknowledged alone: m owns;   nobody there: stays, and says so
//!                        else stays, R8
//! ```
//! Not the evidence on the node's disk: here the crash says what was kept.

use crate::rules::Rules;
use crate::table::{Cause, Change, Judged, Removal, Row, Table};
use crate::words::{Id, Kept, Set, Version};

impl Table {
    /// The table after a start.
    pub(crate) fn start(&self, rules: &Rules, change: &Change, version: Version) -> Judged {
        let Change::Start { node, boot, kept, alone, incomplete } = *change else {
            return Err("no start");
        };
        let recorded = self.boots[node.at()];
        if rules.newer_boot && boot <= recorded {
            return Err("old boot");
        }
        let kept = if incomplete && rules.incomplete_is_nothing { Kept::Nothing } else { kept };
        let start = Start { rules, node, kept, alone, version };
        let (row, branch) = start.row(self.row);
        let mut boots = self.boots;
        boots[node.at()] = boot;
        Ok((Table { row: self.row.stamp(row, version), boots, done: None }, branch))
    }
}

struct Start<'a> {
    rules: &'a Rules,
    node: Id,
    kept: Kept,
    alone: Option<Version>,
    version: Version,
}

impl Start<'_> {
    fn row(&self, before: Row) -> (Row, &'static str) {
        let mut row = before;
        self.end_own_removal(&mut row);
        if !row.in_sync.has(self.node) {
            return (row, "start outside");
        }
        let sole = row.in_sync.only(self.node);
        match self.kept {
            Kept::All => (self.stay(row), "start with all"),
            Kept::Tail if sole => self.sole_with_tail_lost(row),
            Kept::Nothing if sole => self.sole_with_nothing(row),
            Kept::Tail | Kept::Nothing if !self.rules.lossy_start_leaves => {
                (self.stay(row), "start with loss, stays")
            }
            Kept::Tail => (self.leave(row), "start leaves, tail lost"),
            Kept::Nothing => (self.leave(row), "start leaves, nothing kept"),
        }
    }

    /// A copy that lost something is no longer the one `removed` tells of.
    fn end_own_removal(&self, row: &mut Row) {
        if !self.rules.lossy_start_ends_shrunk {
            return;
        }
        let Some(removed) = row.removed.as_mut().filter(|removed| removed.node == self.node) else {
            return;
        };
        match self.kept {
            Kept::All => (),
            Kept::Tail if self.rules.tail_weakens || removed.cause == Cause::Rebooted => {
                removed.cause = Cause::Rebooted;
            }
            Kept::Tail | Kept::Nothing => row.removed = None,
        }
    }

    /// R8.
    fn stay(&self, mut row: Row) -> Row {
        if row.owner == self.node && self.rules.owner_start_new_epoch {
            row.epoch = self.version;
        }
        row
    }

    fn leave(&self, mut row: Row) -> Row {
        row.in_sync = row.in_sync.without(self.node);
        let heir = row.in_sync.iter().next();
        if let Some(heir) = heir.filter(|_| row.owner == self.node) {
            row.pass_to(self.rules, heir, self.version);
        }
        let wanted = row.followers.has(self.node) || !self.rules.tail_if_wanted;
        if self.kept == Kept::Tail && wanted {
            let (node, cause, at) = (self.node, Cause::Rebooted, self.version);
            row.removed = Some(Removal { node, cause, at });
        } else {
            row.weaken_removed(self.rules);
        }
        row
    }

    fn sole_with_tail_lost(&self, row: Row) -> (Row, &'static str) {
        match row.removed {
            Some(Removal { node, cause: Cause::Shrunk, at })
                if self.rules.shrunk_takes_over && self.alone.is_none_or(|alone| alone < at) =>
            {
                let mut next = self.give_to(row, node);
                if self.rules.giver_is_remembered {
                    let (node, cause, at) = (self.node, Cause::Rebooted, self.version);
                    next.removed = Some(Removal { node, cause, at });
                }
                (next, "sole start, tail lost, the shrunk owns")
            }
            _ => (self.stay(row), "sole start, tail lost, stays"),
        }
    }

    fn sole_with_nothing(&self, row: Row) -> (Row, &'static str) {
        match row.removed {
            Some(removed) => (self.give_to(row, removed.node), "sole start, the removed owns"),
            None => (self.stay(row), "sole start, empty"),
        }
    }

    fn give_to(&self, mut row: Row, heir: Id) -> Row {
        row.pass_to(self.rules, heir, self.version);
        row.in_sync = Set::of(&[heir]);
        row.removed = None;
        row
    }
}
