//! An entry as callers see it: borrowed from the table, read, or changed without moving it.
//!
//! Invariant: nothing here changes the size of an entry.

use std::marker::PhantomData;

use super::block::{Block, Kind};
use super::class::class;
use super::hash::{KeyHash, hash_key};

/// The value of an entry.
#[derive(Debug)]
pub enum EntryValue<'a, O> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// An object on the heap.
    Boxed(&'a O),
}

/// A shared borrow of an entry.
pub struct Entry<'a, O> {
    block: Block,
    table: PhantomData<&'a O>,
}

impl<O> Copy for Entry<'_, O> {}

impl<O> Clone for Entry<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, O> Entry<'a, O> {
    /// # Safety
    /// The block is live, and belongs to a `Table<O>` borrowed for `'a`.
    #[inline]
    pub(super) unsafe fn new(block: Block) -> Self {
        Entry { block, table: PhantomData }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.block.key()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> EntryValue<'a, O> {
        // SAFETY: the table is borrowed for 'a, so nobody writes the value; `write` set `len`
        // bytes there, or the pointer of a Box<O>.
        unsafe {
            if self.block.kind() == Kind::Boxed {
                return EntryValue::Boxed(&*self.block.pointer().cast::<O>());
            }
            let len = self.block.value_len();
            EntryValue::Bytes(std::slice::from_raw_parts(self.block.value_ptr(), len))
        }
    }

    /// When the entry ends, unix milliseconds. The table never acts on it.
    #[inline]
    pub fn expiry(&self) -> Option<u64> {
        self.block.expiry()
    }

    /// The access word, for eviction: 0 for a new entry, kept when the value is overwritten.
    #[inline]
    pub fn access(&self) -> u16 {
        self.block.access()
    }

    /// Sets the access word. Not a change of the table.
    #[inline]
    pub fn set_access(&self, access: u16) {
        self.block.set_access(access);
    }

    /// The two user bits: 0 for a new entry, kept when the value is overwritten.
    #[inline]
    pub fn marks(&self) -> u8 {
        self.block.marks()
    }

    /// The hash of the key (computed).
    #[inline]
    pub fn hash(&self) -> KeyHash {
        hash_key(self.key())
    }

    /// Allocated bytes of this entry, as the table counts them; buckets not included.
    pub fn bytes(&self) -> usize {
        entry_bytes::<O>(self.block)
    }
}

/// An exclusive borrow of an entry.
pub struct EntryMut<'a, O> {
    block: Block,
    table: PhantomData<&'a mut O>,
}

impl<'a, O> EntryMut<'a, O> {
    /// # Safety
    /// The block is live, and belongs to a `Table<O>` mutably borrowed for `'a`.
    #[inline]
    pub(super) unsafe fn new(block: Block) -> Self {
        EntryMut { block, table: PhantomData }
    }

    /// The same entry, to read.
    #[inline]
    pub fn entry(&self) -> Entry<'_, O> {
        // SAFETY: the borrow of self keeps the table's.
        unsafe { Entry::new(self.block) }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.block.key()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> EntryValue<'_, O> {
        self.entry().value()
    }

    /// When the entry ends, unix milliseconds.
    #[inline]
    pub fn expiry(&self) -> Option<u64> {
        self.block.expiry()
    }

    /// The access word.
    #[inline]
    pub fn access(&self) -> u16 {
        self.block.access()
    }

    /// Sets the access word.
    #[inline]
    pub fn set_access(&self, access: u16) {
        self.block.set_access(access);
    }

    /// The two user bits.
    #[inline]
    pub fn marks(&self) -> u8 {
        self.block.marks()
    }

    /// Sets the two user bits; higher bits are ignored.
    #[inline]
    pub fn set_marks(&mut self, marks: u8) {
        self.block.set_marks(marks);
    }

    /// Allocated bytes of this entry; buckets not included.
    pub fn bytes(&self) -> usize {
        entry_bytes::<O>(self.block)
    }

    /// The object, or none when the value is bytes.
    #[inline]
    pub fn boxed_mut(&mut self) -> Option<&mut O> {
        // SAFETY: self is borrowed mutably, and bounds the result.
        unsafe { boxed_mut(self.block) }
    }

    /// The object for as long as the table is borrowed, or none when the value is bytes.
    #[inline]
    pub fn into_boxed_mut(self) -> Option<&'a mut O> {
        // SAFETY: the table is borrowed mutably for 'a, and self is used up.
        unsafe { boxed_mut(self.block) }
    }

    /// The bytes, for edits that keep the length, or none when the value is an object.
    #[inline]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.block.kind() == Kind::Boxed {
            return None;
        }
        let len = self.block.value_len();
        // SAFETY: the value has `len` written bytes; self is borrowed mutably for the result.
        Some(unsafe { std::slice::from_raw_parts_mut(self.block.value_ptr(), len) })
    }
}

/// # Safety
/// The block is live and of a `Table<O>` that is mutably borrowed for `'b`, by nobody else.
unsafe fn boxed_mut<'b, O>(block: Block) -> Option<&'b mut O> {
    // SAFETY: the pointer of a boxed value is that of a Box<O>.
    (block.kind() == Kind::Boxed).then(|| unsafe { &mut *block.pointer().cast::<O>() })
}

/// All allocations of an entry, the box itself included, what it owns not.
#[inline]
pub(super) fn entry_bytes<O>(block: Block) -> usize {
    let boxed = if block.kind() == Kind::Boxed { box_bytes::<O>() } else { 0 };
    block.bytes() + boxed
}

/// What a `Box<O>` allocates.
#[inline]
pub(super) fn box_bytes<O>() -> usize {
    if size_of::<O>() == 0 { 0 } else { class(size_of::<O>()) }
}
