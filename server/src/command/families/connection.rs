//! PING, ECHO, HELLO, AUTH, SELECT and the cluster verbs a connection may send: not CLIENT, and
//! not RESET and QUIT, which the session runs.
//!
//! Invariant: a refused HELLO or AUTH leaves protocol, name and login as they were.

use crate::command::families::client::check_name;
use crate::command::families::info::REDIS_VERSION;
use crate::command::flag::{
    ALLOW_BUSY, DANGEROUS, FAST, LOADING, NO_AUTH, NOSCRIPT, STALE, UNSEATED, WRITES_NODE,
};
use crate::command::{
    Args, Client, Command, CommandError, Group, Handler, NodeCx, NodeState, Outcome,
};
use crate::resp::Proto;
use crate::store::number::parse_i64;

/// What every command of this family begins with.
const BASE: Command = Command { group: Group::Connection, ..Command::BASE };

/// All of them.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "ping",
        arity: -1,
        handler: Handler::Node(ping),
        flags: FAST | UNSEATED,
        summary: "Returns the server's liveliness response.",
        ..BASE
    },
    Command {
        name: "echo",
        arity: 2,
        handler: Handler::Node(echo),
        flags: FAST | LOADING | STALE,
        summary: "Returns the given string.",
        ..BASE
    },
    Command {
        name: "hello",
        arity: -1,
        handler: Handler::Node(hello),
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
        since: "6.0.0",
        summary: "Handshakes with the Redis server.",
        ..BASE
    },
    Command {
        name: "auth",
        arity: -2,
        handler: Handler::Node(auth),
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
        summary: "Authenticates the connection.",
        complexity: "O(N) where N is the number of passwords defined for the user",
        ..BASE
    },
    Command {
        name: "select",
        arity: 2,
        handler: Handler::Node(select),
        flags: LOADING | STALE | FAST,
        summary: "Changes the selected database.",
        ..BASE
    },
    Command {
        name: "move",
        arity: 3,
        handler: Handler::Node(refuse_move),
        flags: FAST | WRITES_NODE,
        group: Group::Generic,
        summary: "Moves a key to another database.",
        ..BASE
    },
    Command {
        name: "swapdb",
        arity: 3,
        handler: Handler::Node(refuse_swapdb),
        flags: FAST | WRITES_NODE | DANGEROUS,
        group: Group::Server,
        since: "4.0.0",
        summary: "Swaps two Redis databases.",
        complexity: "O(N) where N is the count of clients watching or blocking on keys from both \
                     databases.",
        ..BASE
    },
    Command {
        name: "readonly",
        arity: 1,
        handler: Handler::Node(readonly),
        flags: LOADING | STALE | FAST,
        group: Group::Cluster,
        since: "3.0.0",
        summary: "Enables read-only queries for a connection to a Redis Cluster replica node.",
        ..BASE
    },
    Command {
        name: "readwrite",
        arity: 1,
        handler: Handler::Node(readwrite),
        flags: LOADING | STALE | FAST,
        group: Group::Cluster,
        since: "3.0.0",
        summary: "Enables read-write queries for a connection to a Redis Cluster replica node.",
        ..BASE
    },
    Command {
        name: "asking",
        arity: 1,
        handler: Handler::Node(asking),
        flags: FAST,
        group: Group::Cluster,
        since: "3.0.0",
        summary: "Signals that a cluster client is following an -ASK redirect.",
        ..BASE
    },
];

const WRONG_PASSWORD: CommandError =
    CommandError::Static("WRONGPASS invalid username-password pair or user is disabled.");

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

/// Is this the one user there is, with its password? Without a password any one will do, as for
/// Redis's default user with `nopass`.
fn may_log_in(node: &NodeState, user: &[u8], password: &[u8]) -> bool {
    let required = &node.config.live().requirepass;
    user == b"default" && (!required.is_set() || required.matches(password))
}

fn auth(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let (user, password) = match args.len() {
        2 => (&b"default"[..], args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(CommandError::Syntax),
    };
    if args.len() == 2 && !cx.node.config.live().requirepass.is_set() {
        return Err(CommandError::Static(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    if !may_log_in(cx.node, user, password) {
        return Err(WRONG_PASSWORD);
    }
    cx.client.authenticated = true;
    cx.reply.ok();
    Ok(())
}

/// What HELLO's words ask for.
struct Greeting<'a> {
    proto: Option<Proto>,
    login: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn parse_hello<'a>(args: &Args<'a>) -> Result<Greeting<'a>, CommandError> {
    let mut greeting = Greeting { proto: None, login: None, name: None };
    if let Some(version) = args.opt(1) {
        greeting.proto = Some(match parse_i64(version) {
            Some(2) => Proto::Resp2,
            Some(3) => Proto::Resp3,
            Some(_) => return Err(CommandError::Static("NOPROTO unsupported protocol version")),
            None => {
                let text = "Protocol version is not an integer or out of range";
                return Err(CommandError::err(text));
            }
        });
    }
    let mut at = 2;
    while at < args.len() {
        let more = args.len() - at - 1;
        if args.is(at, "AUTH") && more >= 2 {
            greeting.login = Some((args.at(at + 1), args.at(at + 2)));
            at += 3;
        } else if args.is(at, "SETNAME") && more >= 1 {
            greeting.name = Some(args.at(at + 1));
            at += 2;
        } else {
            let option = String::from_utf8_lossy(args.at(at));
            return Err(CommandError::err(format_args!("Syntax error in HELLO option '{option}'")));
        }
    }
    Ok(greeting)
}

fn hello(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let greeting = parse_hello(args)?;
    if let Some((user, password)) = greeting.login
        && !may_log_in(cx.node, user, password)
    {
        return Err(WRONG_PASSWORD);
    }
    if greeting.login.is_none() && !cx.client.authenticated {
        return Err(CommandError::Static(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    greeting.name.map_or(Ok(()), |name| check_name("Client names", name))?;
    let Client { shared, authenticated, .. } = &mut *cx.client;
    *authenticated = true;
    if let Some(name) = greeting.name {
        shared.set_names(|names| names.name = name.to_vec());
    }
    if let Some(proto) = greeting.proto {
        cx.client.set_proto(proto);
        cx.reply.proto = proto;
    }
    let (proto, id) = (cx.client.proto, cx.client.shared.id);
    let reply = &mut cx.reply;
    reply.map(7);
    let texts = |reply: &mut crate::resp::Reply<'_>, name: &str, text: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    };
    texts(reply, "server", "redis");
    texts(reply, "version", REDIS_VERSION);
    reply.bulk(b"proto");
    reply.int(if proto == Proto::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(id as i64);
    texts(reply, "mode", "cluster");
    texts(reply, "role", "master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn select(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    match parse_i64(args.at(1)).and_then(|n| i32::try_from(n).ok()) {
        None => Err(CommandError::NotInteger),
        Some(0) => {
            cx.reply.ok();
            Ok(())
        }
        Some(_) => Err(CommandError::Static("ERR SELECT is not allowed in cluster mode")),
    }
}

fn refuse_move(_: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    Err(CommandError::Static("ERR MOVE is not allowed in cluster mode"))
}

fn refuse_swapdb(_: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    Err(CommandError::Static("ERR SWAPDB is not allowed in cluster mode"))
}

fn readonly(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    set_readonly(cx, true)
}

fn readwrite(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    set_readonly(cx, false)
}

fn set_readonly(cx: &mut NodeCx<'_>, on: bool) -> Outcome {
    cx.client.readonly = on;
    cx.client.shared.set_flag(crate::command::client::client_flag::READONLY, on);
    cx.reply.ok();
    Ok(())
}

/// The owner serves a slot until another one does, so nothing is ever redirected by ASK.
fn asking(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestNode, play_file, run_script};

    #[test]
    fn ping_answers_pong_or_its_argument() {
        run_script("connection.ping.txt");
    }

    #[test]
    fn hello_switches_the_protocol_or_changes_nothing() {
        run_script("connection.hello.txt");
    }

    #[test]
    fn a_password_opens_the_door_and_only_then() {
        let mut node = TestNode::new(&["--requirepass", "secret"]);
        play_file(&mut node, "connection.auth.txt");
    }

    #[test]
    fn there_is_one_database() {
        run_script("connection.select.txt");
    }
}
