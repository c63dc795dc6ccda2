//! A node's metrics as one page, and whether it is ready.
//!
//! Not the metrics' names (`metrics/declared`) nor who asks (`io/metrics`).
//!
//! Invariant: every declared metric is told here, in the order of its declaration, by a node that
//! has something to tell of it; nothing here waits for a room.

use std::sync::atomic::{AtomicU64, Ordering};

use slots::{SLOTS, SlotId};

use crate::command::stats::CommandSums;
use crate::command::{NodeState, Now, registry};
use crate::metrics::{ClusterFigures, Exposition, MetricsSource, Number, declared as m};
use crate::slot::Ownership;

const SECOND_NS: f64 = 1e9;

/// Why the node does not serve its slots, if so: a sentence without its end.
pub fn unready(node: &NodeState, source: Option<&dyn MetricsSource>) -> Option<String> {
    if let Some(why) = source.and_then(MetricsSource::unready) {
        return Some(why);
    }
    if node.rooms.ownership(SlotId::FIRST).0 == Ownership::Unknown {
        return Some("no slot table yet".to_owned());
    }
    if node.is_down() {
        let unassigned = node.topology().table.unassigned().count();
        return Some(format!("slots without an owner: {unassigned}"));
    }
    None
}

/// The page `/metrics`.
pub fn scrape(node: &NodeState, now: Now, source: Option<&dyn MetricsSource>) -> String {
    let mut page = Exposition::new();
    process(&mut page, node, now, source);
    memory_and_keys(&mut page, node);
    disk(&mut page, node, now);
    clients(&mut page, node);
    commands(&mut page, node);
    table(&mut page, node);
    if let Some(source) = source {
        cluster(&mut page, &source.cluster());
    }
    page.into_text()
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn process(page: &mut Exposition, node: &NodeState, now: Now, source: Option<&dyn MetricsSource>) {
    page.family(m::BUILD).sample(&[env!("CARGO_PKG_VERSION")], 1_u64);
    let topology = node.topology();
    let name = topology.table.node(topology.me).map_or("", |row| row.name.as_str());
    page.family(m::NODE).sample(&[name, &topology.me.to_string()], 1_u64);
    page.one(m::READY, unready(node, source).is_none());
    let up_ns = now.mono_ns.saturating_sub(node.started.mono_ns);
    page.one(m::UPTIME, up_ns as f64 / SECOND_NS);
    page.one(m::START_TIME, node.started.unix_ms as f64 / 1000.0);
    let (user, system) = node.edges.cpu_seconds();
    page.one(m::CPU, user + system);
}

fn memory_and_keys(page: &mut Exposition, node: &NodeState) {
    let (memory, totals) = (node.edges.memory(), &node.rooms.totals);
    page.one(m::RESIDENT, memory.rss);
    page.one(m::ALLOCATED, memory.allocated);
    page.one(m::PEAK, load(&node.peak_memory).max(memory.allocated));
    page.one(m::MEMORY_LIMIT, node.config.live().maxmemory.load());
    page.one(m::DATASET, node.key_bytes());
    page.one(m::KEYS, node.key_count());
    page.one(m::EXPIRING, totals.expiring.load(Ordering::Relaxed).max(0) as u64);
    page.one(m::EXPIRED, load(&totals.expired));
    // No policy evicts yet.
    page.one(m::EVICTED, 0_u64);
    page.one(m::HITS, node.stats.sum(|worker| &worker.hits));
    page.one(m::MISSES, node.stats.sum(|worker| &worker.misses));
}

fn disk(page: &mut Exposition, node: &NodeState, now: Now) {
    let (figures, loading) = (node.disk.figures(), node.loading.figures(now));
    page.one(m::LOADING, loading.is_some());
    page.one(m::LOADED, loading.map_or(1.0, |loading| loading.percent() / 100.0));
    page.one(m::LOGGING, figures.log.is_some());
    let log = figures.log.unwrap_or_default();
    page.one(m::LOG_FULL, log.full.is_some());
    page.one(m::LOG_APPENDED, log.appended_bytes);
    page.one(m::LOG_SINCE, log.since_checkpoint_bytes);
    page.one(m::LOG_UNSYNCED, log.unsynced_bytes);
    page.one(m::LOG_SYNCS, log.syncs_total);
    page.one(m::LOG_SYNC_TIME, log.last_sync.as_secs_f64());
    page.one(m::CHECKPOINTS, figures.checkpoints_total);
    page.one(m::CHECKPOINT_FAILED, figures.checkpoint_failure.is_some());
    page.one(m::CHECKPOINT_TIME, figures.last_checkpoint_ms as f64 / 1000.0);
    page.one(m::CHECKPOINT_BYTES, figures.last_checkpoint_bytes);
    page.one(m::CHECKPOINT_HOLD, figures.longest_hold.as_secs_f64());
}

fn clients(page: &mut Exposition, node: &NodeState) {
    let (stats, all) = (&node.stats, node.clients.all());
    page.one(m::CLIENTS, all.len() as u64);
    page.one(m::BLOCKED, load(&stats.blocked_clients));
    page.one(m::CLIENT_MEMORY, all.iter().map(|client| client.bytes()).sum::<u64>());
    page.one(m::CONNECTIONS, load(&stats.connections));
    page.one(m::REJECTED_CONNECTIONS, load(&stats.rejected_connections));
    page.one(m::SLOW_READERS, load(&stats.slow_readers_cut));
    page.one(m::RECEIVED, stats.sum(|worker| &worker.input_bytes));
    page.one(m::SENT, stats.sum(|worker| &worker.output_bytes));
}

fn commands(page: &mut Exposition, node: &NodeState) {
    let sums: Vec<(&str, CommandSums)> = registry()
        .all()
        .map(|(id, entry)| (entry.full_name.as_str(), node.stats.command(id)))
        .collect();
    let mut tell = |metric, figure: fn(&CommandSums) -> Option<Number>| {
        let mut family = page.family(metric);
        for (name, sums) in &sums {
            if let Some(number) = figure(sums) {
                family.sample(&[name], number);
            }
        }
    };
    fn called(sums: &CommandSums) -> bool {
        sums.calls > 0
    }
    tell(m::COMMANDS, |sums| called(sums).then_some(sums.calls.into()));
    tell(m::COMMAND_TIME, |sums| called(sums).then_some((sums.usec as f64 / 1e6).into()));
    tell(m::COMMANDS_REJECTED, |sums| (sums.rejected > 0).then_some(sums.rejected.into()));
    tell(m::COMMANDS_FAILED, |sums| (sums.failed > 0).then_some(sums.failed.into()));
    let mut errors = page.family(m::ERRORS);
    for (prefix, count) in node.stats.errors() {
        errors.sample(&[&prefix], count);
    }
    page.one(m::MOVED, load(&node.stats.moved));
}

fn table(page: &mut Exposition, node: &NodeState) {
    let topology = node.topology();
    let table = &topology.table;
    let owned = SlotId::all().filter(|slot| table.slot(*slot).owner() == Some(topology.me));
    let unassigned = table.unassigned().count();
    debug_assert!(unassigned <= SLOTS);
    page.one(m::SLOTS_OWNED, owned.count() as u64);
    page.one(m::SLOTS_UNASSIGNED, unassigned as u64);
    page.one(m::TABLE_VERSION, table.version().0);
    page.one(m::TABLE_NODES, table.nodes().count() as u64);
}

fn cluster(page: &mut Exposition, figures: &ClusterFigures) {
    page.one(m::TERM, figures.term);
    page.one(m::HAS_LEADER, figures.has_leader);
    page.one(m::IS_LEADER, figures.is_leader);
    page.one(m::HAS_QUORUM, figures.has_quorum);
    page.one(m::VOTERS, figures.voters);
    page.one(m::LEARNERS, figures.learners);
    let mut silence = page.family(m::PEER_SILENCE);
    for peer in &figures.peers {
        if let Some(time) = peer.silence {
            silence.sample(&[&peer.name], time.as_secs_f64());
        }
    }
    let mut round_trip = page.family(m::PEER_ROUND_TRIP);
    for peer in &figures.peers {
        if let Some(time) = peer.round_trip {
            round_trip.sample(&[&peer.name], time.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests;
