//! What an owner does: execute, send, count, propose, seal.
//!
//! ```text
//!   a node joins:  stream to it -> count it, note the last index m -> it acked m -> propose Grow
//!   a node leaves: propose Shrink -> the entry is applied -> it counts no more
//!   a move:        (target in sync) seal -> all is safe -> Handover, CommitMove -> applied
//! ```
//! Invariant: it adds to who counts by itself, and takes away only by the log.

use crate::node::{Frame, Op, Part, Seal};
use crate::oracle::{self, MAX_WRITES, held};
use crate::rules::Rules;
use crate::state::State;
use crate::table::{Ack, Change};
use crate::words::{Id, Index, Write};

impl State {
    /// Executes a client's write: one op group. (Two, if `one_group` is off.)
    pub(crate) fn execute(&mut self, rules: &Rules, owner: Id) -> Option<&'static str> {
        let epoch = self.row(owner).epoch;
        let (boot, last) = (self.node(owner).boot, self.node(owner).copy.last());
        let half = self.node(owner).copy.halves().next();
        let (write, part) = match half {
            Some(write) => (write, Part::Second),
            None if rules.one_group => (self.spent.writes, Part::Whole),
            None => (self.spent.writes, Part::First),
        };
        if half.is_none() {
            self.spent.writes += 1;
            self.oracle.executed_by[usize::from(write)] = Some((owner, boot));
        }
        let copy = &mut self.node_mut(owner).copy;
        copy.ops.push(Op { epoch, write, part });
        copy.executed = last + 1;
        oracle::named(self, epoch, last + 1, write);
        Some("write")
    }

    /// Who gets the slot's stream from this owner.
    pub(crate) fn streams_to(&self, owner: Id, to: Id) -> bool {
        let row = self.row(owner);
        to != owner && (row.in_sync.has(to) || self.is_wanted(owner, to))
    }

    /// Who shall hold the slot, by the owner's table.
    pub(crate) fn is_wanted(&self, owner: Id, node: Id) -> bool {
        let row = self.row(owner);
        row.followers.has(node) || row.order.is_some_and(|order| order.to == node)
    }

    /// Sends groups: all there are, or what `to` has not acked in this epoch. Where it acked
    /// nothing yet the frame is the bare EpochStart.
    pub(crate) fn send(&mut self, rules: &Rules, from: Id, to: Id, all: bool) {
        let node = self.node(from);
        let known = node.lead.acks[to.at()].map_or(node.lead.base, |acked| acked.index);
        let after: Index = if all { 0 } else { known.min(node.copy.last()) };
        let prev = (after, node.copy.epoch_at(after).unwrap_or(0));
        let ops = node.copy.ops.iter().skip(usize::from(after)).copied().collect();
        let (epoch, base) = (self.row(from).epoch, node.lead.base);
        let safe = self.safe(rules, from);
        self.net.insert(Frame::Ops { from, to, epoch, base, prev, ops, safe });
    }

    /// R3: whether a snapshot may be sent: only to who is out and does not count.
    pub(crate) fn may_send_piece(&self, rules: &Rules, from: Id, to: Id) -> bool {
        let inside = self.row(from).in_sync.or(self.counted(rules, from)).has(to);
        if inside { !rules.out_before_snapshot } else { self.is_wanted(from, to) }
    }

    /// Sends one piece of a snapshot, taken now.
    pub(crate) fn send_piece(&mut self, from: Id, to: Id, piece: u8) {
        let (epoch, image) = (self.row(from).epoch, self.node(from).copy.ops.clone());
        self.net.insert(Frame::Piece { from, to, epoch, piece, image });
    }

    /// Whether the owner may begin to count a node that is not in sync.
    pub(crate) fn may_count(&self, owner: Id, node: Id) -> bool {
        let row = self.row(owner);
        let target = row.order.is_some_and(|order| order.to == node);
        !row.in_sync.has(node)
            && !self.lead(owner).extra.has(node)
            && node != owner
            && self.is_wanted(owner, node)
            && (row.ack == Ack::InSync || target)
    }

    /// R4: the node counts from now on; Grow waits until it has what is there now.
    pub(crate) fn count(&mut self, owner: Id, node: Id) {
        let last = self.node(owner).copy.last();
        let lead = &mut self.node_mut(owner).lead;
        lead.extra = lead.extra.with(node);
        lead.noted[node.at()] = last;
    }

    /// R4: whether Grow may be proposed.
    pub(crate) fn may_grow(&self, rules: &Rules, owner: Id, node: Id) -> bool {
        let lead = self.lead(owner);
        let Some(acked) = lead.acks[node.at()] else { return false };
        lead.extra.has(node)
            && !self.row(owner).in_sync.has(node)
            && (!rules.grown_at_noted || self.has_acked(rules, owner, node, lead.noted[node.at()]))
            && (!rules.ack_version || acked.version >= self.row(owner).ver)
    }

    /// Proposes Grow.
    pub(crate) fn propose_grow(&mut self, owner: Id, node: Id) {
        let (by_boot, seen) = (self.node(owner).boot, self.node(owner).applied);
        let node_boot = self.view(owner).boots[node.at()];
        self.propose(Change::Grow { by: owner, by_boot, node, node_boot, seen });
    }

    /// Proposes Shrink, of a member or of a node that was to be grown.
    pub(crate) fn propose_shrink(&mut self, by: Id, node: Id) {
        let (by_boot, seen) = (self.node(by).boot, self.node(by).applied);
        let lead = &mut self.node_mut(by).lead;
        lead.uncounted = lead.uncounted.with(node);
        self.propose(Change::Shrink { by, by_boot, node, seen });
    }

    /// Whether the owner may close the slot to hand it over: the target is in sync.
    pub(crate) fn may_seal(&self, owner: Id) -> bool {
        let row = self.row(owner);
        row.order.is_some_and(|order| row.in_sync.has(order.to))
    }

    /// Whether Handover may be sent: sealed, and nothing is pending.
    pub(crate) fn may_hand_over(&self, rules: &Rules, owner: Id) -> bool {
        let closed = self.lead(owner).seal == Seal::Sealed || !rules.sealed_commit;
        let last = self.node(owner).copy.last();
        self.row(owner).order.is_some() && closed && self.is_safe(rules, owner, last)
    }

    /// Sends Handover and proposes CommitMove.
    pub(crate) fn hand_over(&mut self, owner: Id) {
        let (epoch, order) = (self.row(owner).epoch, self.row(owner).order);
        let Some(order) = order else { return };
        let (by_boot, seen) = (self.node(owner).boot, self.node(owner).applied);
        let lead = &mut self.node_mut(owner).lead;
        if lead.seal == Seal::Sealed {
            lead.seal = Seal::HandedOver;
        }
        self.net.insert(Frame::Handover { from: owner, to: order.to, id: order.id, epoch });
        self.propose(Change::CommitMove { by: owner, by_boot, id: order.id, seen });
    }

    /// The writes whose OK this process may send now.
    pub(crate) fn replies(&self, rules: &Rules, by: Id) -> impl Iterator<Item = Write> {
        let node = self.node(by);
        (0..MAX_WRITES as Write).filter(move |write| {
            self.oracle.executed_by[usize::from(*write)] == Some((by, node.boot))
                && self.oracle.replied & (1 << write) == 0
                && node.copy.end_of(*write).is_some_and(|end| self.may_reply(rules, by, end))
        })
    }

    /// A write's OK leaves.
    pub(crate) fn reply(&mut self, by: Id, write: Write) -> &'static str {
        let late = self.row(by).epoch < self.oracle.reply_epoch;
        self.oracle.replied |= 1 << write;
        oracle::reply(self, by, 1 << write, 1 << write);
        if late { "reply, late and true" } else { "reply" }
    }

    /// R12: whether a read may be answered now.
    pub(crate) fn may_answer_read(&self, rules: &Rules, by: Id) -> bool {
        let last = self.node(by).copy.last();
        self.may_read(rules, by)
            && (!rules.safe_reads
                || self.is_safe(rules, by, last) && self.alone_is_marked(rules, by))
    }

    /// A read's answer leaves: all it showed is promised from now on.
    pub(crate) fn answer_read(&mut self, by: Id) {
        oracle::reply(self, by, held(self, by), u8::MAX);
    }
}
