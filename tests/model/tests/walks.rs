//! The whole protocol holds on walks and on a breadth-first prefix; rules that walks can catch are
//! caught by walks.

use slot_model::{Limits, Protocol, Rules, Tally, World};
use stateright::{Checker, Model};

/// Walks of the whole protocol: some 140 steps each.
const WALKS: u64 = 12_000;
/// States of each breadth-first prefix.
const STATES: usize = 40_000;
/// Walks in which a rule that is off must break a promise.
const WALKS_TO_CATCH: u64 = 2_000;

/// Branches that every batch of walks reaches; a walk that never gets there proves nothing.
const BRANCHES: [&str; 40] = [
    "abort move",
    "ack local, members leave",
    "begin move",
    "commit move",
    "crash, all kept",
    "crash, nothing kept",
    "crash, tail lost",
    "followers, one forgotten",
    "free",
    "grant",
    "grant counts no more",
    "grant runs out",
    "groups",
    "groups do not match",
    "groups fenced",
    "groups staged",
    "groups would cut what is executed",
    "groups, a buffered tail cut",
    "grow",
    "handover",
    "learns, deposed",
    "learns, owner",
    "learns, owner at a new epoch",
    "learns, owner by a move",
    "mark alone",
    "piece fenced",
    "piece staged",
    "promote",
    "read",
    "shrink of a follower",
    "shrink of a member that is not wanted",
    "shrink of no member",
    "sole start, empty",
    "sole start, tail lost, stays",
    "sole start, tail lost, the shrunk owns",
    "sole start, the removed owns",
    "start leaves, nothing kept",
    "start leaves, tail lost",
    "sync, the stage is swapped in",
    "take over",
];

/// Rules whose absence the walks of `WALKS_TO_CATCH` seeds find by themselves.
const CAUGHT: [&str; 29] = [
    "seen",
    "grown_boot",
    "owner_start_new_epoch",
    "lossy_start_leaves",
    "shrunk_is_remembered",
    "withdraw_new_ver",
    "promoted_in_sync",
    "committed_in_sync",
    "taken_alone",
    "reached_move_ends",
    "progress_is_no_ack",
    "fenced",
    "buffered_until_safe",
    "executed_is_kept",
    "whole_tail_first",
    "matched_by_name",
    "built_beside",
    "swapped_whole",
    "op_follows_piece",
    "one_group",
    "counted_before_grow",
    "grown_at_noted",
    "counted_until_shrunk",
    "counted_until_ver",
    "ack_boot",
    "freed_when_out",
    "freed_after_ack",
    "no_role_before_boot",
    "safe_reads",
];

#[test]
fn the_whole_protocol_holds_on_walks_that_reach_every_branch() {
    let mut tally = Tally::default();
    (0..WALKS).for_each(|seed| tally.walk(&Rules::ALL, seed));
    assert!(tally.shortest.is_none(), "{:#?}", tally.shortest);
    let missed: Vec<&&str> =
        BRANCHES.iter().filter(|branch| !tally.coverage.contains_key(**branch)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}; reached: {:?}", tally.coverage);
}

#[test]
fn the_same_seed_takes_the_same_way() {
    let [mut a, mut b] = [Tally::default(), Tally::default()];
    (0..50).for_each(|seed| a.walk(&Rules::ALL, seed));
    (0..50).for_each(|seed| b.walk(&Rules::ALL, seed));
    assert_eq!((a.steps, a.coverage), (b.steps, b.coverage));
}

#[test]
fn the_whole_protocol_holds_breadth_first() {
    for world in World::ALL {
        let model = Protocol { rules: Rules::ALL, limits: Limits::SEARCH, world };
        let checker = model.checker().target_state_count(STATES).spawn_bfs().join();
        assert!(checker.unique_state_count() > STATES / 4, "{world:?}");
        checker.assert_properties();
    }
}

#[test]
fn walks_catch_rules_that_are_off() {
    let missed: Vec<&&str> = CAUGHT
        .iter()
        .filter(|rule| {
            let rules = Rules::without([**rule]).expect("a rule");
            let mut tally = Tally::default();
            (0..WALKS_TO_CATCH)
                .find(|seed| {
                    tally.walk(&rules, *seed);
                    tally.failures > 0
                })
                .is_none()
        })
        .collect();
    assert!(missed.is_empty(), "not caught any more: {missed:?}");
}
