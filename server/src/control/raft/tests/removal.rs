//! Orders: who leaves, who is lost, who votes instead.

use super::*;

fn remove(n: u8) -> Order {
    Order::Remove { node: node_id(n) }
}

async fn assign(town: &Town, text: &str, to: u8) {
    let at = *town.members.keys().next().expect("a node");
    let seen = town.table(at).version();
    let change = TableChange::AssignSlots { slots: slots(text), to: node_id(to), seen };
    assert_eq!(propose(town.cluster(at), change).await.expect("committed").all(), Ok(()));
}

fn members(town: &Town, at: u8) -> usize {
    let view = town.view(at);
    view.voters.len() + view.learners.len()
}

#[tokio::test(start_paused = true)]
async fn a_voter_is_removed_and_a_learner_votes_in_its_place() {
    let town = Town::of(4).await;
    let leader = town.leader().expect("a leader");
    let voters = town.view(leader).voters;
    let gone = (1..=4).find(|n| *n != leader && voters.contains(&node_id(*n))).expect("a voter");
    let asked = (1..=4).find(|n| *n != leader && *n != gone).expect("another");
    let done = town.order(asked, remove(gone)).await.expect("done");
    assert_eq!(done, OrderDone { changed: true, text: format!("node-{gone} is removed") });
    let view = town.view(leader);
    assert_eq!(view.voters.len(), 3);
    assert!(!view.voters.contains(&node_id(gone)) && view.learners.is_empty());
    // The removed node has heard of it.
    let table = town.table(gone);
    let state = table.node(node_id(gone)).map(|row| row.state);
    assert_eq!(state, Some(slots::NodeState::Removed));

    let again = town.order(asked, remove(gone)).await.expect("fine");
    assert_eq!(
        again,
        OrderDone { changed: false, text: format!("node-{gone} was removed before") }
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_far_away_hears_of_it() {
    let town = Town::of(2).await;
    town.links.slow_down(node_id(2), Duration::from_millis(300));
    assert!(town.order(1, remove(2)).await.expect("done").changed);
    let table = town.table(2);
    let state = table.node(node_id(2)).map(|row| row.state);
    assert_eq!(state, Some(slots::NodeState::Removed));
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_takes_nobody_for_lost_before_it_has_listened() {
    let town = Town::of(4).await;
    let old = town.leader().expect("a leader");
    let learner = town.view(old).learners[0];
    town.links.slow_down(learner, Duration::from_millis(400));
    town.links.isolate(node_id(old));
    let new = |town: &Town| town.leader().filter(|leader| *leader != old);
    town.until("another leads", |town| new(town).is_some()).await;
    let order = Order::Lost { node: learner, accept_loss: true };
    let outcome = town.order(new(&town).expect("it leads"), order).await;
    let Err(OrderError::Refused(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("it is not lost"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn the_leader_is_removed_and_the_next_one_ends_it() {
    let town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let done = town.order(leader, remove(leader)).await.expect("done");
    assert_eq!(done.text, format!("node-{leader} is removed"));
    let other = (1..=3).find(|n| *n != leader).expect("another");
    town.until("two nodes have one voter", |town| {
        town.view(other).voters.len() == 1 && members(town, other) == 2
    })
    .await;
    let next = town.leader().expect("a leader");
    assert_ne!(next, leader);
    assert!(propose(town.cluster(other), label(other, "x")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_with_slots_is_not_removed() {
    let town = Town::of(3).await;
    assign(&town, "0-9", 2).await;
    let Err(OrderError::Refused(why)) = town.order(1, remove(2)).await else { panic!("removed") };
    assert!(why.contains("node-2 owns slots 0-9 (10)") && why.contains("slotctl move"), "{why}");
    assert!(town.view(1).voters.contains(&node_id(2)));
    let Err(OrderError::Refused(why)) = town.order(1, remove(9)).await else { panic!("removed") };
    assert!(why.contains("is not in the cluster"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn the_last_node_stays() {
    let town = Town::founded().await;
    let Err(OrderError::Refused(why)) = town.order(1, remove(1)).await else { panic!("removed") };
    assert!(why.contains("the last node"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_is_forgotten_after_a_minute() {
    let town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let gone = (1..=3).find(|n| *n != leader).expect("another");
    town.order(leader, remove(gone)).await.expect("done");
    let begun = Instant::now();
    assert!(town.table(leader).node(node_id(gone)).is_some());
    let deadline = begun + 2 * PATIENCE;
    while town.table(leader).node(node_id(gone)).is_some() {
        assert!(Instant::now() < deadline, "the tombstone stays");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(55), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_goes_with_what_it_alone_held_when_that_is_accepted() {
    let mut town = Town::of(3).await;
    assign(&town, "0-9", 3).await;
    let lost = |accept_loss| Order::Lost { node: node_id(3), accept_loss };
    let leader = town.leader().expect("a leader");
    if leader == 3 {
        town.links.isolate(node_id(3));
        town.until("another leads", |town| town.view(1).leader != Some(node_id(3))).await;
    }
    let Err(OrderError::Refused(why)) = town.order(1, lost(false)).await else { panic!("gone") };
    assert!(why.contains("it is not lost") || leader == 3, "{why}");
    town.stop(3).await;
    town.until("it is missed", |town| {
        let leads = |leader: u8| !town.cluster(leader).heard.lately(node_id(3));
        town.leader().is_some_and(leads)
    })
    .await;
    let Err(OrderError::Refused(why)) = town.order(1, lost(false)).await else { panic!("gone") };
    assert!(why.contains("alone holds slots 0-9 (10)") && why.contains("--accept-loss"), "{why}");
    assert!(town.view(1).voters.contains(&node_id(3)));

    let done = town.order(2, lost(true)).await.expect("done");
    assert_eq!(done.text, "node-3 is removed");
    let table = town.table(2);
    assert_eq!(table.unassigned(), SlotRanges::all());
    assert_eq!(table.losses().count(), 1);
    town.until("two nodes have one voter", |town| {
        town.view(1).voters.len() == 1 && members(town, 1) == 2
    })
    .await;
    town.until_equal().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_node_shared_goes_to_those_in_sync() {
    let mut town = Town::of(3).await;
    assign(&town, "0-9", 3).await;
    assign(&town, "10-19", 2).await;
    for (owner, follower, text) in [(3, 2, "0-4"), (2, 3, "10-14")] {
        let (node, node_boot) = (node_id(follower), Boot(1));
        let seen = town.table(owner).version();
        let change = TableChange::GrowInSync { slots: slots(text), node, node_boot, seen };
        assert_eq!(propose(town.cluster(owner), change).await.expect("committed").all(), Ok(()));
    }
    town.stop(3).await;
    let lost = Order::Lost { node: node_id(3), accept_loss: true };
    let outcome = loop {
        match town.order(1, lost.clone()).await {
            // The leader may not miss it yet.
            Err(OrderError::Refused(why)) if why.contains("it is not lost") => {}
            outcome => break outcome,
        }
        town.pass(Duration::from_millis(100)).await;
    };
    // The owner itself lets it go: here nobody does that.
    let Err(OrderError::Refused(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("still counts node-3 in sync"), "{why}");
    let table = town.table(1);
    assert_eq!(table.slots_of(node_id(2)), slots("0-4,10-19"));
    assert_eq!(table.slots_of(node_id(3)), SlotRanges::new());
    for text in ["0-4", "10-14"] {
        let (node, seen) = (node_id(3), town.table(2).version());
        let change = TableChange::ShrinkInSync { slots: slots(text), node, seen };
        assert_eq!(propose(town.cluster(2), change).await.expect("committed").all(), Ok(()));
    }
    assert!(town.order(2, lost).await.expect("done").changed);
}

#[tokio::test(start_paused = true)]
async fn a_silent_voter_keeps_its_vote_without_an_order() {
    let mut town = Town::of(4).await;
    let leader = town.leader().expect("a leader");
    let voters = town.view(leader).voters;
    let silent = (1..=4).find(|n| *n != leader && voters.contains(&node_id(*n))).expect("a voter");
    let member = town.stop(silent).await;
    town.pass(Duration::from_secs(120)).await;
    assert_eq!(town.view(leader).voters, voters);
    town.restart(member).await;
    town.boot(silent).await;
    town.until_equal().await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_cannot_move_the_vote_says_who_is_missing() {
    let mut town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let others: Vec<u8> = (1..=3).filter(|n| *n != leader).collect();
    town.stop(others[0]).await;
    let refused = town.order(leader, remove(others[1])).await;
    let Err(OrderError::Refused(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains(&format!("voters are silent (node-{})", others[0])), "{why}");
}

#[tokio::test(start_paused = true)]
async fn another_node_votes_in_the_place_of_one() {
    let town = Town::of(4).await;
    let leader = town.leader().expect("a leader");
    let learner = town.view(leader).learners[0];
    let old = town.view(leader).voters.into_iter().find(|node| *node != node_id(leader));
    let old = old.expect("a voter");
    let order = Order::ReplaceVoter { old, new: Some(learner) };
    let done = town.order(learner.bytes()[0], order.clone()).await.expect("done");
    assert!(done.changed && done.text.ends_with("votes no more"), "{done:?}");
    let view = town.view(leader);
    assert!(view.voters.contains(&learner) && view.voters.len() == 3);
    assert_eq!(view.learners, [old]);
    let again = town.order(leader, order).await.expect("fine");
    assert!(!again.changed && again.text.ends_with("does not vote"), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn the_leaders_vote_goes_to_another() {
    let town = Town::of(4).await;
    let leader = town.leader().expect("a leader");
    let order = Order::ReplaceVoter { old: node_id(leader), new: None };
    let done = town.order(leader, order).await.expect("done");
    assert_eq!(done, OrderDone { changed: true, text: format!("node-{leader} votes no more") });
    let next = town.leader().expect("a leader");
    assert_eq!(town.view(next).learners, [node_id(leader)]);
    assert_eq!(town.view(next).voters.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_does_not_campaign() {
    let town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let gone = (1..=3).find(|n| *n != leader).expect("another");
    town.order(leader, remove(gone)).await.expect("done");
    let vote = openraft::Vote::new(99, super::super::types::Member(node_id(gone)));
    let body = codec::encode(&openraft::raft::VoteRequest::new(vote, None)).expect("it is short");
    let port = town.links.port(node_id(gone));
    let answer = port.call(node_id(leader), CallKind::RaftVote, body.clone(), PATIENCE).await;
    let Err(CallError::Refused(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("is removed from the cluster"), "{why}");
    // Nor can it campaign in another's name.
    let port = town.links.port(node_id(9));
    let answer = port.call(node_id(leader), CallKind::RaftVote, body, PATIENCE).await;
    let Err(CallError::Refused(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("the link is to node"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn nobody_can_vote_instead_when_all_vote() {
    let town = Town::of(3).await;
    let order = Order::ReplaceVoter { old: node_id(2), new: None };
    let Err(OrderError::Refused(why)) = town.order(1, order).await else { panic!("replaced") };
    assert!(why.contains("add one first"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_an_order_is_not_begun() {
    let mut town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let others: Vec<u8> = (1..=3).filter(|n| *n != leader).collect();
    town.stop(leader).await;
    town.stop(others[0]).await;
    let outcome = town.order(others[1], remove(leader)).await;
    assert_eq!(outcome, Err(OrderError::NoQuorum));
}

#[tokio::test(start_paused = true)]
async fn orders_of_the_node_are_not_the_logs() {
    let town = Town::founded().await;
    let outcome = town.order(1, Order::Recover).await;
    assert!(matches!(outcome, Err(OrderError::Refused(_))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn orders_over_the_limit_are_refused_at_once() {
    let town = Town::of(2).await;
    let all = super::super::orders::MAX_ORDERS_IN_FLIGHT as u32;
    let permits = Arc::clone(&town.cluster(2).orders_in_flight).acquire_many_owned(all).await;
    let outcome = town.order(2, remove(1)).await;
    let Err(OrderError::Refused(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("too many orders"), "{why}");
    drop(permits);
}
