//! Where the slots of a move came from, read from the history of the table.
//!
//! `BeginMove` names the target; each `CommitMove` was proposed by the node that owned its slots,
//! so the record's node is where they came from. Not the asking. Invariant: a slot whose origin the
//! history does not tell is named, never guessed.

use std::collections::BTreeMap;

use slots::admin::{HistoryRecord, Status};
use slots::{SlotId, SlotRanges};

use super::list::one_of;
use super::{both, owned_by, union};
use crate::exit::Failure;
use crate::names::{self, Target};

/// Ends a detail that was too long to be kept whole.
const CUT: &str = "...";

/// What the history tells of a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trace {
    /// Its id.
    pub(crate) id: String,
    /// Id of the node the slots moved to.
    pub(crate) to: String,
    /// The slots that were ordered.
    ordered: SlotRanges,
    /// Who had each slot that went over, by name.
    from: BTreeMap<SlotId, String>,
}

/// What can be moved back, and what cannot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Return {
    /// Slots that go back, and where.
    pub(crate) back: Vec<(Target, SlotRanges)>,
    /// Sentences on those that do not.
    pub(crate) left_alone: Vec<String>,
}

/// Follows the move whose id is this or begins so. Refusals, in order: it is not in the history,
/// its records are cut.
pub(crate) fn trace(history: &[HistoryRecord], text: &str) -> Result<Trace, Failure> {
    let parsed = |record: &HistoryRecord| {
        let (id, rest) = record.detail.split_once(": ")?;
        Some((id.to_owned(), rest.to_owned()))
    };
    let of_moves: Vec<(&HistoryRecord, String, String)> = history
        .iter()
        .filter(|record| matches!(record.change.as_str(), "BeginMove" | "CommitMove"))
        .filter_map(|record| parsed(record).map(|(id, rest)| (record, id, rest)))
        .collect();
    let ids: Vec<&str> = of_moves.iter().map(|(_, id, _)| id.as_str()).collect();
    let Some(id) = one_of(&ids, text)? else {
        return Err(Failure::refused(format!(
            "no move '{}' in the newest changes of the table, which is all that is kept: move the \
             slots back with `slotctl move`; nothing was changed",
            text.escape_debug()
        )));
    };
    let cut = || {
        Failure::refused(format!(
            "the slots of move {id} are too many ranges for the history, which keeps only the \
             beginning: move them back with `slotctl move`; nothing was changed"
        ))
    };
    let (mut to, mut ordered, mut from) = (None, Vec::new(), BTreeMap::new());
    // The newest comes first in the history; the last word on a slot is to count.
    for (record, _, rest) in of_moves.iter().rev().filter(|(_, of, _)| of == id) {
        if rest.ends_with(CUT) {
            return Err(cut());
        }
        if record.change == "BeginMove" {
            let Some((slots, target)) = rest.rsplit_once(" to ") else { continue };
            ordered.extend(slots.parse::<SlotRanges>().ok());
            to = Some(target.to_owned());
        } else {
            // Refused for some slots it may stand for others; those that did not go over are not
            // the target's.
            let slots: SlotRanges = rest.parse().unwrap_or_default();
            from.extend(slots.iter().map(|slot| (slot, record.node.clone())));
        }
    }
    let Some(to) = to else {
        return Err(Failure::refused(format!(
            "the beginning of move {id} is no longer in the history: move the slots back with \
             `slotctl move`; nothing was changed"
        )));
    };
    Ok(Trace { id: id.to_owned(), to, ordered: union(&ordered), from })
}

impl Trace {
    /// What can go back now.
    pub(crate) fn back(&self, status: &Status) -> Return {
        let at_target = owned_by(status, &self.to);
        let to = names::name_of(&status.nodes, &self.to);
        let mut found = Return::default();
        let mut by_name: BTreeMap<&str, SlotRanges> = BTreeMap::new();
        for (slot, name) in &self.from {
            by_name.entry(name).or_default().insert(*slot);
        }
        let gone: SlotRanges =
            self.from.keys().copied().filter(|slot| !at_target.contains(*slot)).collect();
        if !gone.is_empty() {
            found.left_alone.push(format!("slots {gone} are no longer {to}'s: left alone."));
        }
        for (name, slots) in by_name {
            let slots = both(&slots, &at_target);
            match names::resolve(&status.nodes, name) {
                _ if slots.is_empty() => {}
                Ok(target) => found.back.push((target, slots)),
                Err(_) => found.left_alone.push(format!(
                    "slots {slots} came from {name}, which is no longer in the cluster: left alone."
                )),
            }
        }
        let known: SlotRanges = self.from.keys().copied().collect();
        let unknown = both(&self.ordered.without(&known), &at_target);
        if !unknown.is_empty() {
            found.left_alone.push(format!(
                "slots {unknown} are {to}'s and the history does not tell from whom: left alone."
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::samples::{id, status};

    fn record(change: &str, node: &str, detail: &str) -> HistoryRecord {
        HistoryRecord {
            change: change.into(),
            node: node.into(),
            detail: detail.into(),
            ..HistoryRecord::default()
        }
    }

    /// Newest first, as a node answers.
    fn history() -> Vec<HistoryRecord> {
        vec![
            record("CommitMove", "node-b", "5f1c8a2e: 5461-5470"),
            record("CommitMove", "node-z", "5f1c8a2e: 20-25"),
            record("CommitMove", "node-a", "5f1c8a2e: 0-9"),
            record("CommitMove", "node-a", "77777777: 100"),
            record("BeginMove", "node-b", &format!("5f1c8a2e: 0-30,5461-5470 to {}", id(2))),
        ]
    }

    #[test]
    fn slots_go_back_to_who_proposed_their_commit() {
        let mut now = status(0);
        now.nodes[2].slots = "0-8,20-25,28,5461-5470,10923-16383".into();
        let trace = trace(&history(), "5f1c").expect("it is there");
        let found = trace.back(&now);
        let back: Vec<String> =
            found.back.iter().map(|(to, slots)| format!("{} {slots}", to.name)).collect();
        assert_eq!(back, ["node-a 0-8", "node-b 5461-5470"]);
        assert_eq!(
            found.left_alone,
            [
                "slots 9 are no longer node-c's: left alone.",
                "slots 20-25 came from node-z, which is no longer in the cluster: left alone.",
                "slots 28 are node-c's and the history does not tell from whom: left alone.",
            ]
        );
    }

    #[test]
    fn the_last_owner_before_the_target_counts() {
        let mut records = history();
        records.insert(0, record("CommitMove", "node-b", "5f1c8a2e: 0-9"));
        let mut now = status(0);
        now.nodes[2].slots = "0-9".into();
        let back = trace(&records, "5f1c8a2e").expect("it is there").back(&now).back;
        assert_eq!(back.len(), 1);
        assert_eq!(back[0].0.name, "node-b");
    }

    #[test]
    fn what_the_history_does_not_have_is_not_guessed() {
        let refused = |records: &[HistoryRecord], text: &str| {
            trace(records, text).expect_err("it is not all there").text
        };
        assert!(refused(&history(), "abcd").starts_with("no move 'abcd' in the newest changes"));
        assert!(refused(&history(), "7777").starts_with("the beginning of move 77777777 is no"));
        let mut cut = history();
        cut[0].detail = "5f1c8a2e: 5461-5470,54...".into();
        assert!(refused(&cut, "5f1c").starts_with("the slots of move 5f1c8a2e are too many"));
    }
}
