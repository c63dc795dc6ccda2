//! RESP as slotctl needs it: requests of bulk strings, replies that are text or an error.
//!
//! Not the socket: bytes come from any reader. Not the whole protocol: a reply of another kind
//! is named and refused.
//!
//! Invariant: an announced length allocates nothing; a reply over the limit ends the reading.

use std::io::{self, BufRead, Read};

/// Longest reply, bytes: a frame of a backup with one large value, which is some 512 MiB at most.
/// The table of a thousand nodes and 16,384 rows is below 8 MiB of JSON.
pub(crate) const MAX_REPLY_BYTES: u64 = 1 << 30;
/// Longest line, bytes: an error is a sentence, a length a number.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// A simple or a bulk string.
    Text(Vec<u8>),
    /// An error, without its `-`.
    Error(String),
    /// Something slotctl never asks for, by the name of its kind.
    Other(&'static str),
}

/// The request of these words.
pub(crate) fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Reads one reply. Errors: those of the reader, an early end, bytes that are no reply.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Reply> {
    let line = read_line(from)?;
    let Some((kind, rest)) = line.split_first() else { return Err(no_reply("an empty line")) };
    match kind {
        b'+' => Ok(Reply::Text(rest.to_vec())),
        b'-' => Ok(Reply::Error(String::from_utf8_lossy(rest).into_owned())),
        b'$' => read_bulk(from, rest),
        b'*' => Ok(Reply::Other("an array")),
        b':' => Ok(Reply::Other("a number")),
        b'_' => Ok(Reply::Other("null")),
        b'%' | b'~' | b'>' | b'=' | b'#' | b',' | b'(' | b'!' => Ok(Reply::Other("a RESP3 type")),
        _ => Err(no_reply("bytes that are not of the Redis protocol")),
    }
}

fn read_bulk(from: &mut impl BufRead, length: &[u8]) -> io::Result<Reply> {
    if length == b"-1" {
        return Ok(Reply::Other("null"));
    }
    let length: Option<u64> = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
    let length = length.ok_or_else(|| no_reply("a bulk string of no length"))?;
    if length > MAX_REPLY_BYTES {
        return Err(no_reply(&format!("{length} bytes, over the limit of {MAX_REPLY_BYTES}")));
    }
    let mut text = Vec::new();
    from.take(length).read_to_end(&mut text)?;
    let mut end = [0; 2];
    from.read_exact(&mut end)?;
    if end != *b"\r\n" {
        Err(no_reply("a bulk string without its end"))
    } else {
        Ok(Reply::Text(text))
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(text) => Ok(text.to_vec()),
        None if line.len() as u64 == MAX_LINE_BYTES => Err(no_reply("a line without end")),
        None if line.ends_with(b"\n") => Err(no_reply("bytes that are not of the Redis protocol")),
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
    }
}

fn no_reply(got: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("expected a reply, got {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Reply) {
        assert_eq!(read(&mut &*bytes).expect("a reply"), expected);
        for cut in 0..bytes.len() {
            let kind = read(&mut &bytes[..cut]).expect_err("half a reply").kind();
            assert_eq!(kind, io::ErrorKind::UnexpectedEof, "{cut} of {bytes:?}");
        }
    }

    fn refused(bytes: &[u8]) -> String {
        read(&mut &*bytes).expect_err("no reply").to_string()
    }

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let words = [b"AUTH".to_vec(), b"a b".to_vec(), Vec::new()];
        assert_eq!(encode(&words), b"*3\r\n$4\r\nAUTH\r\n$3\r\na b\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_text_or_errors() {
        check(b"+OK\r\n", Reply::Text(b"OK".to_vec()));
        check(b"$5\r\na\r\nbc\r\n", Reply::Text(b"a\r\nbc".to_vec()));
        check(b"$0\r\n\r\n", Reply::Text(Vec::new()));
        check(b"-REFUSED no\r\n", Reply::Error("REFUSED no".into()));
        check(b"$-1\r\n", Reply::Other("null"));
        check(b"*2\r\n", Reply::Other("an array"));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        assert!(refused(b"HTTP/1.1 400 Bad Request\r\n").contains("not of the Redis protocol"));
        assert!(refused(b"\r\n").contains("an empty line"));
        assert!(refused(b"+OK\n").contains("not of the Redis protocol"));
        assert!(refused(b"$x\r\n").contains("no length"));
        assert!(refused(b"$2\r\nabc\r\n").contains("without its end"));
        assert!(refused(&vec![b'+'; 70_000]).contains("a line without end"));
    }

    #[test]
    fn an_announced_length_allocates_nothing() {
        assert!(refused(b"$99999999999\r\n").contains("over the limit"));
        let half = format!("${MAX_REPLY_BYTES}\r\nabc");
        let kind = read(&mut half.as_bytes()).expect_err("half").kind();
        assert_eq!(kind, io::ErrorKind::UnexpectedEof);
    }
}
