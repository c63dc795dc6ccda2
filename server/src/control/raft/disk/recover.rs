//! From the records of all segments, the vote and the snapshot to the state they mean.
//!
//! Pure; reading the files is the journal's. Invariant: the recovered log has no hole, begins
//! right behind what was purged, and the snapshot reaches at least as far as that.

use std::collections::VecDeque;
use std::fmt;

use super::error::{Damage, StoreError};
use super::record::Record;
use super::segment::Scan;
use super::snap::Snap;
use super::{LogEntry, LogId, SNAPSHOT_FILE, Vote};

/// What the files hold.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recovered {
    /// The entries behind `purged`, in order.
    pub entries: VecDeque<LogEntry>,
    /// The last entry that is gone into the snapshot.
    pub purged: Option<LogId>,
    /// The last entry known to be committed; it may be older than what was committed in truth.
    pub committed: Option<LogId>,
    /// The last vote.
    pub vote: Option<Vote>,
    /// The snapshot.
    pub snapshot: Option<Snap>,
    /// What was cut off the end of the log.
    pub cut: Option<Cut>,
}

/// A torn tail: records that no sync had confirmed when the machine stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The segment.
    pub file: String,
    /// Where the log ends now.
    pub offset: u32,
    /// Where the remains ended.
    pub until: u32,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { file, offset, until } = self;
        write!(
            f,
            "{file}: cut a torn tail at offset {offset} (remains up to {until}): records that \
             were never confirmed"
        )
    }
}

impl Recovered {
    /// The last entry of the log, there or purged.
    pub fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    fn clear_upto(&mut self, upto: LogId) {
        self.purged = self.purged.max(Some(upto));
        while self.entries.front().is_some_and(|entry| entry.log_id.index <= upto.index) {
            self.entries.pop_front();
        }
    }
}

/// Plays the records of all segments, the oldest first.
pub(super) fn replay(scans: Vec<Scan>) -> Result<Recovered, StoreError> {
    let mut state = Recovered::default();
    // The index that the next entry must have; any, until the oldest segment's first entry.
    let mut next = None;
    let mut last_file = String::new();
    for scan in scans {
        for (offset, record) in scan.records {
            play(&mut state, &mut next, record)
                .map_err(|(expected, got)| Damage::at(&scan.file, offset, expected, got))?;
        }
        if scan.torn_until > scan.end {
            let (file, offset, until) = (scan.file.clone(), scan.end, scan.torn_until);
            state.cut = Some(Cut { file, offset, until });
        }
        last_file = scan.file;
    }
    let first = state.entries.front().map(|entry| entry.log_id.index);
    let due = state.purged.map(|purged| purged.index + 1).or(first);
    if let (Some(due), Some(first)) = (due, first.filter(|first| due != Some(*first))) {
        let expected = format!("entries from index {due} on");
        let got = format!("entries from index {first} on");
        return Err(Damage::at(&last_file, 0_u64, expected, got).into());
    }
    Ok(state)
}

fn play(
    state: &mut Recovered,
    next: &mut Option<u64>,
    record: Record,
) -> Result<(), (String, String)> {
    match record {
        Record::Entry(entry) => {
            let got = entry.log_id.index;
            if let Some(expected) = next.filter(|expected| *expected != got) {
                return Err((format!("entry {expected}"), format!("entry {got}")));
            }
            *next = Some(got + 1);
            state.entries.push_back(*entry);
        }
        Record::Truncate(from) => {
            while state.entries.back().is_some_and(|entry| entry.log_id.index >= from) {
                state.entries.pop_back();
            }
            *next = next.map(|next| next.min(from));
        }
        Record::Purged(upto) => {
            state.clear_upto(upto);
            *next = next.map(|next| next.max(upto.index + 1));
        }
        Record::Committed(upto) => state.committed = Some(upto),
    }
    Ok(())
}

/// Makes log and snapshot agree. True if the log lost entries by it, which must then be written.
///
/// A snapshot from the leader is in its place before the log is cut to it, so a crash may leave a
/// log that ends before the snapshot, or one whose entries contradict it: they can never have been
/// committed, and go.
pub(super) fn settle(state: &mut Recovered) -> Result<bool, StoreError> {
    let place = state.snapshot.as_ref().and_then(|snap| snap.place.last_log_id);
    let reach = place.map(|id| id.index);
    if let Some(purged) = state.purged.filter(|purged| reach < Some(purged.index)) {
        let expected = format!("a snapshot up to entry {} or later", purged.index);
        let got = match (&state.snapshot, reach) {
            (None, _) => "no file".to_owned(),
            (_, None) => "one of an empty log".to_owned(),
            (_, Some(index)) => format!("one up to entry {index}"),
        };
        return Err(Damage::at(SNAPSHOT_FILE, 0_u64, expected, got).into());
    }
    let Some(place) = place else { return Ok(false) };
    let known = state.entries.iter().find(|entry| entry.log_id.index == place.index);
    let agrees = match known {
        Some(entry) => entry.log_id == place,
        // The entry is purged, which only the same snapshot can have done, or is not there yet.
        None => state.purged.is_some_and(|purged| purged.index == place.index),
    };
    if !agrees {
        state.entries.clear();
        state.purged = Some(place);
    }
    let found = |id: &LogId| {
        state.purged.is_some_and(|purged| id.index <= purged.index)
            || state.entries.iter().any(|entry| entry.log_id == *id)
    };
    state.committed = state.committed.filter(found);
    Ok(!agrees)
}
