//! A cluster on this machine for tests, by `slotd local`: the way users start one.
//!
//! Not for tests of `slotd local` itself. Invariant: the nodes end with their cluster, as they
//! end when the process that started them does.

use crate::process::{START_DEADLINE, binary, free_ports, fresh_dir};
use crate::resp::Client;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// A running cluster.
pub struct Cluster {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Cluster {
    /// Three nodes: 0-5460, 5461-10922 and 10923-16383.
    pub fn of_three() -> io::Result<Self> {
        let (port, dir) = (free_ports(3)?, fresh_dir()?);
        let out = dir.join("stdout");
        let child = Command::new(binary()?)
            .args(["local", "--nodes", "3", "--port", &port.to_string(), "--dir"])
            .arg(&dir)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out)?)
            .stderr(fs::File::create(dir.join("stderr"))?)
            .spawn()?;
        let mut cluster = Self { child, port, dir };
        let until = Instant::now() + START_DEADLINE;
        while !fs::read_to_string(&out)?.lines().any(|line| line == "ready") {
            if Instant::now() > until || cluster.child.try_wait()?.is_some() {
                let said = fs::read_to_string(cluster.dir.join("stderr"))?;
                return Err(io::Error::other(format!("slotd local: {}", said.trim())));
            }
            std::thread::sleep(POLL);
        }
        Ok(cluster)
    }

    /// The port of node 0, 1 or 2.
    pub fn port(&self, node: u16) -> u16 {
        self.port + node
    }

    /// `127.0.0.1:PORT` of a node.
    pub fn address(&self, node: u16) -> String {
        format!("127.0.0.1:{}", self.port(node))
    }

    /// A new connection to a node.
    pub fn client(&self, node: u16) -> io::Result<Client> {
        Client::connect(self.address(node))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Both fail only when it is already gone, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
