//! CLUSTER: what clients and operators ask of the slot table, and the few changes of it that one
//! node may make alone.
//!
//! Not the table (crate `slots`) nor its log (`control`). Invariant: every answer is made of
//! `NodeState::topology`, the version that MOVED names owners from.

mod change;
mod keys;
mod topology;

use crate::command::families::help;
use crate::command::flag::{ADMIN, LOADING, LONG, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, NodeFn, Outcome};

pub use topology::TopologyReplies;

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
/// A change of the table, or what Redis takes for one. Slots are not taken away within a
/// transaction: its other commands hold a lock of theirs.
const CHANGE: Command = Command { flags: NO_ASYNC_LOADING | ADMIN | STALE | NO_MULTI, ..ASK };
/// What needs a log that all nodes share.
const REFUSED: Command = Command {
    handler: Handler::Node(refuse as NodeFn),
    flags: NO_ASYNC_LOADING | ADMIN | STALE,
    ..ASK
};

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
        summary: "Advances the cluster config epoch.",
        ..REFUSED
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
        summary: "Forces a replica to perform a manual failover of its master.",
        ..REFUSED
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
        summary: "Removes a node from the nodes table.",
        ..REFUSED
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
        handler: Handler::Node(topology::links),
        since: "7.0.0",
        summary: "Returns a list of all TCP links to and from peer nodes.",
        complexity: "O(N) where N is the total number of Cluster nodes",
        ..ASK
    },
    Command {
        name: "meet",
        arity: -4,
        summary: "Forces a node to handshake with another node.",
        ..REFUSED
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
        summary: "Configure a node as replica of a master node.",
        ..REFUSED
    },
    Command {
        name: "reset",
        arity: -2,
        flags: ADMIN | STALE | NOSCRIPT,
        summary: "Resets a node.",
        ..REFUSED
    },
    Command {
        name: "saveconfig",
        arity: 2,
        summary: "Forces a node to save the cluster configuration to disk.",
        ..REFUSED
    },
    Command {
        name: "set-config-epoch",
        arity: 3,
        summary: "Sets the configuration epoch for a new node.",
        ..REFUSED
    },
    Command { name: "setslot", arity: -4, summary: "Binds a hash slot to a node.", ..REFUSED },
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

/// Node-local epochs, gossip and hand-made states of slots are not how this table changes: an
/// operator's first step is refused, before anything is half done.
fn refuse(_: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let word = String::from_utf8_lossy(args.at(1)).to_ascii_uppercase();
    Err(CommandError::err(format_args!(
        "CLUSTER {word} is not supported yet: nodes of this version have no way to agree on \
         changes of the slot table"
    )))
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "CLUSTER", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "ADDSLOTS <slot> [<slot> ...]",
    "    Give this node slots that nobody owns.",
    "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Give this node slots that nobody owns, by ranges.",
    "COUNT-FAILURE-REPORTS <node-id>",
    "    Return number of failure reports for <node-id>.",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "DELSLOTS <slot> [<slot> ...]",
    "    Take slots away from this node; they must be empty.",
    "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Take slots away from this node, by ranges; they must be empty.",
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
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, master and replicas IP addresses, ports and ids",
];

#[cfg(test)]
mod tests {
    use slots::{Addresses, Endpoint, TableChange};

    use crate::testing::{TestNode, play_file, run_script};

    /// A node that owns a hole-ridden first third, beside two others.
    fn among_others(options: &[&str]) -> TestNode {
        TestNode::owning(
            "0-448,450-5460",
            &[(7002, "5461-10922"), (7003, "449,10923-16383")],
            options,
        )
    }

    #[test]
    fn a_node_alone_answers_for_all_slots() {
        run_script("cluster/cluster.alone.txt");
    }

    #[test]
    fn moved_and_the_topology_replies_name_the_same_owner() {
        play_file(&mut among_others(&[]), "cluster/cluster.others.txt");
    }

    #[test]
    fn a_shared_table_is_not_changed_by_one_node() {
        play_file(&mut among_others(&[]), "cluster/cluster.shared.txt");
    }

    #[test]
    fn slots_without_an_owner_are_refused_and_so_is_all_under_full_coverage() {
        let mut node = TestNode::owning("", &[], &["--cluster-enabled", "yes"]);
        play_file(&mut node, "cluster/cluster.coverage.txt");
    }

    #[test]
    fn slots_are_added_and_taken_away_with_the_errors_of_redis() {
        let mut node = TestNode::owning("", &[], &["--cluster-enabled", "yes"]);
        play_file(&mut node, "cluster/cluster.slots.txt");
    }

    #[test]
    fn hosts_are_told_by_the_preferred_kind() {
        play_file(&mut among_others(&[]), "cluster/cluster.endpoints.txt");
    }

    #[test]
    fn keys_of_a_slot_are_counted_and_listed_where_it_is_served() {
        play_file(&mut among_others(&[]), "cluster/cluster.keys.txt");
    }

    #[test]
    fn an_announced_address_is_used_everywhere_and_a_hostname_beside_it() {
        let mut node = TestNode::new(&[]);
        // The reply that is kept must not outlive the change.
        node.call(1, &[b"CLUSTER", b"SLOTS"]);
        node.call(1, &[b"CLUSTER", b"NODES"]);
        let addresses = Addresses {
            client: Endpoint::new("10.9.8.7", 7777),
            bus: Endpoint::new("10.9.8.7", 17_777),
            hostname: Some("a.example".into()),
        };
        let change = TableChange::SetAddress { node: node.node.topology().me, addresses };
        let check = |verdicts: Result<slots::Verdicts, _>| {
            assert_eq!(verdicts.map(|verdicts| verdicts.all()), Ok(Ok(())));
        };
        node.node.table_log.propose(change, "itself", Box::new(check));
        play_file(&mut node, "cluster/cluster.hostname.txt");
    }
}
