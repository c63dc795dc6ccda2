//! Little-endian reading and writing of payloads between nodes.
//!
//! Not frames (`frame`). Invariant: what is read was received: a length that was only announced
//! is compared with the bytes that are there and allocates nothing.

use std::fmt;

/// A payload that ends too early or holds what it must not; names the field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a frame holds no valid {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads a payload from its start.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Malformed(field))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed(field))?;
        self.rest = rest;
        Ok(*head)
    }

    /// A byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A block: its length in two bytes, then that many.
    pub fn block(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.u16(field)?;
        self.take(usize::from(length), field)
    }

    /// A block of at most `max_bytes` printable ASCII characters: it may stand in a log line.
    pub fn text(&mut self, max_bytes: usize, field: &'static str) -> Result<&'a str, Malformed> {
        let bytes = self.block(field)?;
        let printable = bytes.iter().all(|b| b.is_ascii_graphic() || *b == b' ');
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed(field))?;
        if printable && bytes.len() <= max_bytes { Ok(text) } else { Err(Malformed(field)) }
    }

    /// All that is left.
    pub const fn rest(self) -> &'a [u8] {
        self.rest
    }
}

/// Writes a block. What is longer than its length can say is cut; callers keep to their limits.
pub fn put_block(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&bytes[..usize::from(length)]);
}

/// Writes a text within `max_bytes`; what `Reader::text` would refuse becomes a question mark.
pub fn put_text(out: &mut Vec<u8>, text: &str, max_bytes: usize) {
    let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c as u8 } else { b'?' };
    let bytes: Vec<u8> = text.chars().take(max_bytes).map(printable).collect();
    put_block(out, &bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_end_is_malformed() {
        let mut reader = Reader::new(&[0xff, 0xff, 1, 2]);
        assert_eq!(reader.block("name"), Err(Malformed("name")));
        assert_eq!(Reader::new(&[1, 2, 3]).u32("count"), Err(Malformed("count")));
        assert_eq!(Malformed("name").to_string(), "a frame holds no valid name");
    }

    #[test]
    fn texts_cannot_break_a_log_line() {
        let mut out = Vec::new();
        put_text(&mut out, "a\nbé c", 5);
        assert_eq!(Reader::new(&out).text(5, "name"), Ok("a?b? "));
        assert_eq!(Reader::new(&out).text(4, "name"), Err(Malformed("name")));
        let mut raw = Vec::new();
        put_block(&mut raw, b"a\nb");
        assert_eq!(Reader::new(&raw).text(5, "name"), Err(Malformed("name")));
    }
}
