//! What threads wait for: a bell that wakes one, news that all who wait hear of.
//!
//! Invariant: a ring before the wait ends the wait at once, and rings do not add up; news after
//! the count was seen ends every wait.

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

/// News.
#[derive(Debug, Default)]
pub(super) struct News {
    count: Mutex<u64>,
    told: Condvar,
}

impl News {
    pub(super) fn tell(&self) {
        *self.count.lock() += 1;
        self.told.notify_all();
    }

    /// To be read before the look at what the news are of.
    pub(super) fn seen(&self) -> u64 {
        *self.count.lock()
    }

    /// Until there are news since `seen`, or so long; were there any?
    pub(super) fn wait(&self, seen: u64, at_most: Duration) -> bool {
        let mut count = self.count.lock();
        let out = self.told.wait_while_for(&mut count, |count| *count == seen, at_most);
        !out.timed_out()
    }
}
