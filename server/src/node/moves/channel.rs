//! The letters to one target: one under way at a time, sent again as it was until it is answered.
//!
//! What is urgent comes first: groups of copies that are whole, and the owner's word; then the
//! copies that are being filled, in turn. Invariant: a letter has about `LETTER_BYTES`, unless a
//! single value or group has more; what was written into one is sent, or the channel ends.

use slots::{Boot, NodeId, SlotId, TableVersion};

use super::entry::Entry;
use super::{Book, Look, Mover};
use crate::io::clock;
use crate::migration::letter::{Head, Reply, Said, Stands, open_item, put_item};
use crate::peer::{CallError, MAX_MESSAGE_BYTES};
use crate::stream::{Budget, Piece};

/// Bytes of one slot's groups in a letter, so that one that is written fast leaves room for others.
const GROUPS_BYTES: usize = LETTER_BYTES / 4;
/// The longest payload of an item: a letter with it is a call that a link takes.
const ITEM_BYTES_MAX: usize = MAX_MESSAGE_BYTES - 2 * LETTER_BYTES;
/// Bytes of a letter: a millisecond of work at the other end, and as long as a write may wait there
/// behind the copy of another slot.
const LETTER_BYTES: usize = 256 * 1024;

const TOO_LARGE: &str = "a single value, or what one command wrote, has more than 15 MiB: it \
                         cannot be moved yet; make it smaller, or cancel the move";

pub(super) struct Channel {
    id: u64,
    number: u64,
    /// What is under way, or to be sent again.
    letter: Option<Vec<u8>>,
    is_sending: bool,
    is_paused: bool,
    /// Where the next filling begins: behind the slot that was filled last.
    turn: Option<SlotId>,
    /// The same of groups behind the end.
    urgent_turn: Option<SlotId>,
    /// The boot it speaks to, by the table.
    boot: Boot,
}

impl Channel {
    pub(super) fn open(look: &Look<'_>) -> Channel {
        let _ = look;
        Channel {
            id: clock::random_u64(),
            number: 0,
            letter: None,
            is_sending: false,
            is_paused: false,
            turn: None,
            urgent_turn: None,
            boot: Boot(0),
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_sending || self.is_paused
    }
}

impl Book {
    /// What is to be sent to a target now, if anything.
    pub(super) fn letter(&mut self, to: NodeId, look: &Look<'_>) -> Option<Vec<u8>> {
        let boot = look.table.node(to).map_or(Boot(0), |row| row.boot);
        let channel = self.channels.get_mut(&to)?;
        if channel.is_sending || channel.is_paused {
            return None;
        }
        if channel.boot != boot {
            // The target started again: what it was told it may have forgotten.
            *channel = Channel { boot, ..Channel::open(look) };
        }
        if channel.letter.is_none() {
            let head = Head {
                channel: channel.id,
                number: channel.number + 1,
                version: look.table.version(),
            };
            let mut body = Vec::with_capacity(LETTER_BYTES + LETTER_BYTES / 4);
            head.put(&mut body);
            let empty = body.len();
            let turn = channel.turn;
            let turn = self.fill(to, turn, &mut body, look);
            let channel = self.channels.get_mut(&to)?;
            channel.turn = turn;
            if body.len() == empty {
                return None;
            }
            channel.number += 1;
            channel.letter = Some(body);
        }
        let channel = self.channels.get_mut(&to)?;
        channel.is_sending = true;
        channel.letter.clone()
    }

    fn fill(
        &mut self,
        to: NodeId,
        turn: Option<SlotId>,
        body: &mut Vec<u8>,
        look: &Look<'_>,
    ) -> Option<SlotId> {
        let ours: Vec<SlotId> = {
            let of =
                |(slot, entry): (&SlotId, &Entry)| (entry.copy_to() == Some(to)).then_some(*slot);
            self.entries.iter().filter_map(of).collect()
        };
        // In turn, so that fast slots with low numbers do not keep the others from being heard.
        let after = |turn: Option<SlotId>| {
            turn.map_or(0, |turn| ours.partition_point(|slot| *slot <= turn))
        };
        let urgent = self.channels.get(&to).and_then(|channel| channel.urgent_turn);
        let (mut urgent_turn, split) = (urgent, after(urgent));
        for slot in ours[split..].iter().chain(&ours[..split]) {
            if body.len() >= LETTER_BYTES {
                break;
            }
            self.put_urgent(*slot, body, look);
            urgent_turn = Some(*slot);
        }
        if let Some(channel) = self.channels.get_mut(&to) {
            channel.urgent_turn = urgent_turn;
        }
        let split = after(turn);
        let mut last = turn;
        for slot in ours[split..].iter().chain(&ours[..split]) {
            if body.len() >= LETTER_BYTES {
                break;
            }
            if self.put_frames(*slot, body, look) {
                last = Some(*slot);
            }
        }
        last
    }

    /// Groups behind the end, then the owner's word.
    fn put_urgent(&mut self, slot: SlotId, body: &mut Vec<u8>, look: &Look<'_>) {
        let Some(entry) = self.entries.get_mut(&slot) else { return };
        let (epoch, before, wants_word) = (entry.epoch(), body.len(), entry.wants_word(look));
        let Some(copy) = entry.copy.as_mut().filter(|copy| copy.has_ended) else { return };
        let attempt = copy.attempt;
        let budget = Budget { bytes: GROUPS_BYTES, ..Budget::default() };
        let open = open_item(body, slot, attempt, epoch, false);
        match copy.source.more(budget, body) {
            Ok(Some(_)) if body.len() - before > ITEM_BYTES_MAX => {
                open.give_up(body);
                return entry.refused(attempt, Some(TOO_LARGE), look.now);
            }
            Ok(Some(index)) => {
                open.close(body);
                entry.sent(index, look);
            }
            // No groups: it is answered all the same.
            Ok(None) if wants_word => open.close(body),
            Ok(None) => open.give_up(body),
            Err(why) => {
                open.give_up(body);
                tracing::debug!(slot = slot.number(), ?why, "a copy cannot go on");
                return entry.interrupted(look.now);
            }
        }
        let sent = entry.copy.as_ref().map(|copy| copy.sent);
        if let Some(handing) = entry.handing.as_mut().filter(|handing| !handing.is_said)
            && sent.is_some_and(|sent| sent >= handing.last)
        {
            handing.is_said = true;
            let said = Said::Handover { id: handing.id, last: handing.last };
            put_item(body, slot, attempt, epoch, said);
        }
        if let Some(id) = entry.move_id() {
            self.tallies.sent(id, (body.len() - before) as u64);
        }
    }

    /// Frames of a copy that is not whole. True if there were any.
    fn put_frames(&mut self, slot: SlotId, body: &mut Vec<u8>, look: &Look<'_>) -> bool {
        let Some(entry) = self.entries.get_mut(&slot) else { return false };
        let (epoch, before) = (entry.epoch(), body.len());
        while body.len() < LETTER_BYTES {
            let Some(copy) = entry.copy.as_mut().filter(|copy| !copy.has_ended) else { break };
            let attempt = copy.attempt;
            if !copy.has_begun {
                copy.has_begun = true;
                let said = Said::Begin { keys: copy.keys, bytes: copy.bytes };
                put_item(body, slot, attempt, epoch, said);
            }
            let open = open_item(body, slot, attempt, epoch, true);
            let kind_at = body.len();
            body.push(0);
            match copy.source.next_if_free(&look.node.rooms, Budget::default(), body) {
                Ok(None) => {
                    open.give_up(body);
                    break;
                }
                Ok(_) if body.len() - kind_at > ITEM_BYTES_MAX => {
                    open.give_up(body);
                    entry.refused(attempt, Some(TOO_LARGE), look.now);
                    break;
                }
                Ok(Some(piece)) => {
                    body[kind_at] = piece.kind();
                    open.close(body);
                    if let Piece::End(end) = piece {
                        copy.has_ended = true;
                        entry.sent(end.index, look);
                    }
                }
                Err(why) => {
                    open.give_up(body);
                    tracing::debug!(slot = slot.number(), ?why, "a copy begins anew");
                    entry.interrupted(look.now);
                    break;
                }
            }
        }
        let bytes = (body.len() - before) as u64;
        if let Some(id) = entry.move_id() {
            self.tallies.sent(id, bytes);
        }
        bytes > 0
    }
}

impl Mover {
    /// A letter was answered, or not. True if it was.
    pub(super) fn replied(&self, to: NodeId, reply: Result<Vec<u8>, CallError>) -> bool {
        let now = std::time::Duration::from_nanos(clock::now().mono_ns);
        let mut book = self.book.lock();
        let Some(channel) = book.channels.get_mut(&to) else { return true };
        channel.is_sending = false;
        let reply = match reply.map(|body| Reply::read(&body)) {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => {
                tracing::warn!(%to, %error, "a reply that is none");
                channel.is_paused = true;
                return false;
            }
            Err(error) => {
                tracing::debug!(%to, ?error, "a letter was not answered");
                channel.is_paused = true;
                return false;
            }
        };
        channel.letter = None;
        let acked: (Boot, TableVersion) = (reply.boot, reply.version);
        for state in reply.states {
            let Some(entry) = book.entries.get_mut(&state.slot) else { continue };
            match state.stands {
                Stands::Filling => {}
                Stands::Holds(index) => entry.holds(state.attempt, index, acked, now),
                Stands::Handed(index) => {
                    entry.holds(state.attempt, index, acked, now);
                    entry.handed(state.attempt);
                }
                Stands::NoRoom => {
                    let why = "the target has no memory for it (its maxmemory)";
                    entry.refused(state.attempt, Some(why), now);
                }
                Stands::Fenced(_) | Stands::Behind | Stands::Apart => {
                    entry.refused(state.attempt, None, now);
                }
            }
        }
        true
    }

    pub(super) fn may_send_again(&self, to: NodeId) {
        if let Some(channel) = self.book.lock().channels.get_mut(&to) {
            channel.is_paused = false;
        }
    }
}
