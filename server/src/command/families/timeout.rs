//! The time limit of a blocking command: seconds, with fractions, 0 for ever.
//! Not the waiting itself: that is the session's.
//! Invariant: a limit above zero never becomes "for ever", however small it is.

use std::time::Duration;

use crate::command::{CommandError, Now};
use crate::store::number::parse_f64;

/// Longest limit, ms: what the sum of it and the wall clock must stay below (Redis keeps that sum
/// in 64 bits).
const DEADLINE_MAX_MS: f64 = i64::MAX as f64;

/// The limit a word states; `None` = for ever.
///
/// Refusals in order: no number; negative; so long that the deadline has no date. Numbers may be
/// written as C reads them, so hexadecimal counts too. A negative number so small that Redis
/// rounds it to zero, which is for ever, is refused here as any other.
pub fn parse_timeout(word: &[u8], now: Now) -> Result<Option<Duration>, CommandError> {
    const NO_FLOAT: CommandError =
        CommandError::Static("ERR timeout is not a float or out of range");
    const NEGATIVE: CommandError = CommandError::Static("ERR timeout is negative");
    const OUT_OF_RANGE: CommandError = CommandError::Static("ERR timeout is out of range");
    let seconds = parse_f64(word).or_else(|| parse_hexadecimal(word)).ok_or(NO_FLOAT)?;
    if seconds < 0.0 {
        return Err(NEGATIVE);
    }
    if seconds * 1000.0 + now.unix_ms as f64 >= DEADLINE_MAX_MS {
        return Err(OUT_OF_RANGE);
    }
    if seconds == 0.0 {
        return Ok(None);
    }
    let limit = Duration::try_from_secs_f64(seconds).map_err(|_| OUT_OF_RANGE)?;
    Ok(Some(limit.max(Duration::from_nanos(1))))
}

/// `0x1F`, with an optional sign; no fraction.
fn parse_hexadecimal(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    if digits.is_empty() {
        return None;
    }
    let value = digits.chars().try_fold(0.0, |value, digit| {
        digit.to_digit(16).map(|digit| value * 16.0 + f64::from(digit))
    })?;
    Some(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { unix_ms: 1_700_000_000_000, mono_ns: 5 };

    fn seconds(word: &str) -> Result<Option<Duration>, String> {
        parse_timeout(word.as_bytes(), NOW).map_err(|error| error.text().to_string())
    }

    #[test]
    fn limits_keep_their_fractions() {
        for (word, nanos) in [
            ("1", 1_000_000_000),
            ("0.1", 100_000_000),
            ("0.0001", 100_000),
            ("1e-300", 1),
            ("0x10", 16_000_000_000),
            ("1.000000001", 1_000_000_001),
        ] {
            assert_eq!(seconds(word), Ok(Some(Duration::from_nanos(nanos))), "{word}");
        }
    }

    #[test]
    fn zero_is_for_ever() {
        for word in ["0", "0.0", "-0", "0e9", "0x0"] {
            assert_eq!(seconds(word), Ok(None), "{word}");
        }
    }

    #[test]
    fn each_refusal_has_its_text() {
        for word in ["", "abc", "nan", " 1", "1 ", "0x", "0xg", "--1", "1,5", "0x1\u{e9}"] {
            assert_eq!(seconds(word).unwrap_err(), "ERR timeout is not a float or out of range");
        }
        for word in ["-1", "-0.0000001", "-inf", "-0x1", "-1e300"] {
            assert_eq!(seconds(word).unwrap_err(), "ERR timeout is negative", "{word}");
        }
        for word in ["inf", "1e300", "0x7FFFFFFFFFFFFF", "0x7FFFFFFFFFFFFFFF", "9223372036854775"] {
            assert_eq!(seconds(word).unwrap_err(), "ERR timeout is out of range", "{word}");
        }
    }
}
