//! Time: the world's own, which no node sees, and the two clocks of each host.
//!
//! Invariant: a host's monotonic clock never goes back; its wall clock may jump as it likes.

use slotd::command::Now;

/// World time, us since the run began.
pub type Us = u64;

/// A millisecond of world time.
pub const MS: Us = 1_000;
/// A second of world time.
pub const SECOND: Us = 1_000_000;
/// The wall clock when a run begins, unix ms.
const START_UNIX_MS: u64 = 1_700_000_000_000;
/// The honest rate of a clock, in thousandths.
pub const HONEST_RATE: u64 = 1000;

/// The clocks of one host.
#[derive(Clone, Debug)]
pub struct HostClock {
    since: Us,
    mono_ns: u64,
    rate_permille: u64,
    wall_offset_ms: i64,
}

impl HostClock {
    /// A host that has been up for this long when the run begins.
    pub fn new(up_ns: u64) -> HostClock {
        HostClock { since: 0, mono_ns: up_ns, rate_permille: HONEST_RATE, wall_offset_ms: 0 }
    }

    /// Both clocks at this world time.
    pub fn now(&self, at: Us) -> Now {
        let mono_ns = self.mono_ns + at.saturating_sub(self.since) * self.rate_permille;
        let unix_ms = (START_UNIX_MS + at / MS).saturating_add_signed(self.wall_offset_ms);
        Now { unix_ms, mono_ns }
    }

    /// From now on the monotonic clock runs at this rate, in thousandths.
    pub fn set_rate(&mut self, at: Us, rate_permille: u64) {
        self.mono_ns = self.now(at).mono_ns;
        self.since = at;
        self.rate_permille = rate_permille;
    }

    /// The wall clock jumps.
    pub fn shift_wall(&mut self, ms: i64) {
        self.wall_offset_ms += ms;
    }
}
