//! A client that waits: for a key, or (WAIT) for time alone.
//!
//! The waiter lies in the room's hall. Whoever makes the key ready runs the waiter's command
//! under the same lock hold and leaves the reply here; a time-out, CLIENT UNBLOCK or the
//! connection's end takes the waiter back first, and then nobody serves it. Which came first is
//! decided under the waiter's own lock, held while its command runs. Room first, waiter second.
//!
//! ```text
//!   Waiting --serve--> Served --settle--> Answered   (its op group is closed: letter posted)
//!      +----refuse------------------------> Answered   (MOVED left, letter posted)
//!      +----take_back---------------------> Gone       (time-out, unblock, connection closed)
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use slots::SlotId;

use crate::command::client::client_flag;
use crate::command::mailbox::letter;
use crate::command::promise::Seen;
use crate::command::{
    Args, BlockFn, BlockOn, ClientShared, CommandId, Cx, Flow, NodeState, Now, OwnedArgs, Rng,
    TimedBlock, TimeoutReply,
};
use crate::config::Config;
use crate::resp::{Proto, Reply};
use crate::session::{Session, Step, Worker};
use crate::slot::waiters::Served;
use crate::slot::{Owned, Patience, Refused, Ticket, Waiting};

/// The session's side of a block.
pub(super) struct Blocked {
    /// `None` = it waits for no key.
    waiter: Option<Arc<Waiter>>,
    command: CommandId,
    pub deadline_ns: Option<u64>,
    on_timeout: TimeoutReply,
    /// The round of syncs that it waits for, and the answer then.
    until_round: Option<(u64, TimeoutReply)>,
}

impl Blocked {
    /// What it finds now. `ends`: if nothing else, its time is up.
    fn wake(&self, ends: bool, node: &NodeState) -> Wake {
        let is_synced = |(round, _): &(u64, TimeoutReply)| {
            node.promises.log().is_some_and(|log| log.rounds_done() >= *round)
        };
        match (&self.waiter, self.until_round.filter(is_synced)) {
            (Some(waiter), _) => waiter.wake(ends),
            (None, Some((_, reply))) => Wake::Synced(reply),
            (None, None) if ends => Wake::Gone,
            (None, None) => Wake::Waits,
        }
    }
}

/// The room's side.
struct Waiter {
    ticket: Ticket,
    handler: BlockFn,
    args: OwnedArgs,
    keys: Vec<Box<[u8]>>,
    slot: SlotId,
    proto: Proto,
    state: Mutex<State>,
    client: Arc<ClientShared>,
    config: Arc<Config>,
}

enum State {
    Waiting,
    /// The reply is there; where its op group lies is known when the group is closed.
    Served(Vec<u8>),
    Answered(Answer),
    Gone,
}

/// What the client finds when it wakes.
enum Answer {
    /// The reply, and the op group it depends on.
    Reply(Vec<u8>, Seen),
    Refused(SlotId, Refused),
}

impl Waiting for Waiter {
    fn ticket(&self) -> Ticket {
        self.ticket
    }

    fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }

    fn serve(&self, ready: &[u8], owned: &mut Owned<'_>) -> Served {
        let mut state = self.state.lock();
        if !matches!(*state, State::Waiting) {
            return Served::Gone;
        }
        let mut bytes = Vec::new();
        // Blocking commands choose no random members: any seed does.
        let mut rng = Rng::seeded(self.client.id);
        let mut cx = Cx {
            reply: Reply::new(&mut bytes, self.proto),
            // Time limits were dealt with when the client blocked.
            now: Now { unix_ms: owned.keys().now_ms(), mono_ns: 0 },
            rng: &mut rng,
            live: self.config.live(),
            serving: true,
            ready: Some(ready),
        };
        match (self.handler)(owned, &self.args.args(), &mut cx) {
            Ok(Flow::Done) => {}
            Ok(Flow::Block(_) | Flow::BlockTimed(_)) => return Served::StillWaiting,
            Err(error) => {
                bytes.clear();
                error.write(&mut Reply::new(&mut bytes, self.proto));
            }
        }
        *state = State::Served(bytes);
        Served::Done
    }

    fn settle(&self, owned: &Owned<'_>) {
        let mut state = self.state.lock();
        if let State::Served(bytes) = &mut *state {
            let bytes = std::mem::take(bytes);
            *state = State::Answered(Answer::Reply(bytes, Seen::of(owned)));
            drop(state);
            self.client.mailbox.post(letter::SERVED);
        }
    }

    fn refuse(&self, refused: Refused) {
        let mut state = self.state.lock();
        if matches!(*state, State::Waiting) {
            *state = State::Answered(Answer::Refused(self.slot, refused));
            drop(state);
            self.client.mailbox.post(letter::SERVED);
        }
    }
}

impl Waiter {
    /// The answer, if there is one; else the waiter is gone if `ends`, and waits on if not. One
    /// that is being served waits for the letter that comes with the end of the group.
    fn wake(&self, ends: bool) -> Wake {
        let mut state = self.state.lock();
        match &*state {
            State::Waiting if !ends => return Wake::Waits,
            State::Served(_) => return Wake::Waits,
            State::Waiting | State::Gone | State::Answered(_) => {}
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::Answered(answer) => Wake::Answered(answer),
            State::Waiting | State::Served(_) | State::Gone => Wake::Gone,
        }
    }
}

/// What a blocked client finds when it looks.
enum Wake {
    Waits,
    Answered(Answer),
    Synced(TimeoutReply),
    Gone,
}

impl Session {
    /// Puts the client in line, under the lock hold in which its command found nothing.
    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(super) fn block(
        &mut self,
        command: CommandId,
        handler: BlockFn,
        args: &Args<'_>,
        on: BlockOn,
        owned: &mut Owned<'_>,
        node: &NodeState,
        now: Now,
    ) -> Step {
        let waiter = Arc::new(Waiter {
            ticket: owned.take_ticket(),
            handler,
            args: args.to_owned(),
            keys: on.keys.iter().map(|i| args.at(*i).into()).collect(),
            slot: owned.slot(),
            proto: self.client.proto,
            state: Mutex::new(State::Waiting),
            client: self.client.shared.clone(),
            config: node.config.clone(),
        });
        let stale = letter::SERVED | letter::UNBLOCK_TIMEOUT | letter::UNBLOCK_ERROR;
        self.client.shared.mailbox.retract(stale);
        owned.block(waiter.clone());
        let (timeout, on_timeout) = (on.timeout, on.on_timeout);
        let on = TimedBlock { timeout, on_timeout, until_round: None };
        self.begin_block(Some(waiter), command, on, node, now)
    }

    /// Makes the client wait for time, or for the log.
    pub(super) fn block_timed(
        &mut self,
        command: CommandId,
        on: TimedBlock,
        node: &NodeState,
        now: Now,
    ) -> Step {
        self.client.shared.mailbox.retract(letter::UNBLOCK_TIMEOUT | letter::UNBLOCK_ERROR);
        self.begin_block(None, command, on, node, now)
    }

    fn begin_block(
        &mut self,
        waiter: Option<Arc<Waiter>>,
        command: CommandId,
        on: TimedBlock,
        node: &NodeState,
        now: Now,
    ) -> Step {
        let deadline_ns = on.timeout.map(|t| now.mono_ns.saturating_add(nanos(t)));
        let TimedBlock { on_timeout, until_round, .. } = on;
        let blocked = Blocked { waiter, command, deadline_ns, on_timeout, until_round };
        if until_round.is_some() {
            self.await_round(&blocked, node);
        }
        self.blocked = Some(Box::new(blocked));
        self.client.shared.set_flag(client_flag::BLOCKED, true);
        node.stats.blocked_clients.fetch_add(1, Ordering::Relaxed);
        Step::Blocked { deadline_ns }
    }

    /// The round may have ended meanwhile: then nobody else would say so.
    fn await_round(&self, blocked: &Blocked, node: &NodeState) {
        node.promises.wake_later(&self.client.shared);
        if !matches!(blocked.wake(false, node), Wake::Waits) {
            self.client.shared.mailbox.post(letter::SYNCED);
        }
    }

    /// A letter came, or the deadline passed, while the client was blocked. Appends the reply
    /// to `worker.out` and returns true if the block has ended.
    pub fn resume(
        &mut self,
        letters: u32,
        now: Now,
        worker: &mut Worker,
        node: &NodeState,
    ) -> bool {
        let Some(blocked) = self.blocked.take() else { return true };
        let start = worker.out.len();
        let timed_out = blocked.deadline_ns.is_some_and(|at| now.mono_ns >= at);
        let unblocked = letters & (letter::UNBLOCK_TIMEOUT | letter::UNBLOCK_ERROR) != 0;
        let mut reply = Reply::new(&mut worker.out, self.client.proto);
        match blocked.wake(timed_out || unblocked, node) {
            Wake::Waits => {
                if blocked.until_round.is_some() {
                    self.await_round(&blocked, node);
                }
                self.blocked = Some(blocked);
                return false;
            }
            Wake::Synced(synced) => synced.write(&mut reply),
            Wake::Answered(Answer::Reply(bytes, seen)) => {
                worker.out.extend_from_slice(&bytes);
                self.promise_seen(seen, worker, node, start);
            }
            Wake::Answered(Answer::Refused(slot, refused)) => {
                node.refusal(slot, refused, &self.client.shared).write(&mut reply);
            }
            Wake::Gone => {
                match letters & letter::UNBLOCK_ERROR {
                    0 => blocked.on_timeout.write_late(&mut reply),
                    _ => reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
                }
                if let Some(waiter) = &blocked.waiter {
                    leave_line(waiter, node);
                }
            }
        }
        if worker.out.get(start) == Some(&b'-') {
            worker.stats.count_error(&worker.out[start..]);
            worker.stats.commands[blocked.command.index()].failed.add(1);
        }
        if let Some(waiter) = &blocked.waiter {
            // As in Redis, the time it waited does not count.
            node.note_slow(blocked.command, &waiter.args.args(), 0, now, &self.client);
        }
        self.end_block(node);
        self.after_reply(worker, start);
        true
    }

    fn end_block(&mut self, node: &NodeState) {
        self.blocked = None;
        self.client.shared.set_flag(client_flag::BLOCKED, false);
        node.stats.blocked_clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// The connection ends while blocked.
    pub(super) fn abandon_block(&mut self, node: &NodeState) {
        if let Some(blocked) = self.blocked.take() {
            if let (Wake::Gone, Some(waiter)) = (blocked.wake(true, node), &blocked.waiter) {
                leave_line(waiter, node);
            }
            self.end_block(node);
        }
    }

    /// Is the client blocked?
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }
}

/// Takes the waiter out of the hall. A busy room is worth a wait: on a key that is never pushed
/// to, a waiter left behind would never be dropped.
fn leave_line(waiter: &Arc<Waiter>, node: &NodeState) {
    let leave = |patience| node.rooms.leave_line(waiter.slot, &**waiter, patience);
    if !leave(Patience::Spin) {
        node.edges.run_long(&mut || {
            leave(Patience::Block);
        });
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
