//! Which slots a new cluster's nodes begin with, and who takes the slots of a node that drains.
//!
//! Not planning: nothing here knows labels, keys or followers.
//!
//! Invariant: the parts are disjoint and cover the slots that were to be given.

use crate::ranges::{SlotRange, SlotRanges};
use crate::slot::{SLOTS, SlotId};

/// The even split of all slots over `nodes` nodes, in order, rounded as redis-cli's
/// `--cluster create` rounds. Empty for no nodes; past 16,384 nodes some parts are empty.
pub fn even_split(nodes: usize) -> Vec<SlotRanges> {
    (0..nodes).map(|i| part(boundary(i, nodes), boundary(i + 1, nodes))).collect()
}

/// First slot of part `i`: `i * SLOTS / nodes`, rounded to the nearest.
fn boundary(i: usize, nodes: usize) -> usize {
    let (i, nodes) = (i as u128, nodes as u128);
    let rounded = (2 * i * SLOTS as u128 + nodes) / (2 * nodes);
    // At most SLOTS, because i <= nodes.
    rounded as usize
}

fn part(from: usize, to: usize) -> SlotRanges {
    let slot = |number: usize| u16::try_from(number).ok().and_then(SlotId::new);
    let last = to.checked_sub(1).and_then(slot);
    let range = slot(from).zip(last).and_then(|(first, last)| SlotRange::new(first, last));
    range.map_or_else(SlotRanges::new, SlotRanges::from)
}

/// A node that may take slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taker {
    /// Its share, relative to the others'; 0: it takes none.
    pub weight: u32,
    /// Slots it has already.
    pub has: usize,
}

/// Who takes which of `slots`: each slot in turn is due to who has least for its weight (the first
/// of equals), and each taker's part lies together. Empty parts if nobody may take any.
pub fn spread(slots: &SlotRanges, takers: &[Taker]) -> Vec<SlotRanges> {
    let mut given = vec![0_usize; takers.len()];
    for _ in 0..slots.count() {
        let able = (0..takers.len()).filter(|at| takers[*at].weight > 0);
        let after = |at: usize| (takers[at].has + given[at] + 1) as u128;
        let least = able.min_by(|a, b| {
            // a has less for its weight: after(a) / weight(a) < after(b) / weight(b).
            let (left, right) = (u128::from(takers[*b].weight), u128::from(takers[*a].weight));
            (after(*a) * left).cmp(&(after(*b) * right))
        });
        let Some(least) = least else { break };
        given[least] += 1;
    }
    let mut rest = slots.iter();
    given.into_iter().map(|count| rest.by_ref().take(count).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_spread(slots: &str, takers: &[(u32, usize)], parts: &[&str]) {
        let slots =
            if slots.is_empty() { SlotRanges::new() } else { slots.parse().expect("slots") };
        let takers: Vec<Taker> =
            takers.iter().map(|(weight, has)| Taker { weight: *weight, has: *has }).collect();
        let spread: Vec<String> =
            super::spread(&slots, &takers).iter().map(SlotRanges::to_string).collect();
        assert_eq!(spread, parts);
    }

    #[test]
    fn who_has_least_for_its_weight_takes_most() {
        check_spread("0-9", &[(100, 0), (100, 0)], &["0-4", "5-9"]);
        check_spread("0-9", &[(100, 6), (100, 0)], &["0-1", "2-9"]);
        check_spread("0-9", &[(100, 100), (100, 0)], &["", "0-9"]);
        check_spread("0-8", &[(200, 0), (100, 0)], &["0-5", "6-8"]);
        check_spread("3,7,9", &[(1, 0), (1, 0), (1, 0)], &["3", "7", "9"]);
        check_spread("0-2", &[(0, 0), (5, 900), (0, 0)], &["", "0-2", ""]);
        check_spread("10923-16383", &[(100, 5461), (100, 5462)], &["10923-13653", "13654-16383"]);
    }

    #[test]
    fn nobody_or_nothing_leaves_empty_parts() {
        check_spread("0-9", &[], &[]);
        check_spread("0-9", &[(0, 0)], &[""]);
        check_spread("", &[(1, 0)], &[""]);
    }

    fn check(nodes: usize, parts: &[&str]) {
        let split: Vec<String> = even_split(nodes).iter().map(SlotRanges::to_string).collect();
        assert_eq!(split, parts);
    }

    #[test]
    fn usual_clusters() {
        check(0, &[]);
        check(1, &["0-16383"]);
        check(2, &["0-8191", "8192-16383"]);
        check(3, &["0-5460", "5461-10922", "10923-16383"]);
        check(6, &["0-2730", "2731-5460", "5461-8191", "8192-10922", "10923-13652", "13653-16383"]);
    }

    /// redis-cli's loop, with its floating point.
    fn redis_cli_split(nodes: usize) -> Vec<String> {
        let per_node = SLOTS as f64 / nodes as f64;
        let (mut first, mut cursor, mut parts) = (0i64, 0.0f64, Vec::new());
        for i in 0..nodes {
            let mut last = (cursor + per_node - 1.0).round() as i64;
            if last > SLOTS as i64 - 1 || i == nodes - 1 {
                last = SLOTS as i64 - 1;
            }
            last = last.max(first);
            parts.push(if first == last { format!("{first}") } else { format!("{first}-{last}") });
            first = last + 1;
            cursor += per_node;
        }
        parts
    }

    #[test]
    fn rounds_as_redis_cli() {
        for nodes in (1..300).chain([1000, 1001, 4096, 9999, 16_384]) {
            let ours: Vec<String> = even_split(nodes).iter().map(SlotRanges::to_string).collect();
            assert_eq!(ours, redis_cli_split(nodes), "{nodes} nodes");
        }
    }

    #[test]
    fn more_nodes_than_slots_leaves_some_empty() {
        let split = even_split(20_000);
        let whole: SlotRanges = split.iter().flat_map(|part| part.ranges().to_vec()).collect();
        assert_eq!(split.len(), 20_000);
        assert_eq!(whole, SlotRanges::all());
        assert_eq!(split.iter().map(SlotRanges::count).sum::<usize>(), SLOTS);
    }
}
