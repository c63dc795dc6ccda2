//! Strings as numbers: INCR and its kin.
//!
//! Invariant: a value that is no number, and a sum that does not fit, leave the key as it was.

use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Op, Owned, Str};
use crate::store::decimal::add_decimal;
use crate::store::number::parse_i64;
use crate::store::table::Expiry;

/// INCR key
pub(super) fn incr(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    add(owned, args, cx, 1)
}

/// DECR key
pub(super) fn decr(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    add(owned, args, cx, -1)
}

/// INCRBY key increment
pub(super) fn incrby(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let by = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    add(owned, args, cx, by)
}

/// DECRBY key decrement
pub(super) fn decrby(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let by = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    let by = by.checked_neg().ok_or(CommandError::Static("ERR decrement would overflow"))?;
    add(owned, args, cx, by)
}

fn add(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>, by: i64) -> Outcome {
    let key = args.key(1);
    let old = match owned.keys().string(key)? {
        None => 0,
        Some(Str::Flat(text)) => parse_i64(text).ok_or(CommandError::NotInteger)?,
        Some(Str::Blob(_)) => return Err(CommandError::NotInteger),
    };
    let overflow = CommandError::Static("ERR increment or decrement would overflow");
    let new = old.checked_add(by).ok_or(overflow)?;
    let mut digits = itoa::Buffer::new();
    let value = digits.format(new).as_bytes();
    owned.apply(Op::SetString { key, value, expiry: Expiry::Keep });
    cx.reply.int(new);
    Ok(())
}

/// INCRBYFLOAT key increment
pub(super) fn incrbyfloat(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let old = match owned.keys().string(key)? {
        None => b"0",
        Some(Str::Flat(text)) => text,
        Some(Str::Blob(_)) => return Err(CommandError::NotFloat),
    };
    let sum = add_decimal(old, args.at(2)).map_err(CommandError::err)?;
    owned.apply(Op::SetString { key, value: &sum, expiry: Expiry::Keep });
    cx.reply.bulk(&sum);
    Ok(())
}
