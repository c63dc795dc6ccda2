//! Watching moves to their end: bar, lines or events, and the summary.
//!
//! Not the judgement (`crate::moves`). Invariant: it ends well only when every node that can be
//! reached has the table in which the last slot went over; every other end says what moved, what
//! did not and how to go on.

use std::time::Duration;

use serde::Serialize;
use slots::admin::{HistoryRecord, Moves, RefusedSlots, Status};

use super::{Session, Shown};
use crate::args::values::MAX_HISTORY;
use crate::edge::{Bar, Deadline, Interrupt, Quiet};
use crate::exit::{Exit, Failure};
use crate::moves::end::{self, Arrival, MoveEnd, Outcome, Unreached};
use crate::moves::watch::{Every, Ordered, Progress, Step, Watch};
use crate::render::moves::{Summary, progress, summary};
use crate::render::short_slots;
use crate::request::Request;
use crate::survey::Survey;

/// Between two rounds of questions.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Between two lines where no person looks.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Between two events of progress for programs.
const EVENT_EVERY: Duration = Duration::from_secs(1);
/// How long a silent node is asked again before it is named: connections break and come back.
const SILENCE_GRACE: Duration = Duration::from_secs(3);

/// What to watch.
pub(super) struct Watched {
    /// The moves.
    pub(super) ordered: Vec<Ordered>,
    /// Slots that the cluster did not take into them.
    pub(super) refused: Vec<RefusedSlots>,
    /// A view with the nodes' addresses.
    pub(super) status: Status,
    /// Who may want to look away.
    pub(super) interrupt: Interrupt,
    /// A last line for people if all went well.
    pub(super) advice: Option<String>,
}

/// The last event.
#[derive(Serialize)]
struct Ended<'a> {
    event: &'static str,
    outcome: Outcome,
    moves: &'a [MoveEnd],
    refused: &'a [RefusedSlots],
    keys: u64,
    bytes: u64,
    longest_pause_us: u64,
    seconds: f64,
    table_version: u64,
    nodes: usize,
    behind: Vec<&'a str>,
    unreached: &'a [Unreached],
}

#[derive(Serialize)]
struct ProgressEvent<'a> {
    event: &'static str,
    #[serde(flatten)]
    at: &'a Progress,
}

/// Watches until the end.
pub(super) fn follow(session: &mut Session, watched: Watched) -> Result<Shown, Failure> {
    let Watched { ordered, refused, mut status, interrupt, advice } = watched;
    let mut teller = Teller::new(session.cluster.terminal.quiet());
    let patience = session.cluster.door().patience();
    let mut watch = Watch::new(ordered, patience, teller.now());
    let version = loop {
        let (step, news) = hear(session, &mut watch, &mut status, teller.now())?;
        teller.say(session, &news);
        teller.tell(session, &watch.progress(teller.now()));
        match step {
            Step::Over { version } => break version,
            Step::GivenUp(who) => {
                teller.last_word(session, &watch);
                let (how_far, ways) = (how_far(&watch), ways(&watch));
                let text = format!("{who}; {how_far}; the rest goes over when it is back: {ways}");
                return Err(Failure::new(Exit::Unfinished, text));
            }
            Step::UnderWay => {}
        }
        if interrupt.came() {
            teller.last_word(session, &watch);
            let text = format!("interrupted: {}; {}", how_far(&watch), goes_on(&watch));
            return Err(Failure::new(Exit::Unfinished, text));
        }
        pause();
    };
    let over = teller.now();
    let settled = settle(session, version, &interrupt);
    let (survey, arrival) = settled.map_err(|failure| {
        let moved = format!("{}; {}", how_far(&watch), failure.text);
        Failure::new(failure.exit, moved)
    })?;
    // The sources' last words: of the last hand-overs, too.
    hear(session, &mut watch, &mut status, over)?;
    drop(teller);
    let at = watch.progress(over);
    show(session, &watch, &at, &Ends { survey, arrival, version, refused, advice })
}

/// What is known at the end.
struct Ends {
    survey: Survey,
    arrival: Arrival,
    version: u64,
    refused: Vec<RefusedSlots>,
    advice: Option<String>,
}

fn show(
    session: &mut Session,
    watch: &Watch,
    at: &Progress,
    ends: &Ends,
) -> Result<Shown, Failure> {
    let Ends { survey, arrival, version, refused, advice } = ends;
    let history: Vec<HistoryRecord> = if end::all_moved(watch, &survey.base) {
        Vec::new()
    } else {
        // Without it nobody is named.
        session.cluster.ask(&Request::History { count: MAX_HISTORY }).unwrap_or_default()
    };
    let moves = end::judge(watch, &survey.base, &history);
    let exit = end::exit(&moves, arrival, !refused.is_empty());
    let nodes = survey.answered().count() - arrival.behind.len();
    let told = Summary { ends: &moves, at, refused, arrival, version: *version, nodes };
    let mut text = summary(&told, session.paint);
    if let Some(advice) = advice.as_ref().filter(|_| exit == Exit::Done) {
        text.push_str(&format!("{advice}\n"));
    }
    let outcomes = || moves.iter().map(|end| end.outcome);
    let first = |wanted: Outcome| outcomes().find(|outcome| *outcome == wanted);
    let outcome = first(Outcome::Lost).or(first(Outcome::Cancelled)).unwrap_or(Outcome::Moved);
    let event = Ended {
        event: "ended",
        outcome,
        moves: &moves,
        refused,
        keys: at.keys_moved,
        bytes: at.bytes_sent,
        longest_pause_us: at.longest_pause_us,
        seconds: at.seconds,
        table_version: *version,
        nodes,
        behind: arrival.behind.iter().map(|(name, _)| name.as_str()).collect(),
        unreached: &arrival.unreached,
    };
    Shown::with(exit, text, &event)
}

/// One round of questions.
fn hear(
    session: &mut Session,
    watch: &mut Watch,
    status: &mut Status,
    now: Duration,
) -> Result<(Step, Vec<String>), Failure> {
    let view: Option<Moves> = match session.cluster.ask(&Request::Moves) {
        Ok(view) => Some(view),
        // Nobody answers now; the watch knows for how long.
        Err(failure) if failure.exit == Exit::Unreachable => None,
        Err(failure) => {
            let text = format!("{}; {}; {}", failure.text, how_far(watch), goes_on(watch));
            return Err(Failure::new(failure.exit, text));
        }
    };
    let is_known = |id: &&str| status.nodes.iter().any(|node| node.id == **id);
    let all_well = watch.involved().iter().all(is_known) && !watch.is_any_silent();
    // Nodes come, and come back elsewhere.
    if view.is_some()
        && !all_well
        && let Ok(newer) = session.cluster.status()
    {
        *status = newer;
    }
    let mut involved = status.clone();
    let ids = watch.involved();
    involved.nodes.retain(|node| ids.contains(node.id.as_str()));
    let each = session.cluster.ask_each::<Moves>(&involved, &Request::Moves);
    Ok(watch.hear(view.as_ref(), &each, now))
}

/// Waits until every node that answers has the table of this version; a silent one is asked for a
/// while, and named in the result.
pub(super) fn settle(
    session: &mut Session,
    version: u64,
    interrupt: &Interrupt,
) -> Result<(Survey, Arrival), Failure> {
    let clock = Bar::new("wait", Quiet::Yes);
    let patience = session.cluster.door().patience();
    loop {
        let found = session.cluster.survey();
        let waited = clock.time();
        match found {
            Ok(survey) => {
                let arrival = end::arrival(&survey, version);
                let is_newest_here = survey.base.table_version >= version;
                let is_there = is_newest_here && arrival.behind.is_empty();
                let is_quiet =
                    arrival.unreached.is_empty() || waited >= SILENCE_GRACE.min(patience);
                if (is_there && is_quiet) || (is_newest_here && waited >= patience) {
                    return Ok((survey, arrival));
                }
                if waited >= patience {
                    return Err(Failure::new(
                        Exit::Unfinished,
                        format!(
                            "no node that answers has table version {version}, which the last slot \
                             went over in: give the same command again"
                        ),
                    ));
                }
            }
            Err(failure) if failure.exit != Exit::Unreachable || waited >= patience => {
                return Err(failure);
            }
            Err(_) => {}
        }
        if interrupt.came() {
            return Err(Failure::new(
                Exit::Unfinished,
                "interrupted: not every node has the new table yet; `slotctl wait-healthy` waits \
                 for it",
            ));
        }
        pause();
    }
}

fn pause() {
    Deadline::after(LOOK_AGAIN * 2).pause(LOOK_AGAIN);
}

/// What went over and what did not, as far as is known.
fn how_far(watch: &Watch) -> String {
    let (gone, left) = (watch.gone(), watch.left());
    let shown = |slots: &slots::SlotRanges| short_slots(&slots.to_string());
    match (gone.is_empty(), left.is_empty()) {
        (true, _) => format!("no slot moved yet, {} ({}) to go", left.count(), shown(&left)),
        (false, true) => format!("no slot is left to go of {} ({})", gone.count(), shown(&gone)),
        (false, false) => format!(
            "{} of {} slots moved ({}), {} not yet ({})",
            gone.count(),
            gone.count() + left.count(),
            shown(&gone),
            left.count(),
            shown(&left)
        ),
    }
}

fn goes_on(watch: &Watch) -> String {
    let ids: Vec<&str> = watch.courses().iter().map(|course| course.ordered.id.as_str()).collect();
    match ids.as_slice() {
        [id] => format!("move {id} goes on: {}", ways(watch)),
        ids => format!("moves {} go on: {}", ids.join(", "), ways(watch)),
    }
}

/// How to look again, and how to end it.
fn ways(watch: &Watch) -> String {
    match watch.courses() {
        [one] => ways_of(&one.ordered.id),
        _ => "`slotctl moves` lists them, `slotctl moves --follow` watches them, `slotctl cancel \
              ID` ends one"
            .into(),
    }
}

/// How to look at this move again, and how to end it.
pub(super) fn ways_of(id: &str) -> String {
    format!(
        "`slotctl moves` lists it, `slotctl moves {id} --follow` watches it, `slotctl cancel {id}` \
         ends it"
    )
}

/// Tells how far it is: a bar for a person, lines for a log, events for a program.
struct Teller {
    bar: Bar,
    line: Every,
    event: Every,
}

impl Teller {
    fn new(quiet: Quiet) -> Teller {
        let (line, event) = (Every::new(LINE_EVERY), Every::new(EVENT_EVERY));
        Teller { bar: Bar::new("move", quiet), line, event }
    }

    /// Since the watching began.
    fn now(&self) -> Duration {
        self.bar.time()
    }

    fn tell(&mut self, session: &mut Session, at: &Progress) {
        let terminal = &mut session.cluster.terminal;
        if terminal.quiet() == Quiet::Yes {
            if self.event.is_due(self.bar.time()) {
                terminal.event(&ProgressEvent { event: "progress", at });
            }
        } else if self.bar.is_watched() {
            self.bar.show(at.slots_moved as u64, at.slots as u64, &progress(at));
        } else if self.line.is_due(self.bar.time()) {
            terminal.note(&progress(at));
        }
    }

    /// An error comes next: a program is told how far it is.
    fn last_word(&self, session: &mut Session, watch: &Watch) {
        let at = &watch.progress(self.now());
        session.cluster.terminal.event(&ProgressEvent { event: "progress", at });
    }

    fn say(&self, session: &mut Session, news: &[String]) {
        let terminal = &mut session.cluster.terminal;
        if terminal.quiet() == Quiet::No {
            news.iter().for_each(|one| terminal.note(one));
        }
    }
}
