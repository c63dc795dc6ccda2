//! The scanner against another implementation: the redis-protocol crate as the oracle.
//!
//! Tests only. For any valid stream of array requests, cut anywhere, both must find the same
//! frames at the same places and both must say "need more" at the same cuts; for any bytes at
//! all, the scanner must not panic and must find the same however they are cut.

use proptest::prelude::*;
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

use super::feed::{feed, open};
use super::*;

fn encode(requests: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in requests {
        let mut reply = Reply::new(&mut bytes, Proto::Resp2);
        reply.array(words.len());
        for word in words {
            reply.bulk(word);
        }
    }
    bytes
}

/// What the oracle finds at the start of `buf`: the arguments' places and the request's end.
fn oracle(buf: &[u8]) -> Option<(Vec<(usize, usize)>, usize)> {
    let (frame, used) = decode_range(buf).expect("a valid stream")?;
    let RangeFrame::Array(frames) = frame else { panic!("not an array: {frame:?}") };
    let ranges = frames.into_iter().map(|frame| match frame {
        RangeFrame::BulkString(range) => range,
        other => panic!("not a bulk: {other:?}"),
    });
    Some((ranges.collect(), used))
}

fn ours(buf: &[u8], partial: &mut Partial) -> Option<(Vec<(usize, usize)>, usize)> {
    let mut args = Vec::new();
    match scan(buf, 0, &open(), partial, &mut args) {
        Scan::Request { end } => {
            let ranges = args.iter().map(|arg| (arg.start as usize, arg.end as usize));
            Some((ranges.collect(), end))
        }
        Scan::Incomplete { .. } => None,
        other => panic!("valid stream refused: {other:?}"),
    }
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..20),
        2 => "[$*0-9\r\n-]{0,12}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 90..130),
    ]
}

fn requests(most: usize) -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    proptest::collection::vec(proptest::collection::vec(word(), 1..6), 1..most)
}

/// Bytes that look like the protocol often enough to get past the first line.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"*1\r\n".to_vec()),
        Just(b"*2\r\n".to_vec()),
        Just(b"$1\r\n".to_vec()),
        Just(b"$0\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"*".to_vec()),
        Just(b"$".to_vec()),
        Just(b"a \"b\\x41\" 'c'\n".to_vec()),
        "[-+*$0-9\r\n\"' a]{0,6}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn same_frames_and_same_need_more_at_every_cut(requests in requests(3)) {
        let bytes = encode(&requests);
        let mut partial = Partial::default();
        for cut in 0..=bytes.len() {
            let expected = oracle(&bytes[..cut]);
            // Afresh, and going on from the byte before.
            prop_assert_eq!(&ours(&bytes[..cut], &mut Partial::default()), &expected);
            prop_assert_eq!(&ours(&bytes[..cut], &mut partial), &expected);
        }
    }

    #[test]
    fn every_cut_in_two_gives_the_same_requests(requests in requests(5)) {
        let bytes = encode(&requests);
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            prop_assert_eq!(feed(&open(), &[left, right]), (requests.clone(), None));
        }
    }

    #[test]
    fn garbage_is_read_the_same_in_any_pieces(bytes in garbage(), size in 1_usize..9) {
        let small = ScanLimits { max_inline: 20, max_bulk: 40, ..open() };
        for limits in [open(), ScanLimits::default(), small] {
            let whole = feed(&limits, &[&bytes]);
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(feed(&limits, &pieces), whole.clone());
            for cut in 0..=bytes.len() {
                let (left, right) = bytes.split_at(cut);
                prop_assert_eq!(feed(&limits, &[left, right]), whole.clone());
            }
        }
    }
}
