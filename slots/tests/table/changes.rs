//! Changes over slots: what each does, and each reason to refuse it.

use crate::kit::{A, B, C, CLUSTER, D, STRANGER, World, move_id, ranges, slot};
use slots::ChangeRefused as R;
use slots::{
    AckMode, Boot, ClusterId, LossCause, LossConsent, MAX_FOLLOWERS, NodeId, Proposal, Proposer,
    TableChange, TableVersion,
};

fn assign(world: &World, slots: &str, to: NodeId) -> TableChange {
    TableChange::AssignSlots { slots: ranges(slots), to, seen: world.seen() }
}

pub(crate) fn followers(nodes: &[NodeId]) -> TableChange {
    TableChange::SetFollowers { slots: ranges("0-9"), followers: nodes.iter().copied().collect() }
}

pub(crate) fn begin(id: u8, to: NodeId) -> TableChange {
    TableChange::BeginMove { id: move_id(id), slots: ranges("0-9"), to }
}

pub(crate) fn commit(world: &World, id: u8) -> TableChange {
    TableChange::CommitMove { id: move_id(id), slots: ranges("0-9"), seen: world.seen() }
}

fn abort(id: u8) -> TableChange {
    TableChange::AbortMove { id: move_id(id), slots: ranges("0-9") }
}

pub(crate) fn set_ack(mode: AckMode) -> TableChange {
    TableChange::SetAck { slots: ranges("0-9"), mode }
}

fn unassign(world: &World, consent: LossConsent) -> TableChange {
    TableChange::UnassignSlots { slots: ranges("0-9"), seen: world.seen(), consent }
}

#[test]
fn an_entry_out_of_place_is_refused_whole() {
    let mut world = World::sole();
    let before = world.table.clone();
    let proposal = world.proposal(A, assign(&world, "20", B));
    let (applied, slots) = (world.seen(), ranges("20"));
    for got in [applied, TableVersion(1), TableVersion(0)] {
        let verdicts = world.table.apply(&proposal, got);
        assert_eq!(verdicts.whole(), Err(R::OldEntry { applied, got }));
        assert_eq!(verdicts.slot(slot(20)), Some(verdicts.whole()));
        assert_eq!(verdicts.slot(slot(21)), None);
        assert_eq!(verdicts.refused().next().expect("a reason").1, &slots);
    }
    assert!(world.table == before);

    let other = ClusterId::from_bytes([2; 20]);
    let foreign = Proposal { cluster: other, ..proposal };
    world.refuse_proposal(&foreign, R::OtherCluster { expected: CLUSTER, got: other });
    assert_eq!(world.seen(), applied.next(), "a refused entry counts as applied");
}

#[test]
fn gaps_in_the_log_are_no_harm() {
    let mut world = World::sole();
    let change = assign(&world, "20", B);
    let proposal = world.proposal(A, change);
    let version = TableVersion(1000);
    assert_eq!(world.table.apply(&proposal, version).all(), Ok(()));
    assert_eq!(world.table.slot(slot(20)).epoch().began_at(), version);
}

#[test]
fn assigned_slots_have_a_sole_owner_in_a_new_epoch() {
    let mut world = World::new();
    world.check("- in-sync - followers -");
    let change = assign(&world, "0-9", A);
    let verdicts = world.accept(A, change);
    assert_eq!(verdicts.accepted(), &ranges("0-9"));
    world.check("A* in-sync A+ followers -");
    assert_eq!(world.table.slots_of(A), ranges("0-9"));
    assert_eq!(world.table.unassigned(), ranges("10-16383"));
    assert_eq!(world.table.owner_row(slot(9)).expect("an owner").id, A);
}

#[test]
fn assign_is_judged_slot_by_slot() {
    let mut world = World::sole();
    let change = assign(&world, "8-11", B);
    let verdicts = world.apply(A, change);
    assert_eq!(verdicts.accepted(), &ranges("10-11"));
    assert_eq!(verdicts.slot(slot(8)), Some(Err(R::Owned { owner: A })));
    assert_eq!(verdicts.all(), Err(R::Owned { owner: A }));
    assert_eq!(verdicts.whole(), Ok(()));
    assert_eq!(world.table.slots_of(B), ranges("10-11"));
    let runs: Vec<_> = world.table.owned_runs();
    assert_eq!(runs.len(), 2);
    assert_eq!((runs[1].0.to_string(), runs[1].1), ("10-11".to_owned(), B));
}

#[test]
fn assign_refuses_unknown_draining_and_late() {
    let mut world = World::new();
    let early = world.seen();
    let change = assign(&world, "0-9", STRANGER);
    world.refuse(A, change, R::UnknownNode { node: STRANGER });
    world.accept(A, TableChange::Drain { node: B });
    let change = assign(&world, "0-9", B);
    world.refuse(A, change, R::NotActive { node: B });

    let change = assign(&world, "0-9", A);
    world.accept(A, change);
    let change = unassign(&world, LossConsent::NotGiven);
    world.accept(A, change);
    let late = TableChange::AssignSlots { slots: ranges("0-9"), to: C, seen: early };
    let changed_at = world.seen();
    world.refuse(A, late, R::Stale { changed_at, seen: early });
}

#[test]
fn a_proposer_cannot_have_seen_its_own_entry() {
    let mut world = World::new();
    let ahead = world.seen().next();
    let change = TableChange::AssignSlots { slots: ranges("0"), to: A, seen: ahead };
    world.refuse(A, change, R::OutOfLimits { limit: ahead.0 - 1, got: ahead.0 });
}

#[test]
fn unassign_is_for_the_owner_or_for_who_accepts_loss() {
    let mut world = World::with_followers(&[B]);
    let change = unassign(&world, LossConsent::NotGiven);
    world.refuse(B, change, R::NotOwner { owner: A, by: B });
    let stale = world.seen();
    world.start(A, slots::Kept::All);
    let change = TableChange::UnassignSlots {
        slots: ranges("0-9"),
        seen: stale,
        consent: LossConsent::NotGiven,
    };
    let changed_at = world.seen();
    world.refuse(A, change, R::Stale { changed_at, seen: stale });

    world.accept(A, set_ack(AckMode::Local));
    let change = unassign(&world, LossConsent::AcceptLoss);
    let verdicts = world.accept(C, change);
    world.check("-* in-sync -+ followers - ack local");
    let loss = &verdicts.losses()[0];
    assert_eq!((loss.cause, loss.by), (LossCause::Unassigned { from: A }, C));
    assert_eq!(world.table.losses().collect::<Vec<_>>(), vec![loss]);
    let change = unassign(&world, LossConsent::AcceptLoss);
    world.refuse(C, change, R::Unowned);
}

#[test]
fn followers_are_wanted_first_and_in_sync_later() {
    let mut world = World::sole();
    let before = world.table.slot(slot(0)).ver();
    world.accept(A, followers(&[C, B]));
    world.check("A in-sync A followers BC");
    assert_eq!(world.table.slot(slot(0)).ver(), before);
    assert!(world.table.slot(slot(0)).is_follower(B));
    let change = world.grow(C);
    world.accept(A, change);
    world.check("A in-sync AC+ followers BC");
    assert!(world.table.slot(slot(0)).is_in_sync(C));
    assert!(!world.table.slot(slot(0)).is_in_sync(B));
}

#[test]
fn set_followers_refuses_the_owner_the_idle_and_crowds() {
    let mut world = World::sole();
    world.refuse(A, followers(&[A, B]), R::IsOwner { node: A });
    world.refuse(A, followers(&[STRANGER]), R::UnknownNode { node: STRANGER });
    world.accept(A, TableChange::Drain { node: B });
    world.refuse(A, followers(&[B]), R::NotActive { node: B });
    let crowd: Vec<NodeId> =
        (0..=MAX_FOLLOWERS as u8).map(|n| NodeId::from_bytes([n; 20])).collect();
    world.refuse(A, followers(&crowd), R::TooManyMembers { limit: MAX_FOLLOWERS });
    let elsewhere =
        TableChange::SetFollowers { slots: ranges("10"), followers: [C].into_iter().collect() };
    world.refuse(A, elsewhere, R::Unowned);
}

#[test]
fn a_dropped_follower_is_forgotten_as_removed() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    world.check("A in-sync AC+ followers BC removed B shrunk");
    world.accept(A, followers(&[B, D]));
    world.check("A in-sync AC followers BD removed B shrunk");
    world.accept(A, followers(&[D]));
    world.check("A in-sync AC followers D");
}

#[test]
fn grow_refuses_all_but_the_owner_in_its_boot() {
    let mut world = World::with_followers(&[B]);
    let change = world.grow(C);
    world.refuse(B, change, R::NotOwner { owner: A, by: B });
    let change = world.grow(B);
    world.refuse(A, change, R::AlreadyInSync { node: B });
    let change = world.grow(STRANGER);
    world.refuse(A, change, R::UnknownNode { node: STRANGER });

    let old_boot = world.proposal(A, world.grow(C));
    world.start(A, slots::Kept::All);
    let proposal = Proposal { change: world.grow(C), ..old_boot };
    world.refuse_proposal(&proposal, R::OtherBoot { node: A, recorded: Boot(2), got: Boot(1) });

    let change = world.grow(C);
    world.start(C, slots::Kept::All);
    world.refuse(A, change, R::OtherBoot { node: C, recorded: Boot(2), got: Boot(1) });

    world.accept(A, TableChange::Drain { node: C });
    let change = world.grow(C);
    world.refuse(A, change, R::NotActive { node: C });
    world.accept(A, set_ack(AckMode::Local));
    let change = world.grow(D);
    world.refuse(A, change, R::AckIsLocal);
}

#[test]
fn a_proposal_of_unknown_fate_is_repeated_without_harm() {
    let mut world = World::sole();
    let change = world.grow(B);
    let seen = world.seen();
    world.accept(A, change.clone());
    let changed_at = world.seen();
    world.refuse(A, change, R::Stale { changed_at, seen });
}

#[test]
fn a_shrink_withdraws_a_grow_that_was_decided_before_it() {
    let mut world = World::sole();
    let grow = world.grow(B);
    let seen = world.seen();
    let shrink = world.shrink(B);
    world.accept(A, shrink);
    world.check("A in-sync A+ followers -");
    let changed_at = world.seen();
    world.refuse(A, grow, R::Stale { changed_at, seen });
}

#[test]
fn shrink_remembers_only_a_member_that_is_still_wanted() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    world.check("A in-sync AC+ followers BC removed B shrunk");
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("B").at, world.seen());
    world.accept(A, followers(&[]));
    let change = world.shrink(C);
    world.accept(A, change);
    world.check("A in-sync A+ followers -");
}

#[test]
fn a_withdrawn_grow_is_no_reason_to_forget_the_one_shrunk_before() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    let at = world.seen();
    let change = world.shrink(D);
    world.accept(A, change);
    world.check("A in-sync AC+ followers BC removed B shrunk");
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("B").at, at);
}

#[test]
fn the_one_shrunk_before_may_lack_what_an_unwanted_member_acknowledged() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    let at = world.seen();
    world.accept(A, followers(&[B]));
    let change = world.shrink(C);
    world.accept(A, change);
    world.check("A in-sync A+ followers B removed B rebooted");
    assert_eq!(world.table.slot(slot(0)).last_removed().expect("B").at, at);
}

#[test]
fn shrink_is_the_owners_alone_and_never_of_itself() {
    let mut world = World::with_followers(&[B]);
    let change = world.shrink(A);
    world.refuse(B, change.clone(), R::NotOwner { owner: A, by: B });
    world.refuse(A, change, R::IsOwner { node: A });
    let change = world.shrink(STRANGER);
    world.refuse(A, change, R::UnknownNode { node: STRANGER });
    let change = world.shrink(B);
    let (old_seen, by) = (world.seen(), Proposer { node: A, boot: Boot(0) });
    let stale_boot = Proposal { cluster: CLUSTER, by, change: change.clone() };
    world.refuse_proposal(&stale_boot, R::OtherBoot { node: A, recorded: Boot(1), got: Boot(0) });
    world.start(A, slots::Kept::All);
    let changed_at = world.seen();
    world.refuse(A, change, R::Stale { changed_at, seen: old_seen });
}

#[test]
fn growing_ends_the_memory_of_the_one_removed() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    let change = world.grow(B);
    world.accept(A, change);
    world.check("A in-sync ABC+ followers BC");
}

#[test]
fn a_move_is_a_short_partnership() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, begin(1, C));
    world.check("A in-sync AB followers B moving to C");
    world.accept(D, begin(1, C));
    let change = commit(&world, 1);
    world.refuse(A, change, R::NotInSync { node: C });
    let change = world.grow(C);
    world.accept(A, change);
    let change = commit(&world, 2);
    world.refuse(A, change, R::OtherMove { id: move_id(1) });
    let change = commit(&world, 1);
    world.refuse(C, change.clone(), R::NotOwner { owner: A, by: C });
    world.accept(A, change);
    world.check("C* in-sync ABC+ followers B");
    let change = world.shrink(A);
    world.accept(C, change);
    world.check("C in-sync BC+ followers B");
    world.refuse(D, begin(1, C), R::IsOwner { node: C });
}

#[test]
fn a_move_to_a_follower_takes_it_out_of_the_followers() {
    let mut world = World::with_followers(&[B, C]);
    world.accept(D, begin(1, B));
    let change = commit(&world, 1);
    world.accept(A, change);
    world.check("B* in-sync ABC+ followers C");
}

#[test]
fn begin_move_refuses_nonsense() {
    let mut world = World::sole();
    world.refuse(D, begin(1, A), R::IsOwner { node: A });
    world.refuse(D, begin(1, STRANGER), R::UnknownNode { node: STRANGER });
    world.accept(D, TableChange::Drain { node: B });
    world.refuse(D, begin(1, B), R::NotActive { node: B });
    let elsewhere = TableChange::BeginMove { id: move_id(1), slots: ranges("10"), to: C };
    world.refuse(D, elsewhere, R::Unowned);
    world.accept(D, begin(1, C));
    world.refuse(D, begin(2, C), R::OtherMove { id: move_id(1) });
    world.refuse(D, begin(1, D), R::OtherMove { id: move_id(1) });
}

#[test]
fn commit_refuses_when_the_epoch_moved_on_but_not_for_a_new_member() {
    let mut world = World::sole();
    world.accept(D, begin(1, C));
    let change = world.grow(C);
    world.accept(A, change);
    let change = commit(&world, 1);
    let seen = world.seen();
    world.start(A, slots::Kept::All);
    let changed_at = world.seen();
    world.refuse(A, change, R::Stale { changed_at, seen });

    let change = commit(&world, 1);
    let grow = world.grow(B);
    world.accept(A, grow);
    world.accept(A, change);
    world.check("C* in-sync ABC+ followers -");
    let change = commit(&world, 1);
    world.refuse(C, change, R::NoMove);
}

#[test]
fn exactly_one_of_commit_and_abort_is_accepted() {
    let mut world = World::sole();
    world.accept(D, begin(1, C));
    let change = world.grow(C);
    world.accept(A, change);
    let late = commit(&world, 1);
    world.refuse(D, abort(2), R::OtherMove { id: move_id(1) });
    world.accept(D, abort(1));
    world.check("A* in-sync AC+ followers -");
    world.refuse(A, late, R::NoMove);
    world.refuse(D, abort(1), R::NoMove);

    world.accept(D, begin(3, C));
    let change = commit(&world, 3);
    world.accept(A, change);
    world.refuse(D, abort(3), R::NoMove);
}

#[test]
fn a_late_commit_meets_a_new_order_with_another_id() {
    let mut world = World::sole();
    world.accept(D, begin(1, C));
    let change = world.grow(C);
    world.accept(A, change);
    let late = commit(&world, 1);
    world.accept(D, abort(1));
    world.accept(D, begin(2, C));
    world.refuse(A, late, R::OtherMove { id: move_id(2) });
}

#[test]
fn a_promoted_follower_changes_places_with_the_old_owner() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.promote(B);
    world.accept(D, change);
    world.check("B* in-sync ABC+ followers AC");
    let change = world.shrink(A);
    world.accept(B, change);
    world.check("B in-sync BC+ followers AC removed A shrunk");
}

#[test]
fn a_promoted_target_ends_its_move() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, begin(1, C));
    let change = world.grow(C);
    world.accept(A, change);
    let change = world.promote(C);
    world.accept(D, change);
    world.check("C* in-sync ABC+ followers B");
}

#[test]
fn a_promotion_of_another_lets_the_move_go_on() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, begin(1, C));
    let change = world.promote(B);
    world.accept(D, change);
    world.check("B* in-sync AB+ followers A moving to C");
}

#[test]
fn promote_refuses_who_is_not_in_sync_or_too_late() {
    let mut world = World::with_followers(&[B]);
    let change = world.promote(C);
    world.refuse(D, change, R::NotInSync { node: C });
    let change = world.promote(A);
    world.refuse(D, change, R::IsOwner { node: A });
    let change = world.promote(STRANGER);
    world.refuse(D, change, R::UnknownNode { node: STRANGER });

    let change = world.promote(B);
    let seen = world.seen();
    world.start(A, slots::Kept::All);
    let changed_at = world.seen();
    world.refuse(D, change, R::Stale { changed_at, seen });

    let change = world.promote(B);
    world.start(B, slots::Kept::All);
    world.refuse(D, change, R::OtherBoot { node: B, recorded: Boot(2), got: Boot(1) });

    let elsewhere =
        TableChange::Promote { slots: ranges("10"), to: B, to_boot: Boot(2), seen: world.seen() };
    world.refuse(D, elsewhere, R::Unowned);
}

#[test]
fn a_promotion_does_not_mind_a_member_that_left_since() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.promote(B);
    let shrink = world.shrink(C);
    world.accept(A, shrink);
    world.accept(D, change);
    world.check("B* in-sync AB+ followers AC removed C shrunk");
}

#[test]
fn one_moved_slot_does_not_refuse_the_others() {
    let mut world = World::sole();
    let change = world.grow(B);
    let seen = world.seen();
    let slots = ranges("4");
    world.accept(A, TableChange::ShrinkInSync { slots, node: B, seen });
    let changed_at = world.seen();
    let verdicts = world.apply(A, change);
    assert_eq!(verdicts.accepted(), &ranges("0-3,5-9"));
    assert_eq!(verdicts.slot(slot(4)), Some(Err(R::Stale { changed_at, seen })));
    assert_eq!(world.line(slot(4)), "A in-sync A followers -");
    assert_eq!(world.line(slot(5)), "A in-sync AB+ followers -");
}
