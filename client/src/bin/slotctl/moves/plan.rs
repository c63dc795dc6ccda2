//! What will go over, before it is ordered: the slots, from whom, their keys and bytes; and what
//! forbids it.
//!
//! Not the order, nor the asking. The cluster judges again: a plan is made from a view that may be
//! old. Invariant: a plan names every slot that will be ordered, and every source that did not say
//! what it has.

use serde::Serialize;
use slots::admin::{BackupSlots, NodeStatus, Status};
use slots::{SlotId, SlotRanges, Taker, spread};

use super::end::SlotText;
use super::list::Move;
use super::{both, owned_by, ranges, union};
use crate::exit::Failure;
use crate::names::{self, Target};

/// What is to do of an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ToMove {
    /// All slots are the target's already.
    Nothing,
    /// These are not.
    Left(SlotRanges),
}

/// `move`. Refuses a target that takes nothing new, and slots that nobody owns.
pub(crate) fn to_move(
    status: &Status,
    slots: &SlotRanges,
    target: &Target,
) -> Result<ToMove, Failure> {
    let (id, name) = (target.id.to_string(), &target.name);
    let left = slots.without(&owned_by(status, &id));
    if left.is_empty() {
        return Ok(ToMove::Nothing);
    }
    if state(status, &id) == Some("draining") {
        return Err(Failure::refused(format!(
            "{name} is draining and takes no slots: `slotctl node undrain {name}` first; nothing \
             was changed"
        )));
    }
    let owned: Vec<SlotRanges> = status.nodes.iter().map(|node| ranges(&node.slots)).collect();
    let free = left.without(&union(&owned));
    if !free.is_empty() {
        return Err(Failure::refused(format!(
            "nobody owns slots {free}: `slotctl assign {free} {name}` gives them an owner; nothing \
             was changed"
        )));
    }
    Ok(ToMove::Left(left))
}

fn state<'a>(status: &'a Status, id: &str) -> Option<&'a str> {
    status.nodes.iter().find(|node| node.id == id).map(|node| node.state.as_str())
}

/// What goes to one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Leg {
    /// The node's id.
    pub(crate) to: String,
    /// What people call it.
    pub(crate) to_name: String,
    /// The slots.
    pub(crate) slots: SlotText,
    /// How many.
    pub(crate) slot_count: usize,
    /// Their keys; `None`: a source did not tell.
    pub(crate) keys: Option<u64>,
    /// Bytes of keys and values; `None`: a source did not tell.
    pub(crate) bytes: Option<u64>,
    /// Seconds it takes at the rates of what the sources moved last; `None`: one has no rate yet.
    pub(crate) eta_s: Option<u64>,
    /// By source.
    pub(crate) sources: Vec<Load>,
}

/// What goes over from one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Load {
    /// Its id.
    pub(crate) node: String,
    /// What people call it.
    pub(crate) name: String,
    /// The slots.
    pub(crate) slots: SlotText,
    /// How many.
    pub(crate) slot_count: usize,
    /// Their keys; `None`: it did not tell.
    pub(crate) keys: Option<u64>,
    /// Bytes of keys and values; `None`: it did not tell.
    pub(crate) bytes: Option<u64>,
    /// Bytes a second of what it moved last; `None`: nothing lately.
    pub(crate) rate: Option<u64>,
    /// Why it did not tell.
    pub(crate) error: Option<String>,
}

/// Moves that have some of these slots on their way to the target, cut to them; and the slots that
/// are under none.
pub(crate) fn under_way(
    moves: &[Move],
    slots: &SlotRanges,
    target: &Target,
) -> (Vec<Move>, SlotRanges) {
    let to = target.id.to_string();
    let cut = |known: &Move| {
        let left = both(&ranges(&known.left), slots);
        (known.to == to && !left.is_empty())
            .then(|| Move { left: left.to_string(), ..known.clone() })
    };
    let going: Vec<Move> = moves.iter().filter_map(cut).collect();
    let theirs: Vec<SlotRanges> = going.iter().map(|known| ranges(&known.left)).collect();
    (going, slots.without(&union(&theirs)))
}

/// The owners of these slots, as rows of a table to ask by.
pub(crate) fn owners(status: &Status, slots: &SlotRanges) -> Vec<NodeStatus> {
    let owns = |node: &&NodeStatus| !both(&ranges(&node.slots), slots).is_empty();
    status.nodes.iter().filter(owns).cloned().collect()
}

/// What goes to a node; `heard` is what the owners have, `moves` what they told of other moves.
pub(crate) fn leg(
    status: &Status,
    slots: &SlotRanges,
    target: &Target,
    heard: &[(String, Result<BackupSlots, String>)],
    moves: &[Move],
) -> Leg {
    let load = |node: &NodeStatus| {
        let theirs = both(&ranges(&node.slots), slots);
        let told = heard.iter().find(|(id, _)| *id == node.id).map(|(_, told)| told);
        let sums = told.and_then(|told| told.as_ref().ok()).map(|told| sums(told, &theirs));
        Load {
            node: node.id.clone(),
            name: names::shown(node).to_owned(),
            slot_count: theirs.count(),
            slots: SlotText(theirs),
            keys: sums.map(|(keys, _)| keys),
            bytes: sums.map(|(_, bytes)| bytes),
            rate: last_rate(moves, &node.id),
            error: told.and_then(|told| told.as_ref().err().cloned()),
        }
    };
    let sources: Vec<Load> = owners(status, slots).iter().map(load).collect();
    Leg {
        to: target.id.to_string(),
        to_name: target.name.clone(),
        slots: SlotText(slots.clone()),
        slot_count: slots.count(),
        keys: sources.iter().map(|load| load.keys).sum(),
        bytes: sources.iter().map(|load| load.bytes).sum(),
        eta_s: eta(&sources),
        sources,
    }
}

/// Seconds until the slowest source is done, rounded up.
fn eta(sources: &[Load]) -> Option<u64> {
    let each = sources.iter().map(|load| match load.bytes? {
        0 => Some(0),
        bytes => bytes.checked_div(load.rate?)?.checked_add(1),
    });
    each.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// Bytes a second of what a node moves, or moved last.
fn last_rate(moves: &[Move], node: &str) -> Option<u64> {
    let here = moves.iter().flat_map(|known| &known.here).filter(|here| here.node == node);
    let last = here.map(|here| &here.at).max_by_key(|at| (at.ended.is_none(), at.ended_ms))?;
    let whole_ms = last.ended_ms.saturating_sub(last.begun_ms);
    let rate = match last.ended {
        None => last.rate,
        Some(_) => last.bytes_sent.saturating_mul(1_000).checked_div(whole_ms).unwrap_or(0),
    };
    Some(rate).filter(|rate| *rate > 0)
}

fn sums(told: &BackupSlots, slots: &SlotRanges) -> (u64, u64) {
    let wanted = |slot: u16| SlotId::new(slot).is_some_and(|slot| slots.contains(slot));
    let held = told.held.iter().filter(|held| wanted(held.slot));
    held.fold((0, 0), |(keys, bytes), held| (keys + held.keys, bytes + held.bytes))
}

/// What a drain comes to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Drain {
    /// Slots that are under a move already, and go on.
    pub(crate) under_way: Vec<Move>,
    /// Moves that bring it more.
    pub(crate) coming: Vec<Move>,
    /// Slots to order, and where they go.
    pub(crate) legs: Vec<(Target, SlotRanges)>,
    /// Active nodes that get nothing because they do not answer the others.
    pub(crate) passed_over: Vec<String>,
}

/// `drain`. Slots under a move are left to it; the others are spread by weight. Refuses if there
/// is nobody to take them.
pub(crate) fn drain(status: &Status, moves: &[Move], leaving: &Target) -> Result<Drain, Failure> {
    let (id, name) = (leaving.id.to_string(), &leaving.name);
    let owned = owned_by(status, &id);
    let mut found = Drain::default();
    let (mut going, mut coming) = (Vec::new(), vec![0; status.nodes.len()]);
    for known in moves {
        let left = ranges(&known.left);
        if let Some(at) = status.nodes.iter().position(|node| node.id == known.to) {
            coming[at] += left.count();
        }
        if known.to == id && !left.is_empty() {
            found.coming.push(known.clone());
        }
        let theirs = both(&left, &owned);
        if !theirs.is_empty() {
            found.under_way.push(Move { left: theirs.to_string(), ..known.clone() });
            going.push(theirs);
        }
    }
    let rest = owned.without(&union(&going));
    if rest.is_empty() {
        return Ok(found);
    }
    let mut takers = Vec::new();
    for (node, coming) in status.nodes.iter().zip(coming) {
        let may = node.state == "active" && node.id != id && node.weight > 0;
        match names::target(node).filter(|_| may) {
            Some(target) if is_silent(node) => found.passed_over.push(target.name),
            Some(target) => {
                let has = ranges(&node.slots).count() + coming;
                takers.push((target, Taker { weight: node.weight, has }));
            }
            None => {}
        }
    }
    if takers.is_empty() {
        return Err(Failure::refused(format!(
            "no other node may take the slots of {name}: it takes one that is active, answers the \
             others and has a weight (`slotctl nodes`); nothing was changed"
        )));
    }
    let shares: Vec<Taker> = takers.iter().map(|(_, taker)| *taker).collect();
    let parts = takers.into_iter().map(|(target, _)| target).zip(spread(&rest, &shares));
    found.legs = parts.filter(|(_, part)| !part.is_empty()).collect();
    Ok(found)
}

/// Do the others not hear it?
pub(crate) fn is_silent(node: &NodeStatus) -> bool {
    matches!(node.health.as_str(), "suspect" | "unreachable")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moves::list::Here;
    use crate::survey::samples::{id, status};
    use slots::admin::{HeldSlot, MoveHere};

    fn target(n: usize) -> Target {
        let name = format!("node-{}", ["a", "b", "c"][n]);
        Target { id: id(n).parse().expect("an id"), name }
    }

    fn refused(status: &Status, slots: &str) -> String {
        to_move(status, &ranges(slots), &target(2)).expect_err("it is refused").text
    }

    #[test]
    fn what_the_target_has_is_left_out_and_what_nobody_has_refused() {
        let mut status = status(0);
        let moved = |slots: &str| to_move(&status, &ranges(slots), &target(2));
        assert_eq!(moved("10923-10930"), Ok(ToMove::Nothing));
        assert_eq!(moved("10000-10930"), Ok(ToMove::Left(ranges("10000-10922"))));
        status.nodes[1].slots = "5471-10922".into();
        let text = refused(&status, "5460-5480");
        assert!(text.starts_with("nobody owns slots 5461-5470: `slotctl assign 5461-5470 node-c`"));
        status.nodes[2].state = "draining".into();
        let text = refused(&status, "0");
        assert!(text.starts_with("node-c is draining and takes no slots: `slotctl node undrain"));
        let same = to_move(&status, &ranges("10923"), &target(2));
        assert_eq!(same, Ok(ToMove::Nothing));
    }

    #[test]
    fn a_plan_counts_keys_by_source_and_says_who_did_not_tell() {
        let held = [(5459, 2, 20), (5460, 3, 30), (9, 100, 1000)];
        let held = held.map(|(slot, keys, bytes)| HeldSlot { slot, keys, bytes }).to_vec();
        let told = BackupSlots { held, ..BackupSlots::default() };
        let heard = [(id(0), Ok(told)), (id(1), Err("connection refused".to_owned()))];
        let leg = |slots| super::leg(&status(0), &ranges(slots), &target(2), &heard, &[]);
        let whole = leg("5459-5462");
        assert_eq!((whole.slot_count, whole.keys, whole.bytes), (4, None, None));
        let a = &whole.sources[0];
        assert_eq!(
            (a.slots.0.to_string().as_str(), a.keys, a.bytes),
            ("5459-5460", Some(5), Some(50))
        );
        assert_eq!(whole.sources[1].error.as_deref(), Some("connection refused"));
        assert_eq!(leg("5460").keys, Some(3));
    }

    #[test]
    fn the_time_it_takes_is_told_once_a_rate_is_known() {
        let held = vec![HeldSlot { slot: 9, keys: 1, bytes: 1_000 }];
        let heard = [(id(0), Ok(BackupSlots { held, ..BackupSlots::default() }))];
        let eta = |parts: &[MoveHere]| {
            let here =
                parts.iter().map(|at| Here { node: id(0), name: String::new(), at: at.clone() });
            let moves = [Move { here: here.collect(), ..Move::default() }];
            super::leg(&status(0), &ranges("9"), &target(2), &heard, &moves).eta_s
        };
        let running = MoveHere { rate: 100, ..MoveHere::default() };
        let ended = |bytes_sent, ended_ms| MoveHere {
            ended: Some("moved".into()),
            bytes_sent,
            begun_ms: 1_000,
            ended_ms,
            ..MoveHere::default()
        };
        assert_eq!(eta(&[]), None);
        assert_eq!(eta(&[MoveHere::default()]), None);
        assert_eq!(eta(&[running.clone(), ended(9_999, 2_000)]), Some(11));
        assert_eq!(eta(&[ended(9_999, 2_000), ended(500, 3_000)]), Some(5));
        assert_eq!(eta(&[ended(500, 1_000)]), None);
    }

    fn drained(status: &Status, moves: &[Move]) -> String {
        let found = drain(status, moves, &target(2)).expect("it goes");
        let legs = found.legs.iter().map(|(to, slots)| format!("{} {slots}", to.name));
        let going = found.under_way.iter().map(|known| format!("{} {}", known.id, known.left));
        legs.chain(going).chain(found.passed_over).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_node_is_drained_by_the_others_weights() {
        let mut status = status(0);
        assert_eq!(drained(&status, &[]), "node-a 10923-13653; node-b 13654-16383");
        status.nodes[0].weight = 0;
        assert_eq!(drained(&status, &[]), "node-b 10923-16383");
        status.nodes[0].weight = 100;
        status.nodes[1].health = "unreachable".into();
        assert_eq!(drained(&status, &[]), "node-a 10923-16383; node-b");
        status.nodes[0].state = "draining".into();
        let text = drain(&status, &[], &target(2)).expect_err("nobody").text;
        assert!(text.starts_with("no other node may take the slots of node-c"), "{text}");
        status.nodes[2].slots = String::new();
        assert_eq!(drained(&status, &[]), "");
    }

    #[test]
    fn a_drain_given_again_goes_on_with_its_moves() {
        let going = |to: usize, left: &str| Move {
            id: format!("m{to}"),
            to: id(to),
            left: left.into(),
            ..Move::default()
        };
        let moves = [going(0, "10923-13653"), going(1, "13654-16383")];
        assert_eq!(drained(&status(0), &moves), "m0 10923-13653; m1 13654-16383");
        // What comes counts as what is there.
        let moves = [going(0, "10923-13653")];
        assert_eq!(drained(&status(0), &moves), "node-b 13654-16383; m0 10923-13653");
    }
}
