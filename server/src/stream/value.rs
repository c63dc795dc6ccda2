//! A key's value as bytes: the text of a string, or a collection in the form it has.
//!
//! ```text
//! kind 1 byte, then by kind (counts and lengths are varints, scores 8 bytes):
//!   1 string in its entry: string        2 the same, its encoding is `raw`
//!   3 big string: string                 4 list: zigzag chunk size, count, strings
//!   5 hash, packed: count, pairs         6 hash, table: count, pairs
//!   7 set, integers: count, 8 bytes each 8 set, packed, and 9 table: count, strings
//!  10 sorted set, packed: count, (score, string) in order      11 the same, large
//! ```
//! Not a judge of forms: what was packed comes back packed, whatever the limits are now.
//! Invariant: no allocation is larger than a small multiple of the bytes read.

use super::bytes::{Broken, Bytes, put_string, put_varint};
use crate::store::blob::Blob;
use crate::store::hash::Hash;
use crate::store::limits::{Encoding, Limits};
use crate::store::list::List;
use crate::store::object::Object;
use crate::store::set::{Member, Set};
use crate::store::zset::SortedSet;

const FLAT: u8 = 1;
const FLAT_RAW: u8 = 2;
const BLOB: u8 = 3;
const LIST: u8 = 4;
const HASH_PACKED: u8 = 5;
const HASH_TABLE: u8 = 6;
const SET_INTS: u8 = 7;
const SET_PACKED: u8 = 8;
const SET_TABLE: u8 = 9;
const ZSET_PACKED: u8 = 10;
const ZSET_LARGE: u8 = 11;

/// A value read.
pub(super) enum Decoded<'a> {
    /// A string that lies in its entry; is its encoding `raw` whatever its length?
    Flat { text: &'a [u8], is_raw: bool },
    /// Anything else.
    Object(Box<Object>),
}

pub(super) fn put_flat(out: &mut Vec<u8>, text: &[u8], is_raw: bool) {
    out.push(if is_raw { FLAT_RAW } else { FLAT });
    put_string(out, text);
}

pub(super) fn put_object(out: &mut Vec<u8>, object: &Object) {
    match object {
        Object::Blob(blob) => {
            out.push(BLOB);
            put_varint(out, blob.len() as u64);
            blob.read_into(0..blob.len(), out);
        }
        Object::List(list) => {
            out.push(LIST);
            put_varint(out, zigzag(list.chunk_size()));
            put_varint(out, list.len() as u64);
            list.iter().for_each(|item| put_string(out, item));
        }
        Object::Hash(hash) => {
            let is_packed = hash.encoding() == Encoding::Listpack;
            out.push(if is_packed { HASH_PACKED } else { HASH_TABLE });
            put_varint(out, hash.len() as u64);
            for (field, value) in hash.iter() {
                put_string(out, field);
                put_string(out, value);
            }
        }
        Object::Set(set) => put_set(out, set),
        Object::SortedSet(zset) => {
            let is_packed = zset.encoding() == Encoding::Listpack;
            out.push(if is_packed { ZSET_PACKED } else { ZSET_LARGE });
            put_varint(out, zset.len() as u64);
            for (member, score) in zset.iter() {
                out.extend_from_slice(&score.to_bits().to_le_bytes());
                put_string(out, member);
            }
        }
    }
}

fn put_set(out: &mut Vec<u8>, set: &Set) {
    out.push(match set.encoding() {
        Encoding::Intset => SET_INTS,
        Encoding::Listpack => SET_PACKED,
        _ => SET_TABLE,
    });
    put_varint(out, set.len() as u64);
    for member in set.iter() {
        match member {
            Member::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Member::Bytes(text) => put_string(out, text),
        }
    }
}

pub(super) fn read_value<'a>(bytes: &mut Bytes<'a>) -> Result<Decoded<'a>, Broken> {
    let kind = bytes.byte()?;
    let object = match kind {
        FLAT | FLAT_RAW => {
            return Ok(Decoded::Flat { text: bytes.string()?, is_raw: kind == FLAT_RAW });
        }
        BLOB => Object::Blob(Blob::from_slice(bytes.string()?)),
        LIST => Object::List(read_list(bytes)?),
        HASH_PACKED => Object::Hash(read_hash(bytes, Hash::new())?),
        HASH_TABLE => Object::Hash(read_hash(bytes, Hash::new_table())?),
        SET_INTS => Object::Set(read_ints(bytes)?),
        SET_PACKED => Object::Set(read_set(bytes, Set::new_compact())?),
        SET_TABLE => Object::Set(read_set(bytes, Set::new_table())?),
        ZSET_PACKED => Object::SortedSet(read_zset(bytes, SortedSet::new())?),
        ZSET_LARGE => Object::SortedSet(read_zset(bytes, SortedSet::new_large())?),
        _ => return Err(bytes.broken("a value of an unknown kind")),
    };
    Ok(Decoded::Object(Box::new(object)))
}

fn read_list(bytes: &mut Bytes<'_>) -> Result<List, Broken> {
    let size = bytes.varint()?;
    let size = u32::try_from(size).map_err(|_| bytes.broken("a chunk size beyond 32 bits"))?;
    let chunk_size = i64::from(unzigzag(size));
    let limits = Limits { list_max_listpack_size: chunk_size, ..Limits::default() };
    let mut list = List::new();
    for _ in 0..bytes.count(1)? {
        list.push_back(bytes.string()?, &limits);
    }
    Ok(list)
}

fn read_hash(bytes: &mut Bytes<'_>, mut hash: Hash) -> Result<Hash, Broken> {
    let count = bytes.count(2)?;
    for _ in 0..count {
        let field = bytes.string()?;
        hash.put_back(field, bytes.string()?);
    }
    if hash.len() == count { Ok(hash) } else { Err(bytes.broken("a field twice")) }
}

fn read_ints(bytes: &mut Bytes<'_>) -> Result<Set, Broken> {
    let mut ints: Vec<i64> = Vec::new();
    for _ in 0..bytes.count(size_of::<i64>())? {
        let value = bytes.i64()?;
        if ints.last().is_some_and(|last| *last >= value) {
            return Err(bytes.broken("integers that do not rise"));
        }
        ints.push(value);
    }
    Ok(Set::of_rising(ints))
}

fn read_set(bytes: &mut Bytes<'_>, mut set: Set) -> Result<Set, Broken> {
    let count = bytes.count(1)?;
    for _ in 0..count {
        set.put_back(bytes.string()?);
    }
    if set.len() == count { Ok(set) } else { Err(bytes.broken("a member twice")) }
}

fn read_zset(bytes: &mut Bytes<'_>, mut zset: SortedSet) -> Result<SortedSet, Broken> {
    for _ in 0..bytes.count(size_of::<f64>() + 1)? {
        let score = bytes.score()?;
        if !zset.put_back(bytes.string()?, score) {
            return Err(bytes.broken("members out of order"));
        }
    }
    Ok(zset)
}

/// A number near 0, of either sign, as a small one.
fn zigzag(value: i32) -> u64 {
    u64::from((value << 1 ^ value >> 31) as u32)
}

fn unzigzag(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

/// A big string or list as it stands now, to be encoded later: its chunk pointers are cloned.
/// `None` for what cannot be frozen cheaply.
pub(super) fn freeze(object: &Object) -> Option<Object> {
    matches!(object, Object::Blob(_) | Object::List(_)).then(|| object.clone())
}
