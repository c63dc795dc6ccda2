//! Random members of a collection, for HRANDFIELD, SRANDMEMBER and SPOP.
//!
//! Two draws: `repeated` (a negative count) may give a member more than once and is bounded by
//! limits of ours; `distinct` (a positive count) gives each at most once and is bounded by the
//! collection. Nothing is copied: members are handed on as they lie in the collection.
//!
//! Invariant: every member (`repeated`) and every subset of the asked size (`distinct`) has the
//! same chance.

use std::collections::HashSet;

use crate::command::{CommandError, Outcome, Rng};
use crate::resp::Reply;
use crate::store::hash::Hash;
use crate::store::limits::Encoding;
use crate::store::set::{Member, Set};

/// Most elements of a reply that repeats members: a fraction of a second under the slot's lock.
/// A few bytes of request could ask for any number of them.
pub const REPEATED_ELEMENTS_MAX: u64 = 4 * 1024 * 1024;
/// Most bytes of such a reply: what a client with a normal output limit may be owed anyway.
pub const REPEATED_REPLY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Below one wanted member in this many, drawing until enough are distinct beats a walk.
const SPARSE_RATIO: usize = 3;

/// A collection to draw from.
pub trait Pool: Copy {
    /// A member with what belongs to it.
    type Item: Copy;

    /// How many members.
    fn size(self) -> usize;
    /// All of them.
    fn items(self) -> impl Iterator<Item = Self::Item>;
    /// One of them; none if there are none.
    fn random(self, rng: &mut Rng) -> Option<Self::Item>;
    /// Does one draw take constant time, unlike in a pack?
    fn draws_fast(self) -> bool;
    /// What tells two members of the pool apart.
    fn identity<'i>(item: Self::Item) -> Member<'i>
    where
        Self: 'i;
}

impl<'a> Pool for &'a Set {
    type Item = Member<'a>;

    fn size(self) -> usize {
        self.len()
    }
    fn items(self) -> impl Iterator<Item = Member<'a>> {
        self.iter()
    }
    fn random(self, rng: &mut Rng) -> Option<Member<'a>> {
        Set::random(self, &mut || rng.next_u64())
    }
    fn draws_fast(self) -> bool {
        self.encoding() != Encoding::Listpack
    }
    fn identity<'i>(item: Member<'a>) -> Member<'i>
    where
        Self: 'i,
    {
        item
    }
}

impl<'a> Pool for &'a Hash {
    type Item = (&'a [u8], &'a [u8]);

    fn size(self) -> usize {
        self.len()
    }
    fn items(self) -> impl Iterator<Item = Self::Item> {
        self.iter()
    }
    fn random(self, rng: &mut Rng) -> Option<Self::Item> {
        Hash::random(self, &mut || rng.next_u64())
    }
    fn draws_fast(self) -> bool {
        self.encoding() != Encoding::Listpack
    }
    fn identity<'i>(item: Self::Item) -> Member<'i>
    where
        Self: 'i,
    {
        Member::Bytes(item.0)
    }
}

/// Refuses a reply of more than `REPEATED_ELEMENTS_MAX` elements before anything is written.
pub fn check_repeated(elements: u64) -> Outcome {
    if elements > REPEATED_ELEMENTS_MAX {
        return Err(CommandError::err(format_args!(
            "value is out of range, the reply would exceed {REPEATED_ELEMENTS_MAX} elements"
        )));
    }
    Ok(())
}

/// Writes `count` draws, each from the whole pool (not empty). Errors once the reply has grown
/// by more than `REPEATED_REPLY_BYTES_MAX`; the caller cuts it back.
pub fn repeated<P: Pool>(
    pool: P,
    count: u64,
    rng: &mut Rng,
    reply: &mut Reply<'_>,
    write: impl FnMut(&mut Reply<'_>, P::Item),
) -> Outcome {
    repeated_within(REPEATED_REPLY_BYTES_MAX, pool, count, rng, reply, write)
}

fn repeated_within<P: Pool>(
    bytes_max: usize,
    pool: P,
    count: u64,
    rng: &mut Rng,
    reply: &mut Reply<'_>,
    mut write: impl FnMut(&mut Reply<'_>, P::Item),
) -> Outcome {
    let start = reply.out.len();
    // In a pack every draw is a walk: one walk serves them all.
    let listed: Option<Vec<P::Item>> =
        (!pool.draws_fast() && count > 1).then(|| pool.items().collect());
    for _ in 0..count {
        let item = match &listed {
            Some(items) => Some(items[rng.below(items.len())]),
            None => pool.random(rng),
        };
        let Some(item) = item else { break };
        write(reply, item);
        if reply.out.len() - start > bytes_max {
            return Err(CommandError::err(format_args!(
                "value is out of range, the reply would exceed {bytes_max} bytes"
            )));
        }
    }
    Ok(())
}

/// Visits `count` different members, or all if there are no more than that.
pub fn distinct<P: Pool>(pool: P, count: usize, rng: &mut Rng, mut visit: impl FnMut(P::Item)) {
    let size = pool.size();
    if count >= size {
        return pool.items().for_each(visit);
    }
    if pool.draws_fast() && count <= size / SPARSE_RATIO {
        return sparse(pool, count, rng, visit);
    }
    // Selection sampling (Knuth, TAOCP 2, 3.4.2 S): take each with the chance that fills up the
    // sample from those left.
    let mut wanted = count;
    for (passed, item) in pool.items().enumerate() {
        if wanted == 0 {
            break;
        }
        if rng.below(size - passed) < wanted {
            wanted -= 1;
            visit(item);
        }
    }
}

/// Draws until `count` different members have come: fewer than 1.5 draws for each while at most
/// a third of the pool is wanted.
fn sparse<P: Pool>(pool: P, count: usize, rng: &mut Rng, mut visit: impl FnMut(P::Item)) {
    let mut seen = HashSet::with_capacity(count);
    while seen.len() < count {
        let Some(item) = pool.random(rng) else { return };
        if seen.insert(P::identity(item)) {
            visit(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::resp::Proto;
    use crate::store::limits::Limits;

    /// The three forms of a set with `size` members.
    fn forms(size: usize) -> Vec<Set> {
        let large = Limits { set_max_listpack_entries: 0, ..Limits::default() };
        let make = |limits: &Limits, prefix: &str| {
            let mut set = Set::new();
            for i in 0..size {
                set.add(format!("{prefix}{i}").as_bytes(), limits);
            }
            set
        };
        let forms = vec![make(&large, ""), make(&Limits::default(), "m"), make(&large, "m")];
        let encodings: Vec<_> = forms.iter().map(Set::encoding).collect();
        assert_eq!(encodings, [Encoding::Intset, Encoding::Listpack, Encoding::Hashtable]);
        forms
    }

    /// Each count is within five standard deviations of an even share.
    #[track_caller]
    fn check_even(hits: &HashMap<Vec<u8>, u32>, size: usize, draws: f64) {
        assert_eq!(hits.len(), size);
        let chance = 1.0 / size as f64;
        let spread = 5.0 * (draws * chance * (1.0 - chance)).sqrt();
        for (member, &hits) in hits {
            let off = (f64::from(hits) - draws * chance).abs();
            assert!(off < spread, "{member:?}: {hits} of {draws} draws");
        }
    }

    #[test]
    fn distinct_draws_are_distinct_and_even_for_every_form_and_count() {
        let mut rng = Rng::seeded(11);
        for set in forms(10) {
            for count in [1, 2, 3, 5, 9] {
                let mut hits = HashMap::new();
                const ROUNDS: usize = 4000;
                for _ in 0..ROUNDS {
                    let mut drawn = HashSet::new();
                    distinct(&set, count, &mut rng, |m| {
                        assert!(drawn.insert(m.to_vec()));
                        *hits.entry(m.to_vec()).or_insert(0) += 1;
                    });
                    assert_eq!(drawn.len(), count);
                }
                check_even(&hits, 10, (ROUNDS * count) as f64);
            }
        }
    }

    #[test]
    fn a_count_of_all_or_more_gives_all() {
        let mut rng = Rng::seeded(12);
        for set in forms(10) {
            for count in [10, 11, usize::MAX] {
                let mut drawn = HashSet::new();
                distinct(&set, count, &mut rng, |m| assert!(drawn.insert(m.to_vec())));
                assert_eq!(drawn.len(), 10);
            }
        }
    }

    #[test]
    fn repeated_draws_are_even_for_every_form() {
        let mut rng = Rng::seeded(13);
        for set in forms(10) {
            let mut hits = HashMap::new();
            let mut out = Vec::new();
            let mut reply = Reply::new(&mut out, Proto::Resp2);
            repeated(&set, 40_000, &mut rng, &mut reply, |_, m| {
                *hits.entry(m.to_vec()).or_insert(0) += 1;
            })
            .expect("nothing is written");
            check_even(&hits, 10, 40_000.0);
        }
    }

    #[test]
    fn a_repeated_reply_stops_at_its_limit_of_bytes() {
        let mut rng = Rng::seeded(14);
        let mut hash = Hash::new();
        hash.set(b"f", &[b'v'; 1000], &Limits::default());
        let mut out = b"before".to_vec();
        let mut reply = Reply::new(&mut out, Proto::Resp2);
        let write = |reply: &mut Reply<'_>, (_, value): (&[u8], &[u8])| reply.bulk(value);
        let result = repeated_within(10_000, &hash, 1_000_000, &mut rng, &mut reply, write);
        assert!(result.is_err());
        assert!((10_000..12_000).contains(&out.len()), "{}", out.len());
    }
}
