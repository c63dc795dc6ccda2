//! Each rule has a scenario: without the rule it breaks a promise, with all rules it does not.
//!
//! `UPDATE_EXPECT=1` writes the outcomes anew; read the difference.

use slot_model::{Outcome, Rules, Scenario};
use std::path::{Path, PathBuf};

fn path(rule: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(format!("{rule}.txt"))
}

fn check(rule: &str) -> Result<(), String> {
    let path = path(rule);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{rule}: {error}"))?;
    let scenario = Scenario::read(&text)?;
    if scenario.rule != rule {
        return Err(format!("{rule}: the scenario is of `{}`", scenario.rule));
    }
    if !scenario.lines.first().is_some_and(|line| line.starts_with('#')) {
        return Err(format!("{rule}: no word on why the rule is there"));
    }
    let rendered = scenario.render()?;
    if rendered != text {
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &rendered).map_err(|error| format!("{rule}: {error}"))?;
        } else {
            return Err(format!("{rule}: recorded\n{text}\nbut today\n{rendered}"));
        }
    }
    match scenario.replay(&scenario.rules(false)?, &mut String::new()) {
        Outcome::Breaks(_) => (),
        other => return Err(format!("{rule}: without the rule: {other}")),
    }
    // With it, and then with all of them.
    for rules in [scenario.rules(true)?, Rules::ALL] {
        if let Outcome::Breaks(broken) = scenario.replay(&rules, &mut String::new()) {
            return Err(format!("{rule}: with the rule: {broken}"));
        }
    }
    Ok(())
}

#[test]
fn every_rule_has_a_scenario_that_breaks_without_it() {
    let wrong: Vec<String> = Rules::NAMES.iter().filter_map(|rule| check(rule).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), Rules::NAMES.len(), wrong.join("\n"));
}

#[test]
fn every_scenario_is_of_a_rule() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    for entry in std::fs::read_dir(folder).expect("the scenarios") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(Rules::NAMES.contains(&name), "{name} is no rule");
    }
}

#[test]
fn every_rule_stands_in_the_manual() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("server/src/manual/protocol-model.md"));
    let text = text.expect("the chapter");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let named = rows.iter().map(|row| row.split('`').nth(1).unwrap_or_default());
    assert_eq!(named.collect::<Vec<_>>(), Rules::NAMES);
    for (row, rule) in rows.iter().zip(Rules::NAMES) {
        let sentence = Rules::sentence(rule).unwrap_or_default();
        assert!(row.contains(&sentence), "{rule}: the manual says {row}, the rule {sentence}");
    }
}
