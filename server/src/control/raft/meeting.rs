//! The accepting side of CLUSTER MEET: a newcomer is put in the table, with the slots it brings.
//!
//! Not the decision (`meet`), not the dissolving side, which is the node's.
//!
//! ```text
//!          begin_dissolving                 a newcomer asks
//!  idle ---------------------> dissolving     |  dissolving: Busy
//!   ^ <----- drop ----------------+           v
//!   +------------------------------------ accepting: begin_dissolving is refused
//! ```
//! Invariant: a node never accepts and dissolves at once, so nobody joins what is going away.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slots::{
    Boot, LossConsent, NewNode, NodeId, NodeState, SlotId, SlotRanges, SlotTable, TableChange,
};
use tokio::time::Instant;

use super::cluster::{Cluster, read, write};
use super::meet::{self, FORMAT_VERSION};
use super::meet::{MAX_SEEDS, MeetAnswer, MeetCall, Newcomer, Seed, Side, decide};
use super::propose::PROPOSE_PATIENCE;
use crate::control::{CATCH_UP_PATIENCE, ProposeError};

/// For a newcomer to be put in the table: two entries, and two more if they are taken back.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(4 * PROPOSE_PATIENCE.as_secs());

/// Newcomers that are taken in at once: more than a cluster grows by in a second.
const MAX_ACCEPTING: usize = 16;

/// What a node is doing about other clusters.
#[derive(Default)]
pub(super) struct Meeting {
    dissolving: bool,
    accepting: usize,
}

/// While it lives, nobody is accepted: this node is about to join another cluster.
pub struct Dissolving(Arc<Mutex<Meeting>>);

impl Drop for Dissolving {
    fn drop(&mut self) {
        self.0.lock().dissolving = false;
    }
}

struct Accepting(Arc<Mutex<Meeting>>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.lock().accepting -= 1;
    }
}

impl Cluster {
    /// To be held by a node while it asks another cluster to take it, and until it has joined; to
    /// be dropped at any other answer than `Accepted`, and before it asks again. Two nodes that
    /// ask each other at once hold one each: the one that is to stay answers `Busy`, the other
    /// `YouShouldAccept`, so the first lets go and the second is accepted when it asks again.
    /// Refuses while someone is being accepted here, or another attempt is under way.
    pub fn begin_dissolving(&self) -> Result<Dissolving, String> {
        let mut meeting = self.meeting.lock();
        if meeting.dissolving {
            return Err("this node is joining another cluster already".to_owned());
        }
        if meeting.accepting > 0 {
            return Err("this node is just taking another node in: try again".to_owned());
        }
        meeting.dissolving = true;
        Ok(Dissolving(Arc::clone(&self.meeting)))
    }

    fn begin_accepting(&self) -> Option<Accepting> {
        let mut meeting = self.meeting.lock();
        if meeting.dissolving || meeting.accepting == MAX_ACCEPTING {
            return None;
        }
        meeting.accepting += 1;
        Some(Accepting(Arc::clone(&self.meeting)))
    }

    /// This node's side of a meeting.
    pub fn side(&self) -> Side {
        let table = self.table();
        let settings = table.cluster().map(|cluster| cluster.settings);
        Side {
            node: self.me.node,
            cluster: table.cluster().map(|cluster| cluster.id),
            generation: settings.map_or(0, |settings| settings.generation),
            nodes: table.nodes().count() as u32,
            slots: SlotRanges::all().without(&table.unassigned()),
            keys: self.host.keys(),
            format_version: settings.map_or(FORMAT_VERSION, |settings| settings.format_version),
        }
    }

    pub(super) async fn take_meet(&self, from: NodeId, body: &[u8]) -> Result<Vec<u8>, String> {
        let MeetCall::V1(newcomer) = read(body)? else {
            return Err("a recovery is the node's to judge, not the log's".to_owned());
        };
        let named = newcomer.node.id;
        if named != from || newcomer.side.node != from {
            return Err(format!("the message is of node {named}, the link is to node {from}"));
        }
        write(&self.meet(*newcomer).await)
    }

    async fn meet(&self, newcomer: Newcomer) -> MeetAnswer {
        // It was accepted somewhere, or is being founded, and knows no table yet.
        if self.table().cluster().is_none() {
            return MeetAnswer::Busy("this node is only just joining its cluster".to_owned());
        }
        // Slots that were given up at another node a moment ago are free. If nobody can say, the
        // proposals find out.
        self.catch_up_until(Instant::now() + CATCH_UP_PATIENCE).await;
        match decide(&self.side(), &newcomer.side) {
            meet::Meeting::Refused(why) => MeetAnswer::Refused(why),
            meet::Meeting::WeJoin => {
                self.host.join_back(newcomer.node.id, newcomer.node.addresses.bus);
                MeetAnswer::YouShouldAccept
            }
            meet::Meeting::Same | meet::Meeting::TheyJoin => match self.begin_accepting() {
                Some(_accepting) => {
                    let deadline = Instant::now() + ACCEPT_PATIENCE;
                    self.accept(newcomer, deadline).await.unwrap_or_else(|answer| answer)
                }
                None => {
                    let why = "this node is joining another cluster, or takes in many nodes";
                    MeetAnswer::Busy(why.to_owned())
                }
            },
        }
    }

    /// Puts a newcomer in the table. Refuses, in this order and before anything is changed: an id
    /// that was removed a moment ago, an id or a data directory that is another's, slots that
    /// have an owner.
    async fn accept(
        &self,
        newcomer: Newcomer,
        deadline: Instant,
    ) -> Result<MeetAnswer, MeetAnswer> {
        let table = self.table();
        let is_known = known(&table, &newcomer.node)?;
        if newcomer.side.cluster.is_some() && newcomer.side.cluster == Some(self.id) && !is_known {
            return Err(MeetAnswer::Refused(format!(
                "node {} is of this cluster and not in its table: it was removed; reset it first \
                 (CLUSTER RESET), then add it",
                newcomer.node.id
            )));
        }
        // A member brings nothing: its slots are in our table.
        let is_member = newcomer.side.cluster == Some(self.id);
        let brings = if is_member { SlotRanges::new() } else { newcomer.side.slots.clone() };
        let is_free = |slot: &SlotId| match table.owner(*slot) {
            Some(owner) => owner == newcomer.node.id,
            None => true,
        };
        let taken: SlotRanges = brings.iter().filter(|slot| !is_free(slot)).collect();
        if !taken.is_empty() {
            return Err(MeetAnswer::Refused(format!(
                "slots {taken} have an owner here: give them up first (CLUSTER DELSLOTS)"
            )));
        }
        let to = newcomer.node.id;
        if !is_known {
            self.add(&table, newcomer.node, newcomer.boot, deadline).await?;
        }
        let missing = |slot: &SlotId| self.table().owner(*slot).is_none();
        let missing: SlotRanges = brings.iter().filter(missing).collect();
        if !missing.is_empty() {
            self.assign(to, missing, !is_known, deadline).await?;
        }
        Ok(self.accepted())
    }

    async fn add(
        &self,
        table: &SlotTable,
        mut node: NewNode,
        boot: Boot,
        deadline: Instant,
    ) -> Result<(), MeetAnswer> {
        let id = node.id;
        // Every node that founds its own cluster may have taken the same name.
        if table.node_named(&node.name).is_some() {
            let hex = id.to_string();
            node.name = format!("node-{}", &hex[..8]);
        }
        let actor = format!("CLUSTER MEET of node {id}, boot {boot}");
        self.change(TableChange::AddNode { node }, &actor, deadline).await
    }

    /// Gives a newcomer the slots it brings: all of them, or it is not taken in.
    pub(super) async fn assign(
        &self,
        to: NodeId,
        slots: SlotRanges,
        is_new: bool,
        deadline: Instant,
    ) -> Result<(), MeetAnswer> {
        let actor = format!("CLUSTER MEET of node {to}");
        let seen = self.table().version();
        let change = TableChange::AssignSlots { slots: slots.clone(), to, seen };
        let verdicts = self.propose_until(change, &actor, deadline).await.map_err(not_now)?;
        let Err(why) = verdicts.all() else { return Ok(()) };
        let accepted = verdicts.accepted().clone();
        if is_new {
            if !accepted.is_empty() {
                let (seen, consent) = (self.table().version(), LossConsent::AcceptLoss);
                let change = TableChange::UnassignSlots { slots: accepted, seen, consent };
                self.change(change, &actor, deadline).await?;
            }
            self.change(TableChange::RemoveNode { node: to }, &actor, deadline).await?;
        }
        Err(MeetAnswer::Refused(format!("of slots {slots}: {why}")))
    }

    async fn change(
        &self,
        change: TableChange,
        actor: &str,
        deadline: Instant,
    ) -> Result<(), MeetAnswer> {
        let verdicts = self.propose_until(change, actor, deadline).await.map_err(not_now)?;
        verdicts.all().map_err(|why| MeetAnswer::Refused(why.to_string()))
    }

    fn accepted(&self) -> MeetAnswer {
        let table = self.table();
        let voters = self.view().voters;
        let seeds = |votes: bool| {
            let rows = table.nodes().filter(move |row| voters.contains(&row.id) == votes);
            let seeds = rows.map(|row| Seed { node: row.id, bus: row.addresses.bus.clone() });
            seeds.collect::<Vec<_>>()
        };
        let mut all = (seeds.clone())(true);
        all.extend(seeds(false));
        all.truncate(MAX_SEEDS);
        let generation = table.cluster().map_or(0, |cluster| cluster.settings.generation);
        MeetAnswer::Accepted { cluster: self.id, generation, seeds: all }
    }
}

fn not_now(error: ProposeError) -> MeetAnswer {
    MeetAnswer::Busy(match error {
        ProposeError::Fixed => "the table is fixed".to_owned(),
        ProposeError::NoQuorum => "no majority of voters answers: ask again".to_owned(),
        ProposeError::TooLong { limit, got } => {
            format!("the change takes {got} bytes, at most {limit} fit an entry of the log")
        }
        ProposeError::Unknown => "the outcome is not known yet: ask again".to_owned(),
    })
}

/// Whether a newcomer is in the table already.
fn known(table: &SlotTable, node: &NewNode) -> Result<bool, MeetAnswer> {
    let refused = |why: String| Err(MeetAnswer::Refused(why));
    let (id, store) = (node.id, node.store);
    if let Some(other) = table.nodes().find(|row| row.store == store && row.id != id) {
        return refused(format!(
            "the data directory belongs to node {} ({})",
            other.id, other.name
        ));
    }
    match table.node(id) {
        None => Ok(false),
        Some(row) if row.store != store => refused(format!(
            "id {id} is in use with another data directory ({}): if its disk was wiped, give the \
             old one up first (`slotctl node lost {}`)",
            row.store, row.name
        )),
        Some(row) if row.state == NodeState::Removed => {
            refused(format!("node {id} was removed a moment ago: ask again in a minute"))
        }
        Some(_) => Ok(true),
    }
}
