//! Segments of the log: their header, and the scan that finds where a log ends.
//!
//! ```text
//!   0  8 bytes "SLOTRLOG"   8  u16 format, 1   10  u16 0   12  u32 number of the segment
//!  16  u32 end of the segment before, 0: none  20  8 bytes 0   28  u32 CRC32C of bytes 0-27
//!  32  frames, then zeros or what the file held in an earlier life
//! ```
//! Invariant: a scan cuts only what no sync had confirmed, as far as the file itself tells.

use super::Fields;
use super::error::{Damage, StoreError};
use super::record::{FRAME_ALIGN, FRAME_HEADER_BYTES, Record, describe, unframe};

/// Bytes before the first frame.
pub(super) const HEADER_BYTES: usize = 32;
/// Format of a segment.
pub(super) const SEGMENT_FORMAT: u16 = 1;

const MAGIC: &[u8; 8] = b"SLOTRLOG";
const SUMMED_BYTES: usize = 28;

/// A segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) number: u32,
    /// Where the segment before ends; 0 if there is none.
    pub(super) previous_end: u32,
}

impl Header {
    pub(super) fn bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&SEGMENT_FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.previous_end.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..SUMMED_BYTES]);
        bytes[SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn parse(file: &str, number: u32, bytes: &[u8]) -> Result<Header, StoreError> {
        let expected = format!("the header of segment {number}");
        let damage = |got: &str| Damage::at(file, 0_u64, expected.clone(), got);
        let header =
            bytes.first_chunk::<HEADER_BYTES>().ok_or_else(|| damage("the end of the file"))?;
        let short = || damage("a shorter one");
        let mut fields = Fields(header);
        if fields.take::<8>().ok_or_else(short)? != *MAGIC {
            return Err(damage("other bytes").into());
        }
        let format = fields.u16().ok_or_else(short)?;
        if format > SEGMENT_FORMAT {
            let file = file.to_owned();
            return Err(StoreError::TooNew { file, expected: SEGMENT_FORMAT, got: format });
        }
        let _zero = fields.u16();
        let got = Header {
            number: fields.u32().ok_or_else(short)?,
            previous_end: fields.u32().ok_or_else(short)?,
        };
        if got.bytes() != *header {
            return Err(damage("bytes that do not match their checksum").into());
        }
        if got.number != number {
            return Err(damage(&format!("the header of segment {}", got.number)).into());
        }
        Ok(got)
    }
}

/// A segment, read.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) file: String,
    pub(super) header: Header,
    /// With their offsets.
    pub(super) records: Vec<(u32, Record)>,
    /// Where the next frame goes.
    pub(super) end: u32,
    /// Bytes before this were synced for certain.
    pub(super) synced: u32,
    /// Bytes from `end` up to this hold parts of frames that were never confirmed; 0: none.
    pub(super) torn_until: u32,
}

/// Reads a segment of which a later one says that it ends at `closed_at`; the last one of a log
/// has no such word and ends at its first frame that does not hold, if nothing behind it was
/// written later than a sync of that place.
///
/// Frames that were on their way to the disk together may arrive in any part: a bad one followed
/// by one of the same sync is a torn tail. One that was written when `synced` had passed the bad
/// place shows that the place did hold once: damage.
pub(super) fn scan(
    file: &str,
    number: u32,
    bytes: &[u8],
    closed_at: Option<u32>,
) -> Result<Scan, StoreError> {
    let header = Header::parse(file, number, bytes)?;
    let mut records = Vec::new();
    let (mut at, mut synced) = (HEADER_BYTES, HEADER_BYTES);
    while closed_at.is_none_or(|end| at < end as usize) {
        let Some(frame) = unframe(bytes, number, at) else { break };
        let record = Record::parse(frame.content)
            .map_err(|got| Damage::at(file, at as u64, "a record of kind 1 to 4", got))?;
        records.push((at as u32, record));
        synced = synced.max(frame.synced as usize);
        at = frame.end;
    }
    let mut torn_until = 0;
    match closed_at {
        Some(end) if end as usize == at => synced = at,
        Some(end) => {
            let expected = format!("a record (the segment ends at {end})");
            return Err(Damage::at(file, at as u64, expected, describe(bytes, at)).into());
        }
        None => torn_until = judge_tail(file, number, bytes, at)?,
    }
    let (end, synced) = (at as u32, synced as u32);
    Ok(Scan { file: file.to_owned(), header, records, end, synced, torn_until })
}

/// Where the remains behind `end` stop; 0 if there are none. Damage if `end` was synced once.
fn judge_tail(file: &str, number: u32, bytes: &[u8], end: usize) -> Result<u32, StoreError> {
    let mut until = if begun(bytes, number, end) { end + FRAME_HEADER_BYTES } else { 0 };
    let mut at = end + FRAME_ALIGN;
    while at + FRAME_HEADER_BYTES <= bytes.len() {
        let Some(frame) = unframe(bytes, number, at) else {
            at += FRAME_ALIGN;
            continue;
        };
        if frame.synced as usize > end {
            let expected = format!("a record (one that holds follows at offset {at})");
            return Err(Damage::at(file, end as u64, expected, describe(bytes, end)).into());
        }
        at = frame.end;
        until = at;
    }
    Ok(until.min(bytes.len()) as u32)
}

/// Does a frame of this segment begin here, though it does not hold?
fn begun(bytes: &[u8], number: u32, at: usize) -> bool {
    bytes.get(at + 8..at + 12).is_some_and(|mark| mark == number.to_le_bytes())
}
