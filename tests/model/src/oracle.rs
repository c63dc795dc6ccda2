//! What clients were told, and who must still have it.
//!
//! A write is *promised* from its OK on (or from the first read that showed it) until the nodes
//! that held it for the slot have lost it as PROTOCOL 6 says they may: their disk, or, with the
//! power, what was not synced. Then it is taken out. Nothing else takes it out.
//!
//! Invariant: the oracle sees everything and changes nothing.

use crate::properties::Broken;
use crate::state::State;
use crate::table::{Ack, Change, Table};
use crate::words::{Boot, Epoch, Id, Index, Kept, NODES, Set, Write};

/// Writes a walk may execute.
pub(crate) const MAX_WRITES: usize = 4;

/// What was promised.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Oracle {
    /// Promised writes, as bits.
    pub promised: u8,
    /// Who executed a write, in which boot: only that process can send its reply.
    pub executed_by: [Option<(Id, Boot)>; MAX_WRITES],
    /// Writes whose own OK has left, as bits.
    pub replied: u8,
    /// Who held a write for the slot when it was promised, or was taken in later.
    pub holders: [Set; MAX_WRITES],
    /// Nodes that lost a tail since: whoever loses one too may have done so in the same second.
    pub shaken: [Set; MAX_WRITES],
    /// Nodes that lost a write with their tail. While one of them has not started again, others
    /// that lose power count as lost together with it.
    pub losers: [Set; MAX_WRITES],
    /// The wanted node that left the in-sync set last: its copy must still do.
    pub heir: Option<Id>,
    /// It lacks what was acknowledged after it left, and somebody who had that is gone.
    pub heir_is_weak: bool,
    /// The highest epoch a reply left in.
    pub reply_epoch: Epoch,
    /// The writes its owner held at its first reply, as bits.
    pub floor: u8,
    /// What a node held when it asked to take over, as bits: the least of its asks.
    pub asked: [Option<u8>; NODES],
    /// Replies of epochs below are of a slot with ack = local that was taken over: not promised.
    pub taken: Epoch,
    /// Names given: which write is (epoch, index).
    pub names: Vec<(Epoch, Index, Write)>,
    /// The first promise that broke.
    pub broken: Option<Broken>,
}

/// The writes a node holds, as bits.
pub(crate) fn held(state: &State, id: Id) -> u8 {
    let copy = &state.node(id).copy;
    (0..MAX_WRITES as Write).filter(|write| copy.holds(*write)).map(|write| 1 << write).sum()
}

/// Whether a promised write is missing at a node.
pub(crate) fn promised_not_held(state: &State, id: Id) -> bool {
    state.oracle.promised & !held(state, id) != 0
}

/// A node says that it could take over, with what it holds.
pub(crate) fn asks(state: &mut State, id: Id) {
    let now = held(state, id);
    let asked = &mut state.oracle.asked[id.at()];
    *asked = Some(asked.map_or(now, |before| before & now));
}

fn writes(bits: u8) -> impl Iterator<Item = Write> {
    (0..MAX_WRITES as Write).filter(move |write| bits & (1 << write) != 0)
}

/// A group got a name.
pub(crate) fn named(state: &mut State, epoch: Epoch, index: Index, write: Write) {
    let oracle = &mut state.oracle;
    let other = oracle.names.iter().any(|(e, i, w)| (*e, *i) == (epoch, index) && *w != write);
    if other {
        oracle.broken = oracle.broken.or(Some(Broken::OneName));
    }
    oracle.names.push((epoch, index, write));
}

/// A reply leaves `by`: the OK of one write, or what a read showed (`late` is what may still be
/// said after a later owner has spoken).
pub(crate) fn reply(state: &mut State, by: Id, shown: u8, late: u8) {
    let epoch = state.row(by).epoch;
    if epoch < state.oracle.taken {
        return;
    }
    let held_now = held(state, by);
    if epoch > state.oracle.reply_epoch {
        state.oracle.reply_epoch = epoch;
        state.oracle.floor = held_now;
    } else if epoch < state.oracle.reply_epoch && late & !state.oracle.floor != 0 {
        state.oracle.broken = state.oracle.broken.or(Some(Broken::OneVoice));
    }
    let members = state.newest().row.in_sync;
    let heir = state.oracle.heir.map_or(Set::default(), |id| Set::of(&[id]));
    let known = state.row(by).in_sync;
    let counted = known.or(state.lead(by).extra).with(by);
    let around = members.and(counted).or(heir.and(known));
    // Its ack is of an earlier boot than it runs now: it has crashed since.
    let down = |id: &Id| state.view(by).boots[id.at()] != state.node(*id).boot;
    let down = Id::all().filter(down).fold(Set::default(), Set::with);
    let weak = if state.oracle.heir_is_weak { heir } else { Set::default() };
    let mut shown = shown;
    for write in writes(shown & !state.oracle.promised) {
        let at = usize::from(write);
        let holding = around.iter().filter(|id| held(state, *id) & (1 << write) != 0);
        state.oracle.holders[at] = holding.fold(Set::default(), Set::with);
        state.oracle.shaken[at] = down.or(weak);
        state.oracle.losers[at] = down;
        // Lost by all whom it was counted on before this late reply left; its owner is out.
        if state.oracle.holders[at].is_empty() && around.iter().all(|id| down.has(id)) {
            shown &= !(1 << write);
        }
    }
    state.oracle.promised |= shown;
}

/// A node crashed; `before` is what it held.
pub(crate) fn crashed(state: &mut State, id: Id, kept: Kept, before: u8, torn: bool) {
    let lost = before & !held(state, id);
    for write in writes(state.oracle.promised) {
        let at = usize::from(write);
        if kept == Kept::Tail {
            state.oracle.shaken[at] = state.oracle.shaken[at].with(id);
        }
        // A snapshot that was not synced is no matter of one second: that loss is never excused.
        let loses = lost & (1 << write) != 0 && !torn && state.oracle.holders[at].has(id);
        if loses {
            state.oracle.holders[at] = state.oracle.holders[at].without(id);
            if kept == Kept::Tail {
                state.oracle.losers[at] = state.oracle.losers[at].with(id);
            }
        }
        let left = state.oracle.holders[at];
        let excused = match kept {
            Kept::Tail => lost_together(state, at),
            Kept::Nothing => loses && left.is_empty(),
            Kept::All => false,
        };
        if excused {
            state.oracle.promised &= !(1 << write);
        }
    }
}

/// Whether a write went with the tail of a node that has not started yet, and all others that
/// held it lost power as well.
fn lost_together(state: &State, write: usize) -> bool {
    let left = state.oracle.holders[write].0 & !state.oracle.shaken[write].0;
    left == 0 && state.oracle.losers[write].iter().any(|loser| waiting(state, loser))
}

/// Whether a node has crashed and its start is not in the table yet.
fn waiting(state: &State, id: Id) -> bool {
    state.newest().boots[id.at()] != state.node(id).boot
}

/// The log accepted a change.
pub(crate) fn accepted(state: &mut State, before: &Table, change: &Change) {
    let (old, new) = (before.row, state.newest().row);
    let left = Set(old.in_sync.0 & !new.in_sync.0);
    let old_heir = state.oracle.heir;
    let wanted = |id: &Id| new.followers.has(*id);
    match *change {
        Change::Grow { node, .. } => take_in(state, node),
        Change::Shrink { .. } | Change::SetAck(Ack::Local) => {
            let heir = left.iter().find(wanted);
            state.oracle.heir = heir.or(state.oracle.heir);
            if heir.is_none() && !left.is_empty() {
                shake_heir(state);
            }
        }
        Change::Start { node, kept, incomplete, .. } => {
            let kept = if incomplete { Kept::Nothing } else { kept };
            if state.oracle.heir == Some(node) && kept == Kept::Nothing {
                state.oracle.heir = None;
            } else if new.in_sync.and(old.in_sync).is_empty() {
                state.oracle.heir = (kept == Kept::Tail).then_some(node);
            } else if left.has(node) && kept == Kept::Tail && wanted(&node) {
                state.oracle.heir = Some(node);
            } else if left.has(node) {
                shake_heir(state);
            }
        }
        Change::TakeOver { to, .. } if old.ack == Ack::Local && old.in_sync.only(old.owner) => {
            state.oracle.heir = None;
            // Possible loss is recorded: promised is what it held when it asked, unless it has
            // crashed since and its start is still to come.
            let asked = state.oracle.asked[to.at()].unwrap_or(u8::MAX);
            let here = if waiting(state, to) { held(state, to) } else { u8::MAX };
            state.oracle.promised &= asked & here;
            state.oracle.holders = [Set::of(&[to]); MAX_WRITES];
            (state.oracle.shaken, state.oracle.losers) = Default::default();
            state.oracle.taken = new.epoch;
        }
        Change::SetFollowers(followers) => {
            let dropped = |id: &Id| old.followers.has(*id) && !followers.has(*id);
            state.oracle.heir = state.oracle.heir.filter(|id| !dropped(id));
        }
        _ => (),
    }
    state.oracle.heir = state.oracle.heir.filter(|id| !new.in_sync.has(*id));
    state.oracle.heir_is_weak &= state.oracle.heir == old_heir && old_heir.is_some();
    let given_up = gives_up(state, old_heir, left, change);
    let keep = state.oracle.heir.map_or(new.in_sync, |heir| new.in_sync.with(heir));
    for write in 0..MAX_WRITES {
        let holders = &mut state.oracle.holders[write];
        let had = !holders.is_empty();
        *holders = holders.and(keep);
        let gone = had && holders.is_empty();
        if given_up && (gone || lost_together(state, write)) {
            state.oracle.promised &= !(1 << write);
        }
    }
    if new.epoch < old.epoch || new.ver < old.ver {
        state.oracle.broken = state.oracle.broken.or(Some(Broken::Forward));
    }
}

/// A node is in sync from now on, with what it holds; it may have crashed since it acked.
fn take_in(state: &mut State, node: Id) {
    state.oracle.heir = None;
    let here = held(state, node);
    let crashed = waiting(state, node) && state.node(node).kept == Kept::Tail;
    for write in writes(state.oracle.promised) {
        let at = usize::from(write);
        if here & (1 << write) != 0 {
            state.oracle.holders[at] = state.oracle.holders[at].with(node);
        } else if crashed {
            state.oracle.losers[at] = state.oracle.losers[at].with(node);
            if lost_together(state, at) {
                state.oracle.promised &= !(1 << write);
            }
        }
    }
}

/// Whether a copy that is left out by a change is given up knowingly.
fn gives_up(state: &State, old_heir: Option<Id>, left: Set, change: &Change) -> bool {
    let (row, heir) = (state.newest().row, state.oracle.heir);
    // The row remembers one that left: an earlier one is given up for a later one.
    if old_heir.is_some() && heir.is_some() && heir != old_heir {
        return true;
    }
    match change {
        // An operator may give up copies; if it was the last one, what it held with it.
        Change::SetFollowers(_) | Change::SetAck(_) => true,
        // So may a member nobody wants that leaves when all the others have crashed already: the
        // slot has the copies that are wanted, and PROTOCOL 6 promises what those keep.
        Change::Shrink { node, .. } | Change::Start { node, .. } => {
            let orphan = row.in_sync.iter().all(|id| waiting(state, id));
            orphan && left.has(*node) && !row.followers.has(*node)
        }
        _ => false,
    }
}

/// Another member left after it: what it lacks and what a tail may take have become one loss.
fn shake_heir(state: &mut State) {
    let Some(heir) = state.oracle.heir else { return };
    state.oracle.heir_is_weak = true;
    for write in 0..MAX_WRITES {
        let shaken = &mut state.oracle.shaken[write];
        *shaken = shaken.with(heir);
        if lost_together(state, write) {
            state.oracle.promised &= !(1 << write);
        }
    }
}
