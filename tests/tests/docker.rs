//! The image's scripts against nodes on this machine, and that the files in docker/ fit together.
//! Not the image itself: `docker/smoke` builds and runs it where an engine answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use slot_tests::process::{Node, fresh_dir};

fn docker(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(docker(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The scripts under the names they have in the image.
struct Image(PathBuf);

impl Image {
    fn new() -> Image {
        let dir = fresh_dir().expect("a folder");
        for (name, installed) in
            [("resp", "slotd-resp"), ("health", "slotd-health"), ("found", "slotd-found")]
        {
            let line = format!("COPY docker/{name} /usr/local/bin/{installed}\n");
            assert!(text("Dockerfile").contains(&line), "{line}");
            fs::copy(docker(name), dir.join(installed)).expect("it is copied");
        }
        Image(dir)
    }

    fn run(&self, script: &str, args: &[&str], port: u16) -> Output {
        let mut command = Command::new("timeout");
        command.arg("90").arg(self.0.join(script)).args(args);
        command.env("SLOTD_PORT", port.to_string()).output().expect("it runs")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_node_is_given_its_slots_once_and_is_healthy_before_and_after() {
    let image = Image::new();
    let node = Node::start(&["--cluster-enabled", "yes"]).expect("slotd starts");
    let port = node.address().port();
    let healthy = || image.run("slotd-health", &[], port).status.success();
    assert!(healthy(), "it lives, though it has no slots");
    let part = format!("127.0.0.1:{port}=0-16383");
    for said in ["has 0-16383", "0-16383 have an owner"] {
        let output = image.run("slotd-found", &[&part], port);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(said), "{output:?}");
    }
    node.wait_until_served("foo").expect("all slots are served");
    assert!(healthy());
    let reply = image.run("slotd-resp", &["127.0.0.1", &port.to_string(), "GET", "foo"], port);
    assert_eq!(String::from_utf8_lossy(&reply.stdout), "$1\r\nx\r\n");
}

#[test]
fn a_node_with_a_password_lives_and_one_that_is_gone_does_not() {
    let image = Image::new();
    let node = Node::start(&["--requirepass", "secret"]).expect("slotd starts");
    let port = node.address().port();
    assert!(image.run("slotd-health", &[], port).status.success());
    drop(node);
    assert!(!image.run("slotd-health", &[], port).status.success());
    let reply = image.run("slotd-resp", &["127.0.0.1", &port.to_string(), "PING"], port);
    assert_eq!(reply.status.code(), Some(4));
}

#[test]
fn the_compose_file_tells_clients_the_host_and_nodes_the_container() {
    let compose = text("compose.yaml");
    for number in 1..=3 {
        let (name, port) = (format!("slotd-{number}"), 7000 + number);
        for piece in [
            format!("  {name}:\n    <<: *node\n"),
            format!("environment: {{SLOTD_PORT: \"{port}\"}}"),
            format!("--port {port} --bind 0.0.0.0"),
            format!("--name {name} --cluster-announce-ip ${{SLOTD_HOST:-127.0.0.1}}"),
            format!("--cluster-announce-bus-ip {name} "),
            format!("\"${{SLOTD_BIND:-127.0.0.1}}:{port}:{port}\""),
            format!("volumes: [\"{name}:/data\"]"),
            format!("\"{name}:{port}="),
        ] {
            assert!(compose.contains(&piece), "{piece}");
        }
    }
    assert_eq!(compose.matches("--join slotd-1:7001").count(), 2);
}
