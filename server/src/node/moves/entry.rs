//! One slot that this node owns and that others have, or are to have, a copy of.
//!
//! Not what is sent when (`channel`). Invariant: what is said to be safe is held by all who count,
//! by acks of the copy that is there now, and by the own log; a copy of one in sync is never begun
//! anew: it is let go of first (R3).

use std::collections::VecDeque;
use std::time::Duration;

use slots::{Boot, Epoch, MoveId, NodeId, OpIndex, SlotId, TableVersion};

use super::report::Tallies;
use super::{Look, Wishes, round_for_now, rounds_done};
use crate::command::seals::Sealer;
use crate::migration::outgoing::AGAIN;
use crate::migration::{Do, Facts, Outcome, Outgoing};
use crate::replication::{Acked, Lead, Terms, Want};
use crate::stream::Source;

/// How long a reply waits for those who count before its outcome is called unknown (PROTOCOL 3).
pub(super) const ACK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the target may take to answer the owner's word, while the slot is closed.
const HANDOVER_MAX: Duration = Duration::from_secs(1);
/// Between two tries to begin a copy that was refused or could not be read.
const COPY_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Entry {
    slot: SlotId,
    lead: Lead,
    out: Option<Outgoing>,
    pub(super) copy: Option<CopyOut>,
    /// Attempts so far: each copy has its number.
    attempts: u32,
    /// Not begun anew before.
    copy_at: Duration,
    /// Up to where the own log is as safe as it promises with the end of a round.
    own: VecDeque<(OpIndex, u64)>,
    own_safe: OpIndex,
    /// What was raised last.
    safe: OpIndex,
    /// Since when something waits for those who count.
    waits_since: Option<Duration>,
    /// The last index, once the slot is closed and nobody is inside.
    sealed_last: Option<OpIndex>,
    sealed_at: Duration,
    pub(super) handing: Option<Handing>,
    /// When each want was proposed last.
    asked: Vec<(Want, Duration)>,
    /// The round of syncs of the whole log after which strangers are let go of.
    synced_by: Option<u64>,
    /// Why nothing goes on, for the operator.
    pub(super) blocked: Option<&'static str>,
}

/// A copy on its way.
pub(super) struct CopyOut {
    pub(super) to: NodeId,
    /// The target's boot it was begun with.
    boot: Boot,
    pub(super) attempt: u32,
    pub(super) source: Source,
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
    /// The last index that was sent.
    pub(super) sent: OpIndex,
    /// What the target holds, once its copy is whole, and the version of its table when it said so.
    acked: Option<OpIndex>,
    acked_at: TableVersion,
    pub(super) keys: u64,
    pub(super) bytes: u64,
}

/// The owner's word on its way, and the commit behind it.
#[derive(Clone, Copy)]
pub(super) struct Handing {
    pub(super) id: MoveId,
    pub(super) seen: TableVersion,
    pub(super) last: OpIndex,
    pub(super) is_said: bool,
    pub(super) is_taken: bool,
    asked: bool,
    since: Duration,
}

impl Entry {
    /// Begins to look after a slot; `None`: somebody is inside the room.
    pub(super) fn begin(look: &Look<'_>, slot: SlotId, tallies: &mut Tallies) -> Option<Entry> {
        let reading = look.node.rooms.try_read(slot)?;
        let (last, keys, bytes) = (reading.index(), reading.len() as u64, reading.bytes() as u64);
        drop(reading);
        let terms = Terms::of(look.table, slot, look.me)?;
        let mut entry = Entry {
            slot,
            lead: Lead::begin(&terms, last, look.now),
            out: Outgoing::begin(look.table, slot, look.me),
            copy: None,
            attempts: 0,
            copy_at: Duration::ZERO,
            own: VecDeque::new(),
            own_safe: OpIndex(0),
            safe: OpIndex(0),
            waits_since: None,
            sealed_last: None,
            sealed_at: Duration::ZERO,
            handing: None,
            asked: Vec::new(),
            synced_by: None,
            blocked: None,
        };
        if let Some(out) = &entry.out {
            tallies.begin((out.id(), out.to()), slot, (keys, bytes), look.now_ns);
        }
        entry.note_strangers(look);
        Some(entry)
    }

    /// The table says something else.
    pub(super) fn learn(&mut self, look: &Look<'_>) {
        let Some(terms) = Terms::of(look.table, self.slot, look.me) else { return };
        if !self.lead.learn(&terms, look.now) {
            // Another epoch: the stream begins anew.
            self.copy = None;
            self.own.clear();
            self.lead = Lead::begin(&terms, self.lead.last(), look.now);
        }
        let ended = self.out.as_mut().and_then(|out| out.learn(look.table, look.me));
        if ended.is_some() || self.out.is_none() {
            (self.sealed_last, self.handing) = (None, None);
            self.out = Outgoing::begin(look.table, self.slot, look.me);
        }
        if let Some(copy) = &self.copy {
            let boot = look.table.node(copy.to).map(|row| row.boot);
            let is_wanted = self.out.as_ref().is_some_and(|out| out.to() == copy.to);
            if boot != Some(copy.boot) || !is_wanted {
                self.lose_copy(look.now);
            }
        }
        self.note_strangers(look);
    }

    /// Those who are in sync and neither follow nor are moved to, or are said to be in sync and
    /// have no copy that this node knows of.
    fn strangers(&self, look: &Look<'_>) -> Vec<NodeId> {
        let row = look.table.slot(self.slot);
        let has_copy = |node| self.copy.as_ref().is_some_and(|copy| copy.to == node);
        let is_stranger =
            |node: &NodeId| *node != look.me && !row.is_follower(*node) && !has_copy(*node);
        row.in_sync().filter(is_stranger).collect()
    }

    fn note_strangers(&mut self, look: &Look<'_>) {
        if look.table.slot(self.slot).in_sync_count() > 1 {
            // Whatever this node did not count for when it wrote it has all the same.
            look.node.promises.count(self.slot, OpIndex(0));
        }
        match self.strangers(look).is_empty() {
            true => self.synced_by = None,
            false => {
                self.synced_by.get_or_insert_with(|| look.syncs.want());
            }
        }
    }

    /// The owner goes on without strangers, once its own disk has what they have: a slot that was
    /// adopted is the content of its room after a loss of power, too, before it is here alone.
    fn let_strangers_go(&mut self, look: &Look<'_>) {
        if self.synced_by.is_some_and(|round| look.syncs.done() >= round) {
            self.strangers(look).into_iter().for_each(|node| {
                self.lead.let_go(node);
            });
        }
    }

    fn lose_copy(&mut self, now: Duration) {
        if let Some(copy) = self.copy.take() {
            self.lead.let_go(copy.to);
            self.copy_at = now + COPY_PAUSE;
        }
    }

    /// The slot is another's, or nobody else has it any more.
    pub(super) fn end(mut self, look: &Look<'_>, tallies: &mut Tallies) {
        let outcome = self.out.as_mut().and_then(|out| out.learn(look.table, look.me));
        if let (Some(out), Some(outcome)) = (&self.out, outcome) {
            let pause = self.sealed_last.map(|_| look.now.saturating_sub(self.sealed_at));
            tallies.end(out.id(), self.slot, outcome, pause, look.now_ns);
        }
        let counted = look.node.promises.counted();
        if look.table.owner(self.slot) == Some(look.me) {
            return;
        }
        match (outcome, self.handing) {
            // Its word was given when nothing was pending: all that was written is safe.
            (Some(Outcome::Moved), Some(_)) => {
                counted.begin_release(self.slot);
                counted.release(self.slot);
            }
            _ => counted.lose(self.slot),
        }
        look.node.promises.progressed();
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.out.as_ref().is_some_and(Outgoing::is_sealed)
    }

    pub(super) fn has_handed_over(&self, id: MoveId) -> bool {
        self.handing.is_some_and(|handing| handing.id == id)
    }

    pub(super) fn copy_to(&self) -> Option<NodeId> {
        self.copy.as_ref().map(|copy| copy.to)
    }

    /// Where a copy is being filled.
    pub(super) fn filling_to(&self) -> Option<NodeId> {
        self.copy.as_ref().filter(|copy| !copy.has_ended).map(|copy| copy.to)
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.lead.epoch()
    }

    pub(super) fn lag(&self) -> u64 {
        let held = self.copy.as_ref().and_then(|copy| copy.acked);
        held.map_or(0, |held| self.lead.last().0.saturating_sub(held.0))
    }

    pub(super) fn move_id(&self) -> Option<MoveId> {
        self.out.as_ref().map(Outgoing::id)
    }

    /// Whether its target counts, by the owner's decision.
    pub(super) fn is_joining(&self) -> bool {
        let to = self.out.as_ref().map(Outgoing::to);
        to.is_some_and(|to| self.lead.counted().any(|node| node == to))
    }

    /// Is the target to say once more what it holds? What it said at an older table does not make
    /// it grow, and an idle slot has no groups that it would answer.
    pub(super) fn wants_word(&self, look: &Look<'_>) -> bool {
        let ver = look.table.slot(self.slot).ver();
        let is_old = |copy: &CopyOut| copy.acked.is_some() && copy.acked_at < ver;
        self.is_joining() && self.copy.as_ref().is_some_and(is_old)
    }

    /// To whom a copy is to be begun now.
    pub(super) fn wants_copy(&self, look: &Look<'_>) -> Option<NodeId> {
        let to = self.out.as_ref()?.to();
        let is_counted = self.lead.counted().any(|node| node == to);
        let may = self.copy.is_none() && !is_counted && look.now >= self.copy_at;
        may.then_some(to)
    }

    /// Begins it. False: not now.
    pub(super) fn begin_copy(&mut self, look: &Look<'_>) -> bool {
        let Some(to) = self.out.as_ref().map(Outgoing::to) else { return false };
        let Some(boot) = look.table.node(to).map(|row| row.boot) else { return false };
        let Some(reading) = look.node.rooms.try_read(self.slot) else { return false };
        let (keys, bytes) = (reading.len() as u64, reading.bytes() as u64);
        match Source::follow(reading, look.bell.clone()) {
            Ok(source) => {
                self.attempts += 1;
                let attempt = self.attempts;
                self.copy = Some(CopyOut {
                    to,
                    boot,
                    attempt,
                    source,
                    has_begun: false,
                    has_ended: false,
                    sent: OpIndex(0),
                    acked: None,
                    acked_at: TableVersion(0),
                    keys,
                    bytes,
                });
                true
            }
            Err(_) => {
                self.copy_at = look.now + COPY_PAUSE;
                false
            }
        }
    }

    /// The source of the copy cannot go on.
    pub(super) fn interrupted(&mut self, now: Duration) {
        self.lose_copy(now);
    }

    /// Groups up to this index are about to be sent: they are in the own log's hands.
    pub(super) fn sent(&mut self, index: OpIndex, look: &Look<'_>) {
        if let Some(copy) = &mut self.copy {
            copy.sent = index;
        }
        self.wrote(index, look);
    }

    fn wrote(&mut self, index: OpIndex, look: &Look<'_>) {
        if index > self.lead.last() {
            self.lead.wrote(index);
        }
        self.own.push_back((index, round_for_now(&look.node.promises)));
    }

    /// The target holds the slot up to an index.
    pub(super) fn holds(
        &mut self,
        attempt: u32,
        index: OpIndex,
        acked: (Boot, TableVersion),
        now: Duration,
    ) {
        let Some(copy) = self.copy.as_mut().filter(|copy| copy.attempt == attempt) else { return };
        let (boot, version) = acked;
        (copy.acked, copy.acked_at) = (Some(index), version);
        self.blocked = None;
        self.lead.acked(copy.to, Acked { index, boot, version }, now);
    }

    /// The target has no copy that this goes on from, or did not take it.
    pub(super) fn refused(&mut self, attempt: u32, why: Option<&'static str>, now: Duration) {
        if self.copy.as_ref().is_none_or(|copy| copy.attempt != attempt) {
            return;
        }
        self.blocked = why;
        self.lose_copy(now);
        if why.is_some() {
            self.copy_at = now + Duration::from_secs(1);
        }
    }

    /// The target took the owner's word.
    pub(super) fn handed(&mut self, attempt: u32) {
        let is_now = self.copy.as_ref().is_some_and(|copy| copy.attempt == attempt);
        if let Some(handing) = self.handing.as_mut().filter(|_| is_now) {
            handing.is_taken = true;
        }
    }

    /// Looks at it once.
    pub(super) fn step(
        &mut self,
        look: &Look<'_>,
        may_seal: bool,
        tallies: &mut Tallies,
        wishes: &mut Wishes,
    ) {
        for silent in self.lead.silent(look.now) {
            if self.copy_to() == Some(silent) {
                self.lose_copy(look.now);
            }
            self.lead.let_go(silent);
        }
        if !self.lead.waits() && look.node.promises.counted().is_counted(self.slot) {
            wishes.releases.push(self.slot);
        }
        self.let_strangers_go(look);
        self.note_sealed(look);
        wishes.is_progress |= self.raise(look);
        self.drive(look, may_seal, tallies);
        if let Some(handing) = &mut self.handing {
            // Nobody but this node proposes the commit: a word that nobody answers is taken back
            // by the log.
            let is_late = look.now.saturating_sub(handing.since) >= HANDOVER_MAX;
            let copy = self.copy.as_ref().filter(|_| handing.is_taken || !is_late);
            match copy {
                Some(_) if handing.is_taken && !handing.asked => {
                    handing.asked = true;
                    let slots = wishes.commits.entry((handing.id, handing.seen)).or_default();
                    slots.insert(self.slot);
                }
                Some(_) => {}
                // The target lost its copy before it took the word: only the log opens the slot.
                None if !handing.asked => {
                    handing.asked = true;
                    wishes.aborts.entry(handing.id).or_default().insert(self.slot);
                }
                None => {}
            }
        }
        self.want(look, wishes);
    }

    /// What is to be proposed, again and unchanged, but not more often than it can be answered.
    fn want(&mut self, look: &Look<'_>, wishes: &mut Wishes) {
        let wants = self.lead.wants();
        self.asked.retain(|(want, _)| wants.contains(want));
        for want in wants {
            match self.asked.iter_mut().find(|(asked, _)| *asked == want) {
                Some((_, at)) if look.now.saturating_sub(*at) < AGAIN => continue,
                Some((_, at)) => *at = look.now,
                None => self.asked.push((want, look.now)),
            }
            wishes.wants.entry(want).or_default().insert(self.slot);
        }
    }

    /// Once nobody is inside a closed slot, its last index is known.
    fn note_sealed(&mut self, look: &Look<'_>) {
        let is_closed = || look.node.seals.is_closed(self.slot, self.lead.epoch(), Sealer::Move);
        if !self.is_sealed() || self.sealed_last.is_some() || !is_closed() {
            return;
        }
        if let Some(reading) = look.node.rooms.try_read(self.slot) {
            let last = reading.index();
            drop(reading);
            self.sealed_last = Some(last);
            self.wrote(last, look);
        }
    }

    /// Raises what is safe by all who count and by the own log. True if that is news.
    fn raise(&mut self, look: &Look<'_>) -> bool {
        let done = rounds_done(&look.node.promises);
        while let Some((index, _)) = self.own.front().filter(|(_, round)| *round <= done) {
            self.own_safe = self.own_safe.max(*index);
            self.own.pop_front();
        }
        if !self.lead.waits() {
            self.waits_since = None;
            return false;
        }
        let safe = self.lead.safe().min(self.own_safe);
        let counted = look.node.promises.counted();
        let is_news = safe > self.safe && counted.raise(self.slot, safe);
        self.safe = self.safe.max(safe);
        if self.safe >= self.lead.last() {
            self.waits_since = None;
            return is_news;
        }
        let since = *self.waits_since.get_or_insert(look.now);
        if is_news {
            self.waits_since = Some(look.now);
        } else if look.now.saturating_sub(since) >= ACK_TIMEOUT {
            counted.give_up(self.slot);
            self.waits_since = Some(look.now);
            return true;
        }
        is_news
    }

    /// Asks the move what is to be done, and does it.
    fn drive(&mut self, look: &Look<'_>, may_seal: bool, tallies: &mut Tallies) {
        let Some(to) = self.out.as_ref().map(Outgoing::to) else { return };
        // What is done next may enter the room: it is free, or this is for the next time.
        if look.node.rooms.try_read(self.slot).is_none() {
            return;
        }
        // Each answer changes the state; there are fewer than this many in a row.
        for _ in 0..4 {
            let facts = self.facts(look, to, may_seal);
            let Some(order) = self.out.as_mut().and_then(|out| out.next(&facts, look.now)) else {
                return;
            };
            self.carry_out(order, to, look, tallies);
        }
    }

    fn facts(&self, look: &Look<'_>, to: NodeId, may_seal: bool) -> Facts {
        let held = self.copy.as_ref().and_then(|copy| copy.acked);
        let last = self.sealed_last.unwrap_or(self.lead.last());
        let is_leaving = self.copy.is_none();
        let counts = !is_leaving && self.lead.counted().any(|node| node == to);
        Facts {
            lag: held.map(|held| last.0.saturating_sub(held.0)),
            counts,
            is_in_sync: counts && look.table.slot(self.slot).is_in_sync(to),
            is_safe: self.sealed_last.is_some_and(|last| last == OpIndex(0) || self.safe >= last),
            may_seal,
            version: look.table.version(),
        }
    }

    fn carry_out(&mut self, order: Do, to: NodeId, look: &Look<'_>, tallies: &mut Tallies) {
        let (node, slot) = (look.node, self.slot);
        match order {
            Do::Count => {
                let held = self.copy.as_ref().and_then(|copy| copy.acked).unwrap_or(OpIndex(0));
                // Whoever writes behind the index that is read here finds it. If somebody is inside
                // it does not count, and this is asked for again.
                let Some(reading) = node.rooms.try_read(slot) else { return };
                node.promises.count(slot, held);
                let last = reading.index();
                drop(reading);
                self.safe = held;
                self.wrote(last, look);
                self.lead.count(to, look.now);
            }
            Do::Seal => {
                (self.sealed_last, self.sealed_at) = (None, look.now);
                match node.seal(slot, self.lead.epoch(), Sealer::Move) {
                    true => self.note_sealed(look),
                    false => {
                        self.out.iter_mut().for_each(|out| out.not_sealed(look.now));
                    }
                }
            }
            Do::Unseal => {
                node.unseal(slot, Sealer::Move);
                if let Some(out) = &self.out {
                    tallies.paused(out.id(), look.now.saturating_sub(self.sealed_at));
                }
                self.sealed_last = None;
            }
            Do::HandOver { seen } => {
                let id = self.out.as_ref().map(Outgoing::id);
                if let (Some(id), Some(last)) = (id, self.sealed_last) {
                    let (is_said, is_taken) = (false, false);
                    let (asked, since) = (false, look.now);
                    self.handing =
                        Some(Handing { id, seen, last, is_said, is_taken, asked, since });
                }
            }
            Do::Ask { .. } => {
                if let Some(handing) = &mut self.handing {
                    handing.asked = false;
                }
            }
        }
    }
}
