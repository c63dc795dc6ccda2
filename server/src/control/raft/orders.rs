//! Orders about members: taken anywhere, carried out at the leader, until their end is known.
//!
//! Not what an order does (`duties`), nor the steps of voters (`steward`).
//!
//! Invariant: an order may be given again at any time; the leader remembers nothing of it but what
//! it wants of the votes, and that only while somebody asks for it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slots::NodeId;
use tokio::time::Instant;

use super::cluster::{Cluster, Lead, read, write};
use super::codec;
use super::duties::Turned;
use super::propose::RETRY_PAUSE;
use super::voters::VoteOrder;
use super::wire::{LogOrder, OrderAnswer, OrderCall};
use crate::control::orders::{Order, OrderDone, OrderError, Ordered, Orders, View};
use crate::peer::{CallError, CallKind};

/// For one order: several elections and a node that catches up by snapshot.
pub const ORDER_PATIENCE: Duration = Duration::from_secs(30);
/// For one call to the leader, which is then asked again: a leader that is gone without a word is
/// given up after it.
const TURN_PATIENCE: Duration = Duration::from_secs(3);
/// What the answer needs on its way beyond the leader's own time.
const ANSWER_SLACK: Duration = Duration::from_secs(1);
/// How long the leader remembers what an order wants of the votes after it was last asked for:
/// longer than the pause between two calls.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Vote orders the leader remembers: more at once than an operator gives.
const MAX_VOTE_ORDERS: usize = 16;

/// Orders under way at a node, given here or by other nodes: more than operators give at once.
pub(super) const MAX_ORDERS_IN_FLIGHT: usize = 16;

const TOO_MANY_ORDERS: &str = "too many orders are under way: wait until one of them is done";

/// What operators want of the votes, each with the time until which it is remembered.
#[derive(Default)]
pub(super) struct VoteOrders(Mutex<Vec<(VoteOrder, Instant)>>);

impl VoteOrders {
    /// Remembers an order from now on; `false`: there are too many.
    pub(super) fn remember(&self, order: VoteOrder) -> bool {
        let until = Instant::now() + REMEMBERED_FOR;
        let mut orders = self.0.lock();
        if let Some((_, known_until)) = orders.iter_mut().find(|(known, _)| *known == order) {
            *known_until = until;
            return true;
        }
        let has_room = orders.len() < MAX_VOTE_ORDERS;
        if has_room {
            orders.push((order, until));
        }
        has_room
    }

    /// The order is done or refused.
    pub(super) fn forget(&self, about: NodeId) {
        self.0.lock().retain(|(order, _)| match order {
            VoteOrder::Leave(node) => *node != about,
            VoteOrder::Replace { old, .. } => *old != about,
        });
    }

    pub(super) fn expire(&self) {
        let now = Instant::now();
        self.0.lock().retain(|(_, until)| *until > now);
    }

    pub(super) fn all(&self) -> Vec<VoteOrder> {
        self.0.lock().iter().map(|(order, _)| *order).collect()
    }
}

impl Orders for Cluster {
    /// Carries out `Remove`, `Lost` and `ReplaceVoter`; the others are for the node, and refused.
    fn order(&self, order: Order, actor: &str, done: Ordered) {
        let (Some(order), Some(cluster)) = (LogOrder::of(&order), self.own.upgrade()) else {
            let why = "the log cannot carry this out: give the order to a running node";
            return done(Err(OrderError::Refused(why.to_owned())));
        };
        let Ok(permit) = Arc::clone(&self.orders_in_flight).try_acquire_owned() else {
            return done(Err(OrderError::Refused(TOO_MANY_ORDERS.to_owned())));
        };
        let actor = actor.to_owned();
        self.runtime.spawn(async move {
            let deadline = Instant::now() + ORDER_PATIENCE;
            let outcome = cluster.order_until(order, &actor, deadline).await;
            drop(permit);
            done(outcome);
        });
    }

    fn view(&self) -> View {
        Cluster::view(self)
    }
}

impl Cluster {
    async fn order_until(
        &self,
        order: LogOrder,
        actor: &str,
        deadline: Instant,
    ) -> Result<OrderDone, OrderError> {
        // Of the last leader that worked on it: what it waited for.
        let mut waits_for = None;
        // Something was changed by it, or may have been.
        let mut changed = false;
        loop {
            let until = deadline.min(Instant::now() + TURN_PATIENCE);
            let answer = match self.lead() {
                Lead::Mine => Some(self.carry_out(order, actor, until, changed).await),
                Lead::Of(leader) => {
                    let patience = until.saturating_duration_since(Instant::now());
                    let patience_ms = patience.as_millis() as u64;
                    let call = OrderCall { order, actor: actor.to_owned(), changed, patience_ms };
                    self.hand_over(leader, call, &mut changed).await
                }
                Lead::Nobody => None,
            };
            match answer {
                Some(OrderAnswer::Done { changed, text }) => {
                    return Ok(OrderDone { changed, text });
                }
                Some(OrderAnswer::Refused(why)) => return Err(OrderError::Refused(why)),
                Some(OrderAnswer::Unfinished { changed: now, why }) => {
                    changed |= now;
                    waits_for = Some(why);
                }
                Some(OrderAnswer::NotLeader { changed: now }) => changed |= now,
                None => {}
            }
            if Instant::now() + RETRY_PAUSE >= deadline {
                return Err(match waits_for {
                    Some(why) => OrderError::Refused(why),
                    None if changed => OrderError::Unknown,
                    None => OrderError::NoQuorum,
                });
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn hand_over(
        &self,
        leader: NodeId,
        call: OrderCall,
        changed: &mut bool,
    ) -> Option<OrderAnswer> {
        let patience = Duration::from_millis(call.patience_ms) + ANSWER_SLACK;
        let body = codec::encode(&call).ok()?;
        let call = self.calls.call(leader, CallKind::Order, body, patience);
        match call.await {
            Ok(answer) => codec::decode(&answer).ok(),
            Err(CallError::NoAnswer) => {
                *changed = true;
                None
            }
            Err(CallError::NotConnected | CallError::Busy | CallError::Refused(_)) => None,
        }
    }

    /// An order that was given to another node.
    pub(super) async fn take_order(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let OrderCall { order, actor, changed, patience_ms } = read(body)?;
        let Ok(_permit) = self.orders_in_flight.try_acquire() else {
            let why = TOO_MANY_ORDERS.to_owned();
            return write(&OrderAnswer::Unfinished { changed, why });
        };
        let patience = Duration::from_millis(patience_ms).min(TURN_PATIENCE);
        write(&self.carry_out(order, &actor, Instant::now() + patience, changed).await)
    }

    /// Works on an order until its end or the time is up.
    async fn carry_out(
        &self,
        order: LogOrder,
        actor: &str,
        until: Instant,
        mut changed: bool,
    ) -> OrderAnswer {
        loop {
            if self.lead() != Lead::Mine {
                return OrderAnswer::NotLeader { changed };
            }
            let answer = match self.turn(order, actor, until, &mut changed).await {
                Turned::End(answer) => return answer,
                Turned::Waits(why) => OrderAnswer::Unfinished { changed, why },
            };
            if Instant::now() + RETRY_PAUSE >= until {
                return answer;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}
