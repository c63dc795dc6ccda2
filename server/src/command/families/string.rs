//! Strings: GET, SET and their kin. (The lead's first two, to be completed.)

use crate::command::flag::{DENYOOM, FAST};
use crate::command::{Args, Command, Cx, Group, Handler, KeySpec, Outcome};
use crate::slot::{Keys, Op, Owned};
use crate::store::table::Expiry;

/// All string commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "get",
        arity: 2,
        handler: Handler::Read(get),
        keys: KeySpec::ONE,
        flags: FAST,
        group: Group::String,
        since: "1.0.0",
        summary: "Returns the string value of a key.",
        ..Command::BASE
    },
    Command {
        name: "set",
        arity: -3,
        handler: Handler::Write(set),
        keys: KeySpec::ONE,
        flags: DENYOOM,
        group: Group::String,
        since: "1.0.0",
        summary: "Sets the string value of a key, ignoring its type.",
        ..Command::BASE
    },
];

fn get(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    match keys.string(args.key(1))? {
        Some(value) => value.write_bulk(&mut cx.reply),
        None => cx.reply.null(),
    }
    Ok(())
}

fn set(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    owned.apply(Op::SetString { key, value: args.at(2), expiry: Expiry::Never });
    cx.reply.ok();
    Ok(())
}
