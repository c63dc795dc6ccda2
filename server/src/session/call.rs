//! The call of a handler: which subcommand, with which context, in which room.
//!
//! Not the checks before it nor what becomes of the reply (`run`). Invariant: a handler gets what
//! its type says, a reader keys alone.

use crate::command::{
    Args, Command, CommandError, CommandId, Cx, Flow, Handler, NodeState, Now, registry,
};
use crate::resp::Reply;
use crate::session::{Session, Worker};
use crate::slot::Owned;

/// The subcommand behind a container, with arity checked.
pub(super) fn resolve(
    id: CommandId,
    args: &Args<'_>,
) -> Result<(CommandId, &'static Command), CommandError> {
    let entry = registry().entry(id);
    if entry.subcommands.is_empty() || args.len() < 2 {
        if !entry.command.arity_ok(args.len()) {
            return Err(CommandError::arity(&entry.full_name));
        }
        if args.len() < 2 || entry.subcommands.is_empty() {
            return Ok((id, entry.command));
        }
    }
    let Some(sub) = registry().find_sub(id, args.at(1)) else {
        let shown = String::from_utf8_lossy(&args.at(1)[..args.at(1).len().min(128)]).into_owned();
        return Err(CommandError::err(format_args!(
            "unknown subcommand '{}'. Try {} HELP.",
            shown,
            entry.command.name.to_ascii_uppercase()
        )));
    };
    let entry = registry().entry(sub);
    if !entry.command.arity_ok(args.len()) {
        return Err(CommandError::arity(&entry.full_name));
    }
    Ok((sub, entry.command))
}

/// Calls a one-slot handler.
#[inline]
pub(super) fn call(
    command: &Command,
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
) -> Result<Flow, CommandError> {
    match command.handler {
        Handler::Read(f) => f(owned.keys(), args, cx).map(|()| Flow::Done),
        Handler::Write(f) => f(owned, args, cx).map(|()| Flow::Done),
        Handler::Block(f) => f(owned, args, cx),
        _ => Err(CommandError::Static("ERR the command has no slot")),
    }
}

/// Calls a one-slot handler whose words name no valid number of keys, before an empty room.
pub(super) fn call_keyless(
    command: &Command,
    args: &Args<'_>,
    node: &NodeState,
    cx: &mut Cx<'_>,
) -> Result<Flow, CommandError> {
    let mut nowhere = node.rooms.nowhere(cx.now.unix_ms);
    match call(command, &mut nowhere, args, cx) {
        Ok(Flow::Block(_)) => Err(CommandError::Syntax),
        result => result,
    }
}

#[inline]
pub(super) fn cx<'a>(
    worker: &'a mut Worker,
    session: &Session,
    node: &'a NodeState,
    now: Now,
) -> Cx<'a> {
    Cx {
        reply: Reply::new(&mut worker.out, session.client.proto),
        now,
        rng: &mut worker.rng,
        live: node.config.live(),
        serving: false,
        ready: None,
    }
}
