//! Inline requests: the words of a line typed by a person, split by Redis's rules.
//!
//! It is not the search for the line's end, which is `scan`'s. Plain lines give ranges like any
//! other request; a line with quotes may need unescaping, so its words are owned.

use super::error::ProtocolError;

/// Whether the line needs [`split_quoted`].
pub(super) fn has_quotes(line: &[u8]) -> bool {
    memchr::memchr2(b'"', b'\'', line).is_some()
}

/// Hands start and end of every word of a line without quotes to `visit`.
pub(super) fn split_plain(line: &[u8], mut visit: impl FnMut(usize, usize)) {
    let mut pos = 0;
    while let Some(skipped) = line[pos..].iter().position(|&byte| !is_space(byte)) {
        let start = pos + skipped;
        let len = line[start..].iter().position(|&byte| ends_word(byte));
        pos = len.map_or(line.len(), |len| start + len);
        visit(start, pos);
    }
}

/// The arguments of an inline request that has quotes (`line` with or without its line end).
///
/// Double quotes know `\n \r \t \b \a \xHH` and take any other escaped byte as it is; single
/// quotes know `\'` only. A quote may open in the middle of a word, as in Redis; what closes it
/// ends the word. Errors: `UnbalancedQuotes`.
pub fn split_quoted(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let Some(start) = rest.iter().position(|&byte| !is_space(byte)) else { return Ok(words) };
        let mut word = Vec::new();
        rest = &rest[start..];
        while let Some((&byte, behind)) = rest.split_first() {
            if ends_word(byte) {
                break;
            }
            rest = behind;
            if byte == b'"' || byte == b'\'' {
                rest = quoted(behind, byte, &mut word)?;
                break;
            }
            word.push(byte);
        }
        words.push(word);
    }
}

/// Appends what stands before the closing `quote` to `word`, unescaped; returns what follows it.
fn quoted<'a>(
    mut rest: &'a [u8],
    quote: u8,
    word: &mut Vec<u8>,
) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, used) = match (quote, rest) {
            (_, [byte, behind @ ..]) if *byte == quote => {
                let closed = behind.first().is_none_or(|&next| is_space(next));
                return if closed { Ok(behind) } else { Err(ProtocolError::UnbalancedQuotes) };
            }
            (b'\'', [b'\\', b'\'', ..]) => (b'\'', 2),
            (b'"', [b'\\', b'x', high, low, ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), 4)
            }
            (b'"', [b'\\', escaped, ..]) => (unescape(*escaped), 2),
            (_, [byte, ..]) => (*byte, 1),
            (_, []) => return Err(ProtocolError::UnbalancedQuotes),
        };
        word.push(byte);
        rest = &rest[used..];
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// C's `isspace`: what may stand between words.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// What ends a word. Vertical tab and form feed do not, as in Redis.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use crate::resp::feed::check;

    #[test]
    fn inline_lines_may_end_in_lf_only() {
        check(b"PING\nPING\n", "[PING][PING]");
        check(b"\r\n\n  \r\n  SET  a\tb \r\n", "[SET|a|b]");
    }

    #[test]
    fn inline_quotes_are_unescaped() {
        check(br#"SET "a b" 'it\'s' "\x41\n\r\t\b\a\q\"\xZZ""#, "");
        check(
            b"SET \"a b\" 'it\\'s' \"\\x4a\\n\\t\\b\\a\\q\\\"\\xZZ\" pre\"fix\" '\\n' \"\"\r\n",
            "[SET|a b|it\\'s|J\\n\\t\\x08\\x07q\\\"xZZ|prefix|\\\\n|]",
        );
    }

    #[test]
    fn unbalanced_quotes_are_an_error() {
        for line in ["a \"b\r\n", "a 'b\r\n", "a \"b\"c\r\n", "a 'b'\"\r\n", "'\\'\r\n", "\"\\\n"] {
            check(line.as_bytes(), "unbalanced quotes in request");
        }
    }
}
