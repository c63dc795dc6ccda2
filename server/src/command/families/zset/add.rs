//! ZADD, ZINCRBY, ZREM: changes of single members.
//!
//! Every score is decided here, against the set and against the pairs before it in the same
//! command; the op carries only those that change something.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Op, Owned};
use crate::store::number::parse_f64;

/// What ZADD's options ask for.
#[derive(Default)]
struct Rules {
    only_new: bool,
    only_present: bool,
    only_greater: bool,
    only_less: bool,
    count_changed: bool,
    increment: bool,
}

/// What becomes of one pair.
enum Verdict {
    /// The options leave the member as it is.
    Skipped,
    /// The member is new and gets this score.
    New(f64),
    /// The member's score changes to this.
    Moved(f64),
    /// The member has this score already.
    Same(f64),
}

pub(super) fn zadd(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let (rules, first) = Rules::parse(args)?;
    set_scores(owned, args, first, &rules, cx)
}

pub(super) fn zincrby(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    set_scores(owned, args, 2, &Rules { increment: true, ..Rules::default() }, cx)
}

pub(super) fn zrem(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let mut members: SmallVec<[&[u8]; 16]> = SmallVec::new();
    if let Some(zset) = owned.keys().zset(key)? {
        members.extend(args.from(2).filter(|member| zset.score(member).is_some()));
    }
    let gone =
        if members.is_empty() { 0 } else { owned.apply(Op::ZsetRemove { key, members: &members }) };
    cx.reply.int(gone as i64);
    Ok(())
}

impl Rules {
    /// The options, and the word of the first score.
    fn parse(args: &Args<'_>) -> Result<(Rules, usize), CommandError> {
        let mut rules = Rules::default();
        let mut at = 2;
        while at < args.len() {
            match args.at(at).to_ascii_lowercase().as_slice() {
                b"nx" => rules.only_new = true,
                b"xx" => rules.only_present = true,
                b"gt" => rules.only_greater = true,
                b"lt" => rules.only_less = true,
                b"ch" => rules.count_changed = true,
                b"incr" => rules.increment = true,
                _ => break,
            }
            at += 1;
        }
        let words = args.len() - at;
        if words == 0 || !words.is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        if rules.only_new && rules.only_present {
            return Err(CommandError::Static(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        let directions =
            [rules.only_new, rules.only_greater, rules.only_less].iter().filter(|x| **x).count();
        if directions > 1 {
            return Err(CommandError::Static(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if rules.increment && words > 2 {
            return Err(CommandError::Static(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok((rules, at))
    }

    fn judge(&self, current: Option<f64>, given: f64) -> Result<Verdict, CommandError> {
        let Some(current) = current else {
            return Ok(if self.only_present { Verdict::Skipped } else { Verdict::New(given) });
        };
        if self.only_new {
            return Ok(Verdict::Skipped);
        }
        let score = if self.increment { current + given } else { given };
        if score.is_nan() {
            return Err(CommandError::Static("ERR resulting score is not a number (NaN)"));
        }
        if (self.only_less && score >= current) || (self.only_greater && score <= current) {
            return Ok(Verdict::Skipped);
        }
        Ok(if score == current { Verdict::Same(score) } else { Verdict::Moved(score) })
    }
}

fn set_scores(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    first: usize,
    rules: &Rules,
    cx: &mut Cx<'_>,
) -> Outcome {
    let key = args.key(1);
    let pairs = (args.len() - first) / 2;
    let mut given: SmallVec<[(f64, &[u8]); 8]> = SmallVec::with_capacity(pairs);
    for at in (first..args.len()).step_by(2) {
        let score = parse_f64(args.at(at)).ok_or(CommandError::NotFloat)?;
        given.push((score, args.at(at + 1)));
    }
    let zset = owned.keys().zset(key)?;
    // A member may come more than once: later pairs see what earlier ones did.
    let mut decided: HashMap<&[u8], f64> = HashMap::new();
    let mut items: SmallVec<[(f64, &[u8]); 8]> = SmallVec::new();
    let (mut new, mut moved, mut last) = (0, 0, None);
    for (score, member) in given {
        let earlier = if pairs > 1 { decided.get(member).copied() } else { None };
        let current = earlier.or_else(|| zset.and_then(|zset| zset.score(member)));
        let score = match rules.judge(current, score)? {
            Verdict::Skipped => continue,
            Verdict::Same(score) => {
                last = Some(score);
                continue;
            }
            Verdict::New(score) => {
                new += 1;
                score
            }
            Verdict::Moved(score) => {
                moved += 1;
                score
            }
        };
        if pairs > 1 {
            decided.insert(member, score);
        }
        last = Some(score);
        items.push((score, member));
    }
    if !items.is_empty() {
        owned.apply(Op::ZsetAdd { key, items: &items });
    }
    match (rules.increment, last) {
        (true, Some(score)) => cx.reply.double(score),
        (true, None) => cx.reply.null(),
        (false, _) => cx.reply.int(if rules.count_changed { new + moved } else { new }),
    }
    Ok(())
}
