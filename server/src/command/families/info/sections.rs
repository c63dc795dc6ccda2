//! What each section of INFO says.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::REDIS_VERSION;
use crate::command::disk::DiskFigures;
use crate::command::families::admin::last_save_ms;
use crate::command::stats::Counter;
use crate::command::{NodeState, Now, registry};

/// One `name:value` line.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = write!($text, $($format)*);
        $text.push_str("\r\n");
    }};
}

const SECOND_NS: u64 = 1_000_000_000;
const DAY_S: u64 = 86_400;
/// Clients refused most that are shown: the one to fix is among them, and the reply stays short.
const STALE_CLIENTS_SHOWN: usize = 8;

pub(super) fn server(text: &mut String, node: &NodeState, now: Now) {
    let up_s = now.mono_ns.saturating_sub(node.started.mono_ns) / SECOND_NS;
    let release = node.edges.read_file("/proc/sys/kernel/osrelease").unwrap_or_default();
    let hz = node.config.live().hz.load();
    line!(text, "redis_version:{REDIS_VERSION}");
    line!(text, "redis_git_sha1:00000000");
    line!(text, "redis_git_dirty:0");
    line!(text, "redis_build_id:slotd-{}", env!("CARGO_PKG_VERSION"));
    line!(text, "slotd_version:{}", env!("CARGO_PKG_VERSION"));
    line!(text, "redis_mode:cluster");
    line!(text, "os:Linux {} {}", release.trim(), std::env::consts::ARCH);
    line!(text, "arch_bits:{}", usize::BITS);
    line!(text, "monotonic_clock:POSIX clock_gettime");
    line!(text, "multiplexing_api:epoll");
    line!(text, "process_id:{}", std::process::id());
    line!(text, "process_supervised:no");
    line!(text, "run_id:{}", node.run_id);
    line!(text, "tcp_port:{}", node.config.text("port"));
    line!(text, "server_time_usec:{}", node.edges.unix_micros());
    line!(text, "uptime_in_seconds:{up_s}");
    line!(text, "uptime_in_days:{}", up_s / DAY_S);
    line!(text, "hz:{hz}");
    line!(text, "configured_hz:{hz}");
    line!(text, "lru_clock:{}", now.unix_ms / 1000 % (1 << 24));
    line!(text, "config_file:{}", node.config_file.as_deref().unwrap_or_default());
    line!(text, "io_threads_active:1");
}

pub(super) fn clients(text: &mut String, node: &NodeState, _: Now) {
    let all = node.clients.all();
    let load = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
    let most = |f: &dyn Fn(&crate::command::ClientShared) -> u64| {
        all.iter().map(|c| f(c)).max().unwrap_or(0)
    };
    line!(text, "connected_clients:{}", all.len());
    let links = node.orders.view().peers.iter().filter(|peer| peer.connected).count();
    line!(text, "cluster_connections:{links}");
    line!(text, "maxclients:{}", node.config.live().maxclients.load());
    line!(text, "client_recent_max_input_buffer:{}", most(&|c| load(&c.input_bytes)));
    line!(text, "client_recent_max_output_buffer:{}", most(&|c| load(&c.output_bytes)));
    line!(text, "blocked_clients:{}", load(&node.stats.blocked_clients));
    line!(text, "tracking_clients:0");
    line!(text, "clients_in_timeout_table:0");
}

/// `1.50K`, as Redis's human fields.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.2}{}", UNITS[unit])
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// Memory of the machine, bytes; 0 if it cannot be read.
fn system_memory(node: &NodeState) -> u64 {
    let text = node.edges.read_file("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Bytes that clients make the node hold.
pub(in crate::command::families) fn client_bytes(node: &NodeState) -> u64 {
    node.clients.all().iter().map(|client| client.bytes()).sum()
}

pub(super) fn memory(text: &mut String, node: &NodeState, _: Now) {
    let live = node.config.live();
    let memory = node.edges.memory();
    let used = memory.allocated;
    let peak = node.peak_memory.fetch_max(used, Ordering::Relaxed).max(used);
    let keys = node.key_bytes();
    let system = system_memory(node);
    let max = live.maxmemory.load();
    line!(text, "used_memory:{used}");
    line!(text, "used_memory_human:{}", human(used));
    line!(text, "used_memory_rss:{}", memory.rss);
    line!(text, "used_memory_rss_human:{}", human(memory.rss));
    line!(text, "used_memory_peak:{peak}");
    line!(text, "used_memory_peak_human:{}", human(peak));
    line!(text, "used_memory_peak_perc:{:.2}%", 100.0 * ratio(used, peak));
    line!(text, "used_memory_overhead:{}", used.saturating_sub(keys));
    line!(text, "used_memory_startup:{}", node.startup_memory);
    line!(text, "used_memory_dataset:{keys}");
    let since_start = used.saturating_sub(node.startup_memory);
    line!(text, "used_memory_dataset_perc:{:.2}%", 100.0 * ratio(keys, since_start).min(1.0));
    line!(text, "allocator_allocated:{used}");
    line!(text, "allocator_active:{}", memory.active);
    line!(text, "allocator_resident:{}", memory.resident);
    line!(text, "total_system_memory:{system}");
    line!(text, "total_system_memory_human:{}", human(system));
    line!(text, "maxmemory:{max}");
    line!(text, "maxmemory_human:{}", human(max));
    line!(text, "maxmemory_policy:{}", live.maxmemory_policy());
    line!(text, "allocator_frag_ratio:{:.2}", ratio(memory.active, used));
    line!(text, "allocator_frag_bytes:{}", memory.active.saturating_sub(used));
    line!(text, "allocator_rss_ratio:{:.2}", ratio(memory.resident, memory.active));
    line!(text, "allocator_rss_bytes:{}", memory.resident.saturating_sub(memory.active));
    line!(text, "rss_overhead_ratio:{:.2}", ratio(memory.rss, memory.resident));
    line!(text, "rss_overhead_bytes:{}", memory.rss as i64 - memory.resident as i64);
    line!(text, "mem_fragmentation_ratio:{:.2}", ratio(memory.rss, used));
    line!(text, "mem_fragmentation_bytes:{}", memory.rss as i64 - used as i64);
    line!(text, "mem_not_counted_for_evict:0");
    line!(text, "mem_replication_backlog:0");
    line!(text, "mem_clients_slaves:0");
    line!(text, "mem_clients_normal:{}", client_bytes(node));
    line!(text, "mem_cluster_links:0");
    line!(text, "mem_aof_buffer:0");
    line!(text, "mem_allocator:jemalloc-5.3.0");
    line!(text, "active_defrag_running:0");
    let (pending, freed) = node.freed_objects();
    line!(text, "lazyfree_pending_objects:{pending}");
    line!(text, "lazyfreed_objects:{freed}");
}

pub(super) fn disk(text: &mut String, node: &NodeState, now: Now) {
    let disk = node.disk.figures();
    let loading = node.loading.figures(now);
    line!(text, "loading:{}", u8::from(loading.is_some()));
    line!(text, "async_loading:0");
    if let Some(loading) = loading {
        line!(text, "loading_start_time:{}", loading.since_unix_ms / 1000);
        line!(text, "loading_total_bytes:{}", loading.total_bytes);
        line!(text, "loading_loaded_bytes:{}", loading.done_bytes);
        line!(text, "loading_loaded_perc:{:.2}", loading.percent());
        line!(text, "loading_eta_seconds:{}", loading.left.map_or(1, |left| left.as_secs()));
    }
    checkpoints(text, node, now, &disk);
    line!(text, "aof_enabled:{}", u8::from(disk.log.is_some()));
    let seconds_since = |since_ns: u64| now.mono_ns.saturating_sub(since_ns) / SECOND_NS;
    let current_s = disk.checkpoint_since_ns.map_or(-1, |since| seconds_since(since) as i64);
    line!(text, "aof_rewrite_in_progress:{}", u8::from(current_s >= 0));
    line!(text, "aof_rewrite_scheduled:{}", u8::from(disk.is_checkpoint_scheduled));
    line!(text, "aof_last_rewrite_time_sec:{}", whole_seconds(disk.last_checkpoint_took));
    line!(text, "aof_current_rewrite_time_sec:{current_s}");
    line!(text, "aof_last_bgrewrite_status:{}", status(disk.checkpoint_failure.is_none()));
    let full = disk.log.as_ref().and_then(|log| log.full.as_deref());
    line!(text, "aof_last_write_status:{}", status(full.is_none()));
    line!(text, "module_fork_in_progress:0");
    let Some(log) = &disk.log else { return };
    line!(text, "aof_current_size:{}", disk.last_checkpoint_bytes + log.since_checkpoint_bytes);
    line!(text, "aof_base_size:{}", disk.last_checkpoint_bytes);
    line!(text, "aof_pending_rewrite:0");
    line!(text, "aof_buffer_length:{}", log.waiting_bytes);
    line!(text, "aof_pending_bio_fsync:0");
    line!(text, "aof_delayed_fsync:{}", log.delayed_syncs_total);
    line!(text, "log_policy:{}", node.config.text("appendfsync"));
    line!(text, "log_appended_bytes:{}", log.appended_bytes);
    line!(text, "log_unsynced_bytes:{}", log.unsynced_bytes);
    line!(text, "log_syncs:{}", log.syncs_total);
    line!(text, "log_last_sync_usec:{}", log.last_sync.as_micros());
    line!(text, "log_full_reason:{}", full.unwrap_or_default());
}

/// What Redis calls saving; and what a start found.
fn checkpoints(text: &mut String, node: &NodeState, now: Now, disk: &DiskFigures) {
    let current_s = disk
        .checkpoint_since_ns
        .map_or(-1, |since| (now.mono_ns.saturating_sub(since) / SECOND_NS) as i64);
    let changes = node.changes().saturating_sub(disk.changes_at_checkpoint);
    line!(text, "rdb_changes_since_last_save:{changes}");
    line!(text, "rdb_bgsave_in_progress:{}", u8::from(current_s >= 0));
    line!(text, "rdb_last_save_time:{}", last_save_ms(node) / 1000);
    line!(text, "rdb_last_bgsave_status:{}", status(disk.checkpoint_failure.is_none()));
    line!(text, "rdb_last_bgsave_time_sec:{}", whole_seconds(disk.last_checkpoint_took));
    line!(text, "rdb_current_bgsave_time_sec:{current_s}");
    line!(text, "rdb_saves:{}", disk.checkpoints_total);
    line!(text, "rdb_last_load_keys_loaded:{}", disk.loaded.keys);
    line!(text, "rdb_last_load_keys_expired:0");
    line!(text, "load_bytes:{}", disk.loaded.bytes);
    line!(text, "load_op_groups:{}", disk.loaded.groups);
    line!(text, "load_usec:{}", disk.loaded.took.as_micros());
    line!(text, "checkpoint_bytes:{}", disk.last_checkpoint_bytes);
    line!(text, "checkpoint_keys:{}", disk.last_checkpoint_keys);
    line!(text, "checkpoint_longest_hold_us:{}", disk.longest_hold.as_micros());
    let why = disk.checkpoint_failure.as_deref().unwrap_or_default();
    line!(text, "checkpoint_last_failure:{why}");
}

fn status(is_ok: bool) -> &'static str {
    if is_ok { "ok" } else { "err" }
}

fn whole_seconds(time: Option<Duration>) -> i64 {
    time.map_or(-1, |time| time.as_secs() as i64)
}

pub(super) fn stats(text: &mut String, node: &NodeState, _: Now) {
    let stats = &node.stats;
    let load = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
    let sum = |counter: fn(&crate::command::stats::WorkerStats) -> &Counter| stats.sum(counter);
    let rates = stats.rates();
    line!(text, "total_connections_received:{}", load(&stats.connections));
    line!(text, "total_commands_processed:{}", sum(|w| &w.processed));
    line!(text, "instantaneous_ops_per_sec:{}", rates.commands_per_s);
    line!(text, "total_net_input_bytes:{}", sum(|w| &w.input_bytes));
    line!(text, "total_net_output_bytes:{}", sum(|w| &w.output_bytes));
    line!(text, "total_net_repl_input_bytes:0");
    line!(text, "total_net_repl_output_bytes:0");
    line!(text, "instantaneous_input_kbps:{:.2}", rates.input_bytes_per_s as f64 / 1024.0);
    line!(text, "instantaneous_output_kbps:{:.2}", rates.output_bytes_per_s as f64 / 1024.0);
    line!(text, "rejected_connections:{}", load(&stats.rejected_connections));
    line!(text, "slow_readers_cut:{}", load(&stats.slow_readers_cut));
    line!(text, "moved_replies:{}", load(&stats.moved));
    line!(text, "sync_full:0");
    line!(text, "sync_partial_ok:0");
    line!(text, "sync_partial_err:0");
    line!(text, "expired_keys:{}", load(&node.rooms.totals.expired));
    line!(text, "evicted_keys:0");
    line!(text, "evicted_clients:0");
    line!(text, "keyspace_hits:{}", sum(|w| &w.hits));
    line!(text, "keyspace_misses:{}", sum(|w| &w.misses));
    line!(text, "pubsub_channels:0");
    line!(text, "pubsub_patterns:0");
    line!(text, "pubsubshard_channels:0");
    line!(text, "latest_fork_usec:0");
    line!(text, "total_forks:0");
    line!(text, "migrate_cached_sockets:0");
    line!(text, "tracking_total_keys:0");
    line!(text, "tracking_total_items:0");
    line!(text, "tracking_total_prefixes:0");
    line!(text, "unexpected_error_replies:0");
    line!(text, "total_error_replies:{}", sum(|w| &w.errors));
    line!(text, "total_reads_processed:{}", sum(|w| &w.reads));
    line!(text, "total_writes_processed:{}", sum(|w| &w.writes));
}

pub(super) fn roles(text: &mut String, node: &NodeState, _: Now) {
    line!(text, "role:master");
    line!(text, "connected_slaves:0");
    line!(text, "master_failover_state:no-failover");
    line!(text, "master_replid:{}", node.run_id);
    line!(text, "master_replid2:{}", "0".repeat(40));
    line!(text, "master_repl_offset:0");
    line!(text, "second_repl_offset:-1");
    line!(text, "repl_backlog_active:0");
    line!(text, "repl_backlog_size:{}", node.config.number("repl-backlog-size"));
    line!(text, "repl_backlog_first_byte_offset:0");
    line!(text, "repl_backlog_histlen:0");
}

pub(super) fn cpu(text: &mut String, node: &NodeState, _: Now) {
    let (user, system) = node.edges.cpu_seconds();
    line!(text, "used_cpu_sys:{system:.6}");
    line!(text, "used_cpu_user:{user:.6}");
    line!(text, "used_cpu_sys_children:0.000000");
    line!(text, "used_cpu_user_children:0.000000");
}

/// Commands called, refused or failed since the last reset.
pub(super) fn calls(text: &mut String, node: &NodeState, _: Now) {
    for (id, entry) in registry().all() {
        let sums = node.stats.command(id);
        if sums.calls == 0 && sums.rejected == 0 && sums.failed == 0 {
            continue;
        }
        line!(
            text,
            "cmdstat_{}:calls={},usec={},usec_per_call={:.2},rejected_calls={},failed_calls={}",
            entry.full_name,
            sums.calls,
            sums.usec,
            ratio(sums.usec, sums.calls),
            sums.rejected,
            sums.failed
        );
    }
}

pub(super) fn errors(text: &mut String, node: &NodeState, _: Now) {
    for (prefix, count) in node.stats.errors() {
        line!(text, "errorstat_{prefix}:count={count}");
    }
}

/// The name stands last: it may hold commas.
pub(super) fn cluster(text: &mut String, node: &NodeState, _: Now) {
    line!(text, "cluster_enabled:1");
    line!(text, "cluster_stale_refusals:{}", node.stale.total());
    for (at, client) in node.stale.clients().iter().take(STALE_CLIENTS_SHOWN).enumerate() {
        line!(
            text,
            "cluster_stale_client_{at}:refusals={},host={},last_slot={},last_ms={},name={}",
            client.refusals,
            client.host,
            client.last_slot,
            client.last_ms,
            client.name
        );
    }
}

/// The average TTL is not kept: 0, which Redis says too before it has sampled one.
pub(super) fn keyspace(text: &mut String, node: &NodeState, _: Now) {
    let keys = node.key_count();
    if keys > 0 {
        let expires = node.rooms.totals.expiring.load(Ordering::Relaxed).max(0);
        line!(text, "db0:keys={keys},expires={expires},avg_ttl=0");
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn human_sizes_have_two_digits_and_a_unit() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1536, "1.50K"), (5 << 30, "5.00G")] {
            assert_eq!(human(bytes), text);
        }
    }
}
