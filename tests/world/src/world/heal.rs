//! Everything is mended, and then all must be well within a bounded time.
//!
//! LIVENESS: changes are possible again within 6 s of the majority's return; then every node is
//! seated or removed, all tables are equal, and every slot is served by the table's owner.

use slotd::control::seat::Standing;
use slots::{NodeId, NodeState, TableChange};

use super::{Event, Phase, World, addresses, host_at};
use crate::clock::{MS, SECOND, Us};
use crate::log::HostIx;
use crate::net::Ask;
use crate::node::Asked;
use crate::oracle::{KEYS, Word};
use crate::resp::Value;
use slots::Redirect;

/// Changes must be possible again within this.
const CHANGES_AGAIN: Us = 6 * SECOND;
/// And all must be well within this: starts, catching up and orders of the mending operator.
const ALL_WELL: Us = 15 * SECOND;
/// Between two looks.
const LOOK_EACH: Us = 100 * MS;
/// Between two orders of the mending operator: one is answered before the next.
const ORDER_EACH: Us = 400 * MS;

#[derive(Default)]
pub(super) struct Heal {
    /// From the heal to the first change agreed after it.
    pub(super) changes_again: Option<Us>,
    listed_before: u64,
    next_order: Us,
}

impl World {
    /// All faults end, and everybody who can starts again.
    pub(super) fn heal(&mut self) {
        self.note(|| "heal".to_owned());
        self.phase = Phase::Healing { since: self.now };
        self.heal.listed_before = self.log.len();
        self.net.heal();
        for host in 0..self.hosts.len() {
            let (now, rate) = (self.now, self.dice.between(960, 1040));
            self.hosts[host].clock.set_rate(now, rate);
            self.go_on(host);
            if self.hosts[host].process.is_none() {
                self.plan_in(self.dice.clone().between(0, 50) * MS, Event::Restart { host });
            }
        }
        self.plan_in(LOOK_EACH, Event::Look);
    }

    /// Is all well?
    pub(super) fn look(&mut self) {
        let Phase::Healing { since } = self.phase else { return };
        let waited = self.now - since;
        let is_agreed = |version| {
            let listed = self.log.at(version);
            listed.is_some_and(|listed| {
                let change = listed.entry.as_ref().map(|entry| &entry.proposal.change);
                matches!(change, Some(TableChange::Label { .. }))
            })
        };
        let mut new = self.heal.listed_before + 1..=self.log.len();
        if self.heal.changes_again.is_none() && new.any(is_agreed) {
            self.heal.changes_again = Some(waited);
            self.note(|| format!("changes are possible again after {} ms", waited / MS));
        }
        if self.heal.changes_again.is_none() && waited > CHANGES_AGAIN {
            let text = format!("no change was agreed within {} s", CHANGES_AGAIN / SECOND);
            return self.oracle.fail("LIVENESS", text);
        }
        let missing = self.missing();
        match missing {
            None => return self.last_look(),
            Some(what) if waited > ALL_WELL => {
                let text = format!("after {} s: {what}", ALL_WELL / SECOND);
                return self.oracle.fail("LIVENESS", text);
            }
            Some(_) => {}
        }
        if self.now >= self.heal.next_order {
            self.heal.next_order = self.now + ORDER_EACH;
            self.mend();
        }
        self.plan_in(LOOK_EACH, Event::Look);
    }

    /// What is not well yet.
    fn missing(&self) -> Option<String> {
        let table = self.oracle.truth.table();
        if self.heal.changes_again.is_none() {
            return Some("no change was agreed".to_owned());
        }
        for host in self.running() {
            let Some(process) = &self.hosts[host].process else { continue };
            let (node, id) = (&process.node, process.node.startup.identity().node);
            if node.version() != self.log.len() {
                let (at, of) = (node.version(), self.log.len());
                return Some(format!("host {host} has applied {at} of {of}"));
            }
            let is_well = match node.startup.standing() {
                Standing::Seated | Standing::Removed => true,
                Standing::Starting => table.node(id).is_none(),
                Standing::Ended(_) => false,
            };
            if !is_well {
                return Some(format!("host {host} is {:?}", node.startup.standing()));
            }
            if node.outstanding() > 0 {
                return Some(format!("host {host} waits for {} outcomes", node.outstanding()));
            }
        }
        if let Some((node, host)) = self.astray() {
            return Some(format!("node {node} is on host {host}, not where the table says"));
        }
        let drained = table.nodes().find(|row| row.state == NodeState::Draining);
        if let Some(row) = drained {
            return Some(format!("node {} is draining", row.name));
        }
        let unassigned = table.unassigned();
        (!unassigned.is_empty()).then(|| format!("nobody owns {unassigned}"))
    }

    /// A seated node that is not where the table says.
    fn astray(&self) -> Option<(NodeId, HostIx)> {
        let table = self.oracle.truth.table();
        self.seated().into_iter().find_map(|host| {
            let id = self.hosts[host].process.as_ref()?.node.startup.identity().node;
            let row = table.node(id)?;
            (host_at(row.addresses.client.port) != Some(host)).then_some((id, host))
        })
    }

    pub(super) fn seated(&self) -> Vec<HostIx> {
        let is_seated = |host: &HostIx| {
            let process = self.hosts[*host].process.as_ref();
            process.is_some_and(|p| p.node.startup.standing() == Standing::Seated)
        };
        self.running().into_iter().filter(is_seated).collect()
    }

    /// An operator's order that brings the cluster nearer to being well.
    fn mend(&mut self) {
        let hosts = self.running();
        let Some(host) = self.dice.pick(&hosts) else { return };
        let seated = self.seated();
        let table = self.oracle.truth.table().clone();
        let (seen, unassigned) = (table.version(), table.unassigned());
        let draining = table.nodes().find(|row| row.state == NodeState::Draining);
        let owner = seated.iter().find_map(|host| {
            let id = self.hosts[*host].process.as_ref()?.node.startup.identity().node;
            table.node(id).filter(|row| row.state == NodeState::Active).map(|row| row.id)
        });
        let change = if self.heal.changes_again.is_none() {
            let node = table.nodes().next().map(|row| row.id);
            let Some(node) = node else { return };
            let value = Some(format!("at-{}", self.now));
            TableChange::Label { node, key: "healed".to_owned(), value }
        } else if let Some((node, host)) = self.astray() {
            TableChange::SetAddress { node, addresses: addresses(host, 0) }
        } else if let Some(row) = draining {
            TableChange::Undrain { node: row.id }
        } else if let (false, Some(to)) = (unassigned.is_empty(), owner) {
            TableChange::AssignSlots { slots: unassigned, to, seen }
        } else {
            return;
        };
        self.propose_at(host, change);
    }

    /// An operator has a host's node propose.
    pub(super) fn propose_at(&mut self, host: HostIx, change: TableChange) {
        let now = self.clock(host);
        self.note(|| format!("operator at host {host}: {} {}", change.name(), change.detail()));
        let Some(process) = &mut self.hosts[host].process else { return };
        process.node.ask(change, "operator", Asked::Operator, None, now);
        self.after(host);
    }

    /// All is well: states are equal, and every key is served by its owner and by nobody else.
    fn last_look(&mut self) {
        self.phase = Phase::Done;
        for host in self.running() {
            let Some(at) = self.at(host) else { continue };
            let Some(process) = &self.hosts[host].process else { continue };
            self.oracle.check_equal(at, &process.node.ledger);
        }
        let table = self.oracle.truth.table().clone();
        for host in self.seated() {
            if let Some(told) = self.ask(host, super::clients::EXAMINER, &Ask::Slots) {
                self.compare_topology(host, &told);
            }
            for key in 0..KEYS {
                let slot = self.oracle.keys[key].1;
                let port = table.owner_row(slot).map(|row| row.addresses.client.port);
                let owner = port.and_then(host_at);
                let ask = Ask::Key(Word::Incr, key);
                let reply = self.ask(host, super::clients::EXAMINER, &ask);
                let is_well = match &reply {
                    Some(Value::Int(_)) => owner == Some(host),
                    Some(Value::Error(text)) => {
                        Redirect::parse(text).map(|to| to.port) == port && owner != Some(host)
                    }
                    _ => false,
                };
                if !is_well {
                    let text = format!(
                        "slot {slot}: host {host} answers {reply:?}, its owner is host {owner:?}"
                    );
                    self.oracle.fail("LIVENESS", text);
                }
            }
        }
        if self.seated().is_empty() {
            self.oracle.fail("LIVENESS", "no node is seated".to_owned());
        }
    }
}
