//! Pushing and popping at the ends: LPUSH, RPUSH, LPUSHX, RPUSHX, LPOP, RPOP, LMPOP.
//! The popping of the blocking forms is here too; their waiting is in `blocking`.

use super::{drop_items, end_item, first_list, parse_end, write_items};
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{End, Op, Owned};
use crate::store::number::parse_i64;

pub(super) fn lpush(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    owned.keys().list(args.key(1))?;
    push(owned, args, cx, End::Front);
    Ok(())
}

pub(super) fn rpush(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    owned.keys().list(args.key(1))?;
    push(owned, args, cx, End::Back);
    Ok(())
}

pub(super) fn lpushx(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    push_if_there(owned, args, cx, End::Front)
}

pub(super) fn rpushx(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    push_if_there(owned, args, cx, End::Back)
}

fn push_if_there(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>, end: End) -> Outcome {
    match owned.keys().list(args.key(1))? {
        Some(_) => push(owned, args, cx, end),
        None => cx.reply.int(0),
    }
    Ok(())
}

fn push(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>, end: End) {
    let items = args.slice(2, args.len());
    let len = owned.apply(Op::ListPush { key: args.key(1), end, items: &items });
    cx.reply.int(len as i64);
}

pub(super) fn lpop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    pop(owned, args, cx, End::Front, "lpop")
}

pub(super) fn rpop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    pop(owned, args, cx, End::Back, "rpop")
}

/// Without a count one item or null, with one an array or a null array.
fn pop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>, end: End, name: &str) -> Outcome {
    if args.len() > 3 {
        return Err(CommandError::arity(name));
    }
    let count = args.opt(2).map(parse_count).transpose()?;
    let key = args.key(1);
    let (count, len) = match (owned.keys().list(key)?, count) {
        (None, None) => {
            cx.reply.null();
            return Ok(());
        }
        (None, Some(_)) => {
            cx.reply.null_array();
            return Ok(());
        }
        (Some(list), None) => {
            if let Some(item) = end_item(list, end) {
                cx.reply.bulk(item);
            }
            (1, list.len())
        }
        (Some(list), Some(count)) => {
            let count = count.min(list.len());
            write_items(list, end, count, cx);
            (count, list.len())
        }
    };
    drop_items(owned, key, end, count, len);
    Ok(())
}

fn parse_count(word: &[u8]) -> Result<usize, CommandError> {
    let count = parse_i64(word).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::Static("ERR value is out of range, must be positive"))
}

pub(super) fn lmpop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let many = Many::parse(args, 1)?;
    if !pop_many(owned, args, cx, &many)? {
        cx.reply.null_array();
    }
    Ok(())
}

/// What LMPOP and BLMPOP ask for.
pub(super) struct Many {
    /// Words of the keys: `from..to`.
    pub from: usize,
    pub to: usize,
    end: End,
    count: usize,
}

impl Many {
    /// Word `at` is the number of keys. Refusals in order: that number; no LEFT or RIGHT behind
    /// the keys; the count; anything else.
    pub(super) fn parse(args: &Args<'_>, at: usize) -> Result<Many, CommandError> {
        let keys = parse_i64(args.at(at))
            .and_then(|keys| usize::try_from(keys).ok())
            .filter(|keys| *keys > 0)
            .ok_or(CommandError::Static("ERR numkeys should be greater than 0"))?;
        let to = (at + 1).saturating_add(keys);
        let end = parse_end(args.opt(to).ok_or(CommandError::Syntax)?)?;
        let mut count = None;
        let mut word = to + 1;
        while word < args.len() {
            if count.is_some() || !args.is(word, "COUNT") || word + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            let asked = parse_i64(args.at(word + 1)).and_then(|count| usize::try_from(count).ok());
            count = asked.filter(|count| *count > 0);
            if count.is_none() {
                return Err(CommandError::Static("ERR count should be greater than 0"));
            }
            word += 2;
        }
        Ok(Many { from: at + 1, to, end, count: count.unwrap_or(1) })
    }
}

/// Pops from the first list there is and writes its key with the items; false if there is none.
pub(super) fn pop_many(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    many: &Many,
) -> Result<bool, CommandError> {
    let Some((word, len)) = first_list(owned, args, cx, many.from, many.to)? else {
        return Ok(false);
    };
    let key = args.key(word);
    let count = many.count.min(len);
    if let Some(list) = owned.keys().list(key)? {
        cx.reply.array(2);
        cx.reply.bulk(key.bytes);
        write_items(list, many.end, count, cx);
    }
    drop_items(owned, key, many.end, count, len);
    Ok(true)
}

/// Pops one item from the first list there is and writes its key and the item; false if there
/// is none.
pub(super) fn pop_one(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    end: End,
) -> Result<bool, CommandError> {
    let Some((word, len)) = first_list(owned, args, cx, 1, args.len() - 1)? else {
        return Ok(false);
    };
    let key = args.key(word);
    if let Some(item) = owned.keys().list(key)?.and_then(|list| end_item(list, end)) {
        cx.reply.array(2);
        cx.reply.bulk(key.bytes);
        cx.reply.bulk(item);
    }
    drop_items(owned, key, end, 1, len);
    Ok(true)
}
