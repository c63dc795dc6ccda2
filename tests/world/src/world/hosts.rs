//! Hosts: their disks, clocks and processes; starts, crashes, pauses.
//!
//! Invariant: what a crash leaves is what was on the disk.

use std::collections::VecDeque;
use std::sync::Arc;

use slotd::command::Now;
use slotd::control::ledger::{Entry, Ledger};
use slotd::control::startup::{BootRecord, Claim, Evidence};
use slots::{Boot, Kept, NodeId, Nonce, SlotRanges, StoreId};

use super::{Event, MAX_HOSTS, TICK, World};
use crate::clock::{HostClock, MS, SECOND, Us};
use crate::log::{HostIx, ProposalIx};
use crate::net::{Body, Message, Place};
use crate::node::{Birth, Wants, WorldNode};
use crate::oracle::{At, ProcessIx};
use crate::plan::Bug;
use crate::votes::{Ballot, Votes};

/// States of the ledger file that a damaged disk may fall back to.
const OLDER_LEDGERS: usize = 4;
/// Applied entries between two of them.
const LEDGER_EACH: u64 = 7;
/// Messages that wait at a stopped process; more are lost.
const MAX_INBOX: usize = 10_000;
/// Proposals of one process.
const PROPOSALS_PER_PROCESS: u64 = 1_000_000;

/// A data directory.
#[derive(Clone)]
pub(super) struct Disk {
    /// Node and store.
    pub(super) who: (NodeId, StoreId),
    /// The boot file.
    pub(super) record: BootRecord,
    /// The log's state.
    pub(super) ledger: Ledger,
    older: VecDeque<Ledger>,
    /// Term and vote.
    pub(super) ballot: Ballot,
    /// A voter's directory, and no copy of one.
    pub(super) may_vote: bool,
    /// Start with `--restored`.
    pub(super) is_restored: bool,
    /// The newest boot taken (a bug counts on).
    last_taken: Boot,
    last_nonce: Option<Nonce>,
}

/// A process.
pub(super) struct Process {
    pub(super) ix: ProcessIx,
    pub(super) node: WorldNode,
    pub(super) votes: Votes,
    seat_name: &'static str,
}

/// A host.
pub(super) struct Host {
    pub(super) disk: Option<Disk>,
    pub(super) process: Option<Process>,
    pub(super) clock: HostClock,
    pub(super) is_paused: bool,
    inbox: Vec<Message>,
    /// Its process ended by itself.
    pub(super) ended: bool,
}

impl World {
    /// A host of the cluster, with a new data directory.
    pub(super) fn add_host(&mut self) {
        let who = (NodeId::from_bytes(self.dice.bytes()), StoreId::from_bytes(self.dice.bytes()));
        let may_vote = self.log.voters().contains(&self.hosts.len());
        self.add_host_with(Some(Disk::new(who, may_vote)));
    }

    /// A host with this directory; its number.
    pub(super) fn add_host_with(&mut self, disk: Option<Disk>) -> HostIx {
        let up_ns = self.dice.between(1, 1_000_000) * 1_000_000;
        let mut clock = HostClock::new(up_ns);
        clock.set_rate(self.now, self.dice.between(960, 1040));
        clock.shift_wall(self.dice.between(0, 2000) as i64 - 1000);
        self.hosts.push(Host {
            disk,
            process: None,
            clock,
            is_paused: false,
            inbox: Vec::new(),
            ended: false,
        });
        self.hosts.len() - 1
    }

    pub(super) fn has_room(&self) -> bool {
        self.hosts.len() < MAX_HOSTS
    }

    pub(super) fn clock(&self, host: HostIx) -> Now {
        self.hosts[host].clock.now(self.now)
    }

    pub(super) fn at(&self, host: HostIx) -> Option<At> {
        let process = self.hosts[host].process.as_ref()?;
        Some(At { host, process: process.ix })
    }

    /// Hosts whose process runs, stopped or not.
    pub(super) fn running(&self) -> Vec<HostIx> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].process.is_some()).collect()
    }

    /// Starts a process, if there is a directory and none runs.
    pub(super) fn start(&mut self, host: HostIx) {
        if self.hosts[host].process.is_some() {
            return;
        }
        let nonce = Nonce::from_bytes(self.dice.bytes());
        let evidence = self.draw_evidence();
        let kept = evidence.kept;
        let (now, bug) = (self.clock(host), self.plan.bug);
        let coverage = if self.needs_coverage { "yes" } else { "no" };
        let options = ["--cluster-require-full-coverage", coverage].map(str::to_owned).to_vec();
        let Some(disk) = self.hosts[host].disk.as_mut() else { return };
        let (record, nonce) = disk.begin_boot(bug, nonce);
        let claim = if disk.is_restored { Claim::Restored } else { Claim::Stored };
        let (who, ledger, ballot) = (disk.who, disk.ledger.clone(), disk.ballot);
        let birth = Birth { who, record, nonce, claim, evidence, ledger, options, now, bug };
        let process = self.next_process;
        self.next_process += 1;
        let node = match WorldNode::new(birth, process * PROPOSALS_PER_PROCESS) {
            Ok(node) => node,
            Err(error) => return self.oracle.fail("WORLD", format!("options: {error}")),
        };
        let votes = Votes::new(ballot, now.mono_ns, &mut self.dice);
        let boot = node.startup.identity().boot;
        self.hosts[host].process = Some(Process { ix: process, node, votes, seat_name: "Started" });
        self.hosts[host].ended = false;
        self.oracle.coverage.count("fault", &format!("start, kept {kept:?}, {claim:?}"));
        self.note(|| format!("host {host} starts: process {process}, boot {boot}, {claim:?}"));
        self.plan_in(0, Event::Tick { host, process });
        self.after(host);
    }

    fn draw_evidence(&mut self) -> Evidence {
        let all = [Kept::Nothing, Kept::Nothing, Kept::Tail, Kept::All];
        let kept = self.dice.pick(&all).unwrap_or(Kept::Nothing);
        let mut except = SlotRanges::new();
        if self.dice.chance(100) {
            crate::oracle::PLAY
                .filter_map(slots::SlotId::new)
                .take(2)
                .for_each(|s| except.insert(s));
        }
        Evidence { kept, alone: Default::default(), except }
    }

    /// A host's timers.
    pub(super) fn tick(&mut self, host: HostIx, process: ProcessIx) {
        if self.hosts[host].process.as_ref().is_none_or(|p| p.ix != process) {
            return;
        }
        self.plan_in(TICK, Event::Tick { host, process });
        if self.hosts[host].is_paused {
            return;
        }
        let now = self.clock(host);
        if let Some(process) = &mut self.hosts[host].process {
            process.node.tick(now);
        }
        self.lead(host);
        self.after(host);
    }

    /// A message is there: at once, or once the process is no longer stopped.
    pub(super) fn take_in(&mut self, host: HostIx, message: Message) {
        let at = &mut self.hosts[host];
        if at.process.is_none() {
            return;
        }
        if at.is_paused {
            if at.inbox.len() < MAX_INBOX {
                at.inbox.push(message);
            }
            return;
        }
        self.deliver(host, message);
        if self.hosts[host].process.is_some() {
            self.after(host);
        }
    }

    /// After every event of a process: what it wants is done, and the oracle looks.
    pub(super) fn after(&mut self, host: HostIx) {
        while let Some(process) = &mut self.hosts[host].process {
            let wants = std::mem::take(&mut process.node.wants);
            if wants.store.is_none() && wants.exit.is_none() && wants.propose.is_empty() {
                break;
            }
            if !self.fulfil(host, wants) {
                return;
            }
        }
        self.sync_disk(host);
        self.examine(host);
    }

    /// False: the process is gone.
    fn fulfil(&mut self, host: HostIx, wants: Wants) -> bool {
        if let Some(record) = wants.store {
            if self.is_chaos() && self.dice.chance(30) {
                self.oracle.coverage.count("fault", "crash before the boot file is synced");
                self.crash(host);
                return false;
            }
            self.note(|| format!("host {host} stores {record:?}"));
            if let Some(disk) = &mut self.hosts[host].disk {
                disk.is_restored &= !record.claims.is_empty();
                disk.record = record;
            }
        }
        if let Some(ending) = wants.exit {
            self.note(|| format!("host {host} exits: {ending:?}"));
            let name = format!("{ending:?}");
            let name = name.split(' ').next().unwrap_or_default();
            self.oracle.coverage.count("seat", &format!("Ended({name})"));
            self.hosts[host].ended = true;
            // Whoever looks after it does not know better.
            self.plan_restart(host, 700);
            self.drop_process(host);
            return false;
        }
        for (proposal, entry) in wants.propose {
            self.forward(host, proposal, entry);
        }
        true
    }

    fn forward(&mut self, host: HostIx, proposal: ProposalIx, entry: Arc<Entry>) {
        let (from, now) = (Place::Host(host), self.clock(host));
        let body = Body::Propose { proposal, entry };
        match self.leader_for(host) {
            Some(leader) if leader == host => {
                self.deliver(host, Message { from, to: from, body });
            }
            Some(leader) => self.send(Message { from, to: Place::Host(leader), body }),
            None => {
                if let Some(process) = &mut self.hosts[host].process {
                    process.node.refused(proposal, now);
                }
            }
        }
    }

    /// The raft files and the ledger are synced before anybody is told.
    fn sync_disk(&mut self, host: HostIx) {
        let at = &mut self.hosts[host];
        let (Some(process), Some(disk)) = (&at.process, &mut at.disk) else { return };
        disk.ballot = process.votes.ballot;
        let version = process.node.version();
        if version != disk.ledger.table().version().0 {
            if version.is_multiple_of(LEDGER_EACH) {
                disk.older.push_back(disk.ledger.clone());
                if disk.older.len() > OLDER_LEDGERS {
                    disk.older.pop_front();
                }
            }
            disk.ledger = process.node.ledger.clone();
        }
    }

    fn examine(&mut self, host: HostIx) {
        let Some(at) = self.at(host) else { return };
        let Some(process) = &mut self.hosts[host].process else { return };
        let name = match process.node.startup.standing() {
            slotd::control::seat::Standing::Starting => "Starting",
            slotd::control::seat::Standing::Seated => "Seated",
            slotd::control::seat::Standing::Removed => "Removed",
            slotd::control::seat::Standing::Ended(_) => "Ended",
        };
        if name != process.seat_name {
            let before = std::mem::replace(&mut process.seat_name, name);
            self.oracle.coverage.count("seat", &format!("{before} -> {name}"));
            let version = process.node.version();
            let line = format!("host {host} is {name} at table {version}");
            self.note(|| line);
        }
        let Some(process) = &self.hosts[host].process else { return };
        self.oracle.check_words(at, &process.node);
        self.oracle.check_limits(at, &process.node);
    }

    /// The process is gone, and what was not on its disk.
    pub(super) fn crash(&mut self, host: HostIx) {
        if self.hosts[host].process.is_none() {
            return;
        }
        self.note(|| format!("host {host} crashes"));
        self.drop_process(host);
        let damage = self.dice.below(10);
        if let Some(disk) = &mut self.hosts[host].disk {
            match damage {
                0 => disk.ledger = Ledger::new(),
                1 | 2 => disk.ledger = disk.older.pop_front().unwrap_or_default(),
                _ => {}
            }
        }
        let name = ["log damaged and given up", "log falls back", "log falls back"];
        self.oracle.coverage.count("fault", name.get(damage).unwrap_or(&"crash, log whole"));
        self.plan_restart(host, 950);
    }

    /// Whoever looks after the host starts it again, in `permille` of 1000 cases.
    fn plan_restart(&mut self, host: HostIx, permille: u64) {
        if self.is_chaos() && self.dice.chance(permille) {
            let delay: Us = self.dice.between(50, 4000) * MS;
            self.plan_in(delay, Event::Restart { host });
        }
    }

    fn drop_process(&mut self, host: HostIx) {
        if let Some(process) = self.hosts[host].process.take() {
            self.oracle.forget(process.ix);
        }
        self.oracle.silent(host);
        self.hosts[host].is_paused = false;
        self.hosts[host].inbox.clear();
    }

    /// SIGSTOP.
    pub(super) fn pause(&mut self, host: HostIx) {
        if self.hosts[host].process.is_some() && !self.hosts[host].is_paused {
            self.note(|| format!("host {host} is stopped"));
            self.hosts[host].is_paused = true;
        }
    }

    /// SIGCONT: timers and messages that waited come in whatever order they like.
    pub(super) fn go_on(&mut self, host: HostIx) {
        if !self.hosts[host].is_paused {
            return;
        }
        self.note(|| format!("host {host} goes on"));
        self.hosts[host].is_paused = false;
        for message in std::mem::take(&mut self.hosts[host].inbox) {
            let delay = self.dice.between(0, SECOND / 100);
            // Clients' bytes keep their order; a connection is one client's here.
            self.plan_in(delay, Event::Arrive(message));
        }
    }
}

impl Disk {
    pub(super) fn new(who: (NodeId, StoreId), may_vote: bool) -> Disk {
        Disk {
            who,
            record: BootRecord::default(),
            ledger: Ledger::new(),
            older: VecDeque::new(),
            ballot: Ballot::default(),
            may_vote,
            is_restored: false,
            last_taken: Boot(0),
            last_nonce: None,
        }
    }

    /// A copy of the directory: it must not vote, as its votes and log may be old.
    pub(super) fn copy(&self) -> Disk {
        Disk { may_vote: false, is_restored: false, ..self.clone() }
    }

    /// The boot file and the nonce that a start goes by.
    fn begin_boot(&mut self, bug: Option<Bug>, nonce: Nonce) -> (BootRecord, Nonce) {
        match (bug, self.last_nonce) {
            (Some(Bug::BootNotNew), Some(last)) if self.record.confirmed > Boot(0) => {
                let confirmed = Boot(self.record.confirmed.0 - 1);
                return (BootRecord { confirmed, claims: Vec::new() }, last);
            }
            (Some(Bug::BootNotConfirmed), _) => {
                let confirmed = self.record.confirmed.max(self.last_taken);
                self.record = BootRecord { confirmed, claims: Vec::new() };
            }
            _ => {}
        }
        self.last_taken = self.record.confirmed.next();
        self.last_nonce = Some(nonce);
        (self.record.clone(), nonce)
    }
}
