//! CLUSTER: what clients and operators ask of the slot table, and how they change it and who is
//! in it.
//!
//! Not the table (crate `slots`) nor its log (`control`). Invariant: every answer is made of
//! `NodeState::topology`, the version that MOVED names owners from.

mod change;
mod kept;
mod keys;
pub mod links;
mod orders;
mod topology;

use crate::command::families::help;
use crate::command::flag::{ADMIN, LOADING, LONG, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE};
use crate::command::{Args, Command, Group, Handler, NodeCx, Outcome};
pub(super) use change::too_long;

pub use kept::TopologyReplies;

/// CLUSTER.
pub const COMMANDS: &[Command] = &[Command {
    name: "cluster",
    arity: -2,
    handler: Handler::Container,
    group: Group::Cluster,
    since: "3.0.0",
    summary: "A container for Redis Cluster commands.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..Command::BASE
}];

/// A question.
const ASK: Command =
    Command { flags: STALE, group: Group::Cluster, since: "3.0.0", ..Command::BASE };
/// A change that the cluster agrees on, which takes its time. Not within a transaction: its other
/// commands hold a lock of theirs.
const CHANGE: Command =
    Command { flags: NO_ASYNC_LOADING | ADMIN | STALE | NO_MULTI | LONG, ..ASK };
/// What Redis takes for a change and is answered at once here.
const VERB: Command = Command { flags: NO_ASYNC_LOADING | ADMIN | STALE, ..ASK };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "addslots",
        arity: -3,
        handler: Handler::Node(change::add_slots),
        summary: "Assigns new hash slots to a node.",
        complexity: "O(N) where N is the total number of hash slot arguments",
        ..CHANGE
    },
    Command {
        name: "addslotsrange",
        arity: -4,
        handler: Handler::Node(change::add_slots_range),
        since: "7.0.0",
        summary: "Assigns new hash slot ranges to a node.",
        complexity: "O(N) where N is the total number of the slots between the start slot and \
                     end slot arguments.",
        ..CHANGE
    },
    Command {
        name: "bumpepoch",
        arity: 2,
        handler: Handler::Node(orders::bump_epoch),
        summary: "Advances the cluster config epoch.",
        ..VERB
    },
    Command {
        name: "count-failure-reports",
        arity: 3,
        handler: Handler::Node(topology::count_failure_reports),
        flags: ADMIN | STALE,
        summary: "Returns the number of active failure reports active for a node.",
        complexity: "O(N) where N is the number of failure reports",
        ..ASK
    },
    Command {
        name: "countkeysinslot",
        arity: 3,
        handler: Handler::Node(keys::count_keys_in_slot),
        summary: "Returns the number of keys in a hash slot.",
        ..ASK
    },
    Command {
        name: "delslots",
        arity: -3,
        handler: Handler::Node(change::del_slots),
        summary: "Sets hash slots as unbound for a node.",
        complexity: "O(N) where N is the total number of hash slot arguments",
        ..CHANGE
    },
    Command {
        name: "delslotsrange",
        arity: -4,
        handler: Handler::Node(change::del_slots_range),
        since: "7.0.0",
        summary: "Sets hash slot ranges as unbound for a node.",
        complexity: "O(N) where N is the total number of the slots between the start slot and \
                     end slot arguments.",
        ..CHANGE
    },
    Command {
        name: "failover",
        arity: -2,
        handler: Handler::Node(orders::fail_over),
        summary: "Forces a replica to perform a manual failover of its master.",
        ..VERB
    },
    Command {
        name: "flushslots",
        arity: 2,
        handler: Handler::Node(change::flush_slots),
        summary: "Deletes all slots information from a node.",
        // Redis says O(1); it is O(N) over the node's slots.
        complexity: "O(N) where N is the number of the node's slots",
        ..CHANGE
    },
    Command {
        name: "forget",
        arity: 3,
        handler: Handler::Node(orders::forget),
        summary: "Removes a node from the nodes table.",
        ..CHANGE
    },
    Command {
        name: "getkeysinslot",
        arity: 4,
        handler: Handler::Node(keys::get_keys_in_slot),
        flags: STALE | LONG,
        summary: "Returns the key names in a hash slot.",
        complexity: "O(N) where N is the number of requested keys",
        ..ASK
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        flags: LOADING | STALE,
        since: "5.0.0",
        summary: "Returns helpful text about the different subcommands.",
        ..ASK
    },
    Command {
        name: "info",
        arity: 2,
        handler: Handler::Node(topology::info),
        summary: "Returns information about the state of a node.",
        ..ASK
    },
    Command {
        name: "keyslot",
        arity: 3,
        handler: Handler::Node(keys::key_slot),
        summary: "Returns the hash slot for a key.",
        complexity: "O(N) where N is the number of bytes in the key",
        ..ASK
    },
    Command {
        name: "links",
        arity: 2,
        handler: Handler::Node(links::links),
        since: "7.0.0",
        summary: "Returns a list of all TCP links to and from peer nodes.",
        complexity: "O(N) where N is the total number of Cluster nodes",
        ..ASK
    },
    Command {
        name: "meet",
        arity: -4,
        handler: Handler::Node(orders::meet),
        summary: "Forces a node to handshake with another node.",
        ..CHANGE
    },
    Command {
        name: "myid",
        arity: 2,
        handler: Handler::Node(topology::my_id),
        summary: "Returns the ID of a node.",
        ..ASK
    },
    Command {
        name: "myshardid",
        arity: 2,
        handler: Handler::Node(topology::my_id),
        since: "7.2.0",
        summary: "Returns the shard ID of a node.",
        ..ASK
    },
    Command {
        name: "nodes",
        arity: 2,
        handler: Handler::Node(topology::nodes),
        summary: "Returns the cluster configuration for a node.",
        complexity: "O(N) where N is the total number of Cluster nodes",
        ..ASK
    },
    Command {
        name: "replicas",
        arity: 3,
        handler: Handler::Node(topology::replicas),
        flags: ADMIN | STALE,
        since: "5.0.0",
        summary: "Lists the replica nodes of a master node.",
        complexity: "O(N) where N is the number of replicas.",
        ..ASK
    },
    Command {
        name: "replicate",
        arity: 3,
        handler: Handler::Node(orders::replicate),
        summary: "Configure a node as replica of a master node.",
        ..VERB
    },
    Command {
        name: "reset",
        arity: -2,
        handler: Handler::Node(orders::reset),
        flags: ADMIN | STALE | NOSCRIPT | NO_MULTI | LONG,
        summary: "Resets a node.",
        ..ASK
    },
    Command {
        name: "saveconfig",
        arity: 2,
        handler: Handler::Node(orders::save_config),
        summary: "Forces a node to save the cluster configuration to disk.",
        ..VERB
    },
    Command {
        name: "set-config-epoch",
        arity: 3,
        handler: Handler::Node(orders::set_config_epoch),
        summary: "Sets the configuration epoch for a new node.",
        ..VERB
    },
    Command {
        name: "setslot",
        arity: -4,
        handler: Handler::Node(orders::set_slot),
        summary: "Binds a hash slot to a node.",
        ..VERB
    },
    Command {
        name: "shards",
        arity: 2,
        handler: Handler::Node(topology::shards),
        flags: LOADING | STALE,
        since: "7.0.0",
        summary: "Returns the mapping of cluster slots to shards.",
        complexity: "O(N) where N is the total number of cluster nodes",
        ..ASK
    },
    Command {
        name: "slaves",
        arity: 3,
        handler: Handler::Node(topology::replicas),
        flags: ADMIN | STALE,
        summary: "Lists the replica nodes of a master node.",
        complexity: "O(N) where N is the number of replicas.",
        ..ASK
    },
    Command {
        name: "slots",
        arity: 2,
        handler: Handler::Node(topology::slots),
        flags: LOADING | STALE,
        summary: "Returns the mapping of cluster slots to nodes.",
        complexity: "O(N) where N is the total number of Cluster nodes",
        ..ASK
    },
];

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "CLUSTER", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "ADDSLOTS <slot> [<slot> ...]",
    "    Give this node slots that nobody owns.",
    "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Give this node slots that nobody owns, by ranges.",
    "BUMPEPOCH",
    "    Answer with the node's epoch: epochs are versions of the slot table.",
    "COUNT-FAILURE-REPORTS <node-id>",
    "    Return number of failure reports for <node-id>.",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "DELSLOTS <slot> [<slot> ...]",
    "    Take slots away from this node; they must be empty.",
    "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Take slots away from this node, by ranges; they must be empty.",
    "FAILOVER [FORCE|TAKEOVER]",
    "    Refused: every node is a master.",
    "FORGET <node-id>",
    "    Remove a node that owns no slot from the cluster.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "FLUSHSLOTS",
    "    Take all slots away from this node; it must be empty.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "LINKS",
    "    Return information about all network links between this node and its peers.",
    "MEET <ip> <port> [<bus-port>]",
    "    Make one cluster of this node's and another node's.",
    "MYID",
    "    Return the node id.",
    "MYSHARDID",
    "    Return the node's shard id.",
    "NODES",
    "    Return cluster configuration seen by node. Output format:",
    "    <id> <ip:port@bus-port[,hostname]> <flags> <master> <pings> <pongs> <epoch> <link> \
     <slot> ...",
    "REPLICAS <node-id>",
    "    Return <node-id> replicas.",
    "REPLICATE <node-id>",
    "    Refused: no node follows another yet.",
    "RESET [HARD|SOFT]",
    "    Make this node, which must be empty, a cluster of its own (default: soft).",
    "SAVECONFIG",
    "    Answer OK: what was agreed on is saved.",
    "SET-CONFIG-EPOCH <epoch>",
    "    Answer OK on a node that is alone: epochs are versions of the slot table.",
    "SETSLOT <slot> (IMPORTING <node-id>|MIGRATING <node-id>|STABLE|NODE <node-id>)",
    "    Refused, but STABLE: slots move whole.",
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, master and replicas IP addresses, ports and ids",
];

#[cfg(test)]
mod tests;
