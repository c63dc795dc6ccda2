//! One command as COMMAND INFO and COMMAND DOCS show it.

use super::key_use;
use crate::command::{Command, CommandId, Group, Handler, KeySpec, flag, registry};
use crate::resp::Reply;

/// An array (a set in RESP3) of status words.
pub(super) fn words<'w>(reply: &mut Reply<'_>, words: impl Iterator<Item = &'w str>) {
    let words: Vec<&str> = words.collect();
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word));
}

/// The ten parts of COMMAND INFO.
pub(super) fn info(reply: &mut Reply<'_>, id: CommandId) {
    let entry = registry().entry(id);
    let command = entry.command;
    let (first, last, step) = command.keys.legacy();
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.int(command.arity.into());
    words(reply, flags(command).into_iter());
    reply.int(first);
    reply.int(last);
    reply.int(step);
    let categories: Vec<String> = categories(id).iter().map(|c| format!("@{c}")).collect();
    words(reply, categories.iter().map(String::as_str));
    reply.array(0);
    key_specs(reply, &entry.full_name, command);
    reply.array(entry.subcommands.len());
    entry.subcommands.iter().for_each(|sub| info(reply, *sub));
}

/// The map of COMMAND DOCS.
pub(super) fn docs(reply: &mut Reply<'_>, id: CommandId) {
    let entry = registry().entry(id);
    let command = entry.command;
    let subcommands = &entry.subcommands;
    reply.map(4 + usize::from(!subcommands.is_empty()));
    let texts = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.as_str()),
        ("complexity", command.complexity),
    ];
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        for sub in subcommands {
            reply.bulk(registry().entry(*sub).full_name.as_bytes());
            docs(reply, *sub);
        }
    }
}

/// Node commands that read keys: their handler's type does not say so.
const READS_ALL_KEYS: [&str; 4] = ["dbsize", "keys", "randomkey", "scan"];

fn is_readonly(command: &Command) -> bool {
    matches!(command.handler, Handler::Read(_)) || READS_ALL_KEYS.contains(&command.name)
}

/// Flags in Redis's order.
pub(in crate::command) fn flags(command: &Command) -> Vec<&'static str> {
    let has = |bit: u32| command.flags & bit != 0;
    let blocking = matches!(command.handler, Handler::Block(_)) || command.name == "wait";
    let all = [
        (command.writes(), "write"),
        (is_readonly(command), "readonly"),
        (has(flag::DENYOOM), "denyoom"),
        (has(flag::ADMIN), "admin"),
        (has(flag::PUBSUB), "pubsub"),
        (has(flag::NOSCRIPT), "noscript"),
        (blocking, "blocking"),
        (has(flag::LOADING), "loading"),
        (has(flag::STALE), "stale"),
        (has(flag::SKIP_MONITOR), "skip_monitor"),
        (has(flag::SKIP_SLOWLOG), "skip_slowlog"),
        (has(flag::FAST), "fast"),
        (has(flag::NO_AUTH), "no_auth"),
        (has(flag::NO_ASYNC_LOADING), "no_async_loading"),
        (has(flag::NO_MULTI), "no_multi"),
        (command.keys.is_movable(), "movablekeys"),
        (has(flag::ALLOW_BUSY), "allow_busy"),
    ];
    all.into_iter().filter_map(|(is, word)| is.then_some(word)).collect()
}

/// ACL categories: the one of the group, and those that follow from the flags.
pub(super) fn categories(id: CommandId) -> Vec<&'static str> {
    let entry = registry().entry(id);
    let command = entry.command;
    let top = entry.parent.map_or(command.name, |parent| registry().entry(parent).command.name);
    let has = |bit: u32| command.flags & bit != 0;
    let group = match command.group {
        // A container does nothing itself.
        _ if matches!(command.handler, Handler::Container) => None,
        // As in Redis, these belong to the connection wherever the docs put them.
        _ if ["asking", "command", "readonly", "readwrite", "wait", "waitaof"].contains(&top) => {
            Some("connection")
        }
        Group::Generic => Some("keyspace"),
        Group::String => Some("string"),
        Group::List => Some("list"),
        Group::Set => Some("set"),
        Group::SortedSet => Some("sortedset"),
        Group::Hash => Some("hash"),
        Group::Bitmap => Some("bitmap"),
        Group::Transactions => Some("transaction"),
        Group::Scripting => Some("scripting"),
        Group::Connection => Some("connection"),
        Group::Server if READS_ALL_KEYS.contains(&top) => Some("keyspace"),
        Group::Server if ["flushall", "flushdb", "swapdb"].contains(&top) => Some("keyspace"),
        Group::Server | Group::Cluster => None,
    };
    let blocking = flags(command).contains(&"blocking");
    // As in Redis, these two are for administrators without being flagged so.
    let admin = has(flag::ADMIN) || ["lastsave", "role"].contains(&top);
    let dangerous = admin || has(flag::DANGEROUS);
    let derived = [
        (command.writes(), "write"),
        (is_readonly(command), "read"),
        (has(flag::PUBSUB), "pubsub"),
        (admin, "admin"),
        (has(flag::FAST), "fast"),
        (!has(flag::FAST), "slow"),
        (blocking, "blocking"),
        (dangerous, "dangerous"),
    ];
    let derived = derived.into_iter().filter_map(|(is, word)| is.then_some(word));
    group.into_iter().chain(derived).collect()
}

/// How a key specification begins and goes on.
enum Find {
    /// Keys from word `index` to `last` (relative, or negative from the end) in steps.
    Range { index: usize, last: i64, step: usize },
    /// Word `index` says how many keys follow it.
    Counted { index: usize },
    /// Only the command's grammar tells.
    Unknown,
}

fn key_specs(reply: &mut Reply<'_>, name: &str, command: &Command) {
    let uses = key_use::of(name, command, None);
    let mut specs: Vec<(Find, &str)> = Vec::new();
    match command.keys {
        KeySpec::None => {}
        KeySpec::Range { first, last, step } => {
            let relative = |from: usize| match i64::from(last) {
                last @ ..0 => last,
                last => last - from as i64,
            };
            match uses.others {
                Some(others) if last != first as i32 => {
                    specs.push((Find::Range { index: first, last: 0, step: 1 }, uses.first));
                    let index = first + step;
                    specs.push((Find::Range { index, last: relative(index), step }, others));
                }
                _ => {
                    let range = Find::Range { index: first, last: relative(first), step };
                    specs.push((range, uses.first));
                }
            }
        }
        KeySpec::Counted { at, dest } => {
            if let Some(index) = dest {
                specs.push((Find::Range { index, last: 0, step: 1 }, uses.first));
            }
            let use_of_rest = if dest.is_some() { uses.of_key(1) } else { uses.first };
            specs.push((Find::Counted { index: at }, use_of_rest));
        }
        KeySpec::Custom(_) => specs.push((Find::Unknown, uses.first)),
    }
    reply.set(specs.len());
    for (find, flags) in &specs {
        key_spec(reply, find, flags);
    }
}

fn key_spec(reply: &mut Reply<'_>, find: &Find, flags: &str) {
    reply.map(3);
    reply.bulk(b"flags");
    let incomplete = matches!(find, Find::Unknown).then_some("incomplete");
    words(reply, flags.split(' ').chain(incomplete));
    let (begin, index, keys, numbers): (_, Option<usize>, _, Vec<(&str, i64)>) = match *find {
        Find::Range { index, last, step } => {
            let numbers = vec![("lastkey", last), ("keystep", step as i64), ("limit", 0)];
            ("index", Some(index), "range", numbers)
        }
        Find::Counted { index } => {
            let numbers = vec![("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
            ("index", Some(index), "keynum", numbers)
        }
        Find::Unknown => ("unknown", None, "unknown", Vec::new()),
    };
    let begins: Vec<(&str, i64)> = index.map(|i| ("index", i as i64)).into_iter().collect();
    for (part, kind, numbers) in [("begin_search", begin, begins), ("find_keys", keys, numbers)] {
        reply.bulk(part.as_bytes());
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(numbers.len());
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.int(number);
        }
    }
}
