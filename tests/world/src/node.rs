//! A node of the world: the product's cores, wired as PROTOCOL 2 says, and nothing else.
//!
//! Real: rooms, sessions, commands, table, history, seat and start. Simulated: the log's list
//! behind it, the disk, the sockets.
//!
//! Invariant: entries are applied in order and once; no table gives a role before the own boot.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use slotd::command::seals::Sealer;
use slotd::command::{Client, ClientShared, NodeState, Now, Topology};
use slotd::config::Config;
use slotd::control::ledger::{Entry, Ledger};
use slotd::control::seat::{Ending, Standing};
use slotd::control::startup::{BootRecord, Claim, Evidence, Startup, Step as StartStep};
use slotd::control::{ProposeError, Proposed};
use slotd::session::{Session, Step, Worker};
use slotd::slot::{Ownership, Rooms};
use slots::{
    Epoch, LossConsent, NodeId, Nonce, Proposal, Proposer, SlotId, SlotRanges, SlotTable, StoreId,
    TableChange, TableVersion, Verdicts,
};

use crate::edges::{Dial, LogEnd, Mouth, NoChores, WorldEdges};
use crate::log::ProposalIx;
use crate::plan::Bug;

/// Proposals without an outcome that a node keeps; more are refused at once. Operators wait for
/// one answer before they ask again, so a node of a cluster without quorum has a few.
pub const MAX_OUTSTANDING: usize = 8;
/// After this the outcome of a proposal counts as unknown, ns.
const OUTCOME_LIMIT_NS: u64 = 2_000_000_000;
/// A broken node opens its seals after this, ns.
const BROKEN_SEAL_NS: u64 = 50_000_000;

/// Whose proposal it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The node's own start.
    Boot,
    /// A command's, which sealed slots: proposed again until its fate is known (PROTOCOL R5).
    Command,
    /// An operator's: whoever asked looks again.
    Operator,
}

struct Outstanding {
    entry: Arc<Entry>,
    asked: Asked,
    since_ns: u64,
    done: Option<Proposed>,
}

/// What the world is to do for a node after an event.
#[derive(Default)]
pub struct Wants {
    /// Write this to the data directory, before anything else.
    pub store: Option<BootRecord>,
    /// Send these to the leader.
    pub propose: Vec<(ProposalIx, Arc<Entry>)>,
    /// The process exits.
    pub exit: Option<Ending>,
}

/// How a process is started.
pub struct Birth {
    /// Its node and data directory.
    pub who: (NodeId, StoreId),
    /// The boot file.
    pub record: BootRecord,
    /// Of this start.
    pub nonce: Nonce,
    /// How it takes its number.
    pub claim: Claim,
    /// What it says it kept.
    pub evidence: Evidence,
    /// What its log file brings.
    pub ledger: Ledger,
    /// Options.
    pub options: Vec<String>,
    /// Both clocks.
    pub now: Now,
    /// A bug put in on purpose.
    pub bug: Option<Bug>,
}

/// A process.
pub struct WorldNode {
    /// What commands see.
    pub state: Arc<NodeState>,
    /// The replicated state.
    pub ledger: Ledger,
    /// The way to the seat.
    pub startup: Startup,
    /// What the world is to do.
    pub wants: Wants,
    worker: Worker,
    sessions: BTreeMap<usize, Session>,
    dial: Arc<Dial>,
    mouth: Arc<Mouth>,
    outstanding: BTreeMap<ProposalIx, Outstanding>,
    next_proposal: ProposalIx,
    /// A table with roles is installed.
    plays: bool,
    /// Words that are late (a bug).
    owed_words: Vec<(SlotId, (Ownership, Epoch))>,
    bug: Option<Bug>,
}

impl WorldNode {
    /// A process starts. `first_proposal`: numbers from here on are its own.
    pub fn new(birth: Birth, first_proposal: ProposalIx) -> Result<WorldNode, String> {
        let options = Config::from_args(birth.options.into_iter(), |_| {
            Err(io::Error::from(io::ErrorKind::NotFound))
        });
        let start = options.map_err(|error| error.to_string())?;
        let (dial, mouth) = (Arc::new(Dial::default()), Arc::new(Mouth::default()));
        dial.set(birth.now);
        let nothing = Arc::new(SlotTable::new());
        let state = Arc::new(NodeState::new(
            start.config,
            Rooms::new(Box::new(NoChores)),
            Topology { table: nothing.clone(), me: birth.who.0, standing: Standing::Starting },
            Box::new(WorldEdges { dial: dial.clone() }),
            Box::new(LogEnd(mouth.clone())),
            Box::new(LogEnd(mouth.clone())),
            Box::new(slotd::command::disk::NoDisk),
            "0123456789abcdef0123456789abcdef01234567".to_owned(),
            None,
        ));
        state.sync_limits();
        let worker = Worker::new(state.stats.add_worker(), birth.now.mono_ns);
        let now_ns = birth.now.mono_ns;
        let Birth { who, record, nonce, claim, evidence, ledger, bug, .. } = birth;
        let mut node = WorldNode {
            state,
            ledger,
            startup: Startup::new(who, record, nonce, claim, Some(evidence), now_ns),
            wants: Wants::default(),
            worker,
            sessions: BTreeMap::new(),
            dial,
            mouth,
            outstanding: BTreeMap::new(),
            next_proposal: first_proposal,
            plays: false,
            owed_words: Vec::new(),
            bug,
        };
        node.judge(birth.now);
        node.show(birth.now);
        Ok(node)
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// The table version it has applied.
    pub fn version(&self) -> u64 {
        self.ledger.table().version().0
    }

    /// Proposals whose outcome it does not know.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Is a table with roles installed?
    pub fn plays(&self) -> bool {
        self.plays
    }

    /// Applies the list's entry at `version`. The caller calls `show` after the last one.
    pub fn apply(
        &mut self,
        version: u64,
        entry: Option<&Entry>,
        proposal: ProposalIx,
        now: Now,
    ) -> Option<Verdicts> {
        let verdicts = match entry {
            None => {
                self.ledger.skip(TableVersion(version));
                None
            }
            Some(entry) => {
                let unchecked = || unchecked(entry, self.ledger.table());
                let tampered = self.has(Bug::ChangeWithoutChecks).then(unchecked);
                let entry = tampered.as_ref().unwrap_or(entry);
                Some(self.ledger.apply(entry, TableVersion(version)))
            }
        };
        self.judge(now);
        if let Some(verdicts) = &verdicts {
            self.resolve(proposal, verdicts, now);
        }
        verdicts
    }

    /// Takes a whole state and passes over the entries between.
    pub fn jump(&mut self, image: Ledger, now: Now) {
        self.ledger = image;
        self.judge(now);
    }

    fn judge(&mut self, now: Now) {
        let step = self.startup.applied(&self.ledger.table().clone(), now.mono_ns);
        self.follow(step, now);
    }

    fn follow(&mut self, step: StartStep, now: Now) {
        if step.store.is_some() {
            self.wants.store = step.store;
        }
        if let Some(change) = step.propose {
            self.ask(change, "itself", Asked::Boot, None, now);
        }
        if let Standing::Ended(ending) = step.standing
            && !self.is_blind_to(ending)
        {
            self.wants.exit = Some(ending);
        }
    }

    /// Does a bug keep it from seeing this?
    fn is_blind_to(&self, ending: Ending) -> bool {
        match ending {
            Ending::Doubled { .. } => {
                self.has(Bug::TwoCopiesNotNoticed) || self.has(Bug::OldDirNotNoticed)
            }
            Ending::Outdated { .. } => self.has(Bug::OldDirNotNoticed),
            Ending::OtherStore { .. } => false,
        }
    }

    /// Does the applied table give it its roles?
    fn may_play(&self) -> bool {
        match self.startup.standing() {
            Standing::Seated => true,
            Standing::Ended(ending) => self.is_blind_to(ending),
            Standing::Starting => {
                let me = self.startup.identity().node;
                self.has(Bug::RoleBeforeBoot) && self.ledger.table().node(me).is_some()
            }
            Standing::Removed => false,
        }
    }

    /// Brings the applied table to clients: after each message that brought entries.
    pub fn show(&mut self, now: Now) {
        self.dial.set(now);
        self.plays = self.may_play();
        let standing = match self.plays {
            true => Standing::Seated,
            false => self.startup.standing(),
        };
        let (me, table) = (self.startup.identity().node, self.ledger.table().clone());
        self.install(Topology { table, me, standing });
    }

    fn install(&mut self, new: Topology) {
        let old = self.state.topology();
        if old.standing == new.standing && Arc::ptr_eq(&old.table, &new.table) {
            return;
        }
        let lost = old.table.slots_of(old.me).without(&new.table.slots_of(new.me));
        if self.has(Bug::StaleAnswer) && self.plays && !lost.is_empty() {
            return;
        }
        let changed = new.table.changed_since(&old.table);
        let is_late = self.has(Bug::TopologyBeforeAdmission) && old.standing == new.standing;
        let word = |slot| (slot, self.state.rooms.ownership(slot));
        let before: Vec<_> = changed.iter().filter(|_| is_late).map(word).collect();
        self.state.install_topology(new);
        let word = |slot| (slot, self.state.rooms.ownership(slot));
        self.owed_words.extend(changed.iter().filter(|_| is_late).map(word));
        for (slot, (ownership, epoch)) in before {
            self.state.rooms.install(slot, ownership, epoch);
        }
    }

    /// A change is to be proposed.
    pub fn ask(
        &mut self,
        change: TableChange,
        actor: &str,
        asked: Asked,
        done: Option<Proposed>,
        now: Now,
    ) {
        let full = self.outstanding.len() >= MAX_OUTSTANDING && !self.has(Bug::NoQueueLimit);
        if full && asked != Asked::Boot {
            if let TableChange::UnassignSlots { slots, .. } = &change {
                // Never sent: the seals were for nothing.
                self.open_again(slots);
            }
            if let Some(done) = done {
                done(Err(ProposeError::NoQuorum));
            }
            return;
        }
        let identity = self.startup.identity();
        let cluster = self.ledger.table().cluster().map_or(crate::FOUNDED, |cluster| cluster.id);
        let by = Proposer { node: identity.node, boot: identity.boot };
        let proposal = Proposal { cluster, by, change };
        let entry = Arc::new(Entry { at_ms: now.unix_ms, actor: actor.to_owned(), proposal });
        self.out(entry, asked, done, now);
    }

    /// An entry as it is, whoever it says proposes it: nonsense has a right to be refused.
    pub fn ask_raw(&mut self, entry: Entry, now: Now) {
        if self.outstanding.len() < MAX_OUTSTANDING || self.has(Bug::NoQueueLimit) {
            self.out(Arc::new(entry), Asked::Operator, None, now);
        }
    }

    fn out(&mut self, entry: Arc<Entry>, asked: Asked, done: Option<Proposed>, now: Now) {
        let proposal = self.next_proposal;
        self.next_proposal += 1;
        self.wants.propose.push((proposal, entry.clone()));
        let since_ns = now.mono_ns;
        self.outstanding.insert(proposal, Outstanding { entry, asked, since_ns, done });
    }

    /// Nobody takes the proposal: there is no leader. It was not made.
    pub fn refused(&mut self, proposal: ProposalIx, now: Now) {
        if let Some(out) = self.outstanding.get(&proposal)
            && out.asked != Asked::Command
            && !(self.has(Bug::NoQueueLimit) && out.asked == Asked::Operator)
        {
            self.end(proposal, Err(ProposeError::NoQuorum), now);
        }
    }

    fn resolve(&mut self, proposal: ProposalIx, verdicts: &Verdicts, now: Now) {
        let Some(out) = self.outstanding.get(&proposal) else { return };
        let command = (out.asked == Asked::Command).then(|| out.entry.clone());
        self.end(proposal, Ok(verdicts.clone()), now);
        if let Some(entry) = command
            && let TableChange::UnassignSlots { slots, .. } = &entry.proposal.change
        {
            self.open_again(slots);
        }
    }

    /// Opens what the table left to this node, but for slots that another command closed.
    fn open_again(&self, slots: &SlotRanges) {
        let mut free = slots.clone();
        for out in self.outstanding.values().filter(|out| out.asked == Asked::Command) {
            if let TableChange::UnassignSlots { slots, .. } = &out.entry.proposal.change {
                free = free.without(slots);
            }
        }
        free.iter().for_each(|slot| self.unseal(slot));
    }

    fn unseal(&self, slot: SlotId) {
        let me = self.startup.identity().node;
        let row = self.ledger.table().slot(slot);
        let closed = (Ownership::Sealed, row.epoch());
        self.state.seals.open(slot, Sealer::Order, || {
            if self.state.rooms.ownership(slot) == closed && row.owner() == Some(me) {
                self.state.rooms.install(slot, Ownership::Owned, row.epoch());
            }
        });
    }

    fn end(&mut self, proposal: ProposalIx, outcome: Result<Verdicts, ProposeError>, now: Now) {
        let Some(out) = self.outstanding.remove(&proposal) else { return };
        if out.asked == Asked::Boot {
            self.startup.answered(now.mono_ns);
        }
        if let Some(done) = out.done {
            done(outcome);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.dial.set(now);
        let step = self.startup.tick(now.mono_ns);
        self.follow(step, now);
        for (slot, (ownership, epoch)) in std::mem::take(&mut self.owed_words) {
            self.state.rooms.install(slot, ownership, epoch);
        }
        let late = |out: &Outstanding| now.mono_ns.saturating_sub(out.since_ns) >= OUTCOME_LIMIT_NS;
        let late: Vec<ProposalIx> =
            self.outstanding.iter().filter(|(_, out)| late(out)).map(|(ix, _)| *ix).collect();
        for proposal in late {
            self.overdue(proposal, now);
        }
        if self.has(Bug::SealBrokenByTimer) {
            self.break_seals(now);
        }
    }

    /// A command's proposal is made again unchanged; of the others the outcome is unknown.
    fn overdue(&mut self, proposal: ProposalIx, now: Now) {
        let (forgets, hoards) = (self.has(Bug::UnknownForgotten), self.has(Bug::NoQueueLimit));
        let Some(out) = self.outstanding.get_mut(&proposal) else { return };
        if out.asked == Asked::Command && !forgets {
            out.since_ns = now.mono_ns;
            self.wants.propose.push((proposal, out.entry.clone()));
        } else if !hoards || out.asked == Asked::Boot {
            self.end(proposal, Err(ProposeError::Unknown), now);
        }
    }

    fn break_seals(&self, now: Now) {
        for out in self.outstanding.values().filter(|out| out.asked == Asked::Command) {
            let is_old = now.mono_ns.saturating_sub(out.since_ns) >= BROKEN_SEAL_NS;
            if let TableChange::UnassignSlots { slots, .. } = &out.entry.proposal.change
                && is_old
            {
                slots.iter().for_each(|slot| self.unseal(slot));
            }
        }
    }

    /// A client's bytes; returns what leaves for it. The connection is opened by its first bytes.
    pub fn serve(&mut self, client: usize, bytes: &[u8], now: Now) -> Vec<u8> {
        self.dial.set(now);
        let state = self.state.clone();
        let session = self.sessions.entry(client).or_insert_with(|| {
            let id = state.clients.next_id();
            let (from, to) = (format!("10.1.0.1:{}", 40_000 + client), "10.0.0.1:7001".to_owned());
            let shared = Arc::new(ClientShared::new(id, from, to, 10, now.mono_ns));
            state.clients.add(shared.clone());
            Session::new(Client::new(shared, true, true))
        });
        let (mut at, mut replies) = (0, Vec::new());
        loop {
            let progress = session.process(&bytes[at..], &mut self.worker, &state, now);
            at += progress.consumed;
            session.hold_back(&mut self.worker, &state);
            replies.append(&mut self.worker.out);
            if !matches!(progress.step, Step::Flush) {
                break;
            }
        }
        self.hear_commands(now);
        replies
    }

    fn hear_commands(&mut self, now: Now) {
        for spoken in self.mouth.take() {
            let is_unassign = matches!(
                spoken.change,
                TableChange::UnassignSlots { consent: LossConsent::NotGiven, .. }
            );
            if let (true, TableChange::UnassignSlots { slots, .. }) =
                (self.has(Bug::UnassignWithoutSeal), &spoken.change)
            {
                slots.iter().for_each(|slot| self.unseal(slot));
            }
            let asked = if is_unassign { Asked::Command } else { Asked::Operator };
            self.ask(spoken.change, &spoken.actor, asked, Some(spoken.done), now);
        }
    }
}

/// The entry as a node would see it that checks neither `seen` nor boots (a bug).
pub fn unchecked(entry: &Entry, table: &SlotTable) -> Entry {
    let mut entry = entry.clone();
    let recorded = |node| table.node(node).map_or(slots::Boot(0), |row| row.boot);
    let proposal = &mut entry.proposal;
    match &mut proposal.change {
        TableChange::NodeBoot { node, boot, .. } => {
            *boot = (*boot).max(recorded(*node).next());
            proposal.by.boot = *boot;
        }
        TableChange::AssignSlots { seen, .. }
        | TableChange::UnassignSlots { seen, .. }
        | TableChange::GrowInSync { seen, .. }
        | TableChange::ShrinkInSync { seen, .. }
        | TableChange::CommitMove { seen, .. }
        | TableChange::Promote { seen, .. }
        | TableChange::TakeOver { seen, .. } => {
            *seen = table.version();
            proposal.by.boot = recorded(proposal.by.node);
        }
        _ => {}
    }
    entry
}
