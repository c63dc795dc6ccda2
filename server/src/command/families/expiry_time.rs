//! Times of expiry as commands give them: seconds or milliseconds, from now or absolute.
//!
//! Not when a key expires (`slot`). Invariant: a time that does not fit is an error and never a
//! deletion; what comes out is absolute, as ops want it.

use crate::command::CommandError;
use crate::store::number::parse_i64;

/// What a time is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// EX, EXAT, EXPIRE, EXPIREAT.
    Seconds,
    /// PX, PXAT, PEXPIRE, PEXPIREAT.
    Millis,
}

/// Where a time is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The time of the request.
    Now,
    /// 1970.
    Epoch,
}

/// `ERR invalid expire time in '...' command`.
pub fn invalid(command: &str) -> CommandError {
    CommandError::err(format_args!("invalid expire time in '{command}' command"))
}

/// The time of EXPIRE and its kin in unix ms; negative ones are legal and mean "long ago".
///
/// # Errors
/// `NotInteger`; `invalid` when it does not fit 64 bits of milliseconds.
pub fn any_time(
    text: &[u8],
    (unit, from): (Unit, From),
    now_ms: u64,
    command: &str,
) -> Result<i64, CommandError> {
    let given = parse_i64(text).ok_or(CommandError::NotInteger)?;
    let factor = if unit == Unit::Seconds { 1000 } else { 1 };
    let base = if from == From::Now { now_ms as i64 } else { 0 };
    let at = given.checked_mul(factor).and_then(|ms| ms.checked_add(base));
    at.ok_or_else(|| invalid(command))
}

/// The time of SET EX and its kin in unix ms: it must be above 0 as given.
///
/// # Errors
/// As `any_time`, and `invalid` when it is not above 0.
pub fn positive_time(
    text: &[u8],
    form: (Unit, From),
    now_ms: u64,
    command: &str,
) -> Result<u64, CommandError> {
    if parse_i64(text).is_some_and(|given| given <= 0) {
        return Err(invalid(command));
    }
    any_time(text, form, now_ms, command).map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    #[track_caller]
    fn check(text: &str, form: (Unit, From), expected: Option<i64>) {
        let got = any_time(text.as_bytes(), form, NOW_MS, "x").ok();
        assert_eq!(got, expected, "{text} {form:?}");
    }

    #[test]
    fn times_at_the_edges_of_64_bits() {
        let max_s = i64::MAX / 1000;
        check(&max_s.to_string(), (Unit::Seconds, From::Epoch), Some(max_s * 1000));
        check(&max_s.to_string(), (Unit::Seconds, From::Now), None);
        check(&(max_s + 1).to_string(), (Unit::Seconds, From::Epoch), None);
        check(&i64::MAX.to_string(), (Unit::Millis, From::Epoch), Some(i64::MAX));
        check(&i64::MAX.to_string(), (Unit::Millis, From::Now), None);
        check(&i64::MIN.to_string(), (Unit::Millis, From::Epoch), Some(i64::MIN));
        check(&i64::MIN.to_string(), (Unit::Seconds, From::Epoch), None);
    }

    #[test]
    fn times_of_set_are_above_zero() {
        for text in ["0", "-1", "-9223372036854775808"] {
            let error = positive_time(text.as_bytes(), (Unit::Millis, From::Now), NOW_MS, "set");
            assert_eq!(error, Err(invalid("set")), "{text}");
        }
        let soon = positive_time(b"1", (Unit::Seconds, From::Now), NOW_MS, "set");
        assert_eq!(soon, Ok(NOW_MS + 1000));
    }
}
