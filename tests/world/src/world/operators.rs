//! Operators: they join and remove nodes, assign and take away slots, and give orders that make
//! no sense.
//!
//! Invariant: an operator knows the table of the node it talks to, however old that is.

use slots::{LossConsent, NodeId, NodeState, SlotRange, SlotRanges, SlotTable, TableChange};

use super::clients::OPERATOR;
use super::hosts::Disk;
use super::orders::{self, By};
use super::{Event, World};
use crate::clock::MS;
use crate::log::HostIx;
use crate::net::Ask;
use crate::node::MAX_OUTSTANDING;
use crate::oracle::Word;

/// What operators remember.
#[derive(Default)]
pub(super) struct Operator {
    /// Copies of data directories, and whose they are.
    pub(super) backups: Vec<(HostIx, Disk)>,
    /// Hosts that were started to join.
    joining: Vec<HostIx>,
    alias: u16,
}

/// Most slots that one order takes.
const MAX_TAKEN: usize = 3000;

impl World {
    /// An order, and the time of the next.
    pub(super) fn operate(&mut self) {
        if !self.is_chaos() {
            return;
        }
        let delay = self.dice.between(60, 500) * MS;
        self.plan_in(delay, Event::Operate);
        let up: Vec<HostIx> =
            self.running().into_iter().filter(|host| !self.hosts[*host].is_paused).collect();
        let Some(host) = self.dice.pick(&up) else { return };
        let Some(process) = &self.hosts[host].process else { return };
        let table = process.node.ledger.table().clone();
        if table.cluster().is_none() {
            return;
        }
        match self.dice.below(26) {
            25 => self.insist(host, &table),
            0..=6 => self.assign(host, &table),
            7..=10 => self.take_away(&table),
            11 => self.force(host, &table),
            12 => self.join_or_remove(host, &table),
            13 => self.set_address(host, &table),
            14..=20 => self.order(&table),
            21 => self.add_slots(host, &table),
            _ => self.nonsense(host, &table),
        }
    }

    fn active(&mut self, table: &SlotTable) -> Option<NodeId> {
        let active = table.nodes().filter(|row| row.state == NodeState::Active);
        let active: Vec<NodeId> = active.map(|row| row.id).collect();
        self.dice.pick(&active)
    }

    fn assign(&mut self, host: HostIx, table: &SlotTable) {
        let unassigned = table.unassigned();
        let Some(to) = self.active(table) else { return };
        let some: Vec<SlotRange> = unassigned.ranges().to_vec();
        let slots = match self.dice.pick(&some) {
            // The founding: everybody gets a share.
            Some(_) if unassigned.count() == slots::SLOTS => self.share(table, to),
            Some(range) if self.dice.chance(500) => SlotRanges::from(range),
            _ => unassigned,
        };
        if !slots.is_empty() {
            let seen = table.version();
            self.propose_at(host, TableChange::AssignSlots { slots, to, seen });
        }
    }

    fn share(&self, table: &SlotTable, of: NodeId) -> SlotRanges {
        let nodes: Vec<NodeId> = table.nodes().map(|row| row.id).collect();
        let shares = slots::even_split(nodes.len());
        let place = nodes.iter().position(|id| *id == of);
        place.and_then(|place| shares.get(place).cloned()).unwrap_or_default()
    }

    /// A run of slots around a key, all of one owner.
    fn run_with_key(&mut self, table: &SlotTable) -> Option<(NodeId, SlotRange)> {
        let keys = self.oracle.keys.clone();
        let (_, slot) = self.dice.pick(&keys)?;
        let owner = table.owner(slot)?;
        let runs = table.slots_of(owner);
        let run = runs.ranges().iter().find(|run| run.slots().any(|s| s == slot)).copied()?;
        let reach = self.dice.below(MAX_TAKEN);
        let near: Vec<slots::SlotId> =
            run.slots().filter(|s| s.index().abs_diff(slot.index()) <= reach).collect();
        Some((owner, SlotRange::new(*near.first()?, *near.last()?)?))
    }

    /// Empties a run of slots at its owner and takes it away, by commands.
    fn take_away(&mut self, table: &SlotTable) {
        let Some((owner, run)) = self.run_with_key(table) else { return };
        let keys = self.oracle.keys.clone();
        let inside =
            keys.iter().enumerate().filter(|(_, (_, slot))| run.slots().any(|s| s == *slot));
        let is_emptied = self.dice.chance(950);
        let dels = inside.filter(|_| is_emptied).map(|(key, _)| Ask::Key(Word::Del, key));
        let (first, last) = (run.first().to_string(), run.last().to_string());
        let words = ["CLUSTER", "DELSLOTSRANGE", &first, &last].map(str::to_owned).to_vec();
        let asks: Vec<Ask> = dels.chain([Ask::Words(words)]).collect();
        for host in self.hosts_of(owner) {
            self.request(OPERATOR, host, asks.clone());
            if self.dice.chance(150) {
                self.deafen_for_a_while(host);
            }
        }
    }

    /// A script that asks for the same again and again, without waiting for an answer.
    fn insist(&mut self, host: HostIx, table: &SlotTable) {
        let Some(node) = self.active(table) else { return };
        for _ in 0..=MAX_OUTSTANDING + 1 {
            let value = Some("again".to_owned());
            let change = TableChange::Label { node, key: "asked".to_owned(), value };
            self.propose_at(host, change);
        }
    }

    fn add_slots(&mut self, host: HostIx, table: &SlotTable) {
        let unassigned = table.unassigned();
        if let Some(run) = unassigned.ranges().first() {
            let (first, last) = (run.first().to_string(), run.last().to_string());
            let words = ["CLUSTER", "ADDSLOTSRANGE", &first, &last].map(str::to_owned).to_vec();
            self.request(OPERATOR, host, vec![Ask::Words(words)]);
        }
    }

    fn hosts_of(&self, node: NodeId) -> Vec<HostIx> {
        let is_of = |host: &HostIx| {
            let disk = self.hosts[*host].disk.as_ref();
            disk.is_some_and(|disk| disk.who.0 == node)
        };
        self.running().into_iter().filter(is_of).collect()
    }

    /// Slots change hands by force: what the old owner acknowledged may be lost.
    fn force(&mut self, host: HostIx, table: &SlotTable) {
        let (Some((_, run)), Some(to)) = (self.run_with_key(table), self.active(table)) else {
            return;
        };
        let consent = match self.dice.chance(800) {
            true => LossConsent::AcceptLoss,
            false => LossConsent::NotGiven,
        };
        let (slots, seen) = (SlotRanges::from(run), table.version());
        let change = match self.dice.chance(500) {
            true => TableChange::ForceTakeover { slots, to, consent },
            false => TableChange::UnassignSlots { slots, seen, consent },
        };
        self.propose_at(host, change);
    }

    fn join_or_remove(&mut self, host: HostIx, table: &SlotTable) {
        if let Some(new) = self.operator.joining.pop() {
            let node = self.new_node(new);
            return self.propose_at(host, TableChange::AddNode { node });
        }
        if self.has_room() && self.dice.chance(500) {
            self.add_host();
            let new = self.hosts.len() - 1;
            self.oracle.coverage.count("fault", "a host joins");
            self.plan_in(0, Event::Restart { host: new });
            self.operator.joining.push(new);
            return;
        }
        let idle = table.nodes().filter(|row| table.slots_of(row.id).is_empty());
        let idle: Vec<NodeId> = idle.map(|row| row.id).collect();
        if let Some(node) = self.dice.pick(&idle) {
            self.propose_at(host, TableChange::RemoveNode { node });
        }
    }

    fn set_address(&mut self, host: HostIx, table: &SlotTable) {
        let Some(node) = self.active(table) else { return };
        let Some(of) = self.hosts_of(node).first().copied() else { return };
        self.operator.alias = (self.operator.alias + 1) % 50;
        let addresses = super::addresses(of, self.operator.alias);
        self.propose_at(host, TableChange::SetAddress { node, addresses });
    }

    /// An order about copies and moves, on slots without clients; or about nodes.
    fn order(&mut self, table: &SlotTable) {
        let Some(order) = orders::draw(table, &mut self.dice) else { return };
        let hosts = match order.by {
            By::Node(node) => self.hosts_of(node),
            By::Anyone => self.running(),
        };
        if let Some(host) = self.dice.pick(&hosts).filter(|host| !self.hosts[*host].is_paused) {
            self.propose_at(host, order.change);
        }
    }

    /// An entry that no honest node would propose.
    fn nonsense(&mut self, host: HostIx, table: &SlotTable) {
        let now = self.clock(host);
        let watched = self.oracle.slots();
        let Some(entry) = orders::nonsense(table, &watched, now.unix_ms, &mut self.dice) else {
            return;
        };
        let Some(process) = &mut self.hosts[host].process else { return };
        process.node.ask_raw(entry, now);
        self.after(host);
    }
}
