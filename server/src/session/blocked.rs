//! A client that waits: for a key, or (WAIT) for time alone.
//!
//! The waiter lies in the room's hall. Whoever makes the key ready runs the waiter's command
//! under the same lock hold and leaves the reply here; a time-out, CLIENT UNBLOCK or the
//! connection's end claims the waiter first, and then nobody serves it.
//!
//! ```text
//!   Waiting --serve--> Served      (reply left, letter posted)
//!      |-----refuse--> Served      (the slot left: one MOVED)
//!      +-----claim---> Gone        (time-out, unblock, connection closed)
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slots::SlotId;

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
use crate::slot::{Owned, Refused, Waiting};

const WAITING: u8 = 0;
const SERVED: u8 = 1;
const GONE: u8 = 2;

/// The session's side of a block.
pub(super) struct Blocked {
    /// `None` = it waits for no key.
    waiter: Option<Arc<Waiter>>,
    command: CommandId,
    pub deadline_ns: Option<u64>,
    on_timeout: TimeoutReply,
}

/// How a block ended.
enum Ending {
    /// A reply was left.
    Served(Left),
    /// Time-out or CLIENT UNBLOCK.
    GivenUp,
}

impl Blocked {
    /// How it ended, if it has. `give_up`: it ends now unless somebody is serving it.
    fn ending(&self, give_up: bool) -> Option<Ending> {
        let Some(waiter) = &self.waiter else { return give_up.then_some(Ending::GivenUp) };
        if give_up && waiter.claim(GONE) {
            return Some(Ending::GivenUp);
        }
        // Claimed and not left yet: whoever serves it is at it, and posts a letter.
        waiter.left.lock().take().map(Ending::Served)
    }
}

/// The room's side.
struct Waiter {
    handler: BlockFn,
    args: OwnedArgs,
    keys: Vec<Box<[u8]>>,
    slot: SlotId,
    proto: Proto,
    state: AtomicU8,
    left: Mutex<Option<Left>>,
    client: Arc<ClientShared>,
    config: Arc<Config>,
}

/// What the waiter finds when it wakes.
enum Left {
    Reply(Vec<u8>),
    Refused(Refused),
}

impl Waiter {
    fn claim(&self, to: u8) -> bool {
        self.state.compare_exchange(WAITING, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl Waiting for Waiter {
    fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }

    fn serve(&self, owned: &mut Owned<'_>) -> Served {
        // Under the room's lock, so no second server; a time-out may still claim it first.
        if self.state.load(Ordering::SeqCst) != WAITING {
            return Served::Gone;
        }
        let mut reply = Vec::new();
        let now_ms = owned.keys().now_ms();
        let result = {
            // Blocking commands choose no random members: any seed does.
            let mut rng = Rng::seeded(self.client.id);
            let mut cx = Cx {
                reply: Reply::new(&mut reply, self.proto),
                now: Now { unix_ms: now_ms, mono_ns: 0 },
                rng: &mut rng,
                live: self.config.live(),
                serving: true,
            };
            if self.would_block(owned) {
                return Served::StillWaiting;
            }
            if !self.claim(SERVED) {
                return Served::Gone;
            }
            (self.handler)(owned, &self.args.args(), &mut cx)
        };
        match result {
            Ok(Flow::Done) => {}
            Ok(Flow::Block(_) | Flow::BlockTimed(_)) => {
                self.state.store(WAITING, Ordering::SeqCst);
                return Served::StillWaiting;
            }
            Err(error) => {
                reply.clear();
                error.write(&mut Reply::new(&mut reply, self.proto));
            }
        }
        *self.left.lock() = Some(Left::Reply(reply));
        self.client.mailbox.post(letter::SERVED);
        Served::Done
    }

    fn refuse(&self, refused: Refused) {
        if self.claim(SERVED) {
            *self.left.lock() = Some(Left::Refused(refused));
            self.client.mailbox.post(letter::SERVED);
        }
    }
}

impl Waiter {
    /// None of its keys is there: no need to claim it and try.
    fn would_block(&self, owned: &Owned<'_>) -> bool {
        !self.keys.iter().any(|k| owned.keys().exists(crate::slot::Key::new(k)))
    }
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
            handler,
            args: args.to_owned(),
            keys: on.keys.iter().map(|i| args.at(*i).into()).collect(),
            slot: owned.slot(),
            proto: self.client.proto,
            state: AtomicU8::new(WAITING),
            left: Mutex::default(),
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
        let Some(ending) = blocked.ending(timed_out || unblocked) else {
            self.blocked = Some(blocked);
            return false;
        };
        let mut reply = Reply::new(&mut worker.out, self.client.proto);
        match ending {
            Ending::Served(Left::Reply(left)) => worker.out.extend_from_slice(&left),
            Ending::Served(Left::Refused(refused)) => {
                let slot = blocked.waiter.as_ref().map(|w| w.slot);
                if let Some(slot) = slot {
                    node.refusal(slot, refused).write(&mut reply);
                }
            }
            Ending::GivenUp if letters & letter::UNBLOCK_ERROR != 0 => {
                reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
            }
            Ending::GivenUp => blocked.on_timeout.write(&mut reply),
        }
        if worker.out.get(start) == Some(&b'-') {
            worker.stats.count_error(&worker.out[start..]);
            worker.stats.commands[blocked.command.index()].failed.add(1);
        }
        if let Some(waiter) = &blocked.waiter {
            if waiter.state.load(Ordering::SeqCst) == GONE {
                self.leave_line(waiter, node, now);
            }
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

    /// Takes the waiter out of the hall. If the room is busy it stays there as `Gone`, and the
    /// next one to make its key ready drops it.
    fn leave_line(&self, waiter: &Arc<Waiter>, node: &NodeState, now: Now) {
        use crate::slot::{Admit, Patience};
        let slot = waiter.slot;
        let waiter: Arc<dyn Waiting> = waiter.clone();
        if let Admit::Served(mut owned) = node.rooms.admit(slot, now.unix_ms, Patience::Spin) {
            owned.unblock(&waiter);
        }
    }

    /// The connection ends while blocked.
    pub(super) fn abandon_block(&mut self, node: &NodeState) {
        if let Some(blocked) = self.blocked.take() {
            if let Some(waiter) = blocked.waiter.filter(|w| w.claim(GONE)) {
                self.leave_line(&waiter, node, node.edges.now());
            }
            self.end_block(node);
        }
    }

    /// Is the client blocked?
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
