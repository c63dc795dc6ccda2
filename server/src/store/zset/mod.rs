//! Sorted sets: a pack in order while small, then a table of scores and a counted tree. Not
//! reply texts: scores stay doubles, -0 as it came.
//! Invariant: table and tree hold the same members with the same scores; the compact form is
//! sorted as the tree is; a sorted set never goes back to it.

mod member;
mod node;
mod tree;

use std::cmp::Ordering;
use std::iter::Rev;
use std::ops::Bound;

use super::fields::{Fields, draw_below};
use super::limits::{Encoding, Limits};
use super::pack::{At, Pack, PackIter};
use tree::{Ascend, Descend, Tree, compare};

/// Bytes of a score in front of its member in the pack, and as a table's value: little-endian.
const SCORE_BYTES: usize = size_of::<f64>();

/// A sorted set.
#[derive(Clone, Debug)]
pub struct SortedSet {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Each entry is a score and its member.
    Compact(Pack),
    Large(Box<Large>),
}

#[derive(Clone, Debug)]
struct Large {
    scores: Fields,
    order: Tree,
}

/// What `add` did.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Added {
    /// The member is new.
    New,
    /// The member had another score.
    Updated,
    /// The member had this score; -0 and 0 are one, and the old one stays.
    Same,
}

impl Default for SortedSet {
    fn default() -> Self {
        SortedSet::new()
    }
}

impl SortedSet {
    /// An empty sorted set.
    pub const fn new() -> Self {
        SortedSet { form: Form::Compact(Pack::new()) }
    }

    /// An empty sorted set in the large form, which it keeps.
    pub fn new_large() -> Self {
        let large = Large { scores: Fields::default(), order: Tree::new() };
        SortedSet { form: Form::Large(Box::new(large)) }
    }

    /// Adds a member that comes after all others, in the form the set has: a value that was
    /// written down comes back as it was, whatever the limits are now. False, and nothing is
    /// done, if it does not come after the last.
    pub fn put_back(&mut self, member: &[u8], score: f64) -> bool {
        let last = self.iter_rev_from(self.len().saturating_sub(1)).next();
        if last.is_some_and(|(m, s)| compare(s, m, score, member) != Ordering::Less) {
            return false;
        }
        match &mut self.form {
            Form::Compact(pack) => {
                pack.push_back(&entry_of(member, score), 0);
                true
            }
            Form::Large(large) => large.add(member, score) == Added::New,
        }
    }

    /// Members.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Compact(pack) => pack.len(),
            Form::Large(large) => large.order.len(),
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
            Form::Large(large) => size_of::<Large>() + large.scores.bytes() + large.order.bytes(),
        }
    }

    /// `listpack` or `skiplist`.
    pub fn encoding(&self) -> Encoding {
        match self.form {
            Form::Compact(_) => Encoding::Listpack,
            Form::Large(_) => Encoding::Skiplist,
        }
    }

    /// Gives `member` a score, which is not NaN.
    pub fn add(&mut self, member: &[u8], score: f64, limits: &Limits) -> Added {
        assert!(!score.is_nan(), "commands refuse scores that are not numbers");
        match &mut self.form {
            Form::Large(large) => large.add(member, score),
            Form::Compact(pack) => {
                let found = find(pack, member);
                match found.and_then(|at| pack.get(at)).map(|entry| parts(entry).1) {
                    Some(old) if old == score => return Added::Same,
                    None if !stays_compact(pack, member, limits) => {
                        return self.widen().add(member, score);
                    }
                    _ => {}
                }
                if let Some(at) = found {
                    pack.remove(at, 1);
                }
                insert(pack, member, score);
                if found.is_some() { Added::Updated } else { Added::New }
            }
        }
    }

    /// Removes a member; false if it is not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Compact(pack) => {
                let Some(at) = find(pack, member) else { return false };
                pack.remove(at, 1);
                true
            }
            Form::Large(large) => large.remove(member),
        }
    }

    /// Removes up to `count` members from `start` on; returns how many there were.
    pub fn remove_rank_range(&mut self, start: usize, count: usize) -> usize {
        let count = count.min(self.len().saturating_sub(start));
        match &mut self.form {
            Form::Compact(pack) => pack.remove(pack.at(start), count),
            Form::Large(large) => (0..count).for_each(|_| large.remove_at(start)),
        }
        count
    }

    /// The score of `member`.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.form {
            Form::Compact(pack) => Some(parts(pack.get(find(pack, member)?)?).1),
            Form::Large(large) => large.score(member),
        }
    }

    /// How many members come before `member`; none if it is not there.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        match &self.form {
            Form::Compact(pack) => pack.iter().position(|entry| parts(entry).0 == member),
            Form::Large(large) => {
                let score = large.score(member)?;
                Some(large.order.rank_where(|s, m| compare(s, m, score, member).is_lt()))
            }
        }
    }

    /// The rank of the first member inside a range of scores that begins with `low`; `len` if all
    /// lie below.
    pub fn first_by_score(&self, low: Bound<f64>) -> usize {
        self.rank_where(|score, _| match low {
            Bound::Included(low) => score < low,
            Bound::Excluded(low) => score <= low,
            Bound::Unbounded => false,
        })
    }

    /// The rank just past the last member inside a range of scores that ends with `high`.
    pub fn end_by_score(&self, high: Bound<f64>) -> usize {
        self.rank_where(|score, _| match high {
            Bound::Included(high) => score <= high,
            Bound::Excluded(high) => score < high,
            Bound::Unbounded => true,
        })
    }

    /// The rank of the first member inside a range of members that begins with `low`. All scores
    /// must be the same, as the BYLEX commands ask; else the answer is some rank.
    pub fn first_by_lex(&self, low: Bound<&[u8]>) -> usize {
        self.rank_where(|_, member| match low {
            Bound::Included(low) => member < low,
            Bound::Excluded(low) => member <= low,
            Bound::Unbounded => false,
        })
    }

    /// The rank just past the last member inside a range of members that ends with `high`; scores
    /// as for `first_by_lex`.
    pub fn end_by_lex(&self, high: Bound<&[u8]>) -> usize {
        self.rank_where(|_, member| match high {
            Bound::Included(high) => member <= high,
            Bound::Excluded(high) => member < high,
            Bound::Unbounded => true,
        })
    }

    /// All members in order.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// From the member at `rank` up; nothing if there is no such member.
    pub fn iter_from(&self, rank: usize) -> Iter<'_> {
        Iter(match &self.form {
            Form::Compact(pack) => {
                let rank = rank.min(pack.len());
                Walk::Compact(pack.iter_from(pack.at(rank), rank))
            }
            Form::Large(large) => Walk::Large(large.order.iter_from(rank)),
        })
    }

    /// From the member at `rank` down; nothing if there is no such member.
    pub fn iter_rev_from(&self, rank: usize) -> IterRev<'_> {
        IterRev(match &self.form {
            Form::Compact(pack) => {
                let end = if rank < pack.len() { rank + 1 } else { 0 };
                Walk::Compact(pack.iter_before(pack.at(end), end).rev())
            }
            Form::Large(large) => Walk::Large(large.order.iter_rev_from(rank)),
        })
    }

    /// Visits about `count` members from `cursor` on (0 to begin), in no order of scores; returns
    /// the next cursor, 0 at the end. The compact form is visited whole. A member that is there
    /// all the time is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], f64)) -> u64 {
        match &self.form {
            Form::Compact(pack) => {
                pack.iter().map(parts).for_each(|(member, score)| visit(member, score));
                0
            }
            Form::Large(large) => {
                large.scores.scan(cursor, count, &mut |member, value| visit(member, decode(value)))
            }
        }
    }

    /// One member with its score, each with the same chance; none if the set is empty.
    pub fn random(&self, next_random: &mut dyn FnMut() -> u64) -> Option<(&[u8], f64)> {
        self.iter_from(draw_below(self.len(), next_random)).next()
    }

    fn rank_where(&self, before: impl Fn(f64, &[u8]) -> bool) -> usize {
        match &self.form {
            Form::Compact(pack) => {
                let is_before = |(member, score): &(&[u8], f64)| before(*score, member);
                pack.iter().map(parts).take_while(is_before).count()
            }
            Form::Large(large) => large.order.rank_where(before),
        }
    }

    /// Turns to table and tree for good.
    fn widen(&mut self) -> &mut Large {
        if let Form::Compact(pack) = &self.form {
            let mut large = Large { scores: Fields::default(), order: Tree::new() };
            for (member, score) in pack.iter().map(parts) {
                large.add(member, score);
            }
            self.form = Form::Large(Box::new(large));
        }
        match &mut self.form {
            Form::Large(large) => large,
            Form::Compact(_) => unreachable!("the form was just changed"),
        }
    }
}

impl Large {
    fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.value(member).map(decode)
    }

    fn add(&mut self, member: &[u8], score: f64) -> Added {
        let old = self.score(member);
        if old == Some(score) {
            return Added::Same;
        }
        if let Some(old) = old {
            self.order.remove(old, member);
        }
        self.scores.put(member, &score.to_le_bytes());
        self.order.insert(score, member);
        if old.is_some() { Added::Updated } else { Added::New }
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.score(member) else { return false };
        self.order.remove(score, member);
        self.scores.remove(member)
    }

    fn remove_at(&mut self, rank: usize) {
        let gone = self.order.remove_at(rank);
        let was_there = self.scores.remove(gone.member.as_slice());
        assert!(was_there, "index and tree hold the same members");
    }
}

/// Members from one up.
#[derive(Clone, Debug)]
pub struct Iter<'a>(Walk<PackIter<'a>, Ascend<'a>>);

/// Members from one down.
#[derive(Clone, Debug)]
pub struct IterRev<'a>(Walk<Rev<PackIter<'a>>, Descend<'a>>);

#[derive(Clone, Debug)]
enum Walk<C, L> {
    Compact(C),
    Large(L),
}

impl<'a, C, L> Walk<C, L>
where
    C: Iterator<Item = &'a [u8]>,
    L: Iterator<Item = (&'a [u8], f64)>,
{
    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        match self {
            Walk::Compact(entries) => entries.next().map(parts),
            Walk::Large(entries) => entries.next(),
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<'a> Iterator for IterRev<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

fn stays_compact(pack: &Pack, member: &[u8], limits: &Limits) -> bool {
    pack.len() < limits.zset_max_entries
        && member.len() <= limits.zset_max_value
        && pack.has_room_for(SCORE_BYTES + member.len())
}

fn find(pack: &Pack, member: &[u8]) -> Option<At> {
    pack.position(pack.at(0), 1, |entry| parts(entry).0 == member)
}

fn insert(pack: &mut Pack, member: &[u8], score: f64) {
    let comes_after = |entry: &[u8]| {
        let (other, other_score) = parts(entry);
        compare(other_score, other, score, member) == Ordering::Greater
    };
    let at = pack.position(pack.at(0), 1, comes_after).unwrap_or(pack.at(pack.len()));
    pack.insert(at, &entry_of(member, score), 0);
}

fn entry_of(member: &[u8], score: f64) -> Vec<u8> {
    let mut entry = Vec::with_capacity(SCORE_BYTES + member.len());
    entry.extend_from_slice(&score.to_le_bytes());
    entry.extend_from_slice(member);
    entry
}

/// Member and score of an entry of the pack.
#[inline]
fn parts(entry: &[u8]) -> (&[u8], f64) {
    let (score, member) = entry.split_at(SCORE_BYTES);
    (member, decode(score))
}

#[inline]
fn decode(score: &[u8]) -> f64 {
    f64::from_le_bytes(score.try_into().expect("scores are written with 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn small() -> Limits {
        Limits { zset_max_entries: 16, zset_max_value: 8, ..Limits::default() }
    }

    type Model = HashMap<Vec<u8>, f64>;

    fn sorted(model: &Model) -> Vec<(&[u8], f64)> {
        let mut all: Vec<_> = model.iter().map(|(m, s)| (&m[..], *s)).collect();
        all.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then(a.0.cmp(b.0)));
        all
    }

    fn check(set: &SortedSet, model: &Model, low: f64, probe: usize) {
        let all = sorted(model);
        assert_eq!(set.len(), all.len());
        assert!(set.iter().eq(all.iter().copied()));
        let bits = set.iter().map(|(_, s)| s.to_bits());
        assert!(bits.eq(all.iter().map(|(_, s)| s.to_bits())));
        for (rank, (member, score)) in all.iter().enumerate() {
            assert_eq!(set.rank(member), Some(rank));
            assert_eq!(set.score(member), Some(*score));
        }
        let count = |inside: &dyn Fn(f64) -> bool| all.iter().filter(|e| inside(e.1)).count();
        assert_eq!(set.first_by_score(Bound::Included(low)), count(&|s| s < low));
        assert_eq!(set.first_by_score(Bound::Excluded(low)), count(&|s| s <= low));
        assert_eq!(set.end_by_score(Bound::Included(low)), count(&|s| s <= low));
        assert_eq!(set.end_by_score(Bound::Excluded(low)), count(&|s| s < low));
        assert_eq!(set.first_by_score(Bound::Unbounded), 0);
        assert_eq!(set.end_by_score(Bound::Unbounded), all.len());
        let probe = probe % (all.len() + 1);
        assert!(set.iter_from(probe).eq(all[probe..].iter().copied()));
        let down = if probe < all.len() { &all[..=probe] } else { &[] };
        assert!(set.iter_rev_from(probe).eq(down.iter().rev().copied()));
        assert!(set.bytes() <= 250 * all.len() + 8192, "{} {}", set.bytes(), all.len());
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map_across_the_limits(
            changes in prop::collection::vec((0u16..120, -3i8..4, 0u8..20), 0..250),
            probe in any::<usize>(),
        ) {
            let mut set = SortedSet::new();
            let mut model = Model::new();
            for (number, score, what) in changes {
                let member = format!("m{number}").into_bytes();
                let score = if score == 3 { -0.0 } else { f64::from(score) };
                match what {
                    0..=2 => {
                        prop_assert_eq!(set.remove(&member), model.remove(&member).is_some());
                        prop_assert_eq!(set.score(&member), None);
                        prop_assert_eq!(set.rank(&member), None);
                    }
                    3 => {
                        let start = probe % (model.len() + 2);
                        let all = sorted(&model);
                        let gone: Vec<Vec<u8>> =
                            all.iter().skip(start).take(3).map(|e| e.0.to_vec()).collect();
                        prop_assert_eq!(set.remove_rank_range(start, 3), gone.len());
                        for m in gone.iter() {
                            model.remove(m);
                        }
                    }
                    _ => {
                        let added = set.add(&member, score, &small());
                        let expected = match model.get(&member) {
                            None => Added::New,
                            Some(old) if *old == score => Added::Same,
                            Some(_) => Added::Updated,
                        };
                        prop_assert_eq!(added, expected);
                        if added != Added::Same {
                            model.insert(member, score);
                        }
                    }
                }
                prop_assert!(model.len() <= 16 || set.encoding() == Encoding::Skiplist);
            }
            check(&set, &model, 1.0, probe);
            check(&set.clone(), &model, -0.0, probe);
        }

        #[test]
        fn lex_bounds_count_members(
            members in prop::collection::hash_set("[ab]{0,6}", 0..80),
            bound in "[ab]{0,6}",
        ) {
            let mut set = SortedSet::new();
            for m in members.iter() {
                set.add(m.as_bytes(), 7.0, &small());
            }
            let below = members.iter().filter(|m| **m < bound).count();
            let up_to = members.iter().filter(|m| **m <= bound).count();
            let bound = bound.as_bytes();
            prop_assert_eq!(set.first_by_lex(Bound::Included(bound)), below);
            prop_assert_eq!(set.first_by_lex(Bound::Excluded(bound)), up_to);
            prop_assert_eq!(set.end_by_lex(Bound::Included(bound)), up_to);
            prop_assert_eq!(set.end_by_lex(Bound::Excluded(bound)), below);
            prop_assert_eq!(set.end_by_lex(Bound::Unbounded), members.len());
        }
    }

    #[test]
    fn infinities_have_ends() {
        for limits in [Limits::default(), Limits { zset_max_entries: 0, ..Limits::default() }] {
            let mut set = SortedSet::new();
            for (member, score) in [("a", f64::INFINITY), ("b", f64::NEG_INFINITY), ("c", 1.0)] {
                set.add(member.as_bytes(), score, &limits);
            }
            let members: Vec<&[u8]> = set.iter().map(|(m, _)| m).collect();
            assert_eq!(members, [b"b", b"c", b"a"]);
            assert_eq!(set.first_by_score(Bound::Excluded(f64::NEG_INFINITY)), 1);
            assert_eq!(set.end_by_score(Bound::Excluded(f64::INFINITY)), 2);
        }
    }

    #[test]
    fn a_scan_over_a_shrinking_sorted_set_misses_nothing_that_stays() {
        let limits = Limits::default();
        let mut set = SortedSet::new();
        let member = |i: u32| format!("member:{i}").into_bytes();
        for i in 0..20_000 {
            set.add(&member(i), f64::from(i), &limits);
        }
        let mut seen = HashSet::new();
        let (mut cursor, mut calls) = (0, 0);
        loop {
            cursor = set.scan(cursor, 10, |m, _| {
                seen.insert(m.to_vec());
            });
            calls += 1;
            if calls == 300 {
                assert_ne!(cursor, 0);
                assert_eq!(set.remove_rank_range(300, 20_000), 19_700);
            }
            if cursor == 0 {
                break;
            }
        }
        assert!((0..300).all(|i| seen.contains(&member(i))));
    }
}
