//! ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZSCAN: what is known of members by name.

use crate::command::families::scan::{ScanOptions, parse_cursor, write_empty_scan, write_scan};
use crate::command::families::zset::bounds::Order;
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::Keys;

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
    let cursor = parse_cursor(args.at(2))?;
    let Some(zset) = keys.zset(args.key(1))? else {
        write_empty_scan(&mut cx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3)?;
    write_scan(&mut cx.reply, |reply, bulks| {
        zset.scan(cursor, options.count, |member, score| {
            if options.wants(member) {
                reply.bulk(member);
                reply.bulk_double(score);
                *bulks += 2;
            }
        })
    });
    Ok(())
}
