//! From one cluster to another: CLUSTER MEET and `--join`, CLUSTER RESET, recovery without the
//! majority.
//!
//! Not the accepting side (`control/raft/meeting`). Invariant: a node that is about to dissolve
//! serves nothing from before it is counted as empty until it has joined or stays; the data
//! directory names the new cluster before its log is written.

use std::sync::Arc;
use std::time::Duration;

use slots::{Endpoint, NodeId};
use tokio::time::{Instant, sleep};

use super::member::Member;
use crate::control::orders::{Order, OrderDone, OrderError, Orders};
use crate::control::raft::codec;
use crate::control::raft::meet::{MeetAnswer, MeetCall, Newcomer, Seed};
use crate::control::raft::{Cluster, Dissolving};
use crate::control::seat::Standing;
use crate::io::exit;
use crate::peer::{CallError, CallKind};

/// For one meeting: the other side writes up to four entries.
const MEET_PATIENCE: Duration = Duration::from_secs(25);
/// For one question of it.
const ASK_PATIENCE: Duration = Duration::from_secs(12);
/// Until a node that joined has its own boot in the table: a leader adds it, sends it the table,
/// takes its boot.
const JOIN_PATIENCE: Duration = Duration::from_secs(20);
/// Until a node that was told to join us is in the table, before it is told again.
const NEWCOMER_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks or questions.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two rounds over the seeds, at first; it doubles.
const FIRST_ROUND_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_ROUND_PAUSE: Duration = Duration::from_secs(5);

fn refused(why: impl Into<String>) -> OrderError {
    OrderError::Refused(why.into())
}

/// No roles while it lives, and then again those of the table.
struct Suspended<'m>(&'m Member);

impl<'m> Suspended<'m> {
    fn begin(member: &'m Member) -> Suspended<'m> {
        member.suspend();
        Suspended(member)
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}

impl Member {
    /// Becomes one cluster with the node at `bus`: asks it until it has decided.
    pub(super) async fn meet(&self, bus: Endpoint) -> Result<OrderDone, OrderError> {
        let deadline = Instant::now() + MEET_PATIENCE;
        let Ok(_permit) = self.meetings.try_acquire() else {
            return Err(refused("too many orders to meet are under way: ask again"));
        };
        loop {
            let busy = match self.meet_once(&bus, deadline).await {
                Ok(Met::Done(done)) => return Ok(done),
                Ok(Met::Busy(why)) => why,
                Err(error) => return Err(error),
            };
            if Instant::now() + PAUSE >= deadline {
                return Err(refused(format!("{bus} cannot decide now ({busy}): ask again")));
            }
            sleep(PAUSE).await;
        }
    }

    async fn meet_once(&self, bus: &Endpoint, deadline: Instant) -> Result<Met, OrderError> {
        // One change of cluster at a time, up to the seat in the new one.
        let turn = self.turn.lock().await;
        let Some(cluster) = self.cluster() else { return Ok(Met::Busy("starting".to_owned())) };
        if self.standing() != Standing::Seated {
            return Ok(Met::Busy("this node has no seat in its own cluster yet".to_owned()));
        }
        let alone = cluster.side().nodes <= 1;
        // Held until this node has joined or stays: nobody joins what is going away.
        let dissolving = match alone.then(|| cluster.begin_dissolving()).transpose() {
            Ok(dissolving) => dissolving,
            Err(why) => return Ok(Met::Busy(why)),
        };
        let suspended = alone.then(|| Suspended::begin(self));
        // Counted only when nobody can write any more.
        self.pass_all_rooms().await;
        let side = cluster.side();
        let newcomer = Newcomer { node: self.as_newcomer(), boot: self.identity().boot, side };
        match self.ask_surely(bus, newcomer, deadline).await? {
            MeetAnswer::Accepted { cluster: id, .. } if id == cluster.id() => {
                let text = "it is in this cluster already".to_owned();
                Ok(Met::Done(OrderDone { changed: false, text }))
            }
            MeetAnswer::Accepted { cluster: id, generation, seeds } => {
                let Some(leaving) = dissolving.zip(suspended) else {
                    return Err(refused("this side has several nodes and does not dissolve"));
                };
                self.join(leaving, id, generation, &seeds).await.map(Met::Done)
            }
            MeetAnswer::YouShouldAccept => {
                drop(suspended);
                drop(dissolving);
                drop(turn);
                let until = deadline.min(Instant::now() + NEWCOMER_PATIENCE);
                Ok(self.wait_for_newcomer(&cluster, bus, until).await)
            }
            MeetAnswer::Refused(why) => Err(refused(why)),
            MeetAnswer::Busy(why) => Ok(Met::Busy(why)),
        }
    }

    /// Asks until there is an answer: without one this node may be in the other's table already,
    /// and must take no write until it knows.
    async fn ask_surely(
        &self,
        bus: &Endpoint,
        newcomer: Newcomer,
        deadline: Instant,
    ) -> Result<MeetAnswer, OrderError> {
        let body = codec::encode(&MeetCall::V1(Box::new(newcomer)))
            .map_err(|error| refused(format!("the question cannot be sent: {error}")))?;
        let mut is_unsure = false;
        let answer = loop {
            let call =
                self.peers().call_stranger(bus.clone(), CallKind::Meet, body.clone(), ASK_PATIENCE);
            match call.await {
                Ok(answer) => break answer,
                Err(CallError::Refused(why)) => {
                    return Err(refused(format!("{bus} refuses: {why}")));
                }
                Err(CallError::NoAnswer) => is_unsure = true,
                Err(CallError::NotConnected | CallError::Busy) if !is_unsure => {
                    return Err(refused(format!(
                        "{bus} cannot be reached; this is the port for nodes, client port + 10000 \
                         unless cluster-port says otherwise"
                    )));
                }
                Err(CallError::NotConnected | CallError::Busy) => {}
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(refused(format!("{bus} does not answer: ask again")));
            }
            sleep(PAUSE).await;
        };
        codec::decode(&answer)
            .map_err(|error| refused(format!("the answer of {bus} cannot be read: {error}")))
    }

    /// This node was taken in elsewhere: leaves its own cluster behind.
    async fn join(
        &self,
        leaving: (Dissolving, Suspended<'_>),
        cluster: slots::ClusterId,
        generation: u64,
        seeds: &[Seed],
    ) -> Result<OrderDone, OrderError> {
        tracing::info!(%cluster, generation, "joining");
        self.sync_keys().await?;
        self.end().await;
        // From here on there is no way back: half a node must not go on.
        let switched = self.change_dir(|dir| dir.switch_to_empty(cluster, generation));
        exit::unless(switched, "not joined");
        exit::unless(self.begin_anew().await, "not joined");
        let addresses = |seed: &Seed| (seed.node, seed.bus.clone());
        self.peers().learn(&seeds.iter().map(addresses).collect::<Vec<_>>());
        self.write_book();
        drop(leaving);
        let until = Instant::now() + JOIN_PATIENCE;
        while self.standing() != Standing::Seated {
            if Instant::now() >= until {
                return Err(OrderError::Unknown);
            }
            sleep(PAUSE).await;
        }
        Ok(OrderDone { changed: true, text: format!("joined cluster {cluster}") })
    }

    /// The other side asks in turn: waits until it is in the table. It may have been busy: then it
    /// is told again.
    async fn wait_for_newcomer(&self, cluster: &Cluster, bus: &Endpoint, until: Instant) -> Met {
        loop {
            let table = cluster.table();
            if let Some(row) = table.nodes().find(|row| row.addresses.bus == *bus) {
                let text = format!("{} joined", row.name);
                return Met::Done(OrderDone { changed: true, text });
            }
            if Instant::now() + PAUSE >= until {
                return Met::Busy("it has not asked to join yet".to_owned());
            }
            sleep(PAUSE).await;
        }
    }

    /// Meets one seed after the other until this node is no longer alone. Ends at once where it
    /// is not: a later start finds its cluster by the same seeds.
    pub(super) async fn join_by_seeds(self: Arc<Self>, seeds: Vec<Endpoint>) {
        let mut pause = FIRST_ROUND_PAUSE;
        loop {
            for seed in &seeds {
                let Some(cluster) = self.cluster() else { continue };
                let side = cluster.side();
                if side.nodes > 1 || side.keys > 0 {
                    return;
                }
                match self.meet(seed.clone()).await {
                    Ok(done) => return tracing::info!("{}", done.text),
                    Err(error) => tracing::info!(%seed, ?error, "not joined yet"),
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_ROUND_PAUSE);
        }
    }

    /// CLUSTER RESET: out of the cluster, and a cluster of its own without slots.
    ///
    /// Refuses while the node has keys, and while it owns slots that others know to be its own.
    pub(super) async fn reset(&self, hard: bool) -> Result<OrderDone, OrderError> {
        let _turn = self.turn.lock().await;
        let Some(cluster) = self.cluster() else { return Err(OrderError::NoQuorum) };
        let me = self.identity().node;
        let suspended = Suspended::begin(self);
        self.pass_all_rooms().await;
        let side = cluster.side();
        if side.keys > 0 {
            return Err(refused("this node has keys: delete them first"));
        }
        let is_out = self.standing() == Standing::Removed || self.was_removed();
        if side.nodes > 1 && !is_out {
            let owned = cluster.table().slots_of(me);
            if !owned.is_empty() {
                return Err(refused(format!(
                    "this node owns slots {owned} of a cluster of {} nodes: give them to others \
                     first",
                    side.nodes
                )));
            }
            self.leave(me).await?;
        }
        self.sync_keys().await?;
        self.end().await;
        exit::unless(self.change_dir(|dir| dir.reset(hard)), "not reset");
        let cluster = exit::unless(self.begin_anew().await, "not reset");
        exit::unless(self.found(&cluster).await, "not reset");
        drop(suspended);
        let until = Instant::now() + JOIN_PATIENCE;
        while self.standing() != Standing::Seated && Instant::now() < until {
            sleep(PAUSE).await;
        }
        let node = self.identity().node;
        let text = format!("node {node} is a cluster of its own, without slots");
        Ok(OrderDone { changed: true, text })
    }

    /// The log says that this node holds no keys before it begins in another cluster, whose
    /// versions tell nothing of when content of this one was written.
    async fn sync_keys(&self) -> Result<(), OrderError> {
        let state = self.state().clone();
        let synced = tokio::task::spawn_blocking(move || state.disk.sync()).await;
        synced.map_err(|error| refused(error.to_string()))?.map_err(refused)
    }

    async fn leave(&self, me: NodeId) -> Result<(), OrderError> {
        let (done, outcome) = tokio::sync::oneshot::channel();
        let tell = Box::new(move |result| {
            // The order's giver may be gone; then nobody waits for the outcome.
            let _ = done.send(result);
        });
        self.order(Order::Remove { node: me }, "CLUSTER RESET of the node itself", tell);
        match outcome.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(OrderError::Unknown),
        }
    }
}

/// What one question came to.
enum Met {
    Done(OrderDone),
    Busy(String),
}
