//! Moving an item from one list to another, or round one: LMOVE, RPOPLPUSH.

use super::{drop_items, end_item, parse_end};
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{End, Op, Owned};

pub(super) fn lmove(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let ends = (parse_end(args.at(3))?, parse_end(args.at(4))?);
    if !move_item(owned, args, cx, ends)? {
        cx.reply.null();
    }
    Ok(())
}

pub(super) fn rpoplpush(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if !move_item(owned, args, cx, (End::Back, End::Front))? {
        cx.reply.null();
    }
    Ok(())
}

/// Moves an item from the list at word 1 to that at word 2 and writes it; false if there is no
/// list to take from. On behalf of a waiting client a source of another type is none either; a
/// destination of another type always is an error.
pub(super) fn move_item(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    (from, to): (End, End),
) -> Result<bool, CommandError> {
    let (source, destination) = (args.key(1), args.key(2));
    let list = match owned.keys().list(source) {
        Ok(Some(list)) => list,
        Ok(None) => return Ok(false),
        Err(_) if cx.serving => return Ok(false),
        Err(wrong_type) => return Err(wrong_type.into()),
    };
    owned.keys().list(destination)?;
    let len = list.len();
    let Some(item) = end_item(list, from).map(<[u8]>::to_vec) else { return Ok(false) };
    if source.bytes != destination.bytes {
        owned.apply(Op::ListPush { key: destination, end: to, items: &[&item] });
        drop_items(owned, source, from, 1, len);
    } else if from != to {
        // Pushed first: a list of one item must not lose its expiry on the way.
        owned.apply(Op::ListPush { key: source, end: to, items: &[&item] });
        owned.apply(Op::ListPop { key: source, end: from, count: 1 });
    }
    cx.reply.bulk(&item);
    Ok(true)
}
