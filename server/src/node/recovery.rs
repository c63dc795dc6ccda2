//! `slotctl recover`: the majority of voters is lost for good, and one node begins a new
//! generation of the cluster with what it knows.
//!
//! ```text
//!   this node: its whole log, committed or not --> a new log, this node its only voter
//!              --> SetCluster{the next generation} --> every node it reaches is told to follow
//!   a node that is told: has no quorum either --> leaves its log behind, is sent the new one
//! ```
//! Not the operator's plan and consent (`slotctl`). Invariant: only without a quorum, never behind
//! a node that can be asked; links to the old generation are refused from then on (`peer`).

use std::io;

use slots::{ClusterId, ClusterSettings, Endpoint, NodeId, TableChange};
use tokio::time::{Duration, Instant, sleep};

use super::member::Member;
use crate::control::orders::{OrderDone, OrderError, Orders};
use crate::control::raft::codec;
use crate::control::raft::disk::Sizes;
use crate::control::raft::meet::{MeetAnswer, MeetCall, Recovered};
use crate::control::raft::store;
use crate::control::raft::types::Member as RaftMember;
use crate::control::seat::Standing;
use crate::control::{ProposeError, TableLog};
use crate::io::peer::PeerNet;
use crate::io::raft_disk::Folder;
use crate::io::{clock, exit};
use crate::peer::CallKind;

/// Until the new generation is in the table: an election of one and an entry.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);
/// For all nodes that are told, over and over: longer than a node believes in a majority that is
/// gone, and an election.
const TELL_PATIENCE: Duration = Duration::from_secs(10);
/// For one answer: the node stops its log and opens another.
const ASK_PATIENCE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(100);

fn refused(why: impl Into<String>) -> OrderError {
    OrderError::Refused(why.into())
}

impl Member {
    /// Begins a new generation. Refuses while a quorum answers, on a node without a seat (but for
    /// one that has none because voters came from backups and give no votes), and while a node
    /// that is linked knows a newer table.
    pub(super) async fn recover(&self) -> Result<OrderDone, OrderError> {
        let _turn = self.turn.lock().await;
        let view = self.view();
        if view.has_quorum {
            return Err(refused("a majority of voters answers: there is nothing to recover"));
        }
        let is_seated = self.standing() == Standing::Seated;
        if !(is_seated || self.is_mute_member()) || self.was_removed() {
            return Err(refused(
                "this node has no seat in the cluster (it was removed, given up, or has just \
                 started): recover on one that serves",
            ));
        }
        let Some(cluster) = self.cluster() else { return Err(OrderError::NoQuorum) };
        let table = cluster.table();
        let mine = table.version().0;
        let ahead = view.peers.iter().filter(|peer| peer.connected);
        let ahead = ahead.filter_map(|peer| Some((peer.table_version?, peer.node)));
        if let Some((version, node)) = ahead.max().filter(|(version, _)| *version > mine) {
            let name = table.node(node).map_or_else(|| node.to_string(), |row| row.name.clone());
            return Err(refused(format!(
                "{name} knows table version {version}, this node {mine}: recover there"
            )));
        }
        let (id, generation) = self.dir.lock().cluster();
        let next = slots::next_generation(generation, clock::random_u64());
        tracing::warn!(%id, generation = next, "recovering without the majority");
        drop(cluster);
        self.end().await;
        exit::unless(self.write_generation(id, next), "not recovered");
        exit::unless(self.begin_same(is_seated).await, "not recovered");
        self.confirm_generation(Instant::now() + BEGIN_PATIENCE).await?;
        let (followed, silent) = self.tell_all(id, next, mine).await;
        let list = |names: Vec<String>| match names.is_empty() {
            true => "nobody".to_owned(),
            false => names.join(", "),
        };
        let text = format!(
            "generation {next} begins with table version {mine}; followed: {}; not reached: {}. \
             For each node that is gone: slotctl node lost NODE",
            list(followed),
            list(silent)
        );
        tracing::warn!("{text}");
        Ok(OrderDone { changed: true, text })
    }

    /// Is it a member that may have lost what it promised, and waits for others to give it a seat?
    fn is_mute_member(&self) -> bool {
        let me = self.identity().node;
        let is_member = self.cluster().is_some_and(|cluster| cluster.table().node(me).is_some());
        self.dir.lock().is_log_lost() && self.standing() == Standing::Starting && is_member
    }

    /// Makes the log of the new generation of everything the old one holds, then names it in the
    /// data directory: a crash in between leaves the old generation.
    fn write_generation(&self, id: ClusterId, next: u64) -> io::Result<()> {
        let mut dir = self.dir.lock();
        let (old, new) = (dir.raft_dir(), dir.raft_dir_of(id, next));
        let sizes = Sizes::default();
        let old = Folder::open(&old).map_err(io::Error::other)?;
        let whole = store::read_whole(old, sizes).map_err(io::Error::other)?;
        // A try that did not get to its end left its files.
        if new.exists() {
            std::fs::remove_dir_all(&new)?;
        }
        let me = RaftMember(dir.identity().node);
        let new = Folder::open(&new).map_err(io::Error::other)?;
        store::write_fresh(new, sizes, whole.ledger, me).map_err(io::Error::other)?;
        dir.switch(id, next, true)
    }

    /// Puts the generation of the data directory into the table, if the table is behind.
    pub(super) async fn confirm_generation(&self, until: Instant) -> Result<(), OrderError> {
        loop {
            let generation = self.dir.lock().cluster().1;
            let settings = self.cluster().and_then(|c| c.table().cluster().map(|c| c.settings));
            let behind = settings.filter(|settings| settings.generation < generation);
            match behind {
                None if settings.is_some() => return Ok(()),
                None => {}
                Some(settings) => {
                    let settings = ClusterSettings { generation, ..settings };
                    self.propose_and_wait(TableChange::SetCluster { settings }).await;
                }
            }
            if Instant::now() >= until {
                return Err(OrderError::Unknown);
            }
            sleep(PAUSE).await;
        }
    }

    async fn propose_and_wait(&self, change: TableChange) {
        let (done, outcome) = tokio::sync::oneshot::channel();
        let tell = Box::new(move |result: Result<slots::Verdicts, ProposeError>| {
            let _ = done.send(result);
        });
        self.propose(change, "slotctl recover", tell);
        // Whoever waits looks at the table: it says more than the outcome.
        let _ = outcome.await;
    }

    /// Tells every other node of the table, all at once, until they follow or the time is up; the
    /// names of those that follow and those that do not.
    async fn tell_all(
        &self,
        cluster: ClusterId,
        generation: u64,
        version: u64,
    ) -> (Vec<String>, Vec<String>) {
        let me = self.identity().node;
        let table = self.state().topology().table;
        let told = Recovered { cluster, generation, node: me, version };
        let until = Instant::now() + TELL_PATIENCE;
        let mut telling = tokio::task::JoinSet::new();
        for row in table.nodes().filter(|row| row.id != me) {
            let (peers, bus) = (self.peers().clone(), row.addresses.bus.clone());
            let name = row.name.clone();
            telling.spawn(async move { (name, tell(&peers, bus, told, until).await) });
        }
        let (mut followed, mut silent) = (Vec::new(), Vec::new());
        while let Some(Ok((name, why))) = telling.join_next().await {
            match why {
                None => followed.push(name),
                Some(why) if why.is_empty() => silent.push(name),
                Some(why) => silent.push(format!("{name} ({why})")),
            }
        }
        (followed, silent)
    }

    /// Another node has begun a new generation of our cluster. Follows it only if this node has
    /// no quorum either and the node is known: whoever is right will find the other out.
    pub(super) async fn follow(&self, from: NodeId, told: Recovered) -> MeetAnswer {
        let refused = |why: &str| MeetAnswer::Refused(why.to_owned());
        let (id, generation) = self.dir.lock().cluster();
        if told.node != from || told.cluster != id {
            return refused("this node is of another cluster");
        }
        let accepted = MeetAnswer::Accepted {
            cluster: told.cluster,
            generation: told.generation,
            seeds: Vec::new(),
        };
        if told.generation <= generation {
            return match told.generation == generation {
                true => accepted,
                false => refused("this node is of a newer generation"),
            };
        }
        let Ok(_turn) = self.turn.try_lock() else {
            return MeetAnswer::Busy("this node is busy".to_owned());
        };
        let table = self.state().topology().table;
        let view = self.view();
        // Heartbeats of the very node that recovered may still be warm.
        if table.node(from).is_none() || view.has_quorum && view.leader != Some(from) {
            return MeetAnswer::Busy("this node is of a cluster that has a majority".to_owned());
        }
        if table.version().0 > told.version {
            return refused(&format!(
                "this node knows table version {}, the recovery began with {}",
                table.version(),
                told.version
            ));
        }
        tracing::warn!(%from, generation = told.generation, "following a recovery");
        let was_seated = self.standing() == Standing::Seated;
        self.end().await;
        let switched = self.change_dir(|dir| dir.switch_to_empty(told.cluster, told.generation));
        exit::unless(switched, "the recovery is not followed");
        exit::unless(self.begin_same(was_seated).await, "the recovery is not followed");
        accepted
    }
}

/// Tells one node until it follows (`None`) or the time is up (why).
async fn tell(peers: &PeerNet, bus: Endpoint, told: Recovered, until: Instant) -> Option<String> {
    let Ok(body) = codec::encode(&MeetCall::Recovered(told)) else { return Some(String::new()) };
    loop {
        let call = peers.call_stranger(bus.clone(), CallKind::Meet, body.clone(), ASK_PATIENCE);
        let answer = call.await.ok().and_then(|answer| codec::decode(&answer).ok());
        let why = match answer {
            Some(MeetAnswer::Accepted { .. }) => return None,
            Some(MeetAnswer::Refused(why)) => return Some(why),
            Some(MeetAnswer::Busy(why)) => why,
            Some(MeetAnswer::YouShouldAccept) | None => String::new(),
        };
        if Instant::now() + PAUSE >= until {
            return Some(why);
        }
        sleep(PAUSE).await;
    }
}
