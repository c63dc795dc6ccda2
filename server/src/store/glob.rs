//! Glob patterns of KEYS, SCAN MATCH, PSUBSCRIBE and CONFIG GET, with Redis's meaning.
//!
//! `*` any bytes, `?` one byte, `[a-z]` and `[^a]` one byte of a class, `\` the next byte itself.
//! An unclosed class ends with the pattern; a lone `\` at the end stands for itself; a range may
//! be written backwards. Unlike Redis 7.0, `*` also matches the empty text.
//!
//! Invariant: no recursion, no allocation. Every element but `*` takes exactly one byte, so only
//! the last `*` seen is ever tried longer: at most text length times pattern length steps, and a
//! pattern and a text of keys' usual size take microseconds whatever they contain.

/// Whether the whole of `text` matches `pattern`; ASCII letters match in either case if `nocase`
/// (but not escaped ones inside a class: so does Redis).
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    matches_in_steps(pattern, text, nocase).0
}

/// The answer and the number of pattern bytes looked at, which stands for the time it took.
fn matches_in_steps(pattern: &[u8], text: &[u8], nocase: bool) -> (bool, usize) {
    let (mut at, mut pos, mut steps) = (0, 0, 0);
    // Behind the last star: where the pattern goes on, and the text's first byte not tried yet.
    let mut retry: Option<(usize, usize)> = None;
    while pos < text.len() {
        if pattern.get(at) == Some(&b'*') {
            let stars = pattern[at..].iter().take_while(|&&byte| byte == b'*').count();
            steps += stars;
            at += stars;
            if at == pattern.len() {
                return (true, steps);
            }
            retry = Some((at, pos));
        }
        let (fits, next) = element(pattern, at, text[pos], nocase);
        steps += next - at + 1;
        if fits {
            (at, pos) = (next, pos + 1);
        } else if let Some((behind_star, from)) = retry {
            // The star takes one byte more. Earlier stars need not: they took the fewest bytes
            // that let the pattern come this far.
            (at, pos) = (behind_star, from + 1);
            retry = Some((behind_star, from + 1));
        } else {
            return (false, steps);
        }
    }
    (pattern[at..].iter().all(|&byte| byte == b'*'), steps)
}

/// Whether the element at `at` (anything but `*`) fits the byte, and where the next one begins.
/// Nothing fits the end of the pattern.
fn element(pattern: &[u8], at: usize, byte: u8, nocase: bool) -> (bool, usize) {
    match pattern[at..] {
        [] => (false, at),
        [b'?', ..] => (true, at + 1),
        [b'[', ..] => class(pattern, at + 1, byte, nocase),
        [b'\\', escaped, ..] => (same(escaped, byte, nocase), at + 2),
        [plain, ..] => (same(plain, byte, nocase), at + 1),
    }
}

/// A class whose first byte behind the `[` is at `at`.
fn class(pattern: &[u8], mut at: usize, byte: u8, nocase: bool) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => return (found != negated, at),
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [b']', ..] => return (found != negated, at + 1),
            [first, b'-', last, ..] => {
                found |= in_range(first, last, byte, nocase);
                at += 3;
            }
            [plain, ..] => {
                found |= same(plain, byte, nocase);
                at += 1;
            }
        }
    }
}

fn in_range(first: u8, last: u8, byte: u8, nocase: bool) -> bool {
    let fold = |byte: u8| if nocase { byte.to_ascii_lowercase() } else { byte };
    // Put in order before folding, as Redis does: [Z-a] without case is z to a, nothing.
    let (low, high) = (first.min(last), first.max(last));
    (fold(low)..=fold(high)).contains(&fold(byte))
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || nocase && a.eq_ignore_ascii_case(&b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, fits: &[&str], fails: &[&str]) {
        for text in fits {
            assert!(matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} {text}");
        }
        for text in fails {
            assert!(!matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} not {text}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        check("*", &["", "a", "abc"], &[]);
        check("**", &["", "a"], &[]);
        check("", &[""], &["a"]);
        check("a*", &["a", "ab"], &["", "ba"]);
        check("*a", &["a", "ba", "aaa"], &["", "ab"]);
        check("a*b*c", &["abc", "aXbYc", "abcbc"], &["acb", "ab", "abcx"]);
        check("h?llo", &["hello", "hallo"], &["hllo", "heello"]);
        check("?*", &["a", "ab"], &[""]);
        check("*?", &["a", "ab"], &[""]);
        check("*ab*ab", &["abab", "xabxab", "ababab"], &["ab", "aba"]);
    }

    #[test]
    fn classes() {
        check("h[ae]llo", &["hello", "hallo"], &["hillo", "hllo"]);
        check("h[^e]llo", &["hallo", "h^llo"], &["hello"]);
        check("h[a-b]llo", &["hallo", "hbllo"], &["hcllo", "h-llo"]);
        check("h[b-a]llo", &["hallo", "hbllo"], &["hcllo"]);
        check("[\\]]", &["]"], &["\\", "a"]);
        check("[]", &[], &["", "]", "a"]);
        check("[^]", &["a", "]"], &["", "ab"]);
        check("[a\\-z]", &["a", "-", "z"], &["b", "\\"]);
        check("[a-]", &["]", "^", "_", "a"], &["-", "b"]);
        check("[*?]x", &["*x", "?x"], &["ax"]);
    }

    #[test]
    fn unclosed_classes_end_with_the_pattern() {
        check("[", &[], &["", "[", "a"]);
        check("[^", &["a"], &["", "ab"]);
        check("[ab", &["a", "b"], &["c", "[", "ab"]);
        check("[a-", &["a", "-"], &["b"]);
        check("x[\\", &["x\\"], &["x", "xa"]);
        check("*[ab", &["xxa", "b"], &["xxc"]);
    }

    #[test]
    fn escapes() {
        check("h\\?llo", &["h?llo"], &["hello", "h\\?llo"]);
        check("\\*", &["*"], &["a", ""]);
        check("\\a", &["a"], &["\\a"]);
        check("a\\", &["a\\"], &["a", "aa"]);
        check("\\", &["\\"], &["", "a"]);
        check("*\\", &["\\", "a\\"], &["a"]);
    }

    #[test]
    fn case_is_ignored_on_request() {
        for (pattern, text) in [("HeLLo", "hEllO"), ("[A-Z]x", "qX"), ("[abc]", "B"), ("\\A", "a")]
        {
            assert!(matches(pattern.as_bytes(), text.as_bytes(), true), "{pattern} {text}");
            assert!(!matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} {text}");
        }
        assert!(!matches(b"[\\A]", b"a", true));
    }

    /// 50 ms are some 50 million steps of a nanosecond; a tenth leaves room for slow machines.
    const STEPS_IN_5_MS: usize = 5_000_000;

    #[test]
    fn hostile_patterns_stay_cheap() {
        let key = [b'a'; 60];
        for (pattern, fits) in [
            ("*a".repeat(15) + "*b", false),
            ("*".repeat(100_000) + "b", false),
            ("a*".repeat(20) + "b", false),
            (format!("[{}]*", "a".repeat(50_000)), true),
            (format!("*[{}]b", "a".repeat(50_000)), false),
            (format!("*{}*b", "?".repeat(30)), false),
            ("a\\".to_string(), false),
            (format!("*{}", "[a".repeat(10_000)), true),
        ] {
            let (found, steps) = matches_in_steps(pattern.as_bytes(), &key, false);
            let shown = &pattern[..pattern.len().min(40)];
            assert_eq!(found, fits, "{shown}");
            assert!(steps < STEPS_IN_5_MS, "{shown}: {steps} steps");
        }
    }

    /// The meaning, stated by recursion: slow, and right by inspection.
    fn oracle(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| oracle(rest, &text[skip..])),
            (_, []) => pattern.is_empty(),
            (_, [byte, behind @ ..]) => {
                let (fits, next) = element(pattern, 0, *byte, false);
                fits && oracle(&pattern[next..], behind)
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn agrees_with_the_recursive_meaning(
            pattern in r"[ab*?\[\]\\^-]{0,8}", text in "[ab]{0,9}",
        ) {
            let expected = oracle(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), expected);
        }

        #[test]
        fn no_pattern_panics(pattern: Vec<u8>, text: Vec<u8>, nocase: bool) {
            let (_, steps) = matches_in_steps(&pattern, &text, nocase);
            prop_assert!(steps <= (pattern.len() + 2) * (text.len() + 1));
        }
    }
}
