//! What one node was told to be done, the next one does not refuse for want of knowing it.

use std::time::Duration;

use slot_tests::fleet::Fleet;
use slot_tests::resp::Value;

const DEADLINE: Duration = Duration::from_secs(30);
/// How often slots change hands: each time another pair of nodes.
const ROUNDS: usize = 30;

#[test]
fn slots_given_up_at_one_node_are_taken_at_once_at_another() {
    let mut fleet = Fleet::start(4, &[]).expect("four nodes form a cluster");
    fleet.wait_until_all_vote(DEADLINE).expect("three vote");
    let mut clients: Vec<_> = (0..4).map(|node| fleet.client(node).expect("it accepts")).collect();
    // The first quarter is node 0's.
    let mut owner = 0;
    for round in 0..ROUNDS {
        let next = (owner + 1 + round % 3) % 4;
        let said = clients[owner].call(&["CLUSTER", "DELSLOTSRANGE", "100", "200"]);
        assert_eq!(said.expect("it answers"), Value::ok(), "round {round}, node {owner}");
        let said = clients[next].call(&["CLUSTER", "ADDSLOTSRANGE", "100", "200"]);
        assert_eq!(said.expect("it answers"), Value::ok(), "round {round}, node {next}");
        owner = next;
    }
}
