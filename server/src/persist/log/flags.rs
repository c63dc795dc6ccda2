//! What every write and every reply asks of the log, on a line of its own that hardly ever changes.
//!
//! Not the reasons (`wal`) nor the places (`lane`). Invariant: while a record waits in memory
//! `waits` says so to everyone who knows of its append; once it says no, `is_written` says yes to
//! every record whose append it knows of.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};

/// When appends are synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Policy {
    /// As soon as there is something, all that has come meanwhile together.
    Always = 0,
    /// Once a second.
    EverySec = 1,
    /// When the kernel likes, when too much has come together, or when someone asks for a round.
    No = 2,
}

/// The flags. They share no line with anything that an append writes.
#[derive(Debug)]
#[repr(align(128))]
pub struct LogFlags {
    is_full: AtomicBool,
    policy: AtomicU8,
    waiting_bytes: AtomicU64,
}

impl Default for LogFlags {
    fn default() -> LogFlags {
        LogFlags {
            is_full: AtomicBool::new(false),
            policy: AtomicU8::new(Policy::No as u8),
            waiting_bytes: AtomicU64::new(0),
        }
    }
}

impl LogFlags {
    /// Writes must be refused before they are executed: there is no room for them. The log's
    /// `full_reason` says why.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Does any record wait in memory, so that a reply must look at `is_written`? To be asked by
    /// the thread that appended, or one that learned of the append from it.
    ///
    /// No false no: the count is raised within the append, so it is before this load for whoever
    /// knows of the append. Each record is raised once and taken off once, after it was raised: a
    /// count of 0 seen here has the record taken off, too. What took it off did so with `Release`
    /// after the record was copied and `waits_from` told of it, and later changes of the count
    /// carry that on (all are read-modify-writes); with this `Acquire` both are seen here.
    #[inline]
    pub fn waits(&self) -> bool {
        self.waiting_bytes() > 0
    }

    /// Bytes of records that wait in memory.
    #[inline]
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Acquire)
    }

    /// By which policy the log syncs. Who waits for a sync reads it after its append: a switch
    /// makes a round after it has changed this, which reaches every append that read the old one.
    #[inline]
    pub fn policy(&self) -> Policy {
        match self.policy.load(Relaxed) {
            0 => Policy::Always,
            1 => Policy::EverySec,
            _ => Policy::No,
        }
    }

    /// Only by the one who makes the round that is due then.
    pub(crate) fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Relaxed);
    }

    pub(super) fn set_full(&self, is_full: bool) {
        // Most calls change nothing: the line stays with all who read it.
        if self.is_full.load(Relaxed) != is_full {
            self.is_full.store(is_full, Relaxed);
        }
    }

    /// A record waits; before its append returns, and after `waits_from` of its lane says so.
    pub(super) fn add_waiting(&self, bytes: u64) {
        self.waiting_bytes.fetch_add(bytes, Relaxed);
    }

    /// It waits no more; after it is written and `waits_from` of its lane says so.
    pub(super) fn take_waiting(&self, bytes: u64) {
        let before = self.waiting_bytes.fetch_sub(bytes, Release);
        assert!(before >= bytes, "{bytes} bytes of {before} waited");
    }
}

const _: () = assert!(size_of::<LogFlags>() == 128);
