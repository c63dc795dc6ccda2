//! A room's door: the lock, and the admission word beside it.
//!
//! A table change never waits for whoever is inside (PROTOCOL 5): it installs the word with a
//! note in it, and the note is met, under the lock, by the first of: the installer itself if
//! nobody is inside; whoever is inside, when leaving; `settle`, which the node's ticker calls
//! until it succeeds. The last is there because the installer may find the lock taken by somebody
//! who has looked for a note already.
//!
//! Invariant: whoever enters after `install` has returned sees what it installed, and a note is
//! met exactly once.

use slots::Epoch;

use crate::slot::admission::{Admission, Ownership, Refused};
use crate::slot::sync::{Mutex, MutexGuard};

/// The word and the lock around `T`.
#[repr(C)]
pub struct Door<T> {
    admission: Admission,
    lock: Mutex<T>,
}

impl<T> Door<T> {
    /// A door that refuses everybody until a table is known.
    pub fn new(inside: T) -> Door<T> {
        Door { admission: Admission::unknown(), lock: Mutex::new(inside) }
    }

    /// Goes in if nobody is inside.
    #[inline]
    pub fn try_enter(&self) -> Option<MutexGuard<'_, T>> {
        self.lock.try_lock()
    }

    /// Goes in, waiting for whoever is inside.
    pub fn enter(&self) -> MutexGuard<'_, T> {
        self.lock.lock()
    }

    /// The lock itself, for waits with a time limit.
    pub fn lock(&self) -> &Mutex<T> {
        &self.lock
    }

    /// May one who is inside touch what is there? Asked under the lock: the answer holds as long
    /// as the hold does, in that a change that comes meanwhile counts as after it.
    #[inline]
    pub fn check(&self, _inside: &MutexGuard<'_, T>) -> Result<Epoch, Refused> {
        self.admission.check()
    }

    /// Is there a change that nobody has met? Whoever goes in meets it first.
    #[inline]
    pub fn has_note(&self) -> bool {
        self.admission.has_note()
    }

    /// What is installed, without going in.
    #[inline]
    pub fn installed(&self) -> (Ownership, Epoch) {
        self.admission.load()
    }

    /// Installs a relation. `meet` is called at once if nobody is inside; else false, and the
    /// caller sees to `settle`.
    pub fn install(
        &self,
        ownership: Ownership,
        epoch: Epoch,
        meet: impl FnMut(&mut T, Ownership, Epoch),
    ) -> bool {
        self.admission.install(ownership, epoch);
        self.settle(meet)
    }

    /// As `install`, where the word still says `expected`. `None`: it does not, and nothing was
    /// done.
    pub fn install_over(
        &self,
        expected: (Ownership, Epoch),
        ownership: Ownership,
        meet: impl FnMut(&mut T, Ownership, Epoch),
    ) -> Option<bool> {
        self.admission.install_over(expected, ownership).then(|| self.settle(meet))
    }

    /// Meets the note if there is one and nobody is inside. True if no note is left.
    pub fn settle(&self, meet: impl FnMut(&mut T, Ownership, Epoch)) -> bool {
        match self.lock.try_lock() {
            Some(mut inside) => {
                self.leave(&mut inside, meet);
                true
            }
            None => !self.admission.has_note(),
        }
    }

    /// To be called before the lock is let go: meets a change that came meanwhile. A load where
    /// none did.
    #[inline]
    pub fn leave(&self, inside: &mut T, mut meet: impl FnMut(&mut T, Ownership, Epoch)) {
        while self.admission.has_note()
            && let Some((ownership, epoch)) = self.admission.take_note()
        {
            meet(inside, ownership, epoch);
        }
    }
}
