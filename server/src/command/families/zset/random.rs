//! ZRANDMEMBER. How members are drawn, and how large a reply may get, is said in `draw`.

use crate::command::families::draw::{Pool, check_repeated, distinct, repeated};
use crate::command::families::number::parse_signed_count;
use crate::command::families::zset::show::Show;
use crate::command::{Args, CommandError, Cx, Outcome, Rng};
use crate::slot::Keys;
use crate::store::limits::Encoding;
use crate::store::set::Member;
use crate::store::zset::SortedSet;

impl<'a> Pool for &'a SortedSet {
    type Item = (&'a [u8], f64);

    fn size(self) -> usize {
        self.len()
    }
    fn items(self) -> impl Iterator<Item = Self::Item> {
        self.iter()
    }
    fn random(self, rng: &mut Rng) -> Option<Self::Item> {
        SortedSet::random(self, &mut || rng.next_u64())
    }
    fn draws_fast(self) -> bool {
        self.encoding() != Encoding::Listpack
    }
    fn identity<'i>(item: Self::Item) -> Member<'i>
    where
        Self: 'i,
    {
        Member::Bytes(item.0)
    }
}

pub(super) fn zrandmember(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if args.len() == 2 {
        match keys.zset(args.key(1))?.and_then(|zset| Pool::random(zset, cx.rng)) {
            Some((member, _)) => cx.reply.bulk(member),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    let count = parse_signed_count(args.at(2))?;
    let show = match args.len() {
        3 => Show::Members,
        4 if args.is(3, "withscores") => Show::Scores,
        _ => return Err(CommandError::Syntax),
    };
    if show == Show::Scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::Static("ERR value is out of range"));
    }
    let Some(zset) = keys.zset(args.key(1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    if count < 0 {
        let count = count.unsigned_abs();
        let per_member = if show == Show::Scores { 2 } else { 1 };
        check_repeated(count * per_member)?;
        show.header(&mut cx.reply, count as usize);
        return repeated(zset, count, cx.rng, &mut cx.reply, |reply, (member, score)| {
            show.entry(reply, member, score);
        });
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(zset.len());
    show.header(&mut cx.reply, count);
    distinct(zset, count, cx.rng, |(member, score)| show.entry(&mut cx.reply, member, score));
    Ok(())
}
