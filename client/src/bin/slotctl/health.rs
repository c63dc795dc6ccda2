//! Is the cluster as it should be? The judgement over a survey, in sentences.
//!
//! Not the asking, nor the waiting. Invariant: what is not known counts as a problem, never as
//! health.

use std::time::Duration;

use serde::Serialize;
use slots::admin::{NodeStatus, Status};

use crate::names;
use crate::survey::{Answer, Seen, Survey};

/// How to take tables of different versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lag {
    /// A moment's look: a node may be about to catch up.
    Moment,
    /// They have been apart for this long.
    Lasting(Duration),
}

/// The judgement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Health {
    /// No problems?
    pub(crate) healthy: bool,
    /// What is wrong, a sentence each.
    pub(crate) problems: Vec<String>,
    /// What is worth knowing and no fault of now.
    pub(crate) notes: Vec<String>,
    /// May the table change?
    pub(crate) quorum: Quorum,
}

/// Whether the table can change, and how much may fail before it cannot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Quorum {
    /// Nodes with a vote.
    pub(crate) voters: usize,
    /// Those of them that answered slotctl.
    pub(crate) reachable: usize,
    /// Are changes possible?
    pub(crate) possible: bool,
    /// The same as a sentence.
    pub(crate) text: String,
}

/// Judges what the nodes said.
pub(crate) fn judge(survey: &Survey, lag: Lag) -> Health {
    let quorum = quorum(survey);
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    if !quorum.possible {
        problems.push(format!("no quorum: {}", quorum.text));
    }
    if !survey.base.unassigned.is_empty() {
        let slots = &survey.base.unassigned;
        problems.push(format!("slots without an owner: {slots} (`slotctl assign` gives them one)"));
    }
    problems.extend(survey.nodes.iter().filter_map(no_answer));
    problems.extend(survey.nodes.iter().filter_map(|seen| unheard(survey, seen)));
    problems.extend(
        survey.nodes.iter().filter(|seen| seen.row.role == "outside").map(|seen| {
            format!("{} is outside: the table's log does not reach it yet", seen.name())
        }),
    );
    problems.extend(survey.nodes.iter().filter_map(on_disk));
    match (apart(survey), lag) {
        (Some(text), Lag::Moment) => notes.push(text),
        (Some(text), Lag::Lasting(time)) => {
            problems.push(format!("{text}, for over {:.1} s", time.as_secs_f64()));
        }
        (None, _) => {}
    }
    notes.extend(
        survey
            .nodes
            .iter()
            .filter(|seen| seen.row.state == "draining")
            .map(|seen| format!("{} is draining: it gets nothing new", seen.name())),
    );
    notes.extend(survey.base.losses.iter().map(|loss| {
        format!("possible loss at version {}, slots {}: {}", loss.version, loss.slots, loss.cause)
    }));
    Health { healthy: problems.is_empty(), problems, notes, quorum }
}

/// Whether all nodes that answered have the same table.
pub(crate) fn agree(survey: &Survey) -> bool {
    apart(survey).is_none()
}

fn no_answer(seen: &Seen) -> Option<String> {
    let (name, at) = (seen.name(), &seen.row.client);
    match &seen.answer {
        Answer::Own(_) => None,
        Answer::Silent(why) => Some(format!("{name} does not answer at {at}: {why}")),
        Answer::Stranger(who) => Some(format!("{name} is not found at {at}: {who}")),
    }
}

/// A node that does not serve because of its disk.
fn on_disk(seen: &Seen) -> Option<String> {
    let (name, disk) = (seen.name(), seen.best_row().disk.as_ref()?);
    if let Some(loading) = &disk.loading {
        let left = match loading.left_s {
            Some(left) => format!(", some {} s are left", left.max(1)),
            None => String::new(),
        };
        return Some(format!("{name} is loading its disk: {} %{left}", loading.percent));
    }
    if let Some(why) = &disk.log_full {
        return Some(format!("{name} refuses writes, its log has no room: {why}"));
    }
    let why = disk.checkpoint_failure.as_ref()?;
    Some(format!("{name} could not take a checkpoint, its log grows: {why}"))
}

/// A node that answers slotctl and that other nodes do not hear.
fn unheard(survey: &Survey, seen: &Seen) -> Option<String> {
    seen.own()?;
    let deaf = survey.answered().filter(|(_, view)| {
        view.nodes.iter().any(|row| row.id == seen.row.id && row.health == "unreachable")
    });
    let deaf: Vec<&str> = deaf.map(|(other, _)| other.name()).collect();
    let name = seen.name();
    (!deaf.is_empty()).then(|| format!("{name} answers, and {} cannot reach it", deaf.join(", ")))
}

/// The nodes whose table is older than the newest, in words.
fn apart(survey: &Survey) -> Option<String> {
    let newest = (survey.base.generation, survey.base.table_version);
    let behind: Vec<String> = survey
        .answered()
        .filter(|(_, own)| (own.generation, own.table_version) != newest)
        .map(|(seen, own)| format!("{} has {}", seen.name(), version(own, &survey.base)))
        .collect();
    let newest = survey.base.table_version;
    (!behind.is_empty())
        .then(|| format!("tables are apart: the newest version is {newest}, {}", behind.join(", ")))
}

fn version(own: &Status, base: &Status) -> String {
    if own.generation == base.generation {
        own.table_version.to_string()
    } else {
        format!("{} of generation {}", own.table_version, own.generation)
    }
}

fn quorum(survey: &Survey) -> Quorum {
    let voters = survey.nodes.iter().filter(|seen| seen.votes()).count();
    let reachable = survey.nodes.iter().filter(|seen| seen.votes() && seen.own().is_some()).count();
    let majority = voters / 2 + 1;
    // A node cut off with an old view may still believe; the newest view is judged by itself.
    let newest = survey.base.generation;
    let witness = survey.answered().find(|(_, own)| own.has_quorum && own.generation == newest);
    let counted = format!("{}, {reachable} reachable", voters_text(voters));
    let (possible, text) = match witness {
        Some(_) if reachable > majority => {
            let spare = reachable - majority;
            let failures = if spare == 1 { "one failure" } else { &format!("{spare} failures") };
            (true, format!("{counted}: changes possible, also after {failures}"))
        }
        Some(_) if reachable == majority => {
            let text = "changes possible; one more failure stops changes (owners go on serving)";
            (true, format!("{counted}: {text}"))
        }
        Some((seen, _)) => {
            let name = seen.name();
            (true, format!("{counted} from here: {name} hears a majority, so changes are possible"))
        }
        None if reachable >= majority => {
            let text = "none hears a leader with a majority: no changes now (owners go on serving)";
            (false, format!("{counted}: {text}"))
        }
        None => {
            let missing = match majority - reachable {
                1 => "one more is".to_owned(),
                more => format!("{more} more are"),
            };
            let text = format!("no changes until {missing} back (owners go on serving)");
            (false, format!("{counted}: {text}"))
        }
    };
    Quorum { voters, reachable, possible, text }
}

fn voters_text(count: usize) -> String {
    if count == 1 { "1 voter".into() } else { format!("{count} voters") }
}

/// How a node is, in a word or two, for a column: `up`, or what is wrong.
pub(crate) fn word(survey: &Survey, seen: &Seen) -> &'static str {
    match &seen.answer {
        Answer::Silent(_) => "no answer",
        Answer::Stranger(_) => "not there",
        Answer::Own(_) if unheard(survey, seen).is_some() => "unheard",
        Answer::Own(_) if suspected(survey, &seen.row) => "suspect",
        Answer::Own(_) => match &seen.best_row().disk {
            Some(disk) if disk.loading.is_some() => "loading",
            Some(disk) if disk.log_full.is_some() => "disk full",
            _ => "up",
        },
    }
}

fn suspected(survey: &Survey, node: &NodeStatus) -> bool {
    survey
        .answered()
        .any(|(_, view)| view.nodes.iter().any(|row| row.id == node.id && row.health == "suspect"))
}

/// The leader's name as the newest view knows it.
pub(crate) fn leader(status: &Status) -> Option<&str> {
    status.leader.as_deref().map(|id| names::name_of(&status.nodes, id))
}

#[cfg(test)]
mod tests {
    use slots::admin::{DiskStatus, LoadingStatus};

    use super::*;
    use crate::survey::samples::{id, survey};

    fn moment(change: impl Fn(usize, Status) -> Result<Status, String>) -> Health {
        judge(&survey(change), Lag::Moment)
    }

    fn silent(n: usize, dead: &[usize], status: Status) -> Result<Status, String> {
        if dead.contains(&n) { Err("connection refused".into()) } else { Ok(status) }
    }

    #[test]
    fn three_nodes_that_agree_are_healthy() {
        let health = moment(|_, status| Ok(status));
        assert!(health.healthy && health.problems.is_empty() && health.notes.is_empty());
        let text = "3 voters, 3 reachable: changes possible, also after one failure";
        assert_eq!(health.quorum.text, text);
    }

    #[test]
    fn with_two_of_three_one_more_failure_stops_changes() {
        let health = moment(|n, status| silent(n, &[2], status));
        let text = "3 voters, 2 reachable: changes possible; one more failure stops changes \
                    (owners go on serving)";
        assert_eq!(health.quorum.text, text);
        assert!(health.quorum.possible && !health.healthy);
        let problem = "node-c does not answer at 127.0.0.1:7003: connection refused";
        assert_eq!(health.problems, [problem]);
    }

    #[test]
    fn with_one_of_three_nothing_changes() {
        let health = moment(|n, mut status| {
            status.has_quorum = false;
            silent(n, &[1, 2], status)
        });
        assert!(!health.quorum.possible);
        assert!(health.problems[0].starts_with("no quorum: 3 voters, 1 reachable: no changes"));
        assert!(health.problems[0].contains("until one more is back"));
    }

    #[test]
    fn nodes_out_of_reach_from_here_may_still_be_a_majority() {
        let health = moment(|n, status| silent(n, &[1, 2], status));
        let text = "3 voters, 1 reachable from here: node-a hears a majority, so changes are \
                    possible";
        assert_eq!(health.quorum.text, text);
        assert_eq!(health.problems.len(), 2);
    }

    #[test]
    fn an_election_is_no_quorum() {
        let health = moment(|_, mut status| {
            status.has_quorum = false;
            status.leader = None;
            Ok(status)
        });
        assert!(health.problems[0].contains("none hears a leader with a majority"));
    }

    #[test]
    fn a_node_that_does_not_serve_because_of_its_disk_is_a_problem() {
        let check = |disk: DiskStatus, want: &str, word: &str| {
            let survey = survey(|n, mut status| {
                status.nodes[n].disk = Some(disk.clone()).filter(|_| n == 1);
                Ok(status)
            });
            assert_eq!(judge(&survey, Lag::Moment).problems, [want]);
            assert_eq!(super::word(&survey, &survey.nodes[1]), word);
        };
        let loading = Some(LoadingStatus { percent: 42, left_s: Some(13) });
        let disk = DiskStatus { loading, ..DiskStatus::default() };
        check(disk, "node-b is loading its disk: 42 %, some 13 s are left", "loading");
        let disk = DiskStatus { log_full: Some("no space".into()), ..DiskStatus::default() };
        check(disk, "node-b refuses writes, its log has no room: no space", "disk full");
        let checkpoint_failure = Some("cannot write checkpoint/part.1".to_owned());
        let disk = DiskStatus { checkpoint_failure, ..DiskStatus::default() };
        let want = "node-b could not take a checkpoint, its log grows: cannot write \
            checkpoint/part.1";
        check(disk, want, "up");
    }

    #[test]
    fn slots_without_an_owner_are_a_problem() {
        let health = moment(|_, mut status| {
            status.unassigned = "5-9".into();
            Ok(status)
        });
        let problem = "slots without an owner: 5-9 (`slotctl assign` gives them one)";
        assert_eq!(health.problems, [problem]);
    }

    #[test]
    fn tables_apart_for_a_moment_are_a_note_and_for_long_a_problem() {
        let apart = survey(|n, mut status| {
            status.table_version -= (n == 1) as u64;
            Ok(status)
        });
        let text = "tables are apart: the newest version is 52, node-b has 51";
        let health = judge(&apart, Lag::Moment);
        assert_eq!((health.healthy, health.notes), (true, vec![text.to_owned()]));
        let health = judge(&apart, Lag::Lasting(Duration::from_millis(5000)));
        assert_eq!(health.problems, [format!("{text}, for over 5.0 s")]);
        assert!(!agree(&apart));
    }

    #[test]
    fn a_node_the_others_cannot_reach_is_a_problem() {
        let split = survey(|n, mut status| {
            if n != 2 {
                status.nodes[2].health = "unreachable".into();
            }
            Ok(status)
        });
        let health = judge(&split, Lag::Moment);
        assert_eq!(health.problems, ["node-c answers, and node-a, node-b cannot reach it"]);
        assert_eq!(word(&split, &split.nodes[2]), "unheard");
        assert_eq!(word(&split, &split.nodes[0]), "up");
    }

    #[test]
    fn a_stranger_at_a_nodes_address_is_a_problem() {
        let health = moment(|n, mut status| {
            if n == 1 {
                status.me = id(9);
            }
            Ok(status)
        });
        assert!(health.problems[0].starts_with("node-b is not found at 127.0.0.1:7002: another"));
    }

    #[test]
    fn draining_and_losses_are_notes_and_outside_is_a_problem() {
        let health = moment(|_, mut status| {
            status.nodes[1].state = "draining".into();
            status.nodes[2].role = "outside".into();
            status.losses.push(slots::admin::LossRecord {
                version: 40,
                slots: "1-2".into(),
                cause: "node-b restarted without its keys".into(),
            });
            Ok(status)
        });
        assert_eq!(health.problems, ["node-c is outside: the table's log does not reach it yet"]);
        assert_eq!(health.notes[0], "node-b is draining: it gets nothing new");
        assert!(health.notes[1].starts_with("possible loss at version 40, slots 1-2: node-b"));
    }
}
