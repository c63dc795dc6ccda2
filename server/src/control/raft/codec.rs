//! serde values as bytes: bincode 2 in its standard configuration, with a limit on both sides.
//!
//! Not a format of its own: whoever stores or sends the bytes frames, versions and checksums them
//! (`disk`, `peer`). The only module that imports bincode.
//!
//! Invariant: bytes hold one value and nothing behind it; lengths inside them allocate no more
//! than a small multiple of the bytes that are there.

use std::fmt;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest body of a call between nodes, bytes: the largest entries (a boot with a mark for each
/// of 16,384 slots, a take over with a tail for each) stay under 400 KiB; ten of them fit.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// Why a value has no bytes, or bytes no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadBytes {
    /// More bytes than allowed.
    TooLong {
        /// The most there may be.
        limit: usize,
        /// How many there are.
        got: usize,
    },
    /// The bytes are no such value.
    Malformed(String),
    /// Bytes are left behind the value.
    Trailing {
        /// How many.
        left: usize,
    },
}

impl fmt::Display for BadBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBytes::TooLong { limit, got } => {
                write!(f, "{got} bytes, at most {limit} are allowed")
            }
            BadBytes::Malformed(why) => write!(f, "the bytes cannot be read: {why}"),
            BadBytes::Trailing { left } => write!(f, "{left} bytes are left behind the value"),
        }
    }
}

impl std::error::Error for BadBytes {}

const fn format<const LIMIT: usize>() -> Configuration<LittleEndian, Varint, Limit<LIMIT>> {
    bincode::config::standard().with_limit::<LIMIT>()
}

/// The body of a value. Refuses what is longer than `MAX_BODY_BYTES`.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, BadBytes> {
    pack::<MAX_BODY_BYTES>(value)
}

/// The value of a body. Refuses as `unpack` does, with `MAX_BODY_BYTES`.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadBytes> {
    unpack::<T, MAX_BODY_BYTES>(bytes)
}

/// A value in at most `LIMIT` bytes. Refuses what is longer.
pub fn pack<const LIMIT: usize>(value: &impl Serialize) -> Result<Vec<u8>, BadBytes> {
    let bytes = bincode::serde::encode_to_vec(value, bincode::config::standard())
        .map_err(|error| BadBytes::Malformed(error.to_string()))?;
    match bytes.len() {
        got if got > LIMIT => Err(BadBytes::TooLong { limit: LIMIT, got }),
        _ => Ok(bytes),
    }
}

/// The value that takes all of at most `LIMIT` bytes. Refuses, in this order: too many bytes,
/// bytes that are no such value, bytes left over.
pub fn unpack<T: DeserializeOwned, const LIMIT: usize>(bytes: &[u8]) -> Result<T, BadBytes> {
    let got = bytes.len();
    if got > LIMIT {
        return Err(BadBytes::TooLong { limit: LIMIT, got });
    }
    let (value, read) = bincode::serde::decode_from_slice(bytes, format::<LIMIT>())
        .map_err(|error| BadBytes::Malformed(error.to_string()))?;
    match got - read {
        0 => Ok(value),
        left => Err(BadBytes::Trailing { left }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_other_bytes_do_not() {
        let value = (7u64, vec!["a".to_owned(), String::new()]);
        let mut bytes = encode(&value).expect("it is short");
        assert_eq!(decode(&bytes), Ok(value));
        bytes.push(0);
        assert_eq!(decode::<(u64, Vec<String>)>(&bytes), Err(BadBytes::Trailing { left: 1 }));
        let cut = decode::<(u64, Vec<String>)>(&bytes[..2]);
        assert!(matches!(cut, Err(BadBytes::Malformed(_))), "{cut:?}");
    }

    #[test]
    fn too_long_is_refused_on_both_sides() {
        let long = vec![1u8; MAX_BODY_BYTES + 1];
        assert!(matches!(encode(&long), Err(BadBytes::TooLong { .. })));
        let (limit, got) = (MAX_BODY_BYTES, MAX_BODY_BYTES + 1);
        assert_eq!(decode::<Vec<u8>>(&long), Err(BadBytes::TooLong { limit, got }));
        let value = (7_u64, "seven");
        assert_eq!(pack::<7>(&value), Ok(pack::<64>(&value).expect("fits")));
        assert_eq!(pack::<3>(&value), Err(BadBytes::TooLong { limit: 3, got: 7 }));
    }

    #[test]
    fn an_announced_length_is_not_believed() {
        // A list of 2^62 elements, of which none follows.
        let bytes = [253, 0, 0, 0, 0, 0, 0, 0, 64];
        assert!(matches!(decode::<Vec<u64>>(&bytes), Err(BadBytes::Malformed(_))));
        let got = unpack::<Vec<u64>, 4096>(&bytes);
        assert!(matches!(got, Err(BadBytes::Malformed(_))), "{got:?}");
    }
}
