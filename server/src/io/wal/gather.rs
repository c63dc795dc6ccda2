//! Before a round of `always`: waits a little for those whom the last one answered.
//!
//! ```text
//!   without:  sync a | sync b | sync a | ...    half of the clients wait for the others' sync
//!   with:     sync a b . sync a b . ...         as many writes in half the syncs, each sooner
//! ```
//! Not the sync (`persist/log/round`). Invariant: it ends after half of what a sync takes, after a
//! pause in which nobody came, and sooner if they come slowly; who is alone is never waited for.

use std::time::Duration;

/// Of a sync's time: a pause in which somebody has to come. A client on the same network is back
/// within it, or will not be for long.
const PAUSES_PER_SYNC: u32 = 16;
/// Of a sync's time: so long is waited for whoever comes. After that only if they come so fast that
/// all of them are back within a sync's time: else it is sooner done without the rest.
const FREE_PART: u32 = 8;
/// Bounds of a pause: a thread is not woken more exactly; and no disk is worth a longer one.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// Clients that wait for a sync.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Crowd {
    /// So many wait now.
    pub here: usize,
    /// So many may wait soon: the last rounds answered them.
    pub expected: usize,
}

impl Crowd {
    fn is_whole(self) -> bool {
        self.expected <= 1 || self.here >= self.expected
    }
}

/// Waits for the crowd, by `pause`, which may end before its time and returns how long it took.
pub(super) fn gather(
    last_sync: Duration,
    crowd: &dyn Fn() -> Crowd,
    pause: &mut dyn FnMut(Duration) -> Duration,
) {
    let (least, most) = PAUSE;
    let at_most = (last_sync / PAUSES_PER_SYNC).clamp(least, most);
    let mut passed = Duration::ZERO;
    let mut now = crowd();
    while !now.is_whole() && passed < last_sync / 2 {
        let took = pause(at_most);
        passed += took;
        let before = std::mem::replace(&mut now, crowd());
        let came = now.here.saturating_sub(before.here) as u128;
        let is_fast = came * last_sync.as_nanos() >= now.expected as u128 * took.as_nanos();
        if came == 0 || !is_fast && passed >= last_sync / FREE_PART {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SYNC: Duration = Duration::from_micros(1600);

    /// How many pauses it makes when so many are there at first and after each of them.
    fn pauses(expected: usize, here: &[usize]) -> usize {
        let made = Cell::new(0);
        let crowd = || Crowd { here: here[made.get().min(here.len() - 1)], expected };
        gather(SYNC, &crowd, &mut |at_most| {
            assert_eq!(at_most, SYNC / 16);
            made.set(made.get() + 1);
            at_most
        });
        made.get()
    }

    #[test]
    fn all_are_there() {
        assert_eq!(pauses(50, &[50]), 0);
        assert_eq!(pauses(50, &[60]), 0, "and others");
    }

    #[test]
    fn who_is_alone_does_not_wait() {
        assert_eq!(pauses(1, &[0, 1]), 0, "who appended is not counted yet");
        assert_eq!(pauses(0, &[1]), 0);
    }

    #[test]
    fn the_last_one_ends_the_wait() {
        assert_eq!(pauses(50, &[10, 30, 50]), 2);
    }

    #[test]
    fn a_pause_without_anyone_ends_it() {
        assert_eq!(pauses(50, &[10]), 1);
        assert_eq!(pauses(50, &[10, 20, 20, 50]), 2);
        assert_eq!(pauses(50, &[0]), 1, "all have left");
    }

    #[test]
    fn half_a_sync_ends_it() {
        let by_tens: Vec<usize> = (0..10).map(|nth| nth * 10).collect();
        assert_eq!(pauses(160, &by_tens), 8);
    }

    #[test]
    fn those_who_come_slowly_are_waited_for_an_eighth_of_a_sync() {
        let one_by_one: Vec<usize> = (0..100).collect();
        assert_eq!(pauses(100, &one_by_one), 2);
    }

    #[test]
    fn before_the_first_sync_nobody_waits() {
        let crowd = || Crowd { here: 1, expected: 9 };
        gather(Duration::ZERO, &crowd, &mut |_| panic!("no pause"));
    }
}
