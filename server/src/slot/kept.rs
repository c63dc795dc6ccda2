//! Content of slots that became another node's while this one is in sync: it stays a copy, hidden,
//! until the new owner has let this node go (PROTOCOL R9).
//!
//! ```text
//!   Owned --Foreign, kept--> hidden: in no total, served to nobody --Owned, Adopt--> served again
//!                               `-- let go of: the life of the slot ends here
//! ```
//! It lies in the room, so that checkpoints have it. Invariant: content that is kept is in no total
//! of the node, and is counted again before it is served.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use slots::SlotId;

use crate::slot::room::{Body, Room, Rooms};

/// Which slots' content is kept, and whose is to be when the change is met.
#[derive(Default)]
pub(super) struct Kept(Mutex<Sets>);

#[derive(Default)]
struct Sets {
    wanted: BTreeSet<SlotId>,
    kept: BTreeSet<SlotId>,
}

impl Kept {
    /// The slot becomes another's soon, and its content is to be kept, or not.
    pub(super) fn want(&self, slot: SlotId, keeps: bool) {
        let mut sets = self.0.lock();
        match keeps {
            true => sets.wanted.insert(slot),
            false => sets.wanted.remove(&slot),
        };
    }

    fn is_wanted(&self, slot: SlotId) -> bool {
        self.0.lock().wanted.contains(&slot)
    }

    fn is_kept(&self, slot: SlotId) -> bool {
        self.0.lock().kept.contains(&slot)
    }

    fn set(&self, slot: SlotId, is_kept: bool) {
        let mut sets = self.0.lock();
        match is_kept {
            true => sets.kept.insert(slot),
            false => sets.kept.remove(&slot),
        };
    }

    fn all(&self) -> Vec<SlotId> {
        self.0.lock().kept.iter().copied().collect()
    }
}

impl Rooms {
    /// The slot is another's now, met under the room's lock. True: its content stays.
    pub(super) fn meet_keeping(&self, slot: SlotId, body: &Body) -> bool {
        if self.kept.is_kept(slot) {
            return true;
        }
        if body.keys.is_empty() || !self.kept.is_wanted(slot) {
            return false;
        }
        self.kept.set(slot, true);
        self.count_content(body, -1);
        true
    }

    /// The slot is this node's again, met under the room's lock. True: kept content is counted
    /// again.
    pub(super) fn end_keeping(&self, slot: SlotId, body: &Body) -> bool {
        let was_kept = self.kept.is_kept(slot);
        if was_kept {
            self.kept.set(slot, false);
            self.count_content(body, 1);
        }
        was_kept
    }

    fn count_content(&self, body: &Body, sign: i64) {
        let table = &body.keys.table;
        self.totals.bytes.fetch_add(sign * body.bytes() as i64, Ordering::Relaxed);
        self.totals.keys.fetch_add(sign * table.len() as i64, Ordering::Relaxed);
        self.totals.expiring.fetch_add(sign * table.expiring() as i64, Ordering::Relaxed);
    }

    /// Slots of which a hidden copy is kept.
    pub fn kept_slots(&self) -> Vec<SlotId> {
        self.kept.all()
    }

    /// Lets go of a hidden copy, if there is one: nobody counts on it any more. Waits for whoever
    /// is in the room.
    pub fn drop_kept(&self, slot: SlotId) {
        self.kept.want(slot, false);
        let room: &Room = self.room(slot);
        let mut body = room.door.enter();
        if self.end_keeping(slot, &body) {
            self.end_life(slot, room, &mut body);
        }
    }
}

#[cfg(test)]
mod tests {
    use slots::{Epoch, OpIndex, TableVersion};

    use super::*;
    use crate::slot::room::Chores;
    use crate::slot::{Key, Op, Ownership, StageFate};
    use crate::store::object::Object;
    use crate::store::table::{Expiry, Table};

    const SLOT: SlotId = SlotId::FIRST;

    struct NoChores;

    impl Chores for NoChores {
        fn expiry_due(&self, _: SlotId, _: u64) {}
        fn free(&self, _: Box<Object>) {}
        fn free_table(&self, _: Table<Object>) {}
    }

    /// Rooms that own a slot with a key at epoch 3.
    fn owner() -> Rooms {
        let rooms = Rooms::new(Box::new(NoChores));
        let mut replay = rooms.replay(SLOT, 1);
        let (key, expiry) = (Key::new(b"k"), Expiry::At(9_000));
        replay.apply(Op::SetString { key, value: b"v", expiry });
        replay.set_place(Epoch(3), OpIndex(1));
        drop(replay);
        install(&rooms, Ownership::Owned, 3, StageFate::Drop);
        rooms
    }

    fn install(rooms: &Rooms, ownership: Ownership, epoch: u64, fate: StageFate) {
        rooms.install_since(SLOT, ownership, Epoch(epoch), TableVersion(epoch), fate);
    }

    fn totals(rooms: &Rooms) -> (i64, bool, i64) {
        let totals = &rooms.totals;
        let load = |of: &std::sync::atomic::AtomicI64| of.load(Ordering::Relaxed);
        (load(&totals.keys), load(&totals.bytes) > 0, load(&totals.expiring))
    }

    #[test]
    fn a_hidden_copy_is_in_no_total_and_comes_back_whole() {
        let rooms = owner();
        assert_eq!(totals(&rooms), (1, true, 1));
        install(&rooms, Ownership::Foreign, 5, StageFate::Adopt);
        assert_eq!((totals(&rooms), rooms.kept_slots()), ((0, false, 0), vec![SLOT]));
        assert_eq!(rooms.read(SLOT).len(), 1, "a checkpoint has it");
        install(&rooms, Ownership::Owned, 6, StageFate::Adopt);
        assert_eq!((totals(&rooms), rooms.kept_slots()), ((1, true, 1), Vec::new()));
        let reading = rooms.read(SLOT);
        assert_eq!((reading.len(), reading.index()), (1, OpIndex(1)));
    }

    #[test]
    fn a_slot_that_comes_back_from_nobody_is_empty() {
        let rooms = owner();
        install(&rooms, Ownership::Foreign, 5, StageFate::Adopt);
        install(&rooms, Ownership::Owned, 6, StageFate::Drop);
        assert_eq!((totals(&rooms), rooms.kept_slots()), ((0, false, 0), Vec::new()));
        assert_eq!(rooms.read(SLOT).index(), OpIndex(2), "the end of a life is a group");
    }

    #[test]
    fn who_is_let_go_of_lets_the_copy_go() {
        let rooms = owner();
        install(&rooms, Ownership::Foreign, 5, StageFate::Adopt);
        rooms.drop_kept(SLOT);
        rooms.drop_kept(SLOT);
        assert_eq!((totals(&rooms), rooms.kept_slots()), ((0, false, 0), Vec::new()));
        let reading = rooms.read(SLOT);
        assert_eq!((reading.len(), reading.index()), (0, OpIndex(2)));
        drop(reading);
        let rooms = owner();
        install(&rooms, Ownership::Foreign, 5, StageFate::Drop);
        assert_eq!((totals(&rooms), rooms.kept_slots()), ((0, false, 0), Vec::new()));
    }
}
