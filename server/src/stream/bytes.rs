//! Numbers and strings as bytes, both ways: what all formats of the stream are made of.
//!
//! ```text
//! varint: LEB128, low digits first, 1 to 10 bytes, no more than needed
//! string: varint length, bytes        u32, u64, i64, f64: little-endian
//! ```
//! Not a format of its own. Invariant: reading never trusts a length beyond the bytes that are
//! there, and allocates nothing.

use std::fmt;

/// Bytes of the longest varint.
const VARINT_BYTES_MAX: usize = 10;

/// What is wrong with bytes that were to be decoded, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Offset from the first byte of what was decoded.
    pub at: usize,
    /// What was found there.
    pub what: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for Broken {}

/// Appends a number.
#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        return out.push(value as u8);
    }
    let mut digits = [0; VARINT_BYTES_MAX];
    let (mut rest, mut len) = (value, 0);
    while rest >= 0x80 {
        digits[len] = rest as u8 | 0x80;
        rest >>= 7;
        len += 1;
    }
    digits[len] = rest as u8;
    out.extend_from_slice(&digits[..=len]);
}

/// Appends a string with its length.
#[inline]
pub(super) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// A cursor over bytes that somebody wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(all: &'a [u8]) -> Bytes<'a> {
        Bytes { all, at: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.all.len()
    }

    /// The error of what was just read, or is to be read next.
    pub(super) fn broken(&self, what: &'static str) -> Broken {
        Broken { at: self.at, what }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Broken> {
        let byte = *self.all.get(self.at).ok_or(self.broken("the end, not a byte"))?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Broken> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.long_varint(first)
    }

    fn long_varint(&mut self, first: u8) -> Result<u64, Broken> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let digit = self.byte()?;
            value |= u64::from(digit & 0x7f) << shift;
            if digit >= 0x80 {
                continue;
            }
            if digit == 0 || (shift == 63 && digit > 1) {
                return Err(self.broken("a number longer than it needs to be"));
            }
            return Ok(value);
        }
        Err(self.broken("a number without an end"))
    }

    /// A number that counts or measures things in memory.
    pub(super) fn size(&mut self) -> Result<usize, Broken> {
        usize::try_from(self.varint()?).map_err(|_| self.broken("a number beyond memory"))
    }

    /// How many of something follow, each of at least `bytes_each` bytes.
    pub(super) fn count(&mut self, bytes_each: usize) -> Result<usize, Broken> {
        let count = self.size()?;
        let fits = count.checked_mul(bytes_each).is_some_and(|n| n <= self.all.len() - self.at);
        if fits { Ok(count) } else { Err(self.broken("a count beyond the end")) }
    }

    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Broken> {
        let taken = self.all[self.at..].get(..len).ok_or(self.broken("a length beyond the end"))?;
        self.at += len;
        Ok(taken)
    }

    #[inline]
    pub(super) fn string(&mut self) -> Result<&'a [u8], Broken> {
        let len = self.size()?;
        self.take(len)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let taken = self.take(N)?;
        Ok(*taken.first_chunk().ok_or(self.broken("a length beyond the end"))?)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Broken> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Broken> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Result<u64, Broken> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Broken> {
        self.array().map(i64::from_le_bytes)
    }

    /// A score: never NaN.
    pub(super) fn score(&mut self) -> Result<f64, Broken> {
        let score = f64::from_bits(self.u64()?);
        if score.is_nan() { Err(self.broken("a score that is not a number")) } else { Ok(score) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut bytes = Bytes::new(&out);
            prop_assert_eq!(bytes.varint(), Ok(value));
            prop_assert!(bytes.is_at_end());
        }
    }

    #[test]
    fn numbers_have_one_form() {
        for (bytes, what) in [
            (&[0x80, 0x00][..], "longer than it needs"),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], "longer than it needs"),
            (&[0x80; 11], "without an end"),
            (&[0x80], "the end"),
        ] {
            let error = Bytes::new(bytes).varint().expect_err("not a number");
            assert!(error.what.contains(what), "{bytes:?}: {error}");
        }
    }
}
