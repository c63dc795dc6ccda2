//! SLOTD: what operators' tools ask of a node and order it to do, in JSON (`slots::admin`).
//!
//! Not for clients of keys. Invariant: a refusal says why and what to do next, and its first word
//! says who acts: ERR the words are wrong, REFUSED not as things stand, NOQUORUM nobody decided,
//! UNKNOWN it may have been done.

mod backup;
mod change;
mod moves;
mod restore;
mod status;

use serde::Serialize;
use slots::{NodeId, NodeRow, SlotId};

use crate::command::families::help;
use crate::command::flag::{ADMIN, DENYOOM, LOADING, LONG, NO_MULTI, NOSCRIPT, STALE, WRITES_NODE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome, Topology};
use crate::store::number::parse_i64;

/// SLOTD.
pub const COMMANDS: &[Command] = &[Command {
    name: "slotd",
    arity: -2,
    subcommands: SUBCOMMANDS,
    summary: "A container for the commands of slotctl.",
    complexity: "Depends on subcommand.",
    ..ASK
}];

/// A question.
const ASK: Command = Command {
    flags: ADMIN | LOADING | STALE,
    group: Group::Cluster,
    since: "0.2.0",
    ..Command::BASE
};
/// What goes from slot to file and back.
const CARRY: Command = Command { flags: ADMIN | NOSCRIPT | NO_MULTI | LONG, ..ASK };
/// What the cluster has to agree on.
const ORDER: Command =
    Command { flags: ADMIN | LOADING | STALE | NOSCRIPT | NO_MULTI | LONG, ..ASK };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "assign",
        arity: 6,
        handler: Handler::Node(change::assign),
        summary: "Gives a node slots that nobody owns.",
        complexity: "O(N) where N is the number of slots",
        ..ORDER
    },
    Command {
        name: "backup",
        arity: -3,
        handler: Handler::Node(backup::backup),
        summary: "Returns the slots of this node as streams of frames.",
        complexity: "O(N) where N is the number of slots, or of keys in a frame",
        ..CARRY
    },
    Command {
        name: "cancel",
        arity: 3,
        handler: Handler::Node(moves::cancel),
        summary: "Ends a move of slots: what has not moved stays where it is.",
        complexity: "O(N) where N is the number of slots",
        ..ORDER
    },
    Command {
        name: "explain",
        arity: 3,
        handler: Handler::Node(status::explain),
        summary: "Returns where a key belongs and what this node answers for it.",
        complexity: "O(N) where N is the number of bytes in the key",
        ..ASK
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        flags: LOADING | STALE,
        summary: "Returns helpful text about the different subcommands.",
        ..ASK
    },
    Command {
        name: "history",
        arity: -2,
        handler: Handler::Node(status::history),
        summary: "Returns who changed the slot table when, the newest first.",
        complexity: "O(N) where N is the number of records",
        ..ASK
    },
    Command {
        name: "move",
        arity: -4,
        handler: Handler::Node(moves::begin),
        summary: "Orders slots to be moved to a node.",
        complexity: "O(N) where N is the number of slots",
        ..ORDER
    },
    Command {
        name: "moves",
        arity: -2,
        handler: Handler::Node(moves::list),
        summary: "Returns the moves under way, and how far this node is with its part.",
        complexity: "O(N) where N is the number of slots",
        ..ASK
    },
    Command {
        name: "node",
        arity: -4,
        handler: Handler::Node(change::node),
        summary: "Changes the nodes of the cluster.",
        complexity: "Depends on the verb.",
        ..ORDER
    },
    Command {
        name: "recover",
        arity: 3,
        handler: Handler::Node(change::recover),
        summary: "Makes this node and what it knows a new generation of a cluster whose majority \
                  is lost.",
        ..ORDER
    },
    Command {
        name: "restore",
        arity: -4,
        handler: Handler::Node(restore::restore),
        flags: DENYOOM | WRITES_NODE | CARRY.flags,
        summary: "Makes the stream of a backup the content of its slot.",
        complexity: "O(N) where N is the number of keys in a frame or a step",
        ..CARRY
    },
    Command {
        name: "slots",
        arity: 2,
        handler: Handler::Node(status::slots),
        summary: "Returns the rows of the slot table.",
        complexity: "O(N) where N is the number of slots",
        ..ASK
    },
    Command {
        name: "stale",
        arity: -2,
        handler: Handler::Node(status::stale),
        summary: "Returns who asked this node for slots that are not its own, or forgets it.",
        complexity: "O(N) where N is the number of slots",
        ..ASK
    },
    Command {
        name: "status",
        arity: 2,
        handler: Handler::Node(status::status),
        summary: "Returns the cluster as this node sees it.",
        complexity: "O(N) where N is the number of nodes",
        ..ASK
    },
];

fn reply_json(cx: &mut NodeCx<'_>, value: &impl Serialize) -> Outcome {
    let json = serde_json::to_vec(value).map_err(|error| {
        CommandError::err(format_args!("the reply cannot be written as JSON: {error}"))
    })?;
    cx.reply.bulk(&json);
    Ok(())
}

/// A node named by id or name. An id may be a tombstone's.
fn named_node<'t>(topology: &'t Topology, word: &[u8]) -> Result<&'t NodeRow, CommandError> {
    let text = text(word);
    let row = match text.parse::<NodeId>() {
        Ok(id) => topology.table.node(id),
        Err(_) => topology.table.node_named(&text),
    };
    row.ok_or_else(|| {
        CommandError::err(format_args!(
            "no node '{text}' in the cluster: SLOTD STATUS lists ids and names"
        ))
    })
}

/// Word `at` as a slot.
fn slot_at(args: &Args<'_>, at: usize) -> Result<SlotId, CommandError> {
    let slot = parse_i64(args.at(at)).and_then(|n| u16::try_from(n).ok()).and_then(SlotId::new);
    slot.ok_or(CommandError::Static("ERR Invalid or out of range slot"))
}

/// Word `at` as the number of a stream.
fn stream_at(args: &Args<'_>, at: usize) -> Result<u64, CommandError> {
    parse_i64(args.at(at)).and_then(|n| u64::try_from(n).ok()).ok_or(CommandError::NotInteger)
}

/// A word, as a text to look up or to show.
fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "SLOTD", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "ASSIGN <ranges> <node> SEEN <table-version>",
    "    Give <node> slots that nobody owns, as seen at that version.",
    "BACKUP SLOTS",
    "    Return the slots this node owns, with keys and bytes of those that have any.",
    "BACKUP BEGIN <slot>",
    "    Begin the stream of a slot; return its number.",
    "BACKUP NEXT <stream>",
    "    Return its next frame: 1 a chunk, 2 op groups, 3 the end, with which it ends.",
    "BACKUP END <stream>",
    "    End it before that.",
    "CANCEL <move>",
    "    End a move: slots that have not moved stay where they are.",
    "EXPLAIN <key>",
    "    Return hash tag, slot and row of <key>, and what this node answers for it.",
    "HISTORY [COUNT <n>]",
    "    Return who changed the slot table when, the newest first (default: 100).",
    "MOVE <ranges> <node> [ALLOW-WEAKER]",
    "    Order slots to be moved to <node>; return the id of the move at once.",
    "MOVES [<move>]",
    "    Return the moves under way, and how far this node is with its part.",
    "NODE ADD <host>:<port>[@<bus-port>]",
    "    Make one cluster of this node's and that node's.",
    "NODE REMOVE <node>",
    "    Remove a node that owns no slot; its vote moves first.",
    "NODE RENAME <node> <name>",
    "    Give a node another name.",
    "NODE LABEL <node> <key> [<value>]",
    "    Set a label of a node, or take it away.",
    "NODE DRAIN|UNDRAIN <node>",
    "    Give a node nothing new, or something again.",
    "NODE WEIGHT <node> <weight>",
    "    Change a node's share of the slots (100 is usual).",
    "NODE LOST <node> [ACCEPT-LOSS]",
    "    Remove a node that will not come back; with ACCEPT-LOSS its slots are unassigned.",
    "NODE REPLACE-VOTER <node> [<node>]",
    "    Let another node vote in its place.",
    "RECOVER <cluster-id>",
    "    Give up a lost majority for good: this node is a new generation of the cluster.",
    "RESTORE BEGIN <slot> [REPLACE]",
    "    Begin to restore a slot that has no keys, or any with REPLACE; return its number.",
    "RESTORE FRAME <restore> <frame>",
    "    Give it the next frame of the slot's stream.",
    "RESTORE COMMIT <restore>",
    "    Put some hundred keys into the slot; return how many are left.",
    "RESTORE END <restore>",
    "    Give it up: what is in the slot stays there.",
    "SLOTS",
    "    Return the rows of the slot table, equal ones together.",
    "STALE [RESET]",
    "    Return who asked this node for slots that are not its own; with RESET, count from 0.",
    "STATUS",
    "    Return nodes, votes, health and versions as this node sees them.",
];

#[cfg(test)]
mod tests;
