//! SLOTD RESTORE: a section of a backup becomes the content of its slot.
//!
//! ```text
//!  BEGIN --> FRAME ... FRAME(end): whole in a stage --> COMMIT, again until nothing is left
//!              | a bad frame: it ends, the slot is as it was
//! ```
//! Not the check of the bytes (`stream/section`). Invariant: the slot is not touched before its
//! section is whole, and then only by op groups of its owner, a bounded one a call.

use parking_lot::MutexGuard;
use slots::SlotId;
use slots::admin::RestoreStep;

use super::backup::in_use;
use super::{reply_json, slot_at, stream_at, text};
use crate::command::promise::Seen;
use crate::command::sections::{Incoming, Over, Seat};
use crate::command::{Args, CommandError, NodeCx, Outcome};
use crate::slot::{Admit, Key, Op, Owned, Patience, Refused};

/// Keys that one COMMIT puts into the slot: some 100 us of its lock.
const COMMIT_KEYS: usize = 512;

/// Bytes of their values: one record of the log.
const COMMIT_BYTES: usize = 256 * 1024;

/// SLOTD RESTORE: its verbs.
pub(super) fn restore(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    match (text(args.at(2)).to_ascii_lowercase().as_str(), args.len()) {
        ("begin", 4) => begin(cx, slot_at(args, 3)?, Over::Nothing),
        ("begin", 5) if args.is(4, "replace") => begin(cx, slot_at(args, 3)?, Over::Keys),
        ("begin", 5) => Err(CommandError::Syntax),
        ("frame", 5) => frame(cx, stream_at(args, 3)?, args.at(4)),
        ("commit", 4) => commit(cx, stream_at(args, 3)?),
        ("end", 4) => end(cx, stream_at(args, 3)?),
        _ => Err(CommandError::Static(
            "ERR unknown verb of SLOTD RESTORE or wrong number of arguments. Try SLOTD HELP.",
        )),
    }
}

/// Refusals, in order: not served here, the slot has keys, too many restores.
fn begin(cx: &mut NodeCx<'_>, slot: SlotId, over: Over) -> Outcome {
    cx.node.check_served(slot, &cx.client.shared)?;
    if over == Over::Nothing {
        let keys = cx.node.rooms.read(slot).len();
        if keys > 0 {
            return Err(has_keys(slot, keys));
        }
    }
    let incoming = Incoming::new(slot, over);
    let number = cx.node.sections.incoming.begin(incoming, cx.now.mono_ns).map_err(|full| {
        CommandError::Text(format!(
            "REFUSED {} slots are being restored at this node, as many as may be: end some, or \
             wait",
            full.most
        ))
    })?;
    cx.reply.bulk(number.to_string().as_bytes());
    Ok(())
}

fn frame(cx: &mut NodeCx<'_>, number: u64, frame: &[u8]) -> Outcome {
    let seat = seat(cx, number)?;
    let mut incoming = work(&seat, number)?;
    let slot = incoming.stage.slot();
    if let Err(refusal) = cx.node.check_served(slot, &cx.client.shared) {
        discard(cx, number, incoming);
        return Err(refusal);
    }
    let Incoming { stage, arrival, .. } = &mut *incoming;
    let mut room = stage.enter(&cx.node.rooms, cx.now.unix_ms);
    let taken = arrival.frame(frame, &mut room);
    drop(room);
    if let Err(bad) = taken {
        discard(cx, number, incoming);
        return Err(CommandError::Text(format!(
            "REFUSED slot {} is not restored: {bad}; the slot is as it was",
            slot.number()
        )));
    }
    if arrival.end().is_some() && !stage.is_of_one_slot() {
        discard(cx, number, incoming);
        return Err(CommandError::Text(format!(
            "REFUSED slot {} is not restored: it has keys of other slots; the slot is as it was",
            slot.number()
        )));
    }
    cx.reply.ok();
    Ok(())
}

/// Refusals, in order: not whole, not served here, the slot has got keys meanwhile.
fn commit(cx: &mut NodeCx<'_>, number: u64) -> Outcome {
    let seat = seat(cx, number)?;
    let mut incoming = work(&seat, number)?;
    if incoming.arrival.end().is_none() {
        return Err(CommandError::Text(format!(
            "REFUSED restore {number} is not whole: its end has not come"
        )));
    }
    let (slot, rooms) = (incoming.stage.slot(), &cx.node.rooms);
    // Before the room is entered: whoever finds it busy has them ready for the next time.
    if incoming.ready.is_empty() {
        incoming.ready = incoming.stage.take(rooms, (COMMIT_KEYS, COMMIT_BYTES));
    }
    match rooms.admit(slot, cx.now.unix_ms, Patience::Spin) {
        Admit::Busy | Admit::Refused(Refused::Parked) => return Err(CommandError::Busy(slot)),
        Admit::Refused(refused) => {
            discard(cx, number, incoming);
            return Err(cx.node.refusal(slot, refused, &cx.client.shared));
        }
        Admit::Served(mut owned) => {
            if let Err(refusal) = make_room(&mut incoming, &mut owned) {
                drop(owned);
                discard(cx, number, incoming);
                return Err(refusal);
            }
            put(&mut incoming, &mut owned, cx.now.unix_ms);
            owned.end_group();
            cx.seen = Some(Seen::of(&owned));
        }
    }
    let left = incoming.left();
    if left == 0 {
        cx.node.sections.incoming.end(number);
    }
    let counts = incoming.counts;
    drop(incoming);
    let (restored, expired, kept) = (counts.restored, counts.expired, counts.kept);
    reply_json(cx, &RestoreStep { left, restored, expired, kept })
}

/// The first step finds the slot as it was asked for, or makes it so.
fn make_room(incoming: &mut Incoming, owned: &mut Owned<'_>) -> Result<(), CommandError> {
    if incoming.has_begun {
        return Ok(());
    }
    let keys = owned.keys().len();
    match incoming.over {
        Over::Nothing if keys > 0 => return Err(has_keys(owned.slot(), keys)),
        Over::Keys if keys > 0 => {
            owned.apply(Op::Flush);
        }
        Over::Nothing | Over::Keys => {}
    }
    incoming.has_begun = true;
    Ok(())
}

/// What a client has written since the first step is newer, and stays.
fn put(incoming: &mut Incoming, owned: &mut Owned<'_>, now_ms: u64) {
    for staged in std::mem::take(&mut incoming.ready) {
        if staged.expiry.is_some_and(|at| at <= now_ms) {
            incoming.counts.expired += 1;
        } else if owned.keys().exists(Key::new(&staged.key)) {
            incoming.counts.kept += 1;
        } else {
            staged.put(owned);
            incoming.counts.restored += 1;
        }
    }
}

fn end(cx: &mut NodeCx<'_>, number: u64) -> Outcome {
    let seat = seat(cx, number)?;
    let incoming = work(&seat, number)?;
    discard(cx, number, incoming);
    cx.reply.ok();
    Ok(())
}

/// Ends it; what is in its stage is freed.
fn discard(cx: &NodeCx<'_>, number: u64, incoming: MutexGuard<'_, Incoming>) {
    cx.node.sections.incoming.end(number);
    incoming.stage.clear(&cx.node.rooms);
}

fn seat(cx: &NodeCx<'_>, number: u64) -> Result<std::sync::Arc<Seat<Incoming>>, CommandError> {
    cx.node.sections.incoming.find(number, cx.now.mono_ns).ok_or_else(|| {
        CommandError::Text(format!(
            "NOSTREAM there is no restore {number}: it ended, or nobody asked for a minute"
        ))
    })
}

fn work(seat: &Seat<Incoming>, number: u64) -> Result<MutexGuard<'_, Incoming>, CommandError> {
    seat.try_work().ok_or_else(|| in_use("restore", number))
}

fn has_keys(slot: SlotId, keys: usize) -> CommandError {
    CommandError::Text(format!(
        "REFUSED slot {} has {keys} keys: REPLACE puts the restored ones in their place",
        slot.number()
    ))
}

#[cfg(test)]
mod tests;
