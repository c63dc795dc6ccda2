//! Stores in memory that outlive the node: what was saved is there at the next start.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Cursor;
use std::ops::RangeBounds;
use std::sync::Arc;

use openraft::storage::{LogFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{
    EmptyNode, Entry, EntryPayload, LogId, LogState, RaftLogReader, RaftSnapshotBuilder, Snapshot,
    SnapshotMeta, StorageError, StorageIOError, StoredMembership, Vote,
};
use parking_lot::Mutex;
use slots::{SlotTable, TableVersion};
use tokio::sync::watch;

use crate::control::ledger::Ledger;
use crate::control::raft::disk::Snap;
use crate::control::raft::types::{Applied, Member, TableRaft};

type Stored<T> = Result<T, StorageError<Member>>;

#[derive(Default)]
struct Log {
    vote: Option<Vote<Member>>,
    committed: Option<LogId<Member>>,
    purged: Option<LogId<Member>>,
    entries: BTreeMap<u64, Entry<TableRaft>>,
}

#[derive(Clone, Default)]
pub(super) struct MemoryLog(Arc<Mutex<Log>>);

impl MemoryLog {
    /// The first entry that is still there.
    pub(super) fn first_index(&self) -> Option<u64> {
        self.0.lock().entries.keys().next().copied()
    }
}

impl RaftLogReader<TableRaft> for MemoryLog {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: R,
    ) -> Stored<Vec<Entry<TableRaft>>> {
        Ok(self.0.lock().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<TableRaft> for MemoryLog {
    type LogReader = MemoryLog;

    async fn get_log_state(&mut self) -> Stored<LogState<TableRaft>> {
        let log = self.0.lock();
        let last = log.entries.values().next_back().map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: log.purged, last_log_id: last.or(log.purged) })
    }

    async fn get_log_reader(&mut self) -> MemoryLog {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<Member>) -> Stored<()> {
        self.0.lock().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote<Member>>> {
        Ok(self.0.lock().vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId<Member>>) -> Stored<()> {
        self.0.lock().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Stored<Option<LogId<Member>>> {
        Ok(self.0.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TableRaft>) -> Stored<()>
    where
        I: IntoIterator<Item = Entry<TableRaft>> + Send,
        I::IntoIter: Send,
    {
        let entries = entries.into_iter().map(|entry| (entry.log_id.index, entry));
        self.0.lock().entries.extend(entries);
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<Member>) -> Stored<()> {
        self.0.lock().entries.split_off(&from.index);
        Ok(())
    }

    async fn purge(&mut self, upto: LogId<Member>) -> Stored<()> {
        let mut log = self.0.lock();
        let kept = log.entries.split_off(&(upto.index + 1));
        log.entries = kept;
        log.purged = Some(upto);
        Ok(())
    }
}

#[derive(Clone, Default)]
struct State {
    ledger: Ledger,
    last: Option<LogId<Member>>,
    members: StoredMembership<Member, EmptyNode>,
}

#[derive(Default)]
struct Machine {
    state: State,
    snapshot: Option<(SnapshotMeta<Member, EmptyNode>, Vec<u8>)>,
    installed: u64,
}

/// What all machines of a cluster have applied, by index: they must agree.
#[derive(Clone, Default)]
pub(super) struct Common(Arc<Mutex<BTreeMap<u64, LogId<Member>>>>);

impl Common {
    fn agree(&self, applied: LogId<Member>) {
        let before = *self.0.lock().entry(applied.index).or_insert(applied);
        assert_eq!(before, applied, "two nodes applied different entries at one index");
    }
}

#[derive(Clone)]
pub(super) struct MemoryMachine {
    machine: Arc<Mutex<Machine>>,
    history: Option<Common>,
    shown: Arc<watch::Sender<Arc<SlotTable>>>,
}

impl Default for MemoryMachine {
    fn default() -> MemoryMachine {
        let shown = Arc::new(watch::Sender::new(Arc::new(SlotTable::new())));
        MemoryMachine { machine: Arc::default(), history: None, shown }
    }
}

impl MemoryMachine {
    pub(super) fn table(&self) -> watch::Receiver<Arc<SlotTable>> {
        self.shown.subscribe()
    }

    pub(super) fn in_common(history: &Common) -> MemoryMachine {
        MemoryMachine { history: Some(history.clone()), ..MemoryMachine::default() }
    }

    /// Snapshots that came from another node.
    pub(super) fn installed(&self) -> u64 {
        self.machine.lock().installed
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.machine.lock().state.ledger.clone()
    }
}

impl RaftSnapshotBuilder<TableRaft> for MemoryMachine {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<TableRaft>> {
        let mut machine = self.machine.lock();
        let State { ledger, last, members } = machine.state.clone();
        let snap = Snap::new(last, members, ledger)
            .map_err(|bad| StorageIOError::read_state_machine(&bad))?;
        let (meta, image) = (snap.place, snap.bytes.to_vec());
        machine.snapshot = Some((meta.clone(), image.clone()));
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(image)) })
    }
}

impl RaftStateMachine<TableRaft> for MemoryMachine {
    type SnapshotBuilder = MemoryMachine;

    async fn applied_state(
        &mut self,
    ) -> Stored<(Option<LogId<Member>>, StoredMembership<Member, EmptyNode>)> {
        let machine = self.machine.lock();
        Ok((machine.state.last, machine.state.members.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<Applied>>
    where
        I: IntoIterator<Item = Entry<TableRaft>> + Send,
        I::IntoIter: Send,
    {
        let mut answers = Vec::new();
        let mut machine = self.machine.lock();
        for entry in entries {
            let version = TableVersion(entry.log_id.index);
            machine.state.last = Some(entry.log_id);
            self.history.iter().for_each(|history| history.agree(entry.log_id));
            let verdicts = match entry.payload {
                EntryPayload::Normal(entry) => Some(machine.state.ledger.apply(&entry, version)),
                EntryPayload::Membership(members) => {
                    machine.state.members = StoredMembership::new(Some(entry.log_id), members);
                    machine.state.ledger.skip(version);
                    None
                }
                EntryPayload::Blank => {
                    machine.state.ledger.skip(version);
                    None
                }
            };
            answers.push(Applied { version: version.0, verdicts });
        }
        self.shown.send_replace(Arc::clone(machine.state.ledger.table()));
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> MemoryMachine {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<Member, EmptyNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Stored<()> {
        let image = snapshot.into_inner();
        let Snap { ledger, .. } = Snap::parse(image.clone())
            .map_err(|bad| StorageIOError::read_snapshot(Some(meta.signature()), &bad))?;
        let mut machine = self.machine.lock();
        self.shown.send_replace(Arc::clone(ledger.table()));
        machine.state =
            State { ledger, last: meta.last_log_id, members: meta.last_membership.clone() };
        machine.snapshot = Some((meta.clone(), image));
        machine.installed += 1;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<TableRaft>>> {
        let machine = self.machine.lock();
        Ok(machine
            .snapshot
            .clone()
            .map(|(meta, image)| Snapshot { meta, snapshot: Box::new(Cursor::new(image)) }))
    }
}
