//! When a collection leaves its compact form, and the names `OBJECT ENCODING` gives the forms.
//! Not the configuration: config fills a `Limits` and hands it to each call that may grow a value.
//! Invariant: a change of limits never converts a value by itself; the next growing change does.

/// Bounds of the compact forms; the defaults are those of redis.conf 7.2.
///
/// Counts are elements (fields of a hash), values are bytes of one element.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// `hash-max-listpack-entries`.
    pub hash_max_entries: usize,
    /// `hash-max-listpack-value`: bytes of a field name or value.
    pub hash_max_value: usize,
    /// `set-max-intset-entries`.
    pub set_max_intset: usize,
    /// `set-max-listpack-entries`.
    pub set_max_listpack_entries: usize,
    /// `set-max-listpack-value`.
    pub set_max_listpack_value: usize,
    /// `zset-max-listpack-entries`.
    pub zset_max_entries: usize,
    /// `zset-max-listpack-value`.
    pub zset_max_value: usize,
    /// `list-max-listpack-size`: -1 to -5 bound a chunk to 4 to 64 KiB, a positive number to that
    /// many elements.
    pub list_max_listpack_size: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            hash_max_entries: 512,
            hash_max_value: 64,
            set_max_intset: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_entries: 128,
            zset_max_value: 64,
            list_max_listpack_size: -2,
        }
    }
}

/// The forms of values under their public names. Lists say `quicklist` whatever their size, as
/// Redis 7.0 does: they have one form here.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Encoding {
    /// A string that is a canonical 64-bit integer.
    Int,
    /// A short string in its entry.
    Embstr,
    /// A longer string.
    Raw,
    /// A small hash, set or sorted set in one allocation.
    Listpack,
    /// A list.
    Quicklist,
    /// A large hash or set.
    Hashtable,
    /// A small set of integers.
    Intset,
    /// A large sorted set (a counted tree here; the name is what clients know).
    Skiplist,
    /// A stream.
    Stream,
}

impl Encoding {
    /// The answer of `OBJECT ENCODING`.
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embstr => "embstr",
            Encoding::Raw => "raw",
            Encoding::Listpack => "listpack",
            Encoding::Quicklist => "quicklist",
            Encoding::Hashtable => "hashtable",
            Encoding::Intset => "intset",
            Encoding::Skiplist => "skiplist",
            Encoding::Stream => "stream",
        }
    }
}
