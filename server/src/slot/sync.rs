//! The lock and the atomics of a room's door: parking_lot's and std's, or loom's in its model
//! (tests/tests/loom_door.rs), so that the door's own code is what loom explores.

#[cfg(not(feature = "loom"))]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(not(feature = "loom"))]
pub use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "loom")]
pub use loom_sync::*;

#[cfg(feature = "loom")]
mod loom_sync {
    pub use loom::sync::MutexGuard;
    pub use loom::sync::atomic::{AtomicU64, Ordering};

    /// loom's lock with parking_lot's signatures.
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// An open lock.
        pub fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        /// Waits.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics under the lock")
        }

        /// Does not wait.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}
