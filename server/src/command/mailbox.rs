//! A connection's mailbox: how others wake its task. A few bits and one waker; a letter is a
//! bit, what it stands for lies where the bit says. Checking it costs a load.

use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;

/// The bits.
pub mod letter {
    /// End the connection.
    pub const KILL: u32 = 1;
    /// A blocked client's reply is ready.
    pub const SERVED: u32 = 1 << 1;
    /// CLIENT UNBLOCK ... TIMEOUT.
    pub const UNBLOCK_TIMEOUT: u32 = 1 << 2;
    /// CLIENT UNBLOCK ... ERROR.
    pub const UNBLOCK_ERROR: u32 = 1 << 3;
    /// CLIENT UNPAUSE, or the pause was changed.
    pub const UNPAUSED: u32 = 1 << 4;
    /// Watermarks or grants moved: gated replies may leave.
    pub const GATE: u32 = 1 << 5;
    /// Out-of-band messages lie ready.
    pub const PUSH: u32 = 1 << 6;
    /// The log got further: one who waits for that (WAITAOF) looks.
    pub const SYNCED: u32 = 1 << 7;
    /// A slot that was being handed over is open, here or elsewhere.
    pub const OPENED: u32 = 1 << 8;
}

/// Bits and a waker.
#[derive(Debug, Default)]
pub struct Mailbox {
    letters: AtomicU32,
    waker: AtomicWaker,
}

impl Mailbox {
    /// Drops a letter in and wakes the connection's task.
    pub fn post(&self, letter: u32) {
        self.letters.fetch_or(letter, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Takes all letters.
    pub fn take(&self) -> u32 {
        self.letters.swap(0, Ordering::SeqCst)
    }

    /// Takes back a letter that has become pointless.
    pub fn retract(&self, letter: u32) {
        self.letters.fetch_and(!letter, Ordering::SeqCst);
    }

    /// Is any of these there?
    pub fn has(&self, kinds: u32) -> bool {
        self.letters.load(Ordering::SeqCst) & kinds != 0
    }

    /// Is there anything? One load.
    #[inline]
    pub fn any(&self) -> bool {
        self.letters.load(Ordering::Relaxed) != 0
    }

    /// Ready with the letters of these kinds when there are any; others stay in the box for
    /// whoever waits for them.
    pub fn poll(&self, kinds: u32, cx: &mut Context<'_>) -> Poll<u32> {
        if self.letters.load(Ordering::SeqCst) & kinds == 0 {
            self.waker.register(cx.waker());
            if self.letters.load(Ordering::SeqCst) & kinds == 0 {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.letters.fetch_and(!kinds, Ordering::SeqCst) & kinds)
    }
}
