//! Looking and working inside a list: LLEN, LINDEX, LSET, LINSERT, LRANGE, LTRIM, LREM, LPOS.

use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{End, Keys, Op, Owned};
use crate::store::list::List;
use crate::store::number::parse_i64;

pub(super) fn llen(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let len = keys.list(args.key(1))?.map_or(0, List::len);
    cx.reply.int(len as i64);
    Ok(())
}

pub(super) fn lindex(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let item = match keys.list(args.key(1))? {
        Some(list) => place(parse_int(args.at(2))?, list.len()).and_then(|at| list.get(at)),
        None => None,
    };
    match item {
        Some(item) => cx.reply.bulk(item),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn lset(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let len = owned.keys().list(key)?.ok_or(CommandError::NoSuchKey)?.len();
    let index =
        place(parse_int(args.at(2))?, len).ok_or(CommandError::Static("ERR index out of range"))?;
    owned.apply(Op::ListSet { key, index, value: args.at(3) });
    cx.reply.ok();
    Ok(())
}

pub(super) fn linsert(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let behind = if args.is(2, "AFTER") {
        1
    } else if args.is(2, "BEFORE") {
        0
    } else {
        return Err(CommandError::Syntax);
    };
    let (key, pivot) = (args.key(1), args.at(3));
    let Some(list) = owned.keys().list(key)? else {
        cx.reply.int(0);
        return Ok(());
    };
    let Some(at) = list.iter().position(|item| item == pivot) else {
        cx.reply.int(-1);
        return Ok(());
    };
    let len = owned.apply(Op::ListInsert { key, index: at + behind, value: args.at(4) });
    cx.reply.int(len as i64);
    Ok(())
}

pub(super) fn lrange(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let (start, stop) = (parse_int(args.at(2))?, parse_int(args.at(3))?);
    let Some(list) = keys.list(args.key(1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    let (start, count) = range(start, stop, list.len());
    cx.reply.array(count);
    list.iter_from(start).take(count).for_each(|item| cx.reply.bulk(item));
    Ok(())
}

pub(super) fn ltrim(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let (start, stop) = (parse_int(args.at(2))?, parse_int(args.at(3))?);
    let key = args.key(1);
    if let Some(list) = owned.keys().list(key)? {
        let len = list.len();
        let (start, kept) = range(start, stop, len);
        let behind = len - start - kept;
        if kept == 0 {
            owned.apply(Op::Delete { key });
        } else {
            if behind > 0 {
                owned.apply(Op::ListPop { key, end: End::Back, count: behind });
            }
            if start > 0 {
                owned.apply(Op::ListPop { key, end: End::Front, count: start });
            }
        }
    }
    cx.reply.ok();
    Ok(())
}

pub(super) fn lrem(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let asked = parse_int(args.at(2))?;
    let (key, value) = (args.key(1), args.at(3));
    let is_there = owned.keys().list(key)?.is_some_and(|l| l.iter().any(|item| item == value));
    if !is_there {
        cx.reply.int(0);
        return Ok(());
    }
    let from = if asked < 0 { End::Back } else { End::Front };
    let count = match asked.unsigned_abs() {
        0 => usize::MAX,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let removed = owned.apply(Op::ListRemoveEqual { key, from, value, count });
    cx.reply.int(removed as i64);
    Ok(())
}

/// LPOS's options.
struct Search {
    from: End,
    /// Matches passed over first.
    skip: u64,
    /// `None`: one, not in an array. 0 = all.
    count: Option<u64>,
    /// Items looked at. 0 = all.
    most: u64,
}

impl Search {
    fn parse(args: &Args<'_>) -> Result<Search, CommandError> {
        let mut search = Search { from: End::Front, skip: 0, count: None, most: 0 };
        let mut word = 3;
        while word < args.len() {
            let value = args.opt(word + 1).ok_or(CommandError::Syntax)?;
            if args.is(word, "RANK") {
                let rank = parse_rank(value)?;
                search.from = if rank < 0 { End::Back } else { End::Front };
                search.skip = rank.unsigned_abs() - 1;
            } else if args.is(word, "COUNT") {
                search.count = Some(parse_positive(value, "ERR COUNT can't be negative")?);
            } else if args.is(word, "MAXLEN") {
                search.most = parse_positive(value, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(CommandError::Syntax);
            }
            word += 2;
        }
        Ok(search)
    }

    /// Indexes of the matches, in the order of the search.
    fn matches<'a>(&self, list: &'a List, wanted: &'a [u8]) -> impl Iterator<Item = i64> + 'a {
        let most = if self.most == 0 { usize::MAX } else { as_size(self.most) };
        let count = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => as_size(count),
        };
        let (ahead, back) = match self.from {
            End::Front => (Some(list.iter()), None),
            End::Back => (None, Some(list.iter_rev_from(list.len() - 1))),
        };
        let last = list.len() - 1;
        let ahead = ahead.into_iter().flatten().enumerate();
        let back = back.into_iter().flatten().enumerate().map(move |(at, item)| (last - at, item));
        ahead
            .chain(back)
            .take(most)
            .filter(move |(_, item)| *item == wanted)
            .map(|(at, _)| at as i64)
            .skip(as_size(self.skip))
            .take(count)
    }
}

pub(super) fn lpos(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let search = Search::parse(args)?;
    let list = keys.list(args.key(1))?;
    let mut matches = list.into_iter().flat_map(|list| search.matches(list, args.at(2)));
    if search.count.is_none() {
        match matches.next() {
            Some(at) => cx.reply.int(at),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    let mark = cx.reply.array_deferred();
    let mut found = 0;
    for at in matches {
        cx.reply.int(at);
        found += 1;
    }
    cx.reply.set_array_len(mark, found);
    Ok(())
}

fn parse_rank(word: &[u8]) -> Result<i64, CommandError> {
    match parse_int(word)? {
        0 => Err(CommandError::Static(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        )),
        i64::MIN => Err(CommandError::Static(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        )),
        rank => Ok(rank),
    }
}

fn parse_int(word: &[u8]) -> Result<i64, CommandError> {
    parse_i64(word).ok_or(CommandError::NotInteger)
}

fn parse_positive(word: &[u8], error: &'static str) -> Result<u64, CommandError> {
    let value = parse_i64(word).and_then(|value| u64::try_from(value).ok());
    value.ok_or(CommandError::Static(error))
}

fn as_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Where index `index` (negative: from the end) lies among `len` items.
fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { len as i64 + index } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// The items `start..=stop` (negative: from the end) of `len`: the first and how many.
fn range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let start = if start < 0 { (len + start).max(0) } else { start };
    let stop = if stop < 0 { len + stop } else { stop.min(len - 1) };
    if start > stop || start >= len {
        return (0, 0);
    }
    (start as usize, (stop - start + 1) as usize)
}
