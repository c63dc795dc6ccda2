//! Commands about the node's own life: time, shutdown, saving, and what Redis's replication
//! verbs mean where the slot table decides who owns what.

use std::time::Duration;

use crate::command::flag::{
    ADMIN, ALLOW_BUSY, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE,
};
use crate::command::{
    Args, Command, CommandError, Group, Handler, NodeCx, Outcome, TimedBlock, TimeoutReply,
};
use crate::store::number::parse_i64;

const BASE: Command = Command { group: Group::Server, ..Command::BASE };

/// All of them.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "time",
        arity: 1,
        handler: Handler::Node(time),
        flags: LOADING | STALE | FAST,
        since: "2.6.0",
        summary: "Returns the server time.",
        ..BASE
    },
    Command {
        name: "shutdown",
        arity: -1,
        handler: Handler::Node(shutdown),
        flags: ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY,
        summary: "Synchronously saves the database(s) to disk and shuts down the Redis server.",
        complexity: "O(N) when saving, where N is the total number of keys in all databases when \
                     saving data, otherwise O(1)",
        ..BASE
    },
    Command {
        name: "wait",
        arity: 3,
        handler: Handler::Node(wait),
        flags: NOSCRIPT,
        group: Group::Generic,
        since: "3.0.0",
        summary: "Blocks until the asynchronous replication of all preceding write commands sent \
                  by the connection is completed.",
        ..BASE
    },
    Command {
        name: "waitaof",
        arity: 4,
        handler: Handler::Node(waitaof),
        flags: NOSCRIPT,
        group: Group::Generic,
        since: "7.2.0",
        summary: "Blocks until all of the preceding write commands sent by the connection are \
                  written to the append-only file of the master and/or replicas.",
        ..BASE
    },
    Command {
        name: "role",
        arity: 1,
        handler: Handler::Node(role),
        flags: NOSCRIPT | LOADING | STALE | FAST,
        since: "2.8.12",
        summary: "Returns the replication role.",
        ..BASE
    },
    Command {
        name: "replicaof",
        arity: 3,
        handler: Handler::Node(replicaof),
        flags: ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING,
        since: "5.0.0",
        summary: "Configures a server as replica of another, or promotes it to a master.",
        ..BASE
    },
    Command {
        name: "slaveof",
        arity: 3,
        handler: Handler::Node(replicaof),
        flags: ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING,
        summary: "Sets a Redis server as a replica of another, or promotes it to being a master.",
        ..BASE
    },
    Command {
        name: "save",
        arity: 1,
        handler: Handler::Node(refuse_save),
        flags: ADMIN | NOSCRIPT | NO_MULTI | NO_ASYNC_LOADING,
        summary: "Synchronously saves the database(s) to disk.",
        complexity: "O(N) where N is the total number of keys in all databases",
        ..BASE
    },
    Command {
        name: "bgsave",
        arity: -1,
        handler: Handler::Node(refuse_save),
        flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING,
        summary: "Asynchronously saves the database(s) to disk.",
        ..BASE
    },
    Command {
        name: "bgrewriteaof",
        arity: 1,
        handler: Handler::Node(refuse_save),
        flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING,
        summary: "Asynchronously rewrites the append-only file to disk.",
        ..BASE
    },
    Command {
        name: "lastsave",
        arity: 1,
        handler: Handler::Node(refuse_save),
        flags: LOADING | STALE | FAST,
        summary: "Returns the Unix timestamp of the last successful save to disk.",
        ..BASE
    },
];

/// Longest WAIT, ms: a timeout beyond it is out of range, as in Redis where its end overflows.
const MAX_WAIT_MS: i64 = i64::MAX / 2_000_000;

fn time(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let micros = cx.node.edges.unix_micros();
    cx.reply.array(2);
    cx.reply.bulk_int((micros / 1_000_000) as i64);
    cx.reply.bulk_int((micros % 1_000_000) as i64);
    Ok(())
}

/// Ends the node. There is nothing to wait for and nowhere to save to yet, so NOW and FORCE
/// change nothing, and SAVE is refused rather than losing what it asks to keep.
fn shutdown(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let has = |word: &str| args.from(1).any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let known = |arg: &[u8]| {
        ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"]
            .iter()
            .any(|word| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let contradicts = has("SAVE") && has("NOSAVE") || has("ABORT") && args.len() > 2;
    if !args.from(1).all(known) || contradicts {
        return Err(CommandError::Syntax);
    }
    if has("ABORT") {
        return Err(CommandError::Static("ERR No shutdown in progress."));
    }
    if has("SAVE") {
        return Err(NOT_KEPT);
    }
    cx.client.close_after_reply = true;
    cx.node.edges.shut_down();
    Ok(())
}

/// No slot has followers yet, so no write of this client is held by one: 0 at once when none is
/// asked for, else after the timeout.
fn wait(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let wanted = parse_i64(args.at(1)).ok_or(CommandError::NotInteger)?;
    let timeout_ms = match parse_i64(args.at(2)) {
        None => return Err(CommandError::err("timeout is not an integer or out of range")),
        Some(..0) => return Err(CommandError::Static("ERR timeout is negative")),
        Some(ms) if ms > MAX_WAIT_MS => {
            return Err(CommandError::Static("ERR timeout is out of range"));
        }
        Some(ms) => ms as u64,
    };
    if wanted <= 0 {
        cx.reply.int(0);
        return Ok(());
    }
    cx.block = Some(TimedBlock {
        timeout: (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms)),
        on_timeout: TimeoutReply::Int(0),
    });
    Ok(())
}

fn waitaof(_: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    Err(CommandError::Static("ERR WAITAOF: this node keeps no append-only log yet"))
}

fn role(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.array(3);
    cx.reply.bulk(b"master");
    cx.reply.int(0);
    cx.reply.array(0);
    Ok(())
}

fn replicaof(_: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    Err(CommandError::Static("ERR REPLICAOF not allowed in cluster mode."))
}

const NOT_KEPT: CommandError =
    CommandError::Static("ERR nothing was saved: this node keeps its data in memory only");

fn refuse_save(_: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    Err(NOT_KEPT)
}

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn wait_answers_at_once_or_when_its_time_is_up() {
        run_script("admin.wait.txt");
    }

    #[test]
    fn what_needs_a_log_or_followers_is_refused_in_one_line() {
        run_script("admin.refused.txt");
    }
}
