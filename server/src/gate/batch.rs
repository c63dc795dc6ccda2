//! The tagged replies of one batch of requests, noted while the batch is executed.
//!
//! Not the replies themselves: those stand in the session's output buffer.
//!
//! Invariant: marks are in order and do not overlap; a batch without tags allocates nothing.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use super::{Safety, Tag};

/// Longest text of a fallback, in bytes: it is kept per waiting reply, and it is one line.
pub const MAX_FALLBACK_BYTES: usize = 256;

/// The error a waiting reply becomes when its outcome will not be known, such as
/// `UNKNOWNRESULT no answer from node-b`. One line; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fallback(Cow<'static, str>);

impl Fallback {
    /// The error text without its leading `-`. Line breaks become blanks, and what is over
    /// [`MAX_FALLBACK_BYTES`] is cut, so that it stays one reply whatever was put into it.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Fallback {
        let mut text = text.into();
        if text.contains(['\r', '\n']) {
            text = text.replace(['\r', '\n'], " ").into();
        }
        if text.len() > MAX_FALLBACK_BYTES {
            let end = (0..=MAX_FALLBACK_BYTES).rev().find(|at| text.is_char_boundary(*at));
            text.to_mut().truncate(end.unwrap_or(0));
        }
        assert!(!text.is_empty(), "an error needs a text");
        Fallback(text)
    }

    /// Its size as a reply.
    pub(super) fn encoded_len(&self) -> usize {
        self.0.len() + b"-\r\n".len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(b'-');
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// One tagged reply: where it stands in the output buffer and what it waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) reply: Range<usize>,
    pub(super) tag: Tag,
    pub(super) fallback: Fallback,
}

/// The tagged replies of a batch. Kept by the worker and used again.
#[derive(Default, Debug)]
pub struct Batch {
    marks: Vec<Mark>,
    /// The highest tag of each lane and set met; one lane and one set are the rule.
    highest: SmallVec<[Tag; 2]>,
}

impl Batch {
    /// Nothing noted.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Notes that the reply at `reply` in the output buffer waits for `tag`. Replies are noted in
    /// their order; a whole EXEC is one reply.
    pub fn mark(&mut self, reply: Range<usize>, tag: Tag, fallback: Fallback) {
        let before = self.marks.last().map_or(0, |mark| mark.reply.end);
        assert!(
            before <= reply.start && reply.start < reply.end,
            "reply {reply:?} noted behind one that ends at {before}"
        );
        self.marks.push(Mark { reply, tag, fallback });
        let of = |high: &&mut Tag| (high.lane, high.set) == (tag.lane, tag.set);
        match self.highest.iter_mut().find(of) {
            Some(high) => high.position = high.position.max(tag.position),
            None => self.highest.push(tag),
        }
    }

    /// Whether no reply of the batch is tagged.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// What to wait for: one tag per lane and set.
    pub fn highest(&self) -> &[Tag] {
        &self.highest
    }

    /// Whether all of it is safe already.
    pub fn is_safe(&self, safety: &impl Safety) -> bool {
        self.highest.iter().all(|tag| safety.covers(*tag))
    }

    /// Forgets the batch, because it was written straight; keeps the room it took.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.highest.clear();
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Mark> {
        self.highest.clear();
        self.marks.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Watermarks;

    const fn tag(lane: u16, position: u64, set: u32) -> Tag {
        Tag { lane, position, set }
    }

    fn unknown() -> Fallback {
        Fallback::new("UNKNOWNRESULT")
    }

    #[test]
    fn the_highest_tag_per_lane_and_set() {
        let mut batch = Batch::new();
        for (at, tag) in [tag(1, 5, 1), tag(1, 3, 1), tag(2, 1, 1), tag(1, 9, 2), tag(1, 6, 1)]
            .into_iter()
            .enumerate()
        {
            batch.mark(at * 5..at * 5 + 5, tag, unknown());
        }
        assert_eq!(batch.highest(), [tag(1, 6, 1), tag(2, 1, 1), tag(1, 9, 2)]);
        let mut marks = Watermarks::new();
        for (up_to, safe) in [(tag(1, 6, 1), false), (tag(2, 1, 1), false), (tag(1, 9, 2), true)] {
            marks.raise(up_to);
            assert_eq!(batch.is_safe(&marks), safe);
        }
        batch.clear();
        assert!(batch.is_empty() && batch.highest().is_empty());
    }

    #[test]
    fn no_tags_no_allocation() {
        let batch = Batch::new();
        assert!(batch.is_empty() && batch.is_safe(&Watermarks::new()));
        assert_eq!(batch.marks.capacity(), 0);
        assert!(!batch.highest.spilled());
    }

    #[test]
    fn a_fallback_stays_one_line() {
        let check = |text: String, want: &str| {
            let fallback = Fallback::new(text);
            let mut out = Vec::new();
            fallback.encode(&mut out);
            assert_eq!(out.len(), fallback.encoded_len());
            assert_eq!(out, format!("-{want}\r\n").as_bytes());
        };
        check("UNKNOWNRESULT a\r\n+OK\r\n".into(), "UNKNOWNRESULT a  +OK  ");
        check("x".repeat(300), &"x".repeat(256));
        check("é".repeat(200), &"é".repeat(128));
        check(format!("x{}", "é".repeat(200)), &format!("x{}", "é".repeat(127)));
    }

    #[test]
    fn a_reply_noted_out_of_order_is_our_mistake() {
        let overlap = std::panic::catch_unwind(|| {
            let mut batch = Batch::new();
            batch.mark(0..5, tag(1, 1, 1), unknown());
            batch.mark(4..9, tag(1, 2, 1), unknown());
        });
        assert!(overlap.is_err());
    }
}
