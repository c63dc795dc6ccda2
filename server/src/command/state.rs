//! The node as commands see it: rooms, table, options, clients, counters. Wired by `node`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use slots::{NodeId, SlotId, SlotTable};

use crate::command::client::{Client, ClientShared, client_flag};
use crate::command::cx::{Edges, Now};
use crate::command::mailbox::letter;
use crate::command::stats::Stats;
use crate::command::{Args, Command, CommandError, CommandId, registry};
use crate::config::Config;
use crate::config::live::EndpointType;
use crate::control::TableLog;
use crate::session::Worker;
use crate::slot::{Admit, Op, Ownership, Patience, Refused, Rooms};
use slots::OpIndex;

/// Longest argument and most arguments kept by the slow log, as Redis.
const SLOW_ARG_BYTES: usize = 128;
const SLOW_ARGS: usize = 32;

/// The table this node goes by, and who it is in it.
#[derive(Clone)]
pub struct Topology {
    /// The table as of the last applied change.
    pub table: Arc<SlotTable>,
    /// This node.
    pub me: NodeId,
}

/// Everything a node is made of, as far as commands go.
pub struct NodeState {
    /// Options.
    pub config: Arc<Config>,
    /// The keys.
    pub rooms: Rooms,
    topology: RwLock<Topology>,
    /// Connected clients.
    pub clients: Clients,
    /// Counters.
    pub stats: Stats,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// SLOWLOG.
    pub slow_log: SlowLog,
    /// The outside world.
    pub edges: Box<dyn Edges>,
    /// Where table changes are proposed.
    pub table_log: Box<dyn TableLog>,
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
    /// Path of the configuration file, if one was given.
    pub config_file: Option<String>,
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
        run_id: String,
        config_file: Option<String>,
    ) -> NodeState {
        let started = edges.now();
        let node = NodeState {
            config,
            rooms,
            topology: RwLock::new(topology.clone()),
            clients: Clients::default(),
            stats: Stats::default(),
            pause: Pause::default(),
            slow_log: SlowLog::default(),
            edges,
            table_log,
            run_id,
            started,
            over_maxmemory: AtomicBool::new(false),
            peak_memory: AtomicU64::new(0),
            active_expire: AtomicBool::new(true),
            config_file,
        };
        node.install(topology.table);
        node
    }

    /// The table in force and this node's id in it.
    pub fn topology(&self) -> Topology {
        self.topology.read().clone()
    }

    /// Installs a newer table: the answers of CLUSTER first, then the admission words, so that
    /// no MOVED names what CLUSTER SLOTS does not say yet. Never waits for a room.
    pub fn install(&self, table: Arc<SlotTable>) {
        let me = {
            let mut topology = self.topology.write();
            topology.table = table.clone();
            topology.me
        };
        for slot in SlotId::all() {
            let row = table.slot(slot);
            let ownership = match row.owner() {
                None => Ownership::Unassigned,
                Some(owner) if owner == me => Ownership::Owned,
                Some(_) => Ownership::Foreign,
            };
            let installed = (ownership, row.epoch());
            if self.rooms.ownership(slot) != installed {
                self.rooms.install(slot, ownership, row.epoch());
            }
        }
    }

    /// The error text of a refusal.
    #[cold]
    pub fn refusal(&self, slot: SlotId, refused: Refused) -> CommandError {
        match refused {
            Refused::Moved => self.moved(slot),
            Refused::Unserved => CommandError::Static(slots::redirect::CLUSTERDOWN_UNBOUND),
            Refused::Parked => CommandError::Static("TRYAGAIN the slot is being handed over"),
            Refused::NoTable => CommandError::Static(slots::redirect::CLUSTERDOWN),
        }
    }

    fn moved(&self, slot: SlotId) -> CommandError {
        self.stats.moved.fetch_add(1, Ordering::Relaxed);
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
    pub fn check_served(&self, slot: SlotId) -> Result<(), CommandError> {
        let refused = match self.rooms.ownership(slot).0 {
            Ownership::Owned | Ownership::Sealed => return Ok(()),
            Ownership::Foreign => Refused::Moved,
            Ownership::Unassigned => Refused::Unserved,
            Ownership::Unknown => Refused::NoTable,
        };
        Err(self.refusal(slot, refused))
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

    /// Is each call of this command timed on its own? Constant-time commands are not, unless
    /// the slow log wants them.
    #[inline]
    pub fn is_timed(&self, id: CommandId) -> bool {
        /// A constant-time command is never slower than this, us: no need to look.
        const LOOK_BELOW_US: i64 = 1000;
        let threshold = self.config.live().slowlog_log_slower_than_us.load();
        registry().is_timed(id) || (0..LOOK_BELOW_US).contains(&threshold)
    }

    /// Books an op group for the gate: what reply depends on which index. Nothing is promised
    /// by one copy in memory, so nothing is booked (DESIGN 3, Gate).
    #[inline]
    pub fn note_promise(&self, worker: &mut Worker, slot: SlotId, index: Option<OpIndex>) {
        let _ = (worker, slot, index);
    }

    /// Empties every slot of this node, one op group a slot, but the one that a transaction has
    /// emptied already (and may have filled again). May wait for rooms.
    pub fn flush_all(&self, now: Now, done: Option<SlotId>) {
        for slot in SlotId::all().filter(|slot| Some(*slot) != done) {
            if !self.rooms.looks_empty(slot)
                && let Admit::Served(mut owned) =
                    self.rooms.admit(slot, now.unix_ms, Patience::Block)
                && !owned.keys().is_empty()
            {
                owned.apply(Op::Flush);
            }
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
            PAUSE_WRITES => command.writes(),
            _ => command.flags & crate::command::flag::NO_PAUSE == 0,
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
    pub fn begin(&self, all: bool, until_ns: u64) {
        let mode = if all { PAUSE_ALL } else { PAUSE_WRITES };
        self.mode.fetch_max(mode, Ordering::SeqCst);
        self.until_ns.fetch_max(until_ns, Ordering::SeqCst);
    }

    /// Ends the pause and wakes those it held.
    pub fn end(&self, clients: &Clients) {
        self.mode.store(PAUSE_NONE, Ordering::SeqCst);
        self.until_ns.store(0, Ordering::SeqCst);
        for client in clients.all() {
            if client.has_flag(client_flag::PAUSED) {
                client.mailbox.post(letter::UNPAUSED);
            }
        }
    }

    /// Ends it if its time is up. The node's ticker calls it.
    pub fn tick(&self, now: Now, clients: &Clients) {
        if self.is_active() && now.mono_ns >= self.until_ns() {
            self.end(clients);
        }
    }
}

/// An entry of the slow log.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    /// Rising by one, never reused.
    pub id: u64,
    /// Unix seconds.
    pub at_s: u64,
    /// Duration, us.
    pub micros: u64,
    /// Words, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address and name.
    pub client: (String, Vec<u8>),
}

impl SlowCommand {
    /// An entry for a command that took `nanos`.
    pub fn new(
        id: CommandId,
        args: &Args<'_>,
        nanos: u64,
        now: Now,
        client: &Client,
    ) -> SlowCommand {
        let _ = id;
        let shown = if args.len() > SLOW_ARGS { SLOW_ARGS - 1 } else { args.len() };
        let mut words: Vec<Vec<u8>> = args.from(0).take(shown).map(shorten).collect();
        if shown < args.len() {
            let more = args.len() - shown;
            words.push(format!("... ({more} more arguments)").into_bytes());
        }
        SlowCommand {
            id: 0,
            at_s: now.unix_ms / 1000,
            micros: nanos / 1000,
            args: words,
            client: (client.shared.addr.clone(), client.shared.names().name),
        }
    }
}

fn shorten(word: &[u8]) -> Vec<u8> {
    if word.len() <= SLOW_ARG_BYTES {
        return word.to_vec();
    }
    let mut short = word[..SLOW_ARG_BYTES].to_vec();
    short.extend_from_slice(format!("... ({} more bytes)", word.len() - SLOW_ARG_BYTES).as_bytes());
    short
}

/// The slow log, newest first.
#[derive(Default)]
pub struct SlowLog {
    entries: Mutex<VecDeque<SlowCommand>>,
    next_id: AtomicU64,
    max_len: AtomicU64,
}

impl SlowLog {
    /// Does a command of this duration belong in?
    #[inline]
    pub fn is_slow(&self, nanos: u64, node: &NodeState) -> bool {
        let threshold = node.config.live().slowlog_log_slower_than_us.load();
        if threshold < 0 || nanos / 1000 < threshold as u64 {
            return false;
        }
        self.max_len.store(node.config.live().slowlog_max_len.load(), Ordering::Relaxed);
        true
    }

    /// Adds an entry and drops the oldest beyond the limit.
    pub fn add(&self, mut entry: SlowCommand) {
        let max = self.max_len.load(Ordering::Relaxed) as usize;
        entry.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.entries.lock();
        entries.push_front(entry);
        entries.truncate(max);
    }

    /// The newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<SlowCommand> {
        self.entries.lock().iter().take(count).cloned().collect()
    }

    /// Entries kept.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Nothing was slow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SLOWLOG RESET.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}
