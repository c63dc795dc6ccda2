//! Changes over slots: each slot accepts or refuses by its own row.
//!
//! Not installed here: the caller checks each result before it stands in the table.
//!
//! Invariant: a proposal decided before a slot last changed refuses on that slot (`seen`), so an
//! entry that is applied late or twice does nothing.

use super::{Next, active, live, stamped};
use crate::change::{AckMode, LossConsent, Proposal, Proposer, TableChange};
use crate::ids::{Boot, MoveId, NodeId, TableVersion};
use crate::invariant::check_step;
use crate::members::{MAX_FOLLOWERS, MAX_IN_SYNC, NodeIx, NodeSet, Nodes};
use crate::ranges::SlotRanges;
use crate::row::{Planned, Removal, RemovalCause, Row};
use crate::table::{LossSlots, SlotTable};
use crate::verdict::{ChangeRefused, LossCause, Verdict, Verdicts};
use std::collections::BTreeSet;
use std::sync::Arc;

type Judged = Result<Next, ChangeRefused>;

impl SlotTable {
    /// Applies a change to each of its slots. An error is what all of them have in common.
    pub(super) fn apply_to_slots(
        &mut self,
        proposal: &Proposal,
        slots: &SlotRanges,
    ) -> Result<Verdicts, ChangeRefused> {
        let nodes = Arc::clone(&self.nodes);
        let judge = Judge { nodes: &nodes, by: proposal.by, version: self.version };
        let rule = judge.rule(&proposal.change)?;
        let mut verdicts = Verdicts::new();
        let mut losses = LossSlots::new();
        for slot in slots.iter() {
            let before = *self.rows.row(slot);
            let checked = rule(&before).and_then(|next| {
                let row = stamped(&before, next.row, self.version);
                check_step(&nodes, &before, &row, self.version)
                    .map_err(ChangeRefused::BrokenInvariant)?;
                Ok(Next { row, ..next })
            });
            verdicts.note(slot, checked.as_ref().map(|_| ()).map_err(|refusal| *refusal));
            if let Ok(next) = checked {
                self.rows.install(slot, next.row);
                if let Some(cause) = next.loss {
                    losses.entry(cause).or_default().insert(slot);
                }
            }
        }
        verdicts.losses = self.loss_records(proposal, losses);
        if let TableChange::TakeOver { tails, .. } = &proposal.change {
            for loss in &mut verdicts.losses {
                let within = tails.iter().filter(|(slot, _)| loss.slots.contains(**slot));
                loss.tails = within.map(|(slot, tail)| (*slot, *tail)).collect();
            }
        }
        Ok(verdicts)
    }
}

/// What every row of one change is judged by.
struct Judge<'a> {
    nodes: &'a Nodes,
    by: Proposer,
    version: TableVersion,
}

/// A change, ready to be put to a row.
type Rule<'a> = Box<dyn Fn(&Row) -> Judged + 'a>;

impl Judge<'_> {
    /// Refuses what no slot could accept: unknown, removed or inactive nodes, another boot, a
    /// `seen` that is not before the entry, too many followers, loss not accepted.
    fn rule<'a>(&'a self, change: &'a TableChange) -> Result<Rule<'a>, ChangeRefused> {
        Ok(match *change {
            TableChange::AssignSlots { to, seen, .. } => {
                self.check_seen(seen)?;
                let to = active(self.nodes, to)?;
                Box::new(move |row| self.assign(row, to, seen))
            }
            TableChange::UnassignSlots { seen, consent, .. } => {
                self.check_seen(seen)?;
                Box::new(move |row| self.unassign(row, seen, consent))
            }
            TableChange::SetAck { mode, .. } => Box::new(move |row| Ok(self.set_ack(row, mode))),
            TableChange::SetFollowers { ref followers, .. } => {
                let followers = self.follower_set(followers)?;
                Box::new(move |row| self.set_followers(row, followers))
            }
            TableChange::GrowInSync { node, node_boot, seen, .. } => {
                self.check_seen(seen)?;
                let ix = active(self.nodes, node)?;
                self.check_boot(ix, node_boot)?;
                Box::new(move |row| self.grow(row, ix, seen))
            }
            TableChange::ShrinkInSync { node, seen, .. } => {
                self.check_seen(seen)?;
                let known = self.nodes.find(node);
                let ix = known.ok_or(ChangeRefused::UnknownNode { node })?;
                Box::new(move |row| self.shrink(row, ix, seen))
            }
            TableChange::BeginMove { id, to, .. } => {
                let to = active(self.nodes, to)?;
                Box::new(move |row| self.begin_move(row, id, to))
            }
            TableChange::CommitMove { id, seen, .. } => {
                self.check_seen(seen)?;
                Box::new(move |row| self.commit_move(row, id, seen))
            }
            TableChange::AbortMove { id, .. } => Box::new(move |row| self.abort_move(row, id)),
            TableChange::Promote { to, to_boot, seen, .. } => {
                self.check_seen(seen)?;
                let to = live(self.nodes, to)?;
                self.check_boot(to, to_boot)?;
                Box::new(move |row| self.promote(row, to, seen))
            }
            TableChange::TakeOver { to, to_boot, seen, .. } => {
                self.check_seen(seen)?;
                let to = active(self.nodes, to)?;
                self.check_boot(to, to_boot)?;
                Box::new(move |row| self.take_over(row, to, seen))
            }
            TableChange::ForceTakeover { to, consent, .. } => {
                let to = active(self.nodes, to)?;
                check_consent(consent)?;
                Box::new(move |row| self.force(row, to))
            }
            // No other change names slots.
            _ => Box::new(|row| Ok((*row).into())),
        })
    }

    /// A proposer cannot have seen the entry it proposes, or a later one.
    fn check_seen(&self, seen: TableVersion) -> Verdict {
        if seen < self.version {
            return Ok(());
        }
        Err(ChangeRefused::OutOfLimits { limit: self.version.0.saturating_sub(1), got: seen.0 })
    }

    fn check_boot(&self, node: NodeIx, got: Boot) -> Verdict {
        let recorded = self.nodes.row(node).map_or(Boot(0), |row| row.boot);
        if recorded == got {
            return Ok(());
        }
        Err(ChangeRefused::OtherBoot { node: self.nodes.id(node), recorded, got })
    }

    /// The owner, if it is the proposer and in the same boot.
    fn owner_proposes(&self, row: &Row) -> Result<NodeIx, ChangeRefused> {
        let owner = row.owner.ok_or(ChangeRefused::Unowned)?;
        let (id, by) = (self.nodes.id(owner), self.by.node);
        if id != by {
            return Err(ChangeRefused::NotOwner { owner: id, by });
        }
        self.check_boot(owner, self.by.boot)?;
        Ok(owner)
    }

    fn follower_set(&self, followers: &BTreeSet<NodeId>) -> Result<NodeSet, ChangeRefused> {
        let too_many = ChangeRefused::TooManyMembers { limit: MAX_FOLLOWERS };
        if followers.len() > MAX_FOLLOWERS {
            return Err(too_many);
        }
        followers.iter().try_fold(NodeSet::EMPTY, |set, node| {
            set.with(active(self.nodes, *node)?, self.nodes).ok_or(too_many)
        })
    }

    fn assign(&self, row: &Row, to: NodeIx, seen: TableVersion) -> Judged {
        if let Some(owner) = row.owner {
            return Err(ChangeRefused::Owned { owner: self.nodes.id(owner) });
        }
        fresh(row.ver, seen)?;
        let mut next = Row { in_sync: NodeSet::single(to), ..*row };
        next.pass_to(to, self.nodes, self.version);
        Ok(next.into())
    }

    fn unassign(&self, row: &Row, seen: TableVersion, consent: LossConsent) -> Judged {
        let owner = match consent {
            LossConsent::NotGiven => self.owner_proposes(row)?,
            LossConsent::AcceptLoss => row.owner.ok_or(ChangeRefused::Unowned)?,
        };
        fresh(row.ver, seen)?;
        let next = Row { epoch: self.version.into(), ver: row.ver, ack: row.ack, ..Row::default() };
        Ok(match consent {
            LossConsent::NotGiven => next.into(),
            LossConsent::AcceptLoss => {
                Next::with_loss(next, LossCause::Unassigned { from: self.nodes.id(owner) })
            }
        })
    }

    /// `Local` keeps the owner in sync, and the target of a move, which is acknowledged in sync.
    fn set_ack(&self, row: &Row, mode: AckMode) -> Next {
        let mut next = Row { ack: mode, ..*row };
        if mode == AckMode::Local {
            let target = row.planned.map(|planned| planned.to);
            let stays = |ix| row.owner == Some(ix) || target == Some(ix);
            next.in_sync = row.in_sync.filtered(stays);
            let leaving = row.in_sync.filtered(|ix| !stays(ix));
            let wanted = leaving.filtered(|ix| row.followers.contains(ix));
            if let Some(node) = wanted.choose(0).or_else(|| leaving.choose(0)) {
                self.remember(&mut next, node);
            }
        }
        next.into()
    }

    fn set_followers(&self, row: &Row, followers: NodeSet) -> Judged {
        let owner = row.owner.ok_or(ChangeRefused::Unowned)?;
        if followers.contains(owner) {
            return Err(ChangeRefused::IsOwner { node: self.nodes.id(owner) });
        }
        let dropped = |ix| row.followers.contains(ix) && !followers.contains(ix);
        let last_removed = row.last_removed.filter(|removal| !dropped(removal.node));
        Ok(Row { followers, last_removed, ..*row }.into())
    }

    fn grow(&self, row: &Row, node: NodeIx, seen: TableVersion) -> Judged {
        self.owner_proposes(row)?;
        fresh(row.ver, seen)?;
        if row.in_sync.contains(node) {
            return Err(ChangeRefused::AlreadyInSync { node: self.nodes.id(node) });
        }
        let is_target = row.planned.is_some_and(|planned| planned.to == node);
        if row.ack == AckMode::Local && !is_target {
            return Err(ChangeRefused::AckIsLocal);
        }
        let grown = row.in_sync.with(node, self.nodes);
        let in_sync = grown.ok_or(ChangeRefused::TooManyMembers { limit: MAX_IN_SYNC })?;
        Ok(Row { in_sync, last_removed: None, ..*row }.into())
    }

    /// `ver` is new even if `node` was no member: a Grow decided before it is then refused. Who was
    /// no member takes nothing along: what is remembered stays as it is.
    fn shrink(&self, row: &Row, node: NodeIx, seen: TableVersion) -> Judged {
        let owner = self.owner_proposes(row)?;
        fresh(row.ver, seen)?;
        if node == owner {
            return Err(ChangeRefused::IsOwner { node: self.nodes.id(node) });
        }
        let mut next = Row { in_sync: row.in_sync.without(node), ver: self.version, ..*row };
        if row.in_sync.contains(node) {
            self.remember(&mut next, node);
        }
        Ok(next.into())
    }

    /// The owner goes on without a member. Who is not wanted frees its copy and is no heir.
    fn remember(&self, next: &mut Row, node: NodeIx) {
        if next.followers.contains(node) {
            let (cause, at) = (RemovalCause::Shrunk, self.version);
            next.last_removed = Some(Removal { node, cause, at });
        } else {
            next.weaken_last_removed();
        }
    }

    fn begin_move(&self, row: &Row, id: MoveId, to: NodeIx) -> Judged {
        let owner = row.owner.ok_or(ChangeRefused::Unowned)?;
        if owner == to {
            return Err(ChangeRefused::IsOwner { node: self.nodes.id(to) });
        }
        let order = Planned { id, to };
        match row.planned {
            Some(planned) if planned != order => Err(ChangeRefused::OtherMove { id: planned.id }),
            _ => Ok(Row { planned: Some(order), ..*row }.into()),
        }
    }

    /// The old owner stays in sync: only the new one may let it go.
    fn commit_move(&self, row: &Row, id: MoveId, seen: TableVersion) -> Judged {
        self.owner_proposes(row)?;
        let to = planned_target(row, id)?;
        fresh(row.epoch.began_at(), seen)?;
        if !row.in_sync.contains(to) {
            return Err(ChangeRefused::NotInSync { node: self.nodes.id(to) });
        }
        let mut next = Row { followers: row.followers.without(to), ..*row };
        next.pass_to(to, self.nodes, self.version);
        Ok(next.into())
    }

    /// A new epoch always: the owner may have sent `Handover` and serves nothing until it sees
    /// that the log has decided.
    fn abort_move(&self, row: &Row, id: MoveId) -> Judged {
        planned_target(row, id)?;
        Ok(Row { planned: None, epoch: self.version.into(), ..*row }.into())
    }

    /// The old owner stays in sync: only the new one may let it go.
    fn promote(&self, row: &Row, to: NodeIx, seen: TableVersion) -> Judged {
        let node = self.nodes.id(to);
        let owner = row.owner.ok_or(ChangeRefused::Unowned)?;
        if owner == to {
            return Err(ChangeRefused::IsOwner { node });
        }
        if !row.in_sync.contains(to) {
            return Err(ChangeRefused::NotInSync { node });
        }
        fresh(row.epoch.began_at(), seen)?;
        let mut next = *row;
        next.pass_to(to, self.nodes, self.version);
        Ok(next.into())
    }

    /// A node that does not follow the slot has nothing to take over with.
    fn take_over(&self, row: &Row, to: NodeIx, seen: TableVersion) -> Judged {
        let owner = row.owner.ok_or(ChangeRefused::Unowned)?;
        let (from, node) = (self.nodes.id(owner), self.nodes.id(to));
        if owner == to {
            return Err(ChangeRefused::IsOwner { node });
        }
        if row.ack == AckMode::InSync {
            return Err(ChangeRefused::AckIsInSync);
        }
        if !row.in_sync.is_only(owner) {
            return Err(ChangeRefused::OthersInSync);
        }
        if !row.followers.contains(to) {
            return Err(ChangeRefused::NotFollower { node });
        }
        fresh(row.ver, seen)?;
        let next = self.taken(row, to);
        Ok(Next::with_loss(next, LossCause::TakenOver { from, to: node }))
    }

    fn force(&self, row: &Row, to: NodeIx) -> Judged {
        let owner = row.owner.ok_or(ChangeRefused::Unowned)?;
        let cause = LossCause::Forced { from: self.nodes.id(owner), to: self.nodes.id(to) };
        Ok(Next::with_loss(self.taken(row, to), cause))
    }

    fn taken(&self, row: &Row, to: NodeIx) -> Row {
        let mut next = Row { in_sync: NodeSet::single(to), last_removed: None, ..*row };
        next.pass_to(to, self.nodes, self.version);
        next
    }
}

fn fresh(changed_at: TableVersion, seen: TableVersion) -> Verdict {
    if changed_at <= seen { Ok(()) } else { Err(ChangeRefused::Stale { changed_at, seen }) }
}

fn check_consent(consent: LossConsent) -> Verdict {
    match consent {
        LossConsent::AcceptLoss => Ok(()),
        LossConsent::NotGiven => Err(ChangeRefused::LossNotAccepted),
    }
}

fn planned_target(row: &Row, id: MoveId) -> Result<NodeIx, ChangeRefused> {
    match row.planned {
        None => Err(ChangeRefused::NoMove),
        Some(planned) if planned.id != id => Err(ChangeRefused::OtherMove { id: planned.id }),
        Some(planned) => Ok(planned.to),
    }
}
