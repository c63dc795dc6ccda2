//! Steps of voters: situations one by one, and properties over random councils.

use proptest::prelude::*;

use super::*;

fn id(n: u8) -> NodeId {
    NodeId::from_bytes([n; 20])
}

/// Nodes as text: upper case: silent; `-`: behind; `@z`: in zone z; `!`: draining; `#`: not in
/// the table; `*` votes, `+` is a learner, without either the log does not reach it.
fn council(text: &str) -> Council {
    let mut council = Council { leader: Some(id(b'a')), settled: true, ..Council::default() };
    for word in text.split(' ') {
        let letter = word.as_bytes()[0];
        let node = id(letter.to_ascii_lowercase());
        if word.contains('*') {
            council.voters.insert(node);
        }
        if word.contains('+') {
            council.learners.insert(node);
        }
        let reach = match letter.is_ascii_uppercase() {
            true => Reach::Silent,
            false if word.contains('-') => Reach::Behind,
            false => Reach::CaughtUp,
        };
        let zone = word.split_once('@').map(|(_, zone)| zone.to_owned());
        if !word.contains('#') {
            let active = !word.contains('!');
            council.nodes.insert(node, Candidate { zone, active, reach });
        }
    }
    council
}

fn check(text: &str, expected: Option<Step>) {
    assert_eq!(council(text).next_step(), expected, "{text}");
}

fn check_ordered(text: &str, order: VoteOrder, expected: Option<Step>) {
    let mut council = council(text);
    council.orders.push(order);
    assert_eq!(council.next_step(), expected, "{text} {order:?}");
}

#[test]
fn sizes_follow_the_number_of_nodes() {
    let wanted: Vec<usize> = (0..8).map(wanted_voters).collect();
    assert_eq!(wanted, [1, 1, 1, 3, 3, 5, 5, 5]);
}

#[test]
fn a_node_of_the_table_is_reached_first() {
    check("a* b", Some(Step::AddLearner(id(b'b'))));
    check("a* b+", None);
    check("a* b#+", Some(Step::RemoveLearner(id(b'b'))));
}

#[test]
fn two_voters_come_together() {
    check("a* b+ c+-", None);
    check("a* b+ C+", None);
    check("a* b+ c+", Some(Step::Promote(id(b'b'))));
    check("a* b* c+", Some(Step::Promote(id(b'c'))));
    check("a* b* c* d+ e+", Some(Step::Promote(id(b'd'))));
    check("a* b* c* d+ E+", None);
    check("a* b* c* d* e* f+", None);
}

#[test]
fn a_silent_voter_stays() {
    check("a* b* C* d+", None);
    check("a* b* C* D* e* f+ g+", None);
}

#[test]
fn surplus_voters_go_while_all_answer() {
    check("a* b*", Some(Step::Demote(id(b'b'))));
    check("a* B*", None);
    check("a* b* c* d*", Some(Step::Demote(id(b'd'))));
    check("a*@x b*@x c*@y d*@z", Some(Step::Demote(id(b'b'))));
}

#[test]
fn a_draining_voter_goes_when_another_took_its_place() {
    check("a* b* c*!", None);
    check("a* b* c*! d+", Some(Step::Promote(id(b'd'))));
    check("a* b* c*! d*", Some(Step::Demote(id(b'c'))));
    check("a* b* c* d+!", None);
    check("a* b*! c*! d*! e*", None);
    check("a* b*! c*! d*! e* f*", Some(Step::Demote(id(b'b'))));
}

#[test]
fn voters_spread_over_zones() {
    check("a* b+@x c+@x d+@y", Some(Step::Promote(id(b'b'))));
    check("a*@x b+@x c+@y d+@y", Some(Step::Promote(id(b'c'))));
    check("a*@x b*@x c*@x d+@y", Some(Step::Promote(id(b'd'))));
    check("a*@x b*@x c*@x d*@y", Some(Step::Demote(id(b'c'))));
    check("a*@x b*@x c*@y d+@y", None);
    check("a*@x b*@x C*@x d+@y", None);
}

#[test]
fn a_half_done_change_is_ended_first() {
    let mut half = council("a* b* c");
    half.joint = true;
    assert_eq!(half.next_step(), Some(Step::LeaveJoint));
}

#[test]
fn a_new_leader_waits_but_for_orders() {
    let mut new = council("a* b+ c+");
    new.settled = false;
    assert_eq!(new.next_step(), None);
    let mut new = council("a* b* c* d+");
    new.settled = false;
    new.orders.push(VoteOrder::Leave(id(b'c')));
    assert_eq!(new.next_step(), Some(Step::Promote(id(b'd'))));
}

#[test]
fn who_leaves_is_replaced_or_the_cluster_shrinks() {
    let leave = |n| VoteOrder::Leave(id(n));
    check_ordered("a* b* c* d+", leave(b'c'), Some(Step::Promote(id(b'd'))));
    check_ordered("a* b* c* d+-", leave(b'c'), None);
    check_ordered("a* b* c* D+", leave(b'c'), Some(Step::Demote(id(b'c'))));
    check_ordered("a* b* c* d*", leave(b'c'), Some(Step::Demote(id(b'c'))));
    check_ordered("a* b* c*", leave(b'c'), Some(Step::Demote(id(b'c'))));
    check_ordered("a* b* C*", leave(b'c'), Some(Step::Demote(id(b'c'))));
    check_ordered("a* b* c*", leave(b'a'), Some(Step::Demote(id(b'a'))));
    check_ordered("a* b+", leave(b'a'), Some(Step::Promote(id(b'b'))));
    check_ordered("a* b*", leave(b'a'), Some(Step::Demote(id(b'a'))));
    // The others could not go on without it.
    check_ordered("a* B* c*", leave(b'c'), None);
    check_ordered("a* b* c#*", leave(b'x'), Some(Step::Demote(id(b'c'))));
}

#[test]
fn a_replacement_votes_before_the_old_one_goes() {
    let replace = |new: Option<u8>| VoteOrder::Replace { old: id(b'b'), new: new.map(id) };
    check_ordered("a* b* c* d+ e+", replace(Some(b'e')), Some(Step::Promote(id(b'e'))));
    check_ordered("a* b* c* d+ e+-", replace(Some(b'e')), None);
    check_ordered("a* b* c* d*", replace(Some(b'd')), Some(Step::Demote(id(b'b'))));
    check_ordered("a* b* c* d+", replace(None), Some(Step::Promote(id(b'd'))));
    check_ordered("a* b* c* d*", replace(None), Some(Step::Demote(id(b'b'))));
    check_ordered("a* b* c* D+", replace(None), None);
}

/// What a committed step does.
fn apply(council: &mut Council, step: Step) {
    match step {
        Step::LeaveJoint => council.joint = false,
        Step::AddLearner(node) => assert!(council.learners.insert(node)),
        Step::Promote(node) => {
            assert!(council.learners.remove(&node) && council.voters.insert(node));
        }
        Step::Demote(node) => {
            assert!(council.voters.remove(&node) && council.learners.insert(node));
        }
        Step::RemoveLearner(node) => assert!(council.learners.remove(&node)),
    }
    if council.leader.is_some_and(|leader| !council.voters.contains(&leader)) {
        let answering =
            |node: &NodeId| council.nodes.get(node).is_some_and(|node| node.reach != Reach::Silent);
        council.leader = council.voters.iter().copied().find(answering);
    }
}

fn any_council() -> impl Strategy<Value = Council> {
    let node = (0..3u8, any::<bool>(), 0..3u8, 0..4u8, 0..8u8);
    let orders = (0..3u8, 0..9u8, 0..9u8);
    (proptest::collection::vec(node, 1..9), orders, any::<bool>()).prop_map(
        |(nodes, (kind, old, new), settled)| {
            let mut council = Council { settled, ..Council::default() };
            for (n, (reach, active, zone, role, removed)) in (1u8..).zip(nodes) {
                match role {
                    0 => {}
                    1 => drop(council.learners.insert(id(n))),
                    _ => drop(council.voters.insert(id(n))),
                }
                let reach = match reach {
                    0 => Reach::Silent,
                    1 => Reach::Behind,
                    _ => Reach::CaughtUp,
                };
                let zone = (zone > 0).then(|| zone.to_string());
                if removed > 0 {
                    council.nodes.insert(id(n), Candidate { zone, active, reach });
                }
            }
            match kind {
                0 => {}
                1 => council.orders.push(VoteOrder::Leave(id(old))),
                _ if old == new => {}
                _ => council.orders.push(VoteOrder::Replace { old: id(old), new: Some(id(new)) }),
            }
            let answering = |node: &&NodeId| {
                council.nodes.get(node).is_some_and(|node| node.reach != Reach::Silent)
            };
            council.leader = council.voters.iter().find(answering).copied();
            council
        },
    )
}

fn majority_answers(council: &Council) -> bool {
    let answering = council.voters.iter().filter(|n| council.reach(**n) != Reach::Silent);
    answering.count() * 2 > council.voters.len()
}

proptest! {
    /// A leader exists only where a majority of the voters answers: from there on it stays so,
    /// nobody silent loses its vote without an order, and the steps come to an end.
    #[test]
    fn steps_are_safe_and_come_to_an_end(mut council in any_council()) {
        prop_assume!(council.leader.is_some() && majority_answers(&council));
        for _ in 0..40 {
            let Some(step) = council.next_step() else { return Ok(()) };
            let before = council.clone();
            if let Step::Demote(node) = step {
                let silent = before.reach(node) == Reach::Silent;
                prop_assert!(!silent || before.is_departing(node), "{step:?} {before:?}");
            }
            if let Step::Promote(node) = step {
                prop_assert_eq!(before.reach(node), Reach::CaughtUp);
            }
            apply(&mut council, step);
            prop_assert!(council.voters.symmetric_difference(&before.voters).count() <= 1);
            prop_assert!(majority_answers(&council), "{step:?} {before:?}");
            if council.leader.is_none() {
                return Ok(());
            }
        }
        prop_assert!(false, "no end: {:?}", council);
    }

    /// With everyone there and nothing ordered, the cluster has the voters it should have.
    #[test]
    fn healthy_clusters_get_their_voters(mut council in any_council()) {
        prop_assume!(council.leader.is_some());
        council.settled = true;
        council.orders.clear();
        for node in council.nodes.values_mut() {
            node.reach = Reach::CaughtUp;
            node.active = true;
        }
        let gone = |node: &NodeId| !council.nodes.contains_key(node);
        prop_assume!(!council.voters.iter().any(gone));
        while let Some(step) = council.next_step() {
            apply(&mut council, step);
        }
        prop_assert_eq!(council.voters.len(), wanted_voters(council.nodes.len()));
        prop_assert_eq!(council.learners.len(), council.nodes.len() - council.voters.len());
    }
}
