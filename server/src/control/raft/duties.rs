//! What an order about members needs next, at the leader: refuse, wait, write an entry, be done.
//!
//! Not how often that is asked (`orders`).
//!
//! ```text
//!  Remove  holds slots? refuse -- votes? the vote moves -- RemoveNode -- the log lets it go
//!  Lost    answers? refuse -- sole copies without consent? refuse -- the vote moves -- moves to
//!          it end, shared slots are promoted, sole ones unassigned -- owners shrink -- RemoveNode
//!  Replace the other catches up and votes -- the old one votes no more
//! ```
//! Invariant: a turn looks at the table and the members only, so any leader goes on where another
//! stopped.

use std::collections::BTreeMap;

use slots::{
    LossConsent, MoveId, NodeId, NodeRow, NodeState, SlotId, SlotRanges, SlotTable, TableChange,
};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::propose::Fate;
use super::steward::{council, members_are_settled};
use super::voters::{Council, Reach, VoteOrder, wanted_voters};
use super::wire::{LogOrder, OrderAnswer};

/// What a turn came to.
pub(super) enum Turned {
    /// The order's end at this leader.
    End(OrderAnswer),
    /// More is to be done; what it waits for.
    Waits(String),
}

/// Goes on, or says why not.
type Turn = Result<(), Turned>;

fn refused(why: impl Into<String>) -> Turned {
    Turned::End(OrderAnswer::Refused(why.into()))
}

fn waiting(why: impl Into<String>) -> Turned {
    Turned::Waits(why.into())
}

fn done(changed: bool, text: String) -> Turned {
    Turned::End(OrderAnswer::Done { changed, text })
}

/// What ties a node to slots.
#[derive(Default)]
struct Ties {
    /// Slots it owns and holds alone.
    sole: SlotRanges,
    /// Slots it owns while others are in sync, by the one that is to own them.
    shared: BTreeMap<NodeId, SlotRanges>,
    /// Slots of others for which it is in sync, by owner.
    member: BTreeMap<NodeId, SlotRanges>,
    /// Slots that are moving to it.
    target: BTreeMap<MoveId, SlotRanges>,
}

impl Ties {
    /// `prefers` picks, among the members in sync, who is to own a slot after the node.
    fn of(table: &SlotTable, node: NodeId, prefers: impl Fn(NodeId) -> bool) -> Ties {
        let mut ties = Ties::default();
        for slot in SlotId::all() {
            let row = table.slot(slot);
            if let Some(planned) = row.planned_move().filter(|planned| planned.to == node) {
                ties.target.entry(planned.id).or_default().insert(slot);
            }
            let Some(owner) = row.owner().filter(|_| row.is_in_sync(node)) else { continue };
            if owner != node {
                ties.member.entry(owner).or_default().insert(slot);
                continue;
            }
            let others = || row.in_sync().filter(|member| *member != node);
            match others().find(|member| prefers(*member)).or_else(|| others().next()) {
                Some(heir) => ties.shared.entry(heir).or_default().insert(slot),
                None => ties.sole.insert(slot),
            }
        }
        ties
    }

    fn owned(&self) -> SlotRanges {
        let shared = self.shared.values().flat_map(|slots| slots.iter());
        self.sole.iter().chain(shared).collect()
    }
}

impl Cluster {
    /// One turn of an order.
    pub(super) async fn turn(
        &self,
        order: LogOrder,
        actor: &str,
        until: Instant,
        changed: &mut bool,
    ) -> Turned {
        let mut duty = Duty { cluster: self, table: self.table(), actor, until, changed };
        let (about, end) = match order {
            LogOrder::Remove { node } => (node, duty.remove(node).await),
            LogOrder::Lost { node, accept_loss } => (node, duty.lost(node, accept_loss).await),
            LogOrder::ReplaceVoter { old, new } => (old, duty.replace(old, new)),
        };
        // Only a duty that ends says how: `Ok` is "look again".
        let turned = end.err().unwrap_or_else(|| waiting("the table changed: look again"));
        if matches!(turned, Turned::End(OrderAnswer::Done { .. } | OrderAnswer::Refused(_))) {
            self.vote_orders.forget(about);
        }
        turned
    }
}

/// One order, as the table and the members are now.
struct Duty<'a> {
    cluster: &'a Cluster,
    table: std::sync::Arc<SlotTable>,
    actor: &'a str,
    until: Instant,
    changed: &'a mut bool,
}

impl Duty<'_> {
    fn name(&self, node: NodeId) -> String {
        self.table.node(node).map_or_else(|| node.to_string(), |row| row.name.clone())
    }

    fn council(&self) -> Council {
        council(self.cluster, &self.table)
    }

    /// Refuses an unknown node. Ends the order for one that is removed already.
    fn not_yet_removed(&self, node: NodeId) -> Result<&NodeRow, Turned> {
        let unknown = || refused(format!("node {node} is not in the cluster"));
        let row = self.table.node(node).ok_or_else(unknown)?;
        if row.state != NodeState::Removed {
            return Ok(row);
        }
        let name = &row.name;
        if self.cluster.reaches(node) {
            return Err(waiting(format!("{name} is removed; the log takes leave of it")));
        }
        let was = if *self.changed { "is removed" } else { "was removed before" };
        Err(done(*self.changed, format!("{name} {was}")))
    }

    async fn remove(&mut self, node: NodeId) -> Turn {
        let name = self.not_yet_removed(node)?.name.clone();
        self.not_the_last(node)?;
        let ties = Ties::of(&self.table, node, |_| true);
        let owned = ties.owned();
        if !owned.is_empty() {
            let count = owned.count();
            return Err(refused(format!(
                "{name} owns slots {owned} ({count}): move them to other nodes first \
                 (`slotctl move {owned} NODE`)"
            )));
        }
        if let Some((owner, slots)) = ties.member.first_key_value() {
            let owner = self.name(*owner);
            return Err(refused(format!(
                "{name} is in sync for slots {slots} of {owner}: take it out of their followers \
                 first"
            )));
        }
        if let Some((id, slots)) = ties.target.first_key_value() {
            return Err(refused(format!(
                "slots {slots} are moving to {name} (move {id}): wait for the move or cancel it"
            )));
        }
        self.vote_moved(node)?;
        self.take_away(node).await
    }

    async fn lost(&mut self, node: NodeId, accept_loss: bool) -> Turn {
        let name = self.not_yet_removed(node)?.name.clone();
        self.not_the_last(node)?;
        if !self.cluster.is_settled() {
            return Err(waiting("the log's leader is new and does not know yet who answers"));
        }
        let council = self.council();
        let answers = |node: NodeId| {
            node == self.cluster.me.node
                || council.nodes.get(&node).is_some_and(|n| n.reach != Reach::Silent)
        };
        if answers(node) {
            return Err(refused(format!(
                "{name} answers: it is not lost; to let it go use `slotctl node remove {name}`"
            )));
        }
        let ties = Ties::of(&self.table, node, answers);
        if !ties.sole.is_empty() && !accept_loss {
            let (slots, count) = (&ties.sole, ties.sole.count());
            return Err(refused(format!(
                "{name} alone holds slots {slots} ({count}): bring it back, or give up what they \
                 hold (`slotctl node lost {name} --accept-loss`)"
            )));
        }
        self.vote_moved(node)?;
        self.untie(&ties).await?;
        if let Some((owner, slots)) = ties.member.first_key_value() {
            let owner = self.name(*owner);
            return Err(waiting(format!(
                "{owner}, which owns slots {slots}, still counts {name} in sync: it goes on \
                 without it by itself; then give the order again"
            )));
        }
        self.take_away(node).await
    }

    /// Writes what frees a lost node of its slots: moves to it end, the members in sync own what
    /// it owned, and nobody owns what it alone held.
    async fn untie(&mut self, ties: &Ties) -> Turn {
        let seen = self.table.version();
        for (id, slots) in &ties.target {
            self.write(TableChange::AbortMove { id: *id, slots: slots.clone() }).await?;
        }
        for (heir, slots) in &ties.shared {
            let to_boot = self.table.node(*heir).map(|row| row.boot).unwrap_or_default();
            let (slots, to) = (slots.clone(), *heir);
            self.write(TableChange::Promote { slots, to, to_boot, seen }).await?;
        }
        if !ties.sole.is_empty() {
            let (slots, consent) = (ties.sole.clone(), LossConsent::AcceptLoss);
            self.write(TableChange::UnassignSlots { slots, seen, consent }).await?;
        }
        let untied = ties.target.is_empty() && ties.shared.is_empty() && ties.sole.is_empty();
        if untied { Ok(()) } else { Err(waiting("its slots are given to others")) }
    }

    fn replace(&mut self, old: NodeId, new: Option<NodeId>) -> Turn {
        let known = |node| match self.table.node(node) {
            Some(row) if row.state != NodeState::Removed => Ok(row),
            _ => Err(refused(format!("node {node} is not in the cluster"))),
        };
        let name = known(old)?.name.clone();
        let council = self.council();
        let metrics = self.cluster.metrics.borrow().clone();
        if !council.voters.contains(&old) {
            if !members_are_settled(&metrics) {
                return Err(waiting("the change of voters is not committed yet"));
            }
            let text = match *self.changed {
                true => format!("{name} votes no more"),
                false => format!("{name} does not vote"),
            };
            return Err(done(*self.changed, text));
        }
        let wanted = wanted_voters(council.nodes.len());
        let mut waits_for = format!("another node is to vote in the place of {name}");
        if let Some(new) = new {
            let other = known(new)?;
            let other_name = &other.name;
            if new == old || (council.voters.contains(&new) && council.voters.len() <= wanted) {
                return Err(refused(format!("{other_name} votes already: name another node")));
            }
            if other.state != NodeState::Active {
                return Err(refused(format!("{other_name} is draining: name another node")));
            }
            waits_for = format!("{other_name} must answer and catch up before it votes");
        } else if council.voters.len() <= wanted && council.candidates().all(|node| node == old) {
            return Err(refused(format!(
                "no other node can vote in the place of {name}: add one first"
            )));
        }
        *self.changed = true;
        self.remember(VoteOrder::Replace { old, new })?;
        Err(waiting(waits_for))
    }

    fn not_the_last(&self, node: NodeId) -> Turn {
        if self.table.nodes().any(|row| row.id != node) {
            return Ok(());
        }
        Err(refused("the last node of a cluster cannot leave it: stop it instead"))
    }

    fn remember(&self, order: VoteOrder) -> Turn {
        if self.cluster.vote_orders.remember(order) {
            return Ok(());
        }
        Err(waiting("too many votes are being moved at once"))
    }

    /// Waits until a node votes no more, and the change is committed.
    fn vote_moved(&self, node: NodeId) -> Turn {
        let council = self.council();
        if council.voters.contains(&node) || council.joint {
            self.remember(VoteOrder::Leave(node))?;
            let name = self.name(node);
            let silent = council.voters.iter().filter(|voter| **voter != node);
            let silent = silent.filter(|voter| {
                **voter != self.cluster.me.node && !self.cluster.heard.lately(**voter)
            });
            let silent: Vec<String> = silent.map(|voter| self.name(*voter)).collect();
            return Err(waiting(match silent.is_empty() {
                true => format!("the vote of {name} is not moved yet: give the order again"),
                false => format!(
                    "the vote of {name} cannot be moved while voters are silent ({}): bring them \
                     back, then give the order again",
                    silent.join(", ")
                ),
            }));
        }
        // The order stands until the node is out of the table, or it would be given a vote again.
        self.remember(VoteOrder::Leave(node))?;
        match members_are_settled(&self.cluster.metrics.borrow()) {
            true => Ok(()),
            false => Err(waiting("the change of voters is not committed yet")),
        }
    }

    async fn take_away(&mut self, node: NodeId) -> Turn {
        self.write(TableChange::RemoveNode { node }).await?;
        Err(waiting("it is removed; the log takes leave of it"))
    }

    /// Writes an entry. Refuses with the table's word what the table refuses, but for slots that
    /// changed meanwhile: they are looked at again.
    async fn write(&mut self, change: TableChange) -> Turn {
        let entry = self.cluster.entry(change, self.actor);
        match self.cluster.write_here(entry, self.until).await {
            Fate::Applied(version, verdicts) => {
                *self.changed = true;
                self.cluster.applied(version, self.until).await;
                verdicts.whole().map_err(|why| refused(why.to_string()))
            }
            Fate::NotProposed => {
                Err(Turned::End(OrderAnswer::NotLeader { changed: *self.changed }))
            }
            Fate::Unknown => Err(waiting("no majority of voters answers")),
        }
    }
}
