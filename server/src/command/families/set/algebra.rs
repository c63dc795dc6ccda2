//! SINTER, SUNION, SDIFF, their STORE forms and SINTERCARD.
//!
//! Invariant: all keys are looked up and their types checked before the first member is visited.

use std::ops::ControlFlow::{self, Break, Continue};

use smallvec::SmallVec;

use super::basic::write_member;
use crate::command::families::number::parse_count;
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Keys, Op, Owned};
use crate::store::limits::Limits;
use crate::store::object::Object;
use crate::store::set::{Member, Set};
use crate::store::table::Expiry;

/// The sets of a request in its order; a missing key is `None`.
type Sets<'a> = SmallVec<[Option<&'a Set>; 8]>;

/// What it costs to merge sets, in look-ups for each of their members: merged, they are asked
/// once for each member of the set they are taken from, not one after the other.
const MERGE_COST: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Inter,
    Union,
    Diff,
}

/// What is done with a member of the result, and whether to go on.
type Visit<'v> = &'v mut dyn FnMut(Member<'_>) -> ControlFlow<()>;

impl Operation {
    /// Visits the members of the result. Those of a union may come more than once.
    fn visit(self, sets: &Sets<'_>, visit: Visit<'_>) {
        let _ = match self {
            Operation::Inter => visit_inter(sets, visit),
            Operation::Union => {
                sets.iter().flatten().try_for_each(|set| set.iter().try_for_each(&mut *visit))
            }
            Operation::Diff => visit_diff(sets, visit),
        };
    }
}

fn find_sets<'a>(
    keys: &'a Keys,
    args: &Args<'_>,
    words: std::ops::Range<usize>,
) -> Result<Sets<'a>, CommandError> {
    words.map(|i| Ok(keys.set(args.key(i))?)).collect()
}

/// Each member of the smallest set that all others have.
fn visit_inter(sets: &Sets<'_>, visit: Visit<'_>) -> ControlFlow<()> {
    let Some(mut sets) = sets.iter().copied().collect::<Option<SmallVec<[&Set; 8]>>>() else {
        return Continue(());
    };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return Continue(()) };
    for member in smallest.iter() {
        if others.iter().all(|set| set.contains_member(member)) {
            visit(member)?;
        }
    }
    Continue(())
}

/// Each member of the first set that no other has.
fn visit_diff(sets: &Sets<'_>, visit: Visit<'_>) -> ControlFlow<()> {
    let Some((Some(first), others)) = sets.split_first() else { return Continue(()) };
    if others.iter().flatten().any(|set| std::ptr::eq(*set, *first)) {
        return Continue(());
    }
    let merged;
    let mut others: SmallVec<[&Set; 8]> = others.iter().flatten().copied().collect();
    let total = others.iter().map(|set| set.len()).fold(0, usize::saturating_add);
    let saved = first.len().saturating_mul(others.len().saturating_sub(1));
    if total.saturating_mul(MERGE_COST) < saved {
        merged = merge(&others);
        others = SmallVec::from_slice(&[&merged]);
    }
    // The largest is the likeliest to have a member.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    for member in first.iter() {
        if !others.iter().any(|set| set.contains_member(member)) {
            visit(member)?;
        }
    }
    Continue(())
}

/// All members of some sets, for look-ups: its form is nobody's business.
fn merge(sets: &[&Set]) -> Set {
    let limits = Limits::default();
    let mut merged = Set::new();
    for member in sets.iter().flat_map(|set| set.iter()) {
        member.with(|text| merged.add(text, &limits));
    }
    merged
}

pub(super) fn sinter(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    answer(Operation::Inter, keys, args, cx)
}

pub(super) fn sunion(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    answer(Operation::Union, keys, args, cx)
}

pub(super) fn sdiff(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    answer(Operation::Diff, keys, args, cx)
}

/// Answers with the result.
fn answer(operation: Operation, keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let merged;
    let mut sets = find_sets(keys, args, 1..args.len())?;
    if operation == Operation::Union {
        let there: SmallVec<[&Set; 8]> = sets.iter().flatten().copied().collect();
        if there.len() > 1 {
            merged = merge(&there);
            sets = SmallVec::from_slice(&[Some(&merged)]);
        }
    }
    let mark = cx.reply.array_deferred();
    let mut len = 0;
    let reply = &mut cx.reply;
    operation.visit(&sets, &mut |member| {
        write_member(reply, member);
        len += 1;
        Continue(())
    });
    cx.reply.set_set_len(mark, len);
    Ok(())
}

pub(super) fn sinterstore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    store(Operation::Inter, owned, args, cx)
}

pub(super) fn sunionstore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    store(Operation::Union, owned, args, cx)
}

pub(super) fn sdiffstore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    store(Operation::Diff, owned, args, cx)
}

/// Puts the result at word 1 and answers with its size; an empty one deletes the key.
fn store(operation: Operation, owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let limits = owned.limits();
    let mut result = Set::new();
    operation.visit(&find_sets(owned.keys(), args, 2..args.len())?, &mut |member| {
        member.with(|text| result.add(text, &limits));
        Continue(())
    });
    let key = args.key(1);
    let len = result.len();
    if len > 0 {
        let object = Box::new(Object::Set(result));
        owned.apply(Op::PutObject { key, object, expiry: Expiry::Never });
    } else if owned.keys().exists(key) {
        owned.apply(Op::Delete { key });
    }
    cx.reply.int(len as i64);
    Ok(())
}

pub(super) fn sintercard(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    const NO_KEYS: &str = "ERR numkeys should be greater than 0";
    let count = parse_count(args.at(1), NO_KEYS)?;
    if count == 0 {
        return Err(CommandError::Static(NO_KEYS));
    }
    if count > args.len() - 2 {
        return Err(CommandError::Static(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let mut limit = 0;
    let mut at = 2 + count;
    while at < args.len() {
        let value = args.opt(at + 1).filter(|_| args.is(at, "limit"));
        limit = parse_count(value.ok_or(CommandError::Syntax)?, "ERR LIMIT can't be negative")?;
        at += 2;
    }
    let sets = find_sets(keys, args, 2..2 + count)?;
    let mut found = 0;
    Operation::Inter.visit(&sets, &mut |_| {
        found += 1;
        if found == limit { Break(()) } else { Continue(()) }
    });
    cx.reply.int(found as i64);
    Ok(())
}
