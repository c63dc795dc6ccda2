//! Text of configuration lines: splitting with Redis's quoting rules, quoting, name patterns.
//!
//! Not what the words mean.
//!
//! Invariant: `split(quoted(word))` is that one word.

use std::fmt;

/// Quotes left open, or a closing quote with text right behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unbalanced;

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unbalanced quotes")
    }
}

/// Splits a line into words. Double quotes know `\n \r \t \b \a \xHH` and a backslash before any
/// other byte; single quotes know `\'` only. Bytes that are no UTF-8 (by `\x`) become U+FFFD.
pub fn split(line: &str) -> Result<Vec<String>, Unbalanced> {
    let mut rest = line.as_bytes();
    let mut words = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let mut word = Vec::new();
        while let Some((&byte, after)) = rest.split_first() {
            match byte {
                b'"' | b'\'' => {
                    rest = quotation(byte, after, &mut word)?;
                    break;
                }
                _ if byte.is_ascii_whitespace() => break,
                _ => word.push(byte),
            }
            rest = after;
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
}

/// Reads up to the closing quote, which must end the word; what follows it is returned.
fn quotation<'a>(
    quote: u8,
    mut rest: &'a [u8],
    word: &mut Vec<u8>,
) -> Result<&'a [u8], Unbalanced> {
    loop {
        match *rest {
            [] => return Err(Unbalanced),
            [byte, ref after @ ..] if byte == quote => {
                return match after.first().is_none_or(u8::is_ascii_whitespace) {
                    true => Ok(after),
                    false => Err(Unbalanced),
                };
            }
            [b'\\', b'\'', ref after @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = after;
            }
            [b'\\', b'x', high, low, ref after @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(high) * 16 + hex(low));
                rest = after;
            }
            [b'\\', byte, ref after @ ..] if quote == b'"' => {
                word.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                rest = after;
            }
            [byte, ref after @ ..] => {
                word.push(byte);
                rest = after;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// The word in double quotes, so that [`split`] gives it back.
pub fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if letter.is_ascii_control() => {
                text.push_str(&format!("\\x{:02x}", u32::from(letter)));
            }
            _ => text.push(letter),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, want: &[&str]) {
        assert_eq!(
            split(line).as_deref(),
            Ok(&want.iter().map(|w| w.to_string()).collect::<Vec<_>>()[..])
        );
    }

    #[test]
    fn words_and_quotes() {
        check("", &[]);
        check("  a  bc\t", &["a", "bc"]);
        check("save \"\"", &["save", ""]);
        check("a \"b c\" 'd e'", &["a", "b c", "d e"]);
        check(r#"x "\x41\n\"\q""#, &["x", "A\n\"q"]);
        check(r"x 'it\'s \n'", &["x", r"it's \n"]);
        check("a\"b\"", &["ab"]);
        for open in ["\"", "'a", "\"a\"b", "a 'b'c", "\"\\"] {
            assert_eq!(split(open), Err(Unbalanced), "{open}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_read_back(word in ".*") {
            prop_assert_eq!(split(&quoted(&word)), Ok(vec![word]));
        }

        #[test]
        fn any_line_is_split_or_refused(line in ".*") {
            let _ = split(&line);
        }
    }
}
