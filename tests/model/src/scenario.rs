//! Scenarios as text: one action a line, what it did below it.
//! ```text
//! # Why the rule is there, in words.
//! rule fenced                      the rule that is switched off
//! also off built_beside            other rules that are off in both replays, if any
//! world pair
//! A executes a write               an action, as `Action` prints itself
//!     -> write                     the branch it took; for the log, the row after it
//! without the rule: MembersHold    what breaks at the end
//! with the rule: refused: ...      the first action that cannot be done; or `holds`
//! ```
//! Invariant: a scenario breaks its promise without the rule, and never with it.

use crate::actions::{Action, enabled};
use crate::properties::{Broken, check};
use crate::rules::Rules;
use crate::state::State;
use crate::step::{Branch, step};
use crate::world::{Limits, World};
use std::fmt::Write as _;

/// A scenario that was read.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The rule it shows.
    pub rule: String,
    /// Rules that are off, with it and without it.
    pub also_off: Vec<String>,
    /// Where it begins.
    pub world: World,
    /// Comments and actions, in order.
    pub lines: Vec<String>,
}

/// How a replay ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// An action could not be taken.
    Refused(String),
    /// All were taken and nothing broke.
    Holds,
    /// A promise broke.
    Breaks(Broken),
}

impl Scenario {
    /// Reads a scenario; recorded outcomes are left out.
    pub fn read(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario {
            rule: String::new(),
            also_off: Vec::new(),
            world: World::Pair,
            lines: Vec::new(),
        };
        for line in text.lines() {
            if let Some(rule) = line.strip_prefix("rule ") {
                rule.clone_into(&mut scenario.rule);
            } else if let Some(rules) = line.strip_prefix("also off ") {
                scenario.also_off = rules.split(' ').map(str::to_owned).collect();
            } else if let Some(name) = line.strip_prefix("world ") {
                let world = World::named(name);
                scenario.world = world.ok_or_else(|| format!("`{name}` is no world"))?;
            } else if !line.starts_with("with") && !line.starts_with(' ') && !line.is_empty() {
                scenario.lines.push(line.to_owned());
            }
        }
        Rules::without([scenario.rule.as_str()])?;
        Ok(scenario)
    }

    /// The rules of a replay.
    pub fn rules(&self, with_the_rule: bool) -> Result<Rules, String> {
        let off = self.also_off.iter().map(String::as_str);
        let rule = (!with_the_rule).then_some(self.rule.as_str());
        Rules::without(off.chain(rule))
    }

    /// Replays it; `out` gets the text with what each action did.
    pub fn replay(&self, rules: &Rules, out: &mut String) -> Outcome {
        let mut state = self.world.state();
        for line in &self.lines {
            if line.starts_with('#') {
                let _ = writeln!(out, "{line}");
                continue;
            }
            let Some(action) = action_of(rules, &state, line) else {
                return Outcome::Refused(line.clone());
            };
            let Some((next, branch)) = step(rules, &state, &action) else {
                return Outcome::Refused(line.clone());
            };
            let _ = writeln!(out, "{action}");
            let _ = writeln!(out, "    -> {}", outcome(&state, &next, branch));
            state = next;
            if let Some(broken) = check(rules, &state) {
                return Outcome::Breaks(broken);
            }
        }
        Outcome::Holds
    }

    /// The whole text, with outcomes as they are today.
    pub fn render(&self) -> Result<String, String> {
        let mut out = String::new();
        let head = self.lines.iter().take_while(|line| line.starts_with('#'));
        for line in head.clone() {
            let _ = writeln!(out, "{line}");
        }
        let _ = writeln!(out, "rule {}", self.rule);
        if !self.also_off.is_empty() {
            let _ = writeln!(out, "also off {}", self.also_off.join(" "));
        }
        let _ = writeln!(out, "world {}", self.world.name());
        let rest = Scenario { lines: self.lines[head.count()..].to_vec(), ..self.clone() };
        let without = rest.replay(&self.rules(false)?, &mut out);
        let with = rest.replay(&self.rules(true)?, &mut String::new());
        let _ = writeln!(out, "without the rule: {without}");
        let _ = writeln!(out, "with the rule: {with}");
        Ok(out)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Refused(line) => write!(f, "refused: {line}"),
            Outcome::Holds => f.write_str("holds"),
            Outcome::Breaks(broken) => write!(f, "{broken}"),
        }
    }
}

fn action_of(rules: &Rules, state: &State, line: &str) -> Option<Action> {
    let mut actions = Vec::new();
    enabled(rules, &Limits::WALK, state, &mut actions);
    // A line may be cut short by `...` while it is written; outcomes are recorded in full.
    let (text, whole) = line.strip_suffix("...").map_or((line, true), |text| (text, false));
    actions.into_iter().find(|action| {
        let name = action.to_string();
        if whole { name == text } else { name.starts_with(text) }
    })
}

fn outcome(before: &State, after: &State, branch: Branch) -> String {
    if after.version() == before.version() {
        return branch.to_owned();
    }
    format!("{branch}; table {}: {}", after.version(), after.newest().row)
}
