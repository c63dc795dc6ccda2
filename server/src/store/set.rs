//! Sets: a sorted array while small and all integers, a pack while small, then a table. Not
//! ordered for callers. The integer form holds 8 bytes a member whatever the numbers are.
//! Invariant: the array is sorted and unique; a set never goes back to a smaller form.

use super::class::size_class;
use super::fields::{Fields, draw_below};
use super::limits::{Encoding, Limits};
use super::number::parse_i64;
use super::pack::Pack;

/// Digits and sign of the longest 64-bit integer.
const INT_TEXT_BYTES_MAX: usize = 20;

/// A set.
#[derive(Clone, Debug)]
pub struct Set {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Ints(Vec<i64>),
    Compact(Pack),
    Table(Fields),
}

/// A member as the set holds it.
#[derive(Copy, Clone, Debug, Eq, Hash, PartialEq)]
pub enum Member<'a> {
    /// Stands for its canonical text.
    Int(i64),
    /// The bytes themselves.
    Bytes(&'a [u8]),
}

impl Member<'_> {
    /// Calls `use_text` with the member's bytes.
    pub fn with<R>(self, use_text: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Member::Int(value) => use_text(itoa::Buffer::new().format(value).as_bytes()),
            Member::Bytes(text) => use_text(text),
        }
    }

    /// A copy of the member's bytes.
    pub fn to_vec(self) -> Vec<u8> {
        self.with(<[u8]>::to_vec)
    }
}

impl Default for Set {
    fn default() -> Self {
        Set::new()
    }
}

impl Set {
    /// An empty set.
    pub const fn new() -> Self {
        Set { form: Form::Ints(Vec::new()) }
    }

    /// A set of these integers, rising and each once.
    pub fn of_rising(ints: Vec<i64>) -> Self {
        debug_assert!(ints.is_sorted_by(|a, b| a < b));
        Set { form: Form::Ints(ints) }
    }

    /// An empty set in the packed form, for `put_back`.
    pub const fn new_compact() -> Self {
        Set { form: Form::Compact(Pack::new()) }
    }

    /// An empty set in the large form, which it keeps.
    pub fn new_table() -> Self {
        Set { form: Form::Table(Fields::default()) }
    }

    /// Adds a member that is not there yet, in the form the set has (not that of integers): a
    /// value that was written down comes back as it was, whatever the limits are now.
    pub fn put_back(&mut self, member: &[u8]) {
        match &mut self.form {
            Form::Ints(_) => unreachable!("integers come back whole, by `of_rising`"),
            Form::Compact(pack) => pack.push_back(member, 0),
            Form::Table(fields) => {
                fields.put(member, b"");
            }
        }
    }

    /// Members.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Ints(ints) => ints.len(),
            Form::Compact(pack) => pack.len(),
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
            Form::Ints(ints) => size_class(ints.capacity() * size_of::<i64>()),
            Form::Compact(pack) => pack.bytes(),
            Form::Table(fields) => fields.bytes(),
        }
    }

    /// `intset`, `listpack` or `hashtable`.
    pub fn encoding(&self) -> Encoding {
        match self.form {
            Form::Ints(_) => Encoding::Intset,
            Form::Compact(_) => Encoding::Listpack,
            Form::Table(_) => Encoding::Hashtable,
        }
    }

    /// Adds a member; true if it is new.
    pub fn add(&mut self, member: &[u8], limits: &Limits) -> bool {
        match &mut self.form {
            Form::Ints(ints) => match parse_i64(member) {
                Some(value) => {
                    let Err(at) = ints.binary_search(&value) else { return false };
                    insert_int(ints, at, value);
                    if ints.len() > limits.set_max_intset {
                        self.widen();
                    }
                    true
                }
                None => self.add_first_text(member, limits),
            },
            Form::Compact(pack) => {
                if pack.find(member, 1).is_some() {
                    return false;
                }
                if pack.len() < limits.set_max_listpack_entries
                    && member.len() <= limits.set_max_listpack_value
                    && pack.has_room_for(member.len())
                {
                    pack.push_back(member, 0);
                    return true;
                }
                self.widen().put(member, b"")
            }
            Form::Table(fields) => fields.put(member, b""),
        }
    }

    /// Removes a member; false if it is not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Ints(ints) => {
                let found = parse_i64(member).and_then(|value| ints.binary_search(&value).ok());
                found.is_some_and(|at| remove_int(ints, at))
            }
            Form::Compact(pack) => {
                let found = pack.find(member, 1);
                found.is_some_and(|at| {
                    pack.remove(at, 1);
                    true
                })
            }
            Form::Table(fields) => fields.remove(member),
        }
    }

    /// Whether `member` is there.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Ints(ints) => {
                parse_i64(member).is_some_and(|value| ints.binary_search(&value).is_ok())
            }
            Form::Compact(pack) => pack.find(member, 1).is_some(),
            Form::Table(fields) => fields.value(member).is_some(),
        }
    }

    /// Whether a member of some set is there: without its text if both are held as integers.
    pub fn contains_member(&self, member: Member<'_>) -> bool {
        match (&self.form, member) {
            (Form::Ints(ints), Member::Int(value)) => ints.binary_search(&value).is_ok(),
            _ => member.with(|text| self.contains(text)),
        }
    }

    /// All members: integers rising, then order of insertion while compact, else hash order.
    pub fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        let (ints, pack, fields) = match &self.form {
            Form::Ints(ints) => (Some(ints.iter()), None, None),
            Form::Compact(pack) => (None, Some(pack.iter()), None),
            Form::Table(fields) => (None, None, Some(fields.iter())),
        };
        let ints = ints.into_iter().flatten().map(|value| Member::Int(*value));
        let pack = pack.into_iter().flatten().map(Member::Bytes);
        let fields = fields.into_iter().flatten().map(|(member, _)| Member::Bytes(member));
        ints.chain(pack).chain(fields)
    }

    /// Visits about `count` members from `cursor` on (0 to begin); returns the next cursor, 0 at
    /// the end. The small forms are visited whole. A member that is there all the time is visited
    /// at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Member<'_>)) -> u64 {
        if let Form::Table(fields) = &self.form {
            return fields.scan(cursor, count, &mut |member, _| visit(Member::Bytes(member)));
        }
        self.iter().for_each(visit);
        0
    }

    /// One member, each with the same chance; none if the set is empty.
    pub fn random(&self, next_random: &mut dyn FnMut() -> u64) -> Option<Member<'_>> {
        match &self.form {
            Form::Ints(ints) => {
                ints.get(draw_below(ints.len(), next_random)).map(|value| Member::Int(*value))
            }
            Form::Compact(pack) => pack.nth(draw_below(pack.len(), next_random)).map(Member::Bytes),
            Form::Table(fields) => fields.random(next_random).map(|pair| Member::Bytes(pair.0)),
        }
    }

    /// Adds the first member that is no integer.
    fn add_first_text(&mut self, member: &[u8], limits: &Limits) -> bool {
        let short = limits.set_max_listpack_value;
        let fits = self.len() < limits.set_max_listpack_entries
            && member.len() <= short
            && (short >= INT_TEXT_BYTES_MAX || self.iter().all(|m| m.with(<[u8]>::len) <= short));
        if !fits {
            return self.widen().put(member, b"");
        }
        let mut pack = Pack::new();
        let entry_bytes = |m: Member<'_>| m.with(|text| Pack::entry_bytes(text.len()));
        let ints_bytes: usize = self.iter().map(entry_bytes).sum();
        pack.reserve(Pack::entry_bytes(member.len()) + ints_bytes);
        self.iter().for_each(|m| m.with(|text| pack.push_back(text, 0)));
        pack.push_back(member, 0);
        self.form = Form::Compact(pack);
        true
    }

    /// Turns to the table for good.
    fn widen(&mut self) -> &mut Fields {
        if !matches!(self.form, Form::Table(_)) {
            let mut fields = Fields::default();
            for m in self.iter() {
                m.with(|text| fields.put(text, b""));
            }
            self.form = Form::Table(fields);
        }
        match &mut self.form {
            Form::Table(fields) => fields,
            _ => unreachable!("the form was just changed"),
        }
    }
}

fn insert_int(ints: &mut Vec<i64>, at: usize, value: i64) {
    if ints.len() == ints.capacity() {
        let bytes = size_class((ints.len() + 1) * size_of::<i64>());
        ints.reserve_exact(bytes / size_of::<i64>() - ints.len());
    }
    ints.insert(at, value);
}

fn remove_int(ints: &mut Vec<i64>, at: usize) -> bool {
    ints.remove(at);
    if ints.len() < ints.capacity() / 4 {
        ints.shrink_to(ints.len() * 2);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn small() -> Limits {
        Limits {
            set_max_intset: 20,
            set_max_listpack_entries: 12,
            set_max_listpack_value: 10,
            ..Limits::default()
        }
    }

    fn member() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            20 => (-20i64..20).prop_map(|i| i.to_string().into_bytes()),
            1 => any::<i64>().prop_map(|i| i.to_string().into_bytes()),
            1 => "[ab]{1,2}".prop_map(String::into_bytes),
            1 => prop_oneof![Just("007"), Just("-0"), Just("+1"), Just(""), Just("01234567890")]
                .prop_map(|text| text.as_bytes().to_vec()),
        ]
    }

    fn check(set: &Set, model: &HashSet<Vec<u8>>) {
        assert_eq!(set.len(), model.len());
        assert_eq!(set.iter().count(), model.len());
        let seen: HashSet<Vec<u8>> = set.iter().map(Member::to_vec).collect();
        assert_eq!(&seen, model);
        assert!(seen.iter().all(|m| set.contains(m)));
        assert!(set.bytes() <= 100 * model.len() + 4096, "{}", set.bytes());
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_across_the_limits(
            changes in prop::collection::vec((member(), prop::bool::weighted(0.7)), 0..120),
            seed in any::<u64>(),
        ) {
            let mut set = Set::new();
            let mut model = HashSet::new();
            let mut state = seed;
            for (member, keep) in changes {
                prop_assert_eq!(set.contains(&member), model.contains(&member));
                if keep {
                    prop_assert_eq!(set.add(&member, &small()), model.insert(member));
                } else {
                    prop_assert_eq!(set.remove(&member), model.remove(&member));
                }
                match set.encoding() {
                    Encoding::Intset => prop_assert!(model.len() <= 20),
                    Encoding::Listpack => prop_assert!(model.len() <= 12),
                    _ => {}
                }
                let drawn = set.random(&mut || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state
                });
                prop_assert_eq!(drawn.is_some(), !model.is_empty());
                prop_assert!(drawn.is_none_or(|m| model.contains(&m.to_vec())));
            }
            check(&set, &model);
            check(&set.clone(), &model);
        }
    }

    #[test]
    fn forms_change_where_redis_changes_them() {
        let limits = small();
        let grown = |texts: &[&str], ints: i64| {
            let mut set = Set::new();
            for i in 0..ints {
                set.add(i.to_string().as_bytes(), &limits);
            }
            for text in texts.iter() {
                set.add(text.as_bytes(), &limits);
            }
            set.encoding()
        };
        assert_eq!(grown(&[], 20), Encoding::Intset);
        assert_eq!(grown(&[], 21), Encoding::Hashtable);
        assert_eq!(grown(&["a"], 11), Encoding::Listpack);
        assert_eq!(grown(&["a"], 12), Encoding::Hashtable);
        assert_eq!(grown(&["a", "b"], 11), Encoding::Hashtable);
        assert_eq!(grown(&["12345678901x"], 1), Encoding::Hashtable);
        assert_eq!(grown(&["12345678901", "a"], 1), Encoding::Hashtable);
    }

    #[test]
    fn a_scan_over_a_shrinking_set_misses_nothing_that_stays() {
        let limits = Limits::default();
        let mut set = Set::new();
        let member = |i: u32| i.to_string().into_bytes();
        for i in 0..20_000 {
            set.add(&member(i), &limits);
        }
        let mut seen = HashSet::new();
        let (mut cursor, mut calls) = (0, 0);
        loop {
            cursor = set.scan(cursor, 10, |m| {
                seen.insert(m.to_vec());
            });
            calls += 1;
            if calls == 300 {
                assert_ne!(cursor, 0);
                (300..20_000).for_each(|i| assert!(set.remove(&member(i))));
            }
            if cursor == 0 {
                break;
            }
        }
        assert!((0..300).all(|i| seen.contains(&member(i))));
    }
}
