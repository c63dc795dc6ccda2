//! The allocator's size classes.
//!
//! Every block of the table is asked for in the size the allocator would round it to anyway, so
//! that `bytes()` is what the process really holds and an overwrite knows whether the block still
//! fits. Invariant: `class` is idempotent and monotone; the layout of a release equals the one of
//! the request.

/// The size class of jemalloc that holds `size` bytes: 8, then steps of 16 up to 128, then four
/// classes for each doubling.
pub(super) const fn class(size: usize) -> usize {
    if size <= 8 {
        return 8;
    }
    if size <= 128 {
        return (size + 15) & !15;
    }
    let step = 1usize << (usize::BITS - 3 - (size - 1).leading_zeros());
    (size + step - 1) & !(step - 1)
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn classes_are_those_of_the_allocator() {
        let known = [
            8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768,
            896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
            10240, 12288, 14336, 16384, 20480,
        ];
        let mut at = 0;
        for size in 0..=20480usize {
            if size > known[at] {
                at += 1;
            }
            assert_eq!(class(size), known[at], "size {size}");
        }
        assert_eq!(class((1 << 29) + 1), 5 << 27);
    }
}
