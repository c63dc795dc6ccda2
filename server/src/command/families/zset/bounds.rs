//! Ranges as the commands' words give them, and the span of ranks they stand for in a set.
//!
//! Whatever the range is by (rank, score, member), all work on it is work on a span of ascending
//! ranks. Invariant: a span lies inside the set and never runs backwards.

use std::ops::{Bound, Range};

use crate::command::CommandError;
use crate::store::number::parse_i64;
use crate::store::zset::SortedSet;

/// Which way a set is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// From the lowest score.
    Up,
    /// From the highest score.
    Down,
}

/// A range of members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Selection<'a> {
    /// First and last rank, negative from the end; counted in the order of the walk.
    Ranks(i64, i64),
    /// Lowest and highest score.
    Scores(Bound<f64>, Bound<f64>),
    /// Least and greatest member, in a set of one score.
    Members(LexBound<'a>, LexBound<'a>),
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexBound<'a> {
    /// `-`: before every member.
    Lowest,
    /// `+`: behind every member.
    Highest,
    /// `[member` or `(member`.
    At(Bound<&'a [u8]>),
}

impl<'a> Selection<'a> {
    /// `first` and `last` as ZRANGE's ranks.
    pub(super) fn ranks(first: &[u8], last: &[u8]) -> Result<Selection<'a>, CommandError> {
        let rank = |text| parse_i64(text).ok_or(CommandError::NotInteger);
        Ok(Selection::Ranks(rank(first)?, rank(last)?))
    }

    /// `min` and `max` as scores: `1.5`, `(1.5`, `-inf`.
    pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<Selection<'a>, CommandError> {
        match (score_bound(min), score_bound(max)) {
            (Some(min), Some(max)) => Ok(Selection::Scores(min, max)),
            _ => Err(CommandError::Static("ERR min or max is not a float")),
        }
    }

    /// `min` and `max` as members: `[a`, `(a`, `-`, `+`.
    pub(super) fn members(min: &'a [u8], max: &'a [u8]) -> Result<Selection<'a>, CommandError> {
        match (lex_bound(min), lex_bound(max)) {
            (Some(min), Some(max)) => Ok(Selection::Members(min, max)),
            _ => Err(CommandError::Static("ERR min or max not valid string range item")),
        }
    }

    /// The ascending ranks of the members inside.
    pub(super) fn span(&self, zset: &SortedSet, order: Order) -> Range<usize> {
        let span = match *self {
            Selection::Ranks(first, last) => {
                let span = rank_span(first, last, zset.len());
                match order {
                    Order::Up => span,
                    Order::Down => zset.len() - span.end..zset.len() - span.start,
                }
            }
            Selection::Scores(min, max) => zset.first_by_score(min)..zset.end_by_score(max),
            Selection::Members(min, max) => {
                let start = match min {
                    LexBound::Lowest => 0,
                    LexBound::Highest => zset.len(),
                    LexBound::At(low) => zset.first_by_lex(low),
                };
                let end = match max {
                    LexBound::Lowest => 0,
                    LexBound::Highest => zset.len(),
                    LexBound::At(high) => zset.end_by_lex(high),
                };
                start..end
            }
        };
        span.start.min(span.end)..span.end
    }
}

/// `LIMIT offset count`: a part of a span, in the order of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Members to leave out; negative leaves out all.
    pub(super) offset: i64,
    /// Members at most; negative is no limit.
    pub(super) count: i64,
}

impl Limit {
    /// The whole span.
    pub(super) const NONE: Limit = Limit { offset: 0, count: -1 };

    /// What is left of `span`.
    pub(super) fn of(self, span: Range<usize>, order: Order) -> Range<usize> {
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX).min(span.len());
        let left = span.len() - skipped;
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(left);
        match order {
            Order::Up => span.start + skipped..span.start + skipped + count,
            Order::Down => span.end - skipped - count..span.end - skipped,
        }
    }
}

/// Visits the members of a span with their scores, in order.
pub(super) fn walk(
    zset: &SortedSet,
    span: Range<usize>,
    order: Order,
    mut visit: impl FnMut(&[u8], f64),
) {
    if span.is_empty() {
        return;
    }
    match order {
        Order::Up => zset
            .iter_from(span.start)
            .take(span.len())
            .for_each(|(member, score)| visit(member, score)),
        Order::Down => zset
            .iter_rev_from(span.end - 1)
            .take(span.len())
            .for_each(|(member, score)| visit(member, score)),
    }
}

fn rank_span(first: i64, last: i64, len: usize) -> Range<usize> {
    let size = len as i64;
    let from_start = |rank: i64| if rank < 0 { rank.saturating_add(size) } else { rank };
    let first = from_start(first).max(0);
    let last = from_start(last).min(size - 1);
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

fn score_bound(text: &[u8]) -> Option<Bound<f64>> {
    match text {
        [b'(', text @ ..] => edge_score(text).map(Bound::Excluded),
        text => edge_score(text).map(Bound::Included),
    }
}

/// Unlike a score to be kept, an edge may lie beyond what a double holds: `1e400` is infinite.
fn edge_score(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

fn lex_bound(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        b"-" => Some(LexBound::Lowest),
        b"+" => Some(LexBound::Highest),
        [b'[', member @ ..] => Some(LexBound::At(Bound::Included(member))),
        [b'(', member @ ..] => Some(LexBound::At(Bound::Excluded(member))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_of_scores_are_read_as_redis_reads_them() {
        let edge = |text: &str| score_bound(text.as_bytes());
        assert_eq!(edge("1.5"), Some(Bound::Included(1.5)));
        assert_eq!(edge("(1e3"), Some(Bound::Excluded(1000.0)));
        assert_eq!(edge("-inf"), Some(Bound::Included(f64::NEG_INFINITY)));
        assert_eq!(edge("(+inf"), Some(Bound::Excluded(f64::INFINITY)));
        assert_eq!(edge("1e400"), Some(Bound::Included(f64::INFINITY)));
        for wrong in ["nan", "(nan", "", "(", "((1", "1x", "[1"] {
            assert_eq!(edge(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn edges_of_members_must_say_what_they_are() {
        assert_eq!(lex_bound(b"[a"), Some(LexBound::At(Bound::Included(b"a"))));
        assert_eq!(lex_bound(b"("), Some(LexBound::At(Bound::Excluded(b""))));
        for wrong in ["", "a", "--", "+a", "-a"] {
            assert_eq!(lex_bound(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn rank_spans_and_limits_agree_with_a_list(
            first in -12i64..12, last in -12i64..12, len in 0usize..8,
            offset in -2i64..10, count in -2i64..10, down in any::<bool>(),
        ) {
            let order = if down { Order::Down } else { Order::Up };
            let mut zset = SortedSet::new();
            for i in 0..len {
                zset.add(&[b'a' + i as u8], i as f64, &Default::default());
            }
            let mut all: Vec<usize> = (0..len).collect();
            if down {
                all.reverse();
            }
            let place = |i: i64| if i < 0 { i + len as i64 } else { i };
            let expected: Vec<usize> = all
                .iter()
                .enumerate()
                .filter(|(i, _)| (place(first)..=place(last)).contains(&(*i as i64)))
                .skip(usize::try_from(offset).unwrap_or(usize::MAX))
                .take(usize::try_from(count).unwrap_or(usize::MAX))
                .map(|(_, rank)| *rank)
                .collect();
            let span = Selection::Ranks(first, last).span(&zset, order);
            let mut got = Vec::new();
            walk(&zset, Limit { offset, count }.of(span, order), order, |_, score| {
                got.push(score as usize);
            });
            prop_assert_eq!(got, expected);
        }
    }
}
