//! The verbs that look: status, nodes, slots, explain, history, stale.
//!
//! Not the texts (`render/`). Invariant: nothing here changes the cluster; `stale --reset` sets
//! counters of nodes to zero.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use slots::admin::{Explained, HistoryRecord, SlotStatus, Stale};

use super::{Session, Shown};
use crate::args::{ExplainArgs, HistoryArgs, SlotsArgs, StaleArgs, StatusArgs};
use crate::edge::Deadline;
use crate::exit::{Exit, Failure};
use crate::health::{self, Lag};
use crate::names;
use crate::render::{lists, status};
use crate::request::{Counters, Request};
use crate::survey::Survey;

/// Time between two looks at all nodes.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub(super) fn status(session: &mut Session, args: &StatusArgs) -> Result<Shown, Failure> {
    let mut survey = session.cluster.survey()?;
    let mut lag = Lag::Moment;
    if args.check {
        (survey, lag) = settle(session, survey, args.lag)?;
    }
    let health = health::judge(&survey, lag);
    let failed = args.check && !health.healthy;
    let exit = if failed { Exit::ChecksFailed } else { Exit::Done };
    let text = status::text(&survey, &health, session.paint);
    Shown::with(exit, text, &status::json(&survey, &health))
}

/// Looks until the nodes have reached the newest version of the first look, for `lag` at most.
fn settle(
    session: &mut Session,
    mut survey: Survey,
    lag: Duration,
) -> Result<(Survey, Lag), Failure> {
    let newest = (survey.base.generation, survey.base.table_version);
    let deadline = Deadline::after(lag);
    loop {
        if survey.reached(newest) {
            return Ok((survey, Lag::Moment));
        }
        if !deadline.pause(LOOK_AGAIN) {
            return Ok((survey, Lag::Lasting(lag)));
        }
        survey = session.cluster.survey()?;
    }
}

pub(super) fn nodes(session: &mut Session) -> Result<Shown, Failure> {
    let survey = session.cluster.survey()?;
    let text = status::nodes_text(&survey, session.paint);
    Shown::new(text, &status::nodes_json(&survey))
}

pub(super) fn slots(session: &mut Session, args: &SlotsArgs) -> Result<Shown, Failure> {
    session.cluster.view()?;
    let rows: Vec<SlotStatus> = session.cluster.ask(&Request::Slots)?;
    let rows = lists::only(rows, args.slots.as_ref());
    Shown::new(lists::slots(&rows, session.paint), &rows)
}

pub(super) fn explain(session: &mut Session, args: &ExplainArgs) -> Result<Shown, Failure> {
    let view = session.cluster.view()?;
    let key = args.key.as_bytes();
    let request = Request::Explain { key: key.to_vec() };
    let explained: Explained = session.cluster.ask(&request)?;
    let node = names::name_of(&view.nodes, &view.me);
    let text = lists::explain(key, &explained, node, session.paint);
    Shown::new(text, &explained)
}

pub(super) fn history(session: &mut Session, args: &HistoryArgs) -> Result<Shown, Failure> {
    session.cluster.view()?;
    let request = Request::History { count: args.count };
    let records: Vec<HistoryRecord> = session.cluster.ask(&request)?;
    Shown::new(lists::history(&records, session.paint), &records)
}

pub(super) fn stale(session: &mut Session, args: &StaleArgs) -> Result<Shown, Failure> {
    let status = session.cluster.status()?;
    let counters = if args.reset { Counters::Reset } else { Counters::Keep };
    let answers = session.cluster.ask_each::<Stale>(&status, &Request::Stale { counters });
    let node = |(id, answer): (String, Result<Stale, String>)| {
        let node = names::name_of(&status.nodes, &id).to_owned();
        let (stale, error) = match answer {
            Ok(stale) => (Some(stale), None),
            Err(why) => (None, Some(why)),
        };
        lists::StaleNode { node, error, stale }
    };
    let nodes: Vec<_> = answers.into_iter().map(node).collect();
    if nodes.iter().all(|node| node.stale.is_none()) {
        let why = nodes.iter().find_map(|node| node.error.as_deref()).unwrap_or("there is none");
        let text = format!("no node told what it counted: {why}");
        return Err(Failure::new(Exit::Unreachable, text));
    }
    let silent = nodes.iter().any(|node| node.error.is_some());
    // What is only looked at may be incomplete and says so; a reset that is, is unfinished.
    let exit = if silent && args.reset { Exit::Unfinished } else { Exit::Done };
    Shown::with(exit, lists::stale(&nodes, session.paint), &nodes)
}
