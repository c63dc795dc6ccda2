//! A model of the fleet of the story, for comparison: shards that take every write, chosen by
//! the writers as hash modulo the number of shards. No part of slotd works so. Pure.
//!
//! Invariant: it is given what the real boxes wrote, by the map that they had; nothing else.

use std::collections::HashMap;

use slots::crc16;

use super::ingest::{By, Reading};
use super::plan::{NODES_AFTER, NODES_BEFORE};

/// Four maps of key and value behind no check at all.
#[derive(Default)]
pub(super) struct UncheckedFleet {
    shards: [HashMap<String, String>; NODES_AFTER],
}

impl UncheckedFleet {
    /// What becomes of these readings: those before the growth are moved to their new shards by
    /// it, as the operators of such fleets do; those after it stay where they were put.
    pub(super) fn replay<'a>(journal: impl Iterator<Item = &'a (Reading, By)>) -> UncheckedFleet {
        let mut fleet = UncheckedFleet::default();
        let (before, after): (Vec<_>, Vec<_>) = journal.partition(|(_, by)| *by == By::Before);
        for &(reading, _) in before {
            fleet.write(reading, NODES_BEFORE);
        }
        fleet.grow();
        for &(reading, by) in after {
            let shards = if by == By::Stale { NODES_BEFORE } else { NODES_AFTER };
            fleet.write(reading, shards);
        }
        fleet
    }

    /// How many readings it holds.
    pub(super) fn held(&self) -> usize {
        self.shards.iter().map(HashMap::len).sum()
    }

    /// How many of them lie where nobody with the right map looks for them.
    pub(super) fn misplaced(&self) -> usize {
        let strays =
            self.shards.iter().enumerate().map(|(at, shard)| {
                shard.keys().filter(|key| shard_of(key, NODES_AFTER) != at).count()
            });
        strays.sum()
    }

    /// A write by a box that believes in so many shards. It succeeds.
    fn write(&mut self, reading: Reading, believed: usize) {
        let key = reading.key();
        self.shards[shard_of(&key, believed)].insert(key, reading.value());
    }

    /// Moves every reading to its shard among four.
    fn grow(&mut self) {
        let all: Vec<_> = self.shards.iter_mut().flat_map(|shard| shard.drain()).collect();
        for (key, value) in all {
            self.shards[shard_of(&key, NODES_AFTER)].insert(key, value);
        }
    }
}

fn shard_of(key: &str, shards: usize) -> usize {
    usize::from(crc16(key.as_bytes())) % shards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misplaced(by: By) -> usize {
        let journal: Vec<_> = (0..4000).map(|number| (Reading { by: 3, number }, by)).collect();
        let fleet = UncheckedFleet::replay(journal.iter());
        assert_eq!(fleet.held(), 4000, "every write succeeds");
        fleet.misplaced()
    }

    #[test]
    fn three_of_four_writes_by_the_old_map_are_misplaced_and_no_other() {
        assert_eq!(misplaced(By::Before), 0);
        assert_eq!(misplaced(By::After), 0);
        let stale = misplaced(By::Stale);
        assert!((2800..3200).contains(&stale), "{stale} of 4000 are not three quarters");
    }
}
