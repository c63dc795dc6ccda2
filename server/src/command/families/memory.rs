//! MEMORY: what keys and the node cost.

use crate::command::families::help;
use crate::command::flag::LONG;
use crate::command::{Args, Command, CommandError, Cx, Group, Handler, KeySpec, NodeCx, Outcome};
use crate::slot::Keys;
use crate::store::number::parse_i64;

/// MEMORY.
pub const COMMANDS: &[Command] = &[Command {
    name: "memory",
    arity: -2,
    handler: Handler::Container,
    group: Group::Server,
    since: "4.0.0",
    summary: "A container for memory diagnostics commands.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..Command::BASE
}];

const SUB: Command = Command { group: Group::Server, since: "4.0.0", ..Command::BASE };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "doctor",
        arity: 2,
        handler: Handler::Node(doctor),
        summary: "Outputs a memory problems report.",
        ..SUB
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(print_help),
        flags: crate::command::flag::LOADING | crate::command::flag::STALE,
        summary: "Returns helpful text about the different subcommands.",
        ..SUB
    },
    Command {
        name: "malloc-stats",
        arity: 2,
        handler: Handler::Node(malloc_stats),
        summary: "Returns the allocator statistics.",
        complexity: "Depends on how much memory is allocated, could be slow",
        ..SUB
    },
    Command {
        name: "purge",
        arity: 2,
        handler: Handler::Node(purge),
        flags: LONG,
        summary: "Asks the allocator to release memory.",
        complexity: "Depends on how much memory is allocated, could be slow",
        ..SUB
    },
    Command {
        name: "stats",
        arity: 2,
        handler: Handler::Node(stats),
        summary: "Returns details about memory usage.",
        ..SUB
    },
    Command {
        name: "usage",
        arity: -3,
        handler: Handler::Read(usage),
        keys: KeySpec::Range { first: 2, last: 2, step: 1 },
        summary: "Estimates the memory usage of a key.",
        complexity: "O(N) where N is the number of samples.",
        ..SUB
    },
];

/// MEMORY USAGE key [SAMPLES n]. Sizes are kept, not sampled: the number is checked and changes
/// nothing.
fn usage(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let mut at = 3;
    while at < args.len() {
        let (true, Some(samples)) = (args.is(at, "SAMPLES"), args.opt(at + 1)) else {
            return Err(CommandError::Syntax);
        };
        match parse_i64(samples) {
            None => return Err(CommandError::NotInteger),
            Some(..0) => return Err(CommandError::Syntax),
            Some(_) => at += 2,
        }
    }
    match keys.peek(args.key(2)) {
        Some(found) => cx.reply.int(found.bytes() as i64),
        None => cx.reply.null(),
    }
    Ok(())
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// MEMORY STATS: the fields of Redis's that mean something here.
fn stats(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let memory = cx.node.edges.memory();
    let used = memory.allocated;
    let dataset = cx.node.key_bytes();
    let keys = cx.node.key_count();
    let peak = cx.node.peak_memory.load(std::sync::atomic::Ordering::Relaxed).max(used);
    let startup = cx.node.startup_memory;
    let clients = super::info::client_bytes(cx.node);
    let counts = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", startup),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", clients),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("overhead.total", used.saturating_sub(dataset)),
        ("keys.count", keys),
        ("keys.bytes-per-key", dataset.checked_div(keys).unwrap_or(0)),
        ("dataset.bytes", dataset),
        ("allocator.allocated", used),
        ("allocator.active", memory.active),
        ("allocator.resident", memory.resident),
    ];
    let ratios = [
        ("dataset.percentage", 100.0 * ratio(dataset, used.saturating_sub(startup)).min(1.0)),
        ("peak.percentage", 100.0 * ratio(used, peak)),
        ("allocator-fragmentation.ratio", ratio(memory.active, used)),
        ("allocator-rss.ratio", ratio(memory.resident, memory.active)),
        ("rss-overhead.ratio", ratio(memory.rss, memory.resident)),
        ("fragmentation", ratio(memory.rss, used)),
    ];
    cx.reply.map(counts.len() + ratios.len());
    for (name, count) in counts {
        cx.reply.bulk(name.as_bytes());
        cx.reply.int(count as i64);
    }
    for (name, ratio) in ratios {
        cx.reply.bulk(name.as_bytes());
        cx.reply.double(ratio);
    }
    Ok(())
}

/// Below this nothing that MEMORY DOCTOR looks at means anything (as in Redis), bytes.
const TOO_LITTLE_BYTES: u64 = 5 * 1024 * 1024;

fn doctor(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let memory = cx.node.edges.memory();
    let peak = cx.node.peak_memory.load(std::sync::atomic::Ordering::Relaxed);
    let mut found = Vec::new();
    if memory.allocated < TOO_LITTLE_BYTES {
        found.push("The node uses too little memory for a judgement.");
    } else {
        if ratio(peak, memory.allocated) > 1.5 {
            found.push(
                "Peak: the node once used over 150 % of what it uses now; the allocator gives \
                 free pages back within seconds.",
            );
        }
        if ratio(memory.active, memory.allocated) > 1.4 {
            found.push("Fragmentation: over 140 % of the used bytes lie in pages in use.");
        }
        if ratio(memory.rss, memory.resident) > 1.4 {
            found.push("Overhead: the process holds over 140 % of what its allocator holds.");
        }
    }
    if found.is_empty() {
        found.push("No memory problem was found.");
    }
    cx.reply.verbatim("txt", found.join("\n"));
    Ok(())
}

fn malloc_stats(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let m = cx.node.edges.memory();
    let text = format!(
        "allocated: {}\nactive: {}\nresident: {}\nresident set of the process: {}\n",
        m.allocated, m.active, m.resident, m.rss
    );
    cx.reply.verbatim("txt", text);
    Ok(())
}

fn purge(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.node.edges.purge_memory();
    cx.reply.ok();
    Ok(())
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "MEMORY", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "DOCTOR",
    "    What looks unhealthy.",
    "MALLOC-STATS",
    "    The allocator's figures.",
    "PURGE",
    "    Give free pages back.",
    "STATS",
    "    Where the memory is.",
    "USAGE <key> [SAMPLES <count>]",
    "    Bytes of a key and its value.",
];

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn a_key_tells_what_it_costs() {
        run_script("memory.txt");
    }
}
