//! Shows what a cluster does when its network breaks: run by `tests/netns/run`, which makes one
//! network namespace a node and this program's own.
//!
//! For each case: cut, look, mend, look. While a minority is cut off it commits nothing, the
//! slots of its single-copy owners are served on by them, the majority commits again; after the
//! mend all tables are equal and no history forked. Ends with `partitions: holds` or what did not.

use slot_tests::flags::Flags;
use slot_tests::fleet::{Fleet, Place};
use slot_tests::history::Histories;
use slot_tests::keys::{SLOTS, key_in};
use slot_tests::resp::Value;
use std::io;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

const USAGE: &str = "partitions --net PREFIX --hosts A,B,C,... [--only CASE]";
/// After a cut the majority must have made a change by then; a leader change takes 2.2 s.
const COMMITS_AGAIN: Duration = Duration::from_secs(6);
/// So long the minority is asked in vain.
const WATCH: Duration = Duration::from_secs(4);
const HEAL: Duration = Duration::from_secs(20);
const PORT: u16 = 7001;
/// The clients come from a namespace of their own.
const ARGS: [&str; 4] = ["--cluster-require-full-coverage", "no", "--protected-mode", "no"];

/// What a case drops, seen from the nodes cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drop {
    Both,
    In,
    Out,
    /// A part of a hundred packets, of all nodes, both ways.
    Part(u32),
}

struct Case {
    name: &'static str,
    /// How many nodes are cut off; the first is the leader or not.
    cut: usize,
    with_leader: bool,
    drop: Drop,
}

const CASES: [Case; 7] = [
    Case { name: "leader isolated", cut: 1, with_leader: true, drop: Drop::Both },
    Case { name: "follower isolated", cut: 1, with_leader: false, drop: Drop::Both },
    Case { name: "split 2/3, leader in the 2", cut: 2, with_leader: true, drop: Drop::Both },
    Case { name: "split 2/3, leader in the 3", cut: 2, with_leader: false, drop: Drop::Both },
    Case { name: "leader hears nobody", cut: 1, with_leader: true, drop: Drop::In },
    Case { name: "nobody hears the leader", cut: 1, with_leader: true, drop: Drop::Out },
    Case { name: "30 % loss everywhere", cut: 0, with_leader: false, drop: Drop::Part(30) },
];

fn main() -> io::Result<ExitCode> {
    let mut flags = Flags::from_env(USAGE);
    let net: String = flags.value("--net", String::new());
    let hosts: String = flags.value("--hosts", String::new());
    let only: Option<String> = flags.maybe("--only");
    if net.is_empty() || hosts.is_empty() {
        flags.refuse("--net and --hosts are needed");
    }
    flags.finish();
    let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    let places = hosts.iter().enumerate().map(|(at, host)| Place {
        prefix: ["ip", "netns", "exec"]
            .map(str::to_owned)
            .into_iter()
            .chain([ns(&net, at)])
            .collect(),
        host: host.clone(),
        port: PORT,
    });
    let mut fleet = Fleet::start_at(places.collect(), &ARGS)?;
    fleet.wait_until_all_vote(HEAL)?;
    let mut lab = Lab { fleet, net, hosts, changes: 0, faults: Vec::new() };
    for case in CASES.iter().filter(|c| only.as_ref().is_none_or(|o| c.name.contains(o.as_str()))) {
        println!("-- {}", case.name);
        lab.run(case)?;
    }
    for fault in &lab.faults {
        println!("partitions: {fault}");
    }
    println!("partitions: {}", if lab.faults.is_empty() { "holds" } else { "DOES NOT HOLD" });
    Ok(if lab.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn ns(net: &str, node: usize) -> String {
    format!("{net}-{node}")
}

struct Lab {
    fleet: Fleet,
    net: String,
    hosts: Vec<String>,
    changes: u64,
    faults: Vec<String>,
}

impl Lab {
    fn run(&mut self, case: &Case) -> io::Result<()> {
        let leader = self.leader()?;
        let others = (0..self.hosts.len()).filter(|node| *node != leader);
        let order: Vec<usize> = match case.with_leader {
            true => [leader].into_iter().chain(others).collect(),
            false => others.chain([leader]).collect(),
        };
        let (cut, rest) = order.split_at(case.cut);
        let writes_before = self.serves(&order, case.name, "before");
        self.break_network(cut, rest, case.drop)?;
        let broken = Instant::now();
        // One-way loss leaves the other way open: only the majority is sure to go on.
        if cut.is_empty() {
            self.must_commit(rest, case, broken);
        } else {
            self.watch(cut, rest, case, broken);
        }
        if writes_before {
            self.serves(&order, case.name, "while cut");
        }
        self.mend()?;
        let mended = Instant::now();
        let same = |fleet: &Fleet| {
            let tables = (0..fleet.len()).map(|node| fleet.ask(node, &["CLUSTER", "SLOTS"]).ok());
            let versions = (0..fleet.len()).map(|node| version(fleet, node));
            let (tables, versions): (Option<Vec<_>>, Option<Vec<_>>) =
                (tables.collect(), versions.collect());
            tables.is_some_and(|t| t.iter().all(|table| *table == t[0]))
                && versions.is_some_and(|v| v.iter().all(|version| *version == v[0]))
        };
        match self.fleet.wait_for(HEAL, "all agree after the mend", same) {
            Ok(()) => {
                println!("   all agree {:.2} s after the mend", mended.elapsed().as_secs_f64())
            }
            Err(error) => self.faults.push(format!("{}: {error}", case.name)),
        }
        self.compare(case)
    }

    /// The majority commits again, the minority never does.
    fn watch(&mut self, cut: &[usize], rest: &[usize], case: &Case, broken: Instant) {
        self.must_commit(rest, case, broken);
        if case.drop != Drop::Both {
            return;
        }
        let until = Instant::now() + WATCH;
        while Instant::now() < until {
            for node in cut {
                if self.change(*node) {
                    self.faults.push(format!("{}: node {node}, cut off, made a change", case.name));
                    return;
                }
            }
        }
        println!("   the minority made no change for {:.0} s", WATCH.as_secs_f64());
    }

    fn must_commit(&mut self, rest: &[usize], case: &Case, broken: Instant) {
        while broken.elapsed() < HEAL {
            if rest.iter().any(|node| self.change(*node)) {
                let time = broken.elapsed();
                println!("   the majority made a change after {:.2} s", time.as_secs_f64());
                if time > COMMITS_AGAIN && !matches!(case.drop, Drop::Part(_)) {
                    self.faults.push(format!("{}: only after {time:?}", case.name));
                }
                return;
            }
        }
        self.faults.push(format!("{}: the majority makes no change", case.name));
    }

    /// Every owner takes a write of its own slot.
    fn serves(&mut self, nodes: &[usize], case: &str, when: &str) -> bool {
        let count = self.hosts.len() as u16;
        let mut all = true;
        for node in nodes {
            let key = key_in(*node as u16 * (SLOTS / count));
            let said = self.fleet.ask(*node, &["SET", &key, when]);
            if !matches!(&said, Ok(value) if *value == Value::ok()) {
                all = false;
                self.faults.push(format!("{case}, {when}: node {node} answers {said:?}"));
            }
        }
        all
    }

    fn change(&mut self, node: usize) -> bool {
        self.changes += 1;
        let value = self.changes.to_string();
        let Ok(mut client) = self.fleet.client(node) else { return false };
        let id = client.call(&["CLUSTER", "MYID"]).ok();
        let Some(id) = id.as_ref().and_then(Value::text) else { return false };
        let said = client.call(&["SLOTD", "NODE", "LABEL", id, "net", &value]);
        said.is_ok_and(|said| said.text().is_some_and(|text| text.contains("table_version")))
    }

    fn leader(&mut self) -> io::Result<usize> {
        let until = Instant::now() + HEAL;
        loop {
            for node in 0..self.fleet.len() {
                let Some(status) = status(&self.fleet, node) else { continue };
                let found = status["nodes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .position(|row| row["role"] == "leader" && row["health"] == "myself");
                if found.is_some() && status["has_quorum"] == true {
                    return Ok(node);
                }
            }
            if Instant::now() > until {
                return Err(io::Error::other("no node says that it leads"));
            }
            sleep(Duration::from_millis(50));
        }
    }

    fn break_network(&self, cut: &[usize], rest: &[usize], drop: Drop) -> io::Result<()> {
        if let Drop::Part(share) = drop {
            for node in rest {
                let peers: Vec<usize> = rest.iter().copied().filter(|peer| peer != node).collect();
                let lossy = format!("numgen random mod 100 < {share} drop");
                self.rules(*node, &peers, &lossy, &lossy)?;
            }
            return Ok(());
        }
        for node in cut {
            let (incoming, outgoing) = match drop {
                Drop::In => ("drop", "accept"),
                Drop::Out => ("accept", "drop"),
                _ => ("drop", "drop"),
            };
            self.rules(*node, rest, incoming, outgoing)?;
        }
        Ok(())
    }

    fn rules(
        &self,
        node: usize,
        peers: &[usize],
        incoming: &str,
        outgoing: &str,
    ) -> io::Result<()> {
        let peers: Vec<&str> = peers.iter().map(|peer| self.hosts[*peer].as_str()).collect();
        let peers = peers.join(", ");
        let chain = |name: &str, hook: &str, side: &str, verdict: &str| {
            format!(
                "chain {name} {{ type filter hook {hook} priority 0; ip {side} {{ {peers} }} \
                 {verdict}; }}\n"
            )
        };
        let incoming = chain("in", "input", "saddr", incoming);
        let outgoing = chain("out", "output", "daddr", outgoing);
        self.nft(node, &format!("table ip fault {{\n{incoming}{outgoing}}}"))
    }

    fn mend(&self) -> io::Result<()> {
        (0..self.hosts.len()).try_for_each(|node| self.nft(node, "flush ruleset"))
    }

    fn nft(&self, node: usize, rules: &str) -> io::Result<()> {
        let ns = ns(&self.net, node);
        let status = Command::new("ip").args(["netns", "exec", &ns, "nft", rules]).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("nft in {ns}: {status}"))),
        }
    }

    fn compare(&mut self, case: &Case) -> io::Result<()> {
        let mut histories = Histories::default();
        for node in 0..self.fleet.len() {
            histories.add(node, &self.fleet.ask(node, &["SLOTD", "HISTORY"])?);
        }
        println!("   {} entries of history compared", histories.len());
        self.faults.extend(histories.forks().iter().map(|fork| format!("{}: {fork}", case.name)));
        Ok(())
    }
}

fn status(fleet: &Fleet, node: usize) -> Option<serde_json::Value> {
    let said = fleet.ask(node, &["SLOTD", "STATUS"]).ok()?;
    serde_json::from_str(said.text()?).ok()
}

fn version(fleet: &Fleet, node: usize) -> Option<u64> {
    status(fleet, node)?["table_version"].as_u64()
}
