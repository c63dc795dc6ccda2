//! The large form of a collection: a table from byte strings to byte strings, and the draw and
//! scan all collections share. Not a key space: no expiry, no objects.
//! Invariant: a cursor is a hash position, so what is in the table during a whole scan is visited
//! at least once however the table grows and shrinks.

use super::table::{Entry, EntryValue, Expiry, NewValue, Old, ScanPos, Table, hash_key};

/// Table positions tried for one element a caller asked for, as in Redis: a scan of a table that
/// has shrunk returns after a bounded walk, empty-handed if need be.
const SCAN_TRIES_PER_ELEMENT: usize = 10;

/// Hash positions, and so cursors, end here.
const CURSOR_END: u64 = 1 << 48;

/// Draws before an out-of-range number is used as it is. Each fails with a chance far below a
/// half, so only a broken source of random numbers gets here.
const DRAWS_MAX: usize = 64;

/// Fields with values; the values of sets are empty.
#[derive(Default)]
pub(super) struct Fields(Table<()>);

impl Fields {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of the allocations.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    #[inline]
    pub(super) fn value(&self, field: &[u8]) -> Option<&[u8]> {
        self.0.find(hash_key(field), field).map(|entry| pair(entry).1)
    }

    /// Sets a field; true if it is new.
    #[inline]
    pub(super) fn put(&mut self, field: &[u8], value: &[u8]) -> bool {
        let hash = hash_key(field);
        let old = self.0.put(hash, field, NewValue::Bytes(value), Expiry::Never);
        matches!(old, Old::Absent)
    }

    /// Removes a field; false if it is not there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        !matches!(self.0.remove(hash_key(field), field), Old::Absent)
    }

    /// All fields, in hash order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(pair)
    }

    /// Visits about `count` fields from `cursor` on; returns the next cursor, 0 at the end.
    /// A cursor that was never given out is harmless.
    pub(super) fn scan(&self, cursor: u64, count: usize, visit: &mut Visit<'_>) -> u64 {
        let mut seen = 0;
        let mut at = ScanPos(cursor);
        let count = count.max(1);
        for _ in 0..count.saturating_mul(SCAN_TRIES_PER_ELEMENT) {
            if at.0 >= CURSOR_END {
                return 0;
            }
            let next = self.0.scan(at, &mut |entry| {
                let (field, value) = pair(entry);
                visit(field, value);
                seen += 1;
            });
            let Some(next) = next else { return 0 };
            at = next;
            if seen >= count {
                break;
            }
        }
        at.0
    }

    /// One field, each with the same chance.
    pub(super) fn random(&self, next_random: &mut dyn FnMut() -> u64) -> Option<(&[u8], &[u8])> {
        self.0.random(next_random).map(pair)
    }
}

/// What a scan calls with each field and value.
pub(super) type Visit<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

impl Clone for Fields {
    fn clone(&self) -> Self {
        let mut copy = Fields::default();
        for (field, value) in self.iter() {
            copy.put(field, value);
        }
        copy
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn pair(entry: Entry<'_, ()>) -> (&[u8], &[u8]) {
    match entry.value() {
        EntryValue::Bytes(value) => (entry.key(), value),
        EntryValue::Boxed(()) => (entry.key(), &[]),
    }
}

/// A number below `bound`, each with the same chance; 0 for a bound of 0.
pub(super) fn draw_below(bound: usize, next_random: &mut dyn FnMut() -> u64) -> usize {
    let bound = bound as u64;
    // The high word of a 64x64 product is even once the lowest 2^64 mod bound products are refused.
    let refused = if bound == 0 { 0 } else { bound.wrapping_neg() % bound };
    let mut product = 0;
    for _ in 0..DRAWS_MAX {
        product = u128::from(next_random()) * u128::from(bound);
        if product as u64 >= refused {
            break;
        }
    }
    (product >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state ^ state >> 33
        };
        let mut hits = [0u32; 7];
        (0..70_000).for_each(|_| hits[draw_below(7, &mut next)] += 1);
        assert!(hits.iter().all(|h| (9_500..10_500).contains(h)), "{hits:?}");
    }

    #[test]
    fn a_stuck_source_does_not_hang() {
        assert_eq!(draw_below(3, &mut || 0), 0);
        assert_eq!(draw_below(0, &mut || 5), 0);
    }

    #[test]
    fn cursors_never_given_out_end_the_scan() {
        let mut fields = Fields::default();
        for i in 0..1000u32 {
            fields.put(&i.to_le_bytes(), b"");
        }
        for cursor in [CURSOR_END - 1, CURSOR_END, u64::MAX] {
            assert_eq!(fields.scan(cursor, 10, &mut |_, _| {}), 0);
        }
    }
}
