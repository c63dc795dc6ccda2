//! Watching moves: what has been heard of them so far, and what follows from it.
//!
//! ```text
//!   hear(answers, now) --> UnderWay   ask again in a while
//!                      --> Over       the table has nothing left of them: let all nodes get it
//!                      --> GivenUp    a node that is needed is silent and nothing goes on
//! ```
//! Not how it ended (`end.rs`). Invariant: a move is over only by the word of a table that is at
//! least as new as the order and as all that was heard before; silence never ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use slots::SlotRanges;
use slots::admin::{MoveBegun, MoveHere, MoveSource, Moves};

use super::list::{Heard, Move};
use super::{both, ranges, union};

/// A move that is watched, as it was when that began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ordered {
    /// Its id.
    pub(crate) id: String,
    /// The node the slots move to.
    pub(crate) to: String,
    /// What people call it.
    pub(crate) to_name: String,
    /// The slots that are watched.
    pub(crate) slots: SlotRanges,
    /// Who owned them.
    pub(crate) sources: Vec<MoveSource>,
    /// The table version that has the order.
    pub(crate) version: u64,
}

impl From<&MoveBegun> for Ordered {
    fn from(begun: &MoveBegun) -> Ordered {
        Ordered {
            id: begun.id.clone(),
            to: begun.to.clone(),
            to_name: begun.to_name.clone(),
            slots: ranges(&begun.slots),
            sources: begun.sources.clone(),
            version: begun.table_version,
        }
    }
}

impl Ordered {
    /// What is left of a move that somebody else may have ordered.
    pub(crate) fn found(known: &Move, version: u64) -> Ordered {
        Ordered {
            id: known.id.clone(),
            to: known.to.clone(),
            to_name: known.to_name.clone(),
            slots: ranges(&known.left),
            sources: known.sources.clone(),
            version,
        }
    }
}

/// A move and what was heard of it last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Course {
    /// As it began.
    pub(crate) ordered: Ordered,
    /// What is still to go.
    pub(crate) left: SlotRanges,
    sources: Vec<MoveSource>,
    /// The last word of each node on what it gives away.
    pub(crate) here: BTreeMap<String, MoveHere>,
}

/// Since when a node gives no answer, and why.
type Silence = Option<(Duration, String)>;

/// Moves under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Watch {
    courses: Vec<Course>,
    nodes: BTreeMap<String, (String, Silence)>,
    /// The newest table that was heard of.
    version: u64,
    /// When something went on last, and how far it was.
    stirred: (Duration, [u64; 3]),
    patience: Duration,
}

/// What follows from what was heard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Ask again in a while.
    UnderWay,
    /// No slot is left in the table of this version.
    Over {
        /// The version.
        version: u64,
    },
    /// A sentence on who is silent.
    GivenUp(String),
}

impl Watch {
    /// Begins at `now`. After `patience` in which nothing goes on and a node that is needed gives
    /// no answer it ends.
    pub(crate) fn new(ordered: Vec<Ordered>, patience: Duration, now: Duration) -> Watch {
        let version = ordered.iter().map(|ordered| ordered.version).max().unwrap_or(0);
        let course = |ordered: Ordered| Course {
            left: ordered.slots.clone(),
            sources: ordered.sources.clone(),
            here: BTreeMap::new(),
            ordered,
        };
        let courses: Vec<Course> = ordered.into_iter().map(course).collect();
        let mut nodes = BTreeMap::new();
        for course in &courses {
            let Ordered { to, to_name, .. } = &course.ordered;
            nodes.insert(to.clone(), (to_name.clone(), None));
            let named = |source: &MoveSource| (source.node.clone(), (source.name.clone(), None));
            nodes.extend(course.sources.iter().map(named));
        }
        Watch { courses, nodes, version, stirred: (now, [0; 3]), patience }
    }

    /// The moves.
    pub(crate) fn courses(&self) -> &[Course] {
        &self.courses
    }

    /// Ids of the nodes to ask: those that give or take, or did.
    pub(crate) fn involved(&self) -> BTreeSet<&str> {
        self.nodes.keys().map(String::as_str).collect()
    }

    /// What people call a node that is involved; its id if it is not.
    pub(crate) fn name<'a>(&'a self, node: &'a str) -> &'a str {
        self.nodes.get(node).map_or(node, |(name, _)| name)
    }

    /// Does one of them give no answer?
    pub(crate) fn is_any_silent(&self) -> bool {
        self.nodes.values().any(|(_, silence)| silence.is_some())
    }

    /// Takes the answers: `view` of any node, `each` of those involved. Returns what is new in
    /// sentences, too.
    pub(crate) fn hear(
        &mut self,
        view: Option<&Moves>,
        each: &[Heard],
        now: Duration,
    ) -> (Step, Vec<String>) {
        let news = self.hear_silence(each, now);
        for (node, told) in each {
            let Ok(told) = told else { continue };
            for course in &mut self.courses {
                let of_it = told.moves.iter().find(|status| status.id == course.ordered.id);
                if let Some(here) = of_it.and_then(|status| status.here.as_ref()) {
                    course.here.insert(node.clone(), here.clone());
                }
            }
        }
        let answers = each.iter().filter_map(|(_, told)| told.as_ref().ok()).chain(view);
        let newest = answers.max_by_key(|told| told.table_version);
        let fresh = newest.filter(|told| told.table_version >= self.version);
        if let Some(told) = fresh {
            self.version = told.table_version;
            self.hear_table(told);
        }
        self.stir(now);
        if fresh.is_some() && self.courses.iter().all(|course| course.left.is_empty()) {
            return (Step::Over { version: self.version }, news);
        }
        match self.needed_and_silent(now) {
            Some(who) if now.saturating_sub(self.stirred.0) >= self.patience => {
                (Step::GivenUp(who), news)
            }
            _ => (Step::UnderWay, news),
        }
    }

    fn hear_silence(&mut self, each: &[Heard], now: Duration) -> Vec<String> {
        let mut news = Vec::new();
        for (node, told) in each {
            let Some((name, silence)) = self.nodes.get_mut(node) else { continue };
            match (told, &silence) {
                (Ok(_), Some(_)) => {
                    news.push(format!("{name} answers again"));
                    *silence = None;
                }
                (Err(why), None) => {
                    news.push(format!("{name} gives no answer: {why}; it is asked again"));
                    *silence = Some((now, why.clone()));
                }
                _ => {}
            }
        }
        news
    }

    /// What the newest table says.
    fn hear_table(&mut self, told: &Moves) {
        for course in &mut self.courses {
            let of_it = told.moves.iter().find(|status| status.id == course.ordered.id);
            course.left = of_it
                .map(|status| both(&ranges(&status.left), &course.ordered.slots))
                .unwrap_or_default();
            course.sources = of_it.map(|status| status.sources.clone()).unwrap_or_default();
            for MoveSource { node, name, .. } in &course.sources {
                self.nodes.entry(node.clone()).or_insert_with(|| (name.clone(), None));
            }
        }
    }

    /// Notes whether anything has gone on.
    fn stir(&mut self, now: Duration) {
        let here = || self.courses.iter().flat_map(|course| course.here.values());
        let left = self.courses.iter().map(|course| course.left.count() as u64).sum();
        let mark =
            [left, here().map(|at| at.keys_moved).sum(), here().map(|at| at.bytes_sent).sum()];
        if mark != self.stirred.1 {
            self.stirred = (now, mark);
        }
    }

    /// Nodes without which what is left cannot go on, that have been silent for long.
    fn needed_and_silent(&self, now: Duration) -> Option<String> {
        let going = self.courses.iter().filter(|course| !course.left.is_empty());
        let needed: BTreeSet<&str> = going
            .flat_map(|course| {
                let sources = course.sources.iter().map(|source| source.node.as_str());
                sources.chain([course.ordered.to.as_str()])
            })
            .collect();
        let silent = |node: &str| {
            let (name, silence) = self.nodes.get(node)?;
            let (since, why) = silence.as_ref()?;
            let time = now.saturating_sub(*since);
            (time >= self.patience)
                .then(|| format!("{name} gives no answer for {:.0} s: {why}", time.as_secs_f64()))
        };
        let sentences: Vec<String> = needed.into_iter().filter_map(silent).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// How far all of it is.
    pub(crate) fn progress(&self, now: Duration) -> Progress {
        let here: Vec<(&String, &MoveHere)> =
            self.courses.iter().flat_map(|course| &course.here).collect();
        let known = !here.is_empty();
        let sum = |part: fn(&MoveHere) -> u64| here.iter().map(|(_, at)| part(at)).sum::<u64>();
        let running = || here.iter().filter(|(_, at)| at.ended.is_none());
        let states = |part: fn(&MoveHere) -> u32| running().map(|(_, at)| part(at)).sum::<u32>();
        let slots = self.courses.iter().map(|course| course.ordered.slots.count()).sum();
        let left: usize = self.courses.iter().map(|course| course.left.count()).sum();
        let blocked = running().filter_map(|(node, at)| {
            let why = at.blocked.as_ref()?;
            Some(format!("{}: {why}", self.name(node)))
        });
        let silent = self.nodes.values().filter_map(|(name, silence)| {
            silence.as_ref().map(|(_, why)| format!("{name} gives no answer: {why}"))
        });
        Progress {
            moves: self.courses.iter().map(|course| course.ordered.id.clone()).collect(),
            slots,
            slots_moved: slots - left,
            keys: known.then(|| sum(|at| at.keys)),
            keys_moved: sum(|at| at.keys_moved),
            bytes: known.then(|| sum(|at| at.bytes)),
            bytes_sent: sum(|at| at.bytes_sent),
            rate: running().map(|(_, at)| at.rate).sum(),
            eta_s: eta(running().map(|(_, at)| *at)),
            lag: running().map(|(_, at)| at.lag).sum(),
            longest_pause_us: here.iter().map(|(_, at)| at.longest_pause_us).max().unwrap_or(0),
            copying: states(|at| at.copying),
            joining: states(|at| at.joining),
            sealed: states(|at| at.sealed),
            blocked: blocked.collect(),
            silent: silent.collect(),
            seconds: now.as_secs_f64(),
            took: took(here.iter().map(|(_, at)| *at)),
        }
    }

    /// The slots that have left the moves: gone over, as long as nobody cancelled.
    pub(crate) fn gone(&self) -> SlotRanges {
        let gone: Vec<SlotRanges> =
            self.courses.iter().map(|course| course.ordered.slots.without(&course.left)).collect();
        union(&gone)
    }

    /// The slots that are still to go.
    pub(crate) fn left(&self) -> SlotRanges {
        union(self.courses.iter().map(|course| &course.left))
    }
}

/// How long it took by the nodes' own clocks, which know of the time before it was watched, too;
/// `None`: one has not ended or does not say.
fn took<'a>(here: impl Iterator<Item = &'a MoveHere>) -> Option<Duration> {
    let each = here.map(|at| at.ended_ms.checked_sub(at.begun_ms).filter(|_| at.ended.is_some()));
    each.collect::<Option<Vec<u64>>>()?.into_iter().max().map(Duration::from_millis)
}

/// Seconds until the slowest is done, rounded up; `None`: one has no rate yet.
fn eta<'a>(running: impl Iterator<Item = &'a MoveHere>) -> Option<u64> {
    let mut longest = None;
    for at in running {
        let left = at.bytes.saturating_sub(at.bytes_sent);
        let seconds = if left == 0 { 0 } else { left.checked_div(at.rate)?.saturating_add(1) };
        longest = longest.max(Some(seconds));
    }
    longest
}

/// How far moves are.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Progress {
    /// Their ids.
    pub(crate) moves: Vec<String>,
    /// Slots that are watched.
    pub(crate) slots: usize,
    /// Of them those that are no longer to go.
    pub(crate) slots_moved: usize,
    /// Keys in the slots; `None`: no source has told yet.
    pub(crate) keys: Option<u64>,
    /// Keys that the targets have.
    pub(crate) keys_moved: u64,
    /// Bytes of keys and values; `None`: no source has told yet.
    pub(crate) bytes: Option<u64>,
    /// Bytes that were sent.
    pub(crate) bytes_sent: u64,
    /// Bytes a second.
    pub(crate) rate: u64,
    /// Seconds that are left at this rate.
    pub(crate) eta_s: Option<u64>,
    /// Op groups that the targets lack.
    pub(crate) lag: u64,
    /// The longest pause of writes so far, us.
    pub(crate) longest_pause_us: u64,
    /// Slots whose copy is being made.
    pub(crate) copying: u32,
    /// Slots whose target is about to be in sync.
    pub(crate) joining: u32,
    /// Slots that are sealed.
    pub(crate) sealed: u32,
    /// Why nodes do not go on.
    pub(crate) blocked: Vec<String>,
    /// Who gives no answer.
    pub(crate) silent: Vec<String>,
    /// Since the watching began.
    pub(crate) seconds: f64,
    /// How long all of it took, once it is over.
    #[serde(skip)]
    pub(crate) took: Option<Duration>,
}

/// Says when it is time again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Every {
    time: Duration,
    last: Option<Duration>,
}

impl Every {
    /// At once, and `time` after the last time.
    pub(crate) fn new(time: Duration) -> Every {
        Every { time, last: None }
    }

    /// Is it time? Then the next is counted from here.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let due = self.last.is_none_or(|last| now.saturating_sub(last) >= self.time);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests;
