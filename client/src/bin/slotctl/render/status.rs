//! `slotctl status` and `slotctl nodes` as text and as JSON.
//!
//! Not the judgement (`health.rs`). Invariant: what a node did not say itself is marked, or `?`.

use serde::Serialize;
use slots::SLOTS;
use slots::admin::{NodeStatus, Status};

use super::{Cell, Paint, Tone, columns, count, plain, short_slots, visible};
use crate::health::{self, Health, Quorum};
use crate::survey::{Answer, Seen, Survey, shown_cluster};

/// The status as text.
pub(crate) fn text(survey: &Survey, health: &Health, paint: Paint) -> String {
    let base = &survey.base;
    let mut lines = vec![
        format!("cluster {}, generation {}", shown_cluster(base), base.generation),
        tables(survey),
        format!("leader: {}", health::leader(base).unwrap_or("none known")),
        votes(survey),
        format!("quorum: {}", health.quorum.text),
        slots(base),
        String::new(),
    ];
    let headings =
        ["NODE", "ADDRESS", "ROLE", "HEALTH", "STATE", "TABLE", "KEYS", "COUNT", "SLOTS"];
    let rows: Vec<Vec<Cell>> = survey.nodes.iter().map(|seen| row(survey, seen)).collect();
    lines.push(columns(&headings, &rows, paint));
    let mut text = lines.join("\n");
    for note in &health.notes {
        text.push_str(&format!("note: {}\n", visible(note)));
    }
    text.push_str(&verdict(health, paint));
    text
}

/// The last lines: healthy, or what is wrong.
pub(crate) fn verdict(health: &Health, paint: Paint) -> String {
    if health.healthy {
        return paint.tone(Tone::Good, "healthy") + "\n";
    }
    let heading = format!("not healthy: {}", count(health.problems.len(), "problem"));
    let mut text = paint.tone(Tone::Bad, &heading) + "\n";
    for problem in &health.problems {
        text.push_str(&format!("  {}\n", visible(problem)));
    }
    text
}

fn tables(survey: &Survey) -> String {
    let (asked, answered) = (survey.nodes.len(), survey.answered().count());
    let version = survey.base.table_version;
    let silent = match asked - answered {
        0 => String::new(),
        silent => format!(" ({} not heard)", count(silent, "node")),
    };
    if health::agree(survey) {
        format!("table version {version} on {}{silent}", count(answered, "node"))
    } else {
        format!("table version {version} is the newest; the nodes do not agree{silent}")
    }
}

fn votes(survey: &Survey) -> String {
    let names = |role: fn(&Seen) -> bool| {
        let names: Vec<&str> =
            survey.nodes.iter().filter(|seen| role(seen)).map(Seen::name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let learners = names(|seen| seen.row.role == "learner");
    format!("voters: {}; learners: {learners}", names(Seen::votes))
}

fn slots(base: &Status) -> String {
    if base.unassigned.is_empty() {
        return format!("slots: all {SLOTS} have an owner");
    }
    format!("slots: without an owner: {}", base.unassigned)
}

fn row(survey: &Survey, seen: &Seen) -> Vec<Cell> {
    let node = &seen.row;
    let word = health::word(survey, seen);
    let tone = match word {
        "up" => Tone::Good,
        "suspect" => Tone::Warn,
        _ => Tone::Bad,
    };
    let state = if node.state == "active" { Tone::Plain } else { Tone::Warn };
    vec![
        plain(seen.name()),
        plain(&node.client),
        plain(&node.role),
        (tone, word.to_owned()),
        (state, node.state.clone()),
        table_cell(survey, seen),
        plain(seen.best_row().keys.map_or("?".into(), |keys| keys.to_string())),
        plain(node.slot_count.to_string()),
        plain(short_slots(&node.slots)),
    ]
}

/// The node's own table version; what others heard of it is in brackets.
fn table_cell(survey: &Survey, seen: &Seen) -> Cell {
    match (seen.own(), seen.row.table_version) {
        (Some(own), _) if own.table_version == survey.base.table_version => {
            plain(own.table_version.to_string())
        }
        (Some(own), _) => (Tone::Warn, own.table_version.to_string()),
        (None, Some(heard)) => (Tone::Warn, format!("({heard})")),
        (None, None) => (Tone::Warn, "?".into()),
    }
}

/// The nodes as text, all that is known of each.
pub(crate) fn nodes_text(survey: &Survey, paint: Paint) -> String {
    let headings = [
        "NODE", "ID", "ADDRESS", "BUS", "ROLE", "HEALTH", "STATE", "WEIGHT", "BOOT", "VERSION",
        "LABELS",
    ];
    let row = |seen: &Seen| {
        let node = &seen.row;
        let labels: Vec<String> =
            node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let version = match (seen.own(), &node.server_version) {
            (Some(own), _) => own.server_version.clone(),
            (None, Some(heard)) => format!("({heard})"),
            (None, None) => "?".into(),
        };
        let cells = [
            seen.name(),
            &node.id,
            &node.client,
            &node.bus,
            &node.role,
            health::word(survey, seen),
            &node.state,
            &node.weight.to_string(),
            &node.boot.to_string(),
            &version,
            &labels.join(" "),
        ];
        cells.into_iter().map(plain).collect::<Vec<Cell>>()
    };
    columns(&headings, &survey.nodes.iter().map(row).collect::<Vec<_>>(), paint)
}

/// The status for programs.
#[derive(Serialize)]
pub(crate) struct StatusJson<'a> {
    healthy: bool,
    problems: &'a [String],
    notes: &'a [String],
    quorum: &'a Quorum,
    status: &'a Status,
    nodes: Vec<NodeJson<'a>>,
}

/// A node's own word on itself.
#[derive(Serialize)]
struct NodeJson<'a> {
    id: &'a str,
    name: &'a str,
    answered: bool,
    error: Option<&'a str>,
    generation: Option<u64>,
    table_version: Option<u64>,
    leader: Option<&'a str>,
    has_quorum: Option<bool>,
}

/// The status for programs.
pub(crate) fn json<'a>(survey: &'a Survey, health: &'a Health) -> StatusJson<'a> {
    let node = |seen: &'a Seen| {
        let own = seen.own();
        NodeJson {
            id: &seen.row.id,
            name: &seen.row.name,
            answered: own.is_some(),
            error: error_of(seen),
            generation: own.map(|own| own.generation),
            table_version: own.map(|own| own.table_version),
            leader: own.and_then(|own| own.leader.as_deref()),
            has_quorum: own.map(|own| own.has_quorum),
        }
    };
    StatusJson {
        healthy: health.healthy,
        problems: &health.problems,
        notes: &health.notes,
        quorum: &health.quorum,
        status: &survey.base,
        nodes: survey.nodes.iter().map(node).collect(),
    }
}

/// A node of `nodes --json`.
#[derive(Serialize)]
pub(crate) struct NodeRowJson<'a> {
    #[serde(flatten)]
    node: &'a NodeStatus,
    answered: bool,
    error: Option<&'a str>,
}

/// The nodes for programs.
pub(crate) fn nodes_json(survey: &Survey) -> Vec<NodeRowJson<'_>> {
    let row = |seen| NodeRowJson {
        node: Seen::best_row(seen),
        answered: seen.own().is_some(),
        error: error_of(seen),
    };
    survey.nodes.iter().map(row).collect()
}

fn error_of(seen: &Seen) -> Option<&str> {
    match &seen.answer {
        Answer::Own(_) => None,
        Answer::Stranger(why) | Answer::Silent(why) => Some(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Lag, judge};
    use crate::render::golden;
    use crate::survey::samples::survey;

    fn check(name: &str, survey: &Survey, paint: Paint) {
        golden::check(name, &text(survey, &judge(survey, Lag::Moment), paint));
    }

    fn troubled() -> Survey {
        survey(|n, mut status| {
            status.unassigned = "100,200-299".into();
            status.nodes[0].slots = "0-99,101-199,300-400,402-5460".into();
            status.nodes[1].state = "draining".into();
            status.nodes[1].role = "learner".into();
            status.nodes[2].table_version = None;
            status.nodes[2].server_version = None;
            status.nodes[1].labels = vec![("zone".into(), "eu-1".into())];
            status.table_version -= (n == 1) as u64;
            if n == 2 { Err("connection refused".into()) } else { Ok(status) }
        })
    }

    #[test]
    fn a_healthy_cluster_is_shown() {
        check("status_healthy", &survey(|_, status| Ok(status)), Paint::Plain);
    }

    #[test]
    fn a_troubled_cluster_is_shown_with_its_troubles() {
        check("status_troubled", &troubled(), Paint::Plain);
        check("status_color", &troubled(), Paint::Ansi);
    }

    #[test]
    fn nodes_are_shown_with_all_that_is_known() {
        golden::check("nodes", &nodes_text(&troubled(), Paint::Plain));
    }

    #[test]
    fn programs_get_each_nodes_own_word() {
        let survey = troubled();
        let health = judge(&survey, Lag::Moment);
        let status = serde_json::to_string_pretty(&json(&survey, &health)).expect("JSON");
        golden::check("status_json", &(status + "\n"));
        let nodes = serde_json::to_string_pretty(&nodes_json(&survey)).expect("JSON");
        golden::check("nodes_json", &(nodes + "\n"));
    }
}
