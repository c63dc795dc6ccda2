//! The state machine as openraft wants it: the ledger, its members, its snapshots.
//!
//! Not what a change means (`Ledger`, `slots`), nor who uses the state (the sink). Invariant: the
//! ledger is the snapshot and the entries behind it, in order; a snapshot is answered when it is on
//! the disk.

use std::io::{self, Cursor};
use std::sync::Arc;

use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    AnyError, EmptyNode, EntryPayload, OptionalSend, RaftSnapshotBuilder, SnapshotMeta,
    StorageError, StorageIOError, StoredMembership,
};
use parking_lot::Mutex;
use slots::{TableVersion, Verdicts};
use tokio::sync::oneshot;

use super::disk::{Desk, Done, Job, LogEntry, LogId, Snap};
use super::types::{Applied, Member, TableRaft};
use crate::control::ledger::Ledger;

type Failure = StorageError<Member>;
type Members = StoredMembership<Member, EmptyNode>;

/// Whoever lives by the state: told in order, once at the start, after each batch of entries
/// (with the verdicts over their changes) and after a snapshot took the state's place. Must not
/// block: the log waits.
pub trait LedgerSink: Send + Sync {
    /// The state is this now. `verdicts` is empty at the start, after a snapshot, and for entries
    /// without a change.
    fn applied(&self, ledger: &Ledger, verdicts: &[(TableVersion, Verdicts)]);
}

/// The state machine.
pub struct Machine {
    ledger: Ledger,
    applied: Option<LogId>,
    members: Members,
    kept: Arc<Mutex<Option<Kept>>>,
    desk: Arc<dyn Desk>,
    sink: Arc<dyn LedgerSink>,
}

/// The snapshot on the disk.
#[derive(Clone)]
struct Kept {
    place: SnapshotMeta<Member, EmptyNode>,
    bytes: Arc<Vec<u8>>,
}

/// Builds one snapshot of the state as it was when the builder was asked for.
pub struct Builder {
    ledger: Ledger,
    applied: Option<LogId>,
    members: Members,
    kept: Arc<Mutex<Option<Kept>>>,
    desk: Arc<dyn Desk>,
}

impl Machine {
    /// From the recovered snapshot; entries behind it are applied again by openraft.
    pub(super) fn new(
        snapshot: Option<Snap>,
        desk: Arc<dyn Desk>,
        sink: Arc<dyn LedgerSink>,
    ) -> Machine {
        let mut machine = Machine {
            ledger: Ledger::new(),
            applied: None,
            members: Members::default(),
            kept: Arc::default(),
            desk,
            sink,
        };
        if let Some(snap) = snapshot {
            *machine.kept.lock() = Some(Kept::of(&snap));
            machine.take(snap);
        }
        machine.sink.applied(&machine.ledger, &[]);
        machine
    }

    /// The state, as far as it is applied.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn take(&mut self, snap: Snap) {
        self.ledger = snap.ledger;
        self.applied = snap.place.last_log_id;
        self.members = snap.place.last_membership;
    }
}

/// Applies one entry; `None` for one without a change.
pub(super) fn apply_to(ledger: &mut Ledger, entry: &LogEntry) -> Option<Verdicts> {
    let version = TableVersion(entry.log_id.index);
    let EntryPayload::Normal(change) = &entry.payload else {
        ledger.skip(version);
        return None;
    };
    let verdicts = ledger.apply(change, version);
    if let Some(broken) = verdicts.broken() {
        tracing::error!(
            version = version.0,
            change = change.proposal.change.name(),
            "a committed change would break an invariant and was refused: {broken}. This is a \
             defect of slotd: report it with this line"
        );
    }
    Some(verdicts)
}

impl RaftStateMachine<TableRaft> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Members), Failure> {
        Ok((self.applied, self.members.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, Failure>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        let mut changes = Vec::new();
        for entry in entries {
            let version = entry.log_id.index;
            let verdicts = apply_to(&mut self.ledger, &entry);
            self.applied = Some(entry.log_id);
            if let EntryPayload::Membership(members) = entry.payload {
                self.members = Members::new(Some(entry.log_id), members);
            }
            changes.extend(verdicts.clone().map(|verdicts| (TableVersion(version), verdicts)));
            answers.push(Applied { version, verdicts });
        }
        self.sink.applied(&self.ledger, &changes);
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder {
            ledger: self.ledger.clone(),
            applied: self.applied,
            members: self.members.clone(),
            kept: Arc::clone(&self.kept),
            desk: Arc::clone(&self.desk),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, Failure> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        place: &SnapshotMeta<Member, EmptyNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), Failure> {
        let refused = |error| StorageIOError::read_snapshot(Some(place.signature()), error);
        let snap =
            Snap::parse(snapshot.into_inner()).map_err(|error| refused(AnyError::new(&error)))?;
        if snap.place != *place {
            let why = format!("expected a snapshot of {place}, got one of {}", snap.place);
            return Err(refused(AnyError::error(why)).into());
        }
        write(&self.desk, &self.kept, &snap).await?;
        self.take(snap);
        self.sink.applied(&self.ledger, &[]);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TableRaft>>, Failure> {
        Ok(self.kept.lock().as_ref().map(Kept::snapshot))
    }
}

impl RaftSnapshotBuilder<TableRaft> for Builder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TableRaft>, Failure> {
        let ledger = std::mem::take(&mut self.ledger);
        let snap = Snap::new(self.applied, self.members.clone(), ledger)
            .map_err(|error| StorageIOError::write_snapshot(None, &error))?;
        write(&self.desk, &self.kept, &snap).await?;
        Ok(Kept::of(&snap).snapshot())
    }
}

impl Kept {
    fn of(snap: &Snap) -> Kept {
        Kept { place: snap.place.clone(), bytes: Arc::clone(&snap.bytes) }
    }

    fn snapshot(&self) -> Snapshot<TableRaft> {
        let snapshot = Box::new(Cursor::new(self.bytes.as_ref().clone()));
        Snapshot { meta: self.place.clone(), snapshot }
    }
}

/// Writes a snapshot and waits until it, or a newer one, is on the disk.
async fn write(
    desk: &Arc<dyn Desk>,
    kept: &Arc<Mutex<Option<Kept>>>,
    snap: &Snap,
) -> Result<(), Failure> {
    let (tell, outcome) = oneshot::channel();
    let done: Done = Box::new(|result| drop(tell.send(result)));
    let upto = snap.place.last_log_id;
    desk.hand(Job::Snapshot { upto, bytes: Arc::clone(&snap.bytes), done });
    let written = match outcome.await {
        Ok(result) => result.map_err(io::Error::other),
        Err(_) => Err(io::Error::other("the writer of the table's log has ended")),
    };
    let signature = Some(snap.place.signature());
    written.map_err(|error| StorageIOError::write_snapshot(signature, &error))?;
    let mut kept = kept.lock();
    if kept.as_ref().is_none_or(|older| older.place.last_log_id <= upto) {
        *kept = Some(Kept::of(snap));
    }
    Ok(())
}
