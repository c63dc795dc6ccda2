//! What others ask of the member: proposals and orders from this node's clients, calls from other
//! nodes, questions of the log.
//!
//! Not the carrying out, which is the log's (`control/raft`) or the member's own (`joining`,
//! `recovery`). Invariant: between two lives nothing is taken; who asks is told so at once.

use std::time::Duration;

use slots::{NodeId, TableChange};

use super::member::Member;
use crate::control::orders::{Order, OrderError, Ordered, Orders, View};
use crate::control::raft::Host;
use crate::control::raft::codec;
use crate::control::raft::meet::{MeetAnswer, MeetCall};
use crate::control::{CaughtUp, ProposeError, Proposed, TableLog};
use crate::io::clock;
use crate::io::exit;
use crate::peer::{Answers, Boxed, CallKind};
use crate::vital::vital;

/// Does this node hear a majority of the voters itself?
fn hears_majority(view: &View, me: NodeId) -> bool {
    /// Silence after which a node is not counted: pings come ten times a second.
    const SILENT: Duration = Duration::from_secs(2);
    let is_heard = |voter: &&NodeId| {
        let peer = view.peers.iter().find(|peer| peer.node == **voter);
        let silence = peer.and_then(|peer| peer.silent_ns).map(Duration::from_nanos);
        **voter == me || silence.is_some_and(|silence| silence < SILENT)
    };
    view.voters.iter().filter(is_heard).count() * 2 > view.voters.len()
}

impl TableLog for Member {
    fn propose(&self, change: TableChange, actor: &str, done: Proposed) {
        match self.cluster() {
            Some(cluster) => cluster.propose(change, actor, done),
            None => done(Err(ProposeError::NoQuorum)),
        }
    }

    fn catch_up(&self, done: CaughtUp) {
        match self.cluster() {
            Some(cluster) => cluster.catch_up(done),
            None => done(false),
        }
    }
}

impl Orders for Member {
    fn order(&self, order: Order, actor: &str, done: Ordered) {
        let (Some(member), Some(cluster)) = (self.own.upgrade(), self.cluster()) else {
            return done(Err(OrderError::NoQuorum));
        };
        match order {
            Order::Meet { bus } => {
                self.runtime.spawn(vital("meet", async move { done(member.meet(bus).await) }));
            }
            Order::Reset { hard } => {
                self.runtime.spawn(vital("reset", async move { done(member.reset(hard).await) }));
            }
            Order::Recover => {
                self.runtime.spawn(vital("recover", async move { done(member.recover().await) }));
            }
            order => cluster.order(order, actor, done),
        }
    }

    fn view(&self) -> View {
        let mut view = self.cluster().map(|cluster| cluster.view()).unwrap_or_default();
        view.peers = self.peers().views();
        // A leader that lost its majority goes on saying that it leads.
        view.has_quorum &= hears_majority(&view, self.identity().node);
        view
    }
}

impl Answers for Member {
    fn answer(
        &self,
        from: NodeId,
        kind: CallKind,
        body: Vec<u8>,
    ) -> Boxed<Result<Vec<u8>, String>> {
        if kind == CallKind::Meet
            && let (Ok(MeetCall::Recovered(told)), Some(member)) =
                (codec::decode(&body), self.own.upgrade())
        {
            // A task of its own: it must end what it began, whoever waits for the answer.
            let following =
                self.runtime.spawn(vital("follow", async move { member.follow(from, told).await }));
            return Box::pin(async move {
                let answer = following.await.map_err(|error| error.to_string())?;
                codec::encode(&answer).map_err(|error| error.to_string())
            });
        }
        if kind == CallKind::Copy {
            let Some(member) = self.own.upgrade() else {
                return Box::pin(async { Err("this node is stopping".to_owned()) });
            };
            return Box::pin(async move { member.target().answer(from, body).await });
        }
        match self.cluster() {
            Some(cluster) => cluster.answer(from, kind, body),
            // Between two clusters, or before the first: who would meet us asks again.
            None if kind == CallKind::Meet => Box::pin(async {
                let busy = MeetAnswer::Busy("this node is joining another cluster".to_owned());
                codec::encode(&busy).map_err(|error| error.to_string())
            }),
            None => Box::pin(async { Err("this node is starting".to_owned()) }),
        }
    }
}

impl Host for Member {
    fn unix_ms(&self) -> u64 {
        clock::now().unix_ms
    }

    fn keys(&self) -> u64 {
        self.state().key_count()
    }

    fn vote_taken(&self) {
        exit::unless(
            self.dir.lock().note_vote_taken(),
            "the vote that was taken away is not noted",
        );
    }

    fn join_back(&self, from: NodeId, bus: slots::Endpoint) {
        let Some(member) = self.own.upgrade() else { return };
        // It is told again if it was busy.
        if member.turn.try_lock().is_err() {
            return;
        }
        self.runtime.spawn(vital("join", async move {
            match member.meet(bus).await {
                Ok(done) => tracing::info!(%from, "{}", done.text),
                Err(error) => tracing::warn!(%from, ?error, "not joined"),
            }
        }));
    }
}
