//! Takes a step: one action, from one state to the next.
//!
//! Not whether it may be taken (`actions.rs`), not whether what comes out is right
//! (`properties.rs`).
//!
//! Invariant: an action that changes nothing is no step.

use crate::actions::Action;
use crate::node::{Frame, Seal};
use crate::oracle;
use crate::rules::Rules;
use crate::state::State;
use crate::table::Change;
use crate::words::Id;

/// The branch of the rules a step took, by name: walks count them.
pub type Branch = &'static str;

/// The state after an action; `None` if it changes nothing.
pub fn step(rules: &Rules, state: &State, action: &Action) -> Option<(State, Branch)> {
    let mut next = state.clone();
    let branch = next.take(rules, action)?;
    next.settle_waits(rules);
    Some((next, branch))
}

impl State {
    fn take(&mut self, rules: &Rules, action: &Action) -> Option<Branch> {
        Some(match *action {
            Action::Write(by) => return self.execute(rules, by),
            Action::Send { from, to, all } => {
                let before = self.net.len();
                self.send(rules, from, to, all);
                return (self.net.len() > before).then_some("send");
            }
            Action::SendPiece { from, to, piece } => {
                let before = self.net.len();
                self.send_piece(from, to, piece);
                return (self.net.len() > before).then_some("send piece");
            }
            Action::Deliver { ref frame, again } => return self.arrive(rules, frame, again),
            Action::Lose(ref frame) => {
                self.net.remove(frame);
                "lose"
            }
            Action::Reply { by, write } => self.reply(by, write),
            Action::Read(by) => {
                self.answer_read(by);
                "read"
            }
            Action::Commit(change) => return self.commit(rules, &change),
            Action::Learn(id) => self.learn(rules, id, self.node(id).applied + 1),
            Action::Skip(id) => self.learn(rules, id, self.version()),
            Action::Count { by, node } => {
                self.count(by, node);
                "count"
            }
            Action::Grow { by, node } => return self.spend(|state| state.propose_grow(by, node)),
            Action::Shrink { by, node } => {
                return self.spend(|state| state.propose_shrink(by, node));
            }
            Action::HandOver(by) => return self.spend(|state| state.hand_over(by)),
            _ => return self.take_more(rules, action),
        })
    }

    fn take_more(&mut self, rules: &Rules, action: &Action) -> Option<Branch> {
        Some(match *action {
            Action::GiveUp { by, node } => {
                let lead = &mut self.node_mut(by).lead;
                lead.extra = lead.extra.without(node);
                "give up"
            }
            Action::Seal(by) => self.seal(by, Seal::Sealed),
            Action::Unseal(by) => self.seal(by, Seal::Open),
            Action::AskPromote(to) => {
                let (to_boot, seen) = (self.node(to).boot, self.version());
                self.ask(Change::Promote { to, to_boot, seen })
            }
            Action::AskTakeOver(to) => {
                // Its word that it holds a copy, at this version: as good as an ack.
                let node = self.node_mut(to);
                node.acked_at = Some(node.applied);
                let (to_boot, seen) = (node.boot, node.applied);
                oracle::asks(self, to);
                self.ask(Change::TakeOver { to, to_boot, seen })
            }
            Action::Order(change) => {
                self.spent.orders += 1;
                self.propose(change);
                "order"
            }
            Action::Sync(id) => self.sync(rules, id),
            Action::Mark(id) => {
                let ver = self.row(id).ver;
                self.node_mut(id).alone = Some(ver);
                self.sync(rules, id);
                "mark alone"
            }
            Action::Free(id) => {
                self.free(id);
                "free"
            }
            Action::Crash { node, kept } => {
                self.spent.crashes += 1;
                self.crash(rules, node, kept)
            }
            Action::Grant { giver, holder } => self.grant(giver, holder),
            Action::HolderLets { giver, holder } => {
                self.grants.held[giver.at()][holder.at()] = None;
                "grant runs out"
            }
            Action::GiverLets { giver, holder } => {
                self.grants.given[giver.at()][holder.at()] = None;
                "grant counts no more"
            }
            _ => return None,
        })
    }

    fn arrive(&mut self, rules: &Rules, frame: &Frame, again: bool) -> Option<Branch> {
        let branch = self.deliver(rules, frame)?;
        if !again {
            self.net.remove(frame);
        }
        Some(branch)
    }

    /// The log takes a change: applied at the next version, or refused, which changes nothing.
    fn commit(&mut self, rules: &Rules, change: &Change) -> Option<Branch> {
        match self.proposed.get_mut(change) {
            Some(left) if *left > 1 => *left -= 1,
            _ => drop(self.proposed.remove(change)),
        }
        let before = *self.newest();
        match before.apply(rules, change, self.version() + 1) {
            Ok((after, branch)) => {
                self.log.push(after);
                oracle::accepted(self, &before, change);
                Some(branch)
            }
            Err(refusal) => Some(refusal),
        }
    }

    fn spend(&mut self, propose: impl FnOnce(&mut State)) -> Option<Branch> {
        self.spent.proposals += 1;
        propose(self);
        Some("propose")
    }

    fn ask(&mut self, change: Change) -> Branch {
        self.spent.asks += 1;
        self.propose(change);
        "ask"
    }

    fn seal(&mut self, by: Id, seal: Seal) -> Branch {
        self.node_mut(by).lead.seal = seal;
        if seal == Seal::Sealed { "seal" } else { "unseal" }
    }

    fn sync(&mut self, rules: &Rules, id: Id) -> Branch {
        let copy = &mut self.node_mut(id).copy;
        copy.synced = copy.last();
        copy.unsynced_snapshot = false;
        let swapped = rules.snapshot_synced && self.swap_in(rules, id, true);
        if swapped { "sync, the stage is swapped in" } else { "sync" }
    }

    /// The giver keeps the oldest grant it may still be asked about, the holder the oldest it may
    /// still use.
    fn grant(&mut self, giver: Id, holder: Id) -> Branch {
        let version = self.node(giver).applied;
        for grants in [&mut self.grants.given, &mut self.grants.held] {
            let grant = &mut grants[giver.at()][holder.at()];
            *grant = Some(grant.map_or(version, |old| old.min(version)));
        }
        "grant"
    }
}
