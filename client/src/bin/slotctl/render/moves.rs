//! Moves as text: the plan, how far it is, how it ended, the list of moves.
//!
//! Not the judgement (`crate::moves`). Invariant: slots that did not go over are always named, with
//! their owner and what to do.

use std::fmt::Write;
use std::time::Duration;

use slots::admin::{MoveHere, RefusedSlots};

use super::{Cell, Paint, Tone, columns, count, moment, plain, rate, short_slots, size, visible};
use crate::moves::end::{Arrival, MoveEnd, Outcome};
use crate::moves::list::Move;
use crate::moves::plan::Leg;
use crate::moves::ranges;
use crate::moves::watch::Progress;

/// What goes to a node, a line for each source.
pub(crate) fn leg(leg: &Leg) -> Vec<String> {
    let slots = count(leg.slot_count, "slot");
    let shown = short_slots(&leg.slots.0.to_string());
    let mut lines = vec![format!("{slots} ({shown}) to {}:", leg.to_name)];
    for load in &leg.sources {
        let what = match (load.keys, load.bytes) {
            (Some(keys), Some(bytes)) => format!("{}, {}", keys_text(keys), size(bytes)),
            _ => format!(
                "KEYS NOT KNOWN: it gives no answer ({}), and its slots go over when it does",
                visible(load.error.as_deref().unwrap_or("it was not asked"))
            ),
        };
        let shown = short_slots(&load.slots.0.to_string());
        let slots = count(load.slot_count, "slot");
        lines.push(format!("  from {}: {slots} ({shown}), {what}", load.name));
    }
    if let Some(eta) = leg.eta_s {
        lines.push(format!("  about {} at the rate of the last move", span(eta)));
    }
    lines
}

fn keys_text(keys: u64) -> String {
    count(usize::try_from(keys).unwrap_or(usize::MAX), "key")
}

/// How far it is, in numbers.
pub(crate) fn progress(at: &Progress) -> String {
    let mut text = format!("{} of {} slots", at.slots_moved, at.slots);
    if let Some(keys) = at.keys {
        let _ = write!(text, ", {} of {keys} keys", at.keys_moved);
    }
    if let Some(bytes) = at.bytes {
        let _ = write!(text, ", {} of {}", size(at.bytes_sent), size(bytes));
    }
    if at.rate > 0 {
        let _ = write!(text, ", {}/s", size(at.rate));
    }
    if let Some(eta) = at.eta_s.filter(|_| at.slots_moved < at.slots) {
        let _ = write!(text, ", ETA {}", span(eta));
    }
    if at.lag > 0 {
        let _ = write!(text, ", lag {} ops", at.lag);
    }
    if at.longest_pause_us > 0 {
        let _ = write!(text, ", longest pause {}", pause(at.longest_pause_us));
    }
    for trouble in at.blocked.iter().map(|why| format!("BLOCKED {why}")).chain(at.silent.clone()) {
        let _ = write!(text, "; {}", visible(&trouble));
    }
    text
}

/// Seconds as people say them.
pub(crate) fn span(seconds: u64) -> String {
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

fn pause(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1_000.0)
}

/// How it ended.
pub(crate) struct Summary<'a> {
    /// Each move.
    pub(crate) ends: &'a [MoveEnd],
    /// The last of its progress.
    pub(crate) at: &'a Progress,
    /// Slots that the cluster did not take into an order.
    pub(crate) refused: &'a [RefusedSlots],
    /// Who knows the new owners.
    pub(crate) arrival: &'a Arrival,
    /// The table they know.
    pub(crate) version: u64,
    /// Nodes that have it.
    pub(crate) nodes: usize,
}

/// The end, for people.
pub(crate) fn summary(summary: &Summary<'_>, paint: Paint) -> String {
    let Summary { ends, at, refused, arrival, version, nodes } = summary;
    let mut text = String::new();
    let mut line = |tone: Tone, line: String| {
        let _ = writeln!(text, "{}", paint.tone(tone, &visible(&line)));
    };
    for end in *ends {
        end_lines(end, &mut line);
    }
    let time = at.took.unwrap_or(Duration::from_secs_f64(at.seconds.max(0.0)));
    let seconds = format!("{:.1} s", time.as_secs_f64());
    let sent = match at.keys {
        Some(_) => {
            let (keys, bytes) = (keys_text(at.keys_moved), rate(at.bytes_sent, time));
            format!("{keys}, {bytes} in {seconds}; ")
        }
        None => format!("{seconds}; "),
    };
    let pause = match (at.longest_pause_us, at.keys) {
        (_, None) => "the pause of writes was not told".into(),
        (us, _) => format!("longest pause of writes {}", pause(us)),
    };
    line(Tone::Plain, format!("{sent}{pause}"));
    for refused in *refused {
        line(Tone::Bad, format!("slots {} refused: {}", refused.slots, refused.why));
    }
    line(Tone::Plain, format!("table version {version} on {}", count(*nodes, "node")));
    for (name, has) in &arrival.behind {
        let why = format!("{name} has table version {has} only: it sends clients to the old owner");
        line(Tone::Warn, format!("{why}; `slotctl wait-healthy` waits for it"));
    }
    for node in &arrival.unreached {
        line(Tone::Warn, format!("{} could not be reached: {}", node.name, node.error));
    }
    text
}

fn end_lines(end: &MoveEnd, line: &mut impl FnMut(Tone, String)) {
    let MoveEnd { id, to_name, slots, moved, outcome, by, stayed, .. } = end;
    let shown = |slots: &slots::SlotRanges| short_slots(&slots.to_string());
    let (all, went) = (count(slots.0.count(), "slot"), moved.0.count());
    if *outcome == Outcome::Moved {
        return line(Tone::Good, format!("{all} ({}) moved to {to_name}", shown(&slots.0)));
    }
    let which = if id.is_empty() { "the move".to_owned() } else { format!("move {id}") };
    let how = match (outcome, by) {
        (Outcome::Cancelled, Some(by)) => format!("was cancelled by {by}"),
        (Outcome::Cancelled, None) => "was cancelled".into(),
        _ => "is over before its end".into(),
    };
    line(Tone::Bad, format!("{which} {how}: {went} of {all} moved to {to_name}"));
    for part in stayed {
        let slots = shown(&part.slots.0);
        line(
            Tone::Bad,
            match &part.owner {
                Some(owner) => format!("slots {slots} are with {owner}"),
                None => format!("slots {slots} have no owner: `slotctl assign` gives them one"),
            },
        );
    }
    if *outcome == Outcome::Lost {
        line(
            Tone::Bad,
            "give the same command again to move them; `slotctl history` tells more".into(),
        );
    }
}

/// `slotctl moves`.
pub(crate) fn list(moves: &[Move], silent: &[(String, String)], paint: Paint) -> String {
    let mut text = String::new();
    if moves.is_empty() {
        text.push_str("no slots move\n");
    } else {
        let headings = [
            "MOVE",
            "TO",
            "LEFT",
            "SLOTS",
            "FROM",
            "STATE",
            "KEYS",
            "SENT",
            "RATE",
            "ETA",
            "LAG",
            "PAUSE",
            "SINCE (UTC)",
        ];
        let rows: Vec<Vec<Cell>> = moves.iter().flat_map(rows).collect();
        text.push_str(&columns(&headings, &rows, paint));
    }
    for known in moves {
        for here in &known.here {
            if let Some(why) = here.at.blocked.as_ref().filter(|_| here.at.ended.is_none()) {
                let why = format!("move {}: {} is blocked: {why}", known.id, here.name);
                let _ = writeln!(text, "{}", paint.tone(Tone::Bad, &visible(&why)));
            }
        }
    }
    for (name, why) in silent {
        let line = format!("{name} was not heard: {why}");
        let _ = writeln!(text, "{}", paint.tone(Tone::Warn, &visible(&line)));
    }
    text
}

/// A row for each node that gives away, and for each that should and did not say so.
fn rows(known: &Move) -> Vec<Vec<Cell>> {
    let left = ranges(&known.left);
    let head = || {
        let (left, slots) = (left.count().to_string(), short_slots(&known.left));
        [known.id.clone(), known.to_name.clone(), left, slots].map(plain).to_vec()
    };
    let told = known.here.iter().map(|here| {
        let at = &here.at;
        let tone = match (&at.ended, &at.blocked) {
            (Some(ended), _) if ended == "moved" => Tone::Good,
            (Some(_), _) => Tone::Warn,
            (None, Some(_)) => Tone::Bad,
            (None, None) => Tone::Plain,
        };
        let left = at.bytes.saturating_sub(at.bytes_sent);
        let eta = left.checked_div(at.rate).filter(|_| at.ended.is_none());
        let rest = [
            format!("{}/{}", at.keys_moved, at.keys),
            format!("{} of {}", size(at.bytes_sent), size(at.bytes)),
            if at.rate == 0 || at.ended.is_some() {
                "-".into()
            } else {
                format!("{}/s", size(at.rate))
            },
            eta.map_or("-".into(), |eta| span(eta + 1)),
            at.lag.to_string(),
            pause(at.longest_pause_us),
            moment(at.begun_ms),
        ];
        let state = [plain(&here.name), (tone, state(at))];
        [head(), state.to_vec(), rest.map(plain).to_vec()].concat()
    });
    let silent = known
        .sources
        .iter()
        .filter(|source| known.here.iter().all(|here| here.node != source.node));
    let silent =
        silent.map(|source| [head(), vec![plain(&source.name), (Tone::Warn, "?".into())]].concat());
    let mut rows: Vec<Vec<Cell>> = told.chain(silent).collect();
    if rows.is_empty() {
        rows.push(
            [head(), vec![plain("-"), plain(if left.is_empty() { "over" } else { "?" })]].concat(),
        );
    }
    rows
}

fn state(at: &MoveHere) -> String {
    if let Some(ended) = &at.ended {
        return ended.clone();
    }
    let parts = [("copying", at.copying), ("joining", at.joining), ("sealed", at.sealed)];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, slots)| *slots > 0)
        .map(|(state, slots)| format!("{state} {slots}"))
        .collect();
    match (&at.blocked, parts.is_empty()) {
        (Some(_), _) => "blocked".into(),
        (None, true) => "waiting".into(),
        (None, false) => parts.join(", "),
    }
}

#[cfg(test)]
mod tests;
