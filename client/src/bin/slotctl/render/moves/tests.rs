//! Golden texts of moves.
//!
//! Not what they are made from. Invariant: every kind of end has its text.

use super::*;
use crate::moves::end::{SlotText, Stayed, Unreached};
use crate::moves::list::Here;
use crate::moves::plan::Load;
use crate::render::golden;
use slots::admin::MoveSource;

fn slots(text: &str) -> SlotText {
    SlotText(ranges(text))
}

#[test]
fn a_plan_has_a_line_for_each_source() {
    let load = |name: &str, text: &str, known: bool| Load {
        node: name.into(),
        name: name.into(),
        slots: slots(text),
        slot_count: ranges(text).count(),
        keys: known.then_some(36_000),
        bytes: known.then_some(37_748_736),
        rate: None,
        error: (!known).then(|| "connection refused".to_owned()),
    };
    let whole = Leg {
        to: "c".into(),
        to_name: "node-c".into(),
        slots: slots("1200-1300,5461"),
        slot_count: 102,
        keys: None,
        bytes: None,
        eta_s: Some(66),
        sources: vec![load("node-a", "1200-1300", true), load("node-b", "5461", false)],
    };
    golden::check("move_plan", &(leg(&whole).join("\n") + "\n"));
}

fn halfway() -> Progress {
    Progress {
        slots: 101,
        slots_moved: 34,
        keys: Some(36_000),
        keys_moved: 12_000,
        bytes: Some(37_748_736),
        bytes_sent: 12_582_912,
        rate: 4_194_304,
        eta_s: Some(66),
        lag: 12,
        longest_pause_us: 1_234,
        seconds: 3.0,
        ..Progress::default()
    }
}

#[test]
fn progress_tells_what_is_known() {
    let blocked = vec!["node-a: node-c has no\x1b[2J room".to_owned()];
    let silent = vec!["node-b gives no answer: connection refused".to_owned()];
    let lines = [
        progress(&Progress { slots: 101, ..Progress::default() }),
        progress(&halfway()),
        progress(&Progress { eta_s: Some(4_000), ..halfway() }),
        progress(&Progress { rate: 0, eta_s: None, lag: 0, blocked, silent, ..halfway() }),
        progress(&Progress { slots_moved: 101, ..halfway() }),
    ];
    golden::check("move_progress", &(lines.join("\n") + "\n"));
}

fn ended(
    outcome: Outcome,
    moved: &str,
    by: Option<&str>,
    stayed: &[(Option<&str>, &str)],
) -> MoveEnd {
    let stayed = stayed
        .iter()
        .map(|(owner, text)| Stayed { owner: owner.map(str::to_owned), slots: slots(text) });
    MoveEnd {
        id: "5f1c8a2e00d1b7c4".into(),
        to: "c".into(),
        to_name: "node-c".into(),
        slots: slots("1200-1300"),
        moved: slots(moved),
        outcome,
        by: by.map(str::to_owned),
        stayed: stayed.collect(),
    }
}

fn told(end: MoveEnd, at: &Progress, refused: &[RefusedSlots], arrival: &Arrival) -> String {
    let ends = [end];
    let told = Summary { ends: &ends, at, refused, arrival, version: 60, nodes: 3 };
    summary(&told, Paint::Plain)
}

#[test]
fn each_end_is_told() {
    let at = Progress { slots_moved: 101, keys_moved: 36_000, ..halfway() };
    let well = told(ended(Outcome::Moved, "1200-1300", None, &[]), &at, &[], &Arrival::default());
    golden::check("move_moved", &well);
    let refused = RefusedSlots { slots: "9".into(), why: "under move 77: another node".into() };
    let arrival = Arrival {
        behind: vec![("node-b".into(), 51)],
        unreached: vec![Unreached {
            node: "d".into(),
            name: "node-d".into(),
            error: "connection refused".into(),
        }],
    };
    let moved = ended(Outcome::Moved, "1200-1300", None, &[]);
    let nothing_told = Progress { keys: None, ..halfway() };
    golden::check("move_not_everywhere", &told(moved, &nothing_told, &[refused], &arrival));
    let stayed = [(Some("node-a"), "1234-1299"), (None, "1300")];
    let by = Some("default@10.0.0.9:52114 at node-b");
    let cancelled = ended(Outcome::Cancelled, "1200-1233", by, &stayed);
    golden::check("move_cancelled", &told(cancelled, &halfway(), &[], &Arrival::default()));
    let lost = ended(Outcome::Lost, "1200-1233", None, &stayed[..1]);
    golden::check("move_lost", &told(lost, &halfway(), &[], &Arrival::default()));
}

#[test]
fn moves_are_listed_with_each_nodes_part() {
    let at = MoveHere {
        slots: 101,
        slots_moved: 34,
        keys: 36_000,
        keys_moved: 12_000,
        bytes: 37_748_736,
        bytes_sent: 12_582_912,
        rate: 4_194_304,
        lag: 12,
        longest_pause_us: 1_234,
        copying: 4,
        sealed: 1,
        begun_ms: 1_796_061_559_000,
        ..MoveHere::default()
    };
    let here =
        |name: &str, at: &MoveHere| Here { node: name.into(), name: name.into(), at: at.clone() };
    let source =
        |name: &str| MoveSource { node: name.into(), name: name.into(), ..Default::default() };
    let going = Move {
        id: "5f1c8a2e00d1b7c4".into(),
        to_name: "node-c".into(),
        left: "1234-1300,5461".into(),
        sources: vec![source("node-a"), source("node-b")],
        here: vec![here("node-a", &at)],
        ..Move::default()
    };
    let blocked =
        MoveHere { blocked: Some("node-d gives no answer".into()), rate: 0, ..at.clone() };
    let stuck = Move {
        id: "7700000000000000".into(),
        to_name: "node-d".into(),
        left: "9".into(),
        here: vec![here("node-a", &blocked)],
        ..Move::default()
    };
    let done = MoveHere { ended: Some("moved".into()), ..at };
    let over = Move {
        id: "9900000000000000".into(),
        to_name: "node-c".into(),
        here: vec![here("node-b", &done)],
        ..Move::default()
    };
    let silent = [("node-b".to_owned(), "connection refused".to_owned())];
    golden::check("moves", &list(&[going, stuck, over], &silent, Paint::Plain));
    assert_eq!(list(&[], &[], Paint::Plain), "no slots move\n");
}

#[test]
fn times_are_read_by_people() {
    assert_eq!([5, 65, 3_725].map(span), ["5 s", "1 min 5 s", "1 h 2 min"]);
}
