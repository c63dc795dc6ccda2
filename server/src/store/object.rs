//! The values that are no plain strings: what a table entry holds in a box. Not commands: they
//! match on the kind and work on the value inside.
//! Invariant: a clone is a value of its own; lists and blobs share chunks until one side writes.

use super::blob::Blob;
use super::hash::Hash;
use super::limits::Encoding;
use super::list::List;
use super::set::Set;
use super::zset::SortedSet;

/// A value of any type but a short string.
#[derive(Clone, Debug)]
pub enum Object {
    /// A big string.
    Blob(Blob),
    /// A list.
    List(List),
    /// A hash.
    Hash(Hash),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
}

impl Object {
    /// The answer of `TYPE`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Object::Blob(_) => "string",
            Object::List(_) => "list",
            Object::Hash(_) => "hash",
            Object::Set(_) => "set",
            Object::SortedSet(_) => "zset",
        }
    }

    /// The form, for `OBJECT ENCODING`.
    pub fn encoding(&self) -> Encoding {
        match self {
            Object::Blob(_) => Encoding::Raw,
            Object::List(list) => list.encoding(),
            Object::Hash(hash) => hash.encoding(),
            Object::Set(set) => set.encoding(),
            Object::SortedSet(set) => set.encoding(),
        }
    }

    /// Bytes of the allocations the object owns; the box it lies in is the table's.
    pub fn bytes(&self) -> usize {
        match self {
            Object::Blob(blob) => blob.bytes(),
            Object::List(list) => list.bytes(),
            Object::Hash(hash) => hash.bytes(),
            Object::Set(set) => set.bytes(),
            Object::SortedSet(set) => set.bytes(),
        }
    }

    /// Elements, or bytes of a string. A collection of length 0 does not stay in a table.
    pub fn len(&self) -> usize {
        match self {
            Object::Blob(blob) => blob.len(),
            Object::List(list) => list.len(),
            Object::Hash(hash) => hash.len(),
            Object::Set(set) => set.len(),
            Object::SortedSet(set) => set.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many allocations freeing it takes, roughly: one for a compact form, else the elements
    /// or chunks. Decides what is freed in the background.
    pub fn weight(&self) -> usize {
        match self {
            Object::Blob(blob) => blob.chunk_count(),
            Object::List(list) => list.chunk_count(),
            Object::Hash(_) | Object::Set(_) | Object::SortedSet(_) => match self.encoding() {
                Encoding::Listpack | Encoding::Intset => 1,
                _ => self.len(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::limits::Limits;

    #[test]
    fn objects_are_small_and_movable() {
        fn movable<T: Send + Clone>() {}
        movable::<Object>();
        assert!(size_of::<Object>() <= 64, "{}", size_of::<Object>());
    }

    #[test]
    fn names_follow_redis() {
        let limits = Limits::default();
        let (mut hash, mut set) = (Hash::new(), Set::new());
        hash.set(b"f", b"v", &limits);
        set.add(b"1", &limits);
        let cases = [
            (Object::Blob(Blob::from_slice(b"x")), "string", "raw"),
            (Object::List(List::new()), "list", "quicklist"),
            (Object::Hash(hash), "hash", "listpack"),
            (Object::Set(set), "set", "intset"),
            (Object::SortedSet(SortedSet::new()), "zset", "listpack"),
        ];
        for (object, type_name, encoding) in cases {
            assert_eq!(object.type_name(), type_name);
            assert_eq!(object.encoding().as_str(), encoding);
        }
    }
}
