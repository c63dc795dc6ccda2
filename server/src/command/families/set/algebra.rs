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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Model = BTreeSet<Vec<u8>>;

    /// A set's form: 0 a table, 1 the smallest that holds it.
    fn set_of(model: &Model, form: usize) -> Set {
        let large = Limits { set_max_intset: 0, set_max_listpack_entries: 0, ..Limits::default() };
        let limits = [large, Limits::default()][form];
        let mut set = Set::new();
        model.iter().for_each(|member| assert!(set.add(member, &limits)));
        set
    }

    /// The visited members; only a union may name one twice.
    fn result(operation: Operation, sets: &Sets<'_>) -> Model {
        let mut members = Model::new();
        operation.visit(sets, &mut |member| {
            assert!(members.insert(member.to_vec()) || operation == Operation::Union);
            Continue(())
        });
        members
    }

    fn model() -> impl Strategy<Value = Model> {
        let number = (0..40_u8).prop_map(|n| n.to_string().into_bytes());
        let text = "[a-d]{1,2}".prop_map(String::into_bytes);
        prop_oneof![
            prop::collection::btree_set(number.clone(), 0..40),
            prop::collection::btree_set(prop_oneof![number.clone(), text], 0..40),
            // Small ones, so that some differences are merged first.
            prop::collection::btree_set(number, 0..3),
        ]
    }

    proptest! {
        #[test]
        fn results_agree_with_a_model_whatever_the_forms_and_the_missing(
            models in prop::collection::vec((model(), 0..2_usize, prop::bool::weighted(0.9)), 1..8),
        ) {
            let owned: Vec<Option<Set>> =
                models.iter().map(|(m, form, there)| there.then(|| set_of(m, *form))).collect();
            let sets: Sets<'_> = owned.iter().map(Option::as_ref).collect();
            let models: Vec<Model> = models
                .into_iter()
                .map(|(model, _, there)| if there { model } else { Model::new() })
                .collect();
            let fold = |combine: fn(&Model, &Model) -> Model| {
                models[1..].iter().fold(models[0].clone(), |a, b| combine(&a, b))
            };
            prop_assert_eq!(result(Operation::Inter, &sets), fold(|a, b| a & b));
            prop_assert_eq!(result(Operation::Union, &sets), fold(|a, b| a | b));
            prop_assert_eq!(result(Operation::Diff, &sets), fold(|a, b| a - b));
        }
    }

    #[test]
    fn a_set_taken_from_itself_leaves_nothing() {
        let set = set_of(&[b"a".to_vec(), b"b".to_vec()].into(), 1);
        let sets = Sets::from_slice(&[Some(&set), None, Some(&set)]);
        assert_eq!(result(Operation::Diff, &sets), Model::new());
    }
}
