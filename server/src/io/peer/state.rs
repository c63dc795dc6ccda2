//! What all links of a node share: who we are, who is linked, whom to dial.
//!
//! Plain data under one lock; no IO. Invariant: a link is in `handles` from its socket's birth to
//! its `Down`; those of strangers and those that have not greeted are counted and bounded.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use slots::{ClusterId, Endpoint, NodeId, SlotTable};

use super::PeerConfig;
use super::handle::Handle;
use crate::io::clock;
use crate::peer::book::{Book, Dial, Target};
use crate::peer::greeting::{Address, Hello, MAX_TOLD_ADDRESSES, PROTOCOL_VERSIONS, Side};
use crate::peer::judge::{Bench, KnownRow, Standing, judge};
use crate::peer::link::State as LinkState;
use crate::peer::refusal::Refusal;
use crate::peer::repeats::Repeats;
use crate::peer::roll::{LinkId, Linked, Roll};
use crate::peer::{Identity, PeerStatus, PeerView};

/// Links that others opened and that have not greeted yet: beyond it the oldest is dropped. A
/// large cluster that starts at once is through within a second.
const MAX_HALF_OPEN: usize = 64;
/// Links of strangers: MEETs at once.
const MAX_STRANGERS: usize = 16;

/// What is remembered of a node without a link.
#[derive(Clone, Debug)]
struct Seen {
    heard_ns: u64,
    round_trip_ns: Option<u64>,
    status: PeerStatus,
    server_version: String,
}

pub(super) struct State {
    config: PeerConfig,
    table: Arc<SlotTable>,
    status: PeerStatus,
    roll: Roll,
    book: Book,
    handles: HashMap<LinkId, Arc<Handle>>,
    /// Accepted and not greeted, the oldest first.
    half_open: VecDeque<LinkId>,
    strangers: BTreeSet<LinkId>,
    seen: BTreeMap<NodeId, Seen>,
    pub(super) repeats: Repeats,
    last_link: u64,
    is_stopped: bool,
}

/// A link that came up.
pub(super) struct CameUp {
    /// The link it takes the place of.
    pub(super) replaced: Option<Arc<Handle>>,
    /// Who is told where the node is.
    pub(super) tell: Vec<Arc<Handle>>,
    /// Where it is.
    pub(super) address: Address,
}

/// A link to be held against a new table.
pub(super) struct Check {
    pub(super) handle: Arc<Handle>,
    hello: Hello,
    bench: Bench,
}

impl Check {
    /// Closes the link if the node would not be let in any more.
    pub(super) fn judge_again(mut self) {
        let said = self.handle.talk.lock().link.their_status().table_version;
        self.hello.table_version = self.hello.table_version.max(said);
        if let Err(refusal) = judge(&self.hello, &self.bench) {
            self.handle.close(refusal);
        }
    }
}

impl State {
    pub(super) fn new(config: PeerConfig, now_ns: u64) -> State {
        let mut book = Book::new(config.identity.node, &config.seeds);
        book.read(&config.book, now_ns);
        State {
            config,
            table: Arc::new(SlotTable::new()),
            status: PeerStatus::default(),
            roll: Roll::default(),
            book,
            handles: HashMap::new(),
            half_open: VecDeque::new(),
            strangers: BTreeSet::new(),
            seen: BTreeMap::new(),
            repeats: Repeats::default(),
            last_link: 0,
            is_stopped: false,
        }
    }

    /// Our greeting on a new link.
    fn hello(&self, as_stranger: bool) -> Hello {
        let config = &self.config;
        let mut challenge = [0; 32];
        for part in challenge.chunks_exact_mut(8) {
            part.copy_from_slice(&clock::random_u64().to_le_bytes());
        }
        Hello {
            versions: PROTOCOL_VERSIONS,
            has_secret: false,
            as_stranger,
            cluster: config.cluster,
            generation: config.generation,
            table_version: self.table.version().0,
            identity: config.identity,
            challenge,
            name: config.name.clone(),
            server_version: config.server_version.clone(),
            bus: config.bus.clone(),
            client: config.client.clone(),
        }
    }

    /// Links that were ever begun, and those that are half open.
    #[cfg(test)]
    pub(super) fn begun(&self) -> (u64, usize) {
        (self.last_link, self.half_open.len())
    }

    /// Enters a link that `make` makes of its number and our greeting. With it comes the oldest one
    /// that has not greeted, if there are too many of them. `None` if we have stopped.
    pub(super) fn begin(
        &mut self,
        side: Side,
        as_stranger: bool,
        make: impl FnOnce(LinkId, Hello) -> Handle,
    ) -> Option<(Arc<Handle>, Option<Arc<Handle>>)> {
        if self.is_stopped {
            return None;
        }
        self.last_link += 1;
        let id = LinkId(self.last_link);
        let handle = Arc::new(make(id, self.hello(as_stranger)));
        self.handles.insert(id, handle.clone());
        if side == Side::Dialer {
            return Some((handle, None));
        }
        self.half_open.push_back(id);
        let is_full = self.half_open.len() > MAX_HALF_OPEN;
        let oldest = if is_full { self.half_open.pop_front() } else { None };
        Some((handle, oldest.and_then(|id| self.handles.get(&id).cloned())))
    }

    fn bench(&self, theirs: &Hello, as_stranger: bool) -> Bench {
        let node = theirs.identity.node;
        Bench {
            me: self.config.identity,
            cluster: self.config.cluster,
            generation: self.config.generation,
            table_version: self.table.version().0,
            row: KnownRow::of(&self.table, node),
            greeted: self.roll.greeted(node),
            as_stranger,
        }
    }

    /// Judges a greeting; who is let in is told these addresses.
    pub(super) fn judge(
        &mut self,
        link: LinkId,
        side: Side,
        theirs: &Hello,
        as_stranger: bool,
    ) -> (Result<Standing, Refusal>, Vec<Address>) {
        let judged = judge(theirs, &self.bench(theirs, as_stranger));
        match judged {
            Ok(Standing::Stranger) => {
                if side == Side::Acceptor && self.strangers.len() >= MAX_STRANGERS {
                    return (Err(Refusal::Busy), Vec::new());
                }
                self.strangers.insert(link);
                self.half_open.retain(|id| *id != link);
                (judged, Vec::new())
            }
            Err(_) => (judged, Vec::new()),
            Ok(Standing::Member) => {
                let checked = self.roll.check(self.config.identity.node, side, theirs);
                (checked.map(|()| Standing::Member), self.known(theirs.identity.node))
            }
        }
    }

    /// Addresses of members for a node that greets: linked ones first.
    fn known(&self, except: NodeId) -> Vec<Address> {
        let linked = self.roll.links().map(|(node, linked)| {
            let remote = self.handles.get(&linked.link).map(|handle| handle.remote.ip());
            (node, reach(&linked.hello, remote))
        });
        let is_other = |node: &NodeId| *node != except && self.roll.link(*node).is_none();
        let others = self.book.known().filter(is_other);
        let others = others.filter_map(|node| Some((node, self.book.best(node)?.clone())));
        let all = linked.filter(|(node, _)| *node != except).chain(others);
        all.take(MAX_TOLD_ADDRESSES).collect()
    }

    /// A link of a member came up. The refusal, if it is not to stay: another link won, or the
    /// table or cluster changed since it was judged.
    pub(super) fn came_up(
        &mut self,
        link: LinkId,
        side: Side,
        theirs: &Hello,
        remote: SocketAddr,
        dial: Option<(Target, Endpoint)>,
    ) -> Result<CameUp, Refusal> {
        let now_ns = clock::now().mono_ns;
        let node = theirs.identity.node;
        judge(theirs, &self.bench(theirs, false))?;
        let replaced = self.roll.admit(self.config.identity.node, link, side, theirs)?;
        self.half_open.retain(|id| *id != link);
        let address = reach(theirs, Some(remote.ip()));
        let mut found =
            vec![Endpoint::new(remote.ip().to_canonical().to_string(), theirs.bus.port)];
        found.push(address.clone());
        if let Some((target, endpoint)) = dial {
            self.book.ended(target, Some(node), now_ns, clock::random_u64());
            found.push(endpoint);
        }
        let is_news = self.book.greeted(node, &found, now_ns);
        let others = self.roll.links().filter(|(other, _)| is_news && *other != node);
        let tell = others.filter_map(|(_, linked)| self.handles.get(&linked.link).cloned());
        let tell = tell.collect();
        let replaced = replaced.and_then(|old| self.handles.get(&old).cloned());
        Ok(CameUp { replaced, tell, address: (node, address) })
    }

    /// Others told addresses of members.
    pub(super) fn learn(&mut self, addresses: &[Address], now_ns: u64) {
        for (node, endpoint) in addresses {
            if self.roll.link(*node).is_none() {
                self.book.hear(*node, endpoint.clone(), now_ns);
            }
        }
    }

    /// A link ended. The node whose link it was, if no other has taken its place.
    pub(super) fn went_down(&mut self, handle: &Handle, view: &LinkEnd) -> Option<NodeId> {
        let now_ns = clock::now().mono_ns;
        self.handles.remove(&handle.id);
        self.half_open.retain(|id| *id != handle.id);
        self.strangers.remove(&handle.id);
        if let Some((target, _)) = &view.dial {
            let found = view.hello.as_ref().map(|hello| hello.identity.node);
            self.book.ended(*target, found, now_ns, clock::random_u64());
        }
        let node = self.roll.remove(handle.id)?;
        self.book.down(node, now_ns, clock::random_u64());
        let server_version = view.hello.as_ref().map_or("", |hello| &hello.server_version);
        let seen = Seen {
            heard_ns: view.heard_ns,
            round_trip_ns: view.round_trip_ns,
            status: view.status,
            server_version: server_version.to_owned(),
        };
        self.seen.insert(node, seen);
        Some(node)
    }

    /// Dials to make now, and when to ask again.
    pub(super) fn due(&mut self, now_ns: u64) -> (Vec<Dial>, u64) {
        if self.config.cluster.is_none() {
            return (Vec::new(), u64::MAX);
        }
        let roll = &self.roll;
        let is_linked = |node| roll.link(node).is_some();
        let dials = self.book.due(now_ns, is_linked);
        (dials, self.book.next_due_ns(is_linked))
    }

    /// A dial did not connect.
    pub(super) fn dial_failed(&mut self, target: Target, now_ns: u64) {
        self.book.ended(target, None, now_ns, clock::random_u64());
    }

    pub(super) fn install(&mut self, table: Arc<SlotTable>, now_ns: u64) {
        self.status.table_version = table.version().0;
        let rows: Vec<Address> =
            table.nodes().map(|row| (row.id, row.addresses.bus.clone())).collect();
        if !rows.is_empty() {
            self.book.agree(rows.into_iter(), now_ns);
            self.roll.forget(|node| table.node(node).is_some());
            let roll = &self.roll;
            self.seen.retain(|node, _| table.node(*node).is_some() || roll.link(*node).is_some());
        }
        self.table = table;
    }

    /// All members' links with what they are to be held against.
    pub(super) fn links_to_judge(&self) -> Vec<Check> {
        let check = |linked: &Linked| {
            let handle = self.handles.get(&linked.link)?.clone();
            let hello = linked.hello.clone();
            let bench = self.bench(&hello, false);
            Some(Check { handle, hello, bench })
        };
        self.roll.links().filter_map(|(_, linked)| check(linked)).collect()
    }

    pub(super) fn status(&self) -> PeerStatus {
        self.status
    }

    pub(super) fn set_status(&mut self, status: PeerStatus) {
        self.status = status;
    }

    pub(super) fn announce(&mut self, name: &str, bus: Endpoint, client: Endpoint) {
        let port = if bus.port == 0 { self.config.bus.port } else { bus.port };
        self.config.name = name.to_owned();
        self.config.bus = Endpoint { port, ..bus };
        self.config.client = client;
    }

    pub(super) fn handles(&self) -> Vec<Arc<Handle>> {
        self.handles.values().cloned().collect()
    }

    pub(super) fn handle_of(&self, node: NodeId) -> Option<Arc<Handle>> {
        self.handles.get(&self.roll.link(node)?.link).cloned()
    }

    /// Becomes a member of another cluster; the links that are to be closed.
    pub(super) fn switch(
        &mut self,
        cluster: Option<ClusterId>,
        generation: u64,
        identity: Identity,
    ) -> Vec<Arc<Handle>> {
        self.config.cluster = cluster;
        self.config.generation = generation;
        self.config.identity = identity;
        self.table = Arc::new(SlotTable::new());
        self.status.table_version = 0;
        self.book = Book::new(identity.node, &self.config.seeds);
        self.roll = Roll::default();
        self.seen.clear();
        // A MEET that made us switch is answered yet.
        let members = self.handles.iter().filter(|(id, _)| !self.strangers.contains(id));
        members.map(|(_, handle)| handle.clone()).collect()
    }

    pub(super) fn stop(&mut self) -> Vec<Arc<Handle>> {
        self.is_stopped = true;
        self.handles()
    }

    pub(super) fn remember(&mut self, book: &str, now_ns: u64) {
        self.book.read(book, now_ns);
    }

    pub(super) fn book_text(&self) -> String {
        self.book.text()
    }

    /// What is known of the other nodes, with their links.
    pub(super) fn views(&self) -> Vec<(PeerView, Option<Arc<Handle>>, u64)> {
        let me = self.config.identity.node;
        let mut nodes: BTreeSet<NodeId> = self.table.nodes().map(|row| row.id).collect();
        nodes.extend(self.roll.links().map(|(node, _)| node));
        nodes.remove(&me);
        nodes.into_iter().map(|node| self.view(node)).collect()
    }

    fn view(&self, node: NodeId) -> (PeerView, Option<Arc<Handle>>, u64) {
        let linked = self.roll.link(node);
        let seen = self.seen.get(&node);
        let version = linked.map(|linked| linked.hello.server_version.clone());
        let view = PeerView {
            node,
            connected: linked.is_some(),
            silent_ns: None,
            round_trip_ns: seen.and_then(|seen| seen.round_trip_ns),
            table_version: seen.map(|seen| seen.status.table_version),
            server_version: version.or_else(|| seen.map(|seen| seen.server_version.clone())),
            keys: seen.map(|seen| seen.status.keys),
            linked_ns: None,
            unsent_bytes: 0,
        };
        (view, self.handle_of(node), seen.map_or(0, |seen| seen.heard_ns))
    }
}

/// What is left of a link at its end.
pub(super) struct LinkEnd {
    pub(super) hello: Option<Hello>,
    pub(super) dial: Option<(Target, Endpoint)>,
    pub(super) heard_ns: u64,
    pub(super) round_trip_ns: Option<u64>,
    pub(super) status: PeerStatus,
}

/// Completes a view by what its link knows now.
pub(super) fn finish(
    mut view: PeerView,
    handle: Option<Arc<Handle>>,
    heard_ns: u64,
    now_ns: u64,
) -> PeerView {
    if heard_ns > 0 {
        view.silent_ns = Some(now_ns.saturating_sub(heard_ns));
    }
    let Some(handle) = handle else { return view };
    let talk = handle.talk.lock();
    let link = &talk.link;
    view.connected = link.state() == LinkState::Up;
    view.linked_ns = view.connected.then(|| now_ns.saturating_sub(link.opened_ns()));
    view.unsent_bytes = link.unsent_bytes() as u64;
    view.silent_ns = Some(now_ns.saturating_sub(link.heard_ns()));
    view.round_trip_ns = link.round_trip_ns().or(view.round_trip_ns);
    if link.round_trip_ns().is_some() {
        let status = link.their_status();
        view.table_version = Some(status.table_version);
        view.keys = Some(status.keys);
    }
    view
}

/// Where others reach a node that greeted: what it announces, unless that names no machine, or
/// the announcer's own though it came from another.
fn reach(theirs: &Hello, remote: Option<IpAddr>) -> Endpoint {
    let announced = &theirs.bus;
    let Some(remote) = remote.map(|ip| ip.to_canonical()) else { return announced.clone() };
    let ip = announced.host.parse::<IpAddr>();
    let is_own =
        ip.is_ok_and(|ip| ip.is_unspecified() || ip.is_loopback() && !remote.is_loopback());
    match announced.host.is_empty() || is_own {
        true => Endpoint::new(remote.to_string(), announced.port),
        false => announced.clone(),
    }
}
