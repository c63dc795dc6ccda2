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

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use slots::{
    ClusterSettings, Kept, NewNode, SlotId, SlotRanges, SlotTable, TableVersion, Verdicts,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::command::{NodeState, Topology};
use crate::control::annals::Annals;
use crate::control::herald::Herald;
use crate::control::ledger::Ledger;
use crate::control::orders::{Orders, Traffic};
use crate::control::raft::disk::Sizes;
use crate::control::raft::machine::LedgerSink;
use crate::control::raft::{Cluster, ClusterStart};
use crate::control::seat::{Identity, Standing};
use crate::control::startup::{BootRecord, Claim, Evidence, Startup, Step};
use crate::control::{ProposeError, TableLog};
use crate::io::clock;
use crate::io::data_dir::DataDir;
use crate::io::exit;
use crate::io::peer::PeerNet;
use crate::io::raft_disk;
use crate::node::moves::Target;
use crate::peer::PeerStatus;
use crate::slot::Rooms;
use crate::vital::vital;

/// How often the start is told that time has passed.
const TICK: Duration = Duration::from_millis(100);

/// Orders to meet that are taken at once: redis-cli gives one for each node of a cluster.
const MAX_MEETINGS: usize = 128;

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
pub(super) struct Life {
    pub(super) number: u64,
    pub(super) startup: Startup,
    /// What links and log were told of the start; its number may have been taken since.
    told: Identity,
    cluster: Option<Arc<Cluster>>,
    /// Writes the log's files; ends when nobody uses the log any more.
    writer: Option<JoinHandle<()>>,
}

/// The node.
pub(super) struct Member {
    pub(super) own: Weak<Member>,
    pub(super) runtime: Handle,
    pub(super) facts: Facts,
    pub(super) dir: Mutex<DataDir>,
    pub(super) life: RwLock<Life>,
    annals: Arc<Annals>,
    /// A table is applied and roles are given by one at a time, in order.
    pub(super) applying: Mutex<()>,
    /// Held by whatever changes the cluster this node is in.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Orders to meet that are under way or wait for their turn.
    pub(super) meetings: tokio::sync::Semaphore,
    /// A member told us that we were taken out of the cluster; our own table may never say so.
    pub(super) removed: AtomicBool,
    /// How many hold the roles back.
    suspended: AtomicUsize,
    /// The life whose cluster was recovered without this node; 0: none was.
    pub(super) given_up_life: AtomicU64,
    /// The newest Alone marks that the start found; not set while it still reads the disk.
    alone: OnceLock<BTreeMap<SlotId, TableVersion>>,
    state: OnceLock<Arc<NodeState>>,
    pub(super) peers: OnceLock<Arc<PeerNet>>,
    /// Copies of slots on their way here.
    target: OnceLock<Target>,
}

impl Member {
    /// A node that has not begun yet.
    pub fn new(dir: DataDir, facts: Facts) -> Arc<Member> {
        let startup = startup(&dir, facts.claim, None);
        let told = startup.identity();
        Arc::new_cyclic(|own| Member {
            own: own.clone(),
            runtime: Handle::current(),
            facts,
            dir: Mutex::new(dir),
            life: RwLock::new(Life { number: 0, startup, told, cluster: None, writer: None }),
            annals: Arc::default(),
            applying: Mutex::new(()),
            turn: tokio::sync::Mutex::new(()),
            meetings: tokio::sync::Semaphore::new(MAX_MEETINGS),
            removed: AtomicBool::new(false),
            suspended: AtomicUsize::new(0),
            given_up_life: AtomicU64::new(0),
            alone: OnceLock::new(),
            state: OnceLock::new(),
            peers: OnceLock::new(),
            target: OnceLock::new(),
        })
    }

    /// Names the state that needs the member to be made. Once, before other nodes are linked.
    pub fn wire_state(&self, state: Arc<NodeState>) {
        let _ = self.target.set(Target::new(state.clone()));
        let _ = self.state.set(state);
    }

    /// Names the links, which speak to the member from then on. Once, before `begin`.
    pub fn wire_peers(&self, peers: Arc<PeerNet>) {
        let _ = self.peers.set(peers);
        self.write_book();
    }

    pub(super) fn state(&self) -> &Arc<NodeState> {
        self.state.get().expect("wired before it begins")
    }

    pub(super) fn peers(&self) -> &Arc<PeerNet> {
        self.peers.get().expect("wired before it begins")
    }

    /// Who takes copies of slots.
    pub(super) fn target(&self) -> &Target {
        self.target.get().expect("wired before it begins")
    }

    /// The table's history as this node knows it.
    pub fn annals(&self) -> Arc<Annals> {
        self.annals.clone()
    }

    /// Frames on the links to other nodes.
    pub fn traffic(&self) -> Traffic {
        self.peers().traffic()
    }

    /// This start, in this life.
    pub fn identity(&self) -> Identity {
        self.life.read().startup.identity()
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
        // The links are up: a member may say in the meantime that the boot number is taken.
        let _turn = self.turn.lock().await;
        self.begin_life(None).await
    }

    /// What is on disk was read: from now on the node may ask for its seat.
    pub fn loaded(&self, alone: BTreeMap<SlotId, TableVersion>) {
        let alone = self.alone.get_or_init(|| alone);
        let (number, step) = {
            // After a life that began meanwhile, or before it: then it knows.
            let mut life = self.life.write();
            let evidence = evidence(self.dir.lock().kept(), alone, &self.state().rooms);
            (life.number, life.startup.found(evidence, clock::now().mono_ns))
        };
        self.carry_out(number, step);
    }

    /// Begins a life in a cluster for which this node has never acknowledged anything: it still
    /// has all of that.
    pub async fn begin_anew(&self) -> io::Result<Arc<Cluster>> {
        self.begin_with(Kept::All).await
    }

    /// Goes on in another generation of the same cluster. A node that had its seat has lost
    /// nothing: its memory is what it was.
    pub async fn begin_same(&self, was_seated: bool) -> io::Result<Arc<Cluster>> {
        let kept = if was_seated { Kept::All } else { self.dir.lock().kept() };
        self.begin_with(kept).await
    }

    /// Opens the log of the cluster that the data directory names, and takes part.
    async fn begin_with(&self, kept: Kept) -> io::Result<Arc<Cluster>> {
        let evidence = |alone| evidence(kept, alone, &self.state().rooms);
        let evidence = self.alone.get().map(evidence);
        let startup = startup(&self.dir.lock(), self.facts.claim, evidence);
        self.begin_life(Some(startup)).await
    }

    /// Begins a life; `None`: the start that is there goes on, and knows which numbers it has gone
    /// past. `turn` must be held, and the life before it ended.
    async fn begin_life(&self, startup: Option<Startup>) -> io::Result<Arc<Cluster>> {
        let (folder, (id, generation)) = {
            let dir = self.dir.lock();
            (dir.raft_dir(), dir.cluster())
        };
        let is_new = startup.is_some();
        let (number, identity, is_told) = {
            let mut life = self.life.write();
            life.number += 1;
            if let Some(startup) = startup {
                life.startup = startup;
            }
            life.cluster = None;
            let identity = life.startup.identity();
            let is_told = life.number == 1 && life.told == identity;
            life.told = identity;
            (life.number, identity, is_told)
        };
        // The same cluster as before: its nodes are where they were.
        let book = (!is_new).then(|| self.peers().book_text());
        if number > 1 {
            self.forget_removal();
            self.state().seals.forget_all();
        }
        if !is_told {
            self.peers().switch(Some(id), generation, identity);
            book.iter().for_each(|book| self.peers().remember(book));
        }
        let (shown, table) = watch::channel(Arc::new(SlotTable::new()));
        let sink = Arc::new(Sink { member: self.own.clone(), number, shown });
        let fatal = Box::new(|why: String| exit::fatal(&why));
        let (log, machine, writer) = raft_disk::open(&folder, Sizes::default(), sink, fatal)
            .map_err(|error| io::Error::other(format!("{}: {error}", folder.display())))?;
        self.life.write().writer = Some(writer);
        let log_bytes = Box::new(log.scales());
        let may_vote = !self.dir.lock().is_log_lost();
        if !may_vote {
            tracing::warn!(
                "this node's part of the table's log was lost or comes from a backup: it gives no \
                 vote until its vote was moved (slotctl node replace-voter). --restored yes is for \
                 one start only"
            );
        }
        let cluster = Cluster::start(ClusterStart {
            identity,
            cluster: id,
            log,
            log_bytes,
            may_vote,
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
        self.runtime.spawn(vital("watch the log", async move {
            let why = ended.ended().await;
            if owner.upgrade().is_some_and(|member| is_now(&member)) {
                exit::fatal(&format!("the table's log ended: {why}"));
            }
        }));
        self.runtime.spawn(vital("start", async move {
            let mut interval = tokio::time::interval(TICK);
            let mut herald = Herald::default();
            loop {
                interval.tick().await;
                let Some(member) = member.upgrade().filter(|member| is_now(member)) else { return };
                let step = member.life.write().startup.tick(clock::now().mono_ns);
                member.carry_out(number, step);
                member.show();
                let table = member.state().topology().table;
                let name = |id| table.node(id).map_or_else(|| id.to_string(), |r| r.name.clone());
                let news = herald.look(clock::now().mono_ns, &member.view());
                news.into_iter().for_each(|news| news.log(name));
            }
        }));
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
        let mut step = {
            let mut life = self.life.write();
            if life.number != number {
                return;
            }
            life.startup.applied(ledger.table(), clock::now().mono_ns)
        };
        let state = self.state();
        if let Some(boots) = step.store.take() {
            self.store_boots(boots);
        }
        let (table, me) = (ledger.table().clone(), self.identity().node);
        let standing = self.allowed(step.standing);
        state.install_topology(Topology { table, me, standing });
        self.annals.follow(ledger);
        self.peers().update_table(ledger.table());
        self.show();
        // Those of before this start were told when they came.
        let is_news = standing == Standing::Seated;
        for (version, verdicts) in verdicts.iter().filter(|_| is_news) {
            for loss in verdicts.losses() {
                tracing::warn!(%version, slots = %loss.slots, cause = ?loss.cause, "possible loss");
            }
        }
        self.carry_out(number, step);
    }

    /// The standing, unless something else takes the roles away.
    fn allowed(&self, standing: Standing) -> Standing {
        let number = self.life.read().number;
        match standing {
            _ if self.given_up_life.load(Ordering::SeqCst) == number => Standing::Starting,
            _ if self.was_removed() => Standing::Removed,
            _ if self.suspended.load(Ordering::SeqCst) > 0 => Standing::Starting,
            standing => standing,
        }
    }

    pub(super) fn carry_out(&self, number: u64, step: Step) {
        if let Standing::Ended(ending) = step.standing {
            exit::fatal(&self.explain(ending));
        }
        if let Some(boots) = step.store {
            self.store_boots(boots);
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

    /// Writes the boot numbers down; a number that was taken anew needs greetings and a log that
    /// say so, and its proposals come from there.
    fn store_boots(&self, boots: BootRecord) {
        if let Err(error) = self.dir.lock().store_boots(boots) {
            exit::fatal(&format!("the boot number cannot be stored: {error}"));
        }
        let Some(member) = self.own.upgrade().filter(|member| member.is_told_otherwise()) else {
            return;
        };
        self.runtime.spawn(vital("begin again", async move {
            let _turn = member.turn.lock().await;
            // A life that has not begun yet begins with the new number.
            if member.cluster().is_none() || !member.is_told_otherwise() {
                return;
            }
            tracing::info!(boot = %member.identity().boot, "beginning again with the next boot");
            member.end().await;
            if let Err(error) = member.begin_life(None).await {
                exit::fatal(&error.to_string());
            }
        }));
    }

    /// Do links and log know another boot number than the start has?
    fn is_told_otherwise(&self) -> bool {
        let life = self.life.read();
        life.startup.standing() != Standing::Seated && life.told != life.startup.identity()
    }

    /// Changes the data directory.
    pub(super) fn change_dir<T>(&self, change: impl FnOnce(&mut DataDir) -> T) -> T {
        change(&mut self.dir.lock())
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

    /// Takes all roles away, until `resume` or until the next life begins. A command that is in a
    /// room already ends first: `pass_all_rooms` waits for that.
    pub fn suspend(&self) {
        let _in_order = self.applying.lock();
        self.suspended.fetch_add(1, Ordering::SeqCst);
        self.state().install_standing(Standing::Starting);
    }

    /// Gives the roles back that `suspend` took.
    pub fn resume(&self) {
        let _in_order = self.applying.lock();
        self.suspended.fetch_sub(1, Ordering::SeqCst);
        self.state().install_standing(self.allowed(self.standing()));
    }

    /// Waits until nobody is in a room who went in before now.
    pub async fn pass_all_rooms(&self) {
        let state = self.state().clone();
        // It fails only if it panicked, which the process has said then.
        let _ = tokio::task::spawn_blocking(move || state.rooms.pass_all()).await;
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
        // Links that come up before they are named here are written down then.
        let Some(peers) = self.peers.get() else { return };
        if let Err(error) = self.dir.lock().write_peers(&peers.book_text()) {
            tracing::warn!(%error, "addresses of other nodes are not stored");
        }
    }
}

/// Slots whose copy was on its way in, and of which the start found only that, are none that the
/// node holds. A node that keeps nothing need not name them.
fn evidence(kept: Kept, alone: &BTreeMap<SlotId, TableVersion>, rooms: &Rooms) -> Evidence {
    let mut except = SlotRanges::new();
    if kept != Kept::Nothing {
        rooms.unadopted().into_iter().for_each(|slot| except.insert(slot));
    }
    Evidence { kept, alone: alone.clone(), except }
}

fn startup(dir: &DataDir, claim: Claim, evidence: Option<Evidence>) -> Startup {
    let Identity { node, store, nonce, .. } = dir.identity();
    let now_ns = clock::now().mono_ns;
    Startup::new((node, store), dir.boots().clone(), nonce, claim, evidence, now_ns)
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

#[cfg(test)]
mod tests {
    use slots::Epoch;

    use super::*;
    use crate::slot::{Ownership, StageFate};
    use crate::stream::tests::bare_rooms;

    #[test]
    fn a_copy_that_was_on_its_way_is_excepted_until_the_node_has_a_seat() {
        let (rooms, slot, alone) = (bare_rooms(), SlotId::FIRST, BTreeMap::new());
        rooms.leave_remains(slot, Epoch(7), 90);
        for kept in [Kept::All, Kept::Tail] {
            assert_eq!(evidence(kept, &alone, &rooms).except.iter().collect::<Vec<_>>(), [slot]);
        }
        assert_eq!(evidence(Kept::Nothing, &alone, &rooms), Evidence::nothing());
        let (epoch, since) = (Epoch(9), TableVersion(9));
        rooms.install_since(slot, Ownership::Foreign, epoch, since, StageFate::Drop);
        assert_eq!(evidence(Kept::All, &alone, &rooms).except.iter().count(), 0);
    }
}
