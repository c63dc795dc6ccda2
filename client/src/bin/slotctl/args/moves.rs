//! The words of the verbs that move slots.
//!
//! Not what the verbs do. Invariant: as for all words: a bad one is refused before any node is
//! asked.

use clap::Args;
use slots::SlotRanges;

use super::values;

/// How an order to move slots is given.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OrderArgs {
    /// Return once the order is given; the nodes carry it out by themselves.
    #[arg(long)]
    pub(crate) detach: bool,
    /// Allow a target that keeps writes less safe than the node that owns the slots now.
    #[arg(long)]
    pub(crate) allow_weaker: bool,
}

/// Arguments of `move`.
#[derive(Args, Debug)]
pub(crate) struct MoveArgs {
    /// Slots: 449 or 0-99,1200-1300.
    #[arg(value_name = "SLOTS", value_parser = values::slots, allow_negative_numbers = true)]
    pub(crate) slots: SlotRanges,
    /// Where they go: name, id, beginning of an id, or HOST:PORT.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
}

/// Arguments of `moves`.
#[derive(Args, Debug)]
pub(crate) struct MovesArgs {
    /// Only this move: its id, or the beginning of it.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Watch until it is over, as `move` does; without ID all that are under way.
    #[arg(long)]
    pub(crate) follow: bool,
}

/// Arguments of `cancel`.
#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    /// The move: its id, or the beginning of it.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// Arguments of `drain`.
#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// Who gives its slots away: name, id, beginning of an id, or HOST:PORT.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
}

/// Arguments of `undo`.
#[derive(Args, Debug)]
pub(crate) struct UndoArgs {
    /// The move that is over: its id, or the beginning of it.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
}
