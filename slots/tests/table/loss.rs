//! Where a write is answered by its owner alone, and owners that are replaced at a loss.

use crate::changes::{begin, commit, followers, set_ack};
use crate::kit::{A, B, C, D, STRANGER, World, ranges, slot};
use slots::ChangeRefused as R;
use slots::{
    AckMode, Boot, LossCause, LossConsent, NodeId, OpIndex, SlotRanges, TableChange, TakenTail,
};
use std::collections::BTreeMap;

fn take_over(world: &World, to: NodeId) -> TableChange {
    let tail = TakenTail { owner: OpIndex(9), to: OpIndex(7) };
    let tails = BTreeMap::from([(slot(0), tail), (slot(100), tail)]);
    let (to_boot, seen) = (world.boot_of(to), world.seen());
    TableChange::TakeOver { slots: ranges("0-9"), to, to_boot, seen, tails }
}

fn force(to: NodeId, consent: LossConsent) -> TableChange {
    TableChange::ForceTakeover { slots: ranges("0-9"), to, consent }
}

#[test]
fn ack_local_shrinks_to_the_owner() {
    let mut world = World::with_followers(&[B, C]);
    world.accept(D, set_ack(AckMode::Local));
    world.check("A in-sync A+ followers BC removed B shrunk ack local");
    world.accept(D, set_ack(AckMode::InSync));
    world.check("A in-sync A followers BC removed B shrunk");
    let change = world.grow(B);
    world.accept(A, change);
    world.check("A in-sync AB+ followers BC");
}

#[test]
fn ack_local_remembers_the_one_shrunk_before_when_only_the_unwanted_leave() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    world.accept(A, followers(&[B]));
    world.accept(D, set_ack(AckMode::Local));
    world.check("A in-sync A+ followers B removed B rebooted ack local");

    let mut world = World::with_followers(&[B]);
    let change = world.shrink(B);
    world.accept(A, change);
    world.accept(D, set_ack(AckMode::Local));
    world.check("A in-sync A followers B removed B shrunk ack local");
}

#[test]
fn ack_local_keeps_a_moves_target_in_sync() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, begin(1, C));
    let change = world.grow(C);
    world.accept(A, change);
    world.accept(D, set_ack(AckMode::Local));
    world.check("A in-sync AC+ followers B removed B shrunk moving to C ack local");
    let change = commit(&world, 1);
    world.accept(A, change);
    world.check("C* in-sync AC+ followers B removed B shrunk ack local");
}

#[test]
fn a_target_may_grow_under_ack_local() {
    let mut world = World::sole();
    world.accept(D, set_ack(AckMode::Local));
    world.accept(D, begin(1, C));
    let change = world.grow(C);
    world.accept(A, change);
    world.check("A in-sync AC+ followers - moving to C ack local");
}

#[test]
fn a_take_over_is_recorded_with_both_indexes() {
    let mut world = World::with_followers(&[B]);
    let change = take_over(&world, B);
    world.refuse(D, change, R::AckIsInSync);
    world.accept(D, set_ack(AckMode::Local));
    let change = take_over(&world, C);
    world.refuse(D, change, R::NotFollower { node: C });
    let change = take_over(&world, A);
    world.refuse(D, change, R::IsOwner { node: A });
    let change = take_over(&world, B);
    let verdicts = world.accept(D, change);
    world.check("B* in-sync B+ followers A ack local");
    let loss = &verdicts.losses()[0];
    assert_eq!(loss.cause, LossCause::TakenOver { from: A, to: B });
    assert_eq!(loss.slots, ranges("0-9"));
    // Slot 100 was in the record but not in the entry's slots.
    assert_eq!(loss.tails.keys().copied().collect::<SlotRanges>(), ranges("0"));
    assert_eq!(loss.tails[&slot(0)], TakenTail { owner: OpIndex(9), to: OpIndex(7) });
}

#[test]
fn a_follower_that_started_again_since_it_asked_takes_nothing_over() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, set_ack(AckMode::Local));
    let asked = take_over(&world, B);
    // B is no member: its start changes nothing in the row but what is remembered.
    world.start(B, slots::Kept::Nothing);
    world.refuse(D, asked, R::OtherBoot { node: B, recorded: Boot(2), got: Boot(1) });
    let change = take_over(&world, B);
    world.accept(D, change);
    world.check("B* in-sync B+ followers A ack local");
}

#[test]
fn a_take_over_refuses_while_others_are_in_sync_or_when_late() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, set_ack(AckMode::Local));
    let late = take_over(&world, B);
    let seen = world.seen();
    world.accept(D, begin(1, C));
    let change = world.grow(C);
    world.accept(A, change);
    let change = take_over(&world, B);
    world.refuse(D, change, R::OthersInSync);
    let change = world.shrink(C);
    world.accept(A, change);
    let changed_at = world.seen();
    world.refuse(D, late, R::Stale { changed_at, seen });
    let elsewhere = TableChange::TakeOver {
        slots: ranges("10"),
        to: B,
        to_boot: world.boot_of(B),
        seen: world.seen(),
        tails: BTreeMap::new(),
    };
    world.refuse(D, elsewhere, R::Unowned);
}

#[test]
fn force_needs_the_typed_word_and_leaves_a_record() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, begin(1, C));
    world.refuse(D, force(C, LossConsent::NotGiven), R::LossNotAccepted);
    world.refuse(D, force(STRANGER, LossConsent::AcceptLoss), R::UnknownNode { node: STRANGER });
    let verdicts = world.accept(D, force(C, LossConsent::AcceptLoss));
    world.check("C* in-sync C+ followers B");
    assert_eq!(verdicts.losses()[0].cause, LossCause::Forced { from: A, to: C });
    assert_eq!(verdicts.losses()[0].by, D);
    world.accept(D, force(C, LossConsent::AcceptLoss));
    world.check("C* in-sync C+ followers B");
    world.accept(D, force(B, LossConsent::AcceptLoss));
    world.check("B* in-sync B+ followers C");
}

#[test]
fn records_of_loss_are_bounded() {
    let mut world = World::sole();
    for _ in 0..slots::MAX_LOSSES + 5 {
        world.accept(D, force(A, LossConsent::AcceptLoss));
    }
    assert_eq!(world.table.losses().count(), slots::MAX_LOSSES);
    assert_eq!(world.table.losses().last().expect("a record").at, world.seen());
}
