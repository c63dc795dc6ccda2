//! What must hold in every state.
//!
//! Not what should happen some day: the model says nothing of progress.
//!
//! Invariant: each promise has a name; scenarios and walks report by it.

use crate::oracle::promised_not_held;
use crate::rules::Rules;
use crate::state::State;
use crate::words::Id;
use std::fmt;

/// A promise that can break.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Broken {
    /// INV-1: once a reply of an epoch has left, no reply of a lower epoch leaves; but for the OK
    /// of a write that the later owner held when it first spoke (it is late, and true).
    OneVoice,
    /// INV-2: every member in sync holds every promised write.
    MembersHold,
    /// An owner that may answer reads holds every promised write.
    FreshReads,
    /// INV-6: epoch and ver never fall.
    Forward,
    /// (epoch, index) names one group everywhere.
    OneName,
    /// Half a snapshot, half a group or a cut that left keys behind: never served, never counted.
    Whole,
    /// A row is what a row may be.
    Sound,
}

impl Broken {
    /// All of them, with their sentences.
    pub const ALL: [(Broken, &'static str); 7] = [
        (Broken::OneVoice, "no reply of a lower epoch leaves after one of a higher"),
        (Broken::MembersHold, "every member in sync holds every promised write"),
        (Broken::FreshReads, "an owner that may answer reads holds every promised write"),
        (Broken::Forward, "epoch and ver never fall"),
        (Broken::OneName, "(epoch, index) names one group everywhere"),
        (Broken::Whole, "nothing half-installed, half-written or half-cut is served or counted"),
        (Broken::Sound, "a row has its owner in sync, no move to it, no member removed"),
    ];
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The first promise that is broken in a state.
pub fn check(rules: &Rules, state: &State) -> Option<Broken> {
    if state.oracle.broken.is_some() {
        return state.oracle.broken;
    }
    if state.newest().row.unsound().is_some() {
        return Some(Broken::Sound);
    }
    Id::all()
        .find_map(|id| member(state, id).or_else(|| owner(rules, state, id)).or(names(state, id)))
}

/// Members of the newest table. One whose start is not in it yet is about to be judged by it.
fn member(state: &State, id: Id) -> Option<Broken> {
    let table = state.newest();
    let node = state.node(id);
    if !table.row.in_sync.has(id) || table.boots[id.at()] != node.boot {
        return None;
    }
    if node.copy.torn {
        return Some(Broken::Whole);
    }
    promised_not_held(state, id).then_some(Broken::MembersHold)
}

fn owner(rules: &Rules, state: &State, id: Id) -> Option<Broken> {
    if !state.may_read(rules, id) || state.row(id).epoch < state.oracle.taken {
        return None;
    }
    let node = state.node(id);
    // A process between the two halves of its own write holds the slot's lock.
    let own = |write: u8| state.oracle.executed_by[usize::from(write)] == Some((id, node.boot));
    if node.copy.torn || node.copy.halves().any(|write| !own(write)) {
        return Some(Broken::Whole);
    }
    promised_not_held(state, id).then_some(Broken::FreshReads)
}

fn names(state: &State, id: Id) -> Option<Broken> {
    let copy = &state.node(id).copy;
    let names = &state.oracle.names;
    let wrong = |(at, op): (usize, &crate::node::Op)| {
        !names.iter().any(|name| *name == (op.epoch, at as u8 + 1, op.write))
    };
    (!copy.torn && copy.ops.iter().enumerate().any(wrong)).then_some(Broken::OneName)
}
