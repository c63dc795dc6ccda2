//! HRANDFIELD.

use crate::command::families::draw::{check_repeated, distinct, repeated};
use crate::command::families::number::parse_signed_count;
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::resp::{Proto, Reply};
use crate::slot::Keys;
use crate::store::hash::Hash;

pub(super) fn hrandfield(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if args.len() == 2 {
        let hash = keys.hash(args.key(1))?;
        match hash.and_then(|h| h.random(&mut || cx.rng.next_u64())) {
            Some((field, _)) => cx.reply.bulk(field),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    let count = parse_signed_count(args.at(2))?;
    let form = match args.len() {
        3 => Form::Fields,
        4 if args.is(3, "withvalues") => Form::of_pairs(cx.reply.proto),
        _ => return Err(CommandError::Syntax),
    };
    // A reply's length is a signed 64-bit number, so pairs cannot be counted beyond half of it.
    if form != Form::Fields && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::Static("ERR value is out of range"));
    }
    match keys.hash(args.key(1))? {
        None => cx.reply.array(0),
        Some(hash) => draw(hash, count, form, cx)?,
    }
    Ok(())
}

/// What is written of a drawn field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The field only.
    Fields,
    /// Field and value in turn.
    FlatPairs,
    /// An array of field and value.
    NestedPairs,
}

impl Form {
    fn of_pairs(proto: Proto) -> Form {
        match proto {
            Proto::Resp2 => Form::FlatPairs,
            Proto::Resp3 => Form::NestedPairs,
        }
    }

    fn reply_len(self, fields: usize) -> usize {
        if self == Form::FlatPairs { 2 * fields } else { fields }
    }

    fn write(self, reply: &mut Reply<'_>, (field, value): (&[u8], &[u8])) {
        if self == Form::NestedPairs {
            reply.array(2);
        }
        reply.bulk(field);
        if self != Form::Fields {
            reply.bulk(value);
        }
    }
}

fn draw(hash: &Hash, count: i64, form: Form, cx: &mut Cx<'_>) -> Outcome {
    let fields = count.unsigned_abs();
    if count >= 0 {
        let fields = usize::try_from(fields).map_or(hash.len(), |n| n.min(hash.len()));
        cx.reply.array(form.reply_len(fields));
        let reply = &mut cx.reply;
        distinct(hash, fields, cx.rng, |pair| form.write(reply, pair));
        return Ok(());
    }
    let bulks = if form == Form::Fields { fields } else { 2 * fields };
    check_repeated(bulks)?;
    cx.reply.array(form.reply_len(fields as usize));
    repeated(hash, fields, cx.rng, &mut cx.reply, |reply, pair| form.write(reply, pair))
}
