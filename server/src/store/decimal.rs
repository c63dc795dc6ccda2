//! Exact decimal sums for INCRBYFLOAT and HINCRBYFLOAT.
//!
//! Redis adds 80-bit floats and prints what comes out: 128 + 0.1 is `128.10000000000000001`
//! there. slotd gives the exact decimal, `128.1`, the same on every machine. The range is that of
//! an 80-bit float, to the power of ten, so the same texts are accepted; the sum is rounded, half
//! to even, to 17 digits behind the point, with no exponent, no trailing zeros and no `-0`.
//!
//! Invariant: work and memory are bounded by `MAX_TEXT_BYTES` and the exponent bounds, whatever
//! exponent is asked for: about 15,000 digits at most. Every sum is a text that parses again.

use std::cmp::Ordering;
use std::fmt;

/// Longest text that is taken for a decimal, in bytes: Redis's buffer for such texts.
pub const MAX_TEXT_BYTES: usize = 5 * 1024 - 1;
/// Power of ten of the first digit of the largest number: 80-bit floats end at 1.19e4932.
const MAX_EXPONENT: i64 = 4932;
/// Power of ten of the first digit of the smallest number: 80-bit floats end at 3.6e-4951.
const MIN_EXPONENT: i64 = -4951;
/// Most digits behind the point of a result.
const MAX_FRACTION_DIGITS: usize = 17;

/// Why there is no sum. `Display` is Redis's text without the `ERR` code.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum DecimalError {
    /// A text is not a decimal, or out of range.
    NotAFloat,
    /// The sum is infinite, undefined or out of range.
    NotFinite,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAFloat => "value is not a valid float",
            Self::NotFinite => "increment would produce NaN or Infinity",
        })
    }
}

impl std::error::Error for DecimalError {}

/// The exact sum of two decimal texts, as INCRBYFLOAT writes it.
///
/// Errors: `NotAFloat` if a text is not a decimal (blanks, `nan`, hexadecimal, empty, longer
/// than `MAX_TEXT_BYTES`, beyond 1e4933 or nearer to zero than 1e-4951 without being zero);
/// `NotFinite` if one is infinite or the sum reaches 1e4933.
pub fn add_decimal(a: &[u8], b: &[u8]) -> Result<Vec<u8>, DecimalError> {
    let a = Decimal::parse(a).ok_or(DecimalError::NotAFloat)?;
    let b = Decimal::parse(b).ok_or(DecimalError::NotAFloat)?;
    a.add(&b).ok_or(DecimalError::NotFinite)
}

/// A parsed decimal text. For commands that check their operands one by one, as HINCRBYFLOAT
/// does; otherwise use [`add_decimal`].
#[derive(Clone, Debug)]
pub struct Decimal {
    negative: bool,
    size: Size,
}

/// The number without its sign.
#[derive(Clone, Debug)]
enum Size {
    Infinite,
    /// `digits` (values 0 to 9, first and last not 0, empty for zero) times ten to the `power`.
    Finite {
        digits: Vec<u8>,
        power: i64,
    },
}

impl Decimal {
    /// Zero, the value of a key or field that is not there.
    pub const ZERO: Self =
        Self { negative: false, size: Size::Finite { digits: Vec::new(), power: 0 } };

    /// Parses a decimal: a sign, digits with a point, an exponent; or `inf`, `infinity` in any
    /// case. `None` for all that [`add_decimal`] calls `NotAFloat`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Self { negative, size: Size::Infinite });
        }
        let size = parse_finite(unsigned)?;
        Some(Self { negative, size })
    }

    /// Whether it is `inf` or `-inf`, which HINCRBYFLOAT refuses before it looks at the key.
    pub fn is_infinite(&self) -> bool {
        matches!(self.size, Size::Infinite)
    }

    /// The text of the exact sum; `None` if it is infinite, undefined or reaches 1e4933.
    pub fn add(&self, other: &Self) -> Option<Vec<u8>> {
        let (
            Size::Finite { digits: left, power: left_power },
            Size::Finite { digits: right, power: right_power },
        ) = (&self.size, &other.size)
        else {
            return None;
        };
        // Both on one grid: position 0 is the last digit of the result.
        let last = (*left_power).min(*right_power).min(0);
        let top = |digits: &[u8], power: i64| power + digits.len() as i64;
        let first = top(left, *left_power).max(top(right, *right_power)).max(1);
        let width = (first - last) as usize + 1;
        let left = on_grid(left, (left_power - last) as usize, width);
        let right = on_grid(right, (right_power - last) as usize, width);
        let (negative, mut sum) = signed_sum((self.negative, left), (other.negative, right));
        let fraction = round((-last) as usize, &mut sum);
        let whole = sum.iter().rposition(|&digit| digit != 0).unwrap_or(0);
        if whole as i64 - fraction as i64 > MAX_EXPONENT {
            return None;
        }
        Some(print(negative, &sum, fraction))
    }
}

/// Digits with an optional point and exponent; at least one digit.
fn parse_finite(text: &[u8]) -> Option<Size> {
    let split = text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e'));
    let (mantissa, exponent) = match split {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let point = mantissa.iter().position(|&byte| byte == b'.');
    let fraction = point.map_or(0, |point| mantissa.len() - point - 1);
    let mut digits = Vec::with_capacity(mantissa.len());
    for (at, byte) in mantissa.iter().enumerate() {
        match byte {
            b'0'..=b'9' => digits.push(byte - b'0'),
            b'.' if point == Some(at) => {}
            _ => return None,
        }
    }
    if digits.is_empty() {
        return None;
    }
    let zeros_before = digits.iter().take_while(|&&digit| digit == 0).count();
    digits.drain(..zeros_before);
    if digits.is_empty() {
        return Some(Size::Finite { digits, power: 0 });
    }
    let zeros_behind = digits.iter().rev().take_while(|&&digit| digit == 0).count();
    digits.truncate(digits.len() - zeros_behind);
    let power = exponent - fraction as i64 + zeros_behind as i64;
    let first = power + digits.len() as i64 - 1;
    (MIN_EXPONENT..=MAX_EXPONENT).contains(&first).then_some(Size::Finite { digits, power })
}

/// The exponent, cut off where it is out of range whatever the mantissa is.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    const FAR: i64 = 1_000_000;
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0, |size, byte| FAR.min(size * 10 + i64::from(byte - b'0')));
    Some(sign * size)
}

/// `digits` as `width` digits, least first, with `shift` zeros below them.
fn on_grid(digits: &[u8], shift: usize, width: usize) -> Vec<u8> {
    let mut grid = vec![0; width];
    for (place, &digit) in grid[shift.min(width)..].iter_mut().zip(digits.iter().rev()) {
        *place = digit;
    }
    grid
}

/// The sum of two signed numbers on one grid, which has a digit free for the carry.
fn signed_sum(left: (bool, Vec<u8>), right: (bool, Vec<u8>)) -> (bool, Vec<u8>) {
    let (left_negative, mut left) = left;
    let (right_negative, mut right) = right;
    if left_negative == right_negative {
        let mut carry = 0;
        for (place, digit) in left.iter_mut().zip(right) {
            let sum = *place + digit + carry;
            (*place, carry) = (sum % 10, sum / 10);
        }
        return (left_negative, left);
    }
    let mut negative = left_negative;
    if left.iter().rev().cmp(right.iter().rev()) == Ordering::Less {
        std::mem::swap(&mut left, &mut right);
        negative = right_negative;
    }
    let mut borrow = 0;
    for (place, digit) in left.iter_mut().zip(right) {
        let rest = *place + 10 - digit - borrow;
        (*place, borrow) = (rest % 10, 1 - rest / 10);
    }
    (negative, left)
}

/// Rounds half to even so that at most `MAX_FRACTION_DIGITS` stay behind the point, of
/// `fraction` now; returns how many do.
fn round(fraction: usize, sum: &mut Vec<u8>) -> usize {
    if fraction <= MAX_FRACTION_DIGITS {
        return fraction;
    }
    let cut = fraction - MAX_FRACTION_DIGITS;
    let dropped: Vec<u8> = sum.drain(..cut).collect();
    let (&head, tail) = dropped.split_last().expect("at least one digit is cut");
    let up = match head.cmp(&5) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => tail.iter().any(|&digit| digit != 0) || sum[0] % 2 == 1,
    };
    if up {
        for place in sum.iter_mut() {
            *place = (*place + 1) % 10;
            if *place != 0 {
                break;
            }
        }
    }
    MAX_FRACTION_DIGITS
}

/// The text of `sum` (least digit first, `fraction` of them behind the point).
fn print(negative: bool, sum: &[u8], fraction: usize) -> Vec<u8> {
    let zeros = sum[..fraction].iter().take_while(|&&digit| digit == 0).count();
    let top = sum.iter().rposition(|&digit| digit != 0).unwrap_or(0).max(fraction);
    let is_zero = sum.iter().all(|&digit| digit == 0);
    let mut text = Vec::with_capacity(top + 3 - zeros);
    if negative && !is_zero {
        text.push(b'-');
    }
    text.extend(sum[fraction..=top].iter().rev().map(|digit| digit + b'0'));
    if zeros < fraction {
        text.push(b'.');
        text.extend(sum[zeros..fraction].iter().rev().map(|digit| digit + b'0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, sum: &str) {
        for (a, b) in [(a, b), (b, a)] {
            let text = match add_decimal(a.as_bytes(), b.as_bytes()) {
                Ok(text) => String::from_utf8(text).expect("ASCII"),
                Err(error) => error.to_string(),
            };
            assert_eq!(text, sum, "{a} + {b}");
        }
    }

    #[test]
    fn sums_are_exact() {
        check("10.50", "0.1", "10.6");
        check("5.0e3", "2.0e2", "5200");
        check("3.0e5", "-300000", "0");
        check("17179869184", "1.5", "17179869185.5");
        check("1", "1e17", "100000000000000001");
        check("128", "0.1", "128.1");
        check("1000", "1.8", "1001.8");
        check("5200", "10.43", "5210.43");
        check("619.0", "34", "653");
        check("1", "-1.1", "-0.1");
        check("999.999", "0.001", "1000");
        check("-0.5", "0.25", "-0.25");
        check("1000", "-0.001", "999.999");
        check(".5", "+5.", "5.5");
        check("0", "12300", "12300");
    }

    #[test]
    fn at_most_17_digits_stay_behind_the_point() {
        check("3", "1e-18", "3");
        check("3", "1e-17", "3.00000000000000001");
        check("0", "1.5e-17", "0.00000000000000002");
        check("0", "2.5e-17", "0.00000000000000002");
        check("0", "2.5000000000000000001e-17", "0.00000000000000003");
        check("0.99999999999999999", "9e-18", "1");
        check("3", "1e-4000", "3");
        check("1", "-1e-4951", "1");
    }

    #[test]
    fn zero_has_no_sign() {
        check("-0", "0", "0");
        check("-0.0", "-0e5", "0");
        check("-1e-4000", "0", "0");
        check("5", "-5", "0");
        check("0e99999999999999999999", "0e-99999999999999999999", "0");
    }

    #[test]
    fn large_numbers_are_written_out() {
        check("1e300", "0", &format!("1{}", "0".repeat(300)));
        check("1e300", "0.1", &format!("1{}.1", "0".repeat(300)));
        check("9e4932", "-1", &format!("8{}", "9".repeat(4932)));
        check(
            &format!("8{}.{}", "9".repeat(4932), "9".repeat(17)),
            "1e-17",
            &format!("9{}", "0".repeat(4932)),
        );
        check("1e4932", "1e-4951", &format!("1{}", "0".repeat(4932)));
    }

    #[test]
    fn no_sum_is_infinite() {
        let text = "increment would produce NaN or Infinity";
        for infinity in ["inf", "-inf", "+Infinity", "INF"] {
            check(infinity, "1", text);
            check(infinity, "-inf", text);
        }
        check("9e4932", "9e4932", text);
        check("-9e4932", "-9e4932", text);
    }

    #[test]
    fn texts_that_redis_refuses_are_refused() {
        let long = "0".repeat(MAX_TEXT_BYTES + 1);
        for text in [
            "",
            " 1",
            "1 ",
            "nan",
            "-nan",
            "abc",
            "1e",
            "1e+",
            "e5",
            ".",
            "-",
            "+",
            "1.2.3",
            "1\0",
            "--1",
            "1e5.0",
            "1e4933",
            "10e4932",
            "1e-4952",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "infin",
            "1,5",
            "1_0",
            &long,
        ] {
            check(text, "1", "value is not a valid float");
        }
        check(&long[1..], "1", "1");
    }

    proptest! {
        #[test]
        fn sums_agree_with_integers(a in -1_i128 << 100..1 << 100, b in -1_i128 << 100..1 << 100,
            scale in 0_usize..17) {
            // a / 10^scale + b / 10^scale, against (a + b) / 10^scale.
            let text = |value: i128| format!("{value}e-{scale}").into_bytes();
            let sum = add_decimal(&text(a), &text(b)).unwrap();
            prop_assert_eq!(&add_decimal(&text(a + b), b"0").unwrap(), &sum);
            prop_assert_eq!(&add_decimal(&sum, b"0").unwrap(), &sum);
            let digits: String = String::from_utf8(sum).unwrap();
            let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
            prop_assert!(!fraction.ends_with('0') && fraction.len() <= scale);
            let joined = format!("{whole}{fraction:0<scale$}");
            prop_assert_eq!(joined.parse::<i128>().unwrap(), a + b);
        }

        #[test]
        fn no_text_panics(a in "[-+]?[0-9.]{0,30}(e[-+]?[0-9]{1,5})?", b: Vec<u8>) {
            let _ = add_decimal(a.as_bytes(), &b);
            let _ = add_decimal(a.as_bytes(), b"-1e-20");
        }
    }
}
