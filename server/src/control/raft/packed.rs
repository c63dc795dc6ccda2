//! serde values as bytes: bincode 2 in its standard configuration, with a limit on both sides.
//!
//! Not a format of its own: whoever stores or sends packed bytes frames, versions and checksums
//! them. Invariant: unpacking allocates no more than a small multiple of the bytes it is given.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a value cannot be packed or bytes cannot be unpacked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unpackable {
    /// More bytes than allowed.
    TooBig {
        /// The most there may be.
        limit: usize,
        /// How many there are.
        got: usize,
    },
    /// Bytes follow the value.
    Trailing {
        /// Bytes the value took.
        expected: usize,
        /// Bytes there are.
        got: usize,
    },
    /// They are no such value.
    Malformed(String),
}

impl fmt::Display for Unpackable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unpackable::TooBig { limit, got } => write!(f, "{got} bytes, at most {limit} fit"),
            Unpackable::Trailing { expected, got } => {
                write!(f, "{got} bytes, the value ends after {expected}")
            }
            Unpackable::Malformed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Unpackable {}

/// Packs a value into at most `LIMIT` bytes.
pub fn pack<const LIMIT: usize>(value: &impl Serialize) -> Result<Vec<u8>, Unpackable> {
    let bytes = bincode::serde::encode_to_vec(value, bincode::config::standard())
        .map_err(|error| Unpackable::Malformed(error.to_string()))?;
    match bytes.len() {
        got if got > LIMIT => Err(Unpackable::TooBig { limit: LIMIT, got }),
        _ => Ok(bytes),
    }
}

/// Unpacks a value that takes all of at most `LIMIT` bytes.
pub fn unpack<T: DeserializeOwned, const LIMIT: usize>(bytes: &[u8]) -> Result<T, Unpackable> {
    let got = bytes.len();
    if got > LIMIT {
        return Err(Unpackable::TooBig { limit: LIMIT, got });
    }
    let config = bincode::config::standard().with_limit::<LIMIT>();
    let (value, expected) = bincode::serde::decode_from_slice(bytes, config)
        .map_err(|error| Unpackable::Malformed(error.to_string()))?;
    if expected != got {
        return Err(Unpackable::Trailing { expected, got });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_limits_hold_on_both_sides() {
        let value = (7_u64, "seven".to_owned());
        let bytes = pack::<64>(&value).expect("fits");
        assert_eq!(unpack::<(u64, String), 64>(&bytes), Ok(value.clone()));
        assert_eq!(pack::<3>(&value), Err(Unpackable::TooBig { limit: 3, got: 7 }));
        let longer = [bytes.as_slice(), &[0]].concat();
        let trailing = Unpackable::Trailing { expected: 7, got: 8 };
        assert_eq!(unpack::<(u64, String), 64>(&longer), Err(trailing));
        let shorter = unpack::<(u64, String), 64>(&bytes[..6]);
        assert!(matches!(shorter, Err(Unpackable::Malformed(_))), "{shorter:?}");
    }

    #[test]
    fn an_announced_length_without_bytes_is_refused_not_allocated() {
        // 253: a length of eight bytes follows; it announces an exabyte.
        let mut bytes = vec![253];
        bytes.extend_from_slice(&(1_u64 << 60).to_le_bytes());
        let got = unpack::<Vec<u64>, 4096>(&bytes);
        assert!(matches!(got, Err(Unpackable::Malformed(_))), "{got:?}");
    }
}
