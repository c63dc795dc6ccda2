//! The source of a slot's stream: a snapshot, and between its chunks the groups that were made
//! meanwhile, until all of it stands at one index.
//!
//! ```text
//!  begin: a tap is put --> chunk, groups since --> ... --> last chunk, groups since --> end
//!      | let go of, another epoch, overrun: `Interrupted`, and the caller begins anew or not
//! ```
//! It holds no lock and borrows nothing between two pieces: a backup, a move and a follower that
//! is filled keep it as long as they like, and the room is rid of it when it is dropped.
//! Invariant: the pieces in order are a section that a `Sink` takes, and whole at its end.

use slots::{OpIndex, SlotId};

use super::chunk::Head;
use super::codec::put_op;
use super::section::{SectionEnd, kind, put_group};
use super::snapshot::{Budget, Unreadable, Walk};
use crate::slot::{Bell, Overrun, Reading, Rooms, Tap, TappedGroups};

/// Why a source cannot begin or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The content cannot be read, or not any more.
    Unreadable(Unreadable),
    /// More was written to the slot than waits for a taker.
    Overrun,
}

impl From<Unreadable> for Interrupted {
    fn from(unreadable: Unreadable) -> Interrupted {
        Interrupted::Unreadable(unreadable)
    }
}

impl From<Overrun> for Interrupted {
    fn from(_: Overrun) -> Interrupted {
        Interrupted::Overrun
    }
}

/// What a piece is; its bytes are in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A chunk.
    Chunk(Head),
    /// Groups, up to this index.
    Groups(OpIndex),
    /// All was said.
    End(SectionEnd),
}

impl Piece {
    /// The kind of its frame.
    pub fn kind(&self) -> u8 {
        match self {
            Piece::Chunk(_) => kind::CHUNK,
            Piece::Groups(_) => kind::GROUPS,
            Piece::End(_) => kind::END,
        }
    }
}

/// One slot's stream under way.
pub struct Source {
    walk: Walk,
    /// `None`: nothing is there to be changed, and the end is next.
    tap: Option<Tap>,
    /// Drained, and not given out yet.
    groups: TappedGroups,
    /// Known once nothing more is drained.
    end: Option<SectionEnd>,
    /// It goes on behind the end.
    follows: bool,
}

impl Source {
    /// Begins. A slot without keys is at its end at once.
    ///
    /// # Errors
    /// The node has no content of the slot; too many read it.
    pub fn begin(rooms: &Rooms, slot: SlotId) -> Result<Source, Interrupted> {
        Source::begin_with(rooms.read(slot), None)
    }

    /// As `begin`, and behind the end the groups that are made from then on can be had (`more`),
    /// for as long as it lives; the bell rings when the first of some waits.
    ///
    /// # Errors
    /// As `begin`.
    pub fn follow(reading: Reading<'_>, bell: Bell) -> Result<Source, Interrupted> {
        Source::begin_with(reading, Some(bell))
    }

    fn begin_with(mut reading: Reading<'_>, bell: Option<Bell>) -> Result<Source, Interrupted> {
        if reading.is_let_go() {
            return Err(Unreadable::LetGo.into());
        }
        let (walk, groups) = (Walk::begin(&reading), TappedGroups::default());
        let end = SectionEnd { epoch: reading.epoch(), index: reading.index(), keys: 0 };
        let end = reading.is_empty().then_some(end);
        let follows = bell.is_some();
        let tap = match end.is_none() || follows {
            true => Some(reading.tap(put_op, bell).ok_or(Unreadable::TooManyReaders)?),
            false => None,
        };
        Ok(Source { walk, tap, groups, end, follows })
    }

    /// Appends groups that were made behind the end, as the payload of a frame of groups; the
    /// index of the last, `None` if none waits.
    ///
    /// # Errors
    /// It cannot go on.
    pub fn more(
        &mut self,
        budget: Budget,
        out: &mut Vec<u8>,
    ) -> Result<Option<OpIndex>, Interrupted> {
        if self.groups.is_empty() {
            self.drain()?;
        }
        self.put_groups(budget, out)
    }

    /// The slot.
    pub fn slot(&self) -> SlotId {
        self.walk.slot()
    }

    /// Appends the next piece to `out`; nothing is asked here after the end or an error. A piece
    /// has about as many bytes as the budget says, unless a single value or group has more.
    ///
    /// # Errors
    /// It cannot go on: another source may begin from the start.
    pub fn next(
        &mut self,
        rooms: &Rooms,
        budget: Budget,
        out: &mut Vec<u8>,
    ) -> Result<Piece, Interrupted> {
        loop {
            if let Some(piece) = self.next_by(budget, out, |slot| Some(rooms.read(slot)))? {
                return Ok(piece);
            }
        }
    }

    /// As `next`, without waiting for the room; `None`: somebody is inside.
    ///
    /// # Errors
    /// As `next`.
    pub fn next_if_free(
        &mut self,
        rooms: &Rooms,
        budget: Budget,
        out: &mut Vec<u8>,
    ) -> Result<Option<Piece>, Interrupted> {
        self.next_by(budget, out, |slot| rooms.try_read(slot))
    }

    fn next_by<'r>(
        &mut self,
        budget: Budget,
        out: &mut Vec<u8>,
        read: impl Fn(SlotId) -> Option<Reading<'r>>,
    ) -> Result<Option<Piece>, Interrupted> {
        loop {
            if let Some(index) = self.put_groups(budget, out)? {
                return Ok(Some(Piece::Groups(index)));
            }
            if let Some(end) = self.end {
                end.put(out);
                return Ok(Some(Piece::End(end)));
            }
            let Some(reading) = read(self.slot()) else { return Ok(None) };
            if self.walk.is_finished() {
                self.drain_last(reading)?;
                continue;
            }
            let head = self.walk.next_chunk(reading, budget, out, |reading, _| drop(reading))?;
            self.drain()?;
            return Ok(Some(Piece::Chunk(head)));
        }
    }

    fn drain(&mut self) -> Result<(), Overrun> {
        if let Some(tap) = &self.tap {
            self.groups = tap.drain()?;
        }
        Ok(())
    }

    /// Takes the last groups and says where that is, under one hold: no group comes in between.
    fn drain_last(&mut self, reading: Reading<'_>) -> Result<(), Interrupted> {
        self.walk.check(&reading)?;
        self.drain()?;
        let (epoch, index) = (reading.epoch(), reading.index());
        self.end = Some(SectionEnd { epoch, index, keys: reading.len() as u64 });
        if !self.follows {
            self.tap = None;
        }
        Ok(())
    }

    /// Appends waiting groups; the index of the last, `None` if none waits.
    fn put_groups(
        &mut self,
        budget: Budget,
        out: &mut Vec<u8>,
    ) -> Result<Option<OpIndex>, Interrupted> {
        let (start, mut last) = (out.len(), None);
        while out.len() - start < budget.bytes
            && let Some(group) = self.groups.next()
        {
            if group.epoch != self.walk.epoch() {
                return Err(Unreadable::OtherEpoch.into());
            }
            put_group(out, group);
            last = Some(group.index);
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests;
