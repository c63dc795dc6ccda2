//! How slotd starts, refuses to start, and ends: exit codes and the one line that says why.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use slot_tests::process::{Node, START_DEADLINE, binary, free_port, fresh_dir};
use slot_tests::resp::{Client, Value};

/// A process that was asked to end does so within this.
const END: Duration = Duration::from_secs(5);

/// Runs slotd with arguments that it must refuse.
fn refused(args: &[&str]) -> Output {
    let dir = fresh_dir().unwrap();
    let mut command = Command::new("timeout");
    command.arg("20").arg(binary().unwrap()).args(args).current_dir(&dir).stdin(Stdio::null());
    let output = command.output().expect("timeout runs");
    let _ = fs::remove_dir_all(dir);
    output
}

fn check_refused(args: &[&str], named: &str) {
    let output = refused(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    assert!(said.starts_with("slotd: ") && said.contains(named), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn bad_options_are_one_line_that_names_the_option() {
    check_refused(&["--port", "x"], "'port'");
    check_refused(&["--port", "65536"], "'port'");
    check_refused(&["--prot", "7001"], "'prot'");
    check_refused(&["--port"], "'port'");
    check_refused(&["--port", "60000"], "'cluster-port'");
    check_refused(&["--maxmemory", "lots"], "'maxmemory'");
    check_refused(&["--name", "a b"], "'name'");
    check_refused(&["--port", "7001", "stray"], "'port'");
    check_refused(&["--appendonly", "perhaps"], "option 'appendonly'");
    check_refused(&["nowhere.conf"], "'nowhere.conf'");
}

#[test]
fn a_wrong_line_of_a_file_is_named_by_its_number() {
    let dir = fresh_dir().unwrap();
    let path = dir.join("node.conf");
    let file = path.display().to_string();
    for (text, named) in [
        ("# first\nport 7001\n\nno-such-directive yes\n", "line 4: option 'no-such-directive'"),
        ("port x\n", "line 1: option 'port'"),
        ("appendonly no\nappendonly maybe\n", "line 2: option 'appendonly'"),
        ("port 7001\nrequirepass \"open\n", "line 2: "),
    ] {
        fs::write(&path, text).unwrap();
        check_refused(&[&file], named);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_and_flags_make_one_configuration_and_a_missing_folder() {
    let dir = fresh_dir().unwrap();
    let data = dir.join("deep").join("data");
    let file = dir.join("node.conf");
    let text = format!(
        "# slotd\nport {}\ndir {}\nmaxclients 77\nappendonly no\nsave \"\"\n",
        free_port().unwrap(),
        data.display()
    );
    fs::write(&file, text).unwrap();
    let port = free_port().unwrap();
    let mut child = Command::new(binary().unwrap())
        .arg(&file)
        .args(["--port", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut client = (0..500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        Client::connect(("127.0.0.1", port)).ok()
    });
    let answer = client.as_mut().map(|client| client.say("CONFIG GET maxclients").unwrap());
    let _ = child.kill();
    let _ = child.wait();
    let wanted = Value::Array(vec![Value::bulk("maxclients"), Value::bulk("77")]);
    assert_eq!(answer, Some(wanted));
    assert!(data.is_dir());
    fs::remove_dir_all(dir).unwrap();
}

/// Starts a node by flags alone, waits until it answers, asks it these lines, ends it.
fn asked(dir: &Path, args: &[&str], lines: &[&str]) -> Vec<Value> {
    let port = free_port().unwrap();
    let mut child = Command::new(binary().unwrap())
        .args(["--port", &port.to_string(), "--dir"])
        .arg(dir)
        .args(args)
        .stdin(Stdio::null())
        .stdout(fs::File::create(dir.with_extension("log")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + START_DEADLINE;
    let connected = loop {
        let connected = Client::connect(("127.0.0.1", port));
        if connected.is_ok() || Instant::now() > until {
            break connected;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let replies =
        connected.map(|mut client| lines.iter().map(|line| client.say(line).unwrap()).collect());
    let _ = child.kill();
    let _ = child.wait();
    replies.expect("the node answers")
}

#[test]
fn a_node_without_a_file_keeps_its_options_in_its_folder() {
    let base = fresh_dir().unwrap();
    let dir = base.join("data");
    let log = || fs::read_to_string(dir.with_extension("log")).unwrap();
    let get = ["CONFIG GET cluster-node-timeout", "CONFIG GET maxclients"];
    let pair = |name: &str, value: &str| Value::Array([name, value].map(Value::bulk).to_vec());
    let args = ["--cluster-enabled", "yes", "--maxclients", "77"];

    let lines = ["CONFIG SET cluster-node-timeout 5000", "CONFIG REWRITE"];
    assert_eq!(asked(&dir, &args, &lines), [Value::ok(), Value::ok()]);
    assert!(!log().contains("kept by CONFIG REWRITE"), "{}", log());
    let kept = fs::read_to_string(dir.join("slotd.conf")).unwrap();
    let wanted = "# Generated by CONFIG REWRITE\nmaxclients 77\ncluster-node-timeout 5000\n";
    assert_eq!(kept, wanted);
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{names:?}");

    let told = asked(&dir, &[], &get);
    assert_eq!(told, [pair("cluster-node-timeout", "5000"), pair("maxclients", "77")]);
    assert!(log().contains("options kept by CONFIG REWRITE are read"), "{}", log());
    let told = asked(&dir, &["--cluster-node-timeout", "6000"], &get);
    assert_eq!(told, [pair("cluster-node-timeout", "6000"), pair("maxclients", "77")]);

    fs::write(dir.join("slotd.conf"), "maxclients 5\ndir /elsewhere\n").unwrap();
    check_refused(&["--dir", &dir.display().to_string()], "line 2: option 'dir'");
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn a_port_in_use_is_named_and_no_success() {
    let node = Node::start(&[]).unwrap();
    let port = node.address().port().to_string();
    let dir = fresh_dir().unwrap();
    let output = refused(&["--port", &port, "--dir", &dir.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{said}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_port_does_not_change_while_it_runs() {
    let node = Node::start(&[]).unwrap();
    let mut client = node.client().unwrap();
    let other = free_port().unwrap();
    let reply = client.say(&format!("CONFIG SET port {other}")).unwrap();
    let wanted = "ERR CONFIG SET failed (possibly related to argument 'port') - \
                  Unable to listen on this port. Check server logs.";
    assert_eq!(reply, Value::Error(wanted.into()));
    let told = client.say("CONFIG GET port").unwrap();
    let port = node.address().port().to_string();
    assert_eq!(told, Value::Array(vec![Value::bulk("port"), Value::bulk(port)]));
    assert!(node.client().unwrap().say("PING").is_ok());
}

#[test]
fn shutdown_closes_without_a_reply_and_ends_with_0() {
    for line in ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN NOW FORCE"] {
        let mut node = Node::start(&[]).unwrap();
        let (mut client, mut other) = (node.client().unwrap(), node.client().unwrap());
        assert_eq!(other.say("SET k v").unwrap(), Value::ok());
        client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(client.read_to_close().unwrap(), b"", "{line}");
        assert_eq!(node.wait_for_end(END).unwrap().code(), Some(0), "{line}");
        assert_eq!(other.read_to_close().unwrap(), b"");
    }
}

#[test]
fn a_wrong_shutdown_leaves_it_running() {
    let mut node = Node::start(&[]).unwrap();
    let mut client = node.client().unwrap();
    for line in ["SHUTDOWN SOON", "SHUTDOWN SAVE NOSAVE"] {
        assert_eq!(client.say(line).unwrap(), Value::Error("ERR syntax error".into()), "{line}");
    }
    assert!(client.say("SHUTDOWN ABORT").unwrap().is_error("ERR No shutdown in progress"));
    assert!(node.is_running());
}

#[test]
fn sigterm_and_sigint_end_it_with_0_although_clients_wait() {
    for signal in ["TERM", "INT"] {
        let mut node = Node::start(&[]).unwrap();
        let (mut idle, mut waiting) = (node.client().unwrap(), node.client().unwrap());
        assert_eq!(idle.say("PING").unwrap(), Value::Simple("PONG".into()));
        waiting.send(&["BLPOP", "{k}list", "0"]).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        node.signal(signal).unwrap();
        assert_eq!(node.wait_for_end(END).unwrap().code(), Some(0), "SIG{signal}");
    }
}
