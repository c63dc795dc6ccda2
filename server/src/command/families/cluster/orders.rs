//! The CLUSTER verbs that change who is in the cluster, and those of Redis's own ways of changing
//! it that mean something else here or nothing: MEET, FORGET, RESET, SETSLOT and their kin.
//!
//! Not the carrying out (`control`). Invariant: arguments are checked as Redis does, with its
//! texts; what is refused is refused at the first step and leaves nothing half done.

use slots::{Endpoint, SlotId, SlotTable};

use super::change::parse_slot;
use super::topology::{known_node, my_epoch, unknown_node};
use crate::command::waiting::{self, MEET_LIMIT, ORDER_LIMIT};
use crate::command::{Args, CommandError, NodeCx, Outcome, Topology};
use crate::control::orders::{Order, OrderDone, OrderError};
use crate::store::number::parse_i64;

/// The port for nodes is the one for clients plus this, where it is not told (Redis).
const BUS_PORT_OFFSET: i64 = 10_000;

/// CLUSTER MEET. Refusals that come within `MEET_LIMIT` are the answer; after it the order goes on
/// and its end is logged, as Redis knows no answer to it either.
pub(super) fn meet(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let bus = bus_endpoint(args)?;
    if let Some(outcome) = waiting::order(cx, Order::Meet { bus }, MEET_LIMIT)? {
        outcome.map_err(refused)?;
    }
    cx.reply.ok();
    Ok(())
}

fn bus_endpoint(args: &Args<'_>) -> Result<Endpoint, CommandError> {
    let shown = |at: usize| String::from_utf8_lossy(args.at(at));
    if args.len() > 5 {
        return Err(too_many(args));
    }
    let port = parse_i64(args.at(3)).ok_or_else(|| {
        CommandError::err(format_args!("Invalid TCP base port specified: {}", shown(3)))
    })?;
    let bus_port = match args.len() {
        5 => parse_i64(args.at(4)).ok_or_else(|| {
            CommandError::err(format_args!("Invalid TCP bus port specified: {}", shown(4)))
        })?,
        _ => port.saturating_add(BUS_PORT_OFFSET),
    };
    // Names are as good as addresses; an empty host would be this very node's.
    let host = shown(2);
    let endpoint = format!("{host}:{bus_port}").parse::<Endpoint>().ok();
    let is_port = |port: i64| (1..=65_535).contains(&port);
    endpoint.filter(|to| !to.host.is_empty() && is_port(port)).ok_or_else(|| {
        CommandError::err(format_args!("Invalid node address specified: {host}:{}", shown(3)))
    })
}

/// CLUSTER FORGET. A node that was removed before is forgotten already.
pub(super) fn forget(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    waiting::catch_up(cx)?;
    let topology = cx.node.topology();
    let word = args.at(2);
    match known_node(&topology, word) {
        Some(node) if node == topology.me => {
            let text = "ERR I tried hard but I can't forget myself...";
            return Err(CommandError::Static(text));
        }
        Some(node) => {
            carry_out(cx, Order::Remove { node })?;
        }
        None if is_tombstone(&topology.table, word) => {}
        None => return Err(unknown_node(word)),
    }
    cx.reply.ok();
    Ok(())
}

fn is_tombstone(table: &SlotTable, word: &[u8]) -> bool {
    let id = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    id.is_some_and(|id| table.tombstones().any(|row| row.id == id))
}

/// CLUSTER RESET.
pub(super) fn reset(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let is = |word: &str| args.len() == 3 && args.at(2).eq_ignore_ascii_case(word.as_bytes());
    let hard = match args.len() {
        2 => false,
        4.. => return Err(too_many(args)),
        _ if is("hard") => true,
        _ if is("soft") => false,
        _ => return Err(CommandError::Syntax),
    };
    if cx.node.key_count() != 0 {
        let text = "ERR CLUSTER RESET can't be called with master nodes containing keys";
        return Err(CommandError::Static(text));
    }
    carry_out(cx, Order::Reset { hard })?;
    cx.reply.ok();
    Ok(())
}

fn too_many(args: &Args<'_>) -> CommandError {
    CommandError::subcommand("CLUSTER", args.at(1))
}

fn carry_out(cx: &NodeCx<'_>, order: Order) -> Result<OrderDone, CommandError> {
    let outcome = waiting::order(cx, order, ORDER_LIMIT)?;
    outcome.unwrap_or(Err(OrderError::Unknown)).map_err(refused)
}

fn refused(error: OrderError) -> CommandError {
    match error {
        OrderError::Refused(why) => CommandError::err(format_args!("refused: {why}")),
        OrderError::NoQuorum => CommandError::Static(
            "CLUSTERDOWN no quorum: a majority of the voters must be back first; the order may be \
             given again",
        ),
        OrderError::Unknown => CommandError::Static(
            "ERR it is not known yet what became of the order: look at CLUSTER NODES; it may be \
             given again",
        ),
    }
}

/// CLUSTER REPLICATE.
pub(super) fn replicate(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let topology = cx.node.topology();
    let node = known_node(&topology, args.at(2)).ok_or_else(|| unknown_node(args.at(2)))?;
    if node == topology.me {
        return Err(CommandError::Static("ERR Can't replicate myself"));
    }
    Err(CommandError::Static(
        "ERR CLUSTER REPLICATE is not supported yet: nodes of this version follow no other; the \
         node stays a master",
    ))
}

/// CLUSTER FAILOVER. Every node is a master.
pub(super) fn fail_over(_: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let known = ["force", "takeover"]
        .iter()
        .any(|word| args.len() == 3 && args.at(2).eq_ignore_ascii_case(word.as_bytes()));
    if args.len() > 3 {
        return Err(too_many(args));
    }
    if args.len() == 3 && !known {
        return Err(CommandError::Syntax);
    }
    Err(CommandError::Static("ERR You should send CLUSTER FAILOVER to a replica"))
}

/// CLUSTER SET-CONFIG-EPOCH. Epochs are versions of the table and cannot be set; a node alone
/// says OK, as whoever makes a cluster of it only wants them to differ, which they do.
pub(super) fn set_config_epoch(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let epoch = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    if epoch < 0 {
        return Err(CommandError::err(format_args!("Invalid config epoch specified: {epoch}")));
    }
    if cx.node.topology().table.nodes().count() > 1 {
        return Err(CommandError::Static(
            "ERR The user can assign a config epoch only when the node does not know any other \
             node.",
        ));
    }
    cx.reply.ok();
    Ok(())
}

/// CLUSTER BUMPEPOCH: nothing to gain by it.
pub(super) fn bump_epoch(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    let epoch = my_epoch(&cx.node.topology());
    cx.reply.simple(format!("STILL {epoch}"));
    Ok(())
}

/// CLUSTER SAVECONFIG: what was agreed is kept already.
pub(super) fn save_config(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.ok();
    Ok(())
}

/// CLUSTER SETSLOT. Slots are not opened, moved and closed by hand: all is refused, but STABLE,
/// which finds no slot open.
pub(super) fn set_slot(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let topology = cx.node.topology();
    let slot = parse_slot(args.at(2))?;
    let is = |word: &str, len: usize| {
        args.len() == len && args.at(3).eq_ignore_ascii_case(word.as_bytes())
    };
    let form = if is("migrating", 5) {
        check_migrating(&topology, slot, args.at(4))?;
        "MIGRATING"
    } else if is("importing", 5) {
        check_importing(&topology, slot, args.at(4))?;
        "IMPORTING"
    } else if is("node", 5) {
        known_node(&topology, args.at(4)).ok_or_else(|| unknown_node(args.at(4)))?;
        "NODE"
    } else if is("stable", 4) {
        cx.reply.ok();
        return Ok(());
    } else {
        return Err(CommandError::Static(
            "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
        ));
    };
    Err(CommandError::err(format_args!(
        "CLUSTER SETSLOT {form} is refused and slot {slot} is left as it was: slots move whole, by \
         `slotctl move`, which comes with a later version"
    )))
}

fn check_migrating(topology: &Topology, slot: SlotId, to: &[u8]) -> Outcome {
    if topology.table.owner(slot) != Some(topology.me) {
        return Err(CommandError::err(format_args!("I'm not the owner of hash slot {slot}")));
    }
    match known_node(topology, to) {
        None => Err(stranger(to)),
        Some(to) if to == topology.me => {
            Err(CommandError::err(format_args!("I'm already the owner of hash slot {slot}")))
        }
        Some(_) => Ok(()),
    }
}

fn check_importing(topology: &Topology, slot: SlotId, from: &[u8]) -> Outcome {
    if topology.table.owner(slot) == Some(topology.me) {
        return Err(CommandError::err(format_args!("I'm already the owner of hash slot {slot}")));
    }
    known_node(topology, from).map(|_| ()).ok_or_else(|| stranger(from))
}

fn stranger(word: &[u8]) -> CommandError {
    let word = String::from_utf8_lossy(word);
    CommandError::err(format_args!("I don't know about node {word}"))
}
