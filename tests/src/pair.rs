//! Two nodes that are one cluster: node-a, which says that clients reach it elsewhere, and node-b,
//! which is asked.
//!
//! Invariant: node-a owns 0-448 and 450-5460, node-b 449 and 5461-16383, before a test sees them.

use crate::process::{Node, START_DEADLINE};
use crate::resp::Value;
use std::io;
use std::time::{Duration, Instant};

/// The client port that node-a announces. Nobody listens there.
pub const ANNOUNCED_PORT: u16 = 7777;
const POLL: Duration = Duration::from_millis(20);

/// The two.
pub struct Pair {
    /// Announced at a host of the test's choice and [`ANNOUNCED_PORT`].
    pub a: Node,
    /// Announced where it is.
    pub b: Node,
}

impl Pair {
    /// Node-a announces `host`; node-b is started with `args`.
    pub fn start(host: &str, args: &[&str]) -> io::Result<Pair> {
        let port = ANNOUNCED_PORT.to_string();
        let announced = ["--cluster-announce-ip", host, "--cluster-announce-port", &port];
        let own = ["--cluster-enabled", "yes", "--name", "node-a"];
        let reached = ["--cluster-announce-bus-ip", "127.0.0.1"];
        let a = Node::start(&[&own[..], &announced, &reached].concat())?;
        let seed = a.address().to_string();
        let own = ["--cluster-enabled", "yes", "--name", "node-b", "--join", &seed];
        let b = Node::start(&[&own, args].concat())?;
        let pair = Pair { a, b };
        pair.form()?;
        Ok(pair)
    }

    fn form(&self) -> io::Result<()> {
        let nodes = [&self.a, &self.b];
        for node in nodes {
            wait_for(node, "cluster_known_nodes:2\r\n")?;
        }
        for (node, ranges) in nodes.into_iter().zip(["0 448 450 5460", "449 449 5461 16383"]) {
            let said = node.client()?.say(&format!("CLUSTER ADDSLOTSRANGE {ranges}"))?;
            if said != Value::ok() {
                return Err(io::Error::other(format!("ADDSLOTSRANGE {ranges}: {said:?}")));
            }
        }
        nodes.into_iter().try_for_each(|node| wait_for(node, "cluster_state:ok\r\n"))
    }
}

/// Waits until CLUSTER INFO of the node has this line.
fn wait_for(node: &Node, line: &str) -> io::Result<()> {
    let until = Instant::now() + START_DEADLINE;
    loop {
        let said = node.client()?.say("CLUSTER INFO")?;
        if said.text().is_some_and(|text| text.contains(line)) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(io::Error::other(format!("no {line:?} in {said:?}")));
        }
        std::thread::sleep(POLL);
    }
}
