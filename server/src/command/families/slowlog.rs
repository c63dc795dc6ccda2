//! SLOWLOG: the commands that took long. They are noted by the session (`command::state`).

use crate::command::families::help;
use crate::command::flag::{ADMIN, LOADING, STALE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome};
use crate::store::number::parse_i64;

/// SLOWLOG.
pub const COMMANDS: &[Command] = &[Command {
    name: "slowlog",
    arity: -2,
    handler: Handler::Container,
    group: Group::Server,
    since: "2.2.12",
    summary: "A container for slow log commands.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..Command::BASE
}];

const SUB: Command = Command {
    flags: ADMIN | LOADING | STALE,
    group: Group::Server,
    since: "2.2.12",
    ..Command::BASE
};

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "get",
        arity: -2,
        handler: Handler::Node(get),
        summary: "Returns the slow log's entries.",
        complexity: "O(N) where N is the number of entries returned",
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        flags: LOADING | STALE,
        since: "6.2.0",
        summary: "Show helpful text about the different subcommands",
        ..SUB
    },
    Command {
        name: "len",
        arity: 2,
        handler: Handler::Node(len),
        summary: "Returns the number of entries in the slow log.",
        ..SUB
    },
    Command {
        name: "reset",
        arity: 2,
        handler: Handler::Node(reset),
        summary: "Clears all entries from the slow log.",
        complexity: "O(N) where N is the number of entries in the slowlog",
        ..SUB
    },
];

/// Entries SLOWLOG GET gives when no number is asked for.
const DEFAULT_COUNT: usize = 10;

fn get(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let count = match args.len() {
        2 => DEFAULT_COUNT,
        3 => match parse_i64(args.at(2)) {
            Some(-1) => usize::MAX,
            Some(n @ 0..) => n as usize,
            _ => {
                let text = "ERR count should be greater than or equal to -1";
                return Err(CommandError::Static(text));
            }
        },
        _ => return Err(CommandError::arity("slowlog|get")),
    };
    let entries = cx.node.slow_log.newest(count);
    let reply = &mut cx.reply;
    reply.array(entries.len());
    for entry in &entries {
        reply.array(6);
        reply.int(entry.id as i64);
        reply.int(entry.at_s as i64);
        reply.int(entry.micros as i64);
        reply.array(entry.args.len());
        entry.args.iter().for_each(|word| reply.bulk(word));
        reply.bulk(entry.client.0.as_bytes());
        reply.bulk(&entry.client.1);
    }
    Ok(())
}

fn len(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.int(cx.node.slow_log.len() as i64);
    Ok(())
}

fn reset(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.node.slow_log.clear();
    cx.reply.ok();
    Ok(())
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "SLOWLOG", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "GET [<count>]",
    "    The newest entries: 10, or as many as asked for; -1 = all. Each has its id, unix time,",
    "    microseconds, words, and the client's address and name.",
    "LEN",
    "    How many entries there are.",
    "RESET",
    "    Drop them.",
];

#[cfg(test)]
mod tests {
    use crate::testing::{TestNode, play_file};

    #[test]
    fn slow_commands_are_noted_shortened_and_without_secrets() {
        let options = ["--slowlog-log-slower-than", "100000", "--enable-debug-command", "yes"];
        play_file(&mut TestNode::new(&options), "slowlog.txt");
    }
}
