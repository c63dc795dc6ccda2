//! SET with all its options, and the commands that are SET by another name.
//!
//! Invariant: every word is understood before anything is applied.

use crate::command::families::expiry_time::{From, Unit, positive_time};
use crate::command::{Args, CommandError, Cx, Outcome};
use crate::slot::{Key, Keys, Op, Owned};
use crate::store::table::Expiry;

/// The options of SET and GETEX.
#[derive(Default)]
struct Options {
    nx: bool,
    xx: bool,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    /// The word that holds the time, and how it is meant.
    time: Option<(usize, (Unit, From))>,
}

impl Options {
    /// SET's options from word 3 on.
    fn of_set(args: &Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut i = 3;
        while i < args.len() {
            if args.is(i, "NX") && !options.xx {
                options.nx = true;
            } else if args.is(i, "XX") && !options.nx {
                options.xx = true;
            } else if args.is(i, "GET") {
                options.get = true;
            } else if args.is(i, "KEEPTTL") && options.time.is_none() {
                options.keep_ttl = true;
            } else {
                options.read_time(args, &mut i)?;
            }
            i += 1;
        }
        Ok(options)
    }

    /// GETEX's options from word 2 on.
    fn of_getex(args: &Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut i = 2;
        while i < args.len() {
            if args.is(i, "PERSIST") && options.time.is_none() {
                options.persist = true;
            } else {
                options.read_time(args, &mut i)?;
            }
            i += 1;
        }
        Ok(options)
    }

    /// EX and its kin at word `i`, which moves to the time itself.
    fn read_time(&mut self, args: &Args<'_>, i: &mut usize) -> Result<(), CommandError> {
        const FORMS: [(&str, (Unit, From)); 4] = [
            ("EX", (Unit::Seconds, From::Now)),
            ("PX", (Unit::Millis, From::Now)),
            ("EXAT", (Unit::Seconds, From::Epoch)),
            ("PXAT", (Unit::Millis, From::Epoch)),
        ];
        let form = FORMS.iter().find(|(word, _)| args.is(*i, word)).map(|(_, form)| *form);
        let form = form.ok_or(CommandError::Syntax)?;
        // The same option twice is legal; the last one counts.
        let clash = self.time.is_some_and(|(_, other)| other != form);
        if clash || self.keep_ttl || self.persist || *i + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        *i += 1;
        self.time = Some((*i, form));
        Ok(())
    }

    /// The time as unix ms, if one was given.
    fn at_ms(
        &self,
        args: &Args<'_>,
        now_ms: u64,
        command: &str,
    ) -> Result<Option<u64>, CommandError> {
        let Some((word, form)) = self.time else { return Ok(None) };
        positive_time(args.at(word), form, now_ms, command).map(Some)
    }
}

/// GET key
pub(super) fn get(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    write_string(keys, args.key(1), cx)
}

#[inline]
fn write_string(keys: &Keys, key: Key<'_>, cx: &mut Cx<'_>) -> Outcome {
    match keys.string(key)? {
        Some(value) => value.write_bulk(&mut cx.reply),
        None => cx.reply.null(),
    }
    Ok(())
}

/// SET key value [options]
pub(super) fn set(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if args.len() > 3 {
        return set_with_options(owned, args, cx);
    }
    owned.apply(Op::SetString { key: args.key(1), value: args.at(2), expiry: Expiry::Never });
    cx.reply.ok();
    Ok(())
}

#[inline(never)]
fn set_with_options(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let options = Options::of_set(args)?;
    let at_ms = options.at_ms(args, cx.now.unix_ms, "set")?;
    let key = args.key(1);
    if options.get {
        write_string(owned.keys(), key, cx)?;
    }
    let found = owned.keys().exists(key);
    if options.nx && found || options.xx && !found {
        if !options.get {
            cx.reply.null();
        }
        return Ok(());
    }
    let expiry = match at_ms {
        Some(at_ms) => Expiry::At(at_ms),
        None if options.keep_ttl => Expiry::Keep,
        None => Expiry::Never,
    };
    put(owned, key, args.at(2), expiry);
    if !options.get {
        cx.reply.ok();
    }
    Ok(())
}

/// Stores a string; one whose time has passed already is no key at all.
fn put(owned: &mut Owned<'_>, key: Key<'_>, value: &[u8], expiry: Expiry) {
    if matches!(expiry, Expiry::At(at) if at <= owned.keys().now_ms()) {
        if owned.keys().exists(key) {
            owned.apply(Op::Delete { key });
        }
        return;
    }
    owned.apply(Op::SetString { key, value, expiry });
}

/// SETNX key value
pub(super) fn setnx(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let absent = !owned.keys().exists(key);
    if absent {
        owned.apply(Op::SetString { key, value: args.at(2), expiry: Expiry::Never });
    }
    cx.reply.int(absent.into());
    Ok(())
}

/// SETEX key seconds value
pub(super) fn setex(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    set_for(owned, args, cx, Unit::Seconds, "setex")
}

/// PSETEX key milliseconds value
pub(super) fn psetex(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    set_for(owned, args, cx, Unit::Millis, "psetex")
}

fn set_for(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    unit: Unit,
    command: &str,
) -> Outcome {
    let at_ms = positive_time(args.at(2), (unit, From::Now), cx.now.unix_ms, command)?;
    put(owned, args.key(1), args.at(3), Expiry::At(at_ms));
    cx.reply.ok();
    Ok(())
}

/// GETSET key value
pub(super) fn getset(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    write_string(owned.keys(), key, cx)?;
    owned.apply(Op::SetString { key, value: args.at(2), expiry: Expiry::Never });
    Ok(())
}

/// GETDEL key
pub(super) fn getdel(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    write_string(owned.keys(), key, cx)?;
    if owned.keys().exists(key) {
        owned.apply(Op::Delete { key });
    }
    Ok(())
}

/// GETEX key [EX seconds | PX milliseconds | EXAT time | PXAT time | PERSIST]
pub(super) fn getex(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let options = Options::of_getex(args)?;
    let key = args.key(1);
    let Some(value) = owned.keys().string(key)? else {
        cx.reply.null();
        return Ok(());
    };
    let at_ms = options.at_ms(args, cx.now.unix_ms, "getex")?;
    value.write_bulk(&mut cx.reply);
    let expires = owned.keys().peek(key).is_some_and(|found| found.expiry().is_some());
    match at_ms {
        Some(at_ms) if at_ms <= owned.keys().now_ms() => {
            owned.apply(Op::Delete { key });
        }
        Some(_) => {
            owned.apply(Op::SetExpiry { key, at: at_ms });
        }
        None if options.persist && expires => {
            owned.apply(Op::SetExpiry { key, at: None });
        }
        None => {}
    }
    Ok(())
}

/// MGET key [key ...]
pub(super) fn mget(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    cx.reply.array(args.len() - 1);
    for i in 1..args.len() {
        // A key of another type is as good as none.
        match keys.string(args.key(i)).ok().flatten() {
            Some(value) => value.write_bulk(&mut cx.reply),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

/// MSET key value [key value ...]
pub(super) fn mset(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::arity("mset"));
    }
    set_pairs(owned, args);
    cx.reply.ok();
    Ok(())
}

/// MSETNX key value [key value ...]
pub(super) fn msetnx(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::arity("msetnx"));
    }
    let all_absent = (1..args.len()).step_by(2).all(|i| !owned.keys().exists(args.key(i)));
    if all_absent {
        set_pairs(owned, args);
    }
    cx.reply.int(all_absent.into());
    Ok(())
}

fn set_pairs(owned: &mut Owned<'_>, args: &Args<'_>) {
    for i in (1..args.len()).step_by(2) {
        let value = args.at(i + 1);
        owned.apply(Op::SetString { key: args.key(i), value, expiry: Expiry::Never });
    }
}
