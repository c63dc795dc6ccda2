//! Stale clients: who asks this node for slots that are not its own, and for which.
//!
//! Counted where a `MOVED` is made, so that nothing is paid for what is served. Not the refusal
//! itself (`NodeState::refusal`), nor who reads the log.
//!
//! Invariant: memory is bounded whatever clients call themselves. `MAX_CLIENTS` of them are
//! listed by the space-saving rule: whoever is refused more often than one refusal in
//! `MAX_CLIENTS` is on the list. A figure shown is what was counted since its client got onto
//! the list: never too high.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use slots::admin::{Stale, StaleClient, StaleSlot};
use slots::{SLOTS, SlotId};

use crate::command::Topology;
use crate::command::client::ClientShared;
use crate::command::cx::Now;
use crate::command::state::NodeState;

/// Clients listed, by name and host: more than misconfigured groups of machines have names, and
/// with the longest names 64 KiB.
pub const MAX_CLIENTS: usize = 256;
/// Bytes of a client's name that tell it from others; the limit of node names.
pub const MAX_NAME_BYTES: usize = 64;
/// Slots in a report, the most refused first: a reply of 20 KiB.
pub const MAX_SLOTS_SHOWN: usize = 256;
/// Log lines are this far apart, ns: a stale client refused a million times a second is one line.
pub const LINE_EVERY_NS: u64 = 1_000_000_000;

/// The counts of one node.
#[derive(Default)]
pub struct StaleCounts {
    /// By slot; allocated (128 KiB) at the first refusal.
    by_slot: OnceLock<Box<[AtomicU64]>>,
    clients: Mutex<Clients>,
}

/// What a log line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusals {
    /// How many, by `MOVED`.
    pub refusals: u64,
    /// In this time, ms.
    pub span_ms: u64,
    /// Name of the client refused most often, empty if it has none.
    pub name: String,
    /// Its host.
    pub host: String,
    /// The last slot it asked for.
    pub slot: SlotId,
}

impl StaleCounts {
    /// Counts one refusal.
    #[cold]
    pub fn note(&self, slot: SlotId, who: &ClientShared, now: Now) {
        let zeros = || (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        let by_slot = self.by_slot.get_or_init(zeros);
        by_slot[slot.index()].fetch_add(1, Ordering::Relaxed);
        let name: smallvec::SmallVec<[u8; MAX_NAME_BYTES]> = {
            let names = who.names.lock();
            let name = names.as_deref().map_or(&[][..], |names| &names.name);
            name[..name.len().min(MAX_NAME_BYTES)].into()
        };
        self.clients.lock().note(slot, &name, host_of(&who.addr), now);
    }

    /// Refusals since the start or the last `reset`.
    pub fn total(&self) -> u64 {
        self.clients.lock().total
    }

    /// The clients listed, the most refused first.
    pub fn clients(&self) -> Vec<StaleClient> {
        let mut shown: Vec<StaleClient> =
            self.clients.lock().entries.iter().map(Entry::shown).collect();
        shown.sort_by_key(|client| std::cmp::Reverse(client.refusals));
        shown
    }

    /// Slots and their refusals, the most refused first, up to `MAX_SLOTS_SHOWN`.
    pub fn slots(&self) -> Vec<(SlotId, u64)> {
        let by_slot = self.by_slot.get().map_or(&[][..], |counts| counts);
        let counts = by_slot.iter().map(|count| count.load(Ordering::Relaxed));
        let mut refused: Vec<(SlotId, u64)> =
            SlotId::all().zip(counts).filter(|(_, count)| *count > 0).collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        refused.truncate(MAX_SLOTS_SHOWN);
        refused
    }

    /// Forgets all counts. A refusal at the same moment may be counted half.
    pub fn reset(&self) {
        *self.clients.lock() = Clients::default();
        for count in self.by_slot.get().into_iter().flatten() {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// What to log, if anything was refused and the time has come: `LINE_EVERY_NS` after the
    /// first refusal that no line told of. To be asked every now and then.
    pub fn due(&self, now_ns: u64) -> Option<Refusals> {
        self.clients.lock().due(now_ns)
    }
}

/// The host of `host:port`, IPv6 without its brackets.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// The list, and the window of the next log line.
#[derive(Default)]
struct Clients {
    total: u64,
    /// Hashes of the entries' names and hosts, in their order: looked through first.
    marks: Vec<u64>,
    entries: Vec<Entry>,
    /// When the first refusal came that no line told of.
    window_began_ns: Option<u64>,
    window_refusals: u64,
}

struct Entry {
    name: Box<[u8]>,
    host: Box<str>,
    /// `refusals` plus those of the entry it replaced: what decides who is replaced next.
    weight: u64,
    /// Since it is listed.
    refusals: u64,
    /// In the window of the next log line.
    window_refusals: u64,
    last_ms: u64,
    last_slot: SlotId,
}

impl Entry {
    fn shown(&self) -> StaleClient {
        StaleClient {
            name: String::from_utf8_lossy(&self.name).into_owned(),
            host: self.host.to_string(),
            refusals: self.refusals,
            last_ms: self.last_ms,
            last_slot: self.last_slot.number(),
        }
    }
}

impl Clients {
    fn note(&mut self, slot: SlotId, name: &[u8], host: &str, now: Now) {
        self.total += 1;
        self.window_began_ns.get_or_insert(now.mono_ns);
        self.window_refusals += 1;
        let at = self.place_of(name, host, slot);
        let entry = &mut self.entries[at];
        entry.weight += 1;
        entry.refusals += 1;
        entry.window_refusals += 1;
        (entry.last_ms, entry.last_slot) = (now.unix_ms, slot);
    }

    /// The entry of this client: its own, a new one, or that of the least refused, replaced.
    fn place_of(&mut self, name: &[u8], host: &str, slot: SlotId) -> usize {
        let mut hasher = DefaultHasher::new();
        (name, host).hash(&mut hasher);
        let mark = hasher.finish();
        let is_it = |at: usize| *self.entries[at].name == *name && *self.entries[at].host == *host;
        if let Some(at) = (0..self.marks.len()).find(|&at| self.marks[at] == mark && is_it(at)) {
            return at;
        }
        let mut entry = Entry {
            name: name.into(),
            host: host.into(),
            weight: 0,
            refusals: 0,
            window_refusals: 0,
            last_ms: 0,
            last_slot: slot,
        };
        if self.entries.len() < MAX_CLIENTS {
            self.entries.push(entry);
            self.marks.push(mark);
            return self.entries.len() - 1;
        }
        let least = (0..self.entries.len()).min_by_key(|&at| self.entries[at].weight).unwrap_or(0);
        entry.weight = self.entries[least].weight;
        (self.entries[least], self.marks[least]) = (entry, mark);
        least
    }

    fn due(&mut self, now_ns: u64) -> Option<Refusals> {
        let span_ns = now_ns.saturating_sub(self.window_began_ns?);
        if span_ns < LINE_EVERY_NS {
            return None;
        }
        // The first of equals: the one listed longest.
        let most = self.entries.iter().rev().max_by_key(|entry| entry.window_refusals)?;
        let told = Refusals {
            refusals: self.window_refusals,
            span_ms: span_ns / 1_000_000,
            name: String::from_utf8_lossy(&most.name).into_owned(),
            host: most.host.to_string(),
            slot: most.last_slot,
        };
        self.entries.iter_mut().for_each(|entry| entry.window_refusals = 0);
        (self.window_began_ns, self.window_refusals) = (None, 0);
        Some(told)
    }
}

impl Topology {
    /// Name of a slot's owner.
    pub fn owner_name(&self, slot: SlotId) -> Option<&str> {
        let owner = self.table.slot(slot).owner()?;
        self.table.node(owner).map(|row| row.name.as_str())
    }
}

impl NodeState {
    /// Who asked this node for slots that are not its own (`SLOTD STALE`).
    pub fn stale(&self) -> Stale {
        let topology = self.topology();
        let slots = self.stale.slots().into_iter().map(|(slot, refusals)| StaleSlot {
            slot: slot.number(),
            refusals,
            owner: topology.owner_name(slot).map(str::to_owned),
        });
        Stale {
            refusals: self.stale.total(),
            clients: self.stale.clients(),
            slots: slots.collect(),
        }
    }

    /// Forgets who asked (`SLOTD STALE RESET`).
    pub fn reset_stale(&self) {
        self.stale.reset();
    }

    /// The log line on stale clients, if one is due. The node's ticker calls it.
    pub fn stale_line(&self, now: Now) -> Option<String> {
        let told = self.stale.due(now.mono_ns)?;
        Some(line(&told, &self.topology()))
    }
}

fn line(told: &Refusals, topology: &Topology) -> String {
    let me = topology.table.node(topology.me).map_or("this node", |row| row.name.as_str());
    let commands = match told.refusals {
        1 => "1 command".to_owned(),
        n => format!("{n} commands"),
    };
    let who = match told.name.as_str() {
        "" => told.host.clone(),
        name => format!("'{}' at {}", name.escape_debug(), told.host),
    };
    let owner = match topology.owner_name(told.slot) {
        None => "has no owner now".to_owned(),
        Some(owner) if topology.table.slot(told.slot).owner() == Some(topology.me) => {
            format!("is {owner}'s now")
        }
        Some(owner) => format!("is {owner}'s"),
    };
    let (seconds, tenths) = (told.span_ms / 1000, told.span_ms % 1000 / 100);
    format!(
        "{me} refused {commands} for slots it does not own in the last {seconds}.{tenths} s, \
         most from {who} (slot {} {owner})",
        told.slot.number()
    )
}

#[cfg(test)]
mod tests;
