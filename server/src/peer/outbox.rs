//! Messages on their way out, cut into pieces that fit a frame.
//!
//! ```text
//!   Request  id u64 | call kind u8 | last u8 | patience_ms u32 | bytes of the body
//!   Answer   id u64 | outcome u8   | last u8 | bytes of the body
//! ```
//! Short messages and pieces of long ones take turns, so a snapshot does not hold up a heartbeat;
//! messages have no order among each other. Invariant: within the limits, or refused as a whole.

use std::collections::VecDeque;

use super::CallKind;
use super::frame::{FrameKind, MAX_PAYLOAD_BYTES, put_frame};

/// Longest message, whole: the table's image with its history is below 2 MiB, and a piece of a
/// snapshot is made to fit.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Most bytes of calls waiting for one link: two of the longest messages.
pub const MAX_QUEUED_CALL_BYTES: usize = 2 * MAX_MESSAGE_BYTES;
/// Most bytes of answers waiting for one link: apart from calls, so that two nodes that call each
/// other cannot shut out each other's answers.
pub const MAX_QUEUED_ANSWER_BYTES: usize = 2 * MAX_MESSAGE_BYTES;
/// Most calls waiting for one link, and most that wait for an answer: a heartbeat and a proposal
/// of each of 500 clients.
pub const MAX_CALLS: usize = 1024;

/// Most answers waiting for one link. A node of ours has `MAX_CALLS` open, and may have given up
/// as many.
pub const MAX_QUEUED_ANSWERS: usize = 2 * MAX_CALLS;

/// What is counted for a message beyond its body.
const MESSAGE_COST_BYTES: usize = 64;

/// Bytes before the body in a Request.
pub const REQUEST_HEAD_BYTES: usize = 14;
/// Bytes before the body in an Answer.
pub const ANSWER_HEAD_BYTES: usize = 10;

/// How a call ended at the other side, as a number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// The body is the answer.
    Done = 0,
    /// The body is the reason.
    Refused = 1,
    /// Not carried out: too many calls at once.
    Busy = 2,
    /// Carried out, or given up meanwhile; there is no answer.
    Nothing = 3,
}

impl Outcome {
    /// The outcome of this number.
    pub const fn from_wire(number: u8) -> Option<Outcome> {
        match number {
            0 => Some(Outcome::Done),
            1 => Some(Outcome::Refused),
            2 => Some(Outcome::Busy),
            3 => Some(Outcome::Nothing),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Message {
    kind: FrameKind,
    id: u64,
    /// Call kind or outcome.
    word: u8,
    patience_ms: u32,
    body: Vec<u8>,
    sent_bytes: usize,
}

impl Message {
    fn head_bytes(&self) -> usize {
        match self.kind {
            FrameKind::Request => REQUEST_HEAD_BYTES,
            _ => ANSWER_HEAD_BYTES,
        }
    }

    fn is_short(&self) -> bool {
        self.head_bytes() + self.body.len() <= MAX_PAYLOAD_BYTES
    }

    fn cost_bytes(&self) -> usize {
        self.body.len() + MESSAGE_COST_BYTES
    }

    /// Appends the next piece; was it the last?
    fn put_piece(&mut self, out: &mut Vec<u8>) -> bool {
        let left = &self.body[self.sent_bytes..];
        let piece = &left[..left.len().min(MAX_PAYLOAD_BYTES - self.head_bytes())];
        let is_last = piece.len() == left.len();
        let mut head = Vec::with_capacity(REQUEST_HEAD_BYTES);
        head.extend_from_slice(&self.id.to_le_bytes());
        head.push(self.word);
        head.push(u8::from(is_last));
        if self.kind == FrameKind::Request {
            head.extend_from_slice(&self.patience_ms.to_le_bytes());
        }
        put_frame(out, self.kind, &[&head, piece]);
        self.sent_bytes += piece.len();
        is_last
    }
}

/// The queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The messages.
#[derive(Default, Debug)]
pub struct Outbox {
    short: VecDeque<Message>,
    long: VecDeque<Message>,
    calls: usize,
    call_bytes: usize,
    answers: usize,
    answer_bytes: usize,
}

impl Outbox {
    /// Queues a call. `Full` beyond `MAX_CALLS` or `MAX_QUEUED_CALL_BYTES`.
    pub fn push_request(
        &mut self,
        id: u64,
        kind: CallKind,
        patience_ms: u32,
        body: Vec<u8>,
    ) -> Result<(), Full> {
        let word = kind as u8;
        let request = FrameKind::Request;
        let message = Message { kind: request, id, word, patience_ms, body, sent_bytes: 0 };
        let bytes = self.call_bytes + message.cost_bytes();
        if self.calls >= MAX_CALLS || bytes > MAX_QUEUED_CALL_BYTES {
            return Err(Full);
        }
        self.calls += 1;
        self.call_bytes = bytes;
        self.push(message);
        Ok(())
    }

    /// Queues an answer. One for which there is no room, or that is too long, goes out as
    /// `Outcome::Nothing`. `Full` beyond `MAX_QUEUED_ANSWERS`: the other side calls without end and
    /// reads nothing.
    pub fn push_answer(&mut self, id: u64, outcome: Outcome, body: Vec<u8>) -> Result<(), Full> {
        if self.answers >= MAX_QUEUED_ANSWERS {
            return Err(Full);
        }
        let word = outcome as u8;
        let answer = FrameKind::Answer;
        let mut message = Message { kind: answer, id, word, patience_ms: 0, body, sent_bytes: 0 };
        let too_long = message.body.len() > MAX_MESSAGE_BYTES;
        if too_long || self.answer_bytes + message.cost_bytes() > MAX_QUEUED_ANSWER_BYTES {
            message.word = Outcome::Nothing as u8;
            message.body = Vec::new();
        }
        self.answers += 1;
        self.answer_bytes += message.cost_bytes();
        self.push(message);
        Ok(())
    }

    fn push(&mut self, message: Message) {
        let queue = if message.is_short() { &mut self.short } else { &mut self.long };
        queue.push_back(message);
    }

    /// Is there nothing to send?
    pub fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    /// Bytes of the bodies queued, and of what each message costs.
    pub const fn waiting_bytes(&self) -> usize {
        self.call_bytes + self.answer_bytes
    }

    /// The calls of which no byte went out: they were not made.
    pub fn unsent_calls(&self) -> impl Iterator<Item = u64> {
        let all = self.short.iter().chain(&self.long);
        all.filter(|m| m.kind == FrameKind::Request && m.sent_bytes == 0).map(|m| m.id)
    }

    /// Appends frames until `out` holds `enough_bytes`, or one piece more.
    pub fn fill(&mut self, out: &mut Vec<u8>, enough_bytes: usize) {
        while out.len() < enough_bytes && !self.is_empty() {
            if let Some(mut message) = self.short.pop_front() {
                message.put_piece(out);
                self.settle(&message);
            }
            if out.len() >= enough_bytes {
                return;
            }
            if let Some(mut message) = self.long.pop_front() {
                match message.put_piece(out) {
                    true => self.settle(&message),
                    false => self.long.push_front(message),
                }
            }
        }
    }

    fn settle(&mut self, message: &Message) {
        match message.kind {
            FrameKind::Request => {
                self.calls -= 1;
                self.call_bytes -= message.cost_bytes();
            }
            _ => {
                self.answers -= 1;
                self.answer_bytes -= message.cost_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_its_limits_a_call_is_refused_whole() {
        let mut outbox = Outbox::default();
        let push = |outbox: &mut Outbox, bytes| {
            outbox.push_request(1, CallKind::Propose, 1000, vec![0; bytes])
        };
        for _ in 0..MAX_CALLS {
            assert_eq!(push(&mut outbox, 10), Ok(()));
        }
        assert_eq!(push(&mut outbox, 10), Err(Full));
        outbox.fill(&mut Vec::new(), usize::MAX);
        assert!(outbox.is_empty());
        assert_eq!(push(&mut outbox, MAX_MESSAGE_BYTES), Ok(()));
        assert_eq!(push(&mut outbox, MAX_MESSAGE_BYTES), Err(Full));
        assert_eq!(push(&mut outbox, 10), Ok(()));
    }

    #[test]
    fn answers_have_room_of_their_own_and_end_as_nothing_beyond_it() {
        let mut outbox = Outbox::default();
        for id in [1, 2] {
            assert_eq!(outbox.push_answer(id, Outcome::Done, vec![0; MAX_MESSAGE_BYTES]), Ok(()));
        }
        let last = outbox.short.back().expect("the second");
        assert_eq!((last.id, last.word), (2, Outcome::Nothing as u8));
        assert_eq!(outbox.push_request(1, CallKind::Propose, 1, vec![0; 10]), Ok(()));
        outbox.fill(&mut Vec::new(), usize::MAX);
        assert_eq!((outbox.calls, outbox.call_bytes, outbox.answer_bytes), (0, 0, 0));
    }

    #[test]
    fn a_heartbeat_overtakes_a_snapshot() {
        let mut outbox = Outbox::default();
        let snapshot = vec![0; 1024 * 1024];
        assert_eq!(outbox.push_request(1, CallKind::RaftSnapshot, 1, snapshot), Ok(()));
        let mut out = Vec::new();
        outbox.fill(&mut out, 1);
        assert!(out.len() > MAX_PAYLOAD_BYTES);
        assert_eq!(outbox.push_request(2, CallKind::RaftAppend, 1, vec![7; 10]), Ok(()));
        assert_eq!(Vec::from_iter(outbox.unsent_calls()), [2]);
        let mut out = Vec::new();
        outbox.fill(&mut out, 1);
        assert_eq!(out.len(), 12 + REQUEST_HEAD_BYTES + 10);
        assert!(!outbox.is_empty());
    }
}
