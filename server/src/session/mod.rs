//! One client connection without its socket: bytes in, bytes out.
//!
//! The edge reads bytes, calls `process`, writes what lies in `Worker::out`, and does what the
//! returned `Step` says. The session never sees a socket, a clock or a task.

mod batch;
mod blocked;
mod call;
mod gated;
mod multi;
mod run;
pub mod worker;

use slots::SlotId;

use crate::command::{Client, CommandError, NodeState, Now};
use crate::gate::ReplyQueue;
use crate::resp::{Partial, Reply};

pub use worker::Worker;

/// Replies beyond this are written out before more commands run: bounds what a pipeline of
/// big GETs costs. One reply may still be larger.
pub const FLUSH_BYTES: usize = 256 * 1024;

/// What the edge does next.
///
/// ```text
///                 process -> NeedInput            (read more)
///                         -> Flush                (write, then process again)
///   Running ------------- -> Busy(slot)           (wait a little, then process again)
///     ^   ^               -> Paused               (wait for the pause's end, process again)
///     |   |               -> Close                (write, then close)
///     |   +-- resume ---- -> Blocked(deadline)    (wait for a letter or the deadline)
///     |                          |
///     +--- reply in out <--------+ resume(letters | timeout)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything complete is answered; the next request needs at least `bytes` in the buffer
    /// (counted from the first unconsumed byte).
    NeedInput {
        /// Bytes from the first unconsumed one; 1 when nothing is begun.
        bytes: usize,
    },
    /// Much output: write it, then call `process` with the rest of the input.
    Flush,
    /// The room is held by somebody, or the slot is being handed over and opens soon: wait a
    /// little, then call `process` again.
    Busy(SlotId),
    /// CLIENT PAUSE holds the next command back: wait for its end, then call `process` again.
    Paused,
    /// The client is blocked until a letter or the deadline (monotonic ns).
    Blocked {
        /// `None` = no time limit.
        deadline_ns: Option<u64>,
    },
    /// Write what there is, then close.
    Close,
}

/// What `process` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Input bytes used up.
    pub consumed: usize,
    /// What to do next.
    pub step: Step,
}

/// One client connection's state.
pub struct Session {
    /// The client.
    pub client: Client,
    partial: Partial,
    multi: Option<Box<multi::Transaction>>,
    watches: Option<Box<multi::Watches>>,
    blocked: Option<Box<blocked::Blocked>>,
    replies: ReplyQueue,
    /// What is busy is not waited for again: it is answered so.
    is_out_of_patience: bool,
}

impl Session {
    /// A fresh connection.
    pub fn new(client: Client) -> Session {
        Session {
            client,
            partial: Partial::default(),
            multi: None,
            watches: None,
            blocked: None,
            replies: ReplyQueue::default(),
            is_out_of_patience: false,
        }
    }

    /// The command that waits for a slot has waited long enough: where it would have to go on
    /// waiting it is answered with TRYAGAIN. It was not executed.
    pub fn lose_patience(&mut self) {
        self.is_out_of_patience = true;
    }

    /// The next command that finds a slot busy waits again.
    pub fn regain_patience(&mut self) {
        self.is_out_of_patience = false;
    }

    /// The slot that is to be waited for after this error, instead of answering it.
    fn waits_for(&mut self, error: &CommandError) -> Option<SlotId> {
        match *error {
            CommandError::Busy(slot) if !std::mem::take(&mut self.is_out_of_patience) => Some(slot),
            _ => None,
        }
    }

    /// Answers every complete request in `input`, as far as the returned step allows. Replies
    /// are appended to `worker.out`.
    pub fn process(
        &mut self,
        input: &[u8],
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
    ) -> Progress {
        let mut at = 0;
        loop {
            if let Some(blocked) = &self.blocked {
                let step = Step::Blocked { deadline_ns: blocked.deadline_ns };
                return Progress { consumed: at, step };
            }
            let decoded = self.decode(input, at, worker, node);
            if worker.batch.is_empty() {
                return self.end_of_input(decoded, worker, at);
            }
            self.prefetch(worker, node);
            let (consumed, stopped) = self.run_batch(input, at, worker, node, now);
            at = consumed;
            if let Some(step) = stopped {
                self.partial = Partial::default();
                return Progress { consumed: at, step };
            }
            if let batch::Decoded::Broken(_) | batch::Decoded::NeedInput { .. } = decoded {
                return self.end_of_input(decoded, worker, at);
            }
        }
    }

    fn end_of_input(
        &mut self,
        decoded: batch::Decoded,
        worker: &mut Worker,
        at: usize,
    ) -> Progress {
        match decoded {
            batch::Decoded::NeedInput { bytes, skipped_to } => {
                Progress { consumed: at.max(skipped_to), step: Step::NeedInput { bytes } }
            }
            batch::Decoded::Broken(error) => {
                let start = worker.out.len();
                Reply::new(&mut worker.out, self.client.proto).error(error.text());
                worker.stats.count_error(&worker.out[start..]);
                Progress { consumed: at, step: Step::Close }
            }
            batch::Decoded::Full => Progress { consumed: at, step: Step::Flush },
        }
    }

    /// The connection is gone: lets go of everything others hold for it.
    pub fn close(&mut self, node: &NodeState) {
        self.end_watches(node);
        self.abandon_block(node);
    }
}
