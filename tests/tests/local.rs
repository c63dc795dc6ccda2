//! `slotd local` from outside: what it prints, what its nodes answer, how it and they end.
//!
//! Invariant: a cluster never outlives its test, as killing it ends its nodes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use slot_tests::process::{START_DEADLINE, binary, free_ports};
use slot_tests::resp::{Client, Value};

/// How long an end may take: the nodes have 5 s to end in good order.
const END_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A running `slotd local`.
struct Local {
    child: Child,
    port: u16,
    dir: PathBuf,
    lines: Receiver<String>,
    /// What it printed up to `ready`.
    said: Vec<String>,
}

impl Local {
    fn start(name: &str, nodes: u16, passed_on: &[&str]) -> Local {
        Local::start_at(free_ports(nodes).expect("free ports"), fresh_dir(name), nodes, passed_on)
    }

    fn start_at(port: u16, dir: PathBuf, nodes: u16, passed_on: &[&str]) -> Local {
        let mut child = command(port, &dir, nodes, passed_on).spawn().expect("slotd starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (to, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|l| to.send(l))
        });
        let mut local = Local { child, port, dir, lines, said: Vec::new() };
        while local.said.last().is_none_or(|line| line != "ready") {
            let line = local.line();
            local.said.push(line);
        }
        local
    }

    /// The next line it prints.
    fn line(&mut self) -> String {
        self.lines.recv_timeout(START_DEADLINE).unwrap_or_else(|error| {
            let mut stderr = String::new();
            let _ = self.child.kill();
            let _ = self.child.stderr.take().map(|mut e| e.read_to_string(&mut stderr));
            panic!("{error} after {:?}: {stderr}", self.said)
        })
    }

    fn client(&self, node: u16) -> Client {
        Client::connect(("127.0.0.1", self.port + node)).expect("the node accepts")
    }

    /// The nodes' process ids, as printed.
    fn pids(&self) -> Vec<u32> {
        let pids = self.said.iter().filter_map(|line| line.split_once("  pid "));
        pids.map(|(_, rest)| first_number(rest)).collect()
    }

    /// Waits for its end; the exit code.
    fn ended(&mut self) -> Option<i32> {
        let until = Instant::now() + END_DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code();
            }
            assert!(Instant::now() < until, "slotd local did not end");
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.pids().into_iter().for_each(wait_until_gone);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn command(port: u16, dir: &Path, nodes: u16, passed_on: &[&str]) -> Command {
    let mut command = Command::new(binary().expect("a slotd binary"));
    command.args(["local", "--nodes", &nodes.to_string(), "--port", &port.to_string(), "--dir"]);
    command.arg(dir).arg("--").args(passed_on);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn fresh_dir(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("slotd-local-{name}-{}", std::process::id()))
}

fn first_number(text: &str) -> u32 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no process id in {text:?}"))
}

fn signal(pid: u32, name: &str) {
    let line = format!("kill -{name} {pid}");
    assert!(Command::new("sh").args(["-c", &line]).status().expect("sh runs").success(), "{line}");
}

/// Runs, and is not merely waiting for its parent to read its exit status.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_until_gone(pid: u32) {
    let until = Instant::now() + END_DEADLINE;
    while is_alive(pid) {
        assert!(Instant::now() < until, "process {pid} is still there");
        std::thread::sleep(POLL);
    }
}

#[test]
fn a_cluster_starts_redirects_and_ends_with_all_its_nodes() {
    let mut local = Local::start("whole", 3, &[]);
    let port = local.port;
    for (name, at, slots) in
        [("node-a", 0, "0-5460"), ("node-b", 1, "5461-10922"), ("node-c", 2, "10923-16383")]
    {
        let start = format!("{name}  127.0.0.1:{}  slots {slots}  pid ", port + at);
        assert!(local.said.iter().any(|line| line.starts_with(&start)), "{:?}", local.said);
        assert_eq!(local.client(at).say("PING").unwrap(), Value::Simple("PONG".into()));
        assert!(local.dir.join(name).join("log").is_file());
    }
    assert!(local.said.contains(&format!("try: redis-cli -c -p {port} set foo bar")));
    let moved = local.client(0).say("SET foo bar").unwrap();
    assert_eq!(moved, Value::Error(format!("MOVED 12182 127.0.0.1:{}", port + 2)));
    assert_eq!(local.client(2).say("SET foo bar").unwrap(), Value::ok());
    let slots = local.client(1).say("CLUSTER SLOTS").unwrap();
    assert_eq!(slots.items().map(<[Value]>::len), Some(3));
    let pids = local.pids();
    assert_eq!(pids.len(), 3);
    signal(local.child.id(), "TERM");
    assert_eq!(local.line(), "SIGTERM: stopping");
    assert_eq!(local.line(), "stopped");
    assert_eq!(local.ended(), Some(0));
    assert_eq!(pids.into_iter().filter(|pid| is_alive(*pid)).count(), 0);
}

#[test]
fn a_killed_node_is_said_and_started_again() {
    let mut local = Local::start("killed", 2, &[]);
    let id = local.client(1).say("CLUSTER MYID").unwrap();
    let pid = local.pids()[1];
    signal(pid, "KILL");
    let said = local.line();
    assert_eq!(said, "node-b ended unasked (signal 9, SIGKILL); starting it again in 0.2 s");
    let back = local.line();
    let new_pid = first_number(back.strip_prefix("node-b is back, pid ").unwrap_or(&back));
    assert_ne!(new_pid, pid);
    assert_eq!(local.client(1).say("CLUSTER MYID").unwrap(), id);
    // A second end soon after the first is answered later.
    signal(new_pid, "KILL");
    let said = local.line();
    assert_eq!(said, "node-b ended unasked (signal 9, SIGKILL); starting it again in 0.4 s");
    signal(local.child.id(), "INT");
    assert_eq!(local.line(), "SIGINT: stopping");
    assert_eq!(local.ended(), Some(0));
    wait_until_gone(new_pid);
}

#[test]
fn a_node_that_does_not_stop_is_killed() {
    let mut local = Local::start("stopped", 1, &[]);
    let pid = local.pids()[0];
    signal(pid, "STOP");
    signal(local.child.id(), "HUP");
    assert_eq!(local.line(), "SIGHUP: stopping");
    assert_eq!(local.ended(), Some(0));
    assert!(!is_alive(pid));
}

#[test]
fn nodes_end_when_slotd_local_is_killed() {
    let mut local = Local::start("orphans", 2, &[]);
    local.child.kill().unwrap();
    local.child.wait().unwrap();
    local.pids().into_iter().for_each(wait_until_gone);
}

#[test]
fn ids_stay_and_options_are_passed_on() {
    let mut first = Local::start("again", 2, &["--maxmemory", "100mb"]);
    let id = first.client(1).say("CLUSTER MYID").unwrap();
    let max = first.client(1).say("CONFIG GET maxmemory").unwrap();
    assert_eq!(max, Value::Array(vec![Value::bulk("maxmemory"), Value::bulk("104857600")]));
    // Two in one folder would write over each other.
    let other = run(free_ports(2).unwrap(), &first.dir, 2, &[]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("is in use by another 'slotd local'"), "{other:?}");
    signal(first.child.id(), "TERM");
    assert_eq!(first.ended(), Some(0));
    let second = Local::start_at(first.port, first.dir.clone(), 2, &[]);
    assert_eq!(second.client(1).say("CLUSTER MYID").unwrap(), id);
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_left() {
    let port = free_ports(3).unwrap();
    let held = TcpListener::bind(("127.0.0.1", port + 1)).unwrap();
    let dir = fresh_dir("busy");
    let output = run(port, &dir, 3, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = format!("port {} is in use: another server listens there", port + 1);
    assert!(text(&output.stderr).contains(&said), "{output:?}");
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "a node was left");
    drop(held);
    let _ = fs::remove_dir_all(dir);
}

#[test]
fn bad_options_are_one_line_that_names_them() {
    for (words, name) in [
        (&["--nodes", "0"][..], "--nodes"),
        (&["--nodes", "27"], "--nodes"),
        (&["--port", "65000"], "--port"),
        (&["--prot", "7001"], "--prot"),
        (&["--", "--maxmemory", "lots"], "maxmemory"),
        (&["--", "--nosuch", "1"], "nosuch"),
        (&["--", "--port", "1"], "--port"),
    ] {
        let output =
            Command::new(binary().unwrap()).arg("local").args(words).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.lines().count() == 1 && stderr.contains(name), "{words:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    let help = Command::new(binary().unwrap()).args(["local", "--help"]).output().unwrap();
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("Exit codes"));
}

/// Runs one that is expected to end by itself.
fn run(port: u16, dir: &Path, nodes: u16, passed_on: &[&str]) -> Output {
    command(port, dir, nodes, passed_on).output().expect("slotd runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
