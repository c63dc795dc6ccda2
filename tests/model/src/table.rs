//! The slot's row, its changes, and what each change does: PROTOCOL 1.
//!
//! Not the start of a node (`start.rs`), not who may have the idea to propose what (`owner.rs`).
//! The rules are those of `slots/src/apply/slots.rs`; a test puts both side by side.
//!
//! Invariant: a change is judged by the row it meets and by nothing else; an entry that is late,
//! doubled or proposed by a node that has lost its role is refused.

use crate::rules::Rules;
use crate::words::{Boot, Epoch, Id, Kept, MoveId, NODES, Set, Version};
use std::fmt;

/// When a write may be answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ack {
    /// When every counted member has it.
    InSync,
    /// When the owner has it; followers are outside the in-sync set.
    Local,
}

/// Why a node left the in-sync set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The owner went on without it; up to then it had everything.
    Shrunk,
    /// It may have lost a tail, or the slot lost a member after it left.
    Rebooted,
}

/// The node that left the in-sync set last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Removal {
    /// The node.
    pub node: Id,
    /// Why.
    pub cause: Cause,
    /// The entry by which it left.
    pub at: Version,
}

/// A move that is ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Order {
    /// The order's name.
    pub id: MoveId,
    /// Who shall own the slot.
    pub to: Id,
}

/// The slot's row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Row {
    /// Who orders the slot's writes.
    pub owner: Id,
    /// Since which entry.
    pub epoch: Epoch,
    /// The entry that last changed `in_sync` or `epoch`.
    pub ver: Version,
    /// Who holds every acknowledged write.
    pub in_sync: Set,
    /// Who is wanted as a follower, in sync or not.
    pub followers: Set,
    /// Who left last, while that may still matter.
    pub removed: Option<Removal>,
    /// When writes are answered.
    pub ack: Ack,
    /// The move that is ordered.
    pub order: Option<Order>,
}

/// The table at one version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Table {
    /// The one slot.
    pub row: Row,
    /// The boot each node started with last.
    pub boots: [Boot; NODES],
    /// The move this very entry committed. Only who applies the entry itself sees it.
    pub done: Option<MoveId>,
}

/// A change as the log holds it. `seen` is the version its proposer decided at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // PROTOCOL 1 explains the fields, one by one.
pub enum Change {
    /// A node has started: what it kept, its newest Alone mark, whether its copy is incomplete.
    Start { node: Id, boot: Boot, kept: Kept, alone: Option<Version>, incomplete: bool },
    /// Owner: a node has everything and is in sync from now on.
    Grow { by: Id, by_boot: Boot, node: Id, node_boot: Boot, seen: Version },
    /// Owner: goes on without a node, which need not be a member.
    Shrink { by: Id, by_boot: Boot, node: Id, seen: Version },
    /// Operator: how writes are acknowledged.
    SetAck(Ack),
    /// Operator: who is wanted as a follower.
    SetFollowers(Set),
    /// Operator: an order; nobody's authority changes.
    BeginMove { id: MoveId, to: Id },
    /// Owner, sealed: the target owns the slot.
    CommitMove { by: Id, by_boot: Boot, id: MoveId, seen: Version },
    /// Operator, owner or leader: the order is withdrawn.
    AbortMove { id: MoveId },
    /// Leader, asked by a member in sync that does not hear the owner.
    Promote { to: Id, to_boot: Boot, seen: Version },
    /// Leader, asked by a follower of a slot with ack = local.
    TakeOver { to: Id, to_boot: Boot, seen: Version },
    /// Operator, who accepts loss.
    Force { to: Id },
}

/// The branch of the rules a change took; walks count them. An error: why it was refused.
pub type Judged = Result<(Table, &'static str), &'static str>;

impl Table {
    /// The table after the entry `version`, or why it stays as it is.
    pub fn apply(&self, rules: &Rules, change: &Change, version: Version) -> Judged {
        let judge = Judge { rules, table: self, version };
        let (row, branch) = match *change {
            Change::Start { .. } => return self.start(rules, change, version),
            Change::Grow { by, by_boot, node, node_boot, seen } => {
                judge.grow(by, by_boot, node, node_boot, seen)
            }
            Change::Shrink { by, by_boot, node, seen } => judge.shrink(by, by_boot, node, seen),
            Change::SetAck(ack) => Ok(judge.set_ack(ack)),
            Change::SetFollowers(followers) => judge.set_followers(followers),
            Change::BeginMove { id, to } => judge.begin_move(id, to),
            Change::CommitMove { by, by_boot, id, seen } => {
                judge.commit_move(by, by_boot, id, seen)
            }
            Change::AbortMove { id } => judge.abort_move(id),
            Change::Promote { to, to_boot, seen } => judge.promote(to, to_boot, seen),
            Change::TakeOver { to, to_boot, seen } => judge.take_over(to, to_boot, seen),
            Change::Force { to } => Ok((judge.taken(to), "force")),
        }?;
        let done = match *change {
            Change::CommitMove { id, .. } => Some(id),
            _ => None,
        };
        Ok((Table { row: self.row.stamp(row, version), done, ..*self }, branch))
    }
}

impl Row {
    /// `next`, with a new ver if members or epoch changed.
    pub(crate) fn stamp(&self, mut next: Row, version: Version) -> Row {
        if next.in_sync != self.in_sync || next.epoch != self.epoch {
            next.ver = version;
        }
        next
    }

    /// `to` owns the slot: a new epoch; a move to it is done. A follower that becomes the owner
    /// changes places with the old owner, who is wanted back.
    pub(crate) fn pass_to(&mut self, rules: &Rules, to: Id, version: Version) {
        let old = std::mem::replace(&mut self.owner, to);
        self.epoch = version;
        if rules.reached_move_ends {
            self.order = self.order.filter(|order| order.to != to);
        }
        if self.followers.has(to) {
            self.followers = self.followers.without(to);
            if old != to {
                self.followers = self.followers.with(old);
            }
        }
    }

    /// A member left that is not itself remembered: the one found there may lack what was
    /// acknowledged since it left.
    pub(crate) fn weaken_removed(&mut self, rules: &Rules) {
        if let Some(removed) = self.removed.as_mut().filter(|_| rules.leaver_weakens) {
            removed.cause = Cause::Rebooted;
        }
    }

    /// What no row may be, whatever the entry.
    pub fn unsound(&self) -> Option<&'static str> {
        if !self.in_sync.has(self.owner) {
            return Some("the owner is not in sync");
        }
        if self.followers.has(self.owner) {
            return Some("the owner follows itself");
        }
        if self.order.is_some_and(|order| order.to == self.owner) {
            return Some("a move's target is the owner");
        }
        if self.removed.is_some_and(|removed| self.in_sync.has(removed.node)) {
            return Some("a member in sync is recorded as removed");
        }
        if self.ver < self.epoch {
            return Some("ver is below epoch");
        }
        None
    }
}

/// What a change is judged by.
struct Judge<'a> {
    rules: &'a Rules,
    table: &'a Table,
    version: Version,
}

type Next = Result<(Row, &'static str), &'static str>;

impl Judge<'_> {
    fn row(&self) -> Row {
        self.table.row
    }

    fn fresh(&self, changed_at: Version, seen: Version) -> Result<(), &'static str> {
        if self.rules.seen && changed_at > seen { Err("stale") } else { Ok(()) }
    }

    fn boot(&self, checked: bool, node: Id, boot: Boot) -> Result<(), &'static str> {
        if checked && self.table.boots[node.at()] != boot { Err("other boot") } else { Ok(()) }
    }

    fn owner_proposes(&self, by: Id, boot: Boot) -> Result<(), &'static str> {
        if self.row().owner != by {
            return Err("not the owner");
        }
        self.boot(self.rules.proposer_boot, by, boot)
    }

    fn grow(&self, by: Id, by_boot: Boot, node: Id, node_boot: Boot, seen: Version) -> Next {
        let row = self.row();
        self.owner_proposes(by, by_boot)?;
        self.boot(self.rules.grown_boot, node, node_boot)?;
        self.fresh(row.ver, seen)?;
        if row.in_sync.has(node) {
            return Err("already in sync");
        }
        if row.ack == Ack::Local && row.order.is_none_or(|order| order.to != node) {
            return Err("ack is local");
        }
        let next = Row { in_sync: row.in_sync.with(node), removed: None, ..row };
        Ok((next, "grow"))
    }

    fn shrink(&self, by: Id, by_boot: Boot, node: Id, seen: Version) -> Next {
        let row = self.row();
        self.owner_proposes(by, by_boot)?;
        self.fresh(row.ver, seen)?;
        if node == row.owner {
            return Err("is the owner");
        }
        let mut next = Row { in_sync: row.in_sync.without(node), ..row };
        if self.rules.withdraw_new_ver {
            next.ver = self.version;
        }
        if !row.in_sync.has(node) {
            if !self.rules.leaver_keeps_removed {
                next.removed = None;
            }
            return Ok((next, "shrink of no member"));
        }
        let branch = self.remember(&mut next, node);
        Ok((next, branch))
    }

    /// Records that the owner goes on without a member.
    fn remember(&self, next: &mut Row, node: Id) -> &'static str {
        let wanted = next.followers.has(node) || !self.rules.shrunk_if_wanted;
        if wanted && self.rules.shrunk_is_remembered {
            next.removed = Some(Removal { node, cause: Cause::Shrunk, at: self.version });
            return "shrink of a follower";
        }
        if self.rules.leaver_keeps_removed {
            next.weaken_removed(self.rules);
        } else {
            next.removed = None;
        }
        "shrink of a member that is not wanted"
    }

    /// Local keeps the owner in sync, and the target of a move, which is acknowledged in sync.
    fn set_ack(&self, ack: Ack) -> (Row, &'static str) {
        let row = self.row();
        let mut next = Row { ack, ..row };
        if ack == Ack::InSync {
            return (next, "ack in-sync");
        }
        let target = row.order.map(|order| order.to);
        let leaving = row.in_sync.iter().filter(|id| *id != row.owner && target != Some(*id));
        let leaving = leaving.fold(Set::default(), Set::with);
        next.in_sync = Set(row.in_sync.0 & !leaving.0);
        let wanted = leaving.and(row.followers).iter().next();
        match wanted.or_else(|| leaving.iter().next()) {
            None => (next, "ack local, nobody leaves"),
            Some(node) => {
                self.remember(&mut next, node);
                (next, "ack local, members leave")
            }
        }
    }

    fn set_followers(&self, followers: Set) -> Next {
        let row = self.row();
        if followers.has(row.owner) {
            return Err("is the owner");
        }
        let dropped = |id| row.followers.has(id) && !followers.has(id);
        let forgets = self.rules.dropped_is_forgotten;
        let removed = row.removed.filter(|removed| !(forgets && dropped(removed.node)));
        let branch = if removed == row.removed { "followers" } else { "followers, one forgotten" };
        Ok((Row { followers, removed, ..row }, branch))
    }

    fn begin_move(&self, id: MoveId, to: Id) -> Next {
        let row = self.row();
        if row.owner == to {
            return Err("is the owner");
        }
        let order = Order { id, to };
        match row.order {
            Some(other) if other != order => Err("another move"),
            _ => Ok((Row { order: Some(order), ..row }, "begin move")),
        }
    }

    fn target(&self, id: MoveId) -> Result<Id, &'static str> {
        let order = self.row().order.ok_or("no move")?;
        if order.id == id { Ok(order.to) } else { Err("another move") }
    }

    fn commit_move(&self, by: Id, by_boot: Boot, id: MoveId, seen: Version) -> Next {
        let row = self.row();
        self.owner_proposes(by, by_boot)?;
        let to = self.target(id)?;
        self.fresh(row.epoch, seen)?;
        if self.rules.committed_in_sync && !row.in_sync.has(to) {
            return Err("not in sync");
        }
        let mut next = Row { followers: row.followers.without(to), ..row };
        self.hand_to(&mut next, to);
        Ok((next, "commit move"))
    }

    fn abort_move(&self, id: MoveId) -> Next {
        let row = self.row();
        self.target(id)?;
        let mut next = Row { order: None, ..row };
        if self.rules.abort_new_epoch {
            next.epoch = self.version;
        }
        Ok((next, "abort move"))
    }

    fn promote(&self, to: Id, to_boot: Boot, seen: Version) -> Next {
        let row = self.row();
        self.boot(self.rules.promoted_boot, to, to_boot)?;
        if row.owner == to {
            return Err("is the owner");
        }
        if self.rules.promoted_in_sync && !row.in_sync.has(to) {
            return Err("not in sync");
        }
        self.fresh(row.epoch, seen)?;
        let mut next = row;
        self.hand_to(&mut next, to);
        Ok((next, "promote"))
    }

    /// The old owner stays in sync: only the new one may let it go.
    fn hand_to(&self, next: &mut Row, to: Id) {
        let old = next.owner;
        next.in_sync = next.in_sync.with(to);
        if !self.rules.old_owner_stays {
            next.in_sync = next.in_sync.without(old);
        }
        next.removed = next.removed.filter(|removed| removed.node != to);
        next.pass_to(self.rules, to, self.version);
    }

    fn take_over(&self, to: Id, to_boot: Boot, seen: Version) -> Next {
        let row = self.row();
        self.boot(self.rules.taker_boot, to, to_boot)?;
        if row.owner == to {
            return Err("is the owner");
        }
        if self.rules.taken_alone {
            if row.ack == Ack::InSync {
                return Err("ack is in-sync");
            }
            if !row.in_sync.only(row.owner) {
                return Err("others are in sync");
            }
        }
        if !row.followers.has(to) {
            return Err("not a follower");
        }
        self.fresh(row.ver, seen)?;
        Ok((self.taken(to), "take over"))
    }

    fn taken(&self, to: Id) -> Row {
        let mut next = Row { in_sync: Set::of(&[to]), removed: None, ..self.row() };
        next.pass_to(self.rules, to, self.version);
        next
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { owner, epoch, ver, in_sync, followers, .. } = self;
        write!(f, "{owner} epoch {epoch} ver {ver} in-sync {in_sync} followers {followers}")?;
        if let Some(Removal { node, cause, at }) = self.removed {
            let cause = if cause == Cause::Shrunk { "shrunk" } else { "rebooted" };
            write!(f, " removed {node} {cause} {at}")?;
        }
        if self.ack == Ack::Local {
            f.write_str(" ack local")?;
        }
        self.order.map_or(Ok(()), |Order { id, to }| write!(f, " move {id} to {to}"))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Change::Start { node, boot, kept, alone, incomplete } => {
                write!(f, "start of {node}/{boot} kept {kept:?}")?;
                if let Some(at) = alone {
                    write!(f, " alone {at}")?;
                }
                f.write_str(if incomplete { " incomplete" } else { "" })
            }
            Change::Grow { by, by_boot, node, node_boot, seen } => {
                write!(f, "{by}/{by_boot} grows {node}/{node_boot} seen {seen}")
            }
            Change::Shrink { by, by_boot, node, seen } => {
                write!(f, "{by}/{by_boot} shrinks {node} seen {seen}")
            }
            Change::SetAck(Ack::InSync) => f.write_str("ack in-sync"),
            Change::SetAck(Ack::Local) => f.write_str("ack local"),
            Change::SetFollowers(followers) => write!(f, "followers {followers}"),
            Change::BeginMove { id, to } => write!(f, "begin move {id} to {to}"),
            Change::CommitMove { by, by_boot, id, seen } => {
                write!(f, "{by}/{by_boot} commits move {id} seen {seen}")
            }
            Change::AbortMove { id } => write!(f, "abort move {id}"),
            Change::Promote { to, to_boot, seen } => {
                write!(f, "promote {to}/{to_boot} seen {seen}")
            }
            Change::TakeOver { to, to_boot, seen } => {
                write!(f, "{to}/{to_boot} takes over seen {seen}")
            }
            Change::Force { to } => write!(f, "force to {to}"),
        }
    }
}
