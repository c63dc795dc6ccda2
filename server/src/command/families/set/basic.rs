//! Set commands on members by name, and SSCAN.

use crate::command::families::scan::{ScanOptions, parse_cursor, write_empty_scan, write_scan};
use crate::command::{Args, Cx, Outcome};
use crate::resp::Reply;
use crate::slot::{Keys, Op, Owned};
use crate::store::set::Member;

/// Writes a member as a bulk.
pub(super) fn write_member(reply: &mut Reply<'_>, member: Member<'_>) {
    match member {
        Member::Int(value) => reply.bulk_int(value),
        Member::Bytes(text) => reply.bulk(text),
    }
}

pub(super) fn sadd(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let set = owned.keys().set(key)?;
    let any_new = set.is_none_or(|s| args.from(2).any(|member| !s.contains(member)));
    let mut new = 0;
    if any_new {
        let members = args.slice(2, args.len());
        new = owned.apply(Op::SetAdd { key, members: &members });
    }
    cx.reply.int(new as i64);
    Ok(())
}

pub(super) fn srem(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let set = owned.keys().set(key)?;
    let any = set.is_some_and(|s| args.from(2).any(|member| s.contains(member)));
    let mut gone = 0;
    if any {
        let members = args.slice(2, args.len());
        gone = owned.apply(Op::SetRemove { key, members: &members });
    }
    cx.reply.int(gone as i64);
    Ok(())
}

pub(super) fn smembers(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let set = keys.set(args.key(1))?;
    cx.reply.set(set.map_or(0, |s| s.len()));
    for member in set.into_iter().flat_map(|s| s.iter()) {
        write_member(&mut cx.reply, member);
    }
    Ok(())
}

pub(super) fn sismember(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let set = keys.set(args.key(1))?;
    cx.reply.int(set.is_some_and(|s| s.contains(args.at(2))).into());
    Ok(())
}

pub(super) fn smismember(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let set = keys.set(args.key(1))?;
    let members = args.from(2);
    cx.reply.array(members.len());
    for member in members {
        cx.reply.int(set.is_some_and(|s| s.contains(member)).into());
    }
    Ok(())
}

pub(super) fn scard(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let set = keys.set(args.key(1))?;
    cx.reply.int(set.map_or(0, |s| s.len() as i64));
    Ok(())
}

pub(super) fn smove(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let (from, to, member) = (args.key(1), args.key(2), args.at(3));
    let keys = owned.keys();
    let Some(source) = keys.set(from)? else {
        // As in Redis: without a source the destination's type is not looked at.
        cx.reply.int(0);
        return Ok(());
    };
    let there = source.contains(member);
    let arrived = keys.set(to)?.is_some_and(|s| s.contains(member));
    if there && from.bytes != to.bytes {
        owned.apply(Op::SetRemove { key: from, members: &[member] });
        if !arrived {
            owned.apply(Op::SetAdd { key: to, members: &[member] });
        }
    }
    cx.reply.int(there.into());
    Ok(())
}

pub(super) fn sscan(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    // A missing key answers before the options are looked at, as in Redis.
    let Some(set) = keys.set(args.key(1))? else {
        write_empty_scan(&mut cx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3)?;
    write_scan(&mut cx.reply, |reply, written| {
        set.scan(cursor, options.count, |member| {
            if member.with(|text| options.wants(text)) {
                write_member(reply, member);
                *written += 1;
            }
        })
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::testing::TestNode;

    #[test]
    fn a_scan_over_a_shrinking_set_returns_every_member_that_stays() {
        let mut node = TestNode::new(&[]);
        let member = |i: u32| format!("member:{i}").into_bytes();
        for i in 0..20_000 {
            node.call(1, &[b"SADD", b"s", &member(i)]);
        }
        let mut seen = HashSet::new();
        let mut cursor = b"0".to_vec();
        for call in 1.. {
            let reply = node.call(1, &[b"SSCAN", b"s", &cursor, b"COUNT", b"10"]);
            let lines: Vec<&[u8]> = reply.split(|b| *b == b'\n').collect();
            cursor = lines[2].trim_ascii_end().to_vec();
            seen.extend(lines[4..].iter().map(|line| line.trim_ascii_end().to_vec()));
            if call == 300 {
                assert_ne!(cursor, b"0");
                for i in 300..20_000 {
                    assert_eq!(node.call(1, &[b"SREM", b"s", &member(i)]), b":1\r\n");
                }
            }
            if cursor == b"0" {
                break;
            }
            assert!(call < 3000, "the scan ends");
        }
        assert!((0..300).all(|i| seen.contains(&member(i))));
    }
}
