//! Groups larger than a record: written as parts, one record each, and handed over whole.
//!
//! ```text
//!  0 u8 kind of the group  1 3 bytes 0  4 u32 which part, from 0  8 u32 how many  12 u32 0
//! 16 the part
//! ```
//! The parts of a group lie one behind the other in its lane, all but the last in files of their
//! own. Not the removal of what a group that is not whole has left (`open`). Invariant: a group is
//! handed over whole or not at all.

use std::borrow::Cow;
use std::sync::Arc;

use super::format::u32_at;
use super::record::{Entry, Kind, MAX_PAYLOAD_BYTES};

/// Bytes before the part.
const PART_HEAD_BYTES: usize = 16;
/// The most of a group in one record.
pub(super) const PART_BYTES: usize = MAX_PAYLOAD_BYTES - PART_HEAD_BYTES;

/// Which part of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartHead {
    kind: Kind,
    pub(super) number: u32,
    pub(super) count: u32,
}

impl PartHead {
    fn bytes(&self) -> [u8; PART_HEAD_BYTES] {
        let mut bytes = [0; PART_HEAD_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// The part a payload has; `None` if it is none.
    pub(super) fn parse(payload: &[u8]) -> Option<(PartHead, &[u8])> {
        let (bytes, part) = payload.split_at_checked(PART_HEAD_BYTES)?;
        let kind = Kind::parse(bytes[0]).filter(|kind| *kind != Kind::GroupPart)?;
        let head = PartHead { kind, number: u32_at(bytes, 4), count: u32_at(bytes, 8) };
        (head.number < head.count && head.bytes() == bytes).then_some((head, part))
    }

    pub(super) fn is_last(&self) -> bool {
        self.number + 1 == self.count
    }
}

/// The records of a group that is larger than one.
pub(super) fn split(entry: Entry, group: &[u8], part_bytes: usize) -> Vec<(Entry, Arc<[u8]>)> {
    let count = u32::try_from(group.len().div_ceil(part_bytes)).expect("2^32 parts fit no memory");
    let parts = (0..).zip(group.chunks(part_bytes));
    let record = |(number, part): (u32, &[u8])| {
        let head = PartHead { kind: entry.kind, number, count };
        (Entry { kind: Kind::GroupPart, ..entry }, [&head.bytes(), part].concat().into())
    };
    parts.map(record).collect()
}

/// Where a group that is not whole began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Begun {
    /// Which chunk of the lane.
    pub(super) chunk: usize,
    /// Position of the lane before it.
    pub(super) position: u64,
}

/// Puts the parts of a lane together.
pub(super) struct Gathering {
    /// A group of which the last part is missing.
    open: Option<Open>,
    /// The lane may begin within a group: what it began with has gone with the files before.
    may_begin_within: bool,
}

struct Open {
    entry: Entry,
    last: PartHead,
    bytes: Vec<u8>,
    begun: Begun,
}

/// A record, or the group that several of them were: what it is, and all of its payload.
pub(super) type Whole<'a> = (Entry, Cow<'a, [u8]>);

impl Gathering {
    pub(super) fn new(may_begin_within: bool) -> Gathering {
        Gathering { open: None, may_begin_within }
    }

    /// Takes the lane's next record, which lies at `at`; what is to be handed over, if anything.
    ///
    /// # Errors
    /// Parts that do not follow each other: what is there instead of the next one.
    pub(super) fn take<'a>(
        &mut self,
        entry: Entry,
        payload: &'a [u8],
        at: Begun,
    ) -> Result<Option<Whole<'a>>, String> {
        if entry.kind != Kind::GroupPart {
            if let Some(open) = &self.open {
                return Err(format!("{entry:?} within {}", open.describe()));
            }
            self.may_begin_within = false;
            return Ok(Some((entry, Cow::Borrowed(payload))));
        }
        let (head, part) = PartHead::parse(payload).ok_or("a part of a group without a header")?;
        if self.open.is_none() && head.number > 0 && self.may_begin_within {
            return Ok(None);
        }
        self.may_begin_within = false;
        let new = || Open { entry, last: head, bytes: Vec::new(), begun: at };
        let mut open = match self.open.take() {
            None if head.number == 0 => new(),
            Some(open) if open.goes_on_with(&entry, &head) => open,
            before => {
                let before = before.map_or("no such group".into(), |open| open.describe());
                return Err(format!("{head:?} of {entry:?} behind {before}"));
            }
        };
        open.last = head;
        open.bytes.extend_from_slice(part);
        if head.is_last() {
            return Ok(Some((Entry { kind: head.kind, ..entry }, Cow::Owned(open.bytes))));
        }
        self.open = Some(open);
        Ok(None)
    }

    /// Where a group began that is not whole, and how many bytes of it there are.
    pub(super) fn unfinished(&self) -> Option<(Begun, u64)> {
        self.open.as_ref().map(|open| (open.begun, open.bytes.len() as u64))
    }
}

impl Open {
    fn goes_on_with(&self, entry: &Entry, head: &PartHead) -> bool {
        let expected = PartHead { number: self.last.number + 1, ..self.last };
        self.entry == *entry && expected == *head
    }

    fn describe(&self) -> String {
        format!("{:?} of {:?}", self.last, self.entry)
    }
}

#[cfg(test)]
mod tests {
    use slots::{Epoch, OpIndex, SlotId};

    use super::*;

    const ENTRY: Entry =
        Entry { kind: Kind::Drop, slot: SlotId::FIRST, epoch: Epoch(3), index: OpIndex(4) };
    const AT: Begun = Begun { chunk: 0, position: 0 };

    /// What is handed over of these records: bytes, or the refusal.
    fn gather(records: &[&(Entry, Arc<[u8]>)], may_begin_within: bool) -> Vec<String> {
        let mut gathering = Gathering::new(may_begin_within);
        let take = |record: &&(Entry, Arc<[u8]>)| {
            let (entry, payload) = record;
            match gathering.take(*entry, payload, AT) {
                Ok(whole) => whole.map(|(entry, group)| {
                    assert_eq!(Entry { kind: ENTRY.kind, ..entry }, entry);
                    String::from_utf8_lossy(&group).into_owned()
                }),
                Err(error) => Some(error),
            }
        };
        records.iter().filter_map(take).collect()
    }

    #[test]
    fn a_group_is_handed_over_whole_or_not_at_all() {
        let parts = split(ENTRY, b"abcdefgh", 3);
        let [one, two, three] = &parts[..] else { panic!("{parts:?}") };
        let alone = (ENTRY, Arc::from(&b"alone"[..]));
        assert_eq!(
            gather(&[&alone, one, two, three, &alone], false),
            ["alone", "abcdefgh", "alone"]
        );
        assert!(gather(&[one, two], false).is_empty());
        // The lane begins within a group.
        assert_eq!(gather(&[two, three, &alone], true), ["alone"]);
        assert!(gather(&[two], false)[0].contains("behind no such group"));
        assert!(gather(&[&alone, two], true)[1].contains("behind no such group"));
        for wrong in [[one, three], [one, one], [one, &alone]] {
            let refusals = gather(&wrong, false);
            assert!(refusals.len() == 1 && refusals[0].contains("number: 0"), "{refusals:?}");
        }
    }

    #[test]
    fn payloads_that_are_no_parts_are_refused() {
        let (_, good) = &split(ENTRY, b"ab", 1)[0];
        assert!(PartHead::parse(good).is_some());
        for (at, byte) in [(0, 0), (0, 10), (1, 1), (4, 2), (8, 0), (12, 1)] {
            let mut bad = good.to_vec();
            bad[at] = byte;
            assert_eq!(PartHead::parse(&bad), None, "byte {at} is {byte}");
        }
        assert_eq!(PartHead::parse(&good[..15]), None);
    }
}
