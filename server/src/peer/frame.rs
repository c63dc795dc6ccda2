//! Frames: what a link is cut into after its eight bytes of magic.
//!
//! ```text
//!   0         4      5            8           12             12 + length
//!   +---------+------+------------+-----------+----------------+
//!   | length  | kind | zero, zero,| crc32c    | payload        |
//!   | u32     | u8   | zero       | u32       | <= 65,536      |
//!   +---------+------+------------+-----------+----------------+
//! ```
//! Little-endian. The checksum is that of bytes 0-7 and the payload. Invariant: a decoder holds
//! what it was fed and no more, whatever a length announces.

use std::fmt;

/// What a link begins with, both ways: "this is slotd's protocol between nodes".
pub const MAGIC: [u8; 8] = *b"slotpeer";
/// Bytes before a frame's payload.
pub const HEADER_BYTES: usize = 12;
/// Longest payload: short enough that a ping waits at most 1 ms behind one on a 1 Gbit/s line.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// Longest payload before both sides have shown who they are: a Hello with the longest names fits
/// three times.
pub const MAX_GREETING_PAYLOAD_BYTES: usize = 4 * 1024;

/// Kinds from this one on may be skipped by a node that does not know them.
const FIRST_SKIPPED_KIND: u8 = 128;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Greeting: who is here.
    Hello = 1,
    /// Greeting: knows the secret.
    Proof = 2,
    /// Greeting: come in; known addresses.
    Welcome = 3,
    /// Go away: code and text. The last frame of its sender.
    Refused = 4,
    /// Alive: status, and a time to echo.
    Ping = 5,
    /// The echo.
    Pong = 6,
    /// A piece of a call.
    Request = 7,
    /// A piece of its answer.
    Answer = 8,
    /// Addresses of members that changed.
    Addresses = 9,
}

impl FrameKind {
    const ALL: [FrameKind; 9] = [
        FrameKind::Hello,
        FrameKind::Proof,
        FrameKind::Welcome,
        FrameKind::Refused,
        FrameKind::Ping,
        FrameKind::Pong,
        FrameKind::Request,
        FrameKind::Answer,
        FrameKind::Addresses,
    ];

    fn from_wire(number: u8) -> Option<FrameKind> {
        FrameKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Bytes that are no frames. The link cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The link does not begin with the magic.
    NotSlotd,
    /// A payload longer than may come now.
    TooLong {
        /// Announced.
        got_bytes: u32,
        /// Allowed.
        max_bytes: usize,
    },
    /// Damaged on the way.
    Checksum {
        /// What the frame says.
        expected: u32,
        /// What its bytes give.
        got: u32,
    },
    /// A kind that this version does not know and must not skip.
    UnknownKind(u8),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::NotSlotd => f.write_str(
                "the other end does not speak slotd's protocol between nodes: give the port that \
                 the node listens on for nodes (cluster-port), not the one for clients",
            ),
            FrameError::TooLong { got_bytes, max_bytes } => {
                write!(f, "a frame of {got_bytes} bytes, where {max_bytes} are the most")
            }
            FrameError::Checksum { expected, got } => {
                write!(f, "a frame came damaged: checksum {expected:08x}, its bytes give {got:08x}")
            }
            FrameError::UnknownKind(kind) => write!(f, "a frame of the unknown kind {kind}"),
        }
    }
}

/// Appends a frame whose payload is these parts, one after the other.
///
/// # Panics
/// If they are longer than `MAX_PAYLOAD_BYTES` together: whoever cuts messages made a mistake.
pub fn put_frame(out: &mut Vec<u8>, kind: FrameKind, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    assert!(length <= MAX_PAYLOAD_BYTES, "a payload of {length} bytes was not cut");
    let mut head = [0; 8];
    head[..4].copy_from_slice(&(length as u32).to_le_bytes());
    head[4] = kind as u8;
    let sum =
        parts.iter().fold(crc32c::crc32c(&head), |sum, part| crc32c::crc32c_append(sum, part));
    out.reserve(HEADER_BYTES + length);
    out.extend_from_slice(&head);
    out.extend_from_slice(&sum.to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// How many frames these bytes are, which begin with the magic or with a frame and end with one.
pub fn count_frames(bytes: &[u8]) -> u64 {
    let mut rest = bytes.strip_prefix(&MAGIC).unwrap_or(bytes);
    let mut count = 0;
    while let Some(length) = rest.first_chunk() {
        let end = HEADER_BYTES + u32::from_le_bytes(*length) as usize;
        rest = rest.get(end..).unwrap_or_default();
        count += 1;
    }
    count
}

/// The checksum of a frame: of the eight bytes before it, and of the payload behind it.
pub fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(head), payload)
}

/// A whole frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// What it says.
    pub payload: Vec<u8>,
}

/// Finds frames in the bytes of a link. Call `feed` with what came, then `next` until it has none.
#[derive(Default, Debug)]
pub struct Decoder {
    buf: Vec<u8>,
    at: usize,
    saw_magic: bool,
}

impl Decoder {
    /// Takes bytes as they came.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.at > 0 && self.at >= self.buf.len() / 2 {
            self.buf.drain(..self.at);
            self.at = 0;
        }
        if self.buf.is_empty() && self.buf.capacity() > 4 * MAX_PAYLOAD_BYTES {
            self.buf = Vec::new();
        }
        self.buf.extend_from_slice(bytes);
    }

    /// The next whole frame; `max_payload_bytes` is what the link's state allows. After an error
    /// nothing more is to be asked.
    pub fn next(&mut self, max_payload_bytes: usize) -> Result<Option<Frame>, FrameError> {
        if !self.saw_magic && !self.skip_magic()? {
            return Ok(None);
        }
        loop {
            let unread = &self.buf[self.at..];
            let Some((head, rest)) = unread.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            let [a, b, c, d, kind, ..] = *head;
            let got_bytes = u32::from_le_bytes([a, b, c, d]);
            let length = got_bytes as usize;
            if length > max_payload_bytes {
                return Err(FrameError::TooLong { got_bytes, max_bytes: max_payload_bytes });
            }
            let Some(payload) = rest.get(..length) else { return Ok(None) };
            let got = checksum(&head[..8], payload);
            let expected = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
            if got != expected {
                return Err(FrameError::Checksum { expected, got });
            }
            let found = FrameKind::from_wire(kind);
            let frame = found.map(|kind| Frame { kind, payload: payload.to_vec() });
            self.at += HEADER_BYTES + length;
            match frame {
                Some(frame) => return Ok(Some(frame)),
                None if kind >= FIRST_SKIPPED_KIND => {}
                None => return Err(FrameError::UnknownKind(kind)),
            }
        }
    }

    /// Has the magic come? Bytes that cannot become it are refused at the first wrong one.
    fn skip_magic(&mut self) -> Result<bool, FrameError> {
        let there = &self.buf[..self.buf.len().min(MAGIC.len())];
        if !MAGIC.starts_with(there) {
            return Err(FrameError::NotSlotd);
        }
        self.saw_magic = there.len() == MAGIC.len();
        self.at = if self.saw_magic { MAGIC.len() } else { 0 };
        Ok(self.saw_magic)
    }

    /// Bytes held: never more than were fed and not yet taken as frames, and as many again.
    pub fn held_bytes(&self) -> usize {
        self.buf.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8], cut: usize) -> (Vec<Frame>, Option<FrameError>) {
        let (mut decoder, mut frames, mut fed) = (Decoder::default(), Vec::new(), 0);
        for piece in bytes.chunks(cut) {
            decoder.feed(piece);
            fed += piece.len();
            loop {
                match decoder.next(MAX_PAYLOAD_BYTES) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
            assert!(decoder.held_bytes() <= fed);
            assert!(decoder.buf.capacity() <= 2 * fed + 64, "{}", decoder.buf.capacity());
        }
        (frames, None)
    }

    fn stream(frames: &[Frame]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for frame in frames {
            let (left, right) = frame.payload.split_at(frame.payload.len() / 2);
            put_frame(&mut out, frame.kind, &[left, right]);
        }
        out
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let payload = proptest::collection::vec(any::<u8>(), 0..200);
        let frame = (0..FrameKind::ALL.len(), payload)
            .prop_map(|(kind, payload)| Frame { kind: FrameKind::ALL[kind], payload });
        proptest::collection::vec(frame, 0..8)
    }

    proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(sent in frames(), cut in 1usize..300) {
            prop_assert_eq!(decode(&stream(&sent), cut), (sent, None));
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            cut in 1usize..50,
        ) {
            decode(&bytes, cut);
            decode(&[MAGIC.as_slice(), &bytes].concat(), cut);
        }

        #[test]
        fn a_flipped_bit_is_noticed(
            sent in frames(),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let mut bytes = stream(&sent);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let (got, error) = decode(&bytes, 64);
            // A length that grew may wait for bytes that never come; it gives no wrong frame.
            prop_assert!(sent.starts_with(&got) && (error.is_some() || got.len() < sent.len()));
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_its_bytes_come() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&u32::MAX.to_le_bytes());
        bytes.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0]);
        let (_, error) = decode(&bytes, 100);
        let max_bytes = MAX_PAYLOAD_BYTES;
        assert_eq!(error, Some(FrameError::TooLong { got_bytes: u32::MAX, max_bytes }));
    }

    #[test]
    fn another_protocol_is_refused_at_its_first_wrong_byte() {
        for bytes in [b"PING\r\n".as_slice(), b"GET / HTTP/1.1", b"slotpeeR", b"s\0"] {
            assert_eq!(decode(bytes, 1).1, Some(FrameError::NotSlotd), "{bytes:?}");
        }
        assert_eq!(decode(b"slotpee", 2), (vec![], None));
    }

    #[test]
    fn unknown_kinds_are_skipped_from_128_on_and_refused_below() {
        let kind = |number: u8| {
            let mut bytes = stream(&[Frame { kind: FrameKind::Ping, payload: vec![1] }]);
            bytes[MAGIC.len() + 4] = number;
            let at = MAGIC.len();
            let sum = crc32c::crc32c(&[&bytes[at..at + 8], &[1]].concat());
            bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
            put_frame(&mut bytes, FrameKind::Pong, &[]);
            decode(&bytes, 1000)
        };
        assert_eq!(kind(128), (vec![Frame { kind: FrameKind::Pong, payload: vec![] }], None));
        assert_eq!(kind(100).1, Some(FrameError::UnknownKind(100)));
    }
}
