//! The bytes of a part file: a header, then frames of one slot after the other.
//!
//! ```text
//! header 16:  "SLOTBKUP" 8 | format 2 | zero 2 | number 4
//! frame:      length 4 | slot 2 | zero 2 | crc32c 4 | kind 1, payload: as the node gave it
//! ```
//! Little-endian; the checksum is of the 8 bytes before it and of the frame. Not what is in a
//! frame, which the node knows. Invariant: a frame that passed is the one that was written, of the
//! slot it is read as.

use std::io::{self, Read};

use super::Damage;
use super::manifest::{BACKUP_FORMAT, Section};

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes before a frame.
pub(crate) const FRAME_HEAD_BYTES: usize = 12;
/// Longest frame with its head, bytes: what a node takes as one word.
const FRAME_BYTES_MAX: u64 = 512 << 20;

const MAGIC: &[u8; 8] = b"SLOTBKUP";
const SUMMED_BYTES: usize = 8;

/// The name of a part.
pub(crate) fn name(number: u32) -> String {
    format!("{number:06}.part")
}

/// The header of a part.
pub(crate) fn header(number: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&(BACKUP_FORMAT as u16).to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Checks the header of a part.
pub(crate) fn check_header(file: &str, got: &[u8]) -> Result<(), Damage> {
    let number = file.split('.').next().and_then(|number| number.parse().ok());
    if number.is_some_and(|number| got == header(number)) {
        return Ok(());
    }
    let (file, expected) = (file.to_owned(), "the header of this part".to_owned());
    Err(Damage { file, offset: 0, expected, got: "other bytes".to_owned() })
}

/// What stands before a frame.
pub(crate) fn frame_head(slot: u16, frame: &[u8]) -> [u8; FRAME_HEAD_BYTES] {
    let mut head = [0; FRAME_HEAD_BYTES];
    head[..4].copy_from_slice(&(frame.len() as u32).to_le_bytes());
    head[4..6].copy_from_slice(&slot.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&head[..SUMMED_BYTES]), frame);
    head[SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Why a section cannot be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The disk's.
    Disk(io::Error),
    /// It is not what was written.
    Damage(Damage),
}

/// The frames of a section, one after the other, each checked.
pub(crate) struct Frames<'a, R> {
    section: &'a Section,
    from: R,
    /// Bytes of the section that were read.
    read: u64,
    frames: u64,
    sum: u32,
}

impl<'a, R: Read> Frames<'a, R> {
    /// `from` stands at the section's first byte.
    pub(crate) fn new(section: &'a Section, from: R) -> Self {
        Frames { section, from, read: 0, frames: 0, sum: 0 }
    }

    /// Reads the next frame into `frame`; `false`: that was the last, and all were as written.
    pub(crate) fn next(&mut self, frame: &mut Vec<u8>) -> Result<bool, ReadError> {
        let section = self.section;
        if self.read == section.bytes {
            return self.end();
        }
        let mut head = [0; FRAME_HEAD_BYTES];
        self.fill(&mut head)?;
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let length = u64::from(u32::from_le_bytes(word(0)));
        let left = (section.bytes - self.read).min(FRAME_BYTES_MAX);
        if length == 0 || length + FRAME_HEAD_BYTES as u64 > left {
            let expected = format!("a frame of 1 to {left} bytes");
            return Err(self.damage(expected, format!("one of {length} bytes")));
        }
        frame.clear();
        let got = (&mut self.from).take(length).read_to_end(frame).map_err(ReadError::Disk)?;
        if got as u64 != length {
            return Err(self.damage(format!("{length} bytes"), format!("{got}, then the end")));
        }
        let expected = frame_head(section.slot, frame);
        if head != expected {
            let sum = |head: &[u8]| format!("{:02x?}", &head[4..]);
            let (want, got) = (sum(&expected), sum(&head));
            return Err(self.damage(format!("slot and checksum {want}"), got));
        }
        self.sum = crc32c::crc32c_append(crc32c::crc32c_append(self.sum, &head), frame);
        self.read += FRAME_HEAD_BYTES as u64 + length;
        self.frames += 1;
        Ok(true)
    }

    fn end(&self) -> Result<bool, ReadError> {
        let Section { frames, crc32c, .. } = *self.section;
        if (self.frames, self.sum) == (frames, crc32c) {
            return Ok(false);
        }
        let shown = |frames: u64, sum: u32| format!("{frames} frames with checksum {sum:08x}");
        Err(self.damage(shown(frames, crc32c), shown(self.frames, self.sum)))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damage(format!("{} more bytes", bytes.len()), "the end of the file".to_owned())
            }
            _ => ReadError::Disk(error),
        })
    }

    /// At the frame that is being read.
    fn damage(&self, expected: String, got: String) -> ReadError {
        let (file, offset) = (self.section.file.clone(), self.section.offset + self.read);
        ReadError::Damage(Damage { file, offset, expected, got })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Section, Vec<u8>) {
        let mut bytes = Vec::new();
        for frame in [&b"\x01chunk"[..], b"\x02groups", b"\x03end"] {
            bytes.extend(frame_head(7, frame));
            bytes.extend(frame);
        }
        let crc32c = crc32c::crc32c(&bytes);
        let (length, file) = (bytes.len() as u64, name(3));
        let section = Section {
            slot: 7,
            file,
            offset: 16,
            bytes: length,
            frames: 3,
            crc32c,
            ..Section::default()
        };
        (section, bytes)
    }

    fn read(section: &Section, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Damage> {
        let (mut frames, mut frame, mut all) =
            (Frames::new(section, bytes), Vec::new(), Vec::new());
        loop {
            match frames.next(&mut frame) {
                Ok(true) => all.push(frame.clone()),
                Ok(false) => return Ok(all),
                Err(ReadError::Damage(damage)) => return Err(damage),
                Err(ReadError::Disk(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let (section, bytes) = sample();
        let frames = read(&section, &bytes).expect("whole");
        assert_eq!(frames, [&b"\x01chunk"[..], b"\x02groups", b"\x03end"]);
        assert_eq!(check_header(&name(3), &header(3)), Ok(()));
        assert!(check_header(&name(3), &header(4)).is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let (section, bytes) = sample();
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let damage = read(&section, &broken).expect_err("a bit is not as it was");
            assert!(damage.offset >= 16 && damage.file == "000003.part", "{damage}");
        }
        for cut in 0..bytes.len() {
            assert!(read(&section, &bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn frames_of_another_slot_or_backup_are_seen() {
        let (section, bytes) = sample();
        let other = Section { slot: 8, ..section.clone() };
        assert_eq!(read(&other, &bytes).expect_err("slot 7").offset, 16);
        let other = Section { crc32c: 1, ..section };
        assert!(read(&other, &bytes).expect_err("sum").to_string().contains("3 frames with"));
    }
}
