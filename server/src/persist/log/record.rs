//! A record: its kinds, its header, and the scan of a chunk.
//!
//! ```text
//!  0 u32 sum  4 u32 length  8 u32 sum of the payload  12 u32 unsynced  16 u64 epoch  24 u64 index
//! 32 u16 slot  34 u8 kind  35 u8 0  36 payload, then anything up to a multiple of 8
//! ```
//! `sum` is of bytes 4-35 behind the record's offset in its chunk, seeded with the chunk's sum.
//! Bytes 0-7 are stored last. Invariant: a record of another chunk, or at another place, is none.

use slots::{Epoch, OpIndex, SlotId};

use super::format::{CHUNK_HEADER_BYTES, array_at, u16_at, u32_at, u64_at};

/// Bytes before the payload.
pub const RECORD_HEADER_BYTES: usize = 36;
/// Records begin at a multiple of this.
pub const RECORD_ALIGN: usize = 8;
/// The most bytes of a payload: the largest value and its key fit with ease, and offsets in a
/// file of its own stay in 32 bits.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 31;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The ops of one lock hold.
    OpGroup = 1,
    /// A slot's writes are ordered under a new epoch.
    EpochStart = 2,
    /// Ops up to the index are as safe as was promised.
    SafeMark = 3,
    /// Ops behind the index are void.
    Cut = 4,
    /// The owner is alone in the in-sync set.
    Alone = 5,
    /// A stage begins.
    StageBegin = 6,
    /// A part of a stage.
    StageChunk = 7,
    /// A stage is whole.
    StageComplete = 8,
    /// The slot is left: what came before is no part of a later life.
    Drop = 9,
    /// A part of a group that is larger than a record. Written and put together by the log alone:
    /// nobody appends it, and no replay hands it over.
    GroupPart = 10,
    /// The ops of a group that came to a stage after it was whole. Not `OpGroup`: files go by
    /// their age, so a log may begin behind the begin of a stage that has ended.
    StageGroup = 11,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 11] = [
        Kind::OpGroup,
        Kind::EpochStart,
        Kind::SafeMark,
        Kind::Cut,
        Kind::Alone,
        Kind::StageBegin,
        Kind::StageChunk,
        Kind::StageComplete,
        Kind::Drop,
        Kind::GroupPart,
        Kind::StageGroup,
    ];

    pub(super) fn parse(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// All of a record but its payload and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Whose.
    pub slot: SlotId,
    /// The slot's epoch.
    pub epoch: Epoch,
    /// The slot's op index.
    pub index: OpIndex,
}

/// Bytes of a record with so much payload.
pub(super) fn record_bytes(payload: usize) -> usize {
    (RECORD_HEADER_BYTES + payload).next_multiple_of(RECORD_ALIGN)
}

/// The header of a record that is written, in the pieces it is stored in: words that were put
/// together in registers. Bytes that were stored one by one are not to be had eight at a time until
/// the stores are through.
pub(super) struct HeaderWords {
    /// Bytes 0-31, little-endian.
    pub(super) words: [u64; 4],
    /// Bytes 32-35.
    pub(super) last: u32,
}

impl HeaderWords {
    /// At an offset of its chunk; `sum` is seeded with the chunk's.
    #[inline]
    pub(super) fn new(
        entry: &Entry,
        payload: usize,
        payload_sum: u32,
        unsynced: u32,
        at: u32,
        sum: impl Fn(&[u8]) -> u32,
    ) -> HeaderWords {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let length = payload as u32;
        let words = [pair(at, length), pair(payload_sum, unsynced), entry.epoch.0, entry.index.0];
        let last = u32::from(entry.slot.number()) | (entry.kind as u32) << 16;
        let mut header = HeaderWords { words, last };
        header.words[0] = pair(sum(&header.bytes()), length);
        header
    }

    #[inline]
    pub(super) fn bytes(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        for (nth, word) in self.words.iter().enumerate() {
            bytes[8 * nth..8 * nth + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[32..].copy_from_slice(&self.last.to_le_bytes());
        bytes
    }
}

/// A record's header that holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) length: usize,
    payload_sum: u32,
    unsynced: u32,
    epoch: Epoch,
    index: OpIndex,
    slot: SlotId,
    kind: u8,
}

impl Header {
    /// The header at an offset of a chunk; `None` if it does not hold, its record would not fit, or
    /// it has what no version writes: else zeros were a record wherever the checksum of zeros is 0.
    pub(super) fn at(chunk: &[u8], at: usize, seed: u32) -> Option<Header> {
        let bytes = chunk.get(at..at + RECORD_HEADER_BYTES)?;
        let length = u32_at(bytes, 4) as usize;
        let slot = SlotId::new(u16_at(bytes, 32))?;
        let (kind, reserved) = (bytes[34], bytes[35]);
        if record_bytes(length) > chunk.len() - at || kind == 0 || reserved != 0 {
            return None;
        }
        let mut summed: [u8; RECORD_HEADER_BYTES] = array_at(bytes, 0);
        summed[..4].copy_from_slice(&(at as u32).to_le_bytes());
        if crc32c::crc32c_append(seed, &summed) != u32_at(bytes, 0) {
            return None;
        }
        Some(Header {
            length,
            payload_sum: u32_at(bytes, 8),
            unsynced: u32_at(bytes, 12),
            epoch: Epoch(u64_at(bytes, 16)),
            index: OpIndex(u64_at(bytes, 24)),
            slot,
            kind,
        })
    }

    /// Up to where the lane was synced when this record was written at `position`. A distance that
    /// did not fit says nothing.
    pub(super) fn synced(&self, position: u64) -> u64 {
        match self.unsynced {
            u32::MAX => 0,
            distance => position.saturating_sub(u64::from(distance)),
        }
    }

    /// What the record is; the reason if this version knows no such thing.
    pub(super) fn entry(&self) -> Result<Entry, String> {
        let kind = Kind::parse(self.kind).ok_or_else(|| format!("kind {}", self.kind))?;
        Ok(Entry { kind, slot: self.slot, epoch: self.epoch, index: self.index })
    }

    /// The payload, if it holds.
    pub(super) fn payload<'a>(&self, chunk: &'a [u8], at: usize) -> Option<&'a [u8]> {
        let start = at + RECORD_HEADER_BYTES;
        let payload = &chunk[start..start + self.length];
        (crc32c::crc32c(payload) == self.payload_sum).then_some(payload)
    }
}

/// What lies behind the place where a scan stopped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Remains {
    /// The first header that holds.
    pub(super) header_at: Option<usize>,
    /// Some header proves that the lane was synced up to here once.
    pub(super) synced: u64,
    /// There are bytes that are not zero.
    pub(super) dirty: bool,
}

/// Looks for headers from `from` on. Payloads are not read: a header alone proves what was synced.
pub(super) fn remains(chunk: &[u8], from: usize, seed: u32, start: u64) -> Remains {
    let mut found = Remains::default();
    let rest = chunk.get(from..).unwrap_or_default();
    found.dirty = rest.iter().any(|byte| *byte != 0);
    if !found.dirty {
        return found;
    }
    let mut at = from;
    while at + RECORD_HEADER_BYTES <= chunk.len() {
        let Some(header) = Header::at(chunk, at, seed) else {
            at += RECORD_ALIGN;
            continue;
        };
        let position = start + (at - CHUNK_HEADER_BYTES) as u64;
        found.header_at = found.header_at.or(Some(at));
        found.synced = found.synced.max(header.synced(position));
        at += record_bytes(header.length);
    }
    found
}

/// A word on the bytes at a place where a record had to be.
pub(super) fn describe(chunk: &[u8], at: usize, seed: u32) -> String {
    let Some(bytes) = chunk.get(at..at + RECORD_HEADER_BYTES) else {
        return "the end of the chunk".into();
    };
    if bytes.iter().all(|byte| *byte == 0) {
        return "zeros".into();
    }
    match Header::at(chunk, at, seed) {
        Some(header) => format!(
            "a payload of {} bytes that does not match its checksum {:08x}",
            header.length, header.payload_sum
        ),
        None => format!("bytes that do not match their checksum {:08x}", u32_at(bytes, 0)),
    }
}
