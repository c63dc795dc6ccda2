//! How far slots are on their way from this node to others, as the commands show it.
//!
//! Not the moving (`node/moves`). Invariant: none of its own; it is told once who knows.

use std::sync::{Arc, OnceLock};

use slots::admin::MoveHere;
use slots::{MoveId, NodeId};

/// Knows how far the moves away from this node are.
pub trait MoveReport: Send + Sync {
    /// Each move that this node has, or lately had, a part in as the owner.
    fn moves(&self) -> Vec<MoveSeen>;
}

/// A move, as the owner of its slots sees it.
#[derive(Clone, Debug)]
pub struct MoveSeen {
    /// The move.
    pub id: MoveId,
    /// Where it goes, or went.
    pub to: Option<NodeId>,
    /// How far it is.
    pub here: MoveHere,
}

/// Who knows, once there is one.
#[derive(Default)]
pub struct Moves(OnceLock<Arc<dyn MoveReport>>);

impl Moves {
    /// Names who knows. Once.
    pub fn wire(&self, report: Arc<dyn MoveReport>) {
        let was_set = self.0.set(report).is_err();
        assert!(!was_set, "the one who knows is named once");
    }

    /// Each move that this node has, or lately had, a part in as the owner.
    pub fn all(&self) -> Vec<MoveSeen> {
        self.0.get().map(|report| report.moves()).unwrap_or_default()
    }
}
