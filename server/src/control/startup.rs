//! From the start of a process to its seat: when its boot is proposed, again and again if need be
//! (PROTOCOL 2, R7). Not what clients are told until then (`command/installed`).
//!
//! ```text
//!           row known, boot older                own NodeBoot applied
//!   Waiting ------------------------> Asking ------------------------------> Seated
//!      ^                              |    ^
//!      |  row gone                    |    | RETRY after an answer that is not ours to keep,
//!      +------------------------------+----+ or none within ANSWER_LIMIT
//!   from each: Removed (the row was taken away), Ended (`Seat` says why: exit)
//! ```
//! Invariant: no NodeBoot before its claim is on disk, no role before its boot is (`Step::store`).

use std::collections::BTreeMap;
use std::time::Duration;

use slots::{
    Boot, Kept, NodeId, Nonce, SlotId, SlotRanges, SlotTable, StoreId, TableChange, TableVersion,
};

use crate::control::seat::{Ending, Identity, Seat, Standing};

/// Between an answer and the next NodeBoot: some heartbeats, and well below the 6 s in which a
/// cluster whose majority is back must be whole again.
pub const RETRY: Duration = Duration::from_millis(500);
/// After this without an answer the proposal counts as lost and is made again: no log takes
/// longer to give up.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(3);
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

/// Starts that were never confirmed and are remembered, 8 bytes each: a node that waits for its
/// cluster may be restarted for days by whoever looks after it.
pub const MAX_CLAIMS: usize = 1024;

/// The boot numbers of a data directory: what is in its file.
///
/// A start takes `confirmed + 1`, and the number is confirmed once it is in the table. Until then
/// every further start takes the same number with a nonce of its own. So of two copies of one
/// directory one gets the number and the other never gets a higher one, however often it is
/// started again; while a node that stopped before it learned of its seat finds its own nonce.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BootRecord {
    /// The last boot of this directory that was in the table.
    pub confirmed: Boot,
    /// Nonces of the starts since then, the oldest first; `MAX_CLAIMS` at most.
    pub claims: Vec<Nonce>,
}

impl BootRecord {
    /// A start takes the next number, if nobody else has.
    pub fn claim(&mut self, nonce: Nonce) {
        self.claims.retain(|claim| *claim != nonce);
        if self.claims.len() == MAX_CLAIMS {
            self.claims.remove(0);
        }
        self.claims.push(nonce);
    }

    fn confirm(&mut self, boot: Boot) {
        *self = BootRecord { confirmed: boot, claims: Vec::new() };
    }
}

/// How the boot number is chosen.
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
    /// Write this to the data directory and sync it, before anything else here.
    pub store: Option<BootRecord>,
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
    record: BootRecord,
    /// Claims of earlier starts that this one has gone past.
    spent: Vec<Nonce>,
    /// `record` differs from what was given out to be stored.
    is_unstored: bool,
    /// `None`: the node still reads its disk.
    evidence: Option<Evidence>,
    claim: Claim,
    standing: Standing,
    /// The table has a row for us, so that a NodeBoot has a chance.
    is_known: bool,
    ask: Ask,
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
    /// A process that has just started. `record`: as its data directory has it; `nonce`: random,
    /// of this start. Without evidence nothing is proposed until `found`. `now_ns`: monotonic.
    pub fn new(
        (node, store): (NodeId, StoreId),
        mut record: BootRecord,
        nonce: Nonce,
        claim: Claim,
        evidence: Option<Evidence>,
        now_ns: u64,
    ) -> Startup {
        let boot = record.confirmed.next();
        record.claim(nonce);
        Startup {
            seat: Seat::new(Identity { node, store, boot, nonce }),
            record,
            spent: Vec::new(),
            is_unstored: true,
            evidence,
            claim,
            standing: Standing::Starting,
            is_known: false,
            ask: Ask::From(now_ns),
        }
    }

    /// The node has read its disk: now its boot can be proposed.
    pub fn found(&mut self, evidence: Evidence, now_ns: u64) -> Step {
        self.evidence = Some(evidence);
        self.step(now_ns)
    }

    /// Who this process is; its boot number may grow until it is seated, not after.
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
        if !was_seated && self.may_go_on(table) {
            self.claim_next(table, now_ns);
        }
        let Identity { boot, .. } = self.identity();
        if self.standing == Standing::Seated && self.record.confirmed != boot {
            self.record.confirm(boot);
            self.is_unstored = true;
            self.claim = Claim::Stored;
        }
        self.step(now_ns)
    }

    /// Our number is taken: by an earlier start of this very directory, or by one that a restored
    /// copy succeeds?
    fn may_go_on(&self, table: &SlotTable) -> bool {
        let row = table.node(self.identity().node);
        let recorded = row.and_then(|row| row.nonce);
        match self.standing {
            Standing::Ended(Ending::Doubled { .. } | Ending::Outdated { .. }) => {
                self.claim == Claim::Restored
                    || recorded.is_some_and(|nonce| self.record.claims.contains(&nonce))
            }
            Standing::Starting | Standing::Seated | Standing::Removed | Standing::Ended(_) => false,
        }
    }

    /// A member refuses us: it knows a start with this number, and its nonce unless that is not
    /// known. The next number is taken if that was an earlier start of this very directory, or
    /// one that a restored copy succeeds; `None`: another copy of the directory runs or ran, and
    /// the process must exit.
    pub fn taken(&mut self, recorded: Boot, nonce: Option<Nonce>, now_ns: u64) -> Option<Step> {
        let is_among = |nonces: &[Nonce]| nonce.is_some_and(|nonce| nonces.contains(&nonce));
        if recorded < self.identity().boot || is_among(&self.spent) {
            // Said of a number that was given up since.
            return Some(self.step(now_ns));
        }
        let goes_on = is_among(&self.record.claims) || self.claim == Claim::Restored;
        if self.standing == Standing::Seated || !goes_on {
            return None;
        }
        self.claim_after(recorded, now_ns);
        Some(self.step(now_ns))
    }

    /// Takes one more than the table knows.
    fn claim_next(&mut self, table: &SlotTable, now_ns: u64) {
        let me = self.identity();
        let recorded = table.node(me.node).map_or(me.boot, |row| row.boot);
        self.claim_after(recorded, now_ns);
        self.standing = self.seat.judge(table);
    }

    fn claim_after(&mut self, recorded: Boot, now_ns: u64) {
        let me = self.identity();
        self.spent.extend(self.record.claims.iter().filter(|nonce| **nonce != me.nonce));
        self.record.confirm(recorded);
        self.record.claim(me.nonce);
        self.is_unstored = true;
        self.seat = Seat::new(Identity { boot: recorded.next(), ..me });
        self.standing = Standing::Starting;
        self.ask = Ask::From(now_ns);
    }

    /// Time has passed.
    pub fn tick(&mut self, now_ns: u64) -> Step {
        if let Ask::Out(since) = self.ask
            && now_ns.saturating_sub(since) >= ANSWER_LIMIT.as_nanos() as u64
        {
            self.ask = Ask::From(now_ns);
        }
        self.step(now_ns)
    }

    fn step(&mut self, now_ns: u64) -> Step {
        let store = std::mem::take(&mut self.is_unstored).then(|| self.record.clone());
        Step { store, propose: self.ask(now_ns), standing: self.standing }
    }

    /// The proposal came to something. Whatever it was needs nothing here: if it was applied,
    /// `applied` has judged the table that it met.
    pub fn answered(&mut self, now_ns: u64) {
        self.ask = Ask::From(now_ns + RETRY.as_nanos() as u64);
    }

    fn ask(&mut self, now_ns: u64) -> Option<TableChange> {
        let Ask::From(earliest) = self.ask else { return None };
        if self.standing != Standing::Starting || !self.is_known || now_ns < earliest {
            return None;
        }
        let Evidence { kept, alone, except } = self.evidence.clone()?;
        self.ask = Ask::Out(now_ns);
        let Identity { node, boot, nonce, .. } = self.identity();
        Some(TableChange::NodeBoot { node, boot, nonce, kept, alone, except })
    }
}

#[cfg(test)]
mod tests {
    use slots::{
        Addresses, ClusterId, ClusterSettings, Endpoint, NewNode, Proposal, Proposer, Verdicts,
    };

    use super::*;

    const ME: NodeId = NodeId::from_bytes([1; 20]);
    const MS: u64 = 1_000_000;

    fn nonce(mark: u8) -> Nonce {
        Nonce::from_bytes([mark; 8])
    }

    /// A start of a directory whose last confirmed boot is one less, with these claims.
    fn start(boot: u64, mark: u8, claims: &[u8], claim: Claim) -> Startup {
        let who = (ME, StoreId::from_bytes([1; 16]));
        Startup::new(
            who,
            record(boot - 1, claims),
            nonce(mark),
            claim,
            Some(Evidence::nothing()),
            0,
        )
    }

    fn record(confirmed: u64, claims: &[u8]) -> BootRecord {
        let claims = claims.iter().map(|mark| nonce(*mark)).collect();
        BootRecord { confirmed: Boot(confirmed), claims }
    }

    fn startup(boot: u64) -> Startup {
        start(boot, 7, &[], Claim::Stored)
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

    fn boot_by_another(table: &mut SlotTable, boot: u64, mark: u8) {
        let mut other = start(boot, mark, &[], Claim::Stored);
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
        let step = start.applied(&table, 0);
        assert_eq!(step.store, Some(record(0, &[7])), "the claim before the proposal");
        let change = step.propose.expect("a NodeBoot");
        assert_eq!(apply(&mut table, 1, change).all(), Ok(()));
        let step = start.applied(&table, MS);
        assert_eq!((step.standing, step.propose), (Standing::Seated, None));
        assert_eq!(step.store, Some(record(1, &[])), "confirmed before any role");
        start.answered(MS);
        assert_eq!(start.tick(99_000 * MS).propose, None);
    }

    #[test]
    fn a_member_that_knows_an_earlier_start_of_ours_is_answered_with_the_next_number() {
        let mut start = start(4, 7, &[5, 6], Claim::Stored);
        let step = start.taken(Boot(4), Some(nonce(5)), 0).expect("it was ours");
        assert_eq!(step.store, Some(record(4, &[7])));
        assert_eq!(start.identity().boot, Boot(5));
        // A second member says the same of the number that was given up.
        let again = start.taken(Boot(5), Some(nonce(5)), 0).expect("it goes on");
        assert_eq!((again.store, start.identity().boot), (None, Boot(5)));
        // A start that was never ours has our number: another copy runs.
        assert_eq!(start.taken(Boot(5), Some(nonce(9)), 0), None);
        assert!(start.taken(Boot(4), None, 0).is_some(), "older news");
        assert_eq!(start.taken(Boot(6), None, 0), None);
    }

    #[test]
    fn a_lost_proposal_is_made_again() {
        let (mut start, table) = (startup(1), table());
        let first = start.applied(&table, 0).propose;
        assert!(first.is_some());
        assert_eq!(start.applied(&table, MS).propose, None, "one at a time");
        start.answered(10 * MS);
        assert_eq!(start.tick(509 * MS).propose, None);
        assert_eq!(start.tick(510 * MS).propose, first, "unchanged");
        assert_eq!(start.tick(3_509 * MS).propose, None);
        assert_eq!(start.tick(3_510 * MS).propose, first, "no answer at all");
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
    fn of_two_copies_one_never_gets_a_seat_however_often_it_starts() {
        let mut table = table();
        let mut loser = start(4, 7, &[], Claim::Stored);
        let kept = loser.tick(0).store.expect("the claim");
        boot_by_another(&mut table, 4, 9);
        for again in 0..3 {
            let ended = Standing::Ended(Ending::Doubled { boot: Boot(4) });
            let step = loser.applied(&table, 0);
            assert_eq!((step.standing, step.propose), (ended, None));
            let who = (ME, StoreId::from_bytes([1; 16]));
            let nothing = Evidence::nothing();
            loser =
                Startup::new(who, kept.clone(), nonce(20 + again), Claim::Stored, Some(nothing), 0);
        }
    }

    #[test]
    fn a_start_whose_predecessor_was_seated_without_learning_of_it_takes_the_next_number() {
        let mut table = table();
        boot_by_another(&mut table, 4, 8);
        let mut start = start(4, 7, &[8], Claim::Stored);
        let step = start.applied(&table, 0);
        assert_eq!((step.store, step.standing), (Some(record(4, &[7])), Standing::Starting));
        let change = step.propose.expect("asked at once");
        assert_eq!(apply(&mut table, 5, change).all(), Ok(()));
        assert_eq!(start.applied(&table, 0).standing, Standing::Seated);
    }

    #[test]
    fn claims_have_a_limit() {
        let mut record = BootRecord::default();
        for mark in 0..MAX_CLAIMS as u64 + 2 {
            record.claim(Nonce::from_bytes(mark.to_le_bytes()));
        }
        assert_eq!(record.claims.len(), MAX_CLAIMS);
        assert_eq!(record.claims[0], Nonce::from_bytes(2u64.to_le_bytes()));
    }

    #[test]
    fn a_restored_copy_takes_one_more_than_the_table_knows() {
        let mut table = table();
        let mut start = start(4, 7, &[], Claim::Restored);
        boot_by_another(&mut table, 5, 9);
        let step = start.applied(&table, 0);
        assert_eq!((step.store, step.standing), (Some(record(5, &[7])), Standing::Starting));
        // Another start came in between: again one more.
        boot_by_another(&mut table, 6, 8);
        let step = start.applied(&table, 0);
        assert_eq!(step.store, Some(record(6, &[7])));
        let change = step.propose.expect("asked at once");
        assert_eq!(apply(&mut table, 7, change).all(), Ok(()));
        assert_eq!(start.applied(&table, 0).standing, Standing::Seated);
        // From now on it is a start like any other.
        boot_by_another(&mut table, 8, 9);
        let step = start.applied(&table, 0);
        assert!(matches!(step.standing, Standing::Ended(_)) && step.store.is_none());
    }

    #[test]
    fn a_removed_node_says_so_and_asks_again_once_it_is_added_again() {
        let (mut start, mut known) = (startup(1), table());
        let change = start.applied(&known, 0).propose.expect("a NodeBoot");
        assert_eq!(apply(&mut known, 1, change).all(), Ok(()));
        start.applied(&known, 0);
        start.answered(0);
        assert_eq!(apply(&mut known, 1, TableChange::RemoveNode { node: ME }).all(), Ok(()));
        assert_eq!(start.applied(&known, MS).standing, Standing::Removed);
        assert_eq!(start.tick(9_000 * MS).propose, None);
        assert!(start.applied(&table(), 9_000 * MS).propose.is_some());
    }
}
