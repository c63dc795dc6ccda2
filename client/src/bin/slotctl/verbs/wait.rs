//! `slotctl wait-healthy`: looks until the cluster is as it should be.
//!
//! Not the judgement (`health.rs`). Invariant: it ends, healthy or not, when the time is up.

use std::time::Duration;

use super::look::LOOK_AGAIN;
use super::{Session, Shown};
use crate::args::WaitArgs;
use crate::edge::Deadline;
use crate::exit::{Exit, Failure};
use crate::health::{self, Health, Lag};
use crate::render::{count, status};
use crate::survey::Survey;

/// How long to wait if nothing is said: a restart of every node takes less.
const WAIT: Duration = Duration::from_secs(60);

pub(super) fn wait_healthy(
    session: &mut Session,
    args: &WaitArgs,
    time: Option<Duration>,
) -> Result<Shown, Failure> {
    let time = time.unwrap_or(WAIT);
    let deadline = Deadline::after(time);
    loop {
        let seen = session.cluster.survey().map(|survey| {
            let health = judge(&survey, args.nodes, time);
            (survey, health)
        });
        let over = match &seen {
            Ok((_, health)) if health.healthy => true,
            // What is refused or wrong does not get better by waiting.
            Err(failure) if failure.exit != Exit::Unreachable => true,
            Ok(_) | Err(_) => !deadline.pause(LOOK_AGAIN),
        };
        if over {
            let (survey, health) = seen?;
            return end(session, &survey, &health, time);
        }
    }
}

/// Tables apart and missing nodes count at once: this is about the moment when all is well.
fn judge(survey: &Survey, nodes: Option<u32>, time: Duration) -> Health {
    let mut health = health::judge(survey, Lag::Lasting(time));
    let there = survey.nodes.len();
    if let Some(wanted) = nodes.filter(|wanted| there < *wanted as usize) {
        health.problems.push(format!("{} in the cluster, {wanted} wanted", count(there, "node")));
        health.healthy = false;
    }
    health
}

fn end(
    session: &Session,
    survey: &Survey,
    health: &Health,
    time: Duration,
) -> Result<Shown, Failure> {
    let json = status::json(survey, health);
    let verdict = status::verdict(health, session.paint);
    if health.healthy {
        let nodes = count(survey.nodes.len(), "node");
        let version = survey.base.table_version;
        let text = format!("{}: {nodes}, table version {version}\n", verdict.trim_end());
        return Shown::new(text, &json);
    }
    let text = format!("after {:.1} s {verdict}", time.as_secs_f64());
    Shown::with(Exit::ChecksFailed, text, &json)
}
