//! What all nodes say of the cluster and of themselves, put side by side.
//!
//! Not the asking (`edge/`), nor the judgement (`health.rs`).
//!
//! Invariant: a node that gave no answer is in it, with the reason; nothing stands for its answer.

use slots::admin::{NodeStatus, Status};

use crate::names;

/// The state of a row that is a tombstone: no node any more.
pub(crate) const REMOVED: &str = "removed";

/// The cluster, from the newest view among the nodes that answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Survey {
    /// The newest view.
    pub(crate) base: Status,
    /// Every node of that view, in its order.
    pub(crate) nodes: Vec<Seen>,
}

/// A node and what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// Its row in the newest view.
    pub(crate) row: NodeStatus,
    /// Its own answer.
    pub(crate) answer: Answer,
}

/// What came from a node's client address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The node's own view.
    Own(Box<Status>),
    /// Another answered there: who, in words.
    Stranger(String),
    /// Nothing, and why.
    Silent(String),
}

impl Survey {
    /// Puts the answers together. `first` is the answer of the node that was found first, `heard`
    /// those of the nodes that it knows, by id.
    pub(crate) fn new(first: Status, heard: Vec<(String, Result<Status, String>)>) -> Survey {
        let mut base = newest(&first, &heard);
        base.nodes.retain(|node| node.state != REMOVED);
        let nodes = base.nodes.iter().map(|row| Seen {
            row: row.clone(),
            answer: heard
                .iter()
                .find(|(id, _)| *id == row.id)
                .map_or_else(not_asked, |(id, answer)| judge_answer(&base, id, answer)),
        });
        Survey { nodes: nodes.collect(), base }
    }

    /// The nodes that answered as themselves, each with its view.
    pub(crate) fn answered(&self) -> impl Iterator<Item = (&Seen, &Status)> {
        self.nodes.iter().filter_map(|seen| seen.own().map(|own| (seen, own)))
    }

    /// Whether every node that answered has come to this generation and table version.
    pub(crate) fn reached(&self, at: (u64, u64)) -> bool {
        self.answered().all(|(_, own)| (own.generation, own.table_version) >= at)
    }

    /// The node of this id.
    pub(crate) fn node(&self, id: &str) -> Option<&Seen> {
        self.nodes.iter().find(|seen| seen.row.id == id)
    }
}

impl Seen {
    /// Its own view, if it gave one.
    pub(crate) fn own(&self) -> Option<&Status> {
        match &self.answer {
            Answer::Own(status) => Some(status),
            Answer::Stranger(_) | Answer::Silent(_) => None,
        }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        names::shown(&self.row)
    }

    /// Has it a vote?
    pub(crate) fn votes(&self) -> bool {
        matches!(self.row.role.as_str(), "leader" | "voter")
    }

    /// The row it gave of itself where it answered, else the newest view's.
    pub(crate) fn best_row(&self) -> &NodeStatus {
        let own = self.own().and_then(|own| own.nodes.iter().find(|node| node.id == self.row.id));
        own.unwrap_or(&self.row)
    }
}

/// The newest view of the cluster that was found first. On a tie who knows a quorum goes first.
fn newest(first: &Status, heard: &[(String, Result<Status, String>)]) -> Status {
    let age = |status: &&Status| (status.generation, status.table_version, status.has_quorum);
    let answers = heard.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    let same = answers.filter(|status| status.cluster == first.cluster);
    // The last of equals wins in `max_by_key`.
    same.chain([first]).max_by_key(age).unwrap_or(first).clone()
}

fn judge_answer(base: &Status, id: &str, answer: &Result<Status, String>) -> Answer {
    match answer {
        Err(why) => Answer::Silent(why.clone()),
        Ok(status) if status.me != id => {
            Answer::Stranger(format!("another node answers there: {}", status.me))
        }
        Ok(status) if status.cluster != base.cluster => {
            Answer::Stranger(format!("it says it is of cluster {}", shown_cluster(status)))
        }
        Ok(status) => Answer::Own(Box::new(status.clone())),
    }
}

/// The cluster's id for people.
pub(crate) fn shown_cluster(status: &Status) -> &str {
    if status.cluster.is_empty() { "(none)" } else { &status.cluster }
}

fn not_asked() -> Answer {
    Answer::Silent("not asked: it is new in the table".into())
}

#[cfg(test)]
pub(crate) mod samples {
    //! Clusters for tests.

    use super::*;

    /// The id of sample node `n`.
    pub(crate) fn id(n: usize) -> String {
        format!("{n:0>40}")
    }

    /// Three nodes, all well, as seen by node `me`.
    pub(crate) fn status(me: usize) -> Status {
        let slots = ["0-5460", "5461-10922", "10923-16383"];
        let counts = [5461, 5462, 5461];
        let node = |n: usize| NodeStatus {
            id: id(n),
            name: format!("node-{}", ["a", "b", "c"][n]),
            client: format!("127.0.0.1:{}", 7001 + n),
            bus: format!("127.0.0.1:{}", 17001 + n),
            state: "active".into(),
            role: if n == 0 { "leader" } else { "voter" }.into(),
            health: if n == me { "myself" } else { "connected" }.into(),
            boot: 1,
            table_version: Some(52),
            server_version: Some("0.1.0".into()),
            weight: 100,
            slots: slots[n].into(),
            slot_count: counts[n],
            keys: (n == me).then_some(100 + n as u64),
            ..NodeStatus::default()
        };
        Status {
            server_version: "0.1.0".into(),
            me: id(me),
            cluster: "c".repeat(40),
            generation: 1,
            table_version: 52,
            term: 3,
            leader: Some(id(0)),
            has_quorum: true,
            default_rf: 1,
            nodes: (0..3).map(node).collect(),
            ..Status::default()
        }
    }

    /// All of them answered as `change` makes it.
    pub(crate) fn survey(change: impl Fn(usize, Status) -> Result<Status, String>) -> Survey {
        let heard: Vec<_> = (0..3).map(|n| (id(n), change(n, status(n)))).collect();
        let first = heard.iter().find_map(|(_, answer)| answer.clone().ok());
        Survey::new(first.expect("one answered"), heard)
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{id, status, survey};
    use super::*;

    #[test]
    fn each_node_speaks_for_itself() {
        let survey = survey(|_, status| Ok(status));
        assert_eq!(survey.answered().count(), 3);
        assert_eq!(survey.nodes[1].best_row().keys, Some(101));
        assert_eq!(survey.base.me, id(0));
    }

    #[test]
    fn the_newest_view_is_the_base() {
        let survey = survey(|n, mut status| {
            status.table_version += n as u64;
            Ok(status)
        });
        assert_eq!(survey.base.me, id(2));
    }

    #[test]
    fn a_tombstone_is_no_node() {
        let survey = survey(|n, mut status| {
            status.nodes[2].state = REMOVED.into();
            if n == 2 { Err("connection refused".into()) } else { Ok(status) }
        });
        assert_eq!(survey.nodes.len(), 2);
    }

    #[test]
    fn a_new_generation_goes_before_a_longer_history() {
        let survey = survey(|n, mut status| {
            status.generation += (n == 1) as u64;
            status.table_version -= n as u64;
            Ok(status)
        });
        assert_eq!(survey.base.me, id(1));
    }

    #[test]
    fn who_knows_a_quorum_goes_before_who_does_not() {
        let survey = survey(|n, mut status| {
            status.has_quorum = n == 1;
            Ok(status)
        });
        assert_eq!(survey.base.me, id(1));
    }

    #[test]
    fn silent_nodes_and_strangers_are_no_answers() {
        let survey = survey(|n, mut status| match n {
            1 => Err("connection refused".into()),
            2 => {
                status.me = id(9);
                status.table_version = 1000;
                Ok(status)
            }
            _ => Ok(status),
        });
        assert_eq!(survey.answered().count(), 1);
        assert_eq!(survey.nodes[1].answer, Answer::Silent("connection refused".into()));
        assert!(matches!(&survey.nodes[2].answer, Answer::Stranger(who) if who.contains(&id(9))));
    }

    #[test]
    fn a_node_of_another_cluster_does_not_change_the_view() {
        let mut other = status(1);
        other.cluster = String::new();
        other.table_version = 1000;
        let survey = Survey::new(status(0), vec![(id(1), Ok(other))]);
        assert_eq!(survey.base.me, id(0));
        assert!(matches!(&survey.nodes[1].answer, Answer::Stranger(who) if who.contains("(none)")));
        assert!(matches!(&survey.nodes[2].answer, Answer::Silent(why) if why.contains("new")));
    }
}
