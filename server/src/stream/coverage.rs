//! What a sink has of a slot: hash ranges, each as it stood at some op index, and the groups that
//! came after. Arithmetic only: it sees positions and numbers, no keys.
//!
//! ```text
//! position  0 ........ a ........ b ........ end
//! covered     at 40      at 57      -           applied 50: the first stands at 50 by now
//! ```
//! Invariant: ranges are sorted and apart; a range stands at its own index or at the last group
//! applied, whichever is later; groups come without a gap.

use slots::OpIndex;

use crate::store::table::ScanPos;

/// A range and the index its content stood at when it was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Covered {
    pub(super) from: ScanPos,
    pub(super) to: ScanPos,
    at: OpIndex,
}

/// What is to be done with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkVerdict {
    /// It replaces what is there.
    Install,
    /// All of its range is there, as new or newer.
    Known,
    /// Groups after it have gone by, and its range was not there to take them.
    Late,
}

/// What is to be done with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupVerdict {
    /// It is the next one.
    Apply,
    /// It was given before.
    Known,
    /// Groups before it are missing: the first of them.
    Gap(OpIndex),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    ranges: Vec<Covered>,
    /// The last group that went by.
    applied: Option<OpIndex>,
}

impl Coverage {
    /// All of the slot at this index.
    pub(super) fn whole(at: OpIndex) -> Coverage {
        let all = Covered { from: ScanPos::START, to: ScanPos::LAST, at };
        Coverage { ranges: vec![all], applied: Some(at) }
    }

    /// The index the content stands at, at this position; `None`: it is not there.
    pub(super) fn stands_at(&self, position: ScanPos) -> Option<OpIndex> {
        let next = self.ranges.partition_point(|range| range.from <= position);
        let range = self.ranges[..next].last()?;
        (position <= range.to).then(|| self.index_of(range))
    }

    fn index_of(&self, range: &Covered) -> OpIndex {
        self.applied.map_or(range.at, |applied| applied.max(range.at))
    }

    /// Does a group apply here? Only where the content is there and does not hold it yet.
    pub(super) fn takes(&self, position: ScanPos, group: OpIndex) -> bool {
        self.stands_at(position).is_some_and(|at| at < group)
    }

    /// The ranges that do not hold this group yet.
    pub(super) fn ranges_before(&self, group: OpIndex) -> Vec<Covered> {
        let before = self.ranges.iter().filter(|range| self.index_of(range) < group);
        before.copied().collect()
    }

    /// Does every range that is there lack this group?
    pub(super) fn all_before(&self, group: OpIndex) -> bool {
        self.ranges.iter().all(|range| self.index_of(range) < group)
    }

    pub(super) fn judge_group(&self, group: OpIndex) -> GroupVerdict {
        // Before the first group, the range that is furthest behind says which one it must be.
        let behind = || self.ranges.iter().map(|range| range.at).min();
        let Some(done) = self.applied.or_else(behind) else { return GroupVerdict::Apply };
        let next = OpIndex(done.0 + 1);
        match (self.applied.is_some(), group.cmp(&next)) {
            (_, std::cmp::Ordering::Equal) => GroupVerdict::Apply,
            (_, std::cmp::Ordering::Greater) => GroupVerdict::Gap(next),
            (true, std::cmp::Ordering::Less) => GroupVerdict::Known,
            // All that is there holds it already; it is the first to be counted.
            (false, std::cmp::Ordering::Less) => GroupVerdict::Apply,
        }
    }

    /// The group went by.
    pub(super) fn advance(&mut self, group: OpIndex) {
        self.applied = Some(group);
    }

    pub(super) fn judge_chunk(&self, from: ScanPos, to: ScanPos, at: OpIndex) -> ChunkVerdict {
        if self.holds(from, to, at) {
            return ChunkVerdict::Known;
        }
        match self.applied {
            Some(applied) if at < applied => ChunkVerdict::Late,
            _ => ChunkVerdict::Install,
        }
    }

    /// Is every position of `from..=to` there, at `at` or later?
    fn holds(&self, from: ScanPos, to: ScanPos, at: OpIndex) -> bool {
        let mut next = from;
        let first = self.ranges.partition_point(|range| range.to < from);
        for range in &self.ranges[first..] {
            if range.from > next || self.index_of(range) < at {
                return false;
            }
            if range.to >= to {
                return true;
            }
            next = ScanPos(range.to.0 + 1);
        }
        false
    }

    /// Is anything of `from..=to` there?
    pub(super) fn meets(&self, from: ScanPos, to: ScanPos) -> bool {
        self.ranges.iter().any(|range| range.from <= to && range.to >= from)
    }

    /// The range stands at `at` now, whatever stood there.
    pub(super) fn install(&mut self, from: ScanPos, to: ScanPos, at: OpIndex) {
        if self.ranges.last().is_none_or(|last| last.to < from) {
            return self.append(Covered { from, to, at });
        }
        let mut ranges = Vec::with_capacity(self.ranges.len() + 2);
        for old in self.ranges.drain(..) {
            if old.from < from {
                ranges.push(Covered { to: old.to.min(ScanPos(from.0.wrapping_sub(1))), ..old });
            }
            if old.to > to {
                ranges.push(Covered { from: old.from.max(ScanPos(to.0 + 1)), ..old });
            }
        }
        ranges.push(Covered { from, to, at });
        ranges.sort_unstable_by_key(|range| range.from);
        self.ranges = ranges;
        self.join();
    }

    /// Chunks mostly come in order: what is there is not gone through for each.
    fn append(&mut self, new: Covered) {
        let at = self.index_of(&new);
        match self.ranges.last().map(|last| (last.to, self.index_of(last))) {
            Some((to, index)) if to.0 + 1 == new.from.0 && index == at => {
                let last = self.ranges.len() - 1;
                self.ranges[last] = Covered { to: new.to, at, ..self.ranges[last] };
            }
            _ => self.ranges.push(new),
        }
    }

    /// Neighbours that stand at one index become one range: a copy that has caught up is one.
    fn join(&mut self) {
        let applied = self.applied;
        let index_of = |range: &Covered| applied.map_or(range.at, |applied| applied.max(range.at));
        self.ranges.dedup_by(|later, earlier| {
            let joins = earlier.to.0 + 1 == later.from.0 && index_of(earlier) == index_of(later);
            if joins {
                earlier.to = later.to;
                earlier.at = index_of(later);
            }
            joins
        });
    }

    /// The index of the whole slot; `None` while a range is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.holds(ScanPos::START, ScanPos::LAST, OpIndex(0))
    }

    /// The latest index any range stands at.
    pub(super) fn furthest(&self) -> OpIndex {
        self.ranges.iter().map(|range| self.index_of(range)).max().unwrap_or_default()
    }

    /// The earliest index any range stands at.
    pub(super) fn nearest(&self) -> OpIndex {
        self.ranges.iter().map(|range| self.index_of(range)).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pos(at: u64) -> ScanPos {
        ScanPos(at)
    }

    #[test]
    fn a_group_applies_where_the_content_is_there_and_older() {
        let mut coverage = Coverage::default();
        coverage.install(pos(10), pos(19), OpIndex(5));
        coverage.install(pos(20), pos(29), OpIndex(7));
        for (group, position, takes) in [
            (5, 10, false),
            (6, 9, false),
            (6, 10, true),
            (6, 19, true),
            (6, 20, false),
            (7, 29, false),
            (8, 29, true),
            (8, 30, false),
        ] {
            assert_eq!(coverage.takes(pos(position), OpIndex(group)), takes, "{group} {position}");
        }
    }

    #[test]
    fn groups_come_without_a_gap() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.judge_group(OpIndex(99)), GroupVerdict::Apply);
        coverage.install(pos(0), pos(9), OpIndex(5));
        coverage.install(pos(10), pos(19), OpIndex(9));
        assert_eq!(coverage.judge_group(OpIndex(7)), GroupVerdict::Gap(OpIndex(6)));
        assert_eq!(coverage.judge_group(OpIndex(3)), GroupVerdict::Apply);
        coverage.advance(OpIndex(5));
        assert_eq!(coverage.judge_group(OpIndex(5)), GroupVerdict::Known);
        assert_eq!(coverage.judge_group(OpIndex(6)), GroupVerdict::Apply);
        assert_eq!(coverage.judge_group(OpIndex(7)), GroupVerdict::Gap(OpIndex(6)));
    }

    #[test]
    fn a_chunk_that_missed_groups_is_late() {
        let mut coverage = Coverage::default();
        coverage.advance(OpIndex(8));
        assert_eq!(coverage.judge_chunk(pos(0), pos(9), OpIndex(7)), ChunkVerdict::Late);
        assert_eq!(coverage.judge_chunk(pos(0), pos(9), OpIndex(8)), ChunkVerdict::Install);
        coverage.install(pos(0), pos(9), OpIndex(8));
        assert_eq!(coverage.judge_chunk(pos(2), pos(9), OpIndex(7)), ChunkVerdict::Known);
        assert_eq!(coverage.judge_chunk(pos(2), pos(10), OpIndex(7)), ChunkVerdict::Late);
        assert_eq!(coverage.judge_chunk(pos(2), pos(9), OpIndex(12)), ChunkVerdict::Install);
    }

    #[test]
    fn a_newer_chunk_cuts_what_it_meets() {
        let mut coverage = Coverage::whole(OpIndex(3));
        coverage.install(pos(10), pos(19), OpIndex(6));
        let at = |coverage: &Coverage, p| coverage.stands_at(pos(p)).map(|index| index.0);
        assert_eq!(at(&coverage, 9), Some(3));
        assert_eq!([10, 19].map(|p| at(&coverage, p)), [Some(6); 2]);
        assert_eq!([20, ScanPos::LAST.0].map(|p| at(&coverage, p)), [Some(3); 2]);
        assert!(coverage.is_whole());
        assert_eq!((coverage.nearest(), coverage.furthest()), (OpIndex(3), OpIndex(6)));
        (4..=6).for_each(|group| coverage.advance(OpIndex(group)));
        coverage.install(pos(15), pos(15), OpIndex(6));
        assert_eq!(coverage.ranges.len(), 1, "all stands at one index: {coverage:?}");
    }
}
