//! From the start of a process to its seat: when the node's own boot is proposed, again and again
//! if need be, and what clients are told until it is in the table (PROTOCOL 2, R7).
//!
//! ```text
//!               row known, boot older                own NodeBoot applied
//!   Waiting ------------------------> Asking ------------------------------> Seated
//!      ^                              |    ^
//!      |  row gone                    |    | RETRY after an answer that is not ours to keep,
//!      +------------------------------+----+ or none within ANSWER_LIMIT
//!   from each of them: Removed (the row was taken away), Ended (`Seat` says why: exit)
//! ```
//! Invariant: the log gets a NodeBoot only after its boot number is on disk (`Step::store_boot`).

use std::collections::BTreeMap;
use std::time::Duration;

use slots::{Boot, Kept, SlotId, SlotRanges, SlotTable, TableChange, TableVersion, Verdicts};

use crate::control::ProposeError;
use crate::control::seat::{Ending, Identity, Seat, Standing};

/// Between an answer and the next NodeBoot: some heartbeats, and well below the 6 s in which a
/// cluster whose majority is back must be whole again.
pub const RETRY: Duration = Duration::from_millis(500);
/// After this without an answer the proposal counts as lost and is made again: no log takes
/// longer to give up.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// So long clients are told to wait (`LOADING`); after it that there is no quorum. A leader
/// change takes 2.2 s at most, an election after a common start as much again.
pub const LOADING_LIMIT: Duration = Duration::from_secs(5);

/// Until the node's start is agreed.
pub const LOADING: &str = "LOADING the node has started and its cluster has not agreed to it yet";
/// The same when it takes too long, or the log has said so.
pub const NO_QUORUM: &str = "CLUSTERDOWN no quorum: the start of this node cannot be agreed";
/// After `RemoveNode`.
pub const REMOVED: &str = "CLUSTERDOWN this node was removed from the cluster";

/// What the node found on its disk: the part of NodeBoot that is not its identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// How much of its memory it still has.
    pub kept: Kept,
    /// The newest `Alone` mark of each slot that has one.
    pub alone: BTreeMap<SlotId, TableVersion>,
    /// Slots whose copy was staged or incomplete.
    pub except: SlotRanges,
}

impl Evidence {
    /// A node that keeps nothing.
    pub const fn nothing() -> Evidence {
        Evidence { kept: Kept::Nothing, alone: BTreeMap::new(), except: SlotRanges::new() }
    }
}

/// How the boot number was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// One more than the data directory says. If the table knows as much or more, another copy of
    /// the directory was started: the process exits.
    Stored,
    /// `--restored`: the operator says that this is a backup and that no other copy runs. Takes
    /// one more than the table knows, as soon as it knows what that is.
    Restored,
}

/// What is to be done now, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Write this boot number to the data directory and sync it, before anything else here.
    pub store_boot: Option<Boot>,
    /// Propose this, as the node itself; tell `answered` what came of it.
    pub propose: Option<TableChange>,
    /// How the node stands: `Seated` plays the roles of the applied table, `Starting` and
    /// `Removed` none, `Ended` exits at once.
    pub standing: Standing,
}

/// The start of one process.
///
/// Contract: `applied` after every change of the applied table (an entry, a snapshot), in order,
/// before that table gives the node any role; `tick` every 100 ms or so; `answered` once for
/// every `Step::propose`.
#[derive(Clone, Debug)]
pub struct Startup {
    seat: Seat,
    evidence: Evidence,
    claim: Claim,
    started_ns: u64,
    standing: Standing,
    /// The table has a row for us, so that a NodeBoot has a chance.
    is_known: bool,
    ask: Ask,
    /// The log has said that no majority answers.
    lacks_quorum: bool,
}

/// Where the proposal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    /// Not before this, monotonic ns.
    From(u64),
    /// On its way since, monotonic ns.
    Out(u64),
}

impl Startup {
    /// A process that has just started. `now_ns`: monotonic.
    pub const fn new(me: Identity, claim: Claim, evidence: Evidence, now_ns: u64) -> Startup {
        Startup {
            seat: Seat::new(me),
            evidence,
            claim,
            started_ns: now_ns,
            standing: Standing::Starting,
            is_known: false,
            ask: Ask::From(now_ns),
            lacks_quorum: false,
        }
    }

    /// Who this process is; the boot number of a restored one may still grow.
    pub const fn identity(&self) -> Identity {
        self.seat.identity()
    }

    /// How the node stands to the table it applied last.
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// A table was applied.
    pub fn applied(&mut self, table: &SlotTable, now_ns: u64) -> Step {
        let was_seated = self.standing == Standing::Seated;
        self.is_known = table.node(self.identity().node).is_some();
        self.standing = self.seat.judge(table);
        let mut store_boot = None;
        let is_behind = matches!(
            self.standing,
            Standing::Ended(Ending::Outdated { .. } | Ending::Doubled { .. })
        );
        if self.claim == Claim::Restored && is_behind && !was_seated {
            store_boot = Some(self.claim_next(table, now_ns));
        }
        if self.standing == Standing::Seated {
            self.claim = Claim::Stored;
            self.lacks_quorum = false;
        }
        Step { store_boot, propose: self.ask(now_ns), standing: self.standing }
    }

    /// Takes one more than the table knows.
    fn claim_next(&mut self, table: &SlotTable, now_ns: u64) -> Boot {
        let me = self.identity();
        let recorded = table.node(me.node).map_or(me.boot, |row| row.boot);
        self.seat = Seat::new(Identity { boot: recorded.next(), ..me });
        self.standing = self.seat.judge(table);
        self.ask = Ask::From(now_ns);
        recorded.next()
    }

    /// Time has passed.
    pub fn tick(&mut self, now_ns: u64) -> Step {
        if let Ask::Out(since) = self.ask
            && now_ns.saturating_sub(since) >= ANSWER_LIMIT.as_nanos() as u64
        {
            self.ask = Ask::From(now_ns);
        }
        Step { store_boot: None, propose: self.ask(now_ns), standing: self.standing }
    }

    /// What came of the proposal. An accepted one needs nothing here: `applied` has seen it. A
    /// refused one, too: the table that refused it says why, and `applied` has judged that.
    pub fn answered(&mut self, outcome: &Result<Verdicts, ProposeError>, now_ns: u64) {
        self.lacks_quorum =
            matches!(outcome, Err(ProposeError::NoQuorum)) && self.standing != Standing::Seated;
        self.ask = Ask::From(now_ns + RETRY.as_nanos() as u64);
    }

    fn ask(&mut self, now_ns: u64) -> Option<TableChange> {
        let Ask::From(earliest) = self.ask else { return None };
        if self.standing != Standing::Starting || !self.is_known || now_ns < earliest {
            return None;
        }
        self.ask = Ask::Out(now_ns);
        let Identity { node, boot, nonce, .. } = self.identity();
        let Evidence { kept, alone, except } = self.evidence.clone();
        Some(TableChange::NodeBoot { node, boot, nonce, kept, alone, except })
    }

    /// What a client gets for any command that touches a slot; `None`: the table decides.
    pub fn refusal(&self, now_ns: u64) -> Option<&'static str> {
        match self.standing {
            Standing::Seated => None,
            Standing::Removed => Some(REMOVED),
            Standing::Starting | Standing::Ended(_) => {
                let waited = now_ns.saturating_sub(self.started_ns);
                let is_long = waited >= LOADING_LIMIT.as_nanos() as u64;
                Some(if self.lacks_quorum || is_long { NO_QUORUM } else { LOADING })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slots::{
        Addresses, ClusterId, ClusterSettings, Endpoint, NewNode, NodeId, Nonce, Proposal,
        Proposer, StoreId,
    };

    use super::*;

    const ME: NodeId = NodeId::from_bytes([1; 20]);
    const MS: u64 = 1_000_000;

    fn identity(boot: u64, nonce: u8) -> Identity {
        Identity {
            node: ME,
            store: StoreId::from_bytes([1; 16]),
            boot: Boot(boot),
            nonce: Nonce::from_bytes([nonce; 8]),
        }
    }

    fn startup(boot: u64) -> Startup {
        Startup::new(identity(boot, 7), Claim::Stored, Evidence::nothing(), 0)
    }

    fn apply(table: &mut SlotTable, boot: u64, change: TableChange) -> Verdicts {
        let by = Proposer { node: ME, boot: Boot(boot) };
        let proposal = Proposal { cluster: ClusterId::from_bytes([1; 20]), by, change };
        let version = table.version().next();
        table.apply(&proposal, version)
    }

    /// A table that knows us, never started.
    fn table() -> SlotTable {
        let mut table = SlotTable::new();
        let endpoint = Endpoint::new("", 1);
        let node = NewNode {
            id: ME,
            name: "node-a".to_owned(),
            store: StoreId::from_bytes([1; 16]),
            addresses: Addresses { client: endpoint.clone(), bus: endpoint, hostname: None },
            labels: Default::default(),
            weight: 1,
        };
        let settings = ClusterSettings::default();
        for change in [TableChange::InitCluster { settings }, TableChange::AddNode { node }] {
            assert_eq!(apply(&mut table, 0, change).all(), Ok(()));
        }
        table
    }

    fn boot_by_another(table: &mut SlotTable, boot: u64, nonce: u8) {
        let mut other = Startup::new(identity(boot, nonce), Claim::Stored, Evidence::nothing(), 0);
        let change = other.applied(table, 0).propose.expect("it asks at once");
        assert_eq!(apply(table, boot, change).all(), Ok(()));
    }

    #[test]
    fn nothing_is_asked_before_the_table_knows_the_node() {
        let mut start = startup(1);
        assert_eq!(start.applied(&SlotTable::new(), 0).propose, None);
        assert_eq!(start.tick(9_000 * MS).propose, None);
        assert!(start.applied(&table(), 9_000 * MS).propose.is_some());
    }

    #[test]
    fn own_boot_in_the_table_is_a_seat() {
        let (mut start, mut table) = (startup(1), table());
        let change = start.applied(&table, 0).propose.expect("a NodeBoot");
        assert_eq!(start.refusal(0), Some(LOADING));
        let verdicts = apply(&mut table, 1, change);
        let step = start.applied(&table, MS);
        assert_eq!((step.standing, step.propose), (Standing::Seated, None));
        start.answered(&Ok(verdicts), MS);
        assert_eq!(start.refusal(0), None);
        assert_eq!(start.tick(99_000 * MS).propose, None);
    }

    #[test]
    fn a_lost_proposal_is_made_again() {
        let (mut start, table) = (startup(1), table());
        let first = start.applied(&table, 0).propose;
        assert!(first.is_some());
        assert_eq!(start.applied(&table, MS).propose, None, "one at a time");
        start.answered(&Err(ProposeError::Unknown), 10 * MS);
        assert_eq!(start.tick(509 * MS).propose, None);
        assert_eq!(start.tick(510 * MS).propose, first, "unchanged");
        assert_eq!(start.tick(3_509 * MS).propose, None);
        assert_eq!(start.tick(3_510 * MS).propose, first, "no answer at all");
    }

    #[test]
    fn clients_are_told_of_a_missing_quorum_once_it_is_known() {
        let (mut start, table) = (startup(1), table());
        start.applied(&table, 0);
        assert_eq!(start.refusal(4_999 * MS), Some(LOADING));
        assert_eq!(start.refusal(5_000 * MS), Some(NO_QUORUM));
        start.answered(&Err(ProposeError::NoQuorum), 10 * MS);
        assert_eq!(start.refusal(10 * MS), Some(NO_QUORUM));
        start.answered(&Err(ProposeError::Unknown), 20 * MS);
        assert_eq!(start.refusal(20 * MS), Some(LOADING));
    }

    #[test]
    fn an_old_copy_of_the_directory_ends() {
        let (mut start, mut table) = (startup(4), table());
        boot_by_another(&mut table, 5, 9);
        let step = start.applied(&table, 0);
        let ending = Ending::Outdated { recorded: Boot(5), got: Boot(4) };
        assert_eq!((step.standing, step.propose), (Standing::Ended(ending), None));
    }

    #[test]
    fn a_restored_copy_takes_one_more_than_the_table_knows() {
        let mut table = table();
        let mut start = Startup::new(identity(4, 7), Claim::Restored, Evidence::nothing(), 0);
        boot_by_another(&mut table, 5, 9);
        let step = start.applied(&table, 0);
        assert_eq!((step.store_boot, step.standing), (Some(Boot(6)), Standing::Starting));
        // Another start came in between: again one more.
        boot_by_another(&mut table, 6, 8);
        let step = start.applied(&table, 0);
        assert_eq!(step.store_boot, Some(Boot(7)));
        let change = step.propose.expect("asked at once");
        assert_eq!(apply(&mut table, 7, change).all(), Ok(()));
        assert_eq!(start.applied(&table, 0).standing, Standing::Seated);
        // From now on it is a start like any other.
        boot_by_another(&mut table, 8, 9);
        let step = start.applied(&table, 0);
        assert!(matches!(step.standing, Standing::Ended(_)) && step.store_boot.is_none());
    }

    #[test]
    fn a_removed_node_says_so_and_asks_again_once_it_is_added_again() {
        let (mut start, mut known) = (startup(1), table());
        let change = start.applied(&known, 0).propose.expect("a NodeBoot");
        let verdicts = apply(&mut known, 1, change);
        start.applied(&known, 0);
        start.answered(&Ok(verdicts), 0);
        assert_eq!(apply(&mut known, 1, TableChange::RemoveNode { node: ME }).all(), Ok(()));
        assert_eq!(start.applied(&known, MS).standing, Standing::Removed);
        assert_eq!(start.refusal(MS), Some(REMOVED));
        assert_eq!(start.tick(9_000 * MS).propose, None);
        assert!(start.applied(&table(), 9_000 * MS).propose.is_some());
    }
}
