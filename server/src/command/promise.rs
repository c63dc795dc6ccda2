//! What this node promises of a reply beyond its own memory, and how far it has got.
//!
//! Nothing without a log: no tags, and the gate costs two loads a request. With `appendfsync
//! always` a reply waits until its op is synced; else only while its record still waits in memory
//! for a place in the log, which a killed process would lose. Where other nodes count (a move,
//! followers) it waits for them, too (`counted`).
//! `DEBUG SLOW-WATERMARK ms` is a test's log that syncs slowly.
//! Invariant: who is told `covers` no is woken when the answer may have changed.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use slots::{OpIndex, SlotId};

use crate::command::client::{ClientShared, client_flag};
use crate::command::counted::Counted;
use crate::command::mailbox::letter;
use crate::gate::{Safety, Tag, Watermarks};
use crate::slot::{Owned, Position, Reading};

/// How far a log has got. Asked at every gated batch: no lock on the usual way.
pub trait LogMarks: Send + Sync {
    /// Does any record wait in memory? Hardly ever true; a load.
    fn has_waiting(&self) -> bool;
    /// Is there no room for more? A load.
    fn is_full(&self) -> bool;
    /// Does what ends here survive the process?
    fn is_written(&self, at: Position) -> bool;
    /// Does what ends here survive the machine?
    fn is_synced(&self, at: Position) -> bool;
    /// The round of syncs with whose end all that is appended now is safe.
    fn round_for_now(&self) -> u64;
    /// Rounds that have ended.
    fn rounds_done(&self) -> u64;
    /// As many clients came since the last progress as are expected: none is to be waited for.
    fn all_are_back(&self);
    /// Why there is no room.
    fn full_reason(&self) -> String;
}

/// What a reply may depend on: the newest op group of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The slot.
    pub slot: SlotId,
    /// The group's index; 0: there was never one.
    pub index: OpIndex,
    /// Where it lies in the log; `None`: in none, or in what was there at the start.
    pub position: Option<Position>,
}

impl Seen {
    /// The newest group of a slot that is held; to be taken after `end_group`.
    pub fn of(owned: &Owned<'_>) -> Seen {
        Seen { slot: owned.slot(), index: owned.index(), position: owned.position() }
    }

    /// The same of a slot that is being read.
    pub fn read(reading: &Reading<'_>) -> Seen {
        Seen { slot: reading.slot(), index: reading.index(), position: reading.position() }
    }
}

/// Which question a tag asks, as the gate's set of members.
mod set {
    /// Synced in the own log.
    pub const SYNCED: u32 = 0;
    /// Written to the own log.
    pub const WRITTEN: u32 = 1;
    /// The log's round of that number has ended; the lane says nothing.
    pub const ROUND: u32 = 2;
    /// Of a test's watermarks.
    pub const HOOK: u32 = 3;
    /// Every slot that other nodes count for is safe as of a ticket, and so is the own log.
    pub const TICKET: u32 = 4;
    /// Those who count have the slot (the lane) up to the index (the position); above these bits
    /// stands the life of the slot.
    pub const COUNTED: u32 = 5;
    /// Bits of the number without a life.
    pub const BITS: u32 = 8;
}

/// Bits of `Promises::mode`.
const SYNCED: u8 = 1;
const HOOKED: u8 = 2;
const COUNTED: u8 = 4;

/// The node's promises.
#[derive(Default)]
pub struct Promises {
    mode: AtomicU8,
    log: OnceLock<Arc<dyn LogMarks>>,
    /// Clients that hold replies back, or wait for a sync: each once, as its flag says.
    waiting: Mutex<Vec<Arc<ClientShared>>>,
    /// How many came since the last progress.
    here: AtomicUsize,
    /// How many are expected back, see `crowd`.
    expected: AtomicUsize,
    counted: Counted,
    hook: Hook,
}

/// A test's watermarks.
#[derive(Default)]
struct Hook {
    /// Raised this long after it is noted; 0 = only by hand.
    delay_ns: AtomicU64,
    marks: Mutex<Watermarks>,
    /// Tags noted under a delay, with the time they become safe.
    due: Mutex<Vec<(u64, Tag)>>,
    has_due: AtomicBool,
}

impl Promises {
    /// May a reply have to wait? Two loads.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != 0 || self.has_waiting()
    }

    #[inline]
    fn has_waiting(&self) -> bool {
        self.log.get().is_some_and(|log| log.has_waiting())
    }

    /// Names the log that replies depend on. Once, before anything is served from it.
    pub fn set_log(&self, log: Arc<dyn LogMarks>) {
        let was_set = self.log.set(log).is_err();
        assert!(!was_set, "the log is named once");
    }

    /// Do replies wait for a sync from now on? Those that wait already go on waiting.
    pub fn wait_for_syncs(&self, wait: bool) {
        match wait {
            true => self.mode.fetch_or(SYNCED, Ordering::SeqCst),
            false => self.mode.fetch_and(!SYNCED, Ordering::SeqCst),
        };
    }

    /// Do they?
    #[inline]
    pub fn waits_for_syncs(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & SYNCED != 0
    }

    /// Must writes be refused, because the log has no room? Two loads.
    #[inline]
    pub fn is_log_full(&self) -> bool {
        self.log.get().is_some_and(|log| log.is_full())
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Arc<dyn LogMarks>> {
        self.log.get()
    }

    /// What a reply that saw this waits for; `None`: nothing, it may leave.
    pub fn tag_of(&self, seen: Seen) -> Option<Tag> {
        let mode = self.mode.load(Ordering::SeqCst);
        if mode & HOOKED != 0 {
            // Index 0: the slot never had an op, so there is none that could be lost.
            return (seen.index != OpIndex(0)).then(|| Promises::tag(seen.slot, seen.index));
        }
        if mode & COUNTED != 0
            && let Some(life) = self.counted.waits(seen.slot, seen.index)
        {
            let (lane, position) = (seen.slot.number(), seen.index.0);
            return Some(Tag { lane, position, set: set::COUNTED | life << set::BITS });
        }
        let (position, log) = (seen.position?, self.log.get()?);
        let set = match mode & SYNCED {
            0 if log.is_written(position) => return None,
            0 => set::WRITTEN,
            _ if log.is_synced(position) => return None,
            _ => set::SYNCED,
        };
        Some(Tag { lane: position.lane, position: position.at, set })
    }

    /// What a reply waits for that may depend on any slot; `None`: nothing.
    pub fn tag_of_all(&self) -> Option<Tag> {
        if let Some(position) = self.counted.ticket() {
            return Some(Tag { lane: 0, position, set: set::TICKET });
        }
        let log = self.log.get().filter(|_| self.waits_for_syncs())?;
        let position = log.round_for_now();
        let is_done = log.rounds_done() >= position;
        (!is_done).then_some(Tag { lane: 0, position, set: set::ROUND })
    }

    /// The client is woken (`letter::GATE`, `letter::SYNCED`) by the next `progressed`. To be
    /// called before it asks how far things are: whoever gets further later finds it.
    pub fn wake_later(&self, client: &Arc<ClientShared>) {
        let mut waiting = self.waiting.lock();
        if !client.has_flag(client_flag::GATED) {
            client.set_flag(client_flag::GATED, true);
            waiting.push(client.clone());
            let here = self.here.fetch_add(1, Ordering::SeqCst) + 1;
            drop(waiting);
            if here == self.expected.load(Ordering::SeqCst)
                && let Some(log) = self.log.get()
            {
                log.all_are_back();
            }
        }
    }

    /// More is safe than before: those who wait are woken soon (`progressed`), and back soon, with
    /// their next write or because it was not they who were waited for.
    pub fn note_progress(&self) {
        let waiting = self.waiting.lock();
        // Not the last number alone: after many there may be a few who came too late for them.
        let before = self.expected.load(Ordering::SeqCst);
        self.expected.store(waiting.len().max(before - before.div_ceil(4)), Ordering::SeqCst);
        self.here.store(0, Ordering::SeqCst);
    }

    /// How many clients came to wait since the last progress, and how many are expected.
    pub fn crowd(&self) -> (usize, usize) {
        (self.here.load(Ordering::SeqCst), self.expected.load(Ordering::SeqCst))
    }

    /// More is safe than before: wakes all who wait, who look for themselves.
    pub fn progressed(&self) {
        let woken = {
            let mut waiting = self.waiting.lock();
            waiting.iter().for_each(|client| client.set_flag(client_flag::GATED, false));
            std::mem::take(&mut *waiting)
        };
        woken.iter().for_each(|client| client.mailbox.post(letter::GATE | letter::SYNCED));
    }
}

/// Other nodes that count.
impl Promises {
    /// How far each slot is safe by them. Whoever gets further calls `progressed`.
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// Replies of the slot wait for other nodes from now on, but for what is up to `safe`.
    pub fn count(&self, slot: SlotId, safe: OpIndex) {
        self.counted.count(slot, safe);
        self.mode.fetch_or(COUNTED, Ordering::SeqCst);
    }

    /// If no slot is counted any more: back to what replies cost without.
    pub fn settle_counted(&self) {
        if self.counted.is_idle() {
            self.mode.fetch_and(!COUNTED, Ordering::SeqCst);
            if !self.counted.is_idle() {
                self.mode.fetch_or(COUNTED, Ordering::SeqCst);
            }
        }
    }

    /// Has any slot ever been counted? Until then no tag can be lost.
    pub fn may_lose(&self) -> bool {
        self.counted.was_used()
    }

    /// Will it never be known whether what a tag waits for is safe?
    pub fn is_lost(&self, tag: Tag) -> bool {
        match counted_of(tag) {
            Some((slot, life)) => self.counted.is_lost(slot, life),
            None => tag.set == set::TICKET && self.counted.is_given_up(tag.position),
        }
    }
}

/// The slot and life of a tag that waits for other nodes.
fn counted_of(tag: Tag) -> Option<(SlotId, u32)> {
    let mask = (1 << set::BITS) - 1;
    let slot = if tag.set & mask == set::COUNTED { SlotId::new(tag.lane)? } else { return None };
    Some((slot, tag.set >> set::BITS))
}

impl Safety for Promises {
    fn covers(&self, tag: Tag) -> bool {
        if let Some((slot, life)) = counted_of(tag) {
            return self.counted.covers(slot, OpIndex(tag.position), life);
        }
        let at = Position { lane: tag.lane, at: tag.position };
        let log = self.log.get();
        match tag.set {
            set::TICKET => self.counted.is_answered(tag.position),
            set::SYNCED => log.is_some_and(|log| log.is_synced(at)),
            set::WRITTEN => log.is_some_and(|log| log.is_written(at)),
            set::ROUND => log.is_some_and(|log| log.rounds_done() >= tag.position),
            _ => self.hook.marks.lock().covers(tag),
        }
    }
}

/// The test hook.
impl Promises {
    /// From now on replies wait for `raise`, for good.
    pub fn activate(&self) {
        self.mode.fetch_or(HOOKED, Ordering::SeqCst);
    }

    /// From now on replies wait, and an op counts as safe `delay_ns` after it was noted.
    pub fn activate_slow(&self, delay_ns: u64) {
        self.hook.delay_ns.store(delay_ns, Ordering::SeqCst);
        self.activate();
    }

    /// The hook's tag of a reply that depends on everything in `slot` up to `index`.
    pub fn tag(slot: SlotId, index: OpIndex) -> Tag {
        Tag { lane: slot.number(), position: index.0, set: set::HOOK }
    }

    /// Notes a tag, so that a slow watermark reaches it in time.
    pub fn note(&self, tag: Tag, now_ns: u64) {
        let delay = self.hook.delay_ns.load(Ordering::Relaxed);
        if delay != 0 && tag.set == set::HOOK {
            self.hook.due.lock().push((now_ns.saturating_add(delay), tag));
            self.hook.has_due.store(true, Ordering::Release);
        }
    }

    /// Everything up to the hook's `tag` is safe.
    pub fn raise(&self, tag: Tag) {
        if self.hook.marks.lock().raise(tag) {
            self.progressed();
        }
    }

    /// Raises what a slow watermark has reached. The node's ticker calls it.
    pub fn tick(&self, now_ns: u64) {
        if !self.hook.has_due.load(Ordering::Acquire) {
            return;
        }
        let mut raised = false;
        self.hook.due.lock().retain(|(at, tag)| {
            let reached = *at <= now_ns;
            raised |= reached && self.hook.marks.lock().raise(*tag);
            !reached
        });
        if raised {
            self.progressed();
        }
    }
}
