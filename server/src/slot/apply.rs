//! `apply`: what each op does to the keys. The same for owner, follower, staging and recovery.
//!
//! Deterministic: no clock, no randomness, no configuration but the collection limits (which
//! choose a form, never a content).

use crate::slot::hold::Hold;
use crate::slot::keys::MARK_RAW;
use crate::slot::op::{End, Key, Op};
use crate::store::blob::Blob;
use crate::store::hash::Hash;
use crate::store::limits::Limits;
use crate::store::list::List;
use crate::store::object::Object;
use crate::store::set::Set;
use crate::store::table::{EntryValue, Expiry, NewValue, Old};
use crate::store::zset::{Added, SortedSet};

/// Strings longer than this are kept in chunks, so that a reader can freeze them and a small
/// change copies one chunk (DESIGN 4).
pub const FLAT_STRING_MAX_BYTES: usize = 64 * 1024;

impl Hold<'_> {
    pub(super) fn apply_op(&mut self, op: Op<'_>) -> usize {
        match op {
            Op::SetString { key, value, expiry } => self.set_string(key, value, expiry),
            Op::SetRange { key, offset, bytes } => self.set_range(key, offset, bytes),
            Op::PutObject { key, object, expiry } => self.put_object(key, object, expiry),
            Op::Delete { key } => self.delete(key),
            Op::Expire { key } => {
                let gone = self.delete(key);
                self.expired += gone as u64;
                gone
            }
            Op::SetExpiry { key, at } => self.set_expiry(key, at),
            Op::Rename { from, to } => self.rename(from, to),
            Op::Flush => self.flush(),
            op => self.apply_collection_op(op),
        }
    }

    fn apply_collection_op(&mut self, op: Op<'_>) -> usize {
        match op {
            Op::HashSet { key, pairs } => self.with_hash(key, |hash, limits| {
                pairs.chunks_exact(2).filter(|p| hash.set(p[0], p[1], limits)).count()
            }),
            Op::HashDelete { key, fields } => {
                self.with_hash(key, |hash, _| fields.iter().filter(|f| hash.remove(f)).count())
            }
            Op::ListPush { key, end, items } => self.with_list(key, |list, limits| {
                for item in items {
                    match end {
                        End::Front => list.push_front(item, limits),
                        End::Back => list.push_back(item, limits),
                    }
                }
                list.len()
            }),
            Op::ListPop { key, end, count } => self.with_list(key, |list, _| {
                let count = count.min(list.len());
                let start = if end == End::Front { 0 } else { list.len() - count };
                list.remove_range(start, count);
                count
            }),
            Op::ListSet { key, index, value } => self.with_list(key, |list, _| {
                list.set(index, value);
                1
            }),
            Op::ListInsert { key, index, value } => self.with_list(key, |list, _| {
                list.insert(index, value);
                list.len()
            }),
            Op::ListRemove { key, start, count } => self.with_list(key, |list, _| {
                let count = count.min(list.len().saturating_sub(start));
                list.remove_range(start, count);
                count
            }),
            Op::ListRemoveEqual { key, from, value, count } => {
                self.with_list(key, |list, _| match from {
                    End::Front => list.remove_equal_from_head(value, count),
                    End::Back => list.remove_equal_from_tail(value, count),
                })
            }
            Op::SetAdd { key, members } => self
                .with_set(key, |set, limits| members.iter().filter(|m| set.add(m, limits)).count()),
            Op::SetRemove { key, members } => {
                self.with_set(key, |set, _| members.iter().filter(|m| set.remove(m)).count())
            }
            Op::ZsetAdd { key, items } => self.with_zset(key, |zset, limits| {
                items.iter().filter(|(s, m)| zset.add(m, *s, limits) == Added::New).count()
            }),
            Op::ZsetRemove { key, members } => {
                self.with_zset(key, |zset, _| members.iter().filter(|m| zset.remove(m)).count())
            }
            Op::ZsetRemoveRanks { key, start, count } => self.with_zset(key, |zset, _| {
                let count = count.min(zset.len().saturating_sub(start));
                zset.remove_rank_range(start, count);
                count
            }),
            _ => unreachable!("apply_op keeps the ops of whole keys"),
        }
    }

    /// A key's value or expiry changed: watchers and waiters hear of it.
    #[inline]
    fn changed(&mut self, key: Key<'_>) {
        if let Some(hall) = self.body.hall.as_mut() {
            hall.changed(key.bytes);
        }
    }

    #[inline]
    fn set_string(&mut self, key: Key<'_>, value: &[u8], expiry: Expiry) -> usize {
        self.note_expiry(&expiry);
        let new = if value.len() <= FLAT_STRING_MAX_BYTES {
            NewValue::Bytes(value)
        } else {
            let object = Box::new(Object::Blob(Blob::from_slice(value)));
            self.body.boxed_bytes += object.bytes();
            NewValue::Boxed(object)
        };
        let keys = &mut self.body.keys;
        let old = keys.table.put_fresh(key.hash, key.bytes, new, expiry, keys.access_clock);
        let absent = matches!(old, Old::Absent);
        self.dispose(old);
        self.changed(key);
        absent as usize
    }

    fn put_object(&mut self, key: Key<'_>, object: Box<Object>, expiry: Expiry) -> usize {
        if object.is_empty() {
            return self.delete(key);
        }
        self.note_expiry(&expiry);
        self.body.boxed_bytes += object.bytes();
        let new = NewValue::Boxed(object);
        let keys = &mut self.body.keys;
        let old = keys.table.put_fresh(key.hash, key.bytes, new, expiry, keys.access_clock);
        let absent = matches!(old, Old::Absent);
        self.dispose(old);
        self.changed(key);
        absent as usize
    }

    fn delete(&mut self, key: Key<'_>) -> usize {
        let old = self.body.keys.table.remove(key.hash, key.bytes);
        if matches!(old, Old::Absent) {
            return 0;
        }
        self.dispose(old);
        self.changed(key);
        1
    }

    /// What was replaced or removed: its bytes leave the sum, its memory is freed after unlock.
    #[inline]
    fn dispose(&mut self, old: Old<Object>) {
        if let Old::Boxed(object) = old {
            self.body.boxed_bytes -= object.bytes();
            self.throw_away(object);
        }
    }

    #[inline]
    fn note_expiry(&mut self, expiry: &Expiry) {
        if let Expiry::At(at) = *expiry
            && at < self.body.next_expiry_ms
        {
            self.body.next_expiry_ms = at;
            if self.is_live() {
                self.rooms.chores().expiry_due(self.slot, at);
            }
        }
    }

    fn set_expiry(&mut self, key: Key<'_>, at: Option<u64>) -> usize {
        if let Some(at) = at {
            self.note_expiry(&Expiry::At(at));
        }
        if !self.body.keys.table.set_expiry(key.hash, key.bytes, at) {
            return 0;
        }
        self.changed(key);
        1
    }

    fn rename(&mut self, from: Key<'_>, to: Key<'_>) -> usize {
        let table = &mut self.body.keys.table;
        let Some(entry) = table.find(from.hash, from.bytes) else { return 0 };
        let expiry = entry.expiry().map_or(Expiry::Never, Expiry::At);
        let (access, marks) = (entry.access(), entry.marks());
        let flat = match entry.value() {
            EntryValue::Bytes(b) => Some(b.to_vec()),
            EntryValue::Boxed(_) => None,
        };
        let moved = table.remove(from.hash, from.bytes);
        let new = match (&flat, moved) {
            (Some(bytes), _) => NewValue::Bytes(bytes),
            (None, Old::Boxed(object)) => NewValue::Boxed(object),
            _ => unreachable!("a value is flat or boxed"),
        };
        let old = table.put_fresh(to.hash, to.bytes, new, expiry, access);
        if let Some(mut entry) = table.find_mut(to.hash, to.bytes) {
            entry.set_marks(marks);
        }
        self.dispose(old);
        // A pass over the slot's expiries may have gone by the new place already.
        self.note_expiry(&expiry);
        self.changed(from);
        self.changed(to);
        1
    }

    fn flush(&mut self) -> usize {
        let count = self.body.keys.table.len();
        let body = &mut *self.body;
        if let Some(hall) = body.hall.as_mut() {
            let table = &body.keys.table;
            hall.touch_where(|k| table.find(Key::new(k).hash, k).is_some());
        }
        let table = std::mem::take(&mut body.keys.table);
        body.boxed_bytes = 0;
        body.next_expiry_ms = u64::MAX;
        if count > 0 {
            self.rooms.chores().free_table(table);
        }
        count
    }

    fn set_range(&mut self, key: Key<'_>, offset: usize, bytes: &[u8]) -> usize {
        let end = offset + bytes.len();
        let table = &mut self.body.keys.table;
        let len = match table.find_mut(key.hash, key.bytes) {
            None => self.set_range_flat(key, Vec::new(), offset, bytes),
            Some(mut entry) => match entry.boxed_mut() {
                Some(Object::Blob(blob)) => {
                    let before = blob.bytes();
                    blob.write_at(offset, bytes);
                    let (after, len) = (blob.bytes(), blob.len());
                    self.body.boxed_bytes = self.body.boxed_bytes + after - before;
                    len
                }
                Some(_) => panic!("SetRange on a key that is no string"),
                None => {
                    let flat = entry.bytes_mut().expect("a value is flat or boxed");
                    if end <= flat.len() {
                        flat[offset..end].copy_from_slice(bytes);
                        let len = flat.len();
                        entry.set_marks(MARK_RAW);
                        len
                    } else {
                        let old = flat.to_vec();
                        self.set_range_flat(key, old, offset, bytes)
                    }
                }
            },
        };
        self.changed(key);
        len
    }

    /// A flat string grows: rewritten whole, or into chunks once it is big.
    fn set_range_flat(
        &mut self,
        key: Key<'_>,
        mut value: Vec<u8>,
        offset: usize,
        bytes: &[u8],
    ) -> usize {
        let end = offset + bytes.len();
        let len = end.max(value.len());
        if len > FLAT_STRING_MAX_BYTES {
            let mut blob = Blob::from_slice(&value);
            blob.write_at(offset, bytes);
            let object = Box::new(Object::Blob(blob));
            self.body.boxed_bytes += object.bytes();
            let new = NewValue::Boxed(object);
            let keys = &mut self.body.keys;
            let clock = keys.access_clock;
            let old = keys.table.put_fresh(key.hash, key.bytes, new, Expiry::Keep, clock);
            self.dispose(old);
            return len;
        }
        value.resize(len, 0);
        value[offset..end].copy_from_slice(bytes);
        let (clock, table) = (self.body.keys.access_clock, &mut self.body.keys.table);
        let new = NewValue::Bytes(&value);
        let old = table.put_fresh(key.hash, key.bytes, new, Expiry::Keep, clock);
        if let Some(mut entry) = table.find_mut(key.hash, key.bytes) {
            entry.set_marks(MARK_RAW);
        }
        self.dispose(old);
        len
    }

    /// Changes the object at `key` in place, making it first if absent and deleting it if it
    /// ends empty; keeps the sum of boxed bytes.
    fn with_object<R>(
        &mut self,
        key: Key<'_>,
        make: impl FnOnce() -> Object,
        change: impl FnOnce(&mut Object, &Limits) -> R,
    ) -> R {
        let limits = self.limits();
        let body = &mut *self.body;
        let (clock, table) = (body.keys.access_clock, &mut body.keys.table);
        if table.find(key.hash, key.bytes).is_none() {
            let object = Box::new(make());
            body.boxed_bytes += object.bytes();
            let new = NewValue::Boxed(object);
            table.put_fresh(key.hash, key.bytes, new, Expiry::Never, clock);
        }
        let mut entry = table.find_mut(key.hash, key.bytes).expect("put just above");
        let object = entry.boxed_mut().expect("a collection op on a key that is a flat string");
        let before = object.bytes();
        let result = change(object, &limits);
        let after = object.bytes();
        let emptied = object.is_empty();
        body.boxed_bytes = body.boxed_bytes + after - before;
        if emptied {
            self.delete(key);
        } else {
            self.changed(key);
        }
        result
    }

    fn with_hash<R>(&mut self, key: Key<'_>, f: impl FnOnce(&mut Hash, &Limits) -> R) -> R {
        self.with_object(
            key,
            || Object::Hash(Hash::new()),
            |object, limits| match object {
                Object::Hash(hash) => f(hash, limits),
                other => panic!("hash op on a {}", other.type_name()),
            },
        )
    }

    fn with_list<R>(&mut self, key: Key<'_>, f: impl FnOnce(&mut List, &Limits) -> R) -> R {
        self.with_object(
            key,
            || Object::List(List::new()),
            |object, limits| match object {
                Object::List(list) => f(list, limits),
                other => panic!("list op on a {}", other.type_name()),
            },
        )
    }

    fn with_set<R>(&mut self, key: Key<'_>, f: impl FnOnce(&mut Set, &Limits) -> R) -> R {
        self.with_object(
            key,
            || Object::Set(Set::new()),
            |object, limits| match object {
                Object::Set(set) => f(set, limits),
                other => panic!("set op on a {}", other.type_name()),
            },
        )
    }

    fn with_zset<R>(&mut self, key: Key<'_>, f: impl FnOnce(&mut SortedSet, &Limits) -> R) -> R {
        self.with_object(
            key,
            || Object::SortedSet(SortedSet::new()),
            |object, limits| match object {
                Object::SortedSet(zset) => f(zset, limits),
                other => panic!("sorted-set op on a {}", other.type_name()),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::slot::{Admit, Patience};
    use crate::testing::{START_MS, TestNode};

    #[test]
    fn a_renamed_key_is_noted_for_expiry_though_a_pass_has_gone_by() {
        let mut node = TestNode::new(&[]);
        node.call(1, &[b"SET", b"{t}a", b"v", b"PX", b"1000"]);
        let admitted = node.node.rooms.admit(slots::slot_of(b"{t}a"), START_MS, Patience::Block);
        let Admit::Served(mut owned) = admitted else { panic!("the slot is served") };
        owned.set_next_expiry_ms(u64::MAX);
        owned.apply(Op::Rename { from: Key::new(b"{t}a"), to: Key::new(b"{t}b") });
        assert_eq!(owned.next_expiry_ms(), START_MS + 1000);
    }

    /// Changes of all types and forms; those that meet a key of another type change nothing.
    /// `K` and `L` become keys, `N` a small number, `V` a text of any length.
    const CHANGES: &str = "SET K V; SETRANGE K N V; SETRANGE K 70000 V; APPEND K V; SETBIT K N 1; \
        BITOP OR K L K; GETDEL K; RPUSH K V N V; LPUSH K N V; LSET K N V; LINSERT K AFTER N V; \
        LREM K 0 N; LREM K -1 V; LTRIM K N -2; LPOP K N; LMOVE K L LEFT RIGHT; HSET K N V V N; \
        HDEL K N; HINCRBY K N N; SADD K N V; SADD K N; SREM K N; SPOP K N; SMOVE K L N; \
        SUNIONSTORE K K L; ZADD K N V N N; ZREM K N; ZPOPMIN K N; ZREMRANGEBYRANK K 1 N; \
        ZUNIONSTORE K 2 K L; RENAME K L; COPY K L REPLACE; EXPIRE K 100; PERSIST K; DEL K";

    #[test]
    fn bytes_go_with_the_last_key() {
        let small =
            ["hash-max-listpack-entries", "set-max-listpack-entries", "set-max-intset-entries"];
        let mut options: Vec<String> = Vec::new();
        for name in small.into_iter().chain(["zset-max-listpack-entries", "list-max-listpack-size"])
        {
            options.extend([format!("--{name}"), "4".to_owned()]);
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut node = TestNode::new(&options);
        let changes: Vec<&str> = CHANGES.split("; ").collect();
        let mut state = 1_u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % bound
        };
        for _ in 0..4_000 {
            let mut words: Vec<Vec<u8>> = Vec::new();
            for word in changes[below(changes.len())].split(' ') {
                words.push(match word {
                    "K" | "L" => format!("{{t}}{}", below(8)).into_bytes(),
                    "N" => below(12).to_string().into_bytes(),
                    "V" => vec![b'v'; [3, 60, 300, 9_000, 70_000][below(5)] + below(3)],
                    word => word.as_bytes().to_vec(),
                });
            }
            node.call(1, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        let bytes = |node: &TestNode| node.node.rooms.totals.bytes.load(Ordering::Relaxed);
        assert!(bytes(&node) > 0);
        for i in 0..8 {
            node.call(1, &[b"DEL", format!("{{t}}{i}").as_bytes()]);
        }
        assert_eq!(bytes(&node), 0);
    }
}
