//! The receiving end of a slot's stream: installs chunks, applies op groups, each where it belongs.
//!
//! ```text
//!          chunk(range, index)                 group(index)
//!  empty ----------------------> in pieces -------------------> ... --finish--> a whole copy
//!                                 |     ^ ops on ranges not there yet are dropped: their
//!                                 +-----+ chunk will hold them
//! ```
//! Call: chunks and groups in the order in which the source made them; or all chunks of one
//! snapshot first. After an error the room is to be emptied. Not a buffer: a chunk that comes
//! after groups it does not hold is refused. Invariant (INV-8): see `stream`.

use std::fmt;

use slots::{Epoch, OpIndex, SlotId};

use super::bytes::Broken;
use super::chunk::{Chunk, Entry};
use super::codec::{Ops, Scratch};
use super::coverage::{ChunkVerdict, Coverage, GroupVerdict};
use super::sense;
use super::value::Decoded;
use crate::slot::{Key, Op, Replay};
use crate::store::table::{KeyOrder, ScanPos};

/// Why the sink cannot go on with what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The bytes say nothing.
    Broken(Broken),
    /// A chunk of another slot.
    OtherSlot(SlotId),
    /// A chunk in another order of keys than those before.
    OtherOrder,
    /// A chunk at an index before groups that have gone by.
    Late {
        /// The chunk's.
        index: OpIndex,
    },
    /// Groups are missing.
    Gap {
        /// The first that is.
        missing: OpIndex,
        /// The one that came.
        got: OpIndex,
    },
    /// An op does not fit the keys it finds.
    Senseless {
        /// The group.
        index: OpIndex,
    },
    /// A value moves from where it is not known to where it is needed: the source did not say
    /// that a snapshot was under way.
    TornRename {
        /// The group.
        index: OpIndex,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Broken(broken) => write!(f, "broken bytes: {broken}"),
            Mismatch::OtherSlot(slot) => write!(f, "a chunk of slot {}", slot.number()),
            Mismatch::OtherOrder => write!(f, "a chunk in another order of keys"),
            Mismatch::Late { index } => write!(f, "a chunk at index {} came too late", index.0),
            Mismatch::Gap { missing, got } => {
                write!(f, "op group {} came, {} is missing", got.0, missing.0)
            }
            Mismatch::Senseless { index } => {
                write!(f, "op group {} does not fit the keys it changes", index.0)
            }
            Mismatch::TornRename { index } => {
                write!(f, "op group {} moves a value that is not there", index.0)
            }
        }
    }
}

impl std::error::Error for Mismatch {}

impl From<Broken> for Mismatch {
    fn from(broken: Broken) -> Mismatch {
        Mismatch::Broken(broken)
    }
}

/// Why a copy is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// A part of the slot never came.
    Missing,
    /// Parts stand further on than the groups that came.
    Short {
        /// Where the copy as a whole stands.
        have: OpIndex,
        /// Where it has to get.
        need: OpIndex,
    },
}

/// Brings the content of one slot.
pub struct Sink {
    slot: SlotId,
    /// The order the ranges are said in, from the first chunk on.
    order: Option<KeyOrder>,
    coverage: Coverage,
    scratch: Scratch,
    trust: Trust,
}

/// Where the bytes come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// A node of ours wrote them, and a checksum says they are as it wrote them.
    Ours,
    /// Whoever had them last.
    Anybody,
}

impl Sink {
    /// For a slot of which nothing is there: its room is empty.
    pub fn new(slot: SlotId) -> Sink {
        let (coverage, scratch) = (Coverage::default(), Scratch::default());
        Sink { slot, order: None, coverage, scratch, trust: Trust::Ours }
    }

    /// The same for bytes that anybody may have made: ops that fit nothing are refused.
    pub fn wary(slot: SlotId) -> Sink {
        Sink { trust: Trust::Anybody, ..Sink::new(slot) }
    }

    /// For a slot that is there as a whole, at this index (an empty one at index 0).
    pub fn whole(slot: SlotId, index: OpIndex) -> Sink {
        Sink { coverage: Coverage::whole(index), ..Sink::new(slot) }
    }

    /// The same for groups that anybody may have made.
    pub(super) fn wary_whole(slot: SlotId, index: OpIndex) -> Sink {
        Sink { trust: Trust::Anybody, ..Sink::whole(slot, index) }
    }

    /// Installs a chunk: its range becomes what the chunk says. One that is known is passed over.
    pub fn chunk(&mut self, chunk: &Chunk<'_>, room: &mut Replay<'_>) -> Result<(), Mismatch> {
        let head = chunk.head();
        if head.slot != self.slot || room.slot() != self.slot {
            return Err(Mismatch::OtherSlot(head.slot));
        }
        let order = *self.order.get_or_insert_with(|| KeyOrder::seeded(head.order));
        if order.seed() != head.order {
            return Err(Mismatch::OtherOrder);
        }
        match self.coverage.judge_chunk(head.from, head.to, head.index) {
            ChunkVerdict::Known => return Ok(()),
            ChunkVerdict::Late => return Err(Mismatch::Late { index: head.index }),
            ChunkVerdict::Install => {}
        }
        self.empty_range(head.from, head.to, room);
        for entry in chunk.entries(&order) {
            put_entry(entry?, room);
        }
        self.coverage.install(head.from, head.to, head.index);
        room.set_place(head.epoch, room.index().max(head.index));
        Ok(())
    }

    /// Applies an op group where it belongs. One that was given before is passed over.
    pub fn group(
        &mut self,
        epoch: Epoch,
        index: OpIndex,
        group: &[u8],
        room: &mut Replay<'_>,
    ) -> Result<(), Mismatch> {
        match self.coverage.judge_group(index) {
            GroupVerdict::Known => return Ok(()),
            GroupVerdict::Gap(missing) => return Err(Mismatch::Gap { missing, got: index }),
            GroupVerdict::Apply => {}
        }
        let mut ops = Ops::open(group, std::mem::take(&mut self.scratch))?;
        while let Some(op) = ops.next()? {
            self.op(index, op, room)?;
        }
        self.scratch = ops.close();
        self.coverage.advance(index);
        room.set_place(epoch, room.index().max(index));
        Ok(())
    }

    /// The index the whole copy stands at.
    pub fn finish(&self) -> Result<OpIndex, Unfinished> {
        if !self.coverage.is_whole() {
            return Err(Unfinished::Missing);
        }
        let (have, need) = (self.coverage.nearest(), self.coverage.furthest());
        if have == need { Ok(have) } else { Err(Unfinished::Short { have, need }) }
    }

    fn op(&self, index: OpIndex, op: Op<'_>, room: &mut Replay<'_>) -> Result<(), Mismatch> {
        match op {
            Op::Rename { from, to } => return self.rename(index, from, to, room),
            Op::Flush => self.flush(index, room),
            op => {
                if key_of(&op).is_some_and(|key| self.takes(key, index)) {
                    if self.trust == Trust::Anybody && !sense::fits(&op, &room.keys().table) {
                        return Err(Mismatch::Senseless { index });
                    }
                    room.apply(op);
                }
            }
        }
        Ok(())
    }

    fn takes(&self, key: Key<'_>, index: OpIndex) -> bool {
        self.coverage.takes(self.position(key), index)
    }

    fn position(&self, key: Key<'_>) -> ScanPos {
        let local = || ScanPos::of(key.hash);
        self.order.filter(|o| *o != KeyOrder::local()).map_or_else(local, |o| o.position(key.bytes))
    }

    /// The old name goes where it is known; the new one needs the old one's value.
    fn rename(
        &self,
        index: OpIndex,
        from: Key<'_>,
        to: Key<'_>,
        room: &mut Replay<'_>,
    ) -> Result<(), Mismatch> {
        match (self.takes(from, index), self.takes(to, index)) {
            (true, true) => room.apply(Op::Rename { from, to }),
            (true, false) => room.apply(Op::Delete { key: from }),
            (false, true) => return Err(Mismatch::TornRename { index }),
            (false, false) => 0,
        };
        Ok(())
    }

    fn flush(&self, index: OpIndex, room: &mut Replay<'_>) {
        if self.coverage.all_before(index) {
            room.apply(Op::Flush);
            return;
        }
        for range in self.coverage.ranges_before(index) {
            self.empty_range(range.from, range.to, room);
        }
    }

    /// Removes what is there of a range. In an order that is not the table's own every key has
    /// to be looked at; a range that never came is known to hold none.
    fn empty_range(&self, from: ScanPos, to: ScanPos, room: &mut Replay<'_>) {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let table = &room.keys().table;
        match self.order.filter(|order| *order != KeyOrder::local()) {
            None => {
                let mut next = Some(from);
                while let Some(at) = next.filter(|at| *at <= to) {
                    next = table.scan(at, &mut |entry| {
                        if ScanPos::of(entry.hash()) <= to {
                            keys.push(entry.key().into());
                        }
                    });
                }
            }
            Some(_) if !self.coverage.meets(from, to) => return,
            Some(order) => {
                let inside = |key: &&[u8]| (from..=to).contains(&order.position(key));
                keys.extend(table.iter().map(|entry| entry.key()).filter(inside).map(Box::from));
            }
        }
        for key in keys {
            room.apply(Op::Delete { key: Key::new(&key) });
        }
    }
}

fn put_entry(entry: Entry<'_>, room: &mut Replay<'_>) {
    let (key, expiry) = (Key::new(entry.key), entry.expiry);
    match entry.value {
        Decoded::Object(object) => {
            room.apply(Op::PutObject { key, object, expiry });
        }
        Decoded::Flat { text, is_raw } => {
            room.apply(Op::SetString { key, value: text, expiry });
            if is_raw {
                // Nothing written at the front changes nothing but the encoding.
                room.apply(Op::SetRange { key, offset: 0, bytes: b"" });
            }
        }
    }
}

/// The one key an op changes; `None` for those that change more.
fn key_of<'a>(op: &Op<'a>) -> Option<Key<'a>> {
    match *op {
        Op::Rename { .. } | Op::Flush => None,
        Op::SetString { key, .. }
        | Op::SetRange { key, .. }
        | Op::PutObject { key, .. }
        | Op::Delete { key }
        | Op::Expire { key }
        | Op::SetExpiry { key, .. }
        | Op::HashSet { key, .. }
        | Op::HashDelete { key, .. }
        | Op::ListPush { key, .. }
        | Op::ListPop { key, .. }
        | Op::ListSet { key, .. }
        | Op::ListInsert { key, .. }
        | Op::ListRemove { key, .. }
        | Op::ListRemoveEqual { key, .. }
        | Op::SetAdd { key, .. }
        | Op::SetRemove { key, .. }
        | Op::ZsetAdd { key, .. }
        | Op::ZsetRemove { key, .. }
        | Op::ZsetRemoveRanks { key, .. } => Some(key),
    }
}

#[cfg(test)]
mod tests;
