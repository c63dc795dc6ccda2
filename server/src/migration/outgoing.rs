//! One slot on its way to another node, as its owner sees it.
//!
//! ```text
//!            whole, lag small        in sync by the table       in sync, lag small
//!   Copying ------------------> Joining ----------------> Ready ------------------> Sealed
//!      ^                           |                        ^   <---- 20 ms passed ----+
//!      |  lets the target go       |                        |                          | safe
//!      +---------------------------+------------------------+                      HandedOver
//!                                                                                      |
//!   any state: another owner, no such move any more, another epoch ----> Over <--------+
//! ```
//! Not the copy nor who counts. Invariant: once `HandOver` was said only the table opens the slot.

use std::time::Duration;

use slots::{Epoch, MoveId, NodeId, SlotId, SlotTable, TableVersion};

/// Groups that a target may lack when it begins to count, and when the slot is sealed: they are
/// through in about a round trip.
pub const LAG_SMALL: u64 = 64;
/// How long a seal waits for what is pending, before `Handover` (PROTOCOL 4).
pub const SEAL_BUDGET: Duration = Duration::from_millis(20);
/// Between a seal that came to nothing and the next: doubled each time, so that a slot whose acks
/// are slow is not closed half of the time.
pub const SEAL_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
pub const SEAL_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Between two questions for a commit whose fate is not known (R5).
pub const AGAIN: Duration = Duration::from_millis(500);

/// What the owner knows when it asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Groups the target lacks; `None`: its copy is not whole, by its own word in this epoch.
    pub lag: Option<u64>,
    /// The target counts.
    pub counts: bool,
    /// It is in sync by the table.
    pub is_in_sync: bool,
    /// All that was written is safe: nothing is pending.
    pub is_safe: bool,
    /// Another seal fits the limits of this node.
    pub may_seal: bool,
    /// Of the owner's table.
    pub version: TableVersion,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Do {
    /// The target is to count from now on.
    Count,
    /// Close the slot to commands: they wait.
    Seal,
    /// Open it again; it is tried again later.
    Unseal,
    /// Give the target the word that nothing of the slot is served at this epoch again, then
    /// propose `CommitMove`, decided at `seen`.
    HandOver {
        /// The version of the table it was decided at.
        seen: TableVersion,
    },
    /// Propose the same again: what became of it is not known.
    Ask {
        /// As in `HandOver`.
        seen: TableVersion,
    },
}

/// How it ended, by the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The target owns the slot.
    Moved,
    /// The order was withdrawn, and the slot stays.
    Withdrawn,
    /// Somebody else owns it, or nobody.
    Lost,
    /// It goes on, under another epoch of the same owner: begin anew.
    OtherEpoch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Copying,
    Joining,
    Ready,
    Sealed { since: Duration },
    HandedOver { seen: TableVersion, asked: Duration },
    Over(Outcome),
}

/// A slot that is being moved away.
#[derive(Clone, Debug)]
pub struct Outgoing {
    slot: SlotId,
    id: MoveId,
    to: NodeId,
    epoch: Epoch,
    state: State,
    /// Not sealed again before.
    seal_at: Duration,
    pause: Duration,
    /// The seal that was opened last was closed so long.
    longest_seal: Duration,
}

impl Outgoing {
    /// The move of a slot as the table of its owner says it; `None`: `own` owns no such slot, or
    /// there is no move.
    pub fn begin(table: &SlotTable, slot: SlotId, own: NodeId) -> Option<Outgoing> {
        let row = table.slot(slot);
        let planned = row.planned_move().filter(|_| row.owner() == Some(own))?;
        Some(Outgoing {
            slot,
            id: planned.id,
            to: planned.to,
            epoch: row.epoch(),
            state: State::Copying,
            seal_at: Duration::ZERO,
            pause: SEAL_PAUSE,
            longest_seal: Duration::ZERO,
        })
    }

    /// The slot.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// The move.
    pub fn id(&self) -> MoveId {
        self.id
    }

    /// Where it goes.
    pub fn to(&self) -> NodeId {
        self.to
    }

    /// The epoch it was begun in.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Is the slot closed by it?
    pub fn is_sealed(&self) -> bool {
        matches!(self.state, State::Sealed { .. } | State::HandedOver { .. })
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Over(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The longest time that a seal which came to nothing held commands up.
    pub fn longest_seal(&self) -> Duration {
        self.longest_seal
    }

    /// What is to be done now: to be asked whenever something may have changed; what it says is
    /// done before it is asked again. Asked twice it says the same or nothing.
    pub fn next(&mut self, facts: &Facts, now: Duration) -> Option<Do> {
        let is_close = facts.lag.is_some_and(|lag| lag <= LAG_SMALL);
        match self.state {
            State::Copying if facts.is_in_sync => {
                self.state = State::Ready;
                self.next(facts, now)
            }
            // It counts already: the owner began to count it and started over.
            State::Copying if facts.counts => {
                self.state = State::Joining;
                None
            }
            State::Copying if is_close => {
                self.state = State::Joining;
                Some(Do::Count)
            }
            State::Joining if facts.is_in_sync => {
                self.state = State::Ready;
                self.next(facts, now)
            }
            State::Joining | State::Ready if !facts.counts => {
                // It was let go; its copy may be anything.
                self.state = State::Copying;
                None
            }
            State::Ready if is_close && facts.may_seal && now >= self.seal_at => {
                self.state = State::Sealed { since: now };
                Some(Do::Seal)
            }
            State::Sealed { since } => self.sealed(facts, since, now),
            State::HandedOver { seen, asked } if now.saturating_sub(asked) >= AGAIN => {
                self.state = State::HandedOver { seen, asked: now };
                Some(Do::Ask { seen })
            }
            _ => None,
        }
    }

    fn sealed(&mut self, facts: &Facts, since: Duration, now: Duration) -> Option<Do> {
        let closed = now.saturating_sub(since);
        let has_all = facts.is_in_sync && facts.counts && facts.lag == Some(0);
        if has_all && facts.is_safe {
            let seen = facts.version;
            self.state = State::HandedOver { seen, asked: now };
            return Some(Do::HandOver { seen });
        }
        if closed < SEAL_BUDGET {
            return None;
        }
        self.state = State::Ready;
        self.seal_at = now + self.pause;
        self.pause = (self.pause * 2).min(SEAL_PAUSE_MAX);
        self.longest_seal = self.longest_seal.max(closed);
        Some(Do::Unseal)
    }

    /// The slot could not be sealed: something else closed it, or the table changed.
    pub fn not_sealed(&mut self, now: Duration) {
        if matches!(self.state, State::Sealed { .. }) {
            self.state = State::Ready;
            self.seal_at = now + self.pause;
        }
    }

    /// The table is further. Returns how it ended, if it just did: then a seal of it is broken by
    /// the table itself, whose row has another epoch or owner.
    pub fn learn(&mut self, table: &SlotTable, own: NodeId) -> Option<Outcome> {
        if self.outcome().is_some() {
            return None;
        }
        let row = table.slot(self.slot);
        let planned = row.planned_move();
        let outcome = if row.owner() == Some(self.to) {
            Outcome::Moved
        } else if row.owner() != Some(own) {
            Outcome::Lost
        } else if planned.is_none_or(|planned| planned.id != self.id) {
            Outcome::Withdrawn
        } else if row.epoch() != self.epoch {
            Outcome::OtherEpoch
        } else {
            return None;
        };
        self.state = State::Over(outcome);
        Some(outcome)
    }
}

#[cfg(test)]
mod tests;
