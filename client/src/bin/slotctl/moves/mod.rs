//! Moves as pure data: what nodes tell put together, how far it is, how it ended.
//!
//! ```text
//!   plan: what will go over  --order-->  SLOTD MOVES of nodes --list--> one Move each
//!                                              +------------- watch --> Progress, Step
//!   SLOTD STATUS of all nodes, HISTORY --end--> what went over, what stayed and why
//!   SLOTD HISTORY ---------------------origin--> where slots came from
//! ```
//! Not the asking (`verbs/`), nor the texts (`render/moves.rs`). Invariant: no clock is read here
//! (`now` is passed in), and what a node did not tell is `None`.

pub(crate) mod end;
pub(crate) mod list;
pub(crate) mod origin;
pub(crate) mod plan;
pub(crate) mod watch;

use slots::SlotRanges;
use slots::admin::{NodeStatus, Status};

/// The slots of an answer's text; none where it cannot be read.
pub(crate) fn ranges(text: &str) -> SlotRanges {
    text.parse().unwrap_or_default()
}

/// The slots that are in both.
pub(crate) fn both(a: &SlotRanges, b: &SlotRanges) -> SlotRanges {
    a.iter().filter(|slot| b.contains(*slot)).collect()
}

/// All slots of either.
pub(crate) fn union<'a>(sets: impl IntoIterator<Item = &'a SlotRanges>) -> SlotRanges {
    let mut all = SlotRanges::new();
    for set in sets {
        set.ranges().iter().for_each(|range| all.insert_range(*range));
    }
    all
}

/// The slots that the node of this id owns, as `status` says.
pub(crate) fn owned_by(status: &Status, id: &str) -> SlotRanges {
    let owned = |node: &NodeStatus| ranges(&node.slots);
    status.nodes.iter().find(|node| node.id == id).map(owned).unwrap_or_default()
}
