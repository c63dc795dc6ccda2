//! The commands that wait for an item: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP.
//!
//! Each tries as its plain form does and asks to be blocked if there is no list. The same
//! handler runs again, under the pusher's lock, when a key receives data (`Cx::serving`).

use super::ends::{Many, pop_many, pop_one};
use super::moves::move_item;
use super::parse_end;
use crate::command::families::timeout::parse_timeout;
use crate::command::{Args, BlockOn, CommandError, Cx, Flow, TimeoutReply};
use crate::slot::{End, Owned};

type Blocking = Result<Flow, CommandError>;

pub(super) fn blpop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Blocking {
    pop(owned, args, cx, End::Front)
}

pub(super) fn brpop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Blocking {
    pop(owned, args, cx, End::Back)
}

fn pop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>, end: End) -> Blocking {
    let last = args.len() - 1;
    let timeout = parse_timeout(args.at(last), cx.now)?;
    if pop_one(owned, args, cx, end)? {
        return Ok(Flow::Done);
    }
    let keys = (1..last).collect();
    Ok(Flow::Block(BlockOn { keys, timeout, on_timeout: TimeoutReply::NullArray }))
}

pub(super) fn blmpop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Blocking {
    let many = Many::parse(args, 2)?;
    let timeout = parse_timeout(args.at(1), cx.now)?;
    if pop_many(owned, args, cx, &many)? {
        return Ok(Flow::Done);
    }
    let keys = (many.from..many.to).collect();
    Ok(Flow::Block(BlockOn { keys, timeout, on_timeout: TimeoutReply::NullArray }))
}

pub(super) fn blmove(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Blocking {
    let ends = (parse_end(args.at(3))?, parse_end(args.at(4))?);
    move_or_block(owned, args, cx, ends, 5)
}

pub(super) fn brpoplpush(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Blocking {
    move_or_block(owned, args, cx, (End::Back, End::Front), 3)
}

fn move_or_block(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    ends: (End, End),
    timeout_at: usize,
) -> Blocking {
    let timeout = parse_timeout(args.at(timeout_at), cx.now)?;
    if move_item(owned, args, cx, ends)? {
        return Ok(Flow::Done);
    }
    let keys = std::iter::once(1).collect();
    Ok(Flow::Block(BlockOn { keys, timeout, on_timeout: TimeoutReply::Null }))
}
