//! The keys of one slot as a handler may read them: typed views that hide what has expired.
//!
//! Nothing here changes a key. An expired key that a look-up meets is noted; the owner's guard
//! turns the notes into `Op::Expire` before it unlocks, so handlers stay read-only (DESIGN 4).
//! Followers and stages hide expired keys the same way and delete nothing.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use crate::resp::Reply;
use crate::slot::WrongType;
use crate::slot::op::Key;
use crate::slot::reading::Readers;
use crate::store::blob::Blob;
use crate::store::hash::Hash;
use crate::store::limits::Encoding;
use crate::store::list::List;
use crate::store::object::Object;
use crate::store::set::Set;
use crate::store::table::{Entry, EntryValue, ScanPos, Table};
use crate::store::zset::SortedSet;

/// Entry mark: the string was made by APPEND, SETRANGE or SETBIT, so its encoding is `raw`.
pub(crate) const MARK_RAW: u8 = 1;

/// Longest string that reports `embstr` (Redis's OBJ_ENCODING_EMBSTR_SIZE_LIMIT).
const EMBSTR_MAX_BYTES: usize = 44;

/// Expired keys met in one lock hold.
type Met = Vec<Box<[u8]>>;

/// The keys of one slot. Part of the room's two cache lines: every byte counts.
#[repr(C)]
pub struct Keys {
    pub(crate) table: Table<Object>,
    /// Expired keys met in this lock hold; nearly always none.
    met_expired: Cell<Option<Box<Met>>>,
    /// Wall clock of the lock hold, unix ms: set by `admit`.
    pub(crate) now_ms: u64,
    /// The coarse access clock of this lock hold (seconds, wrapping), for OBJECT IDLETIME.
    pub(crate) access_clock: u16,
    hits: Cell<u16>,
    misses: Cell<u16>,
    /// NO-TOUCH clients leave the access clock alone.
    pub(crate) touch: bool,
    /// Who reads the whole slot just now; it stands here because here is room.
    pub(super) readers: Readers,
}

/// A string value: in one piece, or in chunks when it is big.
#[derive(Clone, Copy)]
pub enum Str<'a> {
    /// In one piece.
    Flat(&'a [u8]),
    /// Chunked.
    Blob(&'a Blob),
}

impl<'a> Str<'a> {
    /// Bytes.
    pub fn len(&self) -> usize {
        match self {
            Str::Flat(b) => b.len(),
            Str::Blob(b) => b.len(),
        }
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes `start..end` (clamped by the caller to the length).
    pub fn range(&self, start: usize, end: usize) -> Cow<'a, [u8]> {
        match self {
            Str::Flat(b) => Cow::Borrowed(&b[start..end]),
            Str::Blob(b) => {
                let mut bytes = Vec::with_capacity(end - start);
                b.read_into(start..end, &mut bytes);
                Cow::Owned(bytes)
            }
        }
    }

    /// All of it; copies when chunked.
    pub fn cow(&self) -> Cow<'a, [u8]> {
        self.range(0, self.len())
    }

    /// The byte at `at`.
    pub fn byte(&self, at: usize) -> Option<u8> {
        match self {
            Str::Flat(b) => b.get(at).copied(),
            Str::Blob(b) => b.byte(at),
        }
    }

    /// Bytes of `range` (inside the string) in pieces, without a copy.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (flat, blob) = match *self {
            Str::Flat(b) => (Some(&b[range]), None),
            Str::Blob(b) => (None, Some(b.slices_in(range))),
        };
        flat.into_iter().chain(blob.into_iter().flatten())
    }

    /// Appends the whole value as a bulk reply.
    #[inline]
    pub fn write_bulk(&self, reply: &mut Reply<'_>) {
        match self {
            Str::Flat(b) => reply.bulk(b),
            Str::Blob(b) => {
                reply.bulk_parts(b.len(), b.slices());
            }
        }
    }
}

/// A value of any type.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A string.
    Str(Str<'a>),
    /// A list.
    List(&'a List),
    /// A hash.
    Hash(&'a Hash),
    /// A set.
    Set(&'a Set),
    /// A sorted set.
    SortedSet(&'a SortedSet),
}

impl<'a> Value<'a> {
    fn of(value: EntryValue<'a, Object>) -> Value<'a> {
        match value {
            EntryValue::Bytes(b) => Value::Str(Str::Flat(b)),
            EntryValue::Boxed(o) => match o {
                Object::Blob(b) => Value::Str(Str::Blob(b)),
                Object::List(l) => Value::List(l),
                Object::Hash(h) => Value::Hash(h),
                Object::Set(s) => Value::Set(s),
                Object::SortedSet(z) => Value::SortedSet(z),
            },
        }
    }

    /// TYPE's word.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Str(_) => "string",
            Value::List(_) => "list",
            Value::Hash(_) => "hash",
            Value::Set(_) => "set",
            Value::SortedSet(_) => "zset",
        }
    }

    /// An owned copy, as `Op::PutObject` takes it; `Err` holds a flat string's bytes.
    pub fn to_object(&self) -> Result<Box<Object>, &'a [u8]> {
        Ok(Box::new(match self {
            Value::Str(Str::Flat(b)) => return Err(b),
            Value::Str(Str::Blob(b)) => Object::Blob((*b).clone()),
            Value::List(l) => Object::List((*l).clone()),
            Value::Hash(h) => Object::Hash((*h).clone()),
            Value::Set(s) => Object::Set((*s).clone()),
            Value::SortedSet(z) => Object::SortedSet((*z).clone()),
        }))
    }
}

/// A live key as found: its value and what is kept beside it.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    entry: Entry<'a, Object>,
}

impl<'a> Found<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        self.entry.key()
    }

    /// The value.
    pub fn value(&self) -> Value<'a> {
        Value::of(self.entry.value())
    }

    /// Unix ms, `None` = never.
    pub fn expiry(&self) -> Option<u64> {
        self.entry.expiry()
    }

    /// Seconds since the last access, up to 65,535 (`clock` = the node's access clock).
    pub fn idle_seconds(&self, clock: u16) -> u16 {
        clock.wrapping_sub(self.entry.access())
    }

    /// Bytes as allocated for the entry and its value.
    pub fn bytes(&self) -> usize {
        let inner = match self.entry.value() {
            EntryValue::Bytes(_) => 0,
            EntryValue::Boxed(o) => o.bytes(),
        };
        self.entry.bytes() + inner
    }

    /// OBJECT ENCODING's answer.
    pub fn encoding(&self) -> Encoding {
        match self.entry.value() {
            EntryValue::Boxed(o) => o.encoding(),
            EntryValue::Bytes(b) if self.entry.marks() & MARK_RAW != 0 => {
                let _ = b;
                Encoding::Raw
            }
            EntryValue::Bytes(b) if crate::store::number::parse_i64(b).is_some() => Encoding::Int,
            EntryValue::Bytes(b) if b.len() <= EMBSTR_MAX_BYTES => Encoding::Embstr,
            EntryValue::Bytes(_) => Encoding::Raw,
        }
    }
}

impl Keys {
    pub(crate) const fn new() -> Keys {
        Keys {
            table: Table::new(),
            met_expired: Cell::new(None),
            now_ms: 0,
            access_clock: 0,
            hits: Cell::new(0),
            misses: Cell::new(0),
            touch: true,
            readers: Readers::NONE,
        }
    }

    /// The wall clock of this lock hold, unix ms.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Keys in the slot, expired ones not yet deleted included (as DBSIZE counts).
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Keys with an expiry.
    pub fn expiring(&self) -> usize {
        self.table.expiring()
    }

    /// No keys at all.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Bytes of the key table itself (entries and buckets, not what boxed values own).
    pub fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Looks a key up without touching its access clock. Expired keys are absent, and noted.
    #[inline]
    pub fn peek(&self, key: Key<'_>) -> Option<Found<'_>> {
        let entry = self.table.find(key.hash, key.bytes)?;
        if let Some(at) = entry.expiry()
            && at <= self.now_ms
        {
            self.note_expired(key.bytes);
            return None;
        }
        Some(Found { entry })
    }

    #[cold]
    fn note_expired(&self, key: &[u8]) {
        /// The latest notes are compared, against a command that names a key many times; a note
        /// too many does no harm.
        const COMPARED: usize = 16;
        let mut met = self.met_expired.take().unwrap_or_default();
        if !met.iter().rev().take(COMPARED).any(|k| &**k == key) {
            met.push(key.into());
        }
        self.met_expired.set(Some(met));
    }

    #[inline]
    pub(crate) fn has_met_expired(&mut self) -> bool {
        self.met_expired.get_mut().is_some()
    }

    pub(crate) fn take_met_expired(&mut self) -> Met {
        self.met_expired.take().map_or_else(Vec::new, |met| *met)
    }

    /// Looks a key up for a command that asks about it but does not use its value: counted as a
    /// hit or miss, without moving the access clock.
    #[inline]
    pub fn look(&self, key: Key<'_>) -> Option<Found<'_>> {
        let found = self.peek(key);
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.set(count.get().wrapping_add(1));
        found
    }

    /// Looks a key up as a command's access (moves its access clock).
    #[inline]
    pub fn find(&self, key: Key<'_>) -> Option<Found<'_>> {
        let found = self.look(key)?;
        if self.touch && found.entry.access() != self.access_clock {
            found.entry.set_access(self.access_clock);
        }
        Some(found)
    }

    /// Look-ups that found a key and that found none since the last call, for INFO.
    #[inline]
    pub fn take_hits(&self) -> (u64, u64) {
        (self.hits.take().into(), self.misses.take().into())
    }

    /// Is there such a key (no access)?
    pub fn exists(&self, key: Key<'_>) -> bool {
        self.peek(key).is_some()
    }

    /// The string at `key`; `Err` if it is of another type.
    #[inline]
    pub fn string(&self, key: Key<'_>) -> Result<Option<Str<'_>>, WrongType> {
        match self.find(key) {
            None => Ok(None),
            Some(f) => match f.value() {
                Value::Str(s) => Ok(Some(s)),
                _ => Err(WrongType),
            },
        }
    }

    /// The list at `key`; `Err` if it is of another type.
    pub fn list(&self, key: Key<'_>) -> Result<Option<&List>, WrongType> {
        match self.find(key).map(|f| f.value()) {
            None => Ok(None),
            Some(Value::List(l)) => Ok(Some(l)),
            Some(_) => Err(WrongType),
        }
    }

    /// The hash at `key`; `Err` if it is of another type.
    pub fn hash(&self, key: Key<'_>) -> Result<Option<&Hash>, WrongType> {
        match self.find(key).map(|f| f.value()) {
            None => Ok(None),
            Some(Value::Hash(h)) => Ok(Some(h)),
            Some(_) => Err(WrongType),
        }
    }

    /// The set at `key`; `Err` if it is of another type.
    pub fn set(&self, key: Key<'_>) -> Result<Option<&Set>, WrongType> {
        match self.find(key).map(|f| f.value()) {
            None => Ok(None),
            Some(Value::Set(s)) => Ok(Some(s)),
            Some(_) => Err(WrongType),
        }
    }

    /// The sorted set at `key`; `Err` if it is of another type.
    pub fn zset(&self, key: Key<'_>) -> Result<Option<&SortedSet>, WrongType> {
        match self.find(key).map(|f| f.value()) {
            None => Ok(None),
            Some(Value::SortedSet(z)) => Ok(Some(z)),
            Some(_) => Err(WrongType),
        }
    }

    /// Visits live keys from a position on, about a bucket a call; the next position, or `None`
    /// at the end. Expired keys are hidden and noted.
    pub fn scan(&self, from: ScanPos, visit: &mut dyn FnMut(Found<'_>)) -> Option<ScanPos> {
        self.table.scan(from, &mut |entry| {
            if entry.expiry().is_some_and(|at| at <= self.now_ms) {
                self.note_expired(entry.key());
            } else {
                visit(Found { entry });
            }
        })
    }

    /// A uniformly chosen live key, if one is found within a bounded number of draws.
    pub fn random(&self, next: &mut dyn FnMut() -> u64) -> Option<Found<'_>> {
        /// Draws before giving up on a slot full of expired keys.
        const DRAWS: usize = 64;
        for _ in 0..DRAWS {
            let entry = self.table.random(next)?;
            if entry.expiry().is_some_and(|at| at <= self.now_ms) {
                self.note_expired(entry.key());
                continue;
            }
            return Some(Found { entry });
        }
        None
    }
}
