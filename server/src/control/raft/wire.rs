//! What nodes say to each other about the log, besides Raft's own messages.
//!
//! Not the frames (`peer/`), not Raft's messages (`network`), not CLUSTER MEET (`meet`).
//!
//! Invariant: variants and fields are only added at the end; a node of the version before reads
//! what it knows.

use openraft::Vote;
use serde::{Deserialize, Serialize};
use slots::{NodeId, Verdicts};

use super::types::Member;
use crate::control::ledger::Entry;
use crate::control::orders::Order;

/// A change, forwarded to the leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ProposeCall {
    /// The entry as the proposer made it.
    pub(super) entry: Entry,
    /// How long the proposer waits, ms.
    pub(super) patience_ms: u64,
}

/// What became of a forwarded change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum ProposeAnswer {
    /// Committed and applied at the leader.
    Applied { version: u64, verdicts: Verdicts },
    /// Not proposed: another node leads, or nobody.
    NotLeader,
    /// Not proposed: too many proposals are under way.
    Busy,
    /// Proposed, and the time was up or leadership lost before it was known to be committed.
    Unknown,
}

/// How far must a node have applied the log to know what was agreed on?
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ReadCall {
    /// How long the caller waits, ms.
    pub(super) patience_ms: u64,
}

/// The answer to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum ReadAnswer {
    /// Up to this version.
    End { version: u64 },
    /// Another node leads, or nobody, or no majority follows.
    NotLeader,
}

/// An order about members and votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum LogOrder {
    /// See `Order::Remove`.
    Remove { node: NodeId },
    /// See `Order::Lost`.
    Lost { node: NodeId, accept_loss: bool },
    /// See `Order::ReplaceVoter`.
    ReplaceVoter { old: NodeId, new: Option<NodeId> },
}

impl LogOrder {
    /// The part of an order that the log's leader carries out; `None`: it is for the node.
    pub(super) fn of(order: &Order) -> Option<LogOrder> {
        Some(match *order {
            Order::Remove { node } => LogOrder::Remove { node },
            Order::Lost { node, accept_loss } => LogOrder::Lost { node, accept_loss },
            Order::ReplaceVoter { old, new } => LogOrder::ReplaceVoter { old, new },
            Order::Meet { .. } | Order::Reset { .. } | Order::Recover => return None,
        })
    }
}

/// An order, forwarded to the leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct OrderCall {
    pub(super) order: LogOrder,
    pub(super) actor: String,
    /// Did an earlier turn change anything, or may it have?
    pub(super) changed: bool,
    /// How long the caller waits, ms.
    pub(super) patience_ms: u64,
}

/// How far the leader came with an order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum OrderAnswer {
    /// To the end.
    Done { changed: bool, text: String },
    /// Not possible.
    Refused(String),
    /// Another node leads, or nobody.
    NotLeader { changed: bool },
    /// Not at its end when the time was up, and what it waits for.
    Unfinished { changed: bool, why: String },
}

/// The answer to one piece of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum SnapshotAnswer {
    /// Taken; the receiver's vote.
    Taken(Vote<Member>),
    /// Out of order: the first piece is expected.
    FromTheStart,
}
