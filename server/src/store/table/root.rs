//! The root word of a table: null, a bucket array, or a directory.
//!
//! ```text
//! root word: address (64-aligned) | shape, 6 bits: 0..=8 index of the array's size,
//!                                                  16 + depth a directory
//! ```
//! Invariant: the word alone tells how to reach any bucket; the count of a small table's entries
//! is the table's length.

use std::ptr::NonNull;

use super::bucket::{BUCKET_BYTES, Bucket, Run};
use super::directory::{Directory, MAX_DEPTH, allocate_zeroed, release};
use super::hash::KeyHash;

/// Alignment of everything a root points to: a cache line, and six free bits.
pub(super) const ROOT_ALIGN: usize = 64;
/// Buckets of a small table's array; each size is a size class of the allocator.
pub(super) const ARRAY_BUCKETS: [usize; 9] = [1, 2, 4, 8, 16, 24, 32, 48, 64];
/// The shape of a directory of depth 0; the depth is added.
pub(super) const DIRECTORY_SHAPE: usize = 16;

const _: () = assert!(DIRECTORY_SHAPE + (MAX_DEPTH as usize) < ROOT_ALIGN);

/// The word. A view: the table owns what it points to.
#[derive(Copy, Clone)]
pub(super) struct Root(*mut u8);

/// The word, taken apart.
#[derive(Copy, Clone)]
pub(super) enum Shape {
    Empty,
    /// The array and the index of its size.
    Array(Run, usize),
    Directory(Directory),
}

impl Root {
    pub(super) const EMPTY: Root = Root(std::ptr::null_mut());

    /// A new array of empty buckets.
    pub(super) fn allocate_array(size: usize) -> Root {
        let base = allocate_zeroed(ARRAY_BUCKETS[size] * BUCKET_BYTES, ROOT_ALIGN);
        Root(base.as_ptr().map_addr(|address| address | size))
    }

    /// Gives back the array, without the entries.
    ///
    /// # Safety
    /// The root is an array, and neither it nor a run of it is used again.
    pub(super) unsafe fn release_array(self) {
        let size = self.0.addr() % ROOT_ALIGN;
        // SAFETY: base and size are those of the request.
        unsafe { release(self.base(), ARRAY_BUCKETS[size] * BUCKET_BYTES, ROOT_ALIGN) }
    }

    pub(super) fn of_directory(directory: Directory) -> Root {
        let shape = DIRECTORY_SHAPE + directory.depth() as usize;
        Root(directory.base().as_ptr().map_addr(|address| address | shape))
    }

    #[inline]
    pub(super) fn word(self) -> usize {
        self.0.addr()
    }

    #[inline]
    fn base(self) -> NonNull<u8> {
        let base = self.0.map_addr(|address| address & !(ROOT_ALIGN - 1));
        debug_assert!(!base.is_null());
        // SAFETY: callers have seen that the root is not empty.
        unsafe { NonNull::new_unchecked(base) }
    }

    #[inline]
    pub(super) fn shape(self) -> Shape {
        if self.0.is_null() {
            return Shape::Empty;
        }
        let shape = self.0.addr() % ROOT_ALIGN;
        if shape < DIRECTORY_SHAPE {
            // SAFETY: an array of this size lives as long as it is the table's root; all zeroes
            // is a valid bucket.
            let run = unsafe { Run::new(self.base().cast::<Bucket>(), ARRAY_BUCKETS[shape], 0) };
            return Shape::Array(run, shape);
        }
        let depth = (shape - DIRECTORY_SHAPE) as u32;
        // SAFETY: a directory of this depth lives as long as it is the table's root.
        Shape::Directory(unsafe { Directory::new(self.base(), depth) })
    }

    /// The run that holds the entries around `hash`, unless the table is empty.
    #[inline]
    pub(super) fn run_of(self, hash: KeyHash) -> Option<Run> {
        match self.shape() {
            Shape::Empty => None,
            Shape::Array(run, _) => Some(run),
            Shape::Directory(directory) => Some(directory.segment_of(hash).run()),
        }
    }
}
