//! Parts of strings: APPEND, STRLEN, GETRANGE, SETRANGE.
//!
//! Invariant: no string grows beyond `proto-max-bulk-len`.

use std::ops::Range;

use crate::command::{Args, CommandError, Cx, Outcome};
use crate::config::Live;
use crate::slot::{Keys, Op, Owned};
use crate::store::number::parse_i64;
use crate::store::table::Expiry;

/// Refuses a string of `offset` + `more` bytes if that is too long.
fn check_length(live: &Live, offset: usize, more: usize) -> Outcome {
    let len = offset.checked_add(more);
    if len.is_some_and(|len| len as u64 <= live.proto_max_bulk_len.load()) {
        return Ok(());
    }
    Err(CommandError::Static("ERR string exceeds maximum allowed size (proto-max-bulk-len)"))
}

/// The part from `start` to `end`, both included and counted from the end when negative, of
/// something with `len` elements. Empty when there is nothing in it.
pub(in crate::command::families) fn clamp(start: i64, end: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_start = |at: i64| if at < 0 { (len + at).max(0) } else { at };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    if start > end {
        return 0..0;
    }
    start as usize..end as usize + 1
}

/// STRLEN key
pub(super) fn strlen(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let len = keys.string(args.key(1))?.map_or(0, |value| value.len());
    cx.reply.int(len as i64);
    Ok(())
}

/// GETRANGE key start end
pub(super) fn getrange(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let start = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    let end = parse_i64(args.at(3)).ok_or(CommandError::NotInteger)?;
    match keys.string(args.key(1))? {
        None => cx.reply.bulk(b""),
        Some(value) => {
            let part = clamp(start, end, value.len());
            cx.reply.bulk_parts(part.len(), value.pieces(part));
        }
    }
    Ok(())
}

/// APPEND key value
pub(super) fn append(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let (key, bytes) = (args.key(1), args.at(2));
    let len = match owned.keys().string(key)?.map(|value| value.len()) {
        None => {
            owned.apply(Op::SetString { key, value: bytes, expiry: Expiry::Never });
            bytes.len()
        }
        Some(len) => {
            check_length(cx.live, len, bytes.len())?;
            if !bytes.is_empty() {
                owned.apply(Op::SetRange { key, offset: len, bytes });
            }
            len + bytes.len()
        }
    };
    cx.reply.int(len as i64);
    Ok(())
}

/// SETRANGE key offset value
pub(super) fn setrange(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let offset = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    let offset =
        usize::try_from(offset).map_err(|_| CommandError::Static("ERR offset is out of range"))?;
    let (key, bytes) = (args.key(1), args.at(3));
    let mut len = owned.keys().string(key)?.map_or(0, |value| value.len());
    if !bytes.is_empty() {
        check_length(cx.live, offset, bytes.len())?;
        len = owned.apply(Op::SetRange { key, offset, bytes });
    }
    cx.reply.int(len as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_string() {
        assert_eq!(clamp(0, -1, 5), 0..5);
        assert_eq!(clamp(0, 0, 5), 0..1);
        assert_eq!(clamp(-3, -2, 5), 2..4);
        assert_eq!(clamp(-100, 100, 5), 0..5);
        assert_eq!(clamp(3, 1, 5), 0..0);
        assert_eq!(clamp(-1, -2, 5), 0..0);
        assert_eq!(clamp(5, 9, 5), 0..0);
        assert_eq!(clamp(0, -1, 0), 0..0);
        assert_eq!(clamp(i64::MIN, i64::MAX, 5), 0..5);
        assert_eq!(clamp(i64::MIN, i64::MIN, 5), 0..1);
    }
}
