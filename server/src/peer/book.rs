//! The address book: where other nodes were last found, and whom to dial next, when.
//!
//! A node is known by its id; addresses are hints. Sources: greetings (proven), members' words, the
//! table, seeds. Not sockets. Text of it is kept in the data directory by the node:
//! ```text
//!   slotd addresses 1
//!   node 07c37dfeb235213a872192d90877d0cd55635b91 10.0.0.7:17001 host-7:17001
//! ```
//! Invariant: bounded; one dial at a time per node and per seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use slots::{Endpoint, MAX_NODES, NodeId};

/// First wait after all addresses of a node failed, ns; doubled up to `MAX_BACK_OFF_NS`.
pub const MIN_BACK_OFF_NS: u64 = 100_000_000;
/// Longest wait between two rounds, ns: a healed network is noticed within it.
pub const MAX_BACK_OFF_NS: u64 = 2_000_000_000;
/// How much later the higher id begins to dial, ns: so that two that start at once need not close
/// one of two links.
pub const HIGHER_ID_WAITS_NS: u64 = 150_000_000;
/// How long a seed that leads to ourselves is left alone, ns: its name may come to mean another.
pub const OWN_SEED_WAITS_NS: u64 = 60_000_000_000;
/// Addresses kept for a node beside the table's: some networks, before and after a move.
pub const MAX_ADDRESSES: usize = 4;
/// Most seeds: each is a node to begin with.
pub const MAX_SEEDS: usize = 64;

const TITLE: &str = "slotd addresses 1";

/// Whom a dial is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Target {
    /// A node.
    Node(NodeId),
    /// Whoever answers at this seed.
    Seed(usize),
}

/// A dial to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dial {
    /// For whom. To be named in `ended`.
    pub target: Target,
    /// Where.
    pub endpoint: Endpoint,
}

/// Tries of one target.
#[derive(Clone, Debug, Default)]
struct Tries {
    in_flight: bool,
    next_ns: u64,
    rounds: u32,
    at: usize,
}

impl Tries {
    fn soon(&mut self, at_ns: u64) {
        self.rounds = 0;
        self.at = 0;
        self.next_ns = at_ns;
    }

    /// The next address at once; after the last one the first, after a wait.
    fn failed(&mut self, addresses: usize, now_ns: u64, random: u64) {
        self.at += 1;
        if self.at < addresses {
            self.next_ns = now_ns;
            return;
        }
        self.at = 0;
        let doubled = MIN_BACK_OFF_NS.saturating_mul(1 << self.rounds.min(20));
        let wait_ns = doubled.min(MAX_BACK_OFF_NS);
        self.rounds = self.rounds.saturating_add(1);
        // Half of it is chance: nodes that lost each other at once do not come back at once.
        let jitter_ns = random % (wait_ns / 2);
        self.next_ns = now_ns.saturating_add(wait_ns - jitter_ns);
    }
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// The table's.
    agreed: Option<Endpoint>,
    /// Heard, the newest first.
    heard: Vec<Endpoint>,
    tries: Tries,
}

impl Entry {
    fn addresses(&self) -> Vec<&Endpoint> {
        let mut all = Vec::new();
        for endpoint in self.heard.iter().take(1).chain(&self.agreed).chain(&self.heard) {
            if !endpoint.host.is_empty() && !all.contains(&endpoint) {
                all.push(endpoint);
            }
        }
        all
    }

    /// Was it news?
    fn hear(&mut self, endpoint: Endpoint) -> bool {
        let is_news = !self.heard.contains(&endpoint) && self.agreed.as_ref() != Some(&endpoint);
        self.heard.retain(|known| *known != endpoint);
        self.heard.insert(0, endpoint);
        self.heard.truncate(MAX_ADDRESSES);
        is_news
    }
}

#[derive(Clone, Debug)]
struct Seed {
    endpoint: Endpoint,
    leads_to: Option<NodeId>,
    tries: Tries,
}

/// The book.
#[derive(Clone, Debug)]
pub struct Book {
    me: NodeId,
    entries: BTreeMap<NodeId, Entry>,
    seeds: Vec<Seed>,
    has_table: bool,
}

impl Book {
    /// An empty book of this node; the first `MAX_SEEDS` seeds count.
    pub fn new(me: NodeId, seeds: &[Endpoint]) -> Book {
        let seed = |endpoint: &Endpoint| Seed {
            endpoint: endpoint.clone(),
            leads_to: None,
            tries: Tries::default(),
        };
        let seeds = seeds.iter().take(MAX_SEEDS).map(seed).collect();
        Book { me, entries: BTreeMap::new(), seeds, has_table: false }
    }

    fn entry(&mut self, node: NodeId, now_ns: u64) -> Option<&mut Entry> {
        let known = self.entries.contains_key(&node);
        if node == self.me || (!known && self.entries.len() >= MAX_NODES) {
            return None;
        }
        let first_ns = first_dial_ns(self.me, node, now_ns);
        let tries = Tries { next_ns: first_ns, ..Tries::default() };
        Some(self.entries.entry(node).or_insert(Entry { tries, ..Entry::default() }))
    }

    /// The table's nodes and their addresses. From now on only they are dialed; others are
    /// forgotten.
    pub fn agree(&mut self, nodes: impl Iterator<Item = (NodeId, Endpoint)>, now_ns: u64) {
        let agreed: BTreeMap<NodeId, Endpoint> = nodes.collect();
        self.has_table = true;
        self.entries.retain(|node, _| agreed.contains_key(node));
        for (node, endpoint) in agreed {
            let Some(entry) = self.entry(node, now_ns) else { continue };
            if entry.agreed.as_ref() != Some(&endpoint) {
                entry.agreed = Some(endpoint);
                entry.tries.next_ns = entry.tries.next_ns.min(now_ns + MIN_BACK_OFF_NS);
            }
        }
    }

    /// A member said where a node is. Ignored for nodes that the table does not hold.
    pub fn hear(&mut self, node: NodeId, endpoint: Endpoint, now_ns: u64) {
        if endpoint.host.is_empty() || (self.has_table && !self.entries.contains_key(&node)) {
            return;
        }
        let me = self.me;
        if let Some(entry) = self.entry(node, now_ns)
            && entry.hear(endpoint)
        {
            entry.tries.soon(first_dial_ns(me, node, now_ns));
        }
    }

    /// A node greeted from here, the best address last. Was one of them news?
    pub fn greeted(&mut self, node: NodeId, endpoints: &[Endpoint], now_ns: u64) -> bool {
        let Some(entry) = self.entry(node, now_ns) else { return false };
        entry.tries.soon(now_ns);
        let hears = endpoints.iter().filter(|e| !e.host.is_empty() && e.port != 0);
        hears.fold(false, |news, endpoint| entry.hear(endpoint.clone()) | news)
    }

    /// Where a node was last found, or should be.
    pub fn best(&self, node: NodeId) -> Option<&Endpoint> {
        self.entries.get(&node)?.addresses().first().copied()
    }

    /// The nodes with a known address.
    pub fn known(&self) -> impl Iterator<Item = NodeId> {
        self.entries.keys().copied()
    }

    /// A link is gone: when to dial again.
    pub fn down(&mut self, node: NodeId, now_ns: u64, random: u64) {
        let me = self.me;
        if let Some(entry) = self.entries.get_mut(&node) {
            let jitter_ns = random % MIN_BACK_OFF_NS;
            entry.tries.soon(first_dial_ns(me, node, now_ns).saturating_add(jitter_ns));
        }
    }

    /// The dials to make now; each is to be `ended`.
    pub fn due(&mut self, now_ns: u64, is_linked: impl Fn(NodeId) -> bool) -> Vec<Dial> {
        let mut dials = Vec::new();
        let wants_seeds = self.wants_seeds(&is_linked);
        for (node, entry) in &mut self.entries {
            if is_linked(*node) || entry.tries.in_flight || entry.tries.next_ns > now_ns {
                continue;
            }
            let addresses = entry.addresses();
            let Some(at) = entry.tries.at.checked_rem(addresses.len()) else { continue };
            let endpoint = addresses[at].clone();
            entry.tries.in_flight = true;
            dials.push(Dial { target: Target::Node(*node), endpoint });
        }
        for (at, seed) in self.seeds.iter_mut().enumerate() {
            let is_there = seed.leads_to.is_some_and(&is_linked);
            let waits = seed.tries.in_flight || seed.tries.next_ns > now_ns;
            if wants_seeds && !is_there && !waits {
                seed.tries.in_flight = true;
                let endpoint = seed.endpoint.clone();
                dials.push(Dial { target: Target::Seed(at), endpoint });
            }
        }
        dials
    }

    /// Seeds are of use while somebody is missing, or nobody is known.
    fn wants_seeds(&self, is_linked: impl Fn(NodeId) -> bool) -> bool {
        self.entries.is_empty() || self.entries.keys().any(|node| !is_linked(*node))
    }

    /// When `due` may have something next. `u64::MAX`: not before something else happens.
    pub fn next_due_ns(&self, is_linked: impl Fn(NodeId) -> bool) -> u64 {
        let nodes = self
            .entries
            .iter()
            .filter(|(node, entry)| !is_linked(**node) && !entry.addresses().is_empty());
        let seeds = self
            .seeds
            .iter()
            .filter(|seed| !seed.leads_to.is_some_and(&is_linked) && self.wants_seeds(&is_linked));
        let tries = nodes.map(|(_, entry)| &entry.tries).chain(seeds.map(|seed| &seed.tries));
        tries.filter(|tries| !tries.in_flight).map(|tries| tries.next_ns).min().unwrap_or(u64::MAX)
    }

    /// A dial is over. `found`: who was there, if it came to a greeting.
    pub fn ended(&mut self, target: Target, found: Option<NodeId>, now_ns: u64, random: u64) {
        match target {
            Target::Node(node) => {
                let Some(entry) = self.entries.get_mut(&node) else { return };
                entry.tries.in_flight = false;
                let addresses = entry.addresses().len();
                entry.tries.failed(addresses, now_ns, random);
            }
            Target::Seed(at) => {
                let me = self.me;
                let Some(seed) = self.seeds.get_mut(at) else { return };
                seed.tries.in_flight = false;
                seed.leads_to = found.or(seed.leads_to);
                seed.tries.failed(1, now_ns, random);
                if found == Some(me) {
                    seed.tries.next_ns = now_ns.saturating_add(OWN_SEED_WAITS_NS);
                }
            }
        }
    }

    /// The book as text.
    pub fn text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for (node, entry) in &self.entries {
            let addresses = entry.addresses();
            if addresses.is_empty() {
                continue;
            }
            let _ = write!(text, "node {node}");
            for endpoint in addresses {
                let _ = write!(text, " {endpoint}");
            }
            text.push('\n');
        }
        text
    }

    /// Takes in a text that was kept. Hints only: lines that say nothing to this version, and
    /// words that are no addresses, are passed over.
    pub fn read(&mut self, text: &str, now_ns: u64) {
        for line in text.lines().take(MAX_NODES + 1) {
            let mut words = line.split_ascii_whitespace();
            let (Some("node"), Some(node)) = (words.next(), words.next()) else { continue };
            let Ok(node) = node.parse::<NodeId>() else { continue };
            let endpoints = words.filter_map(|word| word.parse().ok());
            for endpoint in Vec::from_iter(endpoints).into_iter().rev() {
                self.hear(node, endpoint, now_ns);
            }
        }
    }
}

/// When a node that was not dialed yet, or was lost, is dialed.
fn first_dial_ns(me: NodeId, node: NodeId, now_ns: u64) -> u64 {
    let waits_ns = if me > node { HIGHER_ID_WAITS_NS } else { 0 };
    now_ns.saturating_add(waits_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 20])
    }

    fn at(port: u16) -> Endpoint {
        Endpoint::new("127.0.0.1", port)
    }

    fn none(_: NodeId) -> bool {
        false
    }

    fn ports(dials: &[Dial]) -> Vec<u16> {
        dials.iter().map(|dial| dial.endpoint.port).collect()
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn all_addresses_are_tried_then_waits_double() {
        let mut book = Book::new(id(1), &[]);
        book.agree([(id(2), at(1))].into_iter(), 0);
        book.greeted(id(2), &[at(3), at(2)], 0);
        let mut now_ns = 0;
        let mut waits_ms = Vec::new();
        for _ in 0..7 {
            for port in [2, 1, 3] {
                let dials = book.due(now_ns, none);
                assert_eq!(ports(&dials), [port]);
                assert_eq!(book.due(now_ns, none), [], "one at a time");
                book.ended(dials[0].target, None, now_ns, 0);
            }
            let next_ns = book.next_due_ns(none);
            waits_ms.push((next_ns - now_ns) / MS);
            assert_eq!(book.due(next_ns - 1, none), []);
            now_ns = next_ns;
        }
        assert_eq!(waits_ms, [100, 200, 400, 800, 1600, 2000, 2000]);
        let mut tries = Tries { rounds: 9, ..Tries::default() };
        tries.failed(1, 0, u64::MAX);
        assert!((1000 * MS..=2000 * MS).contains(&tries.next_ns), "{tries:?}");
    }

    #[test]
    fn the_higher_id_gives_the_lower_one_a_start() {
        let mut book = Book::new(id(5), &[]);
        book.agree([(id(2), at(2)), (id(5), at(5)), (id(7), at(7))].into_iter(), 0);
        assert_eq!(ports(&book.due(0, none)), [7]);
        assert_eq!(ports(&book.due(HIGHER_ID_WAITS_NS, none)), [2]);
        assert_eq!(book.due(u64::MAX, |_| true), []);
    }

    #[test]
    fn seeds_serve_while_somebody_is_missing() {
        let mut book = Book::new(id(1), &[at(70), at(80), at(90)]);
        let dials = book.due(0, none);
        assert_eq!(ports(&dials), [70, 80, 90]);
        book.ended(Target::Seed(0), Some(id(2)), 0, 0);
        book.ended(Target::Seed(1), Some(id(1)), 0, 0);
        book.ended(Target::Seed(2), None, 0, 0);
        assert!(book.greeted(id(2), &[at(2), at(2)], 0));
        assert!(!book.greeted(id(2), &[at(2)], 0));
        assert_eq!(book.due(u64::MAX, |_| true), []);
        assert_eq!(book.next_due_ns(|_| true), u64::MAX);
        book.hear(id(3), at(3), 0);
        // Seed 70 is linked already; 80 is ourselves; 90 may know node 3.
        assert_eq!(ports(&book.due(3000 * MS, |node| node == id(2))), [3, 90]);
        assert_eq!(ports(&book.due(OWN_SEED_WAITS_NS, |node| node == id(2))), [80]);
    }

    #[test]
    fn news_of_an_address_is_tried_at_once() {
        let mut book = Book::new(id(1), &[]);
        book.agree([(id(2), at(2))].into_iter(), 0);
        for _ in 0..9 {
            let now_ns = book.next_due_ns(none);
            let dials = book.due(now_ns, none);
            book.ended(dials[0].target, None, now_ns, 0);
        }
        let now_ns = book.next_due_ns(none) - 1;
        book.hear(id(2), at(22), now_ns);
        assert_eq!(ports(&book.due(now_ns, none)), [22]);
        // A table that does not hold a node is the last word.
        book.hear(id(9), at(9), now_ns);
        assert_eq!(book.best(id(9)), None);
        book.agree(std::iter::empty(), now_ns);
        assert_eq!(book.due(u64::MAX, none), []);
    }

    #[test]
    fn a_book_comes_back_from_its_text() {
        let mut book = Book::new(id(1), &[]);
        book.hear(id(2), Endpoint::new("::1", 2), 0);
        book.hear(id(2), at(22), 0);
        book.hear(id(3), at(3), 0);
        let text = book.text();
        assert!(text.starts_with(TITLE), "{text}");
        let mut read = Book::new(id(1), &[]);
        read.read(&text, 0);
        assert_eq!(read.text(), text);
        let junk = format!("node 12 a:1\nfuture x\nnode {} 1.2.3.4:x :5 h:6", id(4));
        read.read(&junk, 0);
        assert_eq!(read.best(id(4)), Some(&Endpoint::new("h", 6)));
    }

    #[test]
    fn a_book_is_bounded() {
        let mut book = Book::new(id(1), &vec![at(1); 1000]);
        assert_eq!(book.seeds.len(), MAX_SEEDS);
        for n in 0..=MAX_NODES as u32 {
            let mut bytes = [9; 20];
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            book.hear(NodeId::from_bytes(bytes), at(1), 0);
        }
        assert_eq!(book.entries.len(), MAX_NODES);
        for port in 1..100 {
            book.greeted(NodeId::from_bytes([9; 20]), &[at(port)], 0);
        }
        assert!(book.entries.values().all(|entry| entry.heard.len() <= MAX_ADDRESSES));
    }
}
