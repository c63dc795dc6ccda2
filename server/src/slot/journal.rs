//! Where op groups go: the seam between a room and whatever keeps its stream (DESIGN 5, 6).
//!
//! Not a codec and not a log: the encoder is handed in, so that this module knows no format, and
//! the journal is somebody else's. Without a journal nothing is encoded.
//! Invariant: the groups of a slot reach the journal in the order of their indexes, each whole
//! and once, under the slot's lock.

use std::cell::Cell;
use std::sync::Arc;

use slots::{Epoch, OpIndex, SlotId, TableVersion};

use crate::slot::op::Op;

/// A fresh scratch buffer: several groups of short commands.
const GROUP_SCRATCH_BYTES: usize = 4 * 1024;

/// A scratch buffer that grew beyond is given back to the allocator: one worker thread keeps no
/// more, whatever the largest group was.
const GROUP_KEEP_BYTES: usize = 1024 * 1024;

/// A place in a lane of the log: what a gate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The lane; a slot's lane never changes while a node runs.
    pub lane: u16,
    /// Just past the group, in the lane's own measure. Rises with every group; never 0.
    pub at: u64,
}

/// Takes the op groups of all slots.
pub trait Journal: Send + Sync {
    /// Appends one whole group. Called under the slot's lock, so the order per slot holds; must
    /// not wait and must not take a room's lock. Returns the place after the group, in the lane
    /// that `lane` names.
    fn append(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position;
    /// As `append`, of the group with which a slot lets its keys go: a later life of the slot on
    /// this node is not joined to what came before.
    fn leave(&self, slot: SlotId, epoch: Epoch, index: OpIndex, group: &[u8]) -> Position;
    /// Appends what is no group of the slot's room; order as said at each `Step`.
    fn step(&self, step: Step, slot: SlotId, place: (Epoch, OpIndex), payload: &[u8]) -> Position;
    /// The lane of a slot.
    fn lane(&self, slot: SlotId) -> u16;
}

/// What happens to a slot beside the groups of its room. All but `Adopted`, `Anew` and `Alone` are
/// appended under the lock of the stage, these three under the room's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A stage begins; an older one ends.
    StageBegin,
    /// A frame of it; the payload is the frame.
    StageChunk,
    /// The frame that makes it whole.
    StageComplete,
    /// A group that came after that.
    StageGroup,
    /// It ends without being adopted.
    StageDrop,
    /// It is the content of the room, which goes on from there at this epoch.
    Adopted,
    /// The node is in another cluster: epochs from here on say nothing of those before.
    Anew,
    /// The node is alone in sync, since this version of the table.
    Alone(TableVersion),
}

/// Appends the bytes of an op to the open group; an empty group is begun.
pub type EncodeOp = fn(&Op<'_>, &mut Vec<u8>);

/// A journal with the encoder for it.
pub(super) struct Recorder {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) encode: EncodeOp,
}

thread_local! {
    /// The scratch buffer of this thread while no hold has it.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The thread's buffer for the groups of one hold; empty, with room.
pub(super) fn take_scratch() -> Vec<u8> {
    let scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    if scratch.capacity() > 0 { scratch } else { Vec::with_capacity(GROUP_SCRATCH_BYTES) }
}

/// Gives the buffer back.
pub(super) fn give_back_scratch(mut scratch: Vec<u8>) {
    if scratch.capacity() <= GROUP_KEEP_BYTES {
        scratch.clear();
        // A thread that ends may have let go of its own already.
        let _ = SCRATCH.try_with(|kept| kept.set(scratch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_unless_it_grew_too_large() {
        let mut scratch = take_scratch();
        scratch.extend_from_slice(b"a group");
        let (address, capacity) = (scratch.as_ptr(), scratch.capacity());
        give_back_scratch(scratch);
        let mut scratch = take_scratch();
        assert!(scratch.is_empty());
        assert_eq!((scratch.as_ptr(), scratch.capacity()), (address, capacity));
        scratch.resize(GROUP_KEEP_BYTES + 1, 0);
        give_back_scratch(scratch);
        assert_eq!(take_scratch().capacity(), GROUP_SCRATCH_BYTES);
    }
}
