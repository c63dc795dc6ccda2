//! The nodes of a local cluster and their files: `DIR/lock`, `DIR/node-a/`...
//!
//! Invariant: one `slotd local` at a time works in a folder; a node's folder is the same at every
//! start, so nodes keep their ids, their slots and the table.

#![allow(unsafe_code, reason = "flock has no safe wrapper in this version of std")]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::options::Options;

/// One node as it is to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NodePlan {
    /// `node-a`...
    pub name: String,
    /// Port for clients.
    pub port: u16,
    /// Port of the node whose cluster it joins; `None`: it founds one.
    pub joins: Option<u16>,
    /// Its data.
    pub dir: PathBuf,
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
    /// Creates or takes over the folders. The error is one line.
    pub fn prepare(options: &Options) -> Result<Layout, String> {
        let dir = options.dir.clone();
        let of = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&dir).map_err(|e| of(&dir, e))?;
        let lock = take_lock(&dir)?;
        let nodes = plans(options, &dir);
        for node in &nodes {
            fs::create_dir_all(&node.dir).map_err(|e| of(&node.dir, e))?;
        }
        Ok(Layout { dir, nodes, _lock: lock })
    }
}

fn plans(options: &Options, dir: &Path) -> Vec<NodePlan> {
    let letters = (b'a'..=b'z').map(char::from);
    let ports = (options.port..).take(options.nodes.into());
    let plan = |(letter, port): (char, u16)| {
        let name = format!("node-{letter}");
        let joins = (port != options.port).then_some(options.port);
        let passed_on = options.passed_on.clone();
        NodePlan { dir: dir.join(&name), name, port, joins, passed_on }
    };
    letters.zip(ports).map(plan).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_node_founds_the_cluster_and_the_others_join_it() {
        let options = Options { nodes: 3, port: 7001, dir: "x".into(), passed_on: Vec::new() };
        let nodes: Vec<_> = plans(&options, Path::new("x"))
            .into_iter()
            .map(|n| (n.name, n.port, n.joins, n.dir.display().to_string()))
            .collect();
        let node = |name: &str, port, joins| (name.to_owned(), port, joins, format!("x/{name}"));
        let want = [
            node("node-a", 7001, None),
            node("node-b", 7002, Some(7001)),
            node("node-c", 7003, Some(7001)),
        ];
        assert_eq!(nodes, want);
    }
}
