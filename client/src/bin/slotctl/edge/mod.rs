//! Where slotctl touches the world: sockets, threads, the clock, the terminal, files.
//!
//! Not what is decided from it. Invariant: no wait without an end.

#![allow(clippy::disallowed_methods, reason = "this is slotctl's place for them")]

mod bar;
mod connect;
pub(crate) mod folder;
mod interrupt;
mod terminal;

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

pub(crate) use bar::Bar;
pub(crate) use connect::{Connection, Login, Trouble};
pub(crate) use interrupt::Interrupt;
pub(crate) use terminal::Terminal;

use crate::exit::Failure;

/// Nodes asked at the same moment: a thread each, and far from the limit of descriptors.
const ASKED_AT_ONCE: usize = 64;
/// Longest password file, bytes: its first line is all that is read.
const MAX_PASSWORD_BYTES: u64 = 64 << 10;

/// A moment that a wait ends at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub(crate) fn after(time: Duration) -> Deadline {
        Deadline(Instant::now() + time)
    }

    /// What is left of it; `None`: it is over.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Waits for `time`, or until the deadline if that is sooner. `false`: it is over.
    pub(crate) fn pause(self, time: Duration) -> bool {
        let Some(left) = self.left() else { return false };
        std::thread::sleep(left.min(time));
        self.left().is_some()
    }
}

/// Asks all at once, at most `ASKED_AT_ONCE` at the same moment; answers come in the same order.
pub(crate) fn ask_all<T: Sync, R: Send>(whom: &[T], ask: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut answers = Vec::with_capacity(whom.len());
    for some in whom.chunks(ASKED_AT_ONCE) {
        let asked: Vec<R> = std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|one| scope.spawn(|| ask(one))).collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        answers.extend(asked);
    }
    answers
}

/// Whether a program reads what is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quiet {
    /// People do.
    No,
    /// It does.
    Yes,
}

/// The wall clock, unix ms.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// Between two looks at how far threads are.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// Runs `work` on a thread for each of `whom`; `watch` is called now and then until all ended.
pub(crate) fn work_all<T: Sync, R: Send>(
    whom: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut watch: impl FnMut(),
) -> Vec<R> {
    std::thread::scope(|scope| {
        // Nothing is sent: the channel closes with the last thread.
        let (alive, ended) = mpsc::channel::<()>();
        let work = &work;
        let threads: Vec<_> = whom
            .iter()
            .map(|one| {
                let alive = alive.clone();
                scope.spawn(move || {
                    let _alive = alive;
                    work(one)
                })
            })
            .collect();
        drop(alive);
        while ended.recv_timeout(WATCH_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
            watch();
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// The first line of a password file.
pub(crate) fn read_password(path: &Path) -> Result<String, Failure> {
    use std::io::Read;
    let shown = path.display();
    let mut text = String::new();
    let file = std::fs::File::open(path)
        .map_err(|error| Failure::usage(format!("--password-file {shown}: {error}")))?;
    file.take(MAX_PASSWORD_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("--password-file {shown}: {error}")))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(Failure::usage(format!("--password-file {shown}: its first line is empty")));
    }
    Ok(line.to_owned())
}
