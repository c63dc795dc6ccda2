//! PING, ECHO and the like: an example family; the others follow its form.

use crate::command::flag::{FAST, LOADING, STALE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome};

/// PING, ECHO.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "ping",
        arity: -1,
        handler: Handler::Node(ping),
        flags: FAST,
        group: Group::Connection,
        since: "1.0.0",
        summary: "Returns the server's liveliness response.",
        ..Command::BASE
    },
    Command {
        name: "echo",
        arity: 2,
        handler: Handler::Node(echo),
        flags: FAST | LOADING | STALE,
        group: Group::Connection,
        since: "1.0.0",
        summary: "Returns the given string.",
        ..Command::BASE
    },
];

fn ping(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    match args.len() {
        1 => cx.reply.simple("PONG"),
        2 => cx.reply.bulk(args.at(1)),
        _ => return Err(CommandError::arity("ping")),
    }
    Ok(())
}

fn echo(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    cx.reply.bulk(args.at(1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn ping_answers_pong_or_its_argument() {
        run_script("connection.ping.txt");
    }
}
