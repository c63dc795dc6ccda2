//! What a node does with the frames it gets.
//!
//! ```text
//!   Ops    epoch too low: fenced. Does not match by name, or would cut what is executed: nothing.
//!          Else: cut what the new owner's base leaves out, append, execute up to safe, ack.
//!          A stage of this epoch takes them too, piece by piece.
//!   Piece  into the stage; when all pieces are there at one index the stage is the copy.
//! ```
//! Invariant: an ack of n means: this node has the whole slot as of n.

use crate::node::{Acked, Copy, Frame, Op, PIECES, Seal, Stage};
use crate::rules::Rules;
use crate::state::State;
use crate::words::{Epoch, Id, Index};

/// Groups as they travel.
struct Groups<'a> {
    from: Id,
    to: Id,
    epoch: Epoch,
    base: Index,
    prev: (Index, Epoch),
    ops: &'a [Op],
    safe: Index,
}

impl Groups<'_> {
    fn end(&self) -> Index {
        self.prev.0 + self.ops.len() as Index
    }
}

impl State {
    /// A frame arrives. `None`: it does nothing.
    pub(crate) fn deliver(&mut self, rules: &Rules, frame: &Frame) -> Option<&'static str> {
        if !self.started(rules, frame.to()) {
            return None;
        }
        match *frame {
            Frame::Ops { from, to, epoch, base, prev, ref ops, safe } => {
                let groups = Groups { from, to, epoch, base, prev, ops, safe };
                self.take_groups(rules, &groups)
            }
            Frame::Ack { from, to, epoch, acked } => self.take_ack(rules, from, to, epoch, acked),
            Frame::Piece { to, epoch, piece, ref image, .. } => {
                self.take_piece(rules, to, epoch, piece, image)
            }
            Frame::Handover { to, id, epoch, .. } => {
                let word = Some((id, epoch));
                let news = self.node(to).handover != word;
                self.node_mut(to).handover = word;
                news.then_some("handover")
            }
        }
    }

    /// R1. Whether an epoch is refused; if not it is the newest this node met.
    fn fences(&mut self, rules: &Rules, id: Id, epoch: Epoch) -> bool {
        let known = self.row(id).epoch.max(self.node(id).seen);
        if epoch < known && rules.fenced {
            return true;
        }
        self.node_mut(id).seen = self.node(id).seen.max(epoch);
        false
    }

    fn take_groups(&mut self, rules: &Rules, groups: &Groups<'_>) -> Option<&'static str> {
        let to = groups.to;
        if self.fences(rules, to, groups.epoch) {
            return Some("groups fenced");
        }
        if self.stage_groups(rules, groups) {
            return Some("groups staged");
        }
        let copy = &self.node(to).copy;
        if !matches(rules, copy, groups) {
            return Some("groups do not match");
        }
        let keep = kept_of(rules, copy, groups);
        if keep < copy.executed && rules.executed_is_kept && rules.buffered_until_safe {
            return Some("groups would cut what is executed");
        }
        let cuts = keep < copy.last();
        let copy = &mut self.node_mut(to).copy;
        copy.cut(keep);
        for (at, op) in groups.ops.iter().enumerate() {
            if groups.prev.0 + at as Index == copy.last() {
                copy.ops.push(*op);
            }
        }
        // Nobody but the owner may say that more is safe; and not of what is not matched here.
        let safe = groups.safe.min(groups.end());
        // Without a buffer groups are executed on arrival, and cut all the same.
        let ready = if rules.buffered_until_safe { safe } else { copy.last() };
        copy.executed = copy.executed.max(ready);
        self.ack(to, groups.from, groups.epoch, groups.end());
        Some(if cuts { "groups, a buffered tail cut" } else { "groups" })
    }

    /// R0: the copy is whole and has everything up to `index`.
    fn ack(&mut self, id: Id, owner: Id, epoch: Epoch, index: Index) {
        let node = self.node_mut(id);
        let before = if node.acked.0 == epoch { node.acked.1 } else { 0 };
        let index = before.max(index);
        let acked = Acked { index, boot: node.boot, version: node.applied };
        node.acked = (epoch, index);
        node.acked_at = Some(node.applied);
        self.net.insert(Frame::Ack { from: id, to: owner, epoch, acked });
    }

    /// Groups meant for a stage go piece by piece: to one that ends just before them.
    fn stage_groups(&mut self, rules: &Rules, groups: &Groups<'_>) -> bool {
        let node = self.node_mut(groups.to);
        let Some(stage) = node.stage.as_mut().filter(|stage| stage.epoch == groups.epoch) else {
            return false;
        };
        let mut taken = false;
        for piece in stage.pieces.iter_mut().flatten() {
            for (at, op) in groups.ops.iter().enumerate() {
                let follows = groups.prev.0 as usize + at == piece.len();
                if follows || !rules.op_follows_piece {
                    piece.push(*op);
                    taken = true;
                }
            }
        }
        if !taken {
            return false;
        }
        let progress = stage.pieces.iter().flatten().map(Vec::len).max().unwrap_or(0) as Index;
        if !rules.progress_is_no_ack {
            self.ack(groups.to, groups.from, groups.epoch, progress);
        }
        self.swap_in(rules, groups.to, false);
        true
    }

    fn take_piece(
        &mut self,
        rules: &Rules,
        to: Id,
        epoch: Epoch,
        piece: u8,
        image: &[Op],
    ) -> Option<&'static str> {
        if self.fences(rules, to, epoch) {
            return Some("piece fenced");
        }
        let node = self.node_mut(to);
        let known = node.stage.take().filter(|stage| stage.epoch >= epoch);
        if known.is_none() && !rules.built_beside {
            node.copy = Copy { torn: true, ..Copy::default() };
        }
        let mut stage = known.unwrap_or(Stage { epoch, pieces: [None, None] });
        let place = &mut stage.pieces[usize::from(piece)];
        let news = place.as_ref().is_none_or(|old| old.len() < image.len());
        if news {
            *place = Some(image.to_vec());
        }
        node.stage = Some(stage);
        let swapped = self.swap_in(rules, to, false);
        match (swapped, news) {
            (true, _) => Some("piece, the stage is swapped in"),
            (false, true) => Some("piece staged"),
            (false, false) => None,
        }
    }

    /// Whether the stage may become the copy: all pieces are there, at one index.
    pub(crate) fn stage_is_whole(&self, rules: &Rules, id: Id) -> bool {
        let Some(stage) = &self.node(id).stage else { return false };
        let pieces: Vec<usize> = stage.pieces.iter().flatten().map(Vec::len).collect();
        let whole = pieces.len() == PIECES && pieces.iter().all(|len| *len == pieces[0]);
        whole || !rules.swapped_whole
    }

    /// Makes the stage the copy, if it may be: when it is synced.
    pub(crate) fn swap_in(&mut self, rules: &Rules, id: Id, synced: bool) -> bool {
        if !self.stage_is_whole(rules, id) || rules.snapshot_synced && !synced {
            return false;
        }
        let known = self.row(id).epoch.max(self.node(id).seen);
        let node = self.node_mut(id);
        let Some(stage) = node.stage.take() else { return false };
        if rules.fenced && stage.epoch < known {
            return false;
        }
        let longest = stage.pieces.iter().flatten().max_by_key(|piece| piece.len());
        let ops = longest.cloned().unwrap_or_default();
        let last = ops.len() as Index;
        // Groups of the stage's own epoch beyond its end: the copy got further meanwhile.
        let further = node.copy.op(last + 1).is_some_and(|op| op.epoch == stage.epoch);
        if rules.stage_not_behind && further {
            return false;
        }
        let torn = stage.pieces.iter().any(|piece| piece.as_ref() != Some(&ops));
        let synced_to = if synced { last } else { 0 };
        node.copy =
            Copy { ops, executed: last, synced: synced_to, unsynced_snapshot: !synced, torn };
        true
    }

    fn take_ack(
        &mut self,
        rules: &Rules,
        from: Id,
        to: Id,
        epoch: Epoch,
        acked: Acked,
    ) -> Option<&'static str> {
        if !self.owns(rules, to) || self.row(to).epoch != epoch {
            return None;
        }
        let known = &mut self.node_mut(to).lead.acks[from.at()];
        // A later life or a later table replaces what was said; else the higher index stands.
        let rank = |a: &Acked| (a.boot, if rules.ack_version { a.version } else { 0 }, a.index);
        if known.as_ref().is_some_and(|old| rank(old) >= rank(&acked)) {
            return None;
        }
        *known = Some(acked);
        Some("ack")
    }

    /// Whether a node that is out may free its copy.
    pub(crate) fn may_free(&self, rules: &Rules, id: Id) -> bool {
        let node = self.node(id);
        let row = self.row(id);
        let named =
            row.in_sync.or(row.followers).has(id) || row.order.is_some_and(|order| order.to == id);
        let held = !node.copy.ops.is_empty() || node.copy.torn || node.stage.is_some();
        held && self.started(rules, id)
            && row.owner != id
            && (!named || !rules.freed_when_out)
            && node.acked_at.is_none_or(|at| !rules.freed_after_ack || row.ver > at)
            && node.lead.seal == Seal::Open
    }

    /// Frees the copy.
    pub(crate) fn free(&mut self, id: Id) {
        let node = self.node_mut(id);
        node.copy = Copy::default();
        node.stage = None;
        node.acked = (0, 0);
    }
}

/// R3: whether the copy has the group before the first one, by name.
fn matches(rules: &Rules, copy: &Copy, groups: &Groups<'_>) -> bool {
    let (index, epoch) = groups.prev;
    copy.epoch_at(index).is_some_and(|own| own == epoch || !rules.matched_by_name)
}

/// Up to where the copy stays as it is: it agrees by name, and what goes beyond the frame is of
/// this very epoch or below its base.
fn kept_of(rules: &Rules, copy: &Copy, groups: &Groups<'_>) -> Index {
    let differs = |at: usize, op: &Op| {
        let own = copy.op(groups.prev.0 + at as Index + 1);
        own.is_some_and(|own| rules.matched_by_name && own.epoch != op.epoch)
    };
    let first = groups.ops.iter().enumerate().find(|(at, op)| differs(*at, op));
    if let Some((at, _)) = first {
        return groups.prev.0 + at as Index;
    }
    let stale = |index: &Index| copy.op(*index).is_some_and(|op| op.epoch < groups.epoch);
    let beyond = groups.end().max(groups.base) + 1;
    let cut = (beyond..=copy.last()).find(stale);
    if rules.matched_by_name { cut.map_or(copy.last(), |index| index - 1) } else { copy.last() }
}
