//! Starts: what a node still has decides what it still is.

use crate::kit::{A, B, C, D, World, boot_proposal, move_id, ranges, slot};
use slots::ChangeRefused as R;
use slots::{AckMode, Boot, Kept, LossCause, NodeId, SlotId, TableChange, TableVersion, Verdicts};

fn start_with(
    world: &mut World,
    node: NodeId,
    kept: Kept,
    marks: &[(SlotId, TableVersion)],
    staged: &str,
) -> Verdicts {
    let mut change = world.boot(node, kept);
    if let TableChange::NodeBoot { alone, except, .. } = &mut change {
        *alone = marks.iter().copied().collect();
        if !staged.is_empty() {
            *except = ranges(staged);
        }
    }
    world.accept_boot(change)
}

/// A with B and C in sync, B then shrunk out.
fn b_shrunk() -> World {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    world
}

/// A alone, B shrunk out last.
fn a_alone() -> World {
    let mut world = World::with_followers(&[B]);
    let change = world.shrink(B);
    world.accept(A, change);
    world.check("A in-sync A+ followers B removed B shrunk");
    world
}

#[test]
fn a_boot_must_be_newer_and_its_own() {
    let mut world = World::sole();
    let stale = boot_proposal(world.boot(B, Kept::All));
    world.start(B, Kept::All);
    assert_eq!(world.boot_of(B), Boot(2));
    world.refuse_proposal(&stale, R::OldBoot { recorded: Boot(2), got: Boot(2) });
    let by_other = slots::Proposal {
        by: slots::Proposer { node: A, boot: Boot(1) },
        ..boot_proposal(world.boot(B, Kept::All))
    };
    world.refuse_proposal(&by_other, R::NotItself { node: B, by: A });
    let mut other_boot = boot_proposal(world.boot(B, Kept::All));
    other_boot.by.boot = Boot(9);
    let refused = R::OtherBoot { node: B, recorded: Boot(3), got: Boot(9) };
    world.refuse_proposal(&other_boot, refused);
    let unknown = boot_proposal(world.boot(crate::kit::STRANGER, Kept::All));
    world.refuse_proposal(&unknown, R::UnknownNode { node: crate::kit::STRANGER });
    world.start(B, Kept::All);
    assert_eq!(world.table.node(B).expect("B").boot, Boot(3));
}

#[test]
fn a_start_records_boot_and_nonce() {
    let mut world = World::new();
    let before = world.table.node(A).expect("A").nonce;
    world.start(A, Kept::Nothing);
    let row = world.table.node(A).expect("A");
    assert_eq!(row.boot, Boot(2));
    assert_ne!(row.nonce, before);
}

#[test]
fn all_kept_an_owner_gets_a_new_epoch() {
    let mut world = World::with_followers(&[B]);
    let verdicts = world.start(A, Kept::All);
    world.check("A* in-sync AB+ followers B");
    assert!(verdicts.losses().is_empty());
    assert_eq!(world.line(slot(10)), "- in-sync - followers -");
}

#[test]
fn all_kept_a_follower_changes_nothing() {
    let mut world = b_shrunk();
    let before = world.table.clone();
    world.start(C, Kept::All);
    assert!(world.table.changed_since(&before).is_empty());
    world.start(B, Kept::All);
    assert!(world.table.changed_since(&before).is_empty());
}

#[test]
fn all_kept_a_move_goes_on() {
    let mut world = World::sole();
    world.accept(D, TableChange::BeginMove { id: move_id(1), slots: ranges("0-9"), to: C });
    world.start(A, Kept::All);
    world.check("A* in-sync A+ followers - moving to C");
    world.start(C, Kept::Nothing);
    world.check("A in-sync A followers - moving to C");
}

#[test]
fn shared_and_tail_lost_the_owner_gives_its_slots_up_evenly() {
    let mut world = World::with_followers(&[B, C]);
    world.start(A, Kept::Tail);
    world.check("B* in-sync BC+ followers AC removed A rebooted");
    assert_eq!(world.line(slot(1)), "C* in-sync BC+ followers AB removed A rebooted");
    assert_eq!(world.line(slot(2)), "B* in-sync BC+ followers AC removed A rebooted");
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("A").at, world.seen());
}

#[test]
fn shared_and_nothing_kept_leaves_no_memory_of_the_owner() {
    let mut world = World::with_followers(&[B, C]);
    let verdicts = world.start(A, Kept::Nothing);
    world.check("B* in-sync BC+ followers AC");
    assert!(verdicts.losses().is_empty());
}

#[test]
fn shared_and_tail_lost_a_follower_leaves() {
    let mut world = World::with_followers(&[B, C]);
    world.start(C, Kept::Tail);
    world.check("A in-sync AB+ followers BC removed C rebooted");
}

#[test]
fn shared_and_nothing_kept_a_follower_leaves() {
    let mut world = World::with_followers(&[B, C]);
    world.start(C, Kept::Nothing);
    world.check("A in-sync AB+ followers BC");
}

#[test]
fn the_shrunk_may_lack_what_a_lost_member_acknowledged() {
    let mut world = b_shrunk();
    let at = world.table.slot(slot(0)).last_removed().expect("B").at;
    world.start(C, Kept::Nothing);
    world.check("A in-sync A+ followers BC removed B rebooted");
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("B").at, at);
    // So a sole owner that lost a tail does not hand over to it.
    world.start(A, Kept::Tail);
    world.check("A* in-sync A+ followers BC removed B rebooted");
}

#[test]
fn a_tail_lost_replaces_the_memory_of_the_shrunk() {
    let mut world = b_shrunk();
    world.start(C, Kept::Tail);
    world.check("A in-sync A+ followers BC removed C rebooted");
}

#[test]
fn the_shrunk_that_starts_lossy_is_no_heir() {
    let mut world = a_alone();
    world.start(B, Kept::Tail);
    world.check("A in-sync A followers B removed B rebooted");
    world.start(A, Kept::Tail);
    world.check("A* in-sync A+ followers B removed B rebooted");
    let mut world = a_alone();
    world.start(B, Kept::Nothing);
    world.check("A in-sync A followers B");
    let mut world = a_alone();
    world.start(B, Kept::All);
    world.check("A in-sync A followers B removed B shrunk");
}

#[test]
fn the_shrunk_that_lost_a_tail_is_still_better_than_an_empty_disk() {
    let mut world = a_alone();
    let at = world.table.slot(slot(0)).last_removed().expect("B").at;
    world.start(B, Kept::Tail);
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("B").at, at);
    let verdicts = world.start(A, Kept::Nothing);
    world.check("B* in-sync B+ followers A");
    assert_eq!(verdicts.losses()[0].cause, LossCause::MemoryLost { node: A, to: B });
}

#[test]
fn an_unwanted_member_that_lost_a_tail_does_not_replace_the_shrunk() {
    let mut world = b_shrunk();
    let at = world.table.slot(slot(0)).last_removed().expect("B").at;
    let followers = [B].into_iter().collect();
    world.accept(D, TableChange::SetFollowers { slots: ranges("0-9"), followers });
    world.start(C, Kept::Tail);
    world.check("A in-sync A+ followers B removed B rebooted");
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("B").at, at);
    // B is the heir, not C, which frees its copy.
    world.start(A, Kept::Nothing);
    world.check("B* in-sync B+ followers A");
}

#[test]
fn an_old_owner_that_lost_a_tail_is_remembered_if_its_heir_wants_it() {
    let mut world = World::sole();
    world.accept(D, TableChange::BeginMove { id: move_id(1), slots: ranges("0-9"), to: C });
    let change = world.grow(C);
    world.accept(A, change);
    let mut other = World { table: world.table.clone() };
    // C, which is no follower, owns: nobody wants A, which frees its copy.
    world.start(A, Kept::Tail);
    world.check("C* in-sync C+ followers -");
    let followers = [C].into_iter().collect();
    other.accept(D, TableChange::SetFollowers { slots: ranges("0-9"), followers });
    other.start(A, Kept::Tail);
    other.check("C* in-sync C+ followers A removed A rebooted");
}

#[test]
fn the_rebooted_keeps_its_place_until_it_has_nothing() {
    let mut world = World::with_followers(&[B]);
    world.start(A, Kept::Tail);
    world.check("B* in-sync B+ followers A removed A rebooted");
    world.start(A, Kept::Tail);
    world.check("B in-sync B followers A removed A rebooted");
    world.start(A, Kept::Nothing);
    world.check("B in-sync B followers A");
}

#[test]
fn sole_and_tail_lost_stays_when_it_has_acknowledged_alone() {
    let mut world = a_alone();
    let at = world.table.slot(slot(0)).last_removed().expect("B").at;
    let verdicts = start_with(&mut world, A, Kept::Tail, &[(slot(0), at)], "");
    world.check("A* in-sync A+ followers B removed B shrunk");
    assert!(verdicts.losses().is_empty());
    // Slot 1 has no mark: nothing was acknowledged alone.
    assert_eq!(world.line(slot(1)), "B* in-sync B+ followers A removed A rebooted");
}

#[test]
fn sole_and_tail_lost_gives_way_to_the_shrunk_that_has_everything() {
    let mut world = a_alone();
    let at = world.table.slot(slot(0)).last_removed().expect("B").at;
    let mark = (slot(0), TableVersion(at.0 - 1));
    let verdicts = start_with(&mut world, A, Kept::Tail, &[mark], "");
    world.check("B* in-sync B+ followers A removed A rebooted");
    assert!(verdicts.losses().is_empty());
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("A").at, world.seen());
}

#[test]
fn an_heir_that_turns_out_empty_gives_the_slot_back_to_its_giver() {
    let mut world = a_alone();
    world.start(A, Kept::Tail);
    world.check("B* in-sync B+ followers A removed A rebooted");
    let verdicts = world.start(B, Kept::Nothing);
    world.check("A* in-sync A+ followers B");
    assert_eq!(verdicts.losses()[0].cause, LossCause::MemoryLost { node: B, to: A });
}

#[test]
fn sole_and_tail_lost_without_another_copy_stays() {
    let mut world = World::sole();
    let verdicts = world.start(A, Kept::Tail);
    world.check("A* in-sync A+ followers -");
    assert!(verdicts.losses().is_empty());
}

#[test]
fn sole_and_nothing_kept_gives_way_to_any_copy_and_says_so() {
    let mut world = a_alone();
    let at = world.table.slot(slot(0)).last_removed().expect("B").at;
    let verdicts = start_with(&mut world, A, Kept::Nothing, &[(slot(0), at)], "");
    world.check("B* in-sync B+ followers A");
    let loss = &verdicts.losses()[0];
    assert_eq!(loss.cause, LossCause::MemoryLost { node: A, to: B });
    assert_eq!((&loss.slots, loss.at), (&ranges("0-9"), world.seen()));

    let mut world = World::with_followers(&[B]);
    world.start(B, Kept::Tail);
    world.check("A in-sync A+ followers B removed B rebooted");
    world.start(A, Kept::Nothing);
    world.check("B* in-sync B+ followers A");
}

#[test]
fn sole_and_nothing_kept_without_another_copy_serves_and_says_so() {
    let mut world = World::sole();
    let verdicts = world.start(A, Kept::Nothing);
    world.check("A* in-sync A+ followers -");
    assert_eq!(verdicts.losses()[0].cause, LossCause::MemoryLost { node: A, to: A });
    assert_eq!(verdicts.losses()[0].slots, ranges("0-9"));
    assert_eq!(world.table.losses().count(), 1);
}

#[test]
fn a_staged_slot_counts_as_nothing() {
    let mut world = World::with_followers(&[B]);
    start_with(&mut world, A, Kept::All, &[], "0,5");
    world.check("B* in-sync B+ followers A");
    assert_eq!(world.line(slot(1)), "A* in-sync AB+ followers B");
    assert_eq!(world.line(slot(5)), "B* in-sync B+ followers A");
}

#[test]
fn an_heir_that_is_the_target_ends_the_move() {
    let mut world = World::sole();
    world.accept(D, TableChange::BeginMove { id: move_id(1), slots: ranges("0-9"), to: C });
    let change = world.grow(C);
    world.accept(A, change);
    world.start(A, Kept::Tail);
    world.check("C* in-sync C+ followers -");
}

#[test]
fn an_heir_that_is_not_the_target_goes_on_with_the_move() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, TableChange::BeginMove { id: move_id(1), slots: ranges("0-9"), to: C });
    world.start(A, Kept::Nothing);
    world.check("B* in-sync B+ followers A moving to C");
}

#[test]
fn ack_local_followers_hold_no_role_to_lose() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, TableChange::SetAck { slots: ranges("0-9"), mode: AckMode::Local });
    let before = world.table.clone();
    world.start(B, Kept::Nothing);
    assert_eq!(world.table.changed_since(&before), ranges("0-9"), "B is no heir any more");
    world.check("A in-sync A followers B ack local");
}
