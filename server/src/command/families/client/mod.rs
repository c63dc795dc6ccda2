//! CLIENT: a connection about itself and about the others. What a line of CLIENT LIST says is in
//! `list`, who is killed in `kill`.

mod kill;
mod list;

use crate::command::client::client_flag;
use crate::command::families::help;
use crate::command::flag::{ADMIN, LOADING, LONG, NO_PAUSE, NOSCRIPT, STALE};
use crate::command::mailbox::letter;
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome, ReplyMode};
use crate::store::number::parse_i64;

/// CLIENT.
pub const COMMANDS: &[Command] = &[Command {
    name: "client",
    arity: -2,
    handler: Handler::Container,
    flags: NO_PAUSE,
    group: Group::Connection,
    since: "2.4.0",
    summary: "A container for client connection commands.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..Command::BASE
}];

const SUB: Command = Command {
    flags: NOSCRIPT | LOADING | STALE | NO_PAUSE,
    group: Group::Connection,
    ..Command::BASE
};

const SUB_ADMIN: Command = Command { flags: SUB.flags | ADMIN, ..SUB };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "getname",
        arity: 2,
        handler: Handler::Node(getname),
        since: "2.6.9",
        summary: "Returns the name of the connection.",
        ..SUB
    },
    Command {
        name: "getredir",
        arity: 2,
        handler: Handler::Node(getredir),
        since: "6.0.0",
        summary: "Returns the client ID to which the connection's tracking notifications are \
                  redirected.",
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        flags: LOADING | STALE | NO_PAUSE,
        since: "5.0.0",
        summary: "Returns helpful text about the different subcommands.",
        ..SUB
    },
    Command {
        name: "id",
        arity: 2,
        handler: Handler::Node(id),
        since: "5.0.0",
        summary: "Returns the unique client ID of the connection.",
        ..SUB
    },
    Command {
        name: "info",
        arity: 2,
        handler: Handler::Node(list::info),
        since: "6.2.0",
        summary: "Returns information about the connection.",
        ..SUB
    },
    Command {
        name: "kill",
        arity: -3,
        handler: Handler::Node(kill::kill),
        since: "2.4.0",
        summary: "Terminates open connections.",
        complexity: "O(N) where N is the number of client connections",
        ..SUB_ADMIN
    },
    Command {
        name: "list",
        arity: -2,
        handler: Handler::Node(list::list),
        flags: SUB_ADMIN.flags | LONG,
        since: "2.4.0",
        summary: "Lists open connections.",
        complexity: "O(N) where N is the number of client connections",
        ..SUB_ADMIN
    },
    Command {
        name: "no-evict",
        arity: 3,
        handler: Handler::Node(no_evict),
        since: "7.0.0",
        summary: "Sets the client eviction mode of the connection.",
        ..SUB_ADMIN
    },
    Command {
        name: "no-touch",
        arity: 3,
        handler: Handler::Node(no_touch),
        since: "7.2.0",
        summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed \
                  keys.",
        ..SUB
    },
    Command {
        name: "pause",
        arity: -3,
        handler: Handler::Node(pause),
        since: "3.0.0",
        summary: "Suspends commands processing.",
        ..SUB_ADMIN
    },
    Command {
        name: "reply",
        arity: 3,
        handler: Handler::Node(reply),
        since: "3.2.0",
        summary: "Instructs the server whether to reply to commands.",
        ..SUB
    },
    Command {
        name: "setinfo",
        arity: 4,
        handler: Handler::Node(setinfo),
        since: "7.2.0",
        summary: "Sets information specific to the client or connection.",
        ..SUB
    },
    Command {
        name: "setname",
        arity: 3,
        handler: Handler::Node(setname),
        since: "2.6.9",
        summary: "Sets the connection name.",
        ..SUB
    },
    Command {
        name: "trackinginfo",
        arity: 2,
        handler: Handler::Node(trackinginfo),
        since: "6.2.0",
        summary: "Returns information about server-assisted client-side caching for the \
                  connection.",
        ..SUB
    },
    Command {
        name: "unblock",
        arity: -3,
        handler: Handler::Node(unblock),
        since: "5.0.0",
        summary: "Unblocks a client blocked by a blocking command from a different connection.",
        complexity: "O(log N) where N is the number of client connections",
        ..SUB_ADMIN
    },
    Command {
        name: "unpause",
        arity: 2,
        handler: Handler::Node(unpause),
        since: "6.2.0",
        summary: "Resumes processing commands from paused clients.",
        complexity: "O(N) Where N is the number of paused clients",
        ..SUB_ADMIN
    },
];

/// Longest pause, ms: what keeps its end far from overflow.
const MAX_PAUSE_MS: i64 = i64::MAX / 2_000_000;

/// Longest name, bytes: each stands in every CLIENT LIST.
const MAX_NAME_BYTES: usize = 64 * 1024;

/// Checks a name: printable ASCII without blanks, as it stands in CLIENT LIST. `what` is named
/// in the error.
pub(super) fn check_name(what: &str, name: &[u8]) -> Outcome {
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(CommandError::err(format_args!(
            "{what} cannot contain spaces, newlines or special characters."
        )));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(CommandError::err(format_args!(
            "{what} cannot be longer than {MAX_NAME_BYTES} bytes."
        )));
    }
    Ok(())
}

fn id(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.int(cx.client.shared.id as i64);
    Ok(())
}

fn getname(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let name = cx.client.shared.names().name;
    if name.is_empty() {
        cx.reply.null();
    } else {
        cx.reply.bulk(&name);
    }
    Ok(())
}

fn setname(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    check_name("Client names", args.at(2))?;
    cx.client.shared.set_names(|names| names.name = args.at(2).to_vec());
    cx.reply.ok();
    Ok(())
}

fn setinfo(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let value = args.at(3);
    let word = if args.is(2, "LIB-NAME") {
        "lib-name"
    } else if args.is(2, "LIB-VER") {
        "lib-ver"
    } else {
        let option = String::from_utf8_lossy(args.at(2));
        return Err(CommandError::err(format_args!("Unrecognized option '{option}'")));
    };
    check_name(word, value)?;
    cx.client.shared.set_names(|names| match word {
        "lib-name" => names.lib_name = value.to_vec(),
        _ => names.lib_ver = value.to_vec(),
    });
    cx.reply.ok();
    Ok(())
}

fn reply(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let mode = &mut cx.client.reply_mode;
    if args.is(2, "ON") {
        *mode = ReplyMode::On;
        cx.reply.ok();
    } else if args.is(2, "OFF") {
        *mode = ReplyMode::Off;
    } else if args.is(2, "SKIP") {
        if *mode != ReplyMode::Off {
            *mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

fn on_or_off(args: &Args<'_>) -> Result<bool, CommandError> {
    match (args.is(2, "ON"), args.is(2, "OFF")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

/// Nothing evicts clients yet: the flag is kept and shown.
fn no_evict(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    cx.client.shared.set_flag(client_flag::NO_EVICT, on_or_off(args)?);
    cx.reply.ok();
    Ok(())
}

fn no_touch(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let on = on_or_off(args)?;
    cx.client.no_touch = on;
    cx.client.shared.set_flag(client_flag::NO_TOUCH, on);
    cx.reply.ok();
    Ok(())
}

fn pause(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let all = match args.len() {
        3 => true,
        4 if args.is(3, "ALL") => true,
        4 if args.is(3, "WRITE") => false,
        4 => return Err(CommandError::Static("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(CommandError::Syntax),
    };
    let ms = match parse_i64(args.at(2)) {
        None => return Err(CommandError::err("timeout is not an integer or out of range")),
        Some(..0) => return Err(CommandError::Static("ERR timeout is negative")),
        Some(ms) if ms > MAX_PAUSE_MS => {
            return Err(CommandError::Static("ERR timeout is out of range"));
        }
        Some(ms) => ms as u64,
    };
    // The pause counts from when the command runs, not from when its batch was read.
    let now_ns = cx.node.edges.now().mono_ns;
    cx.node.begin_pause(all, now_ns.saturating_add(ms * 1_000_000));
    cx.reply.ok();
    Ok(())
}

fn unpause(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.node.end_pause();
    cx.reply.ok();
    Ok(())
}

fn unblock(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let letter = match args.len() {
        3 => letter::UNBLOCK_TIMEOUT,
        4 if args.is(3, "TIMEOUT") => letter::UNBLOCK_TIMEOUT,
        4 if args.is(3, "ERROR") => letter::UNBLOCK_ERROR,
        4 => {
            let text = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
            return Err(CommandError::Static(text));
        }
        _ => return Err(CommandError::Syntax),
    };
    let id = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    let target = u64::try_from(id).ok().and_then(|id| cx.node.clients.find(id));
    let target = target.filter(|client| client.has_flag(client_flag::BLOCKED));
    if let Some(client) = &target {
        client.mailbox.post(letter);
    }
    cx.reply.int(target.is_some() as i64);
    Ok(())
}

/// Client-side caching has an issue of its own: until then nobody tracks.
fn getredir(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.int(-1);
    Ok(())
}

fn trackinginfo(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let reply = &mut cx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.int(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
    Ok(())
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "CLIENT", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "GETNAME",
    "    The name of this connection.",
    "GETREDIR",
    "    The client that tracking messages go to; -1 = none.",
    "ID",
    "    The id of this connection.",
    "INFO",
    "    The line of CLIENT LIST about this connection.",
    "KILL <ip:port>",
    "    End the connection from that address.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    End all connections that fit. Options: ID, TYPE, ADDR, LADDR, USER, MAXAGE (seconds),",
    "    SKIPME yes|no (default yes).",
    "LIST [TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID <id> [<id> ...]]",
    "    One line for each connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect this connection from being evicted.",
    "NO-TOUCH (ON|OFF)",
    "    Leave the access time of keys alone.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Hold back all commands, or those that write, for so many milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Send replies, send none, or leave out the next one.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Say which library this connection uses.",
    "SETNAME <name>",
    "    Name this connection.",
    "TRACKINGINFO",
    "    The state of client-side caching.",
    "UNBLOCK <id> [TIMEOUT|ERROR]",
    "    Wake a blocked client as if its time were up, or with an error.",
    "UNPAUSE",
    "    End a pause.",
];

#[cfg(test)]
mod tests {
    use crate::testing::{START_MS, TestNode, run_script};

    #[test]
    fn a_client_names_and_describes_itself() {
        run_script("client/client.self.txt");
    }

    #[test]
    fn clients_are_listed_and_killed_by_what_they_are() {
        run_script("client/client.kill.txt");
    }

    #[test]
    fn replies_are_left_out_when_asked() {
        run_script("client/client.reply.txt");
    }

    #[test]
    fn a_pause_holds_writes_or_all_until_its_end() {
        run_script("client/client.pause.txt");
    }

    #[test]
    fn a_client_may_leave_access_times_alone() {
        run_script("client/client.touch.txt");
    }

    #[test]
    fn a_waiting_client_is_unblocked_by_another() {
        run_script("client/client.unblock.txt");
    }

    #[test]
    fn an_expired_key_is_hidden_but_kept_while_writes_are_paused() {
        let mut node = TestNode::new(&[]);
        node.set_expiring(b"k", b"v", START_MS + 10);
        assert_eq!(node.call(1, &[b"client", b"pause", b"5000", b"write"]), b"+OK\r\n");
        node.advance(20);
        assert_eq!(node.call(1, &[b"get", b"k"]), b"$-1\r\n");
        assert_eq!(node.node.key_count(), 1);
        node.call(1, &[b"client", b"unpause"]);
        assert_eq!(node.call(1, &[b"get", b"k"]), b"$-1\r\n");
        assert_eq!(node.node.key_count(), 0);
    }
}
