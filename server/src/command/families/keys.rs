//! Keys whatever their type: DEL, EXISTS, TYPE, RENAME, COPY and OBJECT. Times are in `expire`,
//! commands on all keys of the node in `keyspace`.
//!
//! Invariant: a command that names several keys finds them in one slot.

use crate::command::families::help;
use crate::command::flag::{DENYOOM, FAST, LOADING, LONG, STALE};
use crate::command::{Args, Command, CommandError, Cx, Group, Handler, KeySpec, NodeCx, Outcome};

use crate::slot::{Found, Keys, Op, Owned, Str, Value, access_clock};
use crate::store::limits::Encoding;
use crate::store::number::parse_i64;
use crate::store::table::Expiry;

const KEYS: Command = Command { keys: KeySpec::ALL, group: Group::Generic, ..Command::BASE };
const TWO_KEYS: Command = Command { keys: KeySpec::TWO, ..KEYS };
const OBJECT: Command = Command {
    arity: 3,
    keys: KeySpec::Range { first: 2, last: 2, step: 1 },
    since: "2.2.3",
    ..KEYS
};

/// DEL and its kin.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "del",
        arity: -2,
        handler: Handler::Write(del),
        summary: "Deletes one or more keys.",
        complexity: "O(N) where N is the number of keys that will be removed. When a key to remove \
            holds a value other than a string, the individual complexity for this key is O(M) \
            where M is the number of elements in the list, set, sorted set or hash. Removing a \
            single key that holds a string value is O(1).",
        ..KEYS
    },
    Command {
        name: "unlink",
        arity: -2,
        handler: Handler::Write(del),
        flags: FAST,
        since: "4.0.0",
        summary: "Asynchronously deletes one or more keys.",
        complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) \
            work in a different thread in order to reclaim memory, where N is the number of \
            allocations the deleted objects where composed of.",
        ..KEYS
    },
    Command {
        name: "exists",
        arity: -2,
        handler: Handler::Read(exists),
        flags: FAST,
        summary: "Determines whether one or more keys exist.",
        complexity: "O(N) where N is the number of keys to check.",
        ..KEYS
    },
    Command {
        name: "touch",
        arity: -2,
        handler: Handler::Read(touch),
        flags: FAST,
        since: "3.2.1",
        summary: "Returns the number of existing keys out of those specified after updating the \
            time they were last accessed.",
        complexity: "O(N) where N is the number of keys that will be touched.",
        ..KEYS
    },
    Command {
        name: "type",
        arity: 2,
        handler: Handler::Read(type_of),
        keys: KeySpec::ONE,
        flags: FAST,
        summary: "Determines the type of value stored at a key.",
        ..KEYS
    },
    Command {
        name: "rename",
        arity: 3,
        handler: Handler::Write(rename),
        summary: "Renames a key and overwrites the destination.",
        ..TWO_KEYS
    },
    Command {
        name: "renamenx",
        arity: 3,
        handler: Handler::Write(renamenx),
        flags: FAST,
        summary: "Renames a key only when the target key name doesn't exist.",
        ..TWO_KEYS
    },
    Command {
        name: "copy",
        arity: -3,
        handler: Handler::Write(copy),
        flags: DENYOOM | LONG,
        since: "6.2.0",
        summary: "Copies the value of a key to a new key.",
        complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) \
            for string values.",
        ..TWO_KEYS
    },
    Command {
        name: "object",
        arity: -2,
        since: "2.2.3",
        summary: "A container for object introspection commands.",
        complexity: "Depends on subcommand.",
        subcommands: OBJECT_COMMANDS,
        ..Command::BASE
    },
];

const OBJECT_COMMANDS: &[Command] = &[
    Command {
        name: "encoding",
        handler: Handler::Read(object_encoding),
        summary: "Returns the internal encoding of a Redis object.",
        ..OBJECT
    },
    Command {
        name: "freq",
        handler: Handler::Read(object_freq),
        since: "4.0.0",
        summary: "Returns the logarithmic access frequency counter of a Redis object.",
        ..OBJECT
    },
    Command {
        name: "help",
        arity: 2,
        handler: Handler::Node(object_help),
        keys: KeySpec::None,
        flags: LOADING | STALE,
        since: "6.2.0",
        summary: "Returns helpful text about the different subcommands.",
        ..OBJECT
    },
    Command {
        name: "idletime",
        handler: Handler::Read(object_idletime),
        summary: "Returns the time since the last access to a Redis object.",
        ..OBJECT
    },
    Command {
        name: "refcount",
        handler: Handler::Read(object_refcount),
        summary: "Returns the reference count of a value of a key.",
        ..OBJECT
    },
];

/// DEL key [key ...]; UNLINK is the same: big values are freed elsewhere in any case.
fn del(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let mut gone = 0;
    for i in 1..args.len() {
        let key = args.key(i);
        if owned.keys().exists(key) {
            gone += owned.apply(Op::Delete { key });
        }
    }
    cx.reply.int(gone as i64);
    Ok(())
}

/// EXISTS key [key ...]
fn exists(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let found = (1..args.len()).filter(|i| keys.look(args.key(*i)).is_some()).count();
    cx.reply.int(found as i64);
    Ok(())
}

/// TOUCH key [key ...]
fn touch(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let found = (1..args.len()).filter(|i| keys.find(args.key(*i)).is_some()).count();
    cx.reply.int(found as i64);
    Ok(())
}

/// TYPE key
fn type_of(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    cx.reply.simple(keys.look(args.key(1)).map_or("none", |found| found.value().type_name()));
    Ok(())
}

/// RENAME key newkey
fn rename(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let (from, to) = (args.key(1), args.key(2));
    if !owned.keys().exists(from) {
        return Err(CommandError::NoSuchKey);
    }
    if from.bytes != to.bytes {
        owned.apply(Op::Rename { from, to });
    }
    cx.reply.ok();
    Ok(())
}

/// RENAMENX key newkey
fn renamenx(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let (from, to) = (args.key(1), args.key(2));
    if !owned.keys().exists(from) {
        return Err(CommandError::NoSuchKey);
    }
    let renames = !owned.keys().exists(to);
    if renames {
        owned.apply(Op::Rename { from, to });
    }
    cx.reply.int(renames.into());
    Ok(())
}

/// COPY's options: REPLACE or not. There is one database.
fn copy_replaces(args: &Args<'_>) -> Result<bool, CommandError> {
    /// Numbers that SELECT and COPY know, as `databases` says by default.
    const DATABASES: i64 = 16;
    let (mut replace, mut database) = (false, 0);
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "REPLACE") {
            replace = true;
        } else if args.is(i, "DB") && i + 1 < args.len() {
            i += 1;
            database = parse_i64(args.at(i)).ok_or(CommandError::NotInteger)?;
            if !(0..DATABASES).contains(&database) {
                return Err(CommandError::Static("ERR DB index is out of range"));
            }
        } else {
            return Err(CommandError::Syntax);
        }
        i += 1;
    }
    if database != 0 {
        let text = "ERR Copying to another database is not allowed in cluster mode";
        return Err(CommandError::Static(text));
    }
    Ok(replace)
}

/// COPY source destination [DB destination-db] [REPLACE]
fn copy(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let replace = copy_replaces(args)?;
    let (from, to) = (args.key(1), args.key(2));
    if from.bytes == to.bytes {
        let text = "ERR source and destination objects are the same";
        return Err(CommandError::Static(text));
    }
    let Some(found) = owned.keys().find(from) else {
        cx.reply.int(0);
        return Ok(());
    };
    if !replace && owned.keys().exists(to) {
        cx.reply.int(0);
        return Ok(());
    }
    let expiry = found.expiry().map_or(Expiry::Never, Expiry::At);
    match found.value().to_object().map_err(<[u8]>::to_vec) {
        Ok(object) => owned.apply(Op::PutObject { key: to, object, expiry }),
        Err(bytes) => owned.apply(Op::SetString { key: to, value: &bytes, expiry }),
    };
    cx.reply.int(1);
    Ok(())
}

/// The key of an OBJECT command, if there is one; null is written if not.
fn object<'k>(keys: &'k Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Option<Found<'k>> {
    let found = keys.look(args.key(2));
    if found.is_none() {
        cx.reply.null();
    }
    found
}

fn object_encoding(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if let Some(found) = object(keys, args, cx) {
        cx.reply.bulk(found.encoding().as_str().as_bytes());
    }
    Ok(())
}

/// A value belongs to its key alone, and says so; but clients of Redis know the integers from 0
/// to 9,999 as shared by everybody, which it shows by this number.
fn object_refcount(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    const SHARED_BELOW: i64 = 10_000;
    let Some(found) = object(keys, args, cx) else { return Ok(()) };
    let shared = match found.value() {
        Value::Str(Str::Flat(text)) if found.encoding() == Encoding::Int => {
            parse_i64(text).is_some_and(|n| (0..SHARED_BELOW).contains(&n))
        }
        _ => false,
    };
    cx.reply.int(if shared { i32::MAX.into() } else { 1 });
    Ok(())
}

fn object_idletime(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let Some(found) = object(keys, args, cx) else { return Ok(()) };
    if cx.live.counts_frequency() {
        return Err(CommandError::Static(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    cx.reply.int(found.idle_seconds(access_clock(cx.now.unix_ms)).into());
    Ok(())
}

/// Uses are not counted yet, whatever the policy: an error says so rather than a made-up number.
fn object_freq(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if object(keys, args, cx).is_none() {
        return Ok(());
    }
    Err(CommandError::Static(if cx.live.counts_frequency() {
        "ERR access frequency is not tracked by this version"
    } else {
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust."
    }))
}

fn object_help(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    help::write(
        &mut cx.reply,
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ],
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn keys_of_any_type() {
        run_script("keys.txt");
    }

    #[test]
    fn keys_that_change_their_names() {
        run_script("keys.rename.txt");
    }

    #[test]
    fn copies_are_values_of_their_own() {
        run_script("keys.copy.txt");
    }

    #[test]
    fn keys_of_other_types_than_string() {
        run_script("keys.types.txt");
    }

    #[test]
    fn encodings_and_idle_times() {
        run_script("keys.object.txt");
    }
}
