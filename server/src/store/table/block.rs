//! The memory of one entry.
//!
//! ```text
//!  0         4      5       6        8
//! +---------+------+-------+--------+-------------+----------+-----+-------------------------+
//! | vlen u32| klen | flags | access | klen u32    | expiry   | key | value bytes             |
//! |         | u8   | u8    | u16    | if klen=255 | u64 if   |     | or an 8-byte pointer    |
//! +---------+------+-------+--------+-------------+----------+-----+-------------------------+
//! flags: bit 0 has an expiry, bits 1-2 kind of value, bits 3-4 the user's marks
//! ```
//! Invariant: the header alone tells the size class of the block; a change of class is a new block.
//! What `Boxed` points to belongs to the caller; this file only carries the pointer.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use super::class::class;

/// Bytes before the optional fields.
const HEADER_BYTES: usize = 8;
/// All blocks are aligned to this; the header's fields need no more.
const BLOCK_ALIGN: usize = 8;
/// The `klen` that says: the length of the key stands behind the header.
const LONG_KEY: u8 = u8::MAX;
/// Bytes of the pointer to a value that is not in the block.
const POINTER_BYTES: usize = size_of::<*mut u8>();
/// Below this a second block costs more in misses and pointers than it saves.
const APART_MIN_BYTES: usize = 256;
/// Above this a value is always apart, so that a change of the expiry never copies it.
const APART_ALWAYS_BYTES: usize = 4096;

const HAS_EXPIRY: u8 = 1;
const KIND_BITS: u8 = 0b110;
const MARKS_SHIFT: u32 = 3;
const MARKS_BITS: u8 = 0b11 << MARKS_SHIFT;

const _: () = assert!(usize::BITS == 64, "lengths of two 32-bit sizes are added in a usize");

/// Where the value is.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub(super) enum Kind {
    /// Behind the key.
    Inline,
    /// In a block of its own, of the value's size class.
    Apart,
    /// A `Box<O>` as a raw pointer.
    Boxed,
}

/// The value an entry is written with: bytes, or a pointer to what already lies elsewhere.
#[derive(Copy, Clone)]
pub(super) enum Payload<'a> {
    Inline(&'a [u8]),
    Apart(*mut u8, usize),
    Boxed(*mut u8),
}

/// The shape of a block, computed before there is one.
#[derive(Copy, Clone)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    key_at: usize,
    key_len: usize,
    payload: usize,
}

impl Plan {
    /// The plan for a value of `len` bytes: apart when the single block would waste more than an
    /// eighth and two blocks are smaller.
    #[inline]
    pub(super) fn for_bytes(key_len: usize, has_expiry: bool, len: usize) -> Plan {
        let inline = Plan::new(key_len, has_expiry, Kind::Inline, len);
        if len < APART_MIN_BYTES {
            return inline;
        }
        let apart = Plan::new(key_len, has_expiry, Kind::Apart, POINTER_BYTES);
        let (used, block) = (inline.key_at + key_len + len, inline.bytes());
        let wasteful = (block - used) * 8 > used && apart.bytes() + class(len) < block;
        if wasteful || len > APART_ALWAYS_BYTES { apart } else { inline }
    }

    #[inline]
    pub(super) fn for_box(key_len: usize, has_expiry: bool) -> Plan {
        Plan::new(key_len, has_expiry, Kind::Boxed, POINTER_BYTES)
    }

    #[inline]
    fn new(key_len: usize, has_expiry: bool, kind: Kind, payload: usize) -> Plan {
        let long = key_len >= usize::from(LONG_KEY);
        let key_at = HEADER_BYTES + usize::from(long) * 4 + usize::from(has_expiry) * 8;
        Plan { kind, key_at, key_len, payload }
    }

    /// The size class of the block.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        class(self.key_at + self.key_len + self.payload)
    }
}

/// A live entry's memory. A copyable address: it owns nothing, and is valid until released.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub(super) struct Block(NonNull<u8>);

impl Block {
    /// # Safety
    /// `raw` came from [`Block::as_ptr`] of a block not released since.
    #[inline]
    pub(super) unsafe fn from_raw(raw: *mut u8) -> Block {
        // SAFETY: the address of a block is not null.
        Block(unsafe { NonNull::new_unchecked(raw) })
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Reads a field of the header, which every live block has.
    #[inline]
    fn field<T: Copy>(self, at: usize) -> T {
        // SAFETY: private, called with fields inside the block that `write` has written; the
        // table is not Sync, so no other thread writes them.
        unsafe { self.0.add(at).cast::<T>().read_unaligned() }
    }

    #[inline]
    fn set_field<T: Copy>(self, at: usize, value: T) {
        // SAFETY: as `field`; no reference ever covers a header field.
        unsafe { self.0.add(at).cast::<T>().write_unaligned(value) }
    }

    /// Bytes of the value; 0 for a boxed one.
    #[inline]
    pub(super) fn value_len(self) -> usize {
        self.field::<u32>(0) as usize
    }

    #[inline]
    fn is_long(self) -> bool {
        self.field::<u8>(4) == LONG_KEY
    }

    #[inline]
    pub(super) fn key_len(self) -> usize {
        let short = self.field::<u8>(4);
        if short == LONG_KEY { self.field::<u32>(HEADER_BYTES) as usize } else { short.into() }
    }

    #[inline]
    fn flags(self) -> u8 {
        self.field(5)
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        match (self.flags() & KIND_BITS) >> 1 {
            0 => Kind::Inline,
            1 => Kind::Apart,
            _ => Kind::Boxed,
        }
    }

    #[inline]
    pub(super) fn has_expiry(self) -> bool {
        self.flags() & HAS_EXPIRY != 0
    }

    fn expiry_at(self) -> usize {
        HEADER_BYTES + usize::from(self.is_long()) * 4
    }

    #[inline]
    pub(super) fn expiry(self) -> Option<u64> {
        self.has_expiry().then(|| self.field(self.expiry_at()))
    }

    #[inline]
    pub(super) fn access(self) -> u16 {
        self.field(6)
    }

    /// Allowed through a shared table: the field is read and written by value only.
    #[inline]
    pub(super) fn set_access(self, access: u16) {
        self.set_field(6, access);
    }

    #[inline]
    pub(super) fn marks(self) -> u8 {
        (self.flags() & MARKS_BITS) >> MARKS_SHIFT
    }

    pub(super) fn set_marks(self, marks: u8) {
        let marks = (marks << MARKS_SHIFT) & MARKS_BITS;
        self.set_field(5, self.flags() & !MARKS_BITS | marks);
    }

    #[inline]
    fn key_at(self) -> usize {
        self.expiry_at() + usize::from(self.has_expiry()) * 8
    }

    /// The key. The caller bounds the lifetime by the table's borrow.
    #[inline]
    pub(super) fn key<'a>(self) -> &'a [u8] {
        // SAFETY: `write` put the key there; the block lives as long as the table is borrowed,
        // and keys are not written while a reference to one can exist.
        unsafe { std::slice::from_raw_parts(self.0.add(self.key_at()).as_ptr(), self.key_len()) }
    }

    #[inline]
    fn payload_ptr(self) -> NonNull<u8> {
        // SAFETY: the payload lies behind the key, inside the block.
        unsafe { self.0.add(self.key_at() + self.key_len()) }
    }

    /// The pointer of a value that is not inline.
    #[inline]
    pub(super) fn pointer(self) -> *mut u8 {
        debug_assert_ne!(self.kind(), Kind::Inline);
        // SAFETY: the payload of these kinds is a pointer.
        unsafe { self.payload_ptr().cast::<*mut u8>().read_unaligned() }
    }

    /// Where the bytes of a value that is not boxed begin.
    #[inline]
    pub(super) fn value_ptr(self) -> *mut u8 {
        if self.kind() == Kind::Inline { self.payload_ptr().as_ptr() } else { self.pointer() }
    }

    /// The plan this block was made by.
    pub(super) fn plan(self) -> Plan {
        let kind = self.kind();
        let payload = if kind == Kind::Inline { self.value_len() } else { POINTER_BYTES };
        Plan { kind, key_at: self.key_at(), key_len: self.key_len(), payload }
    }

    /// All allocated bytes of the entry except a box.
    pub(super) fn bytes(self) -> usize {
        let plan = self.plan();
        let apart = if plan.kind == Kind::Apart { class(self.value_len()) } else { 0 };
        plan.bytes() + apart
    }

    /// Memory for a block of `plan`, to be written before anything else.
    pub(super) fn allocate(plan: &Plan) -> Block {
        Block(allocate(plan.bytes()))
    }

    /// Gives back the memory of the block alone.
    ///
    /// # Safety
    /// The block was made by `plan`, nothing refers to it any more, its pointer is taken care of.
    pub(super) unsafe fn release(self, plan: &Plan) {
        // SAFETY: the plan gives the layout of the request.
        unsafe { release(self.0, plan.bytes()) }
    }

    /// Writes the whole entry; access and marks are set to the given ones.
    ///
    /// # Safety
    /// The block has the plan's bytes, nobody refers into it, key and value lie elsewhere and
    /// have the plan's lengths, the payload has the plan's kind.
    pub(super) unsafe fn write(
        self,
        plan: &Plan,
        key: &[u8],
        payload: Payload<'_>,
        expiry: Option<u64>,
        (access, marks): (u16, u8),
    ) {
        debug_assert_eq!(key.len(), plan.key_len);
        let (kind, len) = match payload {
            Payload::Inline(bytes) => (0, bytes.len()),
            Payload::Apart(_, len) => (1, len),
            Payload::Boxed(_) => (2, 0),
        };
        self.set_field(0, len as u32);
        let long = key.len() >= usize::from(LONG_KEY);
        self.set_field(4, if long { LONG_KEY } else { key.len() as u8 });
        self.set_field(5, u8::from(expiry.is_some()) | kind << 1);
        self.set_marks(marks);
        self.set_field(6, access);
        if long {
            self.set_field(HEADER_BYTES, key.len() as u32);
        }
        if let Some(at) = expiry {
            self.set_field(self.expiry_at(), at);
        }
        debug_assert_eq!(self.key_at(), plan.key_at);
        // SAFETY: the plan has room for the key and the payload, and neither overlaps the block.
        unsafe {
            let key_ptr = self.0.add(plan.key_at);
            ptr::copy_nonoverlapping(key.as_ptr(), key_ptr.as_ptr(), key.len());
            let target = key_ptr.add(key.len());
            match payload {
                Payload::Inline(bytes) => {
                    ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_ptr(), bytes.len());
                }
                Payload::Apart(pointer, _) | Payload::Boxed(pointer) => {
                    target.cast::<*mut u8>().write_unaligned(pointer);
                }
            }
        }
    }

    /// Overwrites an inline value when the class stays and the expiry neither comes nor goes.
    ///
    /// # Safety
    /// Nobody refers into the block; `value` lies elsewhere.
    #[inline]
    pub(super) unsafe fn overwrite_inline(
        self,
        plan: &Plan,
        value: &[u8],
        expiry: Option<u64>,
    ) -> bool {
        let old = self.plan();
        let same_shape = old.kind == Kind::Inline
            && plan.kind == Kind::Inline
            && old.key_at == plan.key_at
            && old.bytes() == plan.bytes();
        if !same_shape {
            return false;
        }
        if let Some(at) = expiry {
            self.set_field(self.expiry_at(), at);
        }
        self.set_field(0, value.len() as u32);
        // SAFETY: the block has the plan's bytes, and nobody refers into it.
        unsafe {
            let target = self.payload_ptr().as_ptr();
            ptr::copy_nonoverlapping(value.as_ptr(), target, value.len());
        }
        true
    }

    /// Changes an expiry the entry has.
    pub(super) fn set_expiry(self, at: u64) {
        assert!(self.has_expiry(), "the entry has no field for an expiry");
        self.set_field(self.expiry_at(), at);
    }

    /// Adds or takes the expiry, of the entry with everything else as it is. Returns the block to
    /// use from now on: this one when the class stays.
    ///
    /// # Safety
    /// Nobody refers into the block, and this value is not used any more if another is returned.
    pub(super) unsafe fn switch_expiry(self, expiry: Option<u64>) -> Block {
        let old = self.plan();
        let plan = Plan::new(old.key_len, expiry.is_some(), old.kind, old.payload);
        let target = if plan.bytes() == old.bytes() { self } else { Block::allocate(&plan) };
        // SAFETY: both blocks have room for header, key and payload; `copy` allows the overlap
        // when they are one. The old block is released when it is not the new one.
        unsafe {
            let behind = old.key_len + old.payload;
            ptr::copy(self.0.add(old.key_at).as_ptr(), target.0.add(plan.key_at).as_ptr(), behind);
            if target != self {
                ptr::copy_nonoverlapping(self.as_ptr(), target.as_ptr(), self.expiry_at());
                self.release(&old);
            }
        }
        let flags = target.flags() & !HAS_EXPIRY;
        target.set_field(5, flags | u8::from(expiry.is_some()));
        if let Some(at) = expiry {
            target.set_field(target.expiry_at(), at);
        }
        target
    }
}

/// A copy of `value` in a block of its own.
pub(super) fn allocate_apart(value: &[u8]) -> *mut u8 {
    let target = allocate(class(value.len()));
    // SAFETY: the new block has room for the value.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), target.as_ptr(), value.len()) };
    target.as_ptr()
}

/// Gives back the block of a value of `len` bytes.
///
/// # Safety
/// `pointer` came from [`allocate_apart`] with a value of the same class, and is not used again.
pub(super) unsafe fn release_apart(pointer: *mut u8, len: usize) {
    // SAFETY: the class gives the layout of the request; the pointer is not null.
    unsafe { release(NonNull::new_unchecked(pointer), class(len)) }
}

fn allocate(bytes: usize) -> NonNull<u8> {
    let layout = layout(bytes);
    // SAFETY: the size is at least 8.
    let raw = unsafe { alloc(layout) };
    NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `at` came from `allocate(bytes)` and is not used again.
unsafe fn release(at: NonNull<u8>, bytes: usize) {
    // SAFETY: the layout is that of the request.
    unsafe { dealloc(at.as_ptr(), layout(bytes)) }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, BLOCK_ALIGN).expect("two 32-bit lengths fit a layout")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_apart_only_when_the_single_block_wastes_more_than_an_eighth() {
        assert_eq!(Plan::for_bytes(16, false, 512).kind, Kind::Apart);
        assert_eq!(Plan::for_bytes(16, false, 488).kind, Kind::Inline);
        assert_eq!(Plan::for_bytes(16, false, 600).kind, Kind::Inline);
        assert_eq!(Plan::for_bytes(16, false, 255).kind, Kind::Inline);
        assert_eq!(Plan::for_bytes(16, false, 4097).kind, Kind::Apart);
        assert_eq!(Plan::for_bytes(16, false, 512).bytes() + class(512), 544);
    }

    #[test]
    fn switching_the_expiry_keeps_everything_else() {
        for key_len in [0usize, 7, 16, 254, 255, 300] {
            let key = vec![b'k'; key_len];
            let plan = Plan::for_bytes(key_len, false, 33);
            let block = Block::allocate(&plan);
            // SAFETY: the block was just made by the plan; each value is used until replaced.
            unsafe {
                block.write(&plan, &key, Payload::Inline(&[b'v'; 33]), None, (777, 2));
                let with = block.switch_expiry(Some(0));
                assert_eq!((with.key(), with.value_len()), (&key[..], 33));
                assert_eq!((with.expiry(), with.access(), with.marks()), (Some(0), 777, 2));
                with.set_expiry(u64::MAX);
                assert_eq!(with.expiry(), Some(u64::MAX));
                let without = with.switch_expiry(None);
                assert_eq!((without.key(), without.expiry()), (&key[..], None));
                let value = std::slice::from_raw_parts(without.value_ptr(), 33);
                assert_eq!(value, [b'v'; 33]);
                assert_eq!(without.bytes(), plan.bytes());
                without.release(&without.plan());
            }
        }
    }
}
