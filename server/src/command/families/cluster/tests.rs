//! CLUSTER by scripts: a node alone, a node among others, addresses of every form.

use slots::{Addresses, Endpoint, TableChange};

use crate::testing::{TestNode, play_file, run_script};

/// A node that owns a hole-ridden first third, beside two others.
fn among_others(options: &[&str]) -> TestNode {
    TestNode::owning("0-448,450-5460", &[(7002, "5461-10922"), (7003, "449,10923-16383")], options)
}

#[test]
fn a_node_alone_answers_for_all_slots() {
    run_script("cluster/cluster.alone.txt");
}

#[test]
fn moved_and_the_topology_replies_name_the_same_owner() {
    play_file(&mut among_others(&[]), "cluster/cluster.others.txt");
}

#[test]
fn a_shared_table_is_not_changed_by_one_node() {
    play_file(&mut among_others(&[]), "cluster/cluster.shared.txt");
}

#[test]
fn slots_without_an_owner_are_refused_and_so_is_all_under_full_coverage() {
    let mut node = TestNode::owning("", &[], &["--cluster-enabled", "yes"]);
    play_file(&mut node, "cluster/cluster.coverage.txt");
}

#[test]
fn slots_are_added_and_taken_away_with_the_errors_of_redis() {
    let mut node = TestNode::owning("", &[], &["--cluster-enabled", "yes"]);
    play_file(&mut node, "cluster/cluster.slots.txt");
}

#[test]
fn hosts_are_told_by_the_preferred_kind() {
    play_file(&mut among_others(&[]), "cluster/cluster.endpoints.txt");
}

#[test]
fn keys_of_a_slot_are_counted_and_listed_where_it_is_served() {
    play_file(&mut among_others(&[]), "cluster/cluster.keys.txt");
}

#[test]
fn an_announced_address_is_used_everywhere_and_a_hostname_beside_it() {
    let mut node = TestNode::new(&[]);
    // The reply that is kept must not outlive the change.
    node.call(1, &[b"CLUSTER", b"SLOTS"]);
    node.call(1, &[b"CLUSTER", b"NODES"]);
    let addresses = Addresses {
        client: Endpoint::new("10.9.8.7", 7777),
        bus: Endpoint::new("10.9.8.7", 17_777),
        hostname: Some("a.example".into()),
    };
    let change = TableChange::SetAddress { node: node.node.topology().me, addresses };
    let check = |verdicts: Result<slots::Verdicts, _>| {
        assert_eq!(verdicts.map(|verdicts| verdicts.all()), Ok(Ok(())));
    };
    node.node.table_log.propose(change, Box::new(check));
    play_file(&mut node, "cluster/cluster.hostname.txt");
}
