//! Proposals and elections: one node, many, some cut off, all restarted.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_founder_leads_alone_and_answers_at_once() {
    let town = Town::founded().await;
    let table = town.table(1);
    assert_eq!(table.cluster().map(|cluster| cluster.id), Some(cluster_id(1)));
    assert_eq!(table.node(node_id(1)).map(|row| row.boot), Some(Boot(1)));
    let view = town.view(1);
    assert_eq!((view.leader, view.has_quorum), (Some(node_id(1)), true));
    assert_eq!((view.voters, view.learners), (vec![node_id(1)], vec![]));
}

#[tokio::test(start_paused = true)]
async fn founding_again_changes_nothing() {
    let town = Town::founded().await;
    let again = town.cluster(1).found(ClusterSettings::default(), new_node(1), "itself").await;
    assert_eq!(again, Ok(()));
    let changes: Vec<String> =
        town.members[&1].machine.ledger().history().iter().map(|r| r.change.clone()).collect();
    assert_eq!(changes, ["InitCluster", "AddNode", "NodeBoot"]);
}

#[tokio::test(start_paused = true)]
async fn voters_grow_with_the_cluster() {
    let mut town = Town::founded().await;
    for (n, voters) in [(2, 1), (3, 3), (4, 3), (5, 5), (6, 5)] {
        town.join(n).await;
        town.until("the voters follow", |town| {
            let view = town.view(1);
            view.voters.len() == voters && view.voters.len() + view.learners.len() == usize::from(n)
        })
        .await;
    }
    town.until_equal().await;
}

#[tokio::test(start_paused = true)]
async fn a_learner_proposes_and_has_applied_when_it_is_told() {
    let town = Town::of(2).await;
    assert_eq!(town.view(2).learners, [node_id(2)]);
    let verdicts = propose(town.cluster(2), label(2, "x")).await.expect("it is committed");
    assert_eq!(verdicts.all(), Ok(()));
    let table = town.table(2);
    let row = table.node(node_id(2)).expect("a row");
    assert_eq!(row.labels.get("k").map(String::as_str), Some("x"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_is_answered_with_its_verdict() {
    let town = Town::of(2).await;
    let change = TableChange::Rename { node: node_id(9), name: "x".to_owned() };
    let verdicts = propose(town.cluster(2), change).await.expect("it is committed");
    let unknown = slots::ChangeRefused::UnknownNode { node: node_id(9) };
    assert_eq!(verdicts.all(), Err(unknown));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_commits_nothing_and_the_others_go_on() {
    let town = Town::of(3).await;
    let old = town.leader().expect("a leader");
    let other = if old == 1 { 2 } else { 1 };
    town.links.isolate(node_id(old));
    // At once: it still believes to lead, and the entry's fate is open.
    let outcome = propose(town.cluster(old), label(old, "lost")).await;
    assert_eq!(outcome, Err(ProposeError::Unknown));
    // Later it knows that nobody follows, and proposes nothing.
    assert_eq!(town.view(old).leader, None);
    let outcome = propose(town.cluster(old), label(old, "lost")).await;
    assert_eq!(outcome, Err(ProposeError::NoQuorum));

    let verdicts = propose(town.cluster(other), label(old, "kept")).await.expect("a quorum");
    assert_eq!(verdicts.all(), Ok(()));
    assert_ne!(town.leader(), Some(old));
    town.links.heal();
    town.until_equal().await;
    let table = town.table(old);
    let labels = &table.node(node_id(old)).expect("a row").labels;
    assert_eq!(labels.get("k").map(String::as_str), Some("kept"));
}

#[tokio::test(start_paused = true)]
async fn a_proposal_waits_for_the_next_leader() {
    let town = Town::of(3).await;
    let old = town.leader().expect("a leader");
    let other = if old == 1 { 2 } else { 1 };
    town.links.isolate(node_id(old));
    let verdicts = propose(town.cluster(other), label(other, "x")).await.expect("in time");
    assert_eq!(verdicts.all(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stands_still_is_given_up_when_another_leads() {
    let town = Town::of(3).await;
    for round in 0..5 {
        let old = town.leader().expect("a leader");
        let other = if old == 1 { 2 } else { 1 };
        town.links.slow_down(node_id(old), Duration::from_secs(3600));
        let begun = Instant::now();
        let verdicts = propose(town.cluster(other), label(1, &round.to_string())).await;
        assert_eq!(verdicts.expect("in time").all(), Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        town.links.slow_down(node_id(old), Duration::ZERO);
        town.until_equal().await;
        town.until("a leader", |town| town.leader().is_some()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_nothing_is_proposed() {
    let mut town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let others: Vec<u8> = (1..=3).filter(|n| *n != leader).collect();
    town.stop(leader).await;
    town.stop(others[0]).await;
    let outcome = propose(town.cluster(others[1]), label(1, "x")).await;
    assert_eq!(outcome, Err(ProposeError::NoQuorum));
    town.until("it knows", |town| !town.view(others[1]).has_quorum).await;
}

#[tokio::test(start_paused = true)]
async fn long_round_trips_slow_the_log_down_and_do_not_stop_it() {
    let town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    (1..=3).for_each(|n| town.links.slow_down(node_id(n), Duration::from_millis(200)));
    for round in ["1", "2", "3"] {
        let other = if leader == 1 { 2 } else { 1 };
        let verdicts = propose(town.cluster(other), label(1, round)).await.expect("in time");
        assert_eq!(verdicts.all(), Ok(()));
    }
    assert_eq!(town.leader(), Some(leader));
}

#[tokio::test(start_paused = true)]
async fn a_node_proposes_in_its_own_name_only() {
    let town = Town::of(2).await;
    let entry = town.cluster(2).entry(label(1, "x"), "a test");
    let call = super::super::wire::ProposeCall { entry, patience_ms: 1000 };
    let body = codec::encode(&call).expect("it is short");
    let port = town.links.port(node_id(3));
    let answer = port.call(node_id(1), CallKind::Propose, body, PATIENCE).await;
    let Err(CallError::Refused(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("the link is to node"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn proposals_over_the_limit_are_refused_at_once() {
    let town = Town::of(1).await;
    town.links.isolate(node_id(1));
    let all = (super::super::MAX_PROPOSALS_IN_FLIGHT + 1) as u32;
    let permits = Arc::clone(&town.cluster(1).in_flight).acquire_many_owned(all - 1).await;
    let permits = permits.expect("the limit is open");
    assert_eq!(propose(town.cluster(1), label(1, "x")).await, Err(ProposeError::NoQuorum));
    drop(permits);
    assert!(propose(town.cluster(1), label(1, "x")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_change_longer_than_an_entry_is_refused_before_it_is_in_the_log() {
    let town = Town::of(2).await;
    let long = "x".repeat(super::super::propose::MAX_PROPOSAL_BYTES);
    for n in [1, 2] {
        let outcome = propose(town.cluster(n), label(1, &long)).await;
        assert!(matches!(outcome, Err(ProposeError::TooLong { .. })), "{outcome:?}");
    }
    let entry = town.cluster(2).entry(label(1, &long), "a test");
    let call = super::super::wire::ProposeCall { entry, patience_ms: 1000 };
    let body = codec::encode(&call).expect("it fits a body");
    let answer = town.links.port(node_id(2)).call(node_id(1), CallKind::Propose, body, PATIENCE);
    let Err(CallError::Refused(why)) = answer.await else { panic!("taken") };
    assert!(why.starts_with("an entry of 2"), "{why}");
    let longest = &long[..long.len() - 1000];
    assert!(propose(town.cluster(2), label(1, longest)).await.is_ok(), "it can be sent");
}

#[tokio::test(start_paused = true)]
async fn a_bad_snapshot_is_refused_and_does_not_end_the_log() {
    let town = Town::of(2).await;
    let snap = crate::control::raft::disk::kit::snap(crate::control::raft::disk::kit::id(99, 99));
    let vote = openraft::Vote::new_committed(99, super::super::types::Member(node_id(1)));
    let (mut data, done) = (snap.bytes.to_vec(), true);
    data[40] ^= 1;
    let piece = openraft::raft::InstallSnapshotRequest::<super::super::types::TableRaft> {
        vote,
        meta: snap.place.clone(),
        offset: 0,
        data,
        done,
    };
    let body = codec::encode(&piece).expect("it is short");
    let port = town.links.port(node_id(1));
    let answer = port.call(node_id(2), CallKind::RaftSnapshot, body, PATIENCE).await;
    let Err(CallError::Refused(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("the snapshot cannot be read"), "{why}");
    assert!(propose(town.cluster(2), label(2, "x")).await.is_ok(), "the log goes on");
}

#[tokio::test(start_paused = true)]
async fn an_actor_is_cut_where_a_character_ends() {
    let town = Town::founded().await;
    let actor = "ä".repeat(crate::control::ledger::MAX_ACTOR_BYTES);
    let entry = town.cluster(1).entry(label(1, "x"), &actor);
    assert_eq!(entry.actor.len(), crate::control::ledger::MAX_ACTOR_BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_late_learner_catches_up_by_a_snapshot() {
    let mut town = Town::founded().await;
    for round in 0..1200 {
        let verdicts = propose(town.cluster(1), label(1, &round.to_string())).await;
        assert!(verdicts.is_ok());
    }
    town.until("the log is cut", |town| town.members[&1].log.first_index() > Some(1)).await;
    town.join(2).await;
    town.until_equal().await;
    assert_eq!(town.members[&2].machine.installed(), 1);
    assert_eq!(town.members[&2].machine.ledger(), town.members[&1].machine.ledger());
}

#[tokio::test(start_paused = true)]
async fn all_nodes_restart_and_go_on_where_they_were() {
    let mut town = Town::of(3).await;
    propose(town.cluster(2), label(2, "x")).await.expect("it is committed");
    town.until_equal().await;
    let before = town.table(1);
    let mut stopped = Vec::new();
    for n in 1..=3 {
        stopped.push(town.stop(n).await);
    }
    for member in stopped {
        town.restart(member).await;
    }
    town.until("a leader", |town| town.leader().is_some()).await;
    for n in 1..=3 {
        assert!(town.cluster(n).is_initialized().await);
        town.boot(n).await;
    }
    town.until_equal().await;
    let after = town.table(1);
    assert!(after.version() > before.version());
    assert_eq!(after.node(node_id(2)).map(|row| row.boot), Some(Boot(2)));
    assert_eq!(after.node(node_id(2)).map(|row| &row.name), Some(&"node-2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_sole_voter_leads_at_once_after_a_restart() {
    let mut town = Town::founded().await;
    let member = town.stop(1).await;
    town.restart(member).await;
    let begun = Instant::now();
    town.until("it leads", |town| town.leader() == Some(1)).await;
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_log_is_sent_it_again_and_gives_no_vote_before() {
    let mut town = Town::of(4).await;
    let lost = (1..=4).find(|n| town.view(1).learners == [node_id(*n)]).expect("one learner");
    propose(town.cluster(1), label(1, "x")).await.expect("it is committed");
    town.until_equal().await;
    town.stop(lost).await;
    let leader = town.leader().expect("a leader");
    town.links.isolate(node_id(leader));
    let machine = MemoryMachine::in_common(&town.history);
    town.start_with(lost, cluster_id(1), 2, MemoryLog::default(), machine).await;
    let other = (1..=4).find(|n| ![lost, leader].contains(n)).expect("another");
    let vote = openraft::Vote::new(99, super::super::types::Member(node_id(other)));
    let body = codec::encode(&openraft::raft::VoteRequest::new(vote, None)).expect("it is short");
    let port = town.links.port(node_id(other));
    let answer = port.call(node_id(lost), CallKind::RaftVote, body, PATIENCE).await;
    let Err(CallError::Refused(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("log is empty"), "{why}");
    town.links.heal();
    town.until_equal().await;
    propose(town.cluster(lost), label(1, "y")).await.expect("all go on");
    town.until_equal().await;
}

#[tokio::test(start_paused = true)]
async fn a_voter_that_lost_its_log_votes_again_only_after_its_vote_was_taken() {
    let mut town = Town::of(4).await;
    let leader = town.leader().expect("a leader");
    let learner = town.view(leader).learners[0].bytes()[0];
    let voters: Vec<u8> = (1..=4).filter(|n| ![leader, learner].contains(n)).collect();
    let (lost, other) = (voters[0], voters[1]);
    town.stop(lost).await;
    town.forgetful.insert(lost);
    let machine = MemoryMachine::in_common(&town.history);
    town.start_with(lost, cluster_id(1), 2, MemoryLog::default(), machine).await;
    town.until_equal().await;
    town.boot(lost).await;
    let vote = openraft::Vote::new(99, super::super::types::Member(node_id(other)));
    let body = codec::encode(&openraft::raft::VoteRequest::new(vote, None)).expect("it is short");
    let port = town.links.port(node_id(other));
    let answer = port.call(node_id(lost), CallKind::RaftVote, body, PATIENCE).await;
    let Err(CallError::Refused(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("was lost"), "{why}");
    // Two voters are left, and one of them has no vote to give, nor asks for any.
    let stopped = town.stop(leader).await;
    town.pass(Duration::from_secs(10)).await;
    assert_eq!(town.leader(), None);
    town.restart(stopped).await;
    town.until("a leader", |town| town.leader().is_some()).await;
    assert!(!town.members[&lost].body.vote_was_taken.load(Ordering::Relaxed));
    let at = town.leader().expect("a leader");
    assert_ne!(at, lost);
    let moved = Order::ReplaceVoter { old: node_id(lost), new: Some(node_id(learner)) };
    town.order(at, moved).await.expect("done");
    let is_free = |town: &Town| town.members[&lost].body.vote_was_taken.load(Ordering::Relaxed);
    town.until("its vote is taken", is_free).await;
    let moved = Order::ReplaceVoter { old: node_id(learner), new: Some(node_id(lost)) };
    town.order(at, moved).await.expect("done");
    // It counts again: with it the others find a leader.
    let leader = town.leader().expect("a leader");
    town.stop(leader).await;
    town.until("another leader", |town| town.leader().is_some_and(|n| n != leader)).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_old_log_says_of_the_members_gives_no_vote_back() {
    let mut town = Town::of(4).await;
    let leader = town.leader().expect("a leader");
    let learner = town.view(leader).learners[0].bytes()[0];
    // Its log says that it has no vote; nobody says whether that is still so.
    town.forgetful.insert(learner);
    let stopped = town.stop(learner).await;
    town.links.isolate(node_id(learner));
    town.restart(stopped).await;
    town.pass(Duration::from_secs(5)).await;
    let is_free = |town: &Town| town.members[&learner].body.vote_was_taken.load(Ordering::Relaxed);
    assert!(!is_free(&town));
    town.links.heal();
    town.until_equal().await;
    town.pass(Duration::from_secs(1)).await;
    assert!(!is_free(&town), "before its own boot");
    town.boot(learner).await;
    town.until("it is known to have no vote", is_free).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_what_it_promised_does_not_lead_on() {
    let mut town = Town::of(3).await;
    let leader = town.leader().expect("a leader");
    let term = town.view(leader).term;
    town.forgetful.insert(leader);
    let mut stopped = Vec::new();
    for n in 1..=3 {
        stopped.push(town.stop(n).await);
    }
    for member in stopped {
        town.restart(member).await;
    }
    town.until("a leader", |town| town.leader().is_some()).await;
    let now = town.leader().expect("a leader");
    assert_ne!(now, leader);
    assert!(town.view(now).term > term);
}
