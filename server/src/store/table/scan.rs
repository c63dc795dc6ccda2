//! Reading many entries: scan by hash position, iteration, a random entry.
//!
//! A scan position is the top 48 bits of the hash. Both the segment and the bucket follow from
//! them, in order, whatever the table's shape, so "all entries with a position in [from, next)"
//! means the same before and after any growth. Invariant: a call to `scan` ends at a boundary of
//! its run's buckets, and has visited all of the range.

use super::bucket::{Run, SLOTS};
use super::directory::Directory;
use super::entry::Entry;
use super::hash::{KeyHash, POSITION_BITS};
use super::root::Shape;
use super::{Block, Table};

/// A position in the order of hashes: 0 to 2^48; the latter is the end.
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Debug)]
pub struct ScanPos(pub u64);

impl ScanPos {
    /// Where a scan begins.
    pub const START: ScanPos = ScanPos(0);
    /// The last position there is.
    pub const LAST: ScanPos = ScanPos(ScanPos::COUNT - 1);
    /// The number of positions.
    const COUNT: u64 = 1 << POSITION_BITS;

    /// The position of a hash.
    pub fn of(hash: KeyHash) -> ScanPos {
        ScanPos(hash.position())
    }
}

/// Empty buckets one call of `scan` passes before it returns without having visited anything.
const SCAN_EMPTY_BUCKETS: usize = 32;
/// Draws of a slot before `random` counts instead. The fullness of a table makes a draw succeed
/// with at least 1/28, mostly with 1/3.
const RANDOM_DRAWS: usize = 64;
/// Rejections of a biased draw; each has a chance below 2^-30.
const BIAS_DRAWS: usize = 16;

impl<O> Table<O> {
    /// Visits every entry whose hash position is in [`from`, next), and returns next; none is the
    /// end. One call looks at about one bucket with entries. Feeding the results back visits
    /// every entry that is in the table all the while at least once, however the table grows and
    /// shrinks between the calls (exactly once, in fact), and ends.
    pub fn scan(&self, from: ScanPos, visit: &mut dyn FnMut(Entry<'_, O>)) -> Option<ScanPos> {
        let mut from = from.0;
        for _ in 0..SCAN_EMPTY_BUCKETS {
            if from >= ScanPos::COUNT {
                return None;
            }
            let hash = KeyHash(from << (64 - POSITION_BITS));
            let run = self.root.run_of(hash)?;
            let next = run.range_end(from);
            let mut seen = false;
            run.visit_from(run.home(hash), &mut |block| {
                // SAFETY: the table is borrowed for longer than the call.
                let entry: Entry<'_, O> = unsafe { Entry::new(block) };
                if (from..next).contains(&entry.hash().position()) {
                    seen = true;
                    visit(entry);
                }
            });
            from = next;
            if seen {
                break;
            }
        }
        (from < ScanPos::COUNT).then_some(ScanPos(from))
    }

    /// Every entry once, in no promised order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_, O>> {
        // SAFETY: the table is borrowed for as long as the entries are.
        self.blocks().map(|block| unsafe { Entry::new(block) })
    }

    pub(super) fn blocks(&self) -> Blocks {
        Blocks::new(self.root.shape())
    }

    /// An entry, each with the same chance, given uniform random words. Draws slots until one is
    /// occupied; after a bounded number of tries draws a rank and walks to it.
    pub fn random(&self, next_random: &mut dyn FnMut() -> u64) -> Option<Entry<'_, O>> {
        let draw = |next_random: &mut dyn FnMut() -> u64| match self.root.shape() {
            Shape::Empty => None,
            Shape::Array(run, _) => {
                let slot = below(run.buckets() * SLOTS, next_random);
                run.block(slot / SLOTS, slot % SLOTS)
            }
            Shape::Directory(directory) => draw_from(directory, next_random),
        };
        if self.len == 0 {
            return None;
        }
        let drawn = (0..RANDOM_DRAWS).find_map(|_| draw(next_random));
        let block = drawn.or_else(|| self.by_rank(below(self.len, next_random)))?;
        // SAFETY: the table is borrowed for as long as the entry is.
        Some(unsafe { Entry::new(block) })
    }

    /// The entry of that rank in storage order; whole segments are skipped by their count.
    fn by_rank(&self, mut rank: usize) -> Option<Block> {
        if let Shape::Directory(directory) = self.root.shape() {
            let mut index = 0;
            while index < directory.words() {
                let segment = directory.segment(index);
                if rank < segment.count() {
                    return Blocks::of_run(segment.run()).nth(rank);
                }
                rank -= segment.count();
                index += directory.span(segment.depth());
            }
        }
        self.blocks().nth(rank)
    }
}

/// A slot of the directory's segments, each with the same chance, or none when it is free or the
/// draw was void. A segment is drawn as often as it has words, so its slots are spread over them:
/// a word of the segment stands for as many of its slots as the widest segment has.
fn draw_from(directory: Directory, next_random: &mut dyn FnMut() -> u64) -> Option<Block> {
    let share = directory.header().widest_buckets * SLOTS;
    let index = below(directory.words(), next_random);
    let segment = directory.segment(index);
    let word = index & (directory.span(segment.depth()) - 1);
    let slot = word * share + below(share, next_random);
    if slot >= segment.slots() {
        return None;
    }
    segment.run().block(slot / SLOTS, slot % SLOTS)
}

/// A uniform number below `bound`, by multiplication with rejection of the biased part.
fn below(bound: usize, next_random: &mut dyn FnMut() -> u64) -> usize {
    let bound = bound as u64;
    let threshold = bound.wrapping_neg() % bound;
    let mut product = 0;
    for _ in 0..BIAS_DRAWS {
        product = u128::from(next_random()) * u128::from(bound);
        if product as u64 >= threshold {
            break;
        }
    }
    (product >> 64) as usize
}

/// The blocks of a shape in storage order. Valid while the table is borrowed.
pub(super) struct Blocks {
    directory: Option<(Directory, usize)>,
    run: Option<Run>,
    bucket: usize,
    occupied: u32,
}

impl Blocks {
    pub(super) fn new(shape: Shape) -> Blocks {
        match shape {
            Shape::Empty => Blocks { directory: None, run: None, bucket: 0, occupied: 0 },
            Shape::Array(run, _) => Blocks::of_run(run),
            Shape::Directory(directory) => {
                Blocks { directory: Some((directory, 0)), run: None, bucket: 0, occupied: 0 }
            }
        }
    }

    fn of_run(run: Run) -> Blocks {
        Blocks { directory: None, run: Some(run), bucket: 0, occupied: run.occupied(0) }
    }

    /// Goes to the next bucket; false at the end.
    fn advance(&mut self) -> bool {
        if let Some(run) = self.run
            && self.bucket + 1 < run.buckets()
        {
            self.bucket += 1;
            self.occupied = run.occupied(self.bucket);
            return true;
        }
        let Some((directory, index)) = &mut self.directory else { return false };
        if *index == directory.words() {
            return false;
        }
        let segment = directory.segment(*index);
        *index += directory.span(segment.depth());
        let run = segment.run();
        (self.run, self.bucket, self.occupied) = (Some(run), 0, run.occupied(0));
        true
    }
}

impl Iterator for Blocks {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        while self.occupied == 0 {
            if !self.advance() {
                return None;
            }
        }
        let slot = self.occupied.trailing_zeros() as usize;
        self.occupied &= self.occupied - 1;
        self.run?.block(self.bucket, slot)
    }
}
