//! What a table change does to a room: installed at once, met under the room's lock.
//!
//! ```text
//!  install_since --word, note--> meet: stage adopted | stage dropped | keys kept | keys let go
//! ```
//! Not the word and its note (`door`), nor who decides (`command`). Invariant: a change is met
//! once, before anybody is admitted by it; a stage is adopted or ended in the same hold.

use std::sync::atomic::Ordering;

use slots::{Epoch, OpIndex, SlotId, TableVersion};

use crate::slot::admission::{Ownership, Refused};
use crate::slot::journal::{Recorder, Step};
use crate::slot::op::Op;
use crate::slot::room::{Body, Room, Rooms};
use crate::slot::stage::Content;
use crate::slot::stages::StageFate;

fn is_ours(ownership: Ownership) -> bool {
    matches!(ownership, Ownership::Owned | Ownership::Sealed)
}

fn is_others(ownership: Ownership) -> bool {
    matches!(ownership, Ownership::Foreign | Ownership::Unassigned)
}

impl Rooms {
    /// As `install`; content of an epoch before `since` is of a former life of the slot on this
    /// node: others may have written meanwhile, and it is let go, however the table came here.
    /// `fate`: of a stage of the slot, or of a hidden copy, when the slot becomes this node's.
    /// `Adopt` stands until it is met, or until the slot becomes somebody else's: what is installed
    /// in between does not take it back. Of the content, when it becomes another's: with `Adopt`
    /// it is kept as a hidden copy.
    pub fn install_since(
        &self,
        slot: SlotId,
        ownership: Ownership,
        epoch: Epoch,
        since: TableVersion,
        fate: StageFate,
    ) {
        // Before the word: whoever meets it finds at least this.
        self.since[slot.index()].store(since.0, Ordering::SeqCst);
        if is_ours(ownership) && fate == StageFate::Adopt {
            self.stages.promise(slot);
        }
        self.kept.want(slot, ownership == Ownership::Foreign && fate == StageFate::Adopt);
        self.install(slot, ownership, epoch);
    }

    /// Installs what a table says of a slot. Never waits for the room: if it is busy a note is
    /// left, and the holder meets it when leaving; else `settle` does.
    pub fn install(&self, slot: SlotId, ownership: Ownership, epoch: Epoch) {
        let room = self.room(slot);
        let meet = |body: &mut Body, o, epoch| self.meet(slot, room, body, (o, epoch));
        if !room.door.install(ownership, epoch, meet) {
            self.unmet.lock().push(slot);
        }
        // After the word: nobody is admitted any more to a room that lacks what was promised.
        if is_others(ownership)
            && let Some(stage) = self.stages.take_promised(slot)
        {
            stage.end(self);
        }
    }

    /// This node's own change of its relation to a slot: a seal, or its end. Done only where the
    /// word still says `expected`; a table change that came first stands.
    pub fn install_over(
        &self,
        slot: SlotId,
        expected: (Ownership, Epoch),
        ownership: Ownership,
    ) -> bool {
        let room = self.room(slot);
        let meet = |body: &mut Body, o, epoch| self.meet(slot, room, body, (o, epoch));
        let installed = room.door.install_over(expected, ownership, meet);
        if installed == Some(false) {
            self.unmet.lock().push(slot);
        }
        installed.is_some()
    }

    /// Meets the changes whose rooms were busy and whose holders had looked for a note already.
    /// The node's ticker calls it.
    pub fn settle(&self) {
        let mut unmet = self.unmet.lock();
        unmet.retain(|slot| {
            let room = self.room(*slot);
            !room.door.settle(|body, o, epoch| self.meet(*slot, room, body, (o, epoch)))
        });
    }

    /// Meets a table change under the room's lock. A stage of a slot that became this node's is
    /// adopted or dropped. Keys of a slot that is this node's no more, or was not in between, are
    /// let go: others may have written meanwhile.
    pub(super) fn meet(
        &self,
        slot: SlotId,
        room: &Room,
        body: &mut Body,
        (ownership, epoch): (Ownership, Epoch),
    ) {
        if ownership != Ownership::Unknown && epoch < body.epoch {
            self.begin_anew(slot, body, epoch);
        }
        let was_kept = is_ours(ownership) && self.end_keeping(slot, body);
        let is_adopted = self.meet_stage(slot, room, body, (ownership, epoch), was_kept);
        let is_lost = match ownership {
            Ownership::Foreign => !self.meet_keeping(slot, body),
            Ownership::Unassigned => true,
            Ownership::Owned | Ownership::Sealed => {
                !is_adopted && body.epoch.0 < self.since[slot.index()].load(Ordering::SeqCst)
            }
            Ownership::Unknown => false,
        };
        meet_change(body, ownership, epoch);
        if is_lost && !body.keys.is_empty() {
            self.end_keeping(slot, body);
            self.end_life(slot, room, body);
        }
        if ownership == Ownership::Owned && body.next_expiry_ms != u64::MAX {
            // Whoever passed by while the slot was not served forgot about it.
            self.chores().expiry_due(slot, body.next_expiry_ms);
        }
    }

    /// Adopts or drops the stage of a slot that became this node's; true: it was adopted. What a
    /// start left of one goes as soon as the node has a seat: its NodeBoot has named the slot.
    fn meet_stage(
        &self,
        slot: SlotId,
        room: &Room,
        body: &mut Body,
        (ownership, epoch): (Ownership, Epoch),
        was_kept: bool,
    ) -> bool {
        let (stage, fate) = match ownership {
            Ownership::Unknown => return false,
            Ownership::Foreign | Ownership::Unassigned => {
                (self.stages.take_remains(slot), StageFate::Drop)
            }
            Ownership::Owned | Ownership::Sealed => self.stages.take(slot),
        };
        let Some(stage) = stage else { return was_kept && fate == StageFate::Adopt };
        if fate == StageFate::Adopt {
            if let Some(whole) = stage.take_whole(self) {
                self.adopt(slot, room, body, whole, epoch);
                return true;
            }
            tracing::error!(slot = slot.number(), "the slot is ours, and its copy is not whole");
        }
        stage.end(self);
        false
    }

    /// The content of a stage becomes the room's.
    pub(super) fn adopt(
        &self,
        slot: SlotId,
        room: &Room,
        body: &mut Body,
        (content, index): (Content, OpIndex),
        epoch: Epoch,
    ) {
        if !body.keys.is_empty() {
            self.let_go(room, body);
        }
        // Whoever waited was sent away when the slot was met as another's, before the stage began.
        assert!(body.hall.is_none(), "somebody waits in a slot that was on its way in");
        body.keys.table = content.table;
        body.boxed_bytes = content.boxed_bytes;
        body.next_expiry_ms = content.next_expiry_ms;
        (body.epoch, body.index, body.journaled) = (epoch, index, 0);
        self.totals.bytes.fetch_add(body.bytes() as i64, Ordering::Relaxed);
        let (keys, expiring) = (body.keys.table.len(), body.keys.table.expiring());
        self.totals.keys.fetch_add(keys as i64, Ordering::Relaxed);
        self.totals.expiring.fetch_add(expiring as i64, Ordering::Relaxed);
        room.publish_hint(body);
        if let Some(recorder) = self.recorder() {
            let at = recorder.journal.step(Step::Adopted, slot, (epoch, index), b"").at;
            body.journaled = at;
        }
    }

    /// Epochs go back where the node has changed its cluster only. A stage is of the old one; and
    /// the log says so: a replay judges by epochs what a checkpoint holds of a slot.
    #[cold]
    fn begin_anew(&self, slot: SlotId, body: &mut Body, epoch: Epoch) {
        if let (Some(stage), _) = self.stages.take(slot) {
            stage.end(self);
        }
        if let Some(recorder) = self.recorder()
            && body.index > OpIndex(0)
        {
            let at = recorder.journal.step(Step::Anew, slot, (epoch, body.index), b"").at;
            body.journaled = at;
        }
    }

    /// A life of the slot ends with a group of its own: else a replay would join it to the next.
    #[cold]
    fn journal_drop(&self, slot: SlotId, body: &mut Body) {
        body.index = OpIndex(body.index.0 + 1);
        let Some(Recorder { journal, encode }) = self.recorder() else { return };
        let mut group = Vec::new();
        encode(&Op::Flush, &mut group);
        body.journaled = journal.leave(slot, body.epoch, body.index, &group).at;
    }

    /// The keys go, with a group that says so.
    pub(super) fn end_life(&self, slot: SlotId, room: &Room, body: &mut Body) {
        self.journal_drop(slot, body);
        self.let_go(room, body);
    }

    #[cold]
    fn let_go(&self, room: &Room, body: &mut Body) {
        self.totals.bytes.fetch_sub(body.bytes() as i64, Ordering::Relaxed);
        let table = std::mem::take(&mut body.keys.table);
        body.boxed_bytes = 0;
        body.next_expiry_ms = u64::MAX;
        self.totals.keys.fetch_sub(table.len() as i64, Ordering::Relaxed);
        self.totals.expiring.fetch_sub(table.expiring() as i64, Ordering::Relaxed);
        room.publish_hint(body);
        self.chores().free_table(table);
    }
}

/// Meets a table change: those who waited for the slot are refused if it is not ours.
pub(crate) fn meet_change(body: &mut Body, ownership: Ownership, epoch: Epoch) {
    if ownership != Ownership::Unknown {
        body.epoch = epoch;
    }
    // Under a seal blocked clients stay blocked (PROTOCOL 4).
    let refused = match ownership {
        Ownership::Owned | Ownership::Sealed => return,
        Ownership::Foreign => Refused::Moved,
        Ownership::Unassigned => Refused::Unserved,
        Ownership::Unknown => Refused::NoTable,
    };
    if let Some(mut hall) = body.hall.take() {
        hall.evict(refused);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::slot::room::Chores;
    use crate::slot::{Admit, Key, Patience};
    use crate::store::object::Object;
    use crate::store::table::{Expiry, Table};

    /// Notes what is due.
    #[derive(Default)]
    struct Due(Arc<Mutex<Vec<(SlotId, u64)>>>);

    impl Chores for Due {
        fn expiry_due(&self, slot: SlotId, at_ms: u64) {
            self.0.lock().push((slot, at_ms));
        }
        fn free(&self, _: Box<Object>) {}
        fn free_table(&self, _: Table<Object>) {}
    }

    #[test]
    fn the_expiry_of_a_slot_that_comes_back_is_due_again() {
        let (due, slot) = (Due::default(), SlotId::FIRST);
        let noted = due.0.clone();
        let rooms = Rooms::new(Box::new(due));
        let (key, expiry) = (Key::new(b"k"), Expiry::At(7));
        rooms.replay(slot, 1).apply(Op::SetString { key, value: b"v", expiry });
        assert_eq!(std::mem::take(&mut *noted.lock()), [(slot, 7)]);
        rooms.install(slot, Ownership::Unknown, Epoch(3));
        assert!(noted.lock().is_empty(), "nobody serves it");
        rooms.install(slot, Ownership::Owned, Epoch(3));
        assert_eq!(std::mem::take(&mut *noted.lock()), [(slot, 7)]);
    }

    #[test]
    fn content_keeps_its_epoch_while_the_node_has_no_seat() {
        let (rooms, slot) = (Rooms::new(Box::new(Due::default())), SlotId::FIRST);
        rooms.replay(slot, 1).set_place(Epoch(3), OpIndex(9));
        rooms.install(slot, Ownership::Unknown, Epoch(8));
        assert_eq!(rooms.read(slot).epoch(), Epoch(3));
        rooms.install(slot, Ownership::Owned, Epoch(8));
        assert_eq!(rooms.read(slot).epoch(), Epoch(8));
    }

    /// A slot with a key of epoch 3 in it, without a seat.
    fn with_content(rooms: &Rooms, slot: SlotId) {
        let mut replay = rooms.replay(slot, 1);
        let (key, expiry) = (Key::new(b"k"), Expiry::Never);
        replay.apply(Op::SetString { key, value: b"v", expiry });
        replay.set_place(Epoch(3), OpIndex(1));
    }

    #[test]
    fn content_of_a_former_life_is_let_go_before_it_is_served() {
        let (rooms, slot) = (Rooms::new(Box::new(Due::default())), SlotId::FIRST);
        for (since, kept) in [(3, true), (4, false)] {
            with_content(&rooms, slot);
            rooms.install_since(
                slot,
                Ownership::Owned,
                Epoch(9),
                TableVersion(since),
                StageFate::Drop,
            );
            assert_eq!(rooms.totals.keys.load(Ordering::Relaxed) > 0, kept, "since {since}");
            rooms.install(slot, Ownership::Unknown, Epoch(9));
        }
    }

    /// The slot was another's while somebody was inside, and is ours again before he leaves.
    #[test]
    fn a_slot_that_went_and_came_back_behind_a_long_command_is_empty() {
        let (rooms, slot) = (Rooms::new(Box::new(Due::default())), SlotId::FIRST);
        with_content(&rooms, slot);
        rooms.install_since(slot, Ownership::Owned, Epoch(3), TableVersion(2), StageFate::Drop);
        let Admit::Served(inside) = rooms.admit(slot, 1, Patience::Block) else {
            panic!("it is ours")
        };
        rooms.install_since(slot, Ownership::Foreign, Epoch(4), TableVersion(4), StageFate::Drop);
        rooms.install_since(slot, Ownership::Owned, Epoch(5), TableVersion(5), StageFate::Drop);
        assert_eq!(inside.keys().len(), 1);
        drop(inside);
        assert!(rooms.looks_empty(slot));
        assert_eq!(rooms.read(slot).index(), OpIndex(2), "the end of a life is a group");
    }
}
