//! A small blocking RESP client for tests and probes: RESP2 and RESP3, raw bytes when wanted.
//!
//! Its decoder is our own and not the `redis-protocol` crate's because tests must tell `$-1` from
//! `*-1`, keep the order of maps and see surplus bytes; a property test holds it to the crate.
//! Invariant: every wait has a deadline; a reply that breaks the protocol is an error.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a test waits for a reply before it calls the server stuck.
pub const REPLY_DEADLINE: Duration = Duration::from_secs(10);
/// No reply of ours nests deeper; more is a broken server.
const MAX_NESTING: usize = 32;
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// One reply, as it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+text`
    Simple(String),
    /// `-text`, or the RESP3 blob error.
    Error(String),
    /// `:1`
    Int(i64),
    /// `$3 abc`
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// `*n`
    Array(Vec<Value>),
    /// `%n`, in the order sent.
    Map(Vec<(Value, Value)>),
    /// `~n`
    Set(Vec<Value>),
    /// `>n`
    Push(Vec<Value>),
    /// `,1.5`
    Double(f64),
    /// `#t`
    Bool(bool),
    /// `(123`
    Big(String),
    /// `=n txt:...`: the three letters and the text.
    Verbatim(String, Vec<u8>),
}

impl Value {
    /// A bulk string of this text; for assertions.
    pub fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    /// `+OK`.
    pub fn ok() -> Self {
        Self::Simple("OK".into())
    }

    /// Whether this is an error whose text starts so.
    pub fn is_error(&self, start: &str) -> bool {
        matches!(self, Self::Error(text) if text.starts_with(start))
    }

    /// Text of a simple string, bulk, verbatim string or error, if it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Simple(text) | Self::Error(text) | Self::Big(text) => Some(text),
            Self::Bulk(bytes) | Self::Verbatim(_, bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The number of an integer reply.
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// The members of an array, set or push.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => Some(items),
            _ => None,
        }
    }
}

/// Why bytes are not a reply.
#[derive(Debug, PartialEq, Eq)]
pub struct NotResp(pub String);

/// Decodes the first reply of `buf`: the value and its length, or `None` if bytes are missing.
pub fn decode(buf: &[u8]) -> Result<Option<(Value, usize)>, NotResp> {
    let mut at = 0;
    let value = decode_at(buf, &mut at, MAX_NESTING)?;
    Ok(value.map(|value| (value, at)))
}

/// Writes a request as an array of bulk strings.
pub fn encode(args: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    buf: Vec<u8>,
    deadline: Duration,
}

impl Client {
    /// Connects within [`REPLY_DEADLINE`].
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        let address = address.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
        let stream = TcpStream::connect_timeout(&address, REPLY_DEADLINE)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buf: Vec::new(), deadline: REPLY_DEADLINE })
    }

    /// From now on waits this long for a reply.
    pub fn wait_at_most(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Sends a request and returns its reply.
    pub fn call(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        self.send(args)?;
        self.read()
    }

    /// As [`Client::call`], with a line of words: `say("SET k v")`.
    pub fn say(&mut self, line: &str) -> io::Result<Value> {
        self.call(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Sends a request, without waiting.
    pub fn send(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut out = Vec::new();
        encode(args, &mut out);
        self.send_raw(&out)
    }

    /// Sends these bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.deadline))?;
        self.stream.write_all(bytes)
    }

    /// The next reply.
    pub fn read(&mut self) -> io::Result<Value> {
        let until = Instant::now() + self.deadline;
        loop {
            let found = decode(&self.buf).map_err(|NotResp(why)| io::Error::other(why))?;
            if let Some((value, length)) = found {
                self.buf.drain(..length);
                return Ok(value);
            }
            if self.fill(until)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The next `n` replies.
    pub fn read_many(&mut self, n: usize) -> io::Result<Vec<Value>> {
        (0..n).map(|_| self.read()).collect()
    }

    /// Exactly `n` bytes of whatever comes.
    pub fn read_bytes(&mut self, n: usize) -> io::Result<Vec<u8>> {
        let until = Instant::now() + self.deadline;
        while self.buf.len() < n {
            if self.fill(until)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buf.drain(..n).collect())
    }

    /// Everything until the server closes; an error if it does not.
    pub fn read_to_close(&mut self) -> io::Result<Vec<u8>> {
        let until = Instant::now() + self.deadline;
        loop {
            match self.fill(until) {
                Ok(0) => return Ok(std::mem::take(&mut self.buf)),
                Ok(_) => {}
                // A close with unread bytes of ours is a reset: closed all the same.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(std::mem::take(&mut self.buf));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether nothing arrives for this long.
    pub fn is_silent_for(&mut self, wait: Duration) -> io::Result<bool> {
        if !self.buf.is_empty() {
            return Ok(false);
        }
        match self.fill(Instant::now() + wait) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The socket itself, for what this client does not offer (half-close, options).
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    fn fill(&mut self, until: Instant) -> io::Result<usize> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let filled = self.buf.len();
        self.buf.resize(filled + READ_CHUNK_BYTES, 0);
        let got = self.stream.read(&mut self.buf[filled..]);
        self.buf.truncate(filled + *got.as_ref().unwrap_or(&0));
        match got {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::ErrorKind::TimedOut.into())
            }
            other => other,
        }
    }
}

fn decode_at(buf: &[u8], at: &mut usize, depth: usize) -> Result<Option<Value>, NotResp> {
    if depth == 0 {
        return Err(NotResp("nested too deep".into()));
    }
    let Some(line) = line_at(buf, at) else { return Ok(None) };
    let Some((&kind, rest)) = line.split_first() else {
        return Err(NotResp("an empty line".into()));
    };
    let text = || String::from_utf8_lossy(rest).into_owned();
    let value = match kind {
        b'+' => Value::Simple(text()),
        b'-' => Value::Error(text()),
        b':' => Value::Int(number(rest)?),
        b'_' => Value::Null,
        b'(' => Value::Big(text()),
        b'#' if rest == b"t" || rest == b"f" => Value::Bool(rest == b"t"),
        b',' => Value::Double(text().parse().map_err(|_| bad(line))?),
        b'$' if rest == b"-1" => Value::NullBulk,
        b'*' if rest == b"-1" => Value::NullArray,
        b'$' | b'!' | b'=' => return blob_at(buf, at, kind, number(rest)?),
        b'*' | b'~' | b'>' | b'%' => return nested_at(buf, at, kind, number(rest)?, depth),
        _ => return Err(bad(line)),
    };
    Ok(Some(value))
}

fn blob_at(buf: &[u8], at: &mut usize, kind: u8, length: i64) -> Result<Option<Value>, NotResp> {
    let length = usize::try_from(length).map_err(|_| NotResp(format!("length {length}")))?;
    let Some(blob) = buf.get(*at..*at + length) else { return Ok(None) };
    let Some(end) = buf.get(*at + length..*at + length + 2) else { return Ok(None) };
    if end != b"\r\n" {
        return Err(NotResp("no CRLF behind a blob".into()));
    }
    *at += length + 2;
    Ok(Some(match kind {
        b'!' => Value::Error(String::from_utf8_lossy(blob).into_owned()),
        b'=' => match blob.split_at_checked(4) {
            Some((format, text)) if format[3] == b':' => {
                Value::Verbatim(String::from_utf8_lossy(&format[..3]).into_owned(), text.to_vec())
            }
            _ => return Err(bad(blob)),
        },
        _ => Value::Bulk(blob.to_vec()),
    }))
}

fn nested_at(
    buf: &[u8],
    at: &mut usize,
    kind: u8,
    count: i64,
    depth: usize,
) -> Result<Option<Value>, NotResp> {
    let count = usize::try_from(count).map_err(|_| NotResp(format!("count {count}")))?;
    let mut items = Vec::new();
    for _ in 0..if kind == b'%' { count * 2 } else { count } {
        let Some(item) = decode_at(buf, at, depth - 1)? else { return Ok(None) };
        items.push(item);
    }
    Ok(Some(match kind {
        b'~' => Value::Set(items),
        b'>' => Value::Push(items),
        b'%' => {
            let mut items = items.into_iter();
            let mut pairs = Vec::new();
            while let (Some(name), Some(value)) = (items.next(), items.next()) {
                pairs.push((name, value));
            }
            Value::Map(pairs)
        }
        _ => Value::Array(items),
    }))
}

fn line_at<'a>(buf: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = &buf[*at..];
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 2;
    Some(&rest[..end])
}

fn number(text: &[u8]) -> Result<i64, NotResp> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| bad(text))
}

fn bad(line: &[u8]) -> NotResp {
    NotResp(format!("not a reply: {:?}", String::from_utf8_lossy(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, value: Value) {
        let whole = bytes.as_bytes();
        assert_eq!(decode(whole), Ok(Some((value, whole.len()))), "{bytes:?}");
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), Ok(None), "{bytes:?} cut at {cut}");
        }
    }

    #[test]
    fn every_kind_of_reply_and_every_cut_of_it() {
        check("+OK\r\n", Value::ok());
        check("-ERR no\r\n", Value::Error("ERR no".into()));
        check(":-7\r\n", Value::Int(-7));
        check("$3\r\na\r\n\r\n", Value::bulk("a\r\n"));
        check("$0\r\n\r\n", Value::bulk(""));
        check("$-1\r\n", Value::NullBulk);
        check("*-1\r\n", Value::NullArray);
        check("_\r\n", Value::Null);
        check("*2\r\n:1\r\n*0\r\n", Value::Array(vec![Value::Int(1), Value::Array(vec![])]));
        check("%1\r\n+a\r\n:1\r\n", Value::Map(vec![(Value::Simple("a".into()), Value::Int(1))]));
        check("~1\r\n#t\r\n", Value::Set(vec![Value::Bool(true)]));
        check(">1\r\n,1.5\r\n", Value::Push(vec![Value::Double(1.5)]));
        check("=6\r\ntxt:ab\r\n", Value::Verbatim("txt".into(), b"ab".to_vec()));
    }

    #[test]
    fn broken_replies_are_refused() {
        for bytes in ["\r\n", "hello\r\n", "$x\r\n", "$1\r\nabc", "*-2\r\n", "#x\r\n"] {
            assert!(decode(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        assert!(decode("*1\r\n".repeat(MAX_NESTING + 1).as_bytes()).is_err());
    }

    #[test]
    fn a_request_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        encode(&["GET", "k"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
