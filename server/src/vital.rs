//! Tasks that the node cannot do without: a panic in one of them ends the process.
//!
//! Not the tasks of clients: a command that panics costs its connection (and the node only if a
//! slot was half changed). Invariant: no task that others wait for is ever gone in silence.

use std::future::{Future, poll_fn};

/// The task, whose panic ends the process: crash beats a node that looks alive and is not. A task
/// that is only dropped ends nothing.
pub fn vital<F: Future>(what: &'static str, task: F) -> impl Future<Output = F::Output> + use<F> {
    let mut task = Box::pin(task);
    poll_fn(move |cx| {
        let _guard = Guard(what);
        task.as_mut().poll(cx)
    })
}

struct Guard(&'static str);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the task '{}' panicked: the node ends", self.0);
            std::process::abort();
        }
    }
}
