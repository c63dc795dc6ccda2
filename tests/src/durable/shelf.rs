//! The keys of one hash tag as the oracle knows them, and the deeds that change them.
//!
//! Not how a deed fared (`ledger`). Invariant: `Deed::apply` is what Redis does, so its replies are
//! the server's, and `read_words` shows everything that a deed can change.

use crate::dice::Dice;
use crate::resp::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A list longer than this is emptied: reading the shelves must not become the test.
const LONG_LIST: usize = 120;
const LONG_TEXT_BYTES: usize = 6000;
/// Larger than a page and than a socket's buffer, smaller than what a test can send in a blink.
const LARGE_BYTES: std::ops::Range<u64> = 70_000..300_000;
const HOUR_MS: u64 = 3_600_000;
/// Client and server read the same clock, the server once a batch.
const CLOCK_SLACK_MS: u64 = 20;

type Bytes = Vec<u8>;

/// What is on a shelf.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shelf {
    /// Always changed together: `p` and `q`.
    pub pair: [Option<Bytes>; 2],
    /// `c`, never removed, only grows.
    pub counter: i64,
    /// `l` and `m`; elements go over from one to the other.
    pub lists: [VecDeque<Bytes>; 2],
    /// `h`.
    pub hash: BTreeMap<Bytes, Bytes>,
    /// `s`.
    pub set: BTreeSet<Bytes>,
    /// `t`, and when it expires: hours ahead.
    pub text: Option<(Bytes, Option<u64>)>,
    /// `b`, and when it expires: within the test.
    pub brief: Option<(Bytes, u64)>,
}

/// One change, acknowledged as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// MULTI, SET p, SET q, EXEC.
    PairExec(Bytes),
    /// MSET p q.
    PairMset(Bytes),
    /// INCR c.
    Count,
    /// RPUSH l.
    Push(Bytes),
    /// LMOVE l m LEFT RIGHT.
    Move,
    /// LPOP m.
    Pop,
    /// DEL l m.
    Clear,
    /// HSET h.
    Field(Bytes, Bytes),
    /// HDEL h.
    Unfield(Bytes),
    /// SADD s.
    Member(Bytes),
    /// SREM s.
    Unmember(Bytes),
    /// SET t, with PXAT if there is a time.
    Text(Bytes, Option<u64>),
    /// APPEND t.
    Append(Bytes),
    /// PEXPIREAT t.
    Expire(u64),
    /// PERSIST t.
    Persist,
    /// DEL t.
    Delete,
    /// SET b PXAT.
    Brief(Bytes, u64),
    /// MULTI, INCR c, RPUSH l, HSET h, DEL t, EXEC.
    Mixed(Bytes),
}

impl Deed {
    /// Some deed. `number` makes its value one that no other deed writes.
    pub fn choose(dice: &mut Dice, shelf: &Shelf, number: u64, now_ms: u64) -> Deed {
        let value = |dice: &mut Dice| {
            let length = [8, 24, 200, 1500][dice.below(4) as usize];
            padded(number, length)
        };
        let name = format!("n{}", dice.below(24)).into_bytes();
        if shelf.lists.iter().any(|list| list.len() > LONG_LIST) {
            return Deed::Clear;
        }
        match dice.below(100) {
            0..18 => Deed::PairExec(value(dice)),
            18..24 => Deed::PairMset(value(dice)),
            24..36 => Deed::Count,
            36..46 => Deed::Push(value(dice)),
            46..52 => Deed::Move,
            52..55 => Deed::Pop,
            55..64 => Deed::Field(name, value(dice)),
            64..67 => Deed::Unfield(name),
            67..72 => Deed::Member(name),
            72..74 => Deed::Unmember(name),
            74..78 => Deed::Text(value(dice), None),
            78..81 => Deed::Text(value(dice), Some(far(dice, now_ms))),
            81..85 if text_bytes(shelf) < LONG_TEXT_BYTES => Deed::Append(value(dice)),
            81..87 => Deed::Expire(far(dice, now_ms)),
            87..89 => Deed::Persist,
            89..92 => Deed::Delete,
            92..95 => Deed::Brief(value(dice), now_ms + dice.within(5..1500)),
            95..99 => Deed::Mixed(value(dice)),
            _ => Deed::Text(padded(number, dice.within(LARGE_BYTES) as usize), None),
        }
    }

    /// The requests, `tag` being the shelf's.
    pub fn words(&self, tag: &str) -> Vec<Vec<Bytes>> {
        let key = |name: &str| format!("{tag}{name}").into_bytes();
        let line = |parts: &[&[u8]]| parts.iter().map(|part| part.to_vec()).collect::<Vec<_>>();
        let time = |ms: &u64| ms.to_string().into_bytes();
        let one = |parts: &[&[u8]]| vec![line(parts)];
        match self {
            Deed::PairExec(value) => vec![
                line(&[b"MULTI"]),
                line(&[b"SET", &key("p"), value]),
                line(&[b"SET", &key("q"), value]),
                line(&[b"EXEC"]),
            ],
            Deed::PairMset(value) => one(&[b"MSET", &key("p"), value, &key("q"), value]),
            Deed::Count => one(&[b"INCR", &key("c")]),
            Deed::Push(value) => one(&[b"RPUSH", &key("l"), value]),
            Deed::Move => one(&[b"LMOVE", &key("l"), &key("m"), b"LEFT", b"RIGHT"]),
            Deed::Pop => one(&[b"LPOP", &key("m")]),
            Deed::Clear => one(&[b"DEL", &key("l"), &key("m")]),
            Deed::Field(name, value) => one(&[b"HSET", &key("h"), name, value]),
            Deed::Unfield(name) => one(&[b"HDEL", &key("h"), name]),
            Deed::Member(name) => one(&[b"SADD", &key("s"), name]),
            Deed::Unmember(name) => one(&[b"SREM", &key("s"), name]),
            Deed::Text(value, None) => one(&[b"SET", &key("t"), value]),
            Deed::Text(value, Some(at)) => one(&[b"SET", &key("t"), value, b"PXAT", &time(at)]),
            Deed::Append(value) => one(&[b"APPEND", &key("t"), value]),
            Deed::Expire(at) => one(&[b"PEXPIREAT", &key("t"), &time(at)]),
            Deed::Persist => one(&[b"PERSIST", &key("t")]),
            Deed::Delete => one(&[b"DEL", &key("t")]),
            Deed::Brief(value, at) => one(&[b"SET", &key("b"), value, b"PXAT", &time(at)]),
            Deed::Mixed(value) => vec![
                line(&[b"MULTI"]),
                line(&[b"INCR", &key("c")]),
                line(&[b"RPUSH", &key("l"), value]),
                line(&[b"HSET", &key("h"), b"mixed", value]),
                line(&[b"DEL", &key("t")]),
                line(&[b"EXEC"]),
            ],
        }
    }

    /// How many replies come.
    pub fn replies(&self) -> usize {
        match self {
            Deed::PairExec(_) => 4,
            Deed::Mixed(_) => 6,
            _ => 1,
        }
    }

    /// Does it; the last reply.
    pub fn apply(&self, shelf: &mut Shelf) -> Value {
        let count = |number: usize| Value::Int(number as i64);
        let [l, m] = &mut shelf.lists;
        match self {
            Deed::PairExec(value) => {
                shelf.pair = [Some(value.clone()), Some(value.clone())];
                Value::Array(vec![Value::ok(), Value::ok()])
            }
            Deed::PairMset(value) => {
                shelf.pair = [Some(value.clone()), Some(value.clone())];
                Value::ok()
            }
            Deed::Count => {
                shelf.counter += 1;
                Value::Int(shelf.counter)
            }
            Deed::Push(value) => {
                l.push_back(value.clone());
                count(l.len())
            }
            Deed::Move => bulk(l.pop_front().inspect(|moved| m.push_back(moved.clone()))),
            Deed::Pop => bulk(m.pop_front()),
            Deed::Clear => {
                let there = usize::from(!l.is_empty()) + usize::from(!m.is_empty());
                l.clear();
                m.clear();
                count(there)
            }
            Deed::Field(name, value) => {
                count(shelf.hash.insert(name.clone(), value.clone()).is_none().into())
            }
            Deed::Unfield(name) => count(shelf.hash.remove(name).is_some().into()),
            Deed::Member(name) => count(shelf.set.insert(name.clone()).into()),
            Deed::Unmember(name) => count(shelf.set.remove(name).into()),
            Deed::Brief(value, at) => {
                shelf.brief = Some((value.clone(), *at));
                Value::ok()
            }
            Deed::Mixed(value) => {
                shelf.counter += 1;
                l.push_back(value.clone());
                let pushed = count(l.len());
                let field = shelf.hash.insert(b"mixed".to_vec(), value.clone()).is_none();
                let deleted = shelf.text.take().is_some();
                let counted = Value::Int(shelf.counter);
                Value::Array(vec![counted, pushed, count(field.into()), count(deleted.into())])
            }
            _ => self.apply_to_text(&mut shelf.text),
        }
    }

    fn apply_to_text(&self, text: &mut Option<(Bytes, Option<u64>)>) -> Value {
        match (self, &mut *text) {
            (Deed::Text(value, at), _) => {
                *text = Some((value.clone(), *at));
                Value::ok()
            }
            (Deed::Append(value), Some((there, _))) => {
                there.extend_from_slice(value);
                Value::Int(there.len() as i64)
            }
            (Deed::Append(value), None) => {
                *text = Some((value.clone(), None));
                Value::Int(value.len() as i64)
            }
            (Deed::Expire(to), Some((_, at))) => {
                *at = Some(*to);
                Value::Int(1)
            }
            (Deed::Persist, Some((_, at))) => Value::Int(at.take().is_some().into()),
            (Deed::Delete, _) => Value::Int(text.take().is_some().into()),
            _ => Value::Int(0),
        }
    }
}

impl Shelf {
    /// The requests that read all of a shelf at one moment.
    pub fn read_words(tag: &str) -> Vec<Vec<Bytes>> {
        let key = |name: &str| format!("{tag}{name}").into_bytes();
        let mut lines = vec![vec![b"MULTI".to_vec()]];
        for name in ["p", "q", "c", "t", "b"] {
            lines.push(vec![b"GET".to_vec(), key(name)]);
        }
        for name in ["l", "m"] {
            lines.push(vec![b"LRANGE".to_vec(), key(name), b"0".to_vec(), b"-1".to_vec()]);
        }
        lines.push(vec![b"HGETALL".to_vec(), key("h")]);
        lines.push(vec![b"SMEMBERS".to_vec(), key("s")]);
        for name in ["t", "b"] {
            lines.push(vec![b"PEXPIRETIME".to_vec(), key(name)]);
        }
        lines.push(vec![b"EXEC".to_vec()]);
        lines
    }

    /// The shelf of an EXEC's reply; `None` if it is not what `read_words` asked for.
    pub fn parse(reply: &Value) -> Option<Shelf> {
        let [p, q, c, t, b, l, m, hash, set, t_at, b_at] = reply.items()? else { return None };
        let (t_at, b_at) = (t_at.int()?, b_at.int()?);
        let expires = |at: i64| u64::try_from(at).ok();
        let counter = match optional(c)? {
            None => 0,
            Some(text) => String::from_utf8(text).ok()?.parse().ok()?,
        };
        let pairs = list(hash)?;
        Some(Shelf {
            pair: [optional(p)?, optional(q)?],
            counter,
            lists: [list(l)?.into(), list(m)?.into()],
            hash: pairs.chunks_exact(2).map(|two| (two[0].clone(), two[1].clone())).collect(),
            set: list(set)?.into_iter().collect(),
            text: optional(t)?.map(|text| (text, expires(t_at))),
            // It may expire between the two looks of one EXEC.
            brief: optional(b)?.and_then(|text| Some((text, expires(b_at)?))),
        })
    }

    /// Whether this, read between two moments, may be that shelf: a brief key goes in its time.
    pub fn may_be(&self, known: &Shelf, from_ms: u64, to_ms: u64) -> bool {
        let brief = match (&self.brief, &known.brief) {
            (None, None) => true,
            (None, Some((_, at))) => *at <= to_ms + CLOCK_SLACK_MS,
            (Some(_), None) => false,
            (Some(found), Some(wanted)) => found == wanted && found.1 + CLOCK_SLACK_MS > from_ms,
        };
        brief
            && (&self.pair, self.counter, &self.text) == (&known.pair, known.counter, &known.text)
            && (&self.lists, &self.hash, &self.set) == (&known.lists, &known.hash, &known.set)
    }

    /// Which parts differ, for people.
    pub fn differences(&self, known: &Shelf) -> String {
        let mut parts = Vec::new();
        let mut part = |name: &str, found: String, wanted: String| {
            if found != wanted {
                parts.push(format!("{name} is {} not {}", short(&found), short(&wanted)));
            }
        };
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let option = |bytes: &Option<Bytes>| bytes.as_ref().map_or("absent".into(), text);
        for (at, name) in ["p", "q"].into_iter().enumerate() {
            part(name, option(&self.pair[at]), option(&known.pair[at]));
        }
        part("c", self.counter.to_string(), known.counter.to_string());
        for (at, name) in ["l", "m"].into_iter().enumerate() {
            let ends = |list: &VecDeque<Bytes>| {
                format!(
                    "{} from {} to {}",
                    list.len(),
                    option(&list.front().cloned()),
                    option(&list.back().cloned())
                )
            };
            part(name, ends(&self.lists[at]), ends(&known.lists[at]));
        }
        let fields = |hash: &BTreeMap<Bytes, Bytes>| {
            hash.iter().map(|(name, value)| format!("{} {}; ", text(name), text(value))).collect()
        };
        part("h", fields(&self.hash), fields(&known.hash));
        let members = |set: &BTreeSet<Bytes>| set.iter().map(|name| text(name) + " ").collect();
        part("s", members(&self.set), members(&known.set));
        let until = |held: Option<(&Bytes, Option<u64>)>| match held {
            None => "absent".into(),
            Some((bytes, at)) => format!("{} bytes until {at:?}: {}", bytes.len(), text(bytes)),
        };
        let far = |shelf: &Shelf| until(shelf.text.as_ref().map(|(bytes, at)| (bytes, *at)));
        part("t", far(self), far(known));
        let near =
            |shelf: &Shelf| until(shelf.brief.as_ref().map(|(bytes, at)| (bytes, Some(*at))));
        part("b", near(self), near(known));
        parts.join("; ")
    }
}

fn bulk(bytes: Option<Bytes>) -> Value {
    bytes.map_or(Value::NullBulk, Value::Bulk)
}

fn optional(value: &Value) -> Option<Option<Bytes>> {
    match value {
        Value::NullBulk => Some(None),
        Value::Bulk(bytes) => Some(Some(bytes.clone())),
        _ => None,
    }
}

fn list(value: &Value) -> Option<Vec<Bytes>> {
    value.items()?.iter().map(|item| optional(item)?).collect()
}

/// The number again and again: no part of one value is a part of another.
fn padded(number: u64, length: usize) -> Bytes {
    let word = format!("{number:07} ").into_bytes();
    word.iter().copied().cycle().take(length.max(word.len())).collect()
}

fn far(dice: &mut Dice, now_ms: u64) -> u64 {
    now_ms + HOUR_MS + dice.below(HOUR_MS)
}

fn text_bytes(shelf: &Shelf) -> usize {
    shelf.text.as_ref().map_or(0, |(text, _)| text.len())
}

fn short(text: &str) -> String {
    if text.len() <= 60 { text.into() } else { text.chars().take(60).collect::<String>() + "…" }
}
