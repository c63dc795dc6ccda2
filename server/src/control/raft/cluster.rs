//! One cluster's log as one node takes part in it: start, founding, calls of other nodes, view.
//!
//! Not the node's life (data directory, boot evidence, which cluster): that is the caller's.
//!
//! ```text
//!  start --found--> a cluster of this node alone ----+
//!    |                                               +--> shutdown; or ended (the disk failed)
//!    +--(another node adds us: Raft finds us)--------+
//! ```
//! Invariant: a message is taken only from the node it claims to be of; the log is driven by one
//! task; nothing here waits for a room.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest,
};
use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{EmptyNode, Raft, RaftMetrics, ServerState, StorageError, Vote};
use parking_lot::Mutex;
use slots::{
    ClusterId, ClusterSettings, Endpoint, NewNode, NodeId, NodeState, SlotTable, TableChange,
    TableVersion,
};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::codec;
use super::incoming::{Incoming, Taken};
use super::meeting::Meeting;
use super::network::{Heard, Network};
use super::orders::{MAX_ORDERS_IN_FLIGHT, VoteOrders};
use super::propose::MAX_PROPOSALS_IN_FLIGHT;
use super::steward;
use super::tuning::{self, QUORUM_AFTER, SETTLED_AFTER};
use super::types::{Member, TableRaft};
use super::wire::SnapshotAnswer;
use crate::control::ProposeError;
use crate::control::orders::View;
use crate::control::seat::Identity;
use crate::peer::{Answers, Boxed, CallKind, Calls};
use crate::vital::vital;

/// For the founding: an election of one and two entries.
const FOUND_PATIENCE: Duration = Duration::from_secs(10);

/// What the log needs of its node.
pub trait Host: Send + Sync {
    /// Wall clock, unix ms: for history only.
    fn unix_ms(&self) -> u64;
    /// Keys in the slots this node owns.
    fn keys(&self) -> u64;
    /// A majority has taken away the vote of this node, which was started with `may_vote` false:
    /// it may be given another. To be on disk when this returns.
    fn vote_taken(&self);
    /// A node asked to become one with us, and it is this node that must join it: the node now
    /// gives itself the order to meet the node at `bus`. Must not block.
    fn join_back(&self, from: NodeId, bus: Endpoint);
}

/// What a cluster is started with.
pub struct ClusterStart<L, M> {
    /// This start of this node.
    pub identity: Identity,
    /// The cluster: a new id for a node that is to found one.
    pub cluster: ClusterId,
    /// The log's store.
    pub log: L,
    /// Bytes of the store's entries that no snapshot has replaced. Must not block.
    pub log_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// False: what this node had promised in the log may be lost, and it gives no vote until it has
    /// none (`Host::vote_taken`) or is the only voter.
    pub may_vote: bool,
    /// The table's machine. It must show each version in `table` before `apply` and
    /// `install_snapshot` return, and after the node's own rooms know it.
    pub machine: M,
    /// The table as applied, the one restored at the start included.
    pub table: watch::Receiver<Arc<SlotTable>>,
    /// The way to other nodes.
    pub calls: Arc<dyn Calls>,
    /// The node.
    pub host: Arc<dyn Host>,
}

/// Why the log did not start: its store failed or is damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartError(pub String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the table's log does not start: {}", self.0)
    }
}

impl std::error::Error for StartError {}

/// Why a cluster was not founded. It may be tried again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FoundError {
    /// The log did not come to life.
    Log(String),
    /// The table refused, with its reason.
    Refused(slots::ChangeRefused),
    /// An entry came to nothing.
    Proposal(ProposeError),
}

impl fmt::Display for FoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoundError::Log(why) => write!(f, "the cluster is not founded: {why}"),
            FoundError::Refused(why) => write!(f, "the cluster is not founded: {why}"),
            FoundError::Proposal(why) => write!(f, "the cluster is not founded: {why:?}"),
        }
    }
}

impl std::error::Error for FoundError {}

/// Who leads, as far as this node knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lead {
    /// This node, and a majority acknowledged it lately.
    Mine,
    /// Another node.
    Of(NodeId),
    /// Nobody, or nobody knows.
    Nobody,
}

/// One cluster's log on this node.
pub struct Cluster {
    pub(super) own: Weak<Cluster>,
    pub(super) raft: Raft<TableRaft>,
    pub(super) metrics: watch::Receiver<RaftMetrics<Member, EmptyNode>>,
    pub(super) me: Identity,
    pub(super) id: ClusterId,
    pub(super) table: watch::Receiver<Arc<SlotTable>>,
    pub(super) calls: Arc<dyn Calls>,
    pub(super) host: Arc<dyn Host>,
    pub(super) heard: Arc<Heard>,
    pub(super) in_flight: Arc<Semaphore>,
    pub(super) orders_in_flight: Arc<Semaphore>,
    pub(super) vote_orders: VoteOrders,
    pub(super) meeting: Arc<Mutex<Meeting>>,
    incoming: Mutex<Incoming>,
    may_vote: AtomicBool,
    pub(super) log_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    pub(super) runtime: Handle,
    /// Since when this node has led, without a break.
    pub(super) led_since: Mutex<Option<Instant>>,
    /// When the leader was heard last.
    leader_heard: Mutex<Option<Instant>>,
    steward: Mutex<Option<JoinHandle<()>>>,
}

impl Cluster {
    /// Takes part from now on. A node that was the only voter leads at once.
    pub async fn start<L, M>(start: ClusterStart<L, M>) -> Result<Arc<Cluster>, StartError>
    where
        L: RaftLogStorage<TableRaft>,
        M: RaftStateMachine<TableRaft>,
    {
        let heard = Arc::new(Heard::default());
        let network = Network { calls: Arc::clone(&start.calls), heard: Arc::clone(&heard) };
        let failed = |error: &dyn fmt::Display| StartError(error.to_string());
        let config = tuning::config(start.cluster).map_err(|error| failed(&error))?;
        let member = Member(start.identity.node);
        let mut log = start.log;
        if !start.may_vote {
            step_down(&mut log, member).await.map_err(|error| failed(&error))?;
        }
        let raft = Raft::new(member, config, network, log, start.machine)
            .await
            .map_err(|error| failed(&error))?;
        let cluster = Arc::new_cyclic(|own| Cluster {
            own: Weak::clone(own),
            metrics: raft.metrics(),
            raft,
            me: start.identity,
            id: start.cluster,
            table: start.table,
            calls: start.calls,
            host: start.host,
            heard,
            in_flight: Arc::new(Semaphore::new(MAX_PROPOSALS_IN_FLIGHT)),
            orders_in_flight: Arc::new(Semaphore::new(MAX_ORDERS_IN_FLIGHT)),
            vote_orders: VoteOrders::default(),
            meeting: Arc::default(),
            incoming: Mutex::default(),
            may_vote: AtomicBool::new(start.may_vote),
            log_bytes: start.log_bytes,
            runtime: Handle::current(),
            led_since: Mutex::new(None),
            leader_heard: Mutex::new(None),
            steward: Mutex::new(None),
        });
        cluster.raft.runtime_config().elect(start.may_vote);
        cluster.elect_if_alone().await.map_err(|error| failed(&error))?;
        let steward = tokio::spawn(vital("steward", steward::run(Arc::downgrade(&cluster))));
        *cluster.steward.lock() = Some(steward);
        Ok(cluster)
    }

    async fn elect_if_alone(&self) -> Result<(), openraft::error::Fatal<Member>> {
        let me = Member(self.me.node);
        let alone = move |voters: BTreeSet<Member>| voters.len() == 1 && voters.contains(&me);
        let voters = self
            .raft
            .with_raft_state(|state| state.membership_state.effective().voter_ids().collect())
            .await?;
        if alone(voters) {
            self.give_vote_back();
            self.raft.trigger().elect().await?;
        }
        Ok(())
    }

    /// Ends the time without a vote, if this node has none any more by a majority's word: what it
    /// had promised binds nobody then.
    pub(super) async fn look_for_vote(&self) {
        if self.may_vote.load(Ordering::SeqCst) {
            return;
        }
        // Its own boot in the table: the log reaches past this start, and so does what is known of
        // the members. A log that is still being sent, or comes from a backup, tells of old ones.
        let (table, own) = (self.table(), self.me);
        let is_own = |row: &slots::NodeRow| row.boot == own.boot && row.nonce == Some(own.nonce);
        if !table.node(own.node).is_some_and(is_own) {
            return;
        }
        let me = Member(own.node);
        let is_taken = self.raft.with_raft_state(move |state| {
            let committed = state.membership_state.committed();
            committed.log_id().is_some() && !committed.voter_ids().any(|voter| voter == me)
        });
        if is_taken.await.unwrap_or(false) {
            self.give_vote_back();
        }
    }

    fn give_vote_back(&self) {
        if !self.may_vote.load(Ordering::SeqCst) {
            self.host.vote_taken();
            self.may_vote.store(true, Ordering::SeqCst);
            self.raft.runtime_config().elect(true);
        }
    }

    /// Founds a cluster of this node alone: its log, the settings and the node's row. What was
    /// done before a crash is not done again. The node's boot is proposed by the caller, as at
    /// every other start.
    pub async fn found(
        &self,
        settings: ClusterSettings,
        founder: NewNode,
        actor: &str,
    ) -> Result<(), FoundError> {
        let deadline = Instant::now() + FOUND_PATIENCE;
        if !self.is_initialized().await {
            let founders = BTreeSet::from([Member(self.me.node)]);
            let initialized = self.raft.initialize(founders).await;
            initialized.map_err(|error| FoundError::Log(error.to_string()))?;
        }
        if self.table().cluster().is_none() {
            self.must(TableChange::InitCluster { settings }, actor, deadline).await?;
        }
        if self.table().node(founder.id).is_none() {
            self.must(TableChange::AddNode { node: founder }, actor, deadline).await?;
        }
        Ok(())
    }

    async fn must(
        &self,
        change: TableChange,
        actor: &str,
        deadline: Instant,
    ) -> Result<(), FoundError> {
        let verdicts = self.propose_until(change, actor, deadline).await;
        verdicts.map_err(FoundError::Proposal)?.all().map_err(FoundError::Refused)
    }

    /// Does the log hold anything: was a cluster founded here, or did one find this node?
    pub async fn is_initialized(&self) -> bool {
        self.raft.is_initialized().await.unwrap_or(false)
    }

    /// Waits until the log can go on no more, and says why: after `shutdown`, or because its store
    /// failed. In the second case the node must exit.
    pub async fn ended(&self) -> String {
        let mut metrics = self.metrics.clone();
        loop {
            if let Err(fatal) = &metrics.borrow_and_update().running_state {
                return fatal.to_string();
            }
            if metrics.changed().await.is_err() {
                return "the log was shut down".to_owned();
            }
        }
    }

    /// Takes part no more. What is under way ends with `Unknown`.
    pub async fn shutdown(&self) {
        let steward = self.steward.lock().take();
        if let Some(steward) = steward {
            steward.abort();
        }
        // The task of the core panicked if this fails; it is as gone as it was to be.
        let _ = self.raft.shutdown().await;
    }

    /// The cluster's id.
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// The table as this node has applied it.
    pub fn table(&self) -> Arc<SlotTable> {
        Arc::clone(&self.table.borrow())
    }

    /// Waits until this node has applied the entry at `version`; `false`: not by the deadline.
    pub(super) async fn applied(&self, version: TableVersion, deadline: Instant) -> bool {
        let mut table = self.table.clone();
        let reached = table.wait_for(|table| table.version() >= version);
        matches!(tokio::time::timeout_at(deadline, reached).await, Ok(Ok(_)))
    }

    /// Who leads.
    pub(super) fn lead(&self) -> Lead {
        let metrics = self.metrics.borrow();
        match metrics.current_leader {
            Some(Member(node)) if node != self.me.node => Lead::Of(node),
            Some(_) if is_followed(&metrics) => Lead::Mine,
            _ => Lead::Nobody,
        }
    }

    /// Has this node led for long enough to judge others by their silence?
    pub(super) fn is_settled(&self) -> bool {
        self.led_since.lock().is_some_and(|since| since.elapsed() >= SETTLED_AFTER)
    }

    /// The log's part of how things stand; of other nodes it knows no more than their ids.
    pub fn view(&self) -> View {
        let lead = self.lead();
        let metrics = self.metrics.borrow();
        let membership = metrics.membership_config.membership();
        let leader_lately =
            || self.leader_heard.lock().is_some_and(|at| at.elapsed() < QUORUM_AFTER);
        View {
            term: metrics.current_term,
            leader: match lead {
                Lead::Mine => Some(self.me.node),
                Lead::Of(node) => Some(node),
                Lead::Nobody => None,
            },
            has_quorum: match lead {
                Lead::Mine => true,
                Lead::Of(_) => leader_lately(),
                Lead::Nobody => false,
            },
            voters: membership.voter_ids().map(|member| member.0).collect(),
            learners: membership.learner_ids().map(|member| member.0).collect(),
            peers: Vec::new(),
        }
    }

    async fn take_append(&self, from: NodeId, body: &[u8]) -> Result<Vec<u8>, String> {
        let request: AppendEntriesRequest<TableRaft> = read(body)?;
        check_sender(&request.vote, from)?;
        let answer = self.raft.append_entries(request).await.map_err(|error| error.to_string())?;
        if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
            *self.leader_heard.lock() = Some(Instant::now());
        }
        write(&answer)
    }

    async fn take_vote(&self, from: NodeId, body: &[u8]) -> Result<Vec<u8>, String> {
        let request: VoteRequest<Member> = read(body)?;
        check_sender(&request.vote, from)?;
        // A removed node that has not heard of it must not depose leaders by its campaigns.
        if self.table().node(from).is_some_and(|row| row.state == NodeState::Removed) {
            return Err(format!("node {from} is removed from the cluster"));
        }
        if !self.may_vote.load(Ordering::SeqCst) {
            return Err("this node's part of the log was lost: it has no vote to give".to_owned());
        }
        // An empty log is a new node's, which has no vote, or one that was lost with all promises.
        if self.metrics.borrow().last_log_index.is_none() {
            return Err("this node's log is empty: it has no vote to give".to_owned());
        }
        write(&self.raft.vote(request).await.map_err(|error| error.to_string())?)
    }

    async fn take_snapshot(&self, from: NodeId, body: &[u8]) -> Result<Vec<u8>, String> {
        let request: InstallSnapshotRequest<TableRaft> = read(body)?;
        check_sender(&request.vote, from)?;
        let vote = request.vote;
        let own = self.raft.with_raft_state(|state| *state.vote_ref()).await;
        let own = own.map_err(|error| error.to_string())?;
        if vote < own {
            return write(&SnapshotAnswer::Taken(own));
        }
        let taken = self.incoming.lock().take(request);
        let taken = taken.inspect_err(|why| tracing::error!(%from, "{why}"))?;
        *self.leader_heard.lock() = Some(Instant::now());
        write(&match taken {
            Taken::Kept => SnapshotAnswer::Taken(own),
            Taken::FromTheStart => SnapshotAnswer::FromTheStart,
            Taken::Whole(snapshot) => {
                let installed = self.raft.install_full_snapshot(vote, snapshot).await;
                SnapshotAnswer::Taken(installed.map_err(|error| error.to_string())?.vote)
            }
        })
    }
}

/// A node that may have lost what it promised does not lead on in the term that it led: its log may
/// be shorter than what others have of that term.
async fn step_down<L>(log: &mut L, me: Member) -> Result<(), StorageError<Member>>
where
    L: RaftLogStorage<TableRaft>,
{
    let vote = log.read_vote().await?;
    match vote.filter(|vote| vote.is_committed() && vote.leader_id().node_id == me) {
        Some(vote) => log.save_vote(&Vote::new(vote.leader_id().term, me)).await,
        None => Ok(()),
    }
}

/// Has a majority followed this leader lately?
fn is_followed(metrics: &RaftMetrics<Member, EmptyNode>) -> bool {
    let lately = |ms: u64| Duration::from_millis(ms) < QUORUM_AFTER;
    metrics.state == ServerState::Leader && metrics.millis_since_quorum_ack.is_some_and(lately)
}

/// A link proves who is at its other end; a vote names who sends it.
fn check_sender(vote: &Vote<Member>, from: NodeId) -> Result<(), String> {
    let named = vote.leader_id().node_id.0;
    if named == from {
        return Ok(());
    }
    Err(format!("the message is of node {named}, the link is to node {from}"))
}

pub(super) fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    codec::decode(body).map_err(|bad| bad.to_string())
}

pub(super) fn write<T: serde::Serialize>(answer: &T) -> Result<Vec<u8>, String> {
    codec::encode(answer).map_err(|bad| bad.to_string())
}

impl Answers for Cluster {
    fn answer(
        &self,
        from: NodeId,
        kind: CallKind,
        body: Vec<u8>,
    ) -> Boxed<Result<Vec<u8>, String>> {
        let own = Weak::clone(&self.own);
        Box::pin(async move {
            let cluster = own.upgrade().ok_or("this node is stopping")?;
            match kind {
                CallKind::RaftAppend => cluster.take_append(from, &body).await,
                CallKind::RaftVote => cluster.take_vote(from, &body).await,
                CallKind::RaftSnapshot => cluster.take_snapshot(from, &body).await,
                CallKind::Propose => cluster.take_proposal(from, &body).await,
                CallKind::Order => cluster.take_order(&body).await,
                CallKind::Read => cluster.take_read(&body).await,
                CallKind::Meet => cluster.take_meet(from, &body).await,
                CallKind::Copy => Err("the table's log takes no copies of slots".to_owned()),
            }
        })
    }
}
