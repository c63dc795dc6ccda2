//! The orders of SLOTD: NODE, ASSIGN, RECOVER.
//!
//! Invariant: an order that was done says what; one that was not says why, and what to do next.

use slots::admin::{Done, RefusedSlots};
use slots::{ChangeRefused, ClusterId, Endpoint, NodeRow, SlotRanges, TableChange, TableVersion};

use super::{named_node, reply_json, text};
use crate::command::families::cluster::too_long;
use crate::command::waiting::{self, ORDER_LIMIT};
use crate::command::{Args, CommandError, NodeCx, Outcome};
use crate::control::ProposeError;
use crate::control::orders::{Order, OrderError};
use crate::store::number::parse_i64;

/// The port for nodes is the one for clients plus this, where it is not told.
const BUS_PORT_OFFSET: u16 = 10_000;

/// SLOTD NODE: its verbs.
pub(super) fn node(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let is = |verb: &str, len: std::ops::RangeInclusive<usize>| {
        args.at(2).eq_ignore_ascii_case(verb.as_bytes()) && len.contains(&args.len())
    };
    if is("add", 4..=4) {
        return carry_out(cx, Order::Meet { bus: bus_endpoint(args.at(3))? });
    }
    waiting::catch_up(cx)?;
    let topology = cx.node.topology();
    let named = |at: usize| named_node(&topology, args.at(at));
    if is("remove", 4..=4) {
        return carry_out(cx, Order::Remove { node: named(3)?.id });
    }
    if is("lost", 4..=5) {
        let node = named(3)?.id;
        let accept_loss = args.len() == 5;
        if accept_loss && !args.at(4).eq_ignore_ascii_case(b"accept-loss") {
            return Err(CommandError::Syntax);
        }
        return carry_out(cx, Order::Lost { node, accept_loss });
    }
    if is("replace-voter", 4..=5) {
        let old = named(3)?.id;
        let new = if args.len() == 5 { Some(named(4)?.id) } else { None };
        return carry_out(cx, Order::ReplaceVoter { old, new });
    }
    let known = ["rename", "label", "drain", "undrain", "weight"].iter();
    if !known.clone().any(|verb| is(verb, 4..=6)) {
        return Err(CommandError::Static(
            "ERR unknown verb of SLOTD NODE or wrong number of arguments. Try SLOTD HELP.",
        ));
    }
    let row = named(3)?;
    let (change, done) = change_of(row, args)?;
    change_row(cx, row, change, done)
}

/// `host:port` of a node's clients, `@` and the port for nodes behind it if it is not the usual.
fn bus_endpoint(word: &[u8]) -> Result<Endpoint, CommandError> {
    let word = text(word);
    let refusal = || {
        CommandError::err(format_args!(
            "a node is named HOST:PORT or HOST:PORT@BUSPORT here, got '{word}'"
        ))
    };
    let (client, bus_port) = match word.split_once('@') {
        Some((client, port)) => (client, Some(port)),
        None => (word.as_str(), None),
    };
    let client: Endpoint = client.parse().map_err(|_| refusal())?;
    let bus_port = match bus_port {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None => client.port.checked_add(BUS_PORT_OFFSET),
    };
    let bus_port = bus_port.filter(|_| !client.host.is_empty()).ok_or_else(refusal)?;
    Ok(Endpoint::new(client.host, bus_port))
}

/// A change of a node's row, and what it did in words.
fn change_of(row: &NodeRow, args: &Args<'_>) -> Result<(TableChange, String), CommandError> {
    let (node, name) = (row.id, &row.name);
    let verb = text(args.at(2)).to_ascii_lowercase();
    Ok(match (verb.as_str(), args.len()) {
        ("rename", 5) => {
            let new = text(args.at(4));
            let done = format!("{name} is called {new} now");
            (TableChange::Rename { node, name: new }, done)
        }
        ("label", 5) => {
            let key = text(args.at(4));
            let done = format!("{name} has no label {key}");
            (TableChange::Label { node, key, value: None }, done)
        }
        ("label", 6) => {
            let (key, value) = (text(args.at(4)), text(args.at(5)));
            let done = format!("{name} has the label {key}={value}");
            (TableChange::Label { node, key, value: Some(value) }, done)
        }
        ("drain", 4) => {
            (TableChange::Drain { node }, format!("{name} gets nothing new; it keeps what it has"))
        }
        ("undrain", 4) => (TableChange::Undrain { node }, format!("{name} is active")),
        ("weight", 5) => {
            let weight = parse_i64(args.at(4)).and_then(|n| u32::try_from(n).ok());
            let weight = weight.ok_or(CommandError::NotInteger)?;
            (TableChange::Weight { node, weight }, format!("{name} has the weight {weight}"))
        }
        _ => {
            let name = format!("slotd|node {verb}");
            return Err(CommandError::arity(&name));
        }
    })
}

fn change_row(cx: &mut NodeCx<'_>, row: &NodeRow, change: TableChange, text: String) -> Outcome {
    let verdicts = waiting::propose(cx, change)?.map_err(not_proposed)?;
    verdicts.whole().map_err(refused)?;
    let table = cx.node.topology().table;
    let done = Done {
        table_version: table.version().0,
        changed: table.node(row.id) != Some(row),
        text,
        refused: Vec::new(),
    };
    reply_json(cx, &done)
}

/// SLOTD ASSIGN.
pub(super) fn assign(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let slots: SlotRanges = text(args.at(2)).parse().map_err(CommandError::err)?;
    waiting::catch_up(cx)?;
    let topology = cx.node.topology();
    let row = named_node(&topology, args.at(3))?;
    if !args.at(4).eq_ignore_ascii_case(b"seen") {
        return Err(CommandError::Syntax);
    }
    let seen = parse_i64(args.at(5)).and_then(|n| u64::try_from(n).ok());
    let seen = TableVersion(seen.ok_or(CommandError::NotInteger)?);
    let change = TableChange::AssignSlots { slots, to: row.id, seen };
    let verdicts = waiting::propose(cx, change)?.map_err(not_proposed)?;
    verdicts.whole().map_err(refused)?;
    let accepted = verdicts.accepted();
    let text = match accepted.is_empty() {
        true => "no slot was assigned".to_owned(),
        false => format!("{} owns {accepted}", row.name),
    };
    let refused = verdicts.refused().map(|(refusal, slots)| RefusedSlots {
        slots: slots.to_string(),
        why: refusal.to_string(),
    });
    let done = Done {
        table_version: cx.node.topology().table.version().0,
        changed: !accepted.is_empty(),
        text,
        refused: refused.collect(),
    };
    reply_json(cx, &done)
}

/// SLOTD RECOVER. The id is asked for so that nobody gives up a cluster by a slip.
pub(super) fn recover(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let given: ClusterId = text(args.at(2)).parse().map_err(CommandError::err)?;
    let table = cx.node.topology().table;
    match table.cluster() {
        Some(cluster) if cluster.id == given => carry_out(cx, Order::Recover),
        Some(cluster) => Err(CommandError::Text(format!(
            "REFUSED this node is of cluster {}, not of {given}: nothing was changed",
            cluster.id
        ))),
        None => Err(CommandError::Static(
            "REFUSED this node is of no cluster: there is nothing to recover",
        )),
    }
}

fn carry_out(cx: &mut NodeCx<'_>, order: Order) -> Outcome {
    let outcome = waiting::order(cx, order, ORDER_LIMIT)?.unwrap_or(Err(OrderError::Unknown));
    let done = outcome.map_err(|error| match error {
        OrderError::Refused(why) => CommandError::Text(format!("REFUSED {why}")),
        OrderError::NoQuorum => not_proposed(ProposeError::NoQuorum),
        OrderError::Unknown => not_proposed(ProposeError::Unknown),
    })?;
    let done = Done {
        table_version: cx.node.topology().table.version().0,
        changed: done.changed,
        text: done.text,
        refused: Vec::new(),
    };
    reply_json(cx, &done)
}

pub(super) fn refused(refusal: ChangeRefused) -> CommandError {
    CommandError::Text(format!("REFUSED {refusal}"))
}

pub(super) fn not_proposed(error: ProposeError) -> CommandError {
    CommandError::Static(match error {
        ProposeError::Fixed => {
            "REFUSED the slot table was fixed at the start and is shared with other nodes: it \
             cannot be changed"
        }
        ProposeError::NoQuorum => {
            "NOQUORUM no majority of the voters answers: start their nodes again, then give the \
             order again"
        }
        ProposeError::TooLong { limit, got } => {
            return CommandError::Text(format!("REFUSED {}", too_long(limit, got)));
        }
        ProposeError::Unknown => {
            "UNKNOWN the time was up before the outcome was known: look at SLOTD STATUS; the order \
             may be given again"
        }
    })
}
