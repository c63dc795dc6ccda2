//! The power goes at every call: what comes back is a state the log was in, no older than what
//! was confirmed.
//!
//! The model is the list of states after each record; nothing of the product's recovery is used to
//! say what is right. Invariant: seeded; a failure names its seed and life.

use std::collections::BTreeMap;

use super::super::kit::{Outcome, Watched, entry, id, snap, vote};
use super::super::sim::{Dice, SimDisk};
use super::super::{Job, LogEntry, LogId, Recovered, StoreError, Vote};

/// The log after some record.
#[derive(Clone, PartialEq, Default)]
struct Model {
    entries: BTreeMap<u64, LogEntry>,
    purged: Option<LogId>,
    committed: Option<LogId>,
}

impl Model {
    fn last(&self) -> Option<LogId> {
        self.entries.values().next_back().map(|entry| entry.log_id).or(self.purged)
    }

    /// As it must come back beside this snapshot.
    fn beside(mut self, snapshot: Option<LogId>) -> Model {
        if let Some(place) = snapshot {
            let purged = self.purged.is_some_and(|purged| purged.index >= place.index);
            let entry = self.entries.get(&place.index).map(|entry| entry.log_id);
            if !purged && entry != Some(place) {
                self.entries.clear();
                self.purged = Some(place);
            }
        }
        let gone = self.purged.map(|purged| purged.index);
        let entries = &self.entries;
        self.committed = self.committed.filter(|id| {
            Some(id.index) <= gone || entries.get(&id.index).is_some_and(|e| e.log_id == *id)
        });
        self
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |id: LogId| format!("{}-{}", id.leader_id.term, id.index);
        let entries = self.entries.values().map(|entry| short(entry.log_id));
        let marks = (self.purged.map(short), self.committed.map(short));
        write!(f, "(purged, committed) {marks:?} entries {:?}", Vec::from_iter(entries))
    }
}

impl From<&Recovered> for Model {
    fn from(state: &Recovered) -> Model {
        let entries = state.entries.iter().map(|entry| (entry.log_id.index, entry.clone()));
        Model { entries: entries.collect(), purged: state.purged, committed: state.committed }
    }
}

/// One run of the process between two crashes.
struct Life {
    node: Watched,
    dice: Dice,
    term: u64,
    /// After each record, the first as recovered.
    states: Vec<Model>,
    /// With the number of states there were when each was handed over.
    waits: Vec<(usize, Outcome)>,
    votes: Vec<(Option<Vote>, Outcome)>,
    snapshots: Vec<(Option<LogId>, Outcome)>,
}

fn told() -> Outcome {
    let outcome = Outcome::default();
    *outcome.lock() = Some(Ok(()));
    outcome
}

fn is_ok(outcome: &Outcome) -> bool {
    *outcome.lock() == Some(Ok(()))
}

impl Life {
    fn begin(disk: &SimDisk, seed: u64, term: u64) -> Result<Life, StoreError> {
        let (node, state) = Watched::open(disk)?;
        let place = state.snapshot.as_ref().and_then(|snap| snap.place.last_log_id);
        Ok(Life {
            node,
            dice: Dice(seed),
            term,
            states: vec![Model::from(&state)],
            waits: vec![(1, told())],
            votes: vec![(state.vote, told())],
            snapshots: vec![(place, told())],
        })
    }

    fn now(&self) -> Model {
        self.states.last().cloned().unwrap_or_default()
    }

    fn step(&mut self) {
        let now = self.now();
        let last = now.last().map_or(0, |id| id.index);
        let committed =
            now.committed.map_or(0, |id| id.index).max(now.purged.map_or(0, |p| p.index));
        match self.dice.below(10) {
            0..=3 => self.append(last),
            4 if last > committed => {
                let from = committed + 1 + self.dice.below(last - committed);
                self.truncate(from);
            }
            5 if last > committed => {
                let upto = committed + 1 + self.dice.below(last - committed);
                let mut next = now.clone();
                next.committed = next.entries.get(&upto).map(|entry| entry.log_id);
                self.node.writer.hand(Job::Committed(next.committed.expect("it is there")));
                self.states.push(next);
            }
            6 => {
                self.term += 1;
                let vote = vote(self.term, false);
                let told = self.node.vote(vote);
                self.votes.push((Some(vote), told));
            }
            7 | 8 => self.compact(),
            9 if self.dice.below(3) == 0 => self.install(last, committed),
            _ => {}
        }
        if self.dice.below(3) > 0 {
            self.node.writer.work();
        }
    }

    fn append(&mut self, last: u64) {
        let count = 1 + self.dice.below(4);
        let new: Vec<LogEntry> = (1..=count)
            .map(|n| entry(self.term, last + n, self.dice.below(700) as usize))
            .collect();
        for entry in &new {
            let mut next = self.now();
            next.entries.insert(entry.log_id.index, entry.clone());
            self.states.push(next);
        }
        let told = self.node.append(&new);
        self.waits.push((self.states.len(), told));
    }

    fn truncate(&mut self, from: u64) {
        let mut next = self.now();
        next.entries.split_off(&from);
        self.node.writer.hand(Job::Truncate(from));
        self.states.push(next);
    }

    fn purge(&mut self, upto: LogId) {
        let mut next = self.now();
        next.entries = next.entries.split_off(&(upto.index + 1));
        next.purged = next.purged.max(Some(upto));
        self.node.writer.hand(Job::Purge(upto));
        self.states.push(next);
    }

    /// A snapshot of what is committed, and the log cut to it once it is confirmed.
    fn compact(&mut self) {
        let now = self.now();
        let Some(upto) = now.committed.filter(|id| Some(*id) > now.purged) else { return };
        if self.written(upto) {
            self.purge(upto);
        }
    }

    /// A snapshot of the leader: behind the log, or in place of entries that contradict it.
    fn install(&mut self, last: u64, committed: u64) {
        self.term += 1;
        let index = committed + 1 + self.dice.below(last - committed + 3);
        if index <= last {
            self.truncate(index);
        }
        let upto = id(self.term, index);
        if self.written(upto) {
            self.purge(upto);
        }
    }

    fn written(&mut self, upto: LogId) -> bool {
        let told = self.node.snapshot(&snap(upto));
        // One that is older than a confirmed one is answered and not written.
        let newest = self.snapshots.iter().filter(|(_, told)| is_ok(told)).map(|(place, _)| *place);
        let place = newest.max().flatten().max(Some(upto));
        self.snapshots.push((place, told.clone()));
        self.node.writer.work();
        is_ok(&told)
    }

    /// What came back must be one of the states since the last confirmed one.
    fn check(&self, state: &Recovered, name: &str) {
        let sure = self.waits.iter().filter(|(_, told)| is_ok(told)).map(|(states, _)| *states);
        let sure = sure.max().unwrap_or(1);
        let place = state.snapshot.as_ref().and_then(|snap| snap.place.last_log_id);
        assert!(one_of(&self.votes, &state.vote), "{name}: vote {:?}", state.vote);
        assert!(one_of(&self.snapshots, &place), "{name}: snapshot {place:?}");
        let got = Model::from(state);
        let fits = self.states[sure - 1..].iter().any(|s| s.clone().beside(place) == got);
        assert!(fits, "{name}: {got:?}\nis none of {:#?}", &self.states[sure - 1..]);
    }
}

/// The last confirmed one, or one that was under way after it.
fn one_of<T: PartialEq>(all: &[(T, Outcome)], got: &T) -> bool {
    let sure = all.iter().rposition(|(_, told)| is_ok(told)).unwrap_or(0);
    all[sure..].iter().any(|(one, _)| one == got)
}

/// The process dies, with the machine or alone.
fn die(disk: &SimDisk, dice: &mut Dice) -> SimDisk {
    if dice.below(2) == 0 { disk.crash(dice.roll()) } else { disk.restart() }
}

/// Starts that may die too, until one succeeds. What it found must then survive anything.
fn reopen(disk: &SimDisk, dice: &mut Dice, name: &str) -> (SimDisk, Recovered) {
    let (disk, state) = reopen_once(disk, dice, name);
    let after = disk.crash(dice.roll());
    let again = Watched::open(&after).map(|(_, state)| state);
    let again = again.unwrap_or_else(|error| panic!("{name}, again: {error}"));
    assert_eq!(Model::from(&again), Model::from(&state), "{name}: gone after the next crash");
    (after, state)
}

fn reopen_once(disk: &SimDisk, dice: &mut Dice, name: &str) -> (SimDisk, Recovered) {
    let mut disk = die(disk, dice);
    for _ in 0..3 {
        disk.stop_after(dice.below(12));
        match Watched::open(&disk) {
            Ok((_, state)) => return (die(&disk, dice), state),
            Err(StoreError::Disk(_)) => disk = die(&disk, dice),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let disk = die(&disk, dice);
    let state = Watched::open(&disk).map(|(_, state)| state);
    (disk, state.unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// So many lives of one folder, each with a crash after `calls` calls, or anywhere.
fn lives(seed: u64, count: u64, calls: Option<u64>) {
    let mut dice = Dice(seed);
    let mut disk = SimDisk::new();
    let mut term = 1;
    for life in 0..count {
        let name = format!("seed {seed}, life {life}, calls {calls:?}");
        let mut run =
            Life::begin(&disk, dice.roll(), term).unwrap_or_else(|error| panic!("{name}: {error}"));
        disk.stop_after(calls.unwrap_or_else(|| dice.below(80)));
        for _ in 0..60 {
            run.step();
            if !run.node.fatal.lock().is_empty() {
                break;
            }
        }
        let (next, state) = reopen(&disk, &mut dice, &name);
        run.check(&state, &name);
        term = run.term + 1;
        disk = next;
    }
}

#[test]
fn the_power_goes_anywhere_again_and_again() {
    for seed in 0..60 {
        lives(seed, 8, None);
    }
}

#[test]
fn the_power_goes_at_every_call_of_one_run() {
    for calls in 0..120 {
        for seed in 0..2 {
            lives(1000 + seed, 1, Some(calls));
        }
    }
}
