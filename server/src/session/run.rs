//! Running a batch: the checks in Redis's order, one lock a command (or a run of commands of
//! one slot), one reply each.

use std::sync::atomic::Ordering;

use slots::SlotId;

use crate::command::client::client_flag;
use crate::command::promise::Seen;
use crate::command::{
    Args, Command, CommandError, CommandId, Flow, Handler, NodeCx, NodeState, Now, ReplyMode,
    SessionVerb, flag, registry,
};
use crate::resp::Reply;
use crate::session::call::{call, call_keyless, cx, resolve};
use crate::session::worker::Request;
use crate::session::{FLUSH_BYTES, Session, Step, Worker};
use crate::slot::{Admit, Owned, Patience, Refused};

/// Commands of one slot that share a lock hold. Bounded so that others get their turn.
const LOCK_RUN: u32 = 16;

/// The lock hold that consecutive commands of one slot share.
#[derive(Default)]
pub(super) struct Hold<'n> {
    pub owned: Option<Owned<'n>>,
    run: u32,
}

impl<'n> Hold<'n> {
    pub fn let_go(&mut self) {
        self.owned = None;
        self.run = 0;
    }

    /// The room of `slot`, entered: kept from the command before if it was the same.
    #[inline]
    fn enter(
        &mut self,
        node: &'n NodeState,
        slot: SlotId,
        now: Now,
        patience: Patience,
    ) -> Result<&mut Owned<'n>, Entry> {
        let same = self.owned.as_ref().is_some_and(|o| o.slot() == slot) && self.run < LOCK_RUN;
        if !same {
            self.let_go();
            match node.rooms.admit(slot, now.unix_ms, patience) {
                Admit::Served(owned) => self.owned = Some(owned),
                Admit::Refused(refused) => return Err(Entry::Refused(refused)),
                Admit::Busy => return Err(Entry::Busy),
            }
        }
        self.run += 1;
        self.owned.as_mut().ok_or(Entry::Busy)
    }
}

enum Entry {
    Refused(Refused),
    Busy,
}

/// What became of one request.
pub(super) enum Ran {
    /// Answered; go on.
    Next,
    /// Answered or not, the batch stops. `consumed` says whether the request is used up.
    Stop { step: Step, consumed: bool },
}

impl Ran {
    pub(super) fn held_back(step: Step) -> Ran {
        Ran::Stop { step, consumed: false }
    }
}

impl Session {
    /// Runs the decoded batch. Returns the input position behind the last request used up, and
    /// the step that stopped it early.
    pub(super) fn run_batch(
        &mut self,
        input: &[u8],
        start: usize,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
    ) -> (usize, Option<Step>) {
        let mut hold = Hold::default();
        worker.is_late = false;
        let mut consumed = start;
        let requests = std::mem::take(&mut worker.batch);
        let words = std::mem::take(&mut worker.args);
        let quoted = std::mem::take(&mut worker.quoted);
        let mut stopped = None;
        for request in &requests {
            let args = match request.quoted {
                Some(at) => quoted[at].args(),
                None => {
                    Args::new(input, &words[request.first_arg..request.first_arg + request.args])
                }
            };
            match self.run_request(request, args, &mut hold, worker, node, now) {
                Ran::Next => consumed = request.end,
                Ran::Stop { step, consumed: used } => {
                    if used {
                        consumed = request.end;
                    }
                    stopped = Some(step);
                    break;
                }
            }
            if worker.out.len() >= FLUSH_BYTES || worker.is_late {
                stopped = Some(Step::Flush);
                break;
            }
        }
        hold.let_go();
        worker.share_time(node, now);
        (worker.batch, worker.args, worker.quoted) = (requests, words, quoted);
        (consumed, stopped)
    }

    #[inline]
    fn run_request<'n>(
        &mut self,
        request: &Request,
        args: Args<'_>,
        hold: &mut Hold<'n>,
        worker: &mut Worker,
        node: &'n NodeState,
        now: Now,
    ) -> Ran {
        let start = worker.out.len();
        let Some(id) = request.command else {
            hold.let_go();
            return self.refuse_unknown(&args, worker, start);
        };
        let command = registry().entry(id).command;
        if let Some((slot, hash)) = request.key
            && command.arity_ok(args.len())
            && self.is_plain(node, command)
        {
            let args = args.with_hash(1, hash);
            return self.run_one_slot(id, command, slot, args, hold, worker, node, now, start);
        }
        hold.let_go();
        self.run_checked(id, args, hold, worker, node, now, start)
    }

    /// Nothing stands between this client and its command: the hot path.
    #[inline]
    fn is_plain(&self, node: &NodeState, command: &Command) -> bool {
        self.client.authenticated
            && self.multi.is_none()
            && self.client.reply_mode == ReplyMode::On
            && !(node.pause.is_active() || node.is_down() || node.promises.is_log_full())
            && (command.flags & flag::DENYOOM == 0 || !node.is_over_maxmemory())
    }

    /// All checks, in Redis's order.
    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    fn run_checked<'n>(
        &mut self,
        id: CommandId,
        args: Args<'_>,
        hold: &mut Hold<'n>,
        worker: &mut Worker,
        node: &'n NodeState,
        now: Now,
        start: usize,
    ) -> Ran {
        let (id, command) = match resolve(id, &args) {
            Ok(found) => found,
            Err(error) => return self.refuse(Some(id), error, worker, start, true),
        };
        if !self.client.authenticated && command.flags & flag::NO_AUTH == 0 {
            let error = CommandError::Static("NOAUTH Authentication required.");
            return self.refuse(Some(id), error, worker, start, true);
        }
        if self.multi.is_some() && command.flags & flag::NO_MULTI != 0 {
            let error = CommandError::Static("ERR Command not allowed inside a transaction");
            return self.refuse(Some(id), error, worker, start, true);
        }
        let slot = match self.slot_for(command, &args, node) {
            Ok(slot) => slot,
            Err(error) => return self.refuse(Some(id), error, worker, start, true),
        };
        if node.is_over_maxmemory() && self.takes_memory(command) {
            return self.refuse(Some(id), CommandError::OutOfMemory, worker, start, true);
        }
        if node.promises.is_log_full() && command.writes() {
            return self.refuse(Some(id), node.log_is_full(), worker, start, true);
        }
        if let Handler::Session(verb) = command.handler {
            if verb == SessionVerb::Exec && self.exec_is_paused(node) {
                return Ran::held_back(Step::Paused);
            }
            return self.run_verb(verb, id, args, worker, node, now, start);
        }
        if self.multi.is_some() {
            self.queue(id, &args, worker, node);
            return self.after_reply(worker, start);
        }
        if node.pause.holds(command) {
            return Ran::held_back(Step::Paused);
        }
        match (slot, command.handler) {
            (_, Handler::Node(_)) => self.run_node(id, command, args, worker, node, now, start),
            (Some(slot), _) => {
                self.run_one_slot(id, command, slot, args, hold, worker, node, now, start)
            }
            (None, _) => {
                let result = call_keyless(command, &args, node, &mut cx(worker, self, node, now));
                self.finish(id, &args, result, None, None, worker, node, now, start)
            }
        }
    }

    /// The one slot of a request's keys, checked against the table so that a refusal comes
    /// before anything else happens; a node without a seat refuses more. `Ok(None)` = no keys.
    pub(super) fn slot_for(
        &self,
        command: &Command,
        args: &Args<'_>,
        node: &NodeState,
    ) -> Result<Option<SlotId>, CommandError> {
        node.check_seat(command)?;
        let Some(keys) = command.keys.find(args) else { return Ok(None) };
        let mut slots = keys.iter().map(|i| slots::slot_of(args.at(*i)));
        let Some(first) = slots.next() else { return Ok(None) };
        // WATCH may name keys of several slots.
        let one_slot = !matches!(command.handler, Handler::Session(SessionVerb::Watch));
        if one_slot && slots.any(|slot| slot != first) {
            return Err(CommandError::Static(slots::redirect::CROSSSLOT));
        }
        for key in &keys {
            node.check_key(slots::slot_of(args.at(*key)), command, &self.client.shared)?;
            if one_slot {
                break;
            }
        }
        Ok(Some(first))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    #[inline]
    fn run_one_slot<'n>(
        &mut self,
        id: CommandId,
        command: &'static Command,
        slot: SlotId,
        args: Args<'_>,
        hold: &mut Hold<'n>,
        worker: &mut Worker,
        node: &'n NodeState,
        now: Now,
        start: usize,
    ) -> Ran {
        if command.flags & flag::LONG != 0 {
            // It enters the room by itself, and may not find it held by this very batch.
            hold.let_go();
            return self.run_long(id, command, slot, args, worker, node, now, start);
        }
        let owned = match hold.enter(node, slot, now, Patience::Spin) {
            Ok(owned) => owned,
            Err(Entry::Busy) => return Ran::held_back(Step::Busy(slot)),
            Err(Entry::Refused(refused)) => {
                return self.refuse_slot(id, slot, refused, worker, node, start);
            }
        };
        self.honour_no_touch(command, owned);
        let timed = node.is_timed(id).then(|| node.edges.now());
        let result = call(command, owned, &args, &mut cx(worker, self, node, now));
        owned.end_group();
        self.finish(id, &args, result, Some(owned), timed, worker, node, now, start)
    }

    /// A command that may run long: where blocking is allowed, with a lock hold of its own.
    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    fn run_long(
        &mut self,
        id: CommandId,
        command: &'static Command,
        slot: SlotId,
        args: Args<'_>,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
        start: usize,
    ) -> Ran {
        let mut ran = Ran::Next;
        worker.is_late = true;
        node.edges.run_long(&mut || {
            let mut hold = Hold::default();
            // Not waiting here: enough of them behind one held slot would use up all threads.
            let owned = match hold.enter(node, slot, now, Patience::Spin) {
                Ok(owned) => owned,
                Err(Entry::Busy) => {
                    ran = Ran::held_back(Step::Busy(slot));
                    return;
                }
                Err(Entry::Refused(refused)) => {
                    ran = self.refuse_slot(id, slot, refused, worker, node, start);
                    return;
                }
            };
            self.honour_no_touch(command, owned);
            let timed = Some(node.edges.now());
            let result = call(command, owned, &args, &mut cx(worker, self, node, now));
            owned.end_group();
            ran = self.finish(id, &args, result, Some(owned), timed, worker, node, now, start);
        });
        ran
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    fn run_node(
        &mut self,
        id: CommandId,
        command: &'static Command,
        args: Args<'_>,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
        start: usize,
    ) -> Ran {
        let Handler::Node(handler) = command.handler else { return Ran::Next };
        let timed = Some(node.edges.now());
        // CLIENT LIST shows the command that asks, too.
        self.note_command(id);
        let (mut result, mut seen) = (Ok(Flow::Done), None);
        let mut run = || {
            let proto = self.client.proto;
            let mut cx = NodeCx {
                node,
                client: &mut self.client,
                reply: Reply::new(&mut worker.out, proto),
                now,
                rng: &mut worker.rng,
                held: None,
                flush_later: false,
                block: None,
                seen: None,
            };
            let done = handler(&mut cx, &args);
            seen = cx.seen;
            result = done.map(|()| cx.block.map_or(Flow::Done, Flow::BlockTimed));
        };
        if command.flags & flag::LONG != 0 {
            node.edges.run_long(&mut run);
            worker.is_late = true;
        } else {
            run();
        }
        if let Some(seen) = seen.filter(|_| node.promises.is_active()) {
            self.promise_seen(seen, worker, node, start);
        }
        self.finish(id, &args, result, None, timed, worker, node, now, start)
    }

    /// Books the result of a command and turns it into the next step.
    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    #[inline]
    fn finish(
        &mut self,
        id: CommandId,
        args: &Args<'_>,
        result: Result<Flow, CommandError>,
        mut owned: Option<&mut Owned<'_>>,
        timed: Option<Now>,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
        start: usize,
    ) -> Ran {
        if let Err(error) = &result
            && let Some(slot) = self.waits_for(error)
        {
            worker.out.truncate(start);
            return Ran::held_back(Step::Busy(slot));
        }
        self.note_command(id);
        let counters = &worker.stats.commands[id.index()];
        counters.calls.add(1);
        worker.stats.processed.add(1);
        let is_gated = node.promises.is_active();
        let seen = owned.as_deref().filter(|_| is_gated).map(Seen::of);
        if let Some(owned) = &mut owned {
            worker.stats.count_lookups(registry().entry(id).command, owned.keys().take_hits());
            worker.stats.changes.add(owned.take_changes());
        }
        if let Some(begun) = timed {
            let nanos = node.edges.now().mono_ns.saturating_sub(begun.mono_ns);
            counters.nanos.add(nanos);
            node.note_slow(id, args, nanos, now, &self.client);
            worker.timed_ns += nanos;
        } else {
            worker.untimed.push(id);
        }
        match result {
            Ok(Flow::Done) => {
                if worker.out.get(start) == Some(&b'-') {
                    worker.stats.count_error(&worker.out[start..]);
                    worker.stats.commands[id.index()].failed.add(1);
                }
            }
            Ok(Flow::BlockTimed(on)) => {
                let step = self.block_timed(id, on, node, now);
                return Ran::Stop { step, consumed: true };
            }
            Ok(Flow::Block(on)) => {
                if let (Some(owned), Handler::Block(handler)) =
                    (owned, registry().entry(id).command.handler)
                {
                    let step = self.block(id, handler, args, on, owned, node, now);
                    return Ran::Stop { step, consumed: true };
                }
            }
            Err(error) => {
                worker.out.truncate(start);
                error.write(&mut Reply::new(&mut worker.out, self.client.proto));
                worker.stats.count_error(&worker.out[start..]);
                worker.stats.commands[id.index()].failed.add(1);
            }
        }
        if is_gated {
            self.promise_of(id, seen, worker, node, start);
        }
        if self.client.reply_mode == ReplyMode::On && !self.client.close_after_reply {
            return Ran::Next;
        }
        self.after_reply(worker, start)
    }

    #[cold]
    fn promise_of(
        &self,
        id: CommandId,
        seen: Option<Seen>,
        worker: &mut Worker,
        node: &NodeState,
        start: usize,
    ) {
        match seen {
            Some(seen) => self.promise_seen(seen, worker, node, start),
            None if registry().entry(id).command.sees_all_keys() => {
                self.promise_all(worker, node, start);
            }
            None => {}
        }
    }

    /// CLIENT REPLY drops replies here; a connection that is to end ends here.
    pub(super) fn after_reply(&mut self, worker: &mut Worker, start: usize) -> Ran {
        match self.client.reply_mode {
            ReplyMode::On => {}
            ReplyMode::Off => worker.out.truncate(start),
            ReplyMode::SkipNext => {
                worker.out.truncate(start);
                self.client.reply_mode = ReplyMode::Skip;
            }
            ReplyMode::Skip => {
                worker.out.truncate(start);
                self.client.reply_mode = ReplyMode::On;
            }
        }
        if self.client.close_after_reply {
            return Ran::Stop { step: Step::Close, consumed: true };
        }
        Ran::Next
    }

    /// Answers with an error before execution. `poisons`: an open transaction fails with it.
    pub(super) fn refuse(
        &mut self,
        id: Option<CommandId>,
        error: CommandError,
        worker: &mut Worker,
        start: usize,
        poisons: bool,
    ) -> Ran {
        if let Some(slot) = self.waits_for(&error) {
            worker.out.truncate(start);
            return Ran::held_back(Step::Busy(slot));
        }
        if poisons {
            self.poison();
        }
        worker.out.truncate(start);
        error.write(&mut Reply::new(&mut worker.out, self.client.proto));
        worker.stats.count_error(&worker.out[start..]);
        if let Some(id) = id {
            worker.stats.commands[id.index()].rejected.add(1);
        }
        self.after_reply(worker, start)
    }

    #[cold]
    fn refuse_slot(
        &mut self,
        id: CommandId,
        slot: SlotId,
        refused: Refused,
        worker: &mut Worker,
        node: &NodeState,
        start: usize,
    ) -> Ran {
        let error = node.refusal(slot, refused, &self.client.shared);
        self.refuse(Some(id), error, worker, start, true)
    }

    /// Redis's wording, with the beginning of the arguments.
    #[cold]
    fn refuse_unknown(&mut self, args: &Args<'_>, worker: &mut Worker, start: usize) -> Ran {
        if !self.client.authenticated {
            let error = CommandError::Static("NOAUTH Authentication required.");
            return self.refuse(None, error, worker, start, true);
        }
        self.refuse(None, unknown_command(args), worker, start, true)
    }

    /// The client's last command, for CLIENT LIST.
    #[inline]
    pub(super) fn note_command(&self, id: CommandId) {
        self.client.shared.last_command.store(id.0 as u32, Ordering::Relaxed);
    }

    /// CLIENT NO-TOUCH: look-ups leave access clocks alone, but for TOUCH, whose point it is.
    #[inline]
    pub(super) fn honour_no_touch(&self, command: &Command, owned: &mut Owned<'_>) {
        if self.client.no_touch {
            owned.set_touch(command.name == "touch");
        }
    }

    pub(super) fn note_multi_flag(&self) {
        self.client.shared.set_flag(client_flag::MULTI, self.multi.is_some());
    }
}

fn unknown_command(args: &Args<'_>) -> CommandError {
    /// Bytes of arguments that are shown, as Redis does.
    const SHOWN_BYTES: usize = 128;
    let name = args.at(0);
    let name = String::from_utf8_lossy(&name[..name.len().min(SHOWN_BYTES)]).into_owned();
    let mut shown = String::new();
    for word in args.from(1) {
        if shown.len() >= SHOWN_BYTES {
            break;
        }
        let room = SHOWN_BYTES - shown.len();
        let word = String::from_utf8_lossy(&word[..word.len().min(room)]);
        shown.push_str(&format!("'{word}' "));
    }
    CommandError::err(format_args!("unknown command '{name}', with args beginning with: {shown}"))
}
