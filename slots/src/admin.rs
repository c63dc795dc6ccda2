//! What the `SLOTD` command answers to operators' tools: JSON, one type per reply.
//!
//! Not how it is shown. Fields are added and never renamed or taken away, so that a tool of
//! another version reads what it knows; unknown fields are skipped.
//!
//! Invariant: an id is its hex text, a set of slots its text of ranges (`0-5460,9000`), a time
//! unix milliseconds; what is not known is `null`, never a guess.

use serde::{Deserialize, Serialize};

/// Reply to `SLOTD STATUS`: the cluster as the answering node sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Version of the server that answers.
    pub server_version: String,
    /// The node that answers.
    pub me: String,
    /// The cluster's id.
    pub cluster: String,
    /// Grows when a lost majority was given up.
    pub generation: u64,
    /// Last applied entry of the node that answers.
    pub table_version: u64,
    /// Raft's term.
    pub term: u64,
    /// The log's leader as this node knows it.
    pub leader: Option<String>,
    /// Does this node know of a leader that a majority of voters followed lately?
    pub has_quorum: bool,
    /// Slots that have no owner.
    pub unassigned: String,
    /// Copies of a slot that placement aims at.
    pub default_rf: u8,
    /// All nodes that are not removed, by name.
    pub nodes: Vec<NodeStatus>,
    /// The newest records of possible loss.
    pub losses: Vec<LossRecord>,
}

/// A node within `Status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where clients reach it, `host:port`.
    pub client: String,
    /// Where other nodes reach it, `host:port`.
    pub bus: String,
    /// The host name clients may be told.
    pub hostname: Option<String>,
    /// `active`, `draining` or `removed`.
    pub state: String,
    /// `leader`, `voter`, `learner`, or `outside` while the log does not reach it yet.
    pub role: String,
    /// `myself`, `connected`, `suspect` (silent for over a second) or `unreachable`.
    pub health: String,
    /// How often it has started, as the table knows.
    pub boot: u64,
    /// Last entry it has applied, as last heard.
    pub table_version: Option<u64>,
    /// Server version, as last heard.
    pub server_version: Option<String>,
    /// Labels, key and value.
    pub labels: Vec<(String, String)>,
    /// Its share of the slots.
    pub weight: u32,
    /// The slots it owns.
    pub slots: String,
    /// How many those are.
    pub slot_count: u32,
    /// Keys in the slots it owns; only the answering node knows its own.
    pub keys: Option<u64>,
    /// What it keeps on disk; only the answering node knows its own.
    pub disk: Option<DiskStatus>,
}

/// What a node keeps on disk.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskStatus {
    /// `always`, `everysec`, `no`: when its log is synced; `memory`: it keeps no log.
    pub durability: String,
    /// How far it is with reading its disk; `None`: it has.
    pub loading: Option<LoadingStatus>,
    /// Why it refuses writes: its log has no room.
    pub log_full: Option<String>,
    /// Why the last checkpoint came to nothing.
    pub checkpoint_failure: Option<String>,
    /// When the last checkpoint was completed, unix ms; 0: never.
    pub checkpoint_ms: u64,
}

/// How far a node is with reading its disk.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadingStatus {
    /// Of the bytes, rounded down.
    pub percent: u32,
    /// Seconds that are left at the rate so far; `None`: not known yet.
    pub left_s: Option<u64>,
}

/// A change that may have lost acknowledged writes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LossRecord {
    /// The entry.
    pub version: u64,
    /// The slots.
    pub slots: String,
    /// What happened, a sentence.
    pub cause: String,
}

/// An element of the reply to `SLOTD HISTORY`, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryRecord {
    /// The entry: the table's version after it.
    pub version: u64,
    /// When it was proposed, by the clock of the node that proposed it.
    pub at_ms: u64,
    /// The node that proposed it, by name if it has one.
    pub node: String,
    /// Who asked that node: a client's user and address, or `itself`.
    pub actor: String,
    /// The change's name.
    pub change: String,
    /// What it says, for people.
    pub detail: String,
    /// Why it was refused, whole or for some slots; `null`: it was accepted.
    pub refused: Option<String>,
}

/// Reply to `SLOTD EXPLAIN key`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Explained {
    /// The part of the key that is hashed.
    pub hash_tag: String,
    /// Its slot.
    pub slot: u16,
    /// The row of the slot.
    pub row: SlotStatus,
    /// Would this node serve it? If not, what it answers.
    pub answer: String,
}

/// Slots with equal rows, an element of the reply to `SLOTD SLOTS`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotStatus {
    /// The slots.
    pub slots: String,
    /// Name of the owner; `null`: nobody.
    pub owner: Option<String>,
    /// Entry that last changed who orders the writes.
    pub epoch: u64,
    /// Entry that last changed the in-sync set or the epoch.
    pub ver: u64,
    /// Names of the members in sync, the owner among them.
    pub in_sync: Vec<String>,
    /// Names of the wanted followers.
    pub followers: Vec<String>,
    /// `in-sync` or `local`.
    pub ack: String,
    /// Name of the node the slots are moving to.
    pub moving_to: Option<String>,
    /// Id of that move.
    pub move_id: Option<String>,
}

/// Reply to `SLOTD STALE`: who asked this node for slots that are not its own.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stale {
    /// `MOVED` answered since the start.
    pub refusals: u64,
    /// By client name and host, the most refused first.
    pub clients: Vec<StaleClient>,
    /// By slot, the most refused first.
    pub slots: Vec<StaleSlot>,
}

/// A client that was refused.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StaleClient {
    /// Its name, as set by `CLIENT SETNAME`; empty: none.
    pub name: String,
    /// Its host.
    pub host: String,
    /// How often.
    pub refusals: u64,
    /// The last time.
    pub last_ms: u64,
    /// The last slot.
    pub last_slot: u16,
}

/// A slot that was asked for at the wrong node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StaleSlot {
    /// The slot.
    pub slot: u16,
    /// How often.
    pub refusals: u64,
    /// Name of its owner now.
    pub owner: Option<String>,
}

/// Reply to a `SLOTD` order: what was done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// The table's version on the answering node after it.
    pub table_version: u64,
    /// Was anything changed? `false`: it was so already.
    pub changed: bool,
    /// A sentence for people.
    pub text: String,
    /// Slots that refused, with the reason.
    pub refused: Vec<RefusedSlots>,
}

/// Slots that refused a change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusedSlots {
    /// The slots.
    pub slots: String,
    /// Why.
    pub why: String,
}

/// Reply to `SLOTD BACKUP SLOTS`: what this node has to back up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupSlots {
    /// The table's version on the answering node.
    pub table_version: u64,
    /// The slots it owns.
    pub owned: String,
    /// Those that have keys.
    pub held: Vec<HeldSlot>,
}

/// A slot with keys.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldSlot {
    /// The slot.
    pub slot: u16,
    /// Its keys, expired ones included.
    pub keys: u64,
    /// Bytes of keys and values in memory.
    pub bytes: u64,
}

/// Reply to `SLOTD RESTORE COMMIT`: what became of the keys so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreStep {
    /// Keys that are not in the slot yet; 0: it is done.
    pub left: u64,
    /// Keys that are.
    pub restored: u64,
    /// Keys whose time had passed.
    pub expired: u64,
    /// Keys that clients had written since the first step: theirs stayed.
    pub kept: u64,
}

/// Reply to `SLOTD MOVE`: the order as it stands now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveBegun {
    /// The table's version on the answering node after it.
    pub table_version: u64,
    /// Id of the move.
    pub id: String,
    /// The node the slots move to.
    pub to: String,
    /// What people call it.
    pub to_name: String,
    /// The slots that are under this move now.
    pub slots: String,
    /// Who owns them.
    pub sources: Vec<MoveSource>,
    /// Was anything changed? `false`: they were under it already.
    pub changed: bool,
    /// A sentence for people.
    pub text: String,
    /// Slots that were asked for and are not under it, with the reason.
    pub refused: Vec<RefusedSlots>,
}

/// A node that slots move away from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveSource {
    /// Its id.
    pub node: String,
    /// What people call it.
    pub name: String,
    /// The slots it owns, of those that are to go.
    pub slots: String,
}

/// Reply to `SLOTD MOVES`: the moves that the answering node knows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Moves {
    /// The table's version on the answering node.
    pub table_version: u64,
    /// Those under way, and for a while those that ended on this node.
    pub moves: Vec<MoveStatus>,
}

/// A move.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveStatus {
    /// Its id.
    pub id: String,
    /// The node the slots move to.
    pub to: String,
    /// What people call it.
    pub to_name: String,
    /// The slots that are still to go; empty: it is over.
    pub left: String,
    /// Who owns what is left.
    pub sources: Vec<MoveSource>,
    /// How far the answering node is with what it moves away; `null`: it moves nothing of it.
    pub here: Option<MoveHere>,
}

/// How far a node is with the slots it moves away.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveHere {
    /// The slots.
    pub slots: u32,
    /// Of them those that went over.
    pub slots_moved: u32,
    /// Keys in the slots.
    pub keys: u64,
    /// Keys that the target has.
    pub keys_moved: u64,
    /// Bytes of keys and values in the slots.
    pub bytes: u64,
    /// Bytes that were sent.
    pub bytes_sent: u64,
    /// Bytes a second, lately.
    pub rate: u64,
    /// Op groups that the target lacks.
    pub lag: u64,
    /// The longest time that writes of a slot waited for its hand-over, us.
    pub longest_pause_us: u64,
    /// Slots whose copy is being made.
    pub copying: u32,
    /// Slots whose target is about to be in sync.
    pub joining: u32,
    /// Slots that are sealed for their hand-over.
    pub sealed: u32,
    /// Why nothing goes on; `null`: it does.
    pub blocked: Option<String>,
    /// When it began here, unix ms.
    pub begun_ms: u64,
    /// `moved`, `cancelled` or `lost` (the slots went another way): what became of it; `null`: it
    /// is under way.
    pub ended: Option<String>,
    /// When it ended here, unix ms; 0: not yet.
    pub ended_ms: u64,
}
