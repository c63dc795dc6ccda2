//! Commands about the node's own life: time, shutdown, saving, and what Redis's replication
//! verbs mean where the slot table decides who owns what.

use std::time::Duration;

use crate::command::disk::{Begun, NotBegun, save_points};
use crate::command::flag::{
    ADMIN, ALLOW_BUSY, FAST, LOADING, LONG, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE,
};
use crate::command::{
    Args, Command, CommandError, Group, Handler, NodeCx, NodeState, Outcome, TimedBlock,
    TimeoutReply,
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
        flags: ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY | LONG,
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
        handler: Handler::Node(save),
        flags: ADMIN | NOSCRIPT | NO_MULTI | NO_ASYNC_LOADING | LONG,
        summary: "Synchronously saves the database(s) to disk.",
        complexity: "O(N) where N is the total number of keys in all databases",
        ..BASE
    },
    Command {
        name: "bgsave",
        arity: -1,
        handler: Handler::Node(bgsave),
        flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING,
        summary: "Asynchronously saves the database(s) to disk.",
        ..BASE
    },
    Command {
        name: "bgrewriteaof",
        arity: 1,
        handler: Handler::Node(bgrewriteaof),
        flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING,
        summary: "Asynchronously rewrites the append-only file to disk.",
        ..BASE
    },
    Command {
        name: "lastsave",
        arity: 1,
        handler: Handler::Node(lastsave),
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

/// Ends the node. There are no followers to wait for yet, so NOW changes nothing; with SAVE, or
/// with save points and no log, a checkpoint comes first, and its failure keeps the node up unless
/// FORCE is given.
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
    let live = cx.node.config.live();
    let by_points = !save_points(live).is_empty() && cx.node.disk.figures().log.is_none();
    let saves = has("SAVE") || by_points && !has("NOSAVE");
    if saves && let Err(error) = save_now(cx) {
        if !has("FORCE") {
            return Err(CommandError::err(format_args!(
                "Errors trying to SHUTDOWN. Check logs. ({})",
                error.text()
            )));
        }
        tracing::warn!(error = error.text(), "ending without a checkpoint, by SHUTDOWN FORCE");
    }
    cx.client.close_after_reply = true;
    cx.node.edges.shut_down();
    Ok(())
}

/// No slot has followers yet, so no write of this client is held by one: 0 at once when none is
/// asked for, else after the timeout.
fn wait(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let wanted = parse_i64(args.at(1)).ok_or(CommandError::NotInteger)?;
    let timeout = timeout_of(args.at(2))?;
    if wanted <= 0 {
        cx.reply.int(0);
        return Ok(());
    }
    cx.block = Some(TimedBlock { timeout, on_timeout: TimeoutReply::Int(0), until_round: None });
    Ok(())
}

/// The last word of WAIT and WAITAOF; `None` = for ever.
fn timeout_of(word: &[u8]) -> Result<Option<Duration>, CommandError> {
    match parse_i64(word) {
        None => Err(CommandError::err("timeout is not an integer or out of range")),
        Some(..0) => Err(CommandError::Static("ERR timeout is negative")),
        Some(ms) if ms > MAX_WAIT_MS => Err(CommandError::Static("ERR timeout is out of range")),
        Some(0) => Ok(None),
        Some(ms) => Ok(Some(Duration::from_millis(ms as u64))),
    }
}

/// Waits until all that was written so far, by whomever, is synced in the own log: a round of
/// syncs that begins now reaches every lane. Copies on other nodes do not count yet.
fn waitaof(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let in_range = |word, max| parse_i64(word).filter(|n| (0..=max).contains(n));
    let local = in_range(args.at(1), 1)
        .ok_or(CommandError::Static("ERR value is out of range, value must between 0 and 1"))?;
    let copies = in_range(args.at(2), i64::MAX)
        .ok_or(CommandError::Static("ERR value is out of range, must be positive"))?;
    let timeout = timeout_of(args.at(3))?;
    let is_logging = cx.node.disk.figures().log.is_some();
    if local > 0 && !is_logging {
        return Err(CommandError::Static(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    let log = cx.node.promises.log().filter(|_| is_logging);
    let round = log.map(|log| log.round_for_now());
    let synced = log.zip(round).map_or(0, |(log, round)| i64::from(log.rounds_done() >= round));
    if synced >= local && copies == 0 {
        TimeoutReply::Pair(synced, 0).write(&mut cx.reply);
        return Ok(());
    }
    cx.block = Some(TimedBlock {
        timeout,
        on_timeout: TimeoutReply::Pair(synced, 0),
        until_round: round.filter(|_| copies == 0).map(|round| (round, TimeoutReply::Pair(1, 0))),
    });
    Ok(())
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

const UNDER_WAY: CommandError = CommandError::Static("ERR Background save already in progress");

fn not_begun(why: NotBegun) -> CommandError {
    match why {
        NotBegun::UnderWay => UNDER_WAY,
        NotBegun::Because(why) => CommandError::err(format_args!("nothing was saved: {why}")),
    }
}

fn save_now(cx: &mut NodeCx<'_>) -> Outcome {
    cx.node.disk.take_checkpoint().map_err(not_begun)
}

/// A checkpoint, and the answer when it is on disk. Other connections are served meanwhile.
fn save(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    save_now(cx)?;
    cx.reply.ok();
    Ok(())
}

fn bgsave(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let later = match args.len() {
        1 => false,
        2 if args.at(1).eq_ignore_ascii_case(b"SCHEDULE") => true,
        _ => return Err(CommandError::Syntax),
    };
    cx.reply.simple(match cx.node.disk.begin_checkpoint(later).map_err(not_begun)? {
        Begun::Now => "Background saving started",
        Begun::Later => "Background saving scheduled",
    });
    Ok(())
}

/// The log is made shorter by a checkpoint: the same order as BGSAVE, in Redis's other words.
fn bgrewriteaof(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.simple(match cx.node.disk.begin_checkpoint(true).map_err(not_begun)? {
        Begun::Now => "Background append only file rewriting started",
        Begun::Later => "Background append only file rewriting scheduled",
    });
    Ok(())
}

fn lastsave(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.int((last_save_ms(cx.node) / 1000) as i64);
    Ok(())
}

/// When the last checkpoint was completed, unix ms; the start, if there was none since.
pub(super) fn last_save_ms(node: &NodeState) -> u64 {
    match node.disk.figures().last_checkpoint_ms {
        0 => node.started.unix_ms,
        at => at,
    }
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
