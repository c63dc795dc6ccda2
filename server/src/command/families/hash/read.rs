//! Hash commands that only read.

use crate::command::families::scan::{ScanOptions, parse_cursor, write_empty_scan, write_scan};
use crate::command::{Args, Cx, Outcome};
use crate::resp::Reply;
use crate::slot::Keys;

pub(super) fn hget(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let hash = keys.hash(args.key(1))?;
    write_value(&mut cx.reply, hash.and_then(|h| h.get(args.at(2))));
    Ok(())
}

pub(super) fn hmget(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let hash = keys.hash(args.key(1))?;
    let fields = args.from(2);
    cx.reply.array(fields.len());
    for field in fields {
        write_value(&mut cx.reply, hash.and_then(|h| h.get(field)));
    }
    Ok(())
}

fn write_value(reply: &mut Reply<'_>, value: Option<&[u8]>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

pub(super) fn hgetall(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let Some(hash) = keys.hash(args.key(1))? else {
        cx.reply.map(0);
        return Ok(());
    };
    cx.reply.map(hash.len());
    for (field, value) in hash.iter() {
        cx.reply.bulk(field);
        cx.reply.bulk(value);
    }
    Ok(())
}

pub(super) fn hkeys(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let hash = keys.hash(args.key(1))?;
    cx.reply.array(hash.map_or(0, |h| h.len()));
    for (field, _) in hash.into_iter().flat_map(|h| h.iter()) {
        cx.reply.bulk(field);
    }
    Ok(())
}

pub(super) fn hvals(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let hash = keys.hash(args.key(1))?;
    cx.reply.array(hash.map_or(0, |h| h.len()));
    for (_, value) in hash.into_iter().flat_map(|h| h.iter()) {
        cx.reply.bulk(value);
    }
    Ok(())
}

pub(super) fn hlen(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let hash = keys.hash(args.key(1))?;
    cx.reply.int(hash.map_or(0, |h| h.len() as i64));
    Ok(())
}

pub(super) fn hstrlen(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let hash = keys.hash(args.key(1))?;
    let value = hash.and_then(|h| h.get(args.at(2)));
    cx.reply.int(value.map_or(0, |v| v.len() as i64));
    Ok(())
}

pub(super) fn hexists(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let hash = keys.hash(args.key(1))?;
    let exists = hash.is_some_and(|h| h.get(args.at(2)).is_some());
    cx.reply.int(exists.into());
    Ok(())
}

pub(super) fn hscan(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    // A missing key answers before the options are looked at, as in Redis.
    let Some(hash) = keys.hash(args.key(1))? else {
        write_empty_scan(&mut cx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3)?;
    write_scan(&mut cx.reply, |reply, written| {
        hash.scan(cursor, options.count, |field, value| {
            if options.wants(field) {
                reply.bulk(field);
                reply.bulk(value);
                *written += 2;
            }
        })
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::testing::TestNode;

    /// The bulks of a flat or nested reply, in their order; none holds a line end.
    fn bulks(reply: &[u8]) -> Vec<Vec<u8>> {
        let lines: Vec<&[u8]> = reply.split(|b| *b == b'\n').collect();
        let of_bulk =
            |pair: &[&[u8]]| pair[0].starts_with(b"$").then(|| pair[1].trim_ascii_end().to_vec());
        lines.windows(2).filter_map(of_bulk).collect()
    }

    #[test]
    fn a_scan_over_a_shrinking_hash_returns_every_field_that_stays() {
        let mut node = TestNode::new(&[]);
        let field = |i: u32| format!("field:{i}").into_bytes();
        for i in 0..20_000 {
            node.call(1, &[b"HSET", b"h", &field(i), b"v"]);
        }
        let mut seen = HashSet::new();
        let mut cursor = b"0".to_vec();
        for call in 1.. {
            let reply = node.call(1, &[b"HSCAN", b"h", &cursor, b"COUNT", b"10"]);
            let mut bulks = bulks(&reply).into_iter();
            cursor = bulks.next().expect("a cursor");
            seen.extend(bulks.step_by(2));
            if call == 300 {
                assert_ne!(cursor, b"0");
                for i in 300..20_000 {
                    assert_eq!(node.call(1, &[b"HDEL", b"h", &field(i)]), b":1\r\n");
                }
            }
            if cursor == b"0" {
                break;
            }
            assert!(call < 3000, "the scan ends");
        }
        assert!((0..300).all(|i| seen.contains(&field(i))));
    }
}
