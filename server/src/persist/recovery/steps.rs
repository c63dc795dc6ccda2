//! Steps of slots as they stand in the log.
//!
//! ```text
//!  StageBegin, StageDrop: nothing   StageChunk, StageComplete: the frame   StageGroup: the group
//!  epoch start:  nothing: the content goes on   1: a stage was adopted   2: epochs begin anew
//!  Alone:  u64 version of the table
//! ```
//! A Drop with nothing ends a stage, one with a group the content of the room. Not what a replay
//! makes of them. Invariant: what `append_step` writes `Loader::record` reads.

use std::borrow::Cow;

use slots::{Epoch, OpIndex, SlotId};

use super::alone_payload;
use crate::persist::log::{Entry, Kind, LogFile, Position, Wal};
use crate::slot::Step;

const ADOPTED: u8 = 1;
const ANEW: u8 = 2;

/// What an epoch start says of the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EpochStart {
    /// It stays.
    GoesOn,
    /// The slot's stage takes its place.
    Adopted,
    /// It stays, and epochs say nothing of those before.
    Anew,
}

impl EpochStart {
    pub(super) fn read(payload: &[u8]) -> Result<EpochStart, String> {
        match payload {
            [] => Ok(EpochStart::GoesOn),
            [ADOPTED] => Ok(EpochStart::Adopted),
            [ANEW] => Ok(EpochStart::Anew),
            other => Err(format!("an epoch start that says {other:?}")),
        }
    }
}

/// Appends the record of a step.
pub fn append_step<F: LogFile>(
    wal: &Wal<F>,
    step: Step,
    slot: SlotId,
    (epoch, index): (Epoch, OpIndex),
    payload: &[u8],
) -> Position {
    let (kind, payload) = match step {
        Step::StageBegin => (Kind::StageBegin, Cow::Borrowed(payload)),
        Step::StageChunk => (Kind::StageChunk, Cow::Borrowed(payload)),
        Step::StageComplete => (Kind::StageComplete, Cow::Borrowed(payload)),
        Step::StageGroup => (Kind::StageGroup, Cow::Borrowed(payload)),
        Step::StageDrop => (Kind::Drop, Cow::Borrowed(payload)),
        Step::Adopted => (Kind::EpochStart, Cow::Borrowed(&[ADOPTED][..])),
        Step::Anew => (Kind::EpochStart, Cow::Borrowed(&[ANEW][..])),
        Step::Alone(version) => (Kind::Alone, Cow::Owned(alone_payload(version).to_vec())),
    };
    wal.append_entry(Entry { kind, slot, epoch, index }, &payload)
}
