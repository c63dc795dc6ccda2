//! One slot out of its owner, frame by frame, into a part.
//!
//! Not which slots. Invariant: a section is kept when its end has come, and only then.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slots::SlotId;

use super::manifest::Section;
use super::rounds::{Setback, Tally};
use crate::edge::folder::PartWriter;
use crate::edge::{Connection, Trouble};
use crate::resp::Reply;

/// Frames asked for ahead: one is under way while the one before is written.
const AHEAD: usize = 2;
/// The kind of the last frame, and its length.
const END: u8 = 3;
const END_BYTES: usize = 25;

/// Why a slot was not taken.
pub(crate) enum NotTaken {
    /// The node's reason.
    Setback(Setback),
    /// The disk's.
    Disk(io::Error),
}

impl From<io::Error> for NotTaken {
    fn from(error: io::Error) -> NotTaken {
        NotTaken::Disk(error)
    }
}

impl From<Setback> for NotTaken {
    fn from(setback: Setback) -> NotTaken {
        NotTaken::Setback(setback)
    }
}

impl From<Trouble> for NotTaken {
    fn from(trouble: Trouble) -> NotTaken {
        NotTaken::Setback(trouble.into())
    }
}

/// Takes a slot over a connection to its owner. After a setback that is not the node's word the
/// connection is of no more use.
pub(crate) fn take(
    slot: SlotId,
    connection: &mut Connection,
    part: &mut PartWriter<'_>,
    tally: &Tally,
    patience: Duration,
) -> Result<Section, NotTaken> {
    part.begin(slot.number())?;
    let taken = stream(slot, connection, part, tally, patience);
    match taken {
        Ok(end) => {
            let [keys, epoch, index] = end;
            Ok(Section { keys, epoch, index, ..part.end()? })
        }
        Err(why) => {
            part.undo()?;
            Err(why)
        }
    }
}

/// Keys, epoch and index of the end.
fn stream(
    slot: SlotId,
    connection: &mut Connection,
    part: &mut PartWriter<'_>,
    tally: &Tally,
    patience: Duration,
) -> Result<[u64; 3], NotTaken> {
    let number = slot.number().to_string();
    connection.send(&[b"SLOTD", b"BACKUP", b"BEGIN", number.as_bytes()], patience)?;
    let id = match connection.receive(patience)? {
        Reply::Text(id) => id,
        other => return Err(NotTaken::Setback(Setback::of_reply(&other))),
    };
    let next: [&[u8]; 4] = [b"SLOTD", b"BACKUP", b"NEXT", &id];
    let mut asked = VecDeque::new();
    loop {
        while asked.len() < AHEAD {
            connection.send(&next, patience)?;
            asked.push_back(());
        }
        let reply = connection.receive(patience)?;
        asked.pop_front();
        let frame = match reply {
            Reply::Text(frame) => frame,
            other => {
                drain(connection, asked.len(), patience)?;
                return Err(NotTaken::Setback(Setback::of_reply(&other)));
            }
        };
        part.frame(&frame)?;
        tally.bytes.fetch_add(frame.len() as u64, Ordering::SeqCst);
        if frame.first() == Some(&END) {
            // What was asked for beyond the end is refused, and of no matter.
            drain(connection, asked.len(), patience)?;
            return end_of(&frame);
        }
    }
}

fn drain(connection: &mut Connection, left: usize, patience: Duration) -> Result<(), NotTaken> {
    for _ in 0..left {
        connection.receive(patience)?;
    }
    Ok(())
}

fn end_of(frame: &[u8]) -> Result<[u64; 3], NotTaken> {
    let broken = || Setback::Stop("the end of a stream is not as long as it should be".into());
    let words = frame.get(1..END_BYTES).filter(|_| frame.len() == END_BYTES);
    let words = words.ok_or_else(broken)?.as_chunks::<8>().0;
    let word = |at: usize| u64::from_le_bytes(words[at]);
    Ok([word(2), word(0), word(1)])
}
