//! Stages of slots that move here: at most one a slot, filled by frames, then by op groups, and
//! adopted by the slot's room when the slot becomes this node's.
//!
//! ```text
//!  begin --> filling --end frame--> whole --ours, Adopt--> ended, its content is the room's
//!               | a bad frame         | a bad group
//!               +------> broken <-----+       any --drop, begun anew, ours, Drop--> ended, freed
//! ```
//! Not the frames (a `Bringer` knows them) nor the adoption (`change`). Locks: room, then stage.
//! Invariant: what was taken is journaled before the call returns, in order, nothing after the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use slots::{Epoch, OpIndex, SlotId};

use crate::slot::admission::Ownership;
use crate::slot::journal::{Position, Step};
use crate::slot::replay::Replay;
use crate::slot::room::Rooms;
use crate::slot::stage::{Content, Stage};

/// What to do with a stage when its slot becomes this node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageFate {
    /// A whole one becomes the content of the room.
    Adopt,
    /// It goes.
    Drop,
}

/// Why a `Bringer` cannot go on.
pub type BadStage = Box<dyn std::error::Error + Send + Sync>;

/// Knows what a section's frames and op groups are made of. After an error it is given no more.
pub trait Bringer: Send {
    /// Takes the next frame into the room.
    ///
    /// # Errors
    /// It is none, or does not follow the one before.
    fn frame(&mut self, frame: &[u8], room: &mut Replay<'_>) -> Result<(), BadStage>;
    /// Where the section ended, once its end has come.
    fn end(&self) -> Option<(Epoch, OpIndex)>;
    /// Applies the next group after the end.
    ///
    /// # Errors
    /// It is none.
    fn group(
        &mut self,
        place: (Epoch, OpIndex),
        group: &[u8],
        room: &mut Replay<'_>,
    ) -> Result<(), BadStage>;
}

/// Why a stage is not begun, or takes nothing.
#[derive(Debug)]
pub enum StageRefused {
    /// This node owns the slot.
    Served,
    /// The stage was dropped or adopted, another was begun, or something bad has come to it.
    Ended,
    /// A group, and the end of the section has not come.
    NotWhole,
    /// A frame, and the end of the section has come.
    Whole,
    /// A group that is not the next one; the stage is as it was.
    NotNext {
        /// The next one.
        expected: OpIndex,
        /// The one that came.
        got: OpIndex,
    },
    /// A group of an epoch before that of the last one; the stage is as it was.
    OldEpoch {
        /// Of the last one.
        expected: Epoch,
        /// Of the one that came.
        got: Epoch,
    },
    /// What came is bad, and the stage takes nothing any more.
    Bad(BadStage),
}

impl fmt::Display for StageRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageRefused::Served => write!(f, "this node owns the slot"),
            StageRefused::Ended => write!(f, "the stage has ended"),
            StageRefused::NotWhole => write!(f, "an op group before the end of the section"),
            StageRefused::Whole => write!(f, "a frame after the end of the section"),
            StageRefused::NotNext { expected, got } => {
                write!(f, "op group {} came, {} is next", got.0, expected.0)
            }
            StageRefused::OldEpoch { expected, got } => {
                write!(f, "an op group of epoch {}, the last was of {}", got.0, expected.0)
            }
            StageRefused::Bad(bad) => bad.fmt(f),
        }
    }
}

impl std::error::Error for StageRefused {}

/// What the stages of a node hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// Stages.
    pub stages: u64,
    /// Keys in them, expired ones included.
    pub keys: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// All stages of a node.
#[derive(Default)]
pub(super) struct Stages(Mutex<Open>);

#[derive(Default)]
struct Open {
    copies: BTreeMap<SlotId, Arc<StagedCopy>>,
    /// Slots that became this node's with `StageFate::Adopt`, and their rooms have not met it.
    promised: BTreeSet<SlotId>,
}

impl Stages {
    /// A stage of the slot is to be adopted.
    pub(super) fn promise(&self, slot: SlotId) {
        self.0.lock().promised.insert(slot);
    }

    /// The stage that was to be adopted, if that was never met.
    pub(super) fn take_promised(&self, slot: SlotId) -> Option<Arc<StagedCopy>> {
        let mut open = self.0.lock();
        open.promised.remove(&slot).then(|| open.copies.remove(&slot))?
    }

    /// The slot's stage and what becomes of it, which is asked once.
    pub(super) fn take(&self, slot: SlotId) -> (Option<Arc<StagedCopy>>, StageFate) {
        let mut open = self.0.lock();
        let fate = if open.promised.remove(&slot) { StageFate::Adopt } else { StageFate::Drop };
        (open.copies.remove(&slot), fate)
    }

    /// What a start left of a stage.
    pub(super) fn take_remains(&self, slot: SlotId) -> Option<Arc<StagedCopy>> {
        let mut open = self.0.lock();
        let is_remains = open.copies.get(&slot).is_some_and(|copy| copy.is_remains);
        is_remains.then(|| open.copies.remove(&slot))?
    }

    fn find(&self, slot: SlotId) -> Option<Arc<StagedCopy>> {
        self.0.lock().copies.get(&slot).cloned()
    }

    /// Unless another has taken its place.
    fn remove(&self, copy: &Arc<StagedCopy>) {
        let mut open = self.0.lock();
        let slot = copy.stage.slot();
        if open.copies.get(&slot).is_some_and(|found| Arc::ptr_eq(found, copy)) {
            open.copies.remove(&slot);
        }
    }

    fn select<T>(&self, of: impl Fn(&StagedCopy) -> Option<T>) -> Vec<T> {
        self.0.lock().copies.values().filter_map(|copy| of(copy)).collect()
    }
}

/// A slot on its way to this node.
pub struct StagedCopy {
    stage: Stage,
    epoch: Epoch,
    /// Behind the record of its begin; `None`: that is in no log.
    begun: Option<u64>,
    /// A start found it in the log and dropped its content; it stands for the records.
    is_remains: bool,
    work: Mutex<Work>,
}

struct Work {
    state: State,
    /// How far the content is.
    place: (Epoch, OpIndex),
}

enum State {
    Filling(Box<dyn Bringer>),
    Whole(Box<dyn Bringer>),
    Broken,
    Ended,
}

impl StagedCopy {
    fn new(slot: SlotId, epoch: Epoch, state: State, begun: Option<u64>) -> StagedCopy {
        let is_remains = matches!(state, State::Broken);
        let work = Mutex::new(Work { state, place: (epoch, OpIndex(0)) });
        StagedCopy { stage: Stage::new(slot), epoch, begun, is_remains, work }
    }

    /// The slot.
    pub fn slot(&self) -> SlotId {
        self.stage.slot()
    }

    /// The epoch it was begun at.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Keys in it, expired ones included.
    pub fn keys(&self) -> u64 {
        self.stage.keys()
    }

    /// Bytes of its keys and values.
    pub fn bytes(&self) -> u64 {
        self.stage.bytes()
    }

    /// Has the end of its section come, and nothing bad since? No once it has ended.
    pub fn is_whole(&self) -> bool {
        matches!(self.work.lock().state, State::Whole(_))
    }

    /// The epoch of its last group and its index; before it is whole how far the frames got.
    pub fn place(&self) -> (Epoch, OpIndex) {
        self.work.lock().place
    }

    /// Takes the next frame of the section. Where its record lies: it is acknowledged when that is
    /// as safe as the node promises. `None`: there is no log.
    ///
    /// # Errors
    /// In order: the stage has ended, the section has; a bad frame.
    pub fn frame(
        &self,
        rooms: &Rooms,
        frame: &[u8],
        now_ms: u64,
    ) -> Result<Option<Position>, StageRefused> {
        let mut work = self.work.lock();
        let mut bringer = match std::mem::replace(&mut work.state, State::Broken) {
            State::Filling(bringer) => bringer,
            other => return Err(work.refuse(other, StageRefused::Whole)),
        };
        let mut room = self.stage.enter(rooms, now_ms);
        bringer.frame(frame, &mut room).map_err(StageRefused::Bad)?;
        let step = match bringer.end() {
            None => {
                work.place.1 = room.index();
                work.state = State::Filling(bringer);
                Step::StageChunk
            }
            Some((epoch, index)) => {
                room.set_place(epoch, index);
                work.place = (epoch, index);
                work.state = State::Whole(bringer);
                Step::StageComplete
            }
        };
        drop(room);
        Ok(self.journal(rooms, step, work.place, frame))
    }

    /// Applies the next op group, once the stage is whole. Returns as `frame`.
    ///
    /// # Errors
    /// In order: the stage has ended, is not whole; not the next group, of an older epoch; a bad
    /// one.
    pub fn group(
        &self,
        rooms: &Rooms,
        (epoch, index): (Epoch, OpIndex),
        group: &[u8],
        now_ms: u64,
    ) -> Result<Option<Position>, StageRefused> {
        let mut work = self.work.lock();
        let (last_epoch, last) = work.place;
        let mut bringer = match std::mem::replace(&mut work.state, State::Broken) {
            State::Whole(bringer) => bringer,
            other => return Err(work.refuse(other, StageRefused::NotWhole)),
        };
        let expected = OpIndex(last.0 + 1);
        if index != expected {
            let refusal = StageRefused::NotNext { expected, got: index };
            return Err(work.refuse(State::Whole(bringer), refusal));
        }
        if epoch < last_epoch {
            let refusal = StageRefused::OldEpoch { expected: last_epoch, got: epoch };
            return Err(work.refuse(State::Whole(bringer), refusal));
        }
        let mut room = self.stage.enter(rooms, now_ms);
        bringer.group((epoch, index), group, &mut room).map_err(StageRefused::Bad)?;
        drop(room);
        work.place = (epoch, index);
        work.state = State::Whole(bringer);
        Ok(self.journal(rooms, Step::StageGroup, work.place, group))
    }

    fn journal(
        &self,
        rooms: &Rooms,
        step: Step,
        place: (Epoch, OpIndex),
        payload: &[u8],
    ) -> Option<Position> {
        self.begun?;
        Some(rooms.recorder()?.journal.step(step, self.stage.slot(), place, payload))
    }

    /// Ends it, and frees what is in it elsewhere. Once; a later call does nothing.
    pub(super) fn end(&self, rooms: &Rooms) {
        let mut work = self.work.lock();
        if matches!(work.state, State::Ended) {
            return;
        }
        work.state = State::Ended;
        self.journal(rooms, Step::StageDrop, work.place, b"");
        drop(work);
        self.stage.clear(rooms);
    }

    /// Ends it, and hands over its content with its index; `None` if it is not whole, or its
    /// records are not all in the log that there is. Waits for a frame that is being taken.
    pub(super) fn take_whole(&self, rooms: &Rooms) -> Option<(Content, OpIndex)> {
        let mut work = self.work.lock();
        let is_logged = self.begun.is_some() || rooms.recorder().is_none();
        if !matches!(work.state, State::Whole(_)) || !is_logged {
            return None;
        }
        work.state = State::Ended;
        Some((self.stage.take_all(), work.place.1))
    }
}

impl Work {
    /// The state stays, and this is why: `otherwise`, unless it can take nothing at all.
    fn refuse(&mut self, state: State, otherwise: StageRefused) -> StageRefused {
        self.state = state;
        match self.state {
            State::Broken | State::Ended => StageRefused::Ended,
            State::Filling(_) | State::Whole(_) => otherwise,
        }
    }
}

impl Rooms {
    /// Begins a stage; one that is there ends. Waits for whoever is in the room.
    ///
    /// # Errors
    /// This node owns the slot.
    pub fn begin_stage(
        &self,
        slot: SlotId,
        epoch: Epoch,
        bringer: Box<dyn Bringer>,
    ) -> Result<Arc<StagedCopy>, StageRefused> {
        // The room's lock puts the stage behind all that the room has journaled, and keeps the
        // word that is found here until the stage can be met.
        let reading = self.read(slot);
        if matches!(self.ownership(slot).0, Ownership::Owned | Ownership::Sealed) {
            return Err(StageRefused::Served);
        }
        if let Some(old) = self.stages.find(slot) {
            old.end(self);
        }
        let mut open = self.stages.0.lock();
        // Under the lock: who looks for the oldest begin after this record was written finds it.
        let recorder = self.recorder();
        let place = (epoch, OpIndex(0));
        let begun = recorder.map(|r| r.journal.step(Step::StageBegin, slot, place, b"").at);
        let copy = Arc::new(StagedCopy::new(slot, epoch, State::Filling(bringer), begun));
        open.copies.insert(slot, Arc::clone(&copy));
        drop(open);
        // A change that came meanwhile is met as the room is left: it finds the stage.
        drop(reading);
        Ok(copy)
    }

    /// The slot's stage.
    pub fn stage(&self, slot: SlotId) -> Option<Arc<StagedCopy>> {
        self.stages.find(slot).filter(|copy| !copy.is_remains)
    }

    /// Ends the slot's stage, if there is one.
    pub fn drop_stage(&self, slot: SlotId) {
        if let Some(copy) = self.stages.find(slot) {
            // It is looked for until its end is written.
            copy.end(self);
            self.stages.remove(&copy);
        }
    }

    /// How many stages there are, and what they hold.
    pub fn stage_counts(&self) -> StageCounts {
        let held = |copy: &StagedCopy| (!copy.is_remains).then(|| (copy.keys(), copy.bytes()));
        let add = |sum: StageCounts, (keys, bytes)| StageCounts {
            stages: sum.stages + 1,
            keys: sum.keys + keys,
            bytes: sum.bytes + bytes,
        };
        self.stages.select(held).into_iter().fold(StageCounts::default(), add)
    }

    /// The slots that have a stage.
    pub fn staged_slots(&self) -> Vec<SlotId> {
        self.stages.select(|copy| (!copy.is_remains).then(|| copy.slot()))
    }

    /// Of each stage in the log: its slot, and the place behind the record of its begin. What the
    /// log has from there on is needed until the stage has ended and a later checkpoint is there.
    pub fn stage_begins(&self) -> Vec<(SlotId, u64)> {
        self.stages.select(|copy| Some((copy.slot(), copy.begun?)))
    }

    /// Ends stages that were begun before there was a log: it lacks what they hold.
    pub fn drop_unlogged_stages(&self) {
        let unlogged = self.stages.select(|copy| copy.begun.is_none().then(|| copy.slot()));
        unlogged.into_iter().for_each(|slot| self.drop_stage(slot));
    }

    /// The slot's stage becomes the content of its room, which nobody serves: for a replay. False:
    /// there is none, or it is not whole.
    pub fn replay_adoption(&self, slot: SlotId, epoch: Epoch) -> bool {
        let room = self.room(slot);
        let mut body = room.door.enter();
        assert_eq!(room.door.installed().0, Ownership::Unknown, "nobody serves while it is loaded");
        let (stage, _) = self.stages.take(slot);
        let Some(whole) = stage.and_then(|stage| stage.take_whole(self)) else { return false };
        self.adopt(slot, room, &mut body, whole, epoch);
        true
    }

    /// A start found this stage in the log, and nobody adopted it: its content goes. Its records
    /// stand until the node has a seat, so that every start before that finds them again, and the
    /// slot is named by whichever NodeBoot comes into the table.
    pub fn leave_remains(&self, slot: SlotId, epoch: Epoch, begun: u64) {
        self.drop_stage(slot);
        let remains = StagedCopy::new(slot, epoch, State::Broken, Some(begun));
        self.stages.0.lock().copies.insert(slot, Arc::new(remains));
    }

    /// The slots of which a start found a stage that nobody had adopted, until the node has a
    /// seat.
    pub fn unadopted(&self) -> Vec<SlotId> {
        self.stages.select(|copy| copy.is_remains.then(|| copy.slot()))
    }
}

#[cfg(test)]
pub(crate) mod tests;
