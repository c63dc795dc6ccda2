//! Prefetches, and the hint that may be used without the room's lock.
//!
//! Not a way to read: a hint computes addresses and asks the processor to load them; it never
//! dereferences, so a hint that is out of date costs a useless load and nothing else. On other
//! processors than x86_64 all of it does nothing.

use super::bucket::{BUCKET_BYTES, bucket_of};
use super::directory::DIRECTORY_HEADER_BYTES;
use super::hash::KeyHash;
use super::root::{ARRAY_BUCKETS, DIRECTORY_SHAPE, ROOT_ALIGN};

/// Asks for the cache line at `address`. Any address will do.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults and changes no memory, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Asks for the first two cache lines of a value: a room on its way to be locked.
#[inline(always)]
pub fn prefetch_two_lines<T>(value: &T) {
    let address: *const u8 = std::ptr::from_ref(value).cast();
    prefetch(address);
    prefetch(address.wrapping_add(64));
}

/// The root of a table as one word: the address of its bucket array or directory, with the shape
/// in the low bits. Taken under the lock, used at any time.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct TableHint(usize);

impl TableHint {
    pub(super) fn new(root: usize) -> TableHint {
        TableHint(root)
    }

    /// The hint kept by [`TableHint::to_raw`]; any other number is harmless.
    #[inline]
    pub fn from_raw(raw: usize) -> TableHint {
        TableHint(raw)
    }

    /// The hint as a number, to be kept in an atomic. 0 is an empty table.
    #[inline]
    pub fn to_raw(self) -> usize {
        self.0
    }

    /// Asks for the first line a look-up of `hash` touches: the bucket of a small table, the
    /// directory's line of a large one.
    #[inline]
    pub fn prefetch(self, hash: KeyHash) {
        if self.0 == 0 {
            return;
        }
        let shape = self.0 % ROOT_ALIGN;
        let base = self.0 - shape;
        let offset = if shape >= DIRECTORY_SHAPE {
            // A hint from a stray number may hold any shape: the shift must not overflow.
            let depth = (shape - DIRECTORY_SHAPE) as u32;
            let index = hash.0.checked_shr(64 - depth).unwrap_or(0) as usize;
            DIRECTORY_HEADER_BYTES.wrapping_add(index.wrapping_mul(size_of::<usize>()))
        } else {
            let buckets = ARRAY_BUCKETS.get(shape).copied().unwrap_or(1);
            bucket_of(hash, 0, buckets) * BUCKET_BYTES
        };
        prefetch(std::ptr::without_provenance(base.wrapping_add(offset)));
    }
}
