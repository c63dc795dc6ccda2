//! ZRANDMEMBER. Not a stream: the whole reply is built, so its size is bounded here.
//! Invariant: without repeats, every subset of the asked size has the same chance.

use std::collections::HashSet;

use crate::command::families::zset::show::Show;
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::Keys;
use crate::store::number::parse_i64;
use crate::store::zset::SortedSet;

/// Members of a reply with repeats: what a client may ask of a small set is bounded, since the
/// set's own size does not bound it. 16 Mi short members are some 200 MB.
const REPEATED_MAX_MEMBERS: u64 = 16 * 1024 * 1024;

/// Bytes of a reply with repeats, for sets of long members.
const REPEATED_MAX_BYTES: usize = 512 * 1024 * 1024;

/// Sets up to this size are laid out before drawing with repeats: then each draw is one step
/// whatever the form.
const LAID_OUT_MAX_MEMBERS: usize = 512;

pub(super) fn zrandmember(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if args.len() == 2 {
        match keys.zset(args.key(1))?.and_then(|zset| zset.random(&mut || cx.rng.next_u64())) {
            Some((member, _)) => cx.reply.bulk(member),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    let count = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    if count == i64::MIN {
        return Err(CommandError::err(format_args!(
            "value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        )));
    }
    let show = match args.len() {
        3 => Show::Members,
        4 if args.is(3, "withscores") => Show::Scores,
        _ => return Err(CommandError::Syntax),
    };
    if show == Show::Scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::Static("ERR value is out of range"));
    }
    let Some(zset) = keys.zset(args.key(1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    if count < 0 {
        repeated(zset, count.unsigned_abs(), show, cx)
    } else {
        distinct(zset, usize::try_from(count).unwrap_or(usize::MAX), show, cx);
        Ok(())
    }
}

fn repeated(zset: &SortedSet, count: u64, show: Show, cx: &mut Cx<'_>) -> Outcome {
    if count > REPEATED_MAX_MEMBERS {
        return Err(CommandError::err(format_args!(
            "value is out of range, at most {REPEATED_MAX_MEMBERS} repeated members can be asked \
             for"
        )));
    }
    let laid_out: Vec<(&[u8], f64)> = if zset.len() <= LAID_OUT_MAX_MEMBERS && count > 1 {
        zset.iter().collect()
    } else {
        Vec::new()
    };
    let end = cx.reply.out.len() + REPEATED_MAX_BYTES;
    show.header(&mut cx.reply, count as usize);
    for _ in 0..count {
        let rank = cx.rng.below(zset.len());
        let drawn = laid_out.get(rank).copied().or_else(|| zset.iter_from(rank).next());
        let Some((member, score)) = drawn else { unreachable!("a rank inside the set") };
        show.entry(&mut cx.reply, member, score);
        if cx.reply.out.len() > end {
            return Err(CommandError::err(format_args!(
                "value is out of range, the reply would exceed {REPEATED_MAX_BYTES} bytes"
            )));
        }
    }
    Ok(())
}

fn distinct(zset: &SortedSet, count: usize, show: Show, cx: &mut Cx<'_>) {
    let count = count.min(zset.len());
    show.header(&mut cx.reply, count);
    if count == zset.len() {
        zset.iter().for_each(|(member, score)| show.entry(&mut cx.reply, member, score));
        return;
    }
    // Floyd's sampling: as many draws as members, no matter how many are asked for.
    let mut ranks = HashSet::with_capacity(count);
    for top in zset.len() - count..zset.len() {
        let rank = cx.rng.below(top + 1);
        if !ranks.insert(rank) {
            ranks.insert(top);
        }
    }
    // Rising ranks, so that neither the order of drawing nor of hashing shows.
    let mut ranks: Vec<usize> = ranks.into_iter().collect();
    ranks.sort_unstable();
    let mut left = zset.iter();
    let mut at = 0;
    for rank in ranks {
        /// Steps that cost less than a descent to a rank.
        const STEPS: usize = 64;
        if rank - at > STEPS {
            left = zset.iter_from(rank);
        } else {
            left.by_ref().take(rank - at).for_each(drop);
        }
        at = rank + 1;
        if let Some((member, score)) = left.next() {
            show.entry(&mut cx.reply, member, score);
        }
    }
}
