//! COMMAND: the command table as clients ask for it. Everything is read from the declarations;
//! how one is described is in `describe`, how its keys are used in `key_use`.

mod describe;
mod key_use;

pub(in crate::command) use describe::flags;

use crate::command::families::help;
use crate::command::flag::{LOADING, STALE};
use crate::command::{
    Args, Command, CommandError, CommandId, Group, Handler, KeySpec, NodeCx, Outcome, OwnedArgs,
    registry,
};
use crate::store::glob;

/// COMMAND.
pub const COMMANDS: &[Command] = &[Command {
    name: "command",
    arity: -1,
    handler: Handler::Node(all),
    flags: LOADING | STALE,
    group: Group::Server,
    since: "2.8.13",
    summary: "Returns detailed information about all commands.",
    complexity: "O(N) where N is the total number of Redis commands",
    subcommands: SUBCOMMANDS,
    ..Command::BASE
}];

const SUB: Command = Command {
    flags: LOADING | STALE,
    group: Group::Server,
    since: "2.8.13",
    complexity: "O(N) where N is the number of arguments to the command",
    ..Command::BASE
};

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "count",
        arity: 2,
        handler: Handler::Node(count),
        summary: "Returns a count of commands.",
        complexity: "O(1)",
        ..SUB
    },
    Command {
        name: "docs",
        arity: -2,
        handler: Handler::Node(docs),
        since: "7.0.0",
        summary: "Returns documentary information about one, multiple or all commands.",
        complexity: "O(N) where N is the number of commands to look up",
        ..SUB
    },
    Command {
        name: "getkeys",
        arity: -3,
        handler: Handler::Node(getkeys),
        summary: "Extracts the key names from an arbitrary command.",
        ..SUB
    },
    Command {
        name: "getkeysandflags",
        arity: -3,
        handler: Handler::Node(getkeysandflags),
        since: "7.0.0",
        summary: "Extracts the key names and access flags for an arbitrary command.",
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        since: "5.0.0",
        summary: "Returns helpful text about the different subcommands.",
        complexity: "O(1)",
        ..SUB
    },
    Command {
        name: "info",
        arity: -2,
        handler: Handler::Node(info),
        summary: "Returns information about one, multiple or all commands.",
        complexity: "O(N) where N is the number of commands to look up",
        ..SUB
    },
    Command {
        name: "list",
        arity: -2,
        handler: Handler::Node(list),
        since: "7.0.0",
        summary: "Returns a list of command names.",
        complexity: "O(N) where N is the total number of Redis commands",
        ..SUB
    },
];

fn all(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.array(registry().commands().count());
    for (id, _) in registry().commands() {
        describe::info(&mut cx.reply, id);
    }
    Ok(())
}

fn count(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.int(registry().commands().count() as i64);
    Ok(())
}

fn info(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    if args.len() == 2 {
        return all(cx, args);
    }
    cx.reply.array(args.len() - 2);
    for name in args.from(2) {
        match registry().find_full(name) {
            Some(id) => describe::info(&mut cx.reply, id),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn docs(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let ids: Vec<CommandId> = match args.len() {
        2 => registry().commands().map(|(id, _)| id).collect(),
        _ => args.from(2).filter_map(|name| registry().find_full(name)).collect(),
    };
    cx.reply.map(ids.len());
    for id in ids {
        cx.reply.bulk(registry().entry(id).full_name.as_bytes());
        describe::docs(&mut cx.reply, id);
    }
    Ok(())
}

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
fn list(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let keep: Box<dyn Fn(CommandId) -> bool + '_> = match args.len() {
        2 => Box::new(|_| true),
        5 if args.is(2, "FILTERBY") => {
            let wanted = args.at(4);
            if args.is(3, "MODULE") {
                // There are no modules, so none has this name.
                Box::new(|_| false)
            } else if args.is(3, "ACLCAT") {
                Box::new(move |id| {
                    let mut has = describe::categories(id).into_iter();
                    has.any(|category| wanted.eq_ignore_ascii_case(category.as_bytes()))
                })
            } else if args.is(3, "PATTERN") {
                Box::new(move |id| {
                    glob::matches(wanted, registry().entry(id).full_name.as_bytes(), true)
                })
            } else {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    let names: Vec<&str> = registry()
        .all()
        .filter(|(id, _)| keep(*id))
        .map(|(_, entry)| entry.full_name.as_str())
        .collect();
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name.as_bytes()));
    Ok(())
}

/// The command in the words from 2 on, with those words.
fn command_in(args: &Args<'_>) -> Result<(CommandId, OwnedArgs), CommandError> {
    let invalid = CommandError::Static("ERR Invalid command specified");
    let words: OwnedArgs = args.from(2).collect();
    let mut id = registry().find(args.at(2)).ok_or(invalid.clone())?;
    if !registry().entry(id).subcommands.is_empty()
        && let Some(word) = args.opt(3)
    {
        id = registry().find_sub(id, word).ok_or(invalid)?;
    }
    let command = registry().entry(id).command;
    if matches!(command.keys, KeySpec::None) {
        return Err(CommandError::Static("ERR The command has no key arguments"));
    }
    if !command.arity_ok(words.args().len()) {
        let text = "ERR Invalid number of arguments specified for command";
        return Err(CommandError::Static(text));
    }
    Ok((id, words))
}

fn getkeys(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    write_keys(cx, args, false)
}

fn getkeysandflags(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    write_keys(cx, args, true)
}

fn write_keys(cx: &mut NodeCx<'_>, args: &Args<'_>, with_flags: bool) -> Outcome {
    let (id, words) = command_in(args)?;
    let entry = registry().entry(id);
    let words = words.args();
    let Some(keys) = entry.command.keys.find(&words) else {
        return Err(CommandError::Static("ERR Invalid arguments specified for command"));
    };
    let uses = key_use::of(&entry.full_name, entry.command, Some(&words));
    cx.reply.array(keys.len());
    for (i, key) in keys.iter().enumerate() {
        if with_flags {
            cx.reply.array(2);
        }
        cx.reply.bulk(words.at(*key));
        if with_flags {
            describe::words(&mut cx.reply, uses.of_key(i).split(' '));
        }
    }
    Ok(())
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "COMMAND", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "(no subcommand)",
    "    All commands: arity, flags, key positions, ACL categories.",
    "COUNT",
    "    How many commands there are.",
    "DOCS [<command> ...]",
    "    What commands are for.",
    "GETKEYS <full-command>",
    "    The keys among the words of a command.",
    "GETKEYSANDFLAGS <full-command>",
    "    The same, with what the command does to each key.",
    "INFO [<command> ...]",
    "    As COMMAND, for these commands.",
    "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
    "    Names of commands.",
];

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn the_table_describes_a_command() {
        run_script("command_cmd/command.info.txt");
    }

    #[test]
    fn keys_are_found_among_the_words() {
        run_script("command_cmd/command.getkeys.txt");
    }
}
