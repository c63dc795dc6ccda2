//! ZUNION, ZINTER, ZDIFF, their ...STORE forms and ZINTERCARD.
//!
//! Inputs are sorted sets or sets, whose members count with score 1. Sources are met from the
//! smallest to the largest, as in Redis, since the order of adding shows in the last bits.
//! Invariant: no result is NaN; where adding or weighing gives one, it is 0.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use crate::command::families::number::parse_count;
use crate::command::families::zset::range::store;
use crate::command::families::zset::show::Show;
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Keys, Owned, Value};
use crate::store::number::{parse_f64, parse_i64};
use crate::store::set::{Member, Set};
use crate::store::zset::SortedSet;

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Union,
    Inter,
    Diff,
}

/// What a command answers with, which decides the options it takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Members,
    Stored,
    Cardinality,
}

/// Makes one score of two.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// An input, absent keys being empty.
#[derive(Clone, Copy)]
enum Source<'a> {
    Empty,
    Set(&'a Set),
    Sorted(&'a SortedSet),
}

#[derive(Clone, Copy)]
struct Weighted<'a> {
    source: Source<'a>,
    weight: f64,
}

/// A command's words, understood, with the inputs they name.
struct Query<'a> {
    inputs: Vec<Weighted<'a>>,
    aggregate: Aggregate,
    show: Show,
    /// ZINTERCARD counts up to this.
    limit: usize,
}

/// Members with their scores, unordered.
type Combined<'a> = Vec<(Cow<'a, [u8]>, f64)>;

pub(super) fn zunion(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(Kind::Union, keys, args, cx, "zunion")
}

pub(super) fn zinter(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(Kind::Inter, keys, args, cx, "zinter")
}

pub(super) fn zdiff(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    list(Kind::Diff, keys, args, cx, "zdiff")
}

pub(super) fn zunionstore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    combine_and_store(Kind::Union, owned, args, cx, "zunionstore")
}

pub(super) fn zinterstore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    combine_and_store(Kind::Inter, owned, args, cx, "zinterstore")
}

pub(super) fn zdiffstore(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    combine_and_store(Kind::Diff, owned, args, cx, "zdiffstore")
}

pub(super) fn zintercard(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let mut query = Query::parse(Kind::Inter, Answer::Cardinality, keys, args, 1, "zintercard")?;
    query.inputs.sort_by_key(|input| input.source.len());
    let (first, others) = query.inputs.split_first().expect("parse asks for one input at least");
    let common = first
        .source
        .iter()
        .filter(|(member, _)| others.iter().all(|other| other.source.score(member).is_some()))
        .take(query.limit)
        .count();
    cx.reply.int(common as i64);
    Ok(())
}

fn list(kind: Kind, keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>, name: &str) -> Outcome {
    let query = Query::parse(kind, Answer::Members, keys, args, 1, name)?;
    let show = query.show;
    let result = in_order(query.combine(kind));
    show.header(&mut cx.reply, result.len());
    for (member, score) in &result {
        show.entry(&mut cx.reply, member, *score);
    }
    Ok(())
}

fn combine_and_store(
    kind: Kind,
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    name: &str,
) -> Outcome {
    let limits = owned.limits();
    let query = Query::parse(kind, Answer::Stored, owned.keys(), args, 2, name)?;
    let mut stored = SortedSet::new();
    for (member, score) in in_order(query.combine(kind)) {
        stored.add(&member, score, &limits);
    }
    store(owned, args.key(1), stored, cx);
    Ok(())
}

/// In the order of a sorted set.
fn in_order(mut members: Combined<'_>) -> Combined<'_> {
    members.sort_unstable_by(|(a, x), (b, y)| {
        x.partial_cmp(y).expect("no result is NaN").then_with(|| a.cmp(b))
    });
    members
}

impl<'a> Source<'a> {
    fn at(keys: &'a Keys, args: &Args<'_>, word: usize) -> Result<Source<'a>, CommandError> {
        match keys.find(args.key(word)).map(|found| found.value()) {
            None => Ok(Source::Empty),
            Some(Value::Set(set)) => Ok(Source::Set(set)),
            Some(Value::SortedSet(zset)) => Ok(Source::Sorted(zset)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Empty => 0,
            Source::Set(set) => set.len(),
            Source::Sorted(zset) => zset.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Empty => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::Sorted(zset) => zset.score(member),
        }
    }

    fn iter(self) -> Box<dyn Iterator<Item = (Cow<'a, [u8]>, f64)> + 'a> {
        match self {
            Source::Empty => Box::new(std::iter::empty()),
            Source::Set(set) => Box::new(set.iter().map(|member| {
                let bytes = match member {
                    Member::Bytes(bytes) => Cow::Borrowed(bytes),
                    Member::Int(_) => Cow::Owned(member.to_vec()),
                };
                (bytes, 1.0)
            })),
            Source::Sorted(zset) => {
                Box::new(zset.iter().map(|(member, score)| (Cow::Borrowed(member), score)))
            }
        }
    }
}

impl Aggregate {
    fn of(self, total: f64, score: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(total + score),
            // Comparisons with NaN are false: the total stays.
            Aggregate::Min => {
                if score < total {
                    score
                } else {
                    total
                }
            }
            Aggregate::Max => {
                if score > total {
                    score
                } else {
                    total
                }
            }
        }
    }
}

/// inf - inf and 0 * inf count as 0.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl<'a> Query<'a> {
    /// Words from the number of inputs, word `at`, on. As in Redis, inputs of a wrong type are
    /// met before mistakes in the options.
    fn parse(
        kind: Kind,
        answer: Answer,
        keys: &'a Keys,
        args: &Args<'_>,
        at: usize,
        name: &str,
    ) -> Result<Query<'a>, CommandError> {
        let count = parse_i64(args.at(at)).ok_or(CommandError::NotInteger)?;
        if count < 1 {
            return Err(CommandError::err(format_args!(
                "at least 1 input key is needed for '{name}' command"
            )));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > args.len() - (at + 1) {
            return Err(CommandError::Syntax);
        }
        let options = at + 1 + count;
        let mut inputs = Vec::with_capacity(count);
        for word in at + 1..options {
            inputs.push(Weighted { source: Source::at(keys, args, word)?, weight: 1.0 });
        }
        let mut query =
            Query { inputs, aggregate: Aggregate::Sum, show: Show::Members, limit: usize::MAX };
        query.parse_options(kind, answer, args, options)?;
        Ok(query)
    }

    fn parse_options(
        &mut self,
        kind: Kind,
        answer: Answer,
        args: &Args<'_>,
        mut at: usize,
    ) -> Outcome {
        let scored = kind != Kind::Diff && answer != Answer::Cardinality;
        while at < args.len() {
            let left = args.len() - at;
            if scored && left > self.inputs.len() && args.is(at, "weights") {
                at += 1;
                for input in &mut self.inputs {
                    input.weight = parse_f64(args.at(at))
                        .ok_or(CommandError::Static("ERR weight value is not a float"))?;
                    at += 1;
                }
            } else if scored && left >= 2 && args.is(at, "aggregate") {
                self.aggregate = match args.at(at + 1).to_ascii_lowercase().as_slice() {
                    b"sum" => Aggregate::Sum,
                    b"min" => Aggregate::Min,
                    b"max" => Aggregate::Max,
                    _ => return Err(CommandError::Syntax),
                };
                at += 2;
            } else if answer == Answer::Members && args.is(at, "withscores") {
                self.show = Show::Scores;
                at += 1;
            } else if answer == Answer::Cardinality && left >= 2 && args.is(at, "limit") {
                let limit = parse_count(args.at(at + 1), "ERR LIMIT can't be negative")?;
                self.limit = if limit == 0 { usize::MAX } else { limit };
                at += 2;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(())
    }

    fn combine(mut self, kind: Kind) -> Combined<'a> {
        match kind {
            Kind::Union => {
                self.inputs.sort_by_key(|input| input.source.len());
                self.union()
            }
            Kind::Inter => {
                self.inputs.sort_by_key(|input| input.source.len());
                self.inter()
            }
            Kind::Diff => {
                // The largest first: they are the likeliest to hold a member.
                self.inputs[1..].sort_by_key(|input| Reverse(input.source.len()));
                self.diff()
            }
        }
    }

    fn union(&self) -> Combined<'a> {
        let largest = self.inputs.last().map_or(0, |input| input.source.len());
        let mut totals: HashMap<Cow<'a, [u8]>, f64> = HashMap::with_capacity(largest);
        for input in &self.inputs {
            for (member, score) in input.source.iter() {
                let score = number_or_zero(input.weight * score);
                totals
                    .entry(member)
                    .and_modify(|total| *total = self.aggregate.of(*total, score))
                    .or_insert(score);
            }
        }
        totals.into_iter().collect()
    }

    fn inter(&self) -> Combined<'a> {
        let (first, others) = self.inputs.split_first().expect("parse asks for one input");
        let total = |(member, score): (Cow<'a, [u8]>, f64)| {
            let mut total = number_or_zero(first.weight * score);
            for other in others {
                let score = other.source.score(&member)?;
                total = self.aggregate.of(total, other.weight * score);
            }
            Some((member, total))
        };
        first.source.iter().filter_map(total).collect()
    }

    fn diff(&self) -> Combined<'a> {
        let (first, others) = self.inputs.split_first().expect("parse asks for one input");
        let stays = |member: &[u8]| others.iter().all(|o| o.source.score(member).is_none());
        first.source.iter().filter(|(member, _)| stays(member)).collect()
    }
}
