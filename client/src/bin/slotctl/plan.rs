//! What an order that takes something away will do, before it is done; and what forbids it.
//!
//! Not the asking of the person (`confirm.rs`), nor the order. The cluster judges again: a plan
//! is made from a view that may be old.
//!
//! Invariant: a plan names all that is given up.

use slots::admin::{SlotStatus, Status};
use slots::{SlotRanges, admin::NodeStatus};

use crate::confirm::Question;
use crate::exit::Failure;
use crate::names::{self, Target};
use crate::request::Loss;
use crate::survey::{Answer, Seen, Survey};

/// What will happen, a sentence a line, and what must be answered first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// The sentences.
    pub(crate) lines: Vec<String>,
    /// The question.
    pub(crate) question: Question,
}

/// `node remove`. Refuses a node that owns slots.
pub(crate) fn remove(status: &Status, target: &Target) -> Result<Plan, Failure> {
    let name = &target.name;
    let Some(row) = row(status, target) else {
        let lines = vec![format!("{name} is in no row of the table: it may be removed already.")];
        return Ok(Plan { lines, question: Question::YesNo });
    };
    if row.slot_count > 0 {
        return Err(Failure::refused(format!(
            "{name} owns {}: only a node without slots can be removed; if it will not come back, \
             `slotctl node lost {name}`",
            slots_text(&row.slots, row.slot_count)
        )));
    }
    let mut lines = vec![format!("{name} ({}, {}) leaves the cluster.", row.client, row.id)];
    lines.extend(vote_moves(row));
    lines.push("It owns no slots: no keys go with it.".into());
    Ok(Plan { lines, question: Question::YesNo })
}

/// `node lost`. Refuses a node that answers, and one that holds the only copy of slots unless
/// their loss is accepted.
pub(crate) fn lost(
    survey: &Survey,
    rows: &[SlotStatus],
    target: &Target,
    loss: Loss,
) -> Result<Plan, Failure> {
    let name = &target.name;
    let seen = survey.node(&target.id.to_string());
    let Some(seen) = seen else {
        let lines = vec![format!("{name} is in no row of the table: it may be removed already.")];
        return Ok(Plan { lines, question: Question::YesNo });
    };
    if seen.own().is_some() {
        return Err(Failure::refused(format!(
            "{name} answers at {}: it is not lost; `slotctl node remove {name}` lets it go, or \
             stop it first",
            seen.row.client
        )));
    }
    let only = only_copies(rows, name);
    if !only.is_empty() && loss == Loss::Refused {
        return Err(Failure::refused(format!(
            "{name} holds the only copy of {}: start it again, or give their keys up with \
             --accept-loss",
            ranges_text(&only)
        )));
    }
    let mut lines = vec![format!("{name} ({}, {}): {}.", seen.row.client, seen.row.id, why(seen))];
    lines.extend(heard_by(survey, seen));
    lines.extend(vote_moves(&seen.row));
    let shared = owned(&seen.row).without(&only);
    if !shared.is_empty() {
        lines.push(format!("{} go to the nodes that have a copy.", ranges_text(&shared)));
    }
    if only.is_empty() {
        lines.push("It is removed for good; started again, it is refused.".into());
        return Ok(Plan { lines, question: Question::YesNo });
    }
    lines.push(format!("THE KEYS OF {} ARE LOST: it has the only copy.", ranges_text(&only)));
    lines.push("These slots have no owner then; `slotctl assign` gives them one, empty.".into());
    lines.push("It is removed for good; started again, it is refused, keys and all.".into());
    Ok(Plan { lines, question: Question::Typed(name.clone()) })
}

/// `recover`, at the node whose view `here` is. Refuses while a majority answers, and where
/// another node knows more.
pub(crate) fn recover(here: &Status, survey: &Survey) -> Result<Plan, Failure> {
    let me = names::name_of(&here.nodes, &here.me).to_owned();
    let hears = |status: &&Status| status.has_quorum;
    if survey.answered().any(|(_, own)| hears(&own)) || here.has_quorum {
        return Err(Failure::refused(
            "a majority of the voters is there: nothing to recover (`slotctl status`); a dead \
             node goes by `slotctl node lost`",
        ));
    }
    let age = |status: &Status| (status.generation, status.table_version);
    let newer = survey.answered().find(|(_, own)| age(own) > age(here));
    if let Some((seen, own)) = newer {
        return Err(Failure::refused(format!(
            "{} knows more: table version {}, {me} has {}; recover there: --server {}",
            seen.name(),
            own.table_version,
            here.table_version,
            seen.row.client
        )));
    }
    let gone: Vec<&str> =
        survey.nodes.iter().filter(|seen| seen.own().is_none()).map(Seen::name).collect();
    let mut lines = vec![
        format!("Cluster {}, generation {}, has lost its majority.", here.cluster, here.generation),
        format!("{me} begins a new generation alone, with what it knows."),
        format!("CHANGES OF THE TABLE AFTER VERSION {} ARE LOST.", here.table_version),
    ];
    if !gone.is_empty() {
        lines.push(format!("These gave no answer and are shut out: {}.", gone.join(", ")));
    }
    lines.push("If the old majority lives anywhere, two clusters may serve the same slots.".into());
    Ok(Plan { lines, question: Question::Typed(here.cluster.clone()) })
}

/// What is left to do of `assign`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Assignment {
    /// All slots are the node's already.
    Nothing,
    /// These are still without an owner.
    Left(SlotRanges),
}

/// `assign`. Refuses slots that another node owns.
pub(crate) fn assign(
    status: &Status,
    slots: &SlotRanges,
    target: &Target,
) -> Result<Assignment, Failure> {
    let id = target.id.to_string();
    for node in status.nodes.iter().filter(|node| node.id != id) {
        let theirs = both(&owned(node), slots);
        if !theirs.is_empty() {
            return Err(Failure::refused(format!(
                "slots {theirs} belong to {}: assign gives only slots that nobody owns; nothing \
                 was changed",
                names::shown(node)
            )));
        }
    }
    let mine = row(status, target).map(owned).unwrap_or_default();
    let left = slots.without(&mine);
    Ok(if left.is_empty() { Assignment::Nothing } else { Assignment::Left(left) })
}

fn row<'a>(status: &'a Status, target: &Target) -> Option<&'a NodeStatus> {
    let id = target.id.to_string();
    status.nodes.iter().find(|node| node.id == id)
}

/// The slots of which only the node of this name has a copy.
fn only_copies(rows: &[SlotStatus], name: &str) -> SlotRanges {
    let alone = rows.iter().filter(|row| row.owner.as_deref() == Some(name));
    let alone = alone.filter(|row| row.in_sync.iter().all(|member| member == name));
    alone.filter_map(|row| row.slots.parse::<SlotRanges>().ok()).fold(
        SlotRanges::new(),
        |mut all, ranges| {
            ranges.ranges().iter().for_each(|range| all.insert_range(*range));
            all
        },
    )
}

fn owned(node: &NodeStatus) -> SlotRanges {
    node.slots.parse().unwrap_or_default()
}

fn both(a: &SlotRanges, b: &SlotRanges) -> SlotRanges {
    a.without(&a.without(b))
}

fn vote_moves(row: &NodeStatus) -> Option<String> {
    matches!(row.role.as_str(), "leader" | "voter")
        .then(|| "It has a vote: the vote moves to another node first.".to_owned())
}

fn why(seen: &Seen) -> &str {
    match &seen.answer {
        Answer::Silent(why) | Answer::Stranger(why) => why,
        Answer::Own(_) => "it answers",
    }
}

/// A node may be out of reach from here only.
fn heard_by(survey: &Survey, seen: &Seen) -> Option<String> {
    let hears = survey.answered().filter(|(_, view)| {
        view.nodes.iter().any(|row| row.id == seen.row.id && row.health == "connected")
    });
    let hears: Vec<&str> = hears.map(|(other, _)| other.name()).collect();
    (!hears.is_empty()).then(|| format!("BUT {} STILL HEAR IT: it may be alive.", hears.join(", ")))
}

fn ranges_text(ranges: &SlotRanges) -> String {
    let count = u32::try_from(ranges.count()).unwrap_or(u32::MAX);
    slots_text(&ranges.to_string(), count)
}

fn slots_text(ranges: &str, count: u32) -> String {
    if count == 1 { format!("slot {ranges}") } else { format!("{count} slots ({ranges})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::samples::{id, status, survey};

    fn target(n: usize) -> Target {
        let name = format!("node-{}", ["a", "b", "c"][n]);
        Target { id: id(n).parse().expect("an id"), name }
    }

    fn row_of(slots: &str, owner: &str, in_sync: &[&str]) -> SlotStatus {
        SlotStatus {
            slots: slots.into(),
            owner: Some(owner.into()),
            in_sync: in_sync.iter().map(|name| (*name).to_owned()).collect(),
            ..SlotStatus::default()
        }
    }

    fn without_c(n: usize, status: Status) -> Result<Status, String> {
        if n == 2 { Err("connection refused".into()) } else { Ok(status) }
    }

    fn c_unheard() -> Survey {
        survey(|n, mut status| {
            status.nodes[2].health = "unreachable".into();
            without_c(n, status)
        })
    }

    #[test]
    fn a_node_with_slots_is_not_removed() {
        let failure = remove(&status(0), &target(2)).expect_err("it owns slots");
        assert!(failure.text.starts_with("node-c owns 5461 slots (10923-16383): only a node"));
    }

    #[test]
    fn removing_a_voter_says_that_its_vote_moves() {
        let mut status = status(0);
        status.nodes[2].slots.clear();
        status.nodes[2].slot_count = 0;
        let plan = remove(&status, &target(2)).expect("a plan");
        assert_eq!(plan.lines[1], "It has a vote: the vote moves to another node first.");
        assert_eq!(plan.question, Question::YesNo);
    }

    #[test]
    fn a_node_that_answers_is_not_lost() {
        let all = survey(|_, status| Ok(status));
        let failure = lost(&all, &[], &target(2), Loss::Accepted).expect_err("it answers");
        assert!(failure.text.starts_with("node-c answers at 127.0.0.1:7003: it is not lost"));
    }

    #[test]
    fn the_only_copy_is_given_up_by_name_only() {
        let rows = [row_of("10923-16382", "node-c", &["node-c"]), row_of("16383", "node-c", &[])];
        let failure = lost(&c_unheard(), &rows, &target(2), Loss::Refused).expect_err("a copy");
        assert_eq!(
            failure.text,
            "node-c holds the only copy of 5461 slots (10923-16383): start it again, or give \
             their keys up with --accept-loss"
        );
        let plan = lost(&c_unheard(), &rows, &target(2), Loss::Accepted).expect("a plan");
        assert_eq!(plan.question, Question::Typed("node-c".into()));
        let text = plan.lines.join("\n");
        assert!(text.contains("THE KEYS OF 5461 slots (10923-16383) ARE LOST"), "{text}");
        assert!(!text.contains("STILL HEAR IT"), "{text}");
    }

    #[test]
    fn slots_with_copies_elsewhere_are_no_loss() {
        let rows = [row_of("10923-16383", "node-c", &["node-c", "node-a"])];
        let plan = lost(&c_unheard(), &rows, &target(2), Loss::Refused).expect("a plan");
        assert_eq!(plan.question, Question::YesNo);
        let text = plan.lines.join("\n");
        assert!(text.contains("5461 slots (10923-16383) go to the nodes that have a copy."));
    }

    #[test]
    fn a_node_out_of_reach_from_here_only_is_said_so() {
        let plan = lost(&survey(without_c), &[], &target(2), Loss::Refused).expect("a plan");
        let text = plan.lines.join("\n");
        assert!(text.contains("BUT node-a, node-b STILL HEAR IT: it may be alive."), "{text}");
    }

    fn no_quorum(n: usize, mut status: Status) -> Result<Status, String> {
        status.has_quorum = false;
        status.table_version -= n as u64;
        without_c(n, status)
    }

    #[test]
    fn recovery_begins_where_most_is_known() {
        let lost = survey(no_quorum);
        let here = |n: usize| lost.nodes[n].own().expect("it answered").clone();
        let failure = recover(&here(1), &lost).expect_err("node-a knows more");
        assert!(failure.text.starts_with("node-a knows more: table version 52, node-b has 51"));
        let plan = recover(&here(0), &lost).expect("a plan");
        assert_eq!(plan.question, Question::Typed("c".repeat(40)));
        let text = plan.lines.join("\n");
        assert!(text.contains("node-a begins a new generation alone"), "{text}");
        assert!(text.contains("shut out: node-c."), "{text}");
    }

    #[test]
    fn a_majority_needs_no_recovery() {
        let failure = recover(&status(0), &survey(without_c)).expect_err("two of three");
        assert!(failure.text.starts_with("a majority of the voters is there"));
    }

    #[test]
    fn assign_gives_only_what_nobody_owns() {
        let mut status = status(0);
        status.nodes[2].slots = "10923-11000".into();
        let slots = |text: &str| text.parse::<SlotRanges>().expect("slots");
        let failure = assign(&status, &slots("5000-6000"), &target(2)).expect_err("of others");
        assert!(failure.text.starts_with("slots 5000-5460 belong to node-a"), "{}", failure.text);
        let left = assign(&status, &slots("11000-11002"), &target(2));
        assert_eq!(left, Ok(Assignment::Left(slots("11001-11002"))));
        assert_eq!(assign(&status, &slots("10923"), &target(2)), Ok(Assignment::Nothing));
    }
}
