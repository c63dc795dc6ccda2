//! A section: one slot's stream from its first key to one index, as frames in order. What a
//! backup is made of.
//!
//! ```text
//! frame:  kind 1 | payload
//!   1 chunk   the chunk                2 groups  (epoch 8, index 8, length 4, the group)...
//!   3 end     epoch 8, index 8, keys 8
//! ```
//! Drawn in `manual/stream`. Not the checksums: who carries frames has them. A slot without keys
//! is an end alone. Invariant: a section whose end was taken holds the slot as it stood at the
//! index of the end, all of it.

use std::fmt;

use slots::{Epoch, OpIndex, SlotId};

use super::bytes::{Broken, Bytes};
use super::chunk::Chunk;
use super::sink::{Mismatch, Sink, Unfinished};
use crate::slot::{BadStage, Bringer, Replay, TappedGroup};

/// The kinds of frames as bytes.
pub mod kind {
    /// A chunk.
    pub const CHUNK: u8 = 1;
    /// Op groups.
    pub const GROUPS: u8 = 2;
    /// The end.
    pub const END: u8 = 3;
}

/// Bytes of an end.
const END_BYTES: usize = 24;

/// Where a section ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionEnd {
    /// Epoch of the content.
    pub epoch: Epoch,
    /// The last op group that is in it.
    pub index: OpIndex,
    /// Keys the slot had then, expired ones included.
    pub keys: u64,
}

impl SectionEnd {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let words = [self.epoch.0, self.index.0, self.keys];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn read(payload: &[u8]) -> Result<SectionEnd, Broken> {
        let mut bytes = Bytes::new(payload);
        if payload.len() != END_BYTES {
            return Err(bytes.broken("an end of another length"));
        }
        let (epoch, index) = (Epoch(bytes.u64()?), OpIndex(bytes.u64()?));
        Ok(SectionEnd { epoch, index, keys: bytes.u64()? })
    }
}

/// Appends a group to the payload of a frame.
pub(super) fn put_group(out: &mut Vec<u8>, group: TappedGroup<'_>) {
    let len = u32::try_from(group.bytes.len()).expect("a tap holds no group as long as that");
    out.extend_from_slice(&group.epoch.0.to_le_bytes());
    out.extend_from_slice(&group.index.0.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(group.bytes);
}

/// The groups in the payload of a frame of groups, in order; nothing comes after an error.
pub fn groups_of(payload: &[u8]) -> impl Iterator<Item = Result<TappedGroup<'_>, Broken>> {
    let mut bytes = Bytes::new(payload);
    let mut is_broken = false;
    std::iter::from_fn(move || {
        if is_broken || bytes.is_at_end() {
            return None;
        }
        let group = read_group(&mut bytes);
        is_broken = group.is_err();
        Some(group)
    })
}

fn read_group<'a>(bytes: &mut Bytes<'a>) -> Result<TappedGroup<'a>, Broken> {
    let (epoch, index) = (Epoch(bytes.u64()?), OpIndex(bytes.u64()?));
    let len = bytes.u32()? as usize;
    Ok(TappedGroup { epoch, index, bytes: bytes.take(len)? })
}

/// Why a frame ends the section it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// A frame without a byte.
    Empty,
    /// A kind nobody knows.
    Kind(u8),
    /// It comes after the end.
    AfterEnd,
    /// Its content does not follow what came before.
    Mismatch(Mismatch),
    /// The end comes before all is there.
    Unfinished(Unfinished),
    /// The end says another index than the frames add up to.
    OtherIndex {
        /// As the end says.
        expected: OpIndex,
        /// As it is.
        got: OpIndex,
    },
    /// The end says another number of keys.
    OtherKeys {
        /// As the end says.
        expected: u64,
        /// As there are.
        got: u64,
    },
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Empty => write!(f, "a frame of no bytes"),
            BadFrame::Kind(kind) => write!(f, "a frame of the unknown kind {kind}"),
            BadFrame::AfterEnd => write!(f, "a frame after the end"),
            BadFrame::Mismatch(mismatch) => mismatch.fmt(f),
            BadFrame::Unfinished(Unfinished::Missing) => {
                write!(f, "the end, and a part of the slot is missing")
            }
            BadFrame::Unfinished(Unfinished::Short { have, need }) => {
                write!(f, "the end, and op groups are missing: {} of {}", have.0, need.0)
            }
            BadFrame::OtherIndex { expected, got } => {
                write!(f, "the end says index {}, the frames end at {}", expected.0, got.0)
            }
            BadFrame::OtherKeys { expected, got } => {
                write!(f, "the end says {expected} keys, the frames have {got}")
            }
        }
    }
}

impl std::error::Error for BadFrame {}

impl From<Broken> for BadFrame {
    fn from(broken: Broken) -> BadFrame {
        BadFrame::Mismatch(Mismatch::Broken(broken))
    }
}

impl From<Mismatch> for BadFrame {
    fn from(mismatch: Mismatch) -> BadFrame {
        BadFrame::Mismatch(mismatch)
    }
}

/// The receiving end of a section. After an error nothing more may be given to it.
pub struct Arrival {
    sink: Sink,
    has_content: bool,
    end: Option<SectionEnd>,
}

impl Arrival {
    /// Of this slot; what comes may be made by anybody.
    pub fn new(slot: SlotId) -> Arrival {
        Arrival { sink: Sink::wary(slot), has_content: false, end: None }
    }

    /// The end, once it has come and was true.
    pub fn end(&self) -> Option<SectionEnd> {
        self.end
    }

    /// Takes the next frame into a room that was empty before the first.
    pub fn frame(&mut self, frame: &[u8], room: &mut Replay<'_>) -> Result<(), BadFrame> {
        let (kind, payload) = frame.split_first().ok_or(BadFrame::Empty)?;
        if self.end.is_some() {
            return Err(BadFrame::AfterEnd);
        }
        match *kind {
            kind::CHUNK => {
                self.has_content = true;
                Ok(self.sink.chunk(&Chunk::read(payload)?, room)?)
            }
            kind::GROUPS => {
                self.has_content = true;
                self.groups(payload, room)
            }
            kind::END => {
                let end = SectionEnd::read(payload)?;
                self.finish(end, room)?;
                self.end = Some(end);
                // What comes after the end finds all of the slot at its index.
                self.sink = Sink::wary_whole(room.slot(), end.index);
                Ok(())
            }
            other => Err(BadFrame::Kind(other)),
        }
    }

    /// Applies an op group that comes after the end, in order, to the room of the section.
    pub fn group(
        &mut self,
        (epoch, index): (Epoch, OpIndex),
        group: &[u8],
        room: &mut Replay<'_>,
    ) -> Result<(), BadFrame> {
        match self.end {
            None => Err(BadFrame::Unfinished(Unfinished::Missing)),
            Some(_) => Ok(self.sink.group(epoch, index, group, room)?),
        }
    }

    fn groups(&mut self, payload: &[u8], room: &mut Replay<'_>) -> Result<(), BadFrame> {
        for group in groups_of(payload) {
            let group = group?;
            self.sink.group(group.epoch, group.index, group.bytes, room)?;
        }
        Ok(())
    }

    /// Refusals, in order: not whole, another index, another number of keys.
    fn finish(&self, end: SectionEnd, room: &Replay<'_>) -> Result<(), BadFrame> {
        let keys = room.keys().len() as u64;
        if self.has_content {
            let got = self.sink.finish().map_err(BadFrame::Unfinished)?;
            if got != end.index {
                return Err(BadFrame::OtherIndex { expected: end.index, got });
            }
        }
        if keys != end.keys {
            return Err(BadFrame::OtherKeys { expected: end.keys, got: keys });
        }
        Ok(())
    }
}

impl Bringer for Arrival {
    fn frame(&mut self, frame: &[u8], room: &mut Replay<'_>) -> Result<(), BadStage> {
        Ok(Arrival::frame(self, frame, room)?)
    }

    fn end(&self) -> Option<(Epoch, OpIndex)> {
        self.end.map(|end| (end.epoch, end.index))
    }

    fn group(
        &mut self,
        place: (Epoch, OpIndex),
        group: &[u8],
        room: &mut Replay<'_>,
    ) -> Result<(), BadStage> {
        Ok(Arrival::group(self, place, group, room)?)
    }
}
