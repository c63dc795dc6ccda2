//! What this node promises of a reply beyond its own memory, and how far it has got.
//!
//! Nothing by default: one copy in memory and no log means no tags, and the gate costs one load a
//! batch. A log synced before the answer, or counted members, switch it on and raise the
//! watermarks; today a test hook does (`DEBUG SLOW-WATERMARK ms`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use slots::{OpIndex, SlotId};

use crate::command::client::client_flag;
use crate::command::mailbox::letter;
use crate::command::state::Clients;
use crate::gate::{Tag, Watermarks};

/// The node's promises. Switched on for good: replies that wait must find their watermarks.
#[derive(Default)]
pub struct Promises {
    active: AtomicBool,
    /// Raised this long after it is noted; 0 = only by hand.
    delay_ns: AtomicU64,
    marks: Mutex<Watermarks>,
    /// Tags noted under a delay, with the time they become safe.
    due: Mutex<Vec<(u64, Tag)>>,
}

impl Promises {
    /// Is anything promised? One load.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// From now on replies wait for `raise`.
    pub fn activate(&self) {
        self.active.store(true, Ordering::SeqCst);
    }

    /// From now on replies wait, and an op counts as safe `delay_ns` after it was noted.
    pub fn activate_slow(&self, delay_ns: u64) {
        self.delay_ns.store(delay_ns, Ordering::SeqCst);
        self.activate();
    }

    /// The tag of a reply that depends on everything in `slot` up to `index`. A lane of the log
    /// will take the slot's place in it.
    pub fn tag(slot: SlotId, index: OpIndex) -> Tag {
        Tag { lane: slot.number(), position: index.0, set: 0 }
    }

    /// Notes a tag, so that a slow watermark reaches it in time.
    pub fn note(&self, tag: Tag, now_ns: u64) {
        let delay = self.delay_ns.load(Ordering::Relaxed);
        if delay != 0 {
            self.due.lock().push((now_ns.saturating_add(delay), tag));
        }
    }

    /// The watermarks, to ask.
    pub fn marks(&self) -> MutexGuard<'_, Watermarks> {
        self.marks.lock()
    }

    /// Everything up to `tag` is safe: wakes the connections that hold replies back.
    pub fn raise(&self, tag: Tag, clients: &Clients) {
        if self.marks.lock().raise(tag) {
            wake(clients);
        }
    }

    /// Raises what a slow watermark has reached. The node's ticker calls it.
    pub fn tick(&self, now_ns: u64, clients: &Clients) {
        if !self.is_active() {
            return;
        }
        let mut raised = false;
        self.due.lock().retain(|(at, tag)| {
            let reached = *at <= now_ns;
            raised |= reached && self.marks.lock().raise(*tag);
            !reached
        });
        if raised {
            wake(clients);
        }
    }
}

/// The flag is set before the marks are asked, so nobody who waits is missed.
fn wake(clients: &Clients) {
    for client in clients.all() {
        if client.has_flag(client_flag::GATED) {
            client.mailbox.post(letter::GATE);
        }
    }
}
