//! A list of byte strings: a deque of packed chunks, frozen by cloning the chunk pointers.
//! Not an index: reaching element `i` counts through the chunks from the nearer end.
//! Invariant: no chunk is empty; a chunk of more than one element keeps `list-max-listpack-size`
//! as it stood when it grew; `len` and `chunk_bytes` are the sums over the chunks.

mod iter;
mod limit;

use std::collections::VecDeque;
use std::sync::Arc;

use super::class::size_class;
use super::limits::{Encoding, Limits};
use super::pack::{At, Pack};
pub use iter::{Iter, IterRev};
use limit::{ChunkLimit, LARGEST_STEP};

/// Idle chunk pointers that stay after pops; below it shrinking the deque is not worth it.
const IDLE_POINTERS_MAX: usize = 16;

/// Bytes of a chunk beside its text: two reference counts and a `Pack`.
const CHUNK_HEAD_BYTES: usize = size_of::<Pack>() + 16;

/// A list. A clone shares chunks until one side changes them.
#[derive(Clone, Debug)]
pub struct List {
    chunks: VecDeque<Arc<Pack>>,
    len: usize,
    chunk_bytes: usize,
    /// `list-max-listpack-size` of the last push: `insert` and `set` follow it.
    chunk_size: i32,
}

/// Where an element lies: its chunk, and its number inside.
#[derive(Copy, Clone)]
struct Place {
    chunk: usize,
    inner: usize,
}

impl Default for List {
    fn default() -> Self {
        List::new()
    }
}

impl List {
    /// An empty list; allocates nothing.
    pub const fn new() -> Self {
        List { chunks: VecDeque::new(), len: 0, chunk_bytes: 0, chunk_size: -2 }
    }

    /// `list-max-listpack-size` of the last push, from -5 on.
    pub fn chunk_size(&self) -> i32 {
        self.chunk_size
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the allocations; a shared chunk counts in full in each of its lists.
    pub fn bytes(&self) -> usize {
        self.chunk_bytes + size_class(self.chunks.capacity() * size_of::<Arc<Pack>>())
    }

    /// Always `quicklist`: one form for every size.
    pub fn encoding(&self) -> Encoding {
        Encoding::Quicklist
    }

    /// Chunks: what a clone copies pointers of, and freeing has to free.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Prepends.
    pub fn push_front(&mut self, element: &[u8], limits: &Limits) {
        let limit = self.adopt(limits);
        match self.chunks.front_mut() {
            Some(chunk) if limit.admits(chunk, element.len()) => {
                let chunk = own(chunk, &mut self.chunk_bytes);
                chunk.push_front(element, limit.room());
                self.chunk_bytes += chunk.bytes();
            }
            _ => self.add_chunk(0, chunk_of(element)),
        }
        self.len += 1;
    }

    /// Appends.
    pub fn push_back(&mut self, element: &[u8], limits: &Limits) {
        let limit = self.adopt(limits);
        match self.chunks.back_mut() {
            Some(chunk) if limit.admits(chunk, element.len()) => {
                let chunk = own(chunk, &mut self.chunk_bytes);
                chunk.push_back(element, limit.room());
                self.chunk_bytes += chunk.bytes();
            }
            _ => self.add_chunk(self.chunks.len(), chunk_of(element)),
        }
        self.len += 1;
    }

    /// Removes and returns the first element.
    pub fn pop_front(&mut self) -> Option<Vec<u8>> {
        let chunk = own(self.chunks.front_mut()?, &mut self.chunk_bytes);
        let element = chunk.pop_front();
        self.chunk_bytes += chunk.bytes();
        self.len -= 1;
        self.drop_if_empty(0);
        element
    }

    /// Removes and returns the last element.
    pub fn pop_back(&mut self) -> Option<Vec<u8>> {
        let chunk = own(self.chunks.back_mut()?, &mut self.chunk_bytes);
        let element = chunk.pop_back();
        self.chunk_bytes += chunk.bytes();
        self.len -= 1;
        self.drop_if_empty(self.chunks.len() - 1);
        element
    }

    /// Element `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let place = self.place(index)?;
        self.chunks[place.chunk].nth(place.inner)
    }

    /// Overwrites element `index`; false if there is none.
    pub fn set(&mut self, index: usize, element: &[u8]) -> bool {
        let Some(place) = self.place(index) else { return false };
        let limit = ChunkLimit::of(self.chunk_size);
        let chunk = &self.chunks[place.chunk];
        let at = chunk.at(place.inner);
        let old = chunk.get(at).map_or(0, |old| Pack::entry_bytes(old.len()));
        let bytes = chunk.live_bytes() - old + Pack::entry_bytes(element.len());
        if chunk.len() == 1 || limit.admits_sum(chunk.len(), bytes) || element_fits(old, element) {
            self.change(place.chunk, |chunk| chunk.replace(at, element));
        } else {
            self.remove_range(index, 1);
            self.insert(index, element);
        }
        true
    }

    /// Inserts before element `index`, or at the end for `index == len`; false beyond it.
    pub fn insert(&mut self, index: usize, element: &[u8]) -> bool {
        if index > self.len {
            return false;
        }
        let limit = ChunkLimit::of(self.chunk_size);
        let place = self.place(index).unwrap_or(Place { chunk: self.chunks.len(), inner: 0 });
        self.len += 1;
        if place.inner == 0 && place.chunk > 0 {
            let before = place.chunk - 1;
            if limit.admits(&self.chunks[before], element.len()) {
                self.change(before, |chunk| chunk.push_back(element, limit.room()));
                return true;
            }
        }
        match self.chunks.get(place.chunk) {
            Some(chunk) if limit.admits(chunk, element.len()) => {
                let at = chunk.at(place.inner);
                self.change(place.chunk, |chunk| chunk.insert(at, element, limit.room()));
            }
            _ => self.insert_between(place, element, limit),
        }
        true
    }

    /// Removes up to `count` elements from `start` on; returns how many there were.
    pub fn remove_range(&mut self, start: usize, count: usize) -> usize {
        let count = count.min(self.len.saturating_sub(start));
        let Some(place) = self.place(start) else { return 0 };
        let mut left = count;
        let mut chunk = place.chunk;
        if left > 0 && place.inner > 0 {
            left -= self.remove_inside(chunk, place.inner, left);
            chunk += 1;
        }
        let whole = self.whole_chunks(chunk, left);
        for dropped in self.chunks.drain(chunk..chunk + whole) {
            left -= dropped.len();
            self.chunk_bytes -= dropped.bytes() + CHUNK_HEAD_BYTES;
        }
        if left > 0 {
            self.remove_inside(chunk, 0, left);
        }
        self.len -= count;
        self.join_around(place.chunk);
        self.shrink_deque();
        count
    }

    /// Removes the first `most` elements equal to `wanted`, from the head on; returns how many.
    pub fn remove_equal_from_head(&mut self, wanted: &[u8], most: usize) -> usize {
        let mut removed = 0;
        let mut index = 0;
        while index < self.chunks.len() && removed < most {
            let mut from = self.chunks[index].at(0);
            while removed < most
                && let Some(at) = self.chunks[index].position(from, 1, |entry| entry == wanted)
            {
                self.change(index, |chunk| chunk.remove(at, 1));
                removed += 1;
                from = at;
            }
            index = self.leave(index, 1);
        }
        self.len -= removed;
        self.shrink_deque();
        removed
    }

    /// Removes the last `most` elements equal to `wanted`, from the tail on; returns how many.
    pub fn remove_equal_from_tail(&mut self, wanted: &[u8], most: usize) -> usize {
        let mut removed = 0;
        let mut index = self.chunks.len();
        while index > 0 && removed < most {
            index -= 1;
            for at in last_equal(&self.chunks[index], wanted, most - removed) {
                self.change(index, |chunk| chunk.remove(at, 1));
                removed += 1;
            }
            self.leave(index, 0);
        }
        self.len -= removed;
        self.shrink_deque();
        removed
    }

    /// From head to tail.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// From element `index` to the tail; nothing if there is no such element.
    pub fn iter_from(&self, index: usize) -> Iter<'_> {
        let Some(place) = self.place(index) else {
            return Iter { here: EMPTY.iter(), rest: self.chunks.range(0..0) };
        };
        let chunk = &self.chunks[place.chunk];
        Iter {
            here: chunk.iter_from(chunk.at(place.inner), place.inner),
            rest: self.chunks.range(place.chunk + 1..),
        }
    }

    /// From element `index` to the head; nothing if there is no such element.
    pub fn iter_rev_from(&self, index: usize) -> IterRev<'_> {
        let Some(place) = self.place(index) else {
            return IterRev { here: EMPTY.iter().rev(), rest: self.chunks.range(0..0).rev() };
        };
        let chunk = &self.chunks[place.chunk];
        let end = place.inner + 1;
        IterRev {
            here: chunk.iter_before(chunk.at(end), end).rev(),
            rest: self.chunks.range(..place.chunk).rev(),
        }
    }

    fn adopt(&mut self, limits: &Limits) -> ChunkLimit {
        let directive = limits.list_max_listpack_size;
        self.chunk_size = directive.clamp(i64::from(LARGEST_STEP), i64::from(i32::MAX)) as i32;
        ChunkLimit::of(self.chunk_size)
    }

    fn place(&self, index: usize) -> Option<Place> {
        if index >= self.len {
            return None;
        }
        if index < self.len / 2 {
            let mut inner = index;
            for (chunk, pack) in self.chunks.iter().enumerate() {
                if inner < pack.len() {
                    return Some(Place { chunk, inner });
                }
                inner -= pack.len();
            }
        } else {
            let mut from_end = self.len - index;
            for (chunk, pack) in self.chunks.iter().enumerate().rev() {
                if from_end <= pack.len() {
                    return Some(Place { chunk, inner: pack.len() - from_end });
                }
                from_end -= pack.len();
            }
        }
        None
    }

    /// Changes a chunk, unshared, and keeps the count of bytes.
    fn change<R>(&mut self, index: usize, edit: impl FnOnce(&mut Pack) -> R) -> R {
        let chunk = own(&mut self.chunks[index], &mut self.chunk_bytes);
        let result = edit(chunk);
        self.chunk_bytes += chunk.bytes();
        result
    }

    fn add_chunk(&mut self, index: usize, chunk: Pack) {
        self.chunk_bytes += chunk.bytes() + CHUNK_HEAD_BYTES;
        self.chunks.insert(index, Arc::new(chunk));
    }

    fn drop_if_empty(&mut self, index: usize) -> bool {
        let empty = self.chunks[index].is_empty();
        if empty && let Some(chunk) = self.chunks.remove(index) {
            self.chunk_bytes -= chunk.bytes() + CHUNK_HEAD_BYTES;
            self.shrink_deque();
        }
        empty
    }

    /// The element fits in no neighbour: split the chunk it falls into and put it between.
    fn insert_between(&mut self, place: Place, element: &[u8], limit: ChunkLimit) {
        let mut index = place.chunk;
        if place.inner > 0 {
            let at = self.chunks[index].at(place.inner);
            let right = self.change(index, |chunk| chunk.split_off(at, place.inner));
            self.add_chunk(index + 1, right);
            if limit.admits(&self.chunks[index], element.len()) {
                return self.change(index, |chunk| chunk.push_back(element, limit.room()));
            }
            index += 1;
        }
        match self.chunks.get(index) {
            Some(chunk) if limit.admits(chunk, element.len()) => {
                self.change(index, |chunk| chunk.push_front(element, limit.room()));
            }
            _ => self.add_chunk(index, chunk_of(element)),
        }
    }

    /// Removes up to `count` elements from number `inner` of a chunk on; returns how many. Leaves
    /// at least one element when `inner > 0` or `count` is short of the chunk.
    fn remove_inside(&mut self, index: usize, inner: usize, count: usize) -> usize {
        let chunk = &self.chunks[index];
        let count = count.min(chunk.len() - inner);
        let at = chunk.at(inner);
        self.change(index, |chunk| chunk.remove(at, count));
        count
    }

    /// How many chunks from `from` on lie wholly within the next `elements`.
    fn whole_chunks(&self, from: usize, elements: usize) -> usize {
        let mut left = elements;
        let fits = |chunk: &&Arc<Pack>| {
            let fits = chunk.len() <= left;
            left -= if fits { chunk.len() } else { 0 };
            fits
        };
        self.chunks.range(from..).take_while(fits).count()
    }

    /// Drops or joins a chunk after removals; returns the index to go on with, `step` further if
    /// the chunk is still there on its own.
    fn leave(&mut self, index: usize, step: usize) -> usize {
        if self.drop_if_empty(index) {
            return index;
        }
        if index > 0 && self.join(index - 1) { index - 1 + step } else { index + step }
    }

    fn join_around(&mut self, index: usize) {
        if index > 0 && self.join(index - 1) {
            return;
        }
        self.join(index);
    }

    /// Joins chunks `left` and `left + 1` if they fit in half a chunk: the next inserts must not
    /// split them again at once.
    fn join(&mut self, left: usize) -> bool {
        let limit = ChunkLimit::of(self.chunk_size);
        let Some(right) = self.chunks.get(left + 1) else { return false };
        let here = &self.chunks[left];
        let bytes = here.live_bytes() + right.live_bytes();
        if !limit.admits_sum(here.len() + right.len(), bytes.saturating_mul(2)) {
            return false;
        }
        let right = Arc::clone(right);
        self.change(left, |chunk| chunk.append(&right, 0));
        self.chunk_bytes -= right.bytes() + CHUNK_HEAD_BYTES;
        self.chunks.remove(left + 1);
        true
    }

    fn shrink_deque(&mut self) {
        if self.chunks.capacity() > 4 * self.chunks.len() + IDLE_POINTERS_MAX {
            self.chunks.shrink_to(2 * self.chunks.len());
        }
    }
}

static EMPTY: Pack = Pack::new();

/// The chunk, unshared; its bytes are taken off `counted` for the caller to add again.
fn own<'a>(chunk: &'a mut Arc<Pack>, counted: &mut usize) -> &'a mut Pack {
    *counted -= chunk.bytes();
    Arc::make_mut(chunk)
}

fn chunk_of(element: &[u8]) -> Pack {
    let mut chunk = Pack::new();
    chunk.push_back(element, 0);
    chunk
}

/// Whether an element takes the room its predecessor of `old` bytes leaves.
fn element_fits(old: usize, element: &[u8]) -> bool {
    Pack::entry_bytes(element.len()) <= old
}

/// The places of the last `most` entries equal to `wanted`, last first.
fn last_equal(chunk: &Pack, wanted: &[u8], most: usize) -> Vec<At> {
    let mut places = Vec::new();
    let mut from = chunk.at(0);
    while let Some(at) = chunk.position(from, 1, |entry| entry == wanted) {
        places.push(at);
        from = chunk.after(at);
    }
    places.into_iter().rev().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Change {
        PushBack(Vec<u8>),
        PushFront(Vec<u8>),
        PopBack(usize),
        PopFront(usize),
        Insert(usize, Vec<u8>),
        Set(usize, Vec<u8>),
        RemoveRange(usize, usize),
        RemoveEqual(usize, usize, bool),
    }

    fn element() -> impl Strategy<Value = Vec<u8>> {
        let len = prop_oneof![6 => 0usize..4, 3 => 30usize..300, 1 => 3000usize..20_000];
        (len, 0u8..4).prop_map(|(len, fill)| vec![fill; len])
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            6 => element().prop_map(Change::PushBack),
            6 => element().prop_map(Change::PushFront),
            1 => (1usize..8).prop_map(Change::PopBack),
            1 => (1usize..8).prop_map(Change::PopFront),
            4 => (any::<usize>(), element()).prop_map(|(i, e)| Change::Insert(i, e)),
            3 => (any::<usize>(), element()).prop_map(|(i, e)| Change::Set(i, e)),
            1 => (any::<usize>(), 0usize..40).prop_map(|(i, n)| Change::RemoveRange(i, n)),
            1 => (any::<usize>(), 1usize..9, any::<bool>())
                .prop_map(|(i, n, head)| Change::RemoveEqual(i, n, head)),
        ]
    }

    fn apply(list: &mut List, model: &mut VecDeque<Vec<u8>>, change: Change, limits: &Limits) {
        match change {
            Change::PushBack(e) => {
                list.push_back(&e, limits);
                model.push_back(e);
            }
            Change::PushFront(e) => {
                list.push_front(&e, limits);
                model.push_front(e);
            }
            Change::PopBack(n) => {
                (0..n).for_each(|_| assert_eq!(list.pop_back(), model.pop_back()));
            }
            Change::PopFront(n) => {
                (0..n).for_each(|_| assert_eq!(list.pop_front(), model.pop_front()));
            }
            Change::Insert(i, e) => {
                let i = i % (model.len() + 1);
                assert!(list.insert(i, &e));
                model.insert(i, e);
            }
            Change::Set(i, e) => {
                let i = i % (model.len() + 1);
                assert_eq!(list.set(i, &e), i < model.len());
                model.get_mut(i).into_iter().for_each(|old| *old = e.clone());
            }
            Change::RemoveRange(i, n) => {
                let i = i % (model.len() + 1);
                let end = (i + n).min(model.len());
                assert_eq!(list.remove_range(i, n), end - i);
                model.drain(i..end);
            }
            Change::RemoveEqual(i, n, head) => {
                let i = i % (model.len() + 1);
                let Some(wanted) = model.get(i).cloned() else { return };
                let equal = (0..model.len()).filter(|&i| model[i] == wanted);
                let mut gone: Vec<usize> = match head {
                    true => equal.take(n).collect(),
                    false => equal.rev().take(n).collect(),
                };
                let removed = match head {
                    true => list.remove_equal_from_head(&wanted, n),
                    false => list.remove_equal_from_tail(&wanted, n),
                };
                assert_eq!(removed, gone.len());
                gone.sort_unstable();
                for &i in gone.iter().rev() {
                    model.remove(i);
                }
            }
        }
    }

    fn check(list: &List, model: &VecDeque<Vec<u8>>, probe: usize) {
        assert_eq!(list.len(), model.len());
        assert!(list.iter().eq(model.iter()));
        let probe = probe % (model.len() + 1);
        assert_eq!(list.get(probe), model.get(probe).map(|e| &e[..]));
        assert!(list.iter_from(probe).eq(model.range(probe..)));
        let back = model.range(..(probe + 1).min(model.len())).rev();
        match probe < model.len() {
            true => assert!(list.iter_rev_from(probe).eq(back)),
            false => assert!(list.iter_rev_from(probe).next().is_none()),
        }
        assert!(list.chunks.iter().all(|chunk| !chunk.is_empty()));
        let sum: usize = list.chunks.iter().map(|c| c.bytes() + CHUNK_HEAD_BYTES).sum();
        assert_eq!(list.chunk_bytes, sum);
    }

    proptest! {
        #[test]
        fn behaves_as_a_deque_and_frozen_clones_stay(
            changes in prop::collection::vec(change(), 0..150),
            probes in prop::collection::vec(any::<usize>(), 150),
            size in prop_oneof![Just(-5i64), Just(-2), Just(-1), Just(0), Just(3), Just(50)],
        ) {
            let limits = Limits { list_max_listpack_size: size, ..Limits::default() };
            let mut list = List::new();
            let mut model = VecDeque::new();
            for (change, probe) in changes.into_iter().zip(probes) {
                let (frozen, image) = (list.clone(), model.clone());
                apply(&mut list, &mut model, change, &limits);
                check(&list, &model, probe);
                check(&frozen, &image, probe);
            }
        }
    }

    #[test]
    fn a_huge_element_is_a_chunk_of_its_own() {
        let limits = Limits::default();
        let mut list = List::new();
        for i in 0..10u32 {
            list.push_back(&i.to_le_bytes(), &limits);
        }
        list.insert(5, &vec![1; 1_000_000]);
        assert_eq!(list.chunks.iter().map(|c| c.len()).collect::<Vec<_>>(), [5, 1, 5]);
        list.set(5, b"small again");
        assert_eq!(list.get(5), Some(&b"small again"[..]));
        assert!(list.bytes() < 1000, "{}", list.bytes());
    }

    #[test]
    fn memory_follows_the_contents() {
        let limits = Limits::default();
        let mut list = List::new();
        for i in 0..100_000u32 {
            list.push_front(&i.to_le_bytes(), &limits);
        }
        assert!(list.bytes() < 100_000 * 7, "{}", list.bytes());
        while list.len() > 10 {
            list.pop_back();
        }
        assert!(list.bytes() < 2 * 8192, "{}", list.bytes());
    }
}
