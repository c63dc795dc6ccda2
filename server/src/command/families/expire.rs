//! When keys expire: EXPIRE and its kin, TTL and its kin, PERSIST.
//!
//! Invariant: times are kept in unix ms; a time that does not fit is an error, one that has
//! passed deletes the key.

use crate::command::families::expiry_time::{From, Unit, any_time};
use crate::command::flag::FAST;
use crate::command::{Args, Command, CommandError, Cx, Group, Handler, KeySpec, Outcome};
use crate::slot::{Keys, Op, Owned};

const EXPIRE: Command =
    Command { arity: -3, keys: KeySpec::ONE, flags: FAST, group: Group::Generic, ..Command::BASE };
const TTL: Command = Command { arity: 2, ..EXPIRE };

/// EXPIRE, TTL, PERSIST and their kin.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "expire",
        handler: Handler::Write(|owned, args, cx| {
            expire(owned, args, cx, (Unit::Seconds, From::Now), "expire")
        }),
        summary: "Sets the expiration time of a key in seconds.",
        ..EXPIRE
    },
    Command {
        name: "pexpire",
        handler: Handler::Write(|owned, args, cx| {
            expire(owned, args, cx, (Unit::Millis, From::Now), "pexpire")
        }),
        since: "2.6.0",
        summary: "Sets the expiration time of a key in milliseconds.",
        ..EXPIRE
    },
    Command {
        name: "expireat",
        handler: Handler::Write(|owned, args, cx| {
            expire(owned, args, cx, (Unit::Seconds, From::Epoch), "expireat")
        }),
        since: "1.2.0",
        summary: "Sets the expiration time of a key to a Unix timestamp.",
        ..EXPIRE
    },
    Command {
        name: "pexpireat",
        handler: Handler::Write(|owned, args, cx| {
            expire(owned, args, cx, (Unit::Millis, From::Epoch), "pexpireat")
        }),
        since: "2.6.0",
        summary: "Sets the expiration time of a key to a Unix milliseconds timestamp.",
        ..EXPIRE
    },
    Command {
        name: "ttl",
        handler: Handler::Read(|keys, args, cx| ttl(keys, args, cx, (Unit::Seconds, From::Now))),
        summary: "Returns the expiration time in seconds of a key.",
        ..TTL
    },
    Command {
        name: "pttl",
        handler: Handler::Read(|keys, args, cx| ttl(keys, args, cx, (Unit::Millis, From::Now))),
        since: "2.6.0",
        summary: "Returns the expiration time in milliseconds of a key.",
        ..TTL
    },
    Command {
        name: "expiretime",
        handler: Handler::Read(|keys, args, cx| ttl(keys, args, cx, (Unit::Seconds, From::Epoch))),
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix timestamp.",
        ..TTL
    },
    Command {
        name: "pexpiretime",
        handler: Handler::Read(|keys, args, cx| ttl(keys, args, cx, (Unit::Millis, From::Epoch))),
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix milliseconds timestamp.",
        ..TTL
    },
    Command {
        name: "persist",
        handler: Handler::Write(persist),
        since: "2.2.0",
        summary: "Removes the expiration time of a key.",
        ..TTL
    },
];

/// On what condition an expiry is set.
#[derive(Clone, Copy, Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// Words 3 and on.
    fn parse(args: &Args<'_>) -> Result<Condition, CommandError> {
        let mut condition = Condition::default();
        for i in 3..args.len() {
            let words = [
                ("NX", &mut condition.nx),
                ("XX", &mut condition.xx),
                ("GT", &mut condition.gt),
                ("LT", &mut condition.lt),
            ];
            match words.into_iter().find(|(word, _)| args.is(i, word)) {
                Some((_, flag)) => *flag = true,
                None => {
                    let word = String::from_utf8_lossy(args.at(i));
                    return Err(CommandError::err(format_args!("Unsupported option {word}")));
                }
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(CommandError::Static(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.gt && condition.lt {
            return Err(CommandError::Static(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(condition)
    }

    /// May `new` replace `old`? A key without an expiry counts as one that expires never, so
    /// nothing is greater.
    fn allows(&self, old: Option<u64>, new: i64) -> bool {
        let old_ms = old.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old_ms.is_none_or(|at| new <= at)
            || self.lt && old_ms.is_some_and(|at| new >= at))
    }
}

/// EXPIRE key seconds [NX | XX | GT | LT]
fn expire(
    owned: &mut Owned<'_>,
    args: &Args<'_>,
    cx: &mut Cx<'_>,
    form: (Unit, From),
    command: &str,
) -> Outcome {
    let condition = Condition::parse(args)?;
    let at_ms = any_time(args.at(2), form, cx.now.unix_ms, command)?;
    let key = args.key(1);
    let found = owned.keys().peek(key).map(|found| found.expiry());
    let sets = found.is_some_and(|old| condition.allows(old, at_ms));
    if sets {
        match u64::try_from(at_ms) {
            Ok(at) if at > owned.keys().now_ms() => {
                owned.apply(Op::SetExpiry { key, at: Some(at) })
            }
            _ => owned.apply(Op::Delete { key }),
        };
    }
    cx.reply.int(sets.into());
    Ok(())
}

/// TTL key: -2 = no key, -1 = no expiry; seconds are rounded to the nearest.
fn ttl(keys: &Keys, args: &Args<'_>, cx: &mut Cx<'_>, (unit, from): (Unit, From)) -> Outcome {
    let expiry = match keys.look(args.key(1)) {
        None => {
            cx.reply.int(-2);
            return Ok(());
        }
        Some(found) => found.expiry(),
    };
    let time = expiry.map(|at| {
        let ms = if from == From::Now { at.saturating_sub(keys.now_ms()) } else { at };
        let time = if unit == Unit::Seconds { ms.saturating_add(500) / 1000 } else { ms };
        i64::try_from(time).unwrap_or(i64::MAX)
    });
    cx.reply.int(time.unwrap_or(-1));
    Ok(())
}

/// PERSIST key
fn persist(owned: &mut Owned<'_>, args: &Args<'_>, cx: &mut Cx<'_>) -> Outcome {
    let key = args.key(1);
    let expires = owned.keys().peek(key).is_some_and(|found| found.expiry().is_some());
    if expires {
        owned.apply(Op::SetExpiry { key, at: None });
    }
    cx.reply.int(expires.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn times_to_live() {
        run_script("expire.ttl.txt");
    }

    #[test]
    fn expire_overflow_is_an_error_and_deletes_nothing() {
        run_script("expire.overflow.txt");
    }

    #[test]
    fn conditions_on_the_old_expiry() {
        run_script("expire.conditions.txt");
    }

    #[test]
    fn writes_keep_or_drop_the_expiry() {
        run_script("expire.writes.txt");
    }

    #[test]
    fn watched_key_expires_before_exec() {
        run_script("expire.watch.txt");
    }
}
