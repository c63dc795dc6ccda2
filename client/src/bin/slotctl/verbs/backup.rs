//! `slotctl backup`: slots of the cluster into a folder.
//!
//! Not the streams (`crate::backup`). Invariant: the manifest is written when every slot that was
//! asked for is in the folder, and not before.

use serde::Serialize;
use slots::SlotId;

use super::carry::{self, Found};
use super::{Session, Shown};
use crate::args::BackupArgs;
use crate::backup::manifest::{BACKUP_FORMAT, Manifest, PartEntry, Section};
use crate::backup::rounds::{Queue, Setback, Tally};
use crate::backup::take::{self, NotTaken};
use crate::cluster::Door;
use crate::edge::folder::NewFolder;
use crate::edge::{self, Connection, Quiet};
use crate::exit::{Exit, Failure};
use crate::render::{count, rate};

/// What a backup came to.
#[derive(Serialize)]
struct Kept<'a> {
    dir: String,
    cluster: &'a str,
    slots: &'a str,
    slots_with_keys: usize,
    keys: u64,
    bytes: u64,
    seconds: f64,
}

/// What one thread wrote.
type Written = std::io::Result<(Vec<Section>, Vec<PartEntry>)>;

pub(super) fn backup(session: &mut Session, args: &BackupArgs) -> Result<Shown, Failure> {
    let slots = carry::named(&args.slots);
    let clock = edge::Bar::new("backup", Quiet::Yes);
    let found = session.find_all(&slots)?;
    let dir = args.dir.display();
    let folder = NewFolder::make(&args.dir)
        .map_err(|error| Failure::refused(format!("{dir}: {error}; nothing was done")))?;
    let made = fill(session, &folder, &found, &slots.to_string());
    let manifest = made.inspect_err(|_| folder.give_up())?;
    let (keys, bytes) = (manifest.keys, manifest.bytes);
    let text = format!(
        "{dir}: {} with keys of {}, {}, {} in {:.1} s\n",
        count(manifest.sections.len(), "slot"),
        slots.count(),
        count(keys as usize, "key"),
        rate(bytes, clock.time()),
        clock.time().as_secs_f64(),
    );
    let kept = Kept {
        dir: dir.to_string(),
        cluster: &manifest.cluster,
        slots: &manifest.slots,
        slots_with_keys: manifest.sections.len(),
        keys,
        bytes,
        seconds: clock.time().as_secs_f64(),
    };
    Shown::new(text, &kept)
}

/// Writes everything.
fn fill(
    session: &mut Session,
    folder: &NewFolder,
    found: &Found,
    slots: &str,
) -> Result<Manifest, Failure> {
    let covered = slots.parse().unwrap_or_default();
    let created_ms = edge::unix_ms();
    let jobs = found.with_keys(&covered).iter().collect();
    let tally = Tally::default();
    let held = found.holders.iter().flat_map(|holder| &holder.slots.held);
    let known = held.map(|held| held.keys).sum();
    let door = session.cluster.door();
    let (results, left) =
        session.carry("backup", jobs, (&tally, known), |queue| work(queue, folder, &door, &tally));
    let mut manifest = Manifest {
        format: BACKUP_FORMAT,
        cluster: found.status.cluster.clone(),
        created_ms,
        slotd: found.status.server_version.clone(),
        table_version: found.status.table_version,
        slots: slots.to_owned(),
        ..Manifest::default()
    };
    for written in results {
        let (sections, parts) = written.map_err(|error| disk(&error))?;
        manifest.sections.extend(sections);
        manifest.parts.extend(parts);
    }
    if !left.is_empty() {
        let why = tally.why().unwrap_or_else(|| "their owners gave no answer".into());
        return Err(Failure::new(
            Exit::Unfinished,
            format!(
                "{} could not be read ({why}); no manifest was written and what was read is \
                 removed: give the same command again",
                count(left.len(), "slot")
            ),
        ));
    }
    manifest.sections.sort_by_key(|section| section.slot);
    manifest.parts.sort_by(|a, b| a.file.cmp(&b.file));
    manifest.keys = manifest.sections.iter().map(|section| section.keys).sum();
    manifest.bytes = manifest.parts.iter().map(|part| part.bytes).sum();
    let text = manifest
        .to_text()
        .map_err(|error| Failure::refused(format!("the manifest is not JSON: {error}")))?;
    folder.finish(&text).map_err(|error| disk(&error))?;
    Ok(manifest)
}

fn disk(error: &std::io::Error) -> Failure {
    Failure::refused(format!(
        "the backup cannot be written: {error}; no manifest was written and what was read is \
         removed: make room, then give the same command again"
    ))
}

/// One thread: slot after slot of a node, into parts of its own.
fn work(queue: &Queue, folder: &NewFolder, door: &Door, tally: &Tally) -> (Written, Vec<SlotId>) {
    let (mut part, mut connection) = (folder.writer(), None::<Connection>);
    let (mut sections, mut done) = (Vec::new(), Vec::new());
    while !tally.is_stopped()
        && let Some(slot) = queue.next()
    {
        let Some(mut open) = carry::reach(connection.take(), slot, queue, door, tally) else {
            continue;
        };
        match take::take(slot, &mut open, &mut part, tally, door.patience()) {
            Ok(section) => {
                tally.done(slot, section.keys);
                sections.push(section);
                done.push(slot);
                connection = Some(open);
            }
            Err(NotTaken::Setback(setback)) => tally.set_back(slot, &queue.name, &setback),
            Err(NotTaken::Disk(error)) => {
                let setback = Setback::Stop(error.to_string());
                tally.set_back(slot, &queue.name, &setback);
                return (Err(error), done);
            }
        }
    }
    (part.finish().map(|parts| (sections, parts)), done)
}
