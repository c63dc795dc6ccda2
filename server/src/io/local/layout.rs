//! The nodes of a local cluster and their files: `DIR/table`, `DIR/lock`, `DIR/node-a/`...
//!
//! Invariant: one `slotd local` at a time works in a folder, and a table that fits what is asked
//! for is used again, so nodes keep their ids.

#![allow(unsafe_code, reason = "flock has no safe wrapper in this version of std")]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use slots::{Addresses, Endpoint, NodeId, SlotRanges};

use super::options::Options;
use crate::config::CLUSTER_PORT_OFFSET;
use crate::control::fixed::FoundingNode;
use crate::io::clock;
use crate::static_table;

const HOST: &str = "127.0.0.1";

/// One node as it is to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NodePlan {
    /// `node-a`...
    pub name: String,
    /// Port for clients.
    pub port: u16,
    /// What it owns.
    pub slots: SlotRanges,
    /// Its data.
    pub dir: PathBuf,
    /// The table all nodes share.
    pub table: PathBuf,
    /// Options for every node.
    pub passed_on: Vec<String>,
}

impl NodePlan {
    /// The file with what it prints.
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }
}

/// The cluster as it is to be run.
pub(super) struct Layout {
    /// Where everything lies.
    pub dir: PathBuf,
    /// The nodes, by rising port.
    pub nodes: Vec<NodePlan>,
    /// Held as long as the cluster runs.
    _lock: File,
}

impl Layout {
    /// Creates or takes over the files. The error is one line.
    pub fn prepare(options: &Options) -> Result<Layout, String> {
        let dir = options.dir.clone();
        let of = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&dir).map_err(|e| of(&dir, e))?;
        let lock = take_lock(&dir)?;
        let table = dir.join("table");
        let stored = match fs::read_to_string(&table) {
            Ok(text) => static_table::parse(&text).ok(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(of(&table, e)),
        };
        let nodes = match stored.filter(|stored| fits(stored, options)) {
            Some(stored) => stored,
            None => {
                let fresh = found(options, clock::random_u64);
                let text = static_table::render(&fresh);
                let temporary = dir.join("table.tmp");
                fs::write(&temporary, text).map_err(|e| of(&temporary, e))?;
                fs::rename(&temporary, &table).map_err(|e| of(&table, e))?;
                fresh
            }
        };
        let plan = |node: FoundingNode| {
            let own = dir.join(&node.name);
            fs::create_dir_all(&own).map_err(|e| of(&own, e))?;
            Ok(NodePlan {
                name: node.name,
                port: node.addresses.client.port,
                slots: node.slots,
                dir: own,
                table: table.clone(),
                passed_on: options.passed_on.clone(),
            })
        };
        let nodes = nodes.into_iter().map(plan).collect::<Result<_, String>>()?;
        Ok(Layout { dir, nodes, _lock: lock })
    }
}

/// Two clusters in one folder would write into each other's nodes.
fn take_lock(dir: &Path) -> Result<File, String> {
    let path = dir.join("lock");
    let lock = File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    // SAFETY: the descriptor is open; flock touches no memory of ours.
    let result = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match result {
        0 => Ok(lock),
        _ => Err(format!("{} is in use by another 'slotd local' (see --dir)", dir.display())),
    }
}

/// The nodes of a new cluster, with new ids.
fn found(options: &Options, mut random: impl FnMut() -> u64) -> Vec<FoundingNode> {
    let parts = slots::even_split(options.nodes.into());
    let letters = (b'a'..=b'z').map(char::from);
    let nodes = parts.into_iter().zip(letters).zip(options.port..);
    nodes
        .map(|((slots, letter), port)| founding(letter, port, slots, random_id(&mut random)))
        .collect()
}

fn founding(letter: char, port: u16, slots: SlotRanges, id: NodeId) -> FoundingNode {
    let addresses = Addresses {
        client: Endpoint::new(HOST, port),
        bus: Endpoint::new(HOST, port + CLUSTER_PORT_OFFSET),
        hostname: None,
    };
    FoundingNode { id, name: format!("node-{letter}"), addresses, slots }
}

fn random_id(random: &mut impl FnMut() -> u64) -> NodeId {
    let mut bytes = [0; 20];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random().to_be_bytes()[..chunk.len()]);
    }
    NodeId::from_bytes(bytes)
}

/// Is a stored table what would be made now, but for the ids?
fn fits(stored: &[FoundingNode], options: &Options) -> bool {
    let ids = stored.iter().map(|node| node.id);
    let mut wanted = found(options, || 0);
    wanted.iter_mut().zip(ids).for_each(|(node, id)| node.id = id);
    wanted == stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(nodes: u16, port: u16) -> Options {
        Options { nodes, port, dir: "x".into(), passed_on: Vec::new() }
    }

    #[test]
    fn three_nodes_split_the_slots_as_redis_cli_does() {
        let mut counter = 0;
        let nodes = found(&options(3, 7001), || {
            counter += 1;
            counter
        });
        let lines: Vec<String> = nodes
            .iter()
            .map(|n| format!("{} {} {} {}", n.name, n.addresses.client, n.addresses.bus, n.slots))
            .collect();
        assert_eq!(
            lines,
            [
                "node-a 127.0.0.1:7001 127.0.0.1:17001 0-5460",
                "node-b 127.0.0.1:7002 127.0.0.1:17002 5461-10922",
                "node-c 127.0.0.1:7003 127.0.0.1:17003 10923-16383",
            ]
        );
        assert!(nodes[0].id != nodes[1].id && nodes[1].id != nodes[2].id);
    }

    #[test]
    fn a_table_is_used_again_only_for_the_same_nodes_and_ports() {
        let stored = found(&options(3, 7001), clock::random_u64);
        assert!(fits(&stored, &options(3, 7001)));
        assert!(!fits(&stored, &options(4, 7001)));
        assert!(!fits(&stored, &options(2, 7001)));
        assert!(!fits(&stored, &options(3, 7002)));
        let mut moved = stored;
        moved[0].slots = SlotRanges::new();
        assert!(!fits(&moved, &options(3, 7001)));
    }
}
