//! The rooms: 16,384 locked boxes, and the one door to each.
//!
//! A room's lock is one `parking_lot::Mutex`. A caller that finds it taken does not park its
//! worker thread: it spins briefly and is told `Busy`, and its session waits asynchronously
//! (DESIGN 3). Long commands that run where blocking is allowed may wait at the lock itself.
//! Never two rooms' locks at once, never a lock across an await.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use slots::{Epoch, OpIndex, SLOTS, SlotId};

use crate::slot::admission::{Ownership, Refused};
use crate::slot::change::meet_change;
use crate::slot::door::Door;
use crate::slot::journal::{EncodeOp, Journal, Recorder};
use crate::slot::kept::Kept;
use crate::slot::keys::Keys;
use crate::slot::owned::Owned;
use crate::slot::stages::Stages;
use crate::slot::tap::Taps;
use crate::slot::waiters::{Hall, Ticket, Waiting, Watch};
use crate::store::limits::Limits;
use crate::store::object::Object;
use crate::store::table::{KeyHash, TableHint};

/// Tries before a busy room is reported: some 2 us, more than a short command's lock hold.
const SPINS: u32 = 200;

/// Longest wait for another room from inside a lock hold (EXEC with SCAN or KEYS in it), ms.
/// It must be bounded: two transactions may want each other's rooms.
const NESTED_WAIT_MS: u64 = 100;

/// How long a caller is willing to wait at a room's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Spin briefly, then say `Busy`: on a worker thread that others need.
    Spin,
    /// Wait as long as it takes: where blocking is allowed.
    Block,
    /// Wait a bounded while: another room is held by this caller.
    Nested,
}

/// One locked box: two cache lines, fetched together. 16,384 of them are 2 MB.
#[repr(C, align(128))]
pub(crate) struct Room {
    /// Where the key table's first line lies, for prefetching without the lock.
    hint: AtomicUsize,
    pub(crate) door: Door<Body>,
}

const _: () = assert!(size_of::<Room>() == 128, "a room is two cache lines");

/// What the lock guards.
#[repr(C)]
pub(crate) struct Body {
    pub(crate) keys: Keys,
    /// Index of the last op group (INV-4).
    pub(crate) index: OpIndex,
    /// Epoch of the content: an owner at an epoch it did not see begin has been away.
    pub(crate) epoch: Epoch,
    /// No key expires before this, unix ms. `u64::MAX` = no key has an expiry.
    pub(crate) next_expiry_ms: u64,
    /// Where the last group lies in its lane (`Position::at`); 0 = none was journaled.
    pub(crate) journaled: u64,
    /// Bytes that boxed values own, kept by apply.
    pub(crate) boxed_bytes: usize,
    pub(crate) hall: Option<Box<Hall>>,
}

impl Body {
    /// Bytes of keys and values; outside a hold, what the node's total has of this slot.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.keys.table.bytes() + self.boxed_bytes
    }
}

/// Told when keys become due for expiry, or big values are to be freed elsewhere.
pub trait Chores: Send + Sync {
    /// A key of `slot` expires at `at_ms`, earlier than anything the slot had before.
    fn expiry_due(&self, slot: SlotId, at_ms: u64);
    /// A value too big to free under a lock or on a worker.
    fn free(&self, object: Box<Object>);
    /// A whole slot's table.
    fn free_table(&self, table: crate::store::table::Table<Object>);
}

/// Node-wide sums over rooms, kept by `Owned`.
#[derive(Debug, Default)]
pub struct Totals {
    /// Keys in all rooms of this node.
    pub keys: AtomicI64,
    /// Keys with an expiry.
    pub expiring: AtomicI64,
    /// Bytes of keys and values in all rooms.
    pub bytes: AtomicI64,
    /// Keys that expired.
    pub expired: AtomicU64,
    /// Op groups applied.
    pub op_groups: AtomicU64,
    /// Changes by commands that no worker counted (`WorkerStats::changes` has the others).
    pub dirty: AtomicU64,
    /// Expired keys stay: hidden, not deleted.
    pub hold_expiry: HoldExpiry,
}

/// Why expired keys are not deleted for now; each reason comes and goes by itself.
#[derive(Debug, Default)]
pub struct HoldExpiry(AtomicU8);

impl HoldExpiry {
    /// CLIENT PAUSE: a delete is a write.
    pub const PAUSED: u8 = 1;
    /// The log has no room for it.
    pub const LOG_FULL: u8 = 2;

    /// The reason holds from now on, or no more.
    pub fn set(&self, reason: u8, holds: bool) {
        match holds {
            true => self.0.fetch_or(reason, Ordering::SeqCst),
            false => self.0.fetch_and(!reason, Ordering::SeqCst),
        };
    }

    /// Does any reason hold?
    pub fn holds(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// The result of knocking at a room's door.
pub enum Admit<'a> {
    /// In: the lock is held and the slot is this node's.
    Served(Owned<'a>),
    /// The slot is not served here.
    Refused(Refused),
    /// Somebody else is in for longer than a spin; come again.
    Busy,
}

/// All rooms of a node.
pub struct Rooms {
    rooms: Box<[Room]>,
    /// Sums over rooms.
    pub totals: Totals,
    /// Belongs to no slot and is always empty: see `nowhere`.
    nowhere: Room,
    /// The last place in line that was given to a blocked client, in any room.
    tickets: AtomicU64,
    /// Collection limits, replaced as a whole by CONFIG SET.
    limits: Mutex<Arc<Limits>>,
    chores: Box<dyn Chores>,
    /// Slots whose note nobody may have met yet.
    pub(super) unmet: Mutex<Vec<SlotId>>,
    recorder: OnceLock<Recorder>,
    /// By slot: the table version since which its content may be of this life. Beside the rooms,
    /// which have no place left: only changes look here.
    pub(super) since: Box<[AtomicU64]>,
    /// Op groups go to the recorder.
    is_recording: AtomicBool,
    pub(super) taps: Arc<Taps>,
    /// Slots on their way in.
    pub(super) stages: Stages,
    pub(super) kept: Kept,
    /// By slot: the table version of its newest Alone mark; 0: none.
    pub(super) alone: Box<[AtomicU64]>,
}

impl Rooms {
    /// Empty rooms that refuse everything until a table is installed.
    pub fn new(chores: Box<dyn Chores>) -> Rooms {
        let rooms = (0..SLOTS).map(|_| Room::empty()).collect();
        let nowhere = Room::empty();
        nowhere.door.install(Ownership::Owned, Epoch(0), meet_change);
        Rooms {
            rooms,
            totals: Totals::default(),
            nowhere,
            tickets: AtomicU64::new(0),
            limits: Mutex::new(Arc::new(Limits::default())),
            chores,
            unmet: Mutex::default(),
            recorder: OnceLock::new(),
            since: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            is_recording: AtomicBool::new(false),
            taps: Arc::default(),
            stages: Stages::default(),
            kept: Kept::default(),
            alone: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// From now on every op group goes to `journal`, encoded by `encode`. Once. What was changed
    /// before, and what is changed by holds that began before (`pass_all` waits for them), is in no
    /// stream.
    pub fn set_journal(&self, journal: Arc<dyn Journal>, encode: EncodeOp) {
        let was_set = self.recorder.set(Recorder { journal, encode }).is_err();
        assert!(!was_set, "the journal is set once");
        self.is_recording.store(true, Ordering::SeqCst);
    }

    /// From now on no op group goes anywhere: the stream ends here, for good.
    pub fn stop_journal(&self) {
        self.is_recording.store(false, Ordering::SeqCst);
    }

    /// The journal, if there is one: a load and a predictable branch.
    #[inline]
    pub(super) fn recorder(&self) -> Option<&Recorder> {
        match self.is_recording.load(Ordering::Relaxed) {
            true => self.recorder.get(),
            false => None,
        }
    }

    pub(crate) fn room(&self, slot: SlotId) -> &Room {
        &self.rooms[slot.index()]
    }

    pub(crate) fn chores(&self) -> &dyn Chores {
        &*self.chores
    }

    /// The collection limits in force.
    pub fn limits(&self) -> Arc<Limits> {
        self.limits.lock().clone()
    }

    /// Replaces the collection limits; values converted before keep their form.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.lock() = Arc::new(limits);
    }

    /// Knocks: the only door to a slot's keys. Refusals, in order: not ours (`Refused`), held by
    /// somebody (`Busy`). Ownership is checked under the lock, so the answer holds for the hold.
    #[inline]
    pub fn admit(&self, slot: SlotId, now_ms: u64, patience: Patience) -> Admit<'_> {
        let room = self.room(slot);
        let Some(mut body) = room.enter(patience) else { return Admit::Busy };
        if room.door.has_note() {
            self.meet_first(slot, room, &mut body);
        }
        match room.door.check(&body) {
            Ok(epoch) => Admit::Served(Owned::new(self, room, slot, body, epoch, now_ms)),
            Err(refused) => Admit::Refused(refused),
        }
    }

    /// A change came while somebody was inside who had looked for a note already: what it says of
    /// the keys comes before any command.
    #[cold]
    fn meet_first(&self, slot: SlotId, room: &Room, body: &mut Body) {
        room.door.leave(body, |body, o, epoch| self.meet(slot, room, body, (o, epoch)));
    }

    /// An empty room that is no slot's, for a command whose words name no valid number of keys:
    /// the command answers with its own error before it looks for a key.
    #[cold]
    pub fn nowhere(&self, now_ms: u64) -> Owned<'_> {
        let room = &self.nowhere;
        Owned::new(self, room, SlotId::FIRST, room.door.enter(), Epoch(0), now_ms)
    }

    pub(crate) fn take_ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Takes a blocked client out of line, whoever owns the slot by now. False if the room is
    /// busy and `patience` ran out.
    pub fn leave_line(&self, slot: SlotId, waiter: &dyn Waiting, patience: Patience) -> bool {
        let room = self.room(slot);
        let Some(mut body) = room.enter(patience) else { return false };
        if let Some(hall) = body.hall.as_mut() {
            hall.unblock(waiter);
            if hall.is_empty() {
                body.hall = None;
            }
        }
        true
    }

    /// Ends a watch, whoever owns the slot by now. False if the room is busy and `patience` ran
    /// out.
    pub fn unwatch(&self, slot: SlotId, key: &[u8], watch: &Watch, patience: Patience) -> bool {
        let Some(mut body) = self.room(slot).enter(patience) else { return false };
        if let Some(hall) = body.hall.as_mut() {
            hall.unwatch(key, watch);
            if hall.is_empty() {
                body.hall = None;
            }
        }
        true
    }

    /// Does anybody wait in the room, or watch a key of it?
    #[cfg(test)]
    pub(crate) fn has_people(&self, slot: SlotId) -> bool {
        self.room(slot).door.enter().hall.is_some()
    }

    /// Stage 1 of a batch: the room's line is on its way.
    #[inline]
    pub fn prefetch_room(&self, slot: SlotId) {
        crate::store::table::prefetch_two_lines(self.room(slot));
    }

    /// Stage 2: the bucket's (or directory's) line. Address arithmetic only, no lock.
    #[inline]
    pub fn prefetch_bucket(&self, slot: SlotId, hash: KeyHash) {
        let raw = self.room(slot).hint.load(Ordering::Relaxed);
        TableHint::from_raw(raw).prefetch(hash);
    }

    /// Stage 3: the entry's line. Takes the lock for the look into the bucket; skips if taken.
    #[inline]
    pub fn prefetch_entry(&self, slot: SlotId, hash: KeyHash) {
        if let Some(body) = self.room(slot).door.try_enter() {
            body.keys.table.prefetch_entry(hash);
        }
    }

    /// Has the slot no keys, by a look from outside? A key whose command was answered before the
    /// call is seen; keys that come and go during it may or may not be.
    pub fn looks_empty(&self, slot: SlotId) -> bool {
        self.room(slot).hint.load(Ordering::Relaxed) == 0
    }

    /// Goes into every room once: whoever was in one when a change was installed is out then.
    /// Waits for them.
    pub fn pass_all(&self) {
        self.rooms.iter().for_each(|room| drop(room.door.enter()));
    }

    /// The relation and epoch of a slot as installed.
    pub fn ownership(&self, slot: SlotId) -> (Ownership, Epoch) {
        self.room(slot).door.installed()
    }

    /// Keys that clients are blocked on, over all rooms (INFO's total_blocking_keys). Busy
    /// rooms are waited for: call it where blocking is allowed.
    pub fn blocking_keys(&self) -> usize {
        self.rooms
            .iter()
            .map(|r| r.door.enter().hall.as_ref().map_or(0, |h| h.blocking_keys()))
            .sum()
    }
}

impl Room {
    pub(super) fn empty() -> Room {
        Room {
            hint: AtomicUsize::new(0),
            door: Door::new(Body {
                keys: Keys::new(),
                index: OpIndex(0),
                epoch: Epoch(0),
                next_expiry_ms: u64::MAX,
                journaled: 0,
                boxed_bytes: 0,
                hall: None,
            }),
        }
    }

    #[inline]
    fn enter(&self, patience: Patience) -> Option<MutexGuard<'_, Body>> {
        if let Some(body) = self.door.try_enter() {
            return Some(body);
        }
        self.enter_slowly(patience)
    }

    #[cold]
    fn enter_slowly(&self, patience: Patience) -> Option<MutexGuard<'_, Body>> {
        match patience {
            Patience::Spin => {
                for _ in 0..SPINS {
                    std::hint::spin_loop();
                    if let Some(body) = self.door.try_enter() {
                        return Some(body);
                    }
                }
                None
            }
            Patience::Block => Some(self.door.enter()),
            Patience::Nested => {
                self.door.lock().try_lock_for(Duration::from_millis(NESTED_WAIT_MS))
            }
        }
    }

    /// Publishes where the key table begins after it grew, shrank or came to be.
    #[inline]
    pub(crate) fn publish_hint(&self, body: &Body) {
        let raw = body.keys.table.hint().to_raw();
        if self.hint.load(Ordering::Relaxed) != raw {
            self.hint.store(raw, Ordering::Relaxed);
        }
    }
}
