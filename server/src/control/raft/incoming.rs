//! A snapshot that comes from the leader in pieces, until it is whole and looked at.
//!
//! Not the installing, which is openraft's: a snapshot that it gets and that the state machine then
//! refuses is fatal to it, so it gets none that was not read here.
//!
//! ```text
//!   nothing --first piece--> pieces --the next, or one again--> pieces --last--> whole: read
//!      ^                       |                                                   |
//!      +--- a gap: from the start; too long; of no sense ---------------------------+
//! ```
//! Invariant: holds no more bytes than came, and at most a snapshot's. Pure.

use std::io::Cursor;

use openraft::Snapshot;
use openraft::raft::InstallSnapshotRequest;

use super::disk::{MAX_SNAPSHOT_FILE_BYTES, Snap};
use super::types::TableRaft;

/// The pieces so far.
#[derive(Default)]
pub(super) struct Incoming {
    id: String,
    bytes: Vec<u8>,
}

/// What became of a piece.
#[derive(Debug)]
pub(super) enum Taken {
    /// More are to come.
    Kept,
    /// The first piece is expected.
    FromTheStart,
    /// It was the last one, and the snapshot is one.
    Whole(Snapshot<TableRaft>),
}

impl Incoming {
    /// Takes a piece; one that came before may come again. Refuses, and forgets what came: pieces
    /// that are longer together than any snapshot, a whole that is no snapshot or that of another
    /// place than announced.
    pub(super) fn take(
        &mut self,
        piece: InstallSnapshotRequest<TableRaft>,
    ) -> Result<Taken, String> {
        let (offset, length) = (piece.offset, piece.data.len() as u64);
        if offset.saturating_add(length) > MAX_SNAPSHOT_FILE_BYTES as u64 {
            *self = Incoming::default();
            return Err(format!(
                "a snapshot has at most {MAX_SNAPSHOT_FILE_BYTES} bytes, got {length} bytes at \
                 offset {offset}"
            ));
        }
        if offset == 0 {
            *self = Incoming { id: piece.meta.snapshot_id.clone(), bytes: Vec::new() };
        }
        if self.id != piece.meta.snapshot_id || offset > self.bytes.len() as u64 {
            return Ok(Taken::FromTheStart);
        }
        self.bytes.truncate(offset as usize);
        self.bytes.extend_from_slice(&piece.data);
        if !piece.done {
            return Ok(Taken::Kept);
        }
        let bytes = std::mem::take(self).bytes;
        // Read here and once more when it is installed: it is seldom.
        let snap = Snap::parse(bytes.clone())
            .map_err(|error| format!("the snapshot cannot be read: {error}"))?;
        if snap.place != piece.meta {
            let (expected, got) = (piece.meta, snap.place);
            return Err(format!("expected a snapshot of {expected}, got one of {got}"));
        }
        Ok(Taken::Whole(Snapshot { meta: snap.place, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::raft::disk::kit;

    const PIECE_BYTES: usize = 20;

    /// The pieces of a snapshot.
    fn pieces() -> Vec<InstallSnapshotRequest<TableRaft>> {
        let snap = kit::snap(kit::id(3, 7));
        let count = snap.bytes.len().div_ceil(PIECE_BYTES);
        assert!(count > 2, "{count} pieces");
        let piece = |(at, data): (usize, &[u8])| InstallSnapshotRequest {
            vote: kit::vote(3, true),
            meta: snap.place.clone(),
            offset: (at * PIECE_BYTES) as u64,
            data: data.to_vec(),
            done: at + 1 == count,
        };
        snap.bytes.chunks(PIECE_BYTES).enumerate().map(piece).collect()
    }

    fn is_whole(outcome: &Result<Taken, String>) -> bool {
        let expected = kit::snap(kit::id(3, 7)).place;
        matches!(outcome, Ok(Taken::Whole(snapshot)) if snapshot.meta == expected)
    }

    #[test]
    fn pieces_that_come_twice_or_after_a_restart_make_one_snapshot() {
        let mut incoming = Incoming::default();
        let (all, mut last) = (pieces(), None);
        for piece in all.iter().take(2).chain(&all[1..2]).chain(&all).chain(&all[..1]).chain(&all) {
            last = Some(incoming.take(piece.clone()));
        }
        assert!(last.as_ref().is_some_and(is_whole), "{last:?}");
        assert!(incoming.bytes.is_empty(), "nothing is kept");
    }

    #[test]
    fn a_gap_or_another_snapshot_begins_from_the_start() {
        let mut incoming = Incoming::default();
        let all = pieces();
        assert!(matches!(incoming.take(all[1].clone()), Ok(Taken::FromTheStart)));
        assert!(matches!(incoming.take(all[0].clone()), Ok(Taken::Kept)));
        assert!(matches!(incoming.take(all[2].clone()), Ok(Taken::FromTheStart)));
        let mut other = all[1].clone();
        other.meta.snapshot_id.push('x');
        assert!(matches!(incoming.take(other), Ok(Taken::FromTheStart)));
    }

    #[test]
    fn an_offset_far_out_allocates_nothing_and_is_refused() {
        let mut piece = pieces().remove(0);
        for offset in [MAX_SNAPSHOT_FILE_BYTES as u64, u64::MAX] {
            piece.offset = offset;
            let why = Incoming::default().take(piece.clone()).expect_err("too long");
            assert!(why.contains("at most"), "{why}");
        }
    }

    #[test]
    fn what_is_no_snapshot_is_refused_and_forgotten() {
        let mut incoming = Incoming::default();
        let mut all = pieces();
        all[1].data[5] ^= 1;
        let outcomes: Vec<_> = all.into_iter().map(|piece| incoming.take(piece)).collect();
        let why = outcomes.last().expect("pieces").as_ref().expect_err("a flipped bit");
        assert!(why.contains("cannot be read"), "{why}");
        assert!(incoming.bytes.is_empty());
        let mut all = pieces();
        all.iter_mut().for_each(|piece| piece.meta.last_log_id = Some(kit::id(3, 8)));
        let last = all.into_iter().map(|piece| incoming.take(piece)).last().expect("pieces");
        let why = last.expect_err("another place");
        assert!(why.contains("expected a snapshot of"), "{why}");
    }
}
