//! What a run, or many, met: transitions, changes, refusals, faults, replies.

use std::collections::BTreeMap;
use std::fmt;

use slots::ChangeRefused;

/// Every reason a change is refused for.
const REASONS: [&str; 38] = [
    "OldEntry",
    "OtherCluster",
    "NoCluster",
    "ClusterExists",
    "SettingFell",
    "OutOfLimits",
    "Text",
    "UnknownNode",
    "NodeRemoved",
    "NotActive",
    "IdInUse",
    "StoreInUse",
    "NameInUse",
    "TooManyNodes",
    "TooManyLabels",
    "StillOwns",
    "StillInSync",
    "StillTarget",
    "NotRemoved",
    "OldBoot",
    "OtherBoot",
    "NotItself",
    "Stale",
    "Unowned",
    "Owned",
    "NotOwner",
    "IsOwner",
    "AlreadyInSync",
    "NotInSync",
    "NotFollower",
    "TooManyMembers",
    "AckIsLocal",
    "AckIsInSync",
    "OthersInSync",
    "NoMove",
    "OtherMove",
    "LossNotAccepted",
    "BrokenInvariant",
];
/// Reasons that no run should meet, and why.
const UNMET: [(&str, &str); 3] = [
    ("OldEntry", "nodes pass over entries they have"),
    ("TooManyNodes", "4,096 nodes are another test's"),
    ("BrokenInvariant", "would be a defect: TABLE fails"),
];

/// A refusal's name.
pub fn refusal_name(refusal: &ChangeRefused) -> String {
    let text = format!("{refusal:?}");
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// Counts by kind and name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage(BTreeMap<(&'static str, String), u64>);

impl Coverage {
    /// One more.
    pub fn count(&mut self, kind: &'static str, name: &str) {
        *self.0.entry((kind, name.to_owned())).or_default() += 1;
    }

    /// How many.
    pub fn of(&self, kind: &'static str, name: &str) -> u64 {
        self.0.get(&(kind, name.to_owned())).copied().unwrap_or(0)
    }

    /// Names of a kind that were met.
    pub fn names(&self, kind: &'static str) -> impl Iterator<Item = &str> {
        self.0.keys().filter(move |(k, _)| *k == kind).map(|(_, name)| name.as_str())
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Coverage) {
        for (key, count) in &other.0 {
            *self.0.entry(key.clone()).or_default() += count;
        }
    }

    /// Reasons of refusal that were never met though they should be.
    pub fn missed_reasons(&self) -> Vec<&'static str> {
        let is_met = |name: &str| self.of("reason", name) > 0;
        let is_unmet = |name: &str| UNMET.iter().any(|(unmet, _)| *unmet == name);
        REASONS.into_iter().filter(|name| !is_met(name) && !is_unmet(name)).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kind_before = "";
        for ((kind, name), count) in &self.0 {
            if *kind != kind_before {
                writeln!(f, "{kind}")?;
                kind_before = kind;
            }
            writeln!(f, "  {count:>9}  {name}")?;
        }
        let missed = self.missed_reasons();
        writeln!(f, "refusals never met: {}", if missed.is_empty() { "none" } else { "" })?;
        missed.iter().try_for_each(|name| writeln!(f, "  {name}"))?;
        UNMET.iter().try_for_each(|(name, why)| writeln!(f, "  {name} (never: {why})"))
    }
}
