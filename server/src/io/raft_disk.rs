//! The edge of the table's log: its folder, and the thread that writes and syncs.
//!
//! Not the formats nor the order of writes (`control/raft/disk`). Invariant: nobody waits for the
//! disk but this thread; it ends when the last handle to it is dropped.

mod folder;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use folder::Folder;

use crate::control::raft::disk::{
    Desk, DiskError, Doing, Job, OnFatal, RaftDisk, Sizes, StoreError, Work, Writer,
};
use crate::control::raft::machine::{LedgerSink, Machine};
use crate::control::raft::store::{self, LogStore};

/// How long a full disk is left alone before the next try: soon after an operator made room.
const ROOM_RETRY: Duration = Duration::from_secs(1);
/// Jobs taken together, so that their appends share a sync; openraft has one or two under way.
const MAX_BATCH_JOBS: usize = 256;

/// Opens the folder of a node's table log (made if it is not there) and starts its thread. The
/// thread ends when store, machine and all that came from them are dropped; join it before the
/// folder is opened again.
///
/// # Errors
/// See `store::open`; also a thread that cannot be started.
pub fn open(
    folder: &Path,
    sizes: Sizes,
    sink: Arc<dyn LedgerSink>,
    on_fatal: OnFatal,
) -> Result<(LogStore, Machine, JoinHandle<()>), StoreError> {
    let (jobs, inbox) = channel();
    let disk = Folder::open(folder)?;
    let desk: Arc<dyn Desk> = Arc::new(Thread { jobs });
    let mut started = Err(io::Error::other("there is no writer"));
    let (store, machine) = store::open(disk, sizes, sink, on_fatal, |writer| {
        started = start(writer, inbox);
        desk
    })?;
    let thread = started.map_err(|error| {
        let (file, reason) = (folder.display().to_string(), error.to_string());
        DiskError { doing: Doing::Write, file, full: false, reason }
    })?;
    Ok((store, machine, thread))
}

/// Jobs go to the thread through this.
struct Thread {
    jobs: Sender<Job>,
}

impl Desk for Thread {
    fn hand(&self, job: Job) {
        // The thread outlives every handle; were it gone, the job's `Done` is dropped, which tells
        // whoever waits.
        let _ = self.jobs.send(job);
    }
}

#[allow(clippy::disallowed_methods, reason = "threads of the edges start here")]
fn start<D: RaftDisk + 'static>(
    writer: Writer<D>,
    inbox: Receiver<Job>,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("raft-disk".into()).spawn(|| run(writer, inbox))
}

fn run<D: RaftDisk>(mut writer: Writer<D>, inbox: Receiver<Job>) {
    let mut next = writer.work();
    loop {
        let job = match next {
            Work::Done => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Work::Retry => inbox.recv_timeout(ROOM_RETRY),
        };
        match job {
            Ok(job) => writer.hand(job),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        inbox.try_iter().take(MAX_BATCH_JOBS).for_each(|job| writer.hand(job));
        next = writer.work();
    }
}
