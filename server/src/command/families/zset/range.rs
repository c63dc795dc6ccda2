//! ZRANGE and all that takes a range: listing, storing, counting, removing.
//!
//! The older names (ZREVRANGE, ZRANGEBYSCORE...) are ZRANGE with some options fixed.

use crate::command::families::zset::bounds::{Limit, Order, Selection, walk};
use crate::command::families::zset::show::Show;
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Key, Keys, Op, Owned};
use crate::store::number::parse_i64;
use crate::store::object::Object;
use crate::store::table::Expiry;
use crate::store::zset::SortedSet;

/// What the two words behind the key are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// What a command's name fixes; the rest is left to options.
#[derive(Clone, Copy, Default)]
struct Fixed {
    by: Option<By>,
    order: Option<Order>,
    /// The range is stored: scores always belong to it and WITHSCORES is no option.
    stored: bool,
}

/// A range command's words, understood.
struct Query<'a> {
    selection: Selection<'a>,
    order: Order,
    limit: Limit,
    show: Show,
}

pub(super) fn zrange(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(keys, args, cx, Fixed::default())
}

pub(super) fn zrevrange(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(keys, args, cx, fixed(By::Rank, Order::Down))
}

pub(super) fn zrangebyscore(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(keys, args, cx, fixed(By::Score, Order::Up))
}

pub(super) fn zrevrangebyscore(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(keys, args, cx, fixed(By::Score, Order::Down))
}

pub(super) fn zrangebylex(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(keys, args, cx, fixed(By::Lex, Order::Up))
}

pub(super) fn zrevrangebylex(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(keys, args, cx, fixed(By::Lex, Order::Down))
}

pub(super) fn zrangestore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let query = Query::parse(args, 2, Fixed { stored: true, ..Fixed::default() })?;
    let limits = owned.limits();
    let mut stored = SortedSet::new();
    if let Some(zset) = owned.keys().zset(args.key(2))? {
        let span = query.limit.of(query.selection.span(zset, query.order), query.order);
        // In rising order whatever was asked: the fastest way to fill a set.
        walk(zset, span, Order::Up, |member, score| {
            stored.add(member, score, &limits);
        });
    }
    store(owned, args.key(1), stored, cx);
    Ok(())
}

/// Makes `key` this sorted set, or removes it if that is empty; answers with the size.
pub(super) fn store(owned: &mut Owned<'_>, key: Key<'_>, zset: SortedSet, cx: &mut Cx<'_>) {
    let count = zset.len();
    if count > 0 {
        let object = Box::new(Object::SortedSet(zset));
        owned.apply(Op::PutObject { key, object, expiry: Expiry::Never });
    } else if owned.keys().exists(key) {
        owned.apply(Op::Delete { key });
    }
    cx.reply.int(count as i64);
}

pub(super) fn zcount(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    count(keys, args, cx, Selection::scores(args.at(2), args.at(3))?)
}

pub(super) fn zlexcount(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    count(keys, args, cx, Selection::members(args.at(2), args.at(3))?)
}

fn count(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>, selection: Selection<'_>) -> Outcome {
    let inside = keys.zset(args.key(1))?.map_or(0, |zset| selection.span(zset, Order::Up).len());
    cx.reply.int(inside as i64);
    Ok(())
}

pub(super) fn zremrangebyrank(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    remove(owned, args, cx, Selection::ranks(args.at(2), args.at(3))?)
}

pub(super) fn zremrangebyscore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    remove(owned, args, cx, Selection::scores(args.at(2), args.at(3))?)
}

pub(super) fn zremrangebylex(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    remove(owned, args, cx, Selection::members(args.at(2), args.at(3))?)
}

fn remove(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    selection: Selection<'_>,
) -> Outcome {
    let key = args.key(1);
    let span = owned.keys().zset(key)?.map_or(0..0, |zset| selection.span(zset, Order::Up));
    if !span.is_empty() {
        owned.apply(Op::ZsetRemoveRanks { key, start: span.start, count: span.len() });
    }
    cx.reply.int(span.len() as i64);
    Ok(())
}

fn fixed(by: By, order: Order) -> Fixed {
    Fixed { by: Some(by), order: Some(order), stored: false }
}

fn list(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>, fixed: Fixed) -> Outcome {
    let query = Query::parse(args, 1, fixed)?;
    let Some(zset) = keys.zset(args.key(1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    let span = query.limit.of(query.selection.span(zset, query.order), query.order);
    query.show.header(&mut cx.reply, span.len());
    walk(zset, span, query.order, |member, score| {
        query.show.entry(&mut cx.reply, member, score);
    });
    Ok(())
}

impl<'a> Query<'a> {
    /// Words from the source key, word `at`, on: key, two edges, options.
    fn parse(args: &Args<'a>, at: usize, fixed: Fixed) -> Result<Query<'a>, CommandError> {
        let (mut by, mut order) = (fixed.by, fixed.order);
        let (mut limit, mut show) = (Limit::NONE, Show::Members);
        let mut option = at + 3;
        while option < args.len() {
            if !fixed.stored && args.is(option, "withscores") {
                show = Show::Scores;
            } else if args.is(option, "limit") && args.len() - option > 2 {
                let number = |i| parse_i64(args.at(i)).ok_or(CommandError::NotInteger);
                limit = Limit { offset: number(option + 1)?, count: number(option + 2)? };
                option += 2;
            } else if fixed.order.is_none() && args.is(option, "rev") {
                order = Some(Order::Down);
            } else if by.is_none() && args.is(option, "bylex") {
                by = Some(By::Lex);
            } else if by.is_none() && args.is(option, "byscore") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
            option += 1;
        }
        let (by, order) = (by.unwrap_or(By::Rank), order.unwrap_or(Order::Up));
        // A count of -1 says "all", which Redis lets pass with ranks too.
        if by == By::Rank && limit.count != -1 {
            return Err(CommandError::Static(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE \
                 or BYLEX",
            ));
        }
        if by == By::Lex && show == Show::Scores {
            return Err(CommandError::Static(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let limit = if by == By::Rank { Limit::NONE } else { limit };
        let (first, second) = (args.at(at + 1), args.at(at + 2));
        let (min, max) = if order == Order::Up { (first, second) } else { (second, first) };
        let selection = match by {
            By::Rank => Selection::ranks(first, second)?,
            By::Score => Selection::scores(min, max)?,
            By::Lex => Selection::members(min, max)?,
        };
        Ok(Query { selection, order, limit, show })
    }
}
