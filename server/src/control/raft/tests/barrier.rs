//! Catching up before something is judged: behind a slow link, beside a dead leader, alone.

use super::*;

fn value(town: &Town, at: u8) -> Option<String> {
    town.table(at).node(node_id(1)).expect("a row").labels.get("k").cloned()
}

#[tokio::test(start_paused = true)]
async fn a_learner_behind_a_slow_link_catches_up_before_it_judges() {
    let town = Town::of(2).await;
    town.links.slow_down(node_id(2), Duration::from_millis(300));
    propose(town.cluster(1), label(1, "x")).await.expect("it is committed");
    assert_eq!(value(&town, 2), None, "node 2 was told nothing yet");
    assert!(catch_up(town.cluster(2)).await);
    assert_eq!(value(&town, 2).as_deref(), Some("x"));
}

#[tokio::test(start_paused = true)]
async fn a_follower_and_a_leader_on_slow_links_catch_up() {
    let town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    (1..=3).for_each(|n| town.links.slow_down(node_id(n), Duration::from_millis(150)));
    for n in 1..=3 {
        propose(town.cluster(leader), label(1, &n.to_string())).await.expect("it is committed");
        assert!(catch_up(town.cluster(n)).await, "node {n}");
        assert_eq!(value(&town, n), Some(n.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_is_told_so_and_in_time() {
    let town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let other = if leader == 1 { 2 } else { 1 };
    town.links.isolate(node_id(leader));
    let begun = Instant::now();
    // The others elect a new leader and ask it; nobody answers the old one once it knows.
    assert!(catch_up(town.cluster(other)).await);
    town.until("it knows", |town| town.view(leader).leader.is_none()).await;
    assert!(!catch_up(town.cluster(leader)).await);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stands_still_is_not_asked_any_longer_when_another_leads() {
    let town = Town::of(3).await;
    for _ in 0..8 {
        let old = town.leader().expect("a leader");
        let other = if old == 1 { 2 } else { 1 };
        town.links.slow_down(node_id(old), Duration::from_secs(3600));
        let begun = Instant::now();
        assert!(catch_up(town.cluster(other)).await);
        assert!(begun.elapsed() < Duration::from_millis(2800), "{:?}", begun.elapsed());
        town.links.slow_down(node_id(old), Duration::ZERO);
        town.until_equal().await;
        town.until("a leader", |town| town.leader().is_some()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_brings_slots_that_were_given_up_elsewhere_a_moment_ago() {
    let mut town = Town::of(2).await;
    let seen = town.table(1).version();
    let assign = TableChange::AssignSlots { slots: slots("5"), to: node_id(1), seen };
    propose(town.cluster(1), assign).await.expect("it is committed");
    town.until_equal().await;
    town.links.slow_down(node_id(2), Duration::from_millis(300));
    let (seen, consent) = (town.table(1).version(), slots::LossConsent::AcceptLoss);
    let unassign = TableChange::UnassignSlots { slots: slots("5"), seen, consent };
    propose(town.cluster(1), unassign).await.expect("it is committed");
    town.start(3, cluster_id(3)).await;
    assert!(town.table(2).owner(slots::SlotId::new(5).expect("a slot")).is_some(), "it lags");
    let met = town.meet(3, 2, "5", 0).await;
    assert!(matches!(met, MeetAnswer::Accepted { .. }), "{met:?}");
}
