//! The hash of keys: a seeded folded multiply.
//!
//! Not a cryptographic hash: its strength against chosen keys is the secrecy of the seed, so every
//! constant that meets the key's bytes is derived from it. Invariant: the seed never changes once
//! a key has been hashed, for tables store nothing of the hash and compute it again when they
//! split.

use std::sync::OnceLock;

use super::ScanPos;

/// The hash of one key. The top bits order the table (directory, bucket, scan position), the
/// lowest byte is the tag.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct KeyHash(pub u64);

/// Bits of the hash that make a scan position.
pub(super) const POSITION_BITS: u32 = 48;

impl KeyHash {
    /// The scan position: the top 48 bits.
    pub(super) fn position(self) -> u64 {
        self.0 >> (64 - POSITION_BITS)
    }

    /// The tag of an occupied slot; never 0, which marks a free one.
    pub(super) fn tag(self) -> u8 {
        let low = self.0 as u8;
        if low == 0 { 1 } else { low }
    }
}

/// What the seed becomes: three secrets that meet the key's bytes.
#[derive(Copy, Clone, Eq, PartialEq)]
struct Secrets {
    start: u64,
    left: u64,
    last: u64,
}

/// The order in which the tables of a process keep their keys: ranges of it are said in a slot's
/// stream, and whoever reads the stream may have another. As secret as the seed it comes from.
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct KeyOrder {
    seed: u64,
    secrets: Secrets,
}

static ORDER: OnceLock<KeyOrder> = OnceLock::new();

/// The seed of processes that set none (tests, tools).
const DEFAULT_SEED: u64 = 0x243f_6a88_85a3_08d3;

/// Sets the process-wide seed. Returns false, and changes nothing, when a key has been hashed or
/// a seed set before.
pub fn set_hash_seed(seed: u64) -> bool {
    ORDER.set(KeyOrder::seeded(seed)).is_ok()
}

impl KeyOrder {
    /// The order of this process, for good.
    #[inline]
    pub fn local() -> KeyOrder {
        *local()
    }

    /// The order of a process with this seed.
    pub fn seeded(seed: u64) -> KeyOrder {
        KeyOrder { seed, secrets: Secrets::derive(seed) }
    }

    /// What tells this order from others.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Where `key` stands in this order.
    pub fn position(&self, key: &[u8]) -> ScanPos {
        if self == local() {
            return ScanPos::of(hash_key(key));
        }
        ScanPos::of(KeyHash(hash_with(&self.secrets, key)))
    }
}

#[inline]
fn local() -> &'static KeyOrder {
    ORDER.get_or_init(|| KeyOrder::seeded(DEFAULT_SEED))
}

/// The hash of `key` under the process-wide seed.
#[inline]
pub fn hash_key(key: &[u8]) -> KeyHash {
    let hash = hash_with(&local().secrets, key);
    #[cfg(test)]
    let hash = hash & weak::mask();
    KeyHash(hash)
}

#[inline]
fn hash_with(secrets: &Secrets, key: &[u8]) -> u64 {
    let length = key.len();
    let mut state = secrets.start;
    let (left, right) = if length > 16 {
        // The last 16 bytes are mixed below, whole or overlapping.
        let mut rest = key;
        while rest.len() > 16 {
            let (pair, after) = rest.split_at(16);
            state = fold(word(pair) ^ secrets.left, word(&pair[8..]) ^ state);
            rest = after;
        }
        let tail = &key[length - 16..];
        (word(tail), word(&tail[8..]))
    } else if length >= 8 {
        (word(key), word(&key[length - 8..]))
    } else if length >= 4 {
        (half(key), half(&key[length - 4..]))
    } else if length > 0 {
        let spread = u64::from(key[0]) << 16 | u64::from(key[length / 2]) << 8;
        (spread | u64::from(key[length - 1]), 0)
    } else {
        (0, 0)
    };
    fold(secrets.last ^ length as u64, fold(left ^ secrets.left, right ^ state))
}

/// The two halves of the 128-bit product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The first 8 bytes; callers pass at least 8.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// The first 4 bytes; callers pass at least 4.
#[inline]
fn half(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |chunk| u64::from(u32::from_le_bytes(*chunk)))
}

impl Secrets {
    /// Three outputs of splitmix64, made odd so that none is zero.
    fn derive(seed: u64) -> Secrets {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) | 1
        };
        Secrets { start: next(), left: next(), last: next() }
    }
}

/// Lets a test weaken the hash on its own thread, to force collisions.
#[cfg(test)]
pub(super) mod weak {
    use std::cell::Cell;

    thread_local! {
        static MASK: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    pub(super) fn mask() -> u64 {
        MASK.with(Cell::get)
    }

    /// Runs `body` with hashes cut down to the bits of `mask`.
    pub(in crate::store::table) fn with_mask<T>(mask: u64, body: impl FnOnce() -> T) -> T {
        struct Restore(u64);
        impl Drop for Restore {
            fn drop(&mut self) {
                MASK.with(|cell| cell.set(self.0));
            }
        }
        let _restore = Restore(MASK.with(|cell| cell.replace(mask)));
        body()
    }
}

#[cfg(test)]
mod tests {
    use super::{Secrets, hash_key, hash_with};

    #[test]
    fn every_bit_of_the_key_flips_about_half_of_the_hash() {
        let samples: u64 = if cfg!(miri) { 4 } else { 400 };
        for length in [1usize, 3, 4, 7, 8, 12, 16, 17, 24, 33] {
            for bit in 0..length * 8 {
                let mut flips = [0u32; 64];
                for sample in 0..samples {
                    let mut key = vec![0u8; length];
                    for (at, byte) in key.iter_mut().enumerate() {
                        let mixed = (sample + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 + at as u64);
                        *byte = (mixed >> 29) as u8;
                    }
                    let before = hash_key(&key).0;
                    key[bit / 8] ^= 1 << (bit % 8);
                    let changed = before ^ hash_key(&key).0;
                    for (out, count) in flips.iter_mut().enumerate() {
                        *count += (changed >> out & 1) as u32;
                    }
                }
                // One-byte keys have few values, so the bounds are wide: 6 sigma is 0.35..0.65.
                for (out, count) in flips.iter().enumerate() {
                    let share = f64::from(*count) / samples as f64;
                    let fine = cfg!(miri) || (0.25..0.75).contains(&share);
                    assert!(fine, "length {length} bit {bit} out {out}: {share}");
                }
            }
        }
    }

    #[test]
    fn counting_keys_fill_all_prefixes_and_tags_evenly() {
        let keys: u64 = if cfg!(miri) { 2_000 } else { 256 * 1024 };
        let (mut tops, mut tags) = ([0u64; 256], [0u64; 256]);
        for number in 0..keys {
            let hash = hash_key(format!("key:{number:012}").as_bytes());
            tops[(hash.0 >> 56) as usize] += 1;
            tags[hash.0 as u8 as usize] += 1;
        }
        for counts in [tops, tags] {
            let expected = keys as f64 / 256.0;
            let chi: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
            // 255 degrees of freedom: mean 255, sigma 22.6.
            assert!((140.0..=390.0).contains(&chi), "chi-square {chi}");
        }
    }

    #[test]
    fn seeds_give_unrelated_hashes_and_lengths_matter() {
        let (one, two) = (Secrets::derive(1), Secrets::derive(2));
        let distance = (hash_with(&one, b"key:1") ^ hash_with(&two, b"key:1")).count_ones();
        assert!((10..=54).contains(&distance), "{distance}");
        let zeros = [0u8; 70];
        let mut seen = std::collections::HashSet::new();
        for length in 0..=70 {
            assert!(seen.insert(hash_with(&one, &zeros[..length])), "length {length}");
        }
    }
}
