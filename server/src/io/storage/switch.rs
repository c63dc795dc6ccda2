//! CONFIG SET of what is kept on disk.
//!
//! Invariant: see `storage`: what the node's file says of this run is never stronger than what was
//! promised.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Storage, durability_of, policy_of};
use crate::config::Applied;
use crate::io::wal::Policy;
use crate::persist::evidence::Durability;

impl Storage {
    /// Carries out an option that is this module's; `value` is in force when it returns `Done`.
    pub fn carry_out(self: &Arc<Self>, option: &'static str, value: &str) -> Applied {
        let done = match (option, value) {
            ("appendfsync", word) => self.switch_policy(policy_of(word)),
            ("appendonly", "yes") => self.switch_on(),
            ("appendonly", _) => self.switch_off(),
            _ => return Applied::NotMine,
        };
        match done {
            Ok(()) => Applied::Done,
            Err(reason) => Applied::Refused(reason),
        }
    }

    fn switch_policy(&self, policy: Policy) -> Result<(), String> {
        let log = self.log.lock();
        let Some(log) = log.as_ref().filter(|_| self.is_logging()) else { return Ok(()) };
        let Some(node) = self.node() else { return Ok(()) };
        let next = match policy {
            Policy::Always => Durability::Always,
            Policy::EverySec | Policy::No => Durability::Everysec,
        };
        let note = |durability| {
            self.note(durability).map_err(|error| format!("the mode cannot be noted: {error}"))
        };
        if next > durability_of(&self.config) {
            note(next)?;
        }
        log.switch(policy);
        node.promises.wait_for_syncs(policy == Policy::Always);
        if next < durability_of(&self.config) {
            // What was acknowledged by the weaker policy is as safe from here on.
            log.sync_now().map_err(|error| error.to_string())?;
            note(next)?;
        }
        Ok(())
    }

    /// The log has nothing of what is in memory: it counts once a checkpoint carries it.
    fn switch_on(self: &Arc<Self>) -> Result<(), String> {
        if self.is_logging() {
            return Ok(());
        }
        if self.was_opened.load(Ordering::SeqCst) {
            return Err("the log was switched off in this run: start the node again".to_owned());
        }
        let node = self.node().ok_or("the node ends")?;
        if node.loading.is_active() {
            return Err("the node is loading".to_owned());
        }
        if node.rooms.stage_counts().stages > 0 {
            return Err("slots are on their way to this node: try again when they are here".into());
        }
        let after = self.checkpoint.load(Ordering::SeqCst) + 1;
        let log = self.open_fresh(after).map_err(|error| error.to_string())?;
        self.begin_logging(&node, log);
        // Whoever was in a room then is out, and what it did is in no log.
        node.rooms.pass_all();
        node.rooms.drop_unlogged_stages();
        self.rounds.order_anchor();
        Ok(())
    }

    fn switch_off(&self) -> Result<(), String> {
        if !self.is_logging() {
            return Ok(());
        }
        let node = self.node().ok_or("the node ends")?;
        self.note(Durability::Memory).map_err(|error| error.to_string())?;
        self.is_logging.store(false, Ordering::SeqCst);
        node.rooms.stop_journal();
        node.promises.wait_for_syncs(false);
        // Replies that wait must find their syncs.
        if let Some(log) = self.log.lock().as_ref() {
            log.switch(Policy::EverySec);
        }
        Ok(())
    }
}
