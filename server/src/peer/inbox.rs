//! Messages on their way in: pieces put together again.
//!
//! Not what they mean. Invariant: holds the bytes that came and no more, within the limits; more
//! than the limits allow ends the link, since a node of ours keeps to them.

use std::collections::HashMap;

use super::outbox::{MAX_MESSAGE_BYTES, MAX_QUEUED_CALL_BYTES};
use super::wire::{Malformed, Reader};

/// Most bytes of unfinished messages of one link: what the other side may have queued for it.
pub const MAX_UNFINISHED_BYTES: usize = 2 * MAX_QUEUED_CALL_BYTES;
/// Most unfinished messages of one link: a sender of ours sends one long message at a time.
pub const MAX_UNFINISHED: usize = 16;

/// A call or an answer, whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Whole {
    /// Which call.
    pub id: u64,
    /// Call kind or outcome.
    pub word: u8,
    /// How long the caller waits, ms; 0 in an answer.
    pub patience_ms: u32,
    /// What it says.
    pub body: Vec<u8>,
}

/// Calls, or answers, that are not whole yet.
#[derive(Default, Debug)]
pub struct Inbox {
    unfinished: HashMap<u64, Vec<u8>>,
    bytes: usize,
}

impl Inbox {
    /// Takes a piece of a call; the message if it is whole now.
    pub fn take_request(&mut self, payload: &[u8]) -> Result<Option<Whole>, Malformed> {
        let mut from = Reader::new(payload);
        let (id, word, is_last) = head(&mut from)?;
        let patience_ms = from.u32("patience")?;
        let body = self.join(id, is_last, from.rest())?;
        Ok(body.map(|body| Whole { id, word, patience_ms, body }))
    }

    /// Takes a piece of an answer; the message if it is whole now.
    pub fn take_answer(&mut self, payload: &[u8]) -> Result<Option<Whole>, Malformed> {
        let mut from = Reader::new(payload);
        let (id, word, is_last) = head(&mut from)?;
        let body = self.join(id, is_last, from.rest())?;
        Ok(body.map(|body| Whole { id, word, patience_ms: 0, body }))
    }

    fn join(&mut self, id: u64, is_last: bool, piece: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let started = self.unfinished.remove(&id);
        if started.is_none() && is_last {
            return Ok(Some(piece.to_vec()));
        }
        let mut body = started.unwrap_or_default();
        self.bytes -= body.len();
        if body.len() + piece.len() > MAX_MESSAGE_BYTES {
            return Err(Malformed("length of a message"));
        }
        body.extend_from_slice(piece);
        if is_last {
            return Ok(Some(body));
        }
        self.bytes += body.len();
        self.unfinished.insert(id, body);
        if self.bytes > MAX_UNFINISHED_BYTES || self.unfinished.len() > MAX_UNFINISHED {
            return Err(Malformed("number of unfinished messages"));
        }
        Ok(None)
    }
}

fn head(from: &mut Reader<'_>) -> Result<(u64, u8, bool), Malformed> {
    let id = from.u64("call id")?;
    let word = from.u8("kind of a call or answer")?;
    match from.u8("end mark")? {
        0 => Ok((id, word, false)),
        1 => Ok((id, word, true)),
        _ => Err(Malformed("end mark")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::CallKind;
    use crate::peer::frame::{Decoder, FrameKind, MAGIC, MAX_PAYLOAD_BYTES};
    use crate::peer::outbox::{Outbox, Outcome};

    #[test]
    fn long_messages_are_put_together_from_mixed_pieces() {
        let body = |seed: usize, bytes: usize| -> Vec<u8> {
            (0..bytes).map(|at| (at * 31 + seed) as u8).collect()
        };
        let lengths = [0, 1, MAX_PAYLOAD_BYTES - 14, MAX_PAYLOAD_BYTES - 13, 1 << 20, 300_000];
        let mut outbox = Outbox::default();
        for (id, bytes) in lengths.into_iter().enumerate() {
            let request = body(id, bytes);
            outbox.push_request(id as u64, CallKind::Propose, 9, request).expect("room");
            outbox.push_answer(id as u64, Outcome::Done, body(id + 100, bytes)).expect("room");
        }
        let mut out = MAGIC.to_vec();
        outbox.fill(&mut out, usize::MAX);
        let (mut decoder, mut calls, mut answers) =
            (Decoder::default(), Inbox::default(), Inbox::default());
        decoder.feed(&out);
        let mut got = 0;
        while let Some(frame) = decoder.next(MAX_PAYLOAD_BYTES).expect("frames") {
            let (inbox, seed) = match frame.kind {
                FrameKind::Request => (calls.take_request(&frame.payload), 0),
                _ => (answers.take_answer(&frame.payload), 100),
            };
            if let Some(whole) = inbox.expect("a piece") {
                let id = whole.id as usize;
                assert!(whole.body == body(id + seed, lengths[id]), "message {id}");
                got += 1;
            }
        }
        assert_eq!((got, calls.bytes, answers.bytes), (2 * lengths.len(), 0, 0));
    }

    #[test]
    fn unfinished_messages_are_bounded() {
        let piece = |id: u64, bytes: usize| {
            let mut payload = id.to_le_bytes().to_vec();
            payload.extend_from_slice(&[4, 0, 1, 0, 0, 0]);
            payload.resize(payload.len() + bytes, 7);
            payload
        };
        let mut inbox = Inbox::default();
        for id in 0..MAX_UNFINISHED as u64 {
            assert_eq!(inbox.take_request(&piece(id, 10)), Ok(None));
        }
        assert!(inbox.take_request(&piece(99, 10)).is_err());
        let mut inbox = Inbox::default();
        let pieces =
            (0..=MAX_MESSAGE_BYTES / 60_000).map(|_| inbox.take_request(&piece(1, 60_000)));
        assert_eq!(pieces.last(), Some(Err(Malformed("length of a message"))));
        assert_eq!(Inbox::default().take_request(&[0; 13]), Err(Malformed("patience")));
    }
}
