//! Taps: whoever reads the stream of one slot gets its op groups here, log or no log.
//!
//! ```text
//!  Owned: end of a group --deliver--> buffer of each tap --drain--> its taker
//!                                       | beyond the limit: overrun, emptied, told at the drain
//! ```
//! Not a log: a tap holds what its taker has not drained, and nobody waits for the taker. The
//! encoder is handed in. A tap that is dropped takes itself out; the room, told by its next
//! group, forgets about it.
//! Invariant: from the hold in which a tap was put, every group reaches it, in order, each whole
//! and once, or the taker is told that it is overrun.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use slots::{Epoch, OpIndex, SlotId};

use crate::slot::journal::EncodeOp;

/// Bytes of groups that wait for the taker of one tap: a second of heavy writing to one slot.
pub const TAP_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Taps of one slot at once: a backup, a move, and every follower being filled.
pub const TAPS_PER_SLOT_MAX: usize = 8;

/// Bytes before each group in a buffer: epoch, index and length, 8 each.
const HEAD_BYTES: usize = 24;

/// The taps of all slots, and how their groups are encoded.
#[derive(Default)]
pub(super) struct Taps {
    by_slot: Mutex<HashMap<SlotId, Vec<Weak<Buffer>>>>,
    encode: OnceLock<EncodeOp>,
}

/// Called, under the room's lock, when a group comes to a taker for whom none waited: it must not
/// wait for anything.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// What waits for one taker.
struct Buffer {
    waiting: Mutex<Waiting>,
    bell: Option<Bell>,
}

#[derive(Default)]
struct Waiting {
    groups: Vec<u8>,
    is_overrun: bool,
}

/// A tap; it ends when dropped.
pub struct Tap {
    slot: SlotId,
    buffer: Arc<Buffer>,
    taps: Arc<Taps>,
}

/// More than `TAP_BYTES_MAX` waited: groups are missing, and the taker begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// An op group as it was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TappedGroup<'a> {
    /// The slot's epoch when it was made.
    pub epoch: Epoch,
    /// Its index.
    pub index: OpIndex,
    /// Its ops.
    pub bytes: &'a [u8],
}

/// Groups that were drained, in order.
#[derive(Debug, Default)]
pub struct TappedGroups {
    bytes: Vec<u8>,
    at: usize,
}

impl Taps {
    /// Puts a tap to a slot whose lock the caller holds; `None`: it has as many as may be.
    pub(super) fn put(
        self: &Arc<Self>,
        slot: SlotId,
        encode: EncodeOp,
        bell: Option<Bell>,
    ) -> Option<Tap> {
        self.encode.get_or_init(|| encode);
        let mut by_slot = self.by_slot.lock();
        let taps = by_slot.entry(slot).or_default();
        if taps.len() >= TAPS_PER_SLOT_MAX {
            return None;
        }
        let buffer = Arc::new(Buffer { waiting: Mutex::default(), bell });
        taps.push(Arc::downgrade(&buffer));
        Some(Tap { slot, buffer, taps: self.clone() })
    }

    /// The encoder; there is one from the first tap on.
    pub(super) fn encode(&self) -> Option<EncodeOp> {
        self.encode.get().copied()
    }

    /// Gives a group to every tap of the slot, whose lock the caller holds. False: there is none
    /// any more.
    pub(super) fn deliver(&self, slot: SlotId, group: TappedGroup<'_>) -> bool {
        let by_slot = self.by_slot.lock();
        let Some(taps) = by_slot.get(&slot) else { return false };
        taps.iter().filter_map(Weak::upgrade).for_each(|buffer| buffer.push(group));
        true
    }

    #[cfg(test)]
    pub(super) fn is_tapped(&self, slot: SlotId) -> bool {
        self.by_slot.lock().contains_key(&slot)
    }

    fn remove(&self, slot: SlotId, gone: &Arc<Buffer>) {
        let mut by_slot = self.by_slot.lock();
        let Some(taps) = by_slot.get_mut(&slot) else { return };
        taps.retain(|tap| tap.as_ptr() != Arc::as_ptr(gone));
        if taps.is_empty() {
            by_slot.remove(&slot);
        }
    }
}

impl Buffer {
    fn push(&self, group: TappedGroup<'_>) {
        let mut waiting = self.waiting.lock();
        if waiting.is_overrun {
            return;
        }
        let is_first = waiting.groups.is_empty();
        if waiting.groups.len() + HEAD_BYTES + group.bytes.len() > TAP_BYTES_MAX {
            *waiting = Waiting { groups: Vec::new(), is_overrun: true };
            return;
        }
        let head = [group.epoch.0, group.index.0, group.bytes.len() as u64];
        head.iter().for_each(|word| waiting.groups.extend_from_slice(&word.to_le_bytes()));
        waiting.groups.extend_from_slice(group.bytes);
        drop(waiting);
        if let (true, Some(bell)) = (is_first, &self.bell) {
            bell();
        }
    }
}

impl Tap {
    /// Takes what waits.
    ///
    /// # Errors
    /// Groups are missing.
    pub fn drain(&self) -> Result<TappedGroups, Overrun> {
        let mut waiting = self.buffer.waiting.lock();
        match waiting.is_overrun {
            true => Err(Overrun),
            false => Ok(TappedGroups { bytes: std::mem::take(&mut waiting.groups), at: 0 }),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.taps.remove(self.slot, &self.buffer);
    }
}

impl TappedGroups {
    /// Is nothing left?
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next group.
    #[allow(clippy::should_implement_trait, reason = "it lends from itself")]
    pub fn next(&mut self) -> Option<TappedGroup<'_>> {
        let (head, rest) = self.bytes[self.at..].split_at_checked(HEAD_BYTES)?;
        let mut words = head.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or_default();
        let (epoch, index, len) = (Epoch(word()), OpIndex(word()), word() as usize);
        self.at += HEAD_BYTES + len;
        Some(TappedGroup { epoch, index, bytes: &rest[..len] })
    }
}
