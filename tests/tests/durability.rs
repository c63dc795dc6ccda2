//! What was acknowledged is there after kill -9 and after a power loss: short versions of the
//! programs `kill-nine` and `power-loss`, which run as long as one likes.
//!
//! The last tests show that the oracle sees losses where there must be some.

use slot_tests::durable::{Mode, cuts, kills};
use slot_tests::process::binary;
use std::time::Duration;

fn killed(mode: Mode) -> kills::Figures {
    let binary = binary().expect("slotd is built");
    let setup = kills::Setup {
        binary,
        mode,
        kills: 10,
        seed: 4,
        writers: 8,
        shelves: 20,
        ballast: 5_000,
        is_told: false,
    };
    kills::run(&setup).expect("it comes back each time")
}

fn nothing_is_lost_by_kills(mode: Mode) {
    let mut figures = killed(mode);
    assert!(figures.report(), "{mode:?}: {:?}", figures.load.findings.faults);
    assert!(figures.load.total.acked > 500, "hardly anything was written");
    assert!(figures.load.total.unknown > 0, "no kill came while a write was under way");
}

fn cut(setup: cuts::Setup) -> cuts::Figures {
    let mut figures = cuts::run(&setup).expect("it comes back each time");
    figures.report();
    figures
}

fn of_mode(mode: Mode) -> cuts::Setup {
    cuts::Setup {
        binary: binary().expect("slotd is built"),
        mode,
        judged_as: mode,
        cuts: 6,
        seed: 4,
        writers: 8,
        shelves: 10,
        tears: true,
        names_stay: false,
        lie: None,
        sync_delay: Duration::from_micros(500),
        is_told: false,
    }
}

#[test]
fn kills_with_always_lose_nothing() {
    nothing_is_lost_by_kills(Mode::Always);
}

#[test]
fn kills_with_everysec_lose_nothing() {
    nothing_is_lost_by_kills(Mode::Everysec);
}

#[test]
fn kills_with_no_lose_nothing() {
    nothing_is_lost_by_kills(Mode::No);
}

#[test]
fn power_losses_with_always_lose_nothing() {
    let figures = cut(of_mode(Mode::Always));
    assert!(figures.load.findings.holds(), "{:?}", figures.load.findings.faults);
    assert_eq!(figures.load.findings.lost, 0);
    assert_eq!(figures.kept, [("All".to_owned(), figures.cuts)]);
    assert!(figures.damage.units_back > 0, "no cut took anything away");
}

#[test]
fn power_losses_with_everysec_lose_a_second_and_a_flush_at_most_and_are_told() {
    let figures = cut(of_mode(Mode::Everysec));
    assert!(figures.load.findings.holds(), "{:?}", figures.load.findings.faults);
    assert_eq!(figures.kept, [("Tail".to_owned(), figures.cuts)]);
    assert!(figures.damage.units_back > 0, "no cut took anything away");
}

#[test]
fn kills_without_a_log_are_seen_to_lose_everything() {
    let figures = killed(Mode::Memory);
    assert!(!figures.load.findings.holds());
    assert!(figures.load.findings.lost > 500, "{}", figures.load.findings.lost);
}

#[test]
fn a_power_loss_with_everysec_is_seen_to_lose_more_than_always_may() {
    let figures = cut(cuts::Setup { judged_as: Mode::Always, ..of_mode(Mode::Everysec) });
    assert!(!figures.load.findings.holds(), "six cuts, and not one write was lost");
}

/// Syncs that do nothing: the node comes back without its writes, or does not come back at all.
fn a_lie_is_seen(part: &str) {
    let lie = Some(part.to_owned());
    let setup = cuts::Setup { lie, cuts: 20, ..of_mode(Mode::Always) };
    let loses = cuts::run(&setup).map(|figures| !figures.load.findings.holds());
    assert!(loses.unwrap_or(true), "{part} was never synced, and nothing was lost");
}

#[test]
fn a_disk_that_does_not_sync_the_log_is_seen_to_lose_writes() {
    a_lie_is_seen("/wal");
}

#[test]
fn a_disk_that_does_not_sync_checkpoints_is_seen_to_lose_writes() {
    a_lie_is_seen("/checkpoint");
}
