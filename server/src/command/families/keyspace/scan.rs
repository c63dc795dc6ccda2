//! SCAN and KEYS: a walk over the rooms in slot order, in each over the key table in hash order.
//!
//! ```text
//! cursor:  | slot, 14 bits | position in the room's hash order, 39 bits |     0 = start and end
//! ```
//! A cursor says everything there is to know: it is as good on another node or after a restart,
//! and any number is a legal one. It stays below 2^53 because some clients keep it in a double.
//! Invariant: a key that is there all the while is shown, and a walk ends: each call goes on by
//! at least one cursor step.

use slots::SlotId;

use crate::command::{Args, CommandError, NodeCx, Outcome};
use crate::resp::{Proto, Reply};
use crate::slot::{Found, Keys, Patience};
use crate::store::glob;
use crate::store::number::{parse_i64, parse_u64};
use crate::store::table::ScanPos;

/// Keys looked at without COUNT, as Redis.
const DEFAULT_COUNT: i64 = 10;
/// Most keys one SCAN looks at, whatever COUNT: some 2 ms of a worker's time.
const SCAN_KEYS_MAX: u64 = 10_000;
/// Keys KEYS looks at per lock hold: below 1 ms.
const KEYS_PER_HOLD: u64 = 5_000;
/// Bytes of pattern times bytes of key per SCAN, and per hold of KEYS: the most that matching
/// may cost, some 20 ms. One key is always looked at.
const MATCH_STEPS_MAX: u64 = 20_000_000;
/// Most bytes KEYS answers with; more is an error. SCAN has no such bound to hit.
const KEYS_REPLY_MAX_BYTES: usize = 1 << 30;

/// Low bits of a position that a cursor drops: 48 - 39.
const DROPPED_BITS: u32 = 9;
const POSITION_BITS: u32 = 39;

/// Where a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    slot: SlotId,
    position: ScanPos,
}

impl Place {
    const fn start_of(slot: SlotId) -> Place {
        Place { slot, position: ScanPos::START }
    }

    /// `None` = behind the last slot.
    fn of_cursor(cursor: u64) -> Option<Place> {
        let slot = u16::try_from(cursor >> POSITION_BITS).ok().and_then(SlotId::new)?;
        let position = (cursor & ((1 << POSITION_BITS) - 1)) << DROPPED_BITS;
        Some(Place { slot, position: ScanPos(position) })
    }

    /// Rounded down: keys just before a place may be shown twice, none is left out.
    fn cursor(self) -> u64 {
        (u64::from(self.slot.number()) << POSITION_BITS) | self.position.0 >> DROPPED_BITS
    }
}

/// Which keys are shown.
#[derive(Default)]
struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

impl Filter<'_> {
    fn takes(&self, found: &Found<'_>) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, found.key(), false))
            && self
                .type_name
                .is_none_or(|name| found.value().type_name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The only slot whose keys can match: a pattern that says its hash tag, or is no pattern.
    fn slot(&self) -> Option<SlotId> {
        slot_of_pattern(self.pattern?)
    }
}

/// The slot that all texts fitting a pattern are in, if its literal beginning says so.
fn slot_of_pattern(pattern: &[u8]) -> Option<SlotId> {
    let special = pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
    let Some(special) = special else { return Some(slots::slot_of(pattern)) };
    let literal = &pattern[..special];
    let open = literal.iter().position(|byte| *byte == b'{')?;
    let close = open + literal[open..].iter().position(|byte| *byte == b'}')?;
    // An empty tag is none: the whole key counts, which is not known.
    (close > open + 1).then(|| slots::slot_of(&pattern[..=close]))
}

/// What a call, or one lock hold, may still look at.
struct Budget {
    keys: u64,
    match_steps: u64,
    /// Bytes of the pattern.
    pattern: u64,
}

impl Budget {
    fn new(keys: u64, filter: &Filter<'_>) -> Budget {
        let pattern = filter.pattern.map_or(0, |pattern| pattern.len() as u64);
        Budget { keys, match_steps: MATCH_STEPS_MAX, pattern }
    }

    fn charge(&mut self, key: &[u8]) {
        self.keys = self.keys.saturating_sub(1);
        self.match_steps = self.match_steps.saturating_sub(self.pattern * key.len() as u64);
    }

    fn is_spent(&self) -> bool {
        self.keys == 0 || self.match_steps == 0
    }
}

/// Keys found, as bulk replies.
#[derive(Default)]
struct Shown {
    bulks: Vec<u8>,
    count: usize,
}

impl Shown {
    fn show(&mut self, key: &[u8]) {
        Reply::new(&mut self.bulks, Proto::Resp2).bulk(key);
        self.count += 1;
    }

    fn write(&self, reply: &mut Reply<'_>) {
        reply.array(self.count);
        reply.out.extend_from_slice(&self.bulks);
    }
}

/// Looks at keys of one room until the budget is spent. `None` = the room is done.
fn scan_room(
    keys: &Keys,
    from: ScanPos,
    filter: &Filter<'_>,
    budget: &mut Budget,
    shown: &mut Shown,
) -> Option<ScanPos> {
    let mut at = from;
    loop {
        let before = budget.keys;
        let next = keys.scan(at, &mut |found| {
            budget.charge(found.key());
            if filter.takes(&found) {
                shown.show(found.key());
            }
        });
        at = next?;
        if budget.keys == before {
            // Nothing but empty buckets and expired keys is work, too.
            budget.keys = budget.keys.saturating_sub(1);
        }
        // A cursor that stands still would never end.
        if budget.is_spent() && at.0 >> DROPPED_BITS > from.0 >> DROPPED_BITS {
            return Some(at);
        }
    }
}

/// Walks on from a place until the budget is spent. Returns where it stopped; `None` at the end.
///
/// # Errors
/// `Busy` when the first room with keys is held by somebody else; a later one ends the walk.
fn walk(
    cx: &mut NodeCx<'_>,
    from: Place,
    patience: Patience,
    filter: &Filter<'_>,
    budget: &mut Budget,
    shown: &mut Shown,
) -> Result<Option<Place>, CommandError> {
    let mut place = from;
    let only = filter.slot();
    loop {
        if only.is_none_or(|slot| slot == place.slot) && !cx.looks_empty(place.slot) {
            let position = place.position;
            let scanned = cx.enter(place.slot, patience, |owned| {
                scan_room(owned.keys(), position, filter, budget, shown)
            });
            match scanned {
                Ok(Some(Some(position))) => return Ok(Some(Place { position, ..place })),
                Ok(_) => {}
                Err(CommandError::Busy(_)) if place != from => return Ok(Some(place)),
                Err(error) => return Err(error),
            }
        }
        let Some(next) = place.slot.next() else { return Ok(None) };
        place = Place::start_of(next);
        if budget.is_spent() {
            return Ok(Some(place));
        }
    }
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub(super) fn scan(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let cursor = parse_u64(args.at(1)).ok_or(CommandError::Static("ERR invalid cursor"))?;
    let (filter, count) = scan_options(args)?;
    let mut budget = Budget::new(count.unsigned_abs().min(SCAN_KEYS_MAX), &filter);
    let mut shown = Shown::default();
    let next = match Place::of_cursor(cursor) {
        None => None,
        Some(from) => walk(cx, from, Patience::Spin, &filter, &mut budget, &mut shown)?,
    };
    cx.reply.array(2);
    let cursor = next.map_or(0, Place::cursor);
    cx.reply.bulk(itoa::Buffer::new().format(cursor).as_bytes());
    shown.write(&mut cx.reply);
    Ok(())
}

fn scan_options<'a>(args: &Args<'a>) -> Result<(Filter<'a>, i64), CommandError> {
    let mut filter = Filter::default();
    let mut count = DEFAULT_COUNT;
    for i in (2..args.len()).step_by(2) {
        let value = args.opt(i + 1).ok_or(CommandError::Syntax)?;
        if args.is(i, "COUNT") {
            count = parse_i64(value).ok_or(CommandError::NotInteger)?;
            if count < 1 {
                return Err(CommandError::Syntax);
            }
        } else if args.is(i, "MATCH") {
            filter.pattern = (value != b"*").then_some(value);
        } else if args.is(i, "TYPE") {
            filter.type_name = Some(value);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok((filter, count))
}

/// KEYS pattern
pub(super) fn keys(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let pattern = args.at(1);
    let filter = Filter { pattern: (pattern != b"*").then_some(pattern), type_name: None };
    let mut shown = Shown::default();
    let mut from = Place::of_cursor(0);
    while let Some(place) = from {
        let mut budget = Budget::new(KEYS_PER_HOLD, &filter);
        from = walk(cx, place, Patience::Block, &filter, &mut budget, &mut shown)?;
        if shown.bulks.len() > KEYS_REPLY_MAX_BYTES {
            return Err(CommandError::Static("ERR the reply is too big, use SCAN"));
        }
    }
    shown.write(&mut cx.reply);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{TestNode, run_script};

    #[test]
    fn scans_and_their_options() {
        run_script("keyspace.scan.txt");
    }

    #[test]
    fn cursors_fit_a_double_and_come_back_rounded_down() {
        let last =
            Place { slot: SlotId::all().next_back().unwrap(), position: ScanPos((1 << 48) - 1) };
        assert!(last.cursor() < 1 << 53);
        let back = Place::of_cursor(last.cursor()).unwrap();
        assert_eq!(back.slot, last.slot);
        assert!(back.position <= last.position);
        assert_eq!(Place::of_cursor(0), Some(Place::start_of(SlotId::new(0).unwrap())));
        for cursor in [1 << 53, u64::MAX] {
            assert_eq!(Place::of_cursor(cursor), None);
        }
    }

    #[test]
    fn patterns_that_name_their_slot() {
        let slot = |pattern: &[u8]| slot_of_pattern(pattern);
        assert_eq!(slot(b"{tag}*"), Some(slots::slot_of(b"tag")));
        assert_eq!(slot(b"a{tag}b?c"), Some(slots::slot_of(b"tag")));
        assert_eq!(slot(b"plain"), Some(slots::slot_of(b"plain")));
        for pattern in ["*", "*{tag}", "{t?g}*", "{}{tag}*", "{tag*}", "a\\{tag}", "{tag*"] {
            assert_eq!(slot(pattern.as_bytes()), None, "{pattern}");
        }
    }

    /// One SCAN: the next cursor and the keys.
    fn scan_once(node: &mut TestNode, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
        let mut words: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes()];
        words.extend(options.iter().map(|word| word.as_bytes()));
        let reply = String::from_utf8(node.call(1, &words)).unwrap();
        let mut lines = reply.split("\r\n").filter(|line| !line.is_empty());
        let mut texts = lines.by_ref().filter(|line| !line.starts_with(['*', '$']));
        let next = texts.next().unwrap_or_else(|| panic!("{reply}")).to_owned();
        (next, texts.map(str::to_owned).collect())
    }

    fn set(node: &mut TestNode, key: String) {
        node.call(1, &[b"SET", key.as_bytes(), b"v"]);
    }

    #[test]
    fn keys_there_all_the_while_are_shown_though_the_tables_shrink() {
        let mut node = TestNode::new(&[]);
        let keys: Vec<String> = (0..6000)
            .map(|i| if i % 2 == 0 { format!("k{i}") } else { format!("{{t}}{i}") })
            .collect();
        keys.iter().for_each(|key| set(&mut node, key.clone()));
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        for call in 0.. {
            assert!(call < 20_000, "the scan does not end");
            let (next, found) = scan_once(&mut node, &cursor, &["COUNT", "10"]);
            seen.extend(found);
            if call == 300 {
                for key in keys.iter().skip(300) {
                    node.call(1, &[b"DEL", key.as_bytes()]);
                }
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        let missing: Vec<_> = keys.iter().take(300).filter(|key| !seen.contains(*key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn scans_with_count_1_end() {
        let mut node = TestNode::new(&[]);
        (0..500).for_each(|i| set(&mut node, format!("{{t}}{i}")));
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        for _ in 0..2000 {
            let (next, found) = scan_once(&mut node, &cursor, &["COUNT", "1"]);
            assert!(next.parse::<u64>().unwrap() > cursor.parse::<u64>().unwrap() || next == "0");
            seen.extend(found);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!((cursor.as_str(), seen.len()), ("0", 500));
    }

    #[test]
    fn cursors_of_anybody_are_harmless() {
        let mut node = TestNode::new(&[]);
        (0..100).for_each(|i| set(&mut node, format!("k{i}")));
        let mut rng = crate::command::Rng::seeded(1);
        for _ in 0..200 {
            let cursor = (rng.next_u64() >> (rng.next_u64() % 64)).to_string();
            scan_once(&mut node, &cursor, &[]);
        }
    }

    #[test]
    fn hostile_patterns_stay_cheap() {
        let mut node = TestNode::new(&[]);
        set(&mut node, "a".repeat(60));
        for pattern in [
            "*a".repeat(15) + "*b",
            "*".repeat(100_000) + "b",
            "a*".repeat(20) + "b",
            format!("[{}]b*", "a".repeat(50_000)),
            format!("*{}*b", "?".repeat(30)),
            "\\".to_owned(),
            "[a".to_owned(),
        ] {
            assert_eq!(node.call(1, &[b"KEYS", pattern.as_bytes()]), b"*0\r\n");
            let (next, found) = scan_once(&mut node, "0", &["MATCH", &pattern]);
            assert_eq!((next.as_str(), found.len()), ("0", 0));
        }
    }

    #[test]
    fn slots_of_others_are_not_shown() {
        let mut node = TestNode::owning("0-8191", &[(7002, "8192-16383")], &[]);
        (0..100).for_each(|i| set(&mut node, format!("k{i}")));
        let (next, found) = scan_once(&mut node, "0", &["COUNT", "1000"]);
        let own = (0..100).filter(|i| slots::slot_of(format!("k{i}").as_bytes()).number() < 8192);
        assert_eq!((next.as_str(), found.len()), ("0", own.count()));
    }
}
