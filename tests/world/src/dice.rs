//! Every choice of a run, drawn from its seed.
//!
//! Invariant: nothing else decides; so a seed is a whole run.

use slotd::command::Rng;

/// A source of choices.
#[derive(Clone, Debug)]
pub struct Dice(Rng);

impl Dice {
    /// The choices of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(Rng::seeded(seed))
    }

    /// Uniform in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.0.below(n) }
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low + 1) as usize) as u64
    }

    /// True in `permille` of 1000 cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        (self.below(1000) as u64) < permille
    }

    /// One of these; `None` of none.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let at = self.below(of.len());
        of.get(at).cloned()
    }

    /// Random bytes, for ids.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.0.next_u64() as u8)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}
