//! What a command does to each of its keys, in the words of Redis's key specifications (RO, RW,
//! OW, RM; access, update, insert, delete). Most follow from the handler; the rest is listed.

use crate::command::{Args, Command, Handler};

/// The uses of a command's first key and of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyUse {
    pub(super) first: &'static str,
    pub(super) others: Option<&'static str>,
}

impl KeyUse {
    const fn same(all: &'static str) -> KeyUse {
        KeyUse { first: all, others: None }
    }

    const fn two(first: &'static str, others: &'static str) -> KeyUse {
        KeyUse { first, others: Some(others) }
    }

    /// The use of the `i`th key.
    pub(super) fn of_key(&self, i: usize) -> &'static str {
        match (i, self.others) {
            (1.., Some(others)) => others,
            _ => self.first,
        }
    }
}

const READS: &str = "RO access";
const LOOKS: &str = "RO";
const UPDATES: &str = "RW update";
const CHANGES: &str = "RW access update";
const TAKES: &str = "RW access delete";
const DELETES: &str = "RW delete";
const INSERTS: &str = "RW insert";
const OVERWRITES: &str = "OW update";
const CREATES: &str = "OW insert";
const REMOVES: &str = "RM delete";

/// The uses of each command's keys by full name. `args` are its words, if there are any: SET
/// reads its key only with GET.
pub(super) fn of(name: &str, command: &Command, args: Option<&Args<'_>>) -> KeyUse {
    match name {
        "set" => match args {
            Some(args) if (3..args.len()).any(|i| args.is(i, "GET")) => KeyUse::same(CHANGES),
            Some(_) => KeyUse::same(OVERWRITES),
            None => KeyUse::same("RW access update variable_flags"),
        },
        "exists" | "hexists" | "hlen" | "hstrlen" | "llen" | "memory|usage" | "object|encoding"
        | "object|freq" | "object|idletime" | "object|refcount" | "scard" | "sismember"
        | "strlen" | "touch" | "type" | "watch" | "xlen" | "zcard" => KeyUse::same(LOOKS),
        "expire" | "expireat" | "geoadd" | "hmset" | "hset" | "lset" | "persist" | "pexpire"
        | "pexpireat" | "setrange" | "zadd" => KeyUse::same(UPDATES),
        "blmpop" | "blpop" | "brpop" | "bzmpop" | "bzpopmax" | "bzpopmin" | "getdel" | "lmpop"
        | "lpop" | "rpop" | "spop" | "zmpop" | "zpopmax" | "zpopmin" => KeyUse::same(TAKES),
        "hdel" | "lrem" | "ltrim" | "srem" | "zrem" | "zremrangebylex" | "zremrangebyrank"
        | "zremrangebyscore" => KeyUse::same(DELETES),
        "append" | "hsetnx" | "linsert" | "lpush" | "lpushx" | "pfadd" | "rpush" | "rpushx"
        | "sadd" => KeyUse::same(INSERTS),
        "bitop" | "geosearchstore" | "sdiffstore" | "sunionstore" | "zdiffstore"
        | "zinterstore" | "zrangestore" | "zunionstore" => KeyUse::two(OVERWRITES, READS),
        "sinterstore" => KeyUse::two(UPDATES, READS),
        "blmove" | "brpoplpush" | "lmove" | "rpoplpush" | "smove" => KeyUse::two(TAKES, INSERTS),
        "mset" | "psetex" | "restore" | "setex" => KeyUse::same(OVERWRITES),
        "msetnx" | "setnx" => KeyUse::same(CREATES),
        "del" | "unlink" => KeyUse::same(REMOVES),
        "copy" | "sort" => KeyUse::two(READS, OVERWRITES),
        "rename" => KeyUse::two(TAKES, OVERWRITES),
        "renamenx" => KeyUse::two(TAKES, CREATES),
        _ if matches!(command.handler, Handler::Read(_)) => KeyUse::same(READS),
        _ => KeyUse::same(CHANGES),
    }
}
