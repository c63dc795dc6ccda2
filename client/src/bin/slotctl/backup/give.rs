//! One slot of a backup into its owner: the frames, then steps until all keys are in.
//!
//! Not which slots, nor the check before anything is changed. Invariant: it is known of each slot
//! whether the cluster was touched.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slots::SlotId;
use slots::admin::RestoreStep;

use super::manifest::Section;
use super::part::ReadError;
use super::rounds::{Setback, Tally};
use crate::edge::{Connection, folder};
use crate::resp::Reply;

/// Frames sent before their answers are waited for: some MiB.
const AHEAD: usize = 4;
/// The end of a slot without keys.
const NOTHING: [u8; 25] = {
    let mut frame = [0; 25];
    frame[0] = 3;
    frame
};

/// What a slot that has keys is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// It is left alone, which is said.
    Nothing,
    /// The backup's take their place.
    Keys,
}

/// Why a slot was not restored.
pub(crate) struct NotGiven {
    /// The reason.
    pub(crate) setback: Setback,
    /// What is known of the slot.
    pub(crate) slot: SlotState,
}

/// What a setback leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotState {
    /// As it was.
    Untouched,
    /// Some of the backup's keys may be there.
    Begun,
}

/// Restores a slot over a connection to its owner; `None`: a slot that had no keys.
pub(crate) fn give(
    slot: SlotId,
    source: (&Path, Option<&Section>),
    over: Over,
    connection: &mut Connection,
    tally: &Tally,
    patience: Duration,
) -> Result<RestoreStep, NotGiven> {
    let untouched = |setback| NotGiven { setback, slot: SlotState::Untouched };
    let id = begin(slot, over, connection, patience).map_err(untouched)?;
    let sent = send_frames(&id, source, connection, tally, patience);
    if let Err(setback) = sent {
        // If this does not reach the node either, it drops what came by itself.
        let _ = connection.send(&[b"SLOTD", b"RESTORE", b"END", &id], patience);
        let _ = connection.receive(patience);
        return Err(untouched(setback));
    }
    let begun = |setback| NotGiven { setback, slot: SlotState::Begun };
    loop {
        let step = commit(&id, connection, patience).map_err(begun)?;
        if step.left == 0 {
            return Ok(step);
        }
    }
}

fn begin(
    slot: SlotId,
    over: Over,
    connection: &mut Connection,
    patience: Duration,
) -> Result<Vec<u8>, Setback> {
    let number = slot.number().to_string();
    let words: [&[u8]; 5] = [b"SLOTD", b"RESTORE", b"BEGIN", number.as_bytes(), b"REPLACE"];
    let words = if over == Over::Keys { &words[..] } else { &words[..4] };
    connection.send(words, patience)?;
    match connection.receive(patience)? {
        Reply::Text(id) => Ok(id),
        other => Err(Setback::of_reply(&other)),
    }
}

fn send_frames(
    id: &[u8],
    (folder, section): (&Path, Option<&Section>),
    connection: &mut Connection,
    tally: &Tally,
    patience: Duration,
) -> Result<(), Setback> {
    let Some(section) = section else {
        connection.send(&[b"SLOTD", b"RESTORE", b"FRAME", id, &NOTHING], patience)?;
        return taken(connection, patience);
    };
    let broken = |error: ReadError| {
        Setback::Stop(match error {
            ReadError::Disk(error) => format!("{}: {error}", section.file),
            ReadError::Damage(damage) => damage.to_string(),
        })
    };
    let mut frames = folder::frames(folder, section).map_err(broken)?;
    let (mut frame, mut under_way) = (Vec::new(), 0);
    while frames.next(&mut frame).map_err(broken)? {
        connection.send(&[b"SLOTD", b"RESTORE", b"FRAME", id, &frame], patience)?;
        tally.bytes.fetch_add(frame.len() as u64, Ordering::SeqCst);
        under_way += 1;
        if under_way == AHEAD {
            taken(connection, patience)?;
            under_way -= 1;
        }
    }
    let mut first = Ok(());
    for _ in 0..under_way {
        // All answers are read, and the first refusal counts: those after it follow from it.
        let one = taken(connection, patience);
        first = first.and(one);
    }
    first
}

fn taken(connection: &mut Connection, patience: Duration) -> Result<(), Setback> {
    match connection.receive(patience)? {
        Reply::Text(_) => Ok(()),
        other => Err(Setback::of_reply(&other)),
    }
}

fn commit(
    id: &[u8],
    connection: &mut Connection,
    patience: Duration,
) -> Result<RestoreStep, Setback> {
    connection.send(&[b"SLOTD", b"RESTORE", b"COMMIT", id], patience)?;
    match connection.receive(patience)? {
        Reply::Text(step) => serde_json::from_slice(&step)
            .map_err(|error| Setback::Stop(format!("its answer is not understood: {error}"))),
        other => Err(Setback::of_reply(&other)),
    }
}
