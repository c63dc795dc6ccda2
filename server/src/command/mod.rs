//! The command table: one declaration per command, from which dispatch, arity, key positions,
//! flags, ACL categories, COMMAND replies and the docs pages are read.
//!
//! A handler's type says what it may do: `Read` sees keys, `Write` may apply ops, `Block` may
//! also wait, `Node` works on the node as a whole, `Session` belongs to the connection. The
//! flags `readonly`, `write` and `blocking` follow from it and are never declared.
//!
//! A new command = one entry in a family's `COMMANDS` slice + one script beside it.

pub mod args;
pub mod client;
pub mod counted;
pub mod cx;
pub mod disk;
mod docs;
pub mod error;
pub mod families;
pub mod installed;
pub mod keyspec;
pub mod mailbox;
pub mod moves;
pub mod parking;
pub mod promise;
pub mod registry;
pub mod scrape;
pub mod seals;
pub mod sections;
pub mod slow_log;
pub mod stale;
pub mod state;
pub mod stats;
pub mod waiting;

use crate::slot::{Keys, Owned};

pub use args::{Args, OwnedArgs};
pub use client::{Client, ClientShared, ReplyMode};
pub use cx::{BlockOn, Cx, Edges, Flow, MemoryUse, NodeCx, Now, Rng, TimedBlock, TimeoutReply};
pub use docs::docs;
pub use error::CommandError;
pub use installed::Topology;
pub use keyspec::KeySpec;
pub use registry::{CommandId, Registry, registry};
pub use state::NodeState;

/// What a handler returns: the reply is written, or an error takes its place.
pub type Outcome = Result<(), CommandError>;

/// A read-only handler.
pub type ReadFn = fn(&Keys, &Args<'_>, &mut Cx<'_>) -> Outcome;
/// A handler that may apply ops.
pub type WriteFn = fn(&mut Owned<'_>, &Args<'_>, &mut Cx<'_>) -> Outcome;
/// A handler that may have to wait for a key.
pub type BlockFn = fn(&mut Owned<'_>, &Args<'_>, &mut Cx<'_>) -> Result<Flow, CommandError>;
/// A handler that works on the node, not on one slot.
pub type NodeFn = fn(&mut NodeCx<'_>, &Args<'_>) -> Outcome;

/// What a command does, by type.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Reads keys of one slot.
    Read(ReadFn),
    /// Changes keys of one slot.
    Write(WriteFn),
    /// As `Write`, and may block the client.
    Block(BlockFn),
    /// No slot: the node.
    Node(NodeFn),
    /// Part of the connection's own state machine: the session runs it.
    Session(SessionVerb),
    /// Only its subcommands do anything.
    Container,
}

/// The commands that the session runs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionVerb {
    /// Opens a transaction.
    Multi,
    /// Runs it.
    Exec,
    /// Drops it.
    Discard,
    /// Watches keys.
    Watch,
    /// Ends all watches.
    Unwatch,
    /// Back to a fresh connection.
    Reset,
    /// Says OK and closes.
    Quit,
}

/// Bits of `Command::flags`. Those that follow from the handler are not here.
pub mod flag {
    /// Refused when over maxmemory.
    pub const DENYOOM: u32 = 1;
    /// Changes or shows the server itself.
    pub const ADMIN: u32 = 1 << 1;
    /// Not from scripts.
    pub const NOSCRIPT: u32 = 1 << 2;
    /// Allowed while loading.
    pub const LOADING: u32 = 1 << 3;
    /// Allowed on a node whose data may be stale.
    pub const STALE: u32 = 1 << 4;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 5;
    /// Allowed before AUTH.
    pub const NO_AUTH: u32 = 1 << 6;
    /// Not inside MULTI.
    pub const NO_MULTI: u32 = 1 << 7;
    /// Not logged in the slow log.
    pub const SKIP_SLOWLOG: u32 = 1 << 8;
    /// Not shown by MONITOR.
    pub const SKIP_MONITOR: u32 = 1 << 9;
    /// Allowed while a script is over its time.
    pub const ALLOW_BUSY: u32 = 1 << 10;
    /// Publish and subscribe.
    pub const PUBSUB: u32 = 1 << 11;
    /// Not while loading asynchronously.
    pub const NO_ASYNC_LOADING: u32 = 1 << 12;
    /// May write through scripts or publishing.
    pub const MAY_REPLICATE: u32 = 1 << 13;
    /// Ours: may run long, so it runs where blocking is allowed.
    pub const LONG: u32 = 1 << 14;
    /// Ours: goes on during CLIENT PAUSE ALL (CLIENT, PING of monitoring...).
    pub const NO_PAUSE: u32 = 1 << 15;
    /// Ours: counts as a write for CLIENT PAUSE WRITE although it names no key.
    pub const WRITES_NODE: u32 = 1 << 16;
    /// ACL category `dangerous`.
    pub const DANGEROUS: u32 = 1 << 17;
    /// Ours: goes on at a node without a seat although Redis refuses it while loading: a probe
    /// asks whether the process lives.
    pub const UNSEATED: u32 = 1 << 18;
    /// Ours: reads or changes keys of any slot.
    pub const ALL_KEYS: u32 = 1 << 19;
}

/// Redis's command groups, as COMMAND DOCS names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Bitmap,
    Transactions,
    Scripting,
    Connection,
    Server,
    Cluster,
}

impl Group {
    /// As COMMAND DOCS prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::Bitmap => "bitmap",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Cluster => "cluster",
        }
    }
}

/// One command or subcommand.
pub struct Command {
    /// Lower case; a subcommand's own word.
    pub name: &'static str,
    /// Words with the command's; negative = at least. A subcommand's counts its container too.
    pub arity: i16,
    /// What it does.
    pub handler: Handler,
    /// Where its keys are.
    pub keys: KeySpec,
    /// Bits of `flag`.
    pub flags: u32,
    /// COMMAND DOCS's group.
    pub group: Group,
    /// First Redis version that has it.
    pub since: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Big-O in words.
    pub complexity: &'static str,
    /// Subcommands of a container.
    pub subcommands: &'static [Command],
}

impl Command {
    /// What most entries leave as it is.
    pub const BASE: Command = Command {
        name: "",
        arity: 0,
        handler: Handler::Container,
        keys: KeySpec::None,
        flags: 0,
        group: Group::Generic,
        since: "1.0.0",
        summary: "",
        complexity: "O(1)",
        subcommands: &[],
    };

    /// May it change keys?
    pub fn writes(&self) -> bool {
        matches!(self.handler, Handler::Write(_) | Handler::Block(_))
            || self.flags & flag::WRITES_NODE != 0
    }

    /// May its reply depend on any slot?
    pub fn sees_all_keys(&self) -> bool {
        self.flags & flag::ALL_KEYS != 0
    }

    /// May a node without a seat answer it?
    pub fn needs_no_seat(&self) -> bool {
        self.flags & (flag::LOADING | flag::STALE | flag::UNSEATED) != 0
    }

    /// Is `n` a legal number of words?
    #[inline]
    pub fn arity_ok(&self, n: usize) -> bool {
        if self.arity < 0 { n >= -self.arity as usize } else { n == self.arity as usize }
    }
}
