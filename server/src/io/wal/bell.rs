//! A bell that wakes one thread.
//!
//! Invariant: a ring before the wait ends the wait at once; rings do not add up.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A bell.
#[derive(Debug, Default)]
pub(super) struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    pub(super) fn ring(&self) {
        let mut is_rung = self.is_rung.lock();
        if !*is_rung {
            *is_rung = true;
            self.rung.notify_one();
        }
    }

    /// Until it rings, or so long.
    pub(super) fn wait(&self, at_most: Duration) {
        let mut is_rung = self.is_rung.lock();
        if !*is_rung {
            self.rung.wait_for(&mut is_rung, at_most);
        }
        *is_rung = false;
    }
}
