//! Numbers as clients write them and as the server writes them back.
//!
//! What parses and what does not follows Redis, since clients see the difference; exact decimal
//! sums are in `decimal`. Invariant: `parse_i64` takes an integer only in the one form that
//! printing it gives, and `parse_f64(format_f64(x))` is `x` bit by bit unless `x` is NaN.

use std::ops::Deref;

/// The longest text of an `i64`: a sign and 19 digits.
const MAX_I64_DIGITS: usize = 20;

/// A signed integer in its one canonical form: no plus, no leading zero, no `-0`, no blanks.
/// `None` if it is not that or does not fit.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() >= MAX_I64_DIGITS {
        return None;
    }
    let mut value = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen nines are below 2^64.
        value = value * 10 + u64::from(digit);
    }
    if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// An unsigned integer; leading zeros are allowed (stream ids and cursors have them), signs and
/// blanks are not. `None` if it is not that or does not fit.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A double: decimal with an optional exponent, or `inf` and `infinity` in any case, each with
/// an optional sign.
///
/// `None` for blanks around it, for `nan`, and for numbers a double cannot hold: Redis refuses
/// `1e400` and `1e-400` rather than make them infinite or zero. Unlike C's `strtod`, hexadecimal
/// is refused too.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    if value.is_nan() {
        return None;
    }
    if value.is_infinite() {
        let named = text.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
        return named.then_some(value);
    }
    if value == 0.0 {
        let mut mantissa = text.bytes().take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'));
        let vanished = mantissa.any(|byte| matches!(byte, b'1'..=b'9'));
        return (!vanished).then_some(value);
    }
    Some(value)
}

/// A memory size of the configuration in bytes: an integer with an optional unit in any case.
/// `k`, `m`, `g` are powers of 1000; `kb`, `mb`, `gb` of 1024; `b` is one.
/// `None` if it is not that or does not fit.
pub fn parse_memory(text: &[u8]) -> Option<u64> {
    let split = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    parse_u64(digits)?.checked_mul(factor)
}

/// The longest text of a double: a sign, 17 digits, a point and an exponent of five, or a sign
/// and up to 24 digits and zeros.
const MAX_F64_TEXT: usize = 32;

/// The text of a double, on the stack. Dereferences to `str`.
#[derive(Copy, Clone, Debug)]
pub struct F64Text {
    bytes: [u8; MAX_F64_TEXT],
    len: usize,
}

impl Deref for F64Text {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("only ASCII is ever pushed")
    }
}

impl AsRef<[u8]> for F64Text {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl F64Text {
    fn new(text: &[u8]) -> Self {
        let mut made = Self { bytes: [0; MAX_F64_TEXT], len: 0 };
        made.push(text);
        made
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    fn push_zeros(&mut self, count: usize) {
        self.bytes[self.len..self.len + count].fill(b'0');
        self.len += count;
    }
}

/// The shortest text that parses back to the same double, laid out as Redis 7.2 does: `0.1`,
/// `5`, `1e+300`, `inf`, `-inf`, `nan`, `-0`. Integers up to 2^62 are written out in full.
pub fn format_f64(value: f64) -> F64Text {
    /// Redis's bound for "print it as an integer": half of `LLONG_MAX`, as a double.
    const INTEGER_BOUND: f64 = (1_u64 << 62) as f64;
    if value.is_nan() {
        return F64Text::new(b"nan");
    }
    if value.is_infinite() {
        return F64Text::new(if value > 0.0 { b"inf" } else { b"-inf" });
    }
    if value == 0.0 {
        return F64Text::new(if value.is_sign_negative() { b"-0" } else { b"0" });
    }
    if value.abs() <= INTEGER_BOUND && value.trunc() == value {
        return F64Text::new(itoa::Buffer::new().format(value as i64).as_bytes());
    }
    let mut text = F64Text::new(if value < 0.0 { b"-" } else { b"" });
    Shortest::of(value.abs()).lay_out(&mut text);
    text
}

/// The shortest digits of a positive double: `digits` (an integer) times ten to the `power`.
struct Shortest {
    digits: [u8; 17],
    count: usize,
    power: i32,
}

impl Shortest {
    /// Takes ryu's text apart: it lays numbers out in another way than Redis.
    fn of(value: f64) -> Self {
        let mut buffer = ryu::Buffer::new();
        let text = buffer.format_finite(value).as_bytes();
        let (mut digits, mut count, mut power) = ([0; 17], 0, 0_i32);
        let mut behind_point = false;
        let mut zeros = 0;
        for (at, &byte) in text.iter().enumerate() {
            match byte {
                b'.' => behind_point = true,
                b'e' => {
                    let exponent = std::str::from_utf8(&text[at + 1..]).ok();
                    power += exponent
                        .and_then(|exponent| exponent.parse::<i32>().ok())
                        .expect("ryu writes an integer behind the e");
                    break;
                }
                digit => {
                    power -= i32::from(behind_point);
                    if digit == b'0' {
                        // Leading zeros say nothing; trailing ones belong to the power.
                        zeros += usize::from(count > 0);
                        continue;
                    }
                    digits[count..count + zeros].fill(b'0');
                    count += zeros;
                    zeros = 0;
                    digits[count] = digit;
                    count += 1;
                }
            }
        }
        Self { digits, count, power: power + zeros as i32 }
    }

    fn lay_out(&self, text: &mut F64Text) {
        let digits = &self.digits[..self.count];
        let count = self.count as i32;
        let exponent = self.power + count - 1;
        if self.power >= 0 && exponent < count + 7 {
            text.push(digits);
            text.push_zeros(self.power as usize);
        } else if self.power < 0 && (self.power > -7 || exponent.abs() < 4) {
            let whole = count + self.power;
            if whole <= 0 {
                text.push(b"0.");
                text.push_zeros(-whole as usize);
                text.push(digits);
            } else {
                text.push(&digits[..whole as usize]);
                text.push(b".");
                text.push(&digits[whole as usize..]);
            }
        } else {
            text.push(&digits[..1]);
            if count > 1 {
                text.push(b".");
                text.push(&digits[1..]);
            }
            text.push(if exponent < 0 { b"e-" } else { b"e+" });
            text.push(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_that_are_not_canonical_are_refused() {
        let refused: [&[u8]; 19] = [
            b"",
            b" 1",
            b"1 ",
            b"+1",
            b"01",
            b"-0",
            b"1.0",
            b"0x1",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"-01",
            b"-",
            b"--1",
            b"1\0",
            b"00",
            b"1e3",
            b"1_000",
            b"18446744073709551617",
            b"99999999999999999999999999",
        ];
        for text in refused {
            assert_eq!(parse_i64(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn integers_at_the_ends_parse() {
        for value in [0, 1, -1, 9, 10, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"0007"), Some(7));
        for text in ["", "-1", "+1", " 1", "1 ", "x"] {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn floats_that_redis_refuses_are_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "nan",
            "-nan",
            "NaN",
            "1e400",
            "-1e400",
            "1e-400",
            "-0.1e-400",
            ".",
            "e5",
            "1e",
            "1e+",
            "abc",
            "1,5",
            "in",
            "infin",
            "1\0",
            "0x",
            "--1",
            "+-1",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_f64(b"\xff1"), None);
    }

    #[test]
    fn floats_that_redis_takes_are_taken() {
        for (text, value) in [
            ("0", 0.0),
            ("+1", 1.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-1.5E3", -1500.0),
            ("007", 7.0),
            ("inf", f64::INFINITY),
            ("+Inf", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
            ("0e999", 0.0),
            ("1e-310", 1e-310),
            ("5e-324", 5e-324),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text}");
        }
        assert!(parse_f64(b"-0").is_some_and(|zero| zero.is_sign_negative()));
    }

    #[test]
    fn floats_print_as_redis_7_2_prints_them() {
        for (value, text) in [
            (0.1, "0.1"),
            (1e300, "1e+300"),
            (-0.0, "-0"),
            (0.0, "0"),
            (3.0, "3"),
            (-3.5, "-3.5"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (1e18, "1000000000000000000"),
            (1e19, "1e+19"),
            (1.5e-5, "0.000015"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.25e-9, "1.25e-9"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (100.25, "100.25"),
            (17179869185.5, "17179869185.5"),
            (3.0000000000000004, "3.0000000000000004"),
            (1.2345678901234568e22, "12345678901234568000000"),
            (0.30000000000000004, "0.30000000000000004"),
            (9007199254740993.0, "9007199254740992"),
            (0.0012345678901234567, "0.0012345678901234567"),
        ] {
            assert_eq!(&*format_f64(value), text);
        }
    }

    #[test]
    fn memory_sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("100", 100),
            ("1b", 1),
            ("1k", 1000),
            ("1KB", 1024),
            ("2m", 2_000_000),
            ("1mb", 1 << 20),
            ("1g", 1_000_000_000),
            ("3Gb", 3 << 30),
        ] {
            assert_eq!(parse_memory(text.as_bytes()), Some(bytes), "{text}");
        }
        for text in ["", "k", "-1", "1 kb", "1tb", "1.5g", "18446744073709551615kb"] {
            assert_eq!(parse_memory(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_integer_parses_back(value: i64) {
            prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn every_float_parses_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            let text = format_f64(value);
            prop_assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(bits));
        }

        #[test]
        fn short_decimals_parse_back(mantissa in -99_999_i64..99_999, power in -30_i32..30) {
            let value: f64 = format!("{mantissa}e{power}").parse().unwrap();
            let text = format_f64(value);
            prop_assert_eq!(parse_f64(text.as_bytes()), Some(value));
        }

        #[test]
        fn no_text_panics(text: Vec<u8>) {
            let _ = (parse_i64(&text), parse_u64(&text), parse_f64(&text), parse_memory(&text));
        }
    }
}
