//! The CLUSTER subcommands that look at keys: KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT.
//!
//! A slot that this node does not serve has no keys here, whatever lies in its room.

use slots::SlotId;

use crate::command::{Args, CommandError, NodeCx, Outcome};
use crate::resp::Reply;
use crate::slot::{Keys, Patience};
use crate::store::number::parse_i64;
use crate::store::table::ScanPos;

/// CLUSTER KEYSLOT.
pub(super) fn key_slot(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    cx.reply.int(slots::slot_of(args.at(2)).number().into());
    Ok(())
}

/// CLUSTER COUNTKEYSINSLOT.
pub(super) fn count_keys_in_slot(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let number = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    let slot = slot_of_number(number).ok_or(CommandError::Static("ERR Invalid slot"))?;
    let count = cx.enter(slot, Patience::Spin, |owned| owned.keys().len())?;
    cx.reply.int(count.unwrap_or(0) as i64);
    Ok(())
}

/// CLUSTER GETKEYSINSLOT.
pub(super) fn get_keys_in_slot(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let number = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    let count = parse_i64(args.at(3)).ok_or(CommandError::NotInteger)?;
    let refusal = CommandError::Static("ERR Invalid slot or number of keys");
    let (slot, count) = slot_of_number(number).zip(usize::try_from(count).ok()).ok_or(refusal)?;
    let proto = cx.reply.proto;
    let found = cx.enter(slot, Patience::Spin, |owned| {
        let mut names = Vec::new();
        let written = write_names(owned.keys(), count, &mut Reply::new(&mut names, proto));
        (written, names)
    })?;
    let (written, names) = found.unwrap_or_default();
    cx.reply.array(written);
    cx.reply.out.extend_from_slice(&names);
    Ok(())
}

/// Writes up to `count` names of live keys; returns how many.
fn write_names(keys: &Keys, count: usize, reply: &mut Reply<'_>) -> usize {
    let mut written = 0;
    let mut next = (count > 0).then_some(ScanPos::START);
    while let Some(position) = next.filter(|_| written < count) {
        next = keys.scan(position, &mut |found| {
            if written < count {
                reply.bulk(found.key());
                written += 1;
            }
        });
    }
    written
}

fn slot_of_number(number: i64) -> Option<SlotId> {
    u16::try_from(number).ok().and_then(SlotId::new)
}
