//! FUNCTION, as a node answers that has none: what redis-cli sends when it adds a node.
//!
//! Not functions. Invariant: the payload of DUMP is taken by RESTORE here and in Redis, and that
//! of a Redis without functions is taken here.

use crate::command::families::help;
use crate::command::flag::{ALLOW_BUSY, DENYOOM, LOADING, NOSCRIPT, STALE, WRITES_NODE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome};

/// FUNCTION.
pub const COMMANDS: &[Command] = &[Command {
    name: "function",
    arity: -2,
    group: Group::Scripting,
    since: "7.0.0",
    summary: "A container for function commands.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..Command::BASE
}];

const BASE: Command =
    Command { flags: NOSCRIPT, group: Group::Scripting, since: "7.0.0", ..Command::BASE };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "dump",
        arity: 2,
        handler: Handler::Node(dump),
        summary: "Dumps all libraries into a serialized binary payload.",
        complexity: "O(N) where N is the number of functions",
        ..BASE
    },
    Command {
        name: "flush",
        arity: -2,
        handler: Handler::Node(flush),
        flags: NOSCRIPT | WRITES_NODE,
        summary: "Deletes all libraries and functions.",
        complexity: "O(N) where N is the number of functions deleted",
        ..BASE
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        flags: LOADING | STALE,
        summary: "Returns helpful text about the different subcommands.",
        ..BASE
    },
    Command {
        name: "kill",
        arity: 2,
        handler: Handler::Node(kill),
        flags: NOSCRIPT | ALLOW_BUSY,
        summary: "Terminates a function during execution.",
        ..BASE
    },
    Command {
        name: "list",
        arity: -2,
        handler: Handler::Node(list),
        summary: "Returns information about all libraries.",
        complexity: "O(N) where N is the number of functions",
        ..BASE
    },
    Command {
        name: "restore",
        arity: -3,
        handler: Handler::Node(restore),
        flags: NOSCRIPT | WRITES_NODE | DENYOOM,
        summary: "Restores all libraries from a payload.",
        complexity: "O(N) where N is the number of functions on the payload",
        ..BASE
    },
    Command {
        name: "stats",
        arity: 2,
        handler: Handler::Node(stats),
        flags: NOSCRIPT | ALLOW_BUSY,
        summary: "Returns information about a function during execution.",
        ..BASE
    },
];

/// Version of RDB in the payload: that of Redis 7.0, which newer ones take, too.
const RDB_VERSION: u16 = 10;
/// A payload's last bytes: version and checksum, little-endian. Before them nothing: no library.
const FOOTER_BYTES: usize = 10;

fn dump(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.bulk(&empty_payload(RDB_VERSION));
    Ok(())
}

fn empty_payload(version: u16) -> [u8; FOOTER_BYTES] {
    let mut payload = [0; FOOTER_BYTES];
    let (head, checksum) = payload.split_at_mut(2);
    head.copy_from_slice(&version.to_le_bytes());
    checksum.copy_from_slice(&crc64(head).to_le_bytes());
    payload
}

/// CRC-64 as Redis has it (Jones; reflected, from 0). For a few bytes: bit by bit.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => crc >> 1 ^ POLYNOMIAL,
        })
    })
}

fn restore(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    if args.len() > 4 {
        return Err(CommandError::subcommand("FUNCTION", args.at(1)));
    }
    let is_policy = |word: &[u8]| {
        ["append", "replace", "flush"].iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()))
    };
    if args.len() == 4 && !is_policy(args.at(3)) {
        return Err(CommandError::Static(
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
        ));
    }
    let payload = args.at(2);
    match <[u8; FOOTER_BYTES]>::try_from(payload) {
        Ok(footer) if footer == empty_payload(u16::from_le_bytes([footer[0], footer[1]])) => {
            cx.reply.ok();
            Ok(())
        }
        Err(_) if payload.len() > FOOTER_BYTES => Err(CommandError::Static(
            "ERR the payload holds functions, which this version does not have: only the payload \
             of a server without functions is taken",
        )),
        _ => Err(CommandError::Static("ERR DUMP payload version or checksum are wrong")),
    }
}

fn list(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let (mut with_code, mut pattern) = (false, false);
    let mut at = 2;
    while at < args.len() {
        let word = args.at(at);
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if !pattern && word.eq_ignore_ascii_case(b"libraryname") {
            if at + 1 == args.len() {
                return Err(CommandError::Static("ERR library name argument was not given"));
            }
            (pattern, at) = (true, at + 1);
        } else {
            let word = String::from_utf8_lossy(word);
            return Err(CommandError::err(format_args!("Unknown argument {word}")));
        }
        at += 1;
    }
    cx.reply.array(0);
    Ok(())
}

fn flush(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let is = |word: &str| args.at(2).eq_ignore_ascii_case(word.as_bytes());
    match args.len() {
        2 => {}
        3 if is("sync") || is("async") => {}
        3 => {
            let text = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
            return Err(CommandError::Static(text));
        }
        _ => return Err(CommandError::subcommand("FUNCTION", args.at(1))),
    }
    cx.reply.ok();
    Ok(())
}

fn kill(_: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    Err(CommandError::Static("NOTBUSY No scripts in execution right now."))
}

/// No engine either.
fn stats(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.map(2);
    cx.reply.bulk(b"running_script");
    cx.reply.null();
    cx.reply.bulk(b"engines");
    cx.reply.map(0);
    Ok(())
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "FUNCTION", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "DUMP",
    "    Return the payload of a server without functions.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries: there are none.",
    "KILL",
    "    Kill the current running function: there is none.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return information on all the libraries: there are none.",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Take the payload of a server without functions.",
    "STATS",
    "    Return information about the current function running: there is none.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestNode, run_script};

    #[test]
    fn a_node_without_functions_answers_as_redis_without_functions() {
        run_script("function.txt");
    }

    #[test]
    fn the_checksum_is_that_of_redis() {
        // The check value in Redis's crc64.c.
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    #[test]
    fn the_payload_of_any_redis_without_functions_is_taken_and_no_other() {
        let mut node = TestNode::new(&[]);
        let mut restore = |payload: &[u8]| node.call(1, &[b"FUNCTION", b"RESTORE", payload]);
        for version in [10, 11, 80] {
            assert_eq!(restore(&empty_payload(version)), b"+OK\r\n");
        }
        let wrong = b"-ERR DUMP payload version or checksum are wrong\r\n";
        let mut damaged = empty_payload(10);
        damaged[9] ^= 1;
        assert_eq!(restore(&damaged), wrong);
        assert_eq!(restore(&damaged[..9]), wrong);
        let full = [&[0xF5], &empty_payload(10)[..]].concat();
        assert!(restore(&full).starts_with(b"-ERR the payload holds functions"));
    }
}
