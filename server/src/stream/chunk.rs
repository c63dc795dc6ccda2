//! A chunk of a slot's snapshot: all keys of a hash range as they stood at one op index.
//!
//! ```text
//! version 1 | flags 1 | slot 2 | epoch 8 | index 8 | order 8 | from 8 | to 8 | count 4 | entries
//! entry: expiry (as in an op), key (string), value
//! ```
//! Drawn in `manual/stream`. Not the reader that fills it, nor the sink that installs it.
//! Invariant: the range is said in the order of the node that wrote it (`order`), and every entry
//! lies inside.

use slots::{Epoch, OpIndex, SlotId};

use super::bytes::{Broken, Bytes, put_string};
use super::codec::{put_expiry, read_expiry};
use super::value::{Decoded, put_flat, put_object, read_value};
use crate::store::object::Object;
use crate::store::table::{Expiry, KeyOrder, ScanPos};

/// The format of a chunk.
pub const CHUNK_VERSION: u8 = 1;

/// Bytes of the head.
const HEAD_BYTES: usize = 48;
/// Where the count stands in it.
const COUNT_AT: usize = 44;
/// Flag: with this chunk the snapshot is whole.
const LAST: u8 = 1;

/// What a chunk says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The slot.
    pub slot: SlotId,
    /// Epoch of the content.
    pub epoch: Epoch,
    /// The last op group that the entries hold.
    pub index: OpIndex,
    /// `KeyOrder::seed` of the writer.
    pub order: u64,
    /// First position of the range.
    pub from: ScanPos,
    /// Last position of the range.
    pub to: ScanPos,
    /// Is it the last chunk of its snapshot?
    pub is_last: bool,
}

/// A chunk being read.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    head: Head,
    count: usize,
    entries: Bytes<'a>,
}

/// A key of a chunk with all that belongs to it.
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    /// `At` or `Never`.
    pub(super) expiry: Expiry,
    pub(super) value: Decoded<'a>,
}

impl<'a> Chunk<'a> {
    /// Reads the head. The entries are looked at one by one, when they are installed.
    pub fn read(chunk: &'a [u8]) -> Result<Chunk<'a>, Broken> {
        let mut bytes = Bytes::new(chunk);
        if bytes.byte()? != CHUNK_VERSION {
            return Err(bytes.broken("a chunk of an unknown version"));
        }
        let flags = bytes.byte()?;
        let slot = bytes.u16()?;
        let (epoch, index) = (Epoch(bytes.u64()?), OpIndex(bytes.u64()?));
        let order = bytes.u64()?;
        let (from, to) = (ScanPos(bytes.u64()?), ScanPos(bytes.u64()?));
        let count = bytes.u32()? as usize;
        if flags & !LAST != 0 {
            return Err(bytes.broken("unknown flags of a chunk"));
        }
        if from > to || to > ScanPos::LAST {
            return Err(bytes.broken("a range of no hashes"));
        }
        let slot = SlotId::new(slot).ok_or(bytes.broken("no such slot"))?;
        let head = Head { slot, epoch, index, order, from, to, is_last: flags & LAST != 0 };
        Ok(Chunk { head, count, entries: bytes })
    }

    /// What it says of itself.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Keys in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Is the range without keys?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Looks at every entry and builds every value once, keeping none.
    pub fn check(&self) -> Result<(), Broken> {
        let order = KeyOrder::seeded(self.head.order);
        self.entries(&order).try_for_each(|entry| entry.map(drop))
    }

    /// The entries; nothing follows an error.
    pub(super) fn entries(
        &self,
        order: &'a KeyOrder,
    ) -> impl Iterator<Item = Result<Entry<'a>, Broken>> + use<'a> {
        let (mut bytes, mut left, head) = (self.entries, self.count, self.head);
        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over || (left == 0 && bytes.is_at_end()) {
                return None;
            }
            let entry = match left.checked_sub(1) {
                Some(rest) => {
                    left = rest;
                    read_entry(&mut bytes, &head, order)
                }
                None => Err(bytes.broken("bytes after the last entry")),
            };
            is_over = entry.is_err();
            Some(entry)
        })
    }
}

fn read_entry<'a>(
    bytes: &mut Bytes<'a>,
    head: &Head,
    order: &KeyOrder,
) -> Result<Entry<'a>, Broken> {
    let expiry = read_expiry(bytes)?;
    if expiry == Expiry::Keep {
        return Err(bytes.broken("an expiry of no time"));
    }
    let key = bytes.string()?;
    if !(head.from..=head.to).contains(&order.position(key)) {
        return Err(bytes.broken("a key outside the range"));
    }
    let value = read_value(bytes)?;
    if matches!(&value, Decoded::Object(object) if object.is_empty()) {
        return Err(bytes.broken("a collection of nothing"));
    }
    Ok(Entry { key, expiry, value })
}

/// A chunk being written at the end of a buffer.
pub(super) struct ChunkWriter {
    start: usize,
    count: u32,
}

impl ChunkWriter {
    pub(super) fn begin(out: &mut Vec<u8>) -> ChunkWriter {
        let start = out.len();
        out.resize(start + HEAD_BYTES, 0);
        ChunkWriter { start, count: 0 }
    }

    pub(super) fn put_flat(
        &mut self,
        out: &mut Vec<u8>,
        (key, expiry): (&[u8], Option<u64>),
        (text, is_raw): (&[u8], bool),
    ) {
        self.put_key(out, key, expiry);
        put_flat(out, text, is_raw);
    }

    pub(super) fn put_object(
        &mut self,
        out: &mut Vec<u8>,
        (key, expiry): (&[u8], Option<u64>),
        object: &Object,
    ) {
        self.put_key(out, key, expiry);
        put_object(out, object);
    }

    fn put_key(&mut self, out: &mut Vec<u8>, key: &[u8], expiry: Option<u64>) {
        self.count += 1;
        put_expiry(out, expiry.map_or(Expiry::Never, Expiry::At));
        put_string(out, key);
    }

    /// Writes the head, now that all is known.
    pub(super) fn end(self, out: &mut [u8], head: &Head) {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = CHUNK_VERSION;
        bytes[1] = if head.is_last { LAST } else { 0 };
        bytes[2..4].copy_from_slice(&head.slot.number().to_le_bytes());
        let words = [head.epoch.0, head.index.0, head.order, head.from.0, head.to.0];
        for (place, word) in bytes[4..COUNT_AT].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[COUNT_AT..].copy_from_slice(&self.count.to_le_bytes());
        out[self.start..self.start + HEAD_BYTES].copy_from_slice(&bytes);
    }
}

#[cfg(test)]
mod tests;
