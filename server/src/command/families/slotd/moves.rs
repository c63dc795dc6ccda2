//! SLOTD MOVE, MOVES and CANCEL: moves of slots, ordered and looked at.
//!
//! The order is a row of the table and nothing more: the owners of the slots carry it out (`node`).
//! Invariant: what is refused is said with its reason, slot by slot, and changed nothing there.

use slots::admin::{Done, MoveBegun, MoveSource, MoveStatus, Moves, RefusedSlots};
use slots::{MoveId, NodeId, NodeState as Admission, SlotId, SlotRanges, SlotTable, TableChange};

use super::change::{not_proposed, refused};
use super::{named_node, reply_json, text};
use crate::command::moves::MoveSeen;
use crate::command::waiting;
use crate::command::{Args, CommandError, NodeCx, Outcome, Topology};
use crate::control::seat::Standing;

/// SLOTD MOVE.
pub(super) fn begin(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let wanted: SlotRanges = text(args.at(2)).parse().map_err(CommandError::err)?;
    if wanted.is_empty() {
        return Err(CommandError::Static("ERR no slots are named: SLOTD MOVE 1200-1300 <node>"));
    }
    if args.len() == 5 && !args.at(4).eq_ignore_ascii_case(b"allow-weaker") {
        return Err(CommandError::Syntax);
    }
    waiting::catch_up(cx)?;
    let topology = cx.node.topology();
    let row = named_node(&topology, args.at(3))?;
    if row.state != Admission::Active {
        return Err(CommandError::Text(format!(
            "REFUSED {} takes no new slots: it is draining or removed (SLOTD NODE UNDRAIN)",
            row.name
        )));
    }
    let (to, to_name) = (row.id, row.name.clone());
    let slots: SlotRanges =
        wanted.iter().filter(|slot| topology.table.owner(*slot) != Some(to)).collect();
    if slots.is_empty() {
        let text = format!("{to_name} owns {wanted} already: nothing to do");
        return reply_begun(cx, &topology, (to.to_string(), to_name), None, text, Vec::new());
    }
    let id = MoveId::from_bytes(cx.rng.next_u64().to_be_bytes());
    let change = TableChange::BeginMove { id, slots, to };
    let verdicts = waiting::propose(cx, change)?.map_err(not_proposed)?;
    verdicts.whole().map_err(refused)?;
    let accepted = verdicts.accepted().clone();
    let refusals: Vec<RefusedSlots> = verdicts
        .refused()
        .map(|(refusal, slots)| RefusedSlots { slots: slots.to_string(), why: refusal.to_string() })
        .collect();
    let topology = cx.node.topology();
    if accepted.is_empty() {
        let why: Vec<String> =
            refusals.iter().map(|refused| format!("{}: {}", refused.slots, refused.why)).collect();
        return Err(CommandError::Text(format!("REFUSED {}", why.join("; "))));
    }
    let text = format!("{accepted} move to {to_name}: SLOTD MOVES {id} says how far they are");
    let to = (to.to_string(), to_name);
    reply_begun(cx, &topology, to, Some((id, accepted)), text, refusals)
}

fn reply_begun(
    cx: &mut NodeCx<'_>,
    topology: &Topology,
    (to, to_name): (String, String),
    begun: Option<(MoveId, SlotRanges)>,
    text: String,
    refused: Vec<RefusedSlots>,
) -> Outcome {
    let changed = begun.is_some();
    let (id, slots) = begun.map_or_else(Default::default, |(id, slots)| (id.to_string(), slots));
    let begun = MoveBegun {
        table_version: topology.table.version().0,
        id,
        to,
        to_name,
        sources: sources(&topology.table, &slots),
        slots: slots.to_string(),
        changed,
        text,
        refused,
    };
    reply_json(cx, &begun)
}

/// Who owns these slots.
fn sources(table: &SlotTable, slots: &SlotRanges) -> Vec<MoveSource> {
    let owned = |row: &slots::NodeRow| {
        let own: SlotRanges =
            slots.iter().filter(|slot| table.owner(*slot) == Some(row.id)).collect();
        let (node, name) = (row.id.to_string(), row.name.clone());
        (!own.is_empty()).then(|| MoveSource { node, name, slots: own.to_string() })
    };
    table.nodes().filter_map(owned).collect()
}

/// SLOTD MOVES.
pub(super) fn list(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let only = match args.len() {
        2 => None,
        _ => Some(text(args.at(2)).parse::<MoveId>().map_err(CommandError::err)?),
    };
    let topology = cx.node.topology();
    let table = &topology.table;
    let mut here = cx.node.moves.all();
    let name_of =
        |node: NodeId| table.node(node).map_or_else(|| node.to_string(), |row| row.name.clone());
    let mut planned: Vec<(MoveId, NodeId, SlotRanges)> = Vec::new();
    for slot in SlotId::all() {
        let Some(plan) = table.slot(slot).planned_move() else { continue };
        match planned.iter_mut().find(|(id, ..)| *id == plan.id) {
            Some((.., slots)) => slots.insert(slot),
            None => planned.push((plan.id, plan.to, [slot].into_iter().collect())),
        }
    }
    let mut moves: Vec<MoveStatus> = Vec::new();
    for (id, to, slots) in planned {
        let here_at = here.iter().position(|seen| seen.id == id);
        moves.push(MoveStatus {
            id: id.to_string(),
            to: to.to_string(),
            to_name: name_of(to),
            sources: sources(table, &slots),
            left: slots.to_string(),
            here: here_at.map(|at| here.swap_remove(at).here),
        });
    }
    for MoveSeen { id, to, here } in here {
        moves.push(MoveStatus {
            id: id.to_string(),
            to: to.map_or_else(String::new, |to| to.to_string()),
            to_name: to.map_or_else(String::new, &name_of),
            here: Some(here),
            ..MoveStatus::default()
        });
    }
    moves.retain(|status| only.is_none_or(|only| only.to_string() == status.id));
    if let Some(only) = only.filter(|_| moves.is_empty()) {
        return Err(CommandError::err(format_args!("no move {only} is known to this node")));
    }
    reply_json(cx, &Moves { table_version: table.version().0, moves })
}

/// SLOTD CANCEL.
pub(super) fn cancel(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let id: MoveId = text(args.at(2)).parse().map_err(CommandError::err)?;
    waiting::catch_up(cx)?;
    let topology = cx.node.topology();
    if topology.standing != Standing::Seated {
        return Err(cx.node.no_seat());
    }
    let is_of = |slot: &SlotId| {
        topology.table.slot(*slot).planned_move().is_some_and(|planned| planned.id == id)
    };
    let slots: SlotRanges = SlotId::all().filter(is_of).collect();
    if slots.is_empty() {
        let done = Done {
            table_version: topology.table.version().0,
            changed: false,
            text: format!("nothing is left of move {id}: its slots are where the table says"),
            refused: Vec::new(),
        };
        return reply_json(cx, &done);
    }
    let change = TableChange::AbortMove { id, slots };
    let verdicts = waiting::propose(cx, change)?.map_err(not_proposed)?;
    verdicts.whole().map_err(refused)?;
    let stayed = verdicts.accepted();
    let text = match stayed.is_empty() {
        true => format!("nothing was left of move {id}"),
        false => format!("{stayed} stay where they are"),
    };
    let refused = verdicts
        .refused()
        .map(|(why, slots)| RefusedSlots { slots: slots.to_string(), why: why.to_string() });
    let done = Done {
        table_version: cx.node.topology().table.version().0,
        changed: !stayed.is_empty(),
        text,
        refused: refused.collect(),
    };
    reply_json(cx, &done)
}
