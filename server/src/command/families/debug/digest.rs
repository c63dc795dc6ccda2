//! Digests of values and of all keys: 160 bits, equal for equal contents whatever the encoding
//! and the order in a table, different (almost surely) otherwise. For tests, not against forgery.

use std::hash::{DefaultHasher, Hasher};

use slots::SlotId;

use super::with_key;
use crate::command::{Args, NodeCx, Outcome};
use crate::slot::{Found, Patience, Str, Value};
use crate::store::number::format_f64;

/// Three 64-bit lanes, each with its own start; 160 bits of them are shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digest([u64; 3]);

impl Digest {
    /// Of byte strings in this order; their borders count.
    fn of_parts(parts: &[&[u8]]) -> Digest {
        Digest(std::array::from_fn(|lane| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(lane as u8);
            for part in parts {
                hasher.write_usize(part.len());
                hasher.write(part);
            }
            hasher.finish()
        }))
    }

    fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (to, lane) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&lane.to_be_bytes());
        }
        bytes
    }

    /// Adds one of many whose order does not count.
    fn add(&mut self, other: Digest) {
        for (sum, lane) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(lane);
        }
    }

    /// Goes on with the next of many whose order counts.
    fn chain(&mut self, part: &[u8]) {
        *self = Digest::of_parts(&[&self.bytes(), part]);
    }

    fn hex(&self) -> String {
        self.bytes()[..20].iter().map(|b| format!("{b:02x}")).collect()
    }

    fn of_string(text: Str<'_>) -> Digest {
        Digest::of_parts(&[&text.cow()])
    }

    /// Of a value without its key and expiry.
    fn of_value(value: Value<'_>) -> Digest {
        let mut sum = Digest::default();
        match value {
            Value::Str(text) => sum = Digest::of_string(text),
            Value::List(list) => list.iter().for_each(|item| sum.chain(item)),
            Value::Hash(hash) => {
                hash.iter().for_each(|(field, value)| sum.add(Digest::of_parts(&[field, value])));
            }
            Value::Set(set) => {
                set.iter().for_each(|m| m.with(|text| sum.add(Digest::of_parts(&[text]))));
            }
            Value::SortedSet(zset) => {
                for (member, score) in zset.iter() {
                    let score = format_f64(score);
                    sum.add(Digest::of_parts(&[member, score.as_bytes()]));
                }
            }
        }
        Digest::of_parts(&[value.type_name().as_bytes(), &sum.bytes()])
    }

    fn of_key(found: Found<'_>) -> Digest {
        let expiry = found.expiry().map_or(Vec::new(), |at| at.to_be_bytes().to_vec());
        let value = Digest::of_value(found.value());
        Digest::of_parts(&[found.key(), &value.bytes(), &expiry])
    }
}

/// DEBUG DIGEST: of all keys of this node.
pub(super) fn all(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let mut sum = Digest::default();
    for slot in SlotId::all() {
        cx.enter(slot, Patience::Block, |owned| {
            let mut next = Some(crate::store::table::ScanPos::START);
            while let Some(at) = next {
                next = owned.keys().scan(at, &mut |found| sum.add(Digest::of_key(found)));
            }
        })?;
    }
    cx.reply.simple(sum.hex());
    Ok(())
}

/// DEBUG DIGEST-VALUE: of each value; zeros for a key that is not there.
pub(super) fn values(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let digests = args.from(2).map(|key| {
        with_key(cx, key, |owned, key| {
            owned.keys().peek(key).map_or(Digest::default(), |f| Digest::of_value(f.value()))
        })
    });
    let digests = digests.collect::<Result<Vec<_>, _>>()?;
    cx.reply.array(digests.len());
    digests.iter().for_each(|digest| cx.reply.simple(digest.hex()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn order_counts_in_chains_and_not_in_sums() {
        let parts: [&[u8]; 3] = [b"a", b"b", b"ab"];
        let [a, b, ab] = parts.map(|p| Digest::of_parts(&[p]));
        assert!(a != b && ab != Digest::of_parts(&[b"a", b"b"]));
        let sum = |items: &[Digest]| {
            items.iter().fold(Digest::default(), |mut sum, d| {
                sum.add(*d);
                sum
            })
        };
        assert!(sum(&[a, b]) == sum(&[b, a]) && sum(&[a, a]) != Digest::default());
        let chain = |items: &[&[u8]]| {
            let mut digest = Digest::default();
            items.iter().for_each(|i| digest.chain(i));
            digest
        };
        assert!(chain(&[b"a", b"b"]) != chain(&[b"b", b"a"]));
        assert!(chain(&[b"a", b"b"]) != chain(&[b"ab"]));
        assert_eq!(a.hex().len(), 40);
    }
}
