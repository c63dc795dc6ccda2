//! Growth and shrinkage, one bounded step an operation.
//!
//! A small table's array goes through its sizes. When the largest is 80 % full it becomes two
//! segments under a directory. A full segment first takes its second size, then splits along the
//! next bit of the hash, the directory doubling when it has no bit left. A segment less than 20 %
//! full merges with its buddy when both fit half a segment; the directory halves when it is four
//! times too long.
//!
//! Work of a step: at most about 360 entries are hashed and put again (10-30 us), and 8 bytes per
//! directory word copied: words are at most len / 16, so 0.5 byte per key, and there were len / 2
//! puts since the last doubling. Invariant: every run keeps a free slot for the next insert.

use super::Table;
use super::block::Block;
use super::bucket::{Run, SLOTS};
use super::directory::{Directory, Header, MAX_DEPTH, Segment, SizeCode};
use super::hash::KeyHash;
use super::root::{ARRAY_BUCKETS, Root, Shape};

/// Keys the table must have for each directory word. A skewed hash then grows segments instead of
/// the directory, which would otherwise double for every colliding key.
const KEYS_PER_WORD: usize = 16;
/// Entries two buddies may have together to become one: half of a full segment's slots, so that
/// the merged segment is far from both bounds.
const MERGE_MAX_ENTRIES: usize = SLOTS * 32;
/// The directory halves when it has this many words per segment: one level of slack.
const SLACK_WORDS_PER_SEGMENT: usize = 4;

/// Entries at which `buckets` are full: 80 % of the slots. One bucket is full when it is full:
/// nothing overflows in it.
fn limit(buckets: usize) -> usize {
    if buckets == 1 { SLOTS } else { buckets * SLOTS * 4 / 5 }
}

/// Whether `count` entries fill at most 70 % of `buckets`: what a reshaped run starts with.
fn fits(count: usize, buckets: usize) -> bool {
    count * 10 <= buckets * SLOTS * 7
}

/// Whether `count` entries fill less than 20 % of `buckets`.
fn is_sparse(count: usize, buckets: usize) -> bool {
    count * 5 < buckets * SLOTS
}

fn code_for(count: usize) -> SizeCode {
    let mut code = SizeCode(0);
    while !fits(count, code.buckets()) {
        code = code.larger();
    }
    code
}

fn array_size_for(count: usize) -> Option<usize> {
    ARRAY_BUCKETS.iter().position(|buckets| fits(count, *buckets))
}

type Hashed = (KeyHash, Block);

fn collect(run: Run, expected: usize) -> Vec<Hashed> {
    let mut entries = Vec::with_capacity(expected);
    run.collect(&mut entries);
    debug_assert_eq!(entries.len(), expected);
    entries
}

/// A new segment with these entries.
fn new_segment<'a>(
    code: SizeCode,
    depth: u32,
    entries: impl Iterator<Item = &'a Hashed>,
) -> Segment {
    let segment = Segment::allocate(code, depth);
    let mut count = 0;
    for (hash, block) in entries {
        // SAFETY: the segment is new, and its size was chosen for these entries.
        unsafe { segment.run().insert(*hash, *block) };
        count += 1;
    }
    // SAFETY: the segment is new.
    unsafe { segment.set_count(count) };
    segment
}

/// The entries cut along bit `depth` of the hash, as two segments one bit deeper.
fn new_halves(entries: &[Hashed], depth: u32) -> [Segment; 2] {
    let is_high = |hash: KeyHash| hash.0 << depth >> 63 == 1;
    let high = entries.iter().filter(|(hash, _)| is_high(*hash)).count();
    [(false, entries.len() - high), (true, high)].map(|(side, count)| {
        let chosen = entries.iter().filter(|(hash, _)| is_high(*hash) == side);
        new_segment(code_for(count), depth + 1, chosen)
    })
}

impl<O> Table<O> {
    /// Puts a block whose key is not in the table.
    pub(super) fn insert_block(&mut self, hash: KeyHash, block: Block) {
        self.make_room(hash);
        match self.root.shape() {
            Shape::Empty => unreachable!("make_room leaves an array at least"),
            // SAFETY: the table is borrowed mutably, and has room now.
            Shape::Array(run, _) => unsafe { run.insert(hash, block) },
            Shape::Directory(directory) => {
                let segment = directory.segment_of(hash);
                // SAFETY: as above.
                unsafe {
                    segment.run().insert(hash, block);
                    segment.set_count(segment.count() + 1);
                }
            }
        }
        self.len += 1;
    }

    /// Takes notice that an entry of `hash` has been taken out of its run.
    pub(super) fn after_removal(&mut self, hash: KeyHash) {
        self.len -= 1;
        if let Shape::Directory(directory) = self.root.shape() {
            let segment = directory.segment_of(hash);
            // SAFETY: the table is borrowed mutably.
            unsafe { segment.set_count(segment.count() - 1) };
        }
        if self.len == 0 {
            self.release_structure();
            return;
        }
        match self.root.shape() {
            Shape::Array(run, size) if size > 0 && is_sparse(self.len, run.buckets()) => {
                let fitting = array_size_for(self.len).expect("fewer entries fit a smaller array");
                self.resize_array(run, fitting);
            }
            Shape::Directory(_) => self.merge_around(hash),
            _ => {}
        }
    }

    /// Frees buckets and directory of a table without entries.
    pub(super) fn release_structure(&mut self) {
        let root = std::mem::replace(&mut self.root, Root::EMPTY);
        match root.shape() {
            Shape::Empty => {}
            Shape::Array(run, _) => {
                self.bytes -= array_bytes(run);
                // SAFETY: the table has forgotten the root.
                unsafe { root.release_array() };
            }
            Shape::Directory(directory) => {
                let mut index = 0;
                while index < directory.words() {
                    let segment = directory.segment(index);
                    index += directory.span(segment.depth());
                    self.release_segment(segment);
                }
                self.release_directory(directory);
            }
        }
    }

    /// Makes a free slot, with slack, for an entry of `hash`: at most one step of growth.
    fn make_room(&mut self, hash: KeyHash) {
        match self.root.shape() {
            Shape::Empty => {
                self.root = Root::allocate_array(0);
                self.bytes += ARRAY_BUCKETS[0] * super::bucket::BUCKET_BYTES;
            }
            Shape::Array(run, size) if self.len >= limit(run.buckets()) => {
                if size + 1 < ARRAY_BUCKETS.len() {
                    self.resize_array(run, size + 1);
                } else {
                    self.become_directory(run);
                }
            }
            Shape::Directory(directory) => {
                let segment = directory.segment_of(hash);
                if segment.count() >= limit(segment.code().buckets()) {
                    self.relieve(directory, hash, segment);
                }
            }
            Shape::Array(..) => {}
        }
    }

    fn resize_array(&mut self, run: Run, size: usize) {
        let old = self.root;
        self.root = Root::allocate_array(size);
        let Shape::Array(new, _) = self.root.shape() else { unreachable!("just made") };
        self.bytes = self.bytes + array_bytes(new) - array_bytes(run);
        for (hash, block) in collect(run, self.len) {
            // SAFETY: the array is new, and was chosen to hold the table's entries.
            unsafe { new.insert(hash, block) };
        }
        // SAFETY: the entries have moved, and the table has a new root.
        unsafe { old.release_array() };
    }

    fn become_directory(&mut self, run: Run) {
        let halves = new_halves(&collect(run, self.len), 0);
        let widest = halves.map(|half| half.code().buckets()).into_iter().max().unwrap_or(0);
        let header = Header { segments: 2, deepest: 2, widest_buckets: widest };
        let directory = Directory::allocate(1, header);
        for (index, half) in halves.into_iter().enumerate() {
            // SAFETY: the directory is new; the halves are in the order of their bit.
            unsafe { directory.set(index, half) };
            self.bytes += half.bytes();
        }
        let old = std::mem::replace(&mut self.root, Root::of_directory(directory));
        self.bytes = self.bytes + directory.bytes() - array_bytes(run);
        // SAFETY: the entries have moved, and the table has a new root.
        unsafe { old.release_array() };
    }

    /// Gives a full segment room: its second size, a split, or, for a hash so skewed that neither
    /// is left, twice the buckets.
    fn relieve(&mut self, mut directory: Directory, hash: KeyHash, segment: Segment) {
        if segment.code() < SizeCode::FULL {
            return self.resize_segment(directory, hash, segment, segment.code().larger());
        }
        let depth = segment.depth();
        if depth == directory.depth() {
            let words = directory.words() * 2;
            if depth == MAX_DEPTH || words * KEYS_PER_WORD > self.len {
                return self.resize_segment(directory, hash, segment, segment.code().larger());
            }
            directory = self.double(directory);
        }
        let [low, high] = new_halves(&collect(segment.run(), segment.count()), depth);
        let start = directory.index_of(hash) & !(directory.span(depth) - 1);
        let mut header = directory.header();
        header.segments += 1;
        if depth + 1 == directory.depth() {
            header.deepest += 2;
        }
        for half in [low, high] {
            header.widest_buckets = header.widest_buckets.max(half.code().buckets());
        }
        // SAFETY: the table is borrowed mutably; the halves share the words of their parent.
        unsafe {
            directory.set(start, low);
            directory.set(start + directory.span(depth + 1), high);
            directory.set_header(header);
        }
        self.bytes += low.bytes() + high.bytes();
        self.release_segment(segment);
    }

    fn resize_segment(
        &mut self,
        directory: Directory,
        hash: KeyHash,
        segment: Segment,
        code: SizeCode,
    ) {
        let entries = collect(segment.run(), segment.count());
        let new = new_segment(code, segment.depth(), entries.iter());
        let mut header = directory.header();
        header.widest_buckets = header.widest_buckets.max(code.buckets());
        // SAFETY: the table is borrowed mutably; the new segment has the old one's prefix.
        unsafe {
            directory.set(directory.index_of(hash), new);
            directory.set_header(header);
        }
        self.bytes += new.bytes();
        self.release_segment(segment);
    }

    /// Merges the segment of `hash` with its buddy, and the result with its own, for as long as
    /// they are sparse and one full segment's entries have not been moved.
    fn merge_around(&mut self, hash: KeyHash) {
        let mut moved = 0;
        while let Shape::Directory(directory) = self.root.shape() {
            let segment = directory.segment_of(hash);
            let count = segment.count();
            if !is_sparse(count, segment.code().buckets()) {
                break;
            }
            let span = directory.span(segment.depth());
            let buddy = directory.segment(directory.index_of(hash) ^ span);
            let sum = count + buddy.count();
            let mergeable = buddy.depth() == segment.depth() && sum <= MERGE_MAX_ENTRIES;
            if mergeable && moved + sum <= MERGE_MAX_ENTRIES {
                self.merge(directory, hash, segment, buddy);
                moved += sum;
                continue;
            }
            let code = code_for(count);
            if moved == 0 && code < segment.code() {
                self.resize_segment(directory, hash, segment, code);
            }
            break;
        }
        self.halve_if_slack();
    }

    fn merge(&mut self, directory: Directory, hash: KeyHash, segment: Segment, buddy: Segment) {
        let mut entries = collect(segment.run(), segment.count());
        buddy.run().collect(&mut entries);
        let depth = segment.depth() - 1;
        if depth == 0 {
            // The last two segments: the table is small again.
            let size = array_size_for(entries.len()).expect("half a segment fits an array");
            self.root = Root::allocate_array(size);
            let Shape::Array(run, _) = self.root.shape() else { unreachable!("just made") };
            for (hash, block) in entries {
                // SAFETY: the array is new, and was chosen to hold the entries.
                unsafe { run.insert(hash, block) };
            }
            self.bytes += array_bytes(run);
            self.release_directory(directory);
        } else {
            let merged = new_segment(code_for(entries.len()), depth, entries.iter());
            let mut header = directory.header();
            header.segments -= 1;
            if segment.depth() == directory.depth() {
                header.deepest -= 2;
            }
            // SAFETY: the table is borrowed mutably; the merged segment has the common prefix.
            unsafe {
                directory.set(directory.index_of(hash), merged);
                directory.set_header(header);
            }
            self.bytes += merged.bytes();
        }
        self.release_segment(segment);
        self.release_segment(buddy);
    }

    /// A directory of twice the words. Its deepest segments are still to be made.
    fn double(&mut self, old: Directory) -> Directory {
        let header = Header { deepest: 0, ..old.header() };
        let new = Directory::allocate(old.depth() + 1, header);
        let mut index = 0;
        while index < old.words() {
            let segment = old.segment(index);
            // SAFETY: the new directory is not known to anybody; the prefix keeps its place.
            unsafe { new.set(index * 2, segment) };
            index += old.span(segment.depth());
        }
        self.replace_directory(old, new);
        new
    }

    fn halve_if_slack(&mut self) {
        let Shape::Directory(old) = self.root.shape() else { return };
        let header = old.header();
        let slack = header.segments * SLACK_WORDS_PER_SEGMENT <= old.words();
        if header.deepest > 0 || !slack || old.depth() == 1 {
            return;
        }
        let mut header = Header { widest_buckets: 0, ..header };
        let new = Directory::allocate(old.depth() - 1, header);
        let mut index = 0;
        while index < old.words() {
            let segment = old.segment(index);
            // SAFETY: the new directory is not known to anybody; the prefix keeps its place.
            unsafe { new.set(index / 2, segment) };
            index += old.span(segment.depth());
            header.deepest += usize::from(segment.depth() == new.depth());
            header.widest_buckets = header.widest_buckets.max(segment.code().buckets());
        }
        // SAFETY: as above.
        unsafe { new.set_header(header) };
        self.replace_directory(old, new);
    }

    fn replace_directory(&mut self, old: Directory, new: Directory) {
        self.root = Root::of_directory(new);
        self.bytes += new.bytes();
        self.release_directory(old);
    }

    fn release_directory(&mut self, directory: Directory) {
        self.bytes -= directory.bytes();
        // SAFETY: the caller has made the table forget it.
        unsafe { directory.release() };
    }

    fn release_segment(&mut self, segment: Segment) {
        self.bytes -= segment.bytes();
        // SAFETY: the caller has moved the entries and made the table forget it.
        unsafe { segment.release() };
    }
}

fn array_bytes(run: Run) -> usize {
    run.buckets() * super::bucket::BUCKET_BYTES
}
