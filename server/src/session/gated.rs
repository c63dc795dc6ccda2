//! Replies that may not leave yet: the session's side of the gate (DESIGN 3, INV-7).

use crate::command::promise::Seen;
use crate::command::{NodeState, ReplyMode};
use crate::gate::{Bounds, Fallback, Pressure, Tag};
use crate::session::{Session, Worker};
use crate::slot::Owned;

/// What stands in for a reply whose op may or may not survive.
const UNKNOWN: &str = "UNKNOWNRESULT the command was executed, but whether it is safe is not known";

impl Session {
    /// Books that the reply written since `start` depends on the slot's newest op: a write's on
    /// its own, a read's on whatever it may have seen (PROTOCOL R12).
    #[inline]
    pub(super) fn promise(
        &self,
        owned: &Owned<'_>,
        worker: &mut Worker,
        node: &NodeState,
        start: usize,
    ) {
        if node.promises.is_active() {
            self.promise_seen(Seen::of(owned), worker, node, start);
        }
    }

    /// As `promise`, for one that let go of the slot since.
    #[cold]
    pub(super) fn promise_seen(
        &self,
        seen: Seen,
        worker: &mut Worker,
        node: &NodeState,
        start: usize,
    ) {
        if let Some(tag) = node.promises.tag_of(seen) {
            self.promise_tag(tag, worker, node, start);
        }
    }

    /// Books that the reply written since `start` may depend on any slot.
    #[cold]
    pub(super) fn promise_all(&self, worker: &mut Worker, node: &NodeState, start: usize) {
        if let Some(tag) = node.promises.tag_of_all() {
            self.promise_tag(tag, worker, node, start);
        }
    }

    fn promise_tag(&self, tag: Tag, worker: &mut Worker, node: &NodeState, start: usize) {
        let end = worker.out.len();
        if start == end || self.client.reply_mode != ReplyMode::On {
            return;
        }
        worker.gate.mark(start..end, tag, Fallback::new(UNKNOWN));
        node.promises.note(tag, node.edges.now().mono_ns);
    }

    /// Takes out of `worker.out` what may not leave yet; call before every write. With nothing
    /// promised and nothing held this is two loads.
    #[inline]
    pub fn hold_back(&mut self, worker: &mut Worker, node: &NodeState) {
        if worker.gate.is_empty() && self.replies.is_empty() {
            return;
        }
        self.hold_back_slowly(worker, node);
    }

    #[cold]
    fn hold_back_slowly(&mut self, worker: &mut Worker, node: &NodeState) {
        if self.replies.is_empty() && worker.gate.is_safe(&node.promises) {
            worker.gate.clear();
            return;
        }
        self.replies.take(&worker.out, &mut worker.gate);
        worker.out.clear();
        self.let_leave(worker, node);
        if !self.replies.is_empty() {
            // Whoever gets further from here on finds it; who did before is seen by a second look.
            node.promises.wake_later(&self.client.shared);
            self.let_leave(worker, node);
        }
    }

    /// What is safe leaves as it is, what is lost as its fallback.
    fn let_leave(&mut self, worker: &mut Worker, node: &NodeState) {
        if node.promises.may_lose() {
            self.replies.fail(&node.promises, |tag| node.promises.is_lost(tag));
        }
        self.replies.release(&node.promises, &mut worker.out);
    }

    /// May more requests be read while replies wait?
    pub fn may_read(&mut self) -> bool {
        self.replies.is_empty() || self.replies.pressure(&Bounds::default()) == Pressure::Open
    }

    /// Do replies wait at the gate?
    pub fn holds_replies(&self) -> bool {
        !self.replies.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    use slots::{Epoch, SlotId};

    use crate::command::mailbox::letter;
    use crate::command::promise::{LogMarks, Promises};
    use crate::gate::Tag;
    use crate::slot::{Journal, Position, Step};
    use crate::testing::TestNode;
    use slots::{OpIndex, slot_of};

    fn tag(key: &str, index: u64) -> Tag {
        Promises::tag(slot_of(key.as_bytes()), OpIndex(index))
    }

    fn raise(node: &TestNode, key: &str, index: u64) {
        node.node.promises.raise(tag(key, index));
    }

    #[test]
    fn nothing_is_held_back_while_nothing_is_promised() {
        let mut node = TestNode::new(&[]);
        assert_eq!(node.send(1, b"SET a 1\r\nGET a\r\n"), b"+OK\r\n$1\r\n1\r\n");
    }

    #[test]
    fn a_write_is_answered_when_its_op_is_safe() {
        let mut node = TestNode::new(&[]);
        node.node.promises.activate();
        assert_eq!(node.send(1, b"SET a 1\r\n"), b"");
        raise(&node, "b", 9);
        assert_eq!(node.resume(1), b"", "another slot's progress says nothing");
        raise(&node, "a", 1);
        assert_eq!(node.resume(1), b"+OK\r\n");
    }

    #[test]
    fn a_read_waits_for_the_write_it_saw() {
        let mut node = TestNode::new(&[]);
        node.node.promises.activate();
        node.send(1, b"SET a 1\r\n");
        assert_eq!(node.send(2, b"GET a\r\n"), b"");
        raise(&node, "a", 1);
        assert_eq!(node.resume(2), b"$1\r\n1\r\n");
        assert_eq!(node.send(2, b"GET a\r\n"), b"$1\r\n1\r\n", "safe by now: no wait");
    }

    #[test]
    fn a_read_of_a_slot_that_never_had_an_op_waits_for_nothing() {
        let mut node = TestNode::new(&[]);
        node.node.promises.activate();
        assert_eq!(node.send(1, b"GET a\r\n"), b"$-1\r\n");
    }

    #[test]
    fn who_kills_itself_still_gets_what_was_held_back() {
        let mut node = TestNode::new(&[]);
        node.node.promises.activate();
        let id = node.shared(1).id;
        let script = format!("SET a 1\r\nCLIENT KILL ID {id} SKIPME no\r\n");
        assert_eq!(node.send(1, script.as_bytes()), b"");
        raise(&node, "a", 1);
        assert!(node.shared(1).mailbox.has(letter::GATE), "it is woken");
        assert_eq!(node.resume(1), b"+OK\r\n:1\r\n");
    }

    #[test]
    fn replies_keep_their_order_behind_one_that_waits() {
        let mut node = TestNode::new(&[]);
        node.node.promises.activate();
        assert_eq!(node.send(1, b"PING 0\r\nSET a 1\r\nPING 1\r\nSET b 2\r\n"), b"$1\r\n0\r\n");
        raise(&node, "b", 1);
        assert_eq!(node.resume(1), b"", "b is safe, but a's reply comes first");
        raise(&node, "a", 1);
        assert_eq!(node.resume(1), b"+OK\r\n$1\r\n1\r\n+OK\r\n");
    }

    #[test]
    fn exec_is_one_reply_with_one_place() {
        let mut node = TestNode::new(&[]);
        node.node.promises.activate();
        let script = b"MULTI\r\nSET {a}1 x\r\nSET {a}2 y\r\nEXEC\r\n";
        assert_eq!(node.send(1, script), b"+OK\r\n+QUEUED\r\n+QUEUED\r\n");
        raise(&node, "a", 1);
        assert_eq!(node.resume(1), b"*2\r\n+OK\r\n+OK\r\n");
    }

    #[test]
    fn a_dropped_reply_books_nothing() {
        let mut node = TestNode::new(&[]);
        node.node.promises.activate();
        node.send(1, b"CLIENT REPLY OFF\r\nSET a 1\r\n");
        assert_eq!(node.send(1, b"CLIENT REPLY ON\r\n"), b"+OK\r\n");
    }

    /// A log that is as far as it is told to be.
    #[derive(Default)]
    struct SlowLog {
        appended: AtomicU64,
        written: AtomicU64,
        synced: AtomicU64,
        is_full: AtomicBool,
    }

    impl Journal for SlowLog {
        fn append(&self, _: SlotId, _: Epoch, _: OpIndex, _: &[u8]) -> Position {
            Position { lane: 0, at: self.appended.fetch_add(1, SeqCst) + 1 }
        }
        fn leave(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position {
            self.append(slot, epoch, index, group)
        }
        fn step(
            &self,
            _: Step,
            slot: SlotId,
            (epoch, index): (Epoch, OpIndex),
            payload: &[u8],
        ) -> Position {
            self.append(slot, epoch, index, payload)
        }
        fn lane(&self, _: SlotId) -> u16 {
            0
        }
    }

    impl LogMarks for SlowLog {
        fn has_waiting(&self) -> bool {
            self.written.load(SeqCst) < self.appended.load(SeqCst)
        }
        fn is_full(&self) -> bool {
            self.is_full.load(SeqCst)
        }
        fn is_written(&self, at: Position) -> bool {
            at.at <= self.written.load(SeqCst)
        }
        fn is_synced(&self, at: Position) -> bool {
            at.at <= self.synced.load(SeqCst)
        }
        fn round_for_now(&self) -> u64 {
            self.appended.load(SeqCst)
        }
        fn rounds_done(&self) -> u64 {
            self.synced.load(SeqCst)
        }
        fn all_are_back(&self) {}
        fn full_reason(&self) -> String {
            "no space left".to_owned()
        }
    }

    fn logging(waits: bool) -> (TestNode, Arc<SlowLog>) {
        let (node, log) = (TestNode::new(&[]), Arc::new(SlowLog::default()));
        log.written.store(u64::MAX, SeqCst);
        node.node.rooms.set_journal(log.clone(), crate::stream::put_op);
        node.node.promises.set_log(log.clone());
        node.node.promises.wait_for_syncs(waits);
        (node, log)
    }

    fn advance(node: &TestNode, mark: &AtomicU64, to: u64) {
        mark.store(to, SeqCst);
        node.node.promises.progressed();
    }

    #[test]
    fn always_answers_when_the_log_is_synced_and_reads_wait_with_it() {
        let (mut node, log) = logging(true);
        assert_eq!(node.send(1, b"SET a 1\r\n"), b"");
        assert_eq!(node.send(2, b"GET a\r\nGET b\r\n"), b"");
        assert_eq!(node.send(3, b"GET b\r\n"), b"$-1\r\n", "another slot");
        advance(&node, &log.synced, 1);
        assert_eq!(node.resume(1), b"+OK\r\n");
        assert_eq!(node.resume(2), b"$1\r\n1\r\n$-1\r\n");
        assert_eq!(node.send(2, b"GET a\r\n"), b"$1\r\n1\r\n", "safe by now: no wait");
    }

    #[test]
    fn who_was_answered_is_expected_back_for_a_while() {
        let (mut node, log) = logging(true);
        (1..=4).for_each(|client| assert_eq!(node.send(client, b"INCR a\r\n"), b""));
        assert_eq!(node.node.promises.crowd(), (4, 0));
        let progress = |node: &TestNode, to| {
            node.node.promises.note_progress();
            advance(node, &log.synced, to);
            node.node.promises.crowd()
        };
        assert_eq!(progress(&node, 4), (0, 4));
        (1..=4).for_each(|client| assert!(!node.resume(client).is_empty()));
        node.send(1, b"INCR a\r\n");
        node.send(2, b"GET a\r\n");
        assert_eq!(node.node.promises.crowd(), (2, 4), "a read that waits is there, too");
        assert_eq!(progress(&node, 4), (0, 3), "the sync was too early for them");
        node.resume(1);
        assert_eq!(node.node.promises.crowd(), (1, 3), "and it goes on waiting");
        let fades: Vec<usize> = (0..4).map(|_| progress(&node, 5).1).collect();
        assert_eq!(fades, [2, 1, 0, 0]);
    }

    #[test]
    fn everysec_answers_at_once_unless_its_record_waits_in_memory() {
        let (mut node, log) = logging(false);
        assert_eq!(node.send(1, b"SET a 1\r\n"), b"+OK\r\n");
        log.written.store(1, SeqCst);
        assert_eq!(node.send(1, b"SET a 2\r\nGET b\r\n"), b"");
        advance(&node, &log.written, 2);
        assert_eq!(node.resume(1), b"+OK\r\n$-1\r\n");
    }

    #[test]
    fn commands_on_all_keys_wait_for_every_lane() {
        let (mut node, log) = logging(true);
        node.send(1, b"SET a 1\r\n");
        assert_eq!(node.send(2, b"DBSIZE\r\nPING\r\n"), b"");
        assert_eq!(
            node.send(3, b"MULTI\r\nSET {b}1 x\r\nFLUSHALL\r\nEXEC\r\n"),
            b"+OK\r\n+QUEUED\r\n+QUEUED\r\n"
        );
        advance(&node, &log.synced, 1);
        assert_eq!(node.resume(2), b":1\r\n+PONG\r\n");
        let appended = log.appended.load(SeqCst);
        assert!(appended >= 3, "the transaction's group and the flush of another slot: {appended}");
        advance(&node, &log.synced, appended - 1);
        assert_eq!(node.resume(3), b"");
        advance(&node, &log.synced, appended);
        assert_eq!(node.resume(3), b"*2\r\n+OK\r\n+OK\r\n");
    }

    #[test]
    fn who_was_blocked_is_answered_when_the_pop_is_safe() {
        let (mut node, log) = logging(true);
        assert_eq!(node.send(1, b"BLPOP q 0\r\n"), b"");
        assert_eq!(node.send(2, b"RPUSH q x\r\n"), b"");
        assert_eq!(node.resume(1), b"", "push and pop are one group, which is not synced");
        advance(&node, &log.synced, 1);
        assert_eq!(node.resume(2), b":1\r\n");
        assert_eq!(node.resume(1), b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    }

    #[test]
    fn a_full_log_refuses_writes_before_they_are_executed() {
        let (mut node, log) = logging(false);
        node.send(1, b"SET a 1\r\n");
        node.send(2, b"MULTI\r\nSET a 2\r\n");
        log.is_full.store(true, SeqCst);
        let refused = |reply: Vec<u8>, start: &str| {
            let reply = String::from_utf8(reply).expect("ASCII");
            assert!(reply.starts_with(start) && reply.contains("no space left"), "{reply}");
        };
        let writes = ["SET a 2", "DEL a", "FLUSHALL", "BLPOP q 0", "PEXPIRE a 1"];
        for write in writes.into_iter().chain(["SLOTD RESTORE BEGIN 0"]) {
            refused(node.send(1, format!("{write}\r\n").as_bytes()), "-MISCONF ");
        }
        refused(node.send(2, b"EXEC\r\n"), "-EXECABORT ");
        assert_eq!(node.send(1, b"GET a\r\n"), b"$1\r\n1\r\n");
        log.is_full.store(false, SeqCst);
        assert_eq!(node.send(1, b"SET a 2\r\n"), b"+OK\r\n");
    }

    #[test]
    fn keys_that_expire_while_the_log_is_full_are_hidden_and_stay() {
        let (mut node, log) = logging(false);
        node.send(1, b"SET a 1 PX 5\r\n");
        log.is_full.store(true, SeqCst);
        node.node.tick_log();
        node.advance(10);
        assert_eq!(node.send(1, b"GET a\r\n"), b"$-1\r\n");
        assert_eq!((node.node.key_count(), log.appended.load(SeqCst)), (1, 1));
        log.is_full.store(false, SeqCst);
        node.node.tick_log();
        assert_eq!(node.send(1, b"GET a\r\n"), b"$-1\r\n");
        assert_eq!((node.node.key_count(), log.appended.load(SeqCst)), (0, 2));
    }
}
