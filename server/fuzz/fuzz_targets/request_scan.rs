//! Any bytes through the request scanner: it must not panic, must stay inside its input, and
//! must find the same requests and the same error however the bytes are cut into reads.
//!
//! The first byte of the input chooses the limits, the second how the rest is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slotd::resp::{Partial, ProtocolError, Scan, ScanLimits, scan, split_quoted};

/// A small inline limit, so that the fuzzer reaches it with short inputs.
const SMALL_INLINE_BYTES: usize = 24;
/// A small bulk limit, for the same reason.
const SMALL_BULK_BYTES: usize = 40;

#[derive(Debug, Default, PartialEq)]
struct Found {
    requests: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
    /// Bytes of whole requests.
    used: usize,
}

fuzz_target!(|input: &[u8]| {
    let [choice, cut, bytes @ ..] = input else { return };
    let mut limits = ScanLimits { authenticated: choice & 1 != 0, ..ScanLimits::default() };
    if choice & 2 != 0 {
        limits.max_inline = SMALL_INLINE_BYTES;
        limits.max_bulk = SMALL_BULK_BYTES;
    }
    let whole = feed(&limits, std::iter::once(bytes));
    let size = usize::from(*cut) + 1;
    assert_eq!(feed(&limits, bytes.chunks(size)), whole, "in pieces of {size}");
    let (left, right) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    assert_eq!(feed(&limits, [left, right].into_iter()), whole, "cut at {cut}");
});

/// What a connection would find that reads these pieces one by one.
fn feed<'a>(limits: &ScanLimits, pieces: impl Iterator<Item = &'a [u8]>) -> Found {
    let mut found = Found::default();
    let (mut buf, mut args) = (Vec::new(), Vec::new());
    let (mut partial, mut need) = (Partial::default(), 1);
    for piece in pieces {
        buf.extend_from_slice(piece);
        while buf.len() >= need {
            args.clear();
            let end = match scan(&buf, 0, limits, &mut partial, &mut args) {
                Scan::Request { end } => {
                    let words = args.iter().map(|arg| arg.of(&buf).to_vec());
                    found.requests.push(words.collect());
                    end
                }
                Scan::Quoted { end } => match split_quoted(&buf[..end]) {
                    Ok(words) => {
                        found.requests.push(words);
                        end
                    }
                    Err(error) => return Found { error: Some(error), ..found },
                },
                Scan::Nothing { end } => end,
                Scan::Incomplete { need: wanted } => {
                    assert!(wanted > buf.len() && args.is_empty());
                    need = wanted;
                    continue;
                }
                Scan::Broken(error) => return Found { error: Some(error), ..found },
            };
            assert!(!partial.in_progress());
            found.used += end;
            buf.drain(..end);
            need = 1;
        }
    }
    found
}
