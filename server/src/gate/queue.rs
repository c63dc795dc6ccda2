//! The ordered queue of encoded replies of one connection that may not leave yet.
//!
//! Not the socket's own backlog: what `release` returned is out of the gate's hands.
//!
//! Invariant: every reply taken leaves once, in order, whole, as itself or as its fallback; as
//! itself only when a watermark covers its tag (INV-7).

use std::collections::VecDeque;

use super::batch::{Batch, Fallback};
use super::{Safety, Tag};

/// How much may wait. Checked by the session after each batch and each request it adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Bytes from which the session stops reading and executing.
    pub stop_bytes: usize,
    /// Replies from which it stops.
    pub stop_replies: usize,
    /// Bytes over which the connection is cut: one reply may be as long as the longest string,
    /// so only pushes from elsewhere, which no stop holds back, get there.
    pub cut_bytes: usize,
}

impl Default for Bounds {
    /// 1 MiB is what one batch of ordinary replies fills in a slow round trip; 16,384 replies
    /// are the deepest pipelines; two longest strings (512 MiB each) fit under the cut.
    fn default() -> Bounds {
        Bounds { stop_bytes: 1 << 20, stop_replies: 16_384, cut_bytes: 1 << 30 }
    }
}

/// What the session should do about the length of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// Go on.
    Open,
    /// Read and execute nothing more until a release leaves the queue below half of the bounds.
    StopReading,
    /// Close the connection.
    Cut,
}

/// ```text
///  take, untagged ─────────────────────────────▶ Ready ──┐
///                                                        │ all before it have left
///  take, tagged ──▶ Waiting ── a watermark covers it ────┼──▶ leaves as it was encoded
///                      │                                 │
///                      └─ fail ──▶ Failed ───────────────┴──▶ leaves as its fallback
/// ```
/// Ready covers a run of untagged replies; the others are one reply each.
#[derive(Debug)]
enum State {
    Ready,
    Waiting { tag: Tag, fallback: Fallback },
    Failed { fallback: Fallback },
}

#[derive(Debug)]
struct Entry {
    /// Bytes of it in the buffer.
    len: usize,
    state: State,
}

/// Replies that wait, and those behind them. An empty queue owns no memory.
#[derive(Default, Debug)]
pub struct ReplyQueue {
    entries: VecDeque<Entry>,
    /// The encoded replies one behind the other; what is before `head` has left.
    buffer: Vec<u8>,
    head: usize,
    /// Bytes that would leave if all were released now.
    pending: usize,
    is_stopped: bool,
}

impl ReplyQueue {
    /// Nothing waits.
    pub const fn new() -> ReplyQueue {
        ReplyQueue {
            entries: VecDeque::new(),
            buffer: Vec::new(),
            head: 0,
            pending: 0,
            is_stopped: false,
        }
    }

    /// Whether replies may be written without asking here.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that wait.
    pub fn pending_bytes(&self) -> usize {
        self.pending
    }

    /// Replies that wait; a run of untagged ones counts once.
    pub fn pending_replies(&self) -> usize {
        self.entries.len()
    }

    /// What the first reply of the queue waits for; `None` if something can be released.
    pub fn awaited(&self) -> Option<Tag> {
        match self.entries.front()?.state {
            State::Waiting { tag, .. } => Some(tag),
            State::Ready | State::Failed { .. } => None,
        }
    }

    /// Takes whole untagged replies.
    pub fn push(&mut self, replies: &[u8]) {
        if replies.is_empty() {
            return;
        }
        self.buffer.extend_from_slice(replies);
        self.pending += replies.len();
        match self.entries.back_mut() {
            Some(Entry { len, state: State::Ready }) => *len += replies.len(),
            _ => self.entries.push_back(Entry { len: replies.len(), state: State::Ready }),
        }
    }

    /// Takes one whole reply that waits for `tag`.
    pub fn push_tagged(&mut self, reply: &[u8], tag: Tag, fallback: Fallback) {
        assert!(!reply.is_empty(), "a reply has bytes");
        self.buffer.extend_from_slice(reply);
        self.pending += reply.len();
        self.entries.push_back(Entry { len: reply.len(), state: State::Waiting { tag, fallback } });
    }

    /// Takes the replies of a batch, tagged and not, and empties it.
    pub fn take(&mut self, replies: &[u8], batch: &mut Batch) {
        let mut from = 0;
        for mark in batch.drain() {
            self.push(&replies[from..mark.reply.start]);
            from = mark.reply.end;
            self.push_tagged(&replies[mark.reply], mark.tag, mark.fallback);
        }
        self.push(&replies[from..]);
    }

    /// Appends to `out` all that may leave now, in order. Call it whenever more is safe
    /// and after each `fail`; what it appended is to be written to the socket.
    pub fn release(&mut self, safety: &impl Safety, out: &mut Vec<u8>) {
        while let Some(entry) = self.entries.front() {
            let reply = self.head..self.head + entry.len;
            match &entry.state {
                State::Waiting { tag, .. } if !safety.covers(*tag) => break,
                State::Ready | State::Waiting { .. } => {
                    out.extend_from_slice(&self.buffer[reply.clone()]);
                    self.pending -= reply.len();
                }
                State::Failed { fallback } => {
                    fallback.encode(out);
                    self.pending -= fallback.encoded_len();
                }
            }
            self.head = reply.end;
            self.entries.pop_front();
        }
        self.give_back();
    }

    /// Turns every waiting reply that `is_lost` picks into its fallback: its outcome will not be
    /// known. Replies that are safe already, and wait only for those before them, stay. Says how
    /// many it turned.
    pub fn fail(&mut self, safety: &impl Safety, is_lost: impl Fn(Tag) -> bool) -> usize {
        let mut turned = 0;
        for entry in &mut self.entries {
            let State::Waiting { tag, fallback } = &entry.state else { continue };
            if safety.covers(*tag) || !is_lost(*tag) {
                continue;
            }
            self.pending = self.pending - entry.len + fallback.encoded_len();
            entry.state = State::Failed { fallback: fallback.clone() };
            turned += 1;
        }
        turned
    }

    /// What to do about the length of the queue. Once stopped it stays so until half of the
    /// bounds are free, so that reading does not flutter.
    pub fn pressure(&mut self, bounds: &Bounds) -> Pressure {
        let (bytes, replies) = (self.pending, self.entries.len());
        if bytes > bounds.cut_bytes {
            return Pressure::Cut;
        }
        self.is_stopped = match self.is_stopped {
            false => bytes >= bounds.stop_bytes || replies >= bounds.stop_replies,
            true => bytes > bounds.stop_bytes / 2 || replies > bounds.stop_replies / 2,
        };
        match self.is_stopped {
            true => Pressure::StopReading,
            false => Pressure::Open,
        }
    }

    /// Gives back the memory of what has left: all of it when nothing waits, else when it is more
    /// than what stays, so that moving costs no more than the bytes that left.
    fn give_back(&mut self) {
        if self.entries.is_empty() {
            assert_eq!((self.head, self.pending), (self.buffer.len(), 0), "INV-7: a reply is lost");
            *self = ReplyQueue { is_stopped: self.is_stopped, ..ReplyQueue::new() };
        } else if self.head > self.buffer.len() - self.head {
            self.buffer.drain(..self.head);
            self.head = 0;
        }
    }
}

#[cfg(test)]
mod tests;
