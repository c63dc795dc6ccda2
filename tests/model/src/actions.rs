//! Everything that can happen next, with its text. Scenarios are made of these lines.
//!
//! Not what it does: `step.rs`.
//!
//! Invariant: what is listed may be tried; two actions of one state have two texts.

use crate::node::{Frame, Op, PIECES, Part, Seal};
use crate::rules::Rules;
use crate::state::State;
use crate::table::{Ack, Change};
use crate::words::{Id, Kept, Write};
use crate::world::Limits;
use std::fmt;

/// Something that can happen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // The text of an action says what it is (`Display`).
pub enum Action {
    Write(Id),
    Send { from: Id, to: Id, all: bool },
    SendPiece { from: Id, to: Id, piece: u8 },
    Deliver { frame: Frame, again: bool },
    Lose(Frame),
    Reply { by: Id, write: Write },
    Read(Id),
    Commit(Change),
    Learn(Id),
    Skip(Id),
    Count { by: Id, node: Id },
    Grow { by: Id, node: Id },
    Shrink { by: Id, node: Id },
    GiveUp { by: Id, node: Id },
    Seal(Id),
    Unseal(Id),
    HandOver(Id),
    AskPromote(Id),
    AskTakeOver(Id),
    Order(Change),
    Sync(Id),
    Mark(Id),
    Free(Id),
    Crash { node: Id, kept: Kept },
    Grant { giver: Id, holder: Id },
    HolderLets { giver: Id, holder: Id },
    GiverLets { giver: Id, holder: Id },
}

/// What can happen in a state.
pub fn enabled(rules: &Rules, limits: &Limits, state: &State, out: &mut Vec<Action>) {
    let list = List { rules, limits, state };
    list.network(out);
    list.log(out);
    for id in Id::all() {
        list.node(id, out);
        list.grants(id, out);
        if state.owns(rules, id) {
            list.owner(id, out);
            for other in Id::all().filter(|other| *other != id) {
                list.owner_and(id, other, out);
            }
        }
    }
}

struct List<'a> {
    rules: &'a Rules,
    limits: &'a Limits,
    state: &'a State,
}

impl List<'_> {
    fn network(&self, out: &mut Vec<Action>) {
        for frame in &self.state.net {
            for again in [false, true] {
                out.push(Action::Deliver { frame: frame.clone(), again });
            }
            out.push(Action::Lose(frame.clone()));
        }
    }

    fn log(&self, out: &mut Vec<Action>) {
        let (state, spent, limits) = (self.state, &self.state.spent, self.limits);
        if state.version() < limits.versions {
            out.extend(state.proposed.keys().map(|change| Action::Commit(*change)));
        }
        if spent.orders < limits.orders {
            for change in self.orders() {
                if !state.proposed.contains_key(&change) {
                    out.push(Action::Order(change));
                }
            }
        }
    }

    fn orders(&self) -> Vec<Change> {
        let row = &self.state.newest().row;
        let others = || Id::all().filter(move |id| *id != row.owner);
        let mut orders: Vec<Change> = match row.order {
            Some(order) => vec![Change::AbortMove { id: order.id }],
            None => {
                let id = self.state.spent.orders;
                others().map(|to| Change::BeginMove { id, to }).collect()
            }
        };
        orders.push(Change::SetAck(match row.ack {
            Ack::InSync => Ack::Local,
            Ack::Local => Ack::InSync,
        }));
        for id in others() {
            let followers = row.followers;
            let next = if followers.has(id) { followers.without(id) } else { followers.with(id) };
            orders.push(Change::SetFollowers(next));
        }
        orders
    }

    fn node(&self, id: Id, out: &mut Vec<Action>) {
        let (state, rules, spent) = (self.state, self.rules, &self.state.spent);
        let node = state.node(id);
        if node.applied < state.version() {
            out.push(Action::Learn(id));
            if node.applied + 1 < state.version() {
                out.push(Action::Skip(id));
            }
        }
        let stage = rules.snapshot_synced && state.stage_is_whole(rules, id);
        if node.copy.synced < node.copy.last() || node.copy.unsynced_snapshot || stage {
            out.push(Action::Sync(id));
        }
        if state.may_free(rules, id) {
            out.push(Action::Free(id));
        }
        if spent.crashes < self.limits.crashes {
            let kinds = [Kept::All, Kept::Tail, Kept::Nothing];
            out.extend(kinds.map(|kept| Action::Crash { node: id, kept }));
        }
        let row = state.row(id);
        if spent.asks < self.limits.asks && state.started(rules, id) && row.owner != id {
            if row.in_sync.has(id) || !rules.promoted_in_sync {
                out.push(Action::AskPromote(id));
            }
            if row.followers.has(id) && (row.ack == Ack::Local || !rules.taken_alone) {
                out.push(Action::AskTakeOver(id));
            }
        }
    }

    fn grants(&self, giver: Id, out: &mut Vec<Action>) {
        let state = self.state;
        for holder in Id::all().filter(|holder| *holder != giver) {
            let held = state.grants.held[giver.at()][holder.at()];
            let given = state.grants.given[giver.at()][holder.at()];
            let version = state.node(giver).applied;
            let useful = state.owns(self.rules, holder) && held.is_none_or(|at| at != version);
            if useful && state.started(self.rules, giver) {
                out.push(Action::Grant { giver, holder });
            }
            if held.is_some() {
                out.push(Action::HolderLets { giver, holder });
            }
            if held.is_none() && given.is_some() {
                out.push(Action::GiverLets { giver, holder });
            }
        }
    }

    fn owner(&self, id: Id, out: &mut Vec<Action>) {
        let (state, rules) = (self.state, self.rules);
        let lead = state.lead(id);
        let halfway = state.node(id).copy.halves().next().is_some();
        if lead.seal == Seal::Open && (state.spent.writes < self.limits.writes || halfway) {
            out.push(Action::Write(id));
        }
        out.extend(state.replies(rules, id).map(|write| Action::Reply { by: id, write }));
        if state.may_answer_read(rules, id) && !state.node(id).copy.ops.is_empty() {
            out.push(Action::Read(id));
        }
        if state.is_alone(id) && state.node(id).alone.is_none_or(|at| at < state.row(id).ver) {
            out.push(Action::Mark(id));
        }
        if lead.seal == Seal::Open && state.may_seal(id) {
            out.push(Action::Seal(id));
        }
        if lead.seal == Seal::Sealed || lead.seal == Seal::HandedOver && !rules.log_opens {
            out.push(Action::Unseal(id));
        }
        if state.spent.proposals < self.limits.proposals && state.may_hand_over(rules, id) {
            out.push(Action::HandOver(id));
        }
    }

    fn owner_and(&self, by: Id, node: Id, out: &mut Vec<Action>) {
        let (state, rules) = (self.state, self.rules);
        if state.net.len() < self.limits.frames {
            if state.streams_to(by, node) {
                out.extend([false, true].map(|all| Action::Send { from: by, to: node, all }));
            }
            if state.may_send_piece(rules, by, node) {
                let piece = |piece| Action::SendPiece { from: by, to: node, piece };
                out.extend((0..PIECES as u8).map(piece));
            }
        }
        if state.may_count(by, node) {
            out.push(Action::Count { by, node });
        }
        if !rules.counted_until_ver && state.lead(by).extra.has(node) {
            out.push(Action::GiveUp { by, node });
        }
        if state.spent.proposals >= self.limits.proposals {
            return;
        }
        if state.may_grow(rules, by, node) {
            out.push(Action::Grow { by, node });
        }
        if state.row(by).in_sync.or(state.lead(by).extra).has(node) {
            out.push(Action::Shrink { by, node });
        }
    }
}

struct Text<'a>(&'a [Op]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (at, op) in self.0.iter().enumerate() {
            let half = match op.part {
                Part::Whole => "",
                Part::First => "<",
                Part::Second => ">",
            };
            write!(f, "{}w{}@{}{half}", if at == 0 { "" } else { " " }, op.write, op.epoch)?;
        }
        Ok(())
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Ops { from, to, epoch, base, prev, ops, safe } => {
                let (index, named) = prev;
                write!(f, "{to} gets groups of {from} epoch {epoch} base {base}")?;
                write!(f, " after {index}@{named}: {} (safe {safe})", Text(ops))
            }
            Frame::Ack { from, to, epoch, acked } => {
                write!(f, "{to} gets ack of {from}/{} epoch {epoch}", acked.boot)?;
                write!(f, " up to {} (table {})", acked.index, acked.version)
            }
            Frame::Piece { from, to, epoch, piece, image } => {
                write!(f, "{to} gets piece {piece} of {from} epoch {epoch}: {}", Text(image))
            }
            Frame::Handover { from, to, id, epoch } => {
                write!(f, "{to} gets handover of {from} move {id} epoch {epoch}")
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Write(by) => write!(f, "{by} executes a write"),
            Action::Send { from, to, all: false } => write!(f, "{from} sends news to {to}"),
            Action::Send { from, to, all: true } => write!(f, "{from} sends all to {to}"),
            Action::SendPiece { from, to, piece } => {
                write!(f, "{from} sends piece {piece} to {to}")
            }
            Action::Deliver { frame, again: false } => write!(f, "{frame}"),
            Action::Deliver { frame, again: true } => write!(f, "{frame}, not the last time"),
            Action::Lose(frame) => write!(f, "lost: {frame}"),
            Action::Reply { by, write } => write!(f, "{by} replies OK to w{write}"),
            Action::Read(by) => write!(f, "{by} answers a read"),
            Action::Commit(change) => write!(f, "log: {change}"),
            Action::Learn(id) => write!(f, "{id} applies the next entry"),
            Action::Skip(id) => write!(f, "{id} gets the newest table"),
            Action::Count { by, node } => write!(f, "{by} begins to count {node}"),
            Action::Grow { by, node } => write!(f, "{by} proposes to grow {node}"),
            Action::Shrink { by, node } => write!(f, "{by} proposes to shrink {node}"),
            Action::GiveUp { by, node } => write!(f, "{by} gives up counting {node}"),
            Action::Seal(by) => write!(f, "{by} seals"),
            Action::Unseal(by) => write!(f, "{by} unseals"),
            Action::HandOver(by) => write!(f, "{by} sends handover and proposes the commit"),
            Action::AskPromote(id) => write!(f, "{id} asks to be promoted"),
            Action::AskTakeOver(id) => write!(f, "{id} asks to take over"),
            Action::Order(change) => write!(f, "operator: {change}"),
            Action::Sync(id) => write!(f, "{id} syncs"),
            Action::Mark(id) => write!(f, "{id} marks itself alone"),
            Action::Free(id) => write!(f, "{id} frees its copy"),
            Action::Crash { node, kept } => write!(f, "{node} crashes and keeps {kept:?}"),
            Action::Grant { giver, holder } => write!(f, "{giver} grants reads to {holder}"),
            Action::HolderLets { giver, holder } => {
                write!(f, "{holder}'s grant from {giver} runs out")
            }
            Action::GiverLets { giver, holder } => {
                write!(f, "{giver} counts no grant to {holder} any more")
            }
        }
    }
}
