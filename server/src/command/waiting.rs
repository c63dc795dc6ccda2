//! Commands that wait for the cluster: a proposal or an order takes up to seconds, and the worker
//! goes on with others meanwhile.
//!
//! Not the carrying out (`control`). Invariant: at most `MAX_WAITING` commands wait at once, each
//! until its deadline; an outcome that comes later is a line in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use slots::{TableChange, Verdicts};

use crate::command::{ClientShared, CommandError, NodeCx, NodeState};
use crate::control::ledger::MAX_ACTOR_BYTES;
use crate::control::orders::{Order, OrderDone, OrderError};
use crate::control::{CATCH_UP_PATIENCE, ProposeError};

/// Longest wait for a change of the table: a leader change takes 2.2 s, and two may follow each
/// other.
pub const CHANGE_LIMIT: Duration = Duration::from_secs(8);
/// Longest wait for an order: several changes, and a node that catches up.
pub const ORDER_LIMIT: Duration = Duration::from_secs(35);
/// Longest wait of CLUSTER MEET, which redis-cli expects to return at once and then polls.
pub const MEET_LIMIT: Duration = Duration::from_secs(3);
/// Commands that wait at once: each holds a thread, and no operator gives more at a time.
pub const MAX_WAITING: usize = 32;
/// Bytes of a client's name in what history says of it: the address behind it still fits.
const MAX_NAME_BYTES: usize = 64;

/// How many commands wait.
#[derive(Default)]
pub struct Waiting(AtomicUsize);

/// The right to wait.
pub struct Permit<'n>(&'n Waiting);

impl Waiting {
    /// Asks for the right to wait: an error for the client if too many do.
    pub fn enter(&self) -> Result<Permit<'_>, CommandError> {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        let permit = Permit(self);
        match before < MAX_WAITING {
            true => Ok(permit),
            false => Err(CommandError::err(format_args!(
                "busy: {MAX_WAITING} commands wait for the cluster already; try again"
            ))),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Rings once, when an outcome is known.
#[derive(Default)]
pub struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.has_rung.lock() = true;
        self.rings.notify_all();
    }

    /// Has it rung?
    pub fn has_rung(&self) -> bool {
        *self.has_rung.lock()
    }

    /// Waits until it rings, or for this time.
    pub fn wait_for(&self, time: Duration) {
        self.rings.wait_while_for(&mut self.has_rung.lock(), |has_rung| !*has_rung, time);
    }
}

/// What a waiter and whom it waits for share.
struct Outcome<T> {
    state: Mutex<State<T>>,
    bell: Bell,
}

enum State<T> {
    Awaited,
    Known(T),
    /// Nobody waits any more.
    Left,
}

impl<T: Send + 'static> Outcome<T> {
    fn new() -> Arc<Outcome<T>> {
        Arc::new(Outcome { state: Mutex::new(State::Awaited), bell: Bell::default() })
    }

    /// To be called with the outcome; `late` gets one that nobody waits for any more.
    fn tell(self: &Arc<Self>, late: impl FnOnce(T) + Send + 'static) -> Box<dyn FnOnce(T) + Send> {
        let told = self.clone();
        Box::new(move |value| {
            let mut state = told.state.lock();
            if matches!(*state, State::Left) {
                drop(state);
                return late(value);
            }
            *state = State::Known(value);
            drop(state);
            told.bell.ring();
        })
    }

    /// `None`: not known within `time`.
    fn wait(&self, node: &NodeState, time: Duration) -> Option<T> {
        if !self.bell.has_rung() {
            node.edges.run_long(&mut || node.edges.wait(&self.bell, time));
        }
        match std::mem::replace(&mut *self.state.lock(), State::Left) {
            State::Known(value) => Some(value),
            State::Awaited | State::Left => None,
        }
    }
}

/// Proposes a change in the name of the asking client and waits for the verdicts. The outer error
/// is the command's: too many wait.
pub fn propose(
    cx: &NodeCx<'_>,
    change: TableChange,
) -> Result<Result<Verdicts, ProposeError>, CommandError> {
    let _permit = cx.node.waiting.enter()?;
    let (actor, name) = (actor(&cx.client.shared), change.name());
    let outcome = Outcome::new();
    let (by, late) = (actor.clone(), "the outcome of a change came after its client was answered");
    let done = outcome.tell(move |outcome: Result<Verdicts, ProposeError>| {
        let verdict = outcome.map(|verdicts| verdicts.all());
        tracing::warn!(change = name, actor = by, ?verdict, "{late}");
    });
    cx.node.table_log.propose(change, &actor, done);
    Ok(outcome.wait(cx.node, CHANGE_LIMIT).unwrap_or(Err(ProposeError::Unknown)))
}

/// Waits until this node knows what was agreed on so far, so that a client that was told of a
/// change by one node is not refused by another for its lack. If nobody can say in time, the
/// command goes on by the table that is there. The error is the command's: too many wait.
pub fn catch_up(cx: &NodeCx<'_>) -> Result<(), CommandError> {
    let _permit = cx.node.waiting.enter()?;
    let outcome = Outcome::new();
    cx.node.table_log.catch_up(outcome.tell(|_: bool| {}));
    let _is_known = outcome.wait(cx.node, CATCH_UP_PATIENCE);
    Ok(())
}

/// Gives an order in the name of the asking client and waits for its end, but no longer than
/// `limit`: `Ok(None)`. The outer error is the command's: too many wait.
pub fn order(
    cx: &NodeCx<'_>,
    order: Order,
    limit: Duration,
) -> Result<Option<Result<OrderDone, OrderError>>, CommandError> {
    let _permit = cx.node.waiting.enter()?;
    let actor = actor(&cx.client.shared);
    let outcome = Outcome::new();
    let (by, given) = (actor.clone(), format!("{order:?}"));
    let done = outcome.tell(move |outcome: Result<OrderDone, OrderError>| match outcome {
        Ok(done) => tracing::info!(order = given, actor = by, text = done.text, "order done"),
        Err(error) => tracing::warn!(order = given, actor = by, ?error, "order not carried out"),
    });
    cx.node.orders.order(order, &actor, done);
    Ok(outcome.wait(cx.node, limit))
}

/// Who a client is, for history: user, name if it has one, address.
pub fn actor(client: &ClientShared) -> String {
    // There is one user only.
    let mut actor = String::from("default ");
    let name = client.names().name;
    if !name.is_empty() {
        let name = String::from_utf8_lossy(&name);
        actor.push_str(&format!("({}) ", cut(&name, MAX_NAME_BYTES)));
    }
    actor.push_str(&client.addr);
    cut(&actor, MAX_ACTOR_BYTES).to_owned()
}

fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestNode;

    #[test]
    fn the_bell_wakes_who_waits_and_rings_for_who_comes_later() {
        let bell = Bell::default();
        std::thread::scope(|threads| {
            threads.spawn(|| bell.ring());
            // Ended by the bell: the test would take an hour else.
            bell.wait_for(Duration::from_secs(3600));
        });
        assert!(bell.has_rung());
        bell.wait_for(Duration::from_secs(3600));
    }

    #[test]
    fn an_outcome_goes_to_the_waiter_or_if_it_left_to_the_log() {
        let node = TestNode::new(&[]).node;
        let outcome = Outcome::new();
        outcome.tell(|_| panic!("in time"))(1);
        assert_eq!(outcome.wait(&node, CHANGE_LIMIT), Some(1));

        let outcome = Outcome::<i32>::new();
        let late = Arc::new(AtomicUsize::new(0));
        let seen = late.clone();
        let tell = outcome.tell(move |value| seen.store(value as usize, Ordering::SeqCst));
        assert_eq!(outcome.wait(&node, CHANGE_LIMIT), None);
        tell(7);
        assert_eq!(late.load(Ordering::SeqCst), 7);
    }

    #[test]
    fn history_names_user_client_and_address_within_its_limit() {
        let address = "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        let client = ClientShared::new(1, address.into(), String::new(), 1, 0);
        assert_eq!(actor(&client), format!("default {address}"));
        client.set_names(|names| names.name = b"slotctl".to_vec());
        assert_eq!(actor(&client), format!("default (slotctl) {address}"));
        client.set_names(|names| names.name = "\u{e9}".repeat(500).into_bytes());
        let actor = actor(&client);
        assert!(actor.len() <= MAX_ACTOR_BYTES && actor.ends_with(address), "{actor}");
    }
}
