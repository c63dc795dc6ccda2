//! Ops as bytes. A group is what one command, EXEC or script changed; it stands in the log and on
//! the wire as written here, framed and checksummed by whoever carries it.
//!
//! ```text
//! group: version 1 byte, ops to the end      op: kind 1 byte, key (string), fields by kind
//! ```
//! Drawn byte by byte in `manual/stream`. Not a judge of sense: whether a list has that many items
//! is known under the lock only. Invariant: what `put_op` wrote comes back as the same op, and
//! reading allocates at most a small multiple of the bytes read.

use super::bytes::{Broken, Bytes, put_string, put_varint};
use super::value::{Decoded, put_object, read_value};
use crate::slot::{End, Key, Op};
use crate::store::object::Object;
use crate::store::table::Expiry;

/// The format of a group.
pub const GROUP_VERSION: u8 = 1;

/// A string may end up no longer than this, bytes: far above what a client may make, it keeps a
/// broken offset from asking for all memory there is.
const STRING_BYTES_MAX: usize = 1 << 40;

/// The kinds of ops as bytes.
mod kind {
    pub(super) const SET_STRING: u8 = 1;
    pub(super) const SET_RANGE: u8 = 2;
    pub(super) const PUT_OBJECT: u8 = 3;
    pub(super) const DELETE: u8 = 4;
    pub(super) const EXPIRE: u8 = 5;
    pub(super) const SET_EXPIRY: u8 = 6;
    pub(super) const RENAME: u8 = 7;
    pub(super) const HASH_SET: u8 = 8;
    pub(super) const HASH_DELETE: u8 = 9;
    pub(super) const LIST_PUSH: u8 = 10;
    pub(super) const LIST_POP: u8 = 11;
    pub(super) const LIST_SET: u8 = 12;
    pub(super) const LIST_INSERT: u8 = 13;
    pub(super) const LIST_REMOVE: u8 = 14;
    pub(super) const LIST_REMOVE_EQUAL: u8 = 15;
    pub(super) const SET_ADD: u8 = 16;
    pub(super) const SET_REMOVE: u8 = 17;
    pub(super) const ZSET_ADD: u8 = 18;
    pub(super) const ZSET_REMOVE: u8 = 19;
    pub(super) const ZSET_REMOVE_RANKS: u8 = 20;
    pub(super) const FLUSH: u8 = 21;
}

const EXPIRY_NEVER: u8 = 0;
const EXPIRY_AT: u8 = 1;
const EXPIRY_KEEP: u8 = 2;

/// Appends an op to a group; an empty one is begun.
#[inline]
pub fn put_op(op: &Op<'_>, group: &mut Vec<u8>) {
    if group.is_empty() {
        group.push(GROUP_VERSION);
    }
    match op {
        Op::SetString { key, value, expiry } => {
            put_head(group, kind::SET_STRING, *key);
            put_expiry(group, *expiry);
            put_string(group, value);
        }
        op => put_other(op, group),
    }
}

fn put_other(op: &Op<'_>, out: &mut Vec<u8>) {
    match *op {
        Op::SetString { .. } => unreachable!("put_op keeps it"),
        Op::SetRange { key, offset, bytes } => {
            put_head(out, kind::SET_RANGE, key);
            put_varint(out, offset as u64);
            put_string(out, bytes);
        }
        Op::PutObject { key, ref object, expiry } => {
            put_head(out, kind::PUT_OBJECT, key);
            put_expiry(out, expiry);
            put_object(out, object);
        }
        Op::Delete { key } => put_head(out, kind::DELETE, key),
        Op::Expire { key } => put_head(out, kind::EXPIRE, key),
        Op::SetExpiry { key, at } => {
            put_head(out, kind::SET_EXPIRY, key);
            put_expiry(out, at.map_or(Expiry::Never, Expiry::At));
        }
        Op::Rename { from, to } => {
            put_head(out, kind::RENAME, from);
            put_string(out, to.bytes);
        }
        Op::Flush => out.push(kind::FLUSH),
        ref op => put_collection_op(op, out),
    }
}

fn put_collection_op(op: &Op<'_>, out: &mut Vec<u8>) {
    match *op {
        Op::HashSet { key, pairs } => {
            put_head(out, kind::HASH_SET, key);
            put_varint(out, pairs.len() as u64 / 2);
            pairs.chunks_exact(2).flatten().for_each(|word| put_string(out, word));
        }
        Op::HashDelete { key, fields } => put_words(out, kind::HASH_DELETE, key, fields),
        Op::SetAdd { key, members } => put_words(out, kind::SET_ADD, key, members),
        Op::SetRemove { key, members } => put_words(out, kind::SET_REMOVE, key, members),
        Op::ZsetRemove { key, members } => put_words(out, kind::ZSET_REMOVE, key, members),
        Op::ZsetAdd { key, items } => {
            put_head(out, kind::ZSET_ADD, key);
            put_varint(out, items.len() as u64);
            for (score, member) in items {
                out.extend_from_slice(&score.to_bits().to_le_bytes());
                put_string(out, member);
            }
        }
        Op::ZsetRemoveRanks { key, start, count } => {
            put_head(out, kind::ZSET_REMOVE_RANKS, key);
            put_varint(out, start as u64);
            put_varint(out, count as u64);
        }
        ref op => put_list_op(op, out),
    }
}

fn put_list_op(op: &Op<'_>, out: &mut Vec<u8>) {
    match *op {
        Op::ListPush { key, end, items } => {
            put_head(out, kind::LIST_PUSH, key);
            out.push(end_byte(end));
            put_varint(out, items.len() as u64);
            items.iter().for_each(|item| put_string(out, item));
        }
        Op::ListPop { key, end, count } => {
            put_head(out, kind::LIST_POP, key);
            out.push(end_byte(end));
            put_varint(out, count as u64);
        }
        Op::ListSet { key, index, value } => {
            put_head(out, kind::LIST_SET, key);
            put_varint(out, index as u64);
            put_string(out, value);
        }
        Op::ListInsert { key, index, value } => {
            put_head(out, kind::LIST_INSERT, key);
            put_varint(out, index as u64);
            put_string(out, value);
        }
        Op::ListRemove { key, start, count } => {
            put_head(out, kind::LIST_REMOVE, key);
            put_varint(out, start as u64);
            put_varint(out, count as u64);
        }
        Op::ListRemoveEqual { key, from, value, count } => {
            put_head(out, kind::LIST_REMOVE_EQUAL, key);
            out.push(end_byte(from));
            put_varint(out, count as u64);
            put_string(out, value);
        }
        _ => unreachable!("the other kinds were put before"),
    }
}

#[inline]
fn put_head(out: &mut Vec<u8>, kind: u8, key: Key<'_>) {
    out.push(kind);
    put_string(out, key.bytes);
}

fn put_words(out: &mut Vec<u8>, kind: u8, key: Key<'_>, words: &[&[u8]]) {
    put_head(out, kind, key);
    put_varint(out, words.len() as u64);
    words.iter().for_each(|word| put_string(out, word));
}

#[inline]
pub(super) fn put_expiry(out: &mut Vec<u8>, expiry: Expiry) {
    match expiry {
        Expiry::Never => out.push(EXPIRY_NEVER),
        Expiry::Keep => out.push(EXPIRY_KEEP),
        Expiry::At(at) => {
            out.push(EXPIRY_AT);
            out.extend_from_slice(&at.to_le_bytes());
        }
    }
}

pub(super) fn read_expiry(bytes: &mut Bytes<'_>) -> Result<Expiry, Broken> {
    match bytes.byte()? {
        EXPIRY_NEVER => Ok(Expiry::Never),
        EXPIRY_AT => Ok(Expiry::At(bytes.u64()?)),
        EXPIRY_KEEP => Ok(Expiry::Keep),
        _ => Err(bytes.broken("an expiry of an unknown kind")),
    }
}

fn end_byte(end: End) -> u8 {
    match end {
        End::Front => 0,
        End::Back => 1,
    }
}

fn read_end(bytes: &mut Bytes<'_>) -> Result<End, Broken> {
    match bytes.byte()? {
        0 => Ok(End::Front),
        1 => Ok(End::Back),
        _ => Err(bytes.broken("neither end of a list")),
    }
}

/// Memory for the slices of ops, used again from group to group.
#[derive(Default)]
pub struct Scratch {
    words: Vec<&'static [u8]>,
    items: Vec<(f64, &'static [u8])>,
}

/// The ops of a group, one after the other.
pub struct Ops<'a> {
    bytes: Bytes<'a>,
    words: Vec<&'a [u8]>,
    items: Vec<(f64, &'a [u8])>,
}

impl<'a> Ops<'a> {
    /// Opens a group. Fails on another version.
    pub fn open(group: &'a [u8], scratch: Scratch) -> Result<Ops<'a>, Broken> {
        let mut bytes = Bytes::new(group);
        if bytes.byte()? != GROUP_VERSION {
            return Err(bytes.broken("a group of an unknown version"));
        }
        Ok(Ops { bytes, words: scratch.words, items: scratch.items })
    }

    /// The next op; `None` at the end of the group.
    #[allow(clippy::should_implement_trait, reason = "it lends from itself")]
    pub fn next(&mut self) -> Result<Option<Op<'_>>, Broken> {
        if self.bytes.is_at_end() {
            return Ok(None);
        }
        let kind = self.bytes.byte()?;
        if kind == kind::FLUSH {
            return Ok(Some(Op::Flush));
        }
        let key = Key::new(self.bytes.string()?);
        let bytes = &mut self.bytes;
        Ok(Some(match kind {
            kind::SET_STRING => {
                let expiry = read_expiry(bytes)?;
                Op::SetString { key, value: bytes.string()?, expiry }
            }
            kind::SET_RANGE => {
                let offset = bytes.size()?;
                let text = bytes.string()?;
                if offset > STRING_BYTES_MAX - text.len().min(STRING_BYTES_MAX) {
                    return Err(bytes.broken("a string too long for memory"));
                }
                Op::SetRange { key, offset, bytes: text }
            }
            kind::PUT_OBJECT => {
                let expiry = read_expiry(bytes)?;
                Op::PutObject { key, object: read_object(bytes)?, expiry }
            }
            kind::DELETE => Op::Delete { key },
            kind::EXPIRE => Op::Expire { key },
            kind::SET_EXPIRY => match read_expiry(bytes)? {
                Expiry::Never => Op::SetExpiry { key, at: None },
                Expiry::At(at) => Op::SetExpiry { key, at: Some(at) },
                Expiry::Keep => return Err(bytes.broken("an expiry set to itself")),
            },
            kind::RENAME => Op::Rename { from: key, to: Key::new(bytes.string()?) },
            kind::LIST_PUSH..=kind::LIST_REMOVE_EQUAL => return self.list_op(kind, key).map(Some),
            _ => return self.collection_op(kind, key).map(Some),
        }))
    }

    /// The memory, for the next group.
    pub fn close(self) -> Scratch {
        Scratch { words: emptied(self.words), items: emptied_items(self.items) }
    }

    fn collection_op<'s>(&'s mut self, kind: u8, key: Key<'a>) -> Result<Op<'s>, Broken> {
        Ok(match kind {
            kind::HASH_SET => {
                self.read_words(2)?;
                Op::HashSet { key, pairs: &self.words }
            }
            kind::HASH_DELETE => {
                self.read_words(1)?;
                Op::HashDelete { key, fields: &self.words }
            }
            kind::SET_ADD => {
                self.read_words(1)?;
                Op::SetAdd { key, members: &self.words }
            }
            kind::SET_REMOVE => {
                self.read_words(1)?;
                Op::SetRemove { key, members: &self.words }
            }
            kind::ZSET_ADD => {
                self.read_items()?;
                Op::ZsetAdd { key, items: &self.items }
            }
            kind::ZSET_REMOVE => {
                self.read_words(1)?;
                Op::ZsetRemove { key, members: &self.words }
            }
            kind::ZSET_REMOVE_RANKS => {
                let start = self.bytes.size()?;
                Op::ZsetRemoveRanks { key, start, count: self.bytes.size()? }
            }
            _ => return Err(self.bytes.broken("an op of an unknown kind")),
        })
    }

    fn list_op<'s>(&'s mut self, kind: u8, key: Key<'a>) -> Result<Op<'s>, Broken> {
        let bytes = &mut self.bytes;
        Ok(match kind {
            kind::LIST_PUSH => {
                let end = read_end(bytes)?;
                self.read_words(1)?;
                Op::ListPush { key, end, items: &self.words }
            }
            kind::LIST_POP => {
                let end = read_end(bytes)?;
                Op::ListPop { key, end, count: bytes.size()? }
            }
            kind::LIST_SET => {
                let index = bytes.size()?;
                Op::ListSet { key, index, value: bytes.string()? }
            }
            kind::LIST_INSERT => {
                let index = bytes.size()?;
                Op::ListInsert { key, index, value: bytes.string()? }
            }
            kind::LIST_REMOVE => {
                let start = bytes.size()?;
                Op::ListRemove { key, start, count: bytes.size()? }
            }
            _ => {
                let from = read_end(bytes)?;
                let count = bytes.size()?;
                Op::ListRemoveEqual { key, from, value: bytes.string()?, count }
            }
        })
    }

    /// Reads a count and as many strings, or pairs of them.
    fn read_words(&mut self, each: usize) -> Result<(), Broken> {
        self.words.clear();
        for _ in 0..each * self.bytes.count(each)? {
            self.words.push(self.bytes.string()?);
        }
        Ok(())
    }

    fn read_items(&mut self) -> Result<(), Broken> {
        self.items.clear();
        for _ in 0..self.bytes.count(size_of::<f64>() + 1)? {
            let score = self.bytes.score()?;
            self.items.push((score, self.bytes.string()?));
        }
        Ok(())
    }
}

fn read_object(bytes: &mut Bytes<'_>) -> Result<Box<Object>, Broken> {
    match read_value(bytes)? {
        Decoded::Object(object) => Ok(object),
        Decoded::Flat { .. } => Err(bytes.broken("a short string where an object stands")),
    }
}

/// An empty vector with the same memory, for slices of another life. (The standard library maps
/// in place; if it ever did not, the memory would be asked for again.)
fn emptied<'a>(mut words: Vec<&[u8]>) -> Vec<&'a [u8]> {
    words.clear();
    words.into_iter().map(|_| -> &[u8] { &[] }).collect()
}

fn emptied_items<'a>(mut items: Vec<(f64, &[u8])>) -> Vec<(f64, &'a [u8])> {
    items.clear();
    items.into_iter().map(|item| -> (f64, &[u8]) { (item.0, &[]) }).collect()
}

#[cfg(test)]
mod tests;
