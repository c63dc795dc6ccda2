//! SLOTD BACKUP: slots as sections of frames, for who keeps them.
//!
//! Not the stream (`stream/source`). Invariant: a frame leaves when what is in it is as safe as
//! the node promises, as the reply of any read.

use slots::admin::{BackupSlots, HeldSlot};
use slots::{SlotId, SlotRanges};

use super::{reply_json, slot_at, stream_at, text};
use crate::command::promise::Seen;
use crate::command::{Args, CommandError, NodeCx, Outcome};
use crate::slot::Ownership;
use crate::slot::tap::TAP_BYTES_MAX;
use crate::stream::{Budget, Interrupted, Piece, Source, Unreadable};

/// SLOTD BACKUP: its verbs.
pub(super) fn backup(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    match (text(args.at(2)).to_ascii_lowercase().as_str(), args.len()) {
        ("slots", 3) => list(cx),
        ("begin", 4) => begin(cx, slot_at(args, 3)?),
        ("next", 4) => next(cx, stream_at(args, 3)?),
        ("end", 4) => end(cx, stream_at(args, 3)?),
        _ => Err(CommandError::Static(
            "ERR unknown verb of SLOTD BACKUP or wrong number of arguments. Try SLOTD HELP.",
        )),
    }
}

/// The slots this node owns, and what is in them: an empty one needs no stream.
fn list(cx: &mut NodeCx<'_>) -> Outcome {
    let topology = cx.node.topology();
    let (mut owned, mut held) = (SlotRanges::new(), Vec::new());
    for slot in SlotId::all() {
        let is_mine =
            matches!(cx.node.rooms.ownership(slot).0, Ownership::Owned | Ownership::Sealed);
        if !is_mine {
            continue;
        }
        owned.insert(slot);
        if cx.node.rooms.looks_empty(slot) {
            continue;
        }
        let reading = cx.node.rooms.read(slot);
        if !reading.is_empty() {
            let (keys, bytes) = (reading.len() as u64, reading.bytes() as u64);
            held.push(HeldSlot { slot: slot.number(), keys, bytes });
        }
    }
    let table_version = topology.table.version().0;
    reply_json(cx, &BackupSlots { table_version, owned: owned.to_string(), held })
}

/// Refusals, in order: not served here, too many readers of the slot, too many streams.
fn begin(cx: &mut NodeCx<'_>, slot: SlotId) -> Outcome {
    cx.node.check_served(slot, &cx.client.shared)?;
    let source = Source::begin(&cx.node.rooms, slot);
    let source = source.map_err(|why| interrupted(cx, slot, why))?;
    let number = cx.node.sections.outgoing.begin(source, cx.now.mono_ns).map_err(|full| {
        CommandError::Text(format!(
            "REFUSED {} streams of slots are under way at this node, as many as may be: end some, \
             or wait",
            full.most
        ))
    })?;
    cx.reply.bulk(number.to_string().as_bytes());
    Ok(())
}

fn next(cx: &mut NodeCx<'_>, number: u64) -> Outcome {
    let streams = &cx.node.sections.outgoing;
    let Some(seat) = streams.find(number, cx.now.mono_ns) else { return Err(no_stream(number)) };
    let mut source = seat.try_work().ok_or_else(|| in_use("stream", number))?;
    let slot = source.slot();
    // A place for the kind.
    let mut frame = vec![0];
    match source.next(&cx.node.rooms, Budget::default(), &mut frame) {
        Ok(piece) => {
            frame[0] = piece.kind();
            if matches!(piece, Piece::End(_)) {
                streams.end(number);
            }
            cx.seen = Some(Seen::read(&cx.node.rooms.read(slot)));
            cx.reply.bulk(&frame);
            Ok(())
        }
        Err(why) => {
            streams.end(number);
            Err(interrupted(cx, slot, why))
        }
    }
}

fn end(cx: &mut NodeCx<'_>, number: u64) -> Outcome {
    match cx.node.sections.outgoing.end(number) {
        Some(_) => cx.reply.ok(),
        None => return Err(no_stream(number)),
    }
    Ok(())
}

fn interrupted(cx: &NodeCx<'_>, slot: SlotId, why: Interrupted) -> CommandError {
    let number = slot.number();
    match why {
        Interrupted::Unreadable(Unreadable::LetGo) => {
            let served = cx.node.check_served(slot, &cx.client.shared);
            served.err().unwrap_or_else(|| torn(number))
        }
        Interrupted::Unreadable(Unreadable::OtherEpoch) => torn(number),
        Interrupted::Unreadable(Unreadable::TooManyReaders) => CommandError::Text(format!(
            "REFUSED slot {number} is read by as many as may be: wait until one of them is done"
        )),
        Interrupted::Overrun => CommandError::Text(format!(
            "TORN more than {TAP_BYTES_MAX} bytes were written to slot {number} between two \
             frames: begin its stream anew, and ask faster"
        )),
    }
}

fn torn(slot: u16) -> CommandError {
    CommandError::Text(format!("TORN slot {slot} began another epoch: begin its stream anew"))
}

fn no_stream(number: u64) -> CommandError {
    CommandError::Text(format!(
        "NOSTREAM there is no stream {number}: it ended, or nobody asked for a minute"
    ))
}

/// Two calls at once for one of them.
pub(super) fn in_use(what: &str, number: u64) -> CommandError {
    CommandError::Text(format!("REFUSED {what} {number} is at work for another connection"))
}
