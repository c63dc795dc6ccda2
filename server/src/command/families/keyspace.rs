//! Commands on all keys of the node: DBSIZE, FLUSHALL, KEYS, RANDOMKEY. SCAN, and the walk over
//! the rooms that KEYS shares with it, are in `scan`.
//!
//! Not one moment of the whole node: rooms are entered one by one, so keys that change while a
//! command runs may or may not count. Invariant: one room's lock at a time, each for a bounded
//! while.

use slots::{SLOTS, SlotId};

use crate::command::flag::{ALL_KEYS, DANGEROUS, FAST, LONG, WRITES_NODE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome};
use crate::slot::{Op, Patience};

mod scan;

const NODE: Command = Command { group: Group::Generic, flags: ALL_KEYS, ..Command::BASE };
const FLUSH: Command = Command {
    arity: -1,
    handler: Handler::Node(flush),
    flags: LONG | WRITES_NODE | DANGEROUS | ALL_KEYS,
    group: Group::Server,
    complexity: "O(N) where N is the total number of keys in all databases",
    ..Command::BASE
};

/// DBSIZE and its kin.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "dbsize",
        arity: 1,
        handler: Handler::Node(dbsize),
        flags: FAST | ALL_KEYS,
        group: Group::Server,
        summary: "Returns the number of keys in the database.",
        ..NODE
    },
    Command { name: "flushall", summary: "Removes all keys from all databases.", ..FLUSH },
    Command {
        name: "flushdb",
        summary: "Remove all keys from the current database.",
        complexity: "O(N) where N is the number of keys in the selected database",
        ..FLUSH
    },
    Command {
        name: "keys",
        arity: 2,
        handler: Handler::Node(scan::keys),
        flags: LONG | DANGEROUS | ALL_KEYS,
        summary: "Returns all key names that match a pattern.",
        complexity: "O(N) with N being the number of keys in the database, under the assumption \
            that the key names in the database and the given pattern have limited length.",
        ..NODE
    },
    Command {
        name: "randomkey",
        arity: 1,
        handler: Handler::Node(randomkey),
        summary: "Returns a random key name from the database.",
        ..NODE
    },
    Command {
        name: "scan",
        arity: -2,
        handler: Handler::Node(scan::scan),
        since: "2.8.0",
        summary: "Iterates over the key names in the database.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command \
            calls for the cursor to return back to 0. N is the number of elements inside the \
            collection.",
        ..NODE
    },
];

/// DBSIZE
fn dbsize(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let mut held = 0;
    if let Some(room) = cx.held.as_deref_mut() {
        // What the transaction has done so far is not in the sum yet.
        room.lend(&mut |owned| held = owned.keys_unreported());
    }
    cx.reply.int(cx.node.key_count() as i64 + held);
    Ok(())
}

/// FLUSHALL [ASYNC | SYNC]; FLUSHDB is the same, there is one database. What the slots held is
/// freed in the background in any case.
fn flush(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let known = args.opt(1).is_none() || args.is(1, "ASYNC") || args.is(1, "SYNC");
    if args.len() > 2 || !known {
        return Err(CommandError::Syntax);
    }
    match cx.held.as_deref_mut() {
        None => cx.node.flush_all(cx.now, None)?,
        Some(room) => {
            room.lend(&mut |owned| {
                if !owned.keys().is_empty() {
                    owned.apply(Op::Flush);
                }
            });
            cx.flush_later = true;
        }
    }
    cx.reply.ok();
    Ok(())
}

/// Random slots tried before the ones with keys are counted: enough when one slot in ten has
/// keys.
const RANDOM_SLOTS: usize = 64;
/// Slots that compete by their number of keys.
const RANDOM_ROUNDS: usize = 8;

/// RANDOMKEY: several slots with keys are drawn evenly, then one of them by its number of keys,
/// then a key evenly. Keys of fuller slots are drawn a little too rarely when the slots are very
/// uneven; no key is out of reach.
fn randomkey(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let mut full: Option<Vec<SlotId>> = None;
    let mut chosen: Option<Vec<u8>> = None;
    let mut keys = 0;
    for _ in 0..RANDOM_ROUNDS {
        let Some(slot) = random_slot(cx, &mut full) else { break };
        draw(cx, slot, &mut keys, &mut chosen)?;
    }
    if chosen.is_none() {
        // Slots full of expired keys, perhaps: the others are asked in turn.
        for slot in full.unwrap_or_else(|| slots_with_keys(cx)) {
            draw(cx, slot, &mut keys, &mut chosen)?;
            if chosen.is_some() {
                break;
            }
        }
    }
    match chosen {
        Some(key) => cx.reply.bulk(&key),
        None => cx.reply.null(),
    }
    Ok(())
}

/// A slot with keys, each with the same chance. `full` keeps the list once it had to be made.
fn random_slot(cx: &mut NodeCx<'_>, full: &mut Option<Vec<SlotId>>) -> Option<SlotId> {
    if full.is_none() {
        for _ in 0..RANDOM_SLOTS {
            let slot = SlotId::new(cx.rng.below(SLOTS) as u16)?;
            if !cx.looks_empty(slot) {
                return Some(slot);
            }
        }
    }
    let full = full.get_or_insert_with(|| slots_with_keys(cx));
    if full.is_empty() { None } else { Some(full[cx.rng.below(full.len())]) }
}

fn slots_with_keys(cx: &NodeCx<'_>) -> Vec<SlotId> {
    SlotId::all().filter(|slot| !cx.looks_empty(*slot)).collect()
}

/// Lets a slot compete: it wins by its share of all keys seen so far.
fn draw(
    cx: &mut NodeCx<'_>,
    slot: SlotId,
    keys: &mut usize,
    chosen: &mut Option<Vec<u8>>,
) -> Outcome {
    let mut rng = cx.rng.clone();
    let drawn = cx.enter(slot, Patience::Spin, |owned| {
        *keys += owned.keys().len();
        if chosen.is_some() && rng.below(*keys) >= owned.keys().len() {
            return;
        }
        let key = owned.keys().random(&mut || rng.next_u64()).map(|found| found.key().to_vec());
        *chosen = key.or(chosen.take());
    });
    *cx.rng = rng;
    drawn.map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::testing::{TestNode, run_script};

    #[test]
    fn commands_on_the_whole_node() {
        run_script("keyspace.txt");
    }

    #[test]
    fn flushes_inside_transactions_and_under_watch() {
        run_script("keyspace.flush.txt");
    }

    #[test]
    fn random_keys_reach_every_key() {
        let mut node = TestNode::new(&[]);
        for i in 0..20 {
            node.call(1, &[b"SET", format!("k{i}").as_bytes(), b"v"]);
            node.call(1, &[b"SET", format!("{{tag}}{i}").as_bytes(), b"v"]);
        }
        let seen: BTreeSet<Vec<u8>> = (0..2000).map(|_| node.call(1, &[b"RANDOMKEY"])).collect();
        assert_eq!(seen.len(), 40);
    }
}
