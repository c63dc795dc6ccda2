//! What CLUSTER tells of the table: SLOTS, SHARDS, NODES, INFO and the small questions.
//!
//! Invariant: a reply is made of one version of the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use slots::{EndpointKind, NodeId, NodeRow, SLOTS, SlotRange, SlotTable};

use super::kept::{self, Made};
use super::links::{Health, Links};
use crate::command::{Args, CommandError, NodeCx, Outcome, Topology};
use crate::control::seat::Standing;
use crate::resp::Reply;

/// CLUSTER SLOTS.
pub(super) fn slots(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let made_of = Made::now(cx, Links::default());
    kept::write(cx, &cx.node.topology_replies.slots, made_of, write_slots);
    Ok(())
}

fn write_slots(made_of: &Made, reply: &mut Reply<'_>) {
    let Made { topology, endpoint, .. } = made_of;
    let runs = topology.table.owned_runs();
    reply.array(runs.len());
    for (run, owner) in runs {
        reply.array(3);
        reply.int(run.first().number().into());
        reply.int(run.last().number().into());
        match topology.table.node(owner) {
            Some(row) => write_slots_node(row, *endpoint, reply),
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
    let made_of = Made::now(cx, Links::of(cx.node, cx.now));
    kept::write(cx, &cx.node.topology_replies.nodes, made_of, write_nodes);
    Ok(())
}

fn write_nodes(made_of: &Made, reply: &mut Reply<'_>) {
    let Topology { table, me, .. } = &made_of.topology;
    let runs = runs_by_owner(table);
    let mut text = String::new();
    if !knows_itself(&made_of.topology) {
        let _ = writeln!(text, "{me} :0@0 myself,master,noaddr - 0 0 0 connected");
    }
    for row in table.nodes() {
        let owned = runs.get(&row.id).map_or(&[][..], Vec::as_slice);
        write_line(row, made_of, owned, &mut text);
    }
    reply.verbatim("txt", text);
}

/// Is this node in its own table? Not before it was told of the cluster it joins, and not after
/// it was removed from it.
fn knows_itself(topology: &Topology) -> bool {
    topology.table.nodes().any(|row| row.id == topology.me)
}

fn runs_by_owner(table: &SlotTable) -> BTreeMap<NodeId, Vec<SlotRange>> {
    let mut runs: BTreeMap<NodeId, Vec<SlotRange>> = BTreeMap::new();
    for (run, owner) in table.owned_runs() {
        runs.entry(owner).or_default().push(run);
    }
    runs
}

/// One line of CLUSTER NODES. Every node is a master, as far as Redis's words go.
fn write_line(row: &NodeRow, made_of: &Made, owned: &[SlotRange], text: &mut String) {
    let Topology { table, me, .. } = &made_of.topology;
    let (id, addresses) = (row.id, &row.addresses);
    let _ = write!(text, "{id} {}@{}", addresses.client, addresses.bus.port);
    if let Some(hostname) = &addresses.hostname {
        let _ = write!(text, ",{hostname}");
    }
    let epoch = epoch_of(owned, table);
    if id == *me {
        let _ = write!(text, " myself,master - 0 0 {epoch} connected");
    } else {
        let link = made_of.links.to(id);
        let flags = match link.health {
            Health::Online => "master",
            Health::Suspect => "master,fail?",
            Health::Failed => "master,fail",
        };
        let connected = if link.is_connected { "connected" } else { "disconnected" };
        let _ = write!(text, " {flags} - 0 {} {epoch} {connected}", link.pong_ms);
    }
    for run in owned {
        let _ = write!(text, " {run}");
    }
    text.push('\n');
}

/// Redis's config epoch of a node: here the youngest epoch among its slots, 0 without slots. No
/// two nodes have the same, as each assignment is an entry of its own.
pub(super) fn epoch_of(owned: &[SlotRange], table: &SlotTable) -> u64 {
    let slots = owned.iter().flat_map(|run| run.slots());
    slots.map(|slot| table.slot(slot).epoch().0).max().unwrap_or(0)
}

/// CLUSTER SHARDS: a shard is a node with its slots; those without slots come last.
pub(super) fn shards(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let made_of = Made::now(cx, Links::of(cx.node, cx.now));
    kept::write(cx, &cx.node.topology_replies.shards, made_of, write_shards);
    Ok(())
}

fn write_shards(made_of: &Made, reply: &mut Reply<'_>) {
    let table = &made_of.topology.table;
    let runs = runs_by_owner(table);
    let mut rows: Vec<(&NodeRow, &[SlotRange])> =
        table.nodes().map(|row| (row, runs.get(&row.id).map_or(&[][..], Vec::as_slice))).collect();
    rows.sort_by_key(|(_, owned)| owned.first().map_or(SLOTS, |run| run.first().index()));
    reply.array(rows.len());
    for (row, owned) in rows {
        write_shard(row, owned, made_of, reply);
    }
}

fn health_of(row: &NodeRow, made_of: &Made) -> &'static str {
    let Topology { me, standing, .. } = made_of.topology;
    match (row.id == me, made_of.links.to(row.id).health) {
        (true, _) if standing == Standing::Starting => "loading",
        (false, Health::Failed) => "fail",
        _ => "online",
    }
}

fn write_shard(row: &NodeRow, owned: &[SlotRange], made_of: &Made, reply: &mut Reply<'_>) {
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
    write_text(reply, "endpoint", addresses.client_host(made_of.endpoint));
    if let Some(hostname) = &addresses.hostname {
        write_text(reply, "hostname", hostname);
    }
    write_text(reply, "role", "master");
    reply.bulk(b"replication-offset");
    // Offsets are of a slot, not of a node.
    reply.int(0);
    write_text(reply, "health", health_of(row, made_of));
}

fn write_text(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// CLUSTER INFO. Epochs are versions of the table; the state is whether this node serves its
/// slots.
pub(super) fn info(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let topology = cx.node.topology();
    let table = &topology.table;
    let runs = runs_by_owner(table);
    let links = Links::of(cx.node, cx.now);
    let (mut ok, mut suspect, mut failed) = (0, 0, 0);
    for (owner, owned) in &runs {
        let slots: usize = owned.iter().map(|run| run.slots().count()).sum();
        match links.to(*owner).health {
            _ if *owner == topology.me => ok += slots,
            Health::Online => ok += slots,
            Health::Suspect => suspect += slots,
            Health::Failed => failed += slots,
        }
    }
    let is_ok = !runs.is_empty() && cx.node.is_seated() && !cx.node.is_down();
    let known = table.nodes().count() + usize::from(!knows_itself(&topology));
    let traffic = cx.node.orders.traffic();
    let fields = [
        ("cluster_state", if is_ok { "ok" } else { "fail" }.to_owned()),
        ("cluster_slots_assigned", (ok + suspect + failed).to_string()),
        ("cluster_slots_ok", ok.to_string()),
        ("cluster_slots_pfail", suspect.to_string()),
        ("cluster_slots_fail", failed.to_string()),
        ("cluster_known_nodes", known.to_string()),
        ("cluster_size", runs.len().to_string()),
        ("cluster_current_epoch", table.version().to_string()),
        ("cluster_my_epoch", my_epoch(&topology).to_string()),
        ("cluster_stats_messages_sent", traffic.sent.to_string()),
        ("cluster_stats_messages_received", traffic.received.to_string()),
        ("total_cluster_links_buffer_limit_exceeded", "0".to_owned()),
    ];
    let lines = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n"));
    cx.reply.verbatim("txt", lines.collect::<String>());
    Ok(())
}

/// The epoch of this node.
pub(super) fn my_epoch(topology: &Topology) -> u64 {
    let owned = topology.table.slots_of(topology.me);
    epoch_of(owned.ranges(), &topology.table)
}

/// CLUSTER MYID and MYSHARDID: a shard is a node, so it goes by the node's id.
pub(super) fn my_id(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.bulk(cx.node.topology().me.to_string().as_bytes());
    Ok(())
}

/// CLUSTER REPLICAS: no node is another's replica as a whole.
pub(super) fn replicas(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    check_known(cx, args.at(2))?;
    cx.reply.array(0);
    Ok(())
}

/// CLUSTER COUNT-FAILURE-REPORTS: nodes do not report each other, each goes by what it hears.
pub(super) fn count_failure_reports(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    check_known(cx, args.at(2))?;
    cx.reply.int(0);
    Ok(())
}

fn check_known(cx: &NodeCx<'_>, word: &[u8]) -> Outcome {
    known_node(&cx.node.topology(), word).map(|_| ()).ok_or_else(|| unknown_node(word))
}

/// The node of this id, tombstones left out.
pub(super) fn known_node(topology: &Topology, word: &[u8]) -> Option<NodeId> {
    let id: NodeId = std::str::from_utf8(word).ok()?.parse().ok()?;
    topology.table.nodes().find(|row| row.id == id).map(|row| row.id)
}

pub(super) fn unknown_node(word: &[u8]) -> CommandError {
    let word = String::from_utf8_lossy(word);
    CommandError::err(format_args!("Unknown node {word}"))
}
