//! The verbs that move slots, as their users see them: what is ordered, what is told, each end.
//!
//! Against nodes on a stage (`stage.rs`). Invariant: a run ends with 0 only after every node that
//! answers has the table in which the last slot went over.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fake::{Fake, Reaction, id};
use crate::slotctl;
use crate::stage::{MOVE, Stage, State, slots};

const MOVE_FOUR: [&str; 4] = ["move", "100-103", "node-c", "--yes"];

fn orders(nodes: &[Fake]) -> Vec<String> {
    let orders = nodes.iter().flat_map(Fake::orders);
    orders.filter(|line| !line.contains("BACKUP")).collect()
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).expect("an event a line")).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap_or("none")).collect()
}

#[test]
fn a_move_is_shown_ordered_and_watched_to_its_end() {
    let stage = Stage::new();
    let nodes = stage.play();
    let ended = slotctl(&MOVE_FOUR).at(&nodes[1]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines[0], "  4 slots (100-103) to node-c:");
    assert_eq!(lines[1], "    from node-a: 4 slots (100-103), 40 keys, 400 bytes");
    assert_eq!(lines[2], format!("slotctl: move {MOVE}: 4 slots (100-103) to node-c"));
    assert!(lines[3].starts_with("slotctl: 2 of 4 slots, 20 of 40 keys, "), "{}", ended.err);
    assert_eq!(lines.len(), 4, "{}", ended.err);
    let out: Vec<&str> = ended.out.lines().collect();
    assert_eq!(out[0], "4 slots (100-103) moved to node-c");
    assert!(out[1].starts_with("40 keys, 400 bytes, "), "{}", ended.out);
    assert!(out[1].ends_with("; longest pause of writes 1.5 ms"), "{}", ended.out);
    assert_eq!(out[2..], ["table version 55 on 3 nodes"]);
    assert_eq!(orders(&nodes), [format!("SLOTD MOVE 100-103 {}", id(2))]);
}

#[test]
fn a_program_gets_an_event_a_line() {
    let nodes = Stage::new().play();
    let ended = slotctl(&[&MOVE_FOUR[..], &["--json"]].concat()).at(&nodes[1]).end();
    assert_eq!((ended.exit, ended.err.as_str()), (0, ""));
    let events = events(&ended.out);
    assert_eq!(names(&events), ["plan", "begun", "progress", "ended"]);
    assert_eq!(
        (&events[0]["keys"], &events[0]["sources"][0]["name"]),
        (&40.into(), &"node-a".into())
    );
    assert_eq!((&events[1]["id"], &events[1]["slots"]), (&MOVE.into(), &"100-103".into()));
    assert_eq!((&events[2]["slots_moved"], &events[2]["rate"]), (&2.into(), &100.into()));
    let last = &events[3];
    assert_eq!(
        (&last["outcome"], &last["moves"][0]["moved"]),
        (&"moved".into(), &"100-103".into())
    );
    assert_eq!((&last["longest_pause_us"], &last["table_version"]), (&1500.into(), &55.into()));
}

#[test]
fn it_returns_when_the_last_node_has_the_table() {
    let late = |n: usize, line: &str, state: &mut State| {
        if (n, line) != (1, "SLOTD STATUS") || state.asked_b >= 6 {
            return None;
        }
        let version = state.version;
        state.version = version.min(53);
        let status =
            state.status(crate::fake::status(1, &["h:1".into(), "h:1".into(), "h:1".into()]));
        (state.version, state.asked_b) = (version, state.asked_b + 1);
        Some(crate::fake::json(&status))
    };
    let stage = Stage::new();
    let nodes = stage.nodes(late);
    let ended = slotctl(&MOVE_FOUR).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(stage.state().asked_b > 6, "node-b had an old table when it returned");
    assert!(ended.out.ends_with("table version 55 on 3 nodes\n"), "{}", ended.out);
    // It never gets it.
    let never = move |n: usize, line: &str, state: &mut State| {
        state.asked_b = 0;
        late(n, line, state)
    };
    let nodes = Stage::new().nodes(never);
    let ended = slotctl(&[&MOVE_FOUR[..], &["--timeout", "800ms"]].concat()).at(&nodes[0]).end();
    assert_eq!(ended.exit, 3, "{}", ended.err);
    assert!(ended.out.contains("table version 55 on 2 nodes\nnode-b has table version 53 only"));
}

#[test]
fn a_node_that_cannot_be_reached_is_named() {
    let stage = Stage::new();
    let mut nodes = stage.play();
    drop(nodes.remove(1));
    let ended = slotctl(&[&MOVE_FOUR[..], &["--timeout", "500ms"]].concat()).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    let end = "table version 55 on 2 nodes\nnode-b could not be reached: connection refused\n";
    assert!(ended.out.ends_with(end), "{}", ended.out);
}

#[test]
fn a_source_that_dies_is_no_end_without_a_word() {
    let dies = |n: usize, line: &str, state: &mut State| {
        let is_second = state.orders.first().is_some_and(|order| order.left.count() == 2);
        if n == 0 && line.starts_with("SLOTD MOVES") && is_second {
            state.dead.push(0);
            return Some(Reaction::Close);
        }
        None
    };
    let nodes = Stage::new().nodes(dies);
    let ended = slotctl(&[&MOVE_FOUR[..], &["--timeout", "700ms"]].concat()).at(&nodes[0]).end();
    assert_eq!((ended.exit, ended.out.as_str()), (3, ""), "{}", ended.err);
    assert!(ended.err.contains("\nslotctl: node-a gives no answer: "), "{}", ended.err);
    let last = ended.err.lines().last().expect("a line");
    assert!(last.starts_with("slotctl: node-a gives no answer for 1 s: "), "{last}");
    let how_far =
        "2 of 4 slots moved (100-101), 2 not yet (102-103); the rest goes over when it is";
    assert!(last.contains(how_far), "{last}");
    let ways =
        format!("`slotctl moves {MOVE} --follow` watches it, `slotctl cancel {MOVE}` ends it");
    assert!(last.ends_with(&ways), "{last}");
}

#[test]
fn the_node_that_was_asked_first_may_die() {
    let dies = |n: usize, line: &str, state: &mut State| {
        if n == 1 && line.starts_with("SLOTD MOVES") && !state.orders.is_empty() {
            state.dead.push(1);
        }
        (n == 1 && state.dead.contains(&1)).then_some(Reaction::Close)
    };
    let nodes = Stage::new().nodes(dies);
    let ended = slotctl(&[&MOVE_FOUR[..], &["--timeout", "700ms"]].concat()).at(&nodes[1]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.err.contains("asking node-"), "{}", ended.err);
    assert!(ended.out.contains("node-b could not be reached"), "{}", ended.out);
}

#[test]
fn what_cannot_be_is_refused_before_any_order() {
    let stage = Stage::new();
    stage.state().owned[1] = slots("5471-10922");
    let nodes = stage.play();
    let at = |words: &[&str]| slotctl(words).at(&nodes[0]);
    at(&["move", "5460-5480", "node-c"]).fails(1, "nobody owns slots 5461-5470: `slotctl assign");
    at(&["move", "1", "node-x", "--yes"]).fails(2, "node 'node-x' is not known: the cluster has");
    at(&["move", "1", "node-c"]).fails(1, "move asks before it acts and there is no terminal");
    let ended = at(&["move", "10923-10930", "node-c"]).end();
    assert_eq!((ended.exit, ended.err.as_str()), (0, ""));
    assert_eq!(ended.out, "nothing to do: node-c owns slots 10923-10930 (table version 52)\n");
    let ended = at(&["move", "10923", "node-c", "--json"]).end();
    assert_eq!(events(&ended.out)[0]["outcome"], "nothing");
    assert_eq!(orders(&nodes), Vec::<String>::new());
    stage.state().draining = Some(2);
    at(&["move", "1", "node-c", "--yes"]).fails(1, "`slotctl node undrain node-c` first");
    assert_eq!(orders(&nodes), Vec::<String>::new());
}

#[test]
fn two_moves_of_one_slot_are_refused_by_the_first_ones_name() {
    let stage = Stage::new();
    stage.state().pace = 0;
    stage.state().begin("103", &id(1));
    let nodes = stage.play();
    slotctl(&["move", "103", "node-c", "--yes"])
        .at(&nodes[0])
        .fails(1, &format!("slots 103: they are under move {MOVE}"));
    let refused = |_: usize, line: &str, _: &mut State| {
        let error = Reaction::Error("REFUSED slots 103 are under move 77: cancel it first");
        line.starts_with("SLOTD MOVE ").then_some(error)
    };
    slotctl(&MOVE_FOUR).at(&Stage::new().nodes(refused)[0]).fails(1, "under move 77: cancel it");
    // Some are taken into it: they are moved, and the others said.
    let only_ours = |n: usize, line: &str, state: &mut State| {
        state.pace = usize::from(n == 0 && line == "SLOTD MOVES" && state.orders.len() > 2) * 9;
        None
    };
    let nodes = stage.nodes(only_ours);
    let ended = slotctl(&MOVE_FOUR).at(&nodes[0]).end();
    assert_eq!(ended.exit, 1, "{}", ended.err);
    assert!(ended.out.starts_with("3 slots (100-102) moved to node-c\n"), "{}", ended.out);
    let refused = format!("slots 103 refused: they are under move {MOVE}\n");
    assert!(ended.out.contains(&refused), "{}", ended.out);
}

#[test]
fn after_a_lost_answer_a_move_is_looked_for_before_it_is_sent_again() {
    // Node a carried it out and its answer got lost.
    let carried_out = |n: usize, line: &str, state: &mut State| {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["SLOTD", "MOVE", wanted, to] if n == 0 => {
                state.begin(wanted, to);
                Some(Reaction::Close)
            }
            _ => None,
        }
    };
    let stage = Stage::new();
    stage.state().pace = 1;
    let nodes = stage.nodes(carried_out);
    let ended = slotctl(&MOVE_FOUR).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.err.contains("looking again"), "{}", ended.err);
    assert_eq!(orders(&nodes).len(), 1);
    assert!(ended.out.contains("moved to node-c"), "{}", ended.out);
    // It was not.
    let nodes = Stage::new().nodes(|n: usize, line: &str, _: &mut State| {
        (n == 0 && line.starts_with("SLOTD MOVE ")).then_some(Reaction::Close)
    });
    let ended = slotctl(&MOVE_FOUR).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(nodes[1].orders().iter().filter(|line| line.contains("MOVE ")).count(), 1);
}

/// Ends the move so when half of it is over.
fn ends(how: &'static str) -> impl Fn(usize, &str, &mut State) -> Option<Reaction> + Clone {
    move |n, line, state| {
        let is_half = state.orders.first().is_some_and(|order| order.left.count() == 2);
        if n == 0 && line.starts_with("SLOTD MOVES") && is_half {
            state.end(MOVE, how);
        }
        None
    }
}

#[test]
fn a_move_that_is_cancelled_meanwhile_says_by_whom() {
    let stage = Stage::new();
    let aborted = slots::admin::HistoryRecord {
        change: "AbortMove".into(),
        node: "node-b".into(),
        actor: "ops@10.0.0.9:52114".into(),
        detail: format!("{MOVE}: 102-103"),
        ..Default::default()
    };
    let nodes = stage.nodes(move |n, line, state| {
        if line.starts_with("SLOTD HISTORY") {
            return Some(crate::fake::json(&std::slice::from_ref(&aborted)));
        }
        ends("cancelled")(n, line, state)
    });
    let ended = slotctl(&MOVE_FOUR).at(&nodes[1]).end();
    assert_eq!(ended.exit, 1, "{}", ended.err);
    let text = format!(
        "move {MOVE} was cancelled by ops@10.0.0.9:52114 at node-b: 2 of 4 slots moved to \
         node-c\nslots 102-103 are with node-a\n"
    );
    assert!(ended.out.starts_with(&text), "{}", ended.out);
}

#[test]
fn slots_that_are_lost_on_the_way_are_no_success() {
    for how in ["lost", "moved"] {
        let nodes = Stage::new().nodes(ends(how));
        let ended = slotctl(&MOVE_FOUR).at(&nodes[1]).end();
        assert_eq!(ended.exit, 3, "{how}: {}", ended.out);
        let text = "is over before its end: 2 of 4 slots moved to node-c\nslots 102-103 are with";
        assert!(ended.out.contains(text), "{how}: {}", ended.out);
        assert!(ended.out.contains("give the same command again"), "{how}: {}", ended.out);
    }
}

#[test]
fn who_detaches_is_told_how_to_watch() {
    let nodes = Stage::new().play();
    let words = [&MOVE_FOUR[..], &["--detach", "--allow-weaker"]].concat();
    let ended = slotctl(&words).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    let text = format!(
        "move {MOVE}: 4 slots (100-103) to node-c\n`slotctl moves` lists it, `slotctl moves {MOVE} \
         --follow` watches it, `slotctl cancel {MOVE}` ends it\n"
    );
    assert_eq!(ended.out, text);
    assert_eq!(orders(&nodes), [format!("SLOTD MOVE 100-103 {} ALLOW-WEAKER", id(2))]);
    let ended = slotctl(&["move", "9", "node-c", "-y", "--detach", "--json"]).at(&nodes[0]).end();
    assert_eq!(names(&events(&ended.out)), ["plan", "begun"]);
}

/// Its exit code; one that does not end in time is killed.
fn exit_within(child: &mut Child, time: Duration) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < time {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it is ours");
    child.wait().expect("it was killed").code()
}

#[test]
fn ctrl_c_ends_the_watching_and_not_the_move() {
    let stage = Stage::new();
    stage.state().pace = 0;
    let nodes = stage.play();
    for signal in ["-INT", "-TERM"] {
        let mut run = slotctl(&MOVE_FOUR).at(&nodes[0]).command();
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().expect("it runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut next = || lines.next().expect("a line").expect("text");
        while !next().contains("0 of ") {}
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("it runs").success());
        assert_eq!(exit_within(&mut child, Duration::from_secs(20)), Some(3));
        let last = next();
        assert!(
            last.starts_with("slotctl: interrupted: no slot moved yet, 4 (100-103) to go; move")
        );
        let id = &stage.state().orders.last().expect("an order").id.clone();
        assert!(last.contains(&format!("move {id} goes on: `slotctl moves`")), "{last}");
        assert!(last.contains(&format!("`slotctl cancel {id}` ends it")), "{last}");
        stage.state().orders.clear();
    }
    assert_eq!(orders(&nodes).len(), 2, "nothing was cancelled");
}

#[test]
fn the_same_command_again_watches_what_is_under_way() {
    let stage = Stage::new();
    stage.state().pace = 0;
    let nodes = stage.play();
    assert_eq!(slotctl(&[&MOVE_FOUR[..], &["--detach"]].concat()).at(&nodes[0]).end().exit, 0);
    let again = slotctl(&["move", "100-103", "node-c", "--detach"]).at(&nodes[0]).end();
    assert_eq!(again.exit, 0, "nothing is asked where nothing is ordered: {}", again.err);
    assert!(again.out.contains("to node-c (under way already)\n"), "{}", again.out);
    stage.state().pace = 2;
    // One more slot than before: only that is ordered.
    let ended = slotctl(&["move", "100-104", "node-c", "--yes"]).at(&nodes[1]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    let text = format!("on the way to node-c already: move {MOVE}.\n");
    assert!(ended.err.contains(&text), "{}", ended.err);
    let sent = ["100-103", "104"].map(|slots| format!("SLOTD MOVE {slots} {}", id(2)));
    assert_eq!(orders(&nodes), sent);
    assert!(ended.out.contains("1 slot (104) moved to node-c\n"), "{}", ended.out);
}

#[test]
fn moves_are_listed_and_followed() {
    let stage = Stage::new();
    stage.state().pace = 0;
    let nodes = stage.play();
    let at = |words: &[&str]| slotctl(words).at(&nodes[1]);
    assert_eq!(at(&["moves"]).end().out, "no slots move\n");
    assert_eq!(at(&["moves", "--follow"]).end().out, "no slots move\n");
    stage.state().begin("100-103", &id(2));
    let ended = at(&["moves"]).end();
    let row = format!("{MOVE}  node-c  4     100-103  node-a  waiting  0/40  ");
    assert!(ended.out.contains(&row), "{}", ended.out);
    let ended = at(&["moves", "5f1c", "--json"]).end();
    assert_eq!(events(&ended.out)[0][0]["here"][0]["name"], "node-a");
    at(&["moves", "abcd"]).fails(
        2,
        &format!("move 'abcd' is not under way and did not end lately: known are {MOVE}"),
    );
    stage.state().pace = 2;
    let ended = at(&["moves", "5f1c8", "--follow"]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.out.contains("moved to node-c\n"), "{}", ended.out);
    let ended = at(&["moves", MOVE]).end();
    assert!(ended.out.contains("  node-a  moved  "), "{}", ended.out);
    assert_eq!(orders(&nodes), Vec::<String>::new());
}

#[test]
fn a_cancel_says_what_stays_where() {
    let stage = Stage::new();
    stage.state().pace = 0;
    stage.state().begin("100-103", &id(2));
    let nodes = stage.play();
    let at = |words: &[&str]| slotctl(words).at(&nodes[0]);
    at(&["cancel", "5f1c"]).fails(1, "cancel asks before it acts and there is no terminal");
    at(&["cancel", "abcd", "-y"]).fails(2, "move 'abcd' is not under way");
    assert_eq!(orders(&nodes), Vec::<String>::new());
    let ended = at(&["cancel", "5f1c", "--yes"]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(ended.out, format!("move {MOVE} ended (table version 54)\n"));
    assert!(ended.err.contains("\n    4 slots (100-103) stay with node-a.\n"), "{}", ended.err);
    assert!(ended.err.contains(&format!("`slotctl undo {MOVE}` moves them back")));
    assert_eq!(orders(&nodes), [format!("SLOTD CANCEL {MOVE}")]);
    let ended = at(&["cancel", MOVE, "--yes"]).end();
    let text = format!("nothing to do: move {MOVE} is over (table version 54)\n");
    assert_eq!((ended.exit, ended.out), (0, text));
}

#[test]
fn a_lost_answer_to_a_cancel_is_looked_after() {
    let stage = Stage::new();
    stage.state().pace = 0;
    stage.state().begin("100-103", &id(2));
    let nodes = stage.nodes(|n: usize, line: &str, state: &mut State| {
        let is_it = n == 0 && line.starts_with("SLOTD CANCEL");
        is_it.then(|| {
            state.end(MOVE, "cancelled");
            Reaction::Close
        })
    });
    let ended = slotctl(&["cancel", MOVE, "--yes"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(ended.out, format!("move {MOVE} is over (table version 54)\n"));
    assert_eq!(orders(&nodes).len(), 1);
}

#[test]
fn a_drained_node_gives_its_slots_to_the_others() {
    let stage = Stage::new();
    stage.state().owned = [slots("0-5"), slots("6-9"), slots("10-17")];
    let nodes = stage.play();
    let drain = |more: &[&str]| slotctl(&[&["drain", "node-c"], more].concat()).at(&nodes[0]);
    drain(&[]).fails(1, "drain asks before it acts and there is no terminal: pass --yes");
    assert_eq!(orders(&nodes), Vec::<String>::new());
    let ended = drain(&["--yes"]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(
        ended
            .err
            .starts_with("  node-c gets nothing new from now on.\n  3 slots (10-12) to node-a:")
    );
    let sent = [
        format!("SLOTD NODE DRAIN {}", id(2)),
        format!("SLOTD MOVE 10-12 {}", id(0)),
        format!("SLOTD MOVE 13-17 {}", id(1)),
    ];
    assert_eq!(orders(&nodes), sent);
    let text = "3 slots (10-12) moved to node-a\n5 slots (13-17) moved to node-b\n80 keys, ";
    assert!(ended.out.starts_with(text), "{}", ended.out);
    assert!(ended.out.ends_with("`slotctl node remove node-c` lets it go\n"), "{}", ended.out);
    let ended = drain(&[]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.out.starts_with("nothing to do: node-c is draining and owns no slots;"));
}

#[test]
fn a_drain_that_was_left_goes_on_with_its_moves() {
    let stage = Stage::new();
    stage.state().owned = [slots("0-5"), slots("6-9"), slots("10-17")];
    stage.state().pace = 0;
    let nodes = stage.play();
    let drain =
        |more: &[&str]| slotctl(&[&["drain", "node-c", "--yes"], more].concat()).at(&nodes[0]);
    assert_eq!(drain(&["--detach"]).end().exit, 0);
    let before = orders(&nodes).len();
    stage.state().pace = 2;
    let ended = drain(&[]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.err.contains("on the way to node-a already: move"), "{}", ended.err);
    assert_eq!(orders(&nodes).len(), before);
    assert!(stage.state().owned[2].is_empty());
}

#[test]
fn an_undone_move_goes_back_to_where_it_came_from() {
    let stage = Stage::new();
    let nodes = stage.play();
    assert_eq!(slotctl(&MOVE_FOUR).at(&nodes[0]).end().exit, 0);
    let undo = |more: &[&str]| slotctl(&[&["undo", MOVE], more].concat()).at(&nodes[0]);
    undo(&["--yes"]).fails(1, &format!("the beginning of move {MOVE} is no longer in the history"));
    stage.state().history.push(slots::admin::HistoryRecord {
        change: "BeginMove".into(),
        detail: format!("{MOVE}: 100-103 to {}", id(2)),
        ..Default::default()
    });
    undo(&[]).fails(1, "undo asks before it acts and there is no terminal");
    let ended = undo(&["--yes"]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.out.starts_with("4 slots (100-103) moved to node-a\n"), "{}", ended.out);
    assert_eq!(orders(&nodes)[1..], [format!("SLOTD MOVE 100-103 {}", id(0))]);
    let ended = undo(&["--yes"]).end();
    let text = "can go back. slots 100-103 are no longer node-c's: left alone.";
    assert!(ended.exit == 0 && ended.out.contains(text), "{}", ended.out);
    slotctl(&["undo", "5f1c8a2e"]).at(&nodes[0]).fails(2, "is ambiguous: it could be");
    slotctl(&["undo", "abcd"]).at(&nodes[0]).fails(1, "no move 'abcd' in the newest changes");
}

#[test]
fn a_move_under_way_is_not_undone() {
    let stage = Stage::new();
    stage.state().pace = 0;
    stage.state().begin("100-103", &id(2));
    let nodes = stage.play();
    let why = format!("move {MOVE} is under way, slots 100-103 are to go: `slotctl cancel");
    slotctl(&["undo", "5f1c8a2e", "--yes"]).at(&nodes[0]).fails(1, &why);
}
