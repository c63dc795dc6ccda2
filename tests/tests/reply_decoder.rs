//! The tests' own reply decoder against the `redis-protocol` crate: same values, same lengths.
//!
//! Only what both can tell apart is compared: the crate keeps no order of maps and one null.

use proptest::prelude::*;
use redis_protocol::resp2::decode::decode as crate_decode;
use redis_protocol::resp2::types::OwnedFrame;
use slot_tests::resp::{Value, decode};

fn reply() -> impl Strategy<Value = Value> {
    let text = "[a-zA-Z0-9 ]{1,12}";
    let leaf = prop_oneof![
        text.prop_map(Value::Simple),
        text.prop_map(|text| Value::Error(format!("ERR {text}"))),
        any::<i64>().prop_map(Value::Int),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bulk),
        Just(Value::NullBulk),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| prop::collection::vec(inner, 0..6).prop_map(Value::Array))
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) => out.extend(format!("+{text}\r\n").bytes()),
        Value::Error(text) => out.extend(format!("-{text}\r\n").bytes()),
        Value::Int(number) => out.extend(format!(":{number}\r\n").bytes()),
        Value::Bulk(bytes) => {
            out.extend(format!("${}\r\n", bytes.len()).bytes());
            out.extend(bytes);
            out.extend(b"\r\n");
        }
        Value::NullBulk => out.extend(b"$-1\r\n"),
        Value::Array(items) => {
            out.extend(format!("*{}\r\n", items.len()).bytes());
            items.iter().for_each(|item| write(item, out));
        }
        other => unreachable!("not generated: {other:?}"),
    }
}

fn same(ours: &Value, theirs: &OwnedFrame) -> bool {
    match (ours, theirs) {
        (Value::Simple(a), OwnedFrame::SimpleString(b)) => a.as_bytes() == b,
        (Value::Error(a), OwnedFrame::Error(b)) => a == b,
        (Value::Int(a), OwnedFrame::Integer(b)) => a == b,
        (Value::Bulk(a), OwnedFrame::BulkString(b)) => a == b,
        (Value::NullBulk, OwnedFrame::Null) => true,
        (Value::Array(a), OwnedFrame::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read_as_the_crate_reads_it(
        value in reply(),
        surplus in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut bytes = Vec::new();
        write(&value, &mut bytes);
        let length = bytes.len();
        bytes.extend(surplus);
        prop_assert_eq!(decode(&bytes), Ok(Some((value.clone(), length))));
        let (frame, used) = crate_decode(&bytes).expect("valid").expect("whole");
        prop_assert_eq!(used, length);
        prop_assert!(same(&value, &frame), "{:?} and {:?}", value, frame);
    }

    #[test]
    fn a_reply_cut_short_waits_for_more(value in reply(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        write(&value, &mut bytes);
        bytes.truncate(cut.index(bytes.len()));
        prop_assert_eq!(decode(&bytes), Ok(None));
    }
}
