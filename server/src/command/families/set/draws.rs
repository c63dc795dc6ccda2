//! SPOP and SRANDMEMBER.

use smallvec::SmallVec;

use super::basic::write_member;
use crate::command::families::draw::{check_repeated, distinct, repeated};
use crate::command::families::number::{parse_count, parse_signed_count};
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Key, Keys, Op, Owned};
use crate::store::set::Member;

pub(super) fn spop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    match args.len() {
        2 => pop_one(owned, key, cx),
        3 => {
            let count = parse_count(args.at(2), "ERR value is out of range, must be positive")?;
            pop_many(owned, key, count, cx)
        }
        _ => Err(CommandError::Syntax),
    }
}

fn pop_one(owned: &mut Owned<'_>, key: Key<'_>, cx: &mut Cx<'_>) -> Outcome {
    let set = owned.keys().set(key)?;
    let Some(member) = set.and_then(|s| s.random(&mut || cx.rng.next_u64())) else {
        cx.reply.null();
        return Ok(());
    };
    let member = member.to_vec();
    owned.apply(Op::SetRemove { key, members: &[&member] });
    cx.reply.bulk(&member);
    Ok(())
}

fn pop_many(owned: &mut Owned<'_>, key: Key<'_>, count: usize, cx: &mut Cx<'_>) -> Outcome {
    let Some(set) = owned.keys().set(key)?.filter(|_| count > 0) else {
        cx.reply.set(0);
        return Ok(());
    };
    if count >= set.len() {
        cx.reply.set(set.len());
        set.iter().for_each(|member| write_member(&mut cx.reply, member));
        owned.apply(Op::Delete { key });
        return Ok(());
    }
    cx.reply.set(count);
    let mut chosen = Chosen::default();
    let reply = &mut cx.reply;
    distinct(set, count, cx.rng, |member| {
        write_member(reply, member);
        chosen.push(member);
    });
    owned.apply(Op::SetRemove { key, members: &chosen.members() });
    Ok(())
}

/// Copies of members, one behind the other: the op outlives the look at the set.
#[derive(Default)]
struct Chosen {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Chosen {
    fn push(&mut self, member: Member<'_>) {
        member.with(|text| self.bytes.extend_from_slice(text));
        self.ends.push(self.bytes.len());
    }

    fn members(&self) -> SmallVec<[&[u8]; 16]> {
        let mut start = 0;
        let member = |end: &usize| &self.bytes[std::mem::replace(&mut start, *end)..*end];
        self.ends.iter().map(member).collect()
    }
}

pub(super) fn srandmember(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let count = match args.len() {
        2 => {
            match keys.set(key)?.and_then(|s| s.random(&mut || cx.rng.next_u64())) {
                Some(member) => write_member(&mut cx.reply, member),
                None => cx.reply.null(),
            }
            return Ok(());
        }
        3 => parse_signed_count(args.at(2))?,
        _ => return Err(CommandError::Syntax),
    };
    let Some(set) = keys.set(key)? else {
        cx.reply.array(0);
        return Ok(());
    };
    let members = count.unsigned_abs();
    if count < 0 {
        check_repeated(members)?;
        cx.reply.array(members as usize);
        return repeated(set, members, cx.rng, &mut cx.reply, write_member);
    }
    let members = usize::try_from(members).map_or(set.len(), |n| n.min(set.len()));
    cx.reply.array(members);
    let reply = &mut cx.reply;
    distinct(set, members, cx.rng, |member| write_member(reply, member));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::testing::TestNode;

    #[test]
    fn spop_takes_every_member_once_whatever_the_counts_and_form() {
        for options in [&[][..], &["--set-max-listpack-entries", "0"]] {
            for prefix in ["", "m"] {
                let mut node = TestNode::new(options);
                for i in 0..100 {
                    node.call(1, &[b"SADD", b"s", format!("{prefix}{i}").as_bytes()]);
                }
                let mut popped = HashSet::new();
                for count in ["1", "2", "50", "40", "6", "3"] {
                    let reply = node.call(1, &[b"SPOP", b"s", count.as_bytes()]);
                    let text = String::from_utf8(reply).expect("ASCII");
                    let members: Vec<&str> = text.lines().skip(2).step_by(2).collect();
                    let expected = count.parse::<usize>().expect("a count").min(100 - popped.len());
                    assert_eq!(members.len(), expected);
                    for member in members {
                        assert!(popped.insert(member.to_owned()));
                    }
                    let left = format!(":{}\r\n", 100 - popped.len());
                    assert_eq!(node.call(1, &[b"SCARD", b"s"]), left.as_bytes());
                }
                assert_eq!(popped.len(), 100);
            }
        }
    }
}
