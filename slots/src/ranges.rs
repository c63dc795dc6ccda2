//! Sets of hash slots as inclusive ranges: `1200-1300,5461` for people and tools, the same with
//! spaces in CLUSTER NODES.
//!
//! Not a map: who owns what is in `table.rs`.
//!
//! Invariant: ranges are sorted, do not overlap and do not touch, so equal sets are equal values
//! and have one text.

use crate::slot::{SLOTS, SlotId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Characters of a bad piece that an error repeats: enough to recognise it, too few to flood.
const SHOWN_PIECE_CHARS: usize = 40;

/// Slots `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(SlotId, SlotId)", into = "(SlotId, SlotId)")]
pub struct SlotRange {
    first: SlotId,
    last: SlotId,
}

impl SlotRange {
    /// All 16,384 slots.
    pub const ALL: SlotRange = SlotRange { first: SlotId::FIRST, last: SlotId::LAST };

    /// The range `first` to `last`; `None` if it runs backwards.
    pub const fn new(first: SlotId, last: SlotId) -> Option<SlotRange> {
        if first.number() <= last.number() { Some(SlotRange { first, last }) } else { None }
    }

    /// The range of one slot.
    pub const fn single(slot: SlotId) -> SlotRange {
        SlotRange { first: slot, last: slot }
    }

    /// The lowest slot.
    pub const fn first(self) -> SlotId {
        self.first
    }

    /// The highest slot.
    pub const fn last(self) -> SlotId {
        self.last
    }

    /// How many slots: 1 to 16,384.
    pub const fn count(self) -> usize {
        self.last.index() - self.first.index() + 1
    }

    /// Every slot, in order.
    pub fn slots(self) -> impl DoubleEndedIterator<Item = SlotId> + Clone {
        (self.first.number()..=self.last.number()).filter_map(SlotId::new)
    }

    /// The range, longer to hold `slot` too.
    pub(crate) fn up_to(self, slot: SlotId) -> SlotRange {
        self.merged(SlotRange::single(slot))
    }

    /// Whether the two share a slot or stand side by side, so that they merge into one.
    fn joins(self, other: SlotRange) -> bool {
        self.first.index() <= other.last.index() + 1 && other.first.index() <= self.last.index() + 1
    }

    fn merged(self, other: SlotRange) -> SlotRange {
        SlotRange { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

impl From<SlotRange> for (SlotId, SlotId) {
    fn from(range: SlotRange) -> (SlotId, SlotId) {
        (range.first, range.last)
    }
}

impl TryFrom<(SlotId, SlotId)> for SlotRange {
    type Error = RangeError;

    fn try_from((first, last): (SlotId, SlotId)) -> Result<SlotRange, RangeError> {
        SlotRange::new(first, last)
            .ok_or_else(|| RangeError::Reversed { piece: format!("{first}-{last}") })
    }
}

/// `449` for a single slot, else `1200-1300`.
impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl fmt::Debug for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `449` or `1200-1300`. Refuses, naming the text: empty, malformed, out of range, reversed.
impl FromStr for SlotRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<SlotRange, RangeError> {
        if text.is_empty() {
            return Err(RangeError::Empty);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (parse_slot(first, text)?, parse_slot(last, text)?);
        SlotRange::new(first, last).ok_or_else(|| RangeError::Reversed { piece: shown(text) })
    }
}

fn parse_slot(number: &str, piece: &str) -> Result<SlotId, RangeError> {
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(RangeError::Malformed { piece: shown(piece) });
    }
    let slot = number.parse().ok().and_then(SlotId::new);
    slot.ok_or_else(|| RangeError::OutOfRange { piece: shown(piece) })
}

fn shown(piece: &str) -> String {
    match piece.char_indices().nth(SHOWN_PIECE_CHARS) {
        Some((end, _)) => format!("{}...", piece[..end].escape_debug()),
        None => piece.escape_debug().to_string(),
    }
}

/// Why a text is not a set of slots. Every kind but `Empty` repeats the piece that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RangeError {
    /// No text at all.
    Empty,
    /// Two separators with nothing between, or one at an end.
    EmptyPiece {
        /// The whole text.
        text: String,
    },
    /// Not a number and not two numbers joined by `-`.
    Malformed {
        /// The piece as given.
        piece: String,
    },
    /// A number above 16,383.
    OutOfRange {
        /// The piece as given.
        piece: String,
    },
    /// The end comes before the start.
    Reversed {
        /// The piece as given.
        piece: String,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Empty => f.write_str("no slots given: write 449 or 1200-1300,5461"),
            RangeError::EmptyPiece { text } => {
                write!(f, "slots '{text}' have an empty piece: write 449 or 1200-1300,5461")
            }
            RangeError::Malformed { piece } => {
                write!(f, "slots '{piece}' are malformed: write 449 or 1200-1300")
            }
            RangeError::OutOfRange { piece } => {
                write!(f, "slots '{piece}' are out of range: slots are 0-16383")
            }
            RangeError::Reversed { piece } => {
                write!(f, "slots '{piece}' are reversed: the lower slot comes first")
            }
        }
    }
}

impl std::error::Error for RangeError {}

/// A set of slots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<SlotRange>")]
pub struct SlotRanges(Vec<SlotRange>);

impl SlotRanges {
    /// The empty set.
    pub const fn new() -> SlotRanges {
        SlotRanges(Vec::new())
    }

    /// All 16,384 slots.
    pub fn all() -> SlotRanges {
        SlotRanges(vec![SlotRange::ALL])
    }

    /// The ranges, sorted; no two touch.
    pub fn ranges(&self) -> &[SlotRange] {
        &self.0
    }

    /// How many slots.
    pub fn count(&self) -> usize {
        self.0.iter().map(|range| range.count()).sum()
    }

    /// Whether there is no slot in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `slot` is in it.
    pub fn contains(&self, slot: SlotId) -> bool {
        let at = self.0.partition_point(|range| range.last < slot);
        self.0.get(at).is_some_and(|range| range.first <= slot)
    }

    /// Every slot, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = SlotId> + Clone + '_ {
        self.0.iter().flat_map(|range| range.slots())
    }

    /// Adds a slot. Cheapest when slots come in order.
    pub fn insert(&mut self, slot: SlotId) {
        self.insert_range(SlotRange::single(slot));
    }

    /// Adds a range, merging it with what it overlaps or touches.
    pub fn insert_range(&mut self, range: SlotRange) {
        let from = self.0.partition_point(|r| r.last.index() + 1 < range.first.index());
        let joined = self.0[from..].iter().take_while(|r| r.joins(range)).count();
        let whole = self.0[from..from + joined].iter().fold(range, |whole, r| whole.merged(*r));
        self.0.splice(from..from + joined, [whole]);
    }

    /// The slots of `self` that are not in `other`.
    pub fn without(&self, other: &SlotRanges) -> SlotRanges {
        self.iter().filter(|slot| !other.contains(*slot)).collect()
    }

    /// The set as CLUSTER NODES writes it: `0-448 450-5460`.
    pub fn spaced(&self) -> impl fmt::Display + '_ {
        Joined { ranges: &self.0, separator: " " }
    }
}

struct Joined<'a> {
    ranges: &'a [SlotRange],
    separator: &'static str,
}

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.ranges.iter().enumerate() {
            if i > 0 {
                f.write_str(self.separator)?;
            }
            range.fmt(f)?;
        }
        Ok(())
    }
}

/// `1200-1300,5461`; nothing for the empty set.
impl fmt::Display for SlotRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Joined { ranges: &self.0, separator: "," }.fmt(f)
    }
}

impl fmt::Debug for SlotRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slots [{self}]")
    }
}

/// Pieces separated by a comma or a space.
/// Pieces may come in any order and overlap. Refuses the empty text and every bad piece by name.
impl FromStr for SlotRanges {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<SlotRanges, RangeError> {
        let text = text.trim_matches(' ');
        if text.is_empty() {
            return Err(RangeError::Empty);
        }
        let mut pieces = Vec::new();
        for piece in text.split([',', ' ']) {
            if piece.is_empty() {
                return Err(RangeError::EmptyPiece { text: shown(text) });
            }
            pieces.push(piece.parse::<SlotRange>()?);
        }
        Ok(SlotRanges::from(pieces))
    }
}

/// Sorts and merges: n log n, however the ranges lie.
impl From<Vec<SlotRange>> for SlotRanges {
    fn from(mut ranges: Vec<SlotRange>) -> SlotRanges {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let joins = before.joins(*next);
            if joins {
                *before = before.merged(*next);
            }
            joins
        });
        debug_assert!(ranges.len() <= SLOTS / 2);
        SlotRanges(ranges)
    }
}

impl From<SlotRange> for SlotRanges {
    fn from(range: SlotRange) -> SlotRanges {
        SlotRanges(vec![range])
    }
}

impl From<SlotId> for SlotRanges {
    fn from(slot: SlotId) -> SlotRanges {
        SlotRanges::from(SlotRange::single(slot))
    }
}

impl Extend<SlotId> for SlotRanges {
    fn extend<I: IntoIterator<Item = SlotId>>(&mut self, slots: I) {
        for slot in slots {
            self.insert(slot);
        }
    }
}

impl FromIterator<SlotId> for SlotRanges {
    fn from_iter<I: IntoIterator<Item = SlotId>>(slots: I) -> SlotRanges {
        let mut ranges = SlotRanges::new();
        ranges.extend(slots);
        ranges
    }
}

impl FromIterator<SlotRange> for SlotRanges {
    fn from_iter<I: IntoIterator<Item = SlotRange>>(ranges: I) -> SlotRanges {
        SlotRanges::from(ranges.into_iter().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(text: &str, canonical: &str) {
        let ranges: SlotRanges = text.parse().expect(text);
        assert_eq!(ranges.to_string(), canonical);
        assert_eq!(canonical.parse(), Ok(ranges.clone()));
        assert_eq!(ranges.spaced().to_string(), canonical.replace(',', " "));
        let spaced = ranges.spaced().to_string();
        assert_eq!(spaced.parse(), Ok(ranges));
    }

    fn refused(text: &str) -> String {
        text.parse::<SlotRanges>().expect_err(text).to_string()
    }

    #[test]
    fn texts_have_one_form() {
        check("449", "449");
        check("5-5", "5");
        check("1200-1300,5461", "1200-1300,5461");
        check("5461,1200-1300", "1200-1300,5461");
        check("0-10,11-20,15-30", "0-30");
        check("0-448 450-5460", "0-448,450-5460");
        check("0-16383", "0-16383");
        check("7,7,7", "7");
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert_eq!(refused("16384"), "slots '16384' are out of range: slots are 0-16383");
        assert_eq!(
            refused("3,99999999999999999999"),
            "slots '99999999999999999999' are out of range: slots are 0-16383"
        );
        assert_eq!(
            refused("1300-1200"),
            "slots '1300-1200' are reversed: the lower slot comes first"
        );
        for bad in ["-1", "1-2-3", "abc", "1-", "-", "+5", "0x10", "1--2", "5;6", "١"] {
            let text = format!("1-4,{bad}");
            assert_eq!(
                refused(&text),
                format!("slots '{bad}' are malformed: write 449 or 1200-1300")
            );
        }
        for empty in ["", " "] {
            assert!(refused(empty).starts_with("no slots given"));
        }
        for piece in ["1,,2", ",1", "1,", "1  2"] {
            assert!(refused(piece).contains("empty piece"), "{piece}");
        }
    }

    #[test]
    fn a_flood_is_not_repeated() {
        assert!(refused(&"x".repeat(10_000)).len() < 120);
        assert!(!refused("a\nb\u{7}").contains('\n'));
    }

    #[test]
    fn without_takes_out_what_is_in_both() {
        let all: SlotRanges = "0-10,20".parse().expect("ranges");
        let some: SlotRanges = "3,5-30".parse().expect("ranges");
        assert_eq!(all.without(&some).to_string(), "0-2,4");
    }

    fn slot() -> impl Strategy<Value = SlotId> {
        (0..SLOTS as u16).prop_filter_map("below SLOTS", SlotId::new)
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(
            near in 0..16_300u16, offsets in proptest::collection::vec(0..60u16, 0..80),
            far in proptest::collection::vec(slot(), 0..10),
        ) {
            let near_slots = offsets.iter().filter_map(|o| SlotId::new(near + o));
            let slots: Vec<SlotId> = near_slots.chain(far).collect();
            let set: BTreeSet<SlotId> = slots.iter().copied().collect();
            let ranges: SlotRanges = slots.into_iter().collect();
            prop_assert_eq!(ranges.count(), set.len());
            prop_assert_eq!(ranges.iter().collect::<Vec<_>>(), Vec::from_iter(set.clone()));
            for slot in SlotId::all().skip(near as usize).take(80) {
                prop_assert_eq!(ranges.contains(slot), set.contains(&slot));
            }
            for pair in ranges.ranges().windows(2) {
                prop_assert!(pair[0].last().index() + 1 < pair[1].first().index());
            }
            if !set.is_empty() {
                prop_assert_eq!(ranges.to_string().parse(), Ok(ranges.clone()));
            }
            let singles: Vec<SlotRange> = ranges.iter().rev().map(SlotRange::single).collect();
            prop_assert_eq!(SlotRanges::from(singles), ranges);
        }

        #[test]
        fn any_text_parses_or_is_refused(text in "[0-9 ,x-]{0,30}") {
            if let Ok(ranges) = text.parse::<SlotRanges>() {
                prop_assert_eq!(ranges.to_string().parse(), Ok(ranges));
            }
        }
    }
}
