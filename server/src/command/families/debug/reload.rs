//! DEBUG RELOAD and LOADAOF without a disk: every value is built anew, element by element, as
//! reading it back would do, and replaces the old one through `apply`.
//!
//! So what a reload shows in Redis shows here: forms are chosen by today's limits, and whatever
//! an iteration left out would be missing afterwards. What it does not show: a file's codec.

use slots::SlotId;

use crate::command::{CommandError, NodeCx};
use crate::slot::{Key, Op, Owned, Patience, Value};
use crate::store::hash::Hash;
use crate::store::limits::Limits;
use crate::store::list::List;
use crate::store::object::Object;
use crate::store::set::Set;
use crate::store::table::{Expiry, ScanPos};
use crate::store::zset::SortedSet;

/// Rebuilds the values of every slot served here, a slot at a time.
pub(super) fn rebuild_all(cx: &mut NodeCx<'_>) -> Result<(), CommandError> {
    let limits = cx.node.rooms.limits();
    for slot in SlotId::all() {
        cx.enter(slot, Patience::Block, |owned| rebuild_slot(owned, &limits))?;
    }
    Ok(())
}

/// A value ready to be put back.
enum Rebuilt {
    Text(Vec<u8>),
    Object(Box<Object>),
}

fn rebuild_slot(owned: &mut Owned<'_>, limits: &Limits) {
    let mut all: Vec<(Vec<u8>, Rebuilt)> = Vec::new();
    let mut next = Some(ScanPos::START);
    while let Some(at) = next {
        next = owned.keys().scan(at, &mut |found| {
            all.push((found.key().to_vec(), rebuild(found.value(), limits)));
        });
    }
    for (key, value) in all {
        let key = Key::new(&key);
        match value {
            Rebuilt::Text(text) => {
                owned.apply(Op::SetString { key, value: &text, expiry: Expiry::Keep });
            }
            Rebuilt::Object(object) => {
                owned.apply(Op::PutObject { key, object, expiry: Expiry::Keep });
            }
        }
    }
}

fn rebuild(value: Value<'_>, limits: &Limits) -> Rebuilt {
    let object = match value {
        Value::Str(text) => return Rebuilt::Text(text.cow().into_owned()),
        Value::List(old) => {
            let mut list = List::new();
            old.iter().for_each(|item| list.push_back(item, limits));
            Object::List(list)
        }
        Value::Hash(old) => {
            let mut hash = Hash::new();
            old.iter().for_each(|(field, value)| {
                hash.set(field, value, limits);
            });
            Object::Hash(hash)
        }
        Value::Set(old) => {
            let mut set = Set::new();
            old.iter().for_each(|member| {
                member.with(|text| set.add(text, limits));
            });
            Object::Set(set)
        }
        Value::SortedSet(old) => {
            let mut zset = SortedSet::new();
            old.iter().for_each(|(member, score)| {
                zset.add(member, score, limits);
            });
            Object::SortedSet(zset)
        }
    };
    Rebuilt::Object(Box::new(object))
}
