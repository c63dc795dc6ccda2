//! The options of `slotd local`.
//!
//! Invariant: a mistake, also one in what is passed on to the nodes, is found before anything
//! is started or written, and is one line that names the option.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::config::CLUSTER_PORT_OFFSET;
use crate::config::{Config, Start, StartError};

/// Nodes, if `--nodes` is not given.
const DEFAULT_NODES: u16 = 3;
/// Most nodes: their names end in a letter.
const MAX_NODES: u16 = 26;
/// The first node's port, if `--port` is not given.
pub(super) const DEFAULT_PORT: u16 = 7001;
/// Above it there is no room for the port for other nodes.
const MAX_PORT: u16 = u16::MAX - CLUSTER_PORT_OFFSET;
const DEFAULT_DIR: &str = "./slotd-local";
/// Options that differ from node to node, so `slotd local` sets them itself.
const OWN: [&str; 6] = ["port", "dir", "name", "join", "cluster-port", "cluster-enabled"];

pub(super) const HELP: &str = "\
Usage: slotd local [--nodes N] [--port BASE] [--dir DIR] [-- OPTION...]

Starts a cluster on this machine, for trying things out: N nodes, each its own process, with the
slots split evenly among them (with a DIR from before: as they were; more nodes than before join
without slots). A node that ends unasked is started again and reads its keys from its log (with
-- --appendonly no they are in memory only, and gone). Ctrl-C, SIGTERM or closing the terminal
ends all of them.

  --nodes N      number of nodes, 1 to 26 (3)
  --port BASE    port of the first node, node-a; the others follow (7001)
  --dir DIR      data and logs (./slotd-local): DIR/node-a holds what node-a keeps, DIR/node-a/log
                 what it printed. Started again in the same DIR, nodes keep ids, slots, table and
                 keys
  -- OPTION...   options of slotd, passed on to every node: -- --maxmemory 100mb

Exit codes: 0 ended by a signal, 1 the cluster did not start (a port in use, DIR not writable, a
node that fails; no node is left running), 2 bad options.
";

/// What is to be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Options {
    /// How many nodes.
    pub nodes: u16,
    /// The first node's port.
    pub port: u16,
    /// Where data and logs go.
    pub dir: PathBuf,
    /// Options for every node.
    pub passed_on: Vec<String>,
}

/// What the words ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Parsed {
    Run(Options),
    Help,
}

/// Reads the words after `local`.
pub(super) fn parse(args: &[OsString]) -> Result<Parsed, String> {
    let words = args.iter().map(|arg| arg.to_str().map(str::to_owned));
    let words: Option<Vec<String>> = words.collect();
    let words = words.ok_or("an argument is not UTF-8")?;
    let (own, passed_on) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], words[at + 1..].to_vec()),
        None => (&words[..], Vec::new()),
    };
    if own.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Parsed::Help);
    }
    let dir = DEFAULT_DIR.into();
    let mut options = Options { nodes: DEFAULT_NODES, port: DEFAULT_PORT, dir, passed_on };
    let mut rest = own.iter();
    while let Some(word) = rest.next() {
        if !word.starts_with("--") {
            return Err(format!("unexpected argument '{}', expected --option", shown(word)));
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        if !["--nodes", "--port", "--dir"].contains(&name) {
            let name = shown(name);
            return Err(format!("option '{name}': unknown; options of slotd go behind '--'"));
        }
        let value = inline.or_else(|| rest.next().map(String::as_str));
        let value = value.filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("option '{name}': needs a value"))?;
        options.take(name, value)?;
    }
    options.check()?;
    Ok(Parsed::Run(options))
}

impl Options {
    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--nodes" => self.nodes = number(name, value, MAX_NODES)?,
            "--port" => self.port = number(name, value, MAX_PORT)?,
            _ => self.dir = value.into(),
        }
        Ok(())
    }

    /// The password that the nodes will want, if any.
    pub fn password(&self) -> String {
        self.config().map(|start| start.config.text("requirepass")).unwrap_or_default()
    }

    /// What a node makes of what is passed on to it.
    fn config(&self) -> Result<Start, StartError> {
        let words = ["--port", "1"].into_iter().map(str::to_owned);
        let no_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        Config::from_args(words.chain(self.passed_on.iter().cloned()), no_file)
    }

    fn check(&self) -> Result<(), String> {
        if self.port > MAX_PORT - (self.nodes - 1) {
            let most = MAX_PORT - (self.nodes - 1);
            let (nodes, port) = (self.nodes, self.port);
            return Err(format!(
                "option '--port': must be 1 to {most} for {nodes} nodes, got {port}"
            ));
        }
        for word in self.passed_on.iter().filter_map(|word| word.strip_prefix("--")) {
            let end = word.find(|c: char| c == '=' || c.is_ascii_whitespace());
            let name = word[..end.unwrap_or(word.len())].to_ascii_lowercase();
            if OWN.contains(&name.as_str()) {
                return Err(format!("option '--{name}' behind '--': set for each node already"));
            }
        }
        // The nodes read these again; a mistake is better named here than in three logs.
        self.config().map(|_| ()).map_err(|error| error.to_string())
    }
}

fn number(name: &str, value: &str, most: u16) -> Result<u16, String> {
    let number = value.parse().ok().filter(|n| (1..=most).contains(n));
    number.ok_or_else(|| format!("option '{name}': must be 1 to {most}, got '{}'", shown(value)))
}

fn shown(word: &str) -> String {
    word.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Parsed, String> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            Ok(Parsed::Run(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_have_defaults_and_both_forms() {
        let plain = options("");
        assert_eq!((plain.nodes, plain.port), (3, 7001));
        assert_eq!(plain.dir, PathBuf::from("./slotd-local"));
        let given = options("--nodes 26 --port=55510 --dir /x -- --maxmemory 100mb");
        assert_eq!((given.nodes, given.port), (26, 55_510));
        assert_eq!(given.dir, PathBuf::from("/x"));
        assert_eq!(given.passed_on, ["--maxmemory", "100mb"]);
        assert_eq!(parsed("--nodes 0 --help"), Ok(Parsed::Help));
    }

    #[test]
    fn a_bad_option_is_named() {
        for (line, text) in [
            ("--nodes 0", "option '--nodes': must be 1 to 26, got '0'"),
            ("--nodes 27", "option '--nodes': must be 1 to 26, got '27'"),
            ("--nodes x", "option '--nodes': must be 1 to 26, got 'x'"),
            ("--nodes", "option '--nodes': needs a value"),
            ("--dir=", "option '--dir': needs a value"),
            ("--port 0", "option '--port': must be 1 to 55535, got '0'"),
            ("--port 55534", "option '--port': must be 1 to 55533 for 3 nodes, got 55534"),
            ("--maxmemory 1gb", "option '--maxmemory': unknown; options of slotd go behind '--'"),
            ("three", "unexpected argument 'three', expected --option"),
            ("-- --port 1", "option '--port' behind '--': set for each node already"),
            ("-- --name=x", "option '--name' behind '--': set for each node already"),
            ("-- --nosuch 1", "option 'nosuch': unknown option"),
            ("-- slotd.conf", "option 'port': takes one value, got 2"),
        ] {
            assert_eq!(parsed(line), Err(text.to_owned()), "{line}");
        }
    }
}
