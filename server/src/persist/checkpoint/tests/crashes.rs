//! The process dies at every step of a round, with the machine or alone: the checkpoint before it
//! is there, whole, or its own.
//!
//! Not the log's part in it (`recovery/tests/walks`). Invariant: seeded; a failure names its step.

use super::*;
use crate::stream::tests::{bare_rooms, dump};

/// What the rooms held when a round began that could come to its end.
fn images(rooms: &Rooms) -> Vec<String> {
    (0..6).map(|number| format!("{:?}", dump(rooms, slot(number)))).collect()
}

fn step(rooms: &Rooms, life: u64) {
    for number in 0..6 {
        for key in 0..life % 5 + 1 {
            set(rooms, slot(number), &format!("key{key}"), &format!("{number} in {life}"));
        }
    }
}

#[test]
fn a_death_at_any_step_leaves_the_old_one_or_the_new_one() {
    let (mut old_ones, mut new_ones) = (0, 0);
    for power in [false, true] {
        for steps in 0.. {
            let (rooms, disk) = (bare_rooms(), SimDisk::new(steps));
            (0..6).for_each(|number| own(&rooms, slot(number), 1));
            step(&rooms, 1);
            take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
            let old = images(&rooms);
            step(&rooms, 2);
            step(&rooms, 3);
            let new = images(&rooms);
            disk.stop_after(steps);
            let taken = take_by(SMALL, &rooms, &disk, about(1), &Edge::still());
            for seed in 0..8 {
                let after = if power { disk.crash(seed) } else { disk.restart() };
                let found = bare_rooms();
                let name = format!("power {power}, step {steps}, seed {seed}");
                let loaded = load(&after, &found).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(loaded.is_some(), "{name}: no checkpoint is left");
                let found = images(&found);
                assert!(found == new || (taken.is_err() && found == old), "{name}: {found:?}");
                old_ones += usize::from(found == old);
                new_ones += usize::from(found == new);
                // What was left over goes, also when that dies.
                let number = Checkpoint::find(after.clone(), ids(1));
                let number = number.expect("sound").expect("there").number();
                after.stop_after(seed);
                let removed = remove_leftovers(&after, Some(number));
                let rooms = bare_rooms();
                load(&after.crash(seed), &rooms).unwrap_or_else(|e| panic!("{name}, tidied: {e}"));
                let tidied = images(&rooms);
                // A death of the process alone may have left a name that power then took.
                let may_be = tidied == found || (removed.is_err() && tidied == old);
                assert!(may_be, "{name}, tidied ({removed:?}): {tidied:?}");
            }
            if taken.is_ok() && !disk.is_stopped() {
                break;
            }
        }
    }
    assert!(old_ones > 100 && new_ones > 20, "{old_ones} and {new_ones}");
}

#[test]
fn the_first_round_dies_at_any_step() {
    for steps in 0..200 {
        let (rooms, disk) = (bare_rooms(), SimDisk::new(steps));
        (0..6).for_each(|number| own(&rooms, slot(number), 1));
        step(&rooms, 4);
        disk.stop_after(steps);
        let taken = take_by(SMALL, &rooms, &disk, about(0), &Edge::still());
        for seed in 0..8 {
            let (after, found) = (disk.crash(seed), bare_rooms());
            let loaded = load(&after, &found).expect("none, or a sound one");
            assert!(loaded.is_some() || taken.is_err(), "step {steps}: it was taken");
            let number = loaded.is_some().then_some(1);
            remove_leftovers(&after, number).expect("removed");
            assert_eq!(after.names().is_empty(), number.is_none(), "step {steps}");
        }
    }
}
