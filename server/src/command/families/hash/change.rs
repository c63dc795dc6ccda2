//! Hash commands that change fields.

use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Op, Owned};
use crate::store::decimal::Decimal;
use crate::store::number::parse_i64;

pub(super) fn hset(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let new = set_pairs(owned, args, "hset")?;
    cx.reply.int(new as i64);
    Ok(())
}

pub(super) fn hmset(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    set_pairs(owned, args, "hmset")?;
    cx.reply.ok();
    Ok(())
}

/// Sets all pairs of the request; how many fields were new.
fn set_pairs(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    name: &'static str,
) -> Result<usize, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::arity(name));
    }
    let key = args.key(1);
    owned.keys().hash(key)?;
    let pairs = args.slice(2, args.len());
    Ok(owned.apply(Op::HashSet { key, pairs: &pairs }))
}

pub(super) fn hsetnx(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let (field, value) = (args.at(2), args.at(3));
    let exists = owned.keys().hash(key)?.is_some_and(|h| h.get(field).is_some());
    if !exists {
        owned.apply(Op::HashSet { key, pairs: &[field, value] });
    }
    cx.reply.int((!exists).into());
    Ok(())
}

pub(super) fn hdel(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let hash = owned.keys().hash(key)?;
    let any = hash.is_some_and(|h| args.from(2).any(|field| h.get(field).is_some()));
    let mut gone = 0;
    if any {
        let fields = args.slice(2, args.len());
        gone = owned.apply(Op::HashDelete { key, fields: &fields });
    }
    cx.reply.int(gone as i64);
    Ok(())
}

pub(super) fn hincrby(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let by = parse_i64(args.at(3)).ok_or(CommandError::NotInteger)?;
    let key = args.key(1);
    let field = args.at(2);
    let old = match owned.keys().hash(key)?.and_then(|h| h.get(field)) {
        None => 0,
        Some(text) => {
            parse_i64(text).ok_or(CommandError::Static("ERR hash value is not an integer"))?
        }
    };
    let new = old
        .checked_add(by)
        .ok_or(CommandError::Static("ERR increment or decrement would overflow"))?;
    let mut digits = itoa::Buffer::new();
    owned.apply(Op::HashSet { key, pairs: &[field, digits.format(new).as_bytes()] });
    cx.reply.int(new);
    Ok(())
}

pub(super) fn hincrbyfloat(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let by = Decimal::parse(args.at(3)).ok_or(CommandError::NotFloat)?;
    if by.is_infinite() {
        return Err(CommandError::Static("ERR value is NaN or Infinity"));
    }
    let key = args.key(1);
    let field = args.at(2);
    let old = match owned.keys().hash(key)?.and_then(|h| h.get(field)) {
        None => Decimal::ZERO,
        Some(text) => {
            Decimal::parse(text).ok_or(CommandError::Static("ERR hash value is not a float"))?
        }
    };
    let new =
        old.add(&by).ok_or(CommandError::Static("ERR increment would produce NaN or Infinity"))?;
    owned.apply(Op::HashSet { key, pairs: &[field, &new] });
    cx.reply.bulk(&new);
    Ok(())
}
