//! A whole cluster in one thread: hosts, network, log, clients, operators, faults.
//!
//! ```text
//!   found --> chaos: clients, operators and faults at once --> heal --> everything must be well
//! ```
//! Invariant: events happen one at a time, in order of world time; ties in order of planning. So
//! a seed is one run, on any machine.

mod clients;
mod faults;
mod heal;
mod hosts;
mod leaders;
mod messages;
mod operators;
mod orders;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use slotd::control::ledger::Entry;
use slots::{
    Addresses, Boot, ClusterSettings, Endpoint, NewNode, NodeId, Proposal, Proposer, StoreId,
    TableChange,
};

use crate::FOUNDED;
use crate::clock::{MS, SECOND, Us};
use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::log::{HostIx, SimLog};
use crate::net::{Message, Net, Place};
use crate::node::unchecked;
use crate::oracle::{Oracle, Violation};
use crate::plan::{Bug, Plan};

use clients::Client;
use hosts::Host;
use operators::Operator;

/// Events kept to be printed with a violation.
const LAST_EVENTS: usize = 60;
/// More events than any run has: a run that does not end is a fault of the world's.
const MAX_EVENTS: u64 = 2_000_000;
/// Hosts a run may come to have: those of the cluster, those that join, and those on which copies
/// of data directories are started.
pub(crate) const MAX_HOSTS: usize = 12;
/// How often a host's timers are looked at.
const TICK: Us = 100 * MS;

/// What may happen.
#[derive(Debug)]
enum Event {
    Tick { host: HostIx, process: u64 },
    Arrive(Message),
    Turn { client: usize },
    Operate,
    Fault,
    Undo(faults::Undo),
    Restart { host: HostIx },
    Heal,
    Look,
}

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Chaos,
    Healing { since: Us },
    Done,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The broken promise, if any.
    pub violation: Option<Violation>,
    /// What was met.
    pub coverage: Coverage,
    /// The last events, one line each.
    pub last_events: Vec<String>,
    /// Events in all.
    pub events: u64,
    /// Table versions in all.
    pub versions: u64,
    /// From the heal to the first change that was agreed, world time.
    pub changes_again: Option<Us>,
}

/// The world.
pub(crate) struct World {
    plan: Plan,
    now: Us,
    dice: Dice,
    queue: BTreeMap<(Us, u64), Event>,
    planned: u64,
    hosts: Vec<Host>,
    net: Net,
    log: SimLog,
    clients: Vec<Client>,
    operator: Operator,
    oracle: Oracle,
    phase: Phase,
    next_process: u64,
    next_token: u64,
    /// The list's entries that the oracle has seen.
    seen_by_oracle: u64,
    heal: heal::Heal,
    events: VecDeque<String>,
    event_count: u64,
    /// Every node requires all slots to have an owner.
    needs_coverage: bool,
}

/// Plays a run to its end or its first violation; one with a violation is played once more, to
/// learn what happened before it.
pub fn play(plan: Plan) -> Report {
    let report = play_once(plan);
    if report.violation.is_none() || plan.is_noted || plan.is_traced {
        return report;
    }
    let again = play_once(Plan { is_noted: true, ..plan });
    assert_eq!(again.violation, report.violation, "a seed is one run");
    again
}

fn play_once(plan: Plan) -> Report {
    let mut world = World::new(plan);
    world.found();
    while world.phase != Phase::Done && world.oracle.violation().is_none() {
        let Some(((at, _), event)) = world.queue.pop_first() else { break };
        world.now = at;
        world.event_count += 1;
        if world.event_count > MAX_EVENTS {
            world.oracle.fail("WORLD", "the run does not end".to_owned());
        }
        world.happen(event);
    }
    Report {
        violation: world.oracle.violation().cloned(),
        coverage: std::mem::take(&mut world.oracle.coverage),
        last_events: world.events.into(),
        events: world.event_count,
        versions: world.log.len(),
        changes_again: world.heal.changes_again,
    }
}

/// The port at which host number `host` serves clients, whatever name it goes by: the hundreds
/// change with SetAddress.
fn port_of(host: HostIx, alias: u16) -> u16 {
    7001 + host as u16 + alias * 100
}

/// The host behind a port.
fn host_at(port: u16) -> Option<HostIx> {
    Some(usize::from(port.checked_sub(7001)? % 100))
}

fn addresses(host: HostIx, alias: u16) -> Addresses {
    let ip = format!("10.0.0.{}", host + 1);
    Addresses {
        client: Endpoint::new(&ip, port_of(host, alias)),
        bus: Endpoint::new(&ip, port_of(host, alias) + 10_000),
        hostname: None,
    }
}

impl World {
    fn new(plan: Plan) -> World {
        let mut dice = Dice::new(plan.seed ^ 0x5107_D000);
        let count = dice.between(3, 7) as usize;
        let voters = match count {
            3 | 4 => 3,
            _ => *[3, 5].get(dice.below(2)).unwrap_or(&5),
        };
        let needs_coverage = dice.chance(150);
        let mut world = World {
            plan,
            now: 0,
            queue: BTreeMap::new(),
            planned: 0,
            hosts: Vec::new(),
            net: Net::default(),
            log: SimLog::new((0..voters).collect()),
            clients: Vec::new(),
            operator: Operator::default(),
            oracle: Oracle::new(),
            phase: Phase::Chaos,
            next_process: 1,
            next_token: 1,
            seen_by_oracle: 0,
            heal: heal::Heal::default(),
            events: VecDeque::new(),
            event_count: 0,
            needs_coverage,
            dice: dice.clone(),
        };
        (0..count).for_each(|_| world.add_host());
        world.dice = dice;
        world
    }

    /// The first entries, the first starts, and who does what when.
    fn found(&mut self) {
        let count = self.hosts.len();
        let long = if self.plan.seed.is_multiple_of(16) { 980 } else { 0 };
        self.note(|| format!("{count} hosts, {long} old records"));
        let by = Proposer { node: self.identity(0).0, boot: Boot(0) };
        let settings = ClusterSettings::default();
        let early = TableChange::Weight { node: by.node, weight: 1 };
        self.found_entry(by, early);
        self.found_entry(by, TableChange::InitCluster { settings });
        for host in 0..count {
            let node = self.new_node(host);
            self.found_entry(by, TableChange::AddNode { node });
        }
        for weight in 0..long {
            self.found_entry(by, TableChange::Weight { node: by.node, weight });
        }
        self.heed_list();
        for host in 0..count {
            let delay = self.dice.between(0, 500) * MS;
            self.plan_in(delay, Event::Restart { host });
        }
        self.open_clients();
        self.plan_in(SECOND, Event::Operate);
        self.plan_in(5 * SECOND, Event::Fault);
        let chaos = self.dice.between(12, 28) * SECOND;
        self.plan_in(chaos, Event::Heal);
    }

    fn found_entry(&mut self, by: Proposer, change: TableChange) {
        let proposal = Proposal { cluster: FOUNDED, by, change };
        self.log.found(Arc::new(Entry { at_ms: 0, actor: "founder".to_owned(), proposal }));
    }

    fn identity(&self, host: HostIx) -> (NodeId, StoreId) {
        let disk = self.hosts[host].disk.as_ref();
        disk.map_or((NodeId::from_bytes([0; 20]), StoreId::from_bytes([0; 16])), |disk| disk.who)
    }

    fn new_node(&self, host: HostIx) -> NewNode {
        let (id, store) = self.identity(host);
        NewNode {
            id,
            name: format!("node-{host}"),
            store,
            addresses: addresses(host, 0),
            labels: Default::default(),
            weight: slots::DEFAULT_WEIGHT,
        }
    }

    fn plan_in(&mut self, delay: Us, event: Event) {
        self.planned += 1;
        self.queue.insert((self.now + delay, self.planned), event);
    }

    /// A line of the trace.
    fn note(&mut self, text: impl FnOnce() -> String) {
        if !self.plan.is_noted && !self.plan.is_traced {
            return;
        }
        let line = format!("{:>10.3} ms  {}", self.now as f64 / MS as f64, text());
        if self.plan.is_traced {
            println!("{line}");
        }
        if self.events.len() == LAST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(line);
    }

    /// The oracle applies what is new in the list.
    fn heed_list(&mut self) {
        while self.seen_by_oracle < self.log.len() {
            self.seen_by_oracle += 1;
            let version = self.seen_by_oracle;
            let Some(listed) = self.log.at(version).cloned() else { return };
            let tampered = listed.entry.as_deref().and_then(|entry| self.tampered(entry));
            let entry = tampered.as_ref().or(listed.entry.as_deref());
            self.oracle.listed(version, entry);
            self.note(|| match &listed.entry {
                None => format!("listed {version}: a new leader's first"),
                Some(entry) => {
                    let (change, by) = (&entry.proposal.change, entry.proposal.by.node);
                    format!("listed {version}: {} {} by {by}", change.name(), change.detail())
                }
            });
            let refused = self.oracle.truth.history().back().and_then(|r| r.refused.clone());
            if let Some(refused) = refused.filter(|_| listed.entry.is_some()) {
                self.note(|| format!("   refused: {refused}"));
            }
        }
    }

    /// A bug in the rules is the same on every node, and in the oracle's copy of them.
    fn tampered(&self, entry: &Entry) -> Option<Entry> {
        let is_unchecked = self.plan.has(Bug::ChangeWithoutChecks);
        is_unchecked.then(|| unchecked(entry, self.oracle.truth.table()))
    }

    fn send(&mut self, message: Message) {
        for at in self.net.arrivals(&message, self.now, &mut self.dice) {
            self.plan_in(at - self.now, Event::Arrive(message.clone()));
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick { host, process } => self.tick(host, process),
            Event::Arrive(message) => self.arrive(message),
            Event::Turn { client } => self.turn(client),
            Event::Operate => self.operate(),
            Event::Fault => self.fault(),
            Event::Undo(undo) => self.undo(undo),
            Event::Restart { host } => self.start(host),
            Event::Heal => self.heal(),
            Event::Look => self.look(),
        }
    }

    fn arrive(&mut self, message: Message) {
        match message.to {
            Place::Client(client) => self.hear(client, message),
            // A link that was cut meanwhile has lost what was on its way.
            Place::Host(_) if !self.net.is_open(message.from, message.to) => {}
            Place::Host(host) => self.take_in(host, message),
        }
    }

    fn is_chaos(&self) -> bool {
        self.phase == Phase::Chaos
    }
}
