//! A cluster of several slotd processes that a test kills, pauses, cuts off and starts again.
//!
//! Not `slotd local`, which mends what a test breaks. Nodes may live in network namespaces.
//! Invariant: every process started ends with its fleet, and only those are ever signalled.

use crate::process::{START_DEADLINE, binary, free_ports, fresh_dir};
use crate::resp::{Client, Value};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);
/// How long an answer to one of the fleet's own questions may take.
const ANSWER: Duration = Duration::from_secs(2);
/// The port for nodes is the client port plus this.
const BUS_OFFSET: u16 = 10_000;

/// Where a node runs and is reached.
#[derive(Clone, Debug)]
pub struct Place {
    /// Words before the program's path: `ip netns exec NAME`.
    pub prefix: Vec<String>,
    /// Address it binds, announces and is reached at.
    pub host: String,
    /// Client port.
    pub port: u16,
}

/// One node.
pub struct Member {
    place: Place,
    dir: PathBuf,
    child: Option<Child>,
    starts: u32,
    paused: bool,
}

/// The nodes.
pub struct Fleet {
    binary: PathBuf,
    dir: PathBuf,
    args: Vec<String>,
    members: Vec<Member>,
}

impl Fleet {
    /// `count` nodes on this machine, formed into one cluster with all slots given out evenly.
    pub fn start(count: u16, args: &[&str]) -> io::Result<Self> {
        let first = free_ports(count)?;
        let place = |port| Place { prefix: Vec::new(), host: "127.0.0.1".into(), port };
        Self::start_at((first..first + count).map(place).collect(), args)
    }

    /// As [`Fleet::start`], each node at a place of its own.
    pub fn start_at(places: Vec<Place>, args: &[&str]) -> io::Result<Self> {
        Self::start_in(places.into_iter().map(|place| (place, None)).collect(), args)
    }

    /// As [`Fleet::start_at`], a node that brings a data folder in that. It is removed at the end.
    pub fn start_in(places: Vec<(Place, Option<PathBuf>)>, args: &[&str]) -> io::Result<Self> {
        let dir = fresh_dir()?;
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let mut fleet = Self { binary: binary()?, dir, args, members: Vec::new() };
        for (at, (place, own)) in places.into_iter().enumerate() {
            let dir = own.unwrap_or_else(|| fleet.dir.join(format!("node-{at}")));
            fleet.members.push(Member { place, dir, child: None, starts: 0, paused: false });
            fleet.begin(at)?;
        }
        fleet.form()?;
        Ok(fleet)
    }

    /// What nodes are started with from now on.
    pub fn set_args(&mut self, args: &[&str]) {
        self.args = args.iter().map(|&arg| arg.to_owned()).collect();
    }

    /// How many nodes there are, running or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Always false: a fleet has a node.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// `host:port` of a node.
    pub fn address(&self, node: usize) -> String {
        let place = &self.members[node].place;
        format!("{}:{}", place.host, place.port)
    }

    /// A node's data folder; `stdout` and `stderr` in it hold what it printed.
    pub fn dir(&self, node: usize) -> &Path {
        &self.members[node].dir
    }

    /// How often a node was started.
    pub fn starts(&self, node: usize) -> u32 {
        self.members[node].starts
    }

    /// Whether a node runs and is not paused.
    pub fn is_up(&self, node: usize) -> bool {
        let member = &self.members[node];
        member.child.is_some() && !member.paused
    }

    /// Whether a node's process stands still.
    pub fn is_paused(&self, node: usize) -> bool {
        self.members[node].paused
    }

    /// How many nodes run and are not paused.
    pub fn up(&self) -> usize {
        (0..self.len()).filter(|node| self.is_up(*node)).count()
    }

    /// A new connection to a node, with a deadline for answers.
    pub fn client(&self, node: usize) -> io::Result<Client> {
        let mut client = Client::connect(self.address(node))?;
        client.wait_at_most(ANSWER);
        Ok(client)
    }

    /// Asks a node one thing on a connection of its own.
    pub fn ask(&self, node: usize, words: &[&str]) -> io::Result<Value> {
        self.client(node)?.call(words)
    }

    /// Starts a node that does not run, in its own folder.
    pub fn begin(&mut self, node: usize) -> io::Result<()> {
        let Member { place, dir, .. } = &self.members[node];
        let mut command = self.command(place, dir, &format!("node-{node}"))?;
        if node != 0 {
            command.args(["--join", &self.address(0)]);
        }
        let child = command.spawn()?;
        let member = &mut self.members[node];
        member.child = Some(child);
        member.paused = false;
        member.starts += 1;
        Ok(())
    }

    /// The command that starts a node of this fleet's kind anywhere, with a folder and a name.
    pub fn command(&self, place: &Place, dir: &Path, name: &str) -> io::Result<Command> {
        fs::create_dir_all(dir)?;
        let log =
            |name: &str| fs::OpenOptions::new().create(true).append(true).open(dir.join(name));
        let mut words = place.prefix.iter().map(PathBuf::from).collect::<Vec<_>>();
        words.push(self.binary.clone());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.args(["--cluster-enabled", "yes", "--name", name]);
        command.args(["--port", &place.port.to_string(), "--bind", &place.host]);
        command.arg("--dir").arg(dir).args(&self.args);
        command.stdin(Stdio::null()).stdout(log("stdout")?).stderr(log("stderr")?);
        Ok(command)
    }

    /// Kills a node at once, as a crash does.
    pub fn kill(&mut self, node: usize) -> io::Result<ExitStatus> {
        let member = &mut self.members[node];
        member.paused = false;
        match member.child.take() {
            Some(mut child) => {
                child.kill()?;
                child.wait()
            }
            None => Err(io::Error::other(format!("node {node} does not run"))),
        }
    }

    /// SIGSTOP: the process stands still, its connections stay open.
    pub fn pause(&mut self, node: usize) -> io::Result<()> {
        self.signal(node, "STOP")?;
        self.members[node].paused = true;
        Ok(())
    }

    /// SIGCONT.
    pub fn resume(&mut self, node: usize) -> io::Result<()> {
        self.signal(node, "CONT")?;
        self.members[node].paused = false;
        Ok(())
    }

    /// Whether a node's process has ended by itself; its status then.
    pub fn ended(&mut self, node: usize) -> io::Result<Option<ExitStatus>> {
        match &mut self.members[node].child {
            Some(child) => child.try_wait(),
            None => Ok(None),
        }
    }

    fn signal(&self, node: usize, name: &str) -> io::Result<()> {
        let Some(child) = &self.members[node].child else {
            return Err(io::Error::other(format!("node {node} does not run")));
        };
        let line = format!("kill -{name} {}", child.id());
        match Command::new("sh").args(["-c", &line]).status()?.success() {
            true => Ok(()),
            false => Err(io::Error::other(line)),
        }
    }

    /// Waits until every node lists every other, gives out the slots, waits until all serve.
    fn form(&mut self) -> io::Result<()> {
        let count = self.len();
        self.wait_for(START_DEADLINE, "all know all", |fleet| {
            (0..count).all(|node| fleet.lines(node) == Some(count))
        })?;
        let slots = 16_384 / count;
        for node in 0..count {
            let first = (node * slots).to_string();
            let last = if node + 1 == count { 16_383 } else { (node + 1) * slots - 1 }.to_string();
            let said = self.ask(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            if said != Value::ok() {
                return Err(io::Error::other(format!("node {node} ADDSLOTSRANGE: {said:?}")));
            }
        }
        self.wait_until_serving(START_DEADLINE)
    }

    /// Waits until every running node says that the cluster serves.
    pub fn wait_until_serving(&mut self, at_most: Duration) -> io::Result<()> {
        self.wait_for(at_most, "all serve", |fleet| {
            (0..fleet.len()).filter(|node| fleet.is_up(*node)).all(|node| {
                let said = fleet.ask(node, &["CLUSTER", "INFO"]);
                said.is_ok_and(|v| v.text().is_some_and(|t| t.contains("cluster_state:ok")))
            })
        })
    }

    /// Waits until as many nodes vote as do in a cluster of this size: from then on a majority of
    /// the nodes is one of the voters, up to five nodes.
    pub fn wait_until_all_vote(&mut self, at_most: Duration) -> io::Result<()> {
        let wanted = match self.len() {
            0..3 => 1,
            3..5 => 3,
            _ => 5,
        };
        self.wait_for(at_most, "all vote", |fleet| fleet.voters() == wanted)
    }

    /// How many nodes vote, as the first one says.
    fn voters(&self) -> usize {
        let status = self.ask(0, &["SLOTD", "STATUS"]).ok();
        let text = status.as_ref().and_then(|said| said.text()).unwrap_or_default();
        text.matches(r#""role":"voter""#).count() + text.matches(r#""role":"leader""#).count()
    }

    /// Waits until something holds; tells what the nodes printed if it does not come.
    pub fn wait_for(
        &mut self,
        at_most: Duration,
        what: &str,
        holds: impl Fn(&Fleet) -> bool,
    ) -> io::Result<()> {
        let until = Instant::now() + at_most;
        while !holds(self) {
            if Instant::now() > until {
                let said: Vec<String> = (0..self.len()).map(|node| self.last_words(node)).collect();
                let said = said.join("\n");
                return Err(io::Error::other(format!("{what}: not within {at_most:?}\n{said}")));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The last lines a node printed.
    pub fn last_words(&self, node: usize) -> String {
        let dir = &self.members[node].dir;
        let text = ["stdout", "stderr"]
            .map(|name| fs::read_to_string(dir.join(name)).unwrap_or_default())
            .concat();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n  ");
        format!("node {node}:\n  {last}")
    }

    /// Where a node listens for nodes.
    pub fn bus_port(&self, node: usize) -> u16 {
        self.members[node].place.port + BUS_OFFSET
    }

    fn lines(&self, node: usize) -> Option<usize> {
        let said = self.ask(node, &["CLUSTER", "NODES"]).ok()?;
        said.text().map(|text| text.lines().count())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(child) = &mut member.child {
                // Both fail only when it is already gone, which is what is wanted.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if std::env::var_os("SLOTD_KEEP_DIRS").is_none() {
            self.members.iter().for_each(|member| drop(fs::remove_dir_all(&member.dir)));
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
