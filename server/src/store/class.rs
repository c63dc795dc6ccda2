//! Size classes of the allocator: what a request for `n` bytes really costs, and which sizes a
//! growing buffer should ask for. Not an allocator: arithmetic only.
//! Invariant: `size_class(n) >= n`, and `size_class(size_class(n)) == size_class(n)`.

/// Rounds a request up to the size class jemalloc serves it from: multiples of 16 up to 128, then
/// four steps to each doubling. Zero costs nothing. Bytes.
#[inline]
pub fn size_class(bytes: usize) -> usize {
    if bytes <= 8 {
        return if bytes == 0 { 0 } else { 8 };
    }
    if bytes <= 128 {
        return bytes.next_multiple_of(16);
    }
    // bytes in (2^k, 2^(k+1)] have the step 2^(k-2).
    let step = 1usize << ((bytes - 1).ilog2() - 2);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_jemalloc() {
        let cases = [
            (0, 0),
            (1, 8),
            (9, 16),
            (17, 32),
            (113, 128),
            (129, 160),
            (160, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (4097, 5120),
            (65536, 65536),
            (65537, 81920),
        ];
        for (asked, served) in cases {
            assert_eq!(size_class(asked), served, "{asked}");
        }
    }

    #[test]
    fn a_class_is_its_own_class() {
        for n in 0..70_000 {
            let class = size_class(n);
            assert!(class >= n);
            assert_eq!(size_class(class), class, "{n}");
        }
    }
}
