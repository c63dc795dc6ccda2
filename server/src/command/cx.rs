//! What a handler gets besides keys and words.

use std::time::Duration;

use smallvec::SmallVec;

use crate::command::CommandError;
use crate::command::client::Client;
use crate::command::promise::Seen;
use crate::command::state::NodeState;
use crate::command::waiting::Bell;
use crate::config::Live;
use crate::resp::Reply;
use crate::slot::{Admit, Owned, Patience, Refused};
use slots::SlotId;

/// The two clocks, read once per batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, unix ms: for expiry only.
    pub unix_ms: u64,
    /// CLOCK_BOOTTIME in ns: for timeouts and durations.
    pub mono_ns: u64,
}

/// A small fast generator, seeded by the edge (xoshiro256++, Blackman and Vigna 2018).
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// Spreads a seed over the state (SplitMix64).
    pub fn seeded(mut seed: u64) -> Rng {
        Rng(std::array::from_fn(|_| {
            seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        }))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..n`; `n` must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next_u64() as u128 * n as u128) >> 64) as usize
    }
}

/// What a one-slot handler gets.
pub struct Cx<'a> {
    /// The reply to write. Nothing may be written before an `Err` that should stand alone: the
    /// caller cuts the reply back to its start on `Err`.
    pub reply: Reply<'a>,
    /// Both clocks.
    pub now: Now,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// Options that are read on the hot path.
    pub live: &'a Live,
    /// The command runs on behalf of a blocked client whose key became ready: a key of the
    /// wrong type means "still not there", not an error.
    pub serving: bool,
    /// The key that became ready, while serving.
    pub ready: Option<&'a [u8]>,
}

impl Cx<'_> {
    /// Is this one of a blocking command's keys to be looked at? Any is, but while serving only
    /// the one that became ready: keys are served in the order in which they received data, not
    /// in the order of the words.
    pub fn considers(&self, key: &[u8]) -> bool {
        self.ready.is_none_or(|ready| ready == key)
    }
}

/// How a blocked client is answered when its time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    /// `*-1` (RESP3 `_`).
    NullArray,
    /// `$-1` (RESP3 `_`) at once inside MULTI, but `*-1` after a wait: Redis does not tell its
    /// blocking commands apart when time is up.
    Null,
    /// A number: how many copies WAIT saw.
    Int(i64),
    /// Two: how many logs and how many copies WAITAOF saw.
    Pair(i64, i64),
}

impl TimeoutReply {
    fn pair(reply: &mut Reply<'_>, first: i64, second: i64) {
        reply.array(2);
        reply.int(first);
        reply.int(second);
    }
}

impl TimeoutReply {
    /// Writes the answer after a wait.
    pub fn write_late(self, reply: &mut Reply<'_>) {
        match self {
            TimeoutReply::NullArray | TimeoutReply::Null => reply.null_array(),
            TimeoutReply::Int(n) => reply.int(n),
            TimeoutReply::Pair(first, second) => TimeoutReply::pair(reply, first, second),
        }
    }

    /// Writes the answer inside MULTI.
    pub fn write(self, reply: &mut Reply<'_>) {
        match self {
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Null => reply.null(),
            TimeoutReply::Int(n) => reply.int(n),
            TimeoutReply::Pair(first, second) => TimeoutReply::pair(reply, first, second),
        }
    }
}

/// A blocking command found nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockOn {
    /// Word indexes of the keys waited on.
    pub keys: SmallVec<[usize; 8]>,
    /// `None` = for ever.
    pub timeout: Option<Duration>,
    /// The answer after that. Inside MULTI it is the answer at once.
    pub on_timeout: TimeoutReply,
}

/// What came of a blocking handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The reply is written.
    Done,
    /// Nothing is written; the client waits.
    Block(BlockOn),
    /// The same without a key: only time or CLIENT UNBLOCK ends it.
    BlockTimed(TimedBlock),
}

/// A command waits for time (WAIT), or for the log to be synced (WAITAOF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedBlock {
    /// `None` = for ever.
    pub timeout: Option<Duration>,
    /// The answer after that. Inside MULTI it is the answer at once.
    pub on_timeout: TimeoutReply,
    /// The round of syncs whose end ends the wait, and the answer then.
    pub until_round: Option<(u64, TimeoutReply)>,
}

/// Memory as the allocator sees it, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUse {
    /// In use by the program.
    pub allocated: u64,
    /// In pages with anything in use.
    pub active: u64,
    /// Mapped and resident, by the allocator.
    pub resident: u64,
    /// Resident set of the process.
    pub rss: u64,
}

/// The few things a handler may ask of the outside world; implemented in io/.
pub trait Edges: Send + Sync {
    /// Both clocks, now.
    fn now(&self) -> Now;
    /// Runs `f` where blocking is allowed, other tasks going on elsewhere.
    fn run_long(&self, f: &mut dyn FnMut());
    /// Sleeps; only inside `run_long`.
    fn sleep(&self, time: Duration);
    /// Waits until the bell rings, or for this time; only inside `run_long`.
    fn wait(&self, bell: &Bell, time: Duration);
    /// Memory figures.
    fn memory(&self) -> MemoryUse;
    /// User and system CPU seconds of the process.
    fn cpu_seconds(&self) -> (f64, f64);
    /// Gives free pages back (MEMORY PURGE).
    fn purge_memory(&self);
    /// Reads a file of the node (CONFIG REWRITE).
    fn read_file(&self, path: &str) -> std::io::Result<String>;
    /// Replaces a file atomically.
    fn write_file(&self, path: &str, text: &str) -> std::io::Result<()>;
    /// Asks the node to end in an orderly way.
    fn shut_down(&self);
    /// Random bits for ids.
    fn random_u64(&self) -> u64;
    /// The wall clock in us, for TIME.
    fn unix_micros(&self) -> u64;
    /// Values handed to the freeing thread: still waiting, and freed since the start.
    fn freed_objects(&self) -> (u64, u64);
}

/// What a whole-node handler gets.
pub struct NodeCx<'a> {
    /// The node.
    pub node: &'a NodeState,
    /// The asking client.
    pub client: &'a mut Client,
    /// The reply to write; as in `Cx`.
    pub reply: Reply<'a>,
    /// Both clocks.
    pub now: Now,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// Inside EXEC: the room the transaction holds.
    pub held: Option<&'a mut dyn HeldRoom>,
    /// Set by FLUSHALL inside EXEC: all other slots are emptied once the lock is let go.
    pub flush_later: bool,
    /// Set by a handler that wrote nothing and wants to wait.
    pub block: Option<TimedBlock>,
    /// Set by a handler that read or changed a slot: the reply waits for what it saw there.
    pub seen: Option<Seen>,
}

/// The room a transaction holds, whatever its lifetime.
pub trait HeldRoom {
    /// Its slot.
    fn slot(&self) -> SlotId;
    /// Lends it out.
    fn lend(&mut self, f: &mut dyn FnMut(&mut Owned<'_>));
}

impl HeldRoom for Owned<'_> {
    fn slot(&self) -> SlotId {
        Owned::slot(self)
    }

    fn lend(&mut self, f: &mut dyn FnMut(&mut Owned<'_>)) {
        f(self);
    }
}

impl NodeCx<'_> {
    /// Enters a room for a whole-node command: the held one if it is that, else by `patience`.
    /// `Ok(None)` = this node does not serve the slot.
    pub fn enter<R>(
        &mut self,
        slot: SlotId,
        patience: Patience,
        f: impl FnOnce(&mut Owned<'_>) -> R,
    ) -> Result<Option<R>, CommandError> {
        if let Some(held) = self.held.as_deref_mut() {
            if held.slot() == slot {
                let mut f = Some(f);
                let mut result = None;
                held.lend(&mut |owned| {
                    if let Some(f) = f.take() {
                        result = Some(f(owned));
                    }
                });
                return Ok(result);
            }
            return Self::enter_free(self.node, slot, self.now, Patience::Nested, f);
        }
        Self::enter_free(self.node, slot, self.now, patience, f)
    }

    /// Has the slot no keys, as far as can be told without its lock? No for the held room: what
    /// the transaction put there is not published yet.
    pub fn looks_empty(&self, slot: SlotId) -> bool {
        let held = self.held.as_ref().is_some_and(|held| held.slot() == slot);
        !held && self.node.rooms.looks_empty(slot)
    }

    fn enter_free<R>(
        node: &NodeState,
        slot: SlotId,
        now: Now,
        patience: Patience,
        f: impl FnOnce(&mut Owned<'_>) -> R,
    ) -> Result<Option<R>, CommandError> {
        match node.rooms.admit(slot, now.unix_ms, patience) {
            Admit::Served(mut owned) => Ok(Some(f(&mut owned))),
            Admit::Refused(Refused::Parked) | Admit::Busy => Err(CommandError::Busy(slot)),
            Admit::Refused(_) => Ok(None),
        }
    }
}
