//! Whether an op makes sense of the keys it finds: of the right type, inside what is there.
//!
//! For bytes that anybody may have made; what a node of ours wrote always does, and is not asked.
//! Invariant: an op that fits does not panic, and asks for no more memory than a client may.

use crate::slot::{Key, Op};
use crate::store::object::Object;
use crate::store::table::{EntryValue, Table};

/// A string may end no longer than this: what a client may make, too.
const STRING_BYTES_MAX: usize = 512 * 1024 * 1024;

/// May the op be applied to these keys?
pub(super) fn fits(op: &Op<'_>, keys: &Table<Object>) -> bool {
    match *op {
        Op::SetRange { key, offset, bytes } => {
            let end = offset.checked_add(bytes.len());
            let is_string = match value(keys, key) {
                Some(EntryValue::Boxed(object)) => matches!(object, Object::Blob(_)),
                Some(EntryValue::Bytes(_)) | None => true,
            };
            is_string && end.is_some_and(|end| end <= STRING_BYTES_MAX)
        }
        Op::HashSet { key, .. } | Op::HashDelete { key, .. } => {
            is_of(keys, key, |object| matches!(object, Object::Hash(_)))
        }
        Op::SetAdd { key, .. } | Op::SetRemove { key, .. } => {
            is_of(keys, key, |object| matches!(object, Object::Set(_)))
        }
        Op::ZsetAdd { key, .. } | Op::ZsetRemove { key, .. } | Op::ZsetRemoveRanks { key, .. } => {
            is_of(keys, key, |object| matches!(object, Object::SortedSet(_)))
        }
        Op::ListPush { key, .. }
        | Op::ListPop { key, .. }
        | Op::ListSet { key, .. }
        | Op::ListInsert { key, .. }
        | Op::ListRemove { key, .. }
        | Op::ListRemoveEqual { key, .. } => {
            is_of(keys, key, |object| matches!(object, Object::List(_)))
        }
        Op::SetString { .. }
        | Op::PutObject { .. }
        | Op::Delete { .. }
        | Op::Expire { .. }
        | Op::SetExpiry { .. }
        | Op::Rename { .. }
        | Op::Flush => true,
    }
}

/// Is the key absent, or an object of this kind?
fn is_of(keys: &Table<Object>, key: Key<'_>, kind: impl Fn(&Object) -> bool) -> bool {
    match value(keys, key) {
        None => true,
        Some(EntryValue::Boxed(object)) => kind(object),
        Some(EntryValue::Bytes(_)) => false,
    }
}

fn value<'t>(keys: &'t Table<Object>, key: Key<'_>) -> Option<EntryValue<'t, Object>> {
    keys.find(key.hash, key.bytes).map(|entry| entry.value())
}
