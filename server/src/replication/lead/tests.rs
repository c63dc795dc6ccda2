//! The rules of who counts one by one, and what they are for by walks.

use std::collections::BTreeSet;

use proptest::prelude::*;
use slots::NodeId;

use super::*;

const B: NodeId = NodeId::from_bytes([2; 20]);
const C: NodeId = NodeId::from_bytes([3; 20]);
const NOW: Duration = Duration::from_secs(100);

fn peer(node: NodeId) -> Peer {
    Peer { node, boot: Boot(1), is_in_sync: false, is_target: false }
}

fn in_sync(node: NodeId) -> Peer {
    Peer { is_in_sync: true, ..peer(node) }
}

/// Epoch 5, `ver` and table version as given.
fn terms(ver: u64, version: u64, peers: &[Peer]) -> Terms {
    Terms {
        epoch: Epoch(5),
        ver: TableVersion(ver),
        version: TableVersion(version),
        ack: AckMode::InSync,
        peers: peers.to_vec(),
    }
}

fn begin(peers: &[Peer], last: u64) -> Lead {
    Lead::begin(&terms(5, 5, peers), OpIndex(last), NOW)
}

fn ack(index: u64, boot: u64, version: u64) -> Acked {
    Acked { index: OpIndex(index), boot: Boot(boot), version: TableVersion(version) }
}

fn grow(node: NodeId, boot: u64, seen: u64) -> Want {
    Want::Grow { node, boot: Boot(boot), seen: TableVersion(seen) }
}

fn shrink(node: NodeId, seen: u64) -> Want {
    Want::Shrink { node, seen: TableVersion(seen) }
}

#[test]
fn alone_everything_is_safe() {
    let mut lead = begin(&[peer(B)], 3);
    lead.wrote(OpIndex(9));
    assert_eq!((lead.safe(), lead.waits()), (OpIndex(9), false));
    assert!(lead.is_safe(OpIndex(9)) && lead.wants().is_empty());
}

#[test]
fn every_member_in_sync_is_waited_for() {
    let mut lead = begin(&[in_sync(B), in_sync(C)], 3);
    assert_eq!(lead.safe(), OpIndex(0), "nobody has said yet what it has");
    lead.wrote(OpIndex(5));
    lead.acked(B, ack(5, 1, 5), NOW);
    assert_eq!(lead.safe(), OpIndex(0));
    lead.acked(C, ack(4, 1, 5), NOW);
    assert_eq!(lead.safe(), OpIndex(4));
    assert!(lead.is_safe(OpIndex(4)) && !lead.is_safe(OpIndex(5)));
    assert!(lead.has_all(B) && !lead.has_all(C));
}

#[test]
fn who_joins_counts_before_it_is_grown_and_is_grown_when_it_has_what_was_there() {
    let mut lead = begin(&[peer(B)], 3);
    assert!(lead.count(B, NOW) && !lead.count(B, NOW));
    assert_eq!(lead.safe(), OpIndex(0), "it counts at once");
    lead.wrote(OpIndex(7));
    lead.acked(B, ack(2, 1, 5), NOW);
    assert_eq!(lead.wants(), []);
    lead.acked(B, ack(3, 1, 5), NOW);
    assert_eq!((lead.wants(), lead.safe()), (vec![grow(B, 1, 5)], OpIndex(3)));
    assert!(lead.learn(&terms(5, 8, &[peer(B)]), NOW), "another slot has changed");
    assert_eq!(lead.wants(), [grow(B, 1, 5)], "asked again unchanged");
    assert!(lead.learn(&terms(9, 9, &[in_sync(B)]), NOW));
    assert_eq!((lead.wants(), lead.safe()), (vec![], OpIndex(3)));
}

#[test]
fn an_ack_at_a_table_before_the_row_grows_nobody() {
    let mut lead = begin(&[peer(B)], 3);
    lead.acked(B, ack(3, 1, 4), NOW);
    lead.count(B, NOW);
    assert_eq!(lead.wants(), [], "it may have freed that copy since");
    lead.acked(B, ack(3, 1, 5), NOW);
    assert_eq!(lead.wants(), [grow(B, 1, 5)]);
}

#[test]
fn a_copy_begun_anew_replaces_what_was_acked() {
    let mut lead = begin(&[in_sync(B)], 9);
    lead.acked(B, ack(9, 1, 5), NOW);
    lead.acked(B, ack(4, 1, 5), NOW);
    assert_eq!(lead.safe(), OpIndex(9), "an old ack that comes late");
    lead.acked(B, ack(2, 1, 6), NOW);
    assert_eq!(lead.safe(), OpIndex(2));
}

#[test]
fn acks_of_another_boot_do_not_count() {
    let mut lead = begin(&[in_sync(B)], 9);
    lead.acked(B, ack(9, 1, 5), NOW);
    let again = Peer { boot: Boot(2), ..in_sync(B) };
    assert!(lead.learn(&terms(5, 6, &[again]), NOW));
    assert_eq!(lead.safe(), OpIndex(0), "what that boot had may be gone");
    lead.acked(B, ack(8, 1, 9), NOW);
    assert_eq!(lead.safe(), OpIndex(0));
    lead.acked(B, ack(7, 2, 6), NOW);
    assert_eq!(lead.safe(), OpIndex(7));
    lead.acked(B, ack(9, 3, 6), NOW);
    assert_eq!(lead.safe(), OpIndex(0), "a boot that is not applied yet makes acks wait");
}

#[test]
fn who_starts_again_while_it_joins_has_to_have_what_is_there_now() {
    let mut lead = begin(&[peer(B)], 3);
    lead.count(B, NOW);
    lead.acked(B, ack(3, 1, 5), NOW);
    assert_eq!(lead.wants(), [grow(B, 1, 5)]);
    lead.wrote(OpIndex(6));
    lead.learn(&terms(5, 7, &[Peer { boot: Boot(2), ..peer(B) }]), NOW);
    lead.acked(B, ack(5, 2, 7), NOW);
    assert_eq!(lead.wants(), []);
    lead.acked(B, ack(6, 2, 7), NOW);
    assert_eq!(lead.wants(), [grow(B, 2, 7)]);
}

#[test]
fn who_is_let_go_counts_until_the_table_has_answered() {
    let mut lead = begin(&[in_sync(B)], 3);
    assert!(lead.let_go(B));
    lead.wrote(OpIndex(4));
    assert_eq!((lead.wants(), lead.safe()), (vec![shrink(B, 5)], OpIndex(0)));
    lead.learn(&terms(5, 8, &[in_sync(B)]), NOW);
    assert!(lead.let_go(B));
    assert_eq!(lead.wants(), [shrink(B, 5)], "asked again unchanged");
    lead.learn(&terms(9, 9, &[peer(B)]), NOW);
    assert_eq!((lead.wants(), lead.safe(), lead.waits()), (vec![], OpIndex(4), false));
}

#[test]
fn a_grow_that_is_withdrawn_counts_until_the_table_has_answered() {
    let mut lead = begin(&[peer(B)], 3);
    lead.count(B, NOW);
    assert!(lead.let_go(B) && !lead.count(B, NOW));
    assert_eq!((lead.wants(), lead.safe()), (vec![shrink(B, 5)], OpIndex(0)));
    assert!(lead.learn(&terms(9, 9, &[peer(B)]), NOW));
    assert!(lead.safe() == OpIndex(3) && lead.count(B, NOW));
}

#[test]
fn who_is_wanted_no_more_counts_while_its_grow_may_still_be_committed() {
    let mut lead = begin(&[peer(B)], 3);
    lead.count(B, NOW);
    assert!(lead.learn(&terms(5, 7, &[]), NOW));
    assert_eq!((lead.counted().collect::<Vec<_>>(), lead.safe()), (vec![B], OpIndex(0)));
    assert!(lead.let_go(B));
    assert_eq!(lead.wants(), [shrink(B, 7)]);
    assert!(lead.learn(&terms(8, 8, &[]), NOW));
    assert!(!lead.waits());
}

#[test]
fn another_epoch_is_another_book() {
    let mut lead = begin(&[in_sync(B)], 3);
    let later = Terms { epoch: Epoch(6), ..terms(6, 6, &[in_sync(B)]) };
    assert!(!lead.learn(&later, NOW));
    assert_eq!(lead.epoch(), Epoch(5));
}

#[test]
fn followers_count_only_where_acks_are_in_sync_but_the_target_of_a_move_does() {
    let local = |peers: &[Peer]| Terms { ack: AckMode::Local, ..terms(5, 5, peers) };
    let target = Peer { is_target: true, ..peer(C) };
    let mut lead = Lead::begin(&local(&[peer(B), target]), OpIndex(1), NOW);
    assert!(!lead.count(B, NOW) && lead.count(C, NOW));
    assert!(!lead.count(NodeId::from_bytes([9; 20]), NOW), "it has no place here");
}

#[test]
fn silence_of_one_who_owes_an_ack_is_noticed() {
    let mut lead = begin(&[in_sync(B), in_sync(C), peer(NodeId::from_bytes([4; 20]))], 3);
    let at = |ms| NOW + Duration::from_millis(ms);
    lead.acked(B, ack(3, 1, 5), at(0));
    lead.acked(C, ack(2, 1, 5), at(400));
    assert_eq!(lead.silent(at(1399)), []);
    assert_eq!(lead.silent(at(1400)), [C], "B has all there is");
    lead.wrote(OpIndex(4));
    assert_eq!(lead.silent(at(1400)), [B, C], "the longest silence first");
    lead.acked(B, ack(4, 2, 5), at(1400));
    assert_eq!(lead.silent(at(1400)), [B, C], "not its word");
    lead.acked(B, ack(4, 1, 5), at(1400));
    lead.acked(C, ack(3, 1, 5), at(1400));
    assert_eq!(lead.silent(at(1500)), [], "it is slow, not silent");
}

/// What can happen to an owner.
#[derive(Clone, Debug)]
enum Event {
    Write,
    Ack {
        node: usize,
        index: u64,
        boot: u64,
    },
    Count(usize),
    LetGo(usize),
    /// The entry that was asked for first is applied; or, if nothing was, another slot's.
    Commit,
    Boot(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let node = 0_usize..3;
    let event = prop_oneof![
        4 => Just(Event::Write),
        6 => (node.clone(), 0_u64..12, 1_u64..3)
            .prop_map(|(node, index, boot)| Event::Ack { node, index, boot }),
        2 => node.clone().prop_map(Event::Count),
        1 => node.clone().prop_map(Event::LetGo),
        3 => Just(Event::Commit),
        1 => node.prop_map(Event::Boot),
    ];
    proptest::collection::vec(event, 0..60)
}

proptest! {
    /// The promise behind R4, whatever happens: when the table takes a node in, it has acked, in
    /// the boot that the table knows, every index that was said to be safe.
    #[test]
    fn a_member_taken_in_has_all_that_was_safe(events in events()) {
        let nodes = [B, C, NodeId::from_bytes([4; 20])];
        let mut peers: Vec<Peer> = nodes.iter().map(|node| peer(*node)).collect();
        let (mut version, mut ver, mut last) = (5, 5, 3);
        let mut lead = begin(&peers, last);
        // What each has by its own word, in boot 1 and 2.
        let mut has = [[0_u64; 2]; 3];
        let mut told = OpIndex(0);
        for event in events {
            match event {
                Event::Write => {
                    last += 1;
                    lead.wrote(OpIndex(last));
                }
                Event::Ack { node, index, boot } => {
                    let has = &mut has[node][boot as usize - 1];
                    *has = index.min(last).max(*has);
                    lead.acked(nodes[node], ack(*has, boot, version), NOW);
                }
                Event::Count(node) => drop(lead.count(nodes[node], NOW)),
                Event::LetGo(node) => drop(lead.let_go(nodes[node])),
                Event::Commit => {
                    version += 1;
                    let want = lead.wants().first().copied();
                    for peer in &mut peers {
                        match want {
                            Some(Want::Grow { node, boot, seen })
                                if node == peer.node && boot == peer.boot && ver <= seen.0 =>
                            {
                                peer.is_in_sync = true;
                                ver = version;
                            }
                            Some(Want::Shrink { node, seen })
                                if node == peer.node && ver <= seen.0 =>
                            {
                                peer.is_in_sync = false;
                                ver = version;
                            }
                            _ => {}
                        }
                    }
                    prop_assert!(lead.learn(&terms(ver, version, &peers), NOW));
                }
                Event::Boot(node) if peers[node].boot == Boot(1) => {
                    // It lost its memory: it leaves whom it was in sync with.
                    version += 1;
                    peers[node].boot = Boot(2);
                    if std::mem::take(&mut peers[node].is_in_sync) {
                        ver = version;
                    }
                    prop_assert!(lead.learn(&terms(ver, version, &peers), NOW));
                }
                Event::Boot(_) => {}
            }
            told = told.max(lead.safe());
            let counted: BTreeSet<NodeId> = lead.counted().collect();
            for (node, peer) in peers.iter().enumerate().filter(|(_, peer)| peer.is_in_sync) {
                prop_assert!(counted.contains(&peer.node));
                let has = has[node][peer.boot.0 as usize - 1];
                prop_assert!(OpIndex(has) >= told, "{told:?} was safe, {} has {has}", peer.node);
            }
        }
    }
}
