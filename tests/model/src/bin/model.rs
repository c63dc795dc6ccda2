//! Walks, searches and replays of the protocol's model, from a shell.
//!
//! ```text
//!   model list                                   the rules and their sentences
//!   model walk [--seconds N | --steps N] [--seed N] [--off RULE]...
//!   model bfs  [--states N] [--world NAME] [--off RULE]...
//!   model rule NAME [--seconds N] [--seed N]     the shortest failure, as a scenario
//!   model replay FILE                            a scenario, step by step
//! ```
//! Exit codes: 0 nothing broke, 1 something did, 2 usage.

use slot_model::{Failure, Limits, Protocol, Rules, Scenario, Tally, World, shrink};
use stateright::{Checker, Model};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode, String> {
    let options = Options { words };
    match words.first().map(String::as_str) {
        Some("list") => {
            for name in Rules::NAMES {
                println!("{name}\n    {}", Rules::sentence(name).unwrap_or_default());
            }
            Ok(ExitCode::SUCCESS)
        }
        Some("walk") => walk(&options),
        Some("bfs") => bfs(&options),
        Some("rule") => rule(&options),
        Some("replay") => replay(&options),
        _ => Err("model list | walk | bfs | rule NAME | replay FILE".to_owned()),
    }
}

struct Options<'a> {
    words: &'a [String],
}

impl Options<'_> {
    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name} takes a number, not `{text}`")),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }

    fn rules(&self) -> Result<Rules, String> {
        let offs = self.words.windows(2).filter(|pair| pair[0] == "--off");
        Rules::without(offs.map(|pair| pair[1].as_str()))
    }

    fn argument(&self) -> Result<&str, String> {
        self.words.get(1).map(String::as_str).ok_or_else(|| "what?".to_owned())
    }
}

fn walks(options: &Options<'_>, rules: &Rules, until_failure: bool) -> Result<Tally, String> {
    let seconds = options.number("--seconds", 10)?;
    let steps = options.number("--steps", u64::MAX)?;
    let mut seed = options.number("--seed", 1)?;
    let (start, mut tally) = (Instant::now(), Tally::default());
    while tally.steps < steps && start.elapsed() < Duration::from_secs(seconds) {
        tally.walk(rules, seed);
        seed += 1;
        if until_failure && tally.failures >= 40 {
            break;
        }
    }
    Ok(tally)
}

fn walk(options: &Options<'_>) -> Result<ExitCode, String> {
    let rules = options.rules()?;
    let tally = walks(options, &rules, false)?;
    for (branch, count) in &tally.coverage {
        println!("{count:>10}  {branch}");
    }
    println!("{} walks, {} steps, {} failures", tally.walks, tally.steps, tally.failures);
    Ok(match &tally.shortest {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            show(&rules, failure, "");
            ExitCode::from(1)
        }
    })
}

fn show(rules: &Rules, failure: &Failure, rule: &str) {
    let small = shrink(rules, failure);
    println!("# {} steps; found by seed {}.", small.trace.len(), failure.seed);
    println!("rule {rule}\nworld {}", small.world.name());
    for action in &small.trace {
        println!("{action}");
    }
    println!("breaks {}", small.broken);
}

fn rule(options: &Options<'_>) -> Result<ExitCode, String> {
    let name = options.argument()?;
    let offs = options.words.windows(2).filter(|pair| pair[0] == "--off");
    let offs = offs.map(|pair| pair[1].as_str());
    let rules = Rules::without(std::iter::once(name).chain(offs))?;
    let tally = walks(options, &rules, true)?;
    println!("# {} failures in {} walks, {} steps", tally.failures, tally.walks, tally.steps);
    Ok(match &tally.shortest {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            show(&rules, failure, name);
            ExitCode::from(1)
        }
    })
}

fn bfs(options: &Options<'_>) -> Result<ExitCode, String> {
    let world = options.text("--world").unwrap_or("pair");
    let world = World::named(world).ok_or_else(|| format!("`{world}` is no world"))?;
    let model = Protocol { rules: options.rules()?, limits: Limits::SEARCH, world };
    let states = options.number("--states", 200_000)? as usize;
    let checker = model.checker().target_state_count(states).spawn_bfs().join();
    println!("{} states, depth {}", checker.unique_state_count(), checker.max_depth());
    let found = checker.discoveries();
    for (name, path) in &found {
        println!("broken: {name}");
        for action in path.clone().into_actions() {
            println!("{action}");
        }
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn replay(options: &Options<'_>) -> Result<ExitCode, String> {
    let file = options.argument()?;
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    print!("{}", Scenario::read(&text)?.render()?);
    Ok(ExitCode::SUCCESS)
}
