//! Bodies of calls between nodes: serde over bincode, in one place.
//!
//! Not the frames, which are written by hand (`peer/`).
//!
//! Invariant: a body is no longer than `MAX_BODY_BYTES`, holds one value and nothing behind it;
//! lengths inside it allocate nothing before the bytes are there.

use std::fmt;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest body, bytes: the largest entries (a boot with a mark for each of 16,384 slots, a take
/// over with a tail for each) stay under 400 KiB; ten of them fit.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// Why a value has no bytes, or bytes no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadBody {
    /// Longer than `MAX_BODY_BYTES`.
    TooLong {
        /// Bytes there are.
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

impl fmt::Display for BadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBody::TooLong { got } => {
                write!(f, "a body is at most {MAX_BODY_BYTES} bytes, got {got}")
            }
            BadBody::Malformed(why) => write!(f, "the body cannot be read: {why}"),
            BadBody::Trailing { left } => write!(f, "{left} bytes are left behind the body"),
        }
    }
}

impl std::error::Error for BadBody {}

const fn format() -> Configuration<LittleEndian, Varint, Limit<MAX_BODY_BYTES>> {
    bincode::config::standard().with_limit::<MAX_BODY_BYTES>()
}

/// The bytes of a value. Refuses what is longer than `MAX_BODY_BYTES`.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, BadBody> {
    let bytes = bincode::serde::encode_to_vec(value, format())
        .map_err(|error| BadBody::Malformed(error.to_string()))?;
    match bytes.len() {
        got if got > MAX_BODY_BYTES => Err(BadBody::TooLong { got }),
        _ => Ok(bytes),
    }
}

/// The value of bytes. Refuses, in this order: too many bytes, bytes that are no such value, bytes
/// left over.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadBody> {
    if bytes.len() > MAX_BODY_BYTES {
        return Err(BadBody::TooLong { got: bytes.len() });
    }
    let (value, read) = bincode::serde::decode_from_slice(bytes, format())
        .map_err(|error| BadBody::Malformed(error.to_string()))?;
    match bytes.len() - read {
        0 => Ok(value),
        left => Err(BadBody::Trailing { left }),
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
        assert_eq!(decode::<(u64, Vec<String>)>(&bytes), Err(BadBody::Trailing { left: 1 }));
        let cut = decode::<(u64, Vec<String>)>(&bytes[..2]);
        assert!(matches!(cut, Err(BadBody::Malformed(_))), "{cut:?}");
    }

    #[test]
    fn too_long_is_refused_on_both_sides() {
        let long = vec![1u8; MAX_BODY_BYTES + 1];
        assert!(matches!(encode(&long), Err(BadBody::TooLong { .. })));
        let got = MAX_BODY_BYTES + 1;
        assert_eq!(decode::<Vec<u8>>(&long), Err(BadBody::TooLong { got }));
    }

    #[test]
    fn an_announced_length_is_not_believed() {
        // A list of 2^62 elements, of which none follows.
        let bytes = [253, 0, 0, 0, 0, 0, 0, 0, 64];
        assert!(matches!(decode::<Vec<u64>>(&bytes), Err(BadBody::Malformed(_))));
    }
}
