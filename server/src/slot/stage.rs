//! A stage: the content of a slot on its way in, apart from the rooms that are served.
//!
//! Its keys are in no DBSIZE, SCAN or total of the node, and nobody expires them: they are counted
//! here. It is filled through `Replay`, as any content that comes; `take` gives its keys out again,
//! some at a time, for who puts them into a live room. Not a decision: whether the content is
//! whole knows who filled it.
//! Invariant: a stage is never served, and one who is done with it clears it.

use std::sync::atomic::Ordering;

use slots::SlotId;

use crate::slot::hold::Hold;
use crate::slot::keys::MARK_RAW;
use crate::slot::op::{Key, Op};
use crate::slot::owned::Owned;
use crate::slot::replay::Replay;
use crate::slot::room::{Room, Rooms, Totals};
use crate::store::object::Object;
use crate::store::table::{EntryValue, Expiry, Old, ScanPos, Table};

/// The room of a slot that is being brought.
pub struct Stage {
    slot: SlotId,
    room: Room,
    totals: Totals,
    /// Everything before it was taken out.
    next: Option<ScanPos>,
}

/// A key that was taken out of a stage.
pub struct Staged {
    /// The key.
    pub key: Box<[u8]>,
    /// Unix ms; `None`: never.
    pub expiry: Option<u64>,
    value: StagedValue,
}

/// All that a stage holds, taken out of it.
pub(super) struct Content {
    pub(super) table: Table<Object>,
    pub(super) boxed_bytes: usize,
    pub(super) next_expiry_ms: u64,
}

enum StagedValue {
    Flat { text: Box<[u8]>, is_raw: bool },
    Object(Box<Object>),
}

impl Stage {
    /// An empty one.
    pub fn new(slot: SlotId) -> Stage {
        let (room, totals) = (Room::empty(), Totals::default());
        Stage { slot, room, totals, next: Some(ScanPos::START) }
    }

    /// The slot whose content it is.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Enters it, to bring content. Limits and chores are those of `rooms`.
    pub fn enter<'a>(&'a self, rooms: &'a Rooms, now_ms: u64) -> Replay<'a> {
        Replay::from(self.hold(rooms, now_ms))
    }

    fn hold<'a>(&'a self, rooms: &'a Rooms, now_ms: u64) -> Hold<'a> {
        let body = self.room.door.enter();
        Hold::counted_by(&self.totals, rooms, &self.room, self.slot, body, now_ms)
    }

    /// Keys in it, expired ones included.
    pub fn keys(&self) -> u64 {
        self.totals.keys.load(Ordering::Relaxed).max(0) as u64
    }

    /// Bytes of its keys and values.
    pub fn bytes(&self) -> u64 {
        self.totals.bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Is every key of this slot? Looks at all of them.
    pub fn is_of_one_slot(&self) -> bool {
        let body = self.room.door.enter();
        body.keys.table.iter().all(|entry| slots::slot_of(entry.key()) == self.slot)
    }

    /// Takes keys out: at least one if there are any, up to `keys` of them, or until their values
    /// have `bytes`. Nothing may be brought any more.
    pub fn take(&mut self, rooms: &Rooms, (keys, bytes): (usize, usize)) -> Vec<Staged> {
        let (mut taken, mut weight, mut next) = (Vec::new(), 0, self.next);
        let mut hold = self.hold(rooms, 0);
        while let Some(at) = next {
            let mut met: Vec<Box<[u8]>> = Vec::new();
            let after = hold.body.keys.table.scan(at, &mut |entry| met.push(entry.key().into()));
            for key in met {
                if taken.len() >= keys || weight >= bytes {
                    break;
                }
                let before = hold.body.bytes();
                taken.extend(take_out(&mut hold, key));
                weight += before - hold.body.bytes();
            }
            if taken.len() >= keys || weight >= bytes {
                break;
            }
            next = after;
        }
        hold.close();
        drop(hold);
        self.next = next;
        taken
    }

    /// Takes all of it out at once: nothing is copied.
    pub(super) fn take_all(&self) -> Content {
        let mut body = self.room.door.enter();
        let (table, boxed_bytes) = (std::mem::take(&mut body.keys.table), body.boxed_bytes);
        let next_expiry_ms = std::mem::replace(&mut body.next_expiry_ms, u64::MAX);
        body.boxed_bytes = 0;
        for total in [&self.totals.keys, &self.totals.expiring, &self.totals.bytes] {
            total.store(0, Ordering::Relaxed);
        }
        Content { table, boxed_bytes, next_expiry_ms }
    }

    /// Frees what is in it, elsewhere if that takes long.
    pub fn clear(&self, rooms: &Rooms) {
        let mut hold = self.hold(rooms, 0);
        hold.apply_op(Op::Flush);
        hold.close();
    }
}

fn take_out(hold: &mut Hold<'_>, key: Box<[u8]>) -> Option<Staged> {
    let hash = Key::new(&key).hash;
    let table = &mut hold.body.keys.table;
    let entry = table.find(hash, &key)?;
    let expiry = entry.expiry();
    let flat = match entry.value() {
        EntryValue::Bytes(text) => Some((text.into(), entry.marks() & MARK_RAW != 0)),
        EntryValue::Boxed(_) => None,
    };
    let value = match (flat, table.remove(hash, &key)) {
        (Some((text, is_raw)), _) => StagedValue::Flat { text, is_raw },
        (None, Old::Boxed(object)) => {
            hold.body.boxed_bytes -= object.bytes();
            StagedValue::Object(object)
        }
        _ => unreachable!("a value is flat or boxed"),
    };
    Some(Staged { key, expiry, value })
}

impl Staged {
    /// Puts the key into a room that is served, whatever stands there.
    pub fn put(self, owned: &mut Owned<'_>) {
        let key = Key::new(&self.key);
        let expiry = self.expiry.map_or(Expiry::Never, Expiry::At);
        match self.value {
            StagedValue::Object(object) => {
                owned.apply(Op::PutObject { key, object, expiry });
            }
            StagedValue::Flat { text, is_raw } => {
                owned.apply(Op::SetString { key, value: &text, expiry });
                if is_raw {
                    // Nothing written at the front changes nothing but the encoding.
                    owned.apply(Op::SetRange { key, offset: 0, bytes: b"" });
                }
            }
        }
    }
}
