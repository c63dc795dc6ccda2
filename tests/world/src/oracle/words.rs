//! After each event of a host: who would answer (ONE, WORDS, ROLE, BOOTS).
//!
//! ONE: at every instant at most one node answers a slot's key with anything but an error. WORDS:
//! the admission words say what the applied table says. ROLE: a node whose own boot is not in its
//! table serves nothing and names nobody. BOOTS: the boot numbers of a node's seated processes
//! strictly rise.

use std::collections::BTreeMap;

use slotd::slot::Ownership;
use slots::{Boot, Epoch, Nonce};

use super::{At, Oracle};
use crate::log::HostIx;
use crate::node::WorldNode;

#[derive(Default)]
pub(super) struct Words {
    /// Who would answer for each key: process and applied version, by host.
    serving: BTreeMap<HostIx, Vec<Option<u64>>>,
}

impl Oracle {
    /// Something happened to a process.
    pub fn check_words(&mut self, at: At, node: &WorldNode) {
        let table = node.ledger.table();
        let me = node.startup.identity();
        let row = table.node(me.node);
        let is_seated = row.is_some_and(|row| row.boot == me.boot && row.nonce == Some(me.nonce));
        if node.plays() && is_seated {
            self.check_boots(at, node);
        }
        let mut serving = vec![None; self.keys.len()];
        for (key, (_, slot)) in self.keys.clone().iter().enumerate() {
            let (ownership, epoch) = node.state.rooms.ownership(*slot);
            let answers = matches!(ownership, Ownership::Owned);
            if answers {
                serving[key] = Some(node.version());
            }
            if matches!(ownership, Ownership::Foreign | Ownership::Unassigned) {
                self.let_go(key, at.process);
            }
            let has_role = ownership != Ownership::Unknown;
            if has_role && !is_seated {
                let text = format!("slot {slot}: host {} has a role without its boot", at.host);
                return self.fail("ROLE", text);
            }
            if is_seated && node.plays() {
                self.check_word(at, node, *slot, (ownership, epoch));
            }
        }
        self.words.serving.insert(at.host, serving);
        self.check_one(at.host);
    }

    /// The host has no process now.
    pub fn silent(&mut self, host: HostIx) {
        self.words.serving.remove(&host);
    }

    fn check_word(
        &mut self,
        at: At,
        node: &WorldNode,
        slot: slots::SlotId,
        (ownership, epoch): (Ownership, Epoch),
    ) {
        let row = node.ledger.table().slot(slot);
        let me = node.startup.identity().node;
        let expected = match row.owner() {
            None => Ownership::Unassigned,
            Some(owner) if owner == me => Ownership::Owned,
            Some(_) => Ownership::Foreign,
        };
        let is_sealed = ownership == Ownership::Sealed && expected == Ownership::Owned;
        if epoch != row.epoch() || ownership != expected && !is_sealed {
            let text = format!(
                "slot {slot} on host {}: {ownership:?} at epoch {epoch}, its table says \
                 {expected:?} at {}",
                at.host,
                row.epoch()
            );
            self.fail("WORDS", text);
        }
    }

    fn check_one(&mut self, host: HostIx) {
        let Some(mine) = self.words.serving.get(&host) else { return };
        for key in 0..self.keys.len() {
            let Some(my_version) = mine[key].filter(|v| !self.is_excused(key, *v)) else {
                continue;
            };
            let other = self.words.serving.iter().find(|(other, serving)| {
                **other != host && serving[key].is_some_and(|v| !self.is_excused(key, v))
            });
            if let Some((other, serving)) = other {
                let (name, slot) = &self.keys[key];
                let text = format!(
                    "slot {slot} ({name}) is answered by host {host} at table {my_version} and \
                     by host {other} at table {}",
                    serving[key].unwrap_or_default()
                );
                return self.fail("ONE", text);
            }
        }
    }

    fn check_boots(&mut self, at: At, node: &WorldNode) {
        let me = node.startup.identity();
        let new: (Boot, Nonce, u64) = (me.boot, me.nonce, at.process);
        let before = self.seated.get(&me.node).copied();
        if before == Some(new) {
            return;
        }
        if let Some((boot, _, process)) = before
            && me.boot <= boot
        {
            let text = format!(
                "node {}: process {} is seated at boot {}, after process {process} at boot {boot}",
                me.node, at.process, me.boot
            );
            return self.fail("BOOTS", text);
        }
        self.seated.insert(me.node, new);
    }
}
