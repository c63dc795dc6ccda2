//! How much one chunk of a list holds: `list-max-listpack-size` read as numbers.
//! Not a decision where an element goes: that is the list's.
//! Invariant: every chunk may hold one element, whatever its size.

use crate::store::pack::Pack;

/// Bytes a chunk bounded by a count may hold with more than one element, so that one change
/// never moves more. The same number as Redis.
const COUNTED_CHUNK_BYTES_MAX: usize = 8192;

/// Bytes of a chunk for `list-max-listpack-size` -1; each further step doubles it.
const SMALLEST_CHUNK_BYTES: usize = 4096;

/// The last step of `list-max-listpack-size`: 64 KiB.
pub(super) const LARGEST_STEP: i32 = -5;

/// What one chunk may hold.
#[derive(Copy, Clone)]
pub(super) struct ChunkLimit {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

impl ChunkLimit {
    pub(super) fn of(directive: i32) -> ChunkLimit {
        if directive >= 0 {
            let entries = directive.max(1) as usize;
            return ChunkLimit { entries, bytes: COUNTED_CHUNK_BYTES_MAX };
        }
        let step = -1 - directive.max(LARGEST_STEP);
        ChunkLimit { entries: usize::MAX, bytes: SMALLEST_CHUNK_BYTES << step }
    }

    /// Whether an element of `len` bytes may join `chunk`.
    pub(super) fn admits(self, chunk: &Pack, len: usize) -> bool {
        self.admits_sum(chunk.len() + 1, chunk.live_bytes() + Pack::entry_bytes(len))
    }

    pub(super) fn admits_sum(self, entries: usize, bytes: usize) -> bool {
        entries <= self.entries && bytes <= self.bytes
    }

    /// How far a buffer may grow ahead of need.
    pub(super) fn room(self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_directive_doubles_the_chunk() {
        for (directive, bytes) in [(-1, 4096), (-2, 8192), (-5, 65536), (-9, 65536)] {
            assert_eq!(ChunkLimit::of(directive).bytes, bytes);
        }
    }
}
