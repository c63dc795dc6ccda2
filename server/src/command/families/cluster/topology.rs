//! What CLUSTER tells of the table: SLOTS, SHARDS, NODES, INFO and the small questions.
//!
//! Invariant: a reply is made of one version of the table. SLOTS and NODES may be thousands of
//! lines and are asked for by every client at once after a change: the bytes of the last version
//! are kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use slots::{EndpointKind, NodeId, NodeRow, SLOTS, SlotRange, SlotTable, TableVersion};

use crate::command::{Args, CommandError, NodeCx, Outcome, Topology};
use crate::resp::{Proto, Reply};

/// The last replies to CLUSTER SLOTS and CLUSTER NODES.
#[derive(Default)]
pub struct TopologyReplies {
    slots: Mutex<Option<Kept>>,
    nodes: Mutex<Option<Kept>>,
}

struct Kept {
    made_of: MadeOf,
    bytes: Arc<[u8]>,
}

/// All that a reply depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct MadeOf {
    version: TableVersion,
    endpoint: EndpointKind,
    proto: Proto,
}

/// Writes the kept reply if it is still right, else makes and keeps it.
fn write_kept(
    cx: &mut NodeCx<'_>,
    place: &Mutex<Option<Kept>>,
    make: fn(&Topology, EndpointKind, &mut Reply<'_>),
) {
    let topology = cx.node.topology();
    let endpoint = cx.node.endpoint_kind();
    let made_of = MadeOf { version: topology.table.version(), endpoint, proto: cx.reply.proto };
    let kept = place.lock().as_ref().filter(|k| k.made_of == made_of).map(|k| k.bytes.clone());
    if let Some(bytes) = kept {
        cx.reply.out.extend_from_slice(&bytes);
        return;
    }
    let start = cx.reply.out.len();
    make(&topology, endpoint, &mut cx.reply);
    let bytes = Arc::from(&cx.reply.out[start..]);
    *place.lock() = Some(Kept { made_of, bytes });
}

/// CLUSTER SLOTS.
pub(super) fn slots(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    write_kept(cx, &cx.node.topology_replies.slots, write_slots);
    Ok(())
}

fn write_slots(topology: &Topology, endpoint: EndpointKind, reply: &mut Reply<'_>) {
    let runs = topology.table.owned_runs();
    reply.array(runs.len());
    for (run, owner) in runs {
        reply.array(3);
        reply.int(run.first().number().into());
        reply.int(run.last().number().into());
        match topology.table.node(owner) {
            Some(row) => write_slots_node(row, endpoint, reply),
            // An owner without a row breaks an invariant of the table.
            None => reply.null_array(),
        }
    }
}

/// Address, port, id, and what else is known of where the node is.
fn write_slots_node(row: &NodeRow, endpoint: EndpointKind, reply: &mut Reply<'_>) {
    reply.array(4);
    match endpoint {
        EndpointKind::Unknown => reply.null(),
        kind => reply.bulk(row.addresses.client_host(kind).as_bytes()),
    }
    reply.int(row.addresses.client.port.into());
    reply.bulk(row.id.to_string().as_bytes());
    let ip = Some(row.addresses.client.host.as_str()).filter(|_| endpoint != EndpointKind::Ip);
    let hostname = row.addresses.hostname.as_deref();
    let hostname = hostname.filter(|_| endpoint != EndpointKind::Hostname);
    let known = [("ip", ip), ("hostname", hostname)];
    reply.map(known.iter().filter(|(_, value)| value.is_some()).count());
    for (name, value) in known {
        if let Some(value) = value {
            write_text(reply, name, value);
        }
    }
}

/// CLUSTER NODES.
pub(super) fn nodes(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    write_kept(cx, &cx.node.topology_replies.nodes, write_nodes);
    Ok(())
}

fn write_nodes(topology: &Topology, _: EndpointKind, reply: &mut Reply<'_>) {
    let runs = runs_by_owner(&topology.table);
    let mut text = String::new();
    for row in topology.table.nodes() {
        let owned = runs.get(&row.id).map_or(&[][..], Vec::as_slice);
        write_line(row, row.id == topology.me, owned, &topology.table, &mut text);
    }
    reply.verbatim("txt", text);
}

fn runs_by_owner(table: &SlotTable) -> BTreeMap<NodeId, Vec<SlotRange>> {
    let mut runs: BTreeMap<NodeId, Vec<SlotRange>> = BTreeMap::new();
    for (run, owner) in table.owned_runs() {
        runs.entry(owner).or_default().push(run);
    }
    runs
}

/// One line of CLUSTER NODES. Every node is a master, as far as Redis's words go, and none is
/// known to be out of reach: nodes have no links between them that could tell.
fn write_line(
    row: &NodeRow,
    is_me: bool,
    owned: &[SlotRange],
    table: &SlotTable,
    text: &mut String,
) {
    let (id, addresses) = (row.id, &row.addresses);
    let _ = write!(text, "{id} {}@{}", addresses.client, addresses.bus.port);
    if let Some(hostname) = &addresses.hostname {
        let _ = write!(text, ",{hostname}");
    }
    let flags = if is_me { "myself,master" } else { "master" };
    let epoch = epoch_of(owned, table);
    let _ = write!(text, " {flags} - 0 0 {epoch} connected");
    for run in owned {
        let _ = write!(text, " {run}");
    }
    text.push('\n');
}

/// Redis's config epoch of a node: here the youngest epoch among its slots, 0 without slots. No
/// two nodes have the same, as each assignment is an entry of its own.
fn epoch_of(owned: &[SlotRange], table: &SlotTable) -> u64 {
    let slots = owned.iter().flat_map(|run| run.slots());
    slots.map(|slot| table.slot(slot).epoch().0).max().unwrap_or(0)
}

/// CLUSTER SHARDS: a shard is a node with its slots; those without slots come last.
pub(super) fn shards(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let topology = cx.node.topology();
    let endpoint = cx.node.endpoint_kind();
    let runs = runs_by_owner(&topology.table);
    let mut rows: Vec<(&NodeRow, &[SlotRange])> = topology
        .table
        .nodes()
        .map(|row| (row, runs.get(&row.id).map_or(&[][..], Vec::as_slice)))
        .collect();
    rows.sort_by_key(|(_, owned)| owned.first().map_or(SLOTS, |run| run.first().index()));
    cx.reply.array(rows.len());
    for (row, owned) in rows {
        write_shard(row, owned, endpoint, &mut cx.reply);
    }
    Ok(())
}

fn write_shard(row: &NodeRow, owned: &[SlotRange], endpoint: EndpointKind, reply: &mut Reply<'_>) {
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(owned.len() * 2);
    for run in owned {
        reply.int(run.first().number().into());
        reply.int(run.last().number().into());
    }
    reply.bulk(b"nodes");
    reply.array(1);
    let addresses = &row.addresses;
    reply.map(7 + usize::from(addresses.hostname.is_some()));
    write_text(reply, "id", &row.id.to_string());
    reply.bulk(b"port");
    reply.int(addresses.client.port.into());
    write_text(reply, "ip", &addresses.client.host);
    write_text(reply, "endpoint", addresses.client_host(endpoint));
    if let Some(hostname) = &addresses.hostname {
        write_text(reply, "hostname", hostname);
    }
    write_text(reply, "role", "master");
    reply.bulk(b"replication-offset");
    // Offsets are of a slot, not of a node.
    reply.int(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
}

fn write_text(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// CLUSTER INFO. Epochs are versions of the table; nodes exchange no messages yet.
pub(super) fn info(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let topology = cx.node.topology();
    let table = &topology.table;
    let assigned = SLOTS - table.unassigned().count();
    let runs = runs_by_owner(table);
    let my_epoch = runs.get(&topology.me).map_or(0, |owned| epoch_of(owned, table));
    let is_ok = assigned > 0 && !cx.node.is_down();
    let fields = [
        ("cluster_state", if is_ok { "ok" } else { "fail" }.to_owned()),
        ("cluster_slots_assigned", assigned.to_string()),
        ("cluster_slots_ok", assigned.to_string()),
        ("cluster_slots_pfail", "0".to_owned()),
        ("cluster_slots_fail", "0".to_owned()),
        ("cluster_known_nodes", table.nodes().count().to_string()),
        ("cluster_size", runs.len().to_string()),
        ("cluster_current_epoch", table.version().to_string()),
        ("cluster_my_epoch", my_epoch.to_string()),
        ("cluster_stats_messages_sent", "0".to_owned()),
        ("cluster_stats_messages_received", "0".to_owned()),
        ("total_cluster_links_buffer_limit_exceeded", "0".to_owned()),
    ];
    let lines = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n"));
    cx.reply.verbatim("txt", lines.collect::<String>());
    Ok(())
}

/// CLUSTER MYID and MYSHARDID: a shard is a node, so it goes by the node's id.
pub(super) fn my_id(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.bulk(cx.node.topology().me.to_string().as_bytes());
    Ok(())
}

/// CLUSTER LINKS: nodes have none yet.
pub(super) fn links(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.array(0);
    Ok(())
}

/// CLUSTER REPLICAS: no node is another's replica as a whole.
pub(super) fn replicas(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    check_known(cx, args.at(2))?;
    cx.reply.array(0);
    Ok(())
}

/// CLUSTER COUNT-FAILURE-REPORTS: nodes do not report each other.
pub(super) fn count_failure_reports(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    check_known(cx, args.at(2))?;
    cx.reply.int(0);
    Ok(())
}

fn check_known(cx: &NodeCx<'_>, word: &[u8]) -> Outcome {
    let id: Option<NodeId> = std::str::from_utf8(word).ok().and_then(|id| id.parse().ok());
    let table = cx.node.topology().table;
    match id.is_some_and(|id| table.nodes().any(|row| row.id == id)) {
        true => Ok(()),
        false => {
            let word = String::from_utf8_lossy(word);
            Err(CommandError::err(format_args!("Unknown node {word}")))
        }
    }
}
