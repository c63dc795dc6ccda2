//! The bytes of the log's files: the header of a file, the header of a chunk.
//!
//! Not the records (`record`). The manual (chapter disk) draws both byte by byte.
//! Invariant: a chunk's checksum is of all that tells it from every other chunk that ever was, and
//! seeds the checksums of its records.

use slots::{NodeId, StoreId};

use super::error::{Damage, LogError};

/// Bytes before the first chunk of a file.
pub const FILE_HEADER_BYTES: u64 = 4096;
/// Bytes of a chunk before its first record.
pub const CHUNK_HEADER_BYTES: usize = 112;
/// The format this version writes, and the newest it reads.
pub const FORMAT: u16 = 1;
/// Bytes of a file's header that are used.
pub(super) const FILE_HEAD_BYTES: usize = 80;

const FILE_MAGIC: &[u8; 8] = b"SLOTWALF";
/// Stored last, so that a killed process leaves no half header.
pub(super) const CHUNK_MAGIC: &[u8; 8] = b"SLOTWALC";
const FORMAT_AT: u64 = 8;
const STORE_AT: u64 = 40;
const NODE_AT: u64 = 56;
const FILE_SUMMED: usize = 76;
const CHUNK_SUMMED: usize = 108;

/// Whose log it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids {
    /// The node.
    pub node: NodeId,
    /// Its data directory.
    pub store: StoreId,
}

/// The header of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileHead {
    pub(super) ids: Ids,
    /// Files are numbered without a gap.
    pub(super) number: u64,
    /// Bytes of each chunk.
    pub(super) chunk_bytes: u64,
    pub(super) chunks: u32,
}

impl FileHead {
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.chunk_bytes.checked_mul(u64::from(self.chunks))?.checked_add(FILE_HEADER_BYTES)
    }

    pub(super) fn bytes(&self) -> [u8; FILE_HEAD_BYTES] {
        let mut bytes = [0; FILE_HEAD_BYTES];
        bytes[..8].copy_from_slice(FILE_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.chunk_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[40..56].copy_from_slice(self.ids.store.bytes());
        bytes[56..76].copy_from_slice(self.ids.node.bytes());
        let sum = crc32c::crc32c(&bytes[..FILE_SUMMED]);
        bytes[FILE_SUMMED..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Refusals, in order: no header, a newer format, damage, another's file, another number, a
    /// file that is not as long as its header says.
    pub(super) fn parse(
        bytes: &[u8; FILE_HEAD_BYTES],
        file: &str,
        file_bytes: u64,
        number: u64,
        ids: Ids,
    ) -> Result<FileHead, LogError> {
        let expected = format!("the header of log file {number}");
        let damage = |got: String| Damage::at(file, 0, expected.clone(), got);
        if &bytes[..8] != FILE_MAGIC {
            return Err(damage("other bytes".into()));
        }
        let format = u16_at(bytes, FORMAT_AT as usize);
        if format > FORMAT {
            let (file, offset) = (file.to_owned(), FORMAT_AT);
            return Err(LogError::TooNew { file, offset, expected: FORMAT, got: format });
        }
        if crc32c::crc32c(&bytes[..FILE_SUMMED]) != u32_at(bytes, FILE_SUMMED) {
            return Err(damage("bytes that do not match their checksum".into()));
        }
        let theirs = Ids {
            store: StoreId::from_bytes(array_at(bytes, STORE_AT as usize)),
            node: NodeId::from_bytes(array_at(bytes, NODE_AT as usize)),
        };
        foreign(file, NODE_AT, "node", &ids.node, &theirs.node)?;
        foreign(file, STORE_AT, "the data directory", &ids.store, &theirs.store)?;
        let head = FileHead {
            ids,
            number: u64_at(bytes, 16),
            chunk_bytes: u64_at(bytes, 24),
            chunks: u32_at(bytes, 32),
        };
        if head.number != number {
            return Err(damage(format!("that of log file {}", head.number)));
        }
        if head.chunks == 0
            || head.chunk_bytes <= CHUNK_HEADER_BYTES as u64
            || head.chunk_bytes > u64::from(u32::MAX)
            || !head.chunk_bytes.is_multiple_of(8)
        {
            return Err(damage(format!("{} chunks of {}", head.chunks, head.chunk_bytes)));
        }
        match head.file_bytes() {
            Some(length) if length == file_bytes => Ok(head),
            length => {
                let expected = format!("{length:?} bytes");
                Err(Damage::at(file, file_bytes, expected, format!("{file_bytes}")))
            }
        }
    }
}

fn foreign<T: PartialEq + std::fmt::Display>(
    file: &str,
    offset: u64,
    what: &str,
    ours: &T,
    theirs: &T,
) -> Result<(), LogError> {
    if ours == theirs {
        return Ok(());
    }
    let (expected, got) = (format!("{what} {ours}"), format!("{what} {theirs}"));
    Err(LogError::Foreign { file: file.to_owned(), offset, expected, got })
}

/// The header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkHead {
    pub(super) store: StoreId,
    /// Number of the file, and of the chunk in it.
    pub(super) file: u64,
    pub(super) chunk: u32,
    /// Random, of the run that wrote it: a place that is used again is another chunk.
    pub(super) run: u64,
    /// Grows when the number of lanes changes.
    pub(super) era: u32,
    /// Where the lanes of the era began.
    pub(super) era_start: u64,
    pub(super) lane: u16,
    pub(super) lanes: u16,
    /// Counts the chunks of the lane in this era.
    pub(super) seq: u64,
    /// Position of the lane before the first record.
    pub(super) start: u64,
    /// The lane was synced up to here when this was written.
    pub(super) synced: u64,
    /// The file that the lane's chunk before this one goes with, and where that one starts; zeros
    /// if there was none in this era.
    pub(super) previous_file: u64,
    pub(super) previous_start: u64,
}

impl ChunkHead {
    pub(super) fn bytes(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..8].copy_from_slice(CHUNK_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.lane.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.lanes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.era.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.chunk.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.file.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.seq.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.start.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.synced.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.era_start.to_le_bytes());
        bytes[64..72].copy_from_slice(&self.run.to_le_bytes());
        bytes[72..88].copy_from_slice(self.store.bytes());
        bytes[88..96].copy_from_slice(&self.previous_file.to_le_bytes());
        bytes[96..104].copy_from_slice(&self.previous_start.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..CHUNK_SUMMED]);
        bytes[CHUNK_SUMMED..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What the checksums of the records start from.
    pub(super) fn seed(&self) -> u32 {
        u32_at(&self.bytes(), CHUNK_SUMMED)
    }

    fn parse(bytes: &[u8; CHUNK_HEADER_BYTES]) -> ChunkHead {
        ChunkHead {
            store: StoreId::from_bytes(array_at(bytes, 72)),
            file: u64_at(bytes, 24),
            chunk: u32_at(bytes, 20),
            run: u64_at(bytes, 64),
            era: u32_at(bytes, 16),
            era_start: u64_at(bytes, 56),
            lane: u16_at(bytes, 10),
            lanes: u16_at(bytes, 12),
            seq: u64_at(bytes, 32),
            start: u64_at(bytes, 40),
            synced: u64_at(bytes, 48),
            previous_file: u64_at(bytes, 88),
            previous_start: u64_at(bytes, 96),
        }
    }
}

/// What stands at the beginning of a chunk's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChunkPlace {
    /// Nothing that was ever used in this life of the file.
    Free,
    /// A header that does not hold; its records would be seeded with this.
    Torn(u32),
    /// A header, with the seed of its records.
    Used(ChunkHead, u32),
}

/// Reads the place of a chunk.
pub(super) fn chunk_at(
    bytes: &[u8; CHUNK_HEADER_BYTES],
    head: &FileHead,
    chunk: u32,
    file: &str,
) -> Result<ChunkPlace, LogError> {
    if &bytes[..8] != CHUNK_MAGIC {
        return Ok(ChunkPlace::Free);
    }
    let seed = u32_at(bytes, CHUNK_SUMMED);
    if crc32c::crc32c(&bytes[..CHUNK_SUMMED]) != seed {
        return Ok(ChunkPlace::Torn(seed));
    }
    let at = chunk_offset(head, chunk);
    let format = u16_at(bytes, FORMAT_AT as usize);
    if format > FORMAT {
        let (file, offset) = (file.to_owned(), at + FORMAT_AT);
        return Err(LogError::TooNew { file, offset, expected: FORMAT, got: format });
    }
    let got = ChunkHead::parse(bytes);
    if (got.store, got.file, got.chunk) != (head.ids.store, head.number, chunk) {
        let expected = format!("chunk {chunk} of log file {}", head.number);
        let found = format!("chunk {} of log file {} of {}", got.chunk, got.file, got.store);
        return Err(Damage::at(file, at, expected, found));
    }
    let is_ordered = got.era_start <= got.start && got.synced <= got.start;
    if got.lane >= got.lanes || !is_ordered || got.previous_start > got.start {
        let got = format!("lane {} of {}, start {}", got.lane, got.lanes, got.start);
        return Err(Damage::at(file, at, "a lane and its start", got));
    }
    Ok(ChunkPlace::Used(got, seed))
}

/// Where a chunk begins in its file.
pub(super) fn chunk_offset(head: &FileHead, chunk: u32) -> u64 {
    FILE_HEADER_BYTES + head.chunk_bytes * u64::from(chunk)
}

/// The file's name.
pub(super) fn file_name(number: u64) -> String {
    match number & ALONE_BIT {
        0 => format!("wal.{number:010}"),
        _ => format!("wal.alone.{:010}.{}", anchor(number), number & MAX_ALONE),
    }
}

/// The number of a log file; `None` for any other file.
pub(super) fn file_number(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("wal.")?;
    let number = match rest.strip_prefix("alone.").and_then(|rest| rest.split_once('.')) {
        None => rest.parse().ok().filter(|number| number & ALONE_BIT == 0)?,
        Some((anchor, nth)) => {
            let (anchor, nth) = (anchor.parse().ok()?, nth.parse().ok()?);
            (anchor <= MAX_ANCHOR && nth <= MAX_ALONE).then(|| alone_number(anchor, nth))?
        }
    };
    (file_name(number) == name).then_some(number)
}

/// Marks the number of a file with one record.
const ALONE_BIT: u64 = 1 << 63;
/// Bits of such a number that count within its anchor.
const ALONE_COUNT_BITS: u32 = 20;
/// Files with one record that go with one usual file, at most, less one: names stay unique.
const MAX_ALONE: u64 = (1 << ALONE_COUNT_BITS) - 1;

/// The last usual file that a number of such a file can name.
const MAX_ANCHOR: u64 = (1 << (63 - ALONE_COUNT_BITS)) - 1;

/// The number of the nth file with one record that goes with this usual file.
pub(super) fn alone_number(anchor: u64, nth: u64) -> u64 {
    assert!(nth <= MAX_ALONE && anchor <= MAX_ANCHOR, "file {nth} beside {anchor}");
    ALONE_BIT | anchor << ALONE_COUNT_BITS | nth
}

/// The usual file that a file stays and goes with: itself, unless it has one record.
pub(super) fn anchor(number: u64) -> u64 {
    match number & ALONE_BIT {
        0 => number,
        _ => (number & !ALONE_BIT) >> ALONE_COUNT_BITS,
    }
}

/// Which of the files with one record that go with its anchor; `None` for a usual file.
pub(super) fn nth_alone(number: u64) -> Option<u64> {
    (number & ALONE_BIT != 0).then_some(number & MAX_ALONE)
}

/// The name of a file that waits to be used again.
pub(super) fn spare_name(number: u64) -> String {
    format!("wal.spare.{number:010}")
}

/// Is it one that waits to be used again?
pub(super) fn is_spare(name: &str) -> bool {
    name.starts_with("wal.spare.")
}

/// A file that is being made.
pub(super) const UNFINISHED_FILE: &str = "wal.tmp";
/// There from the first start after a loss of power until the log is open.
pub(super) const REPAIR_FILE: &str = "wal.repair";

pub(in crate::persist) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

pub(in crate::persist) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(in crate::persist) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(in crate::persist) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}
