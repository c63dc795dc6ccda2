//! Watching a node: an end that nobody asked for is told and the node is started again, later
//! each time it ends soon after its start.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::layout::NodePlan;
use super::process::NodeProcess;
use super::say;

/// Pause before the first new start; it doubles with each one that fails.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A node that ran this long was well: the next pause is the first one again.
const STEADY: Duration = Duration::from_secs(10);

/// How the nodes shall end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stop {
    /// Asked by a signal that they can act on.
    Orderly,
    /// Killed.
    AtOnce,
}

/// Tells all watchers to stop.
pub(super) struct StopBell(watch::Sender<Option<Stop>>);

impl Default for StopBell {
    fn default() -> StopBell {
        StopBell(watch::Sender::new(None))
    }
}

impl StopBell {
    /// Rings.
    pub fn ring(&self, stop: Stop) {
        self.0.send_replace(Some(stop));
    }

    /// Completes once it was rung at least so loudly.
    async fn rung(&self, stop: Stop) {
        let mut listener = self.0.subscribe();
        // The sender lives as long as the bell.
        let _ = listener.wait_for(|rung| rung.is_some_and(|rung| rung >= stop)).await;
    }
}

/// Keeps a node running until the bell rings, then ends it.
pub(super) async fn watch(mut process: NodeProcess, bell: Arc<StopBell>) {
    let plan = process.plan().clone();
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        let how = tokio::select! {
            how = process.ended() => how,
            () = bell.rung(Stop::Orderly) => return end(process, &bell).await,
        };
        if started.elapsed() >= STEADY {
            pause = FIRST_PAUSE;
        }
        let again = pause.as_secs_f64();
        say(&format!("{} ended unasked ({how}); starting it again in {again} s", plan.name));
        process = tokio::select! {
            process = start_again(&plan, &mut pause) => process,
            () = bell.rung(Stop::Orderly) => return,
        };
    }
}

/// Starts a node until it serves. What was started and does not serve ends here.
async fn start_again(plan: &NodePlan, pause: &mut Duration) -> NodeProcess {
    loop {
        sleep(*pause).await;
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        let error = match NodeProcess::start(plan) {
            Ok(mut process) => match process.ready().await {
                Ok(()) => {
                    say(&format!("{} is back, pid {}", plan.name, process.pid()));
                    return process;
                }
                Err(error) => {
                    process.kill().await;
                    error
                }
            },
            Err(error) => error,
        };
        say(&format!("{error}; trying again in {} s", pause.as_secs_f64()));
    }
}

async fn end(process: NodeProcess, bell: &StopBell) {
    // Dropped half way, the process is killed with its owner.
    tokio::select! {
        () = process.stop() => {}
        () = bell.rung(Stop::AtOnce) => {}
    }
}
