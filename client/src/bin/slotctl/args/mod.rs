//! The command line of slotctl, as clap reads it: the verbs, their arguments, their help.
//!
//! Not what the verbs do. Invariant: every verb has two examples in its help that parse (a test
//! holds it), and a bad argument is refused before any node is asked.

pub(crate) mod help;
mod moves;
pub(crate) mod page;
pub(crate) mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use slots::{Endpoint, MAX_WEIGHT, SlotRanges};

pub(crate) use moves::{CancelArgs, DrainArgs, MoveArgs, MovesArgs, OrderArgs, UndoArgs};

/// The operator's tool of slotd: looks at a cluster and changes it.
#[derive(Parser, Debug)]
#[command(name = "slotctl", version, disable_help_subcommand = true)]
#[command(after_help = "A first look:\n  slotctl status\n  slotctl --server 10.0.0.5:7001 nodes")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every verb")]
pub(crate) struct Common {
    /// Nodes to begin with; the others are learned from them [env: SLOTCTL_SERVER] [default:
    /// 127.0.0.1:7001, then 127.0.0.1:6379].
    #[arg(long, global = true, value_name = "HOST:PORT,...", value_delimiter = ',')]
    #[arg(value_parser = values::address)]
    pub(crate) server: Vec<Endpoint>,
    /// User to log in as; the password comes from --password-file or SLOTCTL_PASSWORD.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File whose first line is the password [env: SLOTCTL_PASSWORD has the password itself].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Longest wait, such as 500ms, 5s or 2m: for the answer of a node [default: 3s, orders 60s];
    /// for a silent node that a watched move needs, and for health in wait-healthy [default: 60s].
    #[arg(long, global = true, value_name = "TIME", value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print one JSON value on one line; errors, too, as {"error":"...","exit":N}. What is watched
    /// prints an event a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Color: auto (on a terminal, if NO_COLOR is not set), always or never.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    #[arg(hide_possible_values = true)]
    pub(crate) color: Color,
    /// Say yes to questions; what cannot be undone wants --confirm instead.
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
}

/// When to color.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Color {
    /// Where somebody looks.
    Auto,
    /// Into files, too.
    Always,
    /// Nowhere.
    Never,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Show nodes, health, table versions, leader, voters, quorum and slots.
    ///
    /// Every node is asked for its own view, in parallel; one that gives no answer is shown so.
    #[command(after_help = "Examples:\n  slotctl status\n  slotctl status --check --json")]
    Status(StatusArgs),
    /// List the nodes with ids, addresses, labels, weights, versions.
    #[command(
        after_help = "Examples:\n  slotctl nodes\n  slotctl --server 10.0.0.5:7001 nodes --json"
    )]
    Nodes,
    /// List who owns which slots, who follows them, which move.
    #[command(after_help = "Examples:\n  slotctl slots\n  slotctl slots 0-99,449")]
    Slots(SlotsArgs),
    /// Show where a key lives: hash tag, slot, owner, epoch, followers.
    #[command(
        after_help = "Examples:\n  slotctl explain foo\n  slotctl explain '{user:1}:name' --json"
    )]
    Explain(ExplainArgs),
    /// List who changed what and when, by table version, newest first.
    #[command(after_help = "Examples:\n  slotctl history\n  slotctl history --count 100 --json")]
    History(HistoryArgs),
    /// List clients with an old map: who asked nodes for slots of others.
    ///
    /// Each node counts since its start, or since the last --reset.
    #[command(after_help = "Examples:\n  slotctl stale\n  slotctl stale --reset --json")]
    Stale(StaleArgs),
    /// Wait until the cluster is healthy, for --timeout at most.
    ///
    /// Healthy: every node answers and is heard by the others, all tables are equal, a majority
    /// of the voters is there, every slot has an owner. Exit 5 when the time is up.
    #[command(after_help = "Examples:\n  slotctl wait-healthy --timeout 30s\n  \
                        slotctl wait-healthy --nodes 5")]
    WaitHealthy(WaitArgs),
    /// Give slots that nobody owns to a node.
    ///
    /// Slots that have an owner are refused. What the node owns already is no error.
    #[command(after_help = "Examples:\n  slotctl assign 0-5460 node-a\n  \
                        slotctl assign 449,1200-1300 10.0.0.5:7001")]
    Assign(AssignArgs),
    /// Move slots to a node while they serve.
    ///
    /// Shows what will go over, asks, and shows how far it is, until every node that can be reached
    /// knows the new owner of every slot. Clients go on reading and writing; the writes of a slot
    /// pause when it is handed over, for about a round trip. What is the node's already is no
    /// error. Ctrl-C ends the watching and not the move.
    #[command(after_help = "Examples:\n  slotctl move 1200-1300 node-c\n  \
                        slotctl move 449,1200-1300 10.0.0.5:7001 --yes --detach")]
    Move(MoveArgs),
    /// List the moves under way and those that ended lately, or watch them.
    ///
    /// Every node is asked: each knows how far it is with what it gives away.
    #[command(after_help = "Examples:\n  slotctl moves\n  slotctl moves 5f1c8a2e --follow")]
    Moves(MovesArgs),
    /// End a move: what has gone over stays there, the rest stays where it is.
    #[command(after_help = "Examples:\n  slotctl cancel 5f1c8a2e00d1b7c4\n  \
                        slotctl cancel 5f1c8a2e --yes")]
    Cancel(CancelArgs),
    /// Give a node nothing new and move its slots to the others, by their weights.
    ///
    /// One move for each node that takes some. Given again it goes on where it was. The node stays
    /// in the cluster: `node remove` lets it go, `node undrain` lets it take slots again.
    #[command(after_help = "Examples:\n  slotctl drain node-c\n  \
                        slotctl drain 10.0.0.5:7001 --yes --detach --json")]
    Drain(DrainArgs),
    /// Move the slots of a move that is over back to where they came from.
    ///
    /// Where that is the history of the table tells; it keeps the newest 1000 changes. Slots that
    /// have gone on to another node since are left alone.
    #[command(after_help = "Examples:\n  slotctl undo 5f1c8a2e00d1b7c4\n  \
                        slotctl undo 5f1c8a2e --yes")]
    Undo(UndoArgs),
    /// Add, remove and change nodes.
    #[command(
        subcommand_required = true,
        arg_required_else_help = false,
        after_help = "Examples:\n  slotctl node add 10.0.0.5:7001\n  \
                        slotctl node rename node-d ingest-1"
    )]
    Node {
        #[command(subcommand)]
        verb: NodeVerb,
    },
    /// Copy slots of the cluster into a folder while it serves.
    ///
    /// Each slot is copied as it stood at one moment, transactions whole; slots are copied one
    /// after the other, so two of them may stand at different moments. Goes to DIR, which must be
    /// new or empty; without its manifest.json, written last, a folder is no backup.
    #[command(after_help = "Examples:\n  slotctl backup /var/backups/tuesday\n  \
                        slotctl backup one-slot --slots 449 --json")]
    Backup(BackupArgs),
    /// Put slots of a backup back, all of them or some.
    ///
    /// All checksums are verified before anything is changed. Slots that have keys are refused
    /// unless --replace is given. The cluster may be another than the backup was taken of. Keys
    /// whose time has passed are left out; what clients write meanwhile stays.
    #[command(after_help = "Examples:\n  slotctl restore /var/backups/tuesday --check\n  \
                        slotctl restore /var/backups/tuesday --slots 449 --replace --yes")]
    Restore(RestoreArgs),
    /// Begin a new generation at one node after the majority is lost for good.
    ///
    /// The node that --server names goes on with what it knows; the voters that are gone are shut
    /// out for ever. Changes of the table that this node had not heard of are lost. The keys of
    /// slots that it does not own are where they were: `node lost` is for their owners.
    #[command(after_help = "Examples:\n  slotctl --server 10.0.0.5:7001 recover\n  \
                        slotctl --server 10.0.0.5:7001 recover --confirm \
                        9d3f07c37dfeb235213a872192d90877d0cd5563")]
    Recover(RecoverArgs),
    /// Show on a throw-away cluster of its own what slotd is for.
    #[command(
        subcommand_required = true,
        arg_required_else_help = false,
        after_help = "Examples:\n  slotctl demo stale-writer\n  \
                        slotctl demo stale-writer --seconds 10 --json"
    )]
    Demo {
        #[command(subcommand)]
        verb: DemoVerb,
    },
    /// Print a completion script for a shell.
    #[command(after_help = "Examples:\n  slotctl completions bash > slotctl.bash\n  \
                        slotctl completions zsh > _slotctl")]
    Completions(CompletionsArgs),
    /// Show help for a verb, the exit codes, or the whole manual page.
    #[command(after_help = "Examples:\n  slotctl help node add\n  slotctl help exit-codes")]
    Help(HelpArgs),
}

/// Arguments of `status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Exit 5 if the cluster is not healthy: a node does not answer, slots have no owner, no
    /// majority, tables apart for longer than --lag.
    #[arg(long)]
    pub(crate) check: bool,
    /// How long tables may be apart before --check counts it.
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "5s")]
    #[arg(requires = "check")]
    pub(crate) lag: Duration,
}

/// Arguments of `slots`.
#[derive(Args, Debug)]
pub(crate) struct SlotsArgs {
    /// Only these: 449 or 0-99,1200-1300.
    #[arg(value_name = "SLOTS", value_parser = values::slots, allow_negative_numbers = true)]
    pub(crate) slots: Option<SlotRanges>,
}

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The key, byte for byte.
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) key: OsString,
}

/// Arguments of `history`.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// How many changes, at most.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(values::MAX_HISTORY)))]
    pub(crate) count: u32,
}

/// Arguments of `stale`.
#[derive(Args, Debug)]
pub(crate) struct StaleArgs {
    /// Show the counters and set them to zero, on every node.
    #[arg(long)]
    pub(crate) reset: bool,
}

/// Arguments of `wait-healthy`.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Wait for this many nodes in the cluster, too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,
}

/// Arguments of `assign`.
#[derive(Args, Debug)]
pub(crate) struct AssignArgs {
    /// Slots: 449 or 0-99,1200-1300.
    #[arg(value_name = "SLOTS", value_parser = values::slots, allow_negative_numbers = true)]
    pub(crate) slots: SlotRanges,
    /// Node: name, id, beginning of an id, or HOST:PORT.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
}

/// Arguments of `backup`.
#[derive(Args, Debug)]
pub(crate) struct BackupArgs {
    /// A new or empty folder.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Only these slots: 449 or 0-99,1200-1300; may be given more than once.
    #[arg(long, value_name = "SLOTS", value_parser = values::slots, allow_negative_numbers = true)]
    pub(crate) slots: Vec<SlotRanges>,
}

/// Arguments of `restore`.
#[derive(Args, Debug)]
pub(crate) struct RestoreArgs {
    /// The folder of the backup.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Only these slots: 449 or 0-99,1200-1300; may be given more than once.
    #[arg(long, value_name = "SLOTS", value_parser = values::slots, allow_negative_numbers = true)]
    pub(crate) slots: Vec<SlotRanges>,
    /// Slots that have keys are emptied first.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Verify the backup and change nothing; no node is asked.
    #[arg(long, conflicts_with = "replace")]
    pub(crate) check: bool,
}

/// Arguments of `recover`.
#[derive(Args, Debug)]
pub(crate) struct RecoverArgs {
    /// The cluster's id, instead of typing it.
    #[arg(long, value_name = "CLUSTER-ID")]
    pub(crate) confirm: Option<String>,
}

/// What to show.
#[derive(Subcommand, Debug)]
pub(crate) enum DemoVerb {
    /// Let a writer with an old map write on: refused by slotd, misplaced elsewhere.
    ///
    /// Starts four nodes on free ports of this machine and removes them at the end; no other
    /// cluster is touched. Exit 5 if a reading is misplaced or missing.
    #[command(after_help = "Examples:\n  slotctl demo stale-writer\n  \
                        slotctl demo stale-writer --slotd target/debug/slotd --seconds 1 --json")]
    StaleWriter(StaleWriterArgs),
}

/// Arguments of `demo stale-writer`.
#[derive(Args, Debug)]
pub(crate) struct StaleWriterArgs {
    /// The server's program [env: SLOTD_BIN] [default: slotd beside slotctl].
    #[arg(long, value_name = "PATH")]
    pub(crate) slotd: Option<PathBuf>,
    /// How long the fourth writer is not told of the new node.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=values::MAX_DEMO_SECONDS))]
    pub(crate) seconds: u32,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// Which shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// Arguments of `help`.
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// A verb, such as status or node add, or exit-codes, or manual.
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
}

/// What to do with a node.
#[derive(Subcommand, Debug)]
pub(crate) enum NodeVerb {
    /// Take a node into the cluster.
    ///
    /// The node must run, know no other cluster and have no keys. It gets no slots by this.
    #[command(after_help = "Examples:\n  slotctl node add 10.0.0.5:7001\n  \
                        slotctl node add 10.0.0.5:7001@7501")]
    Add {
        /// Where it serves clients, and @ its port for other nodes if that is not 10000 higher.
        #[arg(value_name = "HOST:PORT", value_parser = values::join_address)]
        address: String,
    },
    /// Let a node without slots leave; its vote moves to another first.
    #[command(
        after_help = "Examples:\n  slotctl node remove node-d\n  slotctl node remove node-d --yes"
    )]
    Remove {
        /// Node: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Give a node another name.
    #[command(after_help = "Examples:\n  slotctl node rename node-d ingest-1\n  \
                        slotctl node rename 10.0.0.5:7001 ingest-1")]
    Rename {
        /// Node: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "NODE")]
        node: String,
        /// Its name from now on.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Set a label of a node, or take it away (no VALUE).
    ///
    /// The labels host, rack and zone tell what fails together: voters are spread over zones.
    #[command(after_help = "Examples:\n  slotctl node label node-a zone eu-1\n  \
                        slotctl node label node-a zone")]
    Label {
        /// Node: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "NODE")]
        node: String,
        /// Which label.
        #[arg(value_name = "KEY")]
        key: String,
        /// What it says; without it the label is taken away.
        #[arg(value_name = "VALUE")]
        value: Option<String>,
    },
    /// Give a node nothing new: no slots, no followers' roles.
    #[command(
        after_help = "Examples:\n  slotctl node drain node-c\n  slotctl node drain 10.0.0.5:7001"
    )]
    Drain {
        /// Node: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// End draining: the node takes slots again.
    #[command(after_help = "Examples:\n  slotctl node undrain node-c\n  \
                        slotctl node undrain 10.0.0.5:7001")]
    Undrain {
        /// Node: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Set a node's share of the slots, relative to the others'.
    ///
    /// A new node weighs 100. Twice the weight asks for twice the slots; nothing moves by this.
    #[command(
        after_help = "Examples:\n  slotctl node weight node-c 200\n  slotctl node weight node-c 50"
    )]
    Weight {
        /// Node: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "NODE")]
        node: String,
        /// Its weight.
        #[arg(value_name = "N", allow_negative_numbers = true)]
        #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_WEIGHT)))]
        weight: u32,
    },
    /// Give up a node that will not come back.
    ///
    /// Its vote moves, slots with copies elsewhere go to those, and it is removed for good. Slots
    /// of which it has the only copy are given up with --accept-loss only: their keys are lost.
    #[command(after_help = "Examples:\n  slotctl node lost node-c\n  \
                        slotctl node lost node-c --accept-loss")]
    Lost {
        /// Node: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "NODE")]
        node: String,
        /// Give up the keys of slots that only this node holds.
        #[arg(long)]
        accept_loss: bool,
        /// The node's name, instead of typing it.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
    },
    /// Let another node vote in a node's place.
    #[command(after_help = "Examples:\n  slotctl node replace-voter node-c node-d\n  \
                        slotctl node replace-voter node-c")]
    ReplaceVoter {
        /// Who votes no more: name, id, beginning of an id, or HOST:PORT.
        #[arg(value_name = "OLD")]
        old: String,
        /// Who votes from now on; without it the cluster chooses.
        #[arg(value_name = "NEW")]
        new: Option<String>,
    },
}
