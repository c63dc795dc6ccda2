//! The reply writer: appends RESP2 or RESP3 to a connection's write buffer.
//!
//! A handler states what it means (a map, a double, nothing) and the writer picks the form of
//! the connection's protocol, as Redis does. It is not a value tree: the caller announces an
//! aggregate's length and then writes that many elements.
//!
//! Invariant: whatever text or value is given, the bytes written are well-formed replies: line
//! ends in one-line replies become blanks.

use crate::store::number::format_f64;

/// The protocol a connection has agreed on with HELLO.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Proto {
    /// What every connection begins with.
    #[default]
    Resp2,
    /// Maps, sets, doubles, booleans, pushes.
    Resp3,
}

/// Writes replies to `out`. Cheap to make: one for each command or one for a whole batch.
#[derive(Debug)]
pub struct Reply<'a> {
    /// Where the bytes go; replies are appended.
    pub out: &'a mut Vec<u8>,
    /// The form they take.
    pub proto: Proto,
}

/// The place of an aggregate whose length is set after its elements are written.
///
/// Nested ones are set from the inside out: setting a length may move what stands behind it.
#[derive(Debug)]
#[must_use = "the reply is malformed until the length is set"]
pub struct DeferredLen {
    at: usize,
}

/// The largest header: a type byte, 20 characters of a number, CR LF.
const MAX_HEADER_BYTES: usize = 23;
/// What `DeferredLen` keeps free: the header of a length below 10.
const DEFERRED_HEADER: &[u8] = b"*0\r\n";

impl<'a> Reply<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, proto: Proto) -> Self {
        Self { out, proto }
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A one-line status such as `PONG` or `QUEUED`.
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.one_line(b'+', text.as_ref());
    }

    /// An error. The text begins with its code and without `-`: `ERR syntax error`.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.one_line(b'-', trim_line_ends(text.as_ref()));
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        match u8::try_from(value) {
            Ok(small) => self.header(b':', small.into()),
            Err(_) => self.signed_header(b':', value),
        }
    }

    /// A bulk string: any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + MAX_HEADER_BYTES + 2);
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A bulk string of `len` bytes that lies in pieces.
    pub fn bulk_parts<'p>(&mut self, len: usize, parts: impl Iterator<Item = &'p [u8]>) {
        self.out.reserve(len + 32);
        self.out.push(b'$');
        self.out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
        self.out.extend_from_slice(b"\r\n");
        let start = self.out.len();
        parts.for_each(|part| self.out.extend_from_slice(part));
        debug_assert_eq!(self.out.len() - start, len);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A bulk string that holds an integer.
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A bulk string that holds a double, in both protocols.
    pub fn bulk_double(&mut self, value: f64) {
        self.bulk(format_f64(value).as_bytes());
    }

    /// Nothing where a value was asked for: `$-1`, or `_` in RESP3.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.proto {
            Proto::Resp2 => b"$-1\r\n",
            Proto::Resp3 => b"_\r\n",
        });
    }

    /// Nothing where an array was asked for: `*-1`, or `_` in RESP3.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.proto {
            Proto::Resp2 => b"*-1\r\n",
            Proto::Resp3 => b"_\r\n",
        });
    }

    /// The header of an array; `len` elements follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// The header of a map; `pairs` keys and values follow in turn. A flat array in RESP2.
    pub fn map(&mut self, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.header(kind, len);
    }

    /// The header of a set; `len` members follow. An array in RESP2.
    pub fn set(&mut self, len: usize) {
        self.header(self.kind(b'~'), len);
    }

    /// The header of a message the client did not ask for; an array in RESP2.
    pub fn push(&mut self, len: usize) {
        self.header(self.kind(b'>'), len);
    }

    /// A double; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        match self.proto {
            Proto::Resp2 => self.bulk_double(value),
            Proto::Resp3 => self.one_line(b',', format_f64(value).as_bytes()),
        }
    }

    /// A boolean; 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.proto, value) {
            (Proto::Resp2, true) => b":1\r\n",
            (Proto::Resp2, false) => b":0\r\n",
            (Proto::Resp3, true) => b"#t\r\n",
            (Proto::Resp3, false) => b"#f\r\n",
        });
    }

    /// Text for people, with a format of three characters (`txt`, `mkd`); a bulk in RESP2.
    /// A shorter format is filled up with blanks, a longer one is cut.
    pub fn verbatim(&mut self, format: &str, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        if self.proto == Proto::Resp2 {
            return self.bulk(text);
        }
        let mut prefix = *b"   :";
        for (place, &byte) in prefix[..3].iter_mut().zip(format.as_bytes()) {
            *place = byte;
        }
        self.out.reserve(text.len() + prefix.len() + MAX_HEADER_BYTES + 2);
        self.header(b'=', prefix.len() + text.len());
        self.out.extend_from_slice(&prefix);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer of any size, in decimal; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: impl AsRef<[u8]>) {
        match self.proto {
            Proto::Resp2 => self.bulk(digits.as_ref()),
            Proto::Resp3 => self.one_line(b'(', digits.as_ref()),
        }
    }

    /// Begins an aggregate whose length is not known yet. One of `set_array_len`, `set_map_len`
    /// and `set_set_len` must follow once its elements are written.
    pub fn array_deferred(&mut self) -> DeferredLen {
        let at = self.out.len();
        self.out.extend_from_slice(DEFERRED_HEADER);
        DeferredLen { at }
    }

    /// Makes it an array of `len` elements.
    pub fn set_array_len(&mut self, mark: DeferredLen, len: usize) {
        self.set_header(mark, b'*', len);
    }

    /// Makes it a map of `pairs` keys and values.
    pub fn set_map_len(&mut self, mark: DeferredLen, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.set_header(mark, kind, len);
    }

    /// Makes it a set of `len` members.
    pub fn set_set_len(&mut self, mark: DeferredLen, len: usize) {
        self.set_header(mark, self.kind(b'~'), len);
    }

    fn kind(&self, resp3: u8) -> u8 {
        if self.proto == Proto::Resp3 { resp3 } else { b'*' }
    }

    fn map_header(&self, pairs: usize) -> (u8, usize) {
        match self.proto {
            Proto::Resp2 => (b'*', pairs * 2),
            Proto::Resp3 => (b'%', pairs),
        }
    }

    #[inline(always)]
    fn header(&mut self, kind: u8, len: usize) {
        // Most lengths have one or two digits: one copy of a fixed size each.
        let (tens, ones) = ((len / 10) as u8, (len % 10) as u8);
        if len < 10 {
            self.out.extend_from_slice(&[kind, b'0' + ones, b'\r', b'\n']);
        } else if len < 100 {
            self.out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        } else {
            self.signed_header(kind, len as i64);
        }
    }

    fn signed_header(&mut self, kind: u8, value: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(value).as_bytes();
        let mut line = [0; MAX_HEADER_BYTES];
        let end = digits.len() + 1;
        line[0] = kind;
        line[1..end].copy_from_slice(digits);
        line[end] = b'\r';
        line[end + 1] = b'\n';
        self.out.extend_from_slice(&line[..end + 2]);
    }

    fn set_header(&mut self, mark: DeferredLen, kind: u8, len: usize) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(len).as_bytes();
        let at = mark.at;
        self.out[at] = kind;
        self.out[at + 1] = digits[0];
        if digits.len() > 1 {
            self.out.splice(at + 2..at + 2, digits[1..].iter().copied());
        }
    }

    fn one_line(&mut self, kind: u8, text: &[u8]) {
        self.out.reserve(text.len() + 3);
        self.out.push(kind);
        let from = self.out.len();
        self.out.extend_from_slice(text);
        if memchr::memchr2(b'\r', b'\n', text).is_some() {
            for byte in &mut self.out[from..] {
                if matches!(*byte, b'\r' | b'\n') {
                    *byte = b' ';
                }
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The text without the CR and LF bytes at either end, which Redis drops from errors.
fn trim_line_ends(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n');
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    &text[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl Fn(&mut Reply<'_>), resp2: &str, resp3: &str) {
        for (proto, expected) in [(Proto::Resp2, resp2), (Proto::Resp3, resp3)] {
            let mut out = b"before".to_vec();
            write(&mut Reply::new(&mut out, proto));
            let written = out.strip_prefix(b"before").expect("replies are appended");
            assert_eq!(written.escape_ascii().to_string(), expected, "{proto:?}");
        }
    }

    #[track_caller]
    fn check_same(write: impl Fn(&mut Reply<'_>), both: &str) {
        check(write, both, both);
    }

    #[test]
    fn plain_replies_are_the_same_in_both() {
        check_same(|r| r.ok(), r"+OK\r\n");
        check_same(|r| r.simple("PONG"), r"+PONG\r\n");
        check_same(|r| r.error("ERR syntax error"), r"-ERR syntax error\r\n");
        check_same(|r| r.int(i64::MIN), r":-9223372036854775808\r\n");
        check_same(|r| r.bulk(b""), r"$0\r\n\r\n");
        check_same(|r| r.bulk(b"a\r\nb"), r"$4\r\na\r\nb\r\n");
        check_same(|r| r.bulk_int(-42), r"$3\r\n-42\r\n");
        check_same(|r| r.bulk_double(0.1), r"$3\r\n0.1\r\n");
        check_same(|r| r.array(3), r"*3\r\n");
    }

    #[test]
    fn lengths_of_any_size_are_written() {
        for len in [0, 9, 10, 64, 99, 100, 101, 999, 1000, 70000] {
            let mut out = Vec::new();
            Reply::new(&mut out, Proto::Resp2).bulk(&vec![b'x'; len]);
            assert_eq!(out, format!("${len}\r\n{}\r\n", "x".repeat(len)).into_bytes());
        }
        check_same(|r| r.array(usize::MAX / 2), r"*9223372036854775807\r\n");
    }

    #[test]
    fn each_protocol_has_its_own_forms() {
        check(|r| r.null(), r"$-1\r\n", r"_\r\n");
        check(|r| r.null_array(), r"*-1\r\n", r"_\r\n");
        check(|r| r.map(2), r"*4\r\n", r"%2\r\n");
        check(|r| r.set(2), r"*2\r\n", r"~2\r\n");
        check(|r| r.push(3), r"*3\r\n", r">3\r\n");
        check(|r| r.boolean(true), r":1\r\n", r"#t\r\n");
        check(|r| r.boolean(false), r":0\r\n", r"#f\r\n");
        check(|r| r.double(1.5), r"$3\r\n1.5\r\n", r",1.5\r\n");
        check(|r| r.double(f64::INFINITY), r"$3\r\ninf\r\n", r",inf\r\n");
        check(|r| r.double(f64::NEG_INFINITY), r"$4\r\n-inf\r\n", r",-inf\r\n");
        check(|r| r.big_number("123"), r"$3\r\n123\r\n", r"(123\r\n");
        check(|r| r.verbatim("txt", "hi"), r"$2\r\nhi\r\n", r"=6\r\ntxt:hi\r\n");
        check(|r| r.verbatim("m", "hi"), r"$2\r\nhi\r\n", r"=6\r\nm  :hi\r\n");
    }

    #[test]
    fn line_ends_in_errors_become_blanks() {
        check_same(|r| r.error("ERR a\r\nb\nc\r\n"), r"-ERR a  b c\r\n");
        check_same(|r| r.error("\r\n"), r"-\r\n");
        check_same(|r| r.simple("a\nb"), r"+a b\r\n");
        check_same(|r| r.error([b'E', 0xff]), r"-E\xff\r\n");
    }

    #[test]
    fn deferred_lengths_of_any_size_fit() {
        for len in [0, 7, 10, 12345] {
            let write = |r: &mut Reply<'_>| {
                let mark = r.array_deferred();
                r.ok();
                r.set_array_len(mark, len);
                r.ok();
            };
            check_same(write, &format!(r"*{len}\r\n+OK\r\n+OK\r\n"));
        }
    }

    #[test]
    fn deferred_lengths_nest() {
        let write = |r: &mut Reply<'_>| {
            let outer = r.array_deferred();
            r.int(1);
            let inner = r.array_deferred();
            r.int(2);
            r.set_map_len(inner, 15);
            let second = r.array_deferred();
            r.set_set_len(second, 100);
            r.set_array_len(outer, 30);
        };
        check(write, r"*30\r\n:1\r\n*30\r\n:2\r\n*100\r\n", r"*30\r\n:1\r\n%15\r\n:2\r\n~100\r\n");
    }
}
