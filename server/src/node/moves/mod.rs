//! Moves of slots, driven: what this node owns goes where the table says, and copies that are no
//! longer owed are let go of.
//!
//! ```text
//!   table --> entries, one a slot (entry) --letters--> the other node (target), which replies
//!                |-- wants: GrowInSync, ShrinkInSync      --> proposed, many slots in one entry
//!                `-- handed over: CommitMove, or AbortMove where the other side has no copy
//! ```
//! Not the rules (`migration`, `replication`), nor the copies (`stream`, `slot/stages`). Invariant:
//! replies of a slot that others count for are raised here alone, and never beyond what all of them
//! and the own log have.

mod channel;
mod entry;
mod report;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use slots::{MoveId, NodeId, OpIndex, SlotId, SlotRanges, SlotTable, TableChange, TableVersion};
use tokio::sync::Notify;

use crate::command::moves::{MoveReport, MoveSeen};
use crate::command::promise::Promises;
use crate::command::{NodeState, Topology};
use crate::control::seat::Standing;
use crate::io::clock;
use crate::peer::{CallKind, Calls};
use crate::replication::Want;
use crate::slot::Bell;
use crate::vital::vital;

use channel::Channel;
use entry::{ACK_TIMEOUT, Entry};
use report::Tallies;
pub(super) use target::Target;

/// How often it looks by itself while slots move, and while none does.
const LOOK_BUSY: Duration = Duration::from_millis(2);
const LOOK_IDLE: Duration = Duration::from_millis(100);
/// How long a letter may take: longer than a sync of a slow disk, and than a table that lags.
const LETTER_PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries to send a letter.
const LETTER_PAUSE: Duration = Duration::from_millis(50);
/// After a sync that failed, before the next.
const SYNC_PAUSE: Duration = Duration::from_millis(200);
/// Slots that are closed at once: as many pause for one round trip and one commit.
const SEALED_MAX: usize = 1024;
/// Copies that are being filled at once, for one target: each has a tap.
const FILLING_MAX: usize = 64;

/// What moves away from this node.
pub(super) struct Mover {
    node: Arc<NodeState>,
    calls: Arc<dyn Calls>,
    wake: Arc<Notify>,
    syncs: Syncs,
    book: Mutex<Book>,
}

struct Book {
    /// What was looked at last.
    table: Arc<SlotTable>,
    me: Option<NodeId>,
    entries: BTreeMap<SlotId, Entry>,
    channels: BTreeMap<NodeId, Channel>,
    tallies: Tallies,
    /// Rows that could not be looked at: somebody was inside the room.
    unread: SlotRanges,
    /// Slots that nobody counts for any more, with the round of the own log that they wait for.
    leaving: Vec<(SlotId, u64)>,
    /// The replies that may depend on any slot, and wait.
    ticket: Option<Ticket>,
    /// Moves of these slots are to be withdrawn: the log refused their commit, or the target has
    /// no copy of what it was given word of.
    withdrawn: Vec<(MoveId, SlotId)>,
}

/// What has to be safe before replies leave that may depend on any slot.
struct Ticket {
    number: u64,
    /// The own log's round.
    round: u64,
    /// Counted slots whose last index is not known yet, and those that are not safe up to theirs.
    unread: Vec<SlotId>,
    slots: Vec<(SlotId, OpIndex)>,
    since: Duration,
}

/// What is to be proposed after a step.
#[derive(Default)]
struct Wishes {
    wants: BTreeMap<Want, SlotRanges>,
    commits: BTreeMap<(MoveId, TableVersion), SlotRanges>,
    aborts: BTreeMap<MoveId, SlotRanges>,
    /// Nobody counts for them any more.
    releases: Vec<SlotId>,
    /// More is safe than before.
    is_progress: bool,
}

/// Syncs of the whole log, one at a time, asked for by number.
#[derive(Default)]
struct Syncs {
    /// The last round that has begun, that has ended, and that has ended well.
    begun: AtomicU64,
    ended: AtomicU64,
    good: AtomicU64,
    /// The last that is wanted.
    wanted: AtomicU64,
}

impl Syncs {
    /// A round that begins from now on is wanted; its number.
    fn want(&self) -> u64 {
        let round = self.begun.load(SeqCst) + 1;
        self.wanted.fetch_max(round, SeqCst);
        round
    }

    /// The last round that ended well.
    fn done(&self) -> u64 {
        self.good.load(SeqCst)
    }

    /// Begins the round that is wanted, unless one is under way or none is wanted.
    fn begin(&self) -> Option<u64> {
        let begun = self.begun.load(SeqCst);
        let is_idle = self.ended.load(SeqCst) == begun;
        (is_idle && self.wanted.load(SeqCst) > begun).then(|| {
            self.begun.store(begun + 1, SeqCst);
            begun + 1
        })
    }
}

/// What a step goes by.
struct Look<'a> {
    node: &'a NodeState,
    table: &'a SlotTable,
    me: NodeId,
    now: Duration,
    now_ns: u64,
    bell: &'a Bell,
    syncs: &'a Syncs,
}

impl Mover {
    pub(super) fn new(node: Arc<NodeState>, calls: Arc<dyn Calls>) -> Arc<Mover> {
        let book = Book {
            table: Arc::new(SlotTable::new()),
            me: None,
            entries: BTreeMap::new(),
            channels: BTreeMap::new(),
            tallies: Tallies::default(),
            unread: SlotRanges::default(),
            leaving: Vec::new(),
            ticket: None,
            withdrawn: Vec::new(),
        };
        let wake = Arc::new(Notify::new());
        let rung = wake.clone();
        node.on_table(Arc::new(move || rung.notify_one()));
        let (syncs, book) = (Syncs::default(), Mutex::new(book));
        let mover = Arc::new(Mover { node, calls, wake, syncs, book });
        mover.node.moves.wire(mover.clone());
        mover
    }

    /// Drives the moves, for good.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let is_busy = self.step();
            let look = if is_busy { LOOK_BUSY } else { LOOK_IDLE };
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(look) => {}
            }
        }
    }

    /// Looks at everything once. Is there anything to look after?
    fn step(self: &Arc<Self>) -> bool {
        let now = clock::now();
        let topology = self.node.topology();
        let wake = self.wake.clone();
        let bell: Bell = Arc::new(move || wake.notify_one());
        let mut wishes = Wishes::default();
        let mut letters = Vec::new();
        let is_busy = {
            let mut book = self.book.lock();
            if topology.standing != Standing::Seated {
                book.leave_all(&self.node);
                return false;
            }
            let look = Look {
                node: &self.node,
                table: &topology.table,
                me: topology.me,
                now: Duration::from_nanos(now.mono_ns),
                now_ns: now.mono_ns,
                bell: &bell,
                syncs: &self.syncs,
            };
            book.step(&look, &topology, &mut wishes);
            let targets: Vec<NodeId> = book.channels.keys().copied().collect();
            letters
                .extend(targets.into_iter().filter_map(|to| Some((to, book.letter(to, &look)?))));
            !book.is_idle()
        };
        if wishes.is_progress {
            self.node.promises.progressed();
        }
        self.propose(wishes);
        self.sync();
        letters.into_iter().for_each(|(to, body)| self.send(to, body));
        is_busy
    }

    /// Syncs the log if that is wanted. One by one only the step looks: nobody else begins.
    fn sync(self: &Arc<Self>) {
        let Some(round) = self.syncs.begin() else { return };
        let mover = self.clone();
        tokio::spawn(vital("sync for moves", async move {
            let node = mover.node.clone();
            match tokio::task::spawn_blocking(move || node.disk.sync()).await {
                Ok(Ok(())) => mover.syncs.good.store(round, SeqCst),
                // Nobody is let go of by it.
                failed => {
                    tracing::warn!(
                        ?failed,
                        "slots that came stay on two nodes: no sync of the log"
                    );
                    mover.syncs.wanted.fetch_max(round + 1, SeqCst);
                    tokio::time::sleep(SYNC_PAUSE).await;
                }
            }
            mover.syncs.ended.store(round, SeqCst);
            mover.wake.notify_one();
        }));
    }

    fn send(self: &Arc<Self>, to: NodeId, body: Vec<u8>) {
        let mover = self.clone();
        let call = self.calls.call(to, CallKind::Copy, body, LETTER_PATIENCE);
        tokio::spawn(vital("letter", async move {
            let reply = call.await;
            let is_answered = mover.replied(to, reply);
            if !is_answered {
                tokio::time::sleep(LETTER_PAUSE).await;
                mover.may_send_again(to);
            }
            mover.wake.notify_one();
        }));
    }

    /// Proposes what is wished. What becomes of it the table says; what is refused as a commit is
    /// withdrawn, for the slot is closed until the log decides.
    fn propose(self: &Arc<Self>, wishes: Wishes) {
        let actor = "itself";
        for (want, slots) in wishes.wants {
            let wake = self.wake.clone();
            let done = move |outcome| {
                tracing::debug!(?want, ?outcome, "proposed");
                wake.notify_one();
            };
            self.node.table_log.propose(want.change(slots), actor, Box::new(done));
        }
        for ((id, seen), slots) in wishes.commits {
            let mover = self.clone();
            let done = move |outcome: Result<slots::Verdicts, _>| {
                if let Ok(verdicts) = &outcome {
                    mover.refused(id, verdicts);
                }
                mover.wake.notify_one();
            };
            let change = TableChange::CommitMove { id, slots, seen };
            self.node.table_log.propose(change, actor, Box::new(done));
        }
        for (id, slots) in wishes.aborts {
            tracing::warn!(%id, %slots, "a move is withdrawn: its target has no whole copy");
            let wake = self.wake.clone();
            let done = move |_| wake.notify_one();
            let change = TableChange::AbortMove { id, slots };
            self.node.table_log.propose(change, actor, Box::new(done));
        }
    }

    fn refused(&self, id: MoveId, verdicts: &slots::Verdicts) {
        let mut book = self.book.lock();
        for (refusal, slots) in verdicts.refused() {
            for slot in slots.iter() {
                let entry = book.entries.get(&slot);
                if entry.is_some_and(|entry| entry.has_handed_over(id)) {
                    tracing::warn!(%id, slot = slot.number(), %refusal, "a commit was refused");
                    book.withdrawn.push((id, slot));
                }
            }
        }
    }
}

impl MoveReport for Mover {
    fn moves(&self) -> Vec<MoveSeen> {
        self.book.lock().report(clock::now())
    }
}

impl Book {
    fn is_idle(&self) -> bool {
        let nothing = self.entries.is_empty() && self.leaving.is_empty() && self.unread.is_empty();
        nothing && self.ticket.is_none() && self.channels.is_empty()
    }

    /// The node has no seat: whatever it was about to do is another life's.
    fn leave_all(&mut self, node: &NodeState) {
        self.entries.clear();
        self.channels.clear();
        self.leaving.clear();
        self.table = Arc::new(SlotTable::new());
        // What another life of the node makes of the slots says nothing of these replies.
        let counted = node.promises.counted();
        if !counted.is_idle() {
            SlotId::all().for_each(|slot| counted.lose(slot));
            node.promises.settle_counted();
            node.promises.progressed();
        }
    }

    fn step(&mut self, look: &Look<'_>, topology: &Topology, wishes: &mut Wishes) {
        self.learn(look, &topology.table);
        for (id, slot) in std::mem::take(&mut self.withdrawn) {
            wishes.aborts.entry(id).or_default().insert(slot);
        }
        let mut may_fill = BTreeMap::<NodeId, usize>::new();
        for entry in self.entries.values() {
            if let Some(to) = entry.filling_to() {
                *may_fill.entry(to).or_insert(0) += 1;
            }
        }
        let mut sealed = self.entries.values().filter(|entry| entry.is_sealed()).count();
        for entry in self.entries.values_mut() {
            if let Some(to) = entry.wants_copy(look) {
                let filling = may_fill.entry(to).or_insert(0);
                if *filling < FILLING_MAX && entry.begin_copy(look) {
                    *filling += 1;
                    self.channels.entry(to).or_insert_with(|| Channel::open(look));
                }
            }
            let may_seal = sealed < SEALED_MAX;
            let was_sealed = entry.is_sealed();
            entry.step(look, may_seal, &mut self.tallies, wishes);
            sealed += usize::from(entry.is_sealed() && !was_sealed);
        }
        for slot in std::mem::take(&mut wishes.releases) {
            self.leave(look.node, slot);
        }
        self.release(look.node, wishes);
        self.answer_tickets(look, wishes);
        // A channel that nothing goes through is closed with its last reply.
        let used: Vec<NodeId> = self.entries.values().filter_map(Entry::copy_to).collect();
        self.channels.retain(|to, channel| used.contains(to) || channel.is_waiting());
    }

    /// Looks at what changed in the table.
    fn learn(&mut self, look: &Look<'_>, table: &Arc<SlotTable>) {
        if self.me != Some(look.me) {
            self.me = Some(look.me);
            self.table = Arc::new(SlotTable::new());
        }
        let is_new = table.version() != self.table.version();
        if !is_new && self.unread.is_empty() {
            return;
        }
        let mut changed = std::mem::take(&mut self.unread);
        if is_new {
            changed.extend(table.changed_since(&self.table).iter());
            // A node that started again is another for all that it had acked.
            changed.extend(self.entries.keys().copied());
            self.table = table.clone();
        }
        for slot in changed.iter() {
            self.learn_slot(look, slot);
        }
        self.tallies.learn(table, look.me, look.now_ns);
    }

    fn learn_slot(&mut self, look: &Look<'_>, slot: SlotId) {
        let row = look.table.slot(slot);
        let is_mine = row.owner() == Some(look.me);
        let has_peers = row.planned_move().is_some() || row.in_sync_count() > 1;
        match self.entries.get_mut(&slot) {
            Some(entry) if is_mine && has_peers => entry.learn(look),
            Some(_) => {
                if let Some(entry) = self.entries.remove(&slot) {
                    entry.end(look, &mut self.tallies);
                    if is_mine {
                        // Nobody counts: the own log is enough for what comes.
                        self.leave(look.node, slot);
                    }
                }
            }
            None if is_mine && has_peers => match Entry::begin(look, slot, &mut self.tallies) {
                Some(entry) => {
                    self.entries.insert(slot, entry);
                }
                None => self.unread.insert(slot),
            },
            None if is_mine && look.node.promises.counted().is_counted(slot) => {
                // It was counted when its row was installed, and is alone by now.
                self.leave(look.node, slot);
            }
            None if !is_mine && look.node.promises.counted().is_counted(slot) => {
                // It came and went between two looks.
                look.node.promises.counted().lose(slot);
                look.node.promises.progressed();
            }
            None => {}
        }
    }

    /// Nobody counts for a slot: the own log is enough for what is written from now on.
    fn leave(&mut self, node: &NodeState, slot: SlotId) {
        node.promises.counted().begin_release(slot);
        self.leaving.retain(|(leaving, _)| *leaving != slot);
        self.leaving.push((slot, round_for_now(&node.promises)));
    }

    /// Ends the counting of slots whose writes so far are in the own log.
    fn release(&mut self, node: &NodeState, wishes: &mut Wishes) {
        let promises = &node.promises;
        if self.leaving.is_empty() && self.entries.is_empty() {
            return promises.settle_counted();
        }
        let done = rounds_done(promises);
        self.leaving.retain(|(slot, round)| {
            let stays = *round > done;
            if !stays {
                wishes.is_progress |= promises.counted().release(*slot);
            }
            stays
        });
        promises.settle_counted();
    }

    /// Replies that may depend on any slot leave once all that was there when they were asked for
    /// is safe; what they wait for is not known if that takes too long.
    fn answer_tickets(&mut self, look: &Look<'_>, wishes: &mut Wishes) {
        let counted = look.node.promises.counted();
        if self.ticket.is_none()
            && let Some(number) = counted.open_ticket()
        {
            let (unread, slots) = (counted.all(), Vec::new());
            let round = round_for_now(&look.node.promises);
            self.ticket = Some(Ticket { number, round, unread, slots, since: look.now });
        }
        let Some(ticket) = &mut self.ticket else { return };
        // A later index than that of the moment it was asked for does no harm.
        ticket.unread.retain(|slot| match look.node.rooms.try_read(*slot) {
            Some(reading) => {
                ticket.slots.push((*slot, reading.index()));
                false
            }
            None => true,
        });
        ticket.slots.retain(|(slot, index)| counted.waits(*slot, *index).is_some());
        let is_safe = ticket.unread.is_empty() && ticket.slots.is_empty();
        if is_safe && rounds_done(&look.node.promises) >= ticket.round {
            counted.answer(ticket.number);
        } else if look.now.saturating_sub(ticket.since) >= ACK_TIMEOUT {
            counted.give_up_tickets(ticket.number);
        } else {
            return;
        }
        wishes.is_progress = true;
        self.ticket = None;
    }
}

/// The round of the own log with whose end all that is appended now is as safe as this node
/// promises; 0: it is already.
fn round_for_now(promises: &Promises) -> u64 {
    match promises.log() {
        Some(log) if promises.waits_for_syncs() => log.round_for_now(),
        Some(log) if log.has_waiting() => log.round_for_now(),
        _ => 0,
    }
}

fn rounds_done(promises: &Promises) -> u64 {
    promises.log().map_or(u64::MAX, |log| log.rounds_done())
}
