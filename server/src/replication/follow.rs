//! What a node keeps of a slot whose whole copy it has and that another node owns.
//!
//! ```text
//!   1 2 3 4 5 6 7 8 9 10 11
//!   applied ==|               in the keys: never cut, known by the name of its last group
//!             |-- buffered ---| by name; a new owner's history may cut it
//!        safe ..^               the owner's word: up to here it is applied
//! ```
//! Not the keys, nor the stage that a copy comes from (`stream`). Invariant (R0, R3): an ack of n
//! in an epoch means that this copy up to n is the history of that epoch's owner; what is applied
//! is what some owner called safe.

use std::collections::VecDeque;

use slots::{Epoch, OpIndex};

/// The name of an op group: no other group is ever called so (R3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Name {
    /// The epoch that ordered it; 0 before the first.
    pub epoch: Epoch,
    /// Its place in the slot's stream; 0 before the first.
    pub index: OpIndex,
}

/// Groups as an owner sends them. None at all: its epoch has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups<G> {
    /// The sender's.
    pub epoch: Epoch,
    /// The index its epoch began with.
    pub base: OpIndex,
    /// The group before the first one here.
    pub prev: Name,
    /// The groups, each with the epoch of its name; their indexes follow `prev`.
    pub groups: Vec<(Epoch, G)>,
    /// Up to here every member that counts has the slot's history.
    pub safe: OpIndex,
}

impl<G> Groups<G> {
    /// The index of the last group.
    pub fn end(&self) -> OpIndex {
        OpIndex(self.prev.index.0 + self.groups.len() as u64)
    }
}

/// What became of groups that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken<G> {
    /// Of an epoch before one that is known here (R1): the sender has to look at the table.
    Fenced {
        /// The one that is known.
        epoch: Epoch,
    },
    /// They do not go on from what is here. The sender can send what lies between, if it has a
    /// group of that name, or else has to let this node go and fill it anew.
    Apart {
        /// The last group here.
        last: Name,
    },
    /// They are here.
    Held {
        /// This copy is the sender's history up to here (R0), once the log has it.
        ack: OpIndex,
        /// To be applied to the keys, in order.
        apply: Vec<G>,
        /// Groups of a history that is void, which the log has to be told of.
        cut_after: Option<OpIndex>,
    },
}

/// A whole copy of another node's slot.
#[derive(Clone, Debug)]
pub struct Follow<G> {
    /// The newest epoch of any owner that spoke.
    seen: Epoch,
    applied: Name,
    /// Behind `applied`, without a gap.
    buffer: VecDeque<(Epoch, G)>,
    /// What was acked last, and in which epoch.
    acked: (Epoch, OpIndex),
}

impl<G> Follow<G> {
    /// A copy that has come as a whole: its keys stand at this group.
    pub fn begin(applied: Name) -> Follow<G> {
        let acked = (Epoch(0), OpIndex(0));
        Follow { seen: Epoch(0), applied, buffer: VecDeque::new(), acked }
    }

    /// The group the keys stand at.
    pub fn applied(&self) -> Name {
        self.applied
    }

    /// The last group.
    pub fn last(&self) -> Name {
        let index = OpIndex(self.applied.index.0 + self.buffer.len() as u64);
        self.buffer.back().map_or(self.applied, |(epoch, _)| Name { epoch: *epoch, index })
    }

    /// The newest epoch of any owner that spoke: a table behind it is old.
    pub fn seen(&self) -> Epoch {
        self.seen
    }

    /// Takes groups; `known` is the slot's epoch by this node's table.
    pub fn take(&mut self, came: Groups<G>, known: Epoch) -> Taken<G> {
        let known = known.max(self.seen);
        if came.epoch < known {
            return Taken::Fenced { epoch: known };
        }
        self.seen = came.epoch;
        let (epoch, end, base) = (came.epoch, came.end(), came.base);
        let safe = came.safe.min(end);
        let before = (self.acked.0 == epoch).then_some(self.acked.1);
        let Some((from, groups)) = self.joint(came) else {
            return match before {
                // An old frame of a history that is known to be this copy's says nothing new.
                Some(ack) if end < self.applied.index => {
                    Taken::Held { ack, apply: Vec::new(), cut_after: None }
                }
                _ => Taken::Apart { last: self.last() },
            };
        };
        let length = self.buffer.len();
        self.buffer.truncate(self.agreed(from, &groups, epoch, base));
        let is_cut = self.buffer.len() < length;
        let cut_after = is_cut.then(|| self.last().index);
        let known = self.buffer.len().saturating_sub(from);
        self.buffer.extend(groups.into_iter().skip(known));
        let ack = before.map_or(end, |before| before.max(end));
        self.acked = (epoch, ack);
        // Nobody but the owner says that more is safe; and not of what is not matched here.
        Taken::Held { ack, apply: self.apply_up_to(safe), cut_after }
    }

    /// Where in the buffer the groups begin, without those that are applied already; `None`: by
    /// the names there is no telling that they go on from what is here (R3).
    fn joint(&self, came: Groups<G>) -> Option<(usize, VecDeque<(Epoch, G)>)> {
        let Groups { prev, groups, .. } = came;
        let mut groups = VecDeque::from(groups);
        let (here, prev_at) = (self.applied.index.0, prev.index.0);
        if let Some(ahead) = prev_at.checked_sub(here) {
            let from = usize::try_from(ahead).ok()?;
            let named = match from.checked_sub(1) {
                None => self.applied.epoch,
                Some(last) => self.buffer.get(last)?.0,
            };
            return (named == prev.epoch).then_some((from, groups));
        }
        let applied = usize::try_from(here - prev_at).ok()?;
        let (epoch, _) = groups.get(applied - 1)?;
        (*epoch == self.applied.epoch).then(|| {
            groups.drain(..applied);
            (0, groups)
        })
    }

    /// How much of the buffer stays: up to where it agrees by name, and of what goes beyond the
    /// base only the sender's own epoch. (What lies between the groups and the base may be void,
    /// too, and is found to be so when its groups come.)
    fn agreed(
        &self,
        from: usize,
        groups: &VecDeque<(Epoch, G)>,
        epoch: Epoch,
        base: OpIndex,
    ) -> usize {
        let there = self.buffer.iter().skip(from).zip(groups);
        if let Some(nth) = there.clone().position(|(own, got)| own.0 != got.0) {
            return from + nth;
        }
        let beyond = base.0.saturating_sub(self.applied.index.0);
        let beyond = usize::try_from(beyond).unwrap_or(usize::MAX).min(self.buffer.len());
        let stale = self.buffer.iter().skip(beyond).position(|own| own.0 < epoch);
        stale.map_or(self.buffer.len(), |nth| beyond + nth)
    }

    fn apply_up_to(&mut self, index: OpIndex) -> Vec<G> {
        let count = index.0.saturating_sub(self.applied.index.0).min(self.buffer.len() as u64);
        let mut apply = Vec::with_capacity(count as usize);
        for (epoch, group) in self.buffer.drain(..count as usize) {
            self.applied = Name { epoch, index: OpIndex(self.applied.index.0 + 1) };
            apply.push(group);
        }
        apply
    }

    /// This node owns the slot from now on: any of what is buffered may have been acknowledged, and
    /// all of it is applied first (R2).
    pub fn apply_all(&mut self) -> Vec<G> {
        self.apply_up_to(self.last().index)
    }
}

#[cfg(test)]
mod tests;
