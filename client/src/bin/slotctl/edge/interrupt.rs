//! Ctrl-C and SIGTERM while something is watched that goes on without slotctl.
//!
//! Not what is said then. Invariant: the first one sets a flag, the second ends the process as if
//! nobody listened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether somebody wants an end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from here on.
    pub(crate) fn listen() -> Interrupt {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Where nobody can listen the signal ends the process at once: the watched goes on
            // either way.
            let _ = flag::register_conditional_default(signal, asked.clone());
            let _ = flag::register(signal, asked.clone());
        }
        Interrupt(asked)
    }

    /// Was there one?
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
