//! How moves ended: which slots went over, where the others are and why, which nodes know it.
//!
//! Not the watching. Invariant: a slot counts as moved only if the newest table says that the
//! target owns it, whatever a source said of its end.

use serde::Serialize;
use slots::SlotRanges;
use slots::admin::{HistoryRecord, Status};

use super::watch::{Course, Watch};
use super::{both, owned_by, ranges};
use crate::exit::Exit;
use crate::names;
use crate::survey::{Answer, Survey};

/// What became of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// All its slots are the target's.
    Moved,
    /// Somebody ended it before.
    Cancelled,
    /// Slots are elsewhere and nobody is known to have ended it.
    Lost,
}

/// A move that is over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct MoveEnd {
    /// Its id.
    pub(crate) id: String,
    /// The node the slots moved to.
    pub(crate) to: String,
    /// What people call it.
    pub(crate) to_name: String,
    /// The slots that were watched.
    pub(crate) slots: SlotText,
    /// Those that the target owns.
    pub(crate) moved: SlotText,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// Who ended it, as the history tells.
    pub(crate) by: Option<String>,
    /// Where the others are.
    pub(crate) stayed: Vec<Stayed>,
}

/// Slots that did not go over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Stayed {
    /// Their owner's name.
    pub(crate) owner: Option<String>,
    /// The slots.
    pub(crate) slots: SlotText,
}

/// A set of slots that programs read as its text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SlotText(pub(crate) SlotRanges);

impl Serialize for SlotText {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// How each move ended, by the newest table and the history.
pub(crate) fn judge(watch: &Watch, table: &Status, history: &[HistoryRecord]) -> Vec<MoveEnd> {
    watch.courses().iter().map(|course| judge_one(course, table, history)).collect()
}

/// Did all slots go over? Then no history is needed to tell why not.
pub(crate) fn all_moved(watch: &Watch, table: &Status) -> bool {
    judge(watch, table, &[]).iter().all(|end| end.outcome == Outcome::Moved)
}

fn judge_one(course: &Course, table: &Status, history: &[HistoryRecord]) -> MoveEnd {
    let ordered = &course.ordered;
    let moved = both(&ordered.slots, &owned_by(table, &ordered.to));
    let rest = ordered.slots.without(&moved);
    let ended_here = course.here.values().any(|at| at.ended.as_deref() == Some("cancelled"));
    let by = if rest.is_empty() { None } else { cancelled_by(&ordered.id, history) };
    let outcome = match (rest.is_empty(), ended_here || by.is_some()) {
        (true, _) => Outcome::Moved,
        (false, true) => Outcome::Cancelled,
        (false, false) => Outcome::Lost,
    };
    MoveEnd {
        id: ordered.id.clone(),
        to: ordered.to.clone(),
        to_name: ordered.to_name.clone(),
        slots: SlotText(ordered.slots.clone()),
        moved: SlotText(moved),
        outcome,
        by,
        stayed: owners(&rest, table),
    }
}

/// Who ended the move, as the history tells.
fn cancelled_by(id: &str, history: &[HistoryRecord]) -> Option<String> {
    let of_it = |record: &&HistoryRecord| {
        let named = record.detail.split_once(": ").is_some_and(|(of, _)| of == id);
        record.change == "AbortMove" && record.refused.is_none() && named
    };
    let record = history.iter().find(of_it)?;
    Some(format!("{} at {}", record.actor, record.node))
}

/// Whose these slots are.
fn owners(slots: &SlotRanges, table: &Status) -> Vec<Stayed> {
    let part = |owner: Option<&str>, slots: SlotRanges| {
        let owner = owner.map(str::to_owned);
        (!slots.is_empty()).then_some(Stayed { owner, slots: SlotText(slots) })
    };
    let mut rest = slots.clone();
    let mut stayed = Vec::new();
    for node in &table.nodes {
        let theirs = both(&rest, &ranges(&node.slots));
        rest = rest.without(&theirs);
        stayed.extend(part(Some(names::shown(node)), theirs));
    }
    stayed.extend(part(None, rest));
    stayed
}

/// How far the nodes are with getting the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Arrival {
    /// Nodes that answer and have an older one: name and version.
    pub(crate) behind: Vec<(String, u64)>,
    /// Nodes that give no answer.
    pub(crate) unreached: Vec<Unreached>,
}

/// A node that gave no answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Unreached {
    /// Its id.
    pub(crate) node: String,
    /// What people call it.
    pub(crate) name: String,
    /// Why.
    pub(crate) error: String,
}

/// Who has the table of this version?
pub(crate) fn arrival(survey: &Survey, version: u64) -> Arrival {
    let mut arrival = Arrival::default();
    for seen in &survey.nodes {
        match &seen.answer {
            Answer::Own(own) if own.table_version < version => {
                arrival.behind.push((seen.name().to_owned(), own.table_version));
            }
            Answer::Own(_) => {}
            Answer::Stranger(why) | Answer::Silent(why) => arrival.unreached.push(Unreached {
                node: seen.row.id.clone(),
                name: seen.name().to_owned(),
                error: why.clone(),
            }),
        }
    }
    arrival
}

/// How the run ends.
pub(crate) fn exit(ends: &[MoveEnd], arrival: &Arrival, has_refusals: bool) -> Exit {
    let any = |outcome| ends.iter().any(|end| end.outcome == outcome);
    if any(Outcome::Lost) || !arrival.behind.is_empty() {
        return Exit::Unfinished;
    }
    if any(Outcome::Cancelled) || has_refusals { Exit::Refused } else { Exit::Done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moves::watch::Ordered;
    use crate::survey::samples::{id, status, survey};
    use slots::admin::{MoveHere, MoveStatus, Moves};
    use std::time::Duration;

    /// Slots 0-9 of node a on their way to node c; `ended` is node a's last word.
    fn watched(ended: Option<&str>) -> Watch {
        let (to, slots) = (id(2), ranges("0-9"));
        let ordered = Ordered { id: "m1".into(), to, slots, version: 53, ..Ordered::default() };
        let mut watch = Watch::new(vec![ordered], Duration::ZERO, Duration::ZERO);
        let here = MoveHere { ended: ended.map(str::to_owned), ..MoveHere::default() };
        let moves = vec![MoveStatus { id: "m1".into(), here: Some(here), ..Default::default() }];
        let told = Moves { table_version: 60, moves };
        watch.hear(None, &[(id(0), Ok(told))], Duration::ZERO);
        watch
    }

    /// The table after slots up to this one went over.
    fn table(last: u16) -> Status {
        let mut table = status(0);
        table.nodes[0].slots = format!("{}-5460", last + 1);
        table.nodes[2].slots = format!("0-{last},10923-16383");
        table
    }

    fn record(change: &str, detail: &str, refused: Option<&str>) -> HistoryRecord {
        HistoryRecord {
            change: change.into(),
            detail: detail.into(),
            node: "node-b".into(),
            actor: "default@10.0.0.9:52114".into(),
            refused: refused.map(str::to_owned),
            ..HistoryRecord::default()
        }
    }

    fn check(ended: Option<&str>, last: u16, history: &[HistoryRecord]) -> (Outcome, String) {
        let end = judge(&watched(ended), &table(last), history).remove(0);
        let stayed = end.stayed.iter().map(|stayed| {
            format!("{} {}", stayed.owner.as_deref().unwrap_or("nobody"), stayed.slots.0)
        });
        let by = end.by.map(|by| format!(" by {by}")).unwrap_or_default();
        (end.outcome, format!("{}{by}", stayed.collect::<Vec<_>>().join(", ")))
    }

    #[test]
    fn the_table_decides_and_not_the_sources_word() {
        assert_eq!(check(Some("moved"), 9, &[]), (Outcome::Moved, String::new()));
        // The target was promoted: the source lost the slots, and they are where they should be.
        assert_eq!(check(Some("lost"), 9, &[]), (Outcome::Moved, String::new()));
        assert_eq!(check(Some("moved"), 4, &[]), (Outcome::Lost, "node-a 5-9".into()));
        assert_eq!(check(Some("lost"), 4, &[]), (Outcome::Lost, "node-a 5-9".into()));
        assert_eq!(check(None, 4, &[]), (Outcome::Lost, "node-a 5-9".into()));
    }

    #[test]
    fn a_cancel_is_told_by_the_source_or_by_the_history() {
        let other = (Outcome::Cancelled, "node-a 5-9".to_owned());
        assert_eq!(check(Some("cancelled"), 4, &[]), other);
        let aborted = record("AbortMove", "m1: 5-9", None);
        let by = "node-a 5-9 by default@10.0.0.9:52114 at node-b".to_owned();
        assert_eq!(check(None, 4, std::slice::from_ref(&aborted)), (Outcome::Cancelled, by));
        assert_eq!(check(None, 9, &[aborted]).0, Outcome::Moved);
        for other in [
            record("AbortMove", "m12: 5-9", None),
            record("AbortMove", "m1: 5-9", Some("no such move")),
            record("BeginMove", "m1: 5-9", None),
        ] {
            assert_eq!(check(None, 4, &[other]).0, Outcome::Lost);
        }
    }

    #[test]
    fn slots_of_nobody_are_said_to_be_so() {
        let mut table = table(4);
        table.nodes[0].slots = "7-5460".into();
        let end = judge(&watched(None), &table, &[]).remove(0);
        let owners: Vec<Option<&str>> =
            end.stayed.iter().map(|stayed| stayed.owner.as_deref()).collect();
        assert_eq!(owners, [Some("node-a"), None]);
    }

    #[test]
    fn a_node_with_an_old_table_is_behind_and_a_silent_one_is_named() {
        let seen = survey(|n, mut status| {
            status.table_version = [60, 59, 60][n];
            if n == 2 { Err("connection refused".into()) } else { Ok(status) }
        });
        let arrival = super::arrival(&seen, 60);
        assert_eq!(arrival.behind, [("node-b".to_owned(), 59)]);
        assert_eq!(arrival.unreached[0].name, "node-c");
        assert_eq!(super::arrival(&seen, 59).behind, []);
        let ends = judge(&watched(None), &table(9), &[]);
        assert_eq!(exit(&ends, &arrival, false), Exit::Unfinished);
        let all = Arrival { behind: Vec::new(), ..arrival };
        assert_eq!(exit(&ends, &all, false), Exit::Done);
        assert_eq!(exit(&ends, &all, true), Exit::Refused);
        let lost = judge(&watched(None), &table(4), &[]);
        assert_eq!(exit(&lost, &all, false), Exit::Unfinished);
        let cancelled = judge(&watched(Some("cancelled")), &table(4), &[]);
        assert_eq!(exit(&cancelled, &all, false), Exit::Refused);
    }
}
