//! This node as a member of a cluster: its start, its log, its links, and which cluster it is in.
//!
//! Not the table's rules (`slots`), not Raft (`control/raft`), not who may link (`peer`).
//!
//! ```text
//!   begin --> found (a cluster of its own) --> Seated --meet--> begin in another cluster
//!                                                     --reset-> begin as a new node, found
//! ```
//! Invariant: what an earlier life's log still says is not heard (`Life::number`); a table gives
//! roles only after the start's judgement of that very table.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use slots::{
    Boot, ClusterSettings, Kept, NewNode, NodeId, SlotTable, TableChange, TableVersion, Verdicts,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::command::{NodeState, Topology};
use crate::control::annals::Annals;
use crate::control::ledger::Ledger;
use crate::control::orders::{Order, OrderError, Ordered, Orders, Traffic, View};
use crate::control::raft::codec;
use crate::control::raft::disk::Sizes;
use crate::control::raft::machine::LedgerSink;
use crate::control::raft::meet::{MeetAnswer, MeetCall};
use crate::control::raft::{Cluster, ClusterStart, Host};
use crate::control::seat::{Ending, Identity, Standing};
use crate::control::startup::{Claim, Evidence, Startup, Step};
use crate::control::{ProposeError, Proposed, TableLog};
use crate::io::clock;
use crate::io::data_dir::DataDir;
use crate::io::exit;
use crate::io::peer::PeerNet;
use crate::io::raft_disk;
use crate::peer::{Answers, Boxed, CallKind, Notice, Notices, PeerStatus, RefusalCode};

/// How often the start is told that time has passed.
const TICK: Duration = Duration::from_millis(100);

/// What does not change in a node's life.
pub(super) struct Facts {
    /// The node's name, should it join; the table may know another.
    pub name: String,
    /// Where other nodes are told to reach it.
    pub addresses: Box<dyn Fn() -> slots::Addresses + Send + Sync>,
    /// The data directory comes from a backup.
    pub claim: Claim,
}

/// One life in one cluster.
struct Life {
    number: u64,
    startup: Startup,
    /// The table has known of this start before.
    was_seated: bool,
    cluster: Option<Arc<Cluster>>,
    /// Writes the log's files; ends when nobody uses the log any more.
    writer: Option<JoinHandle<()>>,
}

/// The node.
pub(super) struct Member {
    own: Weak<Member>,
    runtime: Handle,
    pub(super) facts: Facts,
    pub(super) dir: Mutex<DataDir>,
    life: RwLock<Life>,
    annals: Arc<Annals>,
    /// A table is applied and roles are given by one at a time, in order.
    applying: Mutex<()>,
    /// Held by whatever changes the cluster this node is in.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// A member told us that we were taken out of the cluster; our own table may never say so.
    removed: AtomicBool,
    /// The life whose cluster was recovered without this node; 0: none was.
    given_up_life: AtomicU64,
    state: OnceLock<Arc<NodeState>>,
    peers: OnceLock<Arc<PeerNet>>,
}

impl Member {
    /// A node that has not begun yet.
    pub fn new(dir: DataDir, facts: Facts) -> Arc<Member> {
        let startup = startup(dir.identity(), facts.claim, dir.kept());
        Arc::new_cyclic(|own| Member {
            own: own.clone(),
            runtime: Handle::current(),
            facts,
            dir: Mutex::new(dir),
            life: RwLock::new(Life {
                number: 0,
                startup,
                was_seated: false,
                cluster: None,
                writer: None,
            }),
            annals: Arc::default(),
            applying: Mutex::new(()),
            turn: tokio::sync::Mutex::new(()),
            removed: AtomicBool::new(false),
            given_up_life: AtomicU64::new(0),
            state: OnceLock::new(),
            peers: OnceLock::new(),
        })
    }

    /// Names the parts that need the member to be made. Once, before `begin`.
    pub fn wire(&self, state: Arc<NodeState>, peers: Arc<PeerNet>) {
        let _ = self.state.set(state);
        let _ = self.peers.set(peers);
    }

    pub(super) fn state(&self) -> &Arc<NodeState> {
        self.state.get().expect("wired before it begins")
    }

    pub(super) fn peers(&self) -> &Arc<PeerNet> {
        self.peers.get().expect("wired before it begins")
    }

    /// The table's history as this node knows it.
    pub fn annals(&self) -> Arc<Annals> {
        self.annals.clone()
    }

    /// Frames on the links to other nodes.
    pub fn traffic(&self) -> Traffic {
        self.peers().traffic()
    }

    /// This start.
    pub fn identity(&self) -> Identity {
        self.dir.lock().identity()
    }

    /// The log of this life; `None` while it begins.
    pub fn cluster(&self) -> Option<Arc<Cluster>> {
        self.life.read().cluster.clone()
    }

    /// How the node stands.
    pub fn standing(&self) -> Standing {
        self.life.read().startup.standing()
    }

    /// The node's row, should it join a cluster.
    pub(super) fn as_newcomer(&self) -> NewNode {
        let Identity { node, store, .. } = self.identity();
        NewNode {
            id: node,
            name: self.facts.name.clone(),
            store,
            addresses: (self.facts.addresses)(),
            labels: Default::default(),
            weight: slots::DEFAULT_WEIGHT,
        }
    }

    /// Begins the first life of this process: in the cluster that the data directory names.
    pub async fn begin(&self) -> io::Result<Arc<Cluster>> {
        let kept = self.dir.lock().kept();
        self.begin_with(kept).await
    }

    /// Begins a life in a cluster for which this node has never acknowledged anything: it still
    /// has all of that.
    pub async fn begin_anew(&self) -> io::Result<Arc<Cluster>> {
        self.begin_with(Kept::All).await
    }

    /// Goes on in another generation of the same cluster: this very start is in its table.
    pub async fn begin_same(&self) -> io::Result<Arc<Cluster>> {
        self.begin().await
    }

    /// Opens the log of the cluster that the data directory names, and takes part.
    async fn begin_with(&self, kept: Kept) -> io::Result<Arc<Cluster>> {
        let (identity, folder, (id, generation)) = {
            let dir = self.dir.lock();
            (dir.identity(), dir.raft_dir(), dir.cluster())
        };
        let number = {
            let mut life = self.life.write();
            life.number += 1;
            life.startup = startup(identity, self.facts.claim, kept);
            life.was_seated = false;
            life.cluster = None;
            life.number
        };
        if number > 1 {
            self.peers().switch(Some(id), generation, identity);
        }
        let (shown, table) = watch::channel(Arc::new(SlotTable::new()));
        let sink = Arc::new(Sink { member: self.own.clone(), number, shown });
        let fatal = Box::new(|why: String| exit::fatal(&why));
        let (log, machine, writer) =
            raft_disk::open(&folder, Sizes::default(), sink, fatal).map_err(io::Error::other)?;
        self.life.write().writer = Some(writer);
        let cluster = Cluster::start(ClusterStart {
            identity,
            cluster: id,
            log,
            machine,
            table,
            calls: self.peers().clone(),
            host: self.own.upgrade().expect("it is alive while it begins"),
        })
        .await
        .map_err(io::Error::other)?;
        self.life.write().cluster = Some(cluster.clone());
        self.watch(number, cluster.clone());
        Ok(cluster)
    }

    /// Founds the cluster that the data directory names, if that is not done. Tries until it is.
    pub async fn found(&self, cluster: &Cluster) -> io::Result<()> {
        /// Between two tries.
        const PAUSE: Duration = Duration::from_millis(200);
        if self.dir.lock().is_founded() {
            return Ok(());
        }
        let settings = ClusterSettings {
            generation: self.dir.lock().cluster().1,
            ..ClusterSettings::default()
        };
        while let Err(error) = cluster.found(settings, self.as_newcomer(), "itself").await {
            tracing::warn!(%error, "trying again");
            tokio::time::sleep(PAUSE).await;
        }
        self.dir.lock().note_founded()
    }

    /// Tells the start of time, and ends the process when the log fails.
    fn watch(&self, number: u64, cluster: Arc<Cluster>) {
        let member = self.own.clone();
        let is_now = move |member: &Member| member.life.read().number == number;
        let ended = cluster.clone();
        let owner = member.clone();
        self.runtime.spawn(async move {
            let why = ended.ended().await;
            if owner.upgrade().is_some_and(|member| is_now(&member)) {
                exit::fatal(&format!("the table's log ended: {why}"));
            }
        });
        self.runtime.spawn(async move {
            let mut interval = tokio::time::interval(TICK);
            loop {
                interval.tick().await;
                let Some(member) = member.upgrade().filter(|member| is_now(member)) else { return };
                let step = member.life.write().startup.tick(clock::now().mono_ns);
                member.carry_out(number, step);
                member.show();
            }
        });
    }

    /// Tells the peers how far this node is.
    fn show(&self) {
        let state = self.state();
        self.peers().set_status(PeerStatus {
            table_version: state.topology().table.version().0,
            keys: state.key_count(),
            uptime_ms: clock::now().mono_ns.saturating_sub(state.started.mono_ns) / 1_000_000,
        });
    }

    /// A life's log has applied something.
    fn applied(&self, number: u64, ledger: &Ledger, verdicts: &[(TableVersion, Verdicts)]) {
        let _in_order = self.applying.lock();
        let (step, is_first_seat) = {
            let mut life = self.life.write();
            if life.number != number {
                return;
            }
            let step = life.startup.applied(ledger.table(), clock::now().mono_ns);
            let is_seated = step.standing == Standing::Seated;
            (step, is_seated && !std::mem::replace(&mut life.was_seated, true))
        };
        if is_first_seat {
            self.note_seated();
        }
        let state = self.state();
        let (table, me) = (ledger.table().clone(), self.identity().node);
        let standing = match self.given_up_life.load(Ordering::SeqCst) == number {
            true => Standing::Starting,
            false if step.standing == Standing::Starting && self.was_removed() => Standing::Removed,
            false => step.standing,
        };
        state.install_topology(Topology { table, me, standing });
        self.annals.follow(ledger);
        self.peers().update_table(ledger.table());
        self.show();
        for (version, verdicts) in verdicts {
            for loss in verdicts.losses() {
                tracing::warn!(%version, slots = %loss.slots, cause = ?loss.cause, "possible loss");
            }
        }
        self.carry_out(number, step);
    }

    /// Before the first role: what is acknowledged from now on is not what an earlier run lost.
    fn note_seated(&self) {
        if let Err(error) = self.dir.lock().note_seated() {
            exit::fatal(&format!("that this start is in the table cannot be stored: {error}"));
        }
    }

    fn carry_out(&self, number: u64, step: Step) {
        if let Standing::Ended(ending) = step.standing {
            exit::fatal(&self.explain(ending));
        }
        if let Some(boot) = step.store_boot {
            self.claim(boot);
            return;
        }
        let Some(change) = step.propose else { return };
        let member = self.own.clone();
        let done = move |_: Result<Verdicts, ProposeError>| {
            let Some(member) = member.upgrade() else { return };
            let mut life = member.life.write();
            if life.number == number {
                life.startup.answered(clock::now().mono_ns);
            }
        };
        self.propose(change, "itself", Box::new(done));
    }

    /// A directory from a backup takes a boot number that nobody has had, and begins again with it.
    fn claim(&self, boot: Boot) {
        let recorded = Boot(boot.0.saturating_sub(1));
        if let Err(error) = self.dir.lock().raise_boot(recorded) {
            exit::fatal(&format!("the boot number cannot be stored: {error}"));
        }
        let Some(member) = self.own.upgrade() else { return };
        tracing::info!(%boot, "restored: taking a new boot number");
        self.runtime.spawn(async move {
            member.end().await;
            if let Err(error) = member.begin().await {
                exit::fatal(&error.to_string());
            }
        });
    }

    /// Ends this life's part in the log. Nothing of it is heard any more.
    pub async fn end(&self) {
        let (cluster, writer) = {
            let mut life = self.life.write();
            life.number += 1;
            (life.cluster.take(), life.writer.take())
        };
        if let Some(cluster) = cluster {
            cluster.shutdown().await;
        }
        if let Some(writer) = writer {
            // It ends once the tasks of the log are gone; if it panicked, the process has said so.
            let _ = tokio::task::spawn_blocking(|| writer.join()).await;
        }
    }

    /// Takes all roles away until the next table is applied.
    pub fn suspend(&self) {
        let _in_order = self.applying.lock();
        self.state().install_standing(Standing::Starting);
    }

    /// Gives the roles back that `suspend` took.
    pub fn resume(&self) {
        let _in_order = self.applying.lock();
        self.state().install_standing(self.standing());
    }

    /// Has a member said that this node is out of the cluster?
    pub(super) fn was_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    /// A new life begins in a cluster that knows nothing of it.
    pub(super) fn forget_removal(&self) {
        self.removed.store(false, Ordering::SeqCst);
    }

    /// Writes down where other nodes were reached last: the next start may find them only so.
    pub(super) fn write_book(&self) {
        if let Err(error) = self.dir.lock().write_peers(&self.peers().book_text()) {
            tracing::warn!(%error, "addresses of other nodes are not stored");
        }
    }

    fn refused_by(&self, node: NodeId, code: RefusalCode, text: &str) {
        let is_seated = self.standing() == Standing::Seated;
        match code {
            RefusalCode::Outdated if self.facts.claim == Claim::Restored && !is_seated => {}
            RefusalCode::Outdated => exit::fatal(text),
            RefusalCode::OldGeneration => {
                // The lock is given back first: a table that is applied takes both the other way.
                let (_, generation) = self.dir.lock().cluster();
                self.given_up(generation + 1);
            }
            RefusalCode::Doubled | RefusalCode::IdInUse if !is_seated => exit::fatal(text),
            RefusalCode::Removed if !self.removed.swap(true, Ordering::SeqCst) => {
                tracing::warn!(%node, "this node is out of the cluster: {text}");
                let _in_order = self.applying.lock();
                if self.standing() == Standing::Starting {
                    // Its own table will never say so.
                    self.state().install_standing(Standing::Removed);
                }
            }
            _ => {}
        }
    }

    /// The cluster was recovered without this node: what it serves is served elsewhere. It serves
    /// nothing from now on, and ends unless whoever recovered tells it to follow.
    fn given_up(&self, generation: u64) {
        /// A recovery tells one node after the other, each for up to 5 s.
        const GRACE: Duration = Duration::from_secs(10);
        let number = self.life.read().number;
        if self.given_up_life.swap(number, Ordering::SeqCst) == number {
            return;
        }
        tracing::error!(
            generation,
            "the cluster was recovered without this node: it stops serving"
        );
        self.suspend();
        let member = self.own.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(GRACE).await;
            let Some(member) = member.upgrade() else { return };
            if member.life.read().number == number {
                member.superseded(generation);
            }
        });
    }

    fn superseded(&self, generation: u64) -> ! {
        let mut dir = self.dir.lock();
        // If it cannot be stored the next start is told again.
        if let Err(error) = dir.note_superseded(generation) {
            tracing::error!(%error, "the later generation is not stored");
        }
        exit::fatal(&format!(
            "the cluster was recovered at generation {generation}; this node belongs to generation \
             {}, which was given up: start it in an empty folder and join it again",
            dir.cluster().1
        ))
    }

    fn explain(&self, ending: Ending) -> String {
        let Identity { node, boot, .. } = self.identity();
        match ending {
            Ending::Doubled { boot } => format!(
                "boot {boot} of node {node} was taken by another start of its data directory: two \
                 copies run, or this one is older. Keep the newest and wipe the other; a backup is \
                 started with --restored yes"
            ),
            Ending::Outdated { recorded, .. } => format!(
                "this data directory is older than the last start of node {node}: the cluster \
                 knows boot {recorded}, this is boot {boot}. If it comes from a backup and the \
                 node runs nowhere else, start it with --restored yes"
            ),
            Ending::OtherStore { recorded } => format!(
                "the cluster knows node {node} with another data directory ({recorded}): if that \
                 disk is lost, tell the cluster (slotctl node lost {node}), then start this node \
                 in an empty folder and add it"
            ),
        }
    }
}

fn startup(identity: Identity, claim: Claim, kept: Kept) -> Startup {
    let evidence = Evidence { kept, ..Evidence::nothing() };
    Startup::new(identity, claim, evidence, clock::now().mono_ns)
}

/// Where one life's log tells what it applied.
struct Sink {
    member: Weak<Member>,
    number: u64,
    shown: watch::Sender<Arc<SlotTable>>,
}

impl LedgerSink for Sink {
    fn applied(&self, ledger: &Ledger, verdicts: &[(TableVersion, Verdicts)]) {
        if let Some(member) = self.member.upgrade() {
            member.applied(self.number, ledger, verdicts);
        }
        // After the rooms: whoever waits for a version may count on them.
        self.shown.send_replace(ledger.table().clone());
    }
}

impl TableLog for Member {
    fn propose(&self, change: TableChange, actor: &str, done: Proposed) {
        match self.cluster() {
            Some(cluster) => cluster.propose(change, actor, done),
            None => done(Err(ProposeError::NoQuorum)),
        }
    }
}

impl Orders for Member {
    fn order(&self, order: Order, actor: &str, done: Ordered) {
        let (Some(member), Some(cluster)) = (self.own.upgrade(), self.cluster()) else {
            return done(Err(OrderError::NoQuorum));
        };
        match order {
            Order::Meet { bus } => {
                self.runtime.spawn(async move { done(member.meet(bus).await) });
            }
            Order::Reset { hard } => {
                self.runtime.spawn(async move { done(member.reset(hard).await) });
            }
            Order::Recover => {
                self.runtime.spawn(async move { done(member.recover().await) });
            }
            order => cluster.order(order, actor, done),
        }
    }

    fn view(&self) -> View {
        let mut view = self.cluster().map(|cluster| cluster.view()).unwrap_or_default();
        view.peers = self.peers().views();
        view
    }
}

impl Answers for Member {
    fn answer(
        &self,
        from: NodeId,
        kind: CallKind,
        body: Vec<u8>,
    ) -> Boxed<Result<Vec<u8>, String>> {
        if kind == CallKind::Meet
            && let (Ok(MeetCall::Recovered(told)), Some(member)) =
                (codec::decode(&body), self.own.upgrade())
        {
            return Box::pin(async move {
                codec::encode(&member.follow(from, told).await).map_err(|error| error.to_string())
            });
        }
        match self.cluster() {
            Some(cluster) => cluster.answer(from, kind, body),
            // Between two clusters, or before the first: who would meet us asks again.
            None if kind == CallKind::Meet => Box::pin(async {
                let busy = MeetAnswer::Busy("this node is joining another cluster".to_owned());
                codec::encode(&busy).map_err(|error| error.to_string())
            }),
            None => Box::pin(async { Err("this node is starting".to_owned()) }),
        }
    }
}

impl Notices for Member {
    fn notice(&self, notice: Notice) {
        match notice {
            Notice::RefusedBy { code, text, node } => self.refused_by(node, code, &text),
            Notice::Superseded { boot } => exit::fatal(&format!(
                "a newer start of this node (boot {boot}) runs: two copies of one data directory. \
                 Keep one; give every node a data directory of its own"
            )),
            Notice::LinkUp { .. } => self.write_book(),
            Notice::NewerGeneration { generation, .. } => self.given_up(generation),
            Notice::LinkDown { .. } => {}
        }
    }
}

impl Host for Member {
    fn unix_ms(&self) -> u64 {
        clock::now().unix_ms
    }

    fn keys(&self) -> u64 {
        self.state().key_count()
    }

    fn join_back(&self, from: NodeId, bus: slots::Endpoint) {
        let Some(member) = self.own.upgrade() else { return };
        self.runtime.spawn(async move {
            match member.meet(bus).await {
                Ok(done) => tracing::info!(%from, "{}", done.text),
                Err(error) => tracing::warn!(%from, ?error, "not joined"),
            }
        });
    }
}
