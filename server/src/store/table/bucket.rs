//! Buckets and runs of buckets.
//!
//! ```text
//! bucket, one cache line:  tag tag tag tag tag tag tag over | block x 7
//! ```
//! A tag of 0 is a free slot. An entry whose home bucket is full goes to the next one of the run
//! (the last is followed by the first), and every full bucket it passed counts it in `over`, so a
//! search ends at the first bucket with `over` 0 and a removal leaves no tombstone. A counter that
//! reached 255 stays there: longer searches, never a wrong one.
//! Invariant: a slot with a tag holds a live block; a run always has a free slot when one inserts.

use std::ptr::{NonNull, null_mut};

use super::block::Block;
use super::hash::{KeyHash, hash_key};
use super::prefetch::prefetch;

/// Entries of one bucket.
pub(super) const SLOTS: usize = 7;
/// Bytes of one bucket: a cache line.
pub(super) const BUCKET_BYTES: usize = 64;
/// Bits of the hash, behind the segment's prefix, that choose the bucket.
pub(super) const BUCKET_HASH_BITS: u32 = 24;
/// Buckets a rehash prefetches ahead: four hide most of a memory access (measured).
const REHASH_AHEAD_BUCKETS: usize = 4;
/// The value at which a counter of overflows stops counting, up and down.
const OVERFLOW_STUCK: u8 = u8::MAX;

/// The home bucket of `hash` among `buckets`, in the order of the bits behind `depth`.
#[inline]
pub(super) fn bucket_of(hash: KeyHash, depth: u32, buckets: usize) -> usize {
    let bits = (hash.0 << depth) >> (64 - BUCKET_HASH_BITS);
    ((bits * buckets as u64) >> BUCKET_HASH_BITS) as usize
}

/// Seven tagged slots; all zeroes is an empty bucket.
#[repr(C, align(64))]
pub(super) struct Bucket {
    tags: [u8; SLOTS],
    over: u8,
    blocks: [*mut u8; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

impl Bucket {
    /// The slots whose tag is `tag`, one bit each.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    fn with_tag(&self, tag: u8) -> u32 {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadl_epi64, _mm_movemask_epi8, _mm_set1_epi8,
        };
        // SAFETY: SSE2 is part of x86_64; the load reads the 8 bytes of tags and counter.
        let equal = unsafe {
            let tags = _mm_loadl_epi64(std::ptr::from_ref(self).cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)))
        };
        equal as u32 & 0x7f
    }

    /// The slots whose tag is `tag`, one bit each.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    #[inline]
    fn with_tag(&self, tag: u8) -> u32 {
        portable_with_tag(&self.tags, tag)
    }

    #[inline]
    fn occupied(&self) -> u32 {
        !self.with_tag(0) & 0x7f
    }
}

/// What `with_tag` is elsewhere than on x86_64.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn portable_with_tag(tags: &[u8; SLOTS], tag: u8) -> u32 {
    tags.iter().enumerate().fold(0, |mask, (at, own)| mask | u32::from(*own == tag) << at)
}

/// Where an entry lies in its run.
#[derive(Copy, Clone)]
pub(super) struct Place {
    bucket: usize,
    slot: usize,
}

/// A bucket array with the number of hash bits spent before it: a small table's whole array, or
/// one segment. A view: it owns nothing.
#[derive(Copy, Clone)]
pub(super) struct Run {
    base: NonNull<Bucket>,
    buckets: usize,
    depth: u32,
}

impl Run {
    /// # Safety
    /// `base` points to `buckets` > 0 live buckets, which stay allocated, and are changed through
    /// this module only, for as long as the run is used.
    #[inline]
    pub(super) unsafe fn new(base: NonNull<Bucket>, buckets: usize, depth: u32) -> Run {
        Run { base, buckets, depth }
    }

    #[inline]
    pub(super) fn buckets(self) -> usize {
        self.buckets
    }

    #[inline]
    pub(super) fn home(self, hash: KeyHash) -> usize {
        bucket_of(hash, self.depth, self.buckets)
    }

    #[inline]
    fn bucket(&self, at: usize) -> &Bucket {
        debug_assert!(at < self.buckets);
        // SAFETY: `at` is below `buckets` (homes are, `after` keeps it), and `new` promised them.
        unsafe { self.base.add(at).as_ref() }
    }

    #[inline]
    fn after(self, at: usize) -> usize {
        if at + 1 == self.buckets { 0 } else { at + 1 }
    }

    /// Finds the entry of `key`.
    #[inline]
    pub(super) fn find(self, hash: KeyHash, key: &[u8]) -> Option<(Place, Block)> {
        let tag = hash.tag();
        let mut at = self.home(hash);
        for _ in 0..self.buckets {
            let bucket = self.bucket(at);
            let mut candidates = bucket.with_tag(tag);
            while candidates != 0 {
                let slot = candidates.trailing_zeros() as usize;
                // SAFETY: the tag is not 0, so the slot holds a live block.
                let block = unsafe { Block::from_raw(bucket.blocks[slot]) };
                if block.key() == key {
                    return Some((Place { bucket: at, slot }, block));
                }
                candidates &= candidates - 1;
            }
            if bucket.over == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// Puts `block`, whose key hashes to `hash`, into the first free slot from its home on.
    ///
    /// # Safety
    /// The caller has the run to itself, and at least one slot is free.
    pub(super) unsafe fn insert(self, hash: KeyHash, block: Block) {
        let mut at = self.home(hash);
        loop {
            // SAFETY: `at` is below `buckets`; the caller has the run to itself.
            let bucket = unsafe { self.base.add(at).as_mut() };
            let free = bucket.with_tag(0);
            if free != 0 {
                let slot = free.trailing_zeros() as usize;
                bucket.tags[slot] = hash.tag();
                bucket.blocks[slot] = block.as_ptr();
                return;
            }
            bucket.over = bucket.over.saturating_add(1);
            at = self.after(at);
        }
    }

    /// Takes the entry at `place`, whose key hashes to `hash`, out of the run.
    ///
    /// # Safety
    /// The caller has the run to itself, and `place` is what `find` returned for `hash` with no
    /// change since.
    pub(super) unsafe fn remove(self, hash: KeyHash, place: Place) {
        let mut at = self.home(hash);
        while at != place.bucket {
            // SAFETY: `at` is below `buckets`; the caller has the run to itself.
            let passed = unsafe { self.base.add(at).as_mut() };
            debug_assert!(passed.over > 0);
            if passed.over != OVERFLOW_STUCK {
                passed.over -= 1;
            }
            at = self.after(at);
        }
        // SAFETY: a place of this run is below `buckets`; the caller has the run to itself.
        let bucket = unsafe { self.base.add(place.bucket).as_mut() };
        bucket.tags[place.slot] = 0;
        bucket.blocks[place.slot] = null_mut();
    }

    /// Sets the block of an occupied place, after it moved.
    ///
    /// # Safety
    /// The caller has the run to itself, `place` is occupied, `block` holds the same key.
    pub(super) unsafe fn replace(self, place: Place, block: Block) {
        // SAFETY: a place of this run is below `buckets`; the caller has the run to itself.
        let bucket = unsafe { self.base.add(place.bucket).as_mut() };
        bucket.blocks[place.slot] = block.as_ptr();
    }

    /// The occupied slots of one bucket, one bit each.
    #[inline]
    pub(super) fn occupied(self, bucket: usize) -> u32 {
        self.bucket(bucket).occupied()
    }

    /// The block in a slot, or none when it is free.
    #[inline]
    pub(super) fn block(self, bucket: usize, slot: usize) -> Option<Block> {
        let bucket = self.bucket(bucket);
        // SAFETY: a slot with a tag holds a live block.
        (bucket.tags[slot] != 0).then(|| unsafe { Block::from_raw(bucket.blocks[slot]) })
    }

    /// Calls `visit` for every entry that may have its home in bucket `home`, and for some that
    /// have not: those of the buckets a search from there could reach.
    pub(super) fn visit_from(self, home: usize, visit: &mut dyn FnMut(Block)) {
        let mut at = home;
        for _ in 0..self.buckets {
            self.blocks_of(at).for_each(&mut *visit);
            if self.bucket(at).over == 0 {
                return;
            }
            at = self.after(at);
        }
    }

    /// Appends every block with its hash, in storage order. The hash is computed: the key's line
    /// is prefetched some buckets ahead.
    pub(super) fn collect(self, out: &mut Vec<(KeyHash, Block)>) {
        (0..REHASH_AHEAD_BUCKETS.min(self.buckets)).for_each(|at| self.prefetch_all(at));
        for at in 0..self.buckets {
            if at + REHASH_AHEAD_BUCKETS < self.buckets {
                self.prefetch_all(at + REHASH_AHEAD_BUCKETS);
            }
            for block in self.blocks_of(at) {
                out.push((hash_key(block.key()), block));
            }
        }
    }

    /// The blocks of one bucket.
    fn blocks_of(self, at: usize) -> impl Iterator<Item = Block> {
        let mut occupied = self.occupied(at);
        std::iter::from_fn(move || {
            let slot = occupied.trailing_zeros() as usize;
            occupied &= occupied.wrapping_sub(1);
            if slot < SLOTS { self.block(at, slot) } else { None }
        })
    }

    /// Asks for the first line of the bucket's entries. Free slots are passed over: a prefetch of
    /// the null page walks the page tables for nothing.
    fn prefetch_all(self, at: usize) {
        self.blocks_of(at).for_each(|block| prefetch(block.as_ptr()));
    }

    /// Asks for the line of the home bucket.
    #[inline]
    pub(super) fn prefetch_bucket(self, hash: KeyHash) {
        let offset = self.home(hash) * BUCKET_BYTES;
        prefetch(self.base.as_ptr().cast::<u8>().wrapping_add(offset));
    }

    /// Asks for the first two lines of the entry the home bucket most likely holds for `hash`.
    #[inline]
    pub(super) fn prefetch_entry(self, hash: KeyHash) {
        let bucket = self.bucket(self.home(hash));
        let candidates = bucket.with_tag(hash.tag());
        if candidates != 0 {
            let block = bucket.blocks[candidates.trailing_zeros() as usize];
            prefetch(block);
            prefetch(block.wrapping_add(BUCKET_BYTES));
        }
    }

    /// The first position behind the home bucket of `position`, a scan position of this run.
    pub(super) fn range_end(self, position: u64) -> u64 {
        use super::hash::POSITION_BITS;
        let hash = KeyHash(position << (64 - POSITION_BITS));
        let next = (self.home(hash) as u64 + 1) << BUCKET_HASH_BITS;
        let bits = next.div_ceil(self.buckets as u64);
        let below = POSITION_BITS - self.depth;
        let prefix = position >> below << below;
        prefix + (bits << (below - BUCKET_HASH_BITS))
    }
}

#[cfg(test)]
impl Run {
    /// Recounts every bucket's overflow counter from the entries' homes.
    pub(super) fn check_overflow(self) {
        let mut passed = vec![0usize; self.buckets];
        for at in 0..self.buckets {
            for block in self.blocks_of(at) {
                let mut way = self.home(hash_key(block.key()));
                while way != at {
                    passed[way] += 1;
                    way = self.after(way);
                }
            }
        }
        for (at, expected) in passed.into_iter().enumerate() {
            let over = self.bucket(at).over;
            assert!(over == OVERFLOW_STUCK || usize::from(over) == expected, "{over}, {expected}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_match_equals_the_vector_match() {
        let mut tags = [0u8; SLOTS];
        for round in 0..2_000u32 {
            for (at, tag) in tags.iter_mut().enumerate() {
                *tag = ((round.wrapping_mul(2_654_435_761) >> (at * 3)) & 3) as u8;
            }
            let bucket = Bucket { tags, over: 1, blocks: [null_mut(); SLOTS] };
            for tag in 0..4 {
                assert_eq!(bucket.with_tag(tag), portable_with_tag(&tags, tag));
            }
        }
    }

    #[test]
    fn homes_follow_the_order_of_the_hash() {
        for buckets in [1usize, 2, 4, 8, 16, 24, 32, 47, 48, 63, 64, 127] {
            for depth in [0u32, 1, 7, 24] {
                let mut last = 0;
                for step in 0..5_000u64 {
                    let inside = step * (u64::MAX / 5_000);
                    let home = bucket_of(KeyHash(inside >> depth), depth, buckets);
                    assert!(home >= last && home < buckets);
                    last = home;
                }
                assert_eq!(last, buckets - 1);
            }
        }
    }
}
