//! The reader of a whole slot while it is served: chunk by chunk, in hash order, without a fork
//! and without a long hold (DESIGN 5).
//!
//! ```text
//!  begin --> reading --next_chunk--> ... --> the last chunk: finished
//!               |  the node lets go of the slot, or another epoch begins: `Unreadable`
//! ```
//! A chunk is taken under one hold of bounded size. Big strings and lists are frozen (their chunk
//! pointers cloned) and encoded after it; hashes, sets and sorted sets are encoded inside it, one
//! that is beyond the budget alone in its chunk: the limit of what a hold costs is the largest of
//! them. Not a judge of expiry: what has expired travels with its time.
//! Invariant: the ranges of all chunks, in order, are all positions, each once.

use slots::{Epoch, SlotId};

use super::chunk::{ChunkWriter, Head};
use super::value::freeze;
use crate::slot::keys::MARK_RAW;
use crate::slot::{Reading, Rooms};
use crate::store::object::Object;
use crate::store::table::{Entry, EntryValue, KeyOrder, ScanPos};

/// How much one chunk takes, and so one hold of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Keys, or buckets without keys.
    pub entries: usize,
    /// Bytes of keys and values as they lie in memory.
    pub bytes: usize,
}

/// Keys of one chunk: some 100 us of copying.
pub const CHUNK_ENTRIES: usize = 512;

/// Bytes of one chunk: some 100 us of copying, and one write to a disk or a link.
pub const CHUNK_BYTES: usize = 256 * 1024;

impl Default for Budget {
    fn default() -> Self {
        Budget { entries: CHUNK_ENTRIES, bytes: CHUNK_BYTES }
    }
}

/// Why a snapshot cannot begin or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// As many readers are at the slot as may be.
    TooManyReaders,
    /// The node let go of the slot's content.
    LetGo,
    /// The slot began another epoch, and may have been away in between: begin anew.
    OtherEpoch,
}

/// A snapshot of one slot under way. Dropped before its end it takes the room's lock once: not
/// to be dropped by one who holds it.
pub struct Snapshot<'a> {
    rooms: &'a Rooms,
    walk: Walk,
    /// Nanoseconds that only grow.
    clock: Option<&'a dyn Fn() -> u64>,
    longest_hold_ns: u64,
}

/// A way through all chunks of one slot. It is no reader that the room knows of: that is whoever
/// goes it.
pub(super) struct Walk {
    slot: SlotId,
    epoch: Epoch,
    next: ScanPos,
    is_finished: bool,
}

/// Where the next chunk ends.
#[derive(Clone, Copy)]
enum Cut {
    /// After this position, the last that was read.
    After(ScanPos),
    /// Nothing is left behind it.
    End,
}

/// An entry that is encoded after the unlock.
struct Frozen {
    key: Box<[u8]>,
    expiry: Option<u64>,
    object: Object,
}

impl<'a> Snapshot<'a> {
    /// Begins. Until it is finished the slot's journal gets images of renamed values.
    pub fn begin(rooms: &'a Rooms, slot: SlotId) -> Result<Snapshot<'a>, Unreadable> {
        let mut reading = rooms.read(slot);
        if reading.is_let_go() {
            return Err(Unreadable::LetGo);
        }
        if !reading.begin_reader() {
            return Err(Unreadable::TooManyReaders);
        }
        let walk = Walk::begin(&reading);
        Ok(Snapshot { rooms, walk, clock: None, longest_hold_ns: 0 })
    }

    /// Its holds of the lock are timed by this clock, in nanoseconds.
    pub fn timed(mut self, clock: &'a dyn Fn() -> u64) -> Snapshot<'a> {
        self.clock = Some(clock);
        self
    }

    /// The longest time a chunk held the lock so far, from the moment it had it; 0 without a clock.
    pub fn longest_hold_ns(&self) -> u64 {
        self.longest_hold_ns
    }

    /// Is nothing left to read?
    pub fn is_finished(&self) -> bool {
        self.walk.is_finished
    }

    /// Appends the next chunk to `out` and says what it holds; `None` when there is no more. In
    /// the stream it stands between its index and the next: before any group after its index.
    pub fn next_chunk(
        &mut self,
        budget: Budget,
        out: &mut Vec<u8>,
    ) -> Result<Option<Head>, Unreadable> {
        if self.walk.is_finished {
            return Ok(None);
        }
        let reading = self.rooms.read(self.walk.slot);
        let (clock, mut held_ns) = (self.clock, 0);
        let began_ns = clock.map(|clock| clock());
        let head = self.walk.next_chunk(reading, budget, out, |mut reading, is_last| {
            if is_last {
                reading.end_reader();
            }
            drop(reading);
            if let (Some(began_ns), Some(clock)) = (began_ns, clock) {
                held_ns = clock().saturating_sub(began_ns);
            }
        })?;
        self.longest_hold_ns = self.longest_hold_ns.max(held_ns);
        Ok(Some(head))
    }
}

impl Walk {
    /// From the first position on, through the content that is there now.
    pub(super) fn begin(reading: &Reading<'_>) -> Walk {
        let (slot, epoch) = (reading.slot(), reading.epoch());
        Walk { slot, epoch, next: ScanPos::START, is_finished: false }
    }

    pub(super) fn slot(&self) -> SlotId {
        self.slot
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Is it still the content that the walk began in?
    pub(super) fn check(&self, reading: &Reading<'_>) -> Result<(), Unreadable> {
        if reading.is_let_go() {
            return Err(Unreadable::LetGo);
        }
        if reading.epoch() != self.epoch {
            return Err(Unreadable::OtherEpoch);
        }
        Ok(())
    }

    /// Appends the next chunk; `done` gets the hold back as soon as it is not needed any more,
    /// and hears whether it was the last.
    pub(super) fn next_chunk(
        &mut self,
        reading: Reading<'_>,
        budget: Budget,
        out: &mut Vec<u8>,
        done: impl FnOnce(Reading<'_>, bool),
    ) -> Result<Head, Unreadable> {
        self.check(&reading)?;
        let mut writer = ChunkWriter::begin(out);
        let mut frozen = Vec::new();
        let from = self.next;
        let cut = fill(&reading, from, budget, &mut |entry| {
            put(&mut writer, out, &mut frozen, entry);
        });
        let (to, is_last) = match cut {
            Cut::After(to) => (to, to == ScanPos::LAST),
            Cut::End => (ScanPos::LAST, true),
        };
        let (epoch, index) = (self.epoch, reading.index());
        self.is_finished = is_last;
        done(reading, is_last);
        self.next = ScanPos(to.0 + 1);
        for late in &frozen {
            writer.put_object(out, (&late.key, late.expiry), &late.object);
        }
        let order = KeyOrder::local().seed();
        let head = Head { slot: self.slot, epoch, index, order, from, to, is_last };
        writer.end(out, &head);
        Ok(head)
    }
}

/// Appends one chunk that says of a slot the node has let go of: nothing anywhere, at its last
/// index. `None` if the slot has content again.
pub fn empty_chunk(rooms: &Rooms, slot: SlotId, out: &mut Vec<u8>) -> Option<Head> {
    let reading = rooms.read(slot);
    if !reading.is_let_go() {
        return None;
    }
    let (epoch, index) = (reading.epoch(), reading.index());
    drop(reading);
    let (order, from, to) = (KeyOrder::local().seed(), ScanPos::START, ScanPos::LAST);
    let head = Head { slot, epoch, index, order, from, to, is_last: true };
    ChunkWriter::begin(out).end(out, &head);
    Some(head)
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if !self.walk.is_finished {
            self.rooms.read(self.walk.slot).end_reader();
        }
    }
}

/// Visits entries from a position on until the budget is spent.
fn fill(
    reading: &Reading<'_>,
    from: ScanPos,
    budget: Budget,
    visit: &mut dyn FnMut(Entry<'_, Object>),
) -> Cut {
    let table = reading.table();
    let (mut entries, mut bytes, mut at) = (0, 0, from);
    // What a scan of one step meets: its place in the order, and what it weighs.
    let mut met: Vec<(ScanPos, usize)> = Vec::new();
    loop {
        met.clear();
        let next =
            table.scan(at, &mut |entry| met.push((ScanPos::of(entry.hash()), weight(entry))));
        met.sort_unstable();
        for (taken, &(position, weight)) in met.iter().enumerate() {
            let is_first = entries + taken == 0;
            // Keys of one position are never torn apart.
            let is_apart = taken == 0 || met[taken - 1].0 != position;
            let is_over = entries + taken >= budget.entries || bytes + weight > budget.bytes;
            if is_over && !is_first && is_apart {
                let to = ScanPos(position.0 - 1);
                visit_up_to(reading, at, to, visit);
                return Cut::After(to);
            }
            bytes += weight;
        }
        visit_up_to(reading, at, ScanPos::LAST, visit);
        let Some(next) = next else { return Cut::End };
        // A step without keys counts, too: a table that shrank is mostly empty.
        entries += met.len().max(1);
        at = next;
        if entries >= budget.entries || bytes >= budget.bytes {
            return Cut::After(ScanPos(next.0 - 1));
        }
    }
}

/// Visits what one step of a scan meets, up to a position.
fn visit_up_to(
    reading: &Reading<'_>,
    at: ScanPos,
    to: ScanPos,
    visit: &mut dyn FnMut(Entry<'_, Object>),
) {
    reading.table().scan(at, &mut |entry| {
        if ScanPos::of(entry.hash()) <= to {
            visit(entry);
        }
    });
}

/// Bytes that an entry and its value take in memory.
fn weight(entry: Entry<'_, Object>) -> usize {
    let inner = match entry.value() {
        EntryValue::Bytes(_) => 0,
        EntryValue::Boxed(object) => object.bytes(),
    };
    entry.bytes() + inner
}

fn put(
    writer: &mut ChunkWriter,
    out: &mut Vec<u8>,
    frozen: &mut Vec<Frozen>,
    entry: Entry<'_, Object>,
) {
    let about = (entry.key(), entry.expiry());
    match entry.value() {
        EntryValue::Bytes(text) => {
            writer.put_flat(out, about, (text, entry.marks() & MARK_RAW != 0));
        }
        EntryValue::Boxed(object) => match freeze(object) {
            Some(object) => {
                let (key, expiry) = (entry.key().into(), entry.expiry());
                frozen.push(Frozen { key, expiry, object });
            }
            None => writer.put_object(out, about, object),
        },
    }
}

#[cfg(test)]
mod tests;
