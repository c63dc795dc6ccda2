//! A short sequence of byte strings in one allocation: the compact form of hashes, sets and sorted
//! sets, and the chunk of a list. Not a table: finding is a scan.
//!
//! ```text
//! [gap][len][bytes][rev(len)] [len][bytes][rev(len)] ... [spare]
//!  ^ start                                          ^ buf.len()    ^ capacity
//! len: LEB128; rev(len): the same bytes in reverse, so that it can be read from its end
//! ```
//!
//! Invariant: `count` whole entries lie between `start` and the end of `buf`; an `At` is counted
//! from `start` and holds until the next change.

use super::class::size_class;

/// Bytes of the longest length prefix (a `usize` in groups of 7 bits).
const PREFIX_BYTES_MAX: usize = 10;

/// Below this capacity giving memory back is not worth a copy. Bytes.
const SHRINK_FROM_BYTES: usize = 64;

/// A compact collection leaves its form before its pack outgrows this, whatever its limits are.
/// The same number as Redis: 1 GiB.
const PACK_BYTES_MAX: usize = 1 << 30;

/// A packed sequence. Empty allocates nothing.
#[derive(Default, Debug)]
pub struct Pack {
    buf: Vec<u8>,
    start: u32,
    count: u32,
}

/// The place of an entry (or the end), good until the sequence changes.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub struct At(usize);

impl Pack {
    /// An empty sequence.
    pub const fn new() -> Self {
        Pack { buf: Vec::new(), start: 0, count: 0 }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the allocation, rounded to its size class.
    pub fn bytes(&self) -> usize {
        size_class(self.buf.capacity())
    }

    /// Bytes of the entries with their lengths.
    pub fn live_bytes(&self) -> usize {
        self.buf.len() - self.start as usize
    }

    /// Bytes an entry of `len` bytes takes.
    pub fn entry_bytes(len: usize) -> usize {
        len + 2 * prefix_bytes(len)
    }

    /// Whether one more entry, or a pair, of `len` bytes keeps the pack below its bound.
    pub fn has_room_for(&self, len: usize) -> bool {
        self.live_bytes() + len + 2 * PREFIX_BYTES_MAX <= PACK_BYTES_MAX
    }

    /// Allocates for `more` bytes of entries with their lengths.
    pub fn reserve(&mut self, more: usize) {
        self.reserve_back(more, 0);
    }

    /// From first to last, or back.
    pub fn iter(&self) -> PackIter<'_> {
        PackIter { live: self.live(), left: self.count }
    }

    /// The place of entry `index`; the end if there are fewer.
    pub fn at(&self, index: usize) -> At {
        let count = self.len();
        let mut rest = self.iter();
        if index >= count {
            At(self.live_bytes())
        } else if index <= count / 2 {
            rest.by_ref().take(index).for_each(drop);
            At(self.live_bytes() - rest.live.len())
        } else {
            rest.by_ref().rev().take(count - index).for_each(drop);
            At(rest.live.len())
        }
    }

    /// The entry at `at`; none at the end.
    pub fn get(&self, at: At) -> Option<&[u8]> {
        let live = &self.live()[at.0..];
        if live.is_empty() { None } else { Some(first_entry(live).0) }
    }

    /// Entry `index`.
    pub fn nth(&self, index: usize) -> Option<&[u8]> {
        self.get(self.at(index))
    }

    /// The place after the entry at `at`.
    pub fn after(&self, at: At) -> At {
        At(at.0 + first_entry(&self.live()[at.0..]).1)
    }

    /// The first entry `wanted` says yes to, trying one in `step`, from `from` on.
    pub fn position(
        &self,
        from: At,
        step: usize,
        mut wanted: impl FnMut(&[u8]) -> bool,
    ) -> Option<At> {
        let live = self.live();
        let mut at = from.0;
        while at < live.len() {
            let (entry, size) = first_entry(&live[at..]);
            if wanted(entry) {
                return Some(At(at));
            }
            at += size;
            for _ in 1..step {
                at += first_entry(&live[at..]).1;
            }
        }
        None
    }

    /// The first entry equal to `wanted`, trying one in `step`.
    pub fn find(&self, wanted: &[u8], step: usize) -> Option<At> {
        self.position(At(0), step, |entry| entry == wanted)
    }

    /// Entries from the one at `at`, entry number `index`, to the last.
    pub fn iter_from(&self, at: At, index: usize) -> PackIter<'_> {
        PackIter { live: &self.live()[at.0..], left: self.count - index as u32 }
    }

    /// Entries before the one at `at`, entry number `index`.
    pub fn iter_before(&self, at: At, index: usize) -> PackIter<'_> {
        PackIter { live: &self.live()[..at.0], left: index as u32 }
    }

    /// Appends. `room` is the size up to which the buffer may grow ahead of need; zero grows it
    /// by one size class at a time.
    pub fn push_back(&mut self, entry: &[u8], room: usize) {
        let prefix = Prefix::of(entry.len());
        self.reserve_back(entry.len() + 2 * prefix.len, room);
        self.buf.extend_from_slice(prefix.forward());
        self.buf.extend_from_slice(entry);
        self.buf.extend_from_slice(&prefix.backward()[..prefix.len]);
        self.count += 1;
    }

    /// Prepends, into the gap when it is large enough.
    pub fn push_front(&mut self, entry: &[u8], room: usize) {
        let size = Self::entry_bytes(entry.len());
        if (self.start as usize) < size {
            self.open_front(size, room);
        }
        self.start -= size as u32;
        let start = self.start as usize;
        write_entry(&mut self.buf[start..start + size], entry);
        self.count += 1;
    }

    /// Inserts before the entry at `at`.
    pub fn insert(&mut self, at: At, entry: &[u8], room: usize) {
        let size = Self::entry_bytes(entry.len());
        let place = self.resize_hole(at, 0, size, room);
        write_entry(&mut self.buf[place..place + size], entry);
        self.count += 1;
    }

    /// Overwrites the entry at `at`.
    pub fn replace(&mut self, at: At, entry: &[u8]) {
        let old = first_entry(&self.live()[at.0..]).1;
        let size = Self::entry_bytes(entry.len());
        let place = self.resize_hole(at, old, size, 0);
        write_entry(&mut self.buf[place..place + size], entry);
        self.settle();
    }

    /// Removes `count` entries from `at` on; there must be as many.
    pub fn remove(&mut self, at: At, count: usize) {
        let live = self.live();
        let mut end = at.0;
        if at.0 == 0 && count == self.len() {
            end = live.len();
        } else {
            for _ in 0..count {
                end += first_entry(&live[end..]).1;
            }
        }
        self.cut(at, At(end), count);
    }

    /// Removes the first entry.
    pub fn pop_front(&mut self) -> Option<Vec<u8>> {
        let (entry, size) = self.iter().next().map(|e| (e.to_vec(), Self::entry_bytes(e.len())))?;
        self.cut(At(0), At(size), 1);
        Some(entry)
    }

    /// Removes the last entry.
    pub fn pop_back(&mut self) -> Option<Vec<u8>> {
        let mut rest = self.iter();
        let entry = rest.next_back()?.to_vec();
        let from = At(rest.live.len());
        self.cut(from, At(self.live_bytes()), 1);
        Some(entry)
    }

    /// Splits before entry `index`, which lies at `at`; returns it and what follows.
    pub fn split_off(&mut self, at: At, index: usize) -> Pack {
        let mut right = Pack { count: self.count - index as u32, ..Pack::new() };
        right.buf.reserve_exact(self.live_bytes() - at.0);
        right.buf.extend_from_slice(&self.live()[at.0..]);
        self.buf.truncate(self.start as usize + at.0);
        self.count = index as u32;
        self.settle();
        right
    }

    /// Appends all of `other`.
    pub fn append(&mut self, other: &Pack, room: usize) {
        self.reserve_back(other.live_bytes(), room);
        self.buf.extend_from_slice(other.live());
        self.count += other.count;
    }

    fn live(&self) -> &[u8] {
        &self.buf[self.start as usize..]
    }

    /// Makes `[at, at + old)` a hole of `new` bytes; returns where it lies in `buf`.
    fn resize_hole(&mut self, at: At, old: usize, new: usize, room: usize) -> usize {
        self.reserve_back(new.saturating_sub(old), room);
        let place = self.start as usize + at.0;
        let len = self.buf.len();
        if new > old {
            self.buf.resize(len + new - old, 0);
        }
        self.buf.copy_within(place + old..len, place + new);
        self.buf.truncate(len + new - old);
        place
    }

    /// Takes out the `count` entries of `[from, to)`: off an end without moving the rest.
    fn cut(&mut self, from: At, to: At, count: usize) {
        let start = self.start as usize;
        let gap = start + to.0;
        if to.0 == self.live_bytes() {
            self.buf.truncate(start + from.0);
        } else if from.0 == 0 && gap <= u32::MAX as usize {
            self.start = gap as u32;
        } else {
            self.buf.drain(start + from.0..start + to.0);
        }
        self.count -= count as u32;
        self.settle();
    }

    /// Gives memory back when three quarters of it lie idle.
    fn settle(&mut self) {
        if self.count == 0 {
            self.start = 0;
            self.buf.clear();
        }
        let live = self.live_bytes();
        if self.buf.capacity() > SHRINK_FROM_BYTES && live < self.buf.capacity() / 4 {
            self.move_to(size_class(live + live / 2), 0);
        }
    }

    /// Makes room for `more` bytes at the end. The gap is closed only when it is a quarter of what
    /// has to move, so a queue pays a constant number of moved bytes for each popped one.
    fn reserve_back(&mut self, more: usize, room: usize) {
        let need = self.buf.len() + more;
        if need <= self.buf.capacity() {
            return;
        }
        let live = self.live_bytes();
        if self.start as usize * 4 >= live.max(1) && live + more <= self.buf.capacity() {
            self.buf.drain(..self.start as usize);
            self.start = 0;
        } else if self.start > 0 && self.start as usize * 4 >= live {
            self.move_to(grown(live + more, room), 0);
        } else {
            self.buf.reserve_exact(grown(need, room) - self.buf.len());
        }
    }

    /// Makes the gap at least `more` bytes, and in proportion to what had to move for it.
    fn open_front(&mut self, more: usize, room: usize) {
        let need = self.live_bytes() + more;
        let capacity = grown(need, room).max(need + self.live_bytes() / 8);
        self.move_to(capacity, capacity - self.live_bytes());
    }

    fn move_to(&mut self, capacity: usize, gap: usize) {
        let mut buf = Vec::with_capacity(capacity);
        buf.resize(gap, 0);
        buf.extend_from_slice(self.live());
        self.buf = buf;
        self.start = gap as u32;
    }
}

impl Clone for Pack {
    fn clone(&self) -> Self {
        Pack { buf: self.live().to_vec(), start: 0, count: self.count }
    }
}

/// The capacity for `need` bytes: doubled while that stays inside `room`, else the size class.
fn grown(need: usize, room: usize) -> usize {
    if need >= room { size_class(need) } else { size_class(2 * need).min(room) }
}

/// Entries of a `Pack`, from either end.
#[derive(Clone, Debug)]
pub struct PackIter<'a> {
    live: &'a [u8],
    left: u32,
}

impl<'a> Iterator for PackIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.live.is_empty() {
            return None;
        }
        let (entry, size) = first_entry(self.live);
        self.live = &self.live[size..];
        self.left -= 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl DoubleEndedIterator for PackIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let mut at = self.live.len().checked_sub(1)?;
        let mut len = usize::from(self.live[at] & 0x7f);
        let mut shift = 7;
        while self.live[at] & 0x80 != 0 {
            at -= 1;
            len |= usize::from(self.live[at] & 0x7f) << shift;
            shift += 7;
        }
        let entry = &self.live[at - len..at];
        let prefix = self.live.len() - at;
        self.live = &self.live[..at - len - prefix];
        self.left -= 1;
        Some(entry)
    }
}

impl ExactSizeIterator for PackIter<'_> {}

/// The first entry of `live` and the bytes it takes with its lengths.
#[inline]
fn first_entry(live: &[u8]) -> (&[u8], usize) {
    let mut prefix = 1;
    let mut len = usize::from(live[0] & 0x7f);
    while live[prefix - 1] & 0x80 != 0 {
        len |= usize::from(live[prefix] & 0x7f) << (7 * prefix);
        prefix += 1;
    }
    (&live[prefix..prefix + len], len + 2 * prefix)
}

fn write_entry(hole: &mut [u8], entry: &[u8]) {
    let prefix = Prefix::of(entry.len());
    hole[..prefix.len].copy_from_slice(prefix.forward());
    hole[prefix.len..prefix.len + entry.len()].copy_from_slice(entry);
    hole[prefix.len + entry.len()..].copy_from_slice(&prefix.backward()[..prefix.len]);
}

fn prefix_bytes(len: usize) -> usize {
    (len.max(1).ilog2() / 7 + 1) as usize
}

/// A length as LEB128.
struct Prefix {
    digits: [u8; PREFIX_BYTES_MAX],
    len: usize,
}

impl Prefix {
    #[inline]
    fn of(value: usize) -> Prefix {
        let mut digits = [0; PREFIX_BYTES_MAX];
        let mut rest = value;
        let mut len = 0;
        while rest >= 0x80 {
            digits[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        digits[len] = rest as u8;
        Prefix { digits, len: len + 1 }
    }

    fn forward(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    fn backward(&self) -> [u8; PREFIX_BYTES_MAX] {
        let mut reversed = self.digits;
        reversed[..self.len].reverse();
        reversed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Change {
        PushBack(Vec<u8>),
        PushFront(Vec<u8>),
        Insert(usize, Vec<u8>),
        Replace(usize, Vec<u8>),
        Remove(usize, usize),
        PopFront,
        PopBack,
        Split(usize),
    }

    fn entry() -> impl Strategy<Value = Vec<u8>> {
        (prop_oneof![0usize..20, 100usize..200, Just(16_383usize), Just(16_384)], any::<u8>())
            .prop_map(|(len, fill)| vec![fill; len])
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => entry().prop_map(Change::PushBack),
            4 => entry().prop_map(Change::PushFront),
            2 => (any::<usize>(), entry()).prop_map(|(i, e)| Change::Insert(i, e)),
            2 => (any::<usize>(), entry()).prop_map(|(i, e)| Change::Replace(i, e)),
            1 => (any::<usize>(), 0usize..4).prop_map(|(i, n)| Change::Remove(i, n)),
            2 => Just(Change::PopFront),
            2 => Just(Change::PopBack),
            1 => any::<usize>().prop_map(Change::Split),
        ]
    }

    fn apply(pack: &mut Pack, model: &mut Vec<Vec<u8>>, change: Change, room: usize) {
        match change {
            Change::PushBack(e) => {
                pack.push_back(&e, room);
                model.push(e);
            }
            Change::PushFront(e) => {
                pack.push_front(&e, room);
                model.insert(0, e);
            }
            Change::Insert(i, e) => {
                let i = i % (model.len() + 1);
                pack.insert(pack.at(i), &e, room);
                model.insert(i, e);
            }
            Change::Replace(i, e) if !model.is_empty() => {
                let i = i % model.len();
                pack.replace(pack.at(i), &e);
                model[i] = e;
            }
            Change::Remove(i, n) => {
                let i = i % (model.len() + 1);
                let n = n.min(model.len() - i);
                pack.remove(pack.at(i), n);
                model.drain(i..i + n);
            }
            Change::PopFront => {
                let expected = (!model.is_empty()).then(|| model.remove(0));
                assert_eq!(pack.pop_front(), expected);
            }
            Change::PopBack => assert_eq!(pack.pop_back(), model.pop()),
            Change::Split(i) => {
                let i = i % (model.len() + 1);
                let right = pack.split_off(pack.at(i), i);
                assert_eq!(right.len(), model.len() - i);
                assert!(right.iter().eq(model[i..].iter()));
                pack.append(&right, room);
            }
            Change::Replace(..) => {}
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_vector_of_strings(
            changes in prop::collection::vec(change(), 0..80),
            room in prop_oneof![Just(0usize), Just(8192)],
        ) {
            let mut pack = Pack::new();
            let mut model: Vec<Vec<u8>> = Vec::new();
            for change in changes {
                apply(&mut pack, &mut model, change, room);
                prop_assert_eq!(pack.len(), model.len());
                prop_assert!(pack.iter().eq(model.iter()));
                prop_assert!(pack.iter().rev().eq(model.iter().rev()));
                prop_assert!(pack.clone().iter().eq(model.iter()));
                for (i, e) in model.iter().enumerate() {
                    prop_assert_eq!(pack.nth(i), Some(&e[..]));
                    prop_assert!(pack.find(e, 1).is_some());
                }
                let live: usize = model.iter().map(|e| Pack::entry_bytes(e.len())).sum();
                prop_assert_eq!(pack.live_bytes(), live);
                prop_assert!(pack.bytes() <= 5 * live.max(SHRINK_FROM_BYTES) + room);
            }
        }
    }

    #[test]
    fn find_tries_one_in_step() {
        let mut pack = Pack::new();
        for entry in ["a", "b", "b", "c"] {
            pack.push_back(entry.as_bytes(), 0);
        }
        assert_eq!(pack.find(b"b", 2), Some(pack.at(2)));
        assert_eq!(pack.find(b"c", 2), None);
    }

    #[test]
    fn a_queue_in_one_pack_moves_few_bytes() {
        let mut pack = Pack::new();
        for _ in 0..180 {
            pack.push_back(&[7; 40], 8192);
        }
        for turn in 0..10_000u32 {
            pack.push_back(&turn.to_le_bytes(), 8192);
            assert!(pack.pop_front().is_some());
            assert!(pack.bytes() <= 3 * 8192);
        }
        assert_eq!(pack.len(), 180);
    }
}
