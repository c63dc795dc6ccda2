//! The nodes' histories side by side: every node's is a prefix of the longest, or the table forked.
//!
//! Reads `SLOTD HISTORY`. Invariant: a version once seen on any node is compared with that of
//! every other node, also when it has left the nodes' memory since.

use crate::resp::Value;
use std::collections::BTreeMap;

/// What all nodes said so far.
#[derive(Default)]
pub struct Histories {
    by_version: BTreeMap<u64, (usize, String)>,
    forks: Vec<String>,
}

impl Histories {
    /// Adds a node's reply to `SLOTD HISTORY`. What is no history is a fork, too: it was asked of
    /// a node that answers.
    pub fn add(&mut self, node: usize, reply: &Value) {
        let parsed: Option<Vec<serde_json::Value>> =
            reply.text().and_then(|text| serde_json::from_str(text).ok());
        let Some(records) = parsed else {
            self.forks.push(format!("node {node} answers no history: {reply:?}"));
            return;
        };
        for record in records {
            let Some(version) = record["version"].as_u64() else { continue };
            // The names of nodes are looked up by who answers, in the table it has then.
            let said = ["at_ms", "actor", "change", "detail", "refused"].map(|key| &record[key]);
            let said = format!("{said:?}");
            match self.by_version.get(&version) {
                None => {
                    self.by_version.insert(version, (node, said));
                }
                Some((other, first)) if *first != said => self.forks.push(format!(
                    "version {version} is {first} on node {other} and {said} on node {node}"
                )),
                Some(_) => {}
            }
        }
    }

    /// Entries compared.
    pub fn len(&self) -> usize {
        self.by_version.len()
    }

    /// None compared.
    pub fn is_empty(&self) -> bool {
        self.by_version.is_empty()
    }

    /// The newest version seen.
    pub fn last_version(&self) -> u64 {
        self.by_version.keys().next_back().copied().unwrap_or(0)
    }

    /// Where nodes disagree.
    pub fn forks(&self) -> &[String] {
        &self.forks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(version: u64, change: &str) -> Value {
        Value::bulk(format!(r#"[{{"version":{version},"at_ms":1,"change":"{change}"}}]"#))
    }

    #[test]
    fn one_version_with_two_contents_is_a_fork() {
        let mut histories = Histories::default();
        histories.add(0, &reply(3, "Label"));
        histories.add(1, &reply(3, "Label"));
        histories.add(1, &reply(4, "Drain"));
        assert!(histories.forks().is_empty());
        histories.add(2, &reply(3, "Rename"));
        assert_eq!(histories.forks().len(), 1);
        assert_eq!((histories.len(), histories.last_version()), (2, 4));
    }
}
