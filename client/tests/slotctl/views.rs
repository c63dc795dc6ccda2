//! The verbs that look, finding the cluster, and the form of output and errors.
//!
//! Not what the texts say in full: golden texts beside the code hold that.

use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::fake::{Fake, Reaction, json};
use crate::{answer, answer_as, cluster, healthy, nobody, slotctl};

fn value(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).expect("one JSON value")
}

#[test]
fn the_environment_and_the_flag_say_where_the_cluster_is() {
    let nodes = healthy();
    let ended = slotctl(&["status"]).at(&nodes[1]).end();
    assert_eq!((ended.exit, ended.err.as_str()), (0, ""));
    assert!(ended.out.ends_with("\nhealthy\n"), "{}", ended.out);
    assert!(ended.out.contains("table version 52 on 3 nodes"), "{}", ended.out);
    let flag = nodes[0].address();
    let ended = slotctl(&["--server", &flag, "status"]).with("SLOTCTL_SERVER", nobody()).end();
    assert_eq!((ended.exit, ended.err.as_str()), (0, ""));
}

#[test]
fn without_a_word_the_usual_places_are_tried_and_named() {
    // Other servers may hold these ports on the machine of the test.
    let (first, second) =
        (TcpListener::bind("127.0.0.1:7001"), TcpListener::bind("127.0.0.1:6379"));
    let (Ok(first), Ok(second)) = (first, second) else {
        let ended = slotctl(&["status", "--timeout", "2s"]).end();
        assert!(ended.err.contains("127.0.0.1:7001") || ended.err.contains("127.0.0.1:6379"));
        return;
    };
    let stranger = Fake::on(first, |_| Reaction::Error("ERR unknown command 'SLOTD'"));
    let node = Fake::on(second, |line| answer(line, 0, &["127.0.0.1:6379".into()]));
    let ended = slotctl(&["status"]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    let lines: Vec<&str> = ended.err.lines().collect();
    assert!(lines[0].starts_with("slotctl: 127.0.0.1:7001: it is no slotd"), "{}", ended.err);
    assert_eq!(lines[1], "slotctl: no --server given: asking 127.0.0.1:6379");
    assert!(!stranger.asked().is_empty() && !node.asked().is_empty());
    drop(node);
    slotctl(&["status"]).fails(4, "127.0.0.1:6379: connection refused; say where the cluster is");
}

#[test]
fn a_dead_node_named_first_is_passed_over_and_said() {
    let nodes = healthy();
    let dead = nobody();
    let both = format!("{dead},{}", nodes[2].address());
    let ended = slotctl(&["--server", &both, "slots"]).end();
    assert_eq!(ended.exit, 0);
    let notice = format!("slotctl: {dead}: connection refused; asking {}\n", nodes[2].address());
    assert_eq!(ended.err, notice);
}

#[test]
fn a_node_that_dies_in_the_middle_is_replaced_by_one_it_named() {
    let nodes = cluster(|n, line, status| match (n, line) {
        (0, "SLOTD SLOTS") => Reaction::Close,
        _ => answer_as(line, status),
    });
    let ended = slotctl(&["slots"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.err.contains("node-a at") && ended.err.contains("asking node-b at"));
    assert_eq!(nodes[1].asked(), ["SLOTD SLOTS"]);
}

#[test]
fn a_node_that_hangs_is_given_up_after_the_timeout() {
    let nodes = cluster(|n, line, status| match (n, line) {
        (0, "SLOTD SLOTS") => Reaction::Hang,
        _ => answer_as(line, status),
    });
    let ended = slotctl(&["slots", "--timeout", "300ms"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.err.contains("no answer within 0.3 s; asking node-b"), "{}", ended.err);
}

#[test]
fn nobody_there_is_exit_4() {
    slotctl(&["status"]).with("SLOTCTL_SERVER", nobody()).fails(4, "connection refused");
    let http = Fake::start(|_| Reaction::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    slotctl(&["status"]).at(&http).fails(4, "not of the Redis protocol");
    let other = Fake::start(|_| Reaction::Raw(b"$2\r\n[]\r\n"));
    slotctl(&["status"]).at(&other).fails(4, "not understood");
    let empty = Fake::start(|_| Reaction::Raw(b"$2\r\n{}\r\n"));
    slotctl(&["status"]).at(&empty).fails(4, "no id of a node");
    let array = Fake::start(|_| Reaction::Raw(b"*1\r\n+OK\r\n"));
    slotctl(&["status"]).at(&array).fails(4, "expected text, got an array");
    let starting = Fake::start(|_| Reaction::Error("LOADING the table is not there yet"));
    slotctl(&["status"]).at(&starting).fails(4, "it is not ready");
}

#[test]
fn a_login_is_sent_and_its_refusal_said() {
    let node = Fake::start(|line| match line {
        "AUTH ops secret" | "AUTH secret" => Reaction::Raw(b"+OK\r\n"),
        _ if line.starts_with("AUTH") => Reaction::Error("WRONGPASS invalid pair"),
        _ => answer(line, 0, &["127.0.0.1:1".into()]),
    });
    let asked = |words: &[&str], password: &str| {
        slotctl(words).at(&node).with("SLOTCTL_PASSWORD", password)
    };
    assert_eq!(asked(&["slots"], "secret").end().exit, 0);
    assert_eq!(asked(&["--user", "ops", "slots"], "secret").end().exit, 0);
    asked(&["slots"], "wrong").fails(1, "invalid pair (give --password-file");
    asked(&["--user", "ops", "slots"], "").fails(2, "--user ops needs a password");
    let file = std::env::temp_dir().join(format!("slotctl-password-{}", std::process::id()));
    std::fs::write(&file, "secret\nmore\n").expect("a file");
    let path = file.to_str().expect("text");
    assert_eq!(asked(&["slots", "--password-file", path], "wrong").end().exit, 0);
    std::fs::remove_file(&file).expect("it is there");
    asked(&["slots", "--password-file", path], "secret").fails(2, "--password-file");
    let closed = Fake::start(|_| Reaction::Error("NOAUTH Authentication required."));
    slotctl(&["slots"]).at(&closed).fails(1, "Authentication required.");
}

#[test]
fn a_silent_node_is_shown_and_fails_the_check() {
    let mut nodes = healthy();
    let dead = nodes.remove(2);
    let address = dead.address();
    drop(dead);
    let ended = slotctl(&["status"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0);
    let problem = format!("node-c does not answer at {address}: connection refused");
    assert!(ended.out.contains(&problem), "{}", ended.out);
    assert!(ended.out.contains("3 voters, 2 reachable: changes possible; one more"));
    assert_eq!(slotctl(&["status", "--check"]).at(&nodes[0]).end().exit, 5);
    let ended = slotctl(&["status", "--check", "--json"]).at(&nodes[0]).end();
    let status = value(&ended.out);
    assert_eq!((ended.exit, &status["healthy"]), (5, &Value::Bool(false)));
    assert_eq!(status["nodes"][2]["error"], "connection refused");
    assert_eq!(status["quorum"]["reachable"], 2);
    assert_eq!(status["status"]["table_version"], 52);
}

#[test]
fn a_node_that_hangs_does_not_hold_up_the_others() {
    let nodes = cluster(|n, line, status| match n {
        0 => answer_as(line, status),
        _ => Reaction::Hang,
    });
    let ended = slotctl(&["status", "--timeout", "500ms"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0);
    assert_eq!(ended.out.matches("no answer within 0.5 s").count(), 2, "{}", ended.out);
}

#[test]
fn tables_apart_fail_the_check_only_when_it_lasts() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let catches_up = cluster(move |n, line, mut status| {
        if n == 1 && asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2 {
            status.table_version = 50;
        }
        answer_as(line, status)
    });
    assert_eq!(slotctl(&["status", "--check"]).at(&catches_up[0]).end().exit, 0);
    let behind = cluster(|n, line, mut status| {
        status.table_version -= (n == 1) as u64;
        answer_as(line, status)
    });
    let words = ["status", "--check", "--lag", "300ms"];
    let ended = slotctl(&words).at(&behind[1]).end();
    assert_eq!(ended.exit, 5);
    assert!(ended.out.contains("the newest version is 52, node-b has 51, for over 0.3 s"));
    assert_eq!(slotctl(&["status"]).at(&behind[0]).end().exit, 0);
}

#[test]
fn waiting_ends_with_health_or_with_the_time() {
    let nodes = healthy();
    let ended = slotctl(&["wait-healthy"]).at(&nodes[0]).end();
    assert_eq!((ended.exit, ended.out.as_str()), (0, "healthy: 3 nodes, table version 52\n"));
    let wait = ["wait-healthy", "--nodes", "4", "--timeout", "400ms"];
    let ended = slotctl(&wait).at(&nodes[0]).end();
    assert_eq!(ended.exit, 5);
    assert!(ended.out.contains("3 nodes in the cluster, 4 wanted"), "{}", ended.out);
    let wait = ["wait-healthy", "--timeout", "400ms"];
    slotctl(&wait).with("SLOTCTL_SERVER", nobody()).fails(4, "connection refused");
}

#[test]
fn waiting_goes_on_until_a_dead_cluster_is_back() {
    let address = nobody();
    let words = ["--server", &address, "wait-healthy", "--timeout", "20s", "--json"];
    let mut run = slotctl(&words).command();
    let child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let listener = TcpListener::bind(&address).expect("it is free");
    let addresses = [address.clone()];
    let _node = Fake::on(listener, move |line| {
        let mut status = crate::fake::status(0, &addresses);
        status.unassigned = String::new();
        answer_as(line, status)
    });
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(value(&String::from_utf8_lossy(&output.stdout))["healthy"], true);
}

#[test]
fn every_look_has_json_on_one_line() {
    let nodes = healthy();
    for words in [
        vec!["status"],
        vec!["nodes"],
        vec!["slots"],
        vec!["slots", "0-10"],
        vec!["history", "--count", "5"],
        vec!["explain", "{x}y"],
        vec!["stale"],
        vec!["stale", "--reset"],
        vec!["wait-healthy"],
        vec!["completions", "bash"],
        vec!["help", "exit-codes"],
    ] {
        let ended = slotctl(&[&words[..], &["--json"]].concat()).at(&nodes[0]).end();
        assert_eq!((ended.exit, ended.err.as_str()), (0, ""), "{words:?}");
        value(&ended.out);
    }
}

#[test]
fn errors_are_json_too() {
    let node = Fake::start(|_| Reaction::Error("REFUSED not today"));
    let at = ("SLOTCTL_SERVER", node.address());
    for (words, address, exit, why) in [
        (vec!["status", "--json"], at.1.clone(), 1, "not today"),
        (vec!["--json", "assign", "16384", "node-a"], at.1.clone(), 2, "slots '16384'"),
        (vec!["--json", "migrate", "1", "node-a"], at.1.clone(), 2, "'migrate'"),
        (vec!["slots", "--json"], nobody(), 4, "connection refused"),
    ] {
        let ended = slotctl(&words).with(at.0, address).end();
        let error = value(&ended.out);
        assert_eq!((ended.exit, error["exit"].as_i64()), (exit, Some(i64::from(exit))));
        assert!(error["error"].as_str().expect("a sentence").contains(why), "{error}");
        assert_eq!(ended.err, "");
    }
}

#[test]
fn a_view_without_a_majority_says_that_it_may_be_old() {
    let nodes = cluster(|_, line, mut status| {
        status.has_quorum = false;
        answer_as(line, status)
    });
    let ended = slotctl(&["slots"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0);
    assert!(ended.err.contains("hears no majority: what it shows may be old"), "{}", ended.err);
    assert_eq!(slotctl(&["status", "--check"]).at(&nodes[0]).end().exit, 5);
}

#[test]
fn stale_asks_every_node_and_a_reset_that_misses_one_is_unfinished() {
    let mut nodes = healthy();
    let ended = slotctl(&["stale"]).at(&nodes[0]).end();
    assert_eq!(
        (ended.exit, ended.out.as_str()),
        (0, "21 refusals for slots of other nodes, counted by 3 of 3 nodes\n")
    );
    drop(nodes.pop());
    let ended = slotctl(&["stale", "--reset"]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 3);
    assert!(ended.out.contains("node-c was not heard: connection refused"), "{}", ended.out);
    assert!(nodes[1].asked().contains(&"SLOTD STALE RESET".to_owned()));
    let old = cluster(|_, line, status| match line {
        "SLOTD STATUS" => answer_as(line, status),
        _ => Reaction::Error("ERR unknown subcommand 'STALE'. Try SLOTD HELP."),
    });
    slotctl(&["stale"]).at(&old[0]).fails(4, "no node told what it counted: it is no slotd");
}

#[test]
fn a_closed_output_is_no_error() {
    let node = Fake::start(|line| {
        let mut status = crate::fake::status(0, &["127.0.0.1:1".into()]);
        // More than a pipe holds, so that writing meets the closed end.
        status.losses = vec![slots::admin::LossRecord::default(); 5000];
        match line {
            "SLOTD STATUS" => json(&status),
            _ => answer_as(line, status),
        }
    });
    for words in [vec!["status"], vec!["status", "--json"], vec!["help", "manual"], vec!["--help"]]
    {
        let mut run = slotctl(&words).at(&node).command();
        let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    }
}

#[test]
fn color_is_for_terminals_unless_it_is_asked_for() {
    let nodes = healthy();
    let colored = |words: &[&str]| slotctl(words).at(&nodes[0]).end().out.contains('\x1b');
    assert!(!colored(&["status"]));
    assert!(colored(&["status", "--color", "always"]));
    assert!(!colored(&["status", "--color", "never"]));
    let out = slotctl(&["status", "--color", "always"]).at(&nodes[0]).with("NO_COLOR", "1").end();
    assert!(out.out.contains('\x1b'), "an explicit wish goes before the environment");
}

#[test]
fn help_groups_the_verbs_and_has_the_exit_codes() {
    let ended = slotctl(&["--help"]).end();
    assert_eq!((ended.exit, ended.err.as_str()), (0, ""));
    assert!(ended.out.contains("\nAfter a disaster:\n  node lost"), "{}", ended.out);
    let codes = slotctl(&["help", "exit-codes"]).end();
    assert!(codes.out.contains("  5  checks failed"), "{}", codes.out);
    assert!(slotctl(&["--version"]).end().out.starts_with("slotctl 0."));
    let ended = slotctl(&["completions", "bash"]).end();
    assert!(ended.out.contains("wait-healthy"));
}
