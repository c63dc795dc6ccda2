//! Raft's messages over `Calls`: openraft's view of the other nodes.
//!
//! Not links, not frames (`peer/`). No retries: openraft makes them.
//!
//! Openraft gives an AppendEntries one heartbeat interval and then drops the future. On a link
//! whose round trip is longer, no answer would ever be in time; so a call outlives the future, and
//! the next request that the late answer speaks for gets it.
//! Invariant: an answer is used only for a request of the same vote and the same previous entry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{
    InstallSnapshotError, NetworkError, PayloadTooLarge, RPCError, RaftError, RemoteError,
    SnapshotMismatch, Unreachable,
};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, LogId, RaftNetwork, RaftNetworkFactory, SnapshotSegmentId, Vote};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use slots::NodeId;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::codec::{self, BadBytes};
use super::tuning::{APPEND_BYTES, SILENT_AFTER};
use super::types::{Member, TableRaft};
use super::wire::SnapshotAnswer;
use crate::peer::{CallError, CallKind, Calls};

/// How long an AppendEntries may be under way before it is sent again: as long as round trips may
/// be for Raft to work at all, and below the time after which a follower elects.
const APPEND_PATIENCE: Duration = Duration::from_secs(1);
/// Pause after a node was found unreachable. A node that comes back is heard within this time.
const UNREACHABLE_PAUSE: Duration = Duration::from_millis(200);

/// When each node last answered one of this node's messages.
#[derive(Default)]
pub(super) struct Heard(Mutex<BTreeMap<NodeId, Instant>>);

impl Heard {
    fn note(&self, node: NodeId) {
        self.0.lock().insert(node, Instant::now());
    }

    /// Whether a node has answered lately.
    pub(super) fn lately(&self, node: NodeId) -> bool {
        self.0.lock().get(&node).is_some_and(|at| at.elapsed() < SILENT_AFTER)
    }

    /// Forgets the nodes that are not among the members.
    pub(super) fn keep(&self, is_member: impl Fn(NodeId) -> bool) {
        self.0.lock().retain(|node, _| is_member(*node));
    }
}

/// Makes the way to each node.
pub(super) struct Network {
    pub(super) calls: Arc<dyn Calls>,
    pub(super) heard: Arc<Heard>,
}

impl RaftNetworkFactory<TableRaft> for Network {
    type Network = Target;

    async fn new_client(&mut self, target: Member, _node: &EmptyNode) -> Target {
        let (calls, heard) = (Arc::clone(&self.calls), Arc::clone(&self.heard));
        Target { to: target.0, calls, heard, under_way: None }
    }
}

/// The way to one node.
pub(super) struct Target {
    to: NodeId,
    calls: Arc<dyn Calls>,
    heard: Arc<Heard>,
    under_way: Option<UnderWay>,
}

/// An AppendEntries that is not answered yet.
struct UnderWay {
    sent: Span,
    answer: JoinHandle<Result<AppendEntriesResponse<Member>, CallFailed>>,
}

/// What an AppendEntries spoke of. With the same vote, entries between the same two ids are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    vote: Vote<Member>,
    prev: Option<LogId<Member>>,
    last: Option<LogId<Member>>,
}

impl Span {
    fn of(request: &AppendEntriesRequest<TableRaft>) -> Span {
        let last = request.entries.last().map(|entry| entry.log_id);
        Span { vote: request.vote, prev: request.prev_log_id, last: last.or(request.prev_log_id) }
    }

    /// Does the answer to `self` speak for `later` too, for all of it or for a first part? One
    /// without entries says nothing of entries.
    fn speaks_for(&self, later: &Span) -> bool {
        self.vote == later.vote
            && self.prev == later.prev
            && (self.last > self.prev || self.last == later.last)
    }
}

/// Why a message has no answer.
#[derive(Clone, Debug)]
enum CallFailed {
    Call(CallError),
    Body(BadBytes),
}

impl std::fmt::Display for CallFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallFailed::Call(CallError::NotConnected) => f.write_str("not connected"),
            CallFailed::Call(CallError::Busy) => f.write_str("the queue to it is full"),
            CallFailed::Call(CallError::NoAnswer) => f.write_str("no answer in time"),
            CallFailed::Call(CallError::Refused(why)) => write!(f, "refused: {why}"),
            CallFailed::Body(bad) => bad.fmt(f),
        }
    }
}

impl std::error::Error for CallFailed {}

impl<E: std::error::Error> From<CallFailed> for RPCError<Member, EmptyNode, E> {
    /// What was not answered may be sent again at once; what could not be sent, later.
    fn from(failed: CallFailed) -> Self {
        match failed {
            CallFailed::Call(CallError::NoAnswer) => NetworkError::new(&failed).into(),
            _ => Unreachable::new(&failed).into(),
        }
    }
}

/// Sends one message and waits for its answer.
async fn ask<A: DeserializeOwned>(
    calls: Arc<dyn Calls>,
    heard: Arc<Heard>,
    to: NodeId,
    kind: CallKind,
    body: Vec<u8>,
    patience: Duration,
) -> Result<A, CallFailed> {
    let answer = calls.call(to, kind, body, patience).await.map_err(CallFailed::Call)?;
    let answer = codec::decode(&answer).map_err(CallFailed::Body)?;
    heard.note(to);
    Ok(answer)
}

impl Target {
    fn ask<A: DeserializeOwned>(
        &self,
        kind: CallKind,
        body: Vec<u8>,
        patience: Duration,
    ) -> impl Future<Output = Result<A, CallFailed>> + Send + use<A> {
        ask(Arc::clone(&self.calls), Arc::clone(&self.heard), self.to, kind, body, patience)
    }
}

fn body_of<T: Serialize>(message: &T) -> Result<Vec<u8>, CallFailed> {
    codec::encode(message).map_err(CallFailed::Body)
}

impl RaftNetwork<TableRaft> for Target {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TableRaft>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Member>, RPCError<Member, EmptyNode, RaftError<Member>>> {
        let wanted = Span::of(&rpc);
        if self.under_way.as_ref().is_none_or(|call| !call.sent.speaks_for(&wanted)) {
            let entries = rpc.entries.len() as u64;
            let body = match body_of(&rpc) {
                Ok(body) if body.len() <= APPEND_BYTES || entries == 1 => body,
                Err(failed) if entries <= 1 => return Err(failed.into()),
                _ => return Err(PayloadTooLarge::new_entries_hint((entries / 2).max(1)).into()),
            };
            let answer = tokio::spawn(self.ask(CallKind::RaftAppend, body, APPEND_PATIENCE));
            self.under_way = Some(UnderWay { sent: wanted, answer });
        }
        // It stays here when openraft drops this future.
        let Some(call) = &mut self.under_way else {
            return Err(CallFailed::Call(CallError::NoAnswer).into());
        };
        let answer = (&mut call.answer).await;
        let sent = call.sent;
        self.under_way = None;
        match answer.unwrap_or(Err(CallFailed::Call(CallError::NoAnswer)))? {
            AppendEntriesResponse::Success if sent.last < wanted.last => {
                Ok(AppendEntriesResponse::PartialSuccess(sent.last))
            }
            answer => Ok(answer),
        }
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<TableRaft>,
        option: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<Member>,
        RPCError<Member, EmptyNode, RaftError<Member, InstallSnapshotError>>,
    > {
        let body = body_of(&rpc)?;
        match self.ask(CallKind::RaftSnapshot, body, option.hard_ttl()).await? {
            SnapshotAnswer::Taken(vote) => Ok(InstallSnapshotResponse { vote }),
            SnapshotAnswer::FromTheStart => {
                let id = rpc.meta.snapshot_id;
                let mismatch = SnapshotMismatch {
                    expect: SnapshotSegmentId { id: id.clone(), offset: 0 },
                    got: SnapshotSegmentId { id, offset: rpc.offset },
                };
                let error = RaftError::APIError(InstallSnapshotError::SnapshotMismatch(mismatch));
                Err(RemoteError::new(Member(self.to), error).into())
            }
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Member>,
        option: RPCOption,
    ) -> Result<VoteResponse<Member>, RPCError<Member, EmptyNode, RaftError<Member>>> {
        let body = body_of(&rpc)?;
        Ok(self.ask(CallKind::RaftVote, body, option.hard_ttl()).await?)
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(UNREACHABLE_PAUSE))
    }
}
