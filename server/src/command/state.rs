//! The node as commands see it: rooms, table, options, clients, counters. Wired by `node`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slots::SlotId;

use crate::command::client::{ClientShared, client_flag};
use crate::command::cx::{Edges, Now};
use crate::command::disk::{Disk, Loading};
use crate::command::families::cluster::TopologyReplies;
use crate::command::installed::{Installed, Topology};
use crate::command::mailbox::letter;
use crate::command::moves::Moves;
use crate::command::parking::{PARKED_MAX, Parking};
use crate::command::promise::Promises;
use crate::command::seals::Seals;
use crate::command::sections::Sections;
use crate::command::slow_log::SlowLog;
use crate::command::stale::StaleCounts;
use crate::command::stats::Stats;
use crate::command::waiting::Waiting;
use crate::command::{Args, Client, Command, CommandError, CommandId, flag, registry};
use crate::config::Config;
use crate::config::live::EndpointType;
use crate::control::TableLog;
use crate::control::orders::Orders;
use crate::slot::{Admit, HoldExpiry, Op, Ownership, Patience, Refused, Rooms};
use crate::store::limits::Limits;

/// Everything a node is made of, as far as commands go.
pub struct NodeState {
    /// Options.
    pub config: Arc<Config>,
    /// The keys.
    pub rooms: Rooms,
    pub(super) installed: Installed,
    /// Connected clients.
    pub clients: Clients,
    /// Counters.
    pub stats: Stats,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// What replies wait for.
    pub promises: Promises,
    /// SLOWLOG.
    pub slow_log: SlowLog,
    /// Who was refused with MOVED.
    pub stale: StaleCounts,
    /// The outside world.
    pub edges: Box<dyn Edges>,
    /// Where table changes are proposed.
    pub table_log: Box<dyn TableLog>,
    /// Who carries out orders that take more than one change, and how the cluster stands.
    pub orders: Box<dyn Orders>,
    /// What of the keys is on disk.
    pub disk: Box<dyn Disk>,
    /// How far the start is with bringing keys from there.
    pub loading: Loading,
    /// Commands that wait for the cluster.
    pub waiting: Waiting,
    /// Slots that are closed while the table decides.
    pub seals: Seals,
    /// How far slots are on their way to other nodes.
    pub moves: Moves,
    /// Clients that wait before those.
    pub parking: Parking,
    /// Slots on their way out to a backup, and in from one.
    pub sections: Sections,
    /// 40 hex digits, new at each start.
    pub run_id: String,
    /// Both clocks at start.
    pub started: Now,
    /// Over maxmemory: refreshed by the node's ticker.
    over_maxmemory: AtomicBool,
    /// Highest bytes in use seen by the ticker.
    pub peak_memory: AtomicU64,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: AtomicBool,
    /// The last replies to CLUSTER SLOTS, SHARDS and NODES.
    pub topology_replies: TopologyReplies,
    /// Path of the configuration file, if one was given.
    pub config_file: Option<String>,
    /// Bytes in use before the first client came.
    pub startup_memory: u64,
    /// What counters stood at when CONFIG RESETSTAT came, where they cannot be set back.
    before_reset: BeforeReset,
}

/// Counts that go on over CONFIG RESETSTAT, or that it must not take away.
#[derive(Default)]
struct BeforeReset {
    freed_objects: AtomicU64,
}

impl NodeState {
    /// A node with empty rooms and the given table.
    #[allow(clippy::too_many_arguments, reason = "the parts of a node")]
    pub fn new(
        config: Arc<Config>,
        rooms: Rooms,
        topology: Topology,
        edges: Box<dyn Edges>,
        table_log: Box<dyn TableLog>,
        orders: Box<dyn Orders>,
        disk: Box<dyn Disk>,
        run_id: String,
        config_file: Option<String>,
    ) -> NodeState {
        let (started, startup_memory) = (edges.now(), edges.memory().allocated);
        let node = NodeState {
            config,
            rooms,
            installed: Installed::new(topology),
            clients: Clients::default(),
            stats: Stats::default(),
            pause: Pause::default(),
            promises: Promises::default(),
            slow_log: SlowLog::default(),
            stale: StaleCounts::default(),
            edges,
            table_log,
            orders,
            disk,
            loading: Loading::default(),
            waiting: Waiting::default(),
            seals: Seals::default(),
            moves: Moves::default(),
            parking: Parking::default(),
            sections: Sections::default(),
            run_id,
            started,
            over_maxmemory: AtomicBool::new(false),
            peak_memory: AtomicU64::new(0),
            active_expire: AtomicBool::new(true),
            topology_replies: TopologyReplies::default(),
            config_file,
            startup_memory,
            before_reset: BeforeReset::default(),
        };
        node.change_topology(|_| {});
        node
    }

    /// Are all keys refused because a slot has no owner (`cluster-require-full-coverage`)?
    #[inline]
    pub fn is_down(&self) -> bool {
        self.installed.is_uncovered()
            && self.is_seated()
            && self.config.live().cluster_require_full_coverage.load()
    }

    /// May a command for a key of this slot go on here? As `check_served`, and while the cluster
    /// is down what has an owner is refused, too.
    pub fn check_key(
        &self,
        slot: SlotId,
        command: &Command,
        who: &ClientShared,
    ) -> Result<(), CommandError> {
        if self.is_down() && self.rooms.ownership(slot).0 != Ownership::Unassigned {
            let reads = self.config.live().cluster_allow_reads_when_down.load();
            let text = match (reads, command.writes()) {
                (true, false) => return self.check_served(slot, who),
                (true, true) => "CLUSTERDOWN The cluster is down and only accepts read commands",
                (false, _) => slots::redirect::CLUSTERDOWN,
            };
            return Err(CommandError::Static(text));
        }
        self.check_served(slot, who)
    }

    /// The error text of a refusal that `who` is about to get. A MOVED is made nowhere else, and
    /// counted here.
    #[cold]
    pub fn refusal(&self, slot: SlotId, refused: Refused, who: &ClientShared) -> CommandError {
        if !self.is_seated() {
            return self.no_seat();
        }
        match refused {
            Refused::Moved if self.parking.expects(slot) => CommandError::Busy(slot),
            Refused::Moved => self.moved(slot, who),
            Refused::Unserved => CommandError::Static(slots::redirect::CLUSTERDOWN_UNBOUND),
            Refused::Parked => CommandError::Busy(slot),
            Refused::NoTable => CommandError::Static(slots::redirect::CLUSTERDOWN),
        }
    }

    fn moved(&self, slot: SlotId, who: &ClientShared) -> CommandError {
        self.stats.moved.fetch_add(1, Ordering::Relaxed);
        self.stale.note(slot, who, self.edges.now());
        self.redirect(slot)
    }

    /// The answer for another node's slot, as a text: nobody is counted as refused.
    pub fn redirect(&self, slot: SlotId) -> CommandError {
        let topology = self.topology();
        let owner = topology.table.slot(slot).owner().and_then(|id| topology.table.node(id));
        match owner {
            None => CommandError::Static(slots::redirect::CLUSTERDOWN_UNBOUND),
            Some(row) => {
                let host = row.addresses.client_host(self.endpoint_kind());
                let port = row.addresses.client.port;
                CommandError::Text(slots::redirect::moved(slot, host, port).to_string())
            }
        }
    }

    /// What `cluster-preferred-endpoint-type` says.
    pub fn endpoint_kind(&self) -> slots::EndpointKind {
        match self.config.live().endpoint_type() {
            EndpointType::Ip => slots::EndpointKind::Ip,
            EndpointType::Hostname => slots::EndpointKind::Hostname,
            EndpointType::Unknown => slots::EndpointKind::Unknown,
        }
    }

    /// Is the slot served here? Asked before a command is queued or parsed further; the answer
    /// that counts is `admit`'s.
    pub fn check_served(&self, slot: SlotId, who: &ClientShared) -> Result<(), CommandError> {
        let refused = match self.rooms.ownership(slot).0 {
            Ownership::Owned | Ownership::Sealed => return Ok(()),
            Ownership::Foreign => Refused::Moved,
            Ownership::Unassigned => Refused::Unserved,
            Ownership::Unknown => Refused::NoTable,
        };
        Err(self.refusal(slot, refused, who))
    }

    /// Are writes that may need memory refused?
    #[inline]
    pub fn is_over_maxmemory(&self) -> bool {
        self.over_maxmemory.load(Ordering::Relaxed)
    }

    /// Compares memory with maxmemory. The node's ticker and CONFIG SET call it.
    pub fn check_memory(&self) {
        let max = self.config.live().maxmemory.load();
        let used = self.edges.memory().allocated;
        self.peak_memory.fetch_max(used, Ordering::Relaxed);
        self.over_maxmemory.store(max != 0 && used > max, Ordering::Relaxed);
    }

    /// Hands the collection limits of the options to the rooms. CONFIG SET calls it.
    pub fn sync_limits(&self) {
        let live = &self.config.live().limits;
        self.rooms.set_limits(Limits {
            hash_max_entries: live.hash_max_entries.load() as usize,
            hash_max_value: live.hash_max_value.load() as usize,
            set_max_intset: live.set_max_intset.load() as usize,
            set_max_listpack_entries: live.set_max_listpack_entries.load() as usize,
            set_max_listpack_value: live.set_max_listpack_value.load() as usize,
            zset_max_entries: live.zset_max_entries.load() as usize,
            zset_max_value: live.zset_max_value.load() as usize,
            list_max_listpack_size: live.list_max_listpack_size.load(),
        });
    }

    /// CLIENT PAUSE. While it lasts expired keys are hidden and not deleted: a delete is a write.
    pub fn begin_pause(&self, all: bool, until_ns: u64) {
        self.pause.begin(all, until_ns, &self.rooms.totals.hold_expiry);
    }

    /// CLIENT UNPAUSE: ends the pause and wakes those it held.
    pub fn end_pause(&self) {
        self.end_pause_by(u64::MAX);
    }

    /// Ends the pause if it ends by `now_ns`.
    fn end_pause_by(&self, now_ns: u64) {
        if !self.pause.end(now_ns, &self.rooms.totals.hold_expiry) {
            return;
        }
        for client in self.clients.all() {
            if client.has_flag(client_flag::PAUSED) {
                client.mailbox.post(letter::UNPAUSED);
            }
        }
    }

    /// Holds expiry back while the log has no room for the deletes. The node's ticker calls it.
    pub fn tick_log(&self) {
        let is_full = self.promises.is_log_full();
        self.rooms.totals.hold_expiry.set(HoldExpiry::LOG_FULL, is_full);
    }

    /// Ends a pause whose time is up. The node's ticker calls it.
    pub fn tick_pause(&self, now: Now) {
        if self.pause.is_active() {
            self.end_pause_by(now.mono_ns);
        }
    }

    /// Notes a command that took `nanos` in the slow log, if that is slow.
    #[inline]
    pub fn note_slow(&self, id: CommandId, args: &Args<'_>, nanos: u64, now: Now, who: &Client) {
        let live = self.config.live();
        let threshold = live.slowlog_log_slower_than_us.load();
        let logged = registry().entry(id).command.flags & flag::SKIP_SLOWLOG == 0;
        if threshold >= 0 && nanos / 1000 >= threshold as u64 && logged {
            self.slow_log.add(id, args, nanos, now, who, live.slowlog_max_len.load() as usize);
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset_stats(&self) {
        let (_, freed) = self.edges.freed_objects();
        self.before_reset.freed_objects.store(freed, Ordering::Relaxed);
        self.stats.reset();
        self.rooms.totals.expired.store(0, Ordering::Relaxed);
    }

    /// Values freed in the background since the last reset, and those still to be freed.
    pub fn freed_objects(&self) -> (u64, u64) {
        let (pending, freed) = self.edges.freed_objects();
        let before = self.before_reset.freed_objects.load(Ordering::Relaxed);
        (pending, freed.saturating_sub(before))
    }

    /// Bytes of keys and values of this node.
    pub fn key_bytes(&self) -> u64 {
        self.rooms.totals.bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Is each call of this command timed on its own? Constant-time commands are not, unless
    /// the slow log wants them.
    #[inline]
    pub fn is_timed(&self, id: CommandId) -> bool {
        /// A constant-time command is never slower than this, us: no need to look.
        const LOOK_BELOW_US: i64 = 1000;
        let threshold = self.config.live().slowlog_log_slower_than_us.load();
        registry().is_timed(id) || (0..LOOK_BELOW_US).contains(&threshold)
    }

    /// Empties every slot of this node, one op group a slot, but the one that a transaction has
    /// emptied already (and may have filled again). May wait for rooms, and for slots that are
    /// being handed over: what this node still owns behind that is emptied, too.
    ///
    /// # Errors
    /// A slot that stays closed; the others are empty. It may be asked for again.
    pub fn flush_all(&self, now: Now, done: Option<SlotId>) -> Result<(), CommandError> {
        /// Between two looks at closed slots.
        const PAUSE: Duration = Duration::from_millis(2);
        let mut left: Vec<SlotId> = SlotId::all().filter(|slot| Some(*slot) != done).collect();
        let until_ns = self.edges.now().mono_ns.saturating_add(PARKED_MAX.as_nanos() as u64);
        loop {
            left.retain(|slot| !self.flush(*slot, now));
            let Some(slot) = left.first() else { return Ok(()) };
            if self.edges.now().mono_ns >= until_ns {
                return Err(CommandError::Text(format!(
                    "TRYAGAIN slot {slot} is being handed over; all others of this node are empty"
                )));
            }
            self.edges.sleep(PAUSE);
        }
    }

    /// Empties a slot, if it is this node's. False: it is closed.
    fn flush(&self, slot: SlotId, now: Now) -> bool {
        if self.rooms.looks_empty(slot) {
            return true;
        }
        match self.rooms.admit(slot, now.unix_ms, Patience::Block) {
            Admit::Served(mut owned) if !owned.keys().is_empty() => {
                owned.apply(Op::Flush);
                true
            }
            Admit::Refused(Refused::Parked) => false,
            _ => true,
        }
    }

    /// Changes of keys by commands since the start; INFO's rdb_changes_since_last_save counts
    /// from the last save.
    pub fn changes(&self) -> u64 {
        let booked = self.stats.sum(|worker| &worker.changes);
        booked + self.rooms.totals.dirty.load(Ordering::Relaxed)
    }

    /// Keys of this node.
    pub fn key_count(&self) -> u64 {
        self.rooms.totals.keys.load(Ordering::Relaxed).max(0) as u64
    }
}

/// Connected clients by id.
#[derive(Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// The next client id.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a client.
    pub fn add(&self, client: Arc<ClientShared>) {
        self.by_id.lock().insert(client.id, client);
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// None connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One client.
    pub fn find(&self, id: u64) -> Option<Arc<ClientShared>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// All, by rising id.
    pub fn all(&self) -> Vec<Arc<ClientShared>> {
        self.by_id.lock().values().cloned().collect()
    }
}

const PAUSE_NONE: u8 = 0;
const PAUSE_WRITES: u8 = 1;
const PAUSE_ALL: u8 = 2;

/// CLIENT PAUSE: which commands wait, and until when.
#[derive(Default)]
pub struct Pause {
    mode: AtomicU8,
    until_ns: AtomicU64,
    /// Beginning and ending exclude each other; asking takes no lock.
    changing: Mutex<()>,
}

impl Pause {
    /// Is any pause in force?
    #[inline]
    pub fn is_active(&self) -> bool {
        self.mode.load(Ordering::SeqCst) != PAUSE_NONE
    }

    /// Does the pause hold this command back?
    pub fn holds(&self, command: &Command) -> bool {
        match self.mode.load(Ordering::SeqCst) {
            PAUSE_NONE => false,
            PAUSE_WRITES => command.writes() || command.flags & flag::MAY_REPLICATE != 0,
            _ => command.flags & flag::NO_PAUSE == 0,
        }
    }

    /// End of the pause, monotonic ns.
    pub fn until_ns(&self) -> u64 {
        self.until_ns.load(Ordering::SeqCst)
    }

    /// Is everything paused, or only writes?
    pub fn is_all(&self) -> bool {
        self.mode.load(Ordering::SeqCst) == PAUSE_ALL
    }

    /// Begins or changes a pause. A pause of all is not weakened by one of writes, and an
    /// earlier end does not shorten a later one (Redis).
    fn begin(&self, all: bool, until_ns: u64, hold_expiry: &HoldExpiry) {
        let _one_at_a_time = self.changing.lock();
        hold_expiry.set(HoldExpiry::PAUSED, true);
        let mode = if all { PAUSE_ALL } else { PAUSE_WRITES };
        self.until_ns.fetch_max(until_ns, Ordering::SeqCst);
        self.mode.fetch_max(mode, Ordering::SeqCst);
    }

    /// Ends it if its time is up by `now_ns`; asked under the lock, so that a pause which begins
    /// meanwhile is not taken for the one that was over. False if it goes on.
    fn end(&self, now_ns: u64, hold_expiry: &HoldExpiry) -> bool {
        let _one_at_a_time = self.changing.lock();
        if self.until_ns.load(Ordering::SeqCst) > now_ns {
            return false;
        }
        self.mode.store(PAUSE_NONE, Ordering::SeqCst);
        self.until_ns.store(0, Ordering::SeqCst);
        hold_expiry.set(HoldExpiry::PAUSED, false);
        true
    }
}
