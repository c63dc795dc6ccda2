//! ZPOPMIN, ZPOPMAX, ZMPOP and their blocking forms: taking members from the ends.
//!
//! A blocking form is served again from the start, with its own words, when a key it waits on
//! becomes ready. Then a key of another type is only one that is still not there.

use std::ops::Range;
use std::time::Duration;

use crate::command::families::number::parse_count;
use crate::command::families::timeout::parse_timeout;
use crate::command::families::zset::bounds::{Order, walk};
use crate::command::families::zset::show::Show;
use crate::command::{Args, BlockOn, CommandError, Cx, Flow, Outcome, TimeoutReply};
use crate::resp::Proto;
use crate::slot::{Key, Keys, Op, Owned};

/// How the members taken are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Member, score, member, score...
    Flat,
    /// Pairs where the protocol has them.
    Pairs,
    /// The key, then one member and its score.
    KeyAndOne,
    /// The key, then an array of pairs, whatever the protocol.
    KeyAndPairs,
}

/// ZMPOP's words, understood.
struct Query {
    keys: Range<usize>,
    order: Order,
    count: usize,
}

pub(super) fn zpopmin(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    pop(owned, args, cx, Order::Up)
}

pub(super) fn zpopmax(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    pop(owned, args, cx, Order::Down)
}

fn pop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>, order: Order) -> Outcome {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let not_positive = "ERR value is out of range, must be positive";
    let count = args.opt(2).map(|text| parse_count(text, not_positive)).transpose()?;
    let key = args.key(1);
    if owned.keys().zset(key)?.is_none() || count == Some(0) {
        cx.reply.array(0);
        return Ok(());
    }
    let layout = if count.is_some() { Layout::Pairs } else { Layout::Flat };
    take(owned, key, order, count.unwrap_or(1), layout, cx)
}

pub(super) fn zmpop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let query = Query::parse(args, 1)?;
    match first_present(owned.keys(), args, query.keys, cx)? {
        Some(at) => {
            take(owned, args.key(at), query.order, query.count, Layout::KeyAndPairs, cx)?;
        }
        None => cx.reply.null_array(),
    }
    Ok(())
}

pub(super) fn bzpopmin(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
) -> Result<Flow, CommandError> {
    blocking_pop(owned, args, cx, Order::Up)
}

pub(super) fn bzpopmax(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
) -> Result<Flow, CommandError> {
    blocking_pop(owned, args, cx, Order::Down)
}

fn blocking_pop(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    order: Order,
) -> Result<Flow, CommandError> {
    let last = args.len() - 1;
    let timeout = parse_timeout(args.at(last), cx.now)?;
    let Some(at) = first_present(owned.keys(), args, 1..last, cx)? else {
        return Ok(wait(1..last, timeout));
    };
    take(owned, args.key(at), order, 1, Layout::KeyAndOne, cx)?;
    Ok(Flow::Done)
}

pub(super) fn bzmpop(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
) -> Result<Flow, CommandError> {
    let query = Query::parse(args, 2)?;
    let timeout = parse_timeout(args.at(1), cx.now)?;
    let Some(at) = first_present(owned.keys(), args, query.keys.clone(), cx)? else {
        return Ok(wait(query.keys, timeout));
    };
    take(owned, args.key(at), query.order, query.count, Layout::KeyAndPairs, cx)?;
    Ok(Flow::Done)
}

impl Query {
    /// Words from the number of keys, word `at`, on.
    fn parse(args: &Args<'_>, at: usize) -> Result<Query, CommandError> {
        let positive = |at, error| match parse_count(args.at(at), error)? {
            0 => Err(CommandError::Static(error)),
            count => Ok(count),
        };
        let keys = positive(at, "ERR numkeys should be greater than 0")?;
        let side = at.saturating_add(keys).saturating_add(1);
        if side >= args.len() {
            return Err(CommandError::Syntax);
        }
        let order = match () {
            () if args.is(side, "min") => Order::Up,
            () if args.is(side, "max") => Order::Down,
            () => return Err(CommandError::Syntax),
        };
        let count = match args.len() - side - 1 {
            0 => 1,
            2.. if args.is(side + 1, "count") => {
                let count = positive(side + 2, "ERR count should be greater than 0")?;
                if args.len() > side + 3 {
                    return Err(CommandError::Syntax);
                }
                count
            }
            _ => return Err(CommandError::Syntax),
        };
        Ok(Query { keys: at + 1..side, order, count })
    }
}

/// The word of the first key that holds a sorted set.
fn first_present(
    keys: &Keys,
    args: &Args<'_>,
    words: Range<usize>,
    cx: &Cx<'_>,
) -> Result<Option<usize>, CommandError> {
    for at in words.filter(|at| cx.considers(args.at(*at))) {
        match keys.zset(args.key(at)) {
            Ok(Some(_)) => return Ok(Some(at)),
            Ok(None) => {}
            Err(_) if cx.serving => {}
            Err(wrong_type) => return Err(wrong_type.into()),
        }
    }
    Ok(None)
}

/// Takes up to `count` members from one end of a sorted set that is there.
fn take(
    owned: &mut Owned<'_>,
    key: Key<'_>,
    order: Order,
    count: usize,
    layout: Layout,
    cx: &mut Cx<'_>,
) -> Outcome {
    let Some(zset) = owned.keys().zset(key)? else { return Err(CommandError::NoSuchKey) };
    let count = count.min(zset.len());
    let start = if order == Order::Up { 0 } else { zset.len() - count };
    let reply = &mut cx.reply;
    match layout {
        Layout::Flat => reply.array(count * 2),
        Layout::Pairs => Show::Scores.header(reply, count),
        Layout::KeyAndOne => {
            reply.array(3);
            reply.bulk(key.bytes);
        }
        Layout::KeyAndPairs => {
            reply.array(2);
            reply.bulk(key.bytes);
            reply.array(count);
        }
    }
    let paired = match layout {
        Layout::Flat | Layout::KeyAndOne => false,
        Layout::Pairs => reply.proto == Proto::Resp3,
        Layout::KeyAndPairs => true,
    };
    walk(zset, start..start + count, order, |member, score| {
        if paired {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(score);
    });
    owned.apply(Op::ZsetRemoveRanks { key, start, count });
    Ok(())
}

fn wait(keys: Range<usize>, timeout: Option<Duration>) -> Flow {
    Flow::Block(BlockOn { keys: keys.collect(), timeout, on_timeout: TimeoutReply::NullArray })
}
