//! ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZSCAN: what is known of members by name.

use crate::command::families::zset::bounds::Order;
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::resp::Reply;
use crate::slot::Keys;
use crate::store::glob;
use crate::store::number::{parse_i64, parse_u64};

/// Members a ZSCAN call visits unless COUNT says otherwise, as in Redis.
const SCAN_COUNT_DEFAULT: usize = 10;

pub(super) fn zcard(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let count = keys.zset(args.key(1))?.map_or(0, |zset| zset.len());
    cx.reply.int(count as i64);
    Ok(())
}

pub(super) fn zscore(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    match keys.zset(args.key(1))?.and_then(|zset| zset.score(args.at(2))) {
        Some(score) => cx.reply.double(score),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn zmscore(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let zset = keys.zset(args.key(1))?;
    let members = args.from(2);
    cx.reply.array(members.len());
    for member in members {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => cx.reply.double(score),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn zrank(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    rank(keys, args, cx, Order::Up, "zrank")
}

pub(super) fn zrevrank(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    rank(keys, args, cx, Order::Down, "zrevrank")
}

fn rank(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>, order: Order, name: &str) -> Outcome {
    if args.len() > 4 {
        return Err(CommandError::arity(name));
    }
    let with_score = args.len() == 4;
    if with_score && !args.is(3, "withscore") {
        return Err(CommandError::Syntax);
    }
    let member = args.at(2);
    let found = keys.zset(args.key(1))?.and_then(|zset| {
        let up = zset.rank(member)?;
        let rank = if order == Order::Up { up } else { zset.len() - 1 - up };
        Some((rank, if with_score { zset.score(member) } else { None }))
    });
    match found {
        None if with_score => cx.reply.null_array(),
        None => cx.reply.null(),
        Some((rank, score)) => {
            if score.is_some() {
                cx.reply.array(2);
            }
            cx.reply.int(rank as i64);
            if let Some(score) = score {
                cx.reply.double(score);
            }
        }
    }
    Ok(())
}

pub(super) fn zscan(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let cursor = parse_u64(args.at(2)).ok_or(CommandError::Static("ERR invalid cursor"))?;
    let Some(zset) = keys.zset(args.key(1))? else {
        cx.reply.array(2);
        cx.reply.bulk(b"0");
        cx.reply.array(0);
        return Ok(());
    };
    let (mut count, mut pattern) = (SCAN_COUNT_DEFAULT, None);
    let mut at = 3;
    while at < args.len() {
        let Some(value) = args.opt(at + 1) else { return Err(CommandError::Syntax) };
        if args.is(at, "count") {
            let number = parse_i64(value).ok_or(CommandError::NotInteger)?;
            count = usize::try_from(number).ok().filter(|n| *n > 0).ok_or(CommandError::Syntax)?;
        } else if args.is(at, "match") {
            pattern = (value != b"*").then_some(value);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    // The next cursor stands before the members and is known only after them.
    let mut members = Vec::new();
    let mut entries = Reply::new(&mut members, cx.reply.proto);
    let mut words = 0;
    let next = zset.scan(cursor, count, |member, score| {
        if pattern.is_none_or(|pattern| glob::matches(pattern, member, false)) {
            entries.bulk(member);
            entries.bulk_double(score);
            words += 2;
        }
    });
    cx.reply.array(2);
    cx.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    cx.reply.array(words);
    cx.reply.out.extend_from_slice(&members);
    Ok(())
}
