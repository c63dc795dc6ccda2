//! Segments, and the directory of a large table.
//!
//! ```text
//! directory: header line | 2^depth segment words         segment: header line | buckets
//! segment word: address (1024-aligned) | size code, 5 bits | local depth, 5 bits
//! ```
//! A segment of local depth d holds the entries whose hashes share one prefix of d bits, and all
//! 2^(depth - d) words of that prefix point to it. The word tells the number of buckets, so a
//! look-up does not touch the header line. Invariant: local depths are 1..=depth; `deepest` counts
//! the segments whose local depth is the directory's.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::bucket::{BUCKET_BYTES, Bucket, Run, SLOTS};
use super::class::class;
use super::hash::KeyHash;

/// Bytes before the first segment word: one line, so that the words start on a line.
pub(super) const DIRECTORY_HEADER_BYTES: usize = 64;
/// Bytes before the first bucket of a segment.
const SEGMENT_HEADER_BYTES: usize = BUCKET_BYTES;
/// Segments begin at multiples of this, which leaves ten bits of the word. The classes of 3072,
/// 4096 and their doublings have it by nature, so it costs no memory.
const SEGMENT_ALIGN: usize = 1024;
const DEPTH_BITS: u32 = 5;
/// The most prefix bits: with the 24 bits of the bucket they are the 48 of a scan position.
pub(super) const MAX_DEPTH: u32 = 24;
/// Lines (header and buckets) of the two sizes a segment normally has; beyond, it doubles.
const SMALL_SEGMENT_LINES: usize = 48;
const SEGMENT_LINES: usize = 64;

/// The size of a segment: 0 is 48 lines, n is 64 * 2^(n-1).
#[derive(Copy, Clone, Eq, PartialEq, PartialOrd, Debug)]
pub(super) struct SizeCode(pub(super) u32);

impl SizeCode {
    /// The largest segment that is split rather than grown, when it can be.
    pub(super) const FULL: SizeCode = SizeCode(1);

    fn lines(self) -> usize {
        if self.0 == 0 { SMALL_SEGMENT_LINES } else { SEGMENT_LINES << (self.0 - 1) }
    }

    pub(super) fn buckets(self) -> usize {
        self.lines() - 1
    }

    pub(super) fn larger(self) -> SizeCode {
        assert!(self.0 + 1 < 1 << (10 - DEPTH_BITS), "a segment of 2^36 lines");
        SizeCode(self.0 + 1)
    }
}

/// The word of one segment. A view: it owns nothing.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub(super) struct Segment(NonNull<u8>);

impl Segment {
    /// An empty segment.
    pub(super) fn allocate(code: SizeCode, depth: u32) -> Segment {
        let base = allocate_zeroed(code.lines() * BUCKET_BYTES, SEGMENT_ALIGN);
        Segment(base.map_addr(|address| address | (code.0 << DEPTH_BITS | depth) as usize))
    }

    /// Gives the memory back, without the entries.
    ///
    /// # Safety
    /// No copy of the word and no run of the segment is used again.
    pub(super) unsafe fn release(self) {
        // SAFETY: base and size are those of the request.
        unsafe { release(self.base(), self.bytes(), SEGMENT_ALIGN) }
    }

    #[inline]
    fn word(self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    fn base(self) -> NonNull<u8> {
        let base = self.0.as_ptr().map_addr(|address| address & !(SEGMENT_ALIGN - 1));
        // SAFETY: a segment's address is not null.
        unsafe { NonNull::new_unchecked(base) }
    }

    #[inline]
    pub(super) fn depth(self) -> u32 {
        self.word() as u32 & ((1 << DEPTH_BITS) - 1)
    }

    #[inline]
    pub(super) fn code(self) -> SizeCode {
        SizeCode((self.word() & (SEGMENT_ALIGN - 1)) as u32 >> DEPTH_BITS)
    }

    pub(super) fn bytes(self) -> usize {
        self.code().lines() * BUCKET_BYTES
    }

    pub(super) fn slots(self) -> usize {
        self.code().buckets() * SLOTS
    }

    #[inline]
    pub(super) fn run(self) -> Run {
        // SAFETY: the buckets follow the header line, and are live as the segment is; all zeroes
        // is a valid bucket.
        unsafe {
            let first = self.base().add(SEGMENT_HEADER_BYTES).cast::<Bucket>();
            Run::new(first, self.code().buckets(), self.depth())
        }
    }

    /// Entries of the segment.
    #[inline]
    pub(super) fn count(self) -> usize {
        // SAFETY: the header line begins with the count.
        unsafe { self.base().cast::<usize>().read() }
    }

    /// # Safety
    /// The caller has the segment to itself.
    #[inline]
    pub(super) unsafe fn set_count(self, count: usize) {
        // SAFETY: as `count`.
        unsafe { self.base().cast::<usize>().write(count) }
    }
}

/// The first line of a directory.
#[derive(Copy, Clone)]
#[repr(C)]
pub(super) struct Header {
    /// Segments in all.
    pub(super) segments: usize,
    /// Segments whose depth is the directory's.
    pub(super) deepest: usize,
    /// At least the buckets of the widest segment.
    pub(super) widest_buckets: usize,
}

const _: () = assert!(size_of::<Header>() <= DIRECTORY_HEADER_BYTES);

/// A view of the directory: it owns nothing.
#[derive(Copy, Clone)]
pub(super) struct Directory {
    base: NonNull<u8>,
    depth: u32,
}

impl Directory {
    /// # Safety
    /// `base` came from `allocate` with the same depth, and lives as long as the view is used.
    #[inline]
    pub(super) unsafe fn new(base: NonNull<u8>, depth: u32) -> Directory {
        Directory { base, depth }
    }

    /// A directory whose words are all to be set before any is read.
    pub(super) fn allocate(depth: u32, header: Header) -> Directory {
        let directory = Directory { base: allocate_zeroed(size(depth), 64), depth };
        // SAFETY: nobody else knows the new directory.
        unsafe { directory.set_header(header) };
        directory
    }

    /// Gives the memory back, without the segments.
    ///
    /// # Safety
    /// No view of this directory is used again.
    pub(super) unsafe fn release(self) {
        // SAFETY: base and size are those of the request.
        unsafe { release(self.base, self.bytes(), 64) }
    }

    pub(super) fn bytes(self) -> usize {
        size(self.depth)
    }

    pub(super) fn base(self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    pub(super) fn depth(self) -> u32 {
        self.depth
    }

    #[inline]
    pub(super) fn words(self) -> usize {
        1 << self.depth
    }

    pub(super) fn header(self) -> Header {
        // SAFETY: `allocate` wrote it.
        unsafe { self.base.cast::<Header>().read() }
    }

    /// # Safety
    /// The caller has the directory to itself.
    pub(super) unsafe fn set_header(self, header: Header) {
        // SAFETY: the first line is the header's.
        unsafe { self.base.cast::<Header>().write(header) }
    }

    #[inline]
    pub(super) fn index_of(self, hash: KeyHash) -> usize {
        (hash.0 >> (64 - self.depth)) as usize
    }

    #[inline]
    fn word_ptr(self, index: usize) -> NonNull<Segment> {
        debug_assert!(index < self.words());
        // SAFETY: the index is below 2^depth: callers mask or count.
        unsafe { self.base.add(DIRECTORY_HEADER_BYTES).cast::<Segment>().add(index) }
    }

    #[inline]
    pub(super) fn segment(self, index: usize) -> Segment {
        // SAFETY: every word has been set, and holds a live segment.
        unsafe { self.word_ptr(index).read() }
    }

    #[inline]
    pub(super) fn segment_of(self, hash: KeyHash) -> Segment {
        self.segment(self.index_of(hash))
    }

    /// Words that point to a segment of `depth`.
    pub(super) fn span(self, depth: u32) -> usize {
        1 << (self.depth - depth)
    }

    /// Points the words of the segment's prefix, around `index`, to it.
    ///
    /// # Safety
    /// The caller has the directory to itself; the segment holds that prefix.
    pub(super) unsafe fn set(self, index: usize, segment: Segment) {
        let span = self.span(segment.depth());
        let start = index & !(span - 1);
        for at in start..start + span {
            // SAFETY: the span ends inside the directory.
            unsafe { self.word_ptr(at).write(segment) };
        }
    }
}

/// Bytes of a directory.
fn size(depth: u32) -> usize {
    class(DIRECTORY_HEADER_BYTES + (size_of::<Segment>() << depth))
}

/// Zeroed memory; all uses of the table's own structures go through here.
pub(super) fn allocate_zeroed(bytes: usize, align: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(bytes, align).expect("buckets fit a layout");
    assert!(bytes > 0);
    // SAFETY: the size is not 0.
    let raw = unsafe { alloc_zeroed(layout) };
    NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `at` came from `allocate_zeroed(bytes, align)` and is not used again.
pub(super) unsafe fn release(at: NonNull<u8>, bytes: usize, align: usize) {
    let layout = Layout::from_size_align(bytes, align).expect("it was allocated with it");
    // SAFETY: the layout is that of the request.
    unsafe { dealloc(at.as_ptr(), layout) }
}
