//! Commands that belong to the connection's own state machine; `session/` runs them.

use crate::command::flag::{ALLOW_BUSY, FAST, LOADING, NO_AUTH, NOSCRIPT, SKIP_SLOWLOG, STALE};
use crate::command::{Command, Group, Handler, KeySpec, SessionVerb};

const VERB: Command = Command {
    flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
    group: Group::Transactions,
    ..Command::BASE
};

/// MULTI and its kin, RESET, QUIT.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "multi",
        arity: 1,
        handler: Handler::Session(SessionVerb::Multi),
        since: "1.2.0",
        summary: "Starts a transaction.",
        ..VERB
    },
    Command {
        name: "exec",
        arity: 1,
        handler: Handler::Session(SessionVerb::Exec),
        flags: NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG,
        since: "1.2.0",
        summary: "Executes all commands in a transaction.",
        complexity: "Depends on commands in the transaction",
        ..VERB
    },
    Command {
        name: "discard",
        arity: 1,
        handler: Handler::Session(SessionVerb::Discard),
        since: "2.0.0",
        summary: "Discards a transaction.",
        complexity: "O(N), when N is the number of queued commands",
        ..VERB
    },
    Command {
        name: "watch",
        arity: -2,
        handler: Handler::Session(SessionVerb::Watch),
        keys: KeySpec::ALL,
        since: "2.2.0",
        summary: "Monitors changes to keys to determine the execution of a transaction.",
        complexity: "O(1) for every key.",
        ..VERB
    },
    Command {
        name: "unwatch",
        arity: 1,
        handler: Handler::Session(SessionVerb::Unwatch),
        since: "2.2.0",
        summary: "Forgets about watched keys of a transaction.",
        ..VERB
    },
    Command {
        name: "reset",
        arity: 1,
        handler: Handler::Session(SessionVerb::Reset),
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
        group: Group::Connection,
        since: "6.2.0",
        summary: "Resets the connection.",
        ..VERB
    },
    Command {
        name: "quit",
        arity: -1,
        handler: Handler::Session(SessionVerb::Quit),
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
        group: Group::Connection,
        since: "1.0.0",
        summary: "Closes the connection.",
        ..VERB
    },
];
