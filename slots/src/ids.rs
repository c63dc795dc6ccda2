//! Names and counters of the cluster: hex ids, boots, epochs, table versions, op indexes.
//!
//! Not a source of randomness: ids are made from bytes the caller brings.
//!
//! Invariant: an id has one text (lower-case hex of fixed length) and one value; an index, an
//! epoch and a version never mix by accident.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A text that is no id: wrong length or a character that is not hex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadId {
    /// Hex characters an id of this kind has.
    pub expected_chars: usize,
    /// Bytes the text has.
    pub got_bytes: usize,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadId { expected_chars, got_bytes } = self;
        write!(f, "an id is {expected_chars} hex characters, got {got_bytes} bytes")?;
        if expected_chars == got_bytes {
            f.write_str(" that are not all hex")?;
        }
        Ok(())
    }
}

impl std::error::Error for BadId {}

fn parse_hex<const N: usize>(text: &str) -> Result<[u8; N], BadId> {
    let bad = BadId { expected_chars: 2 * N, got_bytes: text.len() };
    if text.len() != 2 * N {
        return Err(bad);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = nibble(pair[0]).ok_or(bad)? << 4 | nibble(pair[1]).ok_or(bad)?;
    }
    Ok(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// An id of fixed length, shown as hex. Text in formats for people, raw bytes in binary ones.
macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// The id made of these bytes.
            pub const fn from_bytes(bytes: [u8; $bytes]) -> $name {
                $name(bytes)
            }

            /// The bytes of the id.
            pub const fn bytes(&self) -> &[u8; $bytes] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<$name, BadId> {
                parse_hex(text).map($name)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                if to.is_human_readable() { to.collect_str(self) } else { self.0.serialize(to) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                if from.is_human_readable() {
                    let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
                    text.parse().map_err(serde::de::Error::custom)
                } else {
                    <[u8; $bytes]>::deserialize(from).map($name)
                }
            }
        }
    };
}

hex_id! {
    /// A node's id for life: 40 hex characters, as Redis clients know it.
    NodeId, 20
}
hex_id! {
    /// The cluster's id, made once at its founding: 40 hex characters.
    ClusterId, 20
}
hex_id! {
    /// The id of a data directory, made with it: tells a wiped or foreign disk. 32 hex characters.
    StoreId, 16
}
hex_id! {
    /// A random mark of one start of one process: tells two copies of one data directory that
    /// start at once. 16 hex characters.
    Nonce, 8
}
hex_id! {
    /// The id of an operator's move, chosen by who asks for it, so that asking again is the same
    /// order. 16 hex characters.
    MoveId, 8
}

/// A counter of its own kind.
macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this. Stays at the end of u64, which no cluster lives to see.
            #[must_use]
            pub const fn next(self) -> $name {
                $name(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

counter! {
    /// How often a node has started; grows with every start. 0: not started yet.
    Boot
}
counter! {
    /// The table version of the entry that last changed who orders a slot's writes. 0: never owned.
    Epoch
}
counter! {
    /// Log index of an applied table entry. 0: nothing applied.
    TableVersion
}
counter! {
    /// Place of an op group in its slot's stream; the first is 1.
    OpIndex
}

/// An epoch is the version of an entry: this is where it comes from.
impl From<TableVersion> for Epoch {
    fn from(version: TableVersion) -> Epoch {
        Epoch(version.0)
    }
}

impl Epoch {
    /// The version of the entry that began the epoch.
    pub const fn began_at(self) -> TableVersion {
        TableVersion(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn node_id_is_forty_hex_characters() {
        let text = "07c37dfeb235213a872192d90877d0cd55635b91";
        let id: NodeId = text.parse().expect("an id");
        assert_eq!(id.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        assert_eq!(id.bytes()[0], 0x07);
    }

    #[test]
    fn other_texts_are_no_ids() {
        let short = "07c3".parse::<NodeId>().expect_err("too short");
        assert_eq!(short.to_string(), "an id is 40 hex characters, got 4 bytes");
        let foreign = "g7c37dfeb235213a872192d90877d0cd55635b91".parse::<NodeId>();
        assert!(foreign.expect_err("no hex").to_string().ends_with("not all hex"));
        // Forty bytes, but a hex pair would cut a character in two.
        assert!("é".repeat(20).parse::<NodeId>().is_err());
        assert!("+7c37dfeb235213a872192d90877d0cd55635b91".parse::<NodeId>().is_err());
    }

    proptest! {
        #[test]
        fn ids_come_back_from_their_text(bytes in any::<[u8; 20]>(), small in any::<[u8; 8]>()) {
            let id = NodeId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            let id = MoveId::from_bytes(small);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
