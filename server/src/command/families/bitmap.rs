//! Bitmaps: strings seen as bits, bit 0 the highest of byte 0. BITFIELD is not here.
//!
//! Invariant: big strings are read piece by piece, never copied whole; a bit's offset lies below
//! `proto-max-bulk-len` bytes.

use smallvec::SmallVec;

use crate::command::families::string::clamp;
use crate::command::flag::{DENYOOM, FAST, LONG};
use crate::command::{Args, Command, CommandError, Cx, Group, Handler, KeySpec, Outcome};
use crate::config::Live;
use crate::slot::{Keys, Op, Owned, Str};
use crate::store::blob::{BLOB_FROM_BYTES, Blob};
use crate::store::number::parse_i64;
use crate::store::object::Object;
use crate::store::table::Expiry;

const BITMAP: Command = Command { keys: KeySpec::ONE, group: Group::Bitmap, ..Command::BASE };
const DEST_AND_SOURCES: KeySpec = KeySpec::Range { first: 2, last: -1, step: 1 };

/// All bitmap commands but BITFIELD.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "setbit",
        arity: 4,
        handler: Handler::Write(setbit),
        flags: DENYOOM,
        since: "2.2.0",
        summary: "Sets or clears the bit at offset of the string value. Creates the key if it \
            doesn't exist.",
        ..BITMAP
    },
    Command {
        name: "getbit",
        arity: 3,
        handler: Handler::Read(getbit),
        flags: FAST,
        since: "2.2.0",
        summary: "Returns a bit value by offset.",
        ..BITMAP
    },
    Command {
        name: "bitcount",
        arity: -2,
        handler: Handler::Read(bitcount),
        since: "2.6.0",
        summary: "Counts the number of set bits (population counting) in a string.",
        complexity: "O(N)",
        ..BITMAP
    },
    Command {
        name: "bitpos",
        arity: -3,
        handler: Handler::Read(bitpos),
        since: "2.8.7",
        summary: "Finds the first set (1) or clear (0) bit in a string.",
        complexity: "O(N)",
        ..BITMAP
    },
    Command {
        name: "bitop",
        arity: -4,
        handler: Handler::Write(bitop),
        keys: DEST_AND_SOURCES,
        flags: DENYOOM | LONG,
        since: "2.6.0",
        summary: "Performs bitwise operations on multiple strings, and stores the result.",
        complexity: "O(N)",
        ..BITMAP
    },
];

/// Bytes that BITOP works on at a time: they stay in the cache.
const BLOCK_BYTES: usize = 64 * 1024;

/// The offset of a bit.
fn bit_offset(text: &[u8], live: &Live) -> Result<usize, CommandError> {
    let offset = parse_i64(text).and_then(|n| usize::try_from(n).ok());
    offset
        .filter(|n| ((n >> 3) as u64) < live.proto_max_bulk_len.load())
        .ok_or(CommandError::Static("ERR bit offset is not an integer or out of range"))
}

/// SETBIT key offset value
fn setbit(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let offset = bit_offset(args.at(2), cx.live)?;
    let on = match parse_i64(args.at(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(CommandError::Static("ERR bit is not an integer or out of range")),
    };
    let key = args.key(1);
    let (at, mask) = (offset / 8, 0x80_u8 >> (offset % 8));
    let old = owned.keys().string(key)?.and_then(|value| value.byte(at));
    let new = if on { old.unwrap_or(0) | mask } else { old.unwrap_or(0) & !mask };
    // A string that is too short grows even if the bit it gets is 0.
    if old != Some(new) {
        owned.apply(Op::SetRange { key, offset: at, bytes: &[new] });
    }
    cx.reply.int((old.unwrap_or(0) & mask != 0).into());
    Ok(())
}

/// GETBIT key offset
fn getbit(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let offset = bit_offset(args.at(2), cx.live)?;
    let byte = keys.string(args.key(1))?.and_then(|value| value.byte(offset / 8)).unwrap_or(0);
    cx.reply.int((byte >> (7 - offset % 8) & 1).into());
    Ok(())
}

/// A range of bits, both ends included, as BITCOUNT and BITPOS are asked for.
#[derive(Clone, Copy)]
struct Span {
    start: i64,
    /// `None` = to the end of the string.
    end: Option<i64>,
    in_bits: bool,
}

impl Span {
    const WHOLE: Span = Span { start: 0, end: None, in_bits: false };

    /// Words from `at` on: `[start [end [BYTE | BIT]]]`.
    fn parse(args: &Args<'_>, at: usize) -> Result<Span, CommandError> {
        let number = |i: usize| match args.opt(i) {
            None => Ok(None),
            Some(text) => parse_i64(text).map(Some).ok_or(CommandError::NotInteger),
        };
        let Some(start) = number(at)? else { return Ok(Span::WHOLE) };
        let end = number(at + 1)?;
        let in_bits = match args.len().saturating_sub(at + 2) {
            0 => false,
            1 if args.is(at + 2, "BIT") => true,
            1 if args.is(at + 2, "BYTE") => false,
            _ => return Err(CommandError::Syntax),
        };
        Ok(Span { start, end, in_bits })
    }

    /// As BITPOS counts: what lies before the string is its first byte (or bit), even if the end
    /// lies before the start there. BITCOUNT finds nothing in such a span.
    fn inside(self, bytes: usize) -> Span {
        let units = if self.in_bits { bytes * 8 } else { bytes } as i64;
        Span { start: self.start.max(-units), end: self.end.map(|end| end.max(-units)), ..self }
    }

    /// First bit and the one behind the last in a string of `bytes` bytes; equal = none.
    fn bits(&self, bytes: usize) -> (usize, usize) {
        if self.in_bits {
            let bits = clamp(self.start, self.end.unwrap_or(-1), bytes * 8);
            return (bits.start, bits.end);
        }
        let range = clamp(self.start, self.end.unwrap_or(-1), bytes);
        (range.start * 8, range.end * 8)
    }
}

/// BITCOUNT key [start end [BYTE | BIT]]
fn bitcount(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if args.len() == 3 {
        return Err(CommandError::Syntax);
    }
    let span = Span::parse(args, 2)?;
    let count = match keys.string(args.key(1))? {
        None => 0,
        Some(value) => {
            let (start, end) = span.bits(value.len());
            ones_between(value, start, end)
        }
    };
    cx.reply.int(count as i64);
    Ok(())
}

/// Ones among the bits `start..end`.
fn ones_between(value: Str<'_>, start: usize, end: usize) -> u64 {
    if start == end {
        return 0;
    }
    let (first, last) = (start / 8, (end - 1) / 8);
    let all: u64 = value.pieces(first..last + 1).map(ones).sum();
    let byte = |at: usize| value.byte(at).unwrap_or(0);
    let before = byte(first) & !(0xFF >> (start % 8));
    let behind = byte(last) & (0x7F_u8 >> ((end - 1) % 8));
    all - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

fn ones(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest: u64 = words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum();
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    rest + words.map(|bytes| u64::from(word(bytes).count_ones())).sum::<u64>()
}

/// BITPOS key bit [start [end [BYTE | BIT]]]
fn bitpos(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let bit = match parse_i64(args.at(2)).ok_or(CommandError::NotInteger)? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::Static("ERR The bit argument must be 1 or 0.")),
    };
    let span = Span::parse(args, 3)?;
    let position = match keys.string(args.key(1))? {
        // A missing key is an endless row of zeros.
        None => (!bit).then_some(0),
        Some(value) => {
            let (start, end) = span.inside(value.len()).bits(value.len());
            let found = find_bit(value, bit, start, end);
            // Behind a string come zeros, unless the caller said where to stop.
            let zero_behind = !bit && span.end.is_none() && start < end;
            found.or_else(|| zero_behind.then_some(value.len() * 8))
        }
    };
    cx.reply.int(position.map_or(-1, |at| at as i64));
    Ok(())
}

/// The first `bit` among the bits `start..end`.
fn find_bit(value: Str<'_>, bit: bool, start: usize, end: usize) -> Option<usize> {
    if start == end {
        return None;
    }
    let (first, last) = (start / 8, (end - 1) / 8);
    // With the other bit as 1, a byte without it is 0.
    let flip = if bit { 0 } else { 0xFF };
    let head = (value.byte(first)? ^ flip) & (0xFF >> (start % 8));
    let mut found = None;
    if head != 0 {
        found = Some(first * 8 + head.leading_zeros() as usize);
    } else {
        let mut base = first + 1;
        for piece in value.pieces(base..last + 1) {
            if let Some(at) = first_other(piece, flip) {
                let byte = piece[at] ^ flip;
                found = Some((base + at) * 8 + byte.leading_zeros() as usize);
                break;
            }
            base += piece.len();
        }
    }
    found.filter(|at| *at < end)
}

/// The first byte that is not `usual`.
fn first_other(bytes: &[u8], usual: u8) -> Option<usize> {
    /// Compared at once: the compiler makes vectors of it.
    const STRIDE: usize = 64;
    let differs = |part: &[u8]| part.iter().fold(0, |sum, byte| sum | (byte ^ usual)) != 0;
    let stride = bytes.chunks(STRIDE).position(differs)? * STRIDE;
    bytes[stride..].iter().position(|byte| *byte != usual).map(|at| stride + at)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bitwise {
    And,
    Or,
    Xor,
    Not,
}

impl Bitwise {
    fn parse(args: &Args<'_>) -> Option<Bitwise> {
        let words = [
            ("AND", Bitwise::And),
            ("OR", Bitwise::Or),
            ("XOR", Bitwise::Xor),
            ("NOT", Bitwise::Not),
        ];
        words.iter().find(|(word, _)| args.is(1, word)).map(|(_, op)| *op)
    }
}

/// BITOP operation destkey key [key ...]
fn bitop(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let op = Bitwise::parse(args).ok_or(CommandError::Syntax)?;
    if op == Bitwise::Not && args.len() != 4 {
        let text = "ERR BITOP NOT must be called with a single source key.";
        return Err(CommandError::Static(text));
    }
    let key = args.key(2);
    let (len, combined) = combine_keys(owned.keys(), op, args)?;
    match combined {
        Combined::Nothing if !owned.keys().exists(key) => 0,
        Combined::Nothing => owned.apply(Op::Delete { key }),
        Combined::Flat(value) => {
            owned.apply(Op::SetString { key, value: &value, expiry: Expiry::Never })
        }
        Combined::Blob(blob) => {
            let object = Box::new(Object::Blob(blob));
            owned.apply(Op::PutObject { key, object, expiry: Expiry::Never })
        }
    };
    cx.reply.int(len as i64);
    Ok(())
}

/// What BITOP stores.
enum Combined {
    Nothing,
    Flat(Vec<u8>),
    Blob(Blob),
}

/// Combines the strings at words 3 and on; also says how long the result is.
fn combine_keys(
    keys: &Keys,
    op: Bitwise,
    args: &Args<'_>,
) -> Result<(usize, Combined), CommandError> {
    let mut sources: SmallVec<[Option<Str<'_>>; 8]> = SmallVec::new();
    for i in 3..args.len() {
        sources.push(keys.string(args.key(i))?);
    }
    let len = sources.iter().flatten().map(Str::len).max().unwrap_or(0);
    if len > BLOB_FROM_BYTES {
        let mut blob = Blob::new();
        combine(op, &sources, len, &mut |block| blob.append(block));
        return Ok((len, Combined::Blob(blob)));
    }
    if len == 0 {
        return Ok((0, Combined::Nothing));
    }
    let mut value = Vec::with_capacity(len);
    combine(op, &sources, len, &mut |block| value.extend_from_slice(block));
    Ok((len, Combined::Flat(value)))
}

/// Combines the sources, each followed by zeros up to `len`, block by block.
fn combine(op: Bitwise, sources: &[Option<Str<'_>>], len: usize, put: &mut dyn FnMut(&[u8])) {
    let mut block = vec![0; len.min(BLOCK_BYTES)];
    for start in (0..len).step_by(BLOCK_BYTES) {
        let end = len.min(start + BLOCK_BYTES);
        let block = &mut block[..end - start];
        for (nth, source) in sources.iter().enumerate() {
            let have = source.map_or(start, |s| s.len().clamp(start, end));
            let (covered, beyond) = block.split_at_mut(have - start);
            let mut rest = covered;
            // A shorter source has ended before this block, and has no piece that begins there.
            let there = source.iter().filter(|_| have > start);
            for piece in there.flat_map(|s| s.pieces(start..have)) {
                let (part, behind) = std::mem::take(&mut rest).split_at_mut(piece.len());
                merge(if nth == 0 { None } else { Some(op) }, part, piece);
                rest = behind;
            }
            if nth == 0 || op == Bitwise::And {
                beyond.fill(0);
            }
        }
        if op == Bitwise::Not {
            block.iter_mut().for_each(|byte| *byte = !*byte);
        }
        put(block);
    }
}

/// `None` copies.
fn merge(op: Option<Bitwise>, into: &mut [u8], piece: &[u8]) {
    let pairs = into.iter_mut().zip(piece);
    match op {
        None | Some(Bitwise::Not) => into.copy_from_slice(piece),
        Some(Bitwise::And) => pairs.for_each(|(a, b)| *a &= b),
        Some(Bitwise::Or) => pairs.for_each(|(a, b)| *a |= b),
        Some(Bitwise::Xor) => pairs.for_each(|(a, b)| *a ^= b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run_script;
    use proptest::prelude::*;

    #[test]
    fn single_bits() {
        run_script("bitmap.bits.txt");
    }

    #[test]
    fn counting_and_finding_bits() {
        run_script("bitmap.count.txt");
    }

    #[test]
    fn combining_bitmaps() {
        run_script("bitmap.bitop.txt");
    }

    /// Few distinct bytes, so that long runs of equal ones come about.
    fn text(max: usize) -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0_u8), Just(0xFF), any::<u8>()];
        (byte, prop::collection::vec(any::<u8>(), 0..20), 0..max).prop_map(|(fill, tail, n)| {
            let mut text = vec![fill; n];
            text.extend(tail);
            text
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn counts_and_positions_agree_with_single_bits(
            text in text(300), start in 0_usize..2600, len in 0_usize..2600, bit: bool,
        ) {
            let start = start.min(text.len() * 8);
            let end = (start + len).min(text.len() * 8);
            let blob = Blob::from_slice(&text);
            let is_one = |at: usize| text[at / 8] >> (7 - at % 8) & 1 == 1;
            for value in [Str::Flat(&text), Str::Blob(&blob)] {
                let count = (start..end).filter(|at| is_one(*at)).count() as u64;
                prop_assert_eq!(ones_between(value, start, end), count);
                let first = (start..end).find(|at| is_one(*at) == bit);
                prop_assert_eq!(find_bit(value, bit, start, end), first);
            }
        }

        #[test]
        fn big_bitmaps_combine_as_small_ones_do(
            texts in prop::collection::vec(text(3 * BLOCK_BYTES), 1..4), which in 0_usize..3,
        ) {
            let op = [Bitwise::And, Bitwise::Or, Bitwise::Xor][which];
            let len = texts.iter().map(Vec::len).max().unwrap_or(0);
            let blobs: Vec<Blob> = texts.iter().map(|t| Blob::from_slice(t)).collect();
            let small = |t: &Vec<u8>| t.len() <= BLOB_FROM_BYTES;
            let byte = |t: &Vec<u8>, at: usize| t.get(at).copied().unwrap_or(0);
            let expected: Vec<u8> = (0..len)
                .map(|at| {
                    let bytes = texts.iter().map(|t| byte(t, at));
                    bytes.reduce(|a, b| match op {
                        Bitwise::And => a & b,
                        Bitwise::Or => a | b,
                        _ => a ^ b,
                    }).unwrap_or(0)
                })
                .collect();
            let source = |(t, b): (_, _)| if small(t) { Str::Flat(t) } else { Str::Blob(b) };
            let sources: Vec<_> = texts.iter().zip(&blobs).map(source).map(Some).collect();
            let mut got = Vec::new();
            combine(op, &sources, len, &mut |block| got.extend_from_slice(block));
            prop_assert!(got == expected);
        }
    }
}
