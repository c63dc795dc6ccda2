//! Proposals: to the leader, wherever it is, until they are applied here or the time is up.
//!
//! Not the rules of the table: a refused change is an answer too.
//!
//! ```text
//!  nobody leads ------wait----+
//!  we lead ----write----------+--> applied there --> applied here --> verdicts
//!  another leads --forward----+--> not proposed: again; of unknown fate: again if `may_repeat`
//! ```
//! Invariant: what is not known to have failed is never said to have failed.

use std::time::Duration;

use slots::{NodeId, Proposal, Proposer, TableChange, TableVersion, Verdicts};
use tokio::time::Instant;

use super::cluster::{Cluster, Lead, read, write};
use super::codec::{self, BadBytes, MAX_BODY_BYTES};
use super::disk::MAX_ENTRY_BYTES;
use super::wire::{ProposeAnswer, ProposeCall};
use crate::control::ledger::{Entry, MAX_ACTOR_BYTES};
use crate::control::{CaughtUp, ProposeError, Proposed, TableLog};
use crate::peer::{CallError, CallKind};
use crate::vital::vital;

/// For one proposal: a change of leader takes up to 2.4 s, and the next one twice that.
pub const PROPOSE_PATIENCE: Duration = Duration::from_secs(5);
/// Proposals of this node and forwarded to it that are under way: each holds an entry (up to
/// 400 KiB, mostly 100 bytes); a table changes a few times a second.
pub const MAX_PROPOSALS_IN_FLIGHT: usize = 256;

/// Most bytes of an entry that is proposed: five times the largest that a whole table needs, and
/// sent alone it fits a body with all that is around it. What is in the log can be sent.
pub const MAX_PROPOSAL_BYTES: usize = 2 << 20;
const _: () = assert!(MAX_PROPOSAL_BYTES <= MAX_ENTRY_BYTES);
const _: () = assert!(2 * MAX_PROPOSAL_BYTES <= MAX_BODY_BYTES);

/// One attempt at another node, when the change may be proposed again: a leader that is gone
/// without a word is given up for the next one.
const FORWARD_PATIENCE: Duration = Duration::from_secs(2);
/// Between attempts: a fraction of an election.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// What one attempt came to.
pub(super) enum Fate {
    /// Committed, and applied at the leader.
    Applied(TableVersion, Verdicts),
    /// Nothing was proposed.
    NotProposed,
    /// Nobody knows.
    Unknown,
}

/// May a change whose fate is unknown be proposed again unchanged (PROTOCOL R5)? Then applying it
/// twice does what applying it once does: a change with `seen` finds its slots changed; a node
/// or cluster that is there refuses to be there again; a boot is not newer than itself; settings
/// and rows of nodes are set to what they are; an aborted move is no more. Not so `BeginMove`,
/// which would revive a move that was cancelled in between, and `ForceTakeover`, which would take
/// again what was given away since.
pub const fn may_repeat(change: &TableChange) -> bool {
    match change {
        TableChange::AssignSlots { .. }
        | TableChange::UnassignSlots { .. }
        | TableChange::GrowInSync { .. }
        | TableChange::ShrinkInSync { .. }
        | TableChange::CommitMove { .. }
        | TableChange::Promote { .. }
        | TableChange::TakeOver { .. }
        | TableChange::InitCluster { .. }
        | TableChange::AddNode { .. }
        | TableChange::RemoveNode { .. }
        | TableChange::DropTombstone { .. }
        | TableChange::NodeBoot { .. }
        | TableChange::SetCluster { .. }
        | TableChange::SetAck { .. }
        | TableChange::SetFollowers { .. }
        | TableChange::Rename { .. }
        | TableChange::SetAddress { .. }
        | TableChange::Label { .. }
        | TableChange::Weight { .. }
        | TableChange::Drain { .. }
        | TableChange::Undrain { .. }
        | TableChange::AbortMove { .. } => true,
        TableChange::BeginMove { .. } | TableChange::ForceTakeover { .. } => false,
    }
}

impl TableLog for Cluster {
    /// More than `MAX_PROPOSALS_IN_FLIGHT` at once are refused at once, as without a quorum:
    /// the change was not made.
    fn propose(&self, change: TableChange, actor: &str, done: Proposed) {
        let permit = std::sync::Arc::clone(&self.in_flight).try_acquire_owned();
        let (Ok(permit), Some(cluster)) = (permit, self.own.upgrade()) else {
            return done(Err(ProposeError::NoQuorum));
        };
        let actor = actor.to_owned();
        self.runtime.spawn(vital("propose", async move {
            let deadline = Instant::now() + PROPOSE_PATIENCE;
            let outcome = cluster.propose_until(change, &actor, deadline).await;
            drop(permit);
            done(outcome);
        }));
    }

    fn catch_up(&self, done: CaughtUp) {
        self.begin_to_catch_up(done);
    }
}

impl Cluster {
    /// The change as an entry of this node.
    pub(super) fn entry(&self, change: TableChange, actor: &str) -> Entry {
        let end =
            (0..=MAX_ACTOR_BYTES.min(actor.len())).rev().find(|at| actor.is_char_boundary(*at));
        let by = Proposer { node: self.me.node, boot: self.me.boot };
        Entry {
            at_ms: self.host.unix_ms(),
            actor: actor[..end.unwrap_or(0)].to_owned(),
            proposal: Proposal { cluster: self.id, by, change },
        }
    }

    /// Proposes until the change is applied here. A refusal of a change that was proposed more
    /// than once may be due to itself: then the outcome is unknown.
    pub(super) async fn propose_until(
        &self,
        change: TableChange,
        actor: &str,
        deadline: Instant,
    ) -> Result<Verdicts, ProposeError> {
        let repeats = may_repeat(&change);
        let entry = self.entry(change, actor);
        if let Err(BadBytes::TooLong { limit, got }) = codec::pack::<MAX_PROPOSAL_BYTES>(&entry) {
            return Err(ProposeError::TooLong { limit, got });
        }
        let mut in_doubt = false;
        loop {
            let fate = match self.lead() {
                Lead::Mine => self.write_here(entry.clone(), deadline).await,
                Lead::Of(leader) => self.forward(leader, &entry, repeats, deadline).await,
                Lead::Nobody => Fate::NotProposed,
            };
            match fate {
                Fate::Applied(version, verdicts) => {
                    let is_here = self.applied(version, deadline).await;
                    let is_clear = is_here && !(in_doubt && verdicts.all().is_err());
                    return if is_clear { Ok(verdicts) } else { Err(ProposeError::Unknown) };
                }
                Fate::Unknown if !repeats => return Err(ProposeError::Unknown),
                Fate::Unknown => in_doubt = true,
                Fate::NotProposed => {}
            }
            if Instant::now() + RETRY_PAUSE >= deadline {
                let known = !in_doubt;
                return Err(if known { ProposeError::NoQuorum } else { ProposeError::Unknown });
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Writes an entry to the log, if this node leads.
    pub(super) async fn write_here(&self, entry: Entry, deadline: Instant) -> Fate {
        if self.lead() != Lead::Mine {
            return Fate::NotProposed;
        }
        let written = tokio::time::timeout_at(deadline, self.raft.client_write(entry)).await;
        // Once it was given to the log, an error says nothing: an entry that was overwritten
        // here may have reached a node that leads later.
        match written {
            Ok(Ok(response)) => match response.data.verdicts {
                Some(verdicts) => Fate::Applied(TableVersion(response.data.version), verdicts),
                None => Fate::Unknown,
            },
            Ok(Err(_)) | Err(_) => Fate::Unknown,
        }
    }

    async fn forward(
        &self,
        leader: NodeId,
        entry: &Entry,
        repeats: bool,
        deadline: Instant,
    ) -> Fate {
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = if repeats { left.min(FORWARD_PATIENCE) } else { left };
        let patience_ms = patience.as_millis() as u64;
        let Ok(body) = codec::encode(&ProposeCall { entry: entry.clone(), patience_ms }) else {
            return Fate::NotProposed;
        };
        let call = self.calls.call(leader, CallKind::Propose, body, patience);
        let answered = tokio::select! {
            answer = call => answer,
            () = self.another_leads(leader), if repeats => Err(CallError::NoAnswer),
        };
        match answered {
            Ok(answer) => match codec::decode(&answer) {
                Ok(ProposeAnswer::Applied { version, verdicts }) => {
                    Fate::Applied(TableVersion(version), verdicts)
                }
                Ok(ProposeAnswer::NotLeader | ProposeAnswer::Busy) => Fate::NotProposed,
                Ok(ProposeAnswer::Unknown) | Err(_) => Fate::Unknown,
            },
            Err(CallError::NotConnected | CallError::Busy | CallError::Refused(_)) => {
                Fate::NotProposed
            }
            Err(CallError::NoAnswer) => Fate::Unknown,
        }
    }

    /// Waits until another node is known to lead: the one before will not answer for the log.
    pub(super) async fn another_leads(&self, than: NodeId) {
        let mut metrics = self.metrics.clone();
        let other = metrics.wait_for(|now| now.current_leader.is_some_and(|new| new.0 != than));
        if other.await.is_err() {
            // The log has ended; the call is given up by its own patience.
            std::future::pending::<()>().await;
        }
    }

    /// A change of another node. Refuses one that names another proposer than who sends it, an
    /// actor that is too long, and an entry that is.
    pub(super) async fn take_proposal(&self, from: NodeId, body: &[u8]) -> Result<Vec<u8>, String> {
        let ProposeCall { entry, patience_ms } = read(body)?;
        let by = entry.proposal.by.node;
        if by != from {
            return Err(format!("the change is of node {by}, the link is to node {from}"));
        }
        if entry.actor.len() > MAX_ACTOR_BYTES {
            let got = entry.actor.len();
            return Err(format!("an actor is at most {MAX_ACTOR_BYTES} bytes, got {got}"));
        }
        codec::pack::<MAX_PROPOSAL_BYTES>(&entry).map_err(|bad| format!("an entry of {bad}"))?;
        let Ok(_permit) = self.in_flight.try_acquire() else {
            return write(&ProposeAnswer::Busy);
        };
        let patience = Duration::from_millis(patience_ms).min(PROPOSE_PATIENCE);
        let answer = match self.write_here(entry, Instant::now() + patience).await {
            Fate::Applied(TableVersion(version), verdicts) => {
                ProposeAnswer::Applied { version, verdicts }
            }
            Fate::NotProposed => ProposeAnswer::NotLeader,
            Fate::Unknown => ProposeAnswer::Unknown,
        };
        write(&answer)
    }
}
