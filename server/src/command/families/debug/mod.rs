//! DEBUG: hooks for tests, refused unless `enable-debug-command` allows them.
//!
//! What has no meaning here is an unknown subcommand; what only tunes Redis's insides
//! (`QUICKLIST-PACKED-THRESHOLD`...) is checked, accepted and changes nothing. DEBUG runs where
//! blocking is allowed: it may wait for rooms and look at every key.

mod digest;
mod protocol;
mod reload;

use std::sync::atomic::Ordering;
use std::time::Duration;

use slots::SlotId;

use crate::command::families::{config_cmd, help};
use crate::command::flag::{ADMIN, LOADING, LONG, NOSCRIPT, STALE};
use crate::command::{Args, Command, CommandError, Group, Handler, NodeCx, Outcome};
use crate::config::live::Allowed;
use crate::slot::{Key, Op, Patience, Value};
use crate::store::number::{parse_f64, parse_i64, parse_memory};
use crate::store::table::Expiry;

/// DEBUG.
pub const COMMANDS: &[Command] = &[Command {
    name: "debug",
    arity: -2,
    handler: Handler::Node(debug),
    flags: ADMIN | NOSCRIPT | LOADING | STALE | LONG,
    group: Group::Server,
    summary: "A container for debugging commands.",
    complexity: "Depends on subcommand.",
    ..Command::BASE
}];

/// Longest DEBUG SLEEP or SLOT-HOLD: a typo must not hold a node for ever.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// Longest value DEBUG POPULATE makes, bytes.
const MAX_POPULATED_BYTES: usize = 64 * 1024 * 1024;

const NOT_ALLOWED: CommandError = CommandError::Static(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
     can run it from a local connection, otherwise you need to set this option in the \
     configuration file, and then restart the server.",
);

/// One subcommand: its name, how many words it has (DEBUG's included), what it does.
struct Sub {
    name: &'static str,
    words: std::ops::RangeInclusive<usize>,
    run: fn(&mut NodeCx<'_>, &Args<'_>) -> Outcome,
}

const ANY: usize = usize::MAX;

const SUBCOMMANDS: &[Sub] = &[
    Sub { name: "help", words: 2..=2, run: print_help },
    Sub { name: "sleep", words: 3..=3, run: sleep },
    Sub { name: "slot-hold", words: 4..=4, run: slot_hold },
    Sub { name: "slow-watermark", words: 3..=3, run: slow_watermark },
    Sub { name: "object", words: 3..=3, run: object },
    Sub { name: "set-active-expire", words: 3..=3, run: set_active_expire },
    Sub { name: "quicklist-packed-threshold", words: 3..=3, run: packed_threshold },
    Sub { name: "listpack", words: 3..=3, run: listpack },
    Sub { name: "quicklist", words: 3..=4, run: quicklist },
    Sub { name: "reload", words: 2..=ANY, run: reload },
    Sub { name: "loadaof", words: 2..=2, run: loadaof },
    Sub { name: "digest", words: 2..=2, run: digest::all },
    Sub { name: "digest-value", words: 2..=ANY, run: digest::values },
    Sub { name: "populate", words: 3..=5, run: populate },
    Sub { name: "protocol", words: 3..=3, run: protocol::protocol },
    Sub { name: "error", words: 3..=3, run: error },
    Sub { name: "log", words: 3..=3, run: log },
    Sub { name: "htstats", words: 3..=4, run: htstats },
    Sub { name: "htstats-key", words: 3..=4, run: htstats_key },
    Sub { name: "config-rewrite-force-all", words: 2..=2, run: rewrite_all },
    Sub { name: "stringmatch-len", words: 4..=4, run: stringmatch_len },
    Sub { name: "replybuffer", words: 4..=4, run: replybuffer },
    Sub { name: "change-repl-id", words: 2..=2, run: accept },
    Sub { name: "pause-cron", words: 3..=3, run: accept },
    Sub { name: "dict-resizing", words: 3..=3, run: accept },
    Sub { name: "set-disable-deny-scripts", words: 3..=3, run: accept },
    Sub { name: "set-skip-checksum-validation", words: 3..=3, run: accept },
];

fn debug(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    match cx.node.config.live().debug_command() {
        Allowed::Yes => {}
        Allowed::Local if cx.client.is_local => {}
        _ => return Err(NOT_ALLOWED),
    }
    let found = SUBCOMMANDS.iter().find(|s| args.is(1, s.name) && s.words.contains(&args.len()));
    match found {
        Some(sub) => (sub.run)(cx, args),
        None => {
            let name = String::from_utf8_lossy(&args.at(1)[..args.at(1).len().min(128)]);
            Err(CommandError::err(format_args!(
                "unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP."
            )))
        }
    }
}

/// Accepted for the suites that tune Redis by it; there is nothing of the kind here.
fn accept(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    cx.reply.ok();
    Ok(())
}

fn sleep(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let seconds = parse_f64(args.at(2)).ok_or(CommandError::NotFloat)?;
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(MAX_SLEEP);
    cx.node.edges.sleep(time.min(MAX_SLEEP));
    cx.reply.ok();
    Ok(())
}

/// Holds the room of a slot for so many ms, without CPU: what a slow command does to others.
fn slot_hold(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let slot = parse_i64(args.at(2)).and_then(|n| u16::try_from(n).ok()).and_then(SlotId::new);
    let slot = slot.ok_or(CommandError::Static("ERR Invalid or out of range slot"))?;
    let ms = parse_i64(args.at(3)).and_then(|n| u64::try_from(n).ok());
    let time = Duration::from_millis(ms.ok_or(CommandError::NotInteger)?).min(MAX_SLEEP);
    let node = cx.node;
    match cx.enter(slot, Patience::Block, |_| node.edges.sleep(time))? {
        Some(()) => cx.reply.ok(),
        None => {
            node.check_served(slot, &cx.client.shared)?;
            return Err(CommandError::Busy(slot));
        }
    }
    Ok(())
}

/// From now on a reply waits at the gate until its op is so many ms old, as behind a log that
/// syncs slowly. It cannot be switched off: replies that wait need their watermark.
fn slow_watermark(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let ms = parse_i64(args.at(2)).and_then(|n| u64::try_from(n).ok()).filter(|ms| *ms > 0);
    let time = Duration::from_millis(ms.ok_or(CommandError::NotInteger)?).min(MAX_SLEEP);
    cx.node.promises.activate_slow(time.as_nanos() as u64);
    cx.reply.ok();
    Ok(())
}

/// Runs `f` on a key's slot; the refusal of a slot that is not served here is the answer.
fn with_key<R>(
    cx: &mut NodeCx<'_>,
    key: &[u8],
    f: impl FnOnce(&mut crate::slot::Owned<'_>, Key<'_>) -> R,
) -> Result<R, CommandError> {
    let slot = slots::slot_of(key);
    let node = cx.node;
    node.check_served(slot, &cx.client.shared)?;
    match cx.enter(slot, Patience::Block, |owned| f(owned, Key::new(key)))? {
        Some(result) => Ok(result),
        // It left between the two looks: the session asks again and gets the redirect.
        None => Err(CommandError::Busy(slot)),
    }
}

fn object(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let text = with_key(cx, args.at(2), |owned, key| {
        let clock = crate::slot::access_clock(owned.keys().now_ms());
        let found = owned.keys().peek(key)?;
        let mut text = format!(
            "Value at:0x{:x} refcount:1 encoding:{} serializedlength:{} lru:{} \
             lru_seconds_idle:{}",
            key.hash.0,
            found.encoding().as_str(),
            found.bytes(),
            clock.wrapping_sub(found.idle_seconds(clock)),
            found.idle_seconds(clock),
        );
        if let Value::List(list) = found.value() {
            let chunks = list.chunk_count().max(1);
            let average = list.len() as f64 / chunks as f64;
            text.push_str(&format!(
                " ql_nodes:{chunks} ql_avg_node:{average:.2} ql_compressed:0 \
                 ql_uncompressed_size:{}",
                list.bytes()
            ));
        }
        Some(text)
    })?;
    cx.reply.simple(text.ok_or(CommandError::NoSuchKey)?);
    Ok(())
}

fn set_active_expire(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let on = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)? != 0;
    cx.node.active_expire.store(on, Ordering::SeqCst);
    cx.reply.ok();
    Ok(())
}

/// In Redis: from which size on a list element gets a node of its own. Our chunks have no such
/// threshold.
fn packed_threshold(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    const MOST: u64 = 1 << 32;
    match parse_memory(args.at(2)) {
        Some(bytes) if bytes < MOST => {
            cx.reply.ok();
            Ok(())
        }
        _ => Err(CommandError::Static(
            "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
        )),
    }
}

/// Is the key's value in this form?
fn has_encoding(cx: &mut NodeCx<'_>, key: &[u8], wanted: &str) -> Result<bool, CommandError> {
    with_key(cx, key, |owned, key| {
        owned.keys().peek(key).map(|found| found.encoding().as_str() == wanted)
    })?
    .ok_or(CommandError::NoSuchKey)
}

fn listpack(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    match has_encoding(cx, args.at(2), "listpack")? {
        true => accept(cx, args),
        false => Err(CommandError::Static("ERR Not a listpack encoded object.")),
    }
}

fn quicklist(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    match has_encoding(cx, args.at(2), "quicklist")? {
        true => accept(cx, args),
        false => Err(CommandError::Static("ERR Not a quicklist encoded object.")),
    }
}

fn reload(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let known = |word: &[u8]| {
        ["MERGE", "NOFLUSH", "NOSAVE"].iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()))
    };
    if !args.from(2).all(known) {
        return Err(CommandError::Static(
            "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
        ));
    }
    if args.from(2).any(|word| word.eq_ignore_ascii_case(b"NOSAVE")) {
        return Err(CommandError::Static("ERR Error trying to load the RDB dump"));
    }
    loadaof(cx, args)
}

fn loadaof(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    reload::rebuild_all(cx)?;
    cx.reply.ok();
    Ok(())
}

/// DEBUG POPULATE count [prefix [size]]: keys of slots that are not served here are left out.
fn populate(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let positive = |word: &[u8]| {
        let number = parse_i64(word).ok_or(CommandError::NotInteger)?;
        usize::try_from(number)
            .map_err(|_| CommandError::Static("ERR value is out of range, must be positive"))
    };
    let count = positive(args.at(2))?;
    let prefix = args.opt(3).unwrap_or(b"key").to_vec();
    let size = args.opt(4).map_or(Ok(0), positive)?;
    if size > MAX_POPULATED_BYTES {
        return Err(CommandError::Static("ERR value is out of range"));
    }
    for i in 0..count {
        let mut key = prefix.clone();
        key.extend_from_slice(format!(":{i}").as_bytes());
        let mut value = format!("value:{i}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        cx.enter(slots::slot_of(&key), Patience::Block, |owned| {
            let key = Key::new(&key);
            if !owned.keys().exists(key) {
                owned.apply(Op::SetString { key, value: &value, expiry: Expiry::Never });
            }
        })?;
    }
    cx.reply.ok();
    Ok(())
}

fn error(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    cx.reply.error(args.at(2));
    Ok(())
}

fn log(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    tracing::warn!(message = %String::from_utf8_lossy(args.at(2)), "DEBUG LOG");
    cx.reply.ok();
    Ok(())
}

/// Figures of all key tables of this node together.
fn htstats(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let database = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    if database != 0 {
        return Err(CommandError::Static("ERR Out of range database"));
    }
    let (mut tables, mut bytes, mut largest) = (0, 0, 0);
    for slot in SlotId::all() {
        cx.enter(slot, Patience::Block, |owned| {
            if !owned.keys().is_empty() {
                tables += 1;
                bytes += owned.keys().table_bytes();
                largest = largest.max(owned.keys().len());
            }
        })?;
    }
    let keys = cx.node.key_count();
    cx.reply.verbatim(
        "txt",
        format!(
            "[Key tables]\n tables: {tables}\n keys: {keys}\n largest: {largest}\n bytes: {bytes}\n"
        ),
    );
    Ok(())
}

fn htstats_key(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let text = with_key(cx, args.at(2), |owned, key| {
        let found = owned.keys().peek(key)?;
        Some(match found.value() {
            Value::Hash(h) => Some((h.encoding(), h.len(), h.bytes())),
            Value::Set(s) => Some((s.encoding(), s.len(), s.bytes())),
            Value::SortedSet(z) => Some((z.encoding(), z.len(), z.bytes())),
            _ => None,
        })
    })?;
    let table = text
        .ok_or(CommandError::NoSuchKey)?
        .filter(|(encoding, ..)| matches!(encoding.as_str(), "hashtable" | "skiplist"));
    let Some((_, len, bytes)) = table else {
        return Err(CommandError::Static(
            "ERR The value stored at the specified key is not represented using an hash table",
        ));
    };
    cx.reply.verbatim("txt", format!("[Value table]\n elements: {len}\n bytes: {bytes}\n"));
    Ok(())
}

fn rewrite_all(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    config_cmd::rewrite_file(cx, true)
}

/// DEBUG STRINGMATCH-LEN text pattern: does the pattern of KEYS match the text?
fn stringmatch_len(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let matches = crate::store::glob::matches(args.at(3), args.at(2), false);
    cx.reply.int(matches as i64);
    Ok(())
}

/// Reply buffers belong to worker threads: there is no peak of a client to reset.
fn replybuffer(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let number = parse_i64(args.at(3)).is_some();
    let peak = args.is(2, "peak-reset-time");
    if peak && (number || args.is(3, "never") || args.is(3, "reset")) {
        return accept(cx, args);
    }
    if args.is(2, "resizing") && number {
        return accept(cx, args);
    }
    Err(if peak { CommandError::NotInteger } else { CommandError::Syntax })
}

fn print_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(&mut cx.reply, "DEBUG", HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "CONFIG-REWRITE-FORCE-ALL",
    "    CONFIG REWRITE with every option named.",
    "DIGEST",
    "    A digest of all keys of this node: equal contents, equal digests.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Digests of values, whatever their encoding.",
    "ERROR <text>",
    "    Answer with this error.",
    "HTSTATS 0",
    "    Figures of the key tables.",
    "HTSTATS-KEY <key>",
    "    Figures of the table of a large hash, set or sorted set.",
    "LOADAOF, RELOAD",
    "    Build every value anew from its elements.",
    "LOG <text>",
    "    Write this into the log.",
    "OBJECT <key>",
    "    How a value is kept.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Make keys prefix:0 ... of the slots served here.",
    "PROTOCOL (string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false)",
    "    Answer with an example of this type.",
    "SET-ACTIVE-EXPIRE (0|1)",
    "    Let expired keys lie until somebody asks for them, or not.",
    "SLEEP <seconds>",
    "    Answer later.",
    "SLOW-WATERMARK <ms>",
    "    From now on hold each reply back until its op is <ms> old.",
    "SLOT-HOLD <slot> <ms>",
    "    Hold the lock of a slot for so long, then answer.",
    "STRINGMATCH-LEN <text> <pattern>",
    "    Does the pattern match?",
];

#[cfg(test)]
mod tests {
    use crate::testing::{START_MS, TestNode, play_file};

    fn node() -> TestNode {
        TestNode::new(&["--enable-debug-command", "yes"])
    }

    #[test]
    fn debug_is_refused_unless_allowed() {
        play_file(&mut TestNode::new(&[]), "debug/debug.refused.txt");
    }

    #[test]
    fn each_hook_answers() {
        play_file(&mut node(), "debug/debug.hooks.txt");
    }

    #[test]
    fn equal_values_have_equal_digests_in_any_form() {
        play_file(&mut node(), "debug/debug.digest.txt");
    }

    #[test]
    fn a_reload_keeps_keys_values_and_expiries() {
        let mut node = node();
        for i in 0..300 {
            let n = i.to_string();
            node.call(1, &[b"set", format!("s{i}").as_bytes(), n.as_bytes()]);
            node.set_expiring(format!("t{i}").as_bytes(), n.as_bytes(), START_MS + 90_000);
        }
        let big = vec![b'x'; 100_000];
        node.call(1, &[b"set", b"blob", &big]);
        let before = node.call(1, &[b"debug", b"digest"]);
        assert_eq!(node.call(1, &[b"debug", b"reload"]), b"+OK\r\n");
        assert_eq!(node.call(1, &[b"debug", b"digest"]), before);
        assert_eq!(node.node.key_count(), 601);
        node.advance(90_000);
        assert_ne!(node.call(1, &[b"debug", b"digest"]), before);
        assert_eq!(node.node.key_count(), 301);
    }

    #[test]
    fn a_held_slot_that_is_not_ours_is_redirected() {
        let options = ["--enable-debug-command", "yes"];
        let mut node = TestNode::owning("0-8191", &[(7002, "8192-16383")], &options);
        assert_eq!(node.call(1, &[b"debug", b"slot-hold", b"5", b"10"]), b"+OK\r\n");
        let moved = node.call(1, &[b"debug", b"slot-hold", b"9000", b"10"]);
        assert_eq!(moved, b"-MOVED 9000 127.0.0.1:7002\r\n");
    }

    #[test]
    fn attributes_come_before_their_reply_in_resp3_only() {
        let mut node = node();
        let reply = b"$39\r\nSome real reply following the attribute\r\n";
        assert_eq!(node.call(1, &[b"debug", b"protocol", b"attrib"]), reply);
        node.call(1, &[b"hello", b"3"]);
        let got = node.call(1, &[b"debug", b"protocol", b"attrib"]);
        let attribute = b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n";
        assert_eq!(got, [&attribute[..], &reply[..]].concat());
    }
}
