//! Watching with a clock of the test's own: silence, old tables, sources that come and go.
//!
//! Not how it ended. Invariant: no test here waits.

use super::*;
use crate::survey::samples::id;
use slots::admin::MoveStatus;

const PATIENCE: Duration = Duration::from_secs(60);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn source(n: usize, slots: &str) -> MoveSource {
    let name = format!("node-{}", ["a", "b", "c"][n]);
    MoveSource { node: id(n), name, slots: slots.into() }
}

/// Slots 0-9 of node a on their way to node c since table version 53.
fn watch() -> Watch {
    let ordered = Ordered {
        id: "m1".into(),
        to: id(2),
        to_name: "node-c".into(),
        slots: ranges("0-9"),
        sources: vec![source(0, "0-9")],
        version: 53,
    };
    Watch::new(vec![ordered], PATIENCE, Duration::ZERO)
}

fn here(keys_moved: u64) -> MoveHere {
    MoveHere { slots: 10, keys: 100, keys_moved, bytes: 1_000, ..MoveHere::default() }
}

/// What a node says; no slots left: it does not list the move.
fn told(version: u64, left: &str, at: Option<MoveHere>) -> Moves {
    let status = MoveStatus {
        id: "m1".into(),
        to: id(2),
        left: left.into(),
        sources: vec![source(0, left)],
        here: at.clone(),
        ..MoveStatus::default()
    };
    let is_listed = !left.is_empty() || at.is_some();
    Moves { table_version: version, moves: is_listed.then_some(status).into_iter().collect() }
}

fn dead() -> Result<Moves, String> {
    Err("connection refused".into())
}

#[test]
fn slots_that_left_the_table_have_moved() {
    let mut watch = watch();
    let each = [(id(0), Ok(told(54, "4-9", Some(here(30))))), (id(2), Ok(told(54, "4-9", None)))];
    assert_eq!(watch.hear(None, &each, seconds(1)), (Step::UnderWay, Vec::new()));
    let at = watch.progress(seconds(1));
    assert_eq!((at.slots, at.slots_moved, at.keys, at.keys_moved), (10, 4, Some(100), 30));
    assert_eq!((watch.gone(), watch.left()), (ranges("0-3"), ranges("4-9")));
    let each = [(id(0), Ok(told(60, "", Some(here(100)))))];
    assert_eq!(watch.hear(None, &each, seconds(2)).0, Step::Over { version: 60 });
    assert_eq!(watch.progress(seconds(2)).slots_moved, 10);
}

#[test]
fn a_table_older_than_the_order_does_not_end_it() {
    let mut watch = watch();
    // Node b has not heard of the move yet: it lists nothing.
    assert_eq!(watch.hear(Some(&told(52, "", None)), &[], seconds(1)).0, Step::UnderWay);
    assert_eq!(watch.hear(Some(&told(54, "4-9", None)), &[], seconds(2)).0, Step::UnderWay);
    // Another, newer than the order and older than what was heard already.
    assert_eq!(watch.hear(Some(&told(53, "0-9", None)), &[], seconds(3)).0, Step::UnderWay);
    assert_eq!(watch.left(), ranges("4-9"));
    let each = [(id(0), Ok(told(53, "", None))), (id(2), Ok(told(55, "9", None)))];
    assert_eq!(watch.hear(None, &each, seconds(4)).0, Step::UnderWay);
    assert_eq!(watch.left(), ranges("9"));
}

#[test]
fn silence_is_said_once_and_ends_nothing_before_its_time() {
    let mut watch = watch();
    let view = told(54, "4-9", None);
    let (step, news) = watch.hear(Some(&view), &[(id(0), dead())], seconds(10));
    assert_eq!(step, Step::UnderWay);
    assert_eq!(news, ["node-a gives no answer: connection refused; it is asked again"]);
    let (step, news) = watch.hear(Some(&view), &[(id(0), dead())], seconds(69));
    assert_eq!((step, news), (Step::UnderWay, Vec::new()));
    let (step, _) = watch.hear(Some(&view), &[(id(0), dead())], seconds(70));
    let why = "node-a gives no answer for 60 s: connection refused";
    assert_eq!(step, Step::GivenUp(why.into()));
    let (step, news) = watch.hear(Some(&view), &[(id(0), Ok(view.clone()))], seconds(71));
    assert_eq!((step, news), (Step::UnderWay, vec!["node-a answers again".to_owned()]));
    assert!(!watch.is_any_silent());
}

#[test]
fn a_lost_source_is_no_success() {
    let mut watch = watch();
    // Nobody answers at all, for long.
    for now in [0, 30, 60] {
        let each = [(id(0), dead()), (id(2), dead())];
        let (step, _) = watch.hear(None, &each, seconds(now));
        assert_ne!(step, Step::Over { version: 53 });
        assert_eq!(matches!(step, Step::GivenUp(_)), now == 60, "{now} s");
    }
    assert_eq!((watch.gone().count(), watch.left().count()), (0, 10));
}

#[test]
fn while_others_go_on_a_silent_node_is_waited_for() {
    let mut watch = watch();
    for now in 0..200 {
        // The source answers and sends; the target is out of reach from here.
        let at = MoveHere { bytes_sent: now, ..here(0) };
        let each = [(id(0), Ok(told(54, "4-9", Some(at)))), (id(2), dead())];
        assert_eq!(watch.hear(None, &each, seconds(now)).0, Step::UnderWay, "{now} s");
    }
    // And one that is not needed any more never ends it.
    let mut moved_away = told(55, "4-9", None);
    moved_away.moves[0].sources = vec![source(1, "4-9")];
    for now in [200, 300] {
        let each = [(id(0), dead()), (id(2), Ok(moved_away.clone()))];
        assert_eq!(watch.hear(None, &each, seconds(now)).0, Step::UnderWay, "{now} s");
    }
    assert!(watch.involved().contains(id(1).as_str()), "the new owner is asked, too");
}

#[test]
fn the_time_that_is_left_is_the_slowest_nodes() {
    let at = |bytes_sent, rate| MoveHere { bytes_sent, rate, ..here(0) };
    let eta = |parts: &[MoveHere]| super::eta(parts.iter());
    assert_eq!(eta(&[]), None);
    assert_eq!(eta(&[at(0, 0)]), None);
    assert_eq!(eta(&[at(500, 100)]), Some(6));
    assert_eq!(eta(&[at(500, 100), at(0, 10)]), Some(101));
    assert_eq!(eta(&[at(500, 100), at(0, 0)]), None);
    // What is written meanwhile is sent, too.
    assert_eq!(eta(&[at(5_000, 0)]), Some(0));
}

#[test]
fn what_ended_has_no_rate_and_no_complaint() {
    let mut watch = watch();
    let at = MoveHere {
        rate: 5,
        lag: 3,
        blocked: Some("node-c is full".into()),
        longest_pause_us: 900,
        ..here(100)
    };
    let each = [(id(0), Ok(told(54, "4-9", Some(at.clone()))))];
    watch.hear(None, &each, seconds(1));
    let shown = watch.progress(seconds(1));
    assert_eq!((shown.rate, shown.lag), (5, 3));
    assert_eq!(shown.blocked, ["node-a: node-c is full"]);
    let at = MoveHere { ended: Some("moved".into()), ..at };
    watch.hear(None, &[(id(0), Ok(told(60, "", Some(at))))], seconds(2));
    let shown = watch.progress(seconds(2));
    assert_eq!((shown.rate, shown.lag, shown.blocked.len()), (0, 0, 0));
    assert_eq!((shown.longest_pause_us, shown.eta_s), (900, None));
}

#[test]
fn several_moves_are_over_when_the_last_is() {
    let ordered = |id: &str, slots: &str| Ordered {
        id: id.into(),
        slots: ranges(slots),
        version: 53,
        ..Ordered::default()
    };
    let mut watch =
        Watch::new(vec![ordered("m1", "0-9"), ordered("m2", "20-24")], PATIENCE, Duration::ZERO);
    assert_eq!(watch.hear(Some(&told(54, "9", None)), &[], seconds(1)).0, Step::UnderWay);
    assert_eq!((watch.gone(), watch.left()), (ranges("0-8,20-24"), ranges("9")));
    let step = watch.hear(Some(&told(55, "", None)), &[], seconds(2)).0;
    assert_eq!(step, Step::Over { version: 55 });
}

#[test]
fn the_whole_time_is_the_nodes_own() {
    let at = |ended: Option<&str>, ended_ms| MoveHere {
        ended: ended.map(str::to_owned),
        begun_ms: 1_000,
        ended_ms,
        ..MoveHere::default()
    };
    let took = |parts: &[MoveHere]| super::took(parts.iter());
    assert_eq!(took(&[]), None);
    let (fast, slow) = (at(Some("moved"), 2_000), at(Some("moved"), 6_000));
    assert_eq!(took(&[fast.clone(), slow]), Some(seconds(5)));
    assert_eq!(took(&[fast.clone(), at(None, 0)]), None);
    assert_eq!(took(&[fast, at(Some("moved"), 0)]), None);
}

#[test]
fn lines_come_at_once_and_then_by_the_clock() {
    let mut every = Every::new(seconds(5));
    let due: Vec<u64> = (0..12).filter(|now| every.is_due(seconds(*now))).collect();
    assert_eq!(due, [0, 5, 10]);
}
