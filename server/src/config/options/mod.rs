//! All options, by theme. To add one, add a declaration to the slice of its theme.
//!
//! Not how they are read or changed (`config`).
//!
//! Invariant: names and aliases are unique (a test holds it).

mod cluster;
mod compatibility;
mod data_types;
mod limits;
mod logging;
mod memory;
mod network;
mod persistence;

use super::declaration::Declaration;

pub(super) use cluster::seed;

/// Heading and options of each theme, in the order of the manual.
pub(super) const THEMES: &[(&str, &[Declaration])] = &[
    ("Network", network::OPTIONS),
    ("Limits", limits::OPTIONS),
    ("Memory", memory::OPTIONS),
    ("Data types", data_types::OPTIONS),
    ("Persistence", persistence::OPTIONS),
    ("Cluster", cluster::OPTIONS),
    ("Logging and monitoring", logging::OPTIONS),
    ("Compatibility", compatibility::OPTIONS),
];

/// Largest value of most whole numbers, as in Redis.
const INT_MAX: i64 = i32::MAX as i64;

/// All options in one fixed order.
pub(super) fn all() -> impl Iterator<Item = &'static Declaration> {
    THEMES.iter().flat_map(|(_, declarations)| declarations.iter())
}

/// The option of this name or alias, in any case, and its place in [`all`].
pub(super) fn find(name: &str) -> Option<(usize, &'static Declaration)> {
    all().enumerate().find(|(_, d)| d.names().any(|n| n.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::config::value::Value;

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        for name in all().flat_map(Declaration::names) {
            assert!(seen.insert(name), "{name} is declared twice");
            assert_eq!(name, name.to_ascii_lowercase());
        }
    }

    #[test]
    fn every_default_is_accepted_and_canonical() {
        for declaration in all() {
            let default = declaration.default_value();
            assert_eq!(default.text, declaration.default, "{}", declaration.name);
            let again = declaration.parse_set(&default.text, &Value::default());
            assert_eq!(again, Ok(default), "{}", declaration.name);
        }
    }

    #[test]
    fn every_option_is_explained_in_a_sentence() {
        for declaration in all() {
            let sentences = [Some(declaration.summary), declaration.compat];
            for sentence in sentences.into_iter().flatten() {
                assert!(sentence.ends_with('.'), "{}: {sentence}", declaration.name);
            }
        }
    }
}
