//! The two clocks and random seeds.

#![allow(unsafe_code, reason = "clock_gettime(CLOCK_BOOTTIME) has no safe wrapper in std")]

use std::time::{SystemTime, UNIX_EPOCH};

use crate::command::Now;

/// Reads both clocks: CLOCK_BOOTTIME (goes on while the machine sleeps) and the wall clock.
#[inline]
pub fn now() -> Now {
    Now { unix_ms: unix_ms(), mono_ns: mono_ns() }
}

#[inline]
#[allow(clippy::disallowed_methods, reason = "this is the place")]
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// The wall clock, us.
#[allow(clippy::disallowed_methods, reason = "this is the place")]
pub fn unix_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
}

#[inline]
fn mono_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; the clock id is valid on every Linux we run on.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    assert_eq!(failed, 0, "CLOCK_BOOTTIME exists since Linux 2.6.39");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// 64 bits from the system's generator.
pub fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system's random generator answers");
    u64::from_le_bytes(bytes)
}

/// User and system CPU seconds of this process.
pub fn cpu_seconds() -> (f64, f64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the struct it is given; zeroed is a valid rusage if it fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Asks that this thread is not put off the processor while others could use it: it holds locks
/// that they wait for, for moments, and rests in between, at least half of the time. Ahead of
/// every thread of the usual class if that may be had, else with a better nice value; where neither
/// is allowed (both take CAP_SYS_NICE, or a limit set for it) nothing changes.
pub fn prefer_this_thread() {
    /// The lowest of the real-time class: everything an operator puts there comes first.
    const PARAM: libc::sched_param = libc::sched_param { sched_priority: 1 };
    /// Ahead of what serves clients, behind what an operator prefers.
    const NICE: libc::c_int = -10;
    // Whatever this thread begins is of the usual class.
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the struct lives; on Linux 0 names the calling thread alone.
    unsafe {
        if libc::sched_setscheduler(0, policy, &PARAM) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
        }
    };
}

/// Raises the limit of open files to the hard limit; returns the limit in force.
pub fn raise_open_files(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to a live rlimit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 0;
        }
        if limit.rlim_cur < wanted {
            let raised = libc::rlimit {
                rlim_cur: wanted.min(limit.rlim_max.max(wanted)),
                rlim_max: limit.rlim_max.max(wanted),
            };
            let most = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) != 0 {
                libc::setrlimit(libc::RLIMIT_NOFILE, &most);
            }
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        }
    }
    limit.rlim_cur
}
