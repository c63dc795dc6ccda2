//! The vote's file.
//!
//! ```text
//!   0  8 bytes "SLOTVOTE"   8  u16 format, 1   10  u16 1: a majority granted it, 0: not yet
//!  12  u64 term            20  20 bytes id of the candidate   40  u32 CRC32C of bytes 0-39
//! ```
//! Invariant: a vote that was answered is in the file; a node never votes twice in one term.

use openraft::LeaderId;
use slots::NodeId;

use super::error::{Damage, StoreError};
use super::{Fields, VOTE_FILE, Vote};
use crate::control::raft::types::Member;

/// Bytes of the file.
pub(super) const VOTE_BYTES: usize = 44;
/// Format of the file.
const VOTE_FORMAT: u16 = 1;

const MAGIC: &[u8; 8] = b"SLOTVOTE";
const SUMMED_BYTES: usize = 40;

/// The file of a vote.
pub(super) fn vote_bytes(vote: &Vote) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VOTE_FORMAT.to_le_bytes());
    bytes.extend_from_slice(&u16::from(vote.committed).to_le_bytes());
    bytes.extend_from_slice(&vote.leader_id.term.to_le_bytes());
    bytes.extend_from_slice(vote.leader_id.node_id.0.bytes());
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The vote of a file.
pub(super) fn parse_vote(bytes: &[u8]) -> Result<Vote, StoreError> {
    let damage = |offset: usize, expected: &str, got: String| {
        StoreError::Damaged(Damage::at(VOTE_FILE, offset as u64, expected, got))
    };
    let Ok(bytes) = <&[u8; VOTE_BYTES]>::try_from(bytes) else {
        let got = format!("{} bytes", bytes.len());
        return Err(damage(0, "a file of 44 bytes", got));
    };
    let short = || damage(0, "a vote", "a shorter one".into());
    let mut fields = Fields(bytes);
    if fields.take::<8>().ok_or_else(short)? != *MAGIC {
        return Err(damage(0, "SLOTVOTE", "other bytes".into()));
    }
    let format = fields.u16().ok_or_else(short)?;
    if format > VOTE_FORMAT {
        let file = VOTE_FILE.to_owned();
        return Err(StoreError::TooNew { file, expected: VOTE_FORMAT, got: format });
    }
    let committed = fields.u16().ok_or_else(short)?;
    let term = fields.u64().ok_or_else(short)?;
    let node_id = Member(NodeId::from_bytes(fields.take().ok_or_else(short)?));
    let sum = fields.u32().ok_or_else(short)?;
    let computed = crc32c::crc32c(&bytes[..SUMMED_BYTES]);
    if sum != computed {
        let expected = format!("the checksum {computed:08x}");
        return Err(damage(SUMMED_BYTES, &expected, format!("{sum:08x}")));
    }
    Ok(Vote { leader_id: LeaderId { term, node_id }, committed: committed == 1 })
}
