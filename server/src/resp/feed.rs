//! Tests only: feeds bytes to the scanner as a connection would, whole and in pieces.

use super::*;

/// The limits of a client that has logged in.
pub(super) fn open() -> ScanLimits {
    ScanLimits { authenticated: true, ..ScanLimits::default() }
}

pub(super) type Requests = Vec<Vec<Vec<u8>>>;

/// Feeds pieces as a connection would: all requests, and the error that ended the stream.
pub(super) fn feed(limits: &ScanLimits, pieces: &[&[u8]]) -> (Requests, Option<ProtocolError>) {
    let (mut buf, mut at, mut partial) = (Vec::new(), 0, Partial::default());
    let (mut args, mut found, mut need) = (Vec::new(), Vec::new(), 1);
    for piece in pieces {
        buf.extend_from_slice(piece);
        while buf.len() - at >= need {
            args.clear();
            need = 1;
            at = match scan(&buf, at, limits, &mut partial, &mut args) {
                Scan::Request { end } => {
                    found.push(args.iter().map(|arg| arg.of(&buf).to_vec()).collect());
                    end
                }
                Scan::Quoted { end } => match split_quoted(&buf[at..end]) {
                    Ok(words) => {
                        found.push(words);
                        end
                    }
                    Err(error) => return (found, Some(error)),
                },
                Scan::Nothing { end } => end,
                Scan::Incomplete { need: wanted } => {
                    assert!(args.is_empty(), "args of an unfinished request were kept");
                    assert!(wanted > buf.len() - at, "asked for bytes that are there");
                    need = wanted;
                    continue;
                }
                Scan::Broken(error) => return (found, Some(error)),
            };
            assert!(!partial.in_progress());
        }
        buf.drain(..at);
        at = 0;
    }
    (found, None)
}

/// `shown` is the requests, words in brackets, then the error.
#[track_caller]
pub(super) fn check_limits(limits: &ScanLimits, input: &[u8], shown: &str) {
    let show = |(requests, error): (Requests, Option<ProtocolError>)| {
        let mut text = String::new();
        for words in requests {
            let words: Vec<_> = words.iter().map(|w| w.escape_ascii().to_string()).collect();
            text += &format!("[{}]", words.join("|"));
        }
        text + &error.map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(show(feed(limits, &[input])), shown, "in one piece");
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(show(feed(limits, &bytes)), shown, "byte by byte");
    for cut in 0..input.len().min(300) {
        let (left, right) = input.split_at(cut);
        assert_eq!(show(feed(limits, &[left, right])), shown, "cut at {cut}");
    }
}

#[track_caller]
pub(super) fn check(input: &[u8], shown: &str) {
    check_limits(&open(), input, shown);
}

#[track_caller]
pub(super) fn check_stranger(input: &[u8], shown: &str) {
    check_limits(&ScanLimits::default(), input, shown);
}
