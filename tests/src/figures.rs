//! Figures of processes and of waiting times: RSS and CPU from `/proc`, percentiles, histograms.
//!
//! Linux only. Invariant: a figure that cannot be read is an error, never a zero.

use std::fs;
use std::io;
use std::time::Duration;

/// Resident memory of a process, in bytes.
pub fn rss_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map(|kb| kb * 1024).ok_or_else(|| unreadable("VmRSS"))
}

/// CPU time a process's living threads have used, from their `schedstat`.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let first = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        total += first.ok_or_else(|| unreadable("schedstat"))?;
    }
    Ok(Duration::from_nanos(total))
}

/// How many file descriptors this process may have open (its soft limit).
pub fn descriptor_limit() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let word = line.and_then(|rest| rest.split_whitespace().next()).map(str::to_owned);
    match word.as_deref() {
        Some("unlimited") => Ok(u64::MAX),
        Some(number) => number.parse().map_err(|_| unreadable("Max open files")),
        None => Err(unreadable("Max open files")),
    }
}

fn unreadable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc does not show {what}"))
}

/// Waiting times, kept whole: exact percentiles for the few million samples of a probe.
#[derive(Default)]
pub struct Waits {
    nanos: Vec<u64>,
}

impl Waits {
    /// Adds one waiting time.
    pub fn add(&mut self, wait: Duration) {
        self.nanos.push(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes over the samples of another.
    pub fn absorb(&mut self, other: Waits) {
        self.nanos.extend(other.nanos);
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// The longest wait; zero without samples.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.nanos.iter().copied().max().unwrap_or(0))
    }

    /// The smallest wait that at least `share` (0 to 1) of the samples do not exceed.
    pub fn percentile(&mut self, share: f64) -> Duration {
        self.nanos.sort_unstable();
        let rank = (share * self.nanos.len() as f64).ceil() as usize;
        let at = rank.clamp(1, self.nanos.len().max(1)) - 1;
        Duration::from_nanos(self.nanos.get(at).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred_known_waits() {
        let mut waits = Waits::default();
        (1..=100).rev().for_each(|ms| waits.add(Duration::from_millis(ms)));
        assert_eq!(waits.percentile(0.5), Duration::from_millis(50));
        assert_eq!(waits.percentile(0.99), Duration::from_millis(99));
        assert_eq!(waits.percentile(1.0), Duration::from_millis(100));
        assert_eq!(waits.longest(), Duration::from_millis(100));
    }

    #[test]
    fn this_process_has_memory_and_cpu_time() {
        let pid = std::process::id();
        assert!(rss_bytes(pid).expect("readable") > 100_000);
        assert!(cpu_time(pid).expect("readable") > Duration::ZERO);
        assert!(descriptor_limit().expect("readable") > 0);
    }
}
