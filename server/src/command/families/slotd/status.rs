//! The questions of SLOTD: STATUS, SLOTS, HISTORY, EXPLAIN, STALE.
//!
//! Invariant: a reply is made of one version of the table and one view of the cluster.

use std::collections::BTreeMap;

use slots::admin::{
    DiskStatus, Explained, HistoryRecord, LoadingStatus, LossRecord, NodeStatus, SlotStatus, Status,
};
use slots::{AckMode, Loss, LossCause, NodeId, NodeRow, NodeState, SlotId, SlotRanges, SlotTable};

use super::{reply_json, text};
use crate::command::families::cluster::links::{Health, Links};
use crate::command::{Args, CommandError, NodeCx, Outcome, Topology};
use crate::control::ledger::MAX_HISTORY_RECORDS;
use crate::control::orders::View;
use crate::slot::Ownership;
use crate::store::number::parse_i64;

/// Records that HISTORY shows unless told: some screens full.
const HISTORY_COUNT: usize = 100;

/// SLOTD STATUS.
pub(super) fn status(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let topology = cx.node.topology();
    let Topology { table, me, .. } = &topology;
    let view = cx.node.orders.view();
    let links = Links::of(cx.node, cx.now);
    let mut nodes: Vec<NodeStatus> =
        table.nodes().map(|row| node_status(cx, &topology, &view, &links, row)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let cluster = table.cluster();
    let status = Status {
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        me: me.to_string(),
        cluster: cluster.map(|cluster| cluster.id.to_string()).unwrap_or_default(),
        generation: cluster.map_or(0, |cluster| cluster.settings.generation),
        table_version: table.version().0,
        term: view.term,
        leader: view.leader.map(|id| id.to_string()),
        has_quorum: view.has_quorum,
        unassigned: table.unassigned().to_string(),
        default_rf: cluster.map_or(0, |cluster| cluster.settings.default_rf),
        nodes,
        losses: table.losses().map(|loss| loss_record(table, loss)).collect(),
    };
    reply_json(cx, &status)
}

fn node_status(
    cx: &NodeCx<'_>,
    topology: &Topology,
    view: &View,
    links: &Links,
    row: &NodeRow,
) -> NodeStatus {
    let Topology { table, me, .. } = topology;
    let (is_me, slots) = (row.id == *me, table.slots_of(row.id));
    let peer = view.peers.iter().find(|peer| peer.node == row.id);
    let mine = |value: u64| Some(value).filter(|_| is_me);
    NodeStatus {
        id: row.id.to_string(),
        name: row.name.clone(),
        client: row.addresses.client.to_string(),
        bus: row.addresses.bus.to_string(),
        hostname: row.addresses.hostname.clone(),
        state: match row.state {
            NodeState::Active => "active",
            NodeState::Draining => "draining",
            NodeState::Removed => "removed",
        }
        .to_owned(),
        role: role(view, row.id).to_owned(),
        health: if is_me { "myself" } else { health(links, row.id) }.to_owned(),
        boot: row.boot.0,
        table_version: mine(table.version().0).or(peer.and_then(|peer| peer.table_version)),
        server_version: match is_me {
            true => Some(env!("CARGO_PKG_VERSION").to_owned()),
            false => peer.and_then(|peer| peer.server_version.clone()),
        },
        labels: row.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        weight: row.weight,
        slot_count: slots.count() as u32,
        slots: slots.to_string(),
        keys: mine(cx.node.key_count()).or(peer.and_then(|peer| peer.keys)),
        disk: is_me.then(|| disk_status(cx)),
    }
}

fn disk_status(cx: &NodeCx<'_>) -> DiskStatus {
    let figures = cx.node.disk.figures();
    let loading = cx.node.loading.figures(cx.now).map(|loading| LoadingStatus {
        percent: loading.percent() as u32,
        left_s: loading.left.map(|left| left.as_secs()),
    });
    DiskStatus {
        durability: match cx.node.config.text("appendonly").as_str() {
            "yes" => cx.node.config.text("appendfsync"),
            _ => "memory".to_owned(),
        },
        loading,
        log_full: figures.log.and_then(|log| log.full),
        checkpoint_failure: figures.checkpoint_failure,
        checkpoint_ms: figures.last_checkpoint_ms,
    }
}

fn role(view: &View, node: NodeId) -> &'static str {
    if view.leader == Some(node) {
        "leader"
    } else if view.voters.contains(&node) {
        "voter"
    } else if view.learners.contains(&node) {
        "learner"
    } else {
        "outside"
    }
}

fn health(links: &Links, node: NodeId) -> &'static str {
    let link = links.to(node);
    match (link.is_connected, link.health) {
        (_, Health::Failed) | (false, Health::Suspect) => "unreachable",
        (true, Health::Suspect) | (false, Health::Online) => "suspect",
        (true, Health::Online) => "connected",
    }
}

fn loss_record(table: &SlotTable, loss: &Loss) -> LossRecord {
    let name = |id| name_of(table, id);
    let cause = match loss.cause {
        LossCause::MemoryLost { node, to } if node == to => {
            format!("{} started again with nothing and goes on without what it held", name(node))
        }
        LossCause::MemoryLost { node, to } => {
            format!("{} started again with nothing; {} serves what it has", name(node), name(to))
        }
        LossCause::TakenOver { from, to } => {
            format!("{} took over from {}, which acknowledged alone", name(to), name(from))
        }
        LossCause::Forced { from, to } => {
            format!("an operator gave {} what {} held, by force", name(to), name(from))
        }
        LossCause::Unassigned { from } => {
            format!("an operator took away from {} what it held", name(from))
        }
    };
    LossRecord { version: loss.at.0, slots: loss.slots.to_string(), cause }
}

/// A node's name; its id if it is not in the table any more.
fn name_of(table: &SlotTable, id: NodeId) -> String {
    table.node(id).map_or_else(|| id.to_string(), |row| row.name.clone())
}

/// SLOTD SLOTS.
pub(super) fn slots(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let table = cx.node.topology().table;
    let mut rows: Vec<(SlotId, SlotRanges)> = Vec::new();
    let mut places = BTreeMap::new();
    for slot in SlotId::all() {
        let row = table.slot(slot);
        // The same as the row before, as most are: no key is made.
        match rows.last_mut().filter(|(first, _)| table.slot(*first) == row) {
            Some((_, slots)) => slots.insert(slot),
            None => {
                let place = *places.entry(key_of(&table, slot)).or_insert(rows.len());
                match rows.get_mut(place) {
                    Some((_, slots)) => slots.insert(slot),
                    None => rows.push((slot, slot.into())),
                }
            }
        }
    }
    let rows: Vec<SlotStatus> =
        rows.into_iter().map(|(first, slots)| slot_status(&table, first, &slots)).collect();
    reply_json(cx, &rows)
}

/// What rows that are told together have in common.
fn key_of(table: &SlotTable, slot: SlotId) -> impl Ord + use<> {
    let row = table.slot(slot);
    let planned = row.planned_move().map(|planned| (planned.id, planned.to));
    let members = (Vec::from_iter(row.in_sync()), Vec::from_iter(row.followers()));
    let removed = row.last_removed().map(|removed| (removed.node, removed.cause, removed.at));
    (row.owner(), row.epoch(), row.ver(), members, removed, row.ack(), planned)
}

fn slot_status(table: &SlotTable, slot: SlotId, slots: &SlotRanges) -> SlotStatus {
    let row = table.slot(slot);
    let name = |id| name_of(table, id);
    let planned = row.planned_move();
    SlotStatus {
        slots: slots.to_string(),
        owner: row.owner().map(name),
        epoch: row.epoch().0,
        ver: row.ver().0,
        in_sync: row.in_sync().map(name).collect(),
        followers: row.followers().map(name).collect(),
        ack: match row.ack() {
            AckMode::InSync => "in-sync",
            AckMode::Local => "local",
        }
        .to_owned(),
        moving_to: planned.map(|planned| name(planned.to)),
        move_id: planned.map(|planned| planned.id.to_string()),
    }
}

/// SLOTD HISTORY.
pub(super) fn history(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let count = match args.len() {
        2 => HISTORY_COUNT,
        4 if args.at(2).eq_ignore_ascii_case(b"count") => {
            let count = parse_i64(args.at(3)).and_then(|n| usize::try_from(n).ok());
            let count = count.filter(|n| (1..=MAX_HISTORY_RECORDS).contains(n));
            count.ok_or_else(|| {
                CommandError::err(format_args!(
                    "COUNT is 1-{MAX_HISTORY_RECORDS}, got '{}'",
                    text(args.at(3))
                ))
            })?
        }
        _ => return Err(CommandError::Syntax),
    };
    let table = cx.node.topology().table;
    let records = cx.node.history().newest(count);
    let records: Vec<HistoryRecord> = records
        .into_iter()
        .map(|record| HistoryRecord {
            version: record.version.0,
            at_ms: record.at_ms,
            node: name_of(&table, record.by),
            actor: record.actor,
            change: record.change,
            detail: record.detail,
            refused: record.refused,
        })
        .collect();
    reply_json(cx, &records)
}

/// SLOTD EXPLAIN.
pub(super) fn explain(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let key = args.at(2);
    let slot = slots::slot_of(key);
    let table = cx.node.topology().table;
    let explained = Explained {
        hash_tag: text(slots::hash_tag(key)),
        slot: slot.number(),
        row: slot_status(&table, slot, &slot.into()),
        answer: answer(cx, slot),
    };
    reply_json(cx, &explained)
}

/// What this node answers for a slot's keys; nobody is counted as refused.
fn answer(cx: &NodeCx<'_>, slot: SlotId) -> String {
    let node = cx.node;
    if !node.is_seated() {
        return node.no_seat().text().to_owned();
    }
    match node.rooms.ownership(slot).0 {
        Ownership::Unassigned => slots::redirect::CLUSTERDOWN_UNBOUND.to_owned(),
        _ if node.is_down() => slots::redirect::CLUSTERDOWN.to_owned(),
        Ownership::Owned => "served here".to_owned(),
        Ownership::Sealed => "served here, and sealed just now: commands wait".to_owned(),
        Ownership::Foreign => node.redirect(slot).text().to_owned(),
        Ownership::Unknown => slots::redirect::CLUSTERDOWN.to_owned(),
    }
}

/// SLOTD STALE.
pub(super) fn stale(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let resets = match args.len() {
        2 => false,
        3 if args.at(2).eq_ignore_ascii_case(b"reset") => true,
        _ => return Err(CommandError::Syntax),
    };
    // What is forgotten is told a last time.
    let stale = cx.node.stale();
    if resets {
        cx.node.reset_stale();
    }
    reply_json(cx, &stale)
}
