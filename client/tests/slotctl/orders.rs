//! The verbs that change something: what is sent, what is refused before, how each end is told.
//!
//! Not what a server makes of it.

use crate::fake::{Fake, Reaction, id};
use crate::{answer_as, cluster, healthy, slotctl};
use slots::SlotRanges;
use slots::admin::{Done, RefusedSlots, Status};

/// The cluster with slots 0-99 of nobody.
fn with_free_slots() -> Vec<Fake> {
    cluster(|_, line, status| answer_as(line, free(status)))
}

fn free(mut status: Status) -> Status {
    status.nodes[0].slots = "100-5460".into();
    status.unassigned = "0-99".into();
    status
}

/// Node c dead and without a majority's word on it.
fn without_c() -> Vec<Fake> {
    let mut nodes = cluster(|_, line, mut status| {
        status.nodes[2].health = "unreachable".into();
        answer_as(line, status)
    });
    drop(nodes.pop());
    nodes
}

fn no_orders(nodes: &[Fake]) {
    for node in nodes {
        assert_eq!(node.orders(), Vec::<String>::new());
    }
}

#[test]
fn bad_arguments_are_named_and_reach_no_node() {
    let nodes = healthy();
    for (slots, why) in [
        ("16384", "slots '16384' are out of range"),
        ("1300-1200", "slots '1300-1200' are reversed"),
        ("-1", "slots '-1' are malformed"),
        ("1-2-3", "slots '1-2-3' are malformed"),
        ("", "<SLOTS>"),
        ("abc", "slots 'abc' are malformed"),
    ] {
        slotctl(&["assign", slots, "node-a"]).at(&nodes[0]).fails(2, why);
        slotctl(&["move", slots, "node-a"]).at(&nodes[0]).fails(2, why);
    }
    slotctl(&["migrate", "1", "node-a"]).at(&nodes[0]).fails(2, "unrecognized subcommand");
    for node in &nodes {
        assert_eq!(node.asked(), Vec::<String>::new());
    }
}

#[test]
fn nodes_that_cannot_be_told_are_refused_before_any_order() {
    let nodes = healthy();
    let at = |words: &[&str]| slotctl(words).at(&nodes[0]);
    at(&["assign", "1", "node-x"]).fails(2, "node 'node-x' is not known: the cluster has node-a");
    at(&["node", "drain", "0000"]).fails(2, "node '0000' is ambiguous: it could be node-a");
    at(&["node", "drain", ""]).fails(2, "node '' is not known");
    at(&["node", "replace-voter", "node-a", &id(0)]).fails(2, "the same node");
    no_orders(&nodes);
}

#[test]
fn each_order_is_sent_once_with_the_nodes_id() {
    let nodes = with_free_slots();
    let b = id(1);
    let by_address = nodes[1].address();
    for (words, sent) in [
        (vec!["node", "add", "10.0.0.5:7001"], "NODE ADD 10.0.0.5:7001".to_owned()),
        (vec!["node", "add", "10.0.0.5:7001@99"], "NODE ADD 10.0.0.5:7001@99".to_owned()),
        (vec!["node", "rename", "node-b", "x"], format!("NODE RENAME {b} x")),
        (vec!["node", "label", &by_address, "zone", "eu"], format!("NODE LABEL {b} zone eu")),
        (vec!["node", "label", &b, "zone"], format!("NODE LABEL {b} zone")),
        (vec!["node", "drain", "node-b"], format!("NODE DRAIN {b}")),
        (vec!["node", "undrain", "node-b"], format!("NODE UNDRAIN {b}")),
        (vec!["node", "weight", "node-b", "7"], format!("NODE WEIGHT {b} 7")),
        (vec!["node", "replace-voter", "node-b"], format!("NODE REPLACE-VOTER {b}")),
        (vec!["assign", "50-99,0-9", "node-b"], format!("ASSIGN 0-9,50-99 {b} SEEN 52")),
    ] {
        let before = nodes[0].orders().len();
        let ended = slotctl(&words).at(&nodes[0]).end();
        assert_eq!((ended.exit, ended.err.as_str()), (0, ""), "{words:?}");
        assert_eq!(ended.out, "it is done (table version 53)\n");
        assert_eq!(nodes[0].orders()[before..], [format!("SLOTD {sent}")]);
    }
    let ended = slotctl(&["node", "drain", "node-b", "--json"]).at(&nodes[0]).end();
    let done: Done = serde_json::from_str(&ended.out).expect("an end of an order");
    assert_eq!((done.table_version, done.changed), (53, true));
    no_orders(&nodes[1..]);
}

#[test]
fn slots_that_are_there_already_are_nothing_to_do() {
    let nodes = healthy();
    let ended = slotctl(&["assign", "0-5460", "node-a"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0);
    let text = "nothing to do: node-a owns slots 0-5460 (table version 52)\n";
    assert_eq!(ended.out, text);
    let why = "slots 5461 belong to node-b: assign gives only slots that nobody owns";
    slotctl(&["assign", "5460-5461", "node-a"]).at(&nodes[0]).fails(1, why);
    no_orders(&nodes);
}

#[test]
fn the_servers_word_decides_the_exit_code() {
    for (error, exit, why) in [
        ("REFUSED node-b is the last voter; add a node first", 1, "add a node first"),
        ("ERR no such order", 1, "no such order"),
        ("UNKNOWN the time was up", 3, "give the same command again"),
        ("NOQUORUM no majority answers: start them", 3, "node-c at 127.0.0.1"),
        ("CLUSTERDOWN the table is not there", 4, "it is not ready"),
    ] {
        let nodes = cluster(move |_, line, status| match line {
            "SLOTD STATUS" => answer_as(line, status),
            _ => Reaction::Error(error),
        });
        slotctl(&["node", "drain", "node-b"]).at(&nodes[0]).fails(exit, why);
    }
    let refused = vec![RefusedSlots { slots: "5".into(), why: "it has an owner".into() }];
    let done = Done { table_version: 53, changed: true, text: "some".into(), refused };
    let nodes = cluster(move |_, line, status| match line.contains("ASSIGN") {
        true => crate::fake::json(&done),
        false => answer_as(line, free(status)),
    });
    let ended = slotctl(&["assign", "0-99", "node-a"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 1);
    assert!(ended.out.ends_with("slots 5 refused: it has an owner\n"), "{}", ended.out);
}

#[test]
fn a_minority_sends_to_the_majority() {
    let nodes = cluster(|n, line, status| match (n, line.contains("DRAIN")) {
        (0, true) => Reaction::Error("NOQUORUM 1 of 3 voters answers"),
        _ => answer_as(line, status),
    });
    let ended = slotctl(&["node", "drain", "node-c"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(nodes[1].orders().len(), 1);
}

#[test]
fn an_order_whose_node_dies_is_given_again_elsewhere() {
    let nodes = cluster(|n, line, status| match (n, line.contains("DRAIN")) {
        (0, true) => Reaction::Close,
        _ => answer_as(line, status),
    });
    let ended = slotctl(&["node", "drain", "node-c"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.err.contains("asking node-b"), "{}", ended.err);
    let nodes = cluster(|_, line, status| match line.contains("DRAIN") {
        true => Reaction::Close,
        false => answer_as(line, status),
    });
    let why = "it is not known whether it was done: give the same command again";
    slotctl(&["node", "drain", "node-c"]).at(&nodes[0]).fails(3, why);
}

#[test]
fn an_order_without_an_answer_in_time_is_unfinished() {
    let nodes = cluster(|_, line, status| match line.contains("DRAIN") {
        true => Reaction::Hang,
        false => answer_as(line, status),
    });
    let words = ["node", "drain", "node-c", "--timeout", "300ms"];
    slotctl(&words).at(&nodes[0]).fails(3, "no answer within 0.3 s");
    no_orders(&nodes[1..]);
}

#[test]
fn after_a_lost_answer_assign_looks_before_it_sends_again() {
    // Node a carried it out and died: node b knows that the slots are given.
    let nodes = cluster(|n, line, status| match (n, line.contains("ASSIGN")) {
        (0, true) => Reaction::Close,
        (0, false) => answer_as(line, free(status)),
        _ => answer_as(line, status),
    });
    let ended = slotctl(&["assign", "0-99", "node-a"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(ended.out, "node-a owns slots 0-99 (table version 52)\n");
    assert!(ended.err.contains("looking again"), "{}", ended.err);
    no_orders(&nodes[1..]);
    // It died before: node b still has them without an owner.
    let nodes = cluster(|n, line, status| match (n, line.contains("ASSIGN")) {
        (0, true) => Reaction::Close,
        _ => answer_as(line, free(status)),
    });
    let ended = slotctl(&["assign", "0-99", "node-a"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(nodes[1].orders().len(), 1);
}

#[test]
fn without_a_terminal_nothing_is_asked_and_nothing_done() {
    let nodes = cluster(|_, line, mut status| {
        status.nodes[2].slots = String::new();
        status.nodes[2].slot_count = 0;
        answer_as(line, status)
    });
    let remove = ["node", "remove", "node-c"];
    let ended = slotctl(&remove).at(&nodes[0]).end();
    assert_eq!((ended.exit, ended.out.as_str()), (1, ""));
    assert!(ended.err.contains("It has a vote: the vote moves"), "{}", ended.err);
    assert!(ended.err.contains("there is no terminal: pass --yes"), "{}", ended.err);
    let ended = slotctl(&[&remove[..], &["--json"]].concat()).at(&nodes[0]).end();
    assert_eq!((ended.exit, ended.err.as_str()), (1, ""));
    no_orders(&nodes);
    assert_eq!(slotctl(&[&remove[..], &["--yes"]].concat()).at(&nodes[0]).end().exit, 0);
    assert_eq!(nodes[0].orders(), [format!("SLOTD NODE REMOVE {}", id(2))]);
    // Removed already: a whole id is passed on, for the cluster to judge.
    let gone = "9".repeat(40);
    assert_eq!(slotctl(&["node", "remove", &gone, "-y"]).at(&nodes[0]).end().exit, 0);
    slotctl(&["node", "remove", "node-x", "-y"]).at(&nodes[0]).fails(2, "'node-x' is not known");
}

#[test]
fn a_loss_is_typed_not_waved_through() {
    let nodes = without_c();
    let lost = |more: &[&str]| slotctl(&[&["node", "lost", "node-c"], more].concat()).at(&nodes[0]);
    lost(&["--yes"]).fails(1, "give their keys up with --accept-loss");
    lost(&["--accept-loss", "--yes"]).fails(1, "pass --confirm node-c; nothing was changed");
    lost(&["--accept-loss", "--confirm", "node-b"]).fails(1, "expected node-c");
    no_orders(&nodes);
    let ended = lost(&["--accept-loss", "--confirm", "node-c"]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.err.contains("THE KEYS OF 5461 slots (10923-16383) ARE LOST"));
    assert_eq!(nodes[0].orders(), [format!("SLOTD NODE LOST {} ACCEPT-LOSS", id(2))]);
    let all = healthy();
    let words = ["node", "lost", "node-c", "--accept-loss", "--confirm", "node-c"];
    slotctl(&words).at(&all[0]).fails(1, "it is not lost");
    no_orders(&all);
}

#[test]
fn consent_to_a_loss_is_not_sent_where_none_was_shown() {
    let mut nodes = cluster(|_, line, mut status| match line {
        "SLOTD SLOTS" => {
            let mut rows = crate::fake::rows();
            rows[2].in_sync.push("node-a".into());
            crate::fake::json(&rows)
        }
        _ => {
            status.nodes[2].health = "unreachable".into();
            answer_as(line, status)
        }
    });
    drop(nodes.pop());
    let words = ["node", "lost", "node-c", "--accept-loss", "--yes"];
    assert_eq!(slotctl(&words).at(&nodes[0]).end().exit, 0);
    assert_eq!(nodes[0].orders(), [format!("SLOTD NODE LOST {}", id(2))]);
}

#[test]
fn recovery_begins_at_the_named_node_only() {
    let nodes = cluster(|n, line, mut status| {
        status.has_quorum = false;
        status.table_version -= n as u64;
        answer_as(line, status)
    });
    let cluster_id = "c".repeat(40);
    let (a, b) = (nodes[0].address(), nodes[1].address());
    slotctl(&["recover"]).fails(2, "name one by --server");
    slotctl(&["--server", &format!("{a},{b}"), "recover"]).fails(2, "name one by --server");
    slotctl(&["--server", &b, "recover", "-y"]).fails(1, "node-a knows more");
    slotctl(&["--server", &a, "recover", "-y"]).fails(1, &format!("--confirm {cluster_id}"));
    no_orders(&nodes);
    let ended = slotctl(&["--server", &a, "recover", "--confirm", &cluster_id]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(nodes[0].orders(), [format!("SLOTD RECOVER {cluster_id}")]);
    no_orders(&nodes[1..]);
    let well = healthy();
    slotctl(&["recover", "--confirm", &cluster_id]).at(&well[0]).fails(1, "nothing to recover");
    no_orders(&well);
}

#[test]
fn recovery_does_not_wander_when_its_node_dies() {
    let nodes = cluster(|_, line, mut status| {
        status.has_quorum = false;
        if line.contains("RECOVER") { Reaction::Close } else { answer_as(line, status) }
    });
    let cluster_id = "c".repeat(40);
    let words = ["recover", "--confirm", &cluster_id];
    slotctl(&words).at(&nodes[0]).fails(3, "it is not known whether it was done");
    no_orders(&nodes[1..]);
}

#[test]
fn a_long_set_of_slots_arrives_whole() {
    let nodes = cluster(|_, line, mut status| {
        status.nodes.iter_mut().for_each(|node| node.slots.clear());
        status.unassigned = "0-16383".into();
        answer_as(line, status)
    });
    let every_other: SlotRanges = (0..16384).step_by(2).filter_map(slots::SlotId::new).collect();
    let text = every_other.to_string();
    let ended = slotctl(&["assign", &text, "node-a"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(nodes[0].orders(), [format!("SLOTD ASSIGN {text} {} SEEN 52", id(0))]);
}
