//! The bytes of a checkpoint's files: header, table and trailer of a part, and the manifest.
//!
//! ```text
//!   part.N.K   header 72 | frames of chunks | slot entries, 56 each | trailer 24
//!   manifest   head 88 | parts, 16 each | sum 4
//! ```
//! Drawn byte by byte in the manual (chapter disk); the chunks in the chapter stream. Invariant: a
//! part's checksums all begin with that of its header, so that nothing of another part fits.

use slots::{Epoch, NodeId, OpIndex, SLOTS, SlotId, StoreId, TableVersion};

use super::error::{CheckpointError, damage};
use crate::persist::log::{Ids, array_at, u16_at, u32_at, u64_at};

/// The format this version writes, and the newest it reads.
pub const CHECKPOINT_FORMAT: u16 = 1;
/// The name of the manifest: with it a checkpoint is valid.
pub(super) const MANIFEST_FILE: &str = "manifest";
/// A manifest that is being written.
pub(super) const UNFINISHED_FILE: &str = "manifest.tmp";

pub(super) const PART_HEAD_BYTES: usize = 72;
/// Bytes before a chunk: its length and its checksum.
pub(super) const FRAME_BYTES: usize = 12;
pub(super) const ENTRY_BYTES: usize = 56;
pub(super) const TRAILER_BYTES: usize = 24;
const MANIFEST_HEAD_BYTES: usize = 88;
const PART_ABOUT_BYTES: usize = 16;
const SUM_BYTES: usize = 4;
/// A manifest without parts.
pub(super) const MANIFEST_BYTES_MIN: u64 = (MANIFEST_HEAD_BYTES + SUM_BYTES) as u64;
/// A manifest with a part for each slot: a slot lies in one part.
pub(super) const MANIFEST_BYTES_MAX: u64 = MANIFEST_BYTES_MIN + (SLOTS * PART_ABOUT_BYTES) as u64;

const PART_MAGIC: &[u8; 8] = b"SLOTPART";
const TRAILER_MAGIC: &[u8; 8] = b"SLOTPEND";
const MANIFEST_MAGIC: &[u8; 8] = b"SLOTCKPT";
const FORMAT_AT: usize = 8;
const PART_SUMMED: usize = 68;

/// What a file begins with that must be ours, in order: magic, format, ids.
fn head(magic: &[u8; 8], bytes: &mut [u8]) {
    bytes[..8].copy_from_slice(magic);
    bytes[FORMAT_AT..FORMAT_AT + 2].copy_from_slice(&CHECKPOINT_FORMAT.to_le_bytes());
}

/// Refusals, in order: no such file, a newer format.
fn check_head(
    file: &str,
    magic: &[u8; 8],
    what: &str,
    bytes: &[u8],
) -> Result<(), CheckpointError> {
    if &bytes[..8] != magic {
        return Err(damage(file, 0, what, "other bytes"));
    }
    let got = u16_at(bytes, FORMAT_AT);
    if got > CHECKPOINT_FORMAT {
        let (file, offset) = (file.to_owned(), FORMAT_AT as u64);
        return Err(CheckpointError::TooNew { file, offset, expected: CHECKPOINT_FORMAT, got });
    }
    Ok(())
}

fn check_ids(file: &str, at: usize, bytes: &[u8], ids: Ids) -> Result<(), CheckpointError> {
    let (store, node) = (StoreId::from_bytes(array_at(bytes, at)), at + 16);
    let their_node = NodeId::from_bytes(array_at(bytes, node));
    if their_node != ids.node {
        let (expected, got) = (format!("node {}", ids.node), format!("node {their_node}"));
        let (file, offset) = (file.to_owned(), node as u64);
        return Err(CheckpointError::Foreign { file, offset, expected, got });
    }
    if store != ids.store {
        let what = "the data directory";
        let (expected, got) = (format!("{what} {}", ids.store), format!("{what} {store}"));
        let (file, offset) = (file.to_owned(), at as u64);
        return Err(CheckpointError::Foreign { file, offset, expected, got });
    }
    Ok(())
}

fn put_ids(bytes: &mut [u8], ids: Ids) {
    bytes[..16].copy_from_slice(ids.store.bytes());
    bytes[16..36].copy_from_slice(ids.node.bytes());
}

/// The header of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartHead {
    pub(super) ids: Ids,
    /// Number of the checkpoint, and of the part in it, from 0.
    pub(super) number: u64,
    pub(super) part: u32,
}

impl PartHead {
    pub(super) fn bytes(&self) -> [u8; PART_HEAD_BYTES] {
        let mut bytes = [0; PART_HEAD_BYTES];
        head(PART_MAGIC, &mut bytes);
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.part.to_le_bytes());
        put_ids(&mut bytes[32..68], self.ids);
        let sum = crc32c::crc32c(&bytes[..PART_SUMMED]);
        bytes[PART_SUMMED..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What the checksums of the part start from.
    pub(super) fn seed(&self) -> u32 {
        u32_at(&self.bytes(), PART_SUMMED)
    }

    /// Refusals, in order: no header, a newer format, damage, another's, another part.
    pub(super) fn check(
        &self,
        file: &str,
        bytes: &[u8; PART_HEAD_BYTES],
    ) -> Result<(), CheckpointError> {
        let expected = format!("the header of part {} of checkpoint {}", self.part, self.number);
        check_head(file, PART_MAGIC, &expected, bytes)?;
        if crc32c::crc32c(&bytes[..PART_SUMMED]) != u32_at(bytes, PART_SUMMED) {
            return Err(damage(file, 0, expected, "bytes that do not match their checksum"));
        }
        check_ids(file, 32, bytes, self.ids)?;
        let (number, part) = (u64_at(bytes, 16), u32_at(bytes, 24));
        if (number, part) != (self.number, self.part) {
            let got = format!("that of part {part} of checkpoint {number}");
            return Err(damage(file, 16, expected, got));
        }
        Ok(())
    }
}

/// The checksum of a chunk in its frame at an offset of a part.
pub(super) fn frame_sum(seed: u32, offset: u64, chunk: &[u8]) -> u32 {
    let place = [offset.to_le_bytes(), (chunk.len() as u64).to_le_bytes()].concat();
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &place), chunk)
}

/// Fills in what stands before a chunk at the beginning of `frame`.
pub(super) fn put_frame(frame: &mut [u8], seed: u32, offset: u64) {
    let sum = frame_sum(seed, offset, &frame[FRAME_BYTES..]);
    let length = (frame.len() - FRAME_BYTES) as u64;
    frame[..8].copy_from_slice(&length.to_le_bytes());
    frame[8..FRAME_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// Where a slot lies in a checkpoint, and what of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotEntry {
    /// The slot.
    pub slot: SlotId,
    /// Number of the part.
    pub part: u32,
    /// Where its first frame begins.
    pub offset: u64,
    /// Bytes of its frames.
    pub bytes: u64,
    /// How many there are.
    pub chunks: u32,
    /// Keys in them.
    pub keys: u64,
    /// Epoch of the content.
    pub epoch: Epoch,
    /// Index of the last op group that any of it holds.
    pub index: OpIndex,
    /// The slot's newest Alone mark; version 0: none.
    pub alone: TableVersion,
}

impl SlotEntry {
    pub(super) fn put(&self, table: &mut Vec<u8>) {
        table.extend_from_slice(&self.slot.number().to_le_bytes());
        table.extend_from_slice(&[0; 2]);
        table.extend_from_slice(&self.chunks.to_le_bytes());
        let Epoch(epoch) = self.epoch;
        for word in [self.offset, self.bytes, self.keys, epoch, self.index.0, self.alone.0] {
            table.extend_from_slice(&word.to_le_bytes());
        }
    }

    pub(super) fn read(bytes: &[u8], part: u32) -> Option<SlotEntry> {
        Some(SlotEntry {
            slot: SlotId::new(u16_at(bytes, 0))?,
            part,
            offset: u64_at(bytes, 8),
            bytes: u64_at(bytes, 16),
            chunks: u32_at(bytes, 4),
            keys: u64_at(bytes, 24),
            epoch: Epoch(u64_at(bytes, 32)),
            index: OpIndex(u64_at(bytes, 40)),
            alone: TableVersion(u64_at(bytes, 48)),
        })
    }
}

/// The end of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    /// Where the table begins.
    pub(super) table_at: u64,
    /// How many entries it has.
    pub(super) count: u32,
}

impl Trailer {
    /// The checksum of the table and of this.
    pub(super) fn sum(&self, seed: u32, table: &[u8]) -> u32 {
        let seed = crc32c::crc32c_append(seed, table);
        let seed = crc32c::crc32c_append(seed, &self.table_at.to_le_bytes());
        crc32c::crc32c_append(seed, &self.count.to_le_bytes())
    }

    pub(super) fn put(&self, sum: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table_at.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(TRAILER_MAGIC);
    }

    /// A trailer with its sum; `None` if these bytes are none.
    pub(super) fn read(bytes: &[u8; TRAILER_BYTES]) -> Option<(Trailer, u32)> {
        let is_one = &bytes[16..] == TRAILER_MAGIC;
        let trailer = Trailer { table_at: u64_at(bytes, 0), count: u32_at(bytes, 8) };
        is_one.then_some((trailer, u32_at(bytes, 12)))
    }
}

/// A part as the manifest knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartAbout {
    /// Length of the file.
    pub(super) bytes: u64,
    /// The checksum in its trailer.
    pub(super) table_sum: u32,
}

/// The manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Manifest {
    pub(super) number: u64,
    /// Unix ms.
    pub(super) created_ms: u64,
    pub(super) keys: u64,
    pub(super) slots: u32,
    pub(super) parts: Vec<PartAbout>,
}

impl Manifest {
    pub(super) fn bytes(&self, ids: Ids) -> Vec<u8> {
        let mut bytes = vec![0; MANIFEST_HEAD_BYTES];
        head(MANIFEST_MAGIC, &mut bytes);
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created_ms.to_le_bytes());
        put_ids(&mut bytes[32..68], ids);
        bytes[68..72].copy_from_slice(&(self.parts.len() as u32).to_le_bytes());
        bytes[72..80].copy_from_slice(&self.keys.to_le_bytes());
        bytes[80..84].copy_from_slice(&self.slots.to_le_bytes());
        for part in &self.parts {
            bytes.extend_from_slice(&part.bytes.to_le_bytes());
            bytes.extend_from_slice(&part.table_sum.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a whole file of at least `MANIFEST_BYTES_MIN` bytes. Refusals, in order: no manifest,
    /// a newer format, damage, another's, another length.
    pub(super) fn read(bytes: &[u8], ids: Ids) -> Result<Manifest, CheckpointError> {
        let file = MANIFEST_FILE;
        check_head(file, MANIFEST_MAGIC, "a manifest", bytes)?;
        let summed = bytes.len() - SUM_BYTES;
        if crc32c::crc32c(&bytes[..summed]) != u32_at(bytes, summed) {
            let got = "bytes that do not match their checksum";
            return Err(damage(file, summed as u64, "the end of a manifest", got));
        }
        check_ids(file, 32, bytes, ids)?;
        let parts = &bytes[MANIFEST_HEAD_BYTES..summed];
        let count = u32_at(bytes, 68) as usize;
        if Some(parts.len()) != count.checked_mul(PART_ABOUT_BYTES) {
            let got = format!("{} bytes", parts.len());
            return Err(damage(file, MANIFEST_HEAD_BYTES as u64, format!("{count} parts"), got));
        }
        let about =
            |bytes: &[u8]| PartAbout { bytes: u64_at(bytes, 0), table_sum: u32_at(bytes, 8) };
        Ok(Manifest {
            number: u64_at(bytes, 16),
            created_ms: u64_at(bytes, 24),
            keys: u64_at(bytes, 72),
            slots: u32_at(bytes, 80),
            parts: parts.chunks_exact(PART_ABOUT_BYTES).map(about).collect(),
        })
    }
}

/// The name of a part.
pub(super) fn part_name(number: u64, part: u32) -> String {
    format!("part.{number:010}.{part:05}")
}

/// The number of the checkpoint that a file is a part of; `None` for any other file.
pub(super) fn part_of(name: &str) -> Option<u64> {
    let (number, part) = name.strip_prefix("part.")?.split_once('.')?;
    let (number, part) = (number.parse().ok()?, part.parse().ok()?);
    (part_name(number, part) == name).then_some(number)
}
