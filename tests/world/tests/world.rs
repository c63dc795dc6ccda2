//! The world's runs that every change must pass, and the bugs put in on purpose that must not.

use slot_world::coverage::Coverage;
use slot_world::{Bug, Plan, Report, play};

/// Seeds within which a bug must be caught.
const SEEDS_PER_BUG: u64 = 20;

fn check(seeds: std::ops::Range<u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        let Report { violation, last_events, coverage: met, .. } = play(Plan::seed(seed));
        if let Some(violation) = violation {
            let (events, replay) = (last_events.join("\n"), Plan::seed(seed).replay());
            panic!("{events}\nseed {seed}: {violation}\nreplay: {replay}");
        }
        coverage.add(&met);
    }
    coverage
}

#[test]
fn all_promises_hold_in_the_first_seeds() {
    let met = check(0..25);
    for seat in ["Starting -> Seated", "Seated -> Removed", "Ended(Doubled)", "Ended(OtherStore)"] {
        assert!(met.of("seat", seat) > 0, "never met: {seat}\n{met}");
    }
}

#[test]
fn all_promises_hold_in_more_seeds() {
    let met = check(25..50);
    let missed = met.missed_reasons();
    assert!(missed.len() <= 6, "refusals never met: {missed:?}");
}

#[test]
fn a_seed_is_one_run() {
    let (first, second) = (play(Plan::seed(7)), play(Plan::seed(7)));
    assert_eq!(first.coverage, second.coverage);
    assert_eq!((first.events, first.versions), (second.events, second.versions));
    assert_ne!(first.events, play(Plan::seed(8)).events);
}

fn check_caught(bug: Bug) {
    let plans = (0..SEEDS_PER_BUG).map(|seed| Plan { bug: Some(bug), ..Plan::seed(seed) });
    let caught = plans.into_iter().find_map(|plan| Some((plan, play(plan).violation?)));
    let (plan, violation) =
        caught.unwrap_or_else(|| panic!("{} is not caught in {SEEDS_PER_BUG} seeds", bug.name()));
    let expected = bug.caught_by();
    assert!(expected.contains(&violation.invariant), "{violation}, not {expected:?}: {plan:?}");
}

#[test]
fn a_role_before_the_own_boot_is_caught() {
    check_caught(Bug::RoleBeforeBoot);
}

#[test]
fn entries_applied_out_of_order_are_caught() {
    check_caught(Bug::ApplyOutOfOrder);
}

#[test]
fn changes_without_their_checks_are_caught() {
    check_caught(Bug::ChangeWithoutChecks);
}

#[test]
fn answers_by_an_old_table_are_caught() {
    check_caught(Bug::StaleAnswer);
}

#[test]
fn two_copies_of_a_directory_that_both_serve_are_caught() {
    check_caught(Bug::TwoCopiesNotNoticed);
}

#[test]
fn an_old_copy_of_a_directory_that_serves_is_caught() {
    check_caught(Bug::OldDirNotNoticed);
}

#[test]
fn cluster_slots_ahead_of_the_admission_words_is_caught() {
    check_caught(Bug::TopologyBeforeAdmission);
}

#[test]
fn a_start_under_the_number_of_the_last_one_is_caught() {
    check_caught(Bug::BootNotNew);
}

#[test]
fn a_boot_number_counted_on_though_it_was_never_seated_is_caught() {
    check_caught(Bug::BootNotConfirmed);
}

#[test]
fn slots_given_up_without_a_seal_are_caught() {
    check_caught(Bug::UnassignWithoutSeal);
}

#[test]
fn a_seal_broken_by_a_timer_is_caught() {
    check_caught(Bug::SealBrokenByTimer);
}

#[test]
fn proposals_kept_without_a_limit_are_caught() {
    check_caught(Bug::NoQueueLimit);
}

#[test]
fn proposals_of_unknown_fate_that_are_forgotten_are_caught() {
    check_caught(Bug::UnknownForgotten);
}
