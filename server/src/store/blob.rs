//! A big string in chunks, frozen by cloning the chunk pointers. Not for short strings: those lie
//! in their table entry; the command layer turns a string into a blob beyond `BLOB_FROM_BYTES`.
//! Invariant: every chunk but the last holds exactly `CHUNK_BYTES`, and no chunk is empty.

use std::ops::Range;
use std::sync::Arc;

use super::class::size_class;

/// Strings longer than this are kept as blobs: below it a copy costs a few microseconds.
pub const BLOB_FROM_BYTES: usize = 64 * 1024;

/// One chunk: what a write to a frozen blob has to copy at most. A size class of the allocator.
const CHUNK_BYTES: usize = 64 * 1024;

/// Bytes of a chunk beside its text: two reference counts and the vector's three words.
const CHUNK_HEAD_BYTES: usize = 48;

type Chunk = Arc<Vec<u8>>;

/// A string of any length with cheap clones; a clone shares chunks until one side writes them.
#[derive(Clone, Default, Debug)]
pub struct Blob {
    chunks: Vec<Chunk>,
    len: usize,
}

impl Blob {
    /// The empty string.
    pub const fn new() -> Self {
        Blob { chunks: Vec::new(), len: 0 }
    }

    /// A copy of `text`.
    pub fn from_slice(text: &[u8]) -> Self {
        let mut blob = Blob::new();
        blob.append(text);
        blob
    }

    /// Bytes of the string.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the string is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the allocations. A shared chunk counts in full in each of its blobs, so a write
    /// never finds less memory counted than it needs.
    pub fn bytes(&self) -> usize {
        let last = self.chunks.last().map_or(0, |chunk| size_class(chunk.capacity()));
        let full = self.chunks.len().saturating_sub(1);
        full * CHUNK_BYTES
            + last
            + self.chunks.len() * CHUNK_HEAD_BYTES
            + size_class(self.chunks.capacity() * size_of::<Chunk>())
    }

    /// Chunks: what a clone copies pointers of, and freeing has to free.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Appends `text`.
    pub fn append(&mut self, text: &[u8]) {
        let mut rest = text;
        let room = match self.chunks.last() {
            Some(chunk) => CHUNK_BYTES - chunk.len(),
            None => 0,
        };
        if room > 0 {
            let (head, tail) = rest.split_at(room.min(rest.len()));
            self.extend_last(head.len(), |chunk| chunk.extend_from_slice(head));
            rest = tail;
        }
        self.chunks.extend(rest.chunks(CHUNK_BYTES).map(|part| Arc::new(part.to_vec())));
        self.len += text.len();
    }

    /// Writes `text` from byte `at` on; what lies between the end and `at` becomes zeros. The
    /// zero chunks of one call share one allocation until they are written.
    pub fn write_at(&mut self, at: usize, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if at > self.len {
            self.zero_fill(at);
        }
        let inside = text.len().min(self.len - at);
        let (over, beyond) = text.split_at(inside);
        let mut place = at;
        let mut rest = over;
        while !rest.is_empty() {
            let from = place % CHUNK_BYTES;
            let (head, tail) = rest.split_at(rest.len().min(CHUNK_BYTES - from));
            let chunk = Arc::make_mut(&mut self.chunks[place / CHUNK_BYTES]);
            chunk[from..from + head.len()].copy_from_slice(head);
            place += head.len();
            rest = tail;
        }
        self.append(beyond);
    }

    /// The byte at `at`.
    pub fn byte(&self, at: usize) -> Option<u8> {
        self.chunks.get(at / CHUNK_BYTES)?.get(at % CHUNK_BYTES).copied()
    }

    /// The string in pieces of at most `CHUNK_BYTES`, in order.
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        self.slices_in(0..self.len)
    }

    /// The bytes of `range`, cut to the string, in pieces.
    pub fn slices_in(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        let end = range.end.min(self.len);
        let start = range.start.min(end);
        let chunks = start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES);
        chunks.map(move |index| {
            let base = index * CHUNK_BYTES;
            let chunk = &self.chunks[index];
            &chunk[start.saturating_sub(base)..chunk.len().min(end - base)]
        })
    }

    /// Appends the bytes of `range`, cut to the string, to `out`.
    pub fn read_into(&self, range: Range<usize>, out: &mut Vec<u8>) {
        self.slices_in(range).for_each(|piece| out.extend_from_slice(piece));
    }

    /// The whole string.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.read_into(0..self.len, &mut out);
        out
    }

    fn zero_fill(&mut self, len: usize) {
        let in_last = self.chunks.last().map_or(0, |chunk| CHUNK_BYTES - chunk.len());
        let fill = in_last.min(len - self.len);
        if fill > 0 {
            self.extend_last(fill, |chunk| chunk.resize(chunk.len() + fill, 0));
        }
        let rest = len - self.len - fill;
        if rest >= CHUNK_BYTES {
            let zeros = Arc::new(vec![0; CHUNK_BYTES]);
            self.chunks.extend(std::iter::repeat_n(zeros, rest / CHUNK_BYTES));
        }
        if !rest.is_multiple_of(CHUNK_BYTES) {
            self.chunks.push(Arc::new(vec![0; rest % CHUNK_BYTES]));
        }
        self.len = len;
    }

    /// Lets `extend` add `more` bytes to the last chunk, whose buffer grows by half up to a full
    /// chunk.
    fn extend_last(&mut self, more: usize, extend: impl FnOnce(&mut Vec<u8>)) {
        let Some(last) = self.chunks.last_mut() else { return };
        let chunk = Arc::make_mut(last);
        let need = chunk.len() + more;
        if need > chunk.capacity() {
            chunk.reserve_exact(size_class(need + need / 2).min(CHUNK_BYTES) - chunk.len());
        }
        extend(chunk);
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Blob) -> bool {
        self.len == other.len && self.slices().eq(other.slices())
    }
}

impl Eq for Blob {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Change {
        Append(usize, u8),
        WriteAt(usize, usize, u8),
    }

    fn change() -> impl Strategy<Value = Change> {
        let len = prop_oneof![0usize..20, Just(CHUNK_BYTES), 0usize..3 * CHUNK_BYTES];
        let at = prop_oneof![0usize..20, Just(CHUNK_BYTES), 0usize..6 * CHUNK_BYTES];
        prop_oneof![
            (len.clone(), any::<u8>()).prop_map(|(n, b)| Change::Append(n, b)),
            (at, len, any::<u8>()).prop_map(|(at, n, b)| Change::WriteAt(at, n, b)),
        ]
    }

    fn write_model(model: &mut Vec<u8>, at: usize, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        model.resize(model.len().max(at + text.len()), 0);
        model[at..at + text.len()].copy_from_slice(text);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_as_a_vector_and_frozen_clones_stay(
            changes in prop::collection::vec(change(), 0..12),
            cut in (0usize..8 * CHUNK_BYTES, 0usize..8 * CHUNK_BYTES),
        ) {
            let mut blob = Blob::new();
            let mut model: Vec<u8> = Vec::new();
            for change in changes {
                let (frozen, image) = (blob.clone(), model.clone());
                match change {
                    Change::Append(n, b) => {
                        blob.append(&vec![b; n]);
                        model.resize(model.len() + n, b);
                    }
                    Change::WriteAt(at, n, b) => {
                        blob.write_at(at, &vec![b; n]);
                        write_model(&mut model, at, &vec![b; n]);
                    }
                }
                prop_assert!(frozen.to_vec() == image);
                prop_assert!(blob.to_vec() == model);
                prop_assert!(blob == Blob::from_slice(&model));
                prop_assert_eq!(blob.len(), model.len());
                let range = cut.0.min(cut.1).min(model.len())..cut.1.min(model.len());
                let mut part = Vec::new();
                blob.read_into(cut.0.min(cut.1)..cut.1, &mut part);
                prop_assert!(part == model[range]);
                prop_assert_eq!(blob.byte(cut.0), model.get(cut.0).copied());
                prop_assert!(blob.bytes() >= blob.len());
                prop_assert!(blob.bytes() <= 2 * blob.len() + 1024);
            }
        }
    }

    #[test]
    fn a_write_far_beyond_the_end_is_cheap() {
        let mut blob = Blob::new();
        blob.write_at(512 * 1024 * 1024 - 1, b"x");
        assert_eq!(blob.len(), 512 * 1024 * 1024);
        assert_eq!(blob.byte(300_000_000), Some(0));
        assert_eq!(blob.byte(512 * 1024 * 1024 - 1), Some(b'x'));
        assert!(blob.bytes() >= blob.len());
    }
}
