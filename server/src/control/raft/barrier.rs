//! Reading the log's end: how far a node must have applied the log to know what others were told.
//!
//! Not a lease: nothing is known for longer than the answer takes (DESIGN 7: no authority).
//!
//! ```text
//!  nobody leads ------wait------+
//!  we lead ----a round of heartbeats----> index --> applied here --> caught up
//!  another leads ---ask it---> index ----^
//! ```
//! Invariant: an index is at least that of every entry whose proposer was answered before. But on
//! links too slow for openraft's round a leader that is followed answers alone, and one that was
//! just deposed may say too little: changes carry the version they were judged at.

use std::sync::Arc;
use std::time::Duration;

use openraft::LogIdOptionExt;
use openraft::error::{CheckIsLeaderError, RaftError};
use slots::{NodeId, TableVersion};
use tokio::time::Instant;

use super::cluster::{Cluster, Lead, read, write};
use super::codec;
use super::propose::RETRY_PAUSE;
use super::wire::{ReadAnswer, ReadCall};
use crate::control::{CATCH_UP_PATIENCE, CaughtUp};
use crate::peer::CallKind;

/// For one question: a round of heartbeats takes 100 ms, and a leader that is gone without a word
/// is given up after it.
const ASK_PATIENCE: Duration = Duration::from_secs(1);

impl Cluster {
    /// See `TableLog::catch_up`. With too many proposals under way nobody can say.
    pub(super) fn begin_to_catch_up(&self, done: CaughtUp) {
        let permit = Arc::clone(&self.in_flight).try_acquire_owned();
        let (Ok(permit), Some(cluster)) = (permit, self.own.upgrade()) else {
            return done(false);
        };
        self.runtime.spawn(async move {
            let outcome = cluster.catch_up_until(Instant::now() + CATCH_UP_PATIENCE).await;
            drop(permit);
            done(outcome);
        });
    }

    pub(super) async fn catch_up_until(&self, deadline: Instant) -> bool {
        loop {
            let end = match self.lead() {
                Lead::Mine => self.end_here(deadline).await,
                Lead::Of(leader) => self.end_at(leader, deadline).await,
                Lead::Nobody => None,
            };
            if let Some(end) = end {
                return self.applied(end, deadline).await;
            }
            if Instant::now() + RETRY_PAUSE >= deadline {
                return false;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// What this node, if it leads, knows to be the end.
    async fn end_here(&self, deadline: Instant) -> Option<TableVersion> {
        let asked = tokio::time::timeout_at(deadline, self.raft.get_read_log_id()).await;
        let index = match asked.ok()? {
            Ok((end, _)) => end.index(),
            Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_)))
                if self.lead() == Lead::Mine =>
            {
                self.metrics.borrow().last_applied.index()
            }
            Err(_) => return None,
        };
        index.map(TableVersion)
    }

    async fn end_at(&self, leader: NodeId, deadline: Instant) -> Option<TableVersion> {
        let patience = deadline.saturating_duration_since(Instant::now()).min(ASK_PATIENCE);
        let body = codec::encode(&ReadCall { patience_ms: patience.as_millis() as u64 }).ok()?;
        let answer = tokio::select! {
            answer = self.calls.call(leader, CallKind::Read, body, patience) => answer.ok()?,
            () = self.another_leads(leader) => return None,
        };
        match codec::decode(&answer).ok()? {
            ReadAnswer::End { version } => Some(TableVersion(version)),
            ReadAnswer::NotLeader => None,
        }
    }

    /// Another node's question.
    pub(super) async fn take_read(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let ReadCall { patience_ms } = read(body)?;
        let patience = Duration::from_millis(patience_ms).min(ASK_PATIENCE);
        write(&match self.end_here(Instant::now() + patience).await {
            Some(TableVersion(version)) => ReadAnswer::End { version },
            None => ReadAnswer::NotLeader,
        })
    }
}
