//! `slotctl restore`: slots of a backup into the cluster.
//!
//! Not the streams (`crate::backup`). Invariant: every byte that will be sent was verified before
//! the first is, and what became of each slot is said.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use slots::admin::RestoreStep;
use slots::{SlotId, SlotRanges};

use super::carry::{self, Found};
use super::{Session, Shown};
use crate::args::RestoreArgs;
use crate::backup::give::{self, Over, SlotState};
use crate::backup::manifest::{BACKUP_FORMAT, MANIFEST_FILE, Manifest, ManifestError, Section};
use crate::backup::part::ReadError;
use crate::backup::rounds::{Queue, Setback, Tally};
use crate::cluster::Door;
use crate::confirm::Question;
use crate::edge::{Bar, Connection, Quiet, folder};
use crate::exit::{Exit, Failure};
use crate::plan::Plan;
use crate::render::{count, moment, rate, short_slots, size};

/// What is to be restored.
struct Job<'a> {
    dir: &'a Path,
    manifest: Manifest,
    /// The slots that were asked for, all of them in the backup.
    slots: SlotRanges,
    over: Over,
}

/// What it came to.
#[derive(Serialize)]
struct Told<'a> {
    dir: String,
    cluster: &'a str,
    slots: String,
    slots_with_keys: usize,
    keys: u64,
    bytes: u64,
    #[serde(flatten)]
    done: Option<Done<'a>>,
}

#[derive(Serialize)]
struct Done<'a> {
    into: &'a str,
    restored: u64,
    expired: u64,
    kept: u64,
    seconds: f64,
}

pub(super) fn restore(session: &mut Session, args: &RestoreArgs) -> Result<Shown, Failure> {
    let job = read(args)?;
    verify(session, &job)?;
    if args.check {
        let text = format!("{}\nIts checksums are right.\n", job.about());
        return Shown::new(text, &job.told(None));
    }
    let found = session.find_all(&job.slots)?;
    let taken = found.with_keys(&job.slots);
    if !taken.is_empty() && !args.replace {
        return Err(Failure::refused(format!(
            "{} that the backup covers: {}; --replace empties them first, --slots chooses others; \
             nothing was changed",
            if taken.count() == 1 {
                "1 slot has keys".to_owned()
            } else {
                format!("{} slots have keys", taken.count())
            },
            short_slots(&taken.to_string())
        )));
    }
    session.confirm(&plan(&job, &found, &taken), "restore")?;
    carry_out(session, &job, &found, &taken)
}

/// Refusals, in order: no backup, a later format, a damaged manifest, slots that it does not have.
fn read(args: &RestoreArgs) -> Result<Job<'_>, Failure> {
    let dir = args.dir.as_path();
    let shown = dir.display();
    let text = folder::read_manifest(dir).map_err(|error| {
        Failure::refused(format!(
            "{shown} has no {MANIFEST_FILE} that can be read ({error}): it is no backup, or one \
             that was not finished; nothing was changed"
        ))
    })?;
    let manifest = Manifest::read(&text).map_err(|error| match error {
        ManifestError::TooNew(format) => Failure::refused(format!(
            "{shown} is of format {format}; this slotctl reads up to {BACKUP_FORMAT}: use one as \
             new as it; nothing was changed"
        )),
        ManifestError::Damage(damage) => damaged(dir, &damage.to_string()),
    })?;
    let covered = manifest.covered();
    let slots = if args.slots.is_empty() { covered.clone() } else { carry::named(&args.slots) };
    let missing = slots.without(&covered);
    if !missing.is_empty() {
        return Err(Failure::refused(format!(
            "{shown} has no slots {missing}: it covers {covered}; nothing was changed"
        )));
    }
    let over = if args.replace { Over::Keys } else { Over::Nothing };
    Ok(Job { dir, manifest, slots, over })
}

fn damaged(dir: &Path, what: &str) -> Failure {
    let dir = dir.display();
    Failure::refused(format!("the backup in {dir} is damaged: {what}; nothing was changed"))
}

/// Reads all that will be sent.
fn verify(session: &Session, job: &Job<'_>) -> Result<(), Failure> {
    let refuse = |file: &str, error: ReadError| match error {
        ReadError::Disk(error) => damaged(job.dir, &format!("{file}: {error}")),
        ReadError::Damage(damage) => damaged(job.dir, &damage.to_string()),
    };
    let sections: Vec<&Section> = job.sections().collect();
    let files: BTreeSet<&str> = sections.iter().map(|section| section.file.as_str()).collect();
    for part in job.manifest.parts.iter().filter(|part| files.contains(part.file.as_str())) {
        folder::check_part(job.dir, part).map_err(|error| refuse(&part.file, error))?;
    }
    let mut bar = Bar::new("verify", session.cluster.terminal.quiet());
    let (whole, mut read, mut frame) = (job.bytes(), 0, Vec::new());
    for section in sections {
        let refuse = |error| refuse(&section.file, error);
        let mut frames = folder::frames(job.dir, section).map_err(refuse)?;
        while frames.next(&mut frame).map_err(refuse)? {}
        read += section.bytes;
        bar.show(read, whole, &rate(read, bar.time()));
    }
    Ok(())
}

impl Job<'_> {
    fn sections(&self) -> impl Iterator<Item = &Section> {
        self.slots.iter().filter_map(|slot| self.manifest.section(slot))
    }

    fn bytes(&self) -> u64 {
        self.sections().map(|section| section.bytes).sum()
    }

    fn keys(&self) -> u64 {
        self.sections().map(|section| section.keys).sum()
    }

    fn about(&self) -> String {
        format!(
            "The backup was taken of cluster {} on {} UTC: {}, {} with keys, {}, {}.",
            self.manifest.cluster,
            moment(self.manifest.created_ms),
            count(self.slots.count(), "slot"),
            self.sections().count(),
            count(self.keys() as usize, "key"),
            size(self.bytes())
        )
    }

    fn told<'a>(&'a self, done: Option<Done<'a>>) -> Told<'a> {
        Told {
            dir: self.dir.display().to_string(),
            cluster: &self.manifest.cluster,
            slots: self.slots.to_string(),
            slots_with_keys: self.sections().count(),
            keys: self.keys(),
            bytes: self.bytes(),
            done,
        }
    }
}

fn plan(job: &Job<'_>, found: &Found, taken: &SlotRanges) -> Plan {
    let mut lines = vec![job.about()];
    if found.status.cluster != job.manifest.cluster {
        let into = &found.status.cluster;
        lines.push(format!("It goes into ANOTHER CLUSTER than it was taken of: {into}."));
    }
    if taken.is_empty() {
        lines.push("None of these slots has keys now.".into());
    } else {
        let keys = found.holders.iter().flat_map(|holder| &holder.slots.held);
        let of_taken = |slot: u16| SlotId::new(slot).is_some_and(|slot| taken.contains(slot));
        let keys: u64 = keys.filter(|held| of_taken(held.slot)).map(|held| held.keys).sum();
        lines.push(format!(
            "THE {} IN {} ARE REPLACED: {}.",
            count(keys as usize, "KEY").to_uppercase(),
            count(taken.count(), "SLOT").to_uppercase(),
            short_slots(&taken.to_string())
        ));
    }
    Plan { lines, question: Question::YesNo }
}

fn carry_out(
    session: &mut Session,
    job: &Job<'_>,
    found: &Found,
    taken: &SlotRanges,
) -> Result<Shown, Failure> {
    // A slot that had no keys then and has none now needs nothing.
    let needed = |slot: &SlotId| job.manifest.section(*slot).is_some() || taken.contains(*slot);
    let slots: BTreeSet<SlotId> = job.slots.iter().filter(needed).collect();
    let (tally, door, clock) =
        (Tally::default(), session.cluster.door(), Bar::new("restore", Quiet::Yes));
    let (steps, left) = session.carry("restore", slots.clone(), (&tally, job.keys()), |queue| {
        work(queue, job, &door, &tally)
    });
    if !left.is_empty() {
        return Err(unfinished(job, &slots, &left, &tally));
    }
    let (mut restored, mut expired, mut kept) = (0, 0, 0);
    for step in steps.iter().flatten() {
        restored += step.restored;
        expired += step.expired;
        kept += step.kept;
    }
    let mut text = format!(
        "{} restored into {} in {:.1} s ({})",
        count(restored as usize, "key"),
        count(job.slots.count(), "slot"),
        clock.time().as_secs_f64(),
        rate(job.bytes(), clock.time())
    );
    if expired > 0 {
        text.push_str(&format!("; {} had expired", count(expired as usize, "key")));
    }
    if kept > 0 {
        text.push_str(&format!("; {} written meanwhile stayed", count(kept as usize, "key")));
    }
    text.push('\n');
    let seconds = clock.time().as_secs_f64();
    let done = Done { into: &found.status.cluster, restored, expired, kept, seconds };
    Shown::new(text, &job.told(Some(done)))
}

fn unfinished(
    job: &Job<'_>,
    slots: &BTreeSet<SlotId>,
    left: &BTreeSet<SlotId>,
    tally: &Tally,
) -> Failure {
    let rest: SlotRanges = left.iter().copied().collect();
    let done: SlotRanges = slots.difference(left).copied().collect();
    let why = tally.why().unwrap_or_else(|| "their owners gave no answer".into());
    let done = if done.is_empty() { "none".to_owned() } else { done.to_string() };
    Failure::new(
        Exit::Unfinished,
        format!(
            "{} not restored ({why}); restored: {done}; go on with: slotctl restore {} --slots \
             {rest} --replace",
            count(left.len(), "slot"),
            job.dir.display()
        ),
    )
}

/// One thread: slot after slot of a node.
fn work(
    queue: &Queue,
    job: &Job<'_>,
    door: &Door,
    tally: &Tally,
) -> (Vec<RestoreStep>, Vec<SlotId>) {
    let (mut connection, mut steps, mut done) = (None::<Connection>, Vec::new(), Vec::new());
    while !tally.is_stopped()
        && let Some(slot) = queue.next()
    {
        let Some(mut open) = carry::reach(connection.take(), slot, queue, door, tally) else {
            continue;
        };
        let source = (job.dir, job.manifest.section(slot));
        match give::give(slot, source, job.over, &mut open, tally, door.patience()) {
            Ok(step) => {
                tally.done(slot, step.restored + step.expired + step.kept);
                steps.push(step);
                done.push(slot);
                connection = Some(open);
            }
            Err(not) => {
                // Another try would find keys there, its own, and must not empty the slot unasked.
                let setback = match (not.slot, job.over, not.setback) {
                    (SlotState::Begun, Over::Nothing, Setback::Again(why)) => Setback::Stop(why),
                    (_, _, setback) => setback,
                };
                tally.set_back(slot, &queue.name, &setback);
            }
        }
    }
    (steps, done)
}
