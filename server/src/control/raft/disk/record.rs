//! Records of the log: what they say, and their frames in a segment.
//!
//! ```text
//!   0  u32  length of the content, bytes      4  u32  CRC32C
//!   8  u32  number of the segment            12  u32  synced: all before this offset was on disk
//!  16  content: u8 kind, body; zeros up to a multiple of 8          when this was written
//! ```
//! The checksum covers the frame's offset (u32), the length, the number, `synced`, the content: a
//! frame of another place or of the file's earlier life is none.

use openraft::CommittedLeaderId;
use slots::NodeId;

use super::{Fields, LogEntry, LogId};
use crate::control::raft::codec::{BadBytes, pack, unpack};
use crate::control::raft::types::Member;

/// Most bytes of a packed entry: a change of all slots with a mark for each stays below 1 MiB.
pub const MAX_ENTRY_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes of a content: an entry, its kind and its place.
pub(super) const MAX_CONTENT_BYTES: usize = MAX_ENTRY_BYTES + 64;
/// Bytes of a frame before its content.
pub(super) const FRAME_HEADER_BYTES: usize = 16;
/// Frames start at multiples of this, so that a search for them steps by it.
pub(super) const FRAME_ALIGN: usize = 8;

const KIND_ENTRY: u8 = 1;
const KIND_TRUNCATE: u8 = 2;
const KIND_PURGED: u8 = 3;
const KIND_COMMITTED: u8 = 4;

/// What a record says.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The log goes on with this entry.
    Entry(Box<LogEntry>),
    /// Entries from this index on are gone.
    Truncate(u64),
    /// Entries up to this one are in the snapshot, and gone.
    Purged(LogId),
    /// Entries up to this one are committed.
    Committed(LogId),
}

/// An entry's record as its frame holds it.
pub fn entry_content(entry: &LogEntry) -> Result<Vec<u8>, BadBytes> {
    let payload = pack::<MAX_ENTRY_BYTES>(&entry.payload)?;
    let mut content = Vec::with_capacity(64 + payload.len());
    content.push(KIND_ENTRY);
    put_log_id(&mut content, &entry.log_id);
    content.extend_from_slice(&payload);
    Ok(content)
}

/// The record that drops entries.
pub(super) fn truncate_content(from: u64) -> Vec<u8> {
    let mut content = vec![KIND_TRUNCATE];
    content.extend_from_slice(&from.to_le_bytes());
    content
}

/// The record that marks entries as gone into the snapshot.
pub(super) fn purged_content(upto: &LogId) -> Vec<u8> {
    let mut content = vec![KIND_PURGED];
    put_log_id(&mut content, upto);
    content
}

/// The record that marks entries as committed.
pub(super) fn committed_content(upto: &LogId) -> Vec<u8> {
    let mut content = vec![KIND_COMMITTED];
    put_log_id(&mut content, upto);
    content
}

/// ```text
/// 0  u64 term   8  20 bytes id of the leader   28  u64 index
/// ```
fn put_log_id(to: &mut Vec<u8>, id: &LogId) {
    to.extend_from_slice(&id.leader_id.term.to_le_bytes());
    to.extend_from_slice(id.leader_id.node_id.0.bytes());
    to.extend_from_slice(&id.index.to_le_bytes());
}

fn take_log_id(fields: &mut Fields<'_>) -> Option<LogId> {
    let term = fields.u64()?;
    let leader = Member(NodeId::from_bytes(fields.take()?));
    let index = fields.u64()?;
    Some(LogId::new(CommittedLeaderId::new(term, leader), index))
}

impl Record {
    /// Reads a content; the error says what is wrong.
    pub(super) fn parse(content: &[u8]) -> Result<Record, String> {
        let (kind, body) = content.split_first().ok_or("an empty record")?;
        let mut fields = Fields(body);
        let short = || format!("{} bytes of kind {kind}", body.len());
        let record = match *kind {
            KIND_ENTRY => {
                let log_id = take_log_id(&mut fields).ok_or_else(short)?;
                let packed = std::mem::replace(&mut fields, Fields(&[])).rest();
                let payload = unpack::<_, MAX_ENTRY_BYTES>(packed)
                    .map_err(|error| format!("an entry that cannot be unpacked: {error}"))?;
                Record::Entry(Box::new(LogEntry { log_id, payload }))
            }
            KIND_TRUNCATE => Record::Truncate(fields.u64().ok_or_else(short)?),
            KIND_PURGED => Record::Purged(take_log_id(&mut fields).ok_or_else(short)?),
            KIND_COMMITTED => Record::Committed(take_log_id(&mut fields).ok_or_else(short)?),
            _ => return Err(format!("a record of kind {kind}")),
        };
        if fields.rest().is_empty() { Ok(record) } else { Err(short()) }
    }
}

/// Bytes a content takes in a segment.
pub(super) fn framed_bytes(content: usize) -> usize {
    (FRAME_HEADER_BYTES + content).next_multiple_of(FRAME_ALIGN)
}

/// Appends a frame that will stand at `offset`. The content has at most `MAX_CONTENT_BYTES`.
pub(super) fn frame(to: &mut Vec<u8>, content: &[u8], segment: u32, offset: u32, synced: u32) {
    assert!(content.len() <= MAX_CONTENT_BYTES, "{} bytes of content", content.len());
    assert!(synced <= offset, "{synced} {offset}");
    assert!((offset as usize).is_multiple_of(FRAME_ALIGN), "{offset}");
    let len = (content.len() as u32).to_le_bytes();
    let rest = [segment.to_le_bytes(), synced.to_le_bytes()].concat();
    let start = to.len();
    to.extend_from_slice(&len);
    to.extend_from_slice(&checksum(offset, &len, &rest, content).to_le_bytes());
    to.extend_from_slice(&rest);
    to.extend_from_slice(content);
    to.resize(start + framed_bytes(content.len()), 0);
}

/// A frame that holds.
pub(super) struct Frame<'a> {
    pub(super) content: &'a [u8],
    pub(super) synced: u32,
    /// Where the next one starts.
    pub(super) end: usize,
}

/// The frame at `offset` of a segment's bytes; `None` if there is none that holds.
pub(super) fn unframe(bytes: &[u8], segment: u32, offset: usize) -> Option<Frame<'_>> {
    let header: &[u8; FRAME_HEADER_BYTES] = bytes.get(offset..)?.first_chunk()?;
    // Told apart before anything is summed up: a search meets mostly bytes that are no frame.
    if header[8..12] != segment.to_le_bytes() {
        return None;
    }
    let mut fields = Fields(header);
    let len = fields.u32()? as usize;
    let sum = fields.u32()?;
    let _segment = fields.u32()?;
    let synced = fields.u32()?;
    if len == 0 || len > MAX_CONTENT_BYTES || synced as usize > offset {
        return None;
    }
    let start = offset + FRAME_HEADER_BYTES;
    let content = bytes.get(start..start + len)?;
    let end = offset + framed_bytes(len);
    let fits = end <= bytes.len();
    let holds = sum == checksum(u32::try_from(offset).ok()?, &header[..4], &header[8..], content);
    (fits && holds).then_some(Frame { content, synced, end })
}

fn checksum(offset: u32, len: &[u8], rest: &[u8], content: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&offset.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, len);
    let sum = crc32c::crc32c_append(sum, rest);
    crc32c::crc32c_append(sum, content)
}

/// What stands where a frame should, for people.
pub(super) fn describe(bytes: &[u8], offset: usize) -> String {
    let Some(header) = bytes.get(offset..).and_then(|b| b.first_chunk::<FRAME_HEADER_BYTES>())
    else {
        return "the end of the file".into();
    };
    if header.iter().all(|byte| *byte == 0) {
        return "zeros".into();
    }
    let mut fields = Fields(header);
    let len = fields.u32().unwrap_or(0);
    let sum = fields.u32().unwrap_or(0);
    format!("bytes that do not match their checksum {sum:08x} (length {len})")
}
