//! Grants to serve reads, as their holder keeps them (PROTOCOL 5).
//!
//! Not the giving of them (R10) and not the clock: `now` is CLOCK_BOOTTIME, passed in.
//!
//! Invariant: a grant is used only before it has run out by the holder's count, which began when
//! the holder *sent* the frame it answers, and only from the table version it was given at.

use std::collections::BTreeMap;
use std::time::Duration;

/// Most grants kept per giver: one of 1.5 s renewed each 300 ms leaves five that run at a time.
pub const MAX_GRANTS_PER_GIVER: usize = 8;

/// Whether reads may be answered from memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usable<N> {
    /// Every counted node granted it.
    Yes,
    /// This one did not, or not any more: the read needs a round trip.
    MissingFrom(N),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Grant {
    /// The table version its giver had applied.
    version: u64,
    /// Time since boot at which it is used no more.
    runs_out: Duration,
}

/// The grants a node holds, by their givers.
///
/// ```text
///   renew ──▶ held ── own table reaches its version ──▶ usable ── runs_out ──▶ gone
///                └──────────── runs_out ───────────────────────────────────────▲
/// ```
/// A newer grant does not end an older one: while the table has not reached the newer's version,
/// the older serves.
#[derive(Clone, Debug)]
pub struct Grants<N> {
    /// Per giver, by version and by end at once, both rising: a grant that begins no earlier and
    /// ends no later than another is of no use.
    held: BTreeMap<N, Vec<Grant>>,
}

impl<N> Default for Grants<N> {
    fn default() -> Grants<N> {
        Grants { held: BTreeMap::new() }
    }
}

impl<N: Copy + Ord> Grants<N> {
    /// None held.
    pub fn new() -> Grants<N> {
        Grants::default()
    }

    /// `giver`, with table `version`, granted reads for `length`, in answer to a frame sent at
    /// `sent_at` (time since boot).
    pub fn renew(&mut self, giver: N, version: u64, sent_at: Duration, length: Duration) {
        let new = Grant { version, runs_out: sent_at.saturating_add(length) };
        let held = self.held.entry(giver).or_default();
        if held.iter().any(|g| g.version <= new.version && g.runs_out >= new.runs_out) {
            return;
        }
        held.retain(|g| g.version < new.version || g.runs_out > new.runs_out);
        let at = held.partition_point(|g| g.version < new.version);
        held.insert(at, new);
        if held.len() > MAX_GRANTS_PER_GIVER {
            // The first runs out first.
            held.remove(0);
        }
    }

    /// Forgets a giver: it is counted no longer, or its boot has changed.
    pub fn forget(&mut self, giver: N) {
        self.held.remove(&giver);
    }

    /// Drops what has run out. For memory only; `usable` asks the time itself.
    pub fn expire(&mut self, now: Duration) {
        self.held.retain(|_, held| {
            held.retain(|grant| now < grant.runs_out);
            !held.is_empty()
        });
    }

    /// Whether reads of slots with these `counted` nodes (without the owner itself) may be
    /// answered by a node whose table is at `own_version`. Ask once per batch, after the values
    /// were read. A sole member needs no grant.
    pub fn usable(
        &self,
        now: Duration,
        own_version: u64,
        counted: impl IntoIterator<Item = N>,
    ) -> Usable<N> {
        let serves = |grant: &Grant| grant.version <= own_version && now < grant.runs_out;
        for giver in counted {
            if !self.held.get(&giver).is_some_and(|held| held.iter().any(serves)) {
                return Usable::MissingFrom(giver);
            }
        }
        Usable::Yes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: Duration = Duration::from_millis(1500);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_sole_member_needs_none() {
        assert_eq!(Grants::<u8>::new().usable(ms(9), 0, []), Usable::Yes);
    }

    #[test]
    fn every_counted_node_must_have_granted() {
        let mut grants = Grants::new();
        grants.renew('b', 1, ms(0), LENGTH);
        assert_eq!(grants.usable(ms(1), 1, ['b']), Usable::Yes);
        assert_eq!(grants.usable(ms(1), 1, ['b', 'c']), Usable::MissingFrom('c'));
        grants.renew('c', 1, ms(0), LENGTH);
        assert_eq!(grants.usable(ms(1), 1, ['b', 'c']), Usable::Yes);
        grants.forget('b');
        assert_eq!(grants.usable(ms(1), 1, ['b', 'c']), Usable::MissingFrom('b'));
    }

    #[test]
    fn a_grant_runs_from_the_moment_of_sending() {
        let mut grants = Grants::new();
        grants.renew('b', 1, ms(100), LENGTH);
        assert_eq!(grants.usable(ms(1599), 1, ['b']), Usable::Yes);
        assert_eq!(grants.usable(ms(1600), 1, ['b']), Usable::MissingFrom('b'));
        grants.expire(ms(1600));
        assert!(grants.held.is_empty());
    }

    #[test]
    fn an_older_grant_serves_until_the_table_has_reached_the_newer() {
        let mut grants = Grants::new();
        grants.renew('b', 5, ms(0), LENGTH);
        grants.renew('b', 6, ms(300), LENGTH);
        assert_eq!(grants.usable(ms(400), 4, ['b']), Usable::MissingFrom('b'));
        assert_eq!(grants.usable(ms(400), 5, ['b']), Usable::Yes);
        assert_eq!(grants.usable(ms(1600), 5, ['b']), Usable::MissingFrom('b'));
        assert_eq!(grants.usable(ms(1600), 6, ['b']), Usable::Yes);
    }

    proptest! {
        /// Against a list of all grants ever given; what is dropped for room may only make the
        /// answer stricter.
        #[test]
        fn as_a_list_of_all_grants(
            given in proptest::collection::vec((0u64..6, 0u64..40), 0..MAX_GRANTS_PER_GIVER),
            now in 0u64..60,
            version in 0u64..7,
        ) {
            let mut grants = Grants::new();
            for (version, sent) in &given {
                grants.renew((), *version, ms(*sent), ms(10));
            }
            let want = given.iter().any(|(v, sent)| *v <= version && now < sent + 10);
            prop_assert_eq!(grants.usable(ms(now), version, [()]) == Usable::Yes, want);
            grants.expire(ms(now));
            prop_assert_eq!(grants.usable(ms(now), version, [()]) == Usable::Yes, want);
        }

        #[test]
        fn never_more_than_the_limit(
            given in proptest::collection::vec((0u64..99, 0u64..99), 0..99),
        ) {
            let mut grants = Grants::new();
            for (version, sent) in given {
                grants.renew((), version, ms(sent), ms(10));
                let held = &grants.held[&()];
                prop_assert!(held.len() <= MAX_GRANTS_PER_GIVER);
                let rising =
                    |a: &Grant, b: &Grant| a.version < b.version && a.runs_out < b.runs_out;
                prop_assert!(held.is_sorted_by(rising));
            }
        }
    }
}
