//! Copies on their way in, as a replay finds them.
//!
//! ```text
//!  none --begin--> open --frames, end, groups--> whole --EpochStart--> none, the room has it
//!   | its begin has gone     +--drop, or another begin--> none, or a new one
//!   +--frame--> headless --drop, EpochStart, begin--> as above      at the end of the log: error
//! ```
//! Not the copies (`slot/stages`). Invariant: what is open at the end of the log is no content of
//! the slot, and the node says so before it plays a role.

use std::sync::Arc;

use slots::{Epoch, OpIndex, SlotId};

use super::{LoadError, Loader, Place, UNSURE};
use crate::persist::log::{Entry, Kind};
use crate::slot::StagedCopy;
use crate::stream::{Arrival, Sink};

/// What the replay has of a slot's stage.
#[derive(Default)]
pub(super) enum Staging {
    #[default]
    None,
    /// Records of one whose begin has gone with its file: it has ended, further on.
    Headless,
    /// With the place behind the record of its begin.
    Open(Arc<StagedCopy>, u64),
}

impl Staging {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Staging::Open(..))
    }
}

impl Loader<'_> {
    pub(super) fn begin_stage(
        &self,
        place: &mut Place,
        entry: Entry,
        at: u64,
    ) -> Result<(), String> {
        let Entry { slot, epoch, .. } = entry;
        let begun = self.rooms.begin_stage(slot, epoch, Box::new(Arrival::new(slot)));
        place.staging = Staging::Open(begun.map_err(|refused| refused.to_string())?, at);
        Ok(())
    }

    pub(super) fn stage_frame(
        &self,
        place: &mut Place,
        entry: Entry,
        frame: &[u8],
    ) -> Result<(), String> {
        let Some(copy) = opened(place) else { return Ok(()) };
        let taken = copy.frame(self.rooms, frame, self.now_ms);
        taken.map_err(|refused| format!("{:?}: {refused}", entry.kind))?;
        match copy.is_whole() == (entry.kind == Kind::StageComplete) {
            true => Ok(()),
            false => Err(format!("{:?} with another frame", entry.kind)),
        }
    }

    pub(super) fn stage_group(
        &self,
        place: &mut Place,
        entry: Entry,
        group: &[u8],
    ) -> Result<(), String> {
        let Some(copy) = opened(place) else { return Ok(()) };
        let taken = copy.group(self.rooms, (entry.epoch, entry.index), group, self.now_ms);
        taken.map_err(|refused| format!("{:?}: {refused}", entry.kind))?;
        Ok(())
    }

    pub(super) fn end_stage(&self, place: &mut Place, slot: SlotId) {
        self.rooms.drop_stage(slot);
        place.staging = Staging::None;
    }

    /// The stage became the room's content, unless the checkpoint has that already.
    pub(super) fn adopted(&self, place: &mut Place, entry: Entry) -> Result<(), String> {
        let Entry { slot, epoch, index, .. } = entry;
        // Whatever they were, the content came to an end here.
        place.doubtful.clear();
        // Where epochs began anew, all that came since is in the log.
        let is_known = place.epoch >= epoch && place.epoch != UNSURE;
        let staging = std::mem::take(&mut place.staging);
        if is_known {
            self.rooms.drop_stage(slot);
            return Ok(());
        }
        let Staging::Open(copy, _) = staging else {
            return Err("a copy that was adopted, and is not there".to_owned());
        };
        let got = copy.place().1;
        if got != index {
            return Err(format!("a copy adopted at op group {}, it is at {}", index.0, got.0));
        }
        if !self.rooms.replay_adoption(slot, epoch) {
            return Err("a copy that was adopted, and is not whole".to_owned());
        }
        place.sink = Some(Sink::whole(slot, index));
        (place.base, place.epoch) = (OpIndex(0), Epoch(0));
        Ok(())
    }

    /// At the end of the log: was there a stage that nobody adopted?
    pub(super) fn leave_stage(&self, place: &Place, slot: SlotId) -> Result<bool, LoadError> {
        match &place.staging {
            Staging::None => Ok(false),
            Staging::Headless => Err(LoadError::Headless(slot)),
            Staging::Open(copy, at) => {
                self.rooms.leave_remains(slot, copy.epoch(), *at);
                Ok(true)
            }
        }
    }
}

/// The open stage. Without one the record is of a stage whose begin has gone.
fn opened(place: &mut Place) -> Option<&StagedCopy> {
    if let Staging::None = place.staging {
        place.staging = Staging::Headless;
    }
    match &place.staging {
        Staging::Open(copy, _) => Some(copy),
        Staging::None | Staging::Headless => None,
    }
}
