//! The table this node goes by, and how a newer one is installed.
//!
//! Not the table's log (`control`), and not what an admission word means (`slot/admission`).
//!
//! Invariant: the answers of CLUSTER change before the admission words, so that no MOVED names
//! what CLUSTER SLOTS does not say yet; while the node has no seat every word is `Unknown`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use slots::{NodeId, OpIndex, SlotId, SlotRanges, SlotTable};

use crate::command::parking::Parking;
use crate::command::promise::Promises;
use crate::command::seals::Seals;
use crate::command::{Command, CommandError, NodeState};
use crate::control::fixed::TableSink;
use crate::control::ledger::{History, Ledger};
use crate::control::seat::Standing;
use crate::slot::{Bell, Ownership, Rooms, StageFate};

/// A node that begins says so long that it is loading: an election takes about a second, and
/// clients wait for a loading node. What takes longer has another cause.
pub const LOADING_LIMIT: Duration = Duration::from_secs(1);

const LOADING: &str = "LOADING the node has started and its cluster has not agreed to it yet";
const NO_QUORUM: &str = "CLUSTERDOWN no quorum: the start of this node cannot be agreed";
const REMOVED: &str = "CLUSTERDOWN this node was removed from the cluster";
const ENDED: &str = "CLUSTERDOWN this node ends: another start of it is in the table";

/// The table this node goes by, who it is in it, and whether it plays a role there.
#[derive(Clone)]
pub struct Topology {
    /// The table as of the last applied change.
    pub table: Arc<SlotTable>,
    /// This node.
    pub me: NodeId,
    /// Only a seated node serves slots and answers MOVED.
    pub standing: Standing,
}

impl Topology {
    /// A node's relation to a slot.
    fn ownership(&self, slot: SlotId) -> Ownership {
        match self.table.owner(slot) {
            _ if self.standing != Standing::Seated => Ownership::Unknown,
            None => Ownership::Unassigned,
            Some(owner) if owner == self.me => Ownership::Owned,
            Some(_) => Ownership::Foreign,
        }
    }
}

/// What of the node a table is installed into.
#[derive(Clone, Copy)]
struct Parts<'a> {
    rooms: &'a Rooms,
    seals: &'a Seals,
    promises: &'a Promises,
    parking: &'a Parking,
    now_ns: u64,
}

/// What is installed.
pub(super) struct Installed {
    current: RwLock<Topology>,
    /// Slots without an owner, counted on; locked while a version is installed, so that versions
    /// do not mix. `None`: nothing is installed yet.
    unassigned: Mutex<Option<usize>>,
    is_uncovered: AtomicBool,
    is_seated: AtomicBool,
    /// Since when the node stands as it does, monotonic ns.
    since_ns: AtomicU64,
    history: RwLock<Arc<dyn History>>,
    /// Rung after each change.
    bell: OnceLock<Bell>,
}

impl Installed {
    pub(super) fn new(topology: Topology) -> Installed {
        Installed {
            current: RwLock::new(topology),
            unassigned: Mutex::new(None),
            is_uncovered: AtomicBool::new(false),
            is_seated: AtomicBool::new(false),
            since_ns: AtomicU64::new(0),
            history: RwLock::new(Arc::new(Ledger::new())),
            bell: OnceLock::new(),
        }
    }

    #[inline]
    pub(super) fn is_uncovered(&self) -> bool {
        self.is_uncovered.load(Ordering::Relaxed)
    }

    fn change(&self, parts: Parts<'_>, change: impl FnOnce(&mut Topology)) {
        let mut unassigned = self.unassigned.lock();
        let (old, new) = {
            let mut current = self.current.write();
            let old = current.clone();
            change(&mut current);
            (old, current.clone())
        };
        let is_seated = new.standing == Standing::Seated;
        if unassigned.is_none() || old.standing != new.standing {
            self.since_ns.store(parts.now_ns, Ordering::SeqCst);
        }
        if !is_seated {
            self.is_seated.store(false, Ordering::SeqCst);
        }
        let was_seated = old.standing == Standing::Seated;
        let known = unassigned.filter(|_| old.me == new.me && was_seated == is_seated);
        let count = match known {
            None => {
                SlotId::all().for_each(|slot| install_row(parts, None, &new, slot));
                new.table.unassigned().count()
            }
            Some(count) => install_changed(parts, &old, &new, count),
        };
        *unassigned = Some(count);
        self.is_uncovered.store(count > 0, Ordering::Relaxed);
        self.is_seated.store(is_seated, Ordering::SeqCst);
    }
}

/// Installs the rows that changed; returns how many slots have no owner, given how many had none.
fn install_changed(parts: Parts<'_>, old: &Topology, new: &Topology, count: usize) -> usize {
    let changed: SlotRanges = new.table.changed_since(&old.table);
    changed.iter().fold(count, |count, slot| {
        install_row(parts, Some(old), new, slot);
        let unowned = |topology: &Topology| usize::from(topology.table.owner(slot).is_none());
        count + unowned(new) - unowned(old)
    })
}

fn install_row(parts: Parts<'_>, old: Option<&Topology>, new: &Topology, slot: SlotId) {
    let Parts { rooms, seals, promises, parking, .. } = parts;
    let row = new.table.slot(slot);
    let (epoch, since) = (row.epoch(), row.owner_since());
    let fate = fate(old, new, slot);
    let ownership = new.ownership(slot);
    if ownership == Ownership::Foreign {
        let was_mine = rooms.ownership(slot).0 == Ownership::Sealed;
        match fate {
            StageFate::Adopt if was_mine => parking.linger(slot, parts.now_ns),
            StageFate::Adopt => {}
            StageFate::Drop => parking.give_up(slot),
        }
    }
    if ownership == Ownership::Owned && row.in_sync_count() > 1 {
        // Before the word: nobody is answered without those who count. What came with the old
        // owner's word, that owner has.
        let handed = rooms.stage(slot).filter(|stage| stage.is_whole() && parking.expects(slot));
        promises.count(slot, handed.map_or(OpIndex(0), |stage| stage.place().1));
    }
    // A seal is this node's own doing: a table that says the same as before about the slot does
    // not break it, nor does a time without a seat.
    seals.judge(slot, epoch, |is_closed| {
        let ownership = match ownership {
            Ownership::Owned if is_closed => Ownership::Sealed,
            ownership => ownership,
        };
        if rooms.ownership(slot) != (ownership, epoch) {
            rooms.install_since(slot, ownership, epoch, since, fate);
        }
    });
}

/// What becomes of a copy of the slot that is here. One who is in sync keeps it as another's, and
/// goes by it as the owner; a slot that came from nobody, or by force, is empty (PROTOCOL 1).
fn fate(old: Option<&Topology>, new: &Topology, slot: SlotId) -> StageFate {
    let (row, me) = (new.table.slot(slot), new.me);
    let was_in_sync = old.is_some_and(|old| old.me == me && old.table.slot(slot).is_in_sync(me));
    let keeps = match row.owner() {
        Some(owner) if owner == me => {
            // Versions may have been skipped: an entry that gave it to this node alone leaves none.
            was_in_sync || row.in_sync_count() > 1 || row.last_removed().is_some()
        }
        Some(_) => row.is_in_sync(me),
        None => false,
    };
    if keeps { StageFate::Adopt } else { StageFate::Drop }
}

impl TableSink for NodeState {
    fn install(&self, table: Arc<SlotTable>) {
        NodeState::install(self, table);
    }
}

impl NodeState {
    /// The table in force, this node's id in it, and how the node stands to it.
    pub fn topology(&self) -> Topology {
        self.installed.current.read().clone()
    }

    /// Installs a newer table; the node stands to it as before. Never waits for a room.
    pub fn install(&self, table: Arc<SlotTable>) {
        self.change_topology(|topology| topology.table = table);
    }

    /// The node stands otherwise to the table that is installed.
    pub fn install_standing(&self, standing: Standing) {
        self.change_topology(|topology| topology.standing = standing);
    }

    /// Installs table, identity and standing at once: for a table that changes how the node
    /// stands to it. Never waits for a room.
    pub fn install_topology(&self, new: Topology) {
        self.change_topology(|topology| *topology = new);
    }

    pub(super) fn change_topology(&self, change: impl FnOnce(&mut Topology)) {
        let parts = Parts {
            rooms: &self.rooms,
            seals: &self.seals,
            promises: &self.promises,
            parking: &self.parking,
            now_ns: self.edges.now().mono_ns,
        };
        self.installed.change(parts, change);
        let table = self.installed.current.read().table.clone();
        let is_sealed = |slot| self.rooms.ownership(slot).0 == Ownership::Sealed;
        self.parking.settle(|slot| table.slot(slot).epoch(), is_sealed);
        self.installed.bell.get().inspect(|bell| bell());
    }

    /// Names who is told after each change of the table or of the node's standing to it. Once.
    pub fn on_table(&self, bell: Bell) {
        let was_set = self.installed.bell.set(bell).is_err();
        assert!(!was_set, "the one who is told is named once");
    }

    /// Does the node play the roles that the table gives it?
    #[inline]
    pub fn is_seated(&self) -> bool {
        self.installed.is_seated.load(Ordering::SeqCst)
    }

    /// Refuses what a node without a seat may not answer.
    #[inline]
    pub fn check_seat(&self, command: &Command) -> Result<(), CommandError> {
        match self.is_seated() || command.needs_no_seat() {
            true => Ok(()),
            false => Err(self.no_seat()),
        }
    }

    /// What a node without a seat answers to whatever needs keys: never MOVED.
    #[cold]
    pub fn no_seat(&self) -> CommandError {
        if let Some(text) = self.loading_text() {
            return CommandError::Text(text);
        }
        let since_ns = self.installed.since_ns.load(Ordering::SeqCst);
        let since_ns = since_ns.max(self.loading.ended_ns());
        let time = Duration::from_nanos(self.edges.now().mono_ns.saturating_sub(since_ns));
        let standing = self.installed.current.read().standing;
        CommandError::Static(match standing {
            Standing::Starting if time < LOADING_LIMIT => LOADING,
            Standing::Starting => NO_QUORUM,
            Standing::Removed => REMOVED,
            Standing::Ended(_) => ENDED,
            // Just being installed.
            Standing::Seated => slots::redirect::CLUSTERDOWN,
        })
    }

    /// Names where the table's history is read: a ledger as it stands, or a lock around the one
    /// that goes on.
    pub fn set_history(&self, history: Arc<dyn History>) {
        *self.installed.history.write() = history;
    }

    /// The table's history.
    pub fn history(&self) -> Arc<dyn History> {
        self.installed.history.read().clone()
    }
}
