//! A node: the cores wired together and started.
//!
//! Not the node's place in a cluster, which is `member`'s. Invariant: clients are accepted before
//! the node has a seat, and are told so; the mark of an orderly end is the last thing written.

mod asked;
mod joining;
mod member;
mod moves;
mod recovery;
mod refused;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use slots::{SlotId, SlotRanges, SlotTable, TableChange};
use tokio::sync::Notify;

use crate::announce::OwnAddress;
use crate::command::{NodeState, Topology};
use crate::config::{Applied, Apply, Start};
use crate::control::orders::{Order, Ordered, Orders, Traffic, View};
use crate::control::seat::Standing;
use crate::control::startup::Claim;
use crate::control::{CaughtUp, Proposed, TableLog};
use crate::io::data_dir::DataDir;
use crate::io::edges::{RealChores, RealEdges};
use crate::io::expiry::ExpiryTask;
use crate::io::peer::{PeerConfig, PeerNet};
use crate::io::storage::{self, Marks, Storage};
use crate::io::{clock, listen, log, metrics, signals};
use crate::metrics::{ClusterFigures, MetricsSource, PeerFigures};
use crate::peer::greeting::Secret;
use crate::persist::evidence::Durability;
use crate::slot::Rooms;
use crate::vital::vital;

use member::{Facts, Member};
use moves::Mover;

/// How often memory is compared with maxmemory and pauses are looked after.
const TICK: Duration = Duration::from_millis(20);
/// Until the table is there, to compare its generation: a cluster without quorum takes longer.
const GENERATION_PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries to give a new lone node its slots.
const CLAIM_PAUSE: Duration = Duration::from_millis(20);

/// Runs a node until it is told to stop. Errors are about starting, and about the last mark.
pub async fn run(start: Start) -> io::Result<()> {
    let stop = Arc::new(Notify::new());
    let own = OwnAddress::of(&start, listen::outward_host);
    // Nothing is changed in the directory before all in it was looked at: what the marks of the
    // last run say holds for the next start, too, if this one finds damage.
    let looked = DataDir::look(&start.dir, start.restored)?;
    let (ids, trust) = (looked.ids(), looked.trust());
    let found = storage::find(&start.dir, &start.config, ids, trust, workers())?;
    let dir = looked.begin(storage::durability_of(&start.config), found.has_log())?;
    let member = Member::new(dir, facts(&start, &own));
    let storage = found.storage().clone();
    let state = build(&start, stop.clone(), &member, &storage);
    storage.wire(&state, Arc::new(Voice(member.clone())));
    tokio::spawn(vital("wake clients", storage.wake_clients()));
    start.config.carried_out_by(carry_out(storage.clone()));
    // Before the port for nodes: of two nodes on one port the error names the port that was given.
    let backlog = start.config.number("tcp-backlog") as u32;
    let listeners = listen::bind_all(&start.bind, start.port, backlog)?;
    member.wire_state(state.clone());
    let peers = link(&start, &own, &member)?;
    member.wire_peers(peers.clone());
    metrics::start(&start.config, &state, Some(Arc::new(Voice(member.clone()))))?;
    state.loading.begin(clock::now());
    for (address, listener) in listeners {
        tracing::info!(%address, "serving");
        tokio::spawn(vital("accept clients", listen::accept_all(listener, state.clone())));
    }
    // The table's log goes on meanwhile: it needs this node's vote, not its keys.
    let loading = tokio::task::spawn_blocking({
        let state = state.clone();
        move || found.load(&state)
    });
    let cluster = member.begin().await?;
    tokio::spawn(vital("tick", tick(member.clone(), own)));
    tokio::spawn(vital("moves", Mover::new(state.clone(), peers.clone()).run()));
    member.loaded(loading.await.map_err(io::Error::other)??);
    let settling = settle_in(member.clone(), start.seeds.clone(), !start.starts_empty);
    tokio::spawn(vital("settle in", settling));
    let name = state.topology().table.node(member.identity().node).map(|row| row.name.clone());
    tracing::info!(
        node = %member.identity().node, boot = %member.identity().boot, cluster = %cluster.id(),
        name, "started"
    );
    println!("slotd is ready on port {}", start.port);
    let signal = tokio::select! {
        signal = signals::asked_to_stop() => signal?,
        () = stop.notified() => "SHUTDOWN",
    };
    tracing::info!(signal, "stopping");
    member.suspend();
    member.write_book();
    member.pass_all_rooms().await;
    member.end().await;
    peers.stop();
    let is_kept = tokio::task::spawn_blocking(move || storage.stop());
    let is_kept = is_kept.await.map_err(io::Error::other)?;
    tracing::info!(is_kept, "stopped");
    member.dir.lock().note_stopped()
}

/// Threads that serve clients.
fn workers() -> usize {
    tokio::runtime::Handle::current().metrics().num_workers()
}

/// Carries out options that are more than a number to read.
fn carry_out(storage: Arc<Storage>) -> Apply {
    Arc::new(move |option, value| match option {
        "loglevel" => {
            log::set_level(value);
            Applied::Done
        }
        _ => storage.carry_out(option, value),
    })
}

fn facts(start: &Start, own: &OwnAddress) -> Facts {
    let (own, config) = (own.clone(), start.config.clone());
    let name = match start.name.as_str() {
        "" => format!("node-{}", start.port),
        name => name.to_owned(),
    };
    Facts {
        name,
        addresses: Box::new(move || own.announced(config.live())),
        claim: if start.restored { Claim::Restored } else { Claim::Stored },
    }
}

/// Builds a node's state: rooms, commands, no seat yet.
fn build(
    start: &Start,
    stop: Arc<Notify>,
    member: &Arc<Member>,
    storage: &Arc<Storage>,
) -> Arc<NodeState> {
    let (chores, due) = RealChores::start();
    let freeing = chores.freeing.clone();
    let rooms = Rooms::new(Box::new(chores));
    let run_id = format!("{}{}", hex(20), hex(20));
    let me = member.identity().node;
    let table = Arc::new(SlotTable::new());
    let state = Arc::new(NodeState::new(
        start.config.clone(),
        rooms,
        Topology { table, me, standing: Standing::Starting },
        Box::new(RealEdges { stop, freeing }),
        Box::new(Voice(member.clone())),
        Box::new(Voice(member.clone())),
        Box::new(storage.clone()),
        run_id,
        start.file.as_ref().map(|f| f.display().to_string()),
    ));
    state.set_history(member.annals());
    state.sync_limits();
    tokio::spawn(vital("expiry", ExpiryTask::new(state.clone(), due).run()));
    state
}

/// Opens the port for other nodes.
fn link(start: &Start, own: &OwnAddress, member: &Arc<Member>) -> io::Result<Arc<PeerNet>> {
    let (identity, (cluster, generation), is_founded, book) = {
        let dir = member.dir.lock();
        (dir.identity(), dir.cluster(), dir.is_founded(), dir.peers()?)
    };
    let addresses = own.announced(start.config.live());
    let config = PeerConfig {
        identity,
        cluster: Some(cluster),
        generation,
        secret: Secret::new(start.config.text("cluster-secret").as_bytes()),
        listen: listen::addresses(&start.bind, start.cluster_port)?,
        bus: addresses.bus,
        client: addresses.client,
        name: member.facts.name.clone(),
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        // Before it has joined they are strangers, whom `join_by_seeds` asks.
        seeds: if is_founded { start.seeds.clone() } else { Vec::new() },
        book,
    };
    PeerNet::start(config, member.clone(), member.clone())
}

fn hex(digits: usize) -> String {
    let mut text = String::new();
    while text.len() < digits {
        text.push_str(&format!("{:016x}", clock::random_u64()));
    }
    text.truncate(digits);
    text
}

/// What a new node does once its log is there: founds a cluster of its own, takes all slots if it
/// is to be alone, joins another if it is not.
async fn settle_in(member: Arc<Member>, seeds: Vec<slots::Endpoint>, takes_all: bool) {
    // The boot number may have been found taken already: then the node just begins again.
    let cluster = loop {
        match member.cluster() {
            Some(cluster) => break cluster,
            None => tokio::time::sleep(CLAIM_PAUSE).await,
        }
    };
    if let Err(error) = member.found(&cluster).await {
        crate::io::exit::fatal(&format!("the cluster cannot be founded: {error}"));
    }
    // A recovery that was cut off by a crash goes on here.
    let until = tokio::time::Instant::now() + GENERATION_PATIENCE;
    if let Err(error) = member.confirm_generation(until).await {
        tracing::warn!(?error, "the generation of the cluster is not in its table yet");
    }
    if takes_all {
        take_all_slots(&member).await;
    }
    if !seeds.is_empty() {
        member.join_by_seeds(seeds).await;
    }
}

/// A node with `cluster-enabled no` that is alone and owns nothing takes all slots.
async fn take_all_slots(member: &Arc<Member>) {
    loop {
        let table = member.state().topology().table;
        if member.standing() == Standing::Seated {
            if table.unassigned() != SlotRanges::all() || table.nodes().count() != 1 {
                return;
            }
            let slots: SlotRanges = SlotId::all().collect();
            let (to, seen) = (member.identity().node, table.version());
            let (done, outcome) = tokio::sync::oneshot::channel();
            let tell = Box::new(move |result| {
                let _ = done.send(result);
            });
            member.propose(TableChange::AssignSlots { slots, to, seen }, "itself", tell);
            let _ = outcome.await;
        }
        tokio::time::sleep(CLAIM_PAUSE).await;
    }
}

/// Looks after what has no event of its own.
async fn tick(member: Arc<Member>, own: OwnAddress) {
    let node = member.state().clone();
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut revision = node.config.live().revision();
    let mut announced = Announced::default();
    loop {
        interval.tick().await;
        node.check_memory();
        let now = clock::now();
        node.tick_pause(now);
        node.tick_log();
        node.rooms.settle();
        node.sections.tick(&node.rooms, now.mono_ns);
        node.ask_for_unsure(now.mono_ns);
        node.parking.tick(now.mono_ns);
        member.target().tick();
        node.promises.tick(now.mono_ns);
        node.stats.sample_rates(now.mono_ns);
        if let Some(line) = node.stale_line(now) {
            tracing::warn!("{line}");
        }
        let newest = node.config.live().revision();
        if newest != revision {
            revision = newest;
            node.sync_limits();
            announced = Announced::default();
        }
        announced.tick(&member, &own, now.mono_ns);
    }
}

/// Tells the table where this node is reached, when it says something else.
#[derive(Default)]
struct Announced {
    next_ns: u64,
}

impl Announced {
    /// Between two looks: an answer takes some time, and without a quorum it does not come.
    const PAUSE: Duration = Duration::from_secs(1);

    fn tick(&mut self, member: &Arc<Member>, own: &OwnAddress, now_ns: u64) {
        if now_ns < self.next_ns || member.standing() != Standing::Seated {
            return;
        }
        self.next_ns = now_ns + Self::PAUSE.as_nanos() as u64;
        let (state, me) = (member.state(), member.identity().node);
        let topology = state.topology();
        let live = state.config.live();
        if let Some(change) = own.change(me, &topology.table, live) {
            let addresses = own.announced(live);
            member.peers().announce(&member.facts.name, addresses.bus, addresses.client);
            member.propose(
                change,
                "itself",
                Box::new(|outcome| match outcome.map(|verdicts| verdicts.all()) {
                    Ok(Ok(())) => tracing::info!("the table has the new address"),
                    refused => tracing::warn!(?refused, "the address is not in the table yet"),
                }),
            );
        }
    }
}

/// The member, as those speak to it that own what they speak to.
struct Voice(Arc<Member>);

impl TableLog for Voice {
    fn propose(&self, change: TableChange, actor: &str, done: Proposed) {
        self.0.propose(change, actor, done);
    }

    fn catch_up(&self, done: CaughtUp) {
        self.0.catch_up(done);
    }
}

impl Orders for Voice {
    fn order(&self, order: Order, actor: &str, done: Ordered) {
        self.0.order(order, actor, done);
    }

    fn view(&self) -> View {
        self.0.view()
    }

    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }
}

impl Marks for Voice {
    fn note_durability(&self, durability: Durability) -> io::Result<()> {
        self.0.change_dir(|dir| dir.note_durability(durability))
    }

    fn note_sync_failed(&self) {
        // Whoever holds it may wait for the very disk: then the mark cannot be made.
        let patience = Duration::from_secs(1);
        let noted = self.0.dir.try_lock_for(patience).map(|mut dir| dir.note_sync_failed());
        if !matches!(noted, Some(Ok(()))) {
            tracing::error!("the failed sync could not be noted in the node's file");
        }
    }
}

impl MetricsSource for Voice {
    fn cluster(&self) -> ClusterFigures {
        let view = self.0.view();
        let table = self.0.state().topology().table;
        let name = |id| table.node(id).map_or_else(|| id.to_string(), |row| row.name.clone());
        ClusterFigures {
            term: view.term,
            has_leader: view.leader.is_some(),
            is_leader: view.leader == Some(self.0.identity().node),
            has_quorum: view.has_quorum,
            voters: view.voters.len() as u64,
            learners: view.learners.len() as u64,
            peers: view
                .peers
                .iter()
                .map(|peer| PeerFigures {
                    name: name(peer.node),
                    silence: peer.silent_ns.map(Duration::from_nanos),
                    round_trip: peer.round_trip_ns.map(Duration::from_nanos),
                })
                .collect(),
        }
    }

    fn unready(&self) -> Option<String> {
        let standing = self.0.standing();
        (standing != Standing::Seated).then(|| format!("the node has no seat: {standing:?}"))
    }
}
