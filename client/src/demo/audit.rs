//! The check at the end: is each acknowledged reading at its owner, and nowhere else?
//!
//! Asks every node itself, for every reading and for its number of keys. Invariant: nothing is
//! taken from what a writer or a node says of itself but the value of a key and DBSIZE.

use std::io;

use slots::Endpoint;

use super::ingest::Reading;
use super::wire::{Connection, Reply, text};
use crate::router::SlotMap;

/// Faults of a kind that are told; after them it is clear enough.
const MAX_FAULTS: u64 = 2;

/// What was found.
#[derive(Default, Debug)]
pub(super) struct Found {
    /// Readings at their owner, with their value.
    pub(super) in_place: u64,
    /// Acknowledged readings that their owner does not have, or not with their value.
    pub(super) missing: u64,
    /// Keys on a node that does not own their slot.
    pub(super) misplaced: u64,
    /// Questions for a slot of another node that a node answered with anything but `MOVED`.
    pub(super) unrefused: u64,
    /// The first of those, as sentences.
    pub(super) faults: Vec<String>,
}

impl Found {
    /// Tells of a fault, the `nth` of its kind.
    fn fault(&mut self, nth: u64, text: String) {
        if nth <= MAX_FAULTS {
            self.faults.push(text);
        }
    }
}

/// Looks for each of the acknowledged readings on each node. `map` is who owns what.
pub(super) fn audit(
    nodes: &[Endpoint],
    map: &SlotMap,
    acknowledged: &[Reading],
) -> io::Result<Found> {
    let mut found = Found::default();
    for node in nodes {
        let mut connection = Connection::open(node)?;
        connection.ask_text(&["CLIENT", "SETNAME", "demo-audit"])?;
        let mut count = Count { node, map, expected: 0, strays: 0, found: &mut found };
        let words = |reading: Reading| vec!["GET".to_owned(), reading.key()];
        connection.ask_each(acknowledged, words, |reading, reply| count.take(reading, &reply))?;
        let keys = connection.ask(&["DBSIZE"])?;
        count.close(&keys)?;
    }
    Ok(found)
}

/// One node's part.
struct Count<'a> {
    node: &'a Endpoint,
    map: &'a SlotMap,
    /// Readings it should have.
    expected: u64,
    /// Readings it gave that are another's.
    strays: u64,
    found: &'a mut Found,
}

impl Count<'_> {
    fn take(&mut self, reading: Reading, reply: &Reply) {
        let is_owner = self.map.owner(reading.slot()).is_some_and(|owner| **owner == *self.node);
        let (node, key) = (self.node, reading.key());
        match (is_owner, text(reply)) {
            (true, value) => {
                self.expected += 1;
                match value == Some(reading.value().as_str()) {
                    true => self.found.in_place += 1,
                    false => {
                        self.found.missing += 1;
                        let value = value.unwrap_or("nothing");
                        let nth = self.found.missing;
                        self.found.fault(nth, format!("{key}: its owner {node} has {value}"));
                    }
                }
            }
            (false, Some(_)) => {
                self.strays += 1;
                let text = format!("{key}: it lies on {node}, which does not own its slot");
                self.found.fault(self.found.misplaced + self.strays, text);
            }
            (false, None) => {
                let is_moved = matches!(reply, Reply::Error(error) if error.starts_with("MOVED "));
                if !is_moved {
                    self.found.unrefused += 1;
                    let got = format!("{node} answered {reply:?}");
                    let nth = self.found.unrefused;
                    self.found.fault(nth, format!("{key}: expected MOVED, {got}"));
                }
            }
        }
    }

    /// Keys that GET is refused for are seen here.
    fn close(self, keys: &Reply) -> io::Result<()> {
        let Reply::Integer(keys) = keys else {
            return Err(io::Error::other(format!("{}: DBSIZE: not a number", self.node)));
        };
        let surplus = u64::try_from(*keys).unwrap_or(0).saturating_sub(self.expected);
        if surplus > self.strays {
            let Count { node, expected, .. } = self;
            self.found.fault(1, format!("{node} holds {keys} keys, expected {expected}"));
        }
        self.found.misplaced += self.strays.max(surplus);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::ingest::{By, IngestBox};
    use crate::demo::plan::Plan;

    /// What one node of four is found to have, if it answers each GET so and holds so many keys.
    fn check(answer: impl Fn(bool, Reading) -> Reply, surplus: i64) -> [u64; 3] {
        let nodes: Vec<Endpoint> = (0..4).map(|at| Endpoint::new("h", 7001 + at)).collect();
        let plan = Plan::new();
        let map = plan.map_after(&nodes);
        let readings = IngestBox::new(0, map.clone()).take_in(100, By::After, &plan);
        let mut found = Found::default();
        let mut count =
            Count { node: &nodes[3], map: &map, expected: 0, strays: 0, found: &mut found };
        for reading in readings {
            let is_owner = plan.goes_over(reading.slot());
            count.take(reading, &answer(is_owner, reading));
        }
        let keys = count.expected as i64 + surplus;
        assert!((10..40).contains(&count.expected));
        count.close(&Reply::Integer(keys)).expect("a number");
        [found.missing, found.misplaced, found.faults.len() as u64]
    }

    fn moved() -> Reply {
        Reply::Error("MOVED 1 h:1".into())
    }

    fn value(reading: Reading) -> Reply {
        Reply::BulkString(reading.value().into())
    }

    #[test]
    fn a_node_that_has_its_own_and_nothing_else_is_fine() {
        assert_eq!(check(|own, r| if own { value(r) } else { moved() }, 0), [0, 0, 0]);
    }

    #[test]
    fn a_lost_or_changed_reading_is_missing() {
        let [missing, misplaced, faults] =
            check(|own, _| if own { Reply::Null } else { moved() }, 0);
        assert!(missing > 0 && misplaced == 0 && faults == MAX_FAULTS);
        let other = |own, _| if own { Reply::BulkString(b"x".to_vec()) } else { moved() };
        assert_eq!(check(other, 0)[0], missing);
    }

    #[test]
    fn a_reading_at_the_wrong_node_is_misplaced_and_counted_once() {
        let [missing, misplaced, _] = check(|_, r| value(r), 0);
        assert!(missing == 0 && misplaced > 50, "{misplaced}");
        assert_eq!(check(|_, r| value(r), misplaced as i64)[1], misplaced);
    }

    #[test]
    fn a_node_that_serves_what_it_does_not_own_is_found_out() {
        let mut faults = 0;
        for other in [Reply::Null, Reply::Error("ERR no".into())] {
            faults += check(|own, r| if own { value(r) } else { other.clone() }, 0)[2];
        }
        assert_eq!(faults, 2 * MAX_FAULTS);
    }

    #[test]
    fn a_key_that_is_refused_but_held_is_misplaced() {
        assert_eq!(check(|own, r| if own { value(r) } else { moved() }, 3), [0, 3, 1]);
    }
}
