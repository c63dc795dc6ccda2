//! The words of one request, borrowed from the input buffer or owned by a queue.

use crate::resp::ArgRange;
use crate::slot::Key;
use crate::store::table::KeyHash;

/// The words of a request; word 0 is the command.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buf: &'a [u8],
    ranges: &'a [ArgRange],
    /// Word index and hash of the key the batch stages hashed already.
    hashed: Option<(usize, KeyHash)>,
}

impl<'a> Args<'a> {
    /// `ranges` into `buf`, as the scanner gave them.
    #[inline]
    pub fn new(buf: &'a [u8], ranges: &'a [ArgRange]) -> Args<'a> {
        Args { buf, ranges, hashed: None }
    }

    /// The same with the hash of word `index`.
    #[inline]
    pub fn with_hash(self, index: usize, hash: KeyHash) -> Args<'a> {
        Args { hashed: Some((index, hash)), ..self }
    }

    /// Number of words, the command's included.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a request is never empty")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Word `i`. Panics past the end: arity was checked before.
    #[inline]
    pub fn at(&self, i: usize) -> &'a [u8] {
        let r = self.ranges[i];
        &self.buf[r.start as usize..r.end as usize]
    }

    /// Word `i`, if there is one.
    pub fn opt(&self, i: usize) -> Option<&'a [u8]> {
        (i < self.len()).then(|| self.at(i))
    }

    /// Word `i` as a key, hashed at most once per request.
    #[inline]
    pub fn key(&self, i: usize) -> Key<'a> {
        match self.hashed {
            Some((index, hash)) if index == i => Key::with_hash(self.at(i), hash),
            _ => Key::new(self.at(i)),
        }
    }

    /// Is word `i` this word, case ignored?
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.at(i).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Words from `i` on.
    pub fn from(&self, i: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let buf = self.buf;
        self.ranges[i.min(self.ranges.len())..]
            .iter()
            .map(move |r| &buf[r.start as usize..r.end as usize])
    }

    /// Words `start..end`, collected for an op.
    pub fn slice(&self, start: usize, end: usize) -> smallvec::SmallVec<[&'a [u8]; 16]> {
        (start..end).map(|i| self.at(i)).collect()
    }

    /// An owned copy, for MULTI's queue and blocked clients.
    pub fn to_owned(&self) -> OwnedArgs {
        let mut owned = OwnedArgs::default();
        for word in self.from(0) {
            owned.push(word);
        }
        owned
    }
}

/// Words that outlive the input buffer.
#[derive(Clone, Debug, Default)]
pub struct OwnedArgs {
    buf: Vec<u8>,
    ranges: Vec<ArgRange>,
}

impl OwnedArgs {
    /// Adds a word.
    pub fn push(&mut self, word: &[u8]) {
        let start = self.buf.len() as u32;
        self.buf.extend_from_slice(word);
        self.ranges.push(ArgRange { start, end: self.buf.len() as u32 });
    }

    /// The words, borrowed.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.buf, &self.ranges)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.buf.capacity() + self.ranges.capacity() * std::mem::size_of::<ArgRange>()
    }
}

impl<'a> FromIterator<&'a [u8]> for OwnedArgs {
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(words: T) -> OwnedArgs {
        let mut owned = OwnedArgs::default();
        for word in words {
            owned.push(word);
        }
        owned
    }
}
