//! What a copy does with groups: single frames, and walks of several owners.

use proptest::prelude::*;

use super::*;

/// A group that is nothing but its name.
fn group(epoch: u64, index: u64) -> (Epoch, Name) {
    (Epoch(epoch), name(epoch, index))
}

fn name(epoch: u64, index: u64) -> Name {
    Name { epoch: Epoch(epoch), index: OpIndex(index) }
}

/// Groups of `epoch` behind `prev`, with the epochs of their names.
fn groups(epoch: u64, base: u64, prev: (u64, u64), epochs: &[u64], safe: u64) -> Groups<Name> {
    let nth = |(nth, epoch): (usize, &u64)| group(*epoch, prev.1 + nth as u64 + 1);
    Groups {
        epoch: Epoch(epoch),
        base: OpIndex(base),
        prev: name(prev.0, prev.1),
        groups: epochs.iter().enumerate().map(nth).collect(),
        safe: OpIndex(safe),
    }
}

fn held(ack: u64, apply: &[(u64, u64)], cut_after: Option<u64>) -> Taken<Name> {
    let apply = apply.iter().map(|(epoch, index)| name(*epoch, *index)).collect();
    Taken::Held { ack: OpIndex(ack), apply, cut_after: cut_after.map(OpIndex) }
}

fn take(follow: &mut Follow<Name>, came: Groups<Name>) -> Taken<Name> {
    follow.take(came, Epoch(0))
}

/// A copy whose keys stand at 3 of epoch 5.
fn follow() -> Follow<Name> {
    Follow::begin(name(5, 3))
}

#[test]
fn groups_are_kept_until_they_are_safe() {
    let mut follow = follow();
    assert_eq!(take(&mut follow, groups(5, 3, (5, 3), &[5, 5], 3)), held(5, &[], None));
    assert_eq!((follow.applied(), follow.last()), (name(5, 3), name(5, 5)));
    assert_eq!(take(&mut follow, groups(5, 3, (5, 5), &[5], 4)), held(6, &[(5, 4)], None));
    let word = groups(5, 3, (5, 6), &[], 6);
    assert_eq!(take(&mut follow, word), held(6, &[(5, 5), (5, 6)], None));
    assert_eq!(follow.applied(), name(5, 6));
}

#[test]
fn safe_beyond_what_came_is_not_for_what_may_be_of_another_history() {
    let mut follow = follow();
    assert_eq!(take(&mut follow, groups(5, 3, (5, 3), &[5, 5], 3)), held(5, &[], None));
    assert_eq!(take(&mut follow, groups(6, 4, (5, 3), &[5], 9)), held(4, &[(5, 4)], Some(4)));
}

#[test]
fn below_the_base_nothing_is_applied_before_its_groups_came() {
    let mut follow = follow();
    take(&mut follow, groups(5, 3, (5, 3), &[5, 5, 5], 3));
    assert_eq!(take(&mut follow, groups(7, 6, (5, 3), &[5], 6)), held(4, &[(5, 4)], None));
    let others = groups(7, 6, (5, 4), &[6, 6], 6);
    assert_eq!(take(&mut follow, others), held(6, &[(6, 5), (6, 6)], Some(4)));
}

#[test]
fn frames_that_come_twice_or_late_change_nothing() {
    let mut follow = follow();
    let first = groups(5, 3, (5, 3), &[5, 5], 3);
    take(&mut follow, first.clone());
    take(&mut follow, groups(5, 3, (5, 5), &[5, 5], 6));
    assert_eq!(take(&mut follow, first), held(7, &[], None));
    let inside = groups(5, 3, (5, 4), &[5], 3);
    assert_eq!(take(&mut follow, inside), held(7, &[], None));
    assert_eq!(follow.last(), name(5, 7));
}

#[test]
fn what_overlaps_the_applied_part_is_known_by_the_last_name() {
    let mut follow = follow();
    assert_eq!(take(&mut follow, groups(6, 3, (4, 1), &[5, 5, 6], 3)), held(4, &[], None));
    assert_eq!(
        take(&mut follow, groups(6, 3, (4, 1), &[4, 6, 6], 3)),
        Taken::Apart { last: name(6, 4) }
    );
}

#[test]
fn a_gap_or_another_history_is_apart() {
    let apart = Taken::Apart { last: name(5, 3) };
    assert_eq!(take(&mut follow(), groups(5, 3, (5, 4), &[5], 3)), apart);
    assert_eq!(take(&mut follow(), groups(6, 3, (4, 3), &[6], 3)), apart);
    assert_eq!(take(&mut follow(), groups(6, 2, (5, 2), &[], 2)), apart, "3 is applied");
    assert_eq!(take(&mut follow(), groups(6, 2, (5, 2), &[6], 2)), apart, "as another 3");
}

#[test]
fn an_older_epoch_is_fenced_by_the_table_and_by_who_spoke() {
    let mut follow = follow();
    let old = groups(5, 3, (5, 3), &[5], 3);
    assert_eq!(follow.take(old.clone(), Epoch(6)), Taken::Fenced { epoch: Epoch(6) });
    take(&mut follow, groups(7, 3, (5, 3), &[], 3));
    assert_eq!(take(&mut follow, old), Taken::Fenced { epoch: Epoch(7) });
    assert_eq!(follow.seen(), Epoch(7));
}

#[test]
fn a_new_owner_cuts_what_it_never_had() {
    let mut follow = follow();
    take(&mut follow, groups(5, 3, (5, 3), &[5, 5, 5], 3));
    assert_eq!(take(&mut follow, groups(6, 4, (5, 4), &[], 4)), held(4, &[(5, 4)], Some(4)));
    assert_eq!(take(&mut follow, groups(6, 4, (5, 4), &[6, 6], 4)), held(6, &[], None));
    assert_eq!(take(&mut follow, groups(7, 5, (5, 4), &[6, 7], 4)), held(6, &[], Some(5)));
    assert_eq!(follow.last(), name(7, 6));
}

#[test]
fn a_short_frame_of_the_same_epoch_cuts_nothing() {
    let mut follow = follow();
    take(&mut follow, groups(6, 3, (5, 3), &[6, 6, 6], 3));
    assert_eq!(take(&mut follow, groups(6, 3, (5, 3), &[6], 3)), held(6, &[], None));
    assert_eq!(follow.last(), name(6, 6));
}

#[test]
fn what_lies_below_the_base_is_kept_though_the_frame_is_short() {
    let mut follow = follow();
    take(&mut follow, groups(5, 3, (5, 3), &[5, 5, 5], 3));
    assert_eq!(take(&mut follow, groups(6, 6, (5, 3), &[5], 3)), held(4, &[], None));
    assert_eq!(follow.last(), name(5, 6));
}

#[test]
fn whoever_becomes_the_owner_applies_all_it_has() {
    let mut follow = follow();
    take(&mut follow, groups(5, 3, (5, 3), &[5, 5], 3));
    assert_eq!(follow.apply_all(), [name(5, 4), name(5, 5)]);
    assert_eq!((follow.applied(), follow.apply_all()), (name(5, 5), vec![]));
}

/// What can happen around a follower.
#[derive(Clone, Debug)]
enum Event {
    /// The owner executes so many groups.
    Write(usize),
    /// The owner sends what lies behind this part of its history, up to that one. Others have acked
    /// so much of it, if they are the ones that count.
    Send { from: usize, upto: usize, safe: usize },
    /// A frame arrives; it may do so again.
    Deliver(usize),
    /// Another node owns the slot. It has all that is safe, and so much of what is not.
    Epoch { has: usize },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (1_usize..4).prop_map(Event::Write),
        5 => (0_usize..16, 0_usize..16, 0_usize..16)
            .prop_map(|(from, upto, safe)| Event::Send { from, upto, safe }),
        9 => (0_usize..64).prop_map(Event::Deliver),
        1 => (0_usize..6).prop_map(|has| Event::Epoch { has }),
    ];
    proptest::collection::vec(event, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Frames of several owners, lost, doubled and in any order: what is applied is the history of
    /// every later owner, and an ack says that this copy is the history of who it is given to.
    #[test]
    fn what_is_applied_is_history_and_acks_are_true(events in events()) {
        // Names by place; of each epoch the history as its owner has it.
        let mut histories: Vec<Vec<Name>> = vec![(1..=3).map(|index| name(1, index)).collect()];
        let mut bases = vec![3_usize];
        let mut frames: Vec<Groups<Name>> = Vec::new();
        let mut follow: Follow<Name> = Follow::begin(name(1, 3));
        let mut applied: Vec<Name> = histories[0].clone();
        // Highest index that any owner called safe.
        let mut safe = 3_usize;
        let mut acked = vec![3_usize];
        for event in events {
            let epoch = histories.len() - 1;
            match event {
                Event::Write(count) => {
                    for _ in 0..count {
                        let index = histories[epoch].len() as u64 + 1;
                        histories[epoch].push(name(epoch as u64 + 1, index));
                    }
                }
                Event::Send { from, upto, safe: by_others } => {
                    let history = &histories[epoch];
                    let from = from.min(history.len());
                    let upto = (from + upto).min(history.len());
                    safe = safe.max(acked[epoch]).max(by_others.min(history.len()));
                    frames.push(Groups {
                        epoch: Epoch(epoch as u64 + 1),
                        base: OpIndex(bases[epoch] as u64),
                        prev: from.checked_sub(1).map_or(name(0, 0), |at| history[at]),
                        groups: history[from..upto].iter().map(|n| (n.epoch, *n)).collect(),
                        safe: OpIndex(safe as u64),
                    });
                }
                Event::Deliver(nth) if !frames.is_empty() => {
                    let frame = frames[nth % frames.len()].clone();
                    let of = frame.epoch.0 as usize - 1;
                    match follow.take(frame, Epoch(0)) {
                        Taken::Held { ack, apply, .. } => {
                            applied.extend(&apply);
                            let (ack, kept) = (ack.0 as usize, applied.len());
                            let buffered = follow.buffer.iter().map(|(_, name)| *name);
                            let copy: Vec<Name> = applied.iter().copied().chain(buffered).collect();
                            prop_assert!(copy.len() >= ack);
                            prop_assert_eq!(&copy[..ack], &histories[of][..ack]);
                            prop_assert_eq!(follow.applied().index.0 as usize, kept);
                            acked[of] = acked[of].max(ack);
                        }
                        Taken::Fenced { epoch } => prop_assert!(epoch.0 as usize > of + 1),
                        Taken::Apart { last } => prop_assert_eq!(last, follow.last()),
                    }
                }
                Event::Deliver(_) => {}
                Event::Epoch { has } => {
                    let known = safe.max(acked[epoch]).max(applied.len());
                    let base = (known + has).min(histories[epoch].len());
                    safe = safe.max(known);
                    histories.push(histories[epoch][..base].to_vec());
                    bases.push(base);
                    acked.push(0);
                }
            }
            let newest = histories.last().expect("there is one");
            prop_assert!(newest.starts_with(&applied), "{applied:?} is not of {newest:?}");
        }
    }
}
