//! What HSCAN, SSCAN and ZSCAN share: the cursor, the options and the form of the reply.
//!
//! Not SCAN over the keys, whose cursor also names a slot.
//! Invariant: a cursor that was never given out is harmless; it ends the scan or goes on
//! somewhere.

use crate::command::{Args, CommandError};
use crate::resp::Reply;
use crate::store::glob;
use crate::store::number::{parse_i64, parse_u64};

/// Elements a call returns about, unless COUNT says otherwise.
const DEFAULT_COUNT: usize = 10;

/// COUNT and MATCH.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions<'a> {
    /// Elements to visit, about; at least 1.
    pub count: usize,
    pattern: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Parses the words from `from` on.
    pub fn parse(args: &Args<'a>, from: usize) -> Result<ScanOptions<'a>, CommandError> {
        let mut options = ScanOptions { count: DEFAULT_COUNT, pattern: None };
        let mut at = from;
        while at < args.len() {
            let value = args.opt(at + 1).ok_or(CommandError::Syntax)?;
            if args.is(at, "count") {
                let count = parse_i64(value).ok_or(CommandError::NotInteger)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                options.count = count.ok_or(CommandError::Syntax)?;
            } else if args.is(at, "match") {
                options.pattern = (value != b"*").then_some(value);
            } else {
                return Err(CommandError::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }

    /// Is an element of this name wanted?
    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// A cursor as clients send it.
pub fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    parse_u64(text).ok_or(CommandError::Static("ERR invalid cursor"))
}

/// Writes the reply of one call. `scan` writes the elements it visits, adds up how many bulks
/// that were, and returns the next cursor.
pub fn write_scan(reply: &mut Reply<'_>, scan: impl FnOnce(&mut Reply<'_>, &mut usize) -> u64) {
    let mut elements = Vec::new();
    let mut count = 0;
    let next = scan(&mut Reply::new(&mut elements, reply.proto), &mut count);
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    reply.array(count);
    reply.out.extend_from_slice(&elements);
}

/// The reply for a key that is not there.
pub fn write_empty_scan(reply: &mut Reply<'_>) {
    write_scan(reply, |_, _| 0);
}
