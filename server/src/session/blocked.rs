//! A client that waits: for a key, or (WAIT) for time alone.
//!
//! The waiter lies in the room's hall. Whoever makes the key ready runs the waiter's command
//! under the same lock hold and leaves the reply here; a time-out, CLIENT UNBLOCK or the
//! connection's end takes the waiter back first, and then nobody serves it. Which of the two
//! came first is decided under the waiter's own lock, held while its command runs: a reply is
//! there as soon as the waiter counts as served. Locks are taken room first, waiter second.
//!
//! ```text
//!   Waiting --serve, refuse--> Answered   (reply or MOVED left, letter posted)
//!      +-------take_back-----> Gone       (time-out, unblock, connection closed)
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use slots::{OpIndex, SlotId};

use crate::command::client::client_flag;
use crate::command::mailbox::letter;
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
}

impl Blocked {
    /// What it finds now. `ends`: if nothing else, its time is up.
    fn wake(&self, ends: bool) -> Wake {
        match &self.waiter {
            Some(waiter) => waiter.wake(ends),
            None if ends => Wake::Gone,
            None => Wake::Waits,
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
    Answered(Answer),
    Gone,
}

/// What the client finds when it wakes.
enum Answer {
    /// The reply, and the op group it depends on.
    Reply(Vec<u8>, SlotId, OpIndex),
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
        *state = State::Answered(Answer::Reply(bytes, self.slot, owned.index()));
        drop(state);
        self.client.mailbox.post(letter::SERVED);
        Served::Done
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
    /// The answer, if there is one; else the waiter is gone if `ends`, and waits on if not.
    fn wake(&self, ends: bool) -> Wake {
        let mut state = self.state.lock();
        match &*state {
            State::Waiting if !ends => return Wake::Waits,
            State::Waiting | State::Gone | State::Answered(_) => {}
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::Answered(answer) => Wake::Answered(answer),
            State::Waiting | State::Gone => Wake::Gone,
        }
    }
}

/// What a blocked client finds when it looks.
enum Wake {
    Waits,
    Answered(Answer),
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
        let on = TimedBlock { timeout: on.timeout, on_timeout: on.on_timeout };
        self.begin_block(Some(waiter), command, on, node, now)
    }

    /// Makes the client wait for time alone.
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
        let on_timeout = on.on_timeout;
        self.blocked = Some(Box::new(Blocked { waiter, command, deadline_ns, on_timeout }));
        self.client.shared.set_flag(client_flag::BLOCKED, true);
        node.stats.blocked_clients.fetch_add(1, Ordering::Relaxed);
        Step::Blocked { deadline_ns }
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
        match blocked.wake(timed_out || unblocked) {
            Wake::Waits => {
                self.blocked = Some(blocked);
                return false;
            }
            Wake::Answered(Answer::Reply(bytes, slot, index)) => {
                worker.out.extend_from_slice(&bytes);
                self.promise_index(slot, index, worker, node, start);
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
            if let (Wake::Gone, Some(waiter)) = (blocked.wake(true), &blocked.waiter) {
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
