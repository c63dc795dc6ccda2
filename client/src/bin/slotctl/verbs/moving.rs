//! `slotctl move`, `drain` and `undo`: the orders that make slots go over.
//!
//! Not the watching (`follow.rs`), nor the plans (`crate::moves`). Invariant: after a lost answer
//! the cluster is read again before anything is sent again, and no move that was begun is left
//! without its id being said.

use serde::Serialize;
use slots::SlotRanges;
use slots::admin::{BackupSlots, Done, HistoryRecord, MoveBegun, Status};

use super::follow::{self, Watched};
use super::{Session, Shown, target};
use crate::args::values::MAX_HISTORY;
use crate::args::{DrainArgs, MoveArgs, OrderArgs, UndoArgs};
use crate::confirm::Question;
use crate::edge::Interrupt;
use crate::exit::{Exit, Failure, Fate};
use crate::moves::list::{self, Move};
use crate::moves::plan::{self, Leg, ToMove};
use crate::moves::watch::Ordered;
use crate::moves::{origin, owned_by, ranges};
use crate::names::Target;
use crate::plan::Plan;
use crate::render;
use crate::render::{count, short_slots};
use crate::request::{Order, Request, Safety};

/// Times an order is decided anew after its answer got lost: more nodes do not die in a row.
const ATTEMPTS: usize = 3;

/// What is to be ordered.
struct Task<'a> {
    /// The verb as typed.
    deed: &'static str,
    status: Status,
    /// Sentences of the plan beside the legs.
    lines: Vec<String>,
    /// An order that goes before the moves.
    first: Option<Order>,
    /// What goes where.
    legs: Vec<(Target, SlotRanges)>,
    /// Moves that go on and are watched with the others.
    under_way: Vec<Move>,
    /// All that are known: how fast were they?
    moves: Vec<Move>,
    args: &'a OrderArgs,
    /// A last line for people if all went well.
    advice: Option<String>,
}

#[derive(Serialize)]
struct PlanEvent<'a> {
    event: &'static str,
    #[serde(flatten)]
    leg: &'a Leg,
}

#[derive(Serialize)]
struct BegunEvent<'a> {
    event: &'static str,
    #[serde(flatten)]
    begun: &'a MoveBegun,
}

#[derive(Serialize)]
struct NothingEvent<'a> {
    event: &'static str,
    outcome: &'static str,
    text: &'a str,
    table_version: u64,
}

pub(super) fn move_slots(session: &mut Session, args: &MoveArgs) -> Result<Shown, Failure> {
    let (moves, status) = moves_then_status(session)?;
    let target = target(&status.nodes, &args.node)?;
    let slots = match plan::to_move(&status, &args.slots, &target)? {
        ToMove::Left(slots) => slots,
        ToMove::Nothing => {
            let text = format!("{} owns slots {}", target.name, args.slots);
            return nothing(session, &status, &text);
        }
    };
    let there = args.slots.count() - slots.count();
    let (under_way, rest) = plan::under_way(&moves, &slots, &target);
    let Target { id, name } = &target;
    let mut lines = Vec::new();
    if there > 0 {
        lines.push(format!("{name} has {} of these already.", count(there, "slot")));
    }
    lines.extend(under_way.iter().map(on_the_way));
    let id = id.to_string();
    let row = status.nodes.iter().find(|node| node.id == id);
    if row.is_some_and(plan::is_silent) {
        let until = "nothing goes over until it does";
        lines.push(format!("{name} DOES NOT ANSWER THE OTHER NODES: {until}."));
    }
    let legs = if rest.is_empty() { Vec::new() } else { vec![(target, rest)] };
    let task = Task {
        deed: "move",
        status,
        lines,
        first: None,
        legs,
        under_way,
        moves,
        args: &args.order,
        advice: None,
    };
    carry_out(session, task)
}

fn on_the_way(known: &Move) -> String {
    let slots = count(ranges(&known.left).count(), "slot");
    let shown = short_slots(&known.left);
    format!("{slots} ({shown}) on the way to {} already: move {}.", known.to_name, known.id)
}

pub(super) fn drain(session: &mut Session, args: &DrainArgs) -> Result<Shown, Failure> {
    let (moves, status) = moves_then_status(session)?;
    let leaving = target(&status.nodes, &args.node)?;
    let found = plan::drain(&status, &moves, &leaving)?;
    let (id, name) = (leaving.id.to_string(), &leaving.name);
    let node = status.nodes.iter().find(|node| node.id == id);
    let is_draining = node.is_some_and(|node| node.state == "draining");
    let advice = format!("`slotctl node remove {name}` lets it go");
    if is_draining && owned_by(&status, &id).is_empty() {
        return nothing(
            session,
            &status,
            &format!("{name} is draining and owns no slots; {advice}"),
        );
    }
    let mut lines = vec![format!("{name} gets nothing new from now on.")];
    lines.extend(found.under_way.iter().map(on_the_way));
    for known in &found.coming {
        lines.push(format!(
            "slots {} are on the way TO {name}: `slotctl cancel {}` keeps them away.",
            short_slots(&known.left),
            known.id
        ));
    }
    let passed_over = found.passed_over.iter();
    lines.extend(
        passed_over.map(|node| format!("{node} gets none: it does not answer the others.")),
    );
    let task = Task {
        deed: "drain",
        status,
        lines,
        first: (!is_draining).then_some(Order::Drain(leaving.id)),
        legs: found.legs,
        under_way: found.under_way,
        moves,
        args: &args.order,
        advice: Some(advice),
    };
    carry_out(session, task)
}

pub(super) fn undo(session: &mut Session, args: &UndoArgs) -> Result<Shown, Failure> {
    let (moves, status) = moves_then_status(session)?;
    let going = list::find(&moves, &args.id)?.filter(|known| !known.left.is_empty());
    if let Some(Move { id, left, .. }) = going {
        return Err(Failure::refused(format!(
            "move {id} is under way, slots {} are to go: `slotctl cancel {id}` first; nothing was \
             changed",
            short_slots(left)
        )));
    }
    let history: Vec<HistoryRecord> =
        session.cluster.ask(&Request::History { count: MAX_HISTORY })?;
    let trace = origin::trace(&history, &args.id)?;
    let found = trace.back(&status);
    if found.back.is_empty() {
        let why = found.left_alone.join(" ");
        let text = format!("no slot of move {} can go back. {why}", trace.id);
        return nothing(session, &status, text.trim_end());
    }
    for (target, slots) in &found.back {
        plan::to_move(&status, slots, target)?;
    }
    let advice = (!found.left_alone.is_empty()).then(|| found.left_alone.join("\n"));
    let task = Task {
        deed: "undo",
        status,
        lines: found.left_alone,
        first: None,
        legs: found.back,
        under_way: Vec::new(),
        moves,
        args: &args.order,
        advice,
    };
    carry_out(session, task)
}

/// The moves, and then who owns what: a slot that goes over between the two questions counts as
/// under its move, never as one that still has to be ordered.
fn moves_then_status(session: &mut Session) -> Result<(Vec<Move>, Status), Failure> {
    let before = session.cluster.status()?;
    let (moves, _) = session.moves(&before)?;
    Ok((moves, session.cluster.status()?))
}

/// All is as it was asked to be; other nodes may have to hear of it.
fn nothing(session: &mut Session, status: &Status, text: &str) -> Result<Shown, Failure> {
    let version = status.table_version;
    let (_, arrival) = follow::settle(session, version, &Interrupt::listen())?;
    let mut shown = format!("nothing to do: {text} (table version {version})\n");
    for (name, has) in &arrival.behind {
        shown.push_str(&format!("{name} has table version {has} only\n"));
    }
    for node in &arrival.unreached {
        shown.push_str(&format!("{} could not be reached: {}\n", node.name, node.error));
    }
    let exit = if arrival.behind.is_empty() { Exit::Done } else { Exit::Unfinished };
    let (event, outcome) = ("ended", "nothing");
    Shown::with(exit, shown, &NothingEvent { event, outcome, text, table_version: version })
}

/// Shows the plan, asks, orders, and watches.
fn carry_out(session: &mut Session, task: Task<'_>) -> Result<Shown, Failure> {
    let Task { deed, status, mut lines, first, legs, under_way, moves, args, advice } = task;
    for (target, slots) in &legs {
        let mut owners = status.clone();
        owners.nodes = plan::owners(&status, slots);
        let heard = session.cluster.ask_each::<BackupSlots>(&owners, &Request::BackupSlots);
        let leg = plan::leg(&status, slots, target, &heard, &moves);
        session.cluster.terminal.event(&PlanEvent { event: "plan", leg: &leg });
        lines.extend(render::moves::leg(&leg));
    }
    if legs.is_empty() && first.is_none() {
        // Only to be watched.
        session.cluster.terminal.plan(&lines);
    } else {
        session.confirm(&Plan { lines, question: Question::YesNo }, deed)?;
    }
    let interrupt = Interrupt::listen();
    if let Some(first) = first {
        if legs.is_empty() && under_way.is_empty() {
            return session.order(first);
        }
        session.cluster.ask::<Done>(&Request::Order(first))?;
    }
    let mut begun: Vec<MoveBegun> =
        under_way.iter().map(|known| found(known, status.table_version)).collect();
    let safety = if args.allow_weaker { Safety::MayWeaken } else { Safety::Kept };
    for (target, slots) in &legs {
        let given = give(session, target, slots, safety);
        begun.push(given.map_err(|failure| stopped(&begun, failure))?);
    }
    if args.detach {
        return detached(session, &begun);
    }
    begun.iter().for_each(|begun| announce(session, begun));
    let ordered = begun.iter().map(Ordered::from).collect();
    let refused = begun.into_iter().flat_map(|begun| begun.refused).collect();
    follow::follow(session, Watched { ordered, refused, status, interrupt, advice })
}

/// A move that goes on, as if it had been ordered again.
fn found(known: &Move, table_version: u64) -> MoveBegun {
    MoveBegun {
        table_version,
        id: known.id.clone(),
        to: known.to.clone(),
        to_name: known.to_name.clone(),
        slots: known.left.clone(),
        sources: known.sources.clone(),
        ..MoveBegun::default()
    }
}

/// A failure after some moves were begun: they go on.
fn stopped(begun: &[MoveBegun], failure: Failure) -> Failure {
    let ids: Vec<&str> = begun.iter().map(|begun| begun.id.as_str()).collect();
    if ids.is_empty() {
        return failure;
    }
    let (text, ids) = (failure.text, ids.join(", "));
    let text = format!("{text}; under way: {ids}: `slotctl moves` lists them");
    Failure { text, ..failure }
}

/// Orders a move, whatever becomes of the first answer. Refuses if no slot was taken into it.
fn give(
    session: &mut Session,
    target: &Target,
    slots: &SlotRanges,
    safety: Safety,
) -> Result<MoveBegun, Failure> {
    let mut slots = slots.clone();
    let mut lost: Option<Failure> = None;
    for _ in 0..ATTEMPTS {
        if let Some(before) = &lost {
            match look_again(session, target, &slots) {
                Ok(Again::Begun(begun)) => return Ok(begun),
                Ok(Again::Left(left)) => slots = left,
                // Nobody is left to tell what became of it.
                Err(_) => return Err(before.clone()),
            }
        }
        let order = Order::Move { slots: slots.clone(), to: target.id, safety };
        match session.cluster.ask::<MoveBegun>(&Request::Order(order)) {
            Ok(begun) if begun.slots.is_empty() && !begun.refused.is_empty() => {
                let why =
                    begun.refused.iter().map(|part| format!("slots {}: {}", part.slots, part.why));
                return Err(Failure::refused(why.collect::<Vec<_>>().join("; ")));
            }
            Ok(begun) => return Ok(begun),
            Err(failure) if failure.fate == Fate::AnswerLost => {
                session.cluster.say(format!("{}; looking again", failure.text));
                session.cluster.turn_away();
                lost = Some(failure);
            }
            // It may be the lost order that this one is refused for.
            Err(failure) if lost.is_some() && failure.exit == Exit::Refused => {
                return match look_again(session, target, &slots) {
                    Ok(Again::Begun(begun)) => Ok(begun),
                    _ => Err(failure),
                };
            }
            Err(failure) => return Err(failure),
        }
    }
    Err(lost.unwrap_or_else(|| Failure::refused("nothing was ordered")))
}

/// What became of an order whose answer got lost.
enum Again {
    /// It was carried out.
    Begun(MoveBegun),
    /// These slots are under no move to the target.
    Left(SlotRanges),
}

fn look_again(
    session: &mut Session,
    target: &Target,
    slots: &SlotRanges,
) -> Result<Again, Failure> {
    let (moves, status) = moves_then_status(session)?;
    let to = target.id.to_string();
    let left = slots.without(&owned_by(&status, &to));
    let (going, rest) = plan::under_way(&moves, &left, target);
    Ok(match going.as_slice() {
        // It is over already: nothing of it is listed any more.
        [] if left.is_empty() => {
            let over = Move { to, to_name: target.name.clone(), ..Move::default() };
            let begun = found(&over, status.table_version);
            Again::Begun(MoveBegun { slots: slots.to_string(), changed: true, ..begun })
        }
        [known] if rest.is_empty() => {
            Again::Begun(MoveBegun { changed: true, ..found(known, status.table_version) })
        }
        _ => Again::Left(left),
    })
}

/// Says that a move has begun.
fn announce(session: &mut Session, begun: &MoveBegun) {
    session.cluster.terminal.event(&BegunEvent { event: "begun", begun });
    if session.cluster.terminal.quiet() == crate::edge::Quiet::No {
        let text = begun_text(begun);
        session.cluster.terminal.note(&text);
    }
}

fn begun_text(begun: &MoveBegun) -> String {
    let slots = count(ranges(&begun.slots).count(), "slot");
    let already = if begun.changed { "" } else { " (under way already)" };
    format!(
        "move {}: {slots} ({}) to {}{already}",
        begun.id,
        short_slots(&begun.slots),
        begun.to_name
    )
}

/// The end where nobody wants to watch.
fn detached(session: &mut Session, begun: &[MoveBegun]) -> Result<Shown, Failure> {
    let mut text: String = begun.iter().map(|begun| begun_text(begun) + "\n").collect();
    let refused = || begun.iter().flat_map(|begun| &begun.refused);
    for part in refused() {
        text.push_str(&format!("slots {} refused: {}\n", part.slots, part.why));
    }
    for one in begun {
        text.push_str(&format!("{}\n", follow::ways_of(&one.id)));
    }
    let exit = if refused().next().is_none() { Exit::Done } else { Exit::Refused };
    let event = |begun| BegunEvent { event: "begun", begun };
    let Some((last, others)) = begun.split_last() else {
        return Err(Failure::refused("nothing was ordered"));
    };
    others.iter().for_each(|begun| session.cluster.terminal.event(&event(begun)));
    Shown::with(exit, text, &event(last))
}
