//! Ops: the deterministic changes of one slot.
//!
//! A handler reads, decides, and says what changes as ops: absolute times, chosen members, new
//! values. Owner, follower, staging and recovery apply the same ops to the same effect (INV-8).
//! An op borrows its bytes; nothing is copied before it reaches the table. What one command,
//! EXEC or script changes is one op group with one index.

use crate::store::object::Object;
use crate::store::table::{Expiry, KeyHash, hash_key};

/// A key with its hash, computed once per request.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The whole key, hash tag included.
    pub bytes: &'a [u8],
    /// `hash_key(bytes)`.
    pub hash: KeyHash,
}

impl<'a> Key<'a> {
    /// Hashes `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: hash_key(bytes) }
    }

    /// A key whose hash is known already; `hash` must be `hash_key(bytes)`.
    #[inline]
    pub fn with_hash(bytes: &'a [u8], hash: KeyHash) -> Key<'a> {
        debug_assert_eq!(hash, hash_key(bytes));
        Key { bytes, hash }
    }
}

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Index 0.
    Front,
    /// The last index.
    Back,
}

/// One change of one key (or, for `Rename`, of two keys of the slot; for `Flush`, of all).
///
/// What `Owned::apply` returns for each is said at the variant. An op on a key of another type
/// than it needs is a broken handler and panics: the type was to be checked under the same lock.
#[derive(Debug)]
pub enum Op<'a> {
    /// Makes the key this string, whatever it was. Returns 1 if the key was absent, else 0.
    SetString {
        /// The key.
        key: Key<'a>,
        /// The whole new value.
        value: &'a [u8],
        /// The expiry afterwards.
        expiry: Expiry,
    },
    /// Overwrites a part of a string from `offset`, zero-filling a gap; creates the key.
    /// The result's encoding is `raw`. Returns the new length.
    SetRange {
        /// The key.
        key: Key<'a>,
        /// Where `bytes` begin.
        offset: usize,
        /// What is written there.
        bytes: &'a [u8],
    },
    /// Makes the key this object, whatever it was (...STORE, COPY, RESTORE). Returns 1 if the
    /// key was absent, else 0. An empty object deletes the key.
    PutObject {
        /// The key.
        key: Key<'a>,
        /// The value, moved in.
        object: Box<Object>,
        /// The expiry afterwards.
        expiry: Expiry,
    },
    /// Removes the key. Returns 1 if it was there.
    Delete {
        /// The key.
        key: Key<'a>,
    },
    /// Removes the key because its time has come: as `Delete`, counted as an expiry.
    Expire {
        /// The key.
        key: Key<'a>,
    },
    /// Sets (unix ms) or removes the expiry. Returns 1 if the key exists.
    SetExpiry {
        /// The key.
        key: Key<'a>,
        /// The new expiry, `None` = never.
        at: Option<u64>,
    },
    /// Moves the value and expiry of `from` to `to`, whatever that was. Returns 1; 0 if `from`
    /// is absent. The only op that moves a value without writing it (DESIGN 5).
    Rename {
        /// The old name.
        from: Key<'a>,
        /// The new name, in the same slot.
        to: Key<'a>,
    },
    /// Sets fields; `pairs` is field, value, field, value... Returns how many were new.
    HashSet {
        /// The key.
        key: Key<'a>,
        /// Fields and values in turn.
        pairs: &'a [&'a [u8]],
    },
    /// Removes fields. Returns how many were there. The last one takes the key with it.
    HashDelete {
        /// The key.
        key: Key<'a>,
        /// The fields.
        fields: &'a [&'a [u8]],
    },
    /// Pushes items one by one at one end. Returns the new length.
    ListPush {
        /// The key.
        key: Key<'a>,
        /// The end.
        end: End,
        /// The items, in the order of the command.
        items: &'a [&'a [u8]],
    },
    /// Drops `count` items at one end. Returns how many went. Emptied = deleted.
    ListPop {
        /// The key.
        key: Key<'a>,
        /// The end.
        end: End,
        /// How many at most.
        count: usize,
    },
    /// Replaces the item at `index`. Returns 1.
    ListSet {
        /// The key.
        key: Key<'a>,
        /// 0-based, inside the list.
        index: usize,
        /// The new item.
        value: &'a [u8],
    },
    /// Inserts before `index` (index = length appends). Returns the new length.
    ListInsert {
        /// The key.
        key: Key<'a>,
        /// 0-based.
        index: usize,
        /// The new item.
        value: &'a [u8],
    },
    /// Removes `count` items from `start`. Returns how many went. Emptied = deleted.
    ListRemove {
        /// The key.
        key: Key<'a>,
        /// 0-based.
        start: usize,
        /// How many.
        count: usize,
    },
    /// Removes up to `count` items equal to `value`, searching from `from`. Returns how many
    /// went. Emptied = deleted.
    ListRemoveEqual {
        /// The key.
        key: Key<'a>,
        /// Where the search begins.
        from: End,
        /// The item.
        value: &'a [u8],
        /// How many at most.
        count: usize,
    },
    /// Adds members. Returns how many were new.
    SetAdd {
        /// The key.
        key: Key<'a>,
        /// The members.
        members: &'a [&'a [u8]],
    },
    /// Removes members. Returns how many were there. Emptied = deleted.
    SetRemove {
        /// The key.
        key: Key<'a>,
        /// The members.
        members: &'a [&'a [u8]],
    },
    /// Sets scores. Returns how many members were new.
    ZsetAdd {
        /// The key.
        key: Key<'a>,
        /// Final scores (never NaN) with their members.
        items: &'a [(f64, &'a [u8])],
    },
    /// Removes members. Returns how many were there. Emptied = deleted.
    ZsetRemove {
        /// The key.
        key: Key<'a>,
        /// The members.
        members: &'a [&'a [u8]],
    },
    /// Removes `count` members from rank `start`. Returns how many went. Emptied = deleted.
    ZsetRemoveRanks {
        /// The key.
        key: Key<'a>,
        /// 0-based rank, ascending.
        start: usize,
        /// How many.
        count: usize,
    },
    /// Removes every key of the slot. Returns how many there were.
    Flush,
}
