//! Seeded walks: many random ways through the protocol, each ending where a promise breaks or
//! where its steps run out.
//!
//! Steps are drawn by weight, so that walks get somewhere: what makes progress is likely, what
//! destroys it is rare. The counters say which branches were reached, and how often.
//!
//! Invariant: the same seed takes the same way.

use crate::actions::{Action, enabled};
use crate::properties::{Broken, check};
use crate::rules::Rules;
use crate::state::State;
use crate::step::{Branch, step};
use crate::table::Change;
use crate::world::{Limits, World};
use std::collections::BTreeMap;

/// Steps of one walk: a move with a snapshot, a crash and a promotion fit twice.
const WALK_STEPS: usize = 140;

/// SplitMix64: small, seeded, the same everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

/// Which branches were taken, how often.
pub type Coverage = BTreeMap<Branch, u64>;

/// A broken promise and the way to it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What broke.
    pub broken: Broken,
    /// Where it began.
    pub world: World,
    /// What was done.
    pub trace: Vec<Action>,
    /// The seed that found it.
    pub seed: u64,
}

/// What many walks came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Walks taken.
    pub walks: u64,
    /// Steps taken.
    pub steps: u64,
    /// Branches reached.
    pub coverage: Coverage,
    /// Walks that ended in a broken promise.
    pub failures: u64,
    /// The shortest of them.
    pub shortest: Option<Failure>,
}

impl Tally {
    /// Takes the walk of one seed, in the world it draws.
    pub fn walk(&mut self, rules: &Rules, seed: u64) {
        self.walks += 1;
        let mut random = Random::new(seed);
        let world = World::ALL[random.below(World::ALL.len() as u64) as usize];
        let (mut state, mut trace) = (world.state(), Vec::new());
        for _ in 0..WALK_STEPS {
            let Some((action, next, branch)) = draw(rules, &state, &mut random) else { break };
            self.steps += 1;
            *self.coverage.entry(branch).or_default() += 1;
            trace.push(action);
            state = next;
            if let Some(broken) = check(rules, &state) {
                self.failures += 1;
                let shorter = |known: &Failure| trace.len() < known.trace.len();
                if self.shortest.as_ref().is_none_or(shorter) {
                    self.shortest = Some(Failure { broken, world, trace, seed });
                }
                return;
            }
        }
    }
}

fn draw(rules: &Rules, state: &State, random: &mut Random) -> Option<(Action, State, Branch)> {
    let mut actions = Vec::new();
    enabled(rules, &Limits::WALK, state, &mut actions);
    while !actions.is_empty() {
        let total = actions.iter().map(weight).sum();
        let mut left = random.below(total);
        let at = actions.iter().position(|action| {
            let here = weight(action);
            let found = left < here;
            left = left.saturating_sub(here);
            found
        });
        let action = actions.swap_remove(at?);
        if let Some((next, branch)) = step(rules, state, &action) {
            return Some((action, next, branch));
        }
    }
    None
}

fn weight(action: &Action) -> u64 {
    match action {
        Action::Deliver { again: false, .. } | Action::Learn(_) => 40,
        Action::Commit(Change::Start { .. }) | Action::HandOver(_) | Action::Grow { .. } => 40,
        Action::Commit(_) | Action::Reply { .. } => 30,
        Action::Grant { .. } | Action::GiverLets { .. } | Action::Count { .. } => 20,
        Action::Write(_) | Action::Mark(_) | Action::Seal(_) | Action::Free(_) => 20,
        Action::SendPiece { .. } | Action::Sync(_) | Action::Send { .. } => 12,
        Action::Skip(_) | Action::Read(_) | Action::AskTakeOver(_) => 10,
        Action::Order(Change::BeginMove { .. }) | Action::HolderLets { .. } => 10,
        Action::AskPromote(_) | Action::Shrink { .. } | Action::GiveUp { .. } => 8,
        Action::Order(_) | Action::Unseal(_) | Action::Lose(_) => 4,
        Action::Deliver { again: true, .. } => 3,
        Action::Crash { .. } => 3,
    }
}

/// The state a trace leads to, and what breaks there. Steps that cannot be taken are left out.
pub fn follow(
    rules: &Rules,
    world: World,
    trace: &[Action],
) -> (State, Vec<Action>, Option<Broken>) {
    let (mut state, mut taken) = (world.state(), Vec::new());
    for action in trace {
        let mut actions = Vec::new();
        enabled(rules, &Limits::WALK, &state, &mut actions);
        if !actions.contains(action) {
            continue;
        }
        let Some((next, _)) = step(rules, &state, action) else { continue };
        taken.push(action.clone());
        state = next;
        let broken = check(rules, &state);
        if broken.is_some() {
            return (state, taken, broken);
        }
    }
    (state, taken, None)
}

/// A failure with every step left out that it does not need.
pub fn shrink(rules: &Rules, failure: &Failure) -> Failure {
    let mut best = failure.clone();
    let mut width = (best.trace.len() / 2).max(1);
    loop {
        let (mut at, mut better) = (0, false);
        while at < best.trace.len() {
            let mut shorter = best.trace.clone();
            shorter.drain(at..(at + width).min(best.trace.len()));
            let (_, taken, broken) = follow(rules, best.world, &shorter);
            if broken.is_some_and(|broken| broken == best.broken) {
                best.trace = taken;
                better = true;
            } else {
                at += width;
            }
        }
        if !better && width == 1 {
            return best;
        }
        width = (width / 2).max(1);
    }
}
