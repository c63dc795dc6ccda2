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
        node.promises.wake_later(&self.client.shared);
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
    use crate::command::mailbox::letter;
    use crate::command::promise::Promises;
    use crate::gate::Tag;
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
}
