//! The hash table of the keyspace and of large collections: extendible hashing in hash order.
//!
//! ```text
//! root -> array of 1..64 buckets                                     (small)
//! root -> directory -> segments of 47 or 63 buckets -> entry blocks  (large)
//! ```
//! Two cache misses per access, no long rehash, cursors that survive any growth. Not a map of
//! Rust types: keys and values are bytes, or boxed objects. The only unsafe module of the store.
//! Invariant: each key lies once, in the run its hash selects, and `bytes` is the sum of all
//! size classes allocated. No code of the caller runs inside, except a scan's visitor.
#![allow(unsafe_code)]

mod block;
mod bucket;
mod class;
mod directory;
mod entry;
mod hash;
mod prefetch;
mod reshape;
mod root;
mod scan;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use block::{Block, Kind, Payload, Plan, allocate_apart, release_apart};
use bucket::{Place, Run};
use class::class;
use root::Root;

pub use entry::{Entry, EntryMut, EntryValue};
pub use hash::{KeyHash, KeyOrder, hash_key, set_hash_seed};
pub use prefetch::{TableHint, prefetch_two_lines};
pub use scan::ScanPos;

/// The most bytes of a key, and of a value: the fields are 32 bits wide. Limits for clients are
/// lower and checked by the commands.
pub const MAX_FIELD_BYTES: usize = u32::MAX as usize;

/// A value to be stored.
pub enum NewValue<'a, O> {
    /// Bytes, copied.
    Bytes(&'a [u8]),
    /// An object; the table takes it over.
    Boxed(Box<O>),
}

/// What becomes of the expiry.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum Expiry {
    /// The old one; none for a new key.
    Keep,
    /// None.
    Never,
    /// Unix milliseconds; 0 is a legal time.
    At(u64),
}

/// What was replaced or removed.
#[derive(Debug)]
pub enum Old<O> {
    /// There was no such key.
    Absent,
    /// Bytes, which are gone.
    Bytes,
    /// An object, which is the caller's again.
    Boxed(Box<O>),
}

/// The table. Empty it allocates nothing. Send when `O` is, never Sync: the access word of an
/// entry is written through a shared borrow.
///
/// Every method that takes a hash and a key wants `hash_key(key)` as the hash.
pub struct Table<O> {
    root: Root,
    len: usize,
    bytes: usize,
    /// Entries with an expiry.
    expiring: usize,
    objects: PhantomData<Box<O>>,
}

const _: () = assert!(size_of::<Table<u8>>() <= 32);

// SAFETY: the table owns everything it points to, and its objects are Send. `Root` holds a raw
// pointer, so the table is not Sync.
unsafe impl<O: Send> Send for Table<O> {}

impl<O> Default for Table<O> {
    fn default() -> Self {
        Table::new()
    }
}

impl<O> Drop for Table<O> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<O: Clone> Clone for Table<O> {
    /// A deep copy, expiries, marks and access words included.
    fn clone(&self) -> Self {
        let mut copy = Table::new();
        for entry in self.iter() {
            let value = match entry.value() {
                EntryValue::Bytes(bytes) => NewValue::Bytes(bytes),
                EntryValue::Boxed(object) => NewValue::Boxed(Box::new(object.clone())),
            };
            let about = (entry.access(), entry.marks());
            copy.put_new(entry.hash(), entry.key(), value, entry.expiry(), about);
        }
        copy
    }
}

impl<O> Table<O> {
    /// An empty table.
    pub const fn new() -> Self {
        Table { root: Root::EMPTY, len: 0, bytes: 0, expiring: 0, objects: PhantomData }
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All allocated bytes: entries, values apart, boxes, buckets, directory, each rounded to its
    /// size class. What the objects own is not known here.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Entries with an expiry.
    #[inline]
    pub fn expiring(&self) -> usize {
        self.expiring
    }

    /// The entry of `key`.
    #[inline]
    pub fn find(&self, hash: KeyHash, key: &[u8]) -> Option<Entry<'_, O>> {
        let (_, block) = self.root.run_of(hash)?.find(hash, key)?;
        // SAFETY: the table is borrowed for as long as the entry is.
        Some(unsafe { Entry::new(block) })
    }

    /// The entry of `key`, to change in place.
    #[inline]
    pub fn find_mut(&mut self, hash: KeyHash, key: &[u8]) -> Option<EntryMut<'_, O>> {
        let (_, block) = self.root.run_of(hash)?.find(hash, key)?;
        // SAFETY: the table is mutably borrowed for as long as the entry is.
        Some(unsafe { EntryMut::new(block) })
    }

    /// Inserts or overwrites. A value of the old size class is written in place. Access word and
    /// marks of an entry are kept; a new one starts with 0.
    ///
    /// # Panics
    /// When key or value are longer than [`MAX_FIELD_BYTES`].
    pub fn put(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: NewValue<'_, O>,
        expiry: Expiry,
    ) -> Old<O> {
        self.put_about(hash, key, value, expiry, None)
    }

    /// As `put`, with a new life for the entry: its access word is `access`, its marks are 0.
    ///
    /// # Panics
    /// As `put`.
    #[inline]
    pub fn put_fresh(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: NewValue<'_, O>,
        expiry: Expiry,
        access: u16,
    ) -> Old<O> {
        self.put_about(hash, key, value, expiry, Some(access))
    }

    #[inline]
    fn put_about(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: NewValue<'_, O>,
        expiry: Expiry,
        access: Option<u16>,
    ) -> Old<O> {
        if let Some(run) = self.root.run_of(hash)
            && let Some((place, block)) = run.find(hash, key)
        {
            if let Some(access) = access {
                block.set_access(access);
                block.set_marks(0);
            }
            return self.overwrite(run, place, block, key, value, expiry);
        }
        let expiry = match expiry {
            Expiry::Keep | Expiry::Never => None,
            Expiry::At(at) => Some(at),
        };
        self.put_new(hash, key, value, expiry, (access.unwrap_or(0), 0));
        Old::Absent
    }

    /// Removes the entry of `key`.
    pub fn remove(&mut self, hash: KeyHash, key: &[u8]) -> Old<O> {
        let Some(run) = self.root.run_of(hash) else { return Old::Absent };
        let Some((place, block)) = run.find(hash, key) else { return Old::Absent };
        // SAFETY: the table is borrowed mutably, and nothing changed since the find.
        unsafe { run.remove(hash, place) };
        // SAFETY: the run has forgotten the block.
        let old = unsafe { self.release_entry(block) };
        self.after_removal(hash);
        old
    }

    /// Sets or takes the expiry. False when there is no such key. The entry may move.
    pub fn set_expiry(&mut self, hash: KeyHash, key: &[u8], at: Option<u64>) -> bool {
        let Some(run) = self.root.run_of(hash) else { return false };
        let Some((place, block)) = run.find(hash, key) else { return false };
        self.expiring += at.is_some() as usize;
        self.expiring -= block.has_expiry() as usize;
        match (block.has_expiry(), at) {
            (true, Some(at)) => block.set_expiry(at),
            (false, None) => {}
            _ => self.switch_expiry(run, place, block, at),
        }
        true
    }

    /// Removes everything. The objects are dropped after the table has become empty.
    pub fn clear(&mut self) {
        // Taken out first: should the drop of an object unwind, entries leak, and none is freed
        // twice.
        let mut taken = std::mem::ManuallyDrop::new(std::mem::take(self));
        for block in taken.blocks() {
            // SAFETY: nobody else knows the taken table, and each block is visited once. The
            // buckets keep dangling pointers, which nothing reads any more.
            let old = unsafe { taken.release_entry(block) };
            drop(old);
        }
        taken.release_structure();
        debug_assert_eq!(taken.bytes, 0);
    }

    /// The root as one word, for prefetches without the lock.
    #[inline]
    pub fn hint(&self) -> TableHint {
        TableHint::new(self.root.word())
    }

    /// Asks for the line of the hash's bucket. Under the lock: it reads the directory.
    #[inline]
    pub fn prefetch_bucket(&self, hash: KeyHash) {
        if let Some(run) = self.root.run_of(hash) {
            run.prefetch_bucket(hash);
        }
    }

    /// Asks for the lines of the entry most likely meant. Under the lock: it reads the bucket.
    #[inline]
    pub fn prefetch_entry(&self, hash: KeyHash) {
        if let Some(run) = self.root.run_of(hash) {
            run.prefetch_entry(hash);
        }
    }

    /// Puts a key that is not in the table.
    fn put_new(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: NewValue<'_, O>,
        expiry: Option<u64>,
        about: (u16, u8),
    ) {
        let plan = plan_for(key, &value, expiry);
        let payload = match value {
            NewValue::Bytes(bytes) if plan.kind == Kind::Inline => Payload::Inline(bytes),
            NewValue::Bytes(bytes) => Payload::Apart(allocate_apart(bytes), bytes.len()),
            NewValue::Boxed(object) => Payload::Boxed(Box::into_raw(object).cast()),
        };
        let block = Block::allocate(&plan);
        // SAFETY: the block is new and of the plan, for which the payload was made.
        unsafe { block.write(&plan, key, payload, expiry, about) };
        self.bytes += entry::entry_bytes::<O>(block);
        self.expiring += expiry.is_some() as usize;
        self.insert_block(hash, block);
    }

    fn overwrite(
        &mut self,
        run: Run,
        place: Place,
        block: Block,
        key: &[u8],
        value: NewValue<'_, O>,
        expiry: Expiry,
    ) -> Old<O> {
        let expiry = match expiry {
            Expiry::Keep => block.expiry(),
            Expiry::Never => None,
            Expiry::At(at) => Some(at),
        };
        self.expiring += expiry.is_some() as usize;
        self.expiring -= block.has_expiry() as usize;
        let plan = plan_for(key, &value, expiry);
        if let NewValue::Bytes(bytes) = value {
            // SAFETY: the table is borrowed mutably, so nobody refers into the block.
            if unsafe { block.overwrite_inline(&plan, bytes, expiry) } {
                return Old::Bytes;
            }
        }
        self.bytes -= entry::entry_bytes::<O>(block);
        let old_plan = block.plan();
        let mut apart = (block.kind() == Kind::Apart).then(|| (block.pointer(), block.value_len()));
        let payload = match value {
            NewValue::Bytes(bytes) if plan.kind == Kind::Inline => Payload::Inline(bytes),
            NewValue::Bytes(bytes) => {
                let pointer = reuse_or_allocate(&mut apart, bytes);
                Payload::Apart(pointer, bytes.len())
            }
            NewValue::Boxed(object) => Payload::Boxed(Box::into_raw(object).cast()),
        };
        let old_object = (block.kind() == Kind::Boxed).then(|| block.pointer());
        let about = (block.access(), block.marks());
        let target = if plan.bytes() == old_plan.bytes() { block } else { Block::allocate(&plan) };
        // SAFETY: the target has the plan's bytes, the table is borrowed mutably, and key and
        // value are the caller's. The old block is released when the place has the new one.
        unsafe {
            target.write(&plan, key, payload, expiry, about);
            if target != block {
                run.replace(place, target);
                block.release(&old_plan);
            }
        }
        self.bytes += entry::entry_bytes::<O>(target);
        if let Some((pointer, len)) = apart {
            // SAFETY: no entry points to it any more.
            unsafe { release_apart(pointer, len) };
        }
        match old_object {
            None => Old::Bytes,
            // SAFETY: the pointer came from Box::into_raw, and no entry holds it any more.
            Some(pointer) => Old::Boxed(unsafe { Box::from_raw(pointer.cast()) }),
        }
    }

    fn switch_expiry(&mut self, run: Run, place: Place, block: Block, at: Option<u64>) {
        let before = block.bytes();
        // SAFETY: the table is borrowed mutably, so nobody refers into the block; the place gets
        // the one to use from now on.
        let after = unsafe {
            let after = block.switch_expiry(at);
            run.replace(place, after);
            after
        };
        self.bytes = self.bytes + after.bytes() - before;
    }

    /// Frees an entry, and returns its object.
    ///
    /// # Safety
    /// No run of the table is read for this block again.
    unsafe fn release_entry(&mut self, block: Block) -> Old<O> {
        self.expiring -= block.has_expiry() as usize;
        self.bytes -= entry::entry_bytes::<O>(block);
        let old = match block.kind() {
            Kind::Inline => Old::Bytes,
            Kind::Apart => {
                // SAFETY: the entry that points to it is going.
                unsafe { release_apart(block.pointer(), block.value_len()) };
                Old::Bytes
            }
            // SAFETY: the pointer came from Box::into_raw, and its entry is going.
            Kind::Boxed => Old::Boxed(unsafe { Box::from_raw(block.pointer().cast()) }),
        };
        // SAFETY: the caller promised that nobody reads it again.
        unsafe { block.release(&block.plan()) };
        old
    }
}

/// The shape of the entry to come.
#[inline]
fn plan_for<O>(key: &[u8], value: &NewValue<'_, O>, expiry: Option<u64>) -> Plan {
    assert!(key.len() <= MAX_FIELD_BYTES, "a key of {} bytes", key.len());
    match value {
        NewValue::Bytes(bytes) => {
            assert!(bytes.len() <= MAX_FIELD_BYTES, "a value of {} bytes", bytes.len());
            Plan::for_bytes(key.len(), expiry.is_some(), bytes.len())
        }
        NewValue::Boxed(_) => Plan::for_box(key.len(), expiry.is_some()),
    }
}

/// A block with `bytes`: the old one, taken out of `apart`, when the class is the same.
fn reuse_or_allocate(apart: &mut Option<(*mut u8, usize)>, bytes: &[u8]) -> *mut u8 {
    match *apart {
        Some((pointer, len)) if class(len) == class(bytes.len()) => {
            *apart = None;
            // SAFETY: the block has the class's bytes; the table is borrowed mutably, so nobody
            // refers into it.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
            pointer
        }
        _ => allocate_apart(bytes),
    }
}
