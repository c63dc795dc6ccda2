//! D09: from the moment a node answers MOVED, its CLUSTER SLOTS says the same.

use std::collections::BTreeMap;

use slots::{Redirect, SlotId};

use super::{At, Oracle};
use crate::resp::Value;

/// The owner's port of each of these slots, as a reply to CLUSTER SLOTS has it.
pub fn owners_in(reply: &Value, slots: &[SlotId]) -> Option<BTreeMap<SlotId, u16>> {
    let Value::List(rows) = reply else { return None };
    let mut owners = BTreeMap::new();
    for row in rows {
        let Value::List(row) = row else { return None };
        let [Value::Int(first), Value::Int(last), Value::List(node), ..] = row.as_slice() else {
            return None;
        };
        let [_, Value::Int(port), ..] = node.as_slice() else { return None };
        let port = u16::try_from(*port).ok()?;
        let run = *first..=*last;
        for slot in slots.iter().filter(|slot| run.contains(&i64::from(slot.number()))) {
            owners.insert(*slot, port);
        }
    }
    Some(owners)
}

impl Oracle {
    /// A node's CLUSTER SLOTS, and what it answers for each key at the same moment. `my_port`:
    /// where the table says the node is.
    pub fn check_topology(
        &mut self,
        at: At,
        my_port: Option<u16>,
        told: &Value,
        answers: &[Value],
    ) {
        let slots: Vec<SlotId> = self.keys.iter().map(|(_, slot)| *slot).collect();
        let Some(owners) = owners_in(told, &slots) else {
            return self.fail("D09", format!("host {}: no reply to CLUSTER SLOTS", at.host));
        };
        for (slot, answer) in slots.iter().zip(answers) {
            let named = match answer {
                Value::Error(text) => match Redirect::parse(text) {
                    Some(redirect) if Some(redirect.port) == my_port => {
                        let text = format!("slot {slot}: host {} names itself", at.host);
                        return self.fail("D09", text);
                    }
                    Some(redirect) => Some(redirect.port),
                    None => continue,
                },
                _ => my_port,
            };
            if owners.get(slot).copied() != named {
                let text = format!(
                    "slot {slot}: host {} answers {answer:?}, its CLUSTER SLOTS says {:?}",
                    at.host,
                    owners.get(slot)
                );
                return self.fail("D09", text);
            }
        }
        self.coverage.count("check", "CLUSTER SLOTS beside MOVED");
    }
}
