//! `slotctl moves` and `slotctl cancel`: the moves there are, and the end of one.
//!
//! Not the watching (`follow.rs`). Invariant: every node is asked, for each knows only its own
//! part; one that gives no answer is said.

use slots::MoveId;
use slots::admin::{Done, HistoryRecord, Moves, Status};

use super::follow::{self, Watched};
use super::{Session, Shown};
use crate::args::values::MAX_HISTORY;
use crate::args::{CancelArgs, MovesArgs};
use crate::confirm::Question;
use crate::edge::Interrupt;
use crate::exit::{Exit, Failure, Fate};
use crate::moves::list::{self, Move};
use crate::moves::ranges;
use crate::moves::watch::Ordered;
use crate::names;
use crate::plan::Plan;
use crate::render;
use crate::render::{count, short_slots};
use crate::request::{Order, Request};

/// Times an order is decided anew after its answer got lost: more nodes do not die in a row.
const ATTEMPTS: usize = 3;

/// Nodes that gave no answer: name and reason.
type Silent = Vec<(String, String)>;

pub(super) fn moves(session: &mut Session, args: &MovesArgs) -> Result<Shown, Failure> {
    let status = session.cluster.view()?;
    let (mut moves, silent) = session.moves(&status)?;
    if let Some(text) = &args.id {
        let known = list::find(&moves, text)?.cloned();
        moves = vec![known.ok_or_else(|| unknown(&moves, text))?];
    }
    let going = || moves.iter().filter(|known| !known.left.is_empty());
    if !args.follow || going().next().is_none() {
        let text = render::moves::list(&moves, &silent, session.paint);
        return Shown::new(text, &moves);
    }
    let ordered = going().map(|known| Ordered::found(known, status.table_version)).collect();
    let (refused, interrupt, advice) = (Vec::new(), Interrupt::listen(), None);
    follow::follow(session, Watched { ordered, refused, status, interrupt, advice })
}

fn unknown(moves: &[Move], text: &str) -> Failure {
    let ids: Vec<&str> = moves.iter().map(|known| known.id.as_str()).collect();
    let known = if ids.is_empty() { "none is".to_owned() } else { ids.join(", ") };
    Failure::usage(format!(
        "move '{}' is not under way and did not end lately: known are {known} (`slotctl history` \
         tells of older ones)",
        text.escape_debug()
    ))
}

pub(super) fn cancel(session: &mut Session, args: &CancelArgs) -> Result<Shown, Failure> {
    let status = session.cluster.status()?;
    let (moves, _) = session.moves(&status)?;
    let nothing = |id: &str| {
        let text = format!("move {id} is over");
        Done { table_version: status.table_version, changed: false, text, refused: Vec::new() }
    };
    let Some(known) = list::find(&moves, &args.id)? else {
        let history: Vec<HistoryRecord> =
            session.cluster.ask(&Request::History { count: MAX_HISTORY })?;
        let of_it = |record: &HistoryRecord| {
            record.change == "BeginMove" && record.detail.split(": ").next() == Some(&args.id)
        };
        let is_over = history.iter().any(of_it);
        return if is_over {
            session.done(&nothing(&args.id))
        } else {
            Err(unknown(&moves, &args.id))
        };
    };
    if known.left.is_empty() {
        return session.done(&nothing(&known.id));
    }
    let id: MoveId = known.id.parse().map_err(|error| {
        Failure::new(
            Exit::Unreachable,
            format!("the answer of the cluster has a wrong id: {error}"),
        )
    })?;
    let plan = plan(known);
    session.confirm(&plan, "cancel")?;
    withdraw(session, id)
}

/// What stays where.
fn plan(known: &Move) -> Plan {
    let Move { id, to_name, left, sources, .. } = known;
    let slots = count(ranges(left).count(), "slot");
    let mut lines = vec![format!(
        "Move {id} to {to_name} ends; {slots} ({}) did not go over:",
        short_slots(left)
    )];
    for source in sources {
        let slots = count(ranges(&source.slots).count(), "slot");
        let shown = short_slots(&source.slots);
        lines.push(format!("  {slots} ({shown}) stay with {}.", source.name));
    }
    lines.push(format!(
        "Slots that have gone over stay with {to_name}; `slotctl undo {id}` moves them back."
    ));
    Plan { lines, question: Question::YesNo }
}

/// Gives the order, whatever becomes of the first answer.
fn withdraw(session: &mut Session, id: MoveId) -> Result<Shown, Failure> {
    let mut lost: Option<Failure> = None;
    for _ in 0..ATTEMPTS {
        let failure = match session.cluster.ask::<Done>(&Request::Order(Order::Cancel(id))) {
            Ok(done) => return session.done(&done),
            Err(failure) => failure,
        };
        let is_lost = failure.fate == Fate::AnswerLost;
        // It may be the lost order that this one is refused for.
        let is_second = lost.is_some() && failure.exit == Exit::Refused;
        if !is_lost && !is_second {
            return Err(failure);
        }
        session.cluster.say(format!("{}; looking again", failure.text));
        session.cluster.turn_away();
        let looked = session.cluster.status().and_then(|status| {
            let (moves, _) = session.moves(&status)?;
            Ok((status.table_version, moves))
        });
        // Nobody is left to tell what became of it.
        let Ok((table_version, moves)) = looked else { return Err(failure) };
        let id = id.to_string();
        if !moves.iter().any(|known| known.id == id && !known.left.is_empty()) {
            let text = format!("move {id} is over");
            return session.done(&Done { table_version, changed: true, text, refused: Vec::new() });
        }
        if !is_lost {
            return Err(failure);
        }
        lost = Some(failure);
    }
    Err(lost.unwrap_or_else(|| Failure::refused("nothing was cancelled")))
}

impl Session {
    /// The moves that any node of `status` tells of, and the nodes that told nothing.
    pub(super) fn moves(&self, status: &Status) -> Result<(Vec<Move>, Silent), Failure> {
        let heard = self.cluster.ask_each::<Moves>(status, &Request::Moves);
        let silent: Silent = heard
            .iter()
            .filter_map(|(id, told)| {
                let name = names::name_of(&status.nodes, id).to_owned();
                told.as_ref().err().map(|why| (name, why.clone()))
            })
            .collect();
        if silent.len() == heard.len() {
            let why = silent.first().map_or("there is none", |(_, why)| why.as_str());
            let text = format!("no node told of its moves: {why}");
            return Err(Failure::new(Exit::Unreachable, text));
        }
        Ok((list::merge(&status.nodes, &heard), silent))
    }
}
