//! Transactions: MULTI's queue, WATCH, EXEC.
//!
//! EXEC takes one lock, checks the watches and the ownership under it, and runs the queue as one
//! op group: whole in the log, in replies and at a move. All keys must be of one slot; WATCH may
//! name keys of others. Commands on the whole node (FLUSHALL, SCAN...) may stand in the queue.

use std::collections::HashMap;

use slots::SlotId;

use crate::command::client::{ClientShared, client_flag};
use crate::command::{
    Args, Command, CommandError, CommandId, Cx, Flow, Handler, NodeCx, NodeState, Now, OwnedArgs,
    SessionVerb, flag, registry,
};
use crate::resp::{Proto, Reply};
use crate::session::call::{call, call_keyless, cx};
use crate::session::run::Ran;
use crate::session::{Session, Step, Worker};
use crate::slot::{Admit, Key, Owned, Patience, Watch};

/// Bytes of queued commands a transaction may hold; more answers an error and poisons it.
pub const QUEUE_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Keys one client may watch, and bytes of them; more answers an error.
pub const WATCH_MAX_KEYS: usize = 65_536;
const WATCH_MAX_BYTES: usize = 64 * 1024 * 1024;

/// An open MULTI.
#[derive(Default)]
pub(super) struct Transaction {
    queue: Vec<(CommandId, OwnedArgs)>,
    bytes: usize,
    poisoned: bool,
}

/// What WATCH remembers.
#[derive(Default)]
pub(super) struct Watches {
    watch: Watch,
    keys: HashMap<Box<[u8]>, Watched>,
    /// Of the keys.
    bytes: usize,
}

struct Watched {
    slot: SlotId,
    /// When the key will expire, which changes it although nobody touches it (D08).
    expiry_ms: Option<u64>,
}

impl Session {
    /// An error while queueing: EXEC will refuse.
    pub(super) fn poison(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.poisoned = true;
        }
    }

    /// May the command make the node hold more? In a transaction queueing it does.
    pub(super) fn takes_memory(&self, command: &Command) -> bool {
        let ends = matches!(
            command.handler,
            Handler::Session(
                SessionVerb::Exec | SessionVerb::Discard | SessionVerb::Reset | SessionVerb::Quit
            )
        );
        command.flags & flag::DENYOOM != 0 || (self.multi.is_some() && !ends)
    }

    pub(super) fn queue(
        &mut self,
        id: CommandId,
        args: &Args<'_>,
        worker: &mut Worker,
        node: &NodeState,
    ) {
        let _ = node;
        let Some(multi) = &mut self.multi else { return };
        let mut reply = Reply::new(&mut worker.out, self.client.proto);
        let words = args.to_owned();
        if multi.bytes + words.bytes() > QUEUE_MAX_BYTES {
            multi.poisoned = true;
            reply.error("ERR the transaction is too big");
            return;
        }
        multi.bytes += words.bytes();
        multi.queue.push((id, words));
        let shared = &self.client.shared;
        shared.queued.store(multi.queue.len() as u32, std::sync::atomic::Ordering::Relaxed);
        shared.queue_bytes.store(multi.bytes as u64, std::sync::atomic::Ordering::Relaxed);
        reply.simple("QUEUED");
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(super) fn run_verb(
        &mut self,
        verb: SessionVerb,
        id: CommandId,
        args: Args<'_>,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
        start: usize,
    ) -> Ran {
        if verb == SessionVerb::Unwatch && self.multi.is_some() {
            self.queue(id, &args, worker, node);
            return self.after_reply(worker, start);
        }
        let result = match verb {
            SessionVerb::Multi => self.multi_open(worker),
            SessionVerb::Discard => self.multi_discard(worker, node),
            SessionVerb::Watch => self.watch(&args, worker, node, now),
            SessionVerb::Unwatch => {
                self.end_watches(node);
                self.reply_ok(worker)
            }
            SessionVerb::Exec => self.exec(worker, node, now),
            SessionVerb::Reset => self.reset(worker, node),
            SessionVerb::Quit => {
                self.client.close_after_reply = true;
                self.reply_ok(worker)
            }
        };
        if let Err(error) = &result
            && let Some(slot) = self.waits_for(error)
        {
            worker.out.truncate(start);
            return Ran::held_back(Step::Busy(slot));
        }
        if verb == SessionVerb::Exec && matches!(result, Err(CommandError::Busy(_))) {
            // It is answered, and that is the end of the transaction for any client.
            self.close_multi(node);
        }
        worker.stats.commands[id.index()].calls.add(1);
        worker.stats.processed.add(1);
        self.note_command(id);
        if let Err(error) = result {
            worker.out.truncate(start);
            error.write(&mut Reply::new(&mut worker.out, self.client.proto));
            worker.stats.count_error(&worker.out[start..]);
            worker.stats.commands[id.index()].failed.add(1);
        }
        self.after_reply(worker, start)
    }

    fn reply_ok(&self, worker: &mut Worker) -> Result<(), CommandError> {
        Reply::new(&mut worker.out, self.client.proto).ok();
        Ok(())
    }

    fn multi_open(&mut self, worker: &mut Worker) -> Result<(), CommandError> {
        if self.multi.is_some() {
            return Err(CommandError::Static("ERR MULTI calls can not be nested"));
        }
        self.multi = Some(Box::default());
        self.note_multi_flag();
        self.reply_ok(worker)
    }

    fn multi_discard(&mut self, worker: &mut Worker, node: &NodeState) -> Result<(), CommandError> {
        if self.multi.is_none() {
            return Err(CommandError::Static("ERR DISCARD without MULTI"));
        }
        self.close_multi(node);
        self.reply_ok(worker)
    }

    fn close_multi(&mut self, node: &NodeState) {
        self.multi = None;
        self.note_multi_flag();
        let shared = &self.client.shared;
        shared.queued.store(0, std::sync::atomic::Ordering::Relaxed);
        shared.queue_bytes.store(0, std::sync::atomic::Ordering::Relaxed);
        self.end_watches(node);
    }

    fn reset(&mut self, worker: &mut Worker, node: &NodeState) -> Result<(), CommandError> {
        self.close_multi(node);
        let client = &mut self.client;
        client.set_proto(Proto::Resp2);
        client.readonly = false;
        client.no_touch = false;
        client.reply_mode = crate::command::ReplyMode::On;
        client.authenticated = !node.config.live().requirepass.is_set();
        client.shared.set_names(|names| names.name.clear());
        let flags = client_flag::READONLY | client_flag::NO_TOUCH | client_flag::NO_EVICT;
        client.shared.set_flag(flags, false);
        Reply::new(&mut worker.out, client.proto).simple("RESET");
        Ok(())
    }

    fn watch(
        &mut self,
        args: &Args<'_>,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
    ) -> Result<(), CommandError> {
        if self.multi.is_some() {
            return Err(CommandError::Static("ERR WATCH inside MULTI is not allowed"));
        }
        let watches = self.watches.get_or_insert_default();
        let shared = &self.client.shared;
        let result = args.from(1).try_for_each(|key| watches.add(key, shared, node, now));
        let count = watches.keys.len() as u32;
        shared.watching.store(count, std::sync::atomic::Ordering::Relaxed);
        result.and_then(|()| self.reply_ok(worker))
    }

    pub(super) fn end_watches(&mut self, node: &NodeState) {
        let Some(watches) = self.watches.take() else { return };
        self.client.shared.watching.store(0, std::sync::atomic::Ordering::Relaxed);
        for (key, watched) in &watches.keys {
            let leave = |patience| node.rooms.unwatch(watched.slot, key, &watches.watch, patience);
            // A busy room is worth a wait here: a watch left behind would never be dropped.
            if !leave(Patience::Spin) {
                node.edges.run_long(&mut || {
                    leave(Patience::Block);
                });
            }
        }
    }

    fn watches_broken(&self, now: Now) -> bool {
        self.watches.as_ref().is_some_and(|w| {
            w.watch.is_touched()
                || w.keys.values().any(|k| k.expiry_ms.is_some_and(|at| at <= now.unix_ms))
        })
    }

    pub(super) fn exec_is_paused(&self, node: &NodeState) -> bool {
        self.multi.as_ref().is_some_and(|multi| {
            multi.queue.iter().any(|(id, _)| node.pause.holds(registry().entry(*id).command))
        })
    }

    fn exec(
        &mut self,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
    ) -> Result<(), CommandError> {
        let Some(multi) = self.multi.take() else {
            return Err(CommandError::Static("ERR EXEC without MULTI"));
        };
        let result = self.exec_queue(&multi, worker, node, now);
        if let Err(CommandError::Busy(slot)) = result {
            self.multi = Some(multi);
            return Err(CommandError::Busy(slot));
        }
        self.close_multi(node);
        result
    }

    fn exec_queue(
        &mut self,
        multi: &Transaction,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
    ) -> Result<(), CommandError> {
        let slot = self.queue_slot(multi, node)?;
        let has =
            |bit| multi.queue.iter().any(|(id, _)| registry().entry(*id).command.flags & bit != 0);
        if node.is_over_maxmemory() && has(flag::DENYOOM) {
            return Err(CommandError::Static(
                "EXECABORT Transaction discarded because of: \
                 OOM command not allowed when used memory > 'maxmemory'.",
            ));
        }
        let writes = |(id, _): &(CommandId, _)| registry().entry(*id).command.writes();
        if node.promises.is_log_full() && multi.queue.iter().any(writes) {
            let why = node.log_is_full();
            return Err(CommandError::Text(format!(
                "EXECABORT Transaction discarded because of: {}",
                why.text()
            )));
        }
        if multi.poisoned {
            return Err(CommandError::Static(
                "EXECABORT Transaction discarded because of previous errors.",
            ));
        }
        if self.watches_broken(now) {
            Reply::new(&mut worker.out, self.client.proto).null_array();
            return Ok(());
        }
        if !has(flag::LONG) {
            return self.exec_under_lock(multi, slot, worker, node, now);
        }
        let mut result = Ok(());
        worker.is_late = true;
        node.edges.run_long(&mut || {
            result = self.exec_under_lock(multi, slot, worker, node, now);
        });
        result
    }

    /// The one slot of all keys in the queue.
    fn queue_slot(
        &self,
        multi: &Transaction,
        node: &NodeState,
    ) -> Result<Option<SlotId>, CommandError> {
        let mut slot = None;
        for (id, words) in &multi.queue {
            let found = self.slot_for(registry().entry(*id).command, &words.args(), node)?;
            match (slot, found) {
                (Some(a), Some(b)) if a != b => {
                    return Err(CommandError::Static(slots::redirect::CROSSSLOT));
                }
                (None, found) => slot = found,
                _ => {}
            }
        }
        Ok(slot)
    }

    fn exec_under_lock(
        &mut self,
        multi: &Transaction,
        slot: Option<SlotId>,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
    ) -> Result<(), CommandError> {
        let start = worker.out.len();
        let sees_all = |(id, _): &(CommandId, _)| registry().entry(*id).command.sees_all_keys();
        let sees_all = node.promises.is_active() && multi.queue.iter().any(sees_all);
        let mut owned = None;
        if let Some(slot) = slot {
            // Never waits at the lock: a busy room is the session's to wait for.
            match node.rooms.admit(slot, now.unix_ms, Patience::Spin) {
                Admit::Served(entered) => owned = Some(entered),
                Admit::Busy => return Err(CommandError::Busy(slot)),
                Admit::Refused(refused) => {
                    return Err(node.refusal(slot, refused, &self.client.shared));
                }
            }
            // Again, now that nobody can touch the slot's keys any more.
            if self.watches_broken(now) {
                Reply::new(&mut worker.out, self.client.proto).null_array();
                return Ok(());
            }
        }
        Reply::new(&mut worker.out, self.client.proto).array(multi.queue.len());
        let mut flush_later = false;
        for (id, words) in &multi.queue {
            let (id, args) = (*id, words.args());
            flush_later |= self.exec_one(id, args, owned.as_mut(), worker, node, now);
            if let Some(owned) = &owned {
                let command = registry().entry(id).command;
                worker.stats.count_lookups(command, owned.keys().take_hits());
            }
        }
        if let Some(owned) = owned.as_mut() {
            // What expired while it ran is not there for those who wait for it.
            owned.note_time(node.edges.now().unix_ms);
            owned.end_group();
            if !sees_all {
                self.promise(owned, worker, node, start);
            }
        }
        drop(owned);
        if flush_later {
            node.edges.run_long(&mut || {
                if let Err(error) = node.flush_all(now, slot) {
                    tracing::warn!(error = error.text(), "FLUSHALL in EXEC left a slot as it was");
                }
            });
        }
        if sees_all {
            self.promise_all(worker, node, start);
        }
        Ok(())
    }

    /// Runs one queued command and appends its reply. Returns true if a FLUSHALL wants the other
    /// slots emptied after the lock is let go.
    fn exec_one(
        &mut self,
        id: CommandId,
        args: Args<'_>,
        owned: Option<&mut Owned<'_>>,
        worker: &mut Worker,
        node: &NodeState,
        now: Now,
    ) -> bool {
        let command = registry().entry(id).command;
        let start = worker.out.len();
        let begun = node.edges.now();
        self.note_command(id);
        let mut flush_later = false;
        let result = match (command.handler, owned) {
            (Handler::Session(_), _) => self.reply_ok(worker).map(|()| Flow::Done),
            (Handler::Node(handler), owned) => {
                let proto = self.client.proto;
                let mut cx = NodeCx {
                    node,
                    client: &mut self.client,
                    reply: Reply::new(&mut worker.out, proto),
                    now,
                    rng: &mut worker.rng,
                    held: owned.map(|o| o as &mut dyn crate::command::cx::HeldRoom),
                    flush_later: false,
                    block: None,
                    seen: None,
                };
                let result = handler(&mut cx, &args).map(|()| Flow::Done);
                flush_later = cx.flush_later;
                if let Some(on) = cx.block {
                    on.on_timeout.write(&mut cx.reply);
                }
                result
            }
            (_, Some(owned)) => {
                self.honour_no_touch(command, owned);
                exec_call(command, owned, &args, &mut cx(worker, self, node, now))
            }
            (_, None) => call_keyless(command, &args, node, &mut cx(worker, self, node, now)),
        };
        let counters = &worker.stats.commands[id.index()];
        counters.calls.add(1);
        worker.stats.processed.add(1);
        let nanos = node.edges.now().mono_ns.saturating_sub(begun.mono_ns);
        counters.nanos.add(nanos);
        node.note_slow(id, &args, nanos, now, &self.client);
        if let Err(error) = result {
            worker.out.truncate(start);
            error.write(&mut Reply::new(&mut worker.out, self.client.proto));
        }
        if worker.out.get(start) == Some(&b'-') {
            worker.stats.count_error(&worker.out[start..]);
            worker.stats.commands[id.index()].failed.add(1);
        }
        flush_later
    }
}

impl Watches {
    fn add(
        &mut self,
        key: &[u8],
        who: &ClientShared,
        node: &NodeState,
        now: Now,
    ) -> Result<(), CommandError> {
        if self.keys.contains_key(key) {
            return Ok(());
        }
        if self.keys.len() == WATCH_MAX_KEYS || self.bytes + key.len() > WATCH_MAX_BYTES {
            return Err(CommandError::Static("ERR too many keys are watched"));
        }
        let slot = slots::slot_of(key);
        match node.rooms.admit(slot, now.unix_ms, Patience::Spin) {
            Admit::Served(mut owned) => {
                let expiry_ms = owned.watch(Key::new(key), &self.watch);
                self.keys.insert(key.into(), Watched { slot, expiry_ms });
                self.bytes += key.len();
                Ok(())
            }
            Admit::Busy => Err(CommandError::Busy(slot)),
            Admit::Refused(refused) => Err(node.refusal(slot, refused, who)),
        }
    }
}

/// Inside a transaction nothing blocks: the answer is the time-out's.
fn exec_call(
    command: &Command,
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
) -> Result<Flow, CommandError> {
    match call(command, owned, args, cx)? {
        Flow::Done => {}
        Flow::Block(on) => on.on_timeout.write(&mut cx.reply),
        Flow::BlockTimed(on) => on.on_timeout.write(&mut cx.reply),
    }
    Ok(Flow::Done)
}

#[cfg(test)]
mod tests {
    use super::WATCH_MAX_KEYS;
    use crate::slot::Ownership;
    use crate::testing::TestNode;
    use slots::{Epoch, slot_of};

    /// StillEdges says that a million bytes are in use.
    #[test]
    fn over_maxmemory_nothing_is_queued_and_nothing_that_grows_is_executed() {
        let mut node = TestNode::new(&[]);
        node.send(1, b"MULTI\r\nSET a 1\r\n");
        node.send(9, b"CONFIG SET maxmemory 1000\r\n");
        let aborted = "-EXECABORT Transaction discarded because of: OOM command not allowed when \
            used memory > 'maxmemory'.\r\n";
        assert_eq!(node.send(1, b"EXEC\r\n"), aborted.as_bytes());
        let refused = b"+OK\r\n-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        assert_eq!(node.send(1, b"MULTI\r\nGET a\r\n"), refused);
        assert_eq!(
            node.send(1, b"EXEC\r\n"),
            b"-EXECABORT Transaction discarded because of previous errors.\r\n"
        );
        assert_eq!(node.send(1, b"GET a\r\nMULTI\r\nDISCARD\r\n"), b"$-1\r\n+OK\r\n+OK\r\n");
    }

    #[test]
    fn a_watch_of_a_sealed_slot_is_taken_back() {
        let mut node = TestNode::new(&[]);
        let slot = slot_of(b"a");
        assert_eq!(node.send(1, b"WATCH a\r\n"), b"+OK\r\n");
        assert!(node.node.rooms.has_people(slot));
        node.node.rooms.install(slot, Ownership::Sealed, Epoch(9));
        assert_eq!(node.send(1, b"UNWATCH\r\n"), b"+OK\r\n");
        assert!(!node.node.rooms.has_people(slot));
    }

    #[test]
    fn a_transaction_does_not_give_the_slot_away_that_it_writes_to() {
        let mut node = TestNode::new(&[]);
        let slot = slot_of(b"a").number();
        let script = format!("MULTI\r\nCLUSTER DELSLOTS {slot}\r\nSET a 1\r\nEXEC\r\n");
        let reply = String::from_utf8(node.send(1, script.as_bytes())).expect("ASCII");
        assert!(reply.starts_with("+OK\r\n-ERR Command not allowed inside a transaction\r\n"));
        assert!(reply.contains("-EXECABORT "), "{reply}");
        assert_eq!(node.send(1, b"GET a\r\n"), b"$-1\r\n");
    }

    #[test]
    fn what_follows_a_long_command_in_a_pipeline_begins_after_it() {
        let mut node = TestNode::new(&["--enable-debug-command", "yes"]);
        node.send(1, b"DEBUG SLEEP 1\r\nSET a 1 PX 500\r\n");
        node.advance(400);
        assert_eq!(node.send(1, b"GET a\r\n"), b"$1\r\n1\r\n");
        let waits = b"DEBUG SLEEP 2\r\nBLPOP none 1\r\n";
        assert_eq!(node.send(1, waits), b"+OK\r\n");
        assert_eq!(node.resume(1), b"", "its second has only begun");
        node.advance(1000);
        assert_eq!(node.resume(1), b"*-1\r\n");
    }

    #[test]
    fn no_more_keys_are_watched_than_the_limit() {
        let mut node = TestNode::new(&[]);
        let keys: Vec<String> = (0..=WATCH_MAX_KEYS).map(|i| i.to_string()).collect();
        let mut words: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        words[0] = b"WATCH";
        assert_eq!(node.call(1, &words), b"+OK\r\n");
        assert_eq!(node.send(1, b"WATCH 1\r\n"), b"+OK\r\n");
        assert_eq!(node.send(1, b"WATCH one-more\r\n"), b"-ERR too many keys are watched\r\n");
        node.close(1);
    }
}
