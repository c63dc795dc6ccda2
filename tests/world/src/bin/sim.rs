//! `cargo sim`: plays runs of the world and says which promise broke, how, and how to see it again.
//!
//!   cargo sim --seeds 500 | --seeds 100..200 | --seed 7 [--trace] [--bug NAME] [--quiet]
//!
//! Exit code 0: all promises held; 1: one broke; 2: usage.

use std::process::ExitCode;

use slot_world::coverage::Coverage;
use slot_world::{Bug, Plan, play};

const USAGE: &str = "usage: cargo sim --seed N | --seeds COUNT | --seeds FROM..TO \
                     [--trace] [--bug NAME] [--quiet]";

struct Wish {
    seeds: std::ops::Range<u64>,
    bug: Option<Bug>,
    is_traced: bool,
    is_quiet: bool,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(wish) => run(&wish),
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
            eprintln!("bugs: {}", names.join(", "));
            ExitCode::from(2)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut wish = Wish { seeds: 0..0, bug: None, is_traced: false, is_quiet: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        match word.as_str() {
            "--seed" => {
                let seed = number(&value()?)?;
                wish.seeds = seed..seed + 1;
            }
            "--seeds" => {
                let value = value()?;
                let (from, to) = value.split_once("..").unwrap_or(("0", &value));
                wish.seeds = number(from)?..number(to)?;
            }
            "--bug" => {
                let name = value()?;
                wish.bug = Some(Bug::named(&name).ok_or_else(|| format!("no such bug: {name}"))?);
            }
            "--trace" => wish.is_traced = true,
            "--quiet" => wish.is_quiet = true,
            other => return Err(format!("unknown argument: {other}")),
        }
    }
    if wish.seeds.is_empty() { Err("no seeds to play".to_owned()) } else { Ok(wish) }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn run(wish: &Wish) -> ExitCode {
    let mut coverage = Coverage::default();
    let (mut events, mut versions, mut waits) = (0, 0, Vec::new());
    for seed in wish.seeds.clone() {
        let plan = Plan { bug: wish.bug, is_traced: wish.is_traced, ..Plan::seed(seed) };
        let report = play(plan);
        coverage.add(&report.coverage);
        events += report.events;
        versions += report.versions;
        waits.extend(report.changes_again);
        if let Some(violation) = report.violation {
            if !wish.is_traced {
                report.last_events.iter().for_each(|line| println!("{line}"));
            }
            println!("seed {seed}: {violation}\nreplay: {}", plan.replay());
            return ExitCode::FAILURE;
        }
        if wish.is_traced {
            println!("seed {seed}: {} events, all promises held", report.events);
        }
    }
    if !wish.is_quiet {
        println!("{coverage}");
    }
    waits.sort_unstable();
    let median = waits.get(waits.len() / 2).copied().unwrap_or(0) / 1000;
    let worst = waits.last().copied().unwrap_or(0) / 1000;
    println!("changes possible again after the heal: median {median} ms, worst {worst} ms");
    let runs = wish.seeds.end - wish.seeds.start;
    println!("{runs} runs, {events} events, {versions} table versions: all promises held");
    ExitCode::SUCCESS
}
