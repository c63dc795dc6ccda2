//! The request scanner: finds the arguments of one request in a read buffer and copies nothing.
//!
//! It is as lenient as Redis: a CR ends a length line and the byte behind it is skipped unseen,
//! as are the two bytes behind a bulk. Clients rely on none of this; being stricter would only
//! add error texts that no client knows.
//!
//! Invariants: the requests found do not depend on how the bytes were cut into reads; the work
//! over all calls for one request is linear in its length; nothing is allocated for a length
//! that was only announced. `MAX_BUFFER_BYTES` bounds every position, so ranges fit in `u32`.

use super::error::ProtocolError;
use super::inline;

/// Longest bulk string of a request, in bytes: Redis's `proto-max-bulk-len`.
pub const MAX_BULK_BYTES: usize = 512 * 1024 * 1024;
/// Most arguments of a request: Redis 7 takes any positive `int`.
pub const MAX_MULTIBULK_ARGS: usize = i32::MAX as usize;
/// Longest inline request and longest length line, in bytes: Redis's `PROTO_INLINE_MAX_SIZE`.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;
/// Most arguments of a request before the client has logged in (enough for HELLO AUTH SETNAME).
pub const UNAUTHENTICATED_ARGS: usize = 10;
/// Longest bulk string before the client has logged in, in bytes.
pub const UNAUTHENTICATED_BULK_BYTES: usize = 16384;
/// Longest read buffer `scan` works on, in bytes: positions are kept in 32 bits.
pub const MAX_BUFFER_BYTES: usize = u32::MAX as usize;

/// Where one argument lies in the buffer handed to [`scan`]: `start..end`, in bytes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct ArgRange {
    /// First byte of the argument.
    pub start: u32,
    /// One past its last byte.
    pub end: u32,
}

impl ArgRange {
    /// The argument's bytes in the buffer it was found in.
    #[inline]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }

    /// Both ends lie inside a buffer of at most `MAX_BUFFER_BYTES`, so nothing is cut off.
    #[inline(always)]
    fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }
}

/// What a connection may send.
#[derive(Copy, Clone, Debug)]
pub struct ScanLimits {
    /// Longest bulk string, in bytes.
    pub max_bulk: usize,
    /// Most arguments of one request.
    pub max_multibulk: usize,
    /// Longest inline request and longest length line, in bytes.
    pub max_inline: usize,
    /// Whether the client has logged in, or need not.
    pub authenticated: bool,
}

impl Default for ScanLimits {
    /// Redis's limits for a client that has not logged in yet.
    fn default() -> Self {
        Self {
            max_bulk: MAX_BULK_BYTES,
            max_multibulk: MAX_MULTIBULK_ARGS,
            max_inline: MAX_INLINE_BYTES,
            authenticated: false,
        }
    }
}

impl ScanLimits {
    #[inline]
    fn bulk_limit(&self) -> usize {
        let most = if self.authenticated { usize::MAX } else { UNAUTHENTICATED_BULK_BYTES };
        self.max_bulk.min(most)
    }

    #[inline]
    fn count_limit(&self) -> usize {
        let most = if self.authenticated { usize::MAX } else { UNAUTHENTICATED_ARGS };
        self.max_multibulk.min(most).min(u32::MAX as usize)
    }
}

/// How far an unfinished request was read, so that the next call goes on from there.
///
/// Positions count from the request's first byte: the caller may move the bytes to the front of
/// its buffer between calls, but must keep all of them from that first byte on. The default is
/// "no request begun"; [`scan`] goes back to it whenever it returns anything but `Incomplete`.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Partial {
    /// Start of the line that is awaited, or of the bulk whose bytes are awaited.
    pos: u32,
    /// Arguments still to come; 0 while the request's first line is awaited.
    left: u32,
    /// Bytes of the awaited line that are known to hold no line end.
    searched: u32,
}

impl Partial {
    /// Whether a request has begun and not ended.
    pub fn in_progress(&self) -> bool {
        *self != Self::default()
    }
}

/// What [`scan`] found at the given position.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Scan {
    /// A request; its arguments were appended, the next request begins at `end`.
    Request {
        /// Position in the buffer behind the request.
        end: usize,
    },
    /// An inline request with quotes: `split_quoted(&buf[at..end])` gives its arguments.
    Quoted {
        /// Position in the buffer behind the request.
        end: usize,
    },
    /// An empty line, `*0` or a negative count: nothing to run and nothing to answer.
    Nothing {
        /// Position in the buffer behind it.
        end: usize,
    },
    /// The request has not arrived in full.
    Incomplete {
        /// Bytes from the request's start that must be there before another call is of use.
        /// The client announced it: wait for it, never allocate for it.
        need: usize,
    },
    /// The stream cannot be trusted any more: answer the error and close.
    Broken(ProtocolError),
}

/// Reads one request that begins at `buf[at]`.
///
/// Appends its arguments to `args` only when it returns `Request`. After `Incomplete`, call
/// again with the same `partial` once the request has `need` bytes; after anything else, call
/// again at `end`. `partial` must be the default when a new request begins.
#[inline]
pub fn scan(
    buf: &[u8],
    at: usize,
    limits: &ScanLimits,
    partial: &mut Partial,
    args: &mut Vec<ArgRange>,
) -> Scan {
    let Some(&first) = buf.get(at) else { return Scan::Incomplete { need: 1 } };
    if buf.len() > MAX_BUFFER_BYTES {
        return Scan::Broken(ProtocolError::TooBigRequest);
    }
    if first != b'*' {
        return inline_request(buf, at, limits, partial, args);
    }
    if partial.left > 0 {
        // What was read before was not kept: only count on, and collect once all is there.
        match walk(buf, at, limits, partial, |_| ()) {
            Scan::Request { .. } => {}
            other => return other,
        }
    }
    let had = args.len();
    let found = walk(buf, at, limits, partial, |range| args.push(range));
    if !matches!(found, Scan::Request { .. }) {
        args.truncate(had);
    }
    found
}

/// Goes over an array request from where `partial` stands and hands every argument to `visit`.
#[inline]
fn walk(
    buf: &[u8],
    at: usize,
    limits: &ScanLimits,
    partial: &mut Partial,
    mut visit: impl FnMut(ArgRange),
) -> Scan {
    let mut pos = at + partial.pos as usize;
    let mut left = partial.left as usize;
    if left == 0 {
        let (count, next) = match quick_number(buf, pos, b'*') {
            Some((count, next)) if count > 0 && count <= limits.count_limit() => (count, next),
            _ => match count_line(buf, at, limits, partial) {
                Ok(found) => found,
                Err(end) => return end,
            },
        };
        (left, pos) = (count, next);
    }
    let bulk_limit = limits.bulk_limit();
    while left > 0 {
        count_steps(1);
        let (len, body) = match quick_number(buf, pos, b'$') {
            Some((len, body)) if len <= bulk_limit => (len, body),
            _ => {
                partial.stop_at(pos - at, left);
                match bulk_line(buf, at, limits, partial) {
                    Ok(found) => found,
                    Err(end) => return end,
                }
            }
        };
        let next = body.saturating_add(len).saturating_add(2);
        if next > buf.len() {
            partial.stop_at(pos - at, left);
            if next > MAX_BUFFER_BYTES {
                return broken(partial, ProtocolError::TooBigRequest);
            }
            return Scan::Incomplete { need: next - at };
        }
        visit(ArgRange::new(body, body + len));
        pos = next;
        left -= 1;
    }
    *partial = Partial::default();
    Scan::Request { end: pos }
}

impl Partial {
    /// The line at `pos` (from the request's start) is due next; what was searched of it is kept.
    fn stop_at(&mut self, pos: usize, left: usize) {
        if (self.pos, self.left) != (pos as u32, left as u32) {
            *self = Self { pos: pos as u32, left: left as u32, searched: 0 };
        }
    }
}

#[cold]
fn broken(partial: &mut Partial, error: ProtocolError) -> Scan {
    *partial = Partial::default();
    Scan::Broken(error)
}

/// The number on a plain, complete length line at `pos` and the position behind the line.
/// `None` sends the caller to the careful path: not there yet, not canonical, long or wrong.
#[inline(always)]
fn quick_number(buf: &[u8], pos: usize, kind: u8) -> Option<(usize, usize)> {
    // Nine digits cannot overflow and no limit below 2^29 needs more.
    const DIGITS: usize = 9;
    let line = buf.get(pos..)?;
    let (&head, digits) = line.split_first()?;
    let first = digits.first()?.wrapping_sub(b'0');
    if head != kind || first > 9 {
        return None;
    }
    let mut value = first as usize;
    let mut used = 1;
    loop {
        let byte = *digits.get(used)?;
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let complete = byte == b'\r' && used + 1 < digits.len();
            return complete.then_some((value, pos + used + 3));
        }
        if value == 0 || used == DIGITS {
            return None;
        }
        value = value * 10 + digit as usize;
        used += 1;
    }
}

/// The first line of an array request: its count, which is above 0, and where the line ends.
#[cold]
fn count_line(
    buf: &[u8],
    at: usize,
    limits: &ScanLimits,
    partial: &mut Partial,
) -> Result<(usize, usize), Scan> {
    let (line, next) = length_line(buf, at, limits, partial, ProtocolError::TooBigMultibulkCount)?;
    let limit = limits.max_multibulk.min(u32::MAX as usize);
    let count = match parse_length(&line[1..]) {
        Some(count) if count <= 0 => {
            *partial = Partial::default();
            return Err(Scan::Nothing { end: next });
        }
        Some(count) if count as u64 <= limit as u64 => count as usize,
        _ => return Err(broken(partial, ProtocolError::InvalidMultibulkLength)),
    };
    if count > limits.count_limit() {
        return Err(broken(partial, ProtocolError::UnauthenticatedMultibulkLength));
    }
    Ok((count, next))
}

/// The length line of a bulk: the length and where the bulk's bytes begin.
#[cold]
fn bulk_line(
    buf: &[u8],
    at: usize,
    limits: &ScanLimits,
    partial: &mut Partial,
) -> Result<(usize, usize), Scan> {
    let (line, body) = length_line(buf, at, limits, partial, ProtocolError::TooBigBulkCount)?;
    // The line is never empty here in Redis either: a bare CR is the byte that came.
    let got = line.first().copied().unwrap_or(b'\r');
    if got != b'$' {
        return Err(broken(partial, ProtocolError::ExpectedDollar { got }));
    }
    let len = match parse_length(&line[1..]) {
        Some(len) if len >= 0 && len as u64 <= limits.max_bulk as u64 => len as usize,
        _ => return Err(broken(partial, ProtocolError::InvalidBulkLength)),
    };
    if len > limits.bulk_limit() {
        return Err(broken(partial, ProtocolError::UnauthenticatedBulkLength));
    }
    Ok((len, body))
}

/// The bytes of the awaited line before its CR, and the position behind its LF.
fn length_line<'a>(
    buf: &'a [u8],
    at: usize,
    limits: &ScanLimits,
    partial: &mut Partial,
    too_big: ProtocolError,
) -> Result<(&'a [u8], usize), Scan> {
    let start = at + partial.pos as usize;
    let line = &buf[start..];
    match search(line, b'\r', limits.max_inline, &mut partial.searched) {
        Searched::At(cr) if cr + 1 < line.len() => Ok((&line[..cr], start + cr + 2)),
        Searched::TooFar => Err(broken(partial, too_big)),
        Searched::At(_) | Searched::NotYet => Err(Scan::Incomplete { need: buf.len() - at + 1 }),
    }
}

enum Searched {
    At(usize),
    NotYet,
    TooFar,
}

/// Looks for `wanted` among the first `limit` + 1 bytes of a line. The answer does not depend on
/// how many bytes have come behind it, so neither does the error.
fn search(line: &[u8], wanted: u8, limit: usize, searched: &mut u32) -> Searched {
    let window = &line[..line.len().min(limit.saturating_add(1))];
    let from = (*searched as usize).min(window.len());
    count_steps(window.len() - from);
    if let Some(found) = memchr::memchr(wanted, &window[from..]) {
        *searched = (from + found) as u32;
        return Searched::At(from + found);
    }
    *searched = window.len() as u32;
    if line.len() > limit { Searched::TooFar } else { Searched::NotYet }
}

/// Redis's strict integers: no plus, no leading zero, no `-0`, no blanks.
fn parse_length(text: &[u8]) -> Option<i64> {
    crate::store::number::parse_i64(text)
}

#[cold]
fn inline_request(
    buf: &[u8],
    at: usize,
    limits: &ScanLimits,
    partial: &mut Partial,
    args: &mut Vec<ArgRange>,
) -> Scan {
    let newline = match search(&buf[at..], b'\n', limits.max_inline, &mut partial.searched) {
        Searched::At(newline) => at + newline,
        Searched::NotYet => return Scan::Incomplete { need: buf.len() - at + 1 },
        Searched::TooFar => return broken(partial, ProtocolError::TooBigInline),
    };
    *partial = Partial::default();
    let end = newline + 1;
    let line = &buf[at..newline];
    if inline::has_quotes(line) {
        return Scan::Quoted { end };
    }
    let had = args.len();
    inline::split_plain(line, |start, end| args.push(ArgRange::new(at + start, at + end)));
    if args.len() == had { Scan::Nothing { end } } else { Scan::Request { end } }
}

#[cfg(not(test))]
#[inline(always)]
fn count_steps(_steps: usize) {}

#[cfg(test)]
use tests::count_steps;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::resp::feed::{check, check_limits, check_stranger, feed, open};

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// Work done by the scanner: arguments visited and bytes searched.
    pub(super) fn count_steps(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    #[test]
    fn pipelined_requests_come_in_order() {
        check(
            b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\nhello\r\nworld\r\n",
            "[GET|a][SET||hello\\r\\nworld]",
        );
    }

    #[test]
    fn empty_and_null_arrays_are_passed_over() {
        check(b"*0\r\n*1\r\n$4\r\nPING\r\n", "[PING]");
        check(b"*-1\r\n*1\r\n$4\r\nPING\r\n", "[PING]");
        check(b"*-10\r\n*1\r\n$4\r\nPING\r\n", "[PING]");
    }

    #[test]
    fn null_bulk_as_argument_breaks_the_stream() {
        check(b"*2\r\n$3\r\nGET\r\n$-1\r\n*1\r\n$4\r\nPING\r\n", "invalid bulk length");
    }

    #[test]
    fn lengths_that_are_not_canonical_break_the_stream() {
        for count in ["x", "", "01", "-0", "+1", "1 ", "3000000000", "99999999999999999999"] {
            check(format!("*{count}\r\n").as_bytes(), "invalid multibulk length");
        }
        for len in ["x", "", "01", "-0", "+1", "-10", "536870913", "2000000000"] {
            check(format!("*1\r\n${len}\r\n").as_bytes(), "invalid bulk length");
        }
    }

    #[test]
    fn something_else_than_a_bulk_breaks_the_stream() {
        check(b"*2\r\n$1\r\nx\r\nfoo\r\n", "expected '$', got 'f'");
        check(b"*1\r\n\r\n", "expected '$', got '\\r'");
        assert_eq!(
            ProtocolError::ExpectedDollar { got: 0xff }.text(),
            b"ERR Protocol error: expected '$', got '\xff'"
        );
    }

    #[test]
    fn lines_without_end_are_cut_off() {
        let limits = ScanLimits { max_inline: 50, ..open() };
        check_limits(&limits, &[b'A'; 51], "too big inline request");
        check_limits(&limits, &[b'A'; 50], "");
        check_limits(
            &limits,
            &[b"*".as_slice(), &[b'1'; 50]].concat(),
            "too big mbulk count string",
        );
        check_limits(
            &limits,
            &[b"*1\r\n$".as_slice(), &[b'1'; 50]].concat(),
            "too big bulk count string",
        );
        let line = [&[b'A'; 50], b"\n".as_slice()].concat();
        check_limits(&limits, &line, &format!("[{}]", "A".repeat(50)));
    }

    #[test]
    fn default_limits_are_those_of_redis() {
        let inline = vec![b'A'; 65537];
        assert_eq!(feed(&open(), &[&inline]).1, Some(ProtocolError::TooBigInline));
        assert_eq!(feed(&open(), &[&inline[1..]]).1, None);
        let count = [b"*".as_slice(), &[b'1'; 65540]].concat();
        assert_eq!(feed(&open(), &[&count]).1, Some(ProtocolError::TooBigMultibulkCount));
    }

    #[test]
    fn stranger_cannot_announce_much() {
        check_stranger(b"*11\r\n", "unauthenticated multibulk length");
        check_stranger(b"*10\r\n", "");
        check_stranger(b"*1\r\n$16385\r\n", "unauthenticated bulk length");
        check_stranger(b"*1\r\n$16384\r\n", "");
        check_stranger(b"*1\r\n$536870913\r\n", "invalid bulk length");
        check_stranger(b"*2147483648\r\n", "invalid multibulk length");
    }

    #[test]
    fn announced_lengths_allocate_nothing() {
        let (mut partial, mut args) = (Partial::default(), Vec::new());
        let input = b"*2147483647\r\n$536870912\r\nx";
        let found = scan(input, 0, &open(), &mut partial, &mut args);
        assert_eq!(found, Scan::Incomplete { need: 25 + (512 << 20) + 2 });
        assert_eq!(args.capacity(), 0);
    }

    #[test]
    fn request_behind_32_bits_is_refused() {
        let limits = ScanLimits { max_bulk: usize::MAX, ..open() };
        check_limits(&limits, b"*1\r\n$4294967295\r\n", "too big request");
        check_limits(&limits, b"*1\r\n$9223372036854775807\r\n", "too big request");
    }

    /// The scanner's steps for `input` fed in pieces of `size` bytes, tried at every piece.
    fn steps(input: &[u8], size: usize) -> usize {
        let (mut partial, mut args) = (Partial::default(), Vec::new());
        STEPS.set(0);
        for end in (size..input.len()).step_by(size) {
            let found = scan(&input[..end], 0, &open(), &mut partial, &mut args);
            assert!(matches!(found, Scan::Incomplete { .. }));
        }
        let found = scan(input, 0, &open(), &mut partial, &mut args);
        assert_eq!(found, Scan::Request { end: input.len() });
        STEPS.get()
    }

    #[test]
    fn hundred_megabytes_in_pieces_cost_a_step_each() {
        let len = 100 << 20;
        let mut input = format!("*1\r\n${len}\r\n").into_bytes();
        input.resize(input.len() + len + 2, b'x');
        let pieces = input.len() / 4096 + 1;
        assert!(steps(&input, 4096) <= 2 * pieces + 64);
    }

    #[test]
    fn million_tiny_arguments_in_pieces_are_visited_twice() {
        let count = 1_000_000;
        let mut input = format!("*{count}\r\n").into_bytes();
        input.extend_from_slice(&b"$1\r\nx\r\n".repeat(count));
        let pieces = input.len() / 1000 + 1;
        // Once as they come, once to collect them; each piece may look at one line again.
        assert!(steps(&input, 1000) <= 2 * count + 16 * pieces);
    }

    #[test]
    fn endless_line_in_single_bytes_is_searched_once() {
        let input = vec![b'a'; MAX_INLINE_BYTES];
        let (mut partial, mut args) = (Partial::default(), Vec::new());
        STEPS.set(0);
        for end in 1..input.len() {
            scan(&input[..end], 0, &open(), &mut partial, &mut args);
        }
        assert!(STEPS.get() <= input.len());
    }
}
