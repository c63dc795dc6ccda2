//! Seeded choices of tests and probes: the same seed, the same choices.
//!
//! Not random for secrets. Invariant: no call looks at anything but the dice's own state.

/// A generator (xorshift, Marsaglia 2003), good enough to choose moments and keys.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // Small seeds differ in few bits: the first numbers would, too.
        for _ in 0..8 {
            dice.next();
        }
        dice
    }

    /// Other dice, thrown by these.
    pub fn split(&mut self) -> Self {
        Self::new(self.next())
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }

    /// A number of this range.
    pub fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// Whether a chance of `percent` came true.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_throws_and_another_gives_others() {
        let throws = |seed| (0..20).scan(Dice::new(seed), |d, _| Some(d.below(1000))).collect();
        let first: Vec<u64> = throws(1);
        assert_eq!(first, throws(1));
        assert_ne!(first, throws(2));
        assert!(first.iter().all(|number| *number < 1000));
    }
}
