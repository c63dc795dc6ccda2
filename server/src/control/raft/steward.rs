//! The leader's chores: one step of voters at a time, and tombstones whose time is over. Every
//! node's: a log that is not too heavy.
//!
//! Not the decision which step (`voters`), nor when a log is heavy (`compact`). Runs on every node.
//!
//! Invariant: one change of members is under way at most; nodes are never replaced in place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::Duration;

use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, EmptyNode, LogIdOptionExt, RaftMetrics};
use slots::{NodeId, NodeState, SlotTable, TableChange};
use tokio::time::{Instant, MissedTickBehavior};

use super::cluster::{Cluster, Lead};
use super::compact::{Relief, relief};
use super::tuning::CAUGHT_UP_ENTRIES;
use super::types::Member;
use super::voters::{Candidate, Council, Reach, Step};

/// Between looks at the members: a fraction of what a person notices.
const TICK: Duration = Duration::from_millis(200);
/// For one step to be committed; after it the members are looked at anew.
const STEP_PATIENCE: Duration = Duration::from_secs(5);
/// How long a step of votes is considered: longer than a silent voter is not known to be silent.
const CONSIDERED_FOR: Duration = Duration::from_millis(1200);
/// How long a removed node is remembered, so that removing it again is no error (PROTOCOL 1).
const TOMBSTONE_AFTER: Duration = Duration::from_secs(60);
/// How long the log still reaches a removed node, so that it learns that it is removed.
const FAREWELL: Duration = Duration::from_secs(1);
/// The label that says where a node is.
const ZONE_LABEL: &str = "zone";

/// Runs until the cluster is gone.
pub(super) async fn run(cluster: Weak<Cluster>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut steward = Steward::default();
    loop {
        interval.tick().await;
        let Some(cluster) = cluster.upgrade() else { return };
        steward.look(&cluster).await;
    }
}

#[derive(Default)]
struct Steward {
    /// When each tombstone was first seen.
    tombstones: BTreeMap<NodeId, Instant>,
    /// The step of votes that comes next, and since when.
    considered: Option<(Step, Instant)>,
}

impl Steward {
    async fn look(&mut self, cluster: &Cluster) {
        let table = cluster.table();
        self.note_tombstones(&table);
        compact(cluster).await;
        cluster.look_for_vote().await;
        let leads = cluster.lead() == Lead::Mine;
        {
            let mut since = cluster.led_since.lock();
            *since = since.filter(|_| leads).or_else(|| leads.then(Instant::now));
        }
        if !leads {
            self.considered = None;
            return;
        }
        cluster.vote_orders.expire();
        let council = council(cluster, &table);
        if let Some(step) = council.next_step().filter(|step| self.is_ripe(*step)) {
            take(cluster, &council, step).await;
        }
        self.drop_tombstones(cluster, &council).await;
    }

    /// A vote is given or taken when that has been the next step for so long that every voter
    /// it counts on has answered since: one that died just before is not counted on.
    fn is_ripe(&mut self, step: Step) -> bool {
        match step {
            Step::LeaveJoint | Step::AddLearner(_) => true,
            Step::RemoveLearner(node) => self.age(node).is_none_or(|age| age >= FAREWELL),
            Step::Promote(_) | Step::Demote(_) => {
                let considered = self.considered.filter(|(before, _)| *before == step);
                let (_, since) =
                    *self.considered.insert(considered.unwrap_or((step, Instant::now())));
                since.elapsed() >= CONSIDERED_FOR
            }
        }
    }

    fn note_tombstones(&mut self, table: &SlotTable) {
        let now = Instant::now();
        let seen: BTreeSet<NodeId> = table.tombstones().map(|row| row.id).collect();
        self.tombstones.retain(|node, _| seen.contains(node));
        for node in seen {
            self.tombstones.entry(node).or_insert(now);
        }
    }

    fn age(&self, node: NodeId) -> Option<Duration> {
        self.tombstones.get(&node).map(Instant::elapsed)
    }

    async fn drop_tombstones(&self, cluster: &Cluster, council: &Council) {
        let is_member = |n: &NodeId| council.voters.contains(n) || council.learners.contains(n);
        let over = self
            .tombstones
            .iter()
            .find(|(node, seen)| seen.elapsed() >= TOMBSTONE_AFTER && !is_member(node));
        if let Some((node, _)) = over {
            let entry = cluster.entry(TableChange::DropTombstone { node: *node }, "itself");
            // What comes to nothing is tried again at the next look.
            let _ = cluster.write_here(entry, Instant::now() + STEP_PATIENCE).await;
        }
    }
}

/// Makes a heavy log lighter: on every node, for each has its own files.
async fn compact(cluster: &Cluster) {
    let relief = relief((cluster.log_bytes)(), &cluster.metrics.borrow());
    let trigger = cluster.raft.trigger();
    let asked = match relief {
        None => return,
        Some(Relief::Purge(upto)) => trigger.purge_log(upto).await,
        Some(Relief::Snapshot) => trigger.snapshot().await,
    };
    tracing::debug!(?relief, "the table's log is heavy");
    if let Err(error) = asked {
        // The log has ended, and so does the node.
        tracing::warn!(%error, "the table's log is not made lighter");
    }
}

/// The members as the leader sees them now.
pub(super) fn council(cluster: &Cluster, table: &SlotTable) -> Council {
    let metrics = cluster.metrics.borrow().clone();
    let membership = metrics.membership_config.membership();
    let nodes = table.nodes().map(|row| {
        let reach = reach(cluster, &metrics, row.id);
        let zone = row.labels.get(ZONE_LABEL).filter(|zone| !zone.is_empty()).cloned();
        (row.id, Candidate { zone, active: row.state == NodeState::Active, reach })
    });
    cluster.heard.keep(|node| membership.get_node(&Member(node)).is_some());
    Council {
        nodes: nodes.collect(),
        voters: membership.voter_ids().map(|member| member.0).collect(),
        learners: membership.learner_ids().map(|member| member.0).collect(),
        joint: membership.get_joint_config().len() > 1,
        leader: Some(cluster.me.node),
        settled: cluster.is_settled(),
        orders: cluster.vote_orders.all(),
    }
}

fn reach(cluster: &Cluster, metrics: &RaftMetrics<Member, EmptyNode>, node: NodeId) -> Reach {
    if node == cluster.me.node {
        return Reach::CaughtUp;
    }
    if !cluster.heard.lately(node) {
        return Reach::Silent;
    }
    let matched = metrics.replication.as_ref().and_then(|all| all.get(&Member(node)).copied());
    let matched = matched.flatten().index();
    let is_near = |index| Some(index + CAUGHT_UP_ENTRIES) >= metrics.last_log_index;
    if matched.is_some_and(is_near) { Reach::CaughtUp } else { Reach::Behind }
}

/// Is the newest set of members committed, and one set only?
pub(super) fn members_are_settled(metrics: &RaftMetrics<Member, EmptyNode>) -> bool {
    let members = &metrics.membership_config;
    members.membership().get_joint_config().len() == 1
        && metrics.last_applied.index() >= members.log_id().index()
}

async fn take(cluster: &Cluster, council: &Council, step: Step) {
    let one = |node: NodeId| BTreeSet::from([Member(node)]);
    let change = match step {
        Step::AddLearner(node) => {
            ChangeMembers::AddNodes(BTreeMap::from([(Member(node), EmptyNode {})]))
        }
        Step::Promote(node) => ChangeMembers::AddVoterIds(one(node)),
        Step::Demote(node) => ChangeMembers::RemoveVoters(one(node)),
        Step::RemoveLearner(node) => ChangeMembers::RemoveNodes(one(node)),
        Step::LeaveJoint => {
            let metrics = cluster.metrics.borrow();
            let newest = metrics.membership_config.membership().get_joint_config().last().cloned();
            ChangeMembers::ReplaceAllVoters(newest.unwrap_or_default())
        }
    };
    let voters = council.voters.len();
    tracing::info!(?step, voters, "one step of the members of the table's log");
    // Voters that are replaced stay learners.
    let changed = cluster.raft.change_membership(change, true);
    match tokio::time::timeout(STEP_PATIENCE, changed).await {
        Ok(Ok(_)) => {}
        Ok(Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_),
        )))) => {}
        Ok(Err(error)) => tracing::warn!(?step, %error, "the step came to nothing"),
        Err(_) => tracing::warn!(?step, "the step is not committed in time"),
    }
}

impl Cluster {
    /// Whether the log reaches a node.
    pub(super) fn reaches(&self, node: NodeId) -> bool {
        let metrics = self.metrics.borrow();
        metrics.membership_config.membership().get_node(&Member(node)).is_some()
    }
}
