//! Hashes: a pack of fields and values while small, then a table. Not a key space: a field has no
//! expiry of its own.
//! Invariant: the compact form is field, value, field, value in order of insertion; a hash never
//! goes back to it.

use super::fields::{Fields, draw_below};
use super::limits::{Encoding, Limits};
use super::pack::Pack;

/// A hash.
#[derive(Clone, Debug)]
pub struct Hash {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Compact(Pack),
    Table(Fields),
}

impl Default for Hash {
    fn default() -> Self {
        Hash::new()
    }
}

impl Hash {
    /// An empty hash.
    pub const fn new() -> Self {
        Hash { form: Form::Compact(Pack::new()) }
    }

    /// An empty hash in the large form, which it keeps.
    pub fn new_table() -> Self {
        Hash { form: Form::Table(Fields::default()) }
    }

    /// Adds a field that is not there yet, in the form the hash has: a value that was written
    /// down comes back as it was, whatever the limits are now.
    pub fn put_back(&mut self, field: &[u8], value: &[u8]) {
        match &mut self.form {
            Form::Compact(pack) => {
                pack.push_back(field, 0);
                pack.push_back(value, 0);
            }
            Form::Table(fields) => {
                fields.put(field, value);
            }
        }
    }

    /// Fields.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Compact(pack) => pack.len() / 2,
            Form::Table(fields) => fields.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the allocations.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Compact(pack) => pack.bytes(),
            Form::Table(fields) => fields.bytes(),
        }
    }

    /// `listpack` or `hashtable`.
    pub fn encoding(&self) -> Encoding {
        match self.form {
            Form::Compact(_) => Encoding::Listpack,
            Form::Table(_) => Encoding::Hashtable,
        }
    }

    /// The value of `field`.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.form {
            Form::Compact(pack) => pack.get(pack.after(pack.find(field, 2)?)),
            Form::Table(fields) => fields.value(field),
        }
    }

    /// Sets `field`; true if it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &Limits) -> bool {
        if let Form::Compact(pack) = &mut self.form {
            let found = pack.find(field, 2);
            if stays_compact(pack, found.is_none(), field, value, limits) {
                match found {
                    Some(at) => pack.replace(pack.after(at), value),
                    None => {
                        pack.push_back(field, 0);
                        pack.push_back(value, 0);
                    }
                }
                return found.is_none();
            }
        }
        self.widen().put(field, value)
    }

    /// Removes `field`; false if it is not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.form {
            Form::Compact(pack) => {
                let Some(at) = pack.find(field, 2) else { return false };
                pack.remove(at, 2);
                true
            }
            Form::Table(fields) => fields.remove(field),
        }
    }

    /// All fields with their values: in order of insertion while compact, else in hash order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (pack, fields) = match &self.form {
            Form::Compact(pack) => (Some(pairs(pack)), None),
            Form::Table(fields) => (None, Some(fields.iter())),
        };
        pack.into_iter().flatten().chain(fields.into_iter().flatten())
    }

    /// Visits about `count` fields from `cursor` on (0 to begin); returns the next cursor, 0 at
    /// the end. The compact form is visited whole. A field that is there all the time is visited
    /// at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], &[u8])) -> u64 {
        match &self.form {
            Form::Compact(pack) => {
                pairs(pack).for_each(|(field, value)| visit(field, value));
                0
            }
            Form::Table(fields) => fields.scan(cursor, count, &mut visit),
        }
    }

    /// One field with its value, each with the same chance; none if the hash is empty.
    pub fn random(&self, next_random: &mut dyn FnMut() -> u64) -> Option<(&[u8], &[u8])> {
        match &self.form {
            Form::Compact(pack) => {
                let at = pack.at(2 * draw_below(pack.len() / 2, next_random));
                let field = pack.get(at)?;
                Some((field, pack.get(pack.after(at))?))
            }
            Form::Table(fields) => fields.random(next_random),
        }
    }

    /// Turns to the table for good.
    fn widen(&mut self) -> &mut Fields {
        if let Form::Compact(pack) = &self.form {
            let mut fields = Fields::default();
            for (field, value) in pairs(pack) {
                fields.put(field, value);
            }
            self.form = Form::Table(fields);
        }
        match &mut self.form {
            Form::Table(fields) => fields,
            Form::Compact(_) => unreachable!("the form was just changed"),
        }
    }
}

fn stays_compact(pack: &Pack, new: bool, field: &[u8], value: &[u8], limits: &Limits) -> bool {
    field.len() <= limits.hash_max_value
        && value.len() <= limits.hash_max_value
        && pack.len() / 2 + usize::from(new) <= limits.hash_max_entries
        && pack.has_room_for(field.len() + value.len())
}

fn pairs(pack: &Pack) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = pack.iter();
    std::iter::from_fn(move || Some((rest.next()?, rest.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn small() -> Limits {
        Limits { hash_max_entries: 20, hash_max_value: 30, ..Limits::default() }
    }

    fn check(hash: &Hash, model: &HashMap<Vec<u8>, Vec<u8>>) {
        assert_eq!(hash.len(), model.len());
        let seen: HashMap<Vec<u8>, Vec<u8>> =
            hash.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
        assert_eq!(&seen, model);
        assert_eq!(hash.iter().count(), model.len());
        let live: usize = model.iter().map(|(f, v)| f.len() + v.len()).sum();
        assert!(hash.bytes() >= live);
        assert!(hash.bytes() <= 4 * live + 64 * model.len() + 4096, "{} {live}", hash.bytes());
    }

    proptest! {
        #[test]
        fn behaves_as_a_map_across_the_limits(
            changes in prop::collection::vec(
                (0u16..60, prop_oneof![9 => 0usize..10, 1 => 25usize..35], any::<bool>()), 0..200),
            seed in any::<u64>(),
        ) {
            let mut hash = Hash::new();
            let mut model = HashMap::new();
            let (mut was_large, mut state) = (false, seed);
            for (number, len, keep) in changes {
                let field = format!("f{number}").into_bytes();
                if keep {
                    let value = vec![b'v'; len];
                    let new = hash.set(&field, &value, &small());
                    prop_assert_eq!(new, model.insert(field, value).is_none());
                    was_large |= model.len() > 20 || len > 30;
                } else {
                    prop_assert_eq!(hash.remove(&field), model.remove(&field).is_some());
                    prop_assert_eq!(hash.get(&field), None);
                }
                let form = if was_large { Encoding::Hashtable } else { Encoding::Listpack };
                prop_assert_eq!(hash.encoding(), form);
                let drawn = hash.random(&mut || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state
                });
                prop_assert_eq!(drawn.is_some(), !model.is_empty());
                if let Some((field, value)) = drawn {
                    prop_assert_eq!(model.get(field).map(|v| &v[..]), Some(value));
                    prop_assert_eq!(hash.get(field), Some(value));
                }
            }
            check(&hash, &model);
            check(&hash.clone(), &model);
        }
    }

    #[test]
    fn a_scan_over_a_shrinking_hash_misses_nothing_that_stays() {
        let limits = Limits::default();
        let mut hash = Hash::new();
        let field = |i: u32| format!("field:{i}").into_bytes();
        for i in 0..20_000 {
            hash.set(&field(i), b"v", &limits);
        }
        let mut seen = HashSet::new();
        let (mut cursor, mut calls) = (0, 0);
        loop {
            cursor = hash.scan(cursor, 10, |f, _| {
                seen.insert(f.to_vec());
            });
            calls += 1;
            if calls == 300 {
                assert_ne!(cursor, 0);
                (300..20_000).for_each(|i| assert!(hash.remove(&field(i))));
            }
            if cursor == 0 {
                break;
            }
        }
        assert!((0..300).all(|i| seen.contains(&field(i))));
        assert!(calls < 3000);
    }
}
