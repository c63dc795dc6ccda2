//! The kinds of option values: how their text is read and what is said when it is wrong.
//!
//! Not the options themselves (`options/`) nor the composite ones (`special`).
//!
//! Invariant: a parsed value's text parses to the same value again.

use super::special::{self, Special};

/// A value that was accepted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Value {
    /// As CONFIG GET shows it.
    pub text: String,
    /// The number behind the text: 0 and 1 for no and yes, bytes for sizes, minus the percentage
    /// for a percentage, the place in the list for a choice, bits for sets of words; else 0.
    pub number: i128,
}

impl Value {
    /// A value that is only text.
    pub fn of_text(text: impl Into<String>) -> Value {
        Value { text: text.into(), number: 0 }
    }

    /// A value that is a number and shows as that number.
    pub fn of_number(number: i128) -> Value {
        Value { text: number.to_string(), number }
    }
}

/// What an option's text may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Flag,
    /// A whole number from `min` to `max`.
    Integer { min: i64, max: i64 },
    /// A whole number; outside of `min` to `max` it counts as the nearest bound.
    Clamped { min: i64, max: i64 },
    /// An octal number up to `max` (file modes).
    Octal { max: u32 },
    /// Bytes, with an optional unit: `b k kb m mb g gb`.
    Memory { min: u64, max: u64 },
    /// Bytes, or a percentage of maxmemory.
    MemoryOrPercent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any of these words together; the first stands alone and means none of the others.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
    /// A composite value with rules of its own.
    Special(Special),
}

/// Why a value was refused. Two wordings: Redis's for CONFIG SET, a fuller one at start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// Neither yes nor no.
    NotFlag,
    NotInteger {
        min: i128,
        max: i128,
    },
    OutOfRange {
        min: i128,
        max: i128,
    },
    NotOctal {
        max: u32,
    },
    OctalOutOfRange {
        max: u32,
    },
    /// No size in bytes.
    NotMemory,
    /// Neither a size nor a percentage.
    NotMemoryOrPercent,
    /// More than 100 %.
    TooManyPercent,
    /// None of these words.
    NotOneOf(&'static [&'static str]),
    /// Too few words or too many.
    WordCount,
    /// A sentence that serves both.
    Said(String),
}

impl ValueError {
    /// As CONFIG SET words it.
    pub fn for_client(&self) -> String {
        match self {
            ValueError::NotFlag => "argument must be 'yes' or 'no'".into(),
            ValueError::NotInteger { .. } => "argument couldn't be parsed into an integer".into(),
            ValueError::OutOfRange { min, max } => {
                format!("argument must be between {min} and {max} inclusive")
            }
            ValueError::NotOctal { .. } => "argument couldn't be parsed as an octal number".into(),
            ValueError::OctalOutOfRange { max } => {
                format!("argument must be between 0 and {max:o} inclusive")
            }
            ValueError::NotMemory => "argument must be a memory value".into(),
            ValueError::NotMemoryOrPercent => "argument must be a memory or percent value".into(),
            ValueError::TooManyPercent => "percentage argument must be less or equal to 100".into(),
            ValueError::NotOneOf(words) => {
                format!("argument(s) must be one of the following: {}", words.join(", "))
            }
            ValueError::WordCount => "wrong number of arguments".into(),
            ValueError::Said(sentence) => sentence.clone(),
        }
    }

    /// As the one line at start words it; `got` is what stood there.
    pub fn at_start(&self, got: &str) -> String {
        match self {
            ValueError::NotFlag => format!("must be 'yes' or 'no', got '{got}'"),
            ValueError::NotInteger { min, max } | ValueError::OutOfRange { min, max } => {
                format!("must be between {min} and {max}, got '{got}'")
            }
            ValueError::NotOctal { max } | ValueError::OctalOutOfRange { max } => {
                format!("must be an octal number up to {max:o}, got '{got}'")
            }
            ValueError::NotMemory => {
                format!("must be a number of bytes such as 1048576, 512kb or 2gb, got '{got}'")
            }
            ValueError::NotMemoryOrPercent => {
                format!("must be a number of bytes such as 512mb or a percentage, got '{got}'")
            }
            ValueError::TooManyPercent => format!("must be at most 100%, got '{got}'"),
            ValueError::NotOneOf(words) => {
                format!("must be one of {}, got '{got}'", words.join(", "))
            }
            ValueError::WordCount => format!("wrong number of words, got '{got}'"),
            ValueError::Said(sentence) => sentence.clone(),
        }
    }
}

impl Kind {
    /// Whether the value is made of several words.
    pub fn is_many_words(&self) -> bool {
        match self {
            Kind::Words(_) => true,
            Kind::Special(special) => special.is_many_words(),
            _ => false,
        }
    }

    /// Reads a value. `base` is the value it changes or adds to, which matters to some composite
    /// ones only.
    pub fn parse(&self, words: &[&str], base: &str) -> Result<Value, ValueError> {
        match self {
            Kind::Words(allowed) => return several(words, allowed),
            Kind::Special(special) => return special::parse(*special, words, base),
            _ => {}
        }
        let &[text] = words else { return Err(ValueError::WordCount) };
        match *self {
            Kind::Flag => flag(text),
            Kind::Integer { min, max } => integer(text, min, max),
            Kind::Clamped { min, max } => {
                let value = integer(text, 0, i32::MAX.into())?;
                Ok(Value::of_number(value.number.clamp(min.into(), max.into())))
            }
            Kind::Octal { max } => octal(text, max),
            Kind::Memory { min, max } => {
                let bytes = memory(text).ok_or(ValueError::NotMemory)?;
                if bytes < min || bytes > max {
                    return Err(ValueError::OutOfRange { min: min.into(), max: max.into() });
                }
                Ok(Value::of_number(bytes.into()))
            }
            Kind::MemoryOrPercent => memory_or_percent(text),
            Kind::Choice(allowed) => {
                let at = allowed.iter().position(|word| word.eq_ignore_ascii_case(text));
                let at = at.ok_or(ValueError::NotOneOf(allowed))?;
                Ok(Value { text: allowed[at].to_owned(), number: at as i128 })
            }
            Kind::Text | Kind::Words(_) | Kind::Special(_) => Ok(Value::of_text(text)),
        }
    }

    /// The values in words, for the documentation.
    pub fn described(&self) -> String {
        match self {
            Kind::Flag => "yes, no".into(),
            Kind::Integer { min, max } | Kind::Clamped { min, max } => match *max {
                i64::MAX => format!("{min} or more"),
                _ => format!("{min} to {max}"),
            },
            Kind::Octal { max } => format!("octal, 0 to {max:o}"),
            Kind::Memory { min: 0, .. } => "bytes".into(),
            Kind::Memory { min, .. } => format!("bytes, at least {min}"),
            Kind::MemoryOrPercent => "bytes or a percentage".into(),
            Kind::Choice(words) => words.join(", "),
            Kind::Words(words) => format!("any of {}", words.join(", ")),
            Kind::Text => "text".into(),
            Kind::Special(special) => special.described().into(),
        }
    }
}

/// A size in bytes with its unit: `100`, `1k` = 1000, `1kb` = 1024, `m mb g gb` alike, any case.
pub fn memory(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A whole number in its one spelling: no plus, no spaces, no leading zeros.
pub(super) fn whole(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

fn flag(text: &str) -> Result<Value, ValueError> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(Value { text: "yes".into(), number: 1 }),
        "no" => Ok(Value { text: "no".into(), number: 0 }),
        _ => Err(ValueError::NotFlag),
    }
}

fn integer(text: &str, min: i64, max: i64) -> Result<Value, ValueError> {
    let (min, max) = (i128::from(min), i128::from(max));
    let number = i128::from(whole(text).ok_or(ValueError::NotInteger { min, max })?);
    if number < min || number > max {
        return Err(ValueError::OutOfRange { min, max });
    }
    Ok(Value::of_number(number))
}

fn octal(text: &str, max: u32) -> Result<Value, ValueError> {
    let number = i64::from_str_radix(text, 8).map_err(|_| ValueError::NotOctal { max })?;
    if number < 0 || number > i64::from(max) {
        return Err(ValueError::OctalOutOfRange { max });
    }
    Ok(Value { text: format!("{number:o}"), number: number.into() })
}

fn memory_or_percent(text: &str) -> Result<Value, ValueError> {
    if let Some(bytes) = memory(text) {
        let max = i64::MAX as u64;
        if bytes > max {
            return Err(ValueError::OutOfRange { min: -100, max: max.into() });
        }
        return Ok(Value::of_number(bytes.into()));
    }
    let percent = text.strip_suffix('%').and_then(whole).filter(|percent| *percent >= 0);
    match percent.ok_or(ValueError::NotMemoryOrPercent)? {
        0 => Ok(Value::of_number(0)),
        percent @ 1..=100 => {
            Ok(Value { text: format!("{percent}%"), number: -i128::from(percent) })
        }
        _ => Err(ValueError::TooManyPercent),
    }
}

fn several(words: &[&str], allowed: &'static [&'static str]) -> Result<Value, ValueError> {
    if words.is_empty() {
        return Err(ValueError::NotOneOf(allowed));
    }
    let mut bits: u32 = 0;
    for word in words {
        let at = allowed.iter().position(|allowed| allowed.eq_ignore_ascii_case(word));
        let at = at.ok_or(ValueError::NotOneOf(allowed))?;
        bits |= (1 << at) >> 1;
    }
    let named = |at: usize| bits & ((1 << at) >> 1) != 0;
    let text = match bits {
        0 => allowed[0].to_owned(),
        _ => {
            let named: Vec<&str> =
                (1..allowed.len()).filter(|at| named(*at)).map(|at| allowed[at]).collect();
            named.join(" ")
        }
    };
    Ok(Value { text, number: bits.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, text: &str, want: Result<(&str, i128), &str>) {
        let got = kind.parse(&[text], "");
        match want {
            Ok((text, number)) => assert_eq!(got, Ok(Value { text: text.into(), number })),
            Err(sentence) => assert_eq!(got.unwrap_err().for_client(), sentence),
        }
    }

    #[test]
    fn flags_in_any_case() {
        check(Kind::Flag, "YES", Ok(("yes", 1)));
        check(Kind::Flag, "no", Ok(("no", 0)));
        check(Kind::Flag, "1", Err("argument must be 'yes' or 'no'"));
    }

    #[test]
    fn integers_have_one_spelling_and_a_range() {
        let kind = Kind::Integer { min: -5, max: 10 };
        check(kind, "-5", Ok(("-5", -5)));
        for text in ["", "+1", "01", " 1", "1 ", "-0", "1.0", "9223372036854775808"] {
            check(kind, text, Err("argument couldn't be parsed into an integer"));
        }
        check(kind, "11", Err("argument must be between -5 and 10 inclusive"));
    }

    #[test]
    fn sizes_with_units() {
        let kind = Kind::Memory { min: 0, max: u64::MAX };
        check(kind, "1k", Ok(("1000", 1000)));
        check(kind, "1Kb", Ok(("1024", 1024)));
        check(kind, "2gb", Ok(("2147483648", 2_147_483_648)));
        check(kind, "18446744073709551615", Ok(("18446744073709551615", u64::MAX.into())));
        for text in ["", "-1", "1tb", "kb", "1.5mb", "18446744073709551616", "99999999999gb"] {
            check(kind, text, Err("argument must be a memory value"));
        }
    }

    #[test]
    fn percentages_stop_at_a_hundred() {
        check(Kind::MemoryOrPercent, "5%", Ok(("5%", -5)));
        check(Kind::MemoryOrPercent, "1mb", Ok(("1048576", 1_048_576)));
        let said = "percentage argument must be less or equal to 100";
        check(Kind::MemoryOrPercent, "200%", Err(said));
        let said = "argument must be a memory or percent value";
        check(Kind::MemoryOrPercent, "%", Err(said));
    }

    #[test]
    fn several_words_are_a_set() {
        let kind = Kind::Words(&["default", "save", "nosave", "now"]);
        let parsed = kind.parse(&["now", "NOSAVE", "now"], "").unwrap();
        assert_eq!(parsed, Value { text: "nosave now".into(), number: 6 });
        assert_eq!(kind.parse(&["default"], "").unwrap().text, "default");
        assert!(kind.parse(&[], "").is_err());
    }
}
