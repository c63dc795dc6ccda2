//! CONFIG: the options of a node as commands. What an option is, is in `config`.
//!
//! Invariant: CONFIG SET changes all of its options or none, and what follows from them on this
//! node (collection limits, maxmemory) is in force before it answers.

use crate::command::families::help;
use crate::command::flag::{ADMIN, LOADING, LONG, NOSCRIPT, STALE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome};

/// CONFIG.
pub const COMMANDS: &[Command] = &[Command {
    name: "config",
    arity: -2,
    handler: Handler::Container,
    group: Group::Server,
    since: "2.0.0",
    summary: "A container for server configuration commands.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..Command::BASE
}];

const SUB: Command = Command {
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    group: Group::Server,
    since: "2.0.0",
    ..Command::BASE
};

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "get",
        arity: -3,
        handler: Handler::Node(get),
        summary: "Returns the effective values of configuration parameters.",
        complexity: "O(N) when N is the number of configuration parameters provided",
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        flags: LOADING | STALE,
        since: "5.0.0",
        summary: "Returns helpful text about the different subcommands.",
        ..SUB
    },
    Command {
        name: "resetstat",
        arity: 2,
        handler: Handler::Node(resetstat),
        summary: "Resets the server's statistics.",
        ..SUB
    },
    Command {
        name: "rewrite",
        arity: 2,
        handler: Handler::Node(rewrite),
        since: "2.8.0",
        summary: "Persists the effective configuration to file.",
        ..SUB
    },
    Command {
        name: "set",
        arity: -4,
        handler: Handler::Node(set),
        // Switching the log on makes files.
        flags: ADMIN | NOSCRIPT | LOADING | STALE | LONG,
        summary: "Sets configuration parameters in-flight.",
        complexity: "O(N) when N is the number of configuration parameters provided",
        ..SUB
    },
];

fn get(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let patterns: Vec<_> = args.from(2).map(String::from_utf8_lossy).collect();
    let patterns: Vec<&str> = patterns.iter().map(|p| p.as_ref()).collect();
    let found = cx.node.config.get_all(&patterns);
    cx.reply.map(found.len());
    for (name, value) in &found {
        cx.reply.bulk(name.as_bytes());
        cx.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn set(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::arity("config|set"));
    }
    let words: Vec<&[u8]> = args.from(2).collect();
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|p| (p[0], p[1])).collect();
    cx.node.config.set(&pairs).map_err(CommandError::Text)?;
    cx.node.sync_limits();
    cx.node.check_memory();
    cx.reply.ok();
    Ok(())
}

fn resetstat(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.node.reset_stats();
    cx.reply.ok();
    Ok(())
}

fn rewrite(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    rewrite_file(cx, false)
}

/// Rewrites the configuration file, or without one what is kept in the data directory; `all`: with
/// every option named (DEBUG).
pub(super) fn rewrite_file(cx: &mut NodeCx<'_>, all: bool) -> Outcome {
    let config = &cx.node.config;
    let (path, is_kept) = match &cx.node.config_file {
        Some(path) => (path.clone(), false),
        None if all => {
            return Err(CommandError::Static("ERR The server is running without a config file"));
        }
        None => (config.kept_file().display().to_string(), true),
    };
    let failed = |error| CommandError::err(format_args!("Rewriting config file: {error}"));
    let old = match cx.node.edges.read_file(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let new = match (is_kept, all) {
        (true, _) => config.rewrite_kept(&old),
        (false, true) => config.rewrite_all(&old),
        (false, false) => config.rewrite(&old),
    };
    cx.node.edges.write_file(&path, &new).map_err(failed)?;
    cx.reply.ok();
    Ok(())
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "CONFIG", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "GET <pattern> [<pattern> ...]",
    "    Options that match a pattern, and their values.",
    "SET <option> <value> [<option> <value> ...]",
    "    Change options: all of them, or none.",
    "RESETSTAT",
    "    Set the counters of INFO back to 0.",
    "REWRITE",
    "    Write the options into the configuration file; without one, into DIR/slotd.conf.",
];

#[cfg(test)]
mod tests {
    use crate::testing::{TestNode, play_file, run_script};

    #[test]
    fn options_are_told_and_changed_together_or_not_at_all() {
        run_script("config_cmd.txt");
    }

    #[test]
    fn a_node_with_a_file_rewrites_it() {
        let path = std::env::temp_dir().join(format!("slotd-rewrite-{}.conf", std::process::id()));
        std::fs::write(&path, "# mine\nmaxmemory 1mb\n").expect("the folder is writable");
        let text = path.display().to_string();
        let mut node = TestNode::new(&[&text]);
        play_file(&mut node, "config_cmd.rewrite.txt");
        std::fs::remove_file(&path).expect("it was there");
        let written = node.node.edges.read_file(&text).expect("it was written");
        assert_eq!(written, "# mine\nmaxmemory 2mb\n");
    }

    #[test]
    fn a_node_without_a_file_keeps_what_can_change_in_its_data_directory() {
        let options = ["--dir", "/nowhere", "--port", "7001", "--maxmemory", "1mb"];
        let mut node = TestNode::new(&options);
        play_file(&mut node, "config_cmd.rewrite.txt");
        let written = node.node.edges.read_file("/nowhere/slotd.conf").expect("it was written");
        assert_eq!(written, "# Generated by CONFIG REWRITE\nmaxmemory 2mb\n");
    }
}
