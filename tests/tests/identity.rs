//! Who a node is: copies of data directories, wiped disks, other clusters, wrong secrets. Each is
//! refused with a line that says what is wrong, and changes nothing.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use slot_tests::fleet::{Fleet, Place};
use slot_tests::process::{Node, free_port};
use slot_tests::resp::Value;

const POLL: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(20);

/// A process of a test's own, ended with it.
struct Stray(Child);

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stray {
    fn start(mut command: Command) -> Stray {
        Stray(command.spawn().expect("slotd starts"))
    }

    /// Waits until it has ended by itself; whether it failed.
    fn ends(&mut self) -> bool {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.0.try_wait().expect("it can be waited for") {
                return !status.success();
            }
            assert!(Instant::now() < until, "the process goes on");
            std::thread::sleep(POLL);
        }
    }
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_dir(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(|_| ())?,
        }
    }
    Ok(())
}

fn place() -> Place {
    let port = free_port().expect("a free port");
    Place { prefix: Vec::new(), host: "127.0.0.1".into(), port }
}

fn said(dir: &Path) -> String {
    ["stdout", "stderr"].map(|name| fs::read_to_string(dir.join(name)).unwrap_or_default()).concat()
}

/// Waits until a process has printed this.
fn wait_until_said(dir: &Path, text: &str) {
    let until = Instant::now() + DEADLINE;
    while !said(dir).contains(text) {
        assert!(Instant::now() < until, "nobody said {text:?}: {}", said(dir));
        std::thread::sleep(POLL);
    }
}

fn table(fleet: &Fleet, node: usize) -> Value {
    fleet.ask(node, &["CLUSTER", "SLOTS"]).expect("it answers")
}

fn fleet_of_three() -> Fleet {
    Fleet::start(3, &[]).expect("three nodes form a cluster")
}

#[test]
fn a_copy_older_than_the_last_start_is_refused() {
    let mut fleet = fleet_of_three();
    let before = table(&fleet, 0);
    fleet.kill(2).expect("it runs");
    let copy = fleet.dir(2).with_extension("copy");
    copy_dir(fleet.dir(2), &copy).expect("it is copied");
    // The node starts once more and ends: the copy lacks that start.
    fleet.begin(2).expect("it starts");
    fleet.wait_until_serving(DEADLINE).expect("all serve");
    fleet.kill(2).expect("it runs");
    let _ = fs::remove_file(copy.join("stderr"));
    let command = fleet.command(&place(), &copy, "node-2").expect("a command");
    let mut old = Stray::start(command);
    assert!(old.ends(), "{}", said(&copy));
    let words = said(&copy);
    assert!(words.contains("--restored"), "{words}");
    assert_eq!(table(&fleet, 0), before);
}

#[test]
fn of_two_copies_of_one_data_directory_one_goes_on() {
    let mut fleet = fleet_of_three();
    fleet.kill(2).expect("it runs");
    let copy = fleet.dir(2).with_extension("copy");
    copy_dir(fleet.dir(2), &copy).expect("it is copied");
    fleet.begin(2).expect("it starts");
    fleet.wait_until_serving(DEADLINE).expect("all serve");
    // The copy was made before that start: its own has the same number and another mark.
    let command = fleet.command(&place(), &copy, "node-2").expect("a command");
    let mut second = Stray::start(command);
    assert!(second.ends(), "{}", said(&copy));
    assert!(said(&copy).contains("taken by another start"), "{}", said(&copy));
    assert!(fleet.ended(2).expect("it is ours").is_none(), "the first one goes on");
    fleet.wait_until_serving(DEADLINE).expect("all serve");
}

/// What the file that says who a node is has under a name.
fn noted(dir: &Path, name: &str) -> String {
    let text = fs::read_to_string(dir.join("node")).unwrap_or_default();
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
}

#[test]
fn what_a_start_lost_is_noted_until_the_cluster_knows_of_the_start() {
    let mut fleet = fleet_of_three();
    let dir = fleet.dir(2).to_owned();
    // A node that serves has noted it before: no waiting here.
    let seated = ("none".to_owned(), "all".to_owned());
    assert_eq!((noted(&dir, "claims"), noted(&dir, "kept")), seated);
    for node in 0..3 {
        fleet.kill(node).expect("it runs");
    }
    // Alone it has no majority, so nobody hears of its starts.
    for starts in 1..=2 {
        fleet.begin(2).expect("it starts");
        let until = Instant::now() + DEADLINE;
        while noted(&dir, "claims") == "none" || noted(&dir, "claims").split(',').count() < starts {
            assert!(Instant::now() < until, "start {starts} is not in the file");
            std::thread::sleep(POLL);
        }
        assert_eq!(noted(&dir, "kept"), "nothing");
        fleet.kill(2).expect("it runs");
    }
    for node in 0..3 {
        fleet.begin(node).expect("it starts");
    }
    fleet.wait_until_serving(DEADLINE).expect("all serve");
    assert_eq!((noted(&dir, "claims"), noted(&dir, "kept")), seated);
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let node = Node::start(&[]).expect("a node starts");
    let port = free_port().expect("a free port").to_string();
    let output = Command::new(slot_tests::process::binary().expect("a binary"))
        .args(["--port", &port, "--bind", "127.0.0.1", "--dir"])
        .arg(node.dir())
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("is in use by another slotd"), "{error}");
}

#[test]
fn another_data_directory_under_a_known_id_is_refused() {
    use slotd::persist::identity::NodeFile;
    let mut fleet = fleet_of_three();
    let before = table(&fleet, 0);
    fleet.kill(2).expect("it runs");
    let path = fleet.dir(2).join("node");
    let text = fs::read_to_string(&path).expect("it is there");
    let mut file = NodeFile::parse(&text).expect("it is whole");
    file.store = slots::StoreId::from_bytes([7; 16]);
    let wiped = fleet.dir(2).with_extension("wiped");
    fs::create_dir_all(&wiped).expect("a folder");
    fs::write(wiped.join("node"), file.render()).expect("it is written");
    let mut command = fleet.command(&place(), &wiped, "node-2").expect("a command");
    command.args(["--join", &fleet.address(0)]);
    let _stray = Stray::start(command);
    wait_until_said(&wiped, "slotctl node lost");
    wait_until_said(fleet.dir(0), "another data directory");
    assert_eq!(table(&fleet, 0), before);
}

#[test]
fn a_wrong_secret_is_refused_on_both_sides() {
    let fleet = Fleet::start(2, &["--cluster-secret", "right"]).expect("two nodes form a cluster");
    let dir = fleet.dir(0).with_extension("stranger");
    let mut command = fleet.command(&place(), &dir, "stranger").expect("a command");
    // The last one counts.
    command.args(["--cluster-secret", "wrong", "--join", &fleet.address(0)]);
    let _stray = Stray::start(command);
    wait_until_said(&dir, "secret");
    wait_until_said(fleet.dir(0), "secret");
    let nodes = fleet.ask(0, &["CLUSTER", "NODES"]).expect("it answers");
    assert_eq!(nodes.text().map(|text| text.lines().count()), Some(2), "{nodes:?}");
}

#[test]
fn two_clusters_do_not_become_one() {
    let (one, other) = (fleet_of_three(), Fleet::start(2, &[]).expect("two nodes form a cluster"));
    let (before, theirs) = (table(&one, 0), table(&other, 0));
    let (host, port) = (other.address(0), other.bus_port(0).to_string());
    let (host, client) = host.rsplit_once(':').expect("host:port");
    let said = one.ask(0, &["CLUSTER", "MEET", host, client, &port]).expect("it answers");
    assert!(said.is_error("ERR"), "{said:?}");
    assert_eq!((table(&one, 0), table(&other, 0)), (before, theirs));
}

#[test]
fn a_node_with_keys_does_not_join() {
    let fleet = fleet_of_three();
    let lone = Node::start(&[]).expect("a node starts");
    let mut client = lone.client().expect("it accepts");
    lone.wait_until_served("foo").expect("it owns all slots");
    let address = fleet.address(0);
    let (host, port) = address.rsplit_once(':').expect("host:port");
    let said = client.call(&["CLUSTER", "MEET", host, port]).expect("it answers");
    assert!(said.is_error("ERR"), "{said:?}");
    assert_eq!(client.call(&["GET", "foo"]).expect("it answers"), Value::bulk("x"));
}
